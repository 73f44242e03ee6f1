#!/usr/bin/env python3
"""Where the time of a training step goes, by kind of work, from samples of Linux's perf.

  tests/bench/step_profile.py [--build build] [--only small,text] [--seconds 4] [--records FOLDER]

Each workload of compare.py that --only names, in f32 and bf16, runs with 2 threads under `perf record` (Debian's linux-perf), and the functions that
were running are counted by kind: `products` are the inner loops of matrix products; `packing` copies, transposes and rounds their
factors; `features` are the maps of kernel attention and what softmax attention does between its products; `blocks` what linear and
feed-forward blocks do between theirs (bias, activation, dropout, sums of rows); `norms`; `elementwise` everything else of tensors;
`waiting` threads without work; `system` the operating system, such as clearing new memory. --records keeps the table as profile.json.
"""
import argparse, os, re, tempfile

import compare, measured

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
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "samples")
        measured.output(["perf", "record", "-q", "-F", "997", "-o", path, *command])
        report = measured.output(["perf", "report", "-i", path, "--stdio", "-w", "1000", "--percent-limit", "0"])
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
    parser.add_argument("--records")
    a = parser.parse_args()
    a.rounds = 1
    kinds = [*KINDS, "elementwise"]
    with measured.Table(a, "profile", ["workload", "in", *kinds], "f32 and bf16", "none") as table:
        for name, (attention, options, _) in compare.WORKLOADS.items():
            if not any(part in name for part in a.only.split(",")):
                continue
            for precision in ("f32", "bf16"):
                of = shares([f"{a.build}/bin/training_step", "--attention", attention, "--threads", "2", "--seconds", str(a.seconds),
                             "--precision", precision, *options.split()])
                table.add([name, precision, *(f"{of[kind]:.1f}" for kind in kinds)])


if __name__ == "__main__":
    main()
