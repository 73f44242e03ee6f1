#!/usr/bin/env python3
"""GLUE by transformers' Trainer with the settings of preset `full`, which ours is held against in docs/results/glue.md.

    python3 tests/golden/glue_trainer.py DATA PRETRAINED OUT.json TASK...
        [--seeds 1,2,3] [--bf16] [--group-by-length] [--threads 1]

DATA holds glue/*/*.tsv or .tsv.gz, PRETRAINED a BERT. A result is added to OUT.json as soon as it is there; those that are
in it are not made again. Tasks: cola, sst-2, mrpc, sts-b, rte.
"""
import argparse
import gzip
import json
import os
import tempfile
import time

import numpy
import torch
import transformers
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

# task: (folder, columns of the sentences, column of the label, classes or None for a number, epochs)
TASKS = {
    "cola": ("CoLA", [3], 1, ["0", "1"], 3),
    "sst-2": ("SST-2", [0], 1, ["0", "1"], 3),
    "mrpc": ("MRPC", [3, 4], 0, ["0", "1"], 5),
    "sts-b": ("STS-B", [7, 8], 9, None, 3),
    "rte": ("RTE", [1, 2], 3, ["entailment", "not_entailment"], 3),
}


def rows(data, task, split):
    folder, sentences, label, classes, _ = TASKS[task]
    path = os.path.join(data, "glue", folder, split + ".tsv")
    raw = gzip.open(path + ".gz", "rb").read() if os.path.exists(path + ".gz") else open(path, "rb").read()
    lines = raw.removeprefix(b"\xef\xbb\xbf").decode().split("\n")
    lines = [line.removesuffix("\r").split("\t") for line in lines if line][task != "cola":]
    return [([r[c] for c in sentences], float(r[label]) if classes is None else classes.index(r[label])) for r in lines]


class Texts(torch.utils.data.Dataset):
    def __init__(self, examples, tokenizer):
        self.rows = [{**tokenizer(*texts, truncation=True, max_length=128), "labels": label} for texts, label in examples]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def metrics(task, predicted):
    scores, labels = predicted.predictions, predicted.label_ids
    if task == "sts-b":
        return {"pearson": pearsonr(scores[:, 0], labels)[0], "spearman": spearmanr(scores[:, 0], labels)[0]}
    guesses = numpy.argmax(scores, axis=1)
    found = {"accuracy": accuracy_score(labels, guesses)}
    if task == "mrpc":
        found["f1"] = f1_score(labels, guesses)
    if task == "cola":
        found["mcc"] = matthews_corrcoef(labels, guesses)
    return found


def trained(options, task, seed):
    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.pretrained)
    labels = 1 if task == "sts-b" else 2
    model = transformers.AutoModelForSequenceClassification.from_pretrained(options.pretrained, num_labels=labels)
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, seed=seed, num_train_epochs=TASKS[task][4], per_device_train_batch_size=32,
            per_device_eval_batch_size=32, learning_rate=2e-5, lr_scheduler_type="linear", warmup_steps=0, weight_decay=0.0,
            adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-8, max_grad_norm=1.0, bf16=options.bf16, use_cpu=True,
            train_sampling_strategy="group_by_length" if options.group_by_length else "random",
            save_strategy="no", report_to=[], disable_tqdm=True, logging_strategy="no")
        trainer = transformers.Trainer(
            model=model, args=arguments, train_dataset=Texts(rows(options.data, task, "train"), tokenizer),
            eval_dataset=Texts(rows(options.data, task, "dev"), tokenizer),
            data_collator=transformers.DataCollatorWithPadding(tokenizer))
        began, began_of_processor = time.monotonic(), time.process_time()
        trainer.train()
        seconds, of_processor = time.monotonic() - began, time.process_time() - began_of_processor
        found = metrics(task, trainer.predict(trainer.eval_dataset))
    return {"task": task, "seed": seed, "precision": "bf16" if options.bf16 else "f32",
            "group_by_length": options.group_by_length, "seconds": seconds, "processor_seconds": of_processor,
            **{name: float(value) for name, value in found.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("pretrained")
    parser.add_argument("out")
    parser.add_argument("tasks", nargs="+", choices=list(TASKS))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--group-by-length", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    record = {"peer": f"transformers {transformers.__version__}, PyTorch {torch.__version__}", "settings": "preset full",
              "runs": []}
    if os.path.exists(options.out):
        with open(options.out, encoding="utf-8") as file:
            record = json.load(file)
    for seed in map(int, options.seeds.split(",")):
        for task in options.tasks:
            if any((run["task"], run["seed"]) == (task, seed) for run in record["runs"]):
                continue
            record["runs"].append(trained(options, task, seed))
            with open(options.out + ".new", "w", encoding="utf-8") as file:
                json.dump(record, file, indent=1)
            os.replace(options.out + ".new", options.out)
            print(record["runs"][-1], flush=True)


if __name__ == "__main__":
    main()
