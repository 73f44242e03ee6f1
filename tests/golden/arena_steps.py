#!/usr/bin/env python3
"""The arena's models in PyTorch: repeats training steps that `lra --record` wrote, and tells how far the losses are apart.

  arena_steps.py [--float32] FILE...           compares; prints a record as JSON (docs/results/agreement/*.json)
  arena_steps.py --record LRA DATA FOLDER [PROTOCOL.TASK[.ATTENTION]...]
                                               writes the files of RUNS first, with the program LRA on the data in DATA

Only weights, batches and the numbers of random features come from the file. Models, losses, derivatives, optimizer and
schedule are PyTorch's own or written here from the papers. Made with PyTorch 2; sums in float64 unless --float32.
"""
import configparser
import io
import json
import math
import os
import pathlib
import subprocess
import sys

import torch
import torch.nn.functional as F
from safetensors import safe_open

STEPS = 100
# No dropout, and random features stay; the warm-up ends within the steps, at the protocol's highest rate.
COMMON = ["--batch=2", f"--steps={STEPS}", "--model.dropout=0", "--threads=1"]
ENVIRONMENT = {"BOCHNER_MODEL_MECHANISM_DROPOUT": "0", "BOCHNER_MODEL_REDRAW": "0"}  # for attentions that have them
SKY = ["--optim.warmup=10", "--optim.cycle-beta1=true"]
KL = ["--optim.warmup=10", "--optim.rate=1.77e-3"]  # 5e-2 / sqrt(8000) = 1.77e-3 / sqrt(10); the arena's retrieval has it, too
SHORT = ["--listops.train-examples=1000", "--listops.valid-examples=100", "--listops.test-examples=100"]  # of full length
# 5e-3 / sqrt(1000) = 5e-4 / sqrt(10); in lra both are ten times more.
LISTOPS = [*SHORT, "--batch=1", "--optim.warmup=10", "--optim.rate=5e-4"]
SLOWLY = "--optim.rate=0.0005"  # at the rate of the protocol the steps of single examples are chaotic
PAIR = ["--batch=1"]  # of two documents
IMAGES = ["--image.partial=true", "--batch=4", "--optim.warmup=10"]
ALL = ["softmax", "performer", "gmm-prf", "skyformer"]
KERNELS = ["softmax", "performer", "gmm-prf"]  # KL has no Skyformer, and no pathfinder
ROTARY = ["--seconds=0", "--optim.warmup=10"]  # ours, which ends by time
ON_IMAGES = ["--image.partial=true", "--batch=4", "--model.positions=rotary-2d"]
CONVOLVED = ["--model.convolution=7", "--model.pooling=max"]
# Protocol, the task whose settings it has, the task whose data are read, mechanisms, more options. Films are pairs of
# documents as those of retrieval, whose tables could not be had.
RUNS = [
    ("lra", "image", "image", ALL, IMAGES),
    ("skyformer", "image", "image", ALL, [*SKY, *IMAGES]),
    ("kl", "image", "image", KERNELS, IMAGES),
    ("lra", "pathfinder", "pathfinder", ALL, ["--batch=4", "--optim.warmup=10"]),
    ("skyformer", "pathfinder", "pathfinder", ALL, [*SKY, "--batch=4"]),
    ("lra", "pathx", "pathx", ALL, ["--optim.warmup=10"]),
    ("skyformer", "listops", "listops", ALL, [*SKY, *SHORT]),
    ("skyformer", "listops", "listops", ["performer", "skyformer"], [*SKY, *SHORT, "--model.as=paper"]),
    ("kl", "listops", "listops", KERNELS, LISTOPS),
    ("lra", "listops", "listops", ALL, [*LISTOPS, "--optim.rate=5e-3"]),
    ("lra", "listops", "listops", ["skyformer"], [*LISTOPS, SLOWLY]),
    ("skyformer", "text", "text", ALL, SKY),
    ("kl", "text", "text", KERNELS, KL),
    ("lra", "text", "text", ALL, KL),
    ("lra", "text", "text", ["skyformer"], [*KL, SLOWLY]),
    ("skyformer", "retrieval", "films", ALL, [*SKY, *PAIR]),
    ("kl", "retrieval", "films", KERNELS, [*KL, *PAIR]),
    ("lra", "retrieval", "films", ALL, [*KL, *PAIR]),
    ("rotary", "text", "text", ["gmm-prf"], ROTARY),
    ("rotary", "image", "image", ["gmm-prf"], [*ROTARY, *ON_IMAGES]),
    ("rotary", "text", "text", ["linear-elu"], [*ROTARY, *CONVOLVED]),
    ("rotary", "image", "image", ["linear-elu"], [*ROTARY, *ON_IMAGES, *CONVOLVED, "--model.pixels=intensity"]),
]
IMAGE_TASKS = ("image", "pathfinder", "pathx")  # whose tokens are the pixels of a square, row by row
PRESETS = pathlib.Path(__file__).resolve().parents[2] / "experiments/lra/presets"


# ---- random numbers: Philox4x32-10 (Salmon et al., SC 2011), two 32-bit words for a float64 in (0, 1]


def philox_words(seed, offset, count):
    words = []
    for block in range(offset // 4, (offset + count + 3) // 4):
        x, y, z, w = block & 0xFFFFFFFF, block >> 32, 0, 0
        k0, k1 = seed & 0xFFFFFFFF, seed >> 32
        for _ in range(10):
            a, b = 0xD2511F53 * x, 0xCD9E8D57 * z
            x, y, z, w = (b >> 32) ^ y ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ w ^ k1, a & 0xFFFFFFFF
            k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
        words += [x, y, z, w]
    return words[offset % 4:offset % 4 + count]


class Noise:
    def __init__(self, seed, offset):
        self.seed, self.offset = seed % 2**64, offset % 2**64

    def uniform(self, count):
        words = philox_words(self.seed, self.offset, 2 * count)
        self.offset += -(-2 * count // 4) * 4
        return [(words[2 * i] ^ words[2 * i + 1] << 21) * 2**-53 + 2**-54 for i in range(count)]


# ---- attention: q, k, v (batch, heads, length, dim), mask (batch, length)


def softmax(model, place, q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :].expand(-1, -1, q.shape[2], -1))


def positive_features(q, k, v, keys, omega, norm, eps, power=0.25):
    """phi(x) = exp(omega x - norm |x|^2) + eps of the largest; O = phi(Q) (phi(K)^T V) / (phi(Q) phi(K)^T 1)"""
    q, k = (x * x.shape[-1]**-power for x in (q, k))
    u, w = (x @ omega.transpose(-1, -2) - norm * x.square().sum(-1, keepdim=True) for x in (q, k))
    w = w.masked_fill(~keys, -math.inf)
    phi_q = torch.exp(u - u.detach().amax(-1, keepdim=True)) + eps
    phi_k = (torch.exp(w - w.detach().amax((-1, -2), keepdim=True)) + eps) * keys
    return phi_q @ (phi_k.transpose(-1, -2) @ v) / (phi_q @ phi_k.sum(-2)[..., None])


def performer(model, place, q, k, v, mask):
    omega, keys = model.p[place + "frequencies.noise"][0], mask[:, None, :, None]  # (M, D)
    if model.options["as"] == "skyformer":  # scaled twice; padded keys are 0 and count in the sums of weights
        return positive_features(q, k * keys, v * keys, torch.ones_like(keys), omega, 0.5, 1e-4, 0.5)
    return positive_features(q, k, v, keys, omega, 0.5, model.options["mechanism"]["eps"])


def gmm_prf(model, place, q, k, v, mask):
    """omega = sigma n + mu of each Gaussian, or +-mu where the mixture is tied (KL Eq. 10, footnote 2)"""
    noise, mean, scale = (model.p[place + "frequencies." + name] for name in ("noise", "mean", "scale"))
    spread = noise * scale  # (H, 1 or C, M / C, D)
    if model.options["mechanism"]["mixture"] == "tied":
        omega = torch.cat([spread + mean, spread - mean], 1)
    else:
        omega = spread + mean
    return positive_features(q, k, v, mask[:, None, :, None], omega.flatten(1, 2), 1.0, 0.0)


def gaussian_kernel(x, y):
    return torch.exp(-(x[..., :, None, :] - y[..., None, :, :]).square().sum(-1) / 2) if x.shape[-2] * y.shape[-2] < 2**16 else \
        torch.exp(x @ y.transpose(-1, -2) - x.square().sum(-1)[..., :, None] / 2 - y.square().sum(-1)[..., None, :] / 2)


def skyformer(model, place, q, k, v, mask):
    """kappa(Q, Z) (kappa(Z, Z) + gamma I)^-1 kappa(Z, K) V (SKY Eqs. 4-6, §4.4)"""
    options = model.options["mechanism"]
    assert options["kernel"] == "gaussian" and not options["exact-inverse"]
    sky = model.options["as"] == "skyformer"  # heads of 32; zeros for padding; landmarks half of each; one scale for all
    q, k = (x * (32 if sky else x.shape[-1])**-0.25 for x in (q, k))
    if sky:
        q, k = (x * mask[:, None, :, None] for x in (q, k))
    u = model.noise.uniform(model.options["features"])
    rows = []
    for real in mask:
        tokens = real.nonzero()[:, 0].tolist()
        both = tokens + [len(real) + t for t in tokens]
        if sky:
            rows.append([math.ceil(x * len(tokens)) - 1 + (m >= len(u) // 2) * len(real) for m, x in enumerate(u)])
        else:
            rows.append([both[max(0, math.ceil(x * len(both)) - 1)] for x in u])
    index = torch.tensor(rows)[:, None, :, None].expand(-1, q.shape[1], -1, q.shape[3])
    z = torch.cat([q, k], 2).gather(2, index)
    w = gaussian_kernel(z, z) + options["gamma"] * torch.eye(z.shape[2], dtype=z.dtype)
    root = w.sum(-1, keepdim=True).sqrt()
    a = w / root / root.transpose(-1, -2)
    columns = a.sum(-2, keepdim=True)
    inverse = a.transpose(-1, -2) / (columns.amax() if sky else columns.amax(-1, keepdim=True))
    eye = torch.eye(z.shape[2], dtype=z.dtype)
    for _ in range(options["iterations"]):
        av = a @ inverse
        inverse = inverse @ (13 * eye - av @ (15 * eye - av @ (7 * eye - av))) / 4
    zk = gaussian_kernel(z, k) * mask[:, None, None, :]
    return gaussian_kernel(q, z) @ (inverse @ (zk @ v / root) / root)


def linear_elu(model, place, q, k, v, mask):
    """phi(x) = elu(x) + 1 (Katharopoulos et al., 2020, Eqs. 5, 7)"""
    q, k = F.elu(q) + 1, (F.elu(k) + 1) * mask[:, None, :, None]
    return q @ (k.transpose(-1, -2) @ v) / (q @ k.sum(-2)[..., None])


ATTENTION = {"softmax": softmax, "performer": performer, "gmm-prf": gmm_prf, "skyformer": skyformer, "linear-elu": linear_elu}


def turned(x, width):
    """Numbers j and j + D / 2 of a vector as one complex number, times exp(i p w_j): p the place in the sequence and
    w_j = 10000^(-2 j / D) (RoFormer Eqs. 14, 15, 34), or, in images of that width, the row for the first half of j and the
    column for the other, w_j = 100^(-4 j / D) (Heo et al., 2024, section 3.2)"""
    length, dim = x.shape[-2:]
    places = torch.arange(length, dtype=torch.float64)
    if width == 0:
        angles = places[:, None] * 10000**-(torch.arange(dim // 2, dtype=torch.float64) * 2 / dim)
    else:
        w = 100**-(torch.arange(dim // 4, dtype=torch.float64) * 4 / dim)
        angles = torch.cat([(places // width)[:, None] * w, (places % width)[:, None] * w], 1)
    z = torch.complex(x[..., :dim // 2], x[..., dim // 2:])
    z = z * torch.polar(torch.ones_like(angles), angles).to(z)
    return torch.cat([z.real, z.imag], -1)


def convolved(v, mask, taps, width):
    """A filter for each number of a token, along the sequence or over an image of that width; padding is zeros."""
    batch, heads, length, dim = v.shape
    x = (v * mask[:, None, :, None]).transpose(2, 3).reshape(batch, heads * dim, -1, width or length)
    taps = taps.permute(3, 0, 1, 2)  # (numbers, 1, rows, columns)
    y = F.conv2d(x, taps, padding=(taps.shape[2] // 2, taps.shape[3] // 2), groups=heads * dim)
    return y.reshape(batch, heads * dim, length).transpose(1, 2)


# ---- the model


def sinusoids(length, dim):
    angle = torch.arange(length, dtype=torch.float64)[:, None] / 10000**(torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :dim]


class Model:
    def __init__(self, weights, options, about):
        self.p, self.options, self.about, self.noise = weights, options, about, None
        self.heads = options["heads"]
        self.width = math.isqrt(int(about["max_length"])) if json.loads(about["config"])["task"] in IMAGE_TASKS else 0
        assert options["as"] in ("paper", "skyformer") and options["block"] == "pre-norm"

    def linear(self, name, x):
        return F.linear(x, self.p[name + ".weight"], self.p.get(name + ".bias"))

    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.p[name + ".weight"], self.p[name + ".bias"], self.options["norm-eps"])

    def block(self, b, x, mask):
        batch, length, _ = x.shape
        qkv = self.linear(b + "attention.qkv", self.norm(b + "norm1", x)).view(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if self.options["positions"] in ("rotary", "rotary-2d"):
            q, k = (turned(each, self.width if self.options["positions"] == "rotary-2d" else 0) for each in (q, k))
        o = ATTENTION[self.about["attention"]](self, b + "attention.mechanism.", q, k, v, mask)
        o = o.transpose(1, 2).reshape(batch, length, -1)
        if self.options["convolution"] > 0:
            o = o + convolved(v, mask, self.p[b + "attention.convolution"], self.width)
        x = x + self.linear(b + "attention.out", o)
        approximate = {"gelu": "none", "gelu-tanh": "tanh"}[self.options["activation"]]
        hidden = F.gelu(self.linear(b + "feed_forward.in", self.norm(b + "norm2", x)), approximate=approximate)
        return x + self.linear(b + "feed_forward.out", hidden)

    def vectors(self, ids, mask):
        weight = self.p["tokens.weight"]
        if self.options["pixels"] == "intensity":  # a line along the greys, which are -1 to 1
            x = weight[0] + (2 * ids[..., None].to(weight.dtype) / (int(self.about["vocabulary"]) - 1) - 1) * weight[1]
        else:
            x = F.embedding(ids, weight)
        if "cls" in self.p:
            x = torch.cat([self.p["cls"].expand(len(x), 1, -1), x], 1)
            mask = torch.cat([torch.ones_like(mask[:, :1]), mask], 1)
        if self.options["positions"] == "learned":
            x = x + self.p["positions"][:x.shape[1]]
        elif self.options["positions"] == "sinusoidal":
            x = x + sinusoids(x.shape[1], x.shape[2]).to(x)
        for i in range(self.options["layers"]):
            x = self.block(f"blocks.{i}.", x, mask)
        x = self.norm("norm", x)
        if self.options["pooling"] in ("cls", "first"):
            return x[:, 0]
        if self.options["pooling"] == "max":
            return x.masked_fill(~mask[..., None], -math.inf).amax(1)
        total = (x * mask[..., None]).sum(1)
        padded = self.options["pooling"] == "mean-padded"
        return total / (int(self.about["max_length"]) if padded else mask.sum(1, keepdim=True))

    def __call__(self, ids, mask):
        pairs = ids.dim() == 3
        x = self.vectors(ids.flatten(0, 1), mask.flatten(0, 1)) if pairs else self.vectors(ids, mask)
        if pairs:
            u, v = x.view(len(ids), 2, -1).unbind(1)
            x = torch.cat([u, v], 1) if self.options["pair"] == "arena" else torch.cat([u, v, u * v, u - v], 1)
        for layer in ("classifier.hidden", "classifier.narrow"):
            if layer + ".weight" in self.p:
                x = F.relu(self.linear(layer, x))
        return self.linear("classifier.classes", x)


# ---- training


def make_optimizer(parameters, optim, steps):
    """AdamW, and what gives each step its rate."""
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[optim["optimizer"]]
    optimizer = kind(parameters, lr=optim["rate"], betas=(optim["beta1"], optim["beta2"]), eps=optim["eps"],
                     weight_decay=optim["weight-decay"])
    warmup, rate = optim["warmup"], optim["rate"]
    if optim["schedule"] == "one-cycle":
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=warmup / steps,
                                                    anneal_strategy="linear", cycle_momentum=optim["cycle-beta1"])
        return optimizer, lambda step: step > 0 and cycle.step()
    at = {"constant": lambda t: min(1, t / warmup),
          "linear": lambda t: min(1, t / warmup, (steps - t) / (steps - warmup)),
          "rsqrt": lambda t: min(1, t / warmup) / math.sqrt(max(t, warmup)),
          "cosine": lambda t: t / warmup if t < warmup else 0.5 + 0.5 * math.cos(math.pi * (t - warmup) / (steps - warmup))}

    def set_rate(step):
        for group in optimizer.param_groups:
            group["lr"] = rate * at[optim["schedule"]](step)
    return optimizer, set_rate


def repeat(path, dtype):
    with safe_open(path, "pt") as file:
        about = file.metadata()
        config = json.loads(about["config"])
        names = list(file.keys())
        ours = file.get_tensor("losses").tolist()
        noise = file.get_tensor("noise").tolist()
        weights = {n[len("weights."):]: file.get_tensor(n) for n in names if n.startswith("weights.")}
        weights = {n: t.to(dtype) if t.is_floating_point() else t for n, t in weights.items()}
        learnt = [t.requires_grad_() for n, t in weights.items() if t.is_floating_point() and not n.endswith(".noise")]
        model = Model(weights, config["model"], about)
        optim = config["optim"]
        optimizer, set_rate = make_optimizer(learnt, optim, config["steps"])
        theirs, longest = [], 0
        for step in range(len(ours)):
            batch = {n: file.get_tensor(f"step.{step}.{n}") for n in ("ids", "mask", "labels") if f"step.{step}.{n}" in names}
            mask = batch.get("mask", torch.ones_like(batch["ids"], dtype=torch.bool))
            longest = max(longest, batch["ids"].shape[-1])
            model.noise = Noise(*noise[step])
            set_rate(step)
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(batch["ids"], mask), batch["labels"])
            loss.backward()
            if optim["clip-norm"] > 0:
                torch.nn.utils.clip_grad_norm_(learnt, optim["clip-norm"])
            if optim["clip-value"] > 0:
                torch.nn.utils.clip_grad_value_(learnt, optim["clip-value"])
            optimizer.step()
            theirs.append(loss.item())
    apart = [abs(a - b) for a, b in zip(ours, theirs)]
    sources = {"git": about["git"], "build": {"compiler": about["compiler"]}, "seed": config["seed"]}
    protocol, task = pathlib.Path(path).name.split(".")[:2]
    name = about["attention"]
    if config["model"]["convolution"] > 0:
        name += f" with a convolution of {config['model']['convolution']}, pooling by {config['model']['pooling']}"
    return sources, [protocol, task if task == config["task"] else f"{task}'s, on {config['task']}", name, config["model"]["as"], str(longest), str(len(ours)), f"{ours[0]:.4f}",
            f"{sum(ours[-10:]) / len(ours[-10:]):.4f}", f"{max(apart):.1e}", "float64" if dtype == torch.float64 else "float32"]


def settings(protocol, task, attention, folder):
    """The preset as a config file, which tasks that the protocol does not have may take, too."""
    merged = configparser.ConfigParser()
    for part in (protocol, f"{protocol}.{task}", f"{protocol}.{task}.{attention}"):
        file = PRESETS / protocol / f"{part}.ini"
        if file.exists():
            merged.read_string("[run]\n" + file.read_text())
    merged.remove_option("run", "tasks")
    text = io.StringIO()
    merged.write(text)
    path = pathlib.Path(folder) / f"{protocol}.{task}.{attention}.ini"
    path.write_text(text.getvalue().replace("[run]\n", ""))
    return path


def record(lra, data, folder, *chosen):
    for protocol, task, data_of, attentions, options in RUNS:
        for attention in attentions:
            if chosen and not {f"{protocol}.{task}", f"{protocol}.{task}.{attention}"} & set(chosen):
                continue
            kind = ".paper" if "--model.as=paper" in options else ".slow" if SLOWLY in options else ""
            file = pathlib.Path(folder) / f"{protocol}.{task}.{attention}{kind}.safetensors"
            if not file.exists():
                subprocess.run([lra, f"--config={settings(protocol, task, attention, folder)}", f"--task={data_of}",
                                f"--data={data}", f"--attention={attention}", *COMMON, *options, f"--record={file}"], check=True,
                               env={**os.environ, **ENVIRONMENT})


def main(arguments):
    torch.set_num_threads(1)
    if arguments[:1] == ["--record"]:
        return record(*arguments[1:])
    dtype = torch.float32 if "--float32" in arguments else torch.float64
    head = ["protocol", "task", "attention", "as", "longest", "steps", "first loss", "mean of the last ten", "largest difference",
            "PyTorch in"]
    rows, sources = [], {}
    for path in (a for a in arguments if a != "--float32"):
        found, row = repeat(path, dtype)
        if sources and found != sources:
            sys.exit(f"{path}: made by {found}, the files before it by {sources}")
        sources = found
        rows.append(row)
        print(*row, file=sys.stderr, flush=True)
    table = {"title": "Losses of the same steps in PyTorch", "head": head, "rows": rows}
    print(json.dumps({**sources, "pytorch": torch.__version__, "tables": [table]}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
