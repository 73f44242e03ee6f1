#!/usr/bin/env python3
"""What `lra --table FOLDER` must print as Markdown, computed from the same results.json without any of its code.

    table.py PAPER.csv TASK,TASK,... MECHANISM,... FOLDER...
"""
import csv
import json
import math
import os
import sys


def runs_below(folders):
    found = {}
    for folder in folders:
        for place, _, files in os.walk(folder):
            if "results.json" in files:
                with open(os.path.join(place, "results.json"), encoding="utf-8") as file:
                    found[os.path.realpath(place)] = json.load(file)
    return list(found.values())


def title(run):
    changed = [f"{name} = {value}" for name, value in run["overrides"].items()]
    return run["protocol"] + (" with " + ", ".join(changed) if changed else "")


def spread(values):
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.2f}"
    return f"{mean:.2f} ± {math.sqrt(sum((x - mean) ** 2 for x in values) / (len(values) - 1)):.2f}"


def interval(values):
    return "–" if not values else str(min(values)) if len(set(values)) == 1 else f"{min(values)} to {max(values)}"


def line(cells):
    return "| " + " | ".join(cells) + " |"


def main():
    paper_file, task_order, mechanism_order, *folders = sys.argv[1:]
    task_order, mechanism_order = task_order.split(","), mechanism_order.split(",")
    with open(paper_file, encoding="utf-8", newline="") as file:
        paper = [row for row in csv.DictReader(file) if row["metric"] == "accuracy"]
    runs = runs_below(folders)
    for name in sorted({title(run) for run in runs}):
        mine = [run for run in runs if title(run) == name]
        tasks = [task for task in task_order if any(run["task"] == task for run in mine)]
        mechanisms = [m for m in mechanism_order if any(run["model"]["attention"] == m for run in mine)]
        sources = set()

        def of_paper(task, mechanism):
            wanted = (mine[0]["protocol"], task, mechanism)
            return [row for row in paper if (row["protocol"], row["task"], row["attention"]) == wanted]

        def reported(task, mechanism):
            rows = of_paper(task, mechanism)
            if not rows:
                return "–"
            sources.add(f"{rows[0]['source']} (protocol {rows[0]['protocol']})")
            deviation = rows[0]["deviation"]
            return f"{float(rows[0]['value']):.2f}" + (f" ± {float(deviation):.2f}" if deviation else "")

        def cell(task, mechanism):
            return [run for run in mine if run["task"] == task and run["model"]["attention"] == mechanism]

        heads = [f"{task} %" for task in tasks]
        print(f"## {name}\n")
        print(line([""] + [h for head in heads for h in (head, "paper")] + (["mean %", "paper"] if tasks[1:] else [])))
        print(line(["---"] + ["---:"] * (2 * len(tasks) + (2 if tasks[1:] else 0))))
        for mechanism in mechanisms:
            row, means, papers = [mechanism], [], []
            for task in tasks:
                values = [100 * run["metrics"]["test"]["accuracy"] for run in cell(task, mechanism)]
                row += [spread(values) if values else "–", reported(task, mechanism)]
                means += [sum(values) / len(values)] if values else []
                papers += [float(of["value"]) for of in of_paper(task, mechanism)[:1]]
            if tasks[1:]:
                row += [f"{sum(x) / len(x):.2f}" if len(x) == len(tasks) else "–" for x in (means, papers)]
            print(line(row))
        print()
        print(line(["steps"] + tasks))
        print(line(["---"] + ["---:"] * len(tasks)))
        for mechanism in mechanisms:
            row = [mechanism]
            for task in tasks:
                steps = [run["steps"] for run in cell(task, mechanism)]
                row.append(interval(steps) + (f" ({len(steps)} seeds)" if len(steps) > 1 else ""))
            print(line(row))
        print(line(["test examples"] + [interval([run["test_examples"] for run in mine if run["task"] == task])
                                        for task in tasks]))
        print()
        if sources:
            print("Paper: " + "; ".join(sorted(sources)) + ".\n")
        for remark in dict.fromkeys(f"{run['task']}: {remark}" for run in mine for remark in run.get("remarks") or []):
            print(f"Note: {remark}.\n")


if __name__ == "__main__":
    main()
