#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Writes a kit file as a C header: one const array that a linker puts into flash.

Example: scripts/embed_kit.py examples.kit examples/embedded_kit.h embedded_kit
"""

import os
import sys


def header(name, data):
    guard = name.upper() + "_H"
    lines = [
        "// SPDX-FileCopyrightText: The preflight authors",
        "// SPDX-License-Identifier: Apache-2.0",
        "// Written by scripts/embed_kit.py; do not edit.",
        "// clang-format off",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        "",
        "// A kit is read in place, from a multiple of 8.",
        f"_Alignas(8) static const uint8_t {name}[{len(data)}] = {{",
    ]
    lines += [",".join(map(str, data[i : i + 24])) + "," for i in range(0, len(data), 24)]
    return "\n".join(lines + ["};", "", "#endif", ""])


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: embed_kit.py KIT HEADER NAME")
    kit, out, name = sys.argv[1:]
    with open(kit, "rb") as file:
        data = file.read()
    if data[:8] != b"PFLTKIT\0":
        sys.exit(f"embed_kit.py: {kit} is not a preflight kit")
    # appears by rename, never half
    with open(out + ".part", "w", encoding="ascii") as file:
        file.write(header(name, data))
    os.replace(out + ".part", out)


if __name__ == "__main__":
    main()
