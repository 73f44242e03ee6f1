#!/usr/bin/env python3
"""Metrics of a whole split by scikit-learn and SciPy, for tests/experiments/metrics_test.cpp.

  python3 tests/golden/metrics.py > tests/golden/metrics.json     (made with scikit-learn 1.9.1, SciPy 1.17.1)

Inputs are drawn here and committed with the numbers. Scores have many ties, classes are unbalanced, and the degenerate
cases are those that a model which always says the same leads to.
"""
import json
import math
import warnings

import numpy as np
import scipy.stats
import sklearn.metrics

warnings.simplefilter("ignore")  # of degenerate cases, which are wanted


def number(x):
    return str(x) if not math.isfinite(x) else float(x)


def classes(name, guesses, labels):
    guesses, labels = [int(x) for x in guesses], [int(x) for x in labels]
    found = {"accuracy": sklearn.metrics.accuracy_score(labels, guesses),
             "mcc": sklearn.metrics.matthews_corrcoef(labels, guesses)}
    if max(labels + guesses) < 2:
        found["f1"] = sklearn.metrics.f1_score(labels, guesses, zero_division=0)
    return {"name": name, "guesses": guesses, "labels": labels, "expected": {k: number(v) for k, v in found.items()}}


def scores(name, values, labels):
    return {"name": name, "values": [float(x) for x in values], "labels": [int(x) for x in labels],
            "expected": {"auc": number(sklearn.metrics.roc_auc_score(labels, values))}}


def values(name, x, y):
    x, y = [float(v) for v in x], [float(v) for v in y]
    return {"name": name, "values": x, "truths": y,
            "expected": {"pearson": number(scipy.stats.pearsonr(x, y).statistic),
                         "spearman": number(scipy.stats.spearmanr(x, y).statistic)}}


g = np.random.default_rng(1)
labels = (g.random(300) < 0.3).astype(int)
guesses = np.where(g.random(300) < 0.75, labels, 1 - labels)
many = g.integers(0, 7, 250)
truth = np.round(5 * g.random(200), 1)  # as in STS-B: many ties
likely = np.round(truth + g.normal(size=200), 1)
print(json.dumps({
    "classes": [
        classes("two", guesses, labels),
        classes("seven", np.where(g.random(250) < 0.5, many, g.integers(0, 7, 250)), many),
        classes("all right", labels, labels),
        classes("all wrong", 1 - labels, labels),
        classes("always 0", 0 * labels, labels),
        classes("always 1", 0 * labels + 1, labels),
        classes("one class only", guesses, 0 * labels),
        classes("a class that is never guessed", np.minimum(many, 4), many),
    ],
    "scores": [
        scores("ties", np.floor(8 * (g.random(300) + 0.2 * labels)), labels),
        scores("none equal", g.random(300) + 0.5 * labels, labels),
        scores("all equal", np.ones(300), labels),
    ],
    "values": [
        values("ties", likely, truth),
        values("none equal", g.normal(size=150), g.normal(size=150)),
        values("falling", -np.arange(20.0) ** 3, np.arange(20.0)),
        values("far from 0", 1e6 + np.arange(50.0) % 7, g.normal(size=50)),
        values("constant", np.ones(30), np.arange(30.0)),
    ],
}))
