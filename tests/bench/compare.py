#!/usr/bin/env python3
"""Training steps of this build beside a peer's, in turn on the same machine, as a Markdown table.

  tests/bench/compare.py --peer COMMAND [--precision bf16] [--rounds 5] [--only small-1024] [--record FILE]
  tests/bench/compare.py --peer 'python3 tests/bench/peer_bert.py' --only bert-base,minilm
  tests/bench/compare.py --beside-f32 --precision bf16 [--only small,text]
  tests/bench/compare.py --beside-softmax [--precision bf16] [--record FILE]
  tests/bench/compare.py --processes [--rounds 5] [--record FILE]
  tests/bench/compare.py --growth [--build build]

The peer is a command to which the name of a workload, `--dtype` and `--seconds S` are added; it prints a JSON line with
`step_ms`, `peak_mb` and `torch`, its version. Each round times one and then the other; the table shows the median over rounds of
each and of the ratio within a round, beside the bar that this project set itself against the newest PyTorch. "of the peak" are
the operations of the step's matrix products, without what backward computes again, as a share of those that the processor
could do at most in the same time, measured after each run. --record keeps the table with where it came from, as
docs/results/make.py reads it. --beside-f32 takes this build's own f32 for the peer, and the memory
of tensors alone. --beside-softmax times kernel attention beside softmax, both of this build, with 4,000 tokens in Skyformer's model and
in that of KL's Text. --processes times `lra --bench` as one process of two threads and, by
mpirun, as two of one, whose gradients are summed in the exact tree or in any order. --growth times the project alone at lengths 1k ... 64k, batch 1, and
fits the exponent of time and memory. All run with 2 threads and without OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE in the
environment.
"""
import argparse, datetime, json, math, os, platform, re, shlex, statistics, subprocess, sys

SMALL = "--layers 2 --dim 64 --heads 2 --hidden 128 --batch 16"
TEXT = "--layers 4 --dim 256 --heads 4 --hidden 1024 --batch 4 --length 4000"
BERT = "--bert --length 128 "
WORKLOADS = {  # name of the peer's workload: attention, options of training_step, least ratio by precision
    "small-1024-sdpa": ("softmax", SMALL + " --length 1024", {"f32": 2.0, "bf16": 1.6}),
    "small-1024-performer-128": ("performer", SMALL + " --length 1024", {"f32": 3.0, "bf16": 1.8}),
    "small-4096-sdpa": ("softmax", SMALL + " --length 4096", {"f32": 2.2, "bf16": 1.6}),
    "small-4096-performer-128": ("performer", SMALL + " --length 4096", {"f32": 4.0, "bf16": 1.8}),
    "text-b4-sdpa": ("softmax", TEXT, {"bf16": 1.5}),
    "text-b4-performer-128": ("performer", TEXT, {"f32": 1.9, "bf16": 1.4}),
    "text-b4-gmm-prf-128": ("gmm-prf", TEXT, {"f32": 1.9, "bf16": 1.4}),
    "mlp": ("none", "--batch 1024", {"f32": 1.5}),
    "bert-base": ("softmax", BERT + "--batch 8 --layers 12 --dim 768 --heads 12 --hidden 3072", {"f32": 1.15}),
    "minilm": ("softmax", BERT + "--batch 32 --layers 6 --dim 384 --heads 12 --hidden 1536", {"f32": 1.4}),
}
for plain, bars in (("bert-base", {"f32": 1.1}), ("minilm", {})):  # the same as they are fine-tuned, and in evaluation
    WORKLOADS[plain + "-dropout"] = ("softmax", WORKLOADS[plain][1] + " --dropout 0.1", {})
    WORKLOADS[plain + "-forward"] = ("softmax", WORKLOADS[plain][1] + " --forward", bars)
BESIDE_F32 = 1.5  # of bf16
BESIDE_SOFTMAX = {"Skyformer's": (SMALL + " --length 4000", 5), "KL's Text": (TEXT, 2.3)}  # options of training_step, least ratio
KERNELS = ("performer", "gmm-prf", "linear-elu")


def output(command, **more):
    environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    return subprocess.run(command, env={**environment, **more}, stdout=subprocess.PIPE, check=True, text=True).stdout


def run(command):
    return json.loads(output(command).splitlines()[-1])


def step(a, attention, options, precision=None):
    return run([f"{a.build}/bin/training_step", "--attention", attention, "--threads", "2", "--seconds", str(a.seconds),
                "--precision", precision or a.precision] + options.split())  # 128 features unless the options say otherwise


def compare(a):
    ours, theirs = (a.precision, "f32") if a.beside_f32 else ("project", "peer")
    megabytes = "tensor_peak_mb" if a.beside_f32 else "peak_mb"
    head = ["workload", f"{ours}, ms", f"{theirs}, ms", "faster", "at least", "slowest round", f"{ours}, MB", f"{theirs}, MB", "memory",
            "of the peak"]
    rows = []
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for name, (attention, options, bars) in WORKLOADS.items():
        if a.only and not any(part in name for part in a.only.split(",")):
            continue
        pairs = []
        for _ in range(a.rounds):
            ours = step(a, attention, options)
            peer = (step(a, attention, options, "f32") if a.beside_f32 else
                    run(shlex.split(a.peer) + [name, "--dtype", a.precision, "--seconds", str(a.seconds)]))
            pairs.append((ours, peer))
        middle = lambda values: statistics.median(list(values))
        ours, peer = ([middle(pair[i][key] for pair in pairs) for key in ("step_ms", megabytes)] for i in (0, 1))
        ratios = [p["step_ms"] / o["step_ms"] for o, p in pairs]
        bar = BESIDE_F32 if a.beside_f32 else bars.get(a.precision, "")
        rows.append([name, f"{ours[0]:.1f}", f"{peer[0]:.1f}", f"{middle(ratios):.2f}", str(bar),
                     f"{min(ratios):.2f}", f"{ours[1]:.0f}", f"{peer[1]:.0f}", f"{ours[1] / peer[1]:.2f}",
                     f"{middle(o['gflops'] / o['peak_gflops'] for o, _ in pairs):.2f}"])
        print(f"| {' | '.join(rows[-1])} |", flush=True)
    if a.record:
        keep(a, head, rows, "its own f32" if a.beside_f32 else f"PyTorch {pairs[-1][1]['torch']}", a.seconds)


def keep(a, head, rows, peer, seconds):
    text = lambda *command: subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    processor = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith(("model name", "flags"))]
    useful = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in processor[1].split()]
    with open(a.record, "w") as file:
        json.dump({"git": text("git", "describe", "--always", "--dirty").strip(), "build": {"compiler": text("g++", "--version").splitlines()[0]},
                   "seed": 1, "date": f"{datetime.date.today()}", "precision": a.precision, "load": os.getloadavg(),
                   "machine": f"{os.cpu_count()} cores of an {processor[0]} ({', '.join(useful)}), {platform.system()}",
                   "peer": peer, "rounds": a.rounds, "seconds": seconds,
                   "tables": [{"title": "steps", "head": head, "rows": rows}]}, file, indent=1)
        file.write("\n")


def show(a, head, rows, peer, seconds):
    for row in [head, ["---"] * len(head), *rows]:
        print(f"| {' | '.join(row)} |")
    if a.record:
        keep(a, head, rows, peer, seconds)


def beside_softmax(a):
    head = ["model", "attention", "step, ms", "softmax, ms", "steps for one of softmax", "at least", "slowest round"]
    rows = []
    for model, (options, bar) in BESIDE_SOFTMAX.items():
        rounds = [{name: step(a, name, options)["step_ms"] for name in ("softmax", *KERNELS)} for _ in range(a.rounds)]
        middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        for name in KERNELS:
            ratios = [one["softmax"] / one[name] for one in rounds]
            rows.append([model, name, f"{middle[name]:.1f}", f"{middle['softmax']:.1f}", f"{statistics.median(ratios):.2f}", str(bar), f"{min(ratios):.2f}"])
    show(a, head, rows, "softmax", a.seconds)


def processes(a):
    lra = f"{a.build}/bin/lra --preset=skyformer --attention=performer --batch=32 --shards=8 --random-data --bench".split()
    two = "mpirun --oversubscribe --bind-to none -n 2".split()
    ways = {"1 process of 2 threads": lra + ["--threads=2"], "2 processes of 1 thread": two + lra + ["--threads=1"],
            "the same, --reduce=fast": two + lra + ["--threads=1", "--reduce=fast"]}
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    rounds = [{way: float(re.search(r"a training step: ([0-9.]+) ms", output(command, **as_root))[1])
               for way, command in ways.items()} for _ in range(a.rounds)]
    head = ["way", "step, ms", "its speed beside the first", "slowest round"]
    rows = []
    for way in ways:
        speeds = [one["1 process of 2 threads"] / one[way] for one in rounds]
        rows.append([way, f"{statistics.median(one[way] for one in rounds):.1f}", f"{statistics.median(speeds):.2f}", f"{min(speeds):.2f}"])
    show(a, head, rows, "one process", None)


def slope(xs, ys):
    """of the straight line through (log x, log y)"""
    xs, ys = [math.log(x) for x in xs], [math.log(y) for y in ys]
    x, y = statistics.mean(xs), statistics.mean(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys)) / sum((a - x) ** 2 for a in xs)


def growth(a):
    lengths = [1 << i for i in range(10, 17)]
    print("| attention | " + " | ".join(f"{n // 1024}k" for n in lengths) + " | exponent |\n|---" + "|---" * (len(lengths) + 1) + "|")
    for attention in (*KERNELS, "softmax"):
        rows = [step(a, attention, f"--batch 1 --length {n}") for n in lengths]
        for figure, unit in (("step_ms", "ms"), ("tensor_peak_mb", "MB")):
            values = [r[figure] for r in rows]
            cells = " | ".join(f"{v:.1f}" for v in values)
            print(f"| {attention}, {unit} | {cells} | {slope(lengths, values):.3f} |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peer", help="command that times a workload of the peer")
    p.add_argument("--beside-f32", action="store_true", help="this build in f32 instead of a peer")
    p.add_argument("--beside-softmax", action="store_true", help="kernel attention beside softmax instead")
    p.add_argument("--processes", action="store_true", help="one process beside two instead")
    p.add_argument("--growth", action="store_true", help="time and memory against length instead")
    p.add_argument("--build", default="build")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--precision", default="f32", choices=["f32", "bf16"])
    p.add_argument("--only", help="workloads whose name contains this, or one of A,B,...")
    p.add_argument("--record", help="a JSON file for the table")
    a = p.parse_args()
    others = {"growth": growth, "processes": processes, "beside_softmax": beside_softmax}
    chosen = [way for name, way in others.items() if getattr(a, name)]
    if not (chosen or a.peer or a.beside_f32):
        p.error("give --peer COMMAND, --beside-f32, --beside-softmax, --processes or --growth")
    (chosen or [compare])[0](a)


if __name__ == "__main__":
    main()
