#!/usr/bin/env python3
"""What the tables of GLUE hold, for tests/datasets/glue: lines split at tabs, without any library for tables.

    python3 tests/golden/glue.py DATA > tests/golden/glue.json

DATA is the folder of the data sets, in which glue/*/*.tsv or .tsv.gz are read. Of each file: rows, empty sentences, and SHA-256
of all rows, each as its label (i32, its place in the list of classes; of a number f32; -100 where there is none) and its
sentences, each with a zero byte behind it. No sentence is committed.
"""
import glob
import gzip
import hashlib
import json
import os
import struct
import sys

ENTAILMENT = ["entailment", "not_entailment"]
# folder: (sentences, label, classes), the columns by number; of a test set the sentences by number
COLUMNS = {
    "CoLA": ([3], 1, ["0", "1"], [1]),
    "SST-2": ([0], 1, ["0", "1"], [1]),
    "MRPC": ([3, 4], 0, ["0", "1"], [3, 4]),
    "QQP": ([3, 4], 5, ["0", "1"], [1, 2]),
    "STS-B": ([7, 8], 9, None, [7, 8]),
    "QNLI": ([1, 2], 3, ENTAILMENT, [1, 2]),
    "RTE": ([1, 2], 3, ENTAILMENT, [1, 2]),
    "WNLI": ([1, 2], 3, ["0", "1"], [1, 2]),
    "diagnostic": (None, None, ["entailment", "neutral", "contradiction"], [1, 2]),
}


def described(path):
    folder = path.split("/")[-2]
    name = os.path.basename(path).split(".tsv")[0]
    sentences, label, classes, sentences_of_test = COLUMNS[folder]
    data = (gzip.open if path.endswith(".gz") else open)(path, "rb").read()
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if not (folder == "CoLA" and name != "test"):
        lines = lines[1:]
    is_test = name in ("test", "diagnostic")
    digest = hashlib.sha256()
    empty = 0
    for line in lines:
        fields = line.removesuffix(b"\r").split(b"\t")
        if classes is None:
            digest.update(struct.pack("<f", 0 if is_test else float(fields[label])))
        else:
            digest.update(struct.pack("<i", -100 if is_test else classes.index(fields[label].decode())))
        for column in sentences_of_test if is_test else sentences:
            digest.update(fields[column] + b"\0")
            empty += not fields[column]
    return {"file": f"{folder}/{name}", "rows": len(lines), "empty": empty, "sha256": digest.hexdigest()}


files = sorted(f for f in glob.glob(os.path.join(sys.argv[1], "glue", "*", "*.tsv*")) if "dev_ids" not in f)
print(json.dumps([described(f) for f in files], indent=1))
