#!/usr/bin/env python3
"""BERT and ViT of Hugging Face's transformers, for tests/layers/models and tests/experiments.

    python3 -m venv oracle && oracle/bin/pip install torch==2.15.0 transformers==5.23.0
    oracle/bin/python tests/golden/bert.py > tests/golden/bert.json
    oracle/bin/python tests/golden/bert.py --compare build/bin/bert [FOLDER ...]

Small models in float64 whose every value follows from a formula over its name in files (`fill`), so that the file holds no
weights: what save_pretrained writes (config.json, the names and shapes of tensors), inputs, outputs, and the gradients of a
loss, each the inner product with a wave, to find a wrong sign or place, and its norm.

--compare runs PROGRAM in float32 on models of full size with random weights, and on those in FOLDER, and prints a Markdown table
of its largest differences from transformers in float64, and in brackets of transformers in float32: of outputs and of the states
of blocks, relative to the largest number of each; of gradients, the norm of the difference relative to the norm of each tensor's.
Biases of keys are left out, whose gradients are 0 but for rounding. The last column is that of outputs in transformers, in
float32, of the model that PROGRAM has exported, from those of the model itself. What it gave is in experiments/bert/README.md.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import (AutoModel, BertConfig, BertForMaskedLM, BertForPreTraining, BertForSequenceClassification, BertModel, ViTConfig,
                          ViTForImageClassification, ViTModel)

torch.set_default_dtype(torch.float64)


def wave(phase, shape):
    return torch.sin(1.3 * torch.arange(math.prod(shape), dtype=torch.float64) + phase).reshape(shape)


def fill(name, shape):
    is_scale = ("LayerNorm" in name or "layernorm" in name) and name.endswith("weight")
    return (1 if is_scale else 0) + 0.3 * wave(sum(name.encode()) % 17, shape)


def shapes_in_file(model, folder):
    model.save_pretrained(folder)
    with safe_open(os.path.join(folder, "model.safetensors"), "pt") as file:
        return {name: list(file.get_slice(name).get_shape()) for name in file.keys()}


def numbers(x):
    return [float(f"{v:.13g}") for v in x.detach().flatten().tolist()]


def case(model, inputs, loss):
    with tempfile.TemporaryDirectory() as folder:
        shapes = shapes_in_file(model, folder)
        config = json.load(open(os.path.join(folder, "config.json")))
        save_file({name: fill(name, shape) for name, shape in shapes.items()}, os.path.join(folder, "model.safetensors"),
                  metadata={"format": "pt"})
        model = type(model).from_pretrained(folder, dtype=torch.float64, attn_implementation="sdpa")  # "eager" rounds ViT's softmax to float32
        model.eval()
        out = model(**inputs, output_hidden_states=True)
        value = loss(out)
        value.backward()
        gradients = gradients_in_file(model, folder)
    found = {name: numbers(x) for name, x in out.items() if isinstance(x, torch.Tensor) and x.ndim > 0}
    found["hidden_states"] = [numbers(x) for x in out.hidden_states]
    return {"config": config, "shapes": shapes,
            "inputs": {k: {"shape": list(v.shape), "values": v.flatten().tolist()} for k, v in inputs.items()},
            "outputs": found, "loss": value.item(),
            "gradients": {name: [float((g * wave(9, g.shape)).sum()), float(g.norm())] for name, g in gradients.items()}}


def relative(a, b):
    return float((a - b).abs().max() / b.abs().max())


def outputs(model, inputs):
    out = model(**inputs, output_hidden_states=True)
    found = {name: x for name, x in out.items() if isinstance(x, torch.Tensor) and x.ndim > 0 and name != "loss"}
    return found, list(out.hidden_states)


def gradients_in_file(model, folder):
    """Gradients under the names of files, which save_pretrained makes of parameters."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.grad if parameter.grad is not None else torch.zeros_like(parameter))
    model.save_pretrained(folder)
    return load_file(os.path.join(folder, "model.safetensors"))


def answers(model, inputs, slopes, folder):
    """Outputs, states and gradients of the sum of slopes times outputs."""
    found, states = outputs(model.eval(), inputs)
    sum((x * slopes(name, x)).sum() for name, x in found.items()).backward()
    detach = lambda x: x.detach().double()
    return ({name: detach(x) for name, x in found.items()}, [detach(x) for x in states],
            {name: g.double() for name, g in gradients_in_file(model, folder).items() if "key.bias" not in name})


def differences(found, exact):
    return (max(relative(found[0][name], x) for name, x in exact[0].items()),
            max(relative(a, b) for a, b in zip(found[1], exact[1], strict=True)),
            max(float((found[2][name] - g).norm() / g.norm()) for name, g in exact[2].items()))


def compare(name, make, folder, inputs, program):
    """A row of the table: `make(folder)` opens the model."""
    slope_of = {}

    def slopes(name, x):
        if name not in slope_of:
            slope_of[name] = torch.randn_like(x.float()) / x.numel() ** 0.5
        return slope_of[name].to(x.dtype)

    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as work:
        at = lambda file: os.path.join(work, file)
        wide = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
        exact = answers(make(folder, dtype=torch.float64, attn_implementation="sdpa"), wide, slopes, at("gradients"))
        peer = answers(make(folder, dtype=torch.float32), inputs, slopes, at("gradients"))
        save_file({**inputs, **{"d" + name: x for name, x in slope_of.items()}}, at("in.safetensors"))
        subprocess.run([program, "--pretrained=" + folder, "--io=" + at("in.safetensors"), "--quiet", "--out=" + at("out.safetensors"),
                        "--to=" + at("exported")], check=True, stdout=subprocess.DEVNULL)
        found = {name: x.double() for name, x in load_file(at("out.safetensors")).items()}
        ours = (found, [found[f"hidden_states.{i}"] for i in range(sum("hidden_states" in name for name in found))],
                {name[1:]: x for name, x in found.items() if name.startswith("d")})
        again, _ = outputs(make(at("exported"), dtype=torch.float32).eval(), inputs)
        back = max(relative(again[name].double(), x) for name, x in peer[0].items())
        shape = " x ".join(str(n) for n in next(iter(inputs.values())).shape)
        pairs = " | ".join(f"{a:.1e} ({b:.1e})" for a, b in zip(differences(ours, exact), differences(peer, exact)))
        size = sum(p.numel() for p in make(folder).parameters())
        print(f"| {name} | {size / 1e6:.1f} M | {shape} | {pairs} | {back:.0e} |", flush=True)


def compare_all(program, folders):
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(2)
    print("| model | parameters | inputs | outputs | states | gradients | exported |\n|---|---|---|---|---|---|---|", flush=True)
    texts = lambda batch, length, vocabulary, types=2: {
        "input_ids": torch.randint(1, vocabulary, (batch, length)),
        "attention_mask": (torch.arange(length)[None, :] < torch.randint(length // 2, length + 1, (batch, 1))).long(),
        "token_type_ids": torch.randint(0, types, (batch, length))}
    for folder in folders:
        config = json.load(open(os.path.join(folder, "config.json")))
        compare(config.get("_name_or_path") or folder, AutoModel.from_pretrained, folder, texts(8, 64, config["vocab_size"]), program)
    pixels = {"pixel_values": torch.randn(2, 3, 224, 224)}
    odd = dict(vocab_size=1009, hidden_size=156, num_hidden_layers=3, num_attention_heads=6, intermediate_size=333,
               max_position_embeddings=71, type_vocab_size=3)
    for kind, config, inputs, name in (
            (BertModel, BertConfig(), texts(2, 128, 30522), "BERT-base, random"),
            (BertForPreTraining, BertConfig(), texts(2, 128, 30522), "BERT-base with both heads, random"),
            (BertForSequenceClassification, BertConfig(**odd, num_labels=5, hidden_act="relu"), texts(5, 67, 1009, 3), "BERT of odd sizes"),
            (BertForMaskedLM, BertConfig(**odd, hidden_act="gelu_new"), texts(3, 71, 1009, 3), "the same, for masked tokens"),
            (ViTModel, ViTConfig(), pixels, "ViT-B/16, random"),
            (ViTForImageClassification, ViTConfig(num_labels=1000), pixels, "ViT-B/16 with 1,000 classes, random")):
        with tempfile.TemporaryDirectory() as folder:
            kind(config).save_pretrained(folder)
            compare(name, kind.from_pretrained, folder, inputs, program)


def ids(batch, length, vocabulary):
    return (torch.arange(batch * length) * 7 + 3).remainder(vocabulary).view(batch, length)


def main():
    torch.manual_seed(1)
    bert = dict(vocab_size=13, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=10,
                max_position_embeddings=9, type_vocab_size=2)
    mask = (torch.arange(7)[None, :] < torch.tensor([7, 4, 1])[:, None]).long()
    pair = {"input_ids": ids(3, 7, 13), "attention_mask": mask, "token_type_ids": ids(3, 7, 2)}
    labels = torch.where(ids(3, 7, 5) == 0, ids(3, 7, 11), torch.full((3, 7), -100)).masked_fill(mask == 0, -100)
    cross = torch.nn.functional.cross_entropy
    pixels = {"pixel_values": wave(2, (2, 3, 6, 6))}
    vit = dict(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=6, image_size=6, patch_size=2)
    square = lambda out: out.last_hidden_state.square().sum() + out.pooler_output.sum()
    result = {
        "BertModel": case(BertModel(BertConfig(**bert)), pair, square),
        "BertForPreTraining": case(
            BertForPreTraining(BertConfig(**bert)), pair,
            lambda out: cross(out.prediction_logits.view(-1, 13), labels.view(-1)) +
            cross(out.seq_relationship_logits, torch.tensor([0, 1, 1]))),
        "BertForMaskedLM": case(BertForMaskedLM(BertConfig(**bert, hidden_act="relu")), {"input_ids": ids(2, 9, 13)},
                                lambda out: cross(out.logits.view(-1, 13), ids(2, 9, 11).view(-1))),
        "BertForSequenceClassification": case(
            BertForSequenceClassification(BertConfig(**bert, hidden_act="gelu_new", num_labels=3)),
            {"input_ids": ids(3, 5, 13)}, lambda out: cross(out.logits, torch.tensor([0, 2, 1]))),
        "ViTModel": case(ViTModel(ViTConfig(**vit)), pixels, square),
        "ViTForImageClassification": case(ViTForImageClassification(ViTConfig(**vit, num_labels=3)), pixels,
                                          lambda out: cross(out.logits, torch.tensor([2, 0]))),
    }
    result["labels"] = labels.flatten().tolist()
    json.dump(result, sys.stdout, indent=None, separators=(",", ":"))
    print()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compare"]:
        compare_all(sys.argv[2], sys.argv[3:])
    else:
        main()
