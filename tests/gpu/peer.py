"""The cases of bench.cpp in PyTorch, eager and compiled, fused and composed: one JSON object a line.

    python3 tests/gpu/peer.py [--seconds N] [--only TEXT] [FILE]

Softmax attention is PyTorch's fused one in bf16; kernel attention is composed (positive features, as the papers' code).
`case` names what is compared; several lines of one case are several ways to do it, of which the fastest counts. What has not
begun after N seconds is told as not run. --only takes the cases whose names hold TEXT.
"""
import argparse
import json
import math
import time

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("file", nargs="?")
parser.add_argument("--seconds", type=float, default=math.inf)
parser.add_argument("--only", default="")
options = parser.parse_args()
out = open(options.file, "w") if options.file else None
end = time.monotonic() + options.seconds
torch.manual_seed(0)
torch.set_grad_enabled(True)


def milliseconds(f):
    for _ in range(3):
        f()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    f()
    torch.cuda.synchronize()
    calls = max(1, min(200, int(0.02 / max(time.perf_counter() - begin, 1e-6))))
    rounds = []
    for _ in range(7):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            f()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - begin) / calls * 1e3)
    return sorted(rounds)[3]


def report(case, how, f):
    if options.only not in case:
        return
    try:
        if time.monotonic() > end:
            raise TimeoutError("no time was left")
        line = json.dumps({"case": case, "how": how, "ms": round(milliseconds(f), 5)})
    except Exception as error:  # a way that does not run here is told, and no more
        line = json.dumps({"skipped": case, "how": how, "why": str(error).splitlines()[0][:200]})
    print(line, flush=True)
    if out:
        out.write(line + "\n")
        out.flush()


def both(case, f, *args):
    report(case, "eager", lambda: f(*args))
    compiled = torch.compile(f, dynamic=False)
    report(case, "compiled", lambda: compiled(*args))


def copy_like():
    x = torch.randn(1 << 17, 1024, device="cuda")
    y = torch.randn_like(x)
    gamma, beta = torch.randn(1024, device="cuda"), torch.randn(1024, device="cuda")
    with torch.no_grad():
        report("copy", "eager", lambda: y.copy_(x))
        both("layer_norm", lambda a: F.layer_norm(a, (1024,), gamma, beta), x)
        both("dropout", lambda a: F.dropout(a, 0.1, True), x)
        both("bias_gelu", lambda a: F.gelu(a + beta), x)
        _, mean, rstd = torch.ops.aten.native_layer_norm(x, [1024], gamma, beta, 1e-5)
        layer_norm_backward = torch.ops.aten.native_layer_norm_backward
        report("layer_norm_backward", "eager", lambda: layer_norm_backward(y, x, [1024], mean, rstd, gamma, beta, [True] * 3))

        def bias_gelu_backward(g, a):
            flow = torch.ops.aten.gelu_backward(g, a + beta)
            return flow, flow.sum(0)

        both("bias_gelu_backward", bias_gelu_backward, y, x)
        labels = torch.randint(0, 1024, (1 << 17,), device="cuda")
        both("cross_entropy", lambda a: F.cross_entropy(a, labels), x)
    del y
    p = torch.nn.Parameter(x)
    p.grad = torch.randn_like(x)
    optimizer = torch.optim.AdamW([p], lr=1e-6, fused=True)
    report("adamw", "fused", optimizer.step)


def adjoints(places=1 << 17, dim=768, words=30522):
    g = torch.randn(places, dim, device="cuda")
    report("column_sum", "eager", lambda: g.sum(0))
    even = torch.randint(0, words, (places,), device="cuda")
    skewed = even.clone()
    skewed[: places // 2] = 7
    backward = torch.ops.aten.embedding_dense_backward
    report("embedding_backward", "eager", lambda: backward(g, even, words, -1, False))
    report("embedding_backward of a common word", "eager", lambda: backward(g, skewed, words, -1, False))


def products():
    a, b = torch.randn(8192, 8192, device="cuda"), torch.randn(8192, 8192, device="cuda")
    report("matmul 8192 f32", "eager", lambda: a @ b)
    torch.backends.cuda.matmul.allow_tf32 = True
    report("matmul 8192 tf32", "eager", lambda: a @ b)
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = a.bfloat16(), b.bfloat16()
    report("matmul 8192 bf16", "eager", lambda: a @ b)


def positive_attention(q, k, v, omega, scale, eps=1e-6):
    def features(x, query):
        u = (x * scale) @ omega.mT
        norm = 0.5 * (x * scale).square().sum(-1, keepdim=True)
        top = u.amax(-1, keepdim=True) if query else (u - norm).amax((-2, -1), keepdim=True)
        return torch.exp(u - top if query else u - norm - top) + eps

    fq, fk = features(q, True), features(k, False)
    return (fq @ (fk.mT @ v)) / (fq @ fk.sum(-2).unsqueeze(-1))


def attentions(dtype=torch.bfloat16, lengths=(1024, 2048, 4096, 16384)):
    heads, dim = 16, 64
    of, type_ = ("", "bf16") if dtype == torch.bfloat16 else (" f32", "f32")
    for length in lengths:
        batch = max(1, 16384 // length)
        make = lambda: torch.randn(batch, heads, length, dim, device="cuda", dtype=dtype, requires_grad=True)
        q, k, v, g = make(), make(), make(), make().detach()
        attend = lambda: F.scaled_dot_product_attention(q, k, v, scale=1 / math.sqrt(dim))
        with torch.no_grad():
            report(f"softmax attention {length} forward{of}", f"fused, {type_}", attend)
        report(f"softmax attention {length}{of}", f"fused, {type_}", lambda: torch.autograd.grad(attend(), (q, k, v), g))
        omega = torch.randn(256, dim, device="cuda", dtype=dtype)
        step = lambda f: torch.autograd.grad(f(q, k, v, omega, 0.35), (q, k, v), g)
        case = f"kernel attention {length}{of}"
        report(case, f"composed, eager, {type_}", lambda: step(positive_attention))
        compiled = torch.compile(positive_attention, dynamic=False)
        report(case, f"composed, compiled, {type_}", lambda: step(compiled))
        report(case, f"fused softmax, {type_}", lambda: torch.autograd.grad(attend(), (q, k, v), g))
        causal = lambda: F.scaled_dot_product_attention(q, k, v, scale=1 / math.sqrt(dim), is_causal=True)
        report(f"kernel attention {length} causal{of}", f"fused softmax, {type_}", lambda: torch.autograd.grad(causal(), (q, k, v), g))


class Block(torch.nn.Module):
    def __init__(self, dim, heads, hidden, kind, features):
        super().__init__()
        self.heads, self.kind = heads, kind
        self.norm1, self.norm2 = torch.nn.LayerNorm(dim), torch.nn.LayerNorm(dim)
        self.joint, self.out = torch.nn.Linear(dim, 3 * dim), torch.nn.Linear(dim, dim)
        self.inner, self.outer = torch.nn.Linear(dim, hidden), torch.nn.Linear(hidden, dim)
        head = dim // heads
        if kind == "performer":
            self.register_buffer("omega", torch.randn(features, head))
        if kind == "gmm-prf":  # two components, new noise each step
            self.mean = torch.nn.Parameter(0.1 * torch.randn(heads, 2, 1, head))
            self.deviation = torch.nn.Parameter(torch.ones(heads, 2, 1, head))
            self.features = features

    def attend(self, q, k, v):
        scale = q.shape[-1] ** -0.25
        if self.kind == "softmax":
            return F.scaled_dot_product_attention(q, k, v)
        if self.kind == "performer":
            return positive_attention(q, k, v, self.omega.to(q.dtype), scale)
        noise = torch.randn(1, 2, self.features // 2, q.shape[-1], device=q.device)
        omega = (self.mean + self.deviation * noise).flatten(1, 2)
        return positive_attention(q, k, v, omega.to(q.dtype), scale)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = self.joint(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).reshape(batch, length, dim))
        return x + self.outer(F.gelu(self.inner(self.norm2(x))))


class Classifier(torch.nn.Module):
    def __init__(self, layers, dim, heads, hidden, length, kind, features):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(257, dim), torch.nn.Parameter(0.02 * torch.randn(length, dim))
        self.blocks = torch.nn.Sequential(*[Block(dim, heads, hidden, kind, features) for _ in range(layers)])
        self.norm, self.classes = torch.nn.LayerNorm(dim), torch.nn.Linear(dim, 10)

    def forward(self, ids):
        return self.classes(self.norm(self.blocks(self.tokens(ids) + self.positions)).mean(1))


def training(device="cuda", batch=32, text=(4, 256, 4, 1024, 4000, 256), listops=(2, 64, 2, 128, 2000, 128)):
    """Steps of whole models as in training.cpp: (layers, dim, heads, hidden, length, features)."""
    for name, sizes, kinds in (("text", text, ("softmax", "performer", "gmm-prf")), ("listops", listops, ("softmax", "performer"))):
        layers, dim, heads, hidden, length, features = sizes
        for kind in kinds:
            model = Classifier(layers, dim, heads, hidden, length, kind, features).to(device)
            ids = torch.randint(0, 257, (batch, length), device=device)
            labels = torch.randint(0, 10, (batch,), device=device)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")

            def step(run):
                optimizer.zero_grad(set_to_none=True)
                with torch.autocast(device, torch.bfloat16):
                    loss = F.cross_entropy(run(ids).float(), labels)
                loss.backward()
                optimizer.step()

            case = f"{name} step {kind}"
            report(case, "eager, bf16", lambda: step(model))
            compiled = torch.compile(model, dynamic=False)
            report(case, "compiled, bf16", lambda: step(compiled))


print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__}), flush=True)
attentions()  # what our bars compare with, first
training()
attentions(torch.float32, (4096,))
copy_like()
adjoints()
products()
