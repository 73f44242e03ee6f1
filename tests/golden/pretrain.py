#!/usr/bin/env python3
"""What transformers says of the model folder that `./run pretrain` writes (softmax only).

    oracle/bin/python tests/golden/pretrain.py build/bin runs/NAME/model     (the packages are those of tests/golden/bert.py)

Sentences with [MASK] become ids by transformers' tokenizer and by `tokenize`, which must agree, and the scores of all tokens come from
BertForMaskedLM and from `bert`. Prints the largest difference of scores, relative to the largest score, and the best token for each
[MASK]. Exits with 1 if ids differ or scores differ by more than 1e-5. What it gave is in experiments/pretrain/README.md.
"""
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertForMaskedLM

SENTENCES = ["This movie is one [MASK] the best I have seen.", "I did [MASK] like the acting.", "It was released in the United [MASK] in 1998."]


def main(programs, folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = BertForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    ours = subprocess.run([os.path.join(programs, "tokenize"), "--pretrained=" + folder, "--special"], input="\n".join(SENTENCES) + "\n",
                          capture_output=True, text=True, check=True).stdout.splitlines()
    worst = 0.0
    for sentence, line in zip(SENTENCES, ours):
        ids = tokenizer(sentence, return_tensors="pt")["input_ids"]
        if [int(i) for i in line.split()] != ids[0].tolist():
            sys.exit(f"{sentence!r}: ids {line}, in transformers {ids[0].tolist()}")
        with tempfile.TemporaryDirectory() as work, torch.no_grad():
            save_file({"input_ids": ids}, work + "/in.safetensors")
            subprocess.run([os.path.join(programs, "bert"), "--pretrained=" + folder, "--io=" + work + "/in.safetensors", "--quiet",
                            "--out=" + work + "/out.safetensors"], check=True, stdout=subprocess.DEVNULL)
            given = load_file(work + "/out.safetensors")  # with --next-sentence the model has two heads, which have names
            found, expected = given["prediction_logits" if "prediction_logits" in given else "logits"], model(ids).logits
        worst = max(worst, float((found - expected).abs().max() / expected.abs().max()))
        best = found[0][ids[0] == tokenizer.mask_token_id].argmax(-1)
        print(f"{sentence}  {tokenizer.convert_ids_to_tokens(best)}")
    print(f"largest difference of scores {worst:.1e}")
    sys.exit(worst > 1e-5)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
