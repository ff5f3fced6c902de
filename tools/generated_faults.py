# SPDX-License-Identifier: Apache-2.0
"""Mechanical faults, made from the sources: a statement removed, a condition made constant, a token changed.

candidates() finds every place of a source for one. chosen_faults() takes as many as are wanted by a seed: one of each .cpp file
first, then the three kinds in equal parts. A place is known by its line of code, so that a change elsewhere, or a file that
moves, changes no choice. No fault is put where the compiler needs a constant or a name, nor into what is only printed for people.
"""
import collections
import dataclasses
import itertools
import re
import sys
import tomllib
import zlib

from placed_faults import CONSTANTS, ROOT, WAIVERS, Fault, Misplaced, by_file, check_form, is_statement, overlaps, program_of, programs_of, room_of, rooms, sources

MOST_TESTS = 8
TOKENS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
          "*": "/", "/": "*", "%": "/", "&": "|", "|": "&", "!": "!!", "std::min": "std::max", "std::max": "std::min"}
COMPARES = {"<", "<=", ">", ">=", "==", "!=", "&&", "||"}
NOT_CODE = re.compile(r'R"(\w*)\((?s:.*?)\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|//.*|/\*(?s:.*?)\*/|^[ \t]*#(?:\\\n|.)*', re.M)
# The compiler needs a constant or a name, or no test can tell: what is printed, what only makes a program faster, checks that never fail.
SPARED = re.compile(r"(?<!if )\bconstexpr\b|\b(static_assert|case|using|typedef|enum|struct|class|union|alignas|sizeof|decltype|noexcept|asm|throw|"
                    r"\w*printf|f?puts|perror|(note|say)(?=\()|reserve|shrink_to_fit|BASCULE_D?CHECK|munmap|\w*prefetch\w*|\w*madvise|posix_fadvise)\b")
NO_STATEMENT = re.compile(r"(if|else|for|while|do|switch|case|default|return|throw|goto|break|continue|delete|static_cast\w*)\b")
CHAIN = r"(::)?\w+((::|\.|->)\w+)*"
STATEMENT = re.compile(rf"(\+\+|--){CHAIN};|\*?{CHAIN} ([-+*/%|&^]|<<|>>)?=\s.*;|{CHAIN}(?<=_);", re.S)
SIGN = re.compile(r"""(?P<bracket>[][(){}])
  |(?P<control>\b(?:if|for|while|switch)\s(?:constexpr\s)?(?=\())
  |(?P<separator>[,;]|(?<=\s)(?:[-+*/%|&^]|<<|>>)?=(?=\s)|(?<=\s)\?(?=\s)|(?<!:):(?!:)|\b(?:return|else|do)\b)
  |(?P<token>(?<=\s)(?:==|!=|<=|>=|<|>|&&|\|\||[-+*/%&|])(?=\s)|(?<![\w)\]])!(?=[\w(:])|\bstd::(?:min|max)(?=[_(]))
  |(?P<number>(?<![\w.'])\d[\d']*(?:\.\d+)?(?:e[-+]?\d+)?[uUlLfF]*(?![\w.']))""", re.X)
DECLARED = re.compile(r"[\w>*&] \w+ =\Z")
ARRAY = re.compile(r"[\w>*&]\s+\w+(\[[^]\n]*\])*\[\Z")  # a declared one, before its extent


def blanked(text):
    """The code alone, the arguments of templates as parts of names; every place stays where it is."""
    def blank(match):
        is_text = match.group()[0] in "R\"'"
        inner = re.sub(r"[^\n]", "_" if is_text else " ", match.group())
        return f'"{inner[1:-1]}"' if is_text else inner
    code, before = NOT_CODE.sub(blank, text), None
    while code != before:
        before, code = code, re.sub(r"(?<=\w)<[^<>;{}]*>", lambda match: re.sub(r"[^\n]", "_", match.group()), code)
    return code


def without_inner(code):
    """With what stands in brackets, and the brackets, as parts of names."""
    before = None
    while code != before:
        before, code = code, re.sub(r"\([^][(){}]*\)|\[[^][(){}]*\]|\{[^][(){}]*\}", lambda match: "_" * len(match.group()), code)
    return code


def bodies(code):
    """The bodies of functions, as (begin, end), but for those that the compiler may evaluate."""
    closes, open_ones = {}, []
    for match in re.finditer("[{}]", code):
        if match.group() == "{":
            open_ones.append(match.start())
        elif open_ones:
            closes[open_ones.pop()] = match.start()
    begin = at = 0
    while match := re.compile("[;{}]").search(code, at):
        at = match.end()
        head = re.sub(r"\btemplate <[^{]*?>\s", "", code[begin:match.start()])
        is_open = match.group() == "{"
        if not is_open or re.search(r'\b(namespace|class|struct|union)\b[^()=]*\Z|\bextern "', head):
            begin = at
            continue
        end = closes.get(match.start(), len(code))
        flat = re.sub(r"\boperator\W+", "", without_inner(head))
        is_body = re.search(r"_\s+((const|noexcept\w*|override|final|&|try)\s+)*(->.*)?\Z", flat) and "=" not in flat
        if is_body and not re.search(r"\bconst(expr|eval)\b", head):
            yield at, end
        begin, at = end + 1 if is_body or re.search(r"\benum\b", head) else begin, end + 1


@dataclasses.dataclass
class Slot:
    """An expression between brackets, commas, semicolons, assignments, ? and :."""
    begin: int
    before: str  # the sign, or the word of control, before it
    signs: list = dataclasses.field(default_factory=list)
    end: int = 0
    behind: str = ""


def parts(code, begin, end):
    """The expressions of a body, each a Slot, and its statements, as (begin, end)."""
    slot, head, is_spared, word, under_if, stack = Slot(begin, "{"), begin, False, "", -1, []
    for match in SIGN.finditer(code, begin, end):
        at, sign = match.start(), match.group().strip()
        if match.lastgroup in ("token", "number"):
            slot.signs.append((at, sign))
        elif match.lastgroup == "control":
            word = sign
        elif sign in "([{":
            is_block = sign == "{" and code[head:at].strip() in ("", "try")
            stack.append((slot, head, is_spared, word, sign, is_block))
            is_spared = word == "if constexpr" or not is_block and bool(is_spared or SPARED.search(code, head, at))
            slot, word, head = Slot(at + 1, word or sign), "", at + 1 if sign == "{" else head
        else:
            spares = is_spared or SPARED.search(code, head, at)
            slot.end, slot.behind = at, sign
            if not spares:
                yield slot
            if sign in ")]}":
                slot, head, is_spared, word, _, is_block = stack.pop()
                if word or is_block:
                    slot, head, under_if = Slot(at + 1, "{"), at + 1, at + 1 if word.startswith("if") else under_if
                word = ""
                continue
            is_statement = sign == ";" and (not stack or stack[-1][4] == "{")
            if is_statement and not spares and head != under_if:
                yield head, at + 1
            slot = Slot(match.end(), "for" if stack and stack[-1][3] == "for" else sign)
            if is_statement or sign in ("else", "do") or sign == ":" and re.match(r"\s*(case|default)\b", code[head:at]):
                head = match.end()


def stripped(text, begin, end):
    inner = text[begin:end]
    return begin + len(inner) - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())


def of_slot(text, code, slot):
    """Each as (begin, end, the code in its place)."""
    begin, end = stripped(text, slot.begin, slot.end)
    old, signs = text[begin:end], {sign for _, sign in slot.signs}
    if not old or "//" in old or slot.before == "[" and ARRAY.search(code[max(0, slot.begin - 80):slot.begin]):
        return
    is_truth = signs & COMPARES and not signs & {"&", "|"} or signs == {"!"} and old.startswith("!")
    is_condition = slot.before in ("if", "while") and slot.behind == ")" or slot.behind == "?" or is_truth
    if is_condition or old in ("true", "false"):
        values = ("false",) if slot.before in ("while", "for") else ("true", "false")
        yield from ((begin, end, value) for value in values if value != old)
    joins = [(at, sign) for at, sign in slot.signs if sign in ("&&", "||")]
    if len({sign for _, sign in joins}) == 1:
        neutral = "true" if joins[0][1] == "&&" else "false"
        edges = [begin - 2, *(at for at, _ in joins), end]
        yield from ((*stripped(text, left + 2, right), neutral) for left, right in zip(edges, edges[1:]))
    for at, sign in slot.signs:
        new = str(int(sign) + 1) if sign.isdecimal() else TOKENS.get(sign, f"({sign} + 1)")
        is_text = sign in "+-*/%" and '"' in old
        is_first_value = old == sign and slot.before == "=" and DECLARED.search(code[max(0, slot.begin - 80):slot.begin])  # often overwritten
        if not is_text and not is_first_value:
            yield begin, end, text[begin:at] + new + text[at + len(sign):end]


def candidates(file, text):
    """Every mechanical fault that a source has a place for."""
    code, seen, found = blanked(text), collections.Counter(), []
    for body in bodies(code):
        for part in parts(code, *body):
            if isinstance(part, Slot):
                made = of_slot(text, code, part)
            else:
                begin, end = stripped(text, part[0], part[1])
                begin += len(text[begin:end]) - len(code[begin:end].lstrip())  # behind a comment
                statement = without_inner(code[begin:end])
                made = [(begin, end, ";")] if STATEMENT.fullmatch(statement) and not NO_STATEMENT.match(statement) else []
            for begin, end, new in made:
                place = (room_of(file), text[text.rfind("\n", 0, begin) + 1:text.find("\n", begin)].strip(), text[begin:end], new)
                seen[place] += 1
                line = text.count("\n", 0, begin) + 1
                number = zlib.crc32("\0".join([*place, str(seen[place])]).encode()) >> 1
                found.append(Fault(number, "generated", text[begin:end], new, " ".join(f"{text[begin:end]} -> {new}".split()), [], "", file, begin, line))
    return found


def waivers():
    """The numbers of faults that change nothing, each with its reason."""
    return {int(number): reason for number, reason in tomllib.loads(WAIVERS.read_text()).items()}


def kind_of(fault):
    return 0 if is_statement(fault.old) else 1 if fault.new in CONSTANTS else 2


def fits(fault, others):
    """Whether it can stand behind its number, beside or within each of the others of its file."""
    try:
        check_form(fault)
    except Misplaced:
        return False
    return not overlaps([*others, fault])


def tests_for(fault, listed):
    """The programs of its room, the runs named after it, then what notices the listed faults of its file and of its room, the most frequent first."""
    room = room_of(fault.file)
    runs = [file for file in [f"tests/faults/test_{room}.py"] if (ROOT / file).is_file()]
    uses = [collections.Counter(program_of(test) for other in listed if is_near(other) for test in other.tests)
            for is_near in (lambda other: other.file == fault.file, lambda other: other.listed_in == room)]
    return list(dict.fromkeys([*programs_of(room), *runs, *(test for use in uses for test, _ in use.most_common())]))[:MOST_TESTS]


def chosen_faults(listed, seed, count, words=()):
    """So many, by the seed; where WORDs are in paths of files, of these files alone."""
    texts = {file: text for room in rooms() for file, text in sources(room).items()} if count else {}
    texts = {file: text for file, text in texts.items() if any(word in file for word in words)} or texts
    inside, waived, numbers = by_file(listed), waivers(), {fault.number for fault in listed}
    firsts, others, chosen = [], [], []

    def turn(fault, *more):
        return zlib.crc32(" ".join(map(str, (seed, fault.number, *more))).encode())

    def of_kinds(faults):
        return [sorted((fault for fault in faults if kind_of(fault) == kind), key=turn) for kind in range(3)]

    for file, text in texts.items():
        made = {fault.number: fault for fault in candidates(file, text) if fault.number not in numbers}
        numbers |= set(made)
        unwaived = [fault for fault in made.values() if fault.number not in waived]
        others += unwaived
        if file.endswith(".cpp"):
            one_each = [next((fault for fault in faults if fits(fault, inside.get(file, []))), None) for faults in of_kinds(unwaived)]
            firsts += sorted(filter(None, one_each), key=lambda fault: turn(fault, "of a kind"))[:1]
    if unknown := set(waived) - numbers if texts and not words else ():
        sys.exit(f"mutate: {WAIVERS.name}: no such faults: {sorted(unknown)}")
    in_equal_parts = (fault for faults in itertools.zip_longest(*of_kinds(others)) for fault in faults if fault)
    for fault in itertools.chain(sorted(firsts, key=turn), in_equal_parts):
        if len(chosen) == count:
            break
        if fits(fault, inside.setdefault(fault.file, [])):  # one of the firsts does not, beside itself
            inside[fault.file].append(fault)
            chosen.append(dataclasses.replace(fault, tests=tests_for(fault, listed)))
    return chosen
