#!/usr/bin/env python3
"""BERT and ViT of Hugging Face's transformers, for tests/layers/models and tests/experiments.

    python3 -m venv oracle && oracle/bin/pip install torch==2.15.0 transformers==5.23.0
    oracle/bin/python tests/golden/bert.py > tests/golden/bert.json

Small models in float64 whose every value follows from a formula over its name in files (`fill`), so that the file holds no
weights: what save_pretrained writes (config.json, the names and shapes of tensors), inputs, outputs, and the gradients of a
loss, each the inner product with a wave, to find a wrong sign or place, and its norm.
"""
import json
import math
import os
import sys
import tempfile

import torch
from safetensors import safe_open
from transformers import (BertConfig, BertForMaskedLM, BertForPreTraining, BertForSequenceClassification, BertModel, ViTConfig,
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
        from safetensors.torch import save_file
        save_file({name: fill(name, shape) for name, shape in shapes.items()}, os.path.join(folder, "model.safetensors"),
                  metadata={"format": "pt"})
        model = type(model).from_pretrained(folder, dtype=torch.float64, attn_implementation="sdpa")  # "eager" rounds ViT's softmax to float32
        model.eval()
        out = model(**inputs, output_hidden_states=True)
        value = loss(out)
        value.backward()
        # Gradients under the names of the file: transformers writes and reads some of them under others.
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(parameter.grad if parameter.grad is not None else torch.zeros_like(parameter))
        model.save_pretrained(folder)
        with safe_open(os.path.join(folder, "model.safetensors"), "pt") as file:
            gradients = {name: file.get_tensor(name) for name in file.keys()}
    found = {name: numbers(x) for name, x in out.items() if isinstance(x, torch.Tensor) and x.ndim > 0}
    found["hidden_states"] = [numbers(x) for x in out.hidden_states]
    return {"config": config, "shapes": shapes,
            "inputs": {k: {"shape": list(v.shape), "values": v.flatten().tolist()} for k, v in inputs.items()},
            "outputs": found, "loss": value.item(),
            "gradients": {name: [float((g * wave(9, g.shape)).sum()), float(g.norm())] for name, g in gradients.items()}}


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


main()
