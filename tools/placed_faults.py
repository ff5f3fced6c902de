# SPDX-License-Identifier: Apache-2.0
"""The faults of tools/mutations, each with its place in the code: tools/mutate says what a list holds and what a fault must be.

A fault that has no place of its own is refused by name: code that is not found once, half an expression, faults that overlap.
"""
import dataclasses
import pathlib
import re
import sys
import tomllib
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = "mutation.h"


class Misplaced(Exception):
    """A fault that the code has no place for."""


@dataclasses.dataclass
class Fault:
    number: int
    file: str
    old: str
    new: str
    breaks: str
    tests: list
    after: str = ""
    listed_in: str = ""
    begin: int = 0
    line: int = 0

    @property
    def end(self):
        return self.begin + len(self.old)

    @property
    def name(self):
        return f"{self.file}:{self.line}: {self.breaks}"


def read_faults():
    faults = []
    for path in sorted((ROOT / "tools/mutations").glob("*.toml")):
        listing = tomllib.loads(path.read_text())
        for entry in listing["fault"]:
            tests = entry.get("tests", listing.get("tests"))
            faults.append(Fault(number_of(entry), entry["file"], entry["from"], entry["to"], entry["breaks"], tests,
                                entry.get("after", ""), path.stem))
    return faults


def number_of(entry):
    """Of what the fault does, not of its place in the lists: a new fault changes no file but its own."""
    return zlib.crc32("\0".join([entry["file"], entry.get("after", ""), entry["from"], entry["to"]]).encode()) >> 1


def without_text(code):
    return re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', "text", code)


def is_statement(code):
    return code.rstrip().endswith(";")


def is_whole(code):
    """Whether quotes and brackets end in it, and each ? has its alternative."""
    code = without_text(code)
    return ('"' not in code and all(code.count(begin) == code.count(end) for begin, end in ("()", "[]", "{}")) and
            code.count("?") <= len(re.findall("(?<!:):(?!:)", code)))


def is_expression(code):
    """Whether it can stand in parentheses: outside its own brackets it is no list, and each : has its condition."""
    code, inner = without_text(code), None
    while code != inner:
        code, inner = re.sub(r"\([^()]*\)|\[[^][]*\]|\{[^{}]*\}|<([^<>?:;]|::)*>", "inner", code), code
    is_half = re.search(r"^\s*($|[/%|<>=?]|&&|\.(?!\d))|([-*/%&|<>=!?:.]|[^+]\+)\s*$", code)
    return not is_half and not re.search("[,;]", code) and code.count("?") == len(re.findall("(?<!:):(?!:)", code))


def check_form(fault):
    """Both forms stand in a place of their own: half a statement is no expression, and a name would end with its braces."""
    for code in (fault.old, fault.new):
        if not is_whole(code):
            raise Misplaced(f"{fault.file}: neither an expression nor a whole statement: {code}")
        if not is_statement(fault.old) and (not is_expression(code) or re.match(r"(if|for|while|return|const|constexpr|static|auto)\b", code)):
            raise Misplaced(f"{fault.file}: not one expression: {code}")
    if not is_statement(fault.old):
        if fault.old.startswith("{") or fault.new.startswith("{"):
            raise Misplaced(f"{fault.file}: braces alone are no expression: {fault.old}")
    elif re.match(r"(const|constexpr|static|auto)\b[^\n]*;$|(?!return |throw |delete |else |case )[\w:]+(<[^;=]*>)?[&*]? \w+( =|;|\{)", fault.old):
        raise Misplaced(f"{fault.file}: `from` declares a name, which the code behind it would not see: {fault.old}")


def locate(fault, text):
    check_form(fault)
    start = 0
    if fault.after:
        if text.count(fault.after) != 1:
            raise Misplaced(f"{fault.file}: `after` is found {text.count(fault.after)} times, not once: {fault.after}")
        start = text.index(fault.after) + len(fault.after)
    count = text.count(fault.old, start)
    if count == 0 or (count > 1 and not fault.after):
        raise Misplaced(f"{fault.file}: `from` is found {count} times, not once: {fault.old}")
    fault.begin = text.index(fault.old, start)
    before = re.sub(r"(?m)//.*$", "", text[:fault.begin]).rstrip()
    if is_statement(fault.old) and not re.search(r"(^|[;{}):]|\belse)$", before):
        raise Misplaced(f"{fault.file}: `from` is the end of a statement, not a whole one: {fault.old}")
    if re.search(r"(\.|->|::)$", before) or re.search(r"\w\Z", text[:fault.begin]) and re.match(r"\w", fault.old):
        raise Misplaced(f"{fault.file}: `from` begins within a name: {fault.old}")
    if re.search(r"^( *)(?:static |inline )?constexpr [^=;\n]*\)[^=;\n]*\{(\n(?:(?!\1\}).*\n)*)?.*\Z", text[:fault.begin], re.M):
        raise Misplaced(f"{fault.file}: `from` is in a constexpr function, where no fault can be chosen: {fault.old}")
    fault.line = text.count("\n", 0, fault.begin) + 1


def overlaps(faults):
    """One line for each pair of one file's faults that are the same, or of which neither lies within the other."""
    lines, ordered = [], sorted(faults, key=lambda f: (f.begin, -len(f.old)))
    for position, outer in enumerate(ordered):
        for fault in ordered[position + 1:]:
            if fault.begin >= outer.end:
                break
            is_same = (fault.begin, fault.end, fault.new) == (outer.begin, outer.end, outer.new)
            if is_same or fault.end > outer.end:
                lines.append(f"{fault.file}:{fault.line}: {'the same fault is' if is_same else 'overlapping faults are'} in "
                             f"{outer.listed_in}.toml, `{outer.old}`, and in {fault.listed_in}.toml, `{fault.old}`")
    return lines


def with_faults(text, faults):
    """The text with every fault behind its number; a fault may lie within the code that another one replaces."""
    def rendered(begin, end, inner):
        pieces, at = [], begin
        while inner:
            outer = min(inner, key=lambda f: (f.begin, -len(f.old), f.number))
            within = [f for f in inner if f is not outer and f.begin < outer.end]
            inner = [f for f in inner if f is not outer and f.begin >= outer.end]
            unchanged = rendered(outer.begin, outer.end, within)
            pieces.append(text[at:outer.begin])
            if is_statement(outer.old):
                pieces.append(f"{{ if (bascule_mutation == {outer.number}) {{ {outer.new} }} else {{ {unchanged} }} }}")
            else:
                pieces.append(f"(bascule_mutation == {outer.number} ? ({outer.new}) : ({unchanged}))")
            at = outer.end
        return "".join(pieces) + text[at:end]
    return f'#include "{HEADER}"\n' + rendered(0, len(text), faults)


def by_file(faults):
    files = {}
    for fault in faults:
        files.setdefault(fault.file, []).append(fault)
    return files


def place_all(faults):
    texts, misplaced = {}, []
    for fault in faults:
        try:
            text = texts.setdefault(fault.file, (ROOT / fault.file).read_text())
            locate(fault, text)
        except (Misplaced, OSError) as problem:
            misplaced.append(f"{fault.listed_in}.toml: {problem}")
    misplaced += [line for inside in by_file(faults).values() for line in overlaps(inside)]
    if misplaced:
        sys.exit("\n".join(["mutate: faults that have no place of their own:", *misplaced]))
    return texts
