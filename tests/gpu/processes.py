"""Programs in several processes beside the same in one: one JSON object a line.

    python3 tests/gpu/processes.py LRA [--nccl FILE] [--libraries PATH] [--out FILE]

Trains `lra --preset=quick` for 30 steps on a card: in one process, in two by MPI, and in 1, 2, 4 and 8 by NCCL, each on a card
of its own or, where there are fewer, sharing them: that takes NCCL 2.30 or later, without which these runs are left out, and
NVIDIA's MPS, which is started for them where it is installed. All must end with the same bytes of weights
and optimizer; the last run sums by NCCL itself (--reduce=fast), in an order of its own, and need not. Exits with 1 if they do
not. Needs mpirun; --nccl names the file of NCCL where the loader would not find it, --libraries the LD_LIBRARY_PATH of LRA
alone: mpirun has libraries of its own.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from lines import state, write_lines

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("lra", type=pathlib.Path)
parser.add_argument("--nccl")
parser.add_argument("--libraries")
parser.add_argument("--out", type=pathlib.Path)
options = parser.parse_args()

environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "NCCL_MULTI_RANK_GPU_ENABLE": "1"}
environment.setdefault("NCCL_MAX_CTAS", "2")  # so that the kernels of eight processes find room on one card
if options.nccl:
    environment["BOCHNER_NCCL"] = str(pathlib.Path(options.nccl).resolve())
lra = [*(["env", f"LD_LIBRARY_PATH={options.libraries}"] if options.libraries else []), str(options.lra)]
# Processes, what carries between them, and more options.
RUNS = [(1, "none", []), (2, "mpi", []), *((n, "nccl", []) for n in (1, 2, 4, 8)), (2, "nccl", ["--reduce=fast"])]


def cards():
    """How many there are; None where that is not known, as of emulated ones."""
    if not shutil.which("nvidia-smi"):
        return None
    return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout.count("GPU ")


def nccl_version():
    """As (2, 30), or (0, 0) where there is none."""
    text = subprocess.run([*lra, "--version"], capture_output=True, text=True, env=environment, check=False).stdout
    found = re.search(r"^NCCL: *(\d+)\.(\d+)", text, re.M)
    return (int(found[1]), int(found[2])) if found else (0, 0)


@contextlib.contextmanager
def side_by_side():
    """MPS for these runs alone: without it the kernels of processes take turns, while NCCL's wait for one another."""
    control = shutil.which("nvidia-cuda-mps-control")
    with tempfile.TemporaryDirectory() as place:
        of_mps = {**environment, "CUDA_MPS_PIPE_DIRECTORY": place, "CUDA_MPS_LOG_DIRECTORY": place}
        if not control or subprocess.run([control, "-d"], env=of_mps, check=False).returncode:
            yield
            return
        environment.update(of_mps)
        try:
            yield
        finally:
            subprocess.run([control], input="quit\n", text=True, env=of_mps, timeout=30, check=False)


def run(processes, by, more, folder):
    start = [] if by == "none" else ["mpirun", "--oversubscribe", "-n", str(processes)]
    command = [*start, *lra, "--preset=quick", "--attention=performer", "--steps=30", "--shards=8", "--device=cuda",
               "--threads=1", "--process-timeout=40", f"--processes={by}", *more]
    line = {"processes": processes, "by": by, "options": " ".join(more)}
    try:
        done = subprocess.run([*command, f"--out={folder}", "--quiet"], capture_output=True, text=True, timeout=60, env=environment)
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
    there, version = cards(), nccl_version()
    for i, (processes, by, more) in enumerate(RUNS):
        if by == "nccl" and there is not None and processes > there and version < (2, 30):
            yield {"processes": processes, "by": by, "options": " ".join(more),
                   "left out": "processes share a card by NCCL 2.30 or later; here it is {}.{}".format(*version)}
            continue
        line = run(processes, by, more, pathlib.Path(place) / str(i))
        alone = alone or line
        if "sha256" in line:
            line["same bytes"] = line["sha256"] == alone.get("sha256")
            if not line["same bytes"] and not more:
                line["failed"] = "the bytes differ from those of one process"
        yield line


with tempfile.TemporaryDirectory() as folder, side_by_side():
    code = write_lines(compared(folder), options.out)
sys.exit(code)
