#!/usr/bin/env python3
"""Outputs and gradients of every attention mechanism, in PyTorch, in float64.

  python3 tests/golden/mechanisms.py > tests/golden/mechanisms.json     (Debian: python3-torch, made with 1.13.1)
  python3 tests/golden/mechanisms.py --compare                          after ./run build

--compare computes every mechanism through `./run attention --io` as well, on random inputs of lengths that differ or
divide nothing, padded or not, causal where there is such a form, streaming and composed, at N(0, 1) and three times
that, and prints the largest relative difference of O and of each gradient. mechanisms-compared.txt holds what it printed.

An independent implementation, written from the papers' equations and nothing else. Inputs, parameters and frequencies
come from a formula over names and places (`fill`), random draws from an own Philox; tests/layers/mechanisms_golden_test.cpp
holds the same formula and compares O, dQ, dK, dV and the gradient of each parameter for a fixed dO.
"""
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
B, H, D, M = 2, 2, 8, 8


def setting(queries, keys, real, causal=False, noise=None, state=None):
    """What the references below are computed for: lengths, the real keys of each example, and what is given beside Q,
    K and V: a source of random draws, parameters and buffers by name."""
    global L, LK, REAL, QREAL, KEYS, EVERY, CAUSAL, NOISE, STATE
    L, LK, REAL, CAUSAL = queries, keys, real, causal
    QREAL = real if queries == keys else [queries] * B  # queries are padded as the keys are, where they are the same
    KEYS = torch.arange(keys)[None, :] < torch.tensor(real)[:, None]  # (B, LK)
    EVERY = torch.ones(B, keys, dtype=torch.bool)
    NOISE = noise or (lambda: Philox(7))
    STATE = state or {}


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


def linear_attention(q, k, v, phi_q, phi_k, causal=False, keys=None, eps=0.0):
    phi_k = phi_k * (KEYS if keys is None else keys)[:, None, :, None]
    weights = phi_q @ phi_k.transpose(-1, -2)
    if causal or CAUSAL:
        weights = weights.tril()
    return weights @ v / (weights.sum(-1, keepdim=True) + eps)


def exponentials(v, e_q, e_k, eps, keys):
    """Features exp(exponent - shift) + eps: queries shifted each by its own largest exponent, keys by that of all which
    the query sees."""
    seen = keys[:, None, None, :].expand(B, 1, L, LK)
    seen = seen.tril() if CAUSAL else seen
    top = e_k.detach().amax(-1)[:, :, None, :].expand(B, H, L, LK).masked_fill(~seen, -math.inf).amax(-1)
    top = torch.nan_to_num(top, neginf=0.0)[..., None, None]  # (B, H, L, 1, 1)
    phi_q = torch.exp(e_q - e_q.detach().amax(-1, keepdim=True)) + eps
    weights = (phi_q[:, :, :, None] * (torch.exp(e_k[:, :, None] - top).clamp(max=1e300) + eps)).sum(-1) * seen
    return weights @ v / weights.sum(-1, keepdim=True)


def norm2(x):
    return x.square().sum(-1, keepdim=True)


def positive(q, k, v, w, c, both=False, power=0.25, eps=1e-6, keys=None):
    q, k = q * D**-power, k * D**-power
    u_q, u_k = q @ w.transpose(-1, -2), k @ w.transpose(-1, -2)
    if both:
        u_q, u_k = torch.cat([u_q, -u_q], -1), torch.cat([u_k, -u_k], -1)
    return exponentials(v, u_q - c * norm2(q), u_k - c * norm2(k), eps, KEYS if keys is None else keys)


def circle(q, k, v, w, softmax=False, constant=0.0):
    q, k = q * D**-0.25, k * D**-0.25
    phi = [torch.cat([(x @ w.transpose(-1, -2)).cos(), (x @ w.transpose(-1, -2)).sin()], -1) for x in (q, k)]
    if softmax:
        h = norm2(k).detach().masked_fill(~KEYS[:, None, :, None], -math.inf).amax((-1, -2), keepdim=True) / 2
        phi[0] = phi[0] * torch.exp(norm2(q) / 2 - norm2(q).detach() / 2)  # each query shifted by its own exponent
        phi[1] = phi[1] * torch.exp(norm2(k) / 2 - h)
    if constant:
        phi = [F.pad(x, (0, 1), value=constant) for x in phi]
    return linear_attention(q, k, v, *phi, eps=1e-6 * constant**2)  # as released: 1e-6 beside features over sqrt(draws)


def frequencies(*shape):
    return STATE["frequencies.noise"] if "frequencies.noise" in STATE else fill("frequencies.noise", shape)


def generalised(f):
    def run(q, k, v, p):
        w = frequencies(1, M, D)
        return linear_attention(q, k, v, *(f(x @ w.transpose(-1, -2)) + 1e-3 for x in (q, k)))

    return run


def exponential_kernel(q, k, v, p):
    w = frequencies(1, M, D)
    return linear_attention(q, k, v, *(torch.exp(x @ w.transpose(-1, -2)) + 1e-3 for x in (q, k)))


def hadamard(n):
    h = torch.ones(1, 1)
    while h.shape[0] < n:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)], 0)
    return h


def fastfood(p, learnt):
    noise = frequencies(1, 4, D)[0]
    diag = {n: (p("frequencies." + n, 1, D)[0] if n in learnt else noise[i]) for i, n in enumerate("SGB")}
    places = [int(x) for x in noise[3]] if STATE else [(3 * i + 1) % D for i in range(D)]
    order = torch.zeros(D, D)
    for i, place in enumerate(places):
        order[i, place] = 1
    h = hadamard(D)
    return (diag["S"].diag() @ h @ diag["G"].diag() @ order @ h @ diag["B"].diag())[None] / math.sqrt(D)


def generated(p, widths=(D,) * 6):
    x = frequencies(M, widths[0])
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        n = f"frequencies.layers.{i}."
        x = F.linear(x, p(n + "weight", outputs, inputs), p(n + "bias", outputs))
        if i < len(widths) - 2:
            n = f"frequencies.norms.{i}."
            x = F.batch_norm(x, None, None, p(n + "weight", outputs, base=1.0), p(n + "bias", outputs), True)
            x = F.leaky_relu(x, 0.01)
    return x.tanh()[None]


RELEASED_WIDTHS = (D // 2, 2 * D, 4 * D, D)


def mixture(p, full):
    """Two components that share their noise: Sigma_c n + mu_c, Sigma_c a matrix or a diagonal."""
    mean, noise = p("frequencies.mean", H, 2, 1, D), frequencies(1, 1, M // 2, D)
    if full:
        spread = torch.einsum("hcij,mj->hcmi", p("frequencies.scale", H, 2, D, D), noise[0, 0])
    else:
        spread = noise * p("frequencies.scale", H, 2, 1, D)
    return (spread + mean).reshape(H, M, D)


def released_mixture(p, full):
    mean = p("frequencies.mean", H, 1, D)
    if not full:
        return fill("frequencies.noise", (1, M, D)) * (p("frequencies.sigma", H, D)[:, None] / 2).exp() + mean
    spread = torch.einsum("hji,mj->hmi", p("frequencies.sigma", H, D, D), fill("frequencies.noise", (1, M // 2, D))[0])
    return torch.cat([spread + mean, spread - mean], 1)


def performer_skyformer(q, k, v, p):
    """Padded keys have weights, as zeros, and values of 0."""
    k, v = (x * KEYS[:, None, :, None] for x in (k, v))
    return positive(q, k, v, frequencies(1, M, D), 0.5, power=0.5, eps=1e-4, keys=EVERY)


def unnormalised(q, k, v, p):
    phi_q, phi_k = (torch.relu(x @ frequencies(1, M, D).transpose(-1, -2)) + 1e-3 for x in (q, k))
    weights = phi_q @ (phi_k * KEYS[:, None, :, None]).transpose(-1, -2) / M  # phi is over sqrt(M)
    return (weights.tril() if CAUSAL else weights) @ v


def hedgehog(causal=False, maps=1):
    def phi(x, w):
        u = x @ w.transpose(-1, -2)
        return F.softmax(torch.cat([u, -u], -1), -1)
    return lambda q, k, v, p: linear_attention(q, k, v, phi(q, p("Wq", H, maps * D, D)),
                                                     phi(k, p("Wk", H, maps * D, D)), causal)


MECHANISMS = {
    "linear-elu": lambda q, k, v, p: linear_attention(q, k, v, F.elu(q) + 1, F.elu(k) + 1),
    "performer": lambda q, k, v, p: positive(q, k, v, frequencies(1, M, D), 0.5),
    "performer-hyp": lambda q, k, v, p: positive(q, k, v, frequencies(1, M, D), 0.5, both=True),
    "performer-trig": lambda q, k, v, p: circle(q, k, v, frequencies(1, M, D), softmax=True),
    "performer-reg": lambda q, k, v, p: positive(q, k, v, STATE.get("frequencies.noise", hadamard(D)[None]), 0.5),  # orthogonal, of norm sqrt(D)
    "performer-relu": generalised(F.relu),
    "performer-sigmoid": generalised(torch.sigmoid),
    "performer-exp": exponential_kernel,
    "performer-abs": generalised(torch.abs),
    "performer-gelu": generalised(F.gelu),
    "performer-cos": generalised(torch.cos),
    "performer-tanh": generalised(torch.tanh),
    "performer-identity": generalised(lambda u: u),
    "performer-sgn": generalised(torch.sign),
    "fastfood-rks": lambda q, k, v, p: circle(q, k, v, fastfood(p, "SGB")),
    "fastfood-rks-s": lambda q, k, v, p: circle(q, k, v, fastfood(p, "S")),
    "fastfood-rks-fixed": lambda q, k, v, p: circle(q, k, v, fastfood(p, "")),
    "fastfood-prf": lambda q, k, v, p: positive(q, k, v, fastfood(p, "SGB"), 1.0, eps=0),
    "fastfood-prf-s": lambda q, k, v, p: positive(q, k, v, fastfood(p, "S"), 1.0, eps=0),
    "fastfood-prf-fixed": lambda q, k, v, p: positive(q, k, v, fastfood(p, ""), 1.0, eps=0),
    "generative-rks": lambda q, k, v, p: circle(q, k, v, generated(p)),
    "generative-prf": lambda q, k, v, p: positive(q, k, v, generated(p), 1.0, eps=0),
    "gmm-rks": lambda q, k, v, p: circle(q, k, v, mixture(p, True)),
    "gmm-rks diagonal": lambda q, k, v, p: circle(q, k, v, mixture(p, False)),
    "gmm-prf": lambda q, k, v, p: positive(q, k, v, mixture(p, False), 1.0, eps=0),
    "gmm-prf full": lambda q, k, v, p: positive(q, k, v, mixture(p, True), 1.0, eps=0),
    "hedgehog": hedgehog(),
    "hedgehog causal": hedgehog(causal=True),
    "hedgehog maps": hedgehog(maps=2),
    "linear-elu causal": lambda q, k, v, p: linear_attention(q, k, v, F.elu(q) + 1, F.elu(k) + 1, causal=True),
    "performer-relu unnormalised": unnormalised,
    # as released
    "linear-elu released": lambda q, k, v, p: linear_attention(q, k, v, F.elu(q) + 1, F.elu(k) + 1, keys=EVERY),
    "performer released": lambda q, k, v, p: linear_attention(q, k, v, F.relu(q) + 1e-3, F.relu(k) + 1e-3, keys=EVERY),
    "performer skyformer": performer_skyformer,
    "performer-relu released": lambda q, k, v, p: linear_attention(q, k, v, F.relu(q) + 1e-3, F.relu(k) + 1e-3),
    "performer-exp released": lambda q, k, v, p: linear_attention(q, k, v, torch.exp(q) + 1e-3, torch.exp(k) + 1e-3),
    "gmm-rks released": lambda q, k, v, p: circle(q, k, v, released_mixture(p, True), constant=math.sqrt(M / 2)),
    "gmm-prf released": lambda q, k, v, p: positive(q, k, v, released_mixture(p, False), 1.0, eps=0),
    "fastfood-rks released": lambda q, k, v, p: circle(q, k, v, fastfood(p, "SGB"), constant=math.sqrt(M)),
    "fastfood-prf released": lambda q, k, v, p: positive(q, k, v, fastfood(p, "SGB"), 1.0, eps=0),
    "generative-rks released": lambda q, k, v, p: circle(q, k, v, generated(p, RELEASED_WIDTHS), constant=math.sqrt(M)),
    "generative-prf released": lambda q, k, v, p: positive(q, k, v, generated(p, RELEASED_WIDTHS), 1.0, eps=0),
}


# ---- random draws: Philox4x32-10 as Bochner lays it out


class Philox:
    def __init__(self, seed):
        self.seed, self.offset = seed, 0

    @staticmethod
    def block(counter, seed):
        c, k = list(counter), [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        return c

    def next(self):
        n = self.offset // 4
        word = self.block((n & 0xFFFFFFFF, n >> 32, 0, 0), self.seed)[self.offset % 4]
        self.offset += 1
        return word

    def fork(self, stream):
        h = self.block((stream & 0xFFFFFFFF, stream >> 32, 0, 0x666F726B), self.seed)
        return Philox(h[0] | h[1] << 32)

    def for_places(self):
        low = self.next()
        return Philox(low | self.next() << 32)

    def uniform(self):
        x = self.next()
        return (x ^ self.next() << 21) * 2.0**-53 + 2.0**-54

    def normal_pair(self):
        radius, angle = math.sqrt(-2 * math.log(self.uniform())), 2 * math.pi * self.uniform()
        return [radius * math.sin(angle), radius * math.cos(angle)]

    def below(self, bound):
        while True:
            product = self.next() * bound
            if product & 0xFFFFFFFF >= 2**32 % bound:
                return product >> 32


# ---- exact kernels, Nystrom methods


def gaussian_kernel(x, y):
    return torch.exp(-torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").square() / 2)


def gaussian(causal=False):
    def run(q, k, v, p):
        c = gaussian_kernel(q * D**-0.25, k * D**-0.25) * KEYS[:, None, None, :]
        return (c.tril() if causal or CAUSAL else c) @ v

    return run


def iterated_inverse(a, s, steps=6):
    i, z = torch.eye(a.shape[-1]), a.transpose(-1, -2) / s
    for _ in range(steps):
        z = z @ (13 * i - a @ z @ (15 * i - a @ z @ (7 * i - a @ z))) / 4
    return z


def skyformer(released=False, exact=False):
    def run(q, k, v, p):
        noise = NOISE()
        u = [noise.uniform() for _ in range(M)]
        scale = 32**-0.25 if released else D**-0.25
        q, k = q * scale, k * scale
        if released:
            q, k = q * KEYS[:, None, :, None], k * KEYS[:, None, :, None]
        rows = []
        for n, nq in zip(REAL, QREAL):
            if released:
                rows.append([math.ceil(x * n) - 1 + (L if m >= M // 2 else 0) for m, x in enumerate(u)])
            else:
                rows.append([i if i < nq else i - nq + L for i in (math.ceil(x * (nq + n)) - 1 for x in u)])
        z = torch.stack([torch.cat([q, k], 2)[b][:, r] for b, r in enumerate(rows)])
        w = gaussian_kernel(z, z)
        value = (gaussian_kernel(z, k) * KEYS[:, None, None, :]) @ v
        if exact:
            return gaussian_kernel(q, z) @ torch.linalg.pinv(w, hermitian=True) @ value
        w = w + 0.1 * torch.eye(M)
        d = torch.diag_embed(w.sum(-1) ** -0.5)
        a = d @ w @ d
        s = a.sum(-2).amax() if released else a.sum(-2).amax(-1)[..., None, None]
        return gaussian_kernel(q, z) @ d @ iterated_inverse(a, s) @ d @ value

    return run


def skyformer_softmax(q, k, v, p):
    """Entries of the middle matrix divided by the largest, against which gamma counts."""
    noise = NOISE()
    u = [noise.uniform() for _ in range(M)]
    q, k = q * D**-0.25, k * D**-0.25
    rows = [[i if i < nq else i - nq + L for i in (math.ceil(x * (nq + n)) - 1 for x in u)] for n, nq in zip(REAL, QREAL)]
    z = torch.stack([torch.cat([q, k], 2)[b][:, r] for b, r in enumerate(rows)])
    w = z @ z.transpose(-1, -2)
    w = torch.exp(w - w.amax((-1, -2), keepdim=True)) + 0.1 * torch.eye(M)
    d = torch.diag_embed(w.sum(-1) ** -0.5)
    a = d @ w @ d
    keys = torch.exp(z @ k.transpose(-1, -2)) * KEYS[:, None, None, :]
    weights = torch.exp(q @ z.transpose(-1, -2)) @ d @ iterated_inverse(a, a.sum(-2).amax(-1)[..., None, None]) @ d @ keys
    return weights @ v / weights.sum(-1, keepdim=True)


def nystromformer(released=False):
    def run(q, k, v, p):
        real = KEYS[:, None, :, None]
        if released:
            q, k = q * real, k * real
        out = []
        for b in range(B):
            # As released, segments of the longest sequence, a power of 2: zeros behind the batch are in the means.
            nq, nk = (1 << (n - 1).bit_length() for n in (L, LK)) if released else (QREAL[b], REAL[b])
            count = min(M, nq, nk)
            qm, km = (torch.stack([x[:, m * n // count : (m + 1) * n // count].mean(1) for m in range(count)], 1) for x, n in ((F.pad(x, (0, 0, 0, max(0, n - x.size(1)))), n) for x, n in ((q[b], nq), (k[b], nk))))
            root = math.sqrt(D)
            f = torch.softmax(q[b] @ km.transpose(-1, -2) / root, -1)
            a = torch.softmax(qm @ km.transpose(-1, -2) / root, -1)
            g = torch.softmax((qm @ k[b].transpose(-1, -2) / root).masked_fill(~KEYS[b], -math.inf), -1)
            out.append((f, a, g @ v[b]))
        top = max(a.sum(-2).amax().item() for _, a, _ in out)
        if released:
            top = torch.stack([a.sum(-2).amax() for _, a, _ in out]).amax()
        o = torch.stack([f @ iterated_inverse(a, top if released else a.sum(-2).amax(-1)[:, None, None]) @ x for f, a, x in out])
        if released or L != LK:
            return o
        w = p("convolution", H, 3)
        u = F.pad(v * real, (0, 0, 1, 1))
        return o + sum(w[None, :, t, None, None] * u[:, :, t : t + L] for t in range(3))

    return run


# ---- patterns


def masked_softmax(scores, visible):
    """Rows that see nothing are zeros."""
    return torch.nan_to_num(torch.softmax(scores.masked_fill(~visible, -math.inf), -1))


def pattern(sees, every=False):
    """Softmax over the keys j of example b for which sees(i, j, n) holds, n being the number of its real tokens."""

    def run(q, k, v, p):
        visible = torch.tensor([[[j < n and sees(i, j, n) and not (CAUSAL and j > i) for j in range(LK)] for i in range(L)] for n in ([LK] * B if every else REAL)])
        return masked_softmax(q @ k.transpose(-1, -2) / math.sqrt(D), visible[:, None]) @ v

    return run


def local_released(q, k, v, p):
    """Blocks of 2 hold tokens n and n + 5, masked as the contiguous blocks are."""
    visible = torch.zeros(B, L, L, dtype=torch.bool)
    for b in range(B):
        for i in range(L):
            for r in range(2):
                visible[b, i, i % 5 + 5 * r] = KEYS[b, 2 * (i % 5) + r]
    return masked_softmax(q @ k.transpose(-1, -2) / math.sqrt(D), visible[:, None]) @ v


def bigbird(i, j, n):
    """Blocks of one token, one random."""
    if i >= n:
        return False
    if i in (0, n - 1) or j in (0, n - 1) or abs(i - j) <= 1:
        return True
    others = [x for x in range(1, n - 1) if abs(i - x) > 1]
    return bool(others) and others[Philox(int(STATE.get("seed", 3))).fork(i).below(len(others))] == j


def informer(few, every=False):
    """`few` of n: queries that attend, and keys that judge each query."""

    def run(q, k, v, p):
        noise = NOISE().for_places()
        out = []
        for b in range(B):
            nq, n = (L, LK) if every else (QREAL[b], REAL[b])
            qs, ks, vs = q[b], k[b], v[b]
            sampled = []
            for i in range(L):
                draw = noise.fork(i)
                sampled.append([draw.below(n) for _ in range(few(n))])
            s = torch.einsum("hid,hisd->his", qs, ks[:, torch.tensor(sampled)])
            m = (s.amax(-1) - s.sum(-1) / n)[:, :nq]
            best = m.topk(few(nq), -1).indices
            o = vs[:, :n].mean(1, keepdim=True).expand(H, L, v.shape[-1])
            full = torch.softmax(qs @ ks[:, :n].transpose(-1, -2) / math.sqrt(D), -1) @ vs[:, :n]
            active = torch.zeros(H, L, 1, dtype=torch.bool)
            for h in range(H):
                active[h, best[h]] = True
            out.append(torch.where(active, full, o))
        return torch.stack(out)

    return run


def few_of_paper(c):
    return lambda n: min(n, max(1, math.ceil(c * math.log(n))))


def few_of_sky(n):
    return min(n, math.ceil(128 / math.log(n)) * math.ceil(math.log(n)))


def reformer(chunk, rounds=2):
    """Two hashes make the bucket where one had to choose among more than 2 chunk values."""

    def hashed(x, n, r, source):
        """(h1, h2) of each token."""
        half = math.ceil(n / chunk)
        counts = [(half, r)]
        if half > chunk:
            root = math.ceil(math.sqrt(2 * half) / 2)
            counts = [(root, r), (math.ceil(half / (2 * root)), r + 2**32)]
        found = []
        for count, stream in counts:
            draw = source.fork(stream)
            flat = [y for _ in range(count * D // 2) for y in draw.normal_pair()]
            y = x.detach() @ torch.tensor(flat).view(count, D).T
            found.append(torch.cat([y, -y], -1).argmax(-1).tolist())
        return list(zip(*reversed(found)))

    def run(q, k, v, p):
        source = NOISE().for_places()
        keys = q / (norm2(q) + 1e-12).sqrt()
        result = []
        for b, n in enumerate(REAL):
            heads = []
            for h in range(H):
                x = q[b, h, :n]
                buckets = [hashed(x, n, r, source) for r in range(rounds)]
                scores = x @ keys[b, h, :n].T * D**-0.5
                os, zs = [], []
                for bucket in buckets:
                    order = sorted(range(n), key=lambda i: (bucket[i], i))
                    at = {token: place // chunk for place, token in enumerate(order)}
                    visible = torch.tensor([[bucket[i] == bucket[j] and at[i] - 1 <= at[j] <= at[i] for j in range(n)] for i in range(n)])
                    times = torch.tensor([[max(1, sum(c[i] == c[j] for c in buckets)) for j in range(n)] for i in range(n)])
                    off = times.log()
                    s = scores - off.masked_fill(torch.eye(n, dtype=torch.bool), 1e5)
                    s = s.masked_fill(~visible, -math.inf)
                    os.append(torch.softmax(s, -1) @ v[b, h, :n])
                    zs.append(s.logsumexp(-1))
                w = torch.softmax(torch.stack(zs, -1), -1)
                o = sum(w[:, r : r + 1] * os[r] for r in range(rounds))
                heads.append(F.pad(o, (0, 0, 0, L - n)))
            result.append(torch.stack(heads))
        return torch.stack(result)

    return run


def reformer_released(q, k, v, p):
    """The code of LRA: ten chunks in a circle, of which the last ones may be short or empty; queries are the keys as they
    are, and all of a chunk and of the one before are seen."""
    chunk = L // 10 + 1
    draw = Philox(0).fork(0)
    flat = [y for _ in range(5 * D // 2) for y in draw.normal_pair()]
    turned = q.detach() @ torch.tensor(flat).view(5, D).T
    buckets = torch.cat([turned, -turned], -1).argmax(-1)
    visible = torch.zeros(B, H, L, L, dtype=torch.bool)
    for b, h in itertools.product(range(B), range(H)):
        order = sorted(range(L), key=lambda i: (buckets[b, h, i].item(), i))
        at = torch.tensor([order.index(i) // chunk for i in range(L)])
        visible[b, h] = (at[:, None] - at[None, :]) % 10 <= 1
    return masked_softmax(q @ q.transpose(-1, -2) * math.sqrt(D), visible) @ v


LENGTH = 12
WHOLE = 16  # the power of two that SKY's code pads LENGTH to


def reformer_skyformer(chunk, values):
    """LSHSelfAttention of Hugging Face: rounds are sorted one behind the other, chunks see the one before in a circle, and
    all in them; `values` of h1 and h2. Padded queries that see no real key are zeros here."""

    def run(q, k, v, p):
        source = NOISE().for_places()
        result = []
        rotations = []
        for r in range(2):
            for i, count in enumerate(values):
                draw = source.fork(r + 2**32 * i)
                flat = [y for _ in range(H * count // 2 * D // 2) for y in draw.normal_pair()]
                rotations.append(torch.tensor(flat).view(H, count // 2, D))
        for b, n in enumerate(REAL):
            heads = []
            for h in range(H):
                x, y = (F.pad(t[b, h], (0, 0, 0, WHOLE - L)) for t in (q, v))
                keys = x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() / math.sqrt(D)
                entries = []  # (round, bucket, token)
                for r in range(2):
                    for token in range(WHOLE):
                        bucket, factor = 0, 1
                        for i, count in enumerate(values):
                            z = rotations[r * len(values) + i][h] @ x[token].detach()
                            bucket += factor * torch.cat([z, -z]).argmax().item()
                            factor *= count
                        entries.append((r, bucket if token < n else factor, token))
                entries.sort()
                os, zs = [[None] * WHOLE for _ in range(2)], [[None] * WHOLE for _ in range(2)]
                for at, (r, _, token) in enumerate(entries):
                    first = at // chunk * chunk
                    seen = [entries[i % len(entries)][2] for i in range(first - chunk, first + chunk)]
                    s = torch.stack([
                        torch.tensor(-1e5) if j == token else x[token] @ keys[j] if j < n else torch.tensor(-1e9) for j in seen])
                    os[r][token] = torch.softmax(s, -1) @ y[seen] * any(j < n for j in seen)
                    zs[r][token] = s.logsumexp(-1) if any(j < n for j in seen) else torch.tensor(-1e30)
                w = torch.softmax(torch.stack([torch.stack(z) for z in zs]), 0)
                heads.append(sum(w[r][:, None] * torch.stack(os[r]) for r in range(2))[:L])
            result.append(torch.stack(heads))
        return torch.stack(result)

    return run


def bigbird_skyformer(q, k, v, p):
    """Blocks of one token, one random of each head among the blocks 1 to 5; the last block is padding."""
    visible = torch.zeros(B, H, L, L, dtype=torch.bool)
    for b, h, i, j in itertools.product(range(B), range(H), range(L), range(L)):
        others = [x for x in range(1, 6) if abs(i - x) > 1 and {i, x} != {1, 5}]
        chosen = others[Philox(3).fork(h * WHOLE + i).below(len(others))]
        visible[b, h, i, j] = j < REAL[b] and (i == 0 or j == 0 or abs(i - j) <= 1 or j == chosen)
    return masked_softmax(q @ k.transpose(-1, -2) / math.sqrt(D), visible) @ v


def linformer(q, k, v, p):
    e, f = p("E", H, M, LENGTH), p("F", H, M, LENGTH)
    real = KEYS[:, None, :, None]
    return torch.softmax(q @ (e[..., :LK] @ (k * real)).transpose(-1, -2) / math.sqrt(D), -1) @ (f[..., :LK] @ (v * real))


def linformer_released(q, k, v, p):
    e = p("E", 1, M, LENGTH)[..., :L]
    return torch.softmax(q @ (e @ k).transpose(-1, -2) / math.sqrt(D), -1) @ (e @ v)


def linformer_skyformer(q, k, v, p):
    """E is no parameter."""
    e, real = fill("E", (H, M, LENGTH), 0.5)[..., :L], KEYS[:, None, :, None]
    return torch.softmax(q @ (e @ (k * real)).transpose(-1, -2) / math.sqrt(D), -1) @ (e @ (v * real))


def synthesizer(released=False, synthesis="random", causal=False):
    def run(q, k, v, p):
        if synthesis == "random":
            r = p("R", H, LENGTH, LENGTH)[:, :L, :LK].expand(B, H, L, LK)
        elif synthesis == "factorized":
            r1, r2 = (p(name, H, LENGTH, M)[:, :n] for name, n in (("R1", L), ("R2", LK)))
            r = (r1 @ r2.transpose(-1, -2)).expand(B, H, L, LK)
        else:
            r = F.relu(q @ p("W1", H, D, D)) @ p("W2", H, D, LENGTH)[..., :LK]
        if released:
            r = r + q @ k.transpose(-1, -2) / math.sqrt(D)
        visible = KEYS[:, None, None, :].expand(B, 1, L, LK)
        return masked_softmax(r, visible.tril() if causal or CAUSAL else visible) @ v

    return run


def sinkhorn_released(q, k, v, p):
    """The code of LRA: block m of 2 holds tokens m and m + n, its mask is that of tokens 2 m and 2 m + 1, and the output for
    the sum of all blocks is added to that of the own one."""
    n = (L + 1) // 2
    qb, kb, vb = (F.pad(x, (0, 0, 0, 2 * n - L)).reshape(B, H, 2, n, D).transpose(2, 3) for x in (q, k, v))
    real = F.pad(KEYS, (0, 2 * n - L)).view(B, 1, n, 1, 2)

    def attention(keys, values, visible):
        return masked_softmax(qb @ keys.transpose(-1, -2) / math.sqrt(D), visible) @ values

    o = attention(kb, vb, real) + attention(kb.sum(2, keepdim=True), vb.sum(2, keepdim=True), real.any(2, keepdim=True))
    return o.transpose(2, 3).reshape(B, H, 2 * n, D)[:, :, :L]


def sinkhorn():
    def run(q, k, v, p):
        """Blocks of 2; of an odd length the last one is filled up with nothing."""
        n = (L + 1) // 2
        q, k, v = (F.pad(x, (0, 0, 0, 2 * n - L)) for x in (q, k, v))
        real = F.pad(KEYS, (0, 2 * n - L))[:, None, :, None]

        def blocks(x):
            return x.reshape(*x.shape[:2], n, 2, -1)

        kb, vb = (blocks(x * real) for x in (k, v))
        x = kb.sum(3)
        x = F.relu(x @ p("W", H, D, D) + p("W_bias", H, 1, D))
        s = (x @ p("B", H, D, LENGTH // 2)[..., :n] + p("B_bias", H, 1, LENGTH // 2)[..., :n]) / 0.75
        rows = []
        for b, real_tokens in enumerate(REAL):
            m = (real_tokens + 1) // 2
            t = s[b, :, :m, :m]
            for _ in range(6):
                t = t - t.logsumexp(-1, keepdim=True)
                t = t - t.logsumexp(-2, keepdim=True)
            rest = torch.eye(n - m).expand(H, n - m, n - m)
            rows.append(torch.cat([F.pad(t.exp(), (0, n - m)), F.pad(rest, (m, 0))], 1))
        r = torch.stack(rows)
        ks, vs = (torch.einsum("bhnm,bhmtd->bhntd", r, x) for x in (kb, vb))
        own = blocks(real)[..., 0][..., None, :]
        # Each place of a sorted block is a mean over the blocks that hold a token there.
        share = r @ own[..., 0, :].to(r.dtype) / r.sum(-1, keepdim=True)
        ks, vs = (x / torch.where(share > 0, share, torch.ones(()))[..., None] for x in (ks, vs))
        visible = torch.cat([own, own.any(2, keepdim=True).expand(B, 1, n, 1, 2)], -1)
        scores = blocks(q) @ torch.cat([kb, ks], 3).transpose(-1, -2) / math.sqrt(D)
        o = masked_softmax(scores, visible) @ torch.cat([vb, vs], 3)
        return o.reshape(B, H, 2 * n, D)[:, :, :L]

    return run


MECHANISMS |= {
    "softmax": pattern(lambda i, j, n: True),
    "softmax causal": pattern(lambda i, j, n: j <= i),
    "gaussian": gaussian(),
    "gaussian causal": gaussian(causal=True),
    "none": lambda q, k, v, p: v * 1,
    "skyformer": skyformer(),
    "skyformer exact": skyformer(exact=True),
    "skyformer released": skyformer(released=True),
    "skyformer softmax": skyformer_softmax,
    "nystromformer": nystromformer(),
    "nystromformer released": nystromformer(released=True),
    "linformer": linformer,
    "linformer released": linformer_released,
    "linformer skyformer": linformer_skyformer,
    "informer": informer(few_of_paper(1)),
    "informer c=3": informer(few_of_paper(3)),
    "informer released long": informer(few_of_sky, every=True),
    "informer released": pattern(lambda i, j, n: True, every=True),  # 128 queries or more attend: here all, beside "long"
    "reformer": reformer(chunk=2),
    "reformer wide": reformer(chunk=4),
    "reformer released": reformer_released,  # chunks of 2, too few for a circle
    "reformer released long": reformer_released,
    "reformer skyformer": reformer_skyformer(8, [4]),
    "reformer skyformer narrow": reformer_skyformer(2, [4, 4]),
    "bigbird": pattern(bigbird),
    "bigbird skyformer": bigbird_skyformer,
    "longformer": pattern(lambda i, j, n: abs(i - j) <= 2 or i < 1 or j < 1),
    "longformer causal": pattern(lambda i, j, n: j <= i and (i - j <= 2 or j < 1)),
    "longformer released": pattern(lambda i, j, n: abs(i - j) <= 2),
    "local": pattern(lambda i, j, n: i // 2 == j // 2),
    "local causal": pattern(lambda i, j, n: i // 2 == j // 2 and j <= i),
    "local released": local_released,
    # Blocks of 4, as 2 is below the square root of the length.
    "sparse": pattern(lambda i, j, n: i // 4 == j // 4 or j % 4 == 3),
    "sparse causal": pattern(lambda i, j, n: j <= i and (i // 4 == j // 4 or j % 4 == 3)),
    "sparse released": pattern(lambda i, j, n: i == 0 or j == 0 or (j <= i and ((i - 1) // 4 == (j - 1) // 4 or (j - 1) % 4 in (0, 3)))),
    "sinkhorn": sinkhorn(),
    "sinkhorn released": sinkhorn_released,
    "synthesizer": synthesizer(),
    "synthesizer causal": synthesizer(causal=True),
    "synthesizer factorized": synthesizer(synthesis="factorized"),
    "synthesizer dense": synthesizer(synthesis="dense"),
    "synthesizer released": synthesizer(released=True),
}


def numbers(x, step):
    """Every third entry, which no shape here divides; fewer of long ones."""
    return [float(f"{y:.12g}") for y in x.detach().flatten()[::step].tolist()]


def golden(name, mechanism):
    long = name.endswith(" long")
    length, step = (200, 61) if long else (10, 3)
    setting(length, length, [length, 7])
    q, k, v = (fill(n, (B, H, length, D)).clone().requires_grad_() for n in "QKV")
    parameters = Parameters()
    o = mechanism(q, k, v, parameters)
    o.backward(fill("dO", (B, H, length, D)))
    found = {"O": o, "dQ": q.grad, "dK": k.grad, "dV": v.grad}
    found = {n: x if x is not None else torch.zeros(B, H, length, D) for n, x in found.items()}
    return {n: numbers(x, step) for n, x in found.items()} | {
        "d" + n: numbers(x.grad if x.grad is not None else torch.zeros_like(x), step) for n, x in parameters.all.items()
    }


# ---- the same through the program `attention`


def write_safetensors(path, tensors):
    header, parts, at = {}, [], 0
    for name, x in tensors.items():
        raw = x.detach().contiguous().double().numpy().tobytes()
        header[name] = {"dtype": "F64", "shape": list(x.shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        parts.append(raw)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(parts))


def read_safetensors(path):
    kinds = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64, "U64": torch.int64}
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            begin, end = (start + x for x in entry["data_offsets"])
            flat = torch.frombuffer(bytearray(data[begin:end]), dtype=kinds[entry["dtype"]]) if end > begin else torch.zeros(0)
            found[name] = flat.view(entry["shape"]).double()
    return found


SMALL = "features=8 length=12 block=2 random-blocks=1 summary=1 hashes=2 factor=1 convolution=3"
SELF_ONLY = {"none", "reformer", "bigbird", "longformer", "local", "sparse", "sinkhorn"}
NO_CAUSAL = {"skyformer", "nystromformer", "linformer", "informer", "reformer", "bigbird", "sinkhorn"}
ONE_FORM = NO_CAUSAL | {"none", "longformer", "local", "sparse", "synthesizer"}
VARIANTS = {  # by the rest of their names
    "diagonal": "covariance=diagonal", "full": "covariance=full", "factorized": "synthesis=factorized", "dense": "synthesis=dense",
    "softmax": "kernel=softmax", "unnormalised": "renormalise=false", "wide": "block=4", "c=3": "factor=3",
}


def call(name, options, causal, tensors, folder):
    write_safetensors(folder + "/in.safetensors", tensors)
    command = ["build/bin/attention", "--io", folder + "/in.safetensors", "--out", folder + "/out.safetensors", "--attention", name]
    command += ["--causal"] if causal else []
    # Not on the command line, which takes no options of other mechanisms.
    settings = dict(option.split("=") for option in options.split())
    environment = {"BOCHNER_MECHANISM_" + key.upper().replace("-", "_"): value for key, value in settings.items()}
    # BatchNorm by the statistics of its batch, as the references have it.
    command += ["--training"] if name.startswith("generative") else []
    answer = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if answer.returncode:
        raise SystemExit(" ".join(command) + "\n" + answer.stderr)
    return read_safetensors(folder + "/out.safetensors")


def compared(name, reference, queries, keys, real, causal, scale, options, folder):
    """The largest difference of each result, over the largest entry of the reference."""
    torch.manual_seed(queries * 100 + keys)
    q, k, v = (torch.randn(B, H, n, D) for n in (queries, keys, keys))
    q, k = q * scale, k * scale
    g = torch.randn(B, H, queries, D)
    mask = torch.arange(keys)[None, :] < torch.tensor(real)[:, None]
    found = call(name, options, causal, {"Q": q, "K": k, "V": v, "mask": mask.double(), "dO": g}, folder)
    setting(queries, keys, real, causal, lambda: Philox(1).fork(1), found)
    parameters = Parameters()
    for x in (q, k, v):
        x.requires_grad_()
    parameters.all = {n[1:]: found[n[1:]].clone().requires_grad_() for n in found if n[1:] in found and n.startswith("d")}
    o = reference(q, k, v, parameters)
    o.backward(g)
    expected = {"O": o.detach(), "dQ": q.grad, "dK": k.grad, "dV": v.grad} | {"d" + n: x.grad for n, x in parameters.all.items()}
    # Padded queries have results that nobody reads.
    seen = mask[:, None, :, None].double() if queries == keys else torch.ones(B, 1, queries, 1)
    worst = {}
    for n, x in expected.items():
        x = torch.zeros_like(found[n]) if x is None else x
        by = seen if n in ("O", "dQ") else 1.0
        worst[n] = ((found[n] - x) * by).abs().max().item() / max(1.0, (x * by).abs().max().item())
    return worst


def compare():
    total, bad = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for full_name, reference in MECHANISMS.items():
            name, _, variant = full_name.partition(" ")
            if variant and variant not in VARIANTS or "released" in variant:
                continue
            options = SMALL + " " + VARIANTS.get(variant, "") + (" block=1" if name == "bigbird" else "")
            options += " block=4" if name == "sparse" else ""
            worst, where, count = {}, {}, 0
            lengths = [(11, 11), (7, 7)] if name in SELF_ONLY else [(11, 11), (5, 11), (12, 3)]
            forms = [""] if name in ONE_FORM else [" streaming=true", " streaming=false"]
            causals = [False] if name in NO_CAUSAL else [False, True]
            for (queries, keys), causal, form, scale in itertools.product(lengths, causals, forms, (1, 3)):
                # Padded but for one pair of lengths. Where eps is not 0, both sides take the shift as a constant.
                # At least 3 real keys: of 2, informer's samples are often one key twice, and its choice a tie.
                real = [keys, keys if queries == 5 else max(3, (keys + 1) // 2)]
                found = compared(name, reference, queries, keys, real, causal, scale, options + form, folder)
                count += len(found)
                for n, x in found.items():
                    n = n if n in ("O", "dQ", "dK", "dV") else "parameters"
                    if not x <= worst.get(n, 0):
                        worst[n] = x
                        where[n] = (queries, keys, real, causal, form, scale)
            total += count
            shown = "  ".join(f"{n} {x:.1e}" for n, x in worst.items())
            largest = max(worst.values(), key=lambda x: math.inf if math.isnan(x) else x, default=0)
            is_bad = not largest <= 1e-10
            bad += is_bad
            print(f"{full_name:<28} {count:>5} tensors  {shown or 'equal to the bit'}" + (f"  at {where}" if is_bad else ""), flush=True)
    print(f"{total} tensors, {bad} mechanisms beyond 1e-10")


if __name__ == "__main__":
    if sys.argv[1:] == ["--compare"]:
        compare()
    else:
        print("{" + ",\n".join(f'"{n}": {json.dumps(golden(n, m))}' for n, m in MECHANISMS.items()) + "}")
