#!/usr/bin/env python3
"""Training steps of this build beside those of peers, in turn on the same machine, as Markdown tables.

  tests/bench/compare.py --all --peer newest=PYTHON --peer debian=/usr/bin/python3 [--records FOLDER]
  tests/bench/compare.py --peer newest=PYTHON [--precision bf16] [--only small-1024,text] [--rounds 5]
  tests/bench/compare.py --peer NAME='COMMAND ...'
  tests/bench/compare.py --beside-f32 --only small,text
  tests/bench/compare.py --beside-softmax --arena --processes --sent --ring --million --growth --kernels --snnk --generator

Each option chooses tables, --all all of them; --precision and --only, a part of them. A peer has a name and a command, to which
the name of a workload, `--dtype` and `--seconds S` are added; it prints a JSON line with `step_ms`, `peak_mb`, `torch`, its version,
and, if it can, `parameters`, how many numbers it trains: a peer that trains more or fewer than this build is refused. A Python
alone, a word such as build/peer/bin/python, stands for peer_torch.py run by it. Where a peer does not know PyTorch 2's fused
attention (`-sdpa`), composed attention (`-softmax`) is asked for. What cannot be run is left out, and the table says why below
itself. --records keeps each table as FOLDER/NAME.json with where it came from and what was left out, as docs/results/make.py reads it.

--peer and --beside-f32: each round times one and then the other; the table shows the median over rounds of each and of the ratio
within a round, beside the bar that this project set itself against the newest PyTorch. "of the peak" are the operations of the
step's matrix products, without what backward computes again, as a share of those that the processor could do at most in the same
time, measured after each run. --beside-f32 takes this build's own f32 for the peer of its bf16, and the memory of tensors alone.
--beside-softmax times kernel attention beside softmax, both of this build, with 4,000 tokens in Skyformer's model and in that of
KL's Text. --arena times the arena's model of Text with nine mechanisms and 1,000 to 4,000 bytes, as PERF Fig. 19 has them, by
`lra --bench`, which also says how much memory its tensors take. --processes times `lra --bench` as one process of two threads,
which takes the batch whole or in the shards of several processes, and, by mpirun, as two of one, whose gradients are summed in
the exact tree or in any order. --sent counts the bytes that several processes send in a step, in one round, and --ring those of
sequences in slices, with softmax and performer, and compares what each number of processes ends with. --million trains on a
sequence of 1,048,576 tokens, once, in two processes and in one, which takes 5 GiB of memory, and compares what they end with.
--growth times the project alone at lengths 1k ... 64k, batch 1, in one round, and fits the exponent of time and memory.
--kernels and --snnk make tables of what build/bin/kernels and build/bin/snnk print; the latter reads a table of random numbers,
written as HIGGS's are. --generator times `data make pathfinder`. All but that run with 2 threads and without OPENBLAS_CORETYPE
and OPENBLAS_L2_SIZE in the environment.
"""
import argparse, hashlib, json, math, os, random, re, shlex, statistics, sys, tempfile, time

from measured import Table, Unable, output, run

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
ARENA = ("softmax", "local", "linformer", "reformer", "sinkhorn", "synthesizer", "bigbird", "linear-elu", "performer")  # PERF Fig. 19
PRECISIONS = ("f32", "bf16")


def step(a, attention, options, precision):
    return run([f"{a.build}/bin/training_step", "--attention", attention, "--threads", "2", "--seconds", str(a.seconds),
                "--precision", precision] + options.split(), "parameters")  # 128 features unless the options say otherwise


def peer_command(text):
    """The words of a peer's command."""
    words = shlex.split(text)
    if len(words) == 1 and os.path.basename(words[0]).startswith("python"):
        words.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "peer_torch.py"))
    return words


def composed(name):
    """The workload with composed attention in the place of PyTorch 2's fused one."""
    return name.replace("-sdpa", "-softmax")


def first_able(a, peer, name, precision):
    """The first name under which the peer runs the workload, its command, and what it said."""
    failed = []
    for called in dict.fromkeys((name, composed(name))):
        command = [*peer, called, "--dtype", precision, "--seconds", str(a.seconds)]
        try:
            return called, command, run(command, "torch")
        except Unable as error:
            failed.append(str(error) if called == name else f"{called}: {error}")
    raise Unable("; ".join(failed))


def workload(a, table, name, of_peer):
    """A row of ours beside a peer's, or without a command of one beside our own f32."""
    attention, options, bars = WORKLOADS[name]
    megabytes = "peak_mb" if of_peer else "tensor_peak_mb"
    pairs, command = [], None
    for _ in range(a.rounds):
        ours = step(a, attention, options, table.precision)
        if not of_peer:
            peer = step(a, attention, options, "f32")
        elif command:
            peer = run(command)
        else:
            name, command, peer = first_able(a, of_peer, name, table.precision)
            table.peer = f"PyTorch {peer['torch']}"
        if peer.get("parameters", ours["parameters"]) != ours["parameters"]:
            raise Unable(f"the peer trains {peer['parameters']:,} numbers and this build {ours['parameters']:,}, which is other work")
        pairs.append((ours, peer))
    middle = lambda values: statistics.median(list(values))
    ours, peer = ([middle(pair[i][key] for pair in pairs) for key in ("step_ms", megabytes)] for i in (0, 1))
    ratios = [p["step_ms"] / o["step_ms"] for o, p in pairs]
    bar = bars.get(table.precision, "")
    return [name, f"{ours[0]:.1f}", f"{peer[0]:.1f}", f"{middle(ratios):.2f}", str(bar if of_peer or not bar else BESIDE_F32),
            f"{min(ratios):.2f}", f"{ours[1]:.0f}", f"{peer[1]:.0f}", f"{ours[1] / peer[1]:.2f}",
            f"{middle(o['gflops'] / o['peak_gflops'] for o, _ in pairs):.2f}"]


def chosen(a, name):
    return not a.only or any(part in name for part in a.only.split(","))


def compare(a, precision, peer):
    """peer: its name; None for our own f32"""
    ours, theirs = ("project", "peer") if peer else (precision, "f32")
    head = ["workload", f"{ours}, ms", f"{theirs}, ms", "faster", "at least", "slowest round", f"{ours}, MB", f"{theirs}, MB", "memory",
            "of the peak"]
    with Table(a, f"{peer or 'own'}-{precision}", head, precision, None if peer else "its own f32") as table:
        for name in WORKLOADS:
            if not chosen(a, name):
                continue
            try:
                table.add(workload(a, table, name, a.peers.get(peer)))
            except Unable as error:
                table.left_out[name] = str(error)
    return table


def beside_softmax(a, precision):
    head = ["model", "attention", "step, ms", "softmax, ms", "steps for one of softmax", "at least", "slowest round"]
    with Table(a, f"beside-softmax-{precision}", head, precision, "softmax") as table:
        for model, (options, bar) in BESIDE_SOFTMAX.items():
            rounds = [{name: step(a, name, options, precision)["step_ms"] for name in ("softmax", *KERNELS)} for _ in range(a.rounds)]
            middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
            for name in KERNELS:
                ratios = [one["softmax"] / one[name] for one in rounds]
                table.add([model, name, f"{middle[name]:.1f}", f"{middle['softmax']:.1f}", f"{statistics.median(ratios):.2f}", str(bar),
                           f"{min(ratios):.2f}"])
    return table


def number_of(bench, pattern):
    """A number that `lra --bench` printed."""
    found = re.search(pattern, bench)
    if not found:
        raise Unable(f"lra --bench: it prints no '{pattern}'")
    return float(found[1])


def milliseconds(bench):
    return number_of(bench, r"a training step: ([0-9.]+) ms")


def arena(a):
    lengths = (1000, 2000, 3000, 4000)
    lra = f"{a.build}/bin/lra --preset=lra --task=text --batch=2 --random-data --bench --threads=2".split()
    with Table(a, "arena-f32", ["attention", *(f"{n // 1000}K" for n in lengths)], "f32", "softmax") as table:
        table.seconds = None
        for name in ARENA:
            kind = [f"--attention={name}"] + ["--model.as=released"] * (name != "softmax")  # as the arena's code has it
            said = [[output(lra + kind + [f"--text.max-length={n}"]) for _ in range(a.rounds)] for n in lengths]
            for unit, value in (("steps a second", lambda bench: 1000 / milliseconds(bench)),
                                ("MiB", lambda bench: number_of(bench, r"peak memory ([0-9.]+) MiB"))):
                table.add([f"{name}, {unit}", *(f"{statistics.median(map(value, rounds)):.2f}" for rounds in said)])
    return table


def mpirun(count):
    return f"mpirun --oversubscribe --bind-to none -n {count}".split() if count > 1 else []


AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def processes(a):
    lra = f"{a.build}/bin/lra --preset=skyformer --attention=performer --batch=32 --random-data --bench".split()
    alone, fast, two = "1 process of 2 threads", "the same, --reduce=fast", mpirun(2) + lra + ["--shards=8", "--threads=1"]
    ways = {alone: lra + ["--threads=2"], "the same, --shards=8": lra + ["--shards=8", "--threads=2"],
            "2 processes of 1 thread": two, fast: two + ["--reduce=fast"]}
    head = ["way", "step, ms", "its speed beside the first", "slowest round", "beside --reduce=fast", "slowest round beside it"]
    with Table(a, "processes-f32", head, "f32", "one process") as table:
        table.seconds = None
        rounds = [{way: milliseconds(output(command, **AS_ROOT)) for way, command in ways.items()} for _ in range(a.rounds)]
        for way in ways:
            speeds = [[one[other] / one[way] for one in rounds] for other in (alone, fast)]
            table.add([way, f"{statistics.median(one[way] for one in rounds):.1f}",
                       *(f"{value(of):.3f}" for of in speeds for value in (statistics.median, min))])
    return table


def trained(a, count, options):
    """The results.json of a training on random data in so many processes, and the SHA-256 of its weights and optimizer."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "run")
        output(mpirun(count) + [f"{a.build}/bin/lra", "--random-data", "--steps=2", "--threads=1", f"--out={out}"] + options.split(), **AS_ROOT)
        with open(os.path.join(out, "results.json")) as file:
            results = json.load(file)
        with open(os.path.join(out, "checkpoint-last"), "rb") as file:  # behind a header with its own length, tensors alone
            file.seek(int.from_bytes(file.read(8), "little"), os.SEEK_CUR)
            return results, hashlib.file_digest(file, "sha256").hexdigest()


def sent(a):
    with Table(a, "sent", ["processes", "the gradient, bytes", "sent in a step by the one that sends most", "times the gradient"],
               "f32", "none") as table:
        table.rounds, table.seconds = 1, None
        for count in (2, 3, 4, 6, 8):
            results, _ = trained(a, count, "--preset=skyformer --attention=performer --listops.max-length=200 --batch=8 --shards=8")
            gradient, most = 4 * results["parameters"], results["processes"]["bytes_sent_in_a_step"]
            table.add([str(count), f"{gradient:,}", f"{most:,}", f"{most / gradient:.2f}"])
    return table


def ring(a):
    slices = "--listops.max-length={} --batch=1 --model.positions=sinusoidal --sequence-shards={} "
    softmax, performer = "--attention=softmax ", "--attention=performer --model.features=64 "
    causal, bf16 = "--model.causal=true ", "--precision=bf16 "
    with Table(a, "ring", ["attention", "tokens", "slices", "processes", "sent in a step, bytes", "SHA-256 of weights and optimizer"],
               "f32", "none") as table:
        table.rounds, table.seconds = 1, None
        for name, tokens, options in (("softmax", 4096, softmax), ("softmax", 16384, softmax), ("softmax, causal", 4096, softmax + causal),
                                      ("softmax, bf16", 4096, softmax + bf16), ("performer", 4096, performer),
                                      ("performer", 16384, performer), ("performer, causal", 4096, performer + causal)):
            results, digest = trained(a, 2, options + slices.format(tokens, 2))
            table.add([name, f"{tokens:,}", "2", "2", f"{results['processes']['bytes_sent_in_a_step']:,}", digest])
        for count in (1, 2, 3, 6):
            results, digest = trained(a, count, softmax + slices.format(3000, 6))
            table.add(["softmax", "3,000", "6", str(count), f"{results['processes']['bytes_sent_in_a_step']:,}", digest])
    return table


def million(a):
    options = ("--listops.max-length=1048576 --batch=1 --attention=performer --model.features=64 --model.causal=true "
               "--model.positions=sinusoidal --sequence-shards=2")
    with Table(a, "million", ["processes", "step, s", "held by each, GiB", "sent in a step, bytes", "SHA-256 of weights and optimizer"],
               "f32", "none") as table:
        table.rounds, table.seconds = 1, None
        for count in (2, 1):
            results, digest = trained(a, count, options)
            table.add([str(count), f"{results['train_seconds'] / results['steps']:.1f}", f"{results['peak_memory_bytes'] / 2**30:.1f}",
                       f"{results['processes']['bytes_sent_in_a_step']:,}", digest])
    return table


def slope(xs, ys):
    """of the straight line through (log x, log y)"""
    xs, ys = [math.log(x) for x in xs], [math.log(y) for y in ys]
    x, y = statistics.mean(xs), statistics.mean(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys)) / sum((a - x) ** 2 for a in xs)


def growth(a):
    lengths = [1 << i for i in range(10, 17)]
    with Table(a, "growth-f32", ["attention", *(f"{n // 1024}k" for n in lengths), "exponent"], "f32", "none") as table:
        table.rounds = 1
        for attention in (*KERNELS, "softmax"):
            rows = [step(a, attention, f"--batch 1 --length {n}", "f32") for n in lengths]
            for figure, unit in (("step_ms", "ms"), ("tensor_peak_mb", "MB")):
                values = [r[figure] for r in rows]
                table.add([f"{attention}, {unit}", *(f"{v:.1f}" for v in values), f"{slope(lengths, values):.3f}"])
    return table


def printed(command, line):
    """What a program prints in lines of this form, as one tuple of texts for each."""
    found = re.findall(line, output(command), re.MULTILINE)
    if not found:
        raise Unable(f"{os.path.basename(command[0])}: it prints no line like {line!r}")
    return found


def kernels(a):
    line = r"^(\S.*?) +([\d.]+) ms \(median +[\d.]+\) +([\d.]+) (\S+) +([\d.]+) % of (\d+)$"
    with Table(a, "kernels", ["kernel", "ms", "rate", "limit", "share, %", "least share", "largest share"], "f32", "none") as table:
        rounds = [printed([f"{a.build}/bin/kernels", "--threads", "2", "--seconds", str(a.seconds)], line) for _ in range(a.rounds)]
        for same in zip(*rounds):
            name, unit = same[0][0], same[0][3]
            ms, rate, share, limit = (statistics.median(float(one[i]) for one in same) for i in (1, 2, 4, 5))
            shares = [float(one[4]) for one in same]
            table.add([name, f"{ms:.2f}", f"{rate:.0f} {unit}", f"{limit:.0f} {unit}", f"{share:.0f}", f"{min(shares):.0f}", f"{max(shares):.0f}"])
    return table


def snnk(a):
    line = r"^(\S.*?) +([\d.]+) ms least +[\d.]+ median +([\d.]+) times as fast"
    with Table(a, "snnk", ["what", "ms", "times as fast as the first"], "f32", "none") as table, tempfile.TemporaryDirectory() as folder:
        table.seconds = None
        draw = random.Random(1)
        with open(os.path.join(folder, "table.csv"), "w") as file:  # 50,000 rows of 28 numbers as HIGGS writes them, and a class
            for _ in range(50000):
                file.write(",".join(f"{x:.18e}" for x in (*(draw.gauss(0, 1) for _ in range(28)), draw.randrange(2))) + "\n")
        megabytes = os.path.getsize(file.name) / 1e6
        rounds = [printed([f"{a.build}/bin/snnk", "--file", file.name, "30"], line) for _ in range(a.rounds)]
        for same in zip(*rounds):
            name = same[0][0] + (f", {megabytes:.0f} MB" if same[0][0].startswith("table") else "")
            ms, faster = (statistics.median(float(one[i]) for one in same) for i in (1, 2))
            table.add([name, f"{ms:.3g}", f"{faster:.2f}"])
    return table


def generator(a):
    with Table(a, "generator", ["size", "images", "seconds of one core", "images a second"], "f32", "none") as table:
        table.seconds = None
        for size, count in ((32, 5000), (64, 500), (128, 1000)):
            with tempfile.TemporaryDirectory() as folder:
                make = f"{a.build}/bin/data make pathfinder --threads=1 --size={size} --count={count}".split()
                took = []
                for i in range(a.rounds):
                    begin = time.monotonic()
                    output(make + [f"--data={folder}/{i}"])
                    took.append(time.monotonic() - begin)
            table.add([f"{size} x {size}", f"{count:,}", f"{statistics.median(took):.2f}", f"{count / statistics.median(took):,.0f}"])
    return table


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--all", action="store_true", help="every table")
    p.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND",
                   help="a command that times a workload of the peer NAME, or the Python of its PyTorch")
    p.add_argument("--beside-f32", action="store_true", help="bf16 beside f32, both of this build")
    p.add_argument("--beside-softmax", action="store_true", help="kernel attention beside softmax")
    p.add_argument("--arena", action="store_true", help="nine mechanisms in the arena's model of Text")
    p.add_argument("--processes", action="store_true", help="one process beside two")
    p.add_argument("--sent", action="store_true", help="bytes that several processes send in a step")
    p.add_argument("--ring", action="store_true", help="bytes that slices of sequences send in a step")
    p.add_argument("--million", action="store_true", help="a sequence of a million tokens, in two processes and in one")
    p.add_argument("--growth", action="store_true", help="time and memory against length")
    p.add_argument("--kernels", action="store_true", help="single kernels beside the processor's limits")
    p.add_argument("--snnk", action="store_true", help="SNNK layers beside linear ones, and reading a table")
    p.add_argument("--generator", action="store_true", help="drawing hard images of Pathfinder, files included")
    p.add_argument("--build", default="build")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--precision", choices=PRECISIONS, help="of the tables of peers and of softmax; otherwise both")
    p.add_argument("--only", help="workloads of peers and f32 whose name contains this, or one of A,B,...")
    p.add_argument("--records", help="a folder for the tables as JSON files")
    a = p.parse_args()
    if not any(chosen(a, name) for name in WORKLOADS):
        p.error(f"--only {a.only}: matches none of {', '.join(WORKLOADS)}")
    a.peers = {}
    for peer in a.peer:
        name, _, command = peer.partition("=")
        if not command or not re.fullmatch(r"[\w.-]+", name) or name in a.peers:
            p.error(f"--peer {peer}: write NAME=COMMAND, each NAME once; tables and records are called NAME-f32 and NAME-bf16")
        a.peers[name] = peer_command(command)
    precisions = [a.precision] if a.precision else PRECISIONS
    tables = [(compare, precision, name) for name in a.peers for precision in precisions]
    if a.all or a.beside_f32:
        tables.append((compare, "bf16", None))
    if a.all or a.beside_softmax:
        tables += [(beside_softmax, precision) for precision in precisions]
    tables += [(make,) for make in (arena, processes, sent, ring, million, growth, kernels, snnk, generator) if a.all or getattr(a, make.__name__)]
    if not tables or a.all and not a.peers:
        p.error("give --peer NAME=COMMAND, or another option that chooses a table (--help lists them); --all needs a peer")
    measured = [make(a, *arguments).rows for make, *arguments in tables]
    return 0 if any(measured) else "nothing was measured"


if __name__ == "__main__":
    sys.exit(main())
