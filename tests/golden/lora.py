#!/usr/bin/env python3
"""LoRA of Hugging Face's PEFT, for tests/layers/models/peft_test.cpp.

    python3 -m venv oracle && oracle/bin/pip install torch==2.15.0 transformers==5.23.0 peft==0.21.2
    oracle/bin/python tests/golden/lora.py > tests/golden/lora.json
    oracle/bin/python tests/golden/lora.py --compare build/bin/bert BASE ADAPTER

Small models in float64 whose every value follows from a formula over its name in files (`fill` of bert.py), so that the file holds
no weights: what save_pretrained writes of the adapter (adapter_config.json, the names and shapes of tensors), inputs and outputs.

--compare opens the folder ADAPTER, which Bochner wrote beside a run, with PEFT on the model in BASE, and prints the largest
difference of the logits of some random tokens, relative to the largest of them: PEFT's from PROGRAM's with --adapter, both in
float32, and those of the model that PROGRAM has exported, updates merged, in transformers, from PEFT's.
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
from peft import LoraConfig, PeftConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification, BertModel

from bert import fill, ids, numbers, relative, shapes_in_file


def refill(folder, file):
    path = os.path.join(folder, file)
    shapes = {name: list(x.shape) for name, x in load_file(path).items()}
    save_file({name: fill(name, shape) for name, shape in shapes.items()}, path, metadata={"format": "pt"})
    return shapes


def case(kind, config, lora):
    with tempfile.TemporaryDirectory() as work:
        base, adapter = os.path.join(work, "base"), os.path.join(work, "adapter")
        model = kind(config)
        shapes = shapes_in_file(model, base)
        refill(base, "model.safetensors")
        open_base = lambda: kind.from_pretrained(base, dtype=torch.float64, attn_implementation="sdpa")
        get_peft_model(open_base(), lora).save_pretrained(adapter)
        added = refill(adapter, "adapter_model.safetensors")
        model = PeftModel.from_pretrained(open_base(), adapter).eval()
        inputs = {"input_ids": ids(3, 7, 13), "attention_mask": (torch.arange(7)[None, :] < torch.tensor([7, 4, 1])[:, None]).long()}
        out = model(**inputs)
        described = json.load(open(os.path.join(adapter, "adapter_config.json")))
        described["base_model_name_or_path"] = "base"
        return {"config": json.load(open(os.path.join(base, "config.json"))), "shapes": shapes, "adapter_config": described,
                "adapter_shapes": added,
                "inputs": {k: {"shape": list(v.shape), "values": v.flatten().tolist()} for k, v in inputs.items()},
                "outputs": {name: numbers(x) for name, x in out.items() if isinstance(x, torch.Tensor)}}


def main():
    torch.manual_seed(1)
    bert = BertConfig(vocab_size=13, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=10,
                      max_position_embeddings=9, type_vocab_size=2, num_labels=3)
    result = {
        "classifier": case(BertForSequenceClassification, bert,
                           LoraConfig(task_type="SEQ_CLS", r=2, lora_alpha=4, target_modules=["query", "value"])),
        "dense": case(BertModel, bert, LoraConfig(r=3, lora_alpha=5, use_rslora=True, target_modules=["key", "dense"],
                                                  modules_to_save=["pooler"])),
    }
    json.dump(result, sys.stdout, indent=None, separators=(",", ":"))
    print()


def compare(program, base, adapter):
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(2)
    saved = load_file(os.path.join(adapter, "adapter_model.safetensors"))
    classes = saved["base_model.model.classifier.weight"].shape[0]
    PeftConfig.from_pretrained(adapter)
    opened = AutoModelForSequenceClassification.from_pretrained(base, num_labels=classes)
    length = min(32, opened.config.max_position_embeddings)
    inputs = {"input_ids": torch.randint(1, opened.config.vocab_size, (4, length)),
              "attention_mask": (torch.arange(length)[None, :] < torch.randint(length // 2, length + 1, (4, 1))).long()}
    theirs = PeftModel.from_pretrained(opened, adapter).eval()(**inputs).logits.detach()
    with tempfile.TemporaryDirectory() as work:
        at = lambda file: os.path.join(work, file)
        save_file(inputs, at("in.safetensors"))
        call = [program, "--pretrained=" + base, "--adapter=" + adapter, "--quiet"]
        subprocess.run(call + ["--io=" + at("in.safetensors"), "--out=" + at("out.safetensors")], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(call + ["--to=" + at("merged")], check=True, stdout=subprocess.DEVNULL)
        ours = load_file(at("out.safetensors"))["logits"]
        merged = AutoModelForSequenceClassification.from_pretrained(at("merged")).eval()(**inputs).logits.detach()
    print(f"PEFT {relative(ours, theirs):.1e}, exported {relative(merged, theirs):.1e}")


if sys.argv[1:2] == ["--compare"]:
    compare(*sys.argv[2:])
else:
    main()
