#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Ratios that were measured, beside the aims of perf/aims.csv: how they are kept and shown.

Shows the table of the last run in a file of perf/results. Example:
    perf/ratios.py perf/results/amd-epyc.csv
"""

import csv
import dataclasses
import math
import pathlib
import statistics
import sys

AIMS = pathlib.Path(__file__).resolve().parent / "aims.csv"


@dataclasses.dataclass
class Row:
    """A measure beside a rival: quartiles of the ratios of neighbouring turns by processor time, the
    median by the clock, and what both did. A limit has a single value, and the limit over it."""
    time: str
    version: str
    commit: str
    mode: str     # bench or quick
    host: str     # idle or shared
    library: str  # what computes the products of learned models, where it matters
    measure: str
    rival: str
    turns: int
    low: float
    mid: float
    high: float
    clock: float
    ours: float
    theirs: float
    unit: str


FIELDS = {f.name: f.type for f in dataclasses.fields(Row)}


def number(text, what):
    value = float(text)
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{what} is {text}, which is no time or amount")
    return value


def parse_turn(line):
    """Amount, processor seconds and seconds by the clock of a turn, as a program printed them."""
    parts = line.strip().split(",")
    try:
        if len(parts) != 4 or parts[0] != "turn":
            raise ValueError("want turn,AMOUNT,PROCESSOR SECONDS,SECONDS")
        names = ("the amount", "the processor time", "the time")
        return tuple(number(x, what) for x, what in zip(parts[1:], names))
    except ValueError as error:
        raise ValueError(f"broken line '{line.strip()[:60]}': {error}") from None


def ratio_row(head, ours, theirs, unit):
    """From neighbouring turns of both: (amount, processor seconds, seconds) each."""
    def speeds(turns, at):
        return [t[0] / t[at] for t in turns]
    by_cpu = [a / b for a, b in zip(speeds(ours, 1), speeds(theirs, 1))]
    by_clock = [a / b for a, b in zip(speeds(ours, 2), speeds(theirs, 2))]
    low, mid, high = statistics.quantiles(by_cpu) if len(by_cpu) > 1 else by_cpu * 3
    return Row(*head, len(by_cpu), low, mid, high, statistics.median(by_clock),
               statistics.median(speeds(ours, 1)), statistics.median(speeds(theirs, 1)), unit)


# --- aims

def read_aims():
    with open(AIMS, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def part_of(pattern, measure):
    """What stands for the * of a pattern; None: another measure."""
    head, star, tail = pattern.partition("*")
    if not star:
        return "" if pattern == measure else None
    fits = measure.startswith(head) and measure.endswith(tail) and len(measure) > len(head + tail)
    return measure[len(head):len(measure) - len(tail)] if fits else None


def aim_of(aims, row):
    """The aim's line and the name of the measure; a row that no line lists is refused."""
    for aim in aims:
        part = part_of(aim["measure"], row.measure)
        if part is not None and aim["rival"] == row.rival:
            return aim, aim["what"].replace("*", part.replace("_", " "))
    raise ValueError(f"{AIMS.name} has no line for {row.measure} beside {row.rival}")


def verdict(aim, row):
    if not aim["aim"]:
        return ""
    if aim["basis"] == "clock" and row.host == "shared":
        return "not judged: the host is shared"
    value = row.clock if aim["basis"] == "clock" else row.mid
    return "met" if value >= float(aim["aim"]) else "MISSED"


# --- the table

WIDTHS = (46, 30, 7, 22, 6, 5)
TITLES = ("what", "beside", "library", "ratio [quartiles]", "clock", "aim")


def short(value):
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}".removeprefix("0")


def cells(*texts):
    return "".join(f"{text:<{width}} " for text, width in zip(texts, WIDTHS))


def header():
    return (cells(*TITLES) + "verdict").rstrip()


def line(aims, row):
    aim, what = aim_of(aims, row)
    beside, ratio = aim["against"], f"{short(row.mid)} [{short(row.low)}, {short(row.high)}]"
    clock = short(row.clock)
    if row.rival == "limit":
        what = f"{what}: {row.ours:.3g} {row.unit}"
        beside, ratio, clock = f"{beside}, {row.theirs:g} {row.unit}", short(row.mid), ""
    return (cells(what, beside, row.library, ratio, clock, aim["aim"]) + verdict(aim, row)).rstrip()


def summary(aims, rows):
    verdicts = [(verdict(aim_of(aims, row)[0], row), row) for row in rows]
    missed = [f"{row.measure} beside {row.rival}" + (f" ({row.library})" if row.library else "")
              for v, row in verdicts if v == "MISSED"]
    judged = sum(v in ("met", "MISSED") for v, _ in verdicts)
    text = f"{judged - len(missed)} of {judged} aims met"
    return text + (f"; missed: {', '.join(missed)}" if missed else "")


# --- files

def save(path, rows):
    """Adds rows to a host's file; what was there stays."""
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        if new:
            out.writerow(FIELDS)
        for row in rows:
            out.writerow(f"{x:.5g}" if isinstance(x, float) else x for x in dataclasses.astuple(row))


def load(path):
    """All rows; a broken line is refused by its number."""
    with open(path, newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        if next(lines, None) != list(FIELDS):
            raise ValueError(f"{path}:1: want the columns {','.join(FIELDS)}")
        rows = []
        for values in lines:
            where = f"{path}:{lines.line_num}"
            if len(values) != len(FIELDS):
                raise ValueError(f"{where}: {len(values)} columns; there are {len(FIELDS)}")
            try:
                row = Row(*(kind(x) for kind, x in zip(FIELDS.values(), values)))
                for name in ("low", "mid", "high", "clock", "ours", "theirs"):
                    number(str(getattr(row, name)), name)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None
            rows.append(row)
        return rows


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: perf/ratios.py perf/results/PROCESSOR.csv")
    try:
        rows, aims = load(pathlib.Path(sys.argv[1])), read_aims()
        last = [row for row in rows if row.time == rows[-1].time]
        text = [header(), *(line(aims, row) for row in last), summary(aims, last)]
    except (OSError, ValueError) as error:
        sys.exit(f"perf/ratios.py: {error}")
    print("\n".join(text))


if __name__ == "__main__":
    main()
