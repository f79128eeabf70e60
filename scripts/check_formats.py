#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""pf_fail has a formatter of its own: %s, %d, %z, %g and %%. Nothing else stands in what it is given.
check_formats.py [FILE...]: all C files of the project unless named. Last line: N passed, N failed."""

import pathlib
import re
import sys

CALLS = re.compile(r"\bpf_fail\s*\(")
TOKENS = re.compile(r'"((?:\\.|[^"\\])*)"|[()]|\'(?:\\.|[^\'\\])\'')
CONVERSION = re.compile(r"%(?![sdzg%])[^a-zA-Z]*.?|%zu")


def literals(text, start):
    """The string literals of the call whose arguments begin at start."""
    depth, found = 1, []
    for token in TOKENS.finditer(text, start):
        word = token.group()
        depth += (word == "(") - (word == ")")
        if depth == 0:
            break
        if word[0] == '"':
            found.append(token.group(1))
    return "".join(found)


def wrong(text):
    """Line and conversion of all that the formatter does not know."""
    for call in CALLS.finditer(text):
        for conversion in CONVERSION.findall(literals(text, call.end()).replace("%%", "")):
            yield text.count("\n", 0, call.start()) + 1, conversion


def main():
    tree = pathlib.Path(__file__).resolve().parent.parent
    named = [pathlib.Path(name) for name in sys.argv[1:]]
    folders = ("src", "include", "examples")
    files = named or sorted(f for folder in folders for f in (tree / folder).rglob("*.[ch]"))
    failed = 0
    for file in files:
        bad = list(wrong(file.read_text(encoding="utf-8")))
        failed += bool(bad)
        for line, conversion in bad:
            print(f"FAILED {file}:{line}: pf_fail does not know {conversion}")
    print(f"{len(files) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
