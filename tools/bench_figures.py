# SPDX-License-Identifier: Apache-2.0
"""The figures in the output of one command of tools/bench_entries.py: a list of {name, unit, better, value}, and facts that all repeats share.

better: "more", "less", or "" for a figure that is shown but not compared. The time of a kind of operation has kind: True, and is one of
`of`: times of the same run, which add up to the whole.
"""
MIB = 2**20
LEAST_SHARE = 0.005  # of a run's time: what takes less is left out


def figure(name, value, unit, better, **more):
    return {"name": name, "unit": unit, "better": better, "value": value, **more}


def kinds_of(operations, of=""):
    whole = sum(operation["seconds"] for operation in operations)
    return [figure(f"{of}{': ' if of else ''}{operation['name']}", 1e3 * operation["seconds"], "ms", "less", kind=True, of=of) for operation in operations
            if operation["seconds"] >= LEAST_SHARE * whole]


def memory_of(found):
    return [figure("memory planned", found["planned_bytes"] / MIB, "MiB", "less"), figure("memory resident", found["resident_bytes"] / MIB, "MiB", "less")]


def of_steps(found):
    rate, ceiling = found["samples_per_second"]["median"], found["ceiling_samples_per_second"]
    return [figure("samples/s", rate, "samples/s", "more"), figure("of the ceiling", 100 * rate / ceiling, "%", ""), *memory_of(found), *kinds_of(found["operations"])]


def of_tokens(found):
    return [figure("tokens/s", found["tokens_per_second"], "tokens/s", "more"), *memory_of(found), *kinds_of(found["operations"])]


def of_drawing(found):
    rate, ceiling = found["pictures_per_second"], found["ceiling_pictures_per_second"]
    stages = [figure(f"{stage}, median", found[stage]["median_seconds"], "s", "less") for stage in ("call", "decode", "encode")]
    kinds = [kind for stage in ("call", "decode") for kind in kinds_of(found[stage]["operations"], stage)]
    return [figure("pictures/s", rate, "pictures/s", "more"), figure("of the ceiling", 100 * rate / ceiling, "%", ""), *stages, *memory_of(found), *kinds]


def of_loader(found):
    return [figure(f"workers: {column['workers']}, loads", column["loader_samples_per_second"], "samples/s", "more") for column in found["columns"] if column["loader_samples_per_second"] is not None]


def of_bringup(found):
    """Latencies, pages and the disk are facts of the machine, not of the program."""
    compared = ("products", "kernels", "jpeg", "allreduce")
    return [figure(", ".join(word for word in (f"{one['item']}: {one['name']}", one["place"]) if word), one["median"], one["unit"],
                   ("more" if one["more_is_better"] else "less") if one["item"] in compared else "", kernel=one["item"] == "kernels") for one in found["figures"]]


def of_strategies(found):
    return [figure(row["strategy"], row["samples_per_second"], "samples/s", "more") for row in found["results"]]


def of_allreduce(found):
    figures = []
    for run in found["runs"]:
        for size in run["sizes"]:
            name = f"{run['ranks']} ranks, " + (f"{size['bytes'] / MIB:.0f} MiB" if size["bytes"] >= MIB else f"{size['bytes'] / 1024:.0f} KiB")
            figures += [figure(name, 1e3 * size["ours_seconds"]["median"], "ms", "less"), figure(f"{name}, beside MPI_Allreduce", size["times_mpi"], "times", ""),
                        figure(f"{name}, of the limit", 100 * size["of_limit"], "%", "")]
    return figures


READERS = {"steps": of_steps, "tokens": of_tokens, "draw": of_drawing, "loader": of_loader, "bringup": of_bringup, "strategies": of_strategies, "allreduce": of_allreduce}


def figures_of(kind, found):
    return READERS[kind](found)


def facts_of(found):
    """What a `bascule bench` says of the run itself, the same in every repeat."""
    return {key: found[key] for key in ("precision", "isa", "threads", "batch", "measured", "trained_parameters") if key in found}


def joined(repeats):
    """The figures of all repeats, each with its values. A figure that a repeat lacks, as a kind of operation that took less than LEAST_SHARE in it, is left out."""
    by_name = [{figure["name"]: figure for figure in repeat} for repeat in repeats]
    found = []
    for first in repeats[0] if repeats else []:
        if all(first["name"] in repeat for repeat in by_name):
            own = {key: value for key, value in first.items() if key != "value"}
            found.append({**own, "values": [rounded(repeat[first["name"]]["value"]) for repeat in by_name]})
    return found


def rounded(value):
    """Six digits: far more than any noise."""
    return float(f"{value:.6g}")
