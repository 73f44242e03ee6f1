"""Programs on the card beside the same runs on the CPU: one JSON object a line.

    python3 tests/gpu/programs.py BIN [--data FOLDER] [--out FILE]

Each case trains for a few steps in f32 on either device, from the same weights, batches and random numbers. The losses of
both are compared; they may differ by a thousandth unless ALLOWED says more, as sums are rounded differently. Two runs on the
card, and one of them without recorded steps, must end with the same bytes of weights. Exits with 1 if any of this fails.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from lines import state, write_lines

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("bin", type=pathlib.Path)
parser.add_argument("--data", default="data", help="with uci, mnist, glue and wikitext-2; cases of missing data are named and left out")
parser.add_argument("--out", type=pathlib.Path)
options = parser.parse_args()
data = pathlib.Path(options.data).resolve()

# RKS features are cosines, so weights have either sign and their sums may be near 0, which magnifies rounding: after these 30
# steps the losses of two CPUs, of different vector lengths, differ by 0.0036, and so do those of a CPU and a card.
ALLOWED = {"listops, gmm-rks": 1e-2}
# Name, command, and the folder of data that it reads.
CASES = [
    *((f"listops, {kind}", f"lra --preset=quick --attention={kind} --steps=30", None)
      for kind in ("softmax", "performer", "gmm-rks", "gmm-prf", "fastfood-prf", "generative-prf", "skyformer", "nystromformer",
                   "linformer", "informer", "reformer", "bigbird", "sinkhorn", "synthesizer")),
    ("sparsity", "sparsity --preset=quick --steps=30", None),
    ("siren", "siren --preset=quick --steps=20", None),
    ("qpnn", "qpnn --preset=quick --steps=30", None),
    ("uci", "uci --steps=30", "uci"),
    ("mnist", "mnist --steps=30", "mnist"),
    ("vit", "vit --preset=scratch --task=mnist --steps=10", "mnist"),
    ("pretrain, softmax", "pretrain --preset=quick --steps=20", "wikitext-2"),
    ("pretrain, performer", "pretrain --preset=quick --steps=20 --attention=performer", "wikitext-2"),
]


def last_losses(folder):
    found = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        line = json.loads(line)
        if "loss" in line or "psnr" in line:
            found[line["split"]] = line.get("loss", line.get("psnr"))
    return found


def run(command, folder, needs, extra):
    program, *words = command.split()
    words += [f"--out={folder}", "--quiet", *extra]
    if needs == "wikitext-2":
        words += [f"--text={data / needs}", f"--cache={folder}-tokens"]
    elif needs:
        words.append(f"--data={data / needs if needs == 'uci' else data}")
    done = subprocess.run([str(options.bin / program), *words], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "OMP_NUM_THREADS": "2"})
    if done.returncode:
        text = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise RuntimeError(f"{extra[0]}: exit code {done.returncode}: {text[-1] if text else ''}"[:300])
    record = json.loads((folder / "results.json").read_text())
    return last_losses(folder), state(folder), record["train_seconds"]


def compare(case):
    name, command, needs = case
    if needs and not (data / needs).exists():
        return {"case": name, "left out": f"there is no {needs} in the folder of data"}
    with tempfile.TemporaryDirectory() as place:
        runs = {}
        try:
            for key, extra in (("cpu", ["--device=cpu"]), ("card", ["--device=cuda"]), ("again", ["--device=cuda"]),
                               ("unrecorded", ["--device=cuda", "--graphs=false"])):
                runs[key] = run(command, pathlib.Path(place) / key, needs, extra)
        except (RuntimeError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            return {"case": name, "failed": str(error)}
    cpu, card = runs["cpu"][0], runs["card"][0]
    difference = max(abs(cpu[split] - card[split]) / max(abs(cpu[split]), 1e-3) for split in cpu)
    line = {"case": name, "cpu": cpu, "card": card, "difference": difference, "same bytes": runs["card"][1] == runs["again"][1],
            "same bytes unrecorded": runs["card"][1] == runs["unrecorded"][1], "cpu seconds": runs["cpu"][2],
            "card seconds": runs["card"][2]}
    if not difference < ALLOWED.get(name, 1e-3) or not line["same bytes"] or not line["same bytes unrecorded"]:
        line["failed"] = "the results differ"
    return line


with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
    code = write_lines(pool.map(compare, CASES), options.out)
sys.exit(code)
