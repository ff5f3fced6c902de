# SPDX-License-Identifier: Apache-2.0
"""The page of a JSON of tools/bench: one file with the look of the program's own pages, without scripts, and with nothing from elsewhere."""
import html
import pathlib
import re
import statistics

ROOT = pathlib.Path(__file__).resolve().parent.parent
STYLE = """
.plot text{font-size:12px;fill:var(--ink)}.plot .soft{fill:var(--soft)}.plot .bar-of{fill:var(--k)}.plot .range{stroke:var(--ink);stroke-width:1.5}
.stacks{display:grid;grid-template-columns:minmax(9em,auto) 1fr;gap:4px 14px;align-items:center}.stacks .stack{margin:0;height:24px}.stacks>span{font-size:13px}
.keys{display:flex;flex-wrap:wrap;gap:4px 18px;margin:12px 0 0;font-size:13px}
.wide tbody th{white-space:normal;min-width:6.5em}details{margin:10px 0}summary{cursor:pointer}td code{display:block;min-width:22em;overflow-wrap:anywhere}
"""
COLOURS = 7  # of kinds of operations; c8 is the rest


def page(document):
    entries = document["entries"]
    sections = [("machine", "Machine and program", facts(document)), ("figures", "Figures", tables(entries)), ("ceiling", "Share of the ceiling", ceilings(entries)),
                ("kinds", "Time by kind of operation", kinds(entries)), ("drift", "The machine meanwhile", drift(document["bringups"])), ("details", "Every figure", details(entries))]
    sections = [section for section in sections if section[2]]
    links = "".join(f'<a href="#{anchor}">{title}</a>' for anchor, title, _ in sections)
    bodies = "".join(f'<section id="{anchor}"><h2>{title}</h2>\n{body}</section>\n' for anchor, title, body in sections)
    return ('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'">\n<title>Figures · Bascule</title>\n'
            f'<style>{program_style()}{STYLE}</style>\n</head>\n<body>\n<header class="inner"><div class="brand">Bascule figures · {safe(document["started"])} UTC</div>\n'
            f'<h1>{safe(machine_line(document["machine"]))}</h1>\n<p class="sub">{safe(program_line(document["program"]))}</p></header>\n<nav aria-label="Sections"><div class="inner">{links}</div></nav>\n'
            f'<main>\n{bodies}</main>\n<footer class="inner">Written by tools/bench. This page is one file and loads nothing from the network.</footer>\n</body>\n</html>\n')


def program_style():
    """That of the program's own pages."""
    return re.search(r'R"css\((.*)\)css"', (ROOT / "src/answer/html_style.cpp").read_text(), re.S).group(1)


def safe(text):
    return html.escape(str(text), quote=True)


def median(values):
    return statistics.median(values)


def shown(value):
    """Three digits and more: 0.0123, 1.23, 12.3, 1,234."""
    if value == 0:
        return "0"
    digits = max(0, 2 - max(-3, len(str(int(abs(value)))) - 1)) if abs(value) >= 1 else 4
    return f"{value:,.{digits}f}"


def with_range(figure):
    text = f"{shown(median(figure['values']))} {figure['unit']}"
    return text if len(figure["values"]) == 1 else f"{text} ({shown(min(figure['values']))} to {shown(max(figure['values']))})"


def machine_line(machine):
    return (f"{machine['processor']} ({machine['family-model-stepping']}), {machine['cores']} cores, {machine['isa']}, {machine['memory_gib']:.0f} GiB"
            + (f", {machine['hypervisor']}" if machine["hypervisor"] else ""))


def program_line(program):
    commit = f"commit {program['commit'][:12]}{'' if program['clean'] else ' with uncommitted changes'}" if program["commit"] else "commit unknown"
    return f"{program['version'][0]}, {commit}, {program['compiler']}, program {program['sha256'][:12]}"


def named(entry, name):
    return next((figure for figure in entry["figures"] if figure["name"] == name), None)


def measured(entries):
    return [entry for entry in entries if entry["state"] == "measured"]


def table(label, heads, rows):
    """heads: (name, is a number); rows: cells of HTML, the first one is the row's heading."""
    head = "".join(f'<th scope="col"{" class=n" if number else ""}>{safe(name)}</th>' for name, number in heads)
    body = "".join(f'<tr><th scope="row">{row[0]}</th>' + "".join(f'<td{" class=n" if number else ""}>{cell}</td>' for cell, (_, number) in zip(row[1:], heads[1:])) + "</tr>\n" for row in rows)
    return f'<div class="wide" role="region" tabindex="0" aria-label="{safe(label)}"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n'


def facts(document):
    machine, program = document["machine"], document["program"]
    rows = [("processor", machine_line(machine)), ("microcode, kernel", f"{machine['microcode']}, Linux {machine['kernel']}"), ("program", program_line(program)),
            ("parts", "; ".join(program["version"][1:])), ("measured", f"{document['started']} UTC; every command up to {document['repeats']} times, figures are medians")]
    disturbed = [entry["name"] for entry in document["entries"] if entry.get("disturbed")]
    rows.append(("disturbed", ", ".join(disturbed) or "no entry: bring-ups before and after each one agree"))
    return '<div class="card"><table class="pairs">' + "".join(f'<tr><th scope="row">{safe(name)}</th><td>{safe(value)}</td></tr>' for name, value in rows) + "</table></div>\n"


def tables(entries):
    rows = []
    for entry in entries:
        if entry["kind"] in ("bringup", "loader", "strategies", "allreduce") and entry["state"] == "measured":
            continue
        if entry["state"] != "measured":
            rows.append([safe(entry["subject"]), safe(entry["state"]), "", "", "", f"<code>{safe(entry['command'])}</code>"])
            continue
        share, planned, resident = (named(entry, name) for name in ("of the ceiling", "memory planned", "memory resident"))
        rows.append([safe(entry["subject"]) + (" (disturbed)" if entry["disturbed"] else ""), safe(with_range(entry["figures"][0])), safe(f"{median(share['values']):.0f} %") if share else "",
                     safe(shown(median(planned["values"]))), safe(shown(median(resident["values"]))), f"<code>{safe(entry['command'])}</code>"])
    heads = [("subject", False), ("median (range)", False), ("of the ceiling", True), ("planned, MiB", True), ("resident, MiB", True), ("command", False)]
    return '<div class="card">' + table("figures", heads, rows) + '<p class="note">Ceiling: arithmetic as fast as matrix products, memory as fast as a copy outside the caches, both measured by the same command.</p></div>\n' if rows else ""


def ceilings(entries):
    """A bar for each entry, and the range of its repeats."""
    found = [(entry, named(entry, "of the ceiling")) for entry in measured(entries)]
    found = [(entry, share) for entry, share in found if share]
    if not found:
        return ""
    left, width, step = 240, 700, 24
    most = max(100, *(max(share["values"]) for _, share in found))
    place = lambda value: left + width * value / most
    parts = [f'<line class="grid" x1="{place(tick):.0f}" x2="{place(tick):.0f}" y1="0" y2="{step * len(found)}"/><text class="soft" x="{place(tick):.0f}" y="{step * len(found) + 16}" text-anchor="middle">{tick} %</text>'
             for tick in range(0, int(most) + 1, 20)]
    for number, (entry, share) in enumerate(found):
        middle, y = median(share["values"]), step * number
        parts.append(f'<text x="{left - 10}" y="{y + 16}" text-anchor="end">{safe(entry["name"])}</text><rect class="bar-of c1" x="{left}" y="{y + 4}" width="{place(middle) - left:.1f}" height="16" rx="3"/>'
                     f'<line class="range" x1="{place(min(share["values"])):.1f}" x2="{place(max(share["values"])):.1f}" y1="{y + 12}" y2="{y + 12}"/><text x="{place(max(share["values"])) + 8:.1f}" y="{y + 16}">{middle:.0f} %</text>')
    words = "; ".join(f"{entry['name']} {median(share['values']):.0f} %" for entry, share in found)
    return (f'<div class="card"><p class="lead">The line in a bar is the range of the repeats.</p><svg class="plot" viewBox="0 0 1000 {step * len(found) + 24}" role="img" aria-label="{safe("Share of the ceiling: " + words)}">'
            f'{"".join(parts)}</svg></div>\n')


def kinds(entries):
    """A stack for each entry; kinds have the same colour in all of them."""
    stacks, totals = [], {}
    for entry in measured(entries):
        own = {figure["name"]: median(figure["values"]) for figure in entry["figures"] if figure.get("kind")}
        if own:
            stacks.append((entry, own))
            for name, milliseconds in own.items():
                totals[name] = totals.get(name, 0) + milliseconds / sum(own.values())
    if not stacks:
        return ""
    colours = {name: f"c{number + 1}" for number, name in enumerate(sorted(totals, key=lambda name: -totals[name])[:COLOURS])}
    rows = []
    for entry, own in stacks:
        whole = sum(own.values())
        ordered = [(name, own[name]) for name in colours if name in own] + [("others", sum(value for name, value in own.items() if name not in colours))]
        parts = "".join(f'<span class="{colours.get(name, "c8")}" style="flex-grow:{value / whole:.4f}" title="{safe(name)} {100 * value / whole:.0f} %"><b>{safe(name) if value > 0.12 * whole else ""}</b></span>'
                        for name, value in ordered if value > 0)
        words = ", ".join(f"{name} {100 * value / whole:.0f} %" for name, value in ordered)
        rows.append(f'<span>{safe(entry["name"])}</span><div class="stack" role="img" aria-label="{safe(words)}">{parts}</div>')
    keys = "".join(f'<span><span class="dot {colour}"></span>{safe(name)}</span>' for name, colour in [*colours.items(), ("others", "c8")])
    return f'<div class="card"><div class="stacks">{"".join(rows)}</div><div class="keys">{keys}</div></div>\n'


def drift(bringups):
    """Matrix products and copies of all bring-ups, as shares of their medians."""
    lines = [("c1", "matrix products", "products: float32 768 x 768, all cores"), ("c2", "memory, copied", "memory: copy, all cores")]
    lines = [(colour, label, [found["figures"][name] for found in bringups if name in found["figures"]]) for colour, label, name in lines]
    if len(bringups) < 2 or any(len(values) != len(bringups) for _, _, values in lines):
        return ""
    x = lambda number: 60 + 920 * number / (len(bringups) - 1)
    y = lambda share: 110 - 100 * (max(0.5, min(1.5, share)) - 1) / 0.5
    parts = [f'<line class="grid" x1="60" x2="980" y1="{y(share):.0f}" y2="{y(share):.0f}"/><text class="soft" x="50" y="{y(share) + 4:.0f}" text-anchor="end">{100 * share:.0f} %</text>' for share in (0.6, 0.8, 1.0, 1.2, 1.4)]
    words = []
    for colour, label, values in lines:
        middle = median(values)
        points = " ".join(f"{x(number):.1f},{y(value / middle):.1f}" for number, value in enumerate(values))
        parts.append(f'<polyline class="line {colour}" points="{points}"/>')
        words.append(f"{label}: median {shown(middle)}, {shown(min(values))} to {shown(max(values))}")
    keys = "".join(f'<span class="key"><svg viewBox="0 0 34 12" aria-hidden="true"><line class="line {colour}" x1="0" x2="34" y1="6" y2="6"/></svg>{safe(text)}</span>' for (colour, _, _), text in zip(lines, words))
    return (f'<figure class="chart plot"><figcaption><b>Bring-ups between the entries, of the median</b>{keys}</figcaption><svg viewBox="0 0 1000 220" role="img" aria-label="{safe("; ".join(words))}">{"".join(parts)}</svg></figure>\n')


def details(entries):
    """Each entry's figures, settings and repeats, folded."""
    bodies = []
    for entry in measured(entries):
        rows = [[safe(figure["name"]), safe(shown(median(figure["values"]))), safe(figure["unit"]), safe(", ".join(shown(value) for value in figure["values"]))] for figure in entry["figures"]]
        settings = f"settings <code>{entry['settings_digest'][:16]}</code>" if entry.get("settings_digest") else ""
        keys = f"; keys {' '.join(f'<code>{safe(key)}</code>' for key in entry['keys'])}" if entry["keys"] else ""
        tries = f"; {len(entry['attempts'])} attempts" if len(entry["attempts"]) > 1 else ""
        off = f"; disturbed: {safe('; '.join(entry['disturbed']))}" if entry["disturbed"] else ""
        bodies.append(f'<details class="card"><summary>{safe(entry["name"])}: {safe(entry["subject"])}</summary><p class="note"><code>{safe(entry["command"])}</code></p><p class="note">{settings}{keys}{tries}{off}</p>'
                      + table(entry["name"], [("figure", False), ("median", True), ("unit", False), ("every repeat", False)], rows) + "</details>\n")
    return "".join(bodies)
