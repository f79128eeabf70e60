# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""verdict.py FOLDER PLANT...: tables and figure of scripts/verdict.sh from its audits."""

import json
import math
import pathlib
import subprocess
import sys

RULES = [
    ("shipped", "shipped"),
    ("unrehearsed", "not rehearsed"),
    ("old", "version 0.1"),
    ("threshold", "threshold"),
    ("least_squares", "least squares"),
    ("rehearsal_only", "rehearsal only"),
]


def upper(k, n):
    """The largest rate that k of n are compatible with at 95 %."""
    low, high = 0.0, 1.0
    for _ in range(60):
        p = (low + high) / 2
        total = sum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k + 1))
        low, high = (p, high) if total > 0.05 else (low, p)
    return high if k < n else 1.0


def counts(entry, rule):
    if rule == "shipped":
        return entry
    return entry["without_rehearsal"] if rule == "unrehearsed" else entry.get(rule)


def read(folder, plants):
    """entry name -> rule -> list of (plant, sessions, tasks, counts)"""
    found, promised, order = {}, {}, []
    for plant in plants:
        new = json.loads((folder / f"{plant}.json").read_text())
        old = {e["fault"]: e for e in json.loads((folder / f"{plant}.old.json").read_text())["entries"]}
        for entry in new["entries"]:
            name = entry["fault"]
            if name not in found:
                found[name] = {rule: [] for rule, _ in RULES}
                promised[name] = entry["promised"]
                order.append(name)
            if not entry["covered"]:
                continue
            for rule, _ in RULES:
                one = old[name]["without_rehearsal"] if rule == "old" else counts(entry, rule)
                found[name][rule].append((plant, entry["sessions"], entry["tasks"], one, entry))
    return order, found, promised


def table(order, found, promised):
    lines = [
        "| the machine has | " + " | ".join(label for _, label in RULES) + " | worst plant, shipped | all go | runs |",
        "|---|" + "---|" * (len(RULES) + 3),
    ]
    for name in order:
        cells = []
        for rule, _ in RULES:
            rows = found[name][rule]
            n = sum(r[1] for r in rows)
            k = sum(r[3]["false_go"] for r in rows)
            cells.append(f"{k / n:.3f} (< {upper(k, n):.3f})" if rule == "shipped" else f"{k / n:.3f}")
        rows = found[name]["shipped"]
        plant, n, _, worst, _ = max(rows, key=lambda r: r[3]["false_go"] / r[1])
        k = worst["false_go"]
        where = f"{k} of {n} (< {upper(k, n):.2f}) {plant}" if k else "0"
        sessions = sum(r[1] for r in rows)
        all_go = sum(r[3]["all_go"] for r in rows) / sessions
        runs = sum(r[4]["probes"] + r[4]["rehearsals"] for r in rows) / sessions
        note = "" if promised[name] else " (not promised)"
        lines.append(f"| {name}{note} | " + " | ".join(cells) + f" | {where} | {all_go:.2f} | {runs:.1f} |")
    return "\n".join(lines)


def go_table(order, found):
    lines = ["| the machine has | " + " | ".join(label for _, label in RULES) + " |", "|---|" + "---|" * len(RULES)]
    for name in order:
        cells = []
        for rule, _ in RULES:
            rows = found[name][rule]
            go = sum(r[3]["go"] - r[3]["below_j_min"] for r in rows)
            cells.append(f"{go / sum(r[1] * r[2] for r in rows):.2f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def gains_table(order, found):
    """Intervals and bounds of the entries that are gains."""
    lines = ["| gain | 90 % interval holds it | worst plant | flown below the bound | runs |", "|---|---|---|---|---|"]
    for name in order:
        rows = [r for r in found[name]["shipped"] if "within" in r[4] and r[4]["within"] >= 0]
        if not rows or "two" in name:
            continue
        n = sum(r[1] for r in rows)
        worst = min(rows, key=lambda r: r[4]["within"] / r[1])
        go = sum(r[3]["go"] for r in rows)
        below = sum(r[3]["below_bound"] for r in rows)
        runs = sum(r[4]["probes"] + r[4]["rehearsals"] for r in rows) / n
        lines.append(f"| {name.removeprefix('gain ')} | {sum(r[4]['within'] for r in rows) / n:.3f} | "
                     f"{worst[4]['within'] / worst[1]:.2f} {worst[0]} | {below} of {go} | {runs:.1f} |")
    return "\n".join(lines)


def figure(order, found, path):
    data = [[name] + [sum(r[3]["false_go"] for r in found[name][rule]) / sum(r[1] for r in found[name][rule])
                      for rule, _ in RULES] for name in order]
    rows = "\n".join('"' + row[0] + '" ' + " ".join(f"{v:.4f}" for v in row[1:]) for row in data)
    plots = ", ".join(f"$data using (column({i + 2})):(-$0):yticlabels(1) with points pt {7 if i == 0 else i + 1} "
                      f"ps {1 if i == 0 else .7} lc {i + 1} title '{label}'" for i, (_, label) in enumerate(RULES))
    script = (f"$data << END\n{rows}\nEND\nset terminal svg size 860,{200 + 16 * len(data)} font 'sans,11' "
              f"background 'white'\nset output '{path}'\nset xrange [-.02:1.02]\nset yrange [{-len(data)}:1]\n"
              "set xlabel 'share of sessions with a false go'\nset key outside top center horizontal\nset grid\n"
              f"plot {plots}\n")
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def main():
    folder, plants = pathlib.Path(sys.argv[1]), sys.argv[2:]
    order, found, promised = read(folder, plants)
    head = json.loads((folder / f"{plants[0]}.json").read_text())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    date = subprocess.run(["git", "log", "-1", "--format=%cs"], capture_output=True, text=True).stdout.strip()
    text = f"""# The verdict on machines that are sick in every way

Command: `scripts/verdict.sh FOLDER`. Program {head["preflight"]}, commit {commit}, {date}. Plants: {", ".join(plants)}.
{head["sessions"]} sessions per entry and plant, spread over the mechanisms or channels; every task that was go was flown.

A session is false where at least one task that was go returned less than j_min. In brackets: the upper 95 % limit.
*shipped* is the verdict of `check`. *not rehearsed* is the same without rehearsals, its go-if taken for go. *version 0.1* is
`posterior: transport`, `rehearse: none`. *threshold* pulses one actuator at a time and accepts a response within 20 % of the
nominal one. *least squares* estimates all gains from all responses and tests what is left by chi-square. *rehearsal only* runs
every task once as it is and corrects nothing. A rehearsal runs candidate tasks before the next job is known.

## Share of sessions with a false go

{table(order, found, promised)}

## Intervals and bounds of gains

{gains_table(order, found)}

## Share of the tasks that were rightly go

{go_table(order, found)}

![False go by fault and rule](../figures/verdict.svg)
"""
    pathlib.Path("docs/results/verdict.md").write_text(text)
    figure(order, found, "docs/figures/verdict.svg")


if __name__ == "__main__":
    main()
