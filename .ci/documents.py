#!/usr/bin/env python3
"""Runs every command that a document prints, as a reader would: from the root of the sources, through ./run.

    .ci/documents.py            all of them; exit code 1 if one fails, or cannot be run
    .ci/documents.py --list     what would be run, and where it stands
    .ci/documents.py TEXT       only commands of documents whose path holds TEXT

Documents are all *.md that git knows, and what ./run itself prints. A command is an indented line, or words within backquotes,
that begins with ./run, with a program of this repository, or with one of TOOLS. It is run in a mirror of the tree, a folder of
links, so that data/ and runs/ are those of the mirror. SHORTER says how one that is long is cut short, STANDS_FOR what a
reader would put in the place of a word in capitals. What matches neither is run as it is printed, and killed after LIMIT.
"""
import argparse
import concurrent.futures
import gzip
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
LIMIT = 180
TOOLS = {"cmake", "ctest", "ninja", "git", "pkg-config", "python3", "pip", "apt", "apt-get", "sudo", "nvcc", "mpirun"}

# Words of commands, and what they stand for in the mirror.
STANDS_FOR = {
    "DIR": "data",
    "FILE": "table.csv",
    "FILE.csv": "table.csv",
    "TABLE": "table.csv",
    "PICTURE.png": "picture.png",
    "RUN": "runs/small",
    "RUN-OF-LINEAR": "runs/linear",
    "A,B,...": "softmax,performer",
    "PATTERN": "Documents",
    "data/uci/covtype.first20000.data.gz": "covtype.data.gz",
}

# (the whole command, how it is cut short): options are added, or put in the place of those that are there. `=> COMMAND` is
# run instead. `?TEXT` must be in what is printed.
LRA = "--steps=1 --seeds=1 --listops.train-examples=40 --listops.valid-examples=8 --listops.test-examples=8"
TOGETHER = "=> OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 2 build/bin/lra "
SLICES = TOGETHER + "--random-data --listops.max-length=1000 --batch=1 --steps=1 --sequence-shards=2 "
TOY = 'python3 -c "import json; print(json.dumps(dict(step_ms=9, peak_mb=9, torch=7.5)))"'  # a peer of compare.py
SHORTER = [
    (r"\./run test.*", "-N ?Total Tests: [1-9]"),
    (r"\./run demo", LRA + " ?What to try next"),
    (r"\./run build.*", "=> ./run attention --list"),  # by now all is built
    (r"\./run NAME --bench \.\.\.", "=> ./run lra --preset=quick --bench " + LRA),
    (r"\./run --no-install \.\.\.", "=> ./run --no-install attention --show softmax"),
    (r"\./run --cuda .*\.\.\.", "=> ./run --cuda --help ?--cuda"),  # nvcc takes minutes; check_kernels is a stage
    (r"\./run --mpi build", "=> ./run --mpi --help ?--mpi"),  # in the mirror, another option of CMake builds all again
    (r"mpirun .*--processes=nccl .*", "=> ./run lra --version ?NCCL:     "),  # it needs cards
    (r"mpirun .*--attention=softmax .*", SLICES + "--attention=softmax --out=runs/ring ?runs/ring/report.html"),
    (r"mpirun .*--model\.causal=true .*", SLICES + "--attention=performer --model.causal=true --out=runs/million ?runs/million/report.html"),
    (r"mpirun .*--sequence-shards=2 .*", TOGETHER + "--task=listops --sequence-shards=2 --out=runs/slices " + LRA + " ?runs/slices/report.html"),
    (r"mpirun .*\./run lra .*", TOGETHER.replace("build/bin/lra", "./run lra") + "--task=listops --batch=32 --out=runs/door " + LRA
     + " ?runs/door/report.html"),
    (r"mpirun .*build/bin/lra .*", TOGETHER + "--task=listops --batch=32 --out=runs/two " + LRA + " ?runs/two/report.html"),
    (r"\./run( NAME( \[options\])?)?", "=> ./run lra --version"),
    (r"\./run NAME --help", "=> ./run lra --help ?Usage"),
    (r"\./run data check\|make.*", "=> ./run data"),
    (r"\./run data check( --data data)?", "=> mkdir -p empty && ./run data check --data=empty"),  # in data/ small files stand for real ones
    (r"\./run data make fashion-mnist.*", "?Fashion-MNIST is in"),
    (r"\./run data make.*", "--help"),
    (r"\./run tokenize --train.*", "=> ./run tokenize --train=README.md --to=vocab.txt --size=300 ?vocab.txt: 300 tokens"),
    (r"\./run tokenize .*--print=tokens.*",
     "=> printf 'Hello [MASK]' | ./run tokenize --vocab=tests/golden/wordpiece/vocab.txt --print=tokens ?hello \\[MASK\\] \\[SEP"),
    (r"\./run tokenize --(pretrained|vocab).*", "=> printf 'a\\t[MASK]' | ./run tokenize --pretrained=tests/golden/wordpiece ?2 5 3 4 3"),
    (r"\./run bert .*--adapter.*", "=> ./run bert --help ?--adapter TEXT"),
    (r"\./run bert .*--to=.*", "=> ./run bert --pretrained=model --to=exported ?exported"),
    (r"\./run bert (.*)--pretrained=FOLDER --io=FILE.safetensors.*", "=> ./run bert --pretrained=model --io=ids.safetensors ?ids-bert"),
    (r"\./run attention --show NAME", "=> ./run attention --show softmax"),
    (r"\./run lra( --preset[= ](kl|skyformer|lra|budget|rotary|selfpretrained).*)?", "--dump-config"),
    (r"\./run lra --(table|analyse) .*", "=> ./run lra --help ?--analyse"),
    (r"\./run lra --record=.*", "--record=steps.safetensors " + LRA),
    (r"\./run lra --task=(path|text|image|films).*", "--dump-config"),  # the data are not here, or are thousands of images
    (r"\./run lra .*--(help|version)", ""),
    (r"\./run lra .*", LRA),
    (r"\./run glue --predict=.*", "=> ./run glue --help ?--predict TEXT"),  # a pretrained model and GLUE are not here
    (r"\./run glue .*", "--dump-config"),
    (r"\./run vit .*", "--dump-config"),  # its images, and a pretrained model, are not here
    (r"\./run (convert|pretrain) .*--pretrained=.*", "--dump-config"),
    (r"\./run pretrain .*", "--text=README.md --valid-text=docs/README.md --test-text=docs/library.md --steps=1 --batch=2 --max-length=16 "
                            "--vocabulary-size=300 --model.layers=1 --model.dim=16 --model.hidden=16 --optim.warmup=0"),
    (r"\./run export .*", "=> ./run glue --help ?--export TEXT"),
    (r"\./run sparsity --preset=kl .*", "--dump-config"),
    (r"\./run sparsity .*", "--steps=1 --seeds=1 --batch=8 --pairs.train-examples=40 --pairs.valid-examples=8 "
                            "--pairs.test-examples=8 --gradients.examples=2"),
    (r"\./run uci .*--task=higgs.*", "--dump-config"),
    (r"\./run uci .*--sweep.*", "--data=table.csv --label=class --steps=1 --seeds=1 --batch=32 --sweep.hidden=16 "
                                "--sweep.features=8"),
    (r"\./run uci .*--out=runs/(small|linear)", "--data=table.csv --label=class --steps=1 --seeds=1 --batch=32"),
    (r"\./run uci --preset=covertype .*", "--dump-config"),
    (r"\./run uci .*--label=54.*", "--steps=1 --batch=32"),
    (r"\./run uci .*", "--data=table.csv --label=class --steps=1 --seeds=1 --batch=32"),
    (r"\./run bundle .*", "--rounds=1"),
    (r"\./run mnist .*--sweep.*", "--steps=1 --seeds=1 --data=data --sweep.features=8"),
    (r"\./run mnist .*", "--steps=1 --seeds=1 --data=data"),
    (r"\./run siren .*--data=picture.png.*", "--steps=1 --seeds=1"),
    (r"\./run siren .*", "--steps=1 --seeds=1 --size=16"),
    (r"\./run qpnn .*", "--steps=1 --seeds=1 --points=64 --batch=16"),
    (r"\./run kernel-estimation .*--task=depth.*", "--dump-config"),
    (r"\./run kernel-estimation .*", "--dim=8 --projections=1,2"),
    (r"\./run efficiency .*", "--lengths=16 --repeats=1 --limit-seconds=5 --budget-seconds=10"),
    (r"\./run approximation .*--task regions.*", ""),
    (r"\./run approximation .*--pretrained.*", "--dump-config"),
    (r"\./run approximation .*--task spectral.*", "--lengths=32 --repeats=1 --dim=8 --features=8"),
    (r"\./run approximation .*--task layers.*", "--length=32 --repeats=1 --features=16 --layers=1"),
    (r"\./run approximation .*", "--length=32 --repeats=1 --features=16"),
    (r"cmake -G Ninja -B build-library .*", "?Build files have been written"),
    # The library is built already, in build.
    (r"cmake --build build-library .*", "=> cmake --build build --target library"),
    (r"cmake --install build-library .*", "=> cmake --install build --component library --prefix data ?bochner.pc"),
    (r"build/bin/kernels.*", "=> build/bin/kernels --seconds 0.01 'matmul 64'"),
    (r"build/bin/mechanisms.*", "=> build/bin/mechanisms --help"),
    (r"build/bin/snnk.*", "=> build/bin/snnk --help"),
    # A peer that is not there is left out, and the others go on; the records tell both.
    (r"tests/bench/compare\.py --all .*",
     "=> tests/bench/compare.py --peer none=no-such-program --peer toy='" + TOY + "' --only mlp --rounds 1 --seconds 0.01 --records records "
     "&& grep -h 'mlp.*no-such-program' records/none-*.json && grep -h 'PyTorch 7.5' records/toy-*.json ?(\\s+\"mlp.*program.*){2}(\\s+\"peer.*7.5.*){2}\\s*$"),
    (r"tests/bench/compare\.py.*", "=> tests/bench/compare.py --help"),
    (r"tests/bench/step_profile\.py.*", "--seconds=0.3 --only=small-1024"),
    # The peer's installation is gigabytes, and not here.
    (r"python3 -m venv (build-peer|oracle) .*", "=> python3 -c 'import venv'"),
    (r"sudo apt install .* python3-torch .*", "=> apt-cache --version"),
    # What they import is no package of Debian.
    (r"(?:tests/golden/)?((arena_steps|bert|lora|pretrain|wordpiece)\.py).*",
     "=> python3 -c 'import ast; ast.parse(open(\"tests/golden/\\1\").read())'"),
    (r"tests/cluster/slurm_trial\.sh", "=> bash -n tests/cluster/slurm_trial.sh"),  # it needs Slurm's daemons
    (r"tests/gpu/all\.sh.*", "=> bash -n tests/gpu/all.sh"),  # it needs a card
    (r"tests/gpu/(pack|resources)\.sh.*", r"=> bash -n tests/gpu/\1.sh"),
]

# Run before all others: what commands of several documents read.
PREPARED = [
    ("runs/small", 0, "./run uci --preset=quick --attention=snnk-relu --out=runs/small"),
    ("runs/linear", 0, "./run uci --preset=quick --attention=linear --out=runs/linear"),
]


def documents():
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT,
                           check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return ["run"] + sorted(name for name in names if os.path.exists(os.path.join(ROOT, name)))


def is_command(words):
    """words: those of a line. A variable that is set in front of a command is a part of it."""
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    if not words:
        return False
    program = words[0]
    return (program == "./run" or program in TOOLS and len(words) > 1 or program.startswith("build/bin/")
            or "/" in program and os.access(os.path.join(ROOT, program), os.X_OK)
            and os.path.isfile(os.path.join(ROOT, program)))


def commands_of(document):
    """(line, command) of each; an error for a ./run that is in none of them, since nothing would run it."""
    with open(os.path.join(ROOT, document), encoding="utf-8") as file:
        lines = file.read().split("\n")
    if document == "run":  # of a program, only the text that it prints
        return [(number, re.split(r"\s{2,}", line.strip())[0]) for number, line in enumerate(lines, 1)
                if re.match(r" {2,4}\./run ", line)]
    found = []
    fence = None
    prose = []  # the lines outside of code, which are empty where code stands
    for number, line in enumerate(lines, 1):
        prose.append("")
        if line.lstrip().startswith("```"):
            fence = None if fence is not None else line.strip().strip("`")
        elif fence in ("sh", "bash", "console") or fence is None and line.startswith("    "):
            command = re.split(r"\s{2,}", line.strip().removeprefix("$ "))[0]
            if is_command(command.split()):
                found.append((number, command))
            elif "./run " in line:
                sys.exit(f"{document}:{number}: ./run does not begin this line: {line.strip()}")
        elif fence is None:
            prose[-1] = line
    text = "\n".join(prose)
    spans = list(re.finditer(r"`((?:[^`\n]|\n(?!\n))+)`", text))
    for span in spans:
        words = span[1].split()
        # A program that is named alone is a file, not a command.
        if is_command(words) and (len(words) > 1 or words[0] == "./run"):
            found.append((text.count("\n", 0, span.start()) + 1, " ".join(words)))
    for place in re.finditer(r"\./run ", text):
        if not any(span.start() < place.start() < span.end() for span in spans):
            sys.exit(f"{document}:{text.count(chr(10), 0, place.start()) + 1}: a command without backquotes around it")
    return found


def with_options(command, options):
    """The command with each option of `options` put in the place of its own value, or added."""
    for option in options.split():
        name = option.split("=")[0]
        pattern = re.compile(r"(?<=\s)" + re.escape(name) + r"(=|\s+)\S+") if "=" in option else None
        if pattern and pattern.search(command):
            command = pattern.sub(lambda _, option=option: option, command, count=1)
        elif option not in command.split():
            command += " " + option
    if re.search(r"\s--steps\b", command):
        command = re.sub(r"\s--epochs=\S+", "", command)  # which count only without
    return command


matched = set()  # patterns of SHORTER


def shortened(command):
    """What is run in the place of a command, and what it must print."""
    for word, meaning in STANDS_FOR.items():
        command = re.sub(r"(?<![\w.-])" + re.escape(word) + r"(?![\w.-])", meaning, command)
    command = re.sub(r"(--attention[= ])NAME", r"\1softmax", command)
    wanted = None
    for pattern, change in SHORTER:
        match = re.fullmatch(pattern, command)
        if not match:
            continue
        matched.add(pattern)
        if "?" in change:
            change, wanted = change.split("?", 1)
        command = match.expand(change.strip()[3:]) if change.startswith("=> ") else with_options(command, change)
        break
    return command.strip(), wanted


def make_mirror(mirror):
    """Links to all that the root holds, but a copy of ./run, which goes to the folder where it lies; and small data."""
    for name in os.listdir(ROOT):
        if name not in ("run", "runs", "data", ".git") and not (name.startswith("build") and name != "build"):
            os.symlink(os.path.join(ROOT, name), os.path.join(mirror, name))
    shutil.copy(os.path.join(ROOT, "run"), mirror)
    draw = random.Random(1)

    def table(name, header, columns, label):
        text = header + "".join(
            ",".join([f"{draw.gauss(0, 1):.3f}" for _ in range(columns)] + [label(draw)]) + "\n" for _ in range(200))
        opened = gzip.open if name.endswith(".gz") else open
        with opened(os.path.join(mirror, name), "wt", encoding="utf-8") as file:
            file.write(text)

    table("table.csv", "a,b,c,class\n", 3, lambda d: d.choice("xy"))
    table("covtype.data.gz", "", 54, lambda d: d.choice("1234567"))
    with open(os.path.join(mirror, "rules.txt"), "w", encoding="utf-8") as file:
        file.write("carry 1 0 carry L\ncarry 0 1 done L\n")

    def tensors(name, dtype, shapes):
        width = {"F32": 4, "I64": 8}[dtype]
        header, end = {}, 0
        for key, shape in shapes.items():
            begin, end = end, end + width * math.prod(shape)
            header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        text = json.dumps(header).encode()
        with open(os.path.join(mirror, name), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + bytes(end))

    with open(os.path.join(ROOT, "tests/golden/bert.json"), encoding="utf-8") as file:
        model = json.load(file)["BertModel"]
    os.mkdir(os.path.join(mirror, "model"))
    with open(os.path.join(mirror, "model", "config.json"), "w", encoding="utf-8") as file:
        json.dump(model["config"], file)
    tensors("model/model.safetensors", "F32", model["shapes"])
    tensors("ids.safetensors", "I64", {"input_ids": [2, 5]})

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = b"".join(b"\0" + bytes(draw.randrange(256) for _ in range(16)) for _ in range(16))
    with open(os.path.join(mirror, "picture.png"), "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 0, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b""))
    values = [draw.gauss(0, 1) for _ in range(3 * 2 * 8 * 4)]
    header = ",".join(f'"{name}":{{"dtype":"F32","shape":[1,2,8,4],"data_offsets":[{256 * i},{256 * i + 256}]}}'
                      for i, name in enumerate("QKV"))
    text = ("{" + header + "}").encode()
    with open(os.path.join(mirror, "qkv.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + struct.pack(f"<{len(values)}f", *values))

    # Debian's package of images, as apt would fetch it, of 40 + 10 small ones.
    package = os.path.join(mirror, "package")
    os.makedirs(os.path.join(package, "DEBIAN"))
    images = os.path.join(package, "usr/share/dataset-fashion-mnist")
    os.makedirs(images)
    with open(os.path.join(package, "DEBIAN/control"), "w", encoding="utf-8") as file:
        file.write("Package: dataset-fashion-mnist\nVersion: 1\nArchitecture: all\nMaintainer: none\nDescription: none\n")
    for folder in (images, os.path.join(mirror, "data")):
        os.makedirs(folder, exist_ok=True)
        for name, count in (("train", 400), ("t10k", 50)):
            with open(os.path.join(folder, f"{name}-images-idx3-ubyte"), "wb") as file:
                file.write(struct.pack(">IIII", 2051, count, 28, 28) + bytes(draw.randrange(256) for _ in range(784 * count)))
            with open(os.path.join(folder, f"{name}-labels-idx1-ubyte"), "wb") as file:
                file.write(struct.pack(">II", 2049, count) + bytes(i % 10 for i in range(count)))
    subprocess.run(["dpkg-deb", "--build", package, os.path.join(mirror, "fashion.deb")], check=True,
                   stdout=subprocess.DEVNULL)
    tools = os.path.join(mirror, "tools")
    os.mkdir(tools)
    with open(os.path.join(tools, "apt-get"), "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\ncase "$*" in *download*) cp {mirror}/fashion.deb . ;; *) exit 1 ;; esac\n')
    os.chmod(os.path.join(tools, "apt-get"), 0o755)


def run_all(mirror, commands):
    """commands: (document, line, command) of one document, run one after the other. The failures, as text."""
    environment = dict(os.environ, PATH=os.path.join(mirror, "tools") + ":" + os.environ["PATH"], OMP_NUM_THREADS="1")
    failures = []
    for document, line, command in commands:
        short, wanted = shortened(command)
        began = time.monotonic()
        try:
            done = subprocess.run(["bash", "-c", short], cwd=mirror, env=environment, stdin=subprocess.DEVNULL, timeout=LIMIT,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            text, code = done.stdout, done.returncode
        except subprocess.TimeoutExpired:
            text, code = f"killed after {LIMIT} s: give it a shorter form in .ci/documents.py", -1
        if code == 0 and wanted and not re.search(wanted, text):
            text, code = text + f"\nexpected it to print: {wanted}", -1
        if code != 0:
            failures.append(f"{document}:{line}: {command}\n  run as: {short}\n  " + "\n  ".join(text.strip().split("\n")[-8:]))
        if "--times" in sys.argv:
            print(f"{time.monotonic() - began:6.2f} s  {short}", flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser(description="Runs every command that a document prints, as a reader would.")
    parser.add_argument("--list", action="store_true", help="print what would be run, and where it stands")
    parser.add_argument("text", nargs="*", help="only commands of documents whose path holds one of these")
    options = parser.parse_args()
    chosen = options.text
    printed = []  # a list of commands for each document; each command once
    seen = {shortened(command)[0] for _, _, command in PREPARED}
    for document in documents():
        commands = [(document, line, command) for line, command in commands_of(document)
                    if not chosen or any(word in document for word in chosen)]
        if options.list:
            for _, line, command in commands:
                print(f"{document}:{line}: {command}\n    {shortened(command)[0]}")
            continue
        new = [entry for entry in commands if shortened(entry[2])[0] not in seen]
        seen.update(shortened(entry[2])[0] for entry in commands)
        if new:
            printed.append(new)
    left = [pattern for pattern, _ in SHORTER if pattern not in matched]
    if left and not chosen:
        sys.exit(f"documents.py: SHORTER has patterns that no command matches: {', '.join(left)}")
    if options.list:
        return 0
    if not printed:
        sys.exit("documents.py: no command was found")
    with tempfile.TemporaryDirectory(prefix="bochner-documents-") as mirror:
        make_mirror(mirror)
        failures = run_all(mirror, PREPARED)
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            for result in pool.map(lambda commands: run_all(mirror, commands), printed):
                failures.extend(result)
    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"{sum(len(commands) for commands in printed)} commands of {len(printed)} documents: {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
