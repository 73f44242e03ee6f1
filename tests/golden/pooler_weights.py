#!/usr/bin/env python3
"""Whether the pooler of a pretrained BERT was ever trained: what its weights have of a random matrix.

    python3 tests/golden/pooler_weights.py FOLDER > docs/results/glue/pooler-weights.json

A square matrix of n x n independent numbers of deviation s has singular values up to about 2 s sqrt(n) (Bai and Yin,
1993), and numbers of a normal distribution have a kurtosis of 3. Training adds larger singular values, and biases.
Needs numpy.
"""
import hashlib
import json
import sys
from pathlib import Path

import numpy


def tensors(data):
    size = int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = entry["data_offsets"]
        values = numpy.frombuffer(data[8 + size + begin:8 + size + end], numpy.float32)
        yield name.removeprefix("bert."), values.reshape(entry["shape"]).astype(numpy.float64)


def described(weight):
    s = weight.std()
    largest = numpy.linalg.svd(weight, compute_uv=False)[0]
    return {
        "deviation": s,
        "kurtosis": ((weight - weight.mean()) ** 4).mean() / s**4,
        "largest_singular_value": largest,
        "of_a_random_matrix": s * (numpy.sqrt(weight.shape[0]) + numpy.sqrt(weight.shape[1])),
    }


def main():
    file = Path(sys.argv[1]) / "model.safetensors"
    data = file.read_bytes()
    found = dict(tensors(data))
    last = max(int(name.split(".")[2]) for name in found if name.startswith("encoder.layer."))
    output = f"encoder.layer.{last}.attention.output.dense"
    record = {"sha256": hashlib.sha256(data).hexdigest()}
    for name, of in (("pooler", "pooler.dense"), ("attention_output", output)):  # the second was trained
        record[name] = described(found[of + ".weight"]) | {"largest_bias": abs(found[of + ".bias"]).max()}
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
