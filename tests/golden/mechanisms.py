#!/usr/bin/env python3
"""Outputs and gradients of every attention mechanism, in PyTorch, in float64.

  python3 tests/golden/mechanisms.py > tests/golden/mechanisms.json     (Debian: python3-torch, made with 1.13.1)

An independent implementation, written from the papers' equations and nothing else. Inputs, parameters and frequencies
come from a formula over names and places (`fill`), random draws from an own Philox; tests/layers/mechanisms_golden_test.cpp
holds the same formula and compares O, dQ, dK, dV and the gradient of each parameter for a fixed dO.
"""
import json
import math

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
B, H, L, D, M = 2, 2, 10, 8, 8
REAL = [10, 7]  # real tokens of each example
KEYS = torch.arange(L)[None, :] < torch.tensor(REAL)[:, None]  # (B, L)


def fill(name, shape, scale=1.0):
    n = math.prod(shape)
    return (scale * torch.sin(1.3 * torch.arange(n) + sum(name.encode()) % 17)).reshape(shape)


class Parameters:
    """Parameters by name, made by the formula when first asked for."""

    def __init__(self):
        self.all = {}

    def __call__(self, name, *shape, base=0.0, scale=0.5):
        if name not in self.all:
            self.all[name] = (base + fill(name, shape, scale)).clone().requires_grad_()
        return self.all[name]


# ---- kernel attention


def linear_attention(q, k, v, phi_q, phi_k, causal=False):
    phi_k = phi_k * KEYS[:, None, :, None]
    weights = phi_q @ phi_k.transpose(-1, -2)
    if causal:
        weights = weights.tril()
    return weights @ v / (weights.sum(-1, keepdim=True) + 1e-6)


def exponentials(q, k, e_q, e_k):
    """Features exp(exponent - shift) + eps: queries shifted each by its own largest exponent, keys by that of all."""
    top = e_k.detach().masked_fill(~KEYS[:, None, :, None], -math.inf).amax((-1, -2), keepdim=True)
    return torch.exp(e_q - e_q.detach().amax(-1, keepdim=True)) + 1e-6, torch.exp(e_k - top) + 1e-6


def norm2(x):
    return x.square().sum(-1, keepdim=True)


def positive(q, k, v, w, c, both=False):
    q, k = q * D**-0.25, k * D**-0.25
    u_q, u_k = q @ w.transpose(-1, -2), k @ w.transpose(-1, -2)
    if both:
        u_q, u_k = torch.cat([u_q, -u_q], -1), torch.cat([u_k, -u_k], -1)
    return linear_attention(q, k, v, *exponentials(q, k, u_q - c * norm2(q), u_k - c * norm2(k)))


def circle(q, k, v, w, softmax=False):
    q, k = q * D**-0.25, k * D**-0.25
    phi = [torch.cat([(x @ w.transpose(-1, -2)).cos(), (x @ w.transpose(-1, -2)).sin()], -1) for x in (q, k)]
    if softmax:
        h = norm2(k).detach().masked_fill(~KEYS[:, None, :, None], -math.inf).amax((-1, -2), keepdim=True) / 2
        phi[0] = phi[0] * torch.exp(norm2(q) / 2 - norm2(q).detach() / 2)  # each query shifted by its own exponent
        phi[1] = phi[1] * torch.exp(norm2(k) / 2 - h)
    return linear_attention(q, k, v, *phi)


def frequencies(*shape):
    return fill("frequencies.noise", shape)


def generalised(f):
    def run(q, k, v, p):
        w = frequencies(1, M, D)
        return linear_attention(q, k, v, *(f(x @ w.transpose(-1, -2)) + 1e-3 for x in (q, k)))

    return run


def exponential_kernel(q, k, v, p):
    w = frequencies(1, M, D)
    return linear_attention(q, k, v, *exponentials(q, k, q @ w.transpose(-1, -2), k @ w.transpose(-1, -2)))


def hadamard(n):
    h = torch.ones(1, 1)
    while h.shape[0] < n:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)], 0)
    return h


def fastfood(p, learnt):
    noise = fill("frequencies.noise", (1, 4, D))[0]
    diag = {n: (p("frequencies." + n, 1, D)[0] if n in learnt else noise[i]) for i, n in enumerate("SGB")}
    places = [(3 * i + 1) % D for i in range(D)]
    order = torch.zeros(D, D)
    for i, place in enumerate(places):
        order[i, place] = 1
    h = hadamard(D)
    return (diag["S"].diag() @ h @ diag["G"].diag() @ order @ h @ diag["B"].diag())[None] / math.sqrt(D)


def generated(p):
    x = fill("frequencies.noise", (M, D))
    for i in range(5):
        n = f"frequencies.layers.{i}."
        x = F.linear(x, p(n + "weight", D, D), p(n + "bias", D))
        if i < 4:
            n = f"frequencies.norms.{i}."
            x = F.batch_norm(x, None, None, p(n + "weight", D, base=1.0), p(n + "bias", D), True)
            x = F.leaky_relu(x, 0.01)
    return x.tanh()[None]


MECHANISMS = {
    "linear-elu": lambda q, k, v, p: linear_attention(q, k, v, F.elu(q) + 1, F.elu(k) + 1),
    "performer": lambda q, k, v, p: positive(q, k, v, frequencies(1, M, D), 0.5),
    "performer-hyp": lambda q, k, v, p: positive(q, k, v, frequencies(1, M, D), 0.5, both=True),
    "performer-trig": lambda q, k, v, p: circle(q, k, v, frequencies(1, M, D), softmax=True),
    "performer-reg": lambda q, k, v, p: positive(q, k, v, frequencies(1, M, D), 0.5),
    "performer-relu": generalised(F.relu),
    "performer-sigmoid": generalised(torch.sigmoid),
    "performer-exp": exponential_kernel,
    "performer-abs": generalised(torch.abs),
    "performer-gelu": generalised(F.gelu),
    "performer-cos": generalised(torch.cos),
    "performer-tanh": generalised(torch.tanh),
    "performer-identity": generalised(lambda u: u),
    "fastfood-rks": lambda q, k, v, p: circle(q, k, v, fastfood(p, "SGB")),
    "fastfood-rks-s": lambda q, k, v, p: circle(q, k, v, fastfood(p, "S")),
    "fastfood-rks-fixed": lambda q, k, v, p: circle(q, k, v, fastfood(p, "")),
    "fastfood-prf": lambda q, k, v, p: positive(q, k, v, fastfood(p, "SGB"), 1.0),
    "fastfood-prf-s": lambda q, k, v, p: positive(q, k, v, fastfood(p, "S"), 1.0),
    "fastfood-prf-fixed": lambda q, k, v, p: positive(q, k, v, fastfood(p, ""), 1.0),
    "generative-rks": lambda q, k, v, p: circle(q, k, v, generated(p)),
    "generative-prf": lambda q, k, v, p: positive(q, k, v, generated(p), 1.0),
}


def numbers(x):
    """Every third entry, which no shape here divides."""
    return [float(f"{y:.12g}") for y in x.detach().flatten()[::3].tolist()]


def golden(mechanism):
    q, k, v = (fill(n, (B, H, L, D)).clone().requires_grad_() for n in "QKV")
    parameters = Parameters()
    o = mechanism(q, k, v, parameters)
    o.backward(fill("dO", (B, H, L, D)))
    found = {"O": o, "dQ": q.grad, "dK": k.grad, "dV": v.grad}
    found = {n: x if x is not None else torch.zeros(B, H, L, D) for n, x in found.items()}
    return {n: numbers(x) for n, x in found.items()} | {
        "d" + n: numbers(x.grad if x.grad is not None else torch.zeros_like(x)) for n, x in parameters.all.items()
    }


if __name__ == "__main__":
    print("{" + ",\n".join(f'"{n}": {json.dumps(golden(m))}' for n, m in MECHANISMS.items()) + "}")
