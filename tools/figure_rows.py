# SPDX-License-Identifier: Apache-2.0
"""Rows of tools/figures/*.toml that a comparison writes itself: figures, machine, commit and day.

A row belongs to the comparisons that its last cell names between backticks. The figures stand in the cell before, which is written anew; the others are words and stay.
"""
import datetime
import json
import re
import tomllib

import bench_machine
import bench_page

HEAD = """# SPDX-License-Identifier: Apache-2.0
# A table of tools/figures/README.md, which tools/update_readme.py writes. commit: the one that recorded the row.
"""
SOURCE = ("machine", "commit", "date")


def read(path):
    """Raises ValueError: one line."""
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    if len(table.get("columns", [])) < 3 or not isinstance(table.get("row"), list):
        raise ValueError(f"{path}: no table of figures; tools/figures has some")
    if table["columns"][-1] not in ("comparison", "command"):
        raise ValueError(f"{path}: its last column is \"{table['columns'][-1]}\" instead of \"comparison\" or \"command\"")
    return table


def text_of(table):
    """The file of a table."""
    def line(key, value):
        return f"{key if re.fullmatch('[A-Za-z0-9_-]+', key) else json.dumps(key)} = {json.dumps(value, ensure_ascii=False)}\n"

    rows = "".join("\n[[row]]\n" + "".join(line(key, row[key]) for key in (*table["columns"], *SOURCE)) for row in table["row"])
    return HEAD + "\n" + line("name", table["name"]) + line("columns", table["columns"]) + rows


def write(path, table):
    """Takes the file's place when it is whole: figures of hours are not lost to a full disk."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(text_of(table))
    beside.replace(path)


def names_of(table, row):
    return re.findall("`([^`]+)`", row[table["columns"][-1]])


def check(table, names):
    """Raises ValueError where a row is of one of these comparisons and of others: their figures would be of different days."""
    for row in table["row"]:
        others = [name for name in names_of(table, row) if name not in names]
        if others and len(others) < len(names_of(table, row)):
            raise ValueError(f"\"{row[table['columns'][0]]}\" is of {', '.join(others)}, too: measure all of them")


def put(table, found, source):
    """found: {comparison: its figures in words}. Every row of these comparisons is written anew, and those without a row get one; rows of the same ones become one."""
    check(table, found)
    subject, figures, last = table["columns"][0], table["columns"][-2], table["columns"][-1]
    rows, written = [], set()
    for row in table["row"]:
        names = tuple(name for name in names_of(table, row) if name in found)
        if not names:
            rows.append(row)
        elif not written.issuperset(names):
            rows.append({**row, figures: "; ".join(found[name] for name in names), **source})
            written.update(names)
    for name in found:
        if name not in written:
            rows.append({**dict.fromkeys(table["columns"], ""), subject: name, figures: found[name], last: f"`{name}`", **source})
    return {**table, "row": rows}


def source_of(program):
    """Machine, commit and day of a row. Raises ValueError where the program is not that of a commit."""
    commit, is_clean = bench_machine.commit_of(program.resolve())
    if not is_clean:
        raise ValueError(f"{program}: not built from a commit without changes, which a row must name")
    try:
        machine = bench_page.machine_line(bench_machine.machine_of(program.resolve()))
    except bench_machine.Failed as failed:
        raise ValueError(str(failed)) from None
    return {"machine": machine, "commit": commit[:12], "date": datetime.date.today().isoformat()}
