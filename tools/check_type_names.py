#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails where two files define a type of the same name in the same namespace: the compiler sees one of them, and the linker takes
their destructors, and their vectors, for each other's.

  tools/check_type_names.py [ROOT]

Types of an anonymous namespace are their file's own. Reads kernels/, firmware_shims/ and src/ without a compiler: by their braces.
"""
import collections
import pathlib
import re
import sys

NO_CODE = re.compile(r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"' r"|'(?:\\.|[^'\\\n])'", re.DOTALL)
NAMESPACE = re.compile(r"(?:^|\s)namespace\s*([\w:]*)$")
TYPE = re.compile(r"(?:^|\s)(?:class|struct|union|enum|enum class)\s+(?:(?:alignas\(.*?\)|\[\[.*?\]\])\s*)*(\w+)(?:\s+final)?(?:\s*:(?!:)[^{]*)?$")
ANONYMOUS = "(anonymous)"


def types_of(text):
    """Names of the types that a file defines, with their namespaces; none of those within a type or a function."""
    code = NO_CODE.sub(" ", text)
    scopes, begin = [], 0  # a namespace, or None for other braces
    for mark in re.finditer(r"[{};]", code):
        head = " ".join(code[begin:mark.start()].split())
        begin = mark.end()
        if mark.group() == "}" and scopes:
            scopes.pop()
        if mark.group() != "{":
            continue
        namespace, name = NAMESPACE.search(head), TYPE.search(head)
        if name and None not in scopes and ANONYMOUS not in scopes:
            yield "::".join([*scopes, name.group(1)])
        scopes.append((namespace.group(1) or ANONYMOUS) if namespace else None)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    files = collections.defaultdict(set)
    for folder in ("kernels", "firmware_shims", "src"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in (".h", ".cpp"):
                for name in types_of(file.read_text()):
                    files[name].add(file.relative_to(root).as_posix())
    twice = [f"{name} is defined in {' and in '.join(sorted(places))}: rename one" for name, places in sorted(files.items()) if len(places) > 1]
    print("\n".join(twice) or f"type names: {len(files)}, each of one type")
    return 1 if twice else 0


if __name__ == "__main__":
    sys.exit(main())
