#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/metrics.json: random results of classifiers and regressions with the figures that scikit-learn and scipy give them.

    make_metric_goldens.py [OUT_FILE]

Some results are one-sided: a class without a row, predictions that are all one class, values with many ties. A figure that is not defined is null. Needs numpy, scikit-learn and scipy.
"""
import argparse
import json
import math
import pathlib
import warnings

import numpy
import scipy.stats
import sklearn.metrics

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = 100  # of each kind


def finite(value):
    return float(value) if math.isfinite(value) else None


def classes(random):
    count, rows = int(random.choice([2, 2, 3, 5, 9])), int(random.integers(1, 40))
    labels = random.integers(0, count if random.random() < 0.8 else 1, rows)
    predicted = numpy.where(random.random(rows) < 0.6, labels, random.integers(0, count, rows)) if random.random() < 0.8 else numpy.full(rows, random.integers(0, count))
    figures = {"accuracy": sklearn.metrics.accuracy_score(labels, predicted), "macro_f1": sklearn.metrics.f1_score(labels, predicted, average="macro", zero_division=0),
               "matthews_correlation": sklearn.metrics.matthews_corrcoef(labels, predicted)}
    if count == 2:
        figures["f1"] = sklearn.metrics.f1_score(labels, predicted, labels=[0, 1], zero_division=0)
        figures["combined_score"] = (figures["accuracy"] + figures["f1"]) / 2
    return {"classes": count, "labels": labels.tolist(), "predicted": predicted.tolist(), "figures": {key: finite(value) for key, value in figures.items()}}


def values(random):
    rows = int(random.integers(2, 40))
    step = random.choice([0.0, 0.5, 2.5])  # of rounding: ties
    def rounded(numbers):
        return numpy.float32(numpy.round(numbers / step) * step if step else numpy.round(numbers, 3)).astype(float)
    labels = rounded(random.normal(2.5, 1.5, rows))
    predicted = rounded(labels * random.normal(0.5, 0.5) + random.normal(0, 1, rows)) if random.random() < 0.9 else numpy.full(rows, 1.5)
    pearson, spearman = scipy.stats.pearsonr(predicted, labels)[0], scipy.stats.spearmanr(predicted, labels)[0]
    figures = {"mse": sklearn.metrics.mean_squared_error(labels, predicted), "pearson": pearson, "spearmanr": spearman, "combined_score": (pearson + spearman) / 2}
    return {"labels": labels.tolist(), "predicted": predicted.tolist(), "figures": {key: finite(value) for key, value in figures.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", default=str(ROOT / "tests" / "data" / "metrics.json"), help="default: tests/data/metrics.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    random = numpy.random.default_rng(1)
    made = {"made_with": {"scikit-learn": sklearn.__version__, "scipy": scipy.__version__}, "classes": [classes(random) for _ in range(RESULTS)], "values": [values(random) for _ in range(RESULTS)]}
    for result in made["classes"] + made["values"]:
        for key in ("labels", "predicted"):
            result[key] = [round(value, 6) for value in result[key]]
    with open(arguments.out, "w") as file:
        file.write("{\"made_with\": " + json.dumps(made["made_with"]))
        for kind in ("classes", "values"):
            file.write(",\n\"" + kind + "\": [\n" + ",\n".join(json.dumps(result) for result in made[kind]) + "]")
        file.write("}\n")


if __name__ == "__main__":
    main()
