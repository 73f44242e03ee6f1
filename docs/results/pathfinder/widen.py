#!/usr/bin/env python3
"""Weights of Nystromformer's convolution for larger images.

    python3 docs/results/pathfinder/widen.py RUN OUT.safetensors --width 16 --to 20

The convolution runs along the sequence of pixels, row after row: tap r * width + c weighs the pixel r rows below and c columns to the
right. The neighbours that 2 * width + 3 taps reach in images of WIDTH pixels a row (r and c from -1 to 1, and more columns of the same row)
are put where they lie in rows of TO pixels; taps between are 0. All other weights are copied: the model begins with what it had
learnt at the smaller size. RUN is the folder of a run or a file of weights; ./run lra --init=OUT.safetensors reads the result.
"""
import argparse
import pathlib

import numpy
from safetensors.numpy import load_file, save_file

arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
arguments.add_argument("run", type=pathlib.Path)
arguments.add_argument("out", type=pathlib.Path)
arguments.add_argument("--width", type=int, default=16)
arguments.add_argument("--to", type=int, default=32)
given = arguments.parse_args()

weights = load_file(given.run / "checkpoint-best" if given.run.is_dir() else given.run)
for name, taps in weights.items():
    if not name.endswith("convolution"):
        continue
    reach = taps.shape[1] // 2
    if reach != given.width + 1:
        raise SystemExit(f"{name}: {taps.shape[1]} taps; {2 * given.width + 3} reach one row of {given.width} pixels")
    wide = numpy.zeros((taps.shape[0], 2 * given.to + 3), taps.dtype)
    for offset in range(-reach, reach + 1):
        row = round(offset / given.width)
        wide[:, given.to + 1 + offset + row * (given.to - given.width)] = taps[:, reach + offset]
    weights[name] = wide
save_file(weights, given.out)
