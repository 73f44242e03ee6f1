"""Programs in several processes beside the same in one: one JSON object a line.

    python3 tests/gpu/processes.py LRA [--nccl FILE] [--out FILE]

Trains `lra --preset=quick` for 30 steps on a card: in one process, in two by MPI, and in 1, 2, 4 and 8 by NCCL, each on a card
of its own or, where there are fewer, sharing them, which takes NCCL 2.30 or later. All must end with the same bytes of weights
and optimizer; the last run sums by NCCL itself (--reduce=fast), in an order of its own, and need not. Exits with 1 if they do
not. Needs mpirun; --nccl names the file of NCCL where the loader would not find it.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from lines import state, write_lines

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("lra", type=pathlib.Path)
parser.add_argument("--nccl")
parser.add_argument("--out", type=pathlib.Path)
options = parser.parse_args()

environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "NCCL_MULTI_RANK_GPU_ENABLE": "1"}
if options.nccl:
    environment["BOCHNER_NCCL"] = str(pathlib.Path(options.nccl).resolve())
# Processes, what carries between them, and more options.
RUNS = [(1, "none", []), (2, "mpi", []), *((n, "nccl", []) for n in (1, 2, 4, 8)), (2, "nccl", ["--reduce=fast"])]


def run(processes, by, more, folder):
    start = [] if by == "none" else ["mpirun", "--oversubscribe", "-n", str(processes)]
    command = [*start, str(options.lra), "--preset=quick", "--attention=performer", "--steps=30", "--shards=8", "--device=cuda",
               "--threads=1", "--process-timeout=100", f"--processes={by}", *more]
    line = {"processes": processes, "by": by, "options": " ".join(more)}
    try:
        done = subprocess.run([*command, f"--out={folder}", "--quiet"], capture_output=True, text=True, timeout=150, env=environment)
        if done.returncode:
            errors = [text for text in done.stderr.splitlines() if text.startswith("error: ")] or done.stderr.splitlines()[-1:]
            return {**line, "failed": f"exit code {done.returncode}: {' '.join(errors)}"[:300]}
        record = json.loads((folder / "results.json").read_text())
        sent = record["processes"]["bytes_sent_in_a_step"]
        return {**line, "sha256": state(folder), "loss": record["metrics"]["valid"]["loss"], "bytes sent in a step": sent,
                "seconds": record["train_seconds"]}
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        return {**line, "failed": str(error)[:300]}


def compared(place):
    """The lines of all runs; the first is of one process alone."""
    alone = None
    for i, (processes, by, more) in enumerate(RUNS):
        line = run(processes, by, more, pathlib.Path(place) / str(i))
        alone = alone or line
        if "sha256" in line:
            line["same bytes"] = line["sha256"] == alone.get("sha256")
            if not line["same bytes"] and not more:
                line["failed"] = "the bytes differ from those of one process"
        yield line


with tempfile.TemporaryDirectory() as folder:
    code = write_lines(compared(folder), options.out)
sys.exit(code)
