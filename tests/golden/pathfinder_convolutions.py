#!/usr/bin/env python3
"""A small convolutional network of PyTorch on images of Pathfinder: can their labels be learnt from so many at all?

    python3 tests/golden/pathfinder_convolutions.py FOLDER OUT.json [--images 60000] [--seconds 100]

FOLDER is one of ./run data make pathfinder, such as data/pathfinder16/curv_baseline. One thread; the last 4,000 images are
kept for validation. OUT.json is docs/results/pathfinder/convolutions.json.
"""
import argparse
import json
import pathlib
import time

import numpy
import torch
from PIL import Image
from torch import nn


def read(folder, count):
    images, labels = [], []
    for lines in sorted(folder.glob("metadata/*.npy"), key=lambda path: int(path.stem)):
        for line in lines.read_text().splitlines():
            place, name, _, label, *_ = line.split()
            images.append(numpy.array(Image.open(folder / place / name)))
            labels.append(int(label))
            if len(labels) == count:
                return torch.tensor(numpy.stack(images)).float().div(255).unsqueeze(1), torch.tensor(labels)
    raise SystemExit(f"{folder}: only {len(labels)} of {count} images")


def convolution(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--images", type=int, default=60000)
    parser.add_argument("--seconds", type=float, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x, y = read(options.folder, options.images)
    x, y, valid, truth = x[:-4000], y[:-4000], x[-4000:], y[-4000:]
    net = nn.Sequential(convolution(1, 32), *(convolution(32, 32) for _ in range(3)), nn.MaxPool2d(2), convolution(32, 64),
                        *(convolution(64, 64) for _ in range(2)), nn.MaxPool2d(2), convolution(64, 64), nn.AdaptiveMaxPool2d(1),
                        nn.Flatten(), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    curve, step, began = [], 0, time.monotonic()
    while time.monotonic() - began < options.seconds:
        rows = torch.randint(0, len(x), (64,))
        loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 200 == 0:
            net.eval()
            with torch.no_grad():
                right = sum((net(valid[i:i + 500]).argmax(1) == truth[i:i + 500]).sum().item() for i in range(0, 4000, 500))
            net.train()
            curve.append({"step": step, "seconds": round(time.monotonic() - began, 1), "accuracy": right / 4000})
    options.out.write_text(json.dumps({"torch": torch.__version__, "images": len(x), "batch": 64, "seed": 1,
                                       "parameters": sum(p.numel() for p in net.parameters()), "curve": curve}, indent=1) + "\n")


main()
