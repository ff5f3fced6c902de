# SPDX-License-Identifier: Apache-2.0
"""The tables of tools/figures/README.md, from the files beside it: bench.json is a file of `make bench`; the .toml files hold rows of other measurements, such as
comparisons with PyTorch, each with its machine, commit and day.

A .toml file has `name`, `columns`, and for every row a text for each column and `machine`, `commit`, `date`. Commands, and texts too long for a cell, stand below the
table under the row's number; names of comparisons stay in the table.
"""
import pathlib
import tomllib

import bench_file
import bench_page

FIGURES = pathlib.Path(__file__).resolve().parent / "figures"
COMMANDS_OF_MANY = ("bringup", "loader", "strategies", "allreduce")  # kinds whose figures are a list
LONGEST_CELL = 200  # characters


def tables():
    """{name: the Markdown between its marks in tools/figures/README.md}. Raises ValueError for a damaged bench.json."""
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
    columns, rows, commands = table["columns"], table["row"], {}
    if columns[-1] == "command":
        columns = columns[:-1]
        for number, row in enumerate(rows, 1):
            commands.setdefault(row["command"], []).append(str(number))
    cells, long_texts = [], []
    for number, row in enumerate(rows, 1):
        cells.append([])
        for column in columns:
            is_long = len(row[column]) > LONGEST_CELL
            if is_long:
                long_texts.append(f"- **{number}**: {row[column]}")
            cells[-1].append("below the table" if is_long else row[column])
        cells[-1].append(f"{row['machine']}; `{row['commit'][:8]}`, {row['date']}")
    heads = [*columns, "machine; commit, day"]
    if not commands and not long_texts:
        return markdown(heads, cells)
    parts = [markdown(["row", *heads], [[str(number), *row] for number, row in enumerate(cells, 1)])]
    if long_texts:
        parts.append("\n".join(long_texts))
    if commands:
        parts.append("Commands, by row:\n\n" + "\n".join(f"- **{', '.join(numbers)}**: {command}" for command, numbers in commands.items()))
    return "\n\n".join(parts)


def bench_table(document):
    runs, lists = [], []
    for entry in document["entries"]:
        name = f"`{entry['name']}`"
        if entry["state"] != "measured":
            reason = entry["state"].replace("|", "\\|")  # may be the error of a program
            runs.append([name, entry["subject"], reason, "", ""])
        elif entry["kind"] in COMMANDS_OF_MANY:
            shown = [in_words(figure) for figure in entry["figures"] if is_shown(entry, figure)]
            lists += [[name, entry["subject"] + noted(entry), *figure] if figure == shown[0] else ["", "", *figure] for figure in shown]
        else:
            runs.append([name, *run_row(entry)])
    parts = [f"{bench_page.machine_line(document['machine'])}, Linux {document['machine']['kernel']}; {bench_page.program_line(document['program'])}; {document['started'][:10]}. Every command ran up to "
             f"{document['repeats']} times; medians, ranges in parentheses. Ceiling: arithmetic as fast as matrix products, memory as fast as a copy outside the caches. Models of published size have random weights."]
    if runs:
        parts.append(markdown(["name", "subject", "measured", "of the ceiling", "MiB planned, resident"], runs))
    if lists:
        parts.append(markdown(["name", "subject", "figure", "median"], lists))
    return "\n\n".join(parts)


def noted(entry):
    return " (disturbed)" if entry["disturbed"] else ""


def run_row(entry):
    share, planned, resident = (bench_page.named(entry, name) for name in ("of the ceiling", "memory planned", "memory resident"))
    memory = ", ".join(bench_page.shown(bench_page.median(figure["values"])) for figure in (planned, resident))
    return [entry["subject"] + noted(entry), bench_page.with_range(entry["figures"][0]), f"{bench_page.median(share['values']):.0f} %" if share else "", memory]


def is_shown(entry, figure):
    """Of a bring-up: what all cores do together, and the machine's latencies; single kernels stand on the page."""
    return entry["kind"] != "bringup" or not figure.get("kernel") and (figure["name"].endswith(", all cores") or figure["unit"] in ("ns", "ms", "MB/s"))


def in_words(figure):
    name = figure["name"].replace(", all cores", "")
    return name, f"{bench_page.shown(bench_page.median(figure['values']))} {figure['unit']}"
