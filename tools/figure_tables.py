# SPDX-License-Identifier: Apache-2.0
"""The tables of tools/README.md, from tools/figures: bench.json is a file of `make bench`; the .toml files hold rows of other measurements, such as comparisons
with PyTorch, each with the machine, the commit and the day that it is of.

A .toml file has `name`, `columns`, and for every row a text for each column and `machine`, `commit`, `date`. In both kinds of table the last column says where a row comes from.
"""
import pathlib
import tomllib

import bench_file
import bench_page

FIGURES = pathlib.Path(__file__).resolve().parent / "figures"
COMMANDS_OF_MANY = ("bringup", "loader", "strategies", "allreduce")  # kinds whose figures are a list


def tables():
    """{name: the Markdown between its marks in tools/README.md}. Raises ValueError for a damaged bench.json."""
    bench = FIGURES / "bench.json"
    found = {"figures of make bench": bench_table(bench_file.read(bench)) if bench.is_file() else "No run has been published yet."}
    for file in sorted(FIGURES.glob("*.toml")):
        table = tomllib.loads(file.read_text())
        found[f"figures of {table['name']}"] = recorded_table(table)
    return found


def markdown(heads, rows):
    for row in rows:
        if len(row) != len(heads):
            raise ValueError(f"{row[0]}: {len(row)} cells instead of {len(heads)}")
    return "\n".join([f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(f"| {' | '.join(row)} |" for row in rows)])


def recorded_table(table):
    source = lambda row: f"{row['machine']}; `{row['commit'][:8]}`, {row['date']}"
    return markdown([*table["columns"], "machine; commit, day"], [[*(row[column] for column in table["columns"]), source(row)] for row in table["row"]])


def bench_table(document):
    entries = document["entries"]
    runs, lists = [], []
    for entry in entries:
        if entry["state"] != "measured":
            reason = entry["state"].replace("|", "\\|")  # may be the error of a program
            runs.append([entry["subject"], reason, "", "", f"`{entry['command']}`"])
        elif entry["kind"] in COMMANDS_OF_MANY:
            lists.append([entry["subject"] + noted(entry), "; ".join(in_words(figure) for figure in entry["figures"] if is_shown(entry, figure)), f"`{entry['command']}`"])
        else:
            runs.append(run_row(entry))
    # The command of a page has no `|`, which would end the cell; a kernel's name has none either.
    parts = [f"{bench_page.machine_line(document['machine'])}, Linux {document['machine']['kernel']}; {bench_page.program_line(document['program'])}; {document['started'][:10]}. Every command ran up to "
             f"{document['repeats']} times; medians, ranges in parentheses. Ceiling: arithmetic as fast as matrix products, memory as fast as a copy outside the caches. Models of published size have random weights."]
    if runs:
        parts.append(markdown(["subject", "measured", "of the ceiling", "MiB planned, resident", "command"], runs))
    if lists:
        parts.append(markdown(["subject", "measured", "command"], lists))
    return "\n\n".join(parts)


def noted(entry):
    return " (disturbed)" if entry["disturbed"] else ""


def run_row(entry):
    share, planned, resident = (bench_page.named(entry, name) for name in ("of the ceiling", "memory planned", "memory resident"))
    memory = ", ".join(bench_page.shown(bench_page.median(figure["values"])) for figure in (planned, resident))
    return [entry["subject"] + noted(entry), bench_page.with_range(entry["figures"][0]), f"{bench_page.median(share['values']):.0f} %" if share else "", memory, f"`{entry['command']}`"]


def is_shown(entry, figure):
    """Of a bring-up: what all cores do together, and the machine's latencies; single kernels stand on the page."""
    return entry["kind"] != "bringup" or not figure.get("kernel") and (figure["name"].endswith(", all cores") or figure["unit"] in ("ns", "ms", "MB/s"))


def in_words(figure):
    name = figure["name"].replace(", all cores", "")
    return f"{name} {bench_page.shown(bench_page.median(figure['values']))} {figure['unit']}"
