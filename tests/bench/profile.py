#!/usr/bin/env python3
"""Where the time of a training step goes, by kind of work, from samples of Linux's perf.

  tests/bench/profile.py [--build build] [--only small,text] [--record FILE]

Each workload of compare.py, in f32 and bf16, runs with 2 threads under `perf record`, and the functions that it was seen in are
counted by kind: `products` are the inner loops of matrix products; `packing` copies, transposes and rounds their factors;
`features` are exponentials and other functions of attention and its feature maps; `blocks` what linear and feed-forward blocks do
between their products (bias, activation, dropout, sums of rows); `norms`; `elementwise` everything else of tensors; `waiting`
threads without work; `system` the kernel of the operating system, with pages that are cleared.
"""
import argparse
import os
import re
import subprocess
import tempfile
from types import SimpleNamespace

import compare

KINDS = {  # the first that matches a function's name
    "products": r"::strip<|::block<|tile_product|product_of|sums_of<float, 16>|::product<|gemm",
    "packing": r"pack_|copy_transposed|copy_rows|load_transposed|store_transposed|::transpose|gather_rows|PackedWeights",
    "norms": r"moments|normalise|detail::backward|layer_norm",
    "features": r"FeatureTile|attend|OutputGradient|score_gradients|exponentials|SoftmaxAttention|KernelAttention|KeyList|column_",
    "blocks": r"LinearSizes|FeedForward|BackwardPass|::Forward<|Slopes|add_rows|bias_activation|finish_row",
    "waiting": r"Team::|parallel::run|pthread|sched_yield",
    "system": r"^\[k\]",
}


def shares(command):
    """The share of samples by kind, in percent."""
    environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "samples")
        subprocess.run(["perf", "record", "-q", "-F", "997", "-o", path, *command], check=True, env=environment, stdout=subprocess.DEVNULL)
        report = subprocess.run(["perf", "report", "-i", path, "--stdio", "-w", "1000", "--percent-limit", "0"], check=True, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    total = dict.fromkeys([*KINDS, "elementwise"], 0.0)
    for line in report.splitlines():
        found = re.match(r"\s*([0-9.]+)%\s+\S+\s+\S+\s+(\[.\])\s+(.*?)\s*$", line)
        if found is None:
            continue
        name = f"{found[2]} {found[3]}" if found[2] == "[k]" else found[3]
        total[next((kind for kind, pattern in KINDS.items() if re.search(pattern, name)), "elementwise")] += float(found[1])
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="small,text,mlp")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--record")
    a = parser.parse_args()
    kinds = [*KINDS, "elementwise"]
    head = ["workload", "in", *kinds]
    rows = []
    for name, (attention, options, bars) in compare.WORKLOADS.items():
        if not any(part in name for part in a.only.split(",")):
            continue
        for precision in ("f32", "bf16"):
            if name == "mlp" and precision == "bf16":
                continue
            of = shares([f"{a.build}/bin/training_step", "--attention", attention, "--threads", "2", "--seconds", str(a.seconds),
                         "--precision", precision, *options.split()])
            rows.append([name, precision, *(f"{of[kind]:.1f}" for kind in kinds)])
    keep = SimpleNamespace(record=a.record, precision="f32 and bf16", rounds=1)
    compare.show(keep, head, rows, "none", a.seconds)


if __name__ == "__main__":
    main()
