"""One record of a run of all.sh: record.json, and record.md as a short table.

    python3 tests/gpu/record.py OUT COMMIT SECONDS
"""
import datetime
import json
import pathlib
import sys

out, commit, seconds = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])


def lines(name):
    path = out / name
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # the last line of a program that was stopped
            continue
    return found


steps = [dict(zip(("name", "result", "seconds"), line.split("\t"))) for line in (out / "steps.txt").read_text().splitlines()]
ours, peers = lines("bench.jsonl") + lines("training.jsonl"), lines("peer.jsonl")
programs, processes = lines("programs.jsonl"), lines("processes.jsonl")
fastest = {}
for peer in peers:
    if "case" not in peer:  # a way that did not run
        continue
    known = fastest.get(peer["case"])
    if known is None or peer["ms"] < known["ms"]:
        fastest[peer["case"]] = peer
record = {
    "card": (out / "card.txt").read_text().strip(),
    "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    "commit": commit,
    "seconds": seconds,
    "steps": steps,
    "bench": ours,
    "peer": peers,
    "programs": programs,
    "processes": processes,
}
(out / "record.json").write_text(json.dumps(record, indent=1) + "\n")
text = [f"# {record['card']}", "", f"{record['date']}, commit {commit[:12]}, {seconds} s", "", "| step | result | s |", "|---|---|---|"]
text += [f"| {s['name']} | {s['result']} | {s['seconds']} |" for s in steps]
text += ["", "| case | ms | rate | of the copy's | fastest peer | peer, ms | peer / ours |", "|---|---|---|---|---|---|---|"]
copy = next((b["gb_per_s"] for b in ours if b.get("case") == "copy"), None)
for b in ours:
    if "case" not in b:  # did not run
        continue
    peer = fastest.get(b["case"])
    rate = f"{b['steps_per_s']:.1f} steps/s, {b['peak_bytes'] / 2**30:.1f} GiB" if "steps_per_s" in b else ""
    rate = f"{b['gb_per_s']:.0f} GB/s" if "gb_per_s" in b else (f"{b['tflops']:.1f} TFLOP/s" if "tflops" in b else rate)
    share = f"{b['gb_per_s'] / copy:.0%}" if copy and "gb_per_s" in b else ""
    beside = f"{peer['how']} | {peer['ms']:.3f} | {peer['ms'] / b['ms']:.2f}" if peer else "not measured | |"
    text.append(f"| {b['case']} | {b['ms']:.3f} | {rate} | {share} | {beside} |")
if programs:
    text += ["", "| program | difference from the CPU | same bytes: again, unrecorded | CPU, s | card, s | |"]
    text += ["|---|---|---|---|---|---|"]
for p in programs:
    told = p.get("failed", p.get("left out", ""))
    if "difference" not in p:  # did not run
        text.append(f"| {p['case']} | | | | | {told} |")
        continue
    same = ", ".join("yes" if p[key] else "no" for key in ("same bytes", "same bytes unrecorded"))
    text.append(f"| {p['case']} | {p['difference']:.1e} | {same} | {p['cpu seconds']:.1f} | {p['card seconds']:.1f} | {told} |")
if processes:
    text += ["", "| processes | by | | same bytes as one | loss | bytes sent in a step | |", "|---|---|---|---|---|---|---|"]
for p in processes:
    same = {True: "yes", False: "no"}.get(p.get("same bytes"), "")
    text.append(f"| {p['processes']} | {p['by']} | {p['options']} | {same} | {p.get('loss', '')} | {p.get('bytes sent in a step', '')} | {p.get('failed', p.get('left out', ''))} |")
text += [""] + [f"Did not run: {p['skipped']}, {p['how']}: {p['why']}" for p in ours + peers if "skipped" in p]
(out / "record.md").write_text("\n".join(text) + "\n")
