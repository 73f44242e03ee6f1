#!/usr/bin/env python3
"""Writes every number of docs/results from the records beside the pages.

  docs/results/make.py            writes the pages and pictures
  docs/results/make.py --check    changes nothing; names what differs from the records, and exits with 1

A page holds blocks, and between them no measurement stands (see MEASUREMENT):

  <!-- make
  Softmax took {ratio(ms, 'softmax', 'performer', '16,384'):.0f} times as long.
  -->
  Softmax took 30 times as long.
  <!-- made -->

The comment is the template, a Python f-string; what follows it, up to `made`, is its value. Its names are those of this
file, with those of tables.py, and of the page's block `<!-- names`, which holds assignments.

pictures.py draws. A record is the results.json of a run as it was written, beside it metrics.jsonl where curves are needed, or a table of
tests/bench/compare.py.
"""
import ast
import csv
import functools
import json
import math
import pathlib
import re
import statistics
import sys
import textwrap

import pictures
from tables import Table, Wrong, crossed, joined, ratio  # noqa: F401, as pages use them

HERE = pathlib.Path(__file__).resolve().parent
EXPERIMENTS = HERE.parent.parent / "experiments"
VERDICTS = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold", "not run": "were not run",
            "cannot be run here": "cannot be run here"}  # of one claim: of several
PAPERS = {"Skyformer": "SKY", "Learning the Transformer Kernel": "KL", "Performer": "PERF",
          "Scalable Neural Network Kernels": "SNNK"}


# ---- records


used = set()  # paths of records


@functools.lru_cache(None)
def read(path):
    try:
        return json.loads((HERE / path).read_text())
    except (OSError, ValueError) as error:
        raise Wrong(f"{path}: {error}") from error


def record(path):
    """A record by its path below docs/results."""
    used.add(path)
    return read(path)


def table(path, title=""):
    """The table of a record whose title begins so, else the first."""
    found = [t for t in record(path)["tables"] if t["title"].startswith(title)]
    if not found or (title and len(found) > 1):
        raise Wrong(f"{path}: not one table {title!r}, but {[t['title'] for t in record(path)['tables']]}")
    return Table(found[0]["head"], found[0]["rows"])


def memory(path, column="both MiB", form="{:.1f}"):
    """MiB that a run of efficiency held at once, or another of its columns, by mechanism and length."""
    wide = crossed(table(path), "mechanism", "length", column)
    return Table([""] + [f"{int(n):,}" for n in wide.head[1:]],
                 [[r[0]] + [form.format(float(c)) if c[:1].isdigit() else "not run" for c in r[1:]] for r in wide.rows])


def span(values, form="{:.2g}"):
    """"2 to 5", or "2" where both ends print alike."""
    values = list(values)
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def listed(names):
    """"a, b and c"."""
    names = list(names)
    return "none" if not names else ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


def source(*paths):
    """Where numbers come from: a list, in which records of one commit share an item."""
    items = {}
    for path in paths:
        r = record(path)
        text = f"Commit {r['git']}, {r['build']['compiler']}, seed {r['seed']}:"
        items.setdefault(text, []).append(f"[{path}]({path})")
    return "\n".join(f"- {text} {', '.join(links)}." for text, links in items.items())


# ---- what the papers print


@functools.lru_cache(None)
def printed(experiment):
    """The rows of an experiment's paper.csv; "" means those beside this file, of tables that no experiment makes."""
    with open((EXPERIMENTS / experiment if experiment else HERE) / "paper.csv", newline="") as file:
        return list(csv.DictReader(file))


def paper(experiment, of, task, attention, metric="accuracy", protocol=None):
    """A number as the paper prints it; `of` is how its source begins."""
    found = {r["value"] for r in printed(experiment) if r["source"].startswith(of) and protocol in (None, r["protocol"])
             and (r["task"], r["attention"], r["metric"]) == (task, attention, metric)}
    if len(found) != 1:
        raise Wrong(f"{experiment or 'results'}/paper.csv: {len(found)} values of {(of, task, attention, metric)}")
    return found.pop()


def papers_on(task, attention):
    """The accuracies that papers print for a mechanism of the arena, each with its number of training steps and a note for Table."""
    texts = []
    for r in printed("lra"):
        if (r["task"], r["attention"], r["metric"]) == (task, attention, "accuracy"):
            steps = [s["value"] for s in printed("lra") if (s["protocol"], s["task"], s["metric"]) == (r["protocol"], task, "steps")]
            name, place = r["source"].split(", ", 1)
            texts.append(f"{r['value']} ({PAPERS[name]} {place}" + (f", {int(steps[0]):,} steps)" if steps else ")")
                         + (f"[note: {r['note']}]" if r["note"] else ""))
    return "; ".join(texts) or "none"


def scoreboard():
    """claims.csv as one table for each paper."""
    with open(HERE / "claims.csv", newline="") as file:
        claims = list(csv.DictReader(file))
    parts = []
    for name in dict.fromkeys(claim["paper"] for claim in claims):
        rows = []
        for claim in (c for c in claims if c["paper"] == name):
            where = f"claims.csv, {name} {claim['where']}"
            if claim["verdict"] not in VERDICTS:
                raise Wrong(f"{where}: the verdict {claim['verdict']!r} is none of {list(VERDICTS)}")
            why = f": {filled_in(claim['why'], where)}" if claim["why"] else ""
            command = f"`{claim['command']}`" if claim["command"] else ""
            ours = filled_in(claim["ours"], where)
            rows.append([claim["where"], claim["claim"], filled_in(claim["printed"], where), ours,
                         f"**{claim['verdict']}**{why}", command])
        parts.append(f"## {name}\n\n" + str(Table(["where", "claim", "paper", "here", "verdict", "command"], rows)))
    counts = ", ".join(f"{sum(c['verdict'] == v for c in claims)} {several}" for v, several in VERDICTS.items())
    return f"{len(claims)} claims, figures and tables: {counts}.\n\n" + "\n\n".join(parts)


# ---- runs that train


@functools.lru_cache(None)
def metrics_of(folder):
    """What a run logged, in order, even if it was not ended and has no results.json."""
    return [json.loads(line) for line in (HERE / folder / "metrics.jsonl").read_text().splitlines()]


def run(folder, split="valid"):
    """A run's results.json, and what it logged on validation examples, or on its batches ("train"), in order."""
    return record(f"{folder}/results.json"), [line for line in metrics_of(folder) if line["split"] == split]


def percent(share):
    return f"{100 * share:.2f} %"


def accuracies(folder, task, names):
    """Test accuracies of runs beside the papers'."""
    rows = []
    runs = {name: run(f"{folder}/{name}")[0] for name in names}
    for name, r in runs.items():
        rows.append([name, f"{r['steps']:,}", percent(r["metrics"]["test"]["accuracy"]),
                     percent(r["metrics"]["last"]["test"]["accuracy"]), papers_on(task, name), f"{r['steps_per_second']:.2f}",
                     f"{r['peak_memory_bytes'] / 2**20:.0f}", str(r["threads"])])
    by_test = all(r["metrics"]["valid"] == r["metrics"]["test"] for r in runs.values())  # as SKY's and KL's code validate on Text
    best = "test, its best measurement" if by_test else "test, best by validation"
    return Table(["attention", "steps", best, "test, last step", "papers", "steps/s", "peak MiB", "threads"], rows)


def first_steps(folders, marks):
    """The step of the evaluation at which validation first reached each mark, and the test accuracy."""
    rows = []
    for name, folder in folders.items():
        r, curve = run(folder)
        steps = [next((str(line["step"]) for line in curve if 100 * line["accuracy"] >= mark), "never") for mark in marks]
        rows.append([name, *steps, percent(r["metrics"]["test"]["accuracy"])])
    return Table(["attention, share that counts"] + [f"{mark} %" for mark in marks] + ["test, best by validation"], rows)


def sweep(path, columns):
    """The sweep.csv of uci or mnist; beside it stands the results.json of one of its runs, which says who measured."""
    with open(HERE / path, newline="") as file:
        lines = list(csv.DictReader(file))
    record(path.replace(".csv", ".json"))
    kinds = {"parameters": lambda r: f"{int(r['parameters']):,}", "test cross-entropy": lambda r: f"{float(r['test_loss']):.4f}",
             "test accuracy": lambda r: percent(float(r["test_accuracy"])), "operations a row": lambda r: f"{int(r['flops']):,}",
             "bytes": lambda r: f"{int(r['bytes']):,}", "bundled": lambda r: f"{int(r['bytes_bundled']):,}" if r["bytes_bundled"] else ""}

    def name(r):
        return f"{r['layer']}, d_param {r['hidden']}" + (f", {r['features']} features" if r["features"] != "0" else "")
    return Table(["second layer", *columns], [[name(r), *(kinds[c](r) for c in columns)] for r in lines])


# Mechanisms that were trained on a task for the same time.
EQUAL = ["softmax", "performer", "gmm-prf", "fastfood-prf", "skyformer", "nystromformer", "linear-elu"]


def over_seeds(paths, split, metric, scale=1, form="{:.3f}"):
    """Mean and deviation of a metric of runs that differ by their seed; of one run alone, the metric."""
    values = [scale * record(path)["metrics"][split][metric] for path in paths]
    return form.format(statistics.mean(values)) + (f" ± {form}".format(statistics.stdev(values)) if len(values) > 1 else "")


def derived(folder, metric):
    return run(folder)[0]["derived"][metric]


def seconds_at(folder, step):
    """Seconds of training until a step, from the lines of training before and after it."""
    lines = metrics_of(folder)
    known = [(0, 0.0), *((line["step"], line["seconds"]) for line in lines if "seconds" in line)]
    (a, s), (b, t) = max((known[i:i + 2] for i in range(len(known) - 1) if known[i][0] < step), key=lambda pair: pair[0][0])
    return s + (t - s) * (step - a) / (b - a)


def curves(name, folders, over="step", metric="accuracy"):
    """A picture of a metric of validation against steps, or over="seconds" of training, and the line that shows it."""
    place = {"step": lambda folder, step: step, "seconds": seconds_at}[over]
    axis = {"step": "training steps", "seconds": "seconds of training"}[over]
    runs = [(label, [(place(folder, line["step"]), line[metric]) for line in run(folder)[1]]) for label, folder in folders.items()]
    written[HERE / name] = pictures.curves(runs, f"{axis} (validation {metric})", shares=metric != "loss")
    return f"![validation {metric} against {axis}]({name})"


def beside_memory(name, folders):
    """A picture of test accuracies against the memory that the runs took, a point for each, and the line that shows it."""
    runs = [(label, [(r["peak_memory_bytes"] / 2**20, r["metrics"]["test"]["accuracy"])])
            for label, r in ((label, run(folder)[0]) for label, folder in folders.items())]
    written[HERE / name] = pictures.points(runs, "MiB at the peak of the run (test accuracy)")
    return f"![test accuracy against memory]({name})"


def analyses():
    """Those of trained models."""
    return [record(f"analyses/{path.name}") for path in sorted((HERE / "analyses").glob("*.json")) if not path.name.startswith("stability")]


def noisy(task=None):
    """Analyses of models whose attention draws something at each pass, of one task or of all."""
    return [a for a in analyses() if a["noise"]["PI"] > 0 and task in (None, a["task"])]


def r2_over_models(x, y, task="text"):
    """The squared correlation of two measures of noise, each model a point (KL Figs. 9, 10)."""
    return statistics.correlation(*([a["noise"][of] for a in noisy(task)] for of in (x, y))) ** 2


# ---- pages

written = {}  # path -> text, of all that this script makes

# What is taken for a measurement: a number with a decimal point or with a unit, but for numbers of sections, figures and
# versions. Code is not looked at: it holds settings.
NUMBERING = re.compile(r"(\b(Figs?\.|Tables?|Eqs?\.|Sections?|Appendix|Theorems?|Lemma|KL|SNNK|PERF|SKY|g\+\+|PyTorch|OpenBLAS)|§) ?"
                       r"[A-Z]?[\d.]+(, [A-Z]?[\d.]+)*( (and|to) [A-Z]?[\d.]+)?")
MEASUREMENT = re.compile(r"\d\.\d|\d ?(%|(ms|s|h|[KMG]i?B|GB/s|GFLOP/s|dB|points?|times|steps/s)\b)")


def refuse_measurements(text, where):
    text = re.sub(r"```.*?```|`[^`]*`|^    .*?$|\]\([^)]*\)", "", text, flags=re.DOTALL | re.MULTILINE)
    found = MEASUREMENT.search(NUMBERING.sub("", text))
    if found:
        around = NUMBERING.sub("", text)[max(0, found.start() - 40):found.end() + 20].replace("\n", " ")
        raise Wrong(f"{where}: a typed measurement, {found[0]!r} in {around!r}; take it from a record within a block")


def wrapped(text):
    """Paragraphs and items of lists filled to the width of the pages; tables, code, headings and pictures as they are."""
    parts = []
    for part in re.split(r"\n{2,}", text):
        if not re.match(r"\||#|!|    |- ", part):
            part = textwrap.fill(" ".join(part.split()), 130, break_long_words=False, break_on_hyphens=False)
        elif part.startswith("- "):
            items = [" ".join(item.split()) for item in re.split(r"^- ", part, flags=re.MULTILINE)[1:]]
            part = "\n".join(textwrap.fill(item, 130, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                                           break_on_hyphens=False) for item in items)
        parts.append(part)
    return "\n\n".join(parts)


def filled_in(template, where, names=None):
    try:
        formatted = ast.parse('rf"""' + template + '"""', where, "eval")
        for part in formatted.body.values if isinstance(formatted.body, ast.JoinedStr) else [formatted.body]:
            if isinstance(part, ast.Constant):
                refuse_measurements(part.value, where)
        return eval(compile(formatted, where, "eval"), {**globals(), **(names or {})})  # pylint: disable=eval-used
    except Wrong as error:
        raise Wrong(str(error) if str(error).startswith(where) else f"{where}: {error}") from error
    except Exception as error:  # whatever the template did wrong
        raise Wrong(f"{where}: {type(error).__name__}: {error}") from error


def refuse_unused(block, templates, where):
    """Of the names that a page gives, those that nothing of it reads: what is left of an older text."""
    trees = [ast.parse(block), *(ast.parse('rf"""' + template + '"""', mode="eval") for template in templates)]
    targets = [target for made in trees[0].body if isinstance(made, ast.Assign) for target in made.targets]
    given = {made.name for made in trees[0].body if isinstance(made, ast.FunctionDef)}
    given |= {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    read = {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    unused = sorted(given - read - {"_"})
    if unused:
        raise Wrong(f"{where}: no block uses {listed(unused)}")


def refuse_hidden(made, where):
    """Records that a page reads and does not lead to: by a link to the file, to a folder, or to the record's own page."""
    links = {link.split("#")[0].rstrip("/") for link in re.findall(r"\]\(([^)]*)\)", made)} - {where}
    hidden = sorted(p for p in used if not links & {p, f"{p.split('/')[0]}.md", *map(str, pathlib.PurePath(p).parents)})
    if hidden:
        raise Wrong(f"{where}: no link leads to {listed(hidden)}")


def page(path):
    """A page with its blocks filled in."""
    text, names = path.read_text(), {**globals()}
    used.clear()
    where = path.name
    block = "\n".join(re.findall(r"<!-- names\n(.*?)\n-->", text, re.DOTALL))
    exec(block, names)  # pylint: disable=exec-used
    blocks = re.compile(r"<!-- make\n(.*?)\n-->\n(.*?)<!-- made -->", re.DOTALL)
    outside = re.sub(r"<!-- names\n.*?\n-->", "", blocks.sub("", text), flags=re.DOTALL)
    if "<!-- ma" in outside:
        raise Wrong(f"{where}: a block is not closed: " + outside[outside.index("<!-- ma"):][:60])
    refuse_measurements(outside, where)
    typed = re.search(r"^\|.*", outside, re.MULTILINE)
    if typed:
        raise Wrong(f"{where}: a typed table: {typed[0]}")
    made = blocks.sub(lambda b: f"<!-- make\n{b[1]}\n-->\n{wrapped(filled_in(b[1], where, names))}\n<!-- made -->", text)
    refuse_unused(block, [b[1] for b in blocks.finditer(text)], where)
    refuse_hidden(made, where)
    return made


def main():
    checks = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not checks:
        sys.exit(__doc__)
    try:
        for path in sorted(HERE.glob("*.md")):
            written[path] = page(path)
    except Wrong as error:
        sys.exit(f"docs/results: {error}")
    stale = [path for path, text in written.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        old, new = path.read_text().split("\n") if path.exists() else [], written[path].split("\n")
        at = next(i for i in range(len(new) + 1) if old[i:i + 1] != new[i:i + 1])
        print(f"docs/results/{path.name}:{at + 1}: {'differs from the records' if checks else 'written'}: {''.join(new[at:at + 1])}")
        if not checks:
            path.write_text(written[path])
    if checks and stale:
        sys.exit("docs/results: run docs/results/make.py and commit what it writes")


if __name__ == "__main__":
    main()
