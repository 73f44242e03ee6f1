#!/usr/bin/env python3
"""Training steps of this build beside a peer's, in turn on the same machine, as a Markdown table.

  tests/bench/compare.py --peer 'tuned.sh python3 peer_torch.py' [--rounds 3] [--only small-1024] [--build build]
  tests/bench/compare.py --growth [--build build]

The peer is a command to which the name of a workload and `--seconds S` are added; it prints a JSON line with `step_ms`
and `peak_mb`. Each round times one and then the other; the table shows the median over rounds of each and of the ratio
within a round. --growth times the project alone at lengths 1k ... 64k, batch 1, and fits the exponent of time and memory.
Both run with 2 threads and without OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE in the environment.
"""
import argparse, json, math, os, shlex, statistics, subprocess, sys

SMALL = "--layers 2 --dim 64 --heads 2 --hidden 128 --batch 16"
TEXT = "--layers 4 --dim 256 --heads 4 --hidden 1024 --batch 4 --length 4000"
MLP = "--batch 1024"
WORKLOADS = {  # name of the peer's workload: attention, options of training_step, least ratio, largest share of memory
    "small-1024-softmax": ("softmax", SMALL + " --length 1024", 1.8, None),
    "small-1024-performer-128": ("performer", SMALL + " --length 1024", 2.2, 1 / 4),
    "small-1024-gmm-prf-128": ("gmm-prf", SMALL + " --length 1024", 2.2, 1 / 4),
    "small-4096-softmax": ("softmax", SMALL + " --length 4096", 1.8, 1 / 10),
    "small-4096-performer-128": ("performer", SMALL + " --length 4096", 2.5, 1 / 4),
    "text-b4-softmax": ("softmax", TEXT, 1.3, 1 / 3),
    "text-b4-performer-128": ("performer", TEXT, 1.3, 1 / 3),
    "text-b4-gmm-prf-128": ("gmm-prf", TEXT, 1.3, 1 / 3),
    "mlp": ("none", "--batch 1024", 1.4, None),
    "text-b4-performer-256": ("performer", TEXT + " --features 256", 1.4, None),
    "text-b4-gmm-prf-256": ("gmm-prf", TEXT + " --features 256", 1.4, None),
}


def run(command):
    environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def step(build, attention, options, seconds):
    return run([f"{build}/bin/training_step", "--attention", attention, "--threads", "2", "--seconds", str(seconds)]
               + options.split())  # 128 features unless the options say otherwise


def compare(a):
    print("| workload | project, ms | peer, ms | faster | at least | project, MB | peer, MB | memory | at most | allocations |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, (attention, options, ratio, share) in WORKLOADS.items():
        if a.only and a.only not in name:
            continue
        pairs = []
        for _ in range(a.rounds):
            ours = step(a.build, attention, options, a.seconds)
            pairs.append((ours, run(shlex.split(a.peer) + [name, "--seconds", str(a.seconds)])))
        middle = lambda values: statistics.median(list(values))
        ours_ms, peer_ms = middle(o["step_ms"] for o, _ in pairs), middle(p["step_ms"] for _, p in pairs)
        ours_mb, peer_mb = middle(o["peak_mb"] for o, _ in pairs), middle(p["peak_mb"] for _, p in pairs)
        faster = middle(p["step_ms"] / o["step_ms"] for o, p in pairs)
        allocations = max(o["system_allocations"] for o, _ in pairs)
        limit = f"{share:.2f}" if share else ""
        print(f"| {name} | {ours_ms:.1f} | {peer_ms:.1f} | {faster:.2f} | {ratio} | {ours_mb:.0f} | {peer_mb:.0f} | "
              f"{ours_mb / peer_mb:.3f} | {limit} | {allocations} |", flush=True)


def slope(xs, ys):
    """of the straight line through (log x, log y)"""
    xs, ys = [math.log(x) for x in xs], [math.log(y) for y in ys]
    x, y = statistics.mean(xs), statistics.mean(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys)) / sum((a - x) ** 2 for a in xs)


def growth(a):
    lengths = [1 << i for i in range(10, 17)]
    print("| attention | " + " | ".join(f"{n // 1024}k" for n in lengths) + " | exponent |\n|---" + "|---" * (len(lengths) + 1) + "|")
    for attention in ("performer", "gmm-prf", "linear-elu", "softmax"):
        rows = [step(a.build, attention, f"--batch 1 --length {n}", a.seconds) for n in lengths]
        for figure, unit in (("step_ms", "ms"), ("tensor_peak_mb", "MB")):
            values = [r[figure] for r in rows]
            cells = " | ".join(f"{v:.1f}" for v in values)
            print(f"| {attention}, {unit} | {cells} | {slope(lengths, values):.3f} |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peer", help="command that times a workload of the peer")
    p.add_argument("--growth", action="store_true", help="time and memory against length instead")
    p.add_argument("--build", default="build")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--only", help="workloads whose name contains this")
    a = p.parse_args()
    if not a.growth and not a.peer:
        p.error("give --peer COMMAND or --growth")
    growth(a) if a.growth else compare(a)


if __name__ == "__main__":
    main()
