#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Turns terminal text on standard input into an SVG picture on standard output.

    preflight check attitude.kit --fault 3:0.35 --seed 7 |
        scripts/terminal_svg.py "preflight check attitude.kit --fault 3:0.35 --seed 7" > docs/figures/check.svg

Words that carry the verdict are coloured. The text stays text: it can be searched and read aloud.
"""
import html
import re
import sys

FONT, CHAR, LINE, MARGIN = 13, 7.83, 18, 16
COLOURS = (
    (r"\bNO-GO\b|\bNOT\b", "#ff7b72"),
    (r"\bGO-IF\b|\bALARM\b|\bIMPLAUSIBLE\b", "#e3b341"),
    (r"(?<!-)\bGO\b(?!-)", "#56d364"),
)


def coloured(line):
    spans = sorted((m.start(), m.end(), colour) for pattern, colour in COLOURS for m in re.finditer(pattern, line))
    out, at = [], 0
    for start, end, colour in spans:
        if start < at:
            continue
        out.append(html.escape(line[at:start]))
        out.append(f'<tspan fill="{colour}" font-weight="bold">{html.escape(line[start:end])}</tspan>')
        at = end
    return "".join(out) + html.escape(line[at:])


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    lines = ["$ " + command, ""] * bool(command) + sys.stdin.read().rstrip("\n").split("\n")
    width = round(max(map(len, lines)) * CHAR + 2 * MARGIN)
    height = len(lines) * LINE + 2 * MARGIN
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">')
    print(f"<title>{html.escape(command)}</title>")
    print(f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>')
    print(f'<g font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="{FONT}" fill="#e6edf3">')
    for i, line in enumerate(lines):
        y = MARGIN + (i + 0.75) * LINE
        print(f'<text x="{MARGIN}" y="{y:g}" xml:space="preserve">{coloured(line)}</text>')
    print("</g>\n</svg>")


main()
