#!/usr/bin/env python3
"""Batch normalisation and losses in PyTorch, in float64: values, gradients and running statistics.

  python3 tests/golden/layers.py > tests/golden/layers.json     (Debian: python3-torch, made with 1.13.1)

Inputs follow from a formula over their index and a phase (`wave`), which tests/layers/{batch_norm,loss}_test.cpp share;
nothing else is shared. A gradient is that of the sum of the output times wave(9).
"""
import json
import math
import re

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def wave(phase, *shape):
    return torch.sin(1.3 * torch.arange(math.prod(shape)) + phase).reshape(shape)


def flat(x):
    return x.detach().reshape(-1).tolist()


def gradient(y, *inputs):
    return [flat(g) for g in torch.autograd.grad((y * wave(9, *y.shape)).sum(), inputs)]


def batch_norm(shape, momentum, affine):
    """Three batches in training, then one in evaluation."""
    norm = torch.nn.BatchNorm1d(shape[1], eps=1e-3, momentum=momentum, affine=affine)
    if affine:
        norm.weight.data = 1 + 0.3 * wave(5, shape[1])
        norm.bias.data = wave(6, shape[1])
    parameters = [norm.weight, norm.bias] if affine else []
    steps = []
    for step in range(4):
        norm.train(step < 3)
        x = (2 * wave(step, *shape) + 0.5).requires_grad_()
        y = norm(x)
        steps.append({"y": flat(y), "gradients": gradient(y, x, *parameters), "running_mean": flat(norm.running_mean),
                      "running_var": flat(norm.running_var), "num_batches_tracked": norm.num_batches_tracked.item()})
    return steps


def loss(f, *shape):
    """f(x, reduction) for each reduction, with its gradient."""
    found = {}
    for reduction in ("mean", "sum", "none"):
        x = (3 * wave(1, *shape)).requires_grad_()
        y = f(x, reduction)
        found[reduction] = {"y": flat(y), "gradients": gradient(y, x)}
    return found


labels = torch.tensor([2, 0, 3, 1, 2, 3])
targets = (wave(2, 6, 4) + 1) / 2
p = torch.softmax(wave(3, 6, 4), -1)
p[1] = torch.tensor([0.0, 0.5, 0.0, 0.5])

text = json.dumps({
    "batch_norm": {
        "rows": batch_norm((5, 3), 0.1, True),
        "sequences": batch_norm((2, 3, 4), 0.3, True),
        "cumulative": batch_norm((5, 3), None, True),
        "plain": batch_norm((5, 3), 0.1, False),
    },
    "loss": {
        "cross_entropy": loss(lambda x, r: F.cross_entropy(x, labels, reduction=r), 6, 4),
        "cross_entropy_smooth": loss(lambda x, r: F.cross_entropy(x, labels, reduction=r, label_smoothing=0.1), 6, 4),
        "cross_entropy_ignore": loss(lambda x, r: F.cross_entropy(x, labels, reduction=r, label_smoothing=0.2, ignore_index=3), 6, 4),
        "binary_cross_entropy": loss(lambda x, r: F.binary_cross_entropy_with_logits(x, targets, reduction=r), 6, 4),
        "binary_cross_entropy_weighted": loss(lambda x, r: F.binary_cross_entropy_with_logits(
            x, targets, reduction=r, pos_weight=torch.tensor(2.5)), 6, 4),
        "mean_squared_error": loss(lambda x, r: F.mse_loss(x, targets, reduction=r), 6, 4),
        "mean_absolute_error": loss(lambda x, r: F.l1_loss(x, targets, reduction=r), 6, 4),
        "huber": loss(lambda x, r: F.huber_loss(x, targets, reduction=r, delta=0.7), 6, 4),
        "kullback_leibler": loss(lambda x, r: F.kl_div(F.log_softmax(x, -1), p, reduction="batchmean" if r == "mean" else r).reshape(
            (6, 4) if r == "none" else ()).sum(-1 if r == "none" else ()), 6, 4),
    },
}, indent=1)
print(re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found.group().split()), text))
