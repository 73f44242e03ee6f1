#!/usr/bin/env python3
"""How alike a sentence model finds the pairs of STS-B, with softmax attention and with others in its place.

    python3 tests/golden/sentence_similarity.py PROGRAM DATA PRETRAINED OUT.json [ATTENTION[=FOLDER]]...

PROGRAM is the binary `bert`, DATA holds glue/STS-B/dev.tsv or .tsv.gz, PRETRAINED is a sentence model of the kind of
all-MiniLM-L6-v2: a sentence is the mean of the last states of its tokens. Nothing is trained: the result is Spearman's
correlation of the cosine of the two sentences with the label. ATTENTION takes the place of softmax in PRETRAINED as it is, or
is that of FOLDER, into which `./run convert` wrote the model.
"""
import argparse
import gzip
import json
import os
import subprocess
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file
from scipy.stats import spearmanr


def pairs(data):
    """The two sentences and the label of each row."""
    path = os.path.join(data, "glue", "STS-B", "dev.tsv")
    raw = gzip.open(path + ".gz", "rb").read() if os.path.exists(path + ".gz") else open(path, "rb").read()
    rows = [line.split("\t") for line in raw.decode().replace("\r", "").split("\n")[1:] if line]
    return [r[7] for r in rows], [r[8] for r in rows], [float(r[9]) for r in rows]


def sentences(program, folder, attention, inputs):
    """The unit vectors of sentences, (sentences, dim)."""
    with tempfile.TemporaryDirectory() as temporary:
        path = os.path.join(temporary, "in.safetensors")
        save_file({name: values.contiguous() for name, values in inputs.items()}, path)
        subprocess.run([program, f"--pretrained={folder}", f"--attention={attention}", f"--io={path}"], check=True,
                       stdout=subprocess.DEVNULL)
        states = load_file(os.path.join(temporary, "in-bert.safetensors"))["last_hidden_state"]
    mask = inputs["attention_mask"].unsqueeze(-1).float()
    return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("pretrained")
    parser.add_argument("out")
    parser.add_argument("attentions", nargs="*")
    options = parser.parse_args()
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.pretrained)
    first, second, labels = pairs(options.data)
    inputs = [tokenizer(texts, padding=True, return_tensors="pt") for texts in (first, second)]
    version = subprocess.run([options.program, "--version"], check=True, capture_output=True, text=True).stdout
    record = {"pretrained": os.path.basename(os.path.realpath(options.pretrained)), "pairs": len(labels),
              "program": version.splitlines()[0], "rows": []}
    for asked in ["softmax", *options.attentions]:
        attention, _, folder = asked.partition("=")
        u, v = (sentences(options.program, folder or options.pretrained, attention, x) for x in inputs)
        fitted = None
        if folder:
            with open(os.path.join(folder, "conversion.json"), encoding="utf-8") as file:
                conversion = json.load(file)
            fitted = {key: conversion[key] for key in ("steps", "batch", "max-length", "learnt", "seconds", "git")}
            fitted.update({key: conversion.get(key, default) for key, default in (("match", "outputs"), ("precision", "f32"))})
        record["rows"].append({"attention": attention, "fitted": fitted,
                               "spearman": float(spearmanr((u * v).sum(1), labels)[0])})
        print(record["rows"][-1], flush=True)
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
