#!/usr/bin/env python3
"""Ten AdamW steps of the sequence classifier, and of the dual encoder with each of its heads, in PyTorch, in float64, with each
of the first five mechanisms.

  python3 tests/golden/encoder_steps.py > tests/golden/encoder_steps.json     (Debian: python3-torch; made with 2.15)

An independent implementation: every value starts from a formula over its name and index (`fill`), so nothing but the
formula is shared with tests/layers/golden_test.cpp, which compares the losses.
"""
import json
import math

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
V, L, B, D, H, HIDDEN, LAYERS, CLASSES, M, C, UNITS = 11, 13, 4, 16, 2, 24, 2, 5, 8, 2, 6
P = D // H


def fill(name, shape):
    n = math.prod(shape)
    v = torch.sin(1.3 * torch.arange(n) + sum(name.encode()) % 17).reshape(shape)
    if name.endswith("noise"):
        return 0.5 * v
    if name.endswith("norm1.weight") or name.endswith("norm2.weight") or name == "norm.weight":
        return 1 + 0.1 * v
    if name.endswith("frequencies.scale"):
        return (torch.eye(P).expand(shape) if shape[2] == P else 1) + 0.2 * v
    return (0.5 if name in ("tokens.weight", "positions") else 0.2) * v


class Model:
    def __init__(self, head, attention):
        self.head, self.attention, self.p, self.noise = head, attention, {}, {}
        self.add("positions", L, D)
        self.add("tokens.weight", V, D)
        for i in range(LAYERS):
            b = f"blocks.{i}."
            for n in ("norm1", "norm2"):
                self.add(b + n + ".weight", D)
                self.add(b + n + ".bias", D)
            for n, o, k in (("attention.qkv", 3 * D, D), ("attention.out", D, D), ("feed_forward.in", HIDDEN, D), ("feed_forward.out", D, HIDDEN)):
                self.add(b + n + ".weight", o, k)
                self.add(b + n + ".bias", o)
            f = b + "attention.mechanism.frequencies."
            if attention == "performer":
                self.noise[i] = fill(f + "noise", (1, M, P))
            if attention.startswith("gmm"):
                self.noise[i] = fill(f + "noise", (1, 1, M // C, P))
                self.add(f + "mean", H, C, 1, P)
                self.add(f + "scale", H, C, *((P, P) if attention == "gmm-rks" else (1, P)))
        self.add("norm.weight", D)
        self.add("norm.bias", D)
        sizes = {"single": [("classes", CLASSES, D)],
                 "arena": [("hidden", UNITS, 2 * D), ("narrow", UNITS // 2, UNITS), ("classes", CLASSES, UNITS // 2)],
                 "skyformer": [("hidden", UNITS, 4 * D), ("classes", CLASSES, UNITS)]}
        for n, o, k in sizes[head]:
            self.add(f"classifier.{n}.weight", o, k)
            self.add(f"classifier.{n}.bias", o)

    def add(self, name, *shape):
        self.p[name] = fill(name, shape).clone().requires_grad_()

    def linear(self, name, x):
        return F.linear(x, self.p[name + ".weight"], self.p[name + ".bias"])

    def norm(self, name, x):
        return F.layer_norm(x, (D,), self.p[name + ".weight"], self.p[name + ".bias"], 1e-5)

    def omega(self, i):
        f = f"blocks.{i}.attention.mechanism.frequencies."
        if self.attention == "performer":
            return self.noise[i]
        if self.attention == "gmm-prf":
            return (self.noise[i] * self.p[f + "scale"] + self.p[f + "mean"]).reshape(H, M, P)
        spread = torch.einsum("hcij,mj->hcmi", self.p[f + "scale"], self.noise[i][0, 0])
        return (spread + self.p[f + "mean"]).reshape(H, M, P)

    def attend(self, i, q, k, v, mask):
        keys = mask[:, None, :, None].to(q)
        if self.attention == "softmax":
            s = q @ k.transpose(-1, -2) / math.sqrt(P)
            return torch.softmax(s.masked_fill(~mask[:, None, None, :], -math.inf), -1) @ v
        if self.attention == "linear-elu":
            fq, fk = F.elu(q) + 1, F.elu(k) + 1
        else:
            q, k, w = q * P**-0.25, k * P**-0.25, self.omega(i)
            uq, uk = q @ w.transpose(-1, -2), k @ w.transpose(-1, -2)
            if self.attention == "gmm-rks":
                fq, fk = torch.cat([uq.cos(), uq.sin()], -1), torch.cat([uk.cos(), uk.sin()], -1)
            else:
                c, eps = (0.5, 1e-6) if self.attention == "performer" else (1.0, 0.0)
                uq = uq - c * q.square().sum(-1, keepdim=True)
                uk = uk - c * k.square().sum(-1, keepdim=True)
                top = uk.detach().masked_fill(keys == 0, -math.inf).amax((-1, -2), keepdim=True)
                fq = torch.exp(uq - uq.detach().amax(-1, keepdim=True)) + eps
                fk = torch.exp(uk - top) + eps
        fk = fk * keys
        return (fq @ (fk.transpose(-1, -2) @ v)) / (fq @ fk.sum(-2)[..., None])

    def __call__(self, ids, mask):
        x = self.p["tokens.weight"][ids] + self.p["positions"]
        for i in range(LAYERS):
            b = f"blocks.{i}."
            q, k, v = self.linear(b + "attention.qkv", self.norm(b + "norm1", x)).view(B, L, 3, H, P).permute(2, 0, 3, 1, 4)
            x = x + self.linear(b + "attention.out", self.attend(i, q, k, v, mask).transpose(1, 2).reshape(B, L, D))
            x = x + self.linear(b + "feed_forward.out", F.gelu(self.linear(b + "feed_forward.in", self.norm(b + "norm2", x))))
        real = mask[:, :, None].to(x)
        x = (self.norm("norm", x) * real).sum(1) / real.sum(1)
        if self.head != "single":  # sequences 2 i and 2 i + 1 are a pair
            u, v = x[0::2], x[1::2]
            x = torch.cat([u, v] if self.head == "arena" else [u, v, u * v, u - v], 1)
            x = torch.relu(self.linear("classifier.hidden", x))
        if self.head == "arena":
            x = torch.relu(self.linear("classifier.narrow", x))
        return self.linear("classifier.classes", x)


def losses(head, attention):
    model = Model(head, attention)
    ids = (torch.arange(B * L) * 7 + 3).remainder(V).view(B, L)
    mask = torch.arange(L)[None, :] < torch.tensor([13, 9, 5, 1])[:, None]
    labels = torch.arange(B if head == "single" else B // 2) % CLASSES
    optimizer = torch.optim.AdamW(list(model.p.values()), lr=2e-3, weight_decay=0.01, eps=1e-6)
    found = []
    for _ in range(10):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(ids, mask), labels)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


MECHANISMS = ("softmax", "linear-elu", "performer", "gmm-rks", "gmm-prf")
print(json.dumps({head: {name: losses(head, name) for name in MECHANISMS} for head in ("single", "arena", "skyformer")}, indent=1))
