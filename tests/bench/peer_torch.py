#!/usr/bin/env python3
"""The peer of compare.py: the step of build/bin/training_step as PyTorch makes it, from version 1.13 on.

  python3 tests/bench/peer_torch.py WORKLOAD [--dtype f32|bf16] [--seconds 6] [--threads 2] [--compile yes|no] [--whole]
  python3 tests/bench/peer_torch.py --list

prints a JSON line, as compare.py reads it. Sizes are those of compare.py's workloads; models, feature maps, what is drawn in a step,
loss and AdamW are those of training_step, and so is the number of trained `parameters`. `-softmax` is attention composed of its
products, `-sdpa` PyTorch 2's fused one. BERT is that of transformers: `-dropout`, 0.1 of hidden units and of attention's weights;
`-forward`, the loss alone.

The program starts itself again with what makes PyTorch fastest: OMP_NUM_THREADS; no OPENBLAS_L2_SIZE; tcmalloc, where Debian's
libtcmalloc-minimal4 is installed; and for Debian's PyTorch the OpenBLAS of libopenblas0-openmp and AVX-512 in both, where the
processor has it. AdamW is the fused one where PyTorch has it for a CPU.

torch.compile, which needs g++ and python3-dev, is chosen where it is faster: for kernel attention, and for `-forward` in bf16, whose
weights are frozen, as this project packs them once; `peak_mb` then holds the compiler, too. bf16 is autocast, so weights stay f32, as
in this project. --whole makes them bf16, without a copy in f32, which is less work. How many times as fast as eager steps, for bf16
by autocast, others were with PyTorch 2.15 on an AMD EPYC with AVX-512, by the processor's time of one thread, steps in turn:

                            f32 compiled   bf16 compiled   bf16 whole   whole and compiled
  small-1024-performer-128      1.24           1.32           0.98             1.36
  small-4096-performer-128      1.25           1.22           1.01             1.25
  text-b4-performer-128         1.07           1.13           1.03             1.16
  text-b4-gmm-prf-128           1.07           1.10           1.03             1.15
  small-1024-sdpa               1.00           1.00           0.99             1.01
  mlp                           1.00           1.01           1.02             1.01
  minilm                        1.00           0.96           1.01             1.00
  minilm-dropout                0.81           0.71           1.04             0.73
  minilm-forward                0.99           1.19
  bert-base-forward             1.00           1.13

MKL, which multiplies f32 in PyPI's PyTorch, made 94 GFLOP/s of one thread there in a product of (1024, 512) and (512, 512); Debian's
OpenBLAS made 190.
"""
import argparse, json, math, os, resource, statistics, sys, time

import compare

# torch is imported by what uses it, so that --list needs none, and not before the environment is the one that it should read.
LIBRARIES = "/usr/lib/x86_64-linux-gnu/"  # Debian's


def names():
    """compare.py's workloads, and those of composed attention in the place of PyTorch 2's fused one."""
    return list(dict.fromkeys([*compare.WORKLOADS, *map(compare.composed, compare.WORKLOADS)]))


def sizes_of(workload):
    """The attention, and the options of training_step."""
    attention, options, _ = next(compare.WORKLOADS[name] for name in compare.WORKLOADS if workload in (name, compare.composed(name)))
    p = argparse.ArgumentParser()
    for number in ("layers", "dim", "heads", "hidden", "batch", "length"):
        p.add_argument(f"--{number}", type=int)
    p.add_argument("--features", type=int, default=128)
    p.add_argument("--dropout", type=float, default=0.0)
    p.add_argument("--bert", action="store_true")
    p.add_argument("--forward", action="store_true")
    sizes = p.parse_args(options.split())
    sizes.attention = "sdpa" if attention == "softmax" and workload in compare.WORKLOADS else attention
    return sizes


def best_environment(threads):
    """The variables with which PyTorch is fastest; None: there must be none of this name."""
    best = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_CORETYPE": None, "OPENBLAS_L2_SIZE": None, "TORCHINDUCTOR_FREEZING": "1"}
    if os.path.exists(LIBRARIES + "libtcmalloc_minimal.so.4"):
        best.update(LD_PRELOAD=LIBRARIES + "libtcmalloc_minimal.so.4", TCMALLOC_RELEASE_RATE="0")
    with open("/proc/cpuinfo") as file:
        if "avx512f" in file.read() and os.path.exists(LIBRARIES + "openblas-openmp"):  # read by Debian's PyTorch alone
            best.update(LD_LIBRARY_PATH=LIBRARIES + "openblas-openmp", OPENBLAS_CORETYPE="SkylakeX", ATEN_CPU_CAPABILITY="avx512")
    return best


def start_again(best):
    """Starts this program again with these variables, unless it has them."""
    if any(os.environ.get(name) != value for name, value in best.items()):
        there = {**os.environ, **best}
        os.execve(sys.executable, [sys.executable, *sys.argv], {name: value for name, value in there.items() if value is not None})


def attentions():
    """The mechanisms, each made of sizes; they take and give (batch, heads, length, size of head)."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Softmax(nn.Module):
        def __init__(self, sizes):
            super().__init__()
            self.fused = sizes.attention == "sdpa"
            if self.fused and not hasattr(F, "scaled_dot_product_attention"):
                sys.exit(f"PyTorch {torch.__version__} has no fused attention")

        def forward(self, q, k, v):
            if self.fused:
                return F.scaled_dot_product_attention(q, k, v)
            return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v

    class Positive(nn.Module):
        """phi(x) = exp(omega x - factor |x|^2 - shift) + eps of x = q or k over the fourth root of their size. The shift is the
        largest exponent of the query, from which |q|^2 falls out, or that of all keys."""
        factor, eps = 0.5, 1e-6

        def phi(self, omega, x, is_key):
            root = x.shape[-1] ** -0.25
            u = x @ (root * omega).transpose(-1, -2)  # (batch, heads, length, features)
            if is_key:
                u = u - self.factor * root ** 2 * x.square().sum(-1, keepdim=True)
            features = (u - u.detach().amax((-1, -2) if is_key else -1, keepdim=True)).exp()
            return features + self.eps if self.eps else features

        def forward(self, q, k, v):
            omega = self.frequencies()
            query, key = self.phi(omega, q, False), self.phi(omega, k, True)
            return query @ (key.transpose(-1, -2) @ v) / (query @ key.sum(-2).unsqueeze(-1))

    class Performer(Positive):
        """Frequencies that are kept: as long as those of N(0, I), and orthogonal in blocks of the size of a head."""

        def __init__(self, sizes):
            super().__init__()
            size = sizes.dim // sizes.heads
            blocks = [torch.linalg.qr(torch.randn(size, size))[0] for _ in range(math.ceil(sizes.features / size))]
            lengths = torch.randn(sizes.features, size).norm(dim=1, keepdim=True)
            self.register_buffer("omega", torch.cat(blocks)[:sizes.features] * lengths)

        def frequencies(self):
            return self.omega

    class Mixture(Positive):
        """Two Gaussians for each head with a mean and a diagonal that are learnt, from the same noise, which each step draws anew."""
        factor, eps = 1.0, 0.0

        def __init__(self, sizes):
            super().__init__()
            size, self.each = sizes.dim // sizes.heads, sizes.features // 2
            self.mean = nn.Parameter((2 * torch.rand(sizes.heads, 2, 1, size) - 1) * size ** -0.5)
            self.scale = nn.Parameter(torch.ones(sizes.heads, 2, 1, size))

        def frequencies(self):
            noise = torch.randn(1, 1, self.each, self.mean.shape[-1], dtype=self.mean.dtype)
            return (noise * self.scale + self.mean).flatten(1, 2)  # (heads, features, size)

    return {"softmax": Softmax, "sdpa": Softmax, "performer": Performer, "gmm-prf": Mixture}


def encoder(sizes):
    """Norms in front, learnt positions, a last norm, the mean over tokens; 257 tokens and 10 classes."""
    import torch
    from torch import nn

    class SelfAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(sizes.dim, 3 * sizes.dim), nn.Linear(sizes.dim, sizes.dim)
            self.mechanism = attentions()[sizes.attention](sizes)

        def forward(self, x):
            q, k, v = (part.unflatten(-1, (sizes.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
            return self.out(self.mechanism(q, k, v).transpose(1, 2).flatten(2))

    class Residual(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = nn.Sequential(nn.LayerNorm(sizes.dim), *inner)

        def forward(self, x):
            return x + self.inner(x)

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(257, sizes.dim), nn.Parameter(torch.randn(sizes.length, sizes.dim) * 0.02)
            nn.init.normal_(self.tokens.weight, std=0.02)
            self.blocks = nn.Sequential(*(Residual(half) for _ in range(sizes.layers) for half in (
                [SelfAttention()], [nn.Linear(sizes.dim, sizes.hidden), nn.GELU(), nn.Linear(sizes.hidden, sizes.dim)])))
            self.norm, self.classes = nn.LayerNorm(sizes.dim), nn.Linear(sizes.dim, 10)

        def forward(self, ids):
            return self.classes(self.norm(self.blocks(self.tokens(ids) + self.positions)).mean(1))

    inputs, labels = torch.randint(257, (sizes.batch, sizes.length)), torch.randint(10, (sizes.batch,))
    return Classifier(), 0.0, lambda: (inputs, labels)


def mlp(sizes):
    """54-512-512-7 with ReLU, on rows that a loader gathers in a new order each time that it has given all of them."""
    import torch
    from torch import nn
    rows, labels = torch.randn(20 * sizes.batch, 54), torch.randint(7, (20 * sizes.batch,))

    def batches():
        while True:
            for chosen in torch.randperm(len(rows)).split(sizes.batch):
                yield rows[chosen], labels[chosen]

    model = nn.Sequential(nn.Linear(54, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 7))
    return model, 0.01, batches().__next__


def bert(sizes):
    """transformers' BertForSequenceClassification of 2 classes, with PyTorch's fused attention."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification
    config = BertConfig(num_hidden_layers=sizes.layers, hidden_size=sizes.dim, num_attention_heads=sizes.heads,
                        intermediate_size=sizes.hidden, hidden_dropout_prob=sizes.dropout, attention_probs_dropout_prob=sizes.dropout,
                        num_labels=2, attn_implementation="sdpa")
    ids, labels = torch.randint(1, config.vocab_size, (sizes.batch, sizes.length)), torch.randint(2, (sizes.batch,))

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = BertForSequenceClassification(config)

        def forward(self, ids):
            return self.bert(ids, attention_mask=torch.ones_like(ids), token_type_ids=torch.zeros_like(ids)).logits

    return Classifier(), 0.01, lambda: (ids, labels)


def adamw(parameters, decay):
    """In the fastest form that this PyTorch has on a CPU."""
    import torch
    try:
        return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=decay, fused=True)
    except (TypeError, RuntimeError):  # until 2.3; `foreach` is no faster there
        return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=decay)


def step_of(a, sizes):
    """A step, and how many numbers it trains."""
    import torch
    model, decay, batch = (bert if sizes.bert else mlp if sizes.attention == "none" else encoder)(sizes)
    if a.whole:
        model = model.bfloat16()
    parameters = list(model.train(not sizes.forward).parameters())
    run = torch.compile(model) if a.compile == "yes" else model

    def loss():
        inputs, labels = batch()
        if a.whole and inputs.is_floating_point():
            inputs = inputs.bfloat16()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "bf16" and not a.whole):  # weights stay f32
            return torch.nn.functional.cross_entropy(run(inputs).float(), labels)

    def evaluation():
        with torch.inference_mode():
            loss().item()

    def training():
        loss().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    optimizer = None if sizes.forward else adamw(parameters, decay)
    return evaluation if sizes.forward else training, sum(p.numel() for p in parameters)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("workload", nargs="?", choices=names(), metavar="WORKLOAD")
    p.add_argument("--list", action="store_true", help="the names of workloads")
    p.add_argument("--dtype", choices=compare.PRECISIONS, default="f32")
    p.add_argument("--seconds", type=float, default=6)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--compile", choices=("yes", "no"), help="by torch.compile; otherwise where it is faster")
    p.add_argument("--whole", action="store_true", help="a model whose parameters are bf16, too, instead of autocast")
    a = p.parse_args()
    if a.list:
        return print("\n".join(names()))
    if not a.workload:
        p.error("name a WORKLOAD; --list names them")
    if a.whole and a.dtype != "bf16":
        p.error("--whole is a way of --dtype bf16")
    start_again(best_environment(a.threads))
    import torch
    sizes = sizes_of(a.workload)
    pays = sizes.attention in compare.KERNELS or sizes.forward and a.dtype == "bf16"
    a.compile = a.compile or ("yes" if hasattr(torch, "compile") and pays else "no")
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    step, parameters = step_of(a, sizes)
    for _ in range(2):
        step()
    times, start = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < a.seconds:
        before = time.perf_counter()
        step()
        times.append(time.perf_counter() - before)
    print(json.dumps({"workload": a.workload, "torch": torch.__version__, "dtype": a.dtype, "compiled": a.compile == "yes",
                      "step_ms": round(1e3 * statistics.median(times), 2), "steps": len(times), "parameters": parameters,
                      "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}))


if __name__ == "__main__":
    sys.exit(main())
