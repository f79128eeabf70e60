#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""board.py HOST BOARD: the embedded example on a Cortex-M4F in QEMU, and the same on this machine.

HOST and BOARD are build folders of the presets `embedded` and `board`. Compares every line and
every number for 21 losses, damages the kit in both images bit by bit, takes stack away, and
measures. The figures in docs/c-api.md must be the measured ones within 5 %. Last line: N passed,
N failed.
"""

import collections
import functools
import math
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile

HOST, BOARD = sys.argv[1:]
LOSSES = range(0, 101, 5)  # percent that pump standby-2 has left
OF_THE_MACHINE = ("session", "stack at", "code at")  # lines about memory
counts = [0, 0]


def ok(good, name):
    counts[not good] += 1
    print(f"{'ok   ' if good else 'FAILED'} {name}")


def run(image, *words):
    """(exit status, lines) of an image of either kind."""
    command = ["scripts/run_board.sh", image] if image.endswith(".elf") else [image]
    done = subprocess.run([*command, *map(str, words)], capture_output=True, text=True, timeout=120)
    return done.returncode, (done.stdout + done.stderr).splitlines()


@functools.cache
def both(program, *words):
    return run(f"{HOST}/{program}", *words), run(f"{BOARD}/{program}.elf", *words)


def told(lines):
    """What an example says about the machine and its tasks."""
    return [line for line in lines if not line.startswith(("bits ", "cost ", *OF_THE_MACHINE))]


def goes(lines):
    return re.findall(r"^task (\S+): go \(", "\n".join(lines), re.MULTILINE)


# --- the same verdicts


def verdicts():
    for left in LOSSES:
        host, board = both("embedded_example", left)
        same = (
            host[0] == board[0] == 0 and told(host[1]) == told(board[1]) and len(told(host[1])) > 5
        )
        ok(same, f"{left} % left: status and every line are those of the host")
    for words in ((), ("200",), ("x",), ("3", "4")):
        host, board = both("embedded_example", *words)
        ok(
            host[0] == board[0] == (2 if words else 0) and told(host[1]) == told(board[1]),
            f"arguments {words}",
        )
    text = {left: "\n".join(both("embedded_example", left)[1][1]) for left in LOSSES}
    ok(
        len(goes(text[100].splitlines())) == 3 and "ALARM" not in text[100],
        "a healthy board is go without an alarm",
    )
    weak = re.search(
        r"^task standby-2: go \(certified\).*command times ([0-9.]+)$", text[30], re.MULTILINE
    )
    ok(
        "ALARM" in text[30] and weak and 2 < float(weak[1]) < 4,
        "a pump with 30 % left is go, corrected",
    )
    ok("task standby-2: no-go (bound)" in text[10], "a pump with 10 % left is no-go")


# --- the same numbers


def numbers_of(lines):
    """(what, bits) in the order of the run."""
    return [
        (word[1], word[2]) for word in (line.split() for line in lines if line.startswith("bits "))
    ]


def value(bits):
    return struct.unpack(">d", bytes.fromhex(bits))[0]


def compare(program):
    """{kind of number: [how many, with equal bits, largest difference, and relative to it]}"""
    table = collections.defaultdict(lambda: [0, 0, 0.0, 0.0])
    for left in LOSSES:
        host, board = (numbers_of(lines) for _, lines in both(program, left))
        if not host or [n[0] for n in host] != [n[0] for n in board]:
            return None
        for (what, a), (_, b) in zip(host, board, strict=True):
            row, x, y = table[what], value(a), value(b)
            row[0] += 1
            row[1] += a == b
            if a != b:
                apart = abs(x - y)
                row[2] = max(row[2], apart if math.isfinite(apart) else math.inf)
                row[3] = max(
                    row[3], apart / max(abs(x), abs(y)) if math.isfinite(apart) else math.inf
                )
    return table


def numbers():
    table = compare("embedded_measured")
    ok(table, "the same numbers are printed")
    for what, (n, equal, apart, relative) in (table or {}).items():
        print(
            f"      {what}: {equal} of {n} equal to the bit, the others within {apart:.1e}", end=""
        )
        print(f" ({relative:.1e} of them)")
        ok(relative < 1e-13, f"{what}: host and board agree to rounding")
    ok(table and table["belief"][0] == table["belief"][1], "every belief is equal to the bit")
    table = compare("embedded_coarse")
    n = sum(row[0] for row in (table or {}).values())
    equal = sum(row[1] for row in (table or {}).values())
    ok(0 < n == equal, f"with coarse logarithms {equal} of {n} numbers are equal to the bit")
    same = all(
        told(host[1]) == told(board[1])
        for host, board in (both("embedded_coarse", left) for left in LOSSES)
    )
    ok(same, "and every line")


# --- a damaged image


def words_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


def place(image, symbol):
    """(offset in the file, bytes, address) of what a symbol names."""
    tool = "arm-none-eabi-nm" if image.endswith(".elf") else "nm"
    address, size = next(
        (int(w[0], 16), int(w[1], 16)) for w in words_of(tool, "-S", image) if w[-1] == symbol
    )
    for line in words_of("readelf", "-SW", image):
        line = " ".join(line).replace("[ ", "[").split()
        if len(line) > 6 and line[0].startswith("[") and line[2] == "PROGBITS":
            start, offset, length = (int(x, 16) for x in line[3:6])
            if start <= address < start + length:
                return address - start + offset, size, address
    raise SystemExit(f"{image} has no {symbol}")


def edited(image, offset, change, folder):
    """A copy of an image with some bytes changed."""
    copy = os.path.join(folder, "edited" + (".elf" if image.endswith(".elf") else ""))
    with open(image, "rb") as file:
        data = bytearray(file.read())
    change(data, offset)
    with open(copy, "wb") as file:
        file.write(data)
    os.chmod(copy, 0o755)
    return copy


def damage(folder):
    host, board = f"{HOST}/embedded_example", f"{BOARD}/embedded_example.elf"
    places = [place(host, "embedded_kit"), place(board, "embedded_kit")]
    size = places[0][1]
    ok(
        size == places[1][1] and 0x08000000 <= places[1][2] < 0x08100000,
        f"the kit's {size} bytes are read in flash",
    )
    flips = [(int(i * (size - 1) / 39), i * 3 % 8) for i in range(40)]
    same = refused = 0
    for at, bit in flips:

        def flip(data, offset, at=at, bit=bit):
            data[offset + at] ^= 1 << bit

        a, b = (
            run(edited(image, p[0], flip, folder), 100)
            for image, p in zip((host, board), places, strict=True)
        )
        same += a == b
        refused += (
            b[0] == 1
            and not goes(b[1])
            and len(b[1]) == 1
            and b[1][0].startswith("no task is go: ")
        )
    ok(refused == len(flips), f"{refused} of {len(flips)} kits with one flipped bit are refused")
    ok(same == len(flips), f"in the words of the host ({same})")


# --- stack: the first word of the image is where it begins


def with_stack(size, folder):
    image = f"{BOARD}/embedded_example.elf"
    bottom = next(
        int(w[0], 16) for w in words_of("arm-none-eabi-nm", image) if w[-1] == "stack_bottom"
    )

    def change(data, offset):
        data[offset : offset + 4] = struct.pack("<I", bottom + size)

    return run(edited(image, place(image, "vectors")[0], change, folder))


def stack_used(lines):
    return next(int(line.split()[3]) for line in lines if line.startswith("stack at most"))


def stack(folder):
    whole = both("embedded_example")[1][1]
    most = stack_used(whole)
    enough = with_stack((most + 7) // 8 * 8, folder)
    ok(enough[0] == 0 and told(enough[1]) == told(whole), f"{most} bytes of stack are enough")
    for less in (8, 64, most // 2):
        status, lines = with_stack((most - less) // 8 * 8, folder)
        ok(
            status == 3 and lines[-1].startswith("fault: the stack"),
            f"{less} bytes less end in the fault handler",
        )


# --- what it costs


def cost_lines(losses=LOSSES):
    """{call: [(instructions, in the model, predictions, stack)]} over all losses."""
    calls = collections.defaultdict(list)
    for left in losses:
        for line in both("embedded_measured", left)[1][1]:
            if line.startswith("cost "):
                words = line.split()
                calls[words[1]].append(tuple(map(int, words[3::2])))
    return calls


OWNERS = (
    ("libpreflight.a", "core"),
    ("libgcc.a", "libgcc"),
    ("libm.a", "libm"),
    ("libc.a", "libm"),
    ("embedded.c.", "example"),
)


def flash():
    """Bytes of flash by whose they are, from the linker's map: what is kept, with its padding."""
    whose = collections.Counter()
    with open(f"{BOARD}/embedded_example.map", encoding="utf-8") as file:
        text = file.read().split("Linker script and memory map")[1]
    # a long name of a section is on a line of its own
    text = re.sub(r"\n (\.\S+)\n\s+0x", r"\n \1 0x", text)
    pieces = re.findall(r"^ (\.\S+)\s+0x(\w+)\s+0x(\w+) (.+)$", text, re.MULTILINE)
    for name, address, size, origin in pieces:
        in_ram = int(address, 16) >= 0x20000000
        if 0x08000000 <= int(address, 16) < 0x08100000 or (name[:5] == ".data" and in_ram):
            whose[next((part for mark, part in OWNERS if mark in origin), "board")] += int(size, 16)
    kit = place(f"{BOARD}/embedded_example.elf", "embedded_kit")[1]
    whose["kit"] = kit
    whose["example"] -= kit
    sections = next(
        w for w in words_of("arm-none-eabi-size", f"{BOARD}/embedded_example.elf") if w[0].isdigit()
    )
    whose["all"] = int(sections[0]) + int(sections[1])
    return whose


def figures():
    calls, whose = cost_lines(), flash()
    memory = next(line for line in both("embedded_example")[1][1] if line.startswith("session"))
    session, view, response = map(int, re.findall(r"\d+", memory)[:3])
    tells = calls["tell-probe"] + calls["tell-rehearsal"]
    asked = [t for t in tells if t[2]]

    def most(call):
        return max(c[0] for c in calls[call])

    def deepest(call):
        return max(c[3] for c in calls[call])

    whole = [
        sum(c[0] for call, rows in cost_lines([left]).items() if call != "known" for c in rows)
        for left in LOSSES
    ]
    tables = compare("embedded_measured").values()
    return {
        "flash: the core": whose["core"],
        "flash: arithmetic in double precision (libgcc)": whose["libgcc"],
        "flash: libm, `mem*` and `str*` (newlib)": whose["libm"],
        "flash: the kit": whose["kit"],
        "flash: the example, its model and its texts": whose["example"],
        "flash: start, semihosting, `printf`": whose["board"],
        "flash, all of the image": whose["all"],
        "RAM: session (`pf_session_size`)": session,
        "RAM: view of the kit (`pf_kit_size`)": view,
        "RAM: response and start": response,
        "RAM: stack of `pf_kit_load`, the deepest call": deepest("load"),
        "RAM: stack of `pf_session_tell`, most": deepest("tell-probe"),
        "RAM: stack of the example, printing included": max(
            stack_used(both("embedded_example", left)[1][1]) for left in LOSSES
        ),
        "instructions: `pf_kit_load`, SHA-256 included": most("load"),
        "instructions: `pf_session_init`": most("init"),
        "instructions: `pf_session_ask`, most": most("ask"),
        "instructions: `pf_session_tell` of a probe, median": int(
            statistics.median_low(c[0] for c in calls["tell-probe"])
        ),
        "instructions: `pf_session_tell` of a probe, most": most("tell-probe"),
        "instructions: `pf_session_tell` of a rehearsal, most": most("tell-rehearsal"),
        "instructions: `pf_session_certify`, most": most("certify"),
        "instructions: a prediction of the example's model, most": max(t[1] // t[2] for t in asked),
        "instructions: all calls of one check, least": min(whole),
        "instructions: all calls of one check, most": max(whole),
        "numbers compared with the host": sum(row[0] for row in tables),
        "of them equal to the bit": sum(row[1] for row in tables),
    }


FORBIDDEN = (
    r"_?(m|c|re)alloc(_r)?|_?free(_r)?|_?sbrk(_r)?|_impure_ptr|"
    r"f(open|read|write|puts)|_?v?[fs]?n?i?printf_r|v[fs]?n?printf|[fs]n?printf|puts|putchar"
)


def costs():
    image = f"{BOARD}/embedded_measured.elf"
    ok(
        all(run(image, 30) == both("embedded_measured", 30)[1] for _ in range(2)),
        "three runs are equal to the instruction",
    )
    ok(
        {c[0] for c in cost_lines()["known"]} == {2001},
        "a loop of 2,001 instructions counts as that",
    )
    names = {w[-1] for w in words_of("arm-none-eabi-nm", f"{BOARD}/embedded_example.elf")}
    heap = {name for name in names if re.fullmatch(FORBIDDEN, name)}
    ok(
        "pf_session_tell" in names and not heap,
        f"no heap and no stdio in the whole image {sorted(heap)}",
    )
    with open("docs/c-api.md", encoding="utf-8") as file:
        page = dict(re.findall(r"^\| (.+?) \| ([0-9,]+) \|$", file.read(), re.MULTILINE))
    measured = figures()
    print("\n".join(f"| {what} | {n:,} |" for what, n in measured.items()))
    whole = measured["flash, all of the image"]
    parts = sum(n for what, n in measured.items() if what.startswith("flash: "))
    ok(0 <= whole - parts < 400, "the parts of the flash add up, but for alignment")
    ram = sum(
        n for what, n in measured.items() if what.startswith("RAM: ") and "stack of `" not in what
    )
    ok(whole <= 128 * 1024 and ram <= 32 * 1024, "128 KB of flash and 32 KB of RAM are enough")
    for what, n in measured.items():
        said = int(page.get(what, "0").replace(",", ""))
        ok(abs(said - n) <= 0.05 * n, f"docs/c-api.md says {said:,} for '{what}', measured {n:,}")


def main():
    archive = subprocess.run(["scripts/check_embedded.sh", BOARD], capture_output=True, text=True)
    print(archive.stdout)
    ok(archive.returncode == 0, "the core for the board asks for no more than that for a host")
    verdicts()
    numbers()
    with tempfile.TemporaryDirectory() as folder:
        damage(folder)
        stack(folder)
    costs()
    print(f"{counts[0]} passed, {counts[1]} failed")
    return counts[1] != 0


if __name__ == "__main__":
    sys.exit(main())
