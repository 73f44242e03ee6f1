#!/usr/bin/env python3
"""The peer of compare.py's BERT workloads: a training step of transformers' BertForSequenceClassification by AdamW.

  python3 tests/bench/peer_bert.py bert-base|minilm[-dropout|-forward] [--dtype f32|bf16] [--seconds 6]

`-dropout`: 0.1 of hidden units and of attention's weights, as these models are fine-tuned; otherwise none. `-forward`: the loss alone,
as in evaluation. Its attention is PyTorch's fused one. bf16 is autocast. One JSON line on standard output, as compare.py reads it.
"""
import argparse, json, resource, statistics, time

import torch
from transformers import BertConfig, BertForSequenceClassification

WORKLOADS = {"bert-base": (12, 768, 12, 3072, 8, 128), "minilm": (6, 384, 12, 1536, 32, 128)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("workload", choices=[name + end for name in WORKLOADS for end in ("", "-dropout", "-forward")])
    p.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seconds", type=float, default=6)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    layers, dim, heads, hidden, batch, length = WORKLOADS[a.workload.removesuffix("-dropout").removesuffix("-forward")]
    forward_alone = a.workload.endswith("-forward")
    dropout = 0.1 if a.workload.endswith("-dropout") else 0.0
    config = BertConfig(num_hidden_layers=layers, hidden_size=dim, num_attention_heads=heads, intermediate_size=hidden, num_labels=2,
                        hidden_dropout_prob=dropout,
                        attention_probs_dropout_prob=dropout, attn_implementation="sdpa")
    model = BertForSequenceClassification(config).train(not forward_alone)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    ids, labels = torch.randint(1, config.vocab_size, (batch, length)), torch.randint(0, 2, (batch,))
    types, mask = torch.zeros_like(ids), torch.ones_like(ids)

    def evaluation():
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "bf16"):
            model(input_ids=ids, token_type_ids=types, attention_mask=mask, labels=labels).loss.item()

    def training():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "bf16"):
            loss = model(input_ids=ids, token_type_ids=types, attention_mask=mask, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step = evaluation if forward_alone else training
    for _ in range(2):
        step()
    times, start = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < a.seconds:
        t = time.perf_counter()
        step()
        times.append(time.perf_counter() - t)
    print(json.dumps(dict(workload=a.workload, torch=torch.__version__, dtype=a.dtype, step_ms=round(1e3 * statistics.median(times), 2),
                          steps=len(times), peak_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))))


if __name__ == "__main__":
    main()
