# SPDX-License-Identifier: Apache-2.0
"""What changed between two JSONs of tools/bench beyond their noise.

Every figure is the logarithm of a time (of 1 / a rate): x of the old repeats, y of the new ones.
- Change: of whole runs and single kernels measured in turn, the Hodges-Lehmann estimate of y - x, pair by pair; of the others, that between all x and y:
  as robust against single repeats as a median, and nearly as exact as a mean.
- Kinds of operations: the repeat's level is taken off first, the median over its kinds of how far each one lies from its own median: a clock that moves for a
  while moves all of them. The change with the level must point the same way, and be half as large.
- Noise: the standard deviation, of five and more without the furthest one, so that one disturbed repeat hides nothing; and moderated: a few repeats say
  too little about one figure, so that the variance that is usual in its class counts as up to PRIOR_DEGREES further degrees of freedom (Smyth 2004, section 3).
- Fewer than ENOUGH repeats cannot tell a disturbed one from the others: a change must also exceed the furthest that repeats of one figure of its class differ.
- A figure changed if |change| (and, but for kinds, the difference of the medians) exceeds its class's floor and the quantile of Student's distribution at which all figures together give a false alarm
  in ALARM of the comparisons (Bonferroni), and if all pairs but one in five agree on the sign.
- Files that were not measured in turn: the bring-ups around an entry say how far the machine was faster or slower, and the limit is wider by that.
"""
import functools
import math
import statistics

ALARM = 0.02
PRIOR_DEGREES = 16
ENOUGH = 5          # repeats
LEAST_SHARE = 0.03  # of the time of a run: a smaller kind of operation is not compared
LEAST_KINDS = 4     # for a level
FLOORS = {"whole": 0.03, "kind": 0.05, "kernel": 0.05, "memory": 0.03}
VISIBLE = math.log(1.1)


def class_of(figure):
    return "kind" if figure.get("kind") else "kernel" if figure.get("kernel") else "memory" if figure["unit"] == "MiB" else "whole"


def logarithms(figure):
    """Larger: slower."""
    return [(1 if figure["better"] == "less" else -1) * math.log(value) for value in figure["values"]]


def figures_in_both(old, new):
    """Pairs of figures of an entry that can be compared: (old, new)."""
    by_name = {figure["name"]: figure for figure in new["figures"]}
    pairs = [(figure, by_name[figure["name"]]) for figure in old["figures"] if figure["name"] in by_name and figure["better"]]
    pairs = [(a, b) for a, b in pairs if min(*a["values"], *b["values"]) > 0]
    wholes = {}
    for a, _ in pairs:
        if a.get("kind"):
            wholes[a["of"]] = wholes.get(a["of"], 0) + statistics.median(a["values"])
    return [(a, b) for a, b in pairs if not a.get("kind") or max(statistics.median(a["values"]), statistics.median(b["values"])) >= LEAST_SHARE * wholes[a["of"]]]


def levels(series):
    """For each repeat, how far all series lie above their medians; zeros for too few series."""
    count = len(series[0])
    if len(series) < LEAST_KINDS:
        return [0.0] * count
    middles = [statistics.median(values) for values in series]
    return [statistics.median(values[repeat] - middle for values, middle in zip(series, middles)) for repeat in range(count)]


def without_levels(pairs):
    """Logarithms of the kinds of one run, old and new repeats behind each other, less their levels: {name: (x, y)}"""
    count = len(pairs[0][0]["values"])
    series = [logarithms(a) + logarithms(b) for a, b in pairs]
    of_all = levels(series)
    return {a["name"]: ([value - level for value, level in zip(values, of_all)][:count], [value - level for value, level in zip(values, of_all)][count:]) for (a, _), values in zip(pairs, series)}


def variance_of(values):
    """(estimate, degrees of freedom)"""
    count = len(values)
    if count < 5:
        return (statistics.variance(values), count - 1) if count > 1 else (0.0, 0)
    middle = statistics.median(values)
    kept = sorted(values, key=lambda value: abs(value - middle))[:-1]
    return statistics.variance(kept) * (1 + 5 / (count - 0.6)), count - 2  # hardly any bias for normal values: 20,000 draws of 5, 6, 8 and 10


def change_of(x, y, are_pairs):
    """(change, its variance's estimate, degrees of freedom, how many values it is of, the differences)"""
    if are_pairs:
        differences = [b - a for a, b in zip(x, y)]
        change = statistics.median((differences[i] + differences[j]) / 2 for i in range(len(differences)) for j in range(i + 1))
        return change, *variance_of(differences), len(differences), differences
    (variance_x, degrees_x), (variance_y, degrees_y) = variance_of(x), variance_of(y)
    differences = [b - a for a in x for b in y]
    return statistics.median(differences), variance_x + variance_y, degrees_x + degrees_y, 2 / (1 / len(x) + 1 / len(y)), differences


def alarm_probability(t, degrees):
    """P(|T| > t) of Student's distribution with a whole number of degrees: Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(degrees))
    square, term, total = math.cos(angle)**2, 1.0 if degrees % 2 == 0 else math.cos(angle), 0.0
    for index in range(degrees // 2 if degrees % 2 == 0 else (degrees - 1) // 2):
        total += term
        term *= square * (2 * index + 1) / (2 * index + 2) if degrees % 2 == 0 else square * (2 * index + 2) / (2 * index + 3)
    inside = math.sin(angle) * total if degrees % 2 == 0 else 2 / math.pi * (angle + math.sin(angle) * total)
    return 1 - inside


@functools.lru_cache
def quantile(probability, degrees):
    """t of which P(|T| > t) is that."""
    low, high = 0.0, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if alarm_probability(middle, degrees) > probability else (low, middle)
    return high


def agree(change, differences):
    others = sum(difference * change <= 0 for difference in differences)
    return others <= 0.2 * len(differences)


def of_entry(old, new, are_pairs, moved):
    """A row for each figure of an entry, without a verdict. moved: how far the machine was slower around the new one: {"products": log, "memory": log}"""
    pairs = figures_in_both(old, new)
    measured = {a["name"]: (logarithms(a), logarithms(b)) for a, b in pairs}
    for of in {a["of"] for a, _ in pairs if a.get("kind")}:
        kinds = [(a, b) for a, b in pairs if a.get("kind") and a["of"] == of]
        measured.update(without_levels(kinds))
    rows = []
    for a, b in pairs:
        x, y = measured[a["name"]]
        change, variance, degrees, count, differences = change_of(x, y, are_pairs and not a.get("kind"))
        plain = statistics.median(logarithms(b)) - statistics.median(logarithms(a))
        spread = max(map(extent, [differences] if are_pairs and not a.get("kind") else [x, y]))
        apart = abs(moved["products"] - moved["memory"]) if a.get("kind") else max(map(abs, moved.values()))
        rows.append({"entry": old["name"], "figure": a["name"], "unit": a["unit"], "class": class_of(a), "old": statistics.median(a["values"]), "new": statistics.median(b["values"]), "change": change,
                     "plain": plain, "variance": variance, "degrees": degrees, "count": count, "differences": differences, "spread": spread, "repeats": min(len(x), len(y)), "moved": apart if class_of(a) != "memory" else 0.0})
    return rows


def extent(values):
    return max(values) - min(values)


def with_known_noise(rows):
    """(rows of classes of which anything was repeated, the others)"""
    known = {row["class"] for row in rows if row["degrees"] > 0}
    return [row for row in rows if row["class"] in known], [row for row in rows if row["class"] not in known]


def judged(rows):
    """The rows, all with_known_noise(), with `limit` and `verdict`: "slower", "faster", "larger", "smaller", or "same"."""
    classes = {name: [row for row in rows if row["class"] == name] for name in FLOORS}
    for row in rows:
        own = classes[row["class"]]
        prior = 1.25 * statistics.median(one["variance"] for one in own if one["degrees"] > 0)  # a median of such variances is that much below their mean
        prior_degrees = min(PRIOR_DEGREES, round(0.6 * sum(one["degrees"] for one in own if one is not row)))
        degrees = prior_degrees + row["degrees"]
        variance = (prior_degrees * prior + row["degrees"] * row["variance"]) / max(1, degrees)
        error = 1.03 * math.sqrt(variance / row["count"])  # of a Hodges-Lehmann estimate
        row["limit"] = max(FLOORS[row["class"]], quantile(ALARM / len(rows), max(1, degrees)) * error, max(one["spread"] for one in own) if row["repeats"] < ENOUGH else 0.0) + row["moved"]
        least = abs(row["change"]) / 2 if row["class"] == "kind" else row["limit"]
        is_change = abs(row["change"]) > row["limit"] and row["plain"] * row["change"] > 0 and abs(row["plain"]) > least and agree(row["change"], row["differences"])
        words = ("larger", "smaller") if row["class"] == "memory" else ("slower", "faster")
        row["verdict"] = words[0 if row["change"] > 0 else 1] if is_change else "same"
    return rows
