# SPDX-License-Identifier: Apache-2.0
"""The faults of tools/mutations, each with its place in the code: tools/mutate says what a list holds and what a fault must be.

A fault that has no place of its own is refused by name: code that is not found once, half an expression, faults that overlap.
"""
import dataclasses
import functools
import json
import pathlib
import re
import sys
import tomllib
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
MUTATIONS = ROOT / "tools/mutations"
RECORDED = MUTATIONS / "noticed_by.json"
WAIVERS = MUTATIONS / "waivers.toml"
HEADER = "mutation.h"
CONSTANTS = {"true": ("==", "||"), "false": ("!=", "&&")}


class Misplaced(Exception):
    """A fault that the code has no place for."""


@dataclasses.dataclass
class Fault:
    number: int
    listed_in: str
    old: str
    new: str
    breaks: str
    tests: list
    after: str = ""
    file: str = ""
    begin: int = 0
    line: int = 0

    @property
    def end(self):
        return self.begin + len(self.old)

    @property
    def name(self):
        return f"{self.file}:{self.line}: {self.breaks}"


def room_of(file):
    return file.removeprefix("src/").partition("/")[0]


def sources(room):
    """The texts of a room, by their paths."""
    folder = next(path for path in (ROOT / "src" / room, ROOT / room) if path.is_dir() or path.parent == ROOT)
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted(folder.rglob("*")) if path.suffix in (".cpp", ".h")}


def rooms():
    return sorted(path.name for path in [*(ROOT / "src").iterdir(), ROOT / "kernels", ROOT / "firmware_shims"] if path.is_dir())


def program_of(test):
    return test.partition(": ")[0]


@functools.cache
def read_list(room):
    path = MUTATIONS / f"{room}.toml"
    try:
        return tomllib.loads(path.read_text()) if path.is_file() else {}
    except tomllib.TOMLDecodeError as problem:
        sys.exit(f"mutate: {path.name}: {problem}")


def programs_of(room):
    """Those that test a room: of its own name, where its list does not say otherwise."""
    return read_list(room).get("tests", [room])


def read_faults():
    """Those that are listed. The test that noticed a fault the last time is tried first, then those that it names, then its room's."""
    noticed_by = json.loads(RECORDED.read_text())
    faults = []
    for room in sorted(path.stem for path in MUTATIONS.glob("*.toml") if path != WAIVERS):
        for promise, entry in read_list(room).items():
            if promise != "tests":
                number = number_of(room, entry)
                recorded = [program_of(noticed_by[str(number)])] if str(number) in noticed_by else []
                tests = list(dict.fromkeys([*recorded, *entry.get("tests", []), *programs_of(room)]))
                faults.append(Fault(number, room, entry["from"], entry["to"], promise, tests, entry.get("after", "")))
    return faults


def number_of(room, entry):
    """Of what the fault does, not of its place in the lists or its file: a new fault, or a file that moves, changes no other number."""
    return zlib.crc32("\0".join([room, entry.get("after", ""), entry["from"], entry["to"]]).encode()) >> 1


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
            raise Misplaced(f"neither an expression nor a whole statement: {code}")
        if not is_statement(fault.old) and (not is_expression(code) or re.match(r"(if|for|while|return|const|constexpr|static|auto)\b", code)):
            raise Misplaced(f"not one expression: {code}")
    if not is_statement(fault.old):
        if fault.old.startswith("{") or fault.new.startswith("{"):
            raise Misplaced(f"braces alone are no expression: {fault.old}")
    elif re.match(r"(const|constexpr|static|auto)\b[^\n]*;$|(?!return |throw |delete |else |case )[\w:]+(<[^;=]*>)?[&*]? \w+( =|;|\{)", fault.old):
        raise Misplaced(f"`from` declares a name, which the code behind it would not see: {fault.old}")


def locate(fault, texts):
    """Finds the place in the texts of a room, each known by its path."""
    check_form(fault)
    found = [(file, text) for file, text in texts.items() for _ in range(text.count(fault.after or fault.old))]
    if len(found) != 1:
        raise Misplaced(f"`{'after' if fault.after else 'from'}` is found {len(found)} times, not once: {fault.after or fault.old}")
    fault.file, text = found[0]
    start = text.index(fault.after) + len(fault.after)
    if fault.old not in text[start:]:
        raise Misplaced(f"{fault.file}: `from` is not found behind `after`: {fault.old}")
    fault.begin = text.index(fault.old, start)
    if any(raw.start() < fault.begin < raw.end() for raw in re.finditer(r'R"(\w*)\((?s:.*?)\)\1"', text)):
        raise Misplaced(f"{fault.file}: `from` is in a text, such as a page's script, where no fault can be chosen: {fault.old}")
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
            elif outer.new in CONSTANTS:  # the code may be of any type that a condition can have
                compares, joins = CONSTANTS[outer.new]
                pieces.append(f"(bascule_mutation {compares} {outer.number} {joins} ({unchanged}))")
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
    for room in sorted({fault.listed_in for fault in faults}):
        of_room = sources(room)
        for fault in faults:
            if fault.listed_in == room:
                try:
                    locate(fault, of_room)
                except Misplaced as problem:
                    misplaced.append(f"{room}.toml: {fault.breaks}: {problem}")
        texts.update(of_room)
    misplaced += [line for file, inside in by_file(faults).items() if file for line in overlaps(inside)]
    if misplaced:
        sys.exit("\n".join(["mutate: faults that have no place of their own:", *misplaced]))
    return texts
