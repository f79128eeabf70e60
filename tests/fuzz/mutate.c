// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "mutate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct part {
    size_t at, n;
} part;

static unsigned draw(unsigned *state, size_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (unsigned)((*state >> 8) % (below > 0 ? below : 1));
}

// Puts n bytes in the place of a part; what does not fit stays as it is.
static size_t replace(uint8_t *data, size_t size, size_t most, part old, const uint8_t *new,
                      size_t n)
{
    if (size - old.n + n > most) {
        return size;
    }
    uint8_t *copy = malloc(n > 0 ? n : 1); // it may be part of the data
    if (!copy) {
        return size;
    }
    memcpy(copy, new, n);
    memmove(data + old.at + n, data + old.at + old.n, size - old.at - old.n);
    memcpy(data + old.at, copy, n);
    free(copy);
    return size - old.n + n;
}

// --- text

static bool divides(uint8_t c)
{
    return c == '\0' || strchr(" \t\r\n,:{}[]\"'=;#", c) != NULL;
}

// The token around a place, or the one byte that divides tokens.
static part token_at(const uint8_t *data, size_t size, size_t at)
{
    part p = {at, 1};
    while (!divides(data[at]) && p.at > 0 && !divides(data[p.at - 1])) {
        p.at--;
        p.n++;
    }
    while (!divides(data[at]) && p.at + p.n < size && !divides(data[p.at + p.n])) {
        p.n++;
    }
    return p;
}

static part line_at(const uint8_t *data, size_t size, size_t at)
{
    part p = {at, 1};
    while (p.at > 0 && data[p.at - 1] != '\n') {
        p.at--;
        p.n++;
    }
    while (p.at + p.n < size && data[p.at + p.n - 1] != '\n') {
        p.n++;
    }
    return p;
}

// A part lies where another is to go, or before it: cut out, then put in.
static size_t move(uint8_t *data, size_t size, size_t most, part from, size_t to)
{
    uint8_t *copy = malloc(from.n);
    if (!copy) {
        return size;
    }
    memcpy(copy, data + from.at, from.n);
    size_t left = replace(data, size, most, from, copy, 0);
    to = to < left ? line_at(data, left, to).at : left;
    left = replace(data, left, most, (part){to, 0}, copy, from.n);
    free(copy);
    return left;
}

size_t mutate_text(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    static const char *const values[] = {"0",      "-0.0",       "1",
                                         "-1",     "1e308",      "-1e308",
                                         "1e-320", "2147483648", "9007199254740993",
                                         "1e999",  ".nan",       ".inf",
                                         "null",   "true",       "false",
                                         "",       "~",          "[]",
                                         "{}",     "[[]]",       "\"\"",
                                         "NaN",    "0x1",        "1_000",
                                         "../x",   "&a",         "*a",
                                         "!!str",  "<<",         "|",
                                         "---",    "\xff",       "\xe2\x80\xae"};
    if (size == 0) {
        return LLVMFuzzerMutate(data, size, most);
    }
    part here = token_at(data, size, draw(&seed, size));
    part there = token_at(data, size, draw(&seed, size));
    part line = line_at(data, size, draw(&seed, size));
    const char *value = values[draw(&seed, sizeof values / sizeof values[0])];
    switch (draw(&seed, 10)) {
    case 0:
    case 1:
        return replace(data, size, most, here, (const uint8_t *)value, strlen(value));
    case 2:
    case 3:
        return replace(data, size, most, here, data + there.at, there.n);
    case 4:
        return replace(data, size, most, here, data, 0);
    case 5:
        return replace(data, size, most, (part){here.at, 0}, data + here.at, here.n);
    case 6:
        return replace(data, size, most, line, data, 0);
    case 7:
        return replace(data, size, most, (part){line.at, 0}, data + line.at, line.n);
    case 8:
        return move(data, size, most, line, draw(&seed, size));
    default:
        return LLVMFuzzerMutate(data, size, most);
    }
}

// --- numbers

static void put_double(uint8_t *at, unsigned *seed)
{
    static const double values[] = {0, -0.0, 1, -1, 1e-320, -1e-320, 1e308, -1e308, 1e-9, 2};
    double value = values[draw(seed, sizeof values / sizeof values[0])];
    switch (draw(seed, 6)) {
    case 0:
        value = strtod("nan", NULL);
        break;
    case 1:
        value = strtod("inf", NULL);
        break;
    case 2:
        memcpy(&value, at, sizeof value);
        value = -value;
        break;
    case 3:
        memcpy(&value, at, sizeof value);
        value *= 1 + 1e-9 * draw(seed, 1000);
        break;
    default:
        break;
    }
    memcpy(at, &value, sizeof value);
}

static void put_integer(uint8_t *at, unsigned *seed)
{
    static const int32_t values[] = {0, 1, -1, 2, 3, 255, 256, 65536, INT32_MAX, INT32_MIN};
    int32_t value;
    memcpy(&value, at, sizeof value);
    unsigned sort = draw(seed, 3);
    value = sort == 0   ? values[draw(seed, sizeof values / sizeof values[0])]
            : sort == 1 ? (int32_t)((uint32_t)value + 1)
                        : (int32_t)((uint32_t)value - 1);
    memcpy(at, &value, sizeof value);
}

size_t mutate_numbers(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    if (size < 16) {
        return LLVMFuzzerMutate(data, size, most);
    }
    size_t eight = draw(&seed, size / 8) * 8, four = draw(&seed, size / 4) * 4;
    size_t from = draw(&seed, size / 8) * 8;
    float small = (float)draw(&seed, 3) - 1;
    switch (draw(&seed, 6)) {
    case 0:
    case 1:
        put_double(data + eight, &seed);
        return size;
    case 2:
        put_integer(data + four, &seed);
        return size;
    case 3:
        memmove(data + eight, data + from, 8);
        return size;
    case 4:
        memcpy(data + four, &small, sizeof small);
        return size;
    default:
        return LLVMFuzzerMutate(data, size, most);
    }
}

// --- tensors

size_t mutate_tensors(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    uint64_t n = 0;
    if (size >= 8) {
        memcpy(&n, data, 8);
    }
    if (n == 0 || n > size - 8 || draw(&seed, 8) == 0) {
        return LLVMFuzzerMutate(data, size, most);
    }
    size_t numbers = size - 8 - (size_t)n;
    if (numbers >= 16 && draw(&seed, 4) == 0) {
        mutate_numbers(data + 8 + n, numbers, numbers, seed);
        return size;
    }
    // the header in a room of its own, then everything together again; padded to eight bytes
    size_t room = most - 8 - numbers;
    uint8_t *header = malloc(room + 1);
    if (!header || room < n) {
        free(header);
        return size;
    }
    memcpy(header, data + 8, (size_t)n);
    size_t length = mutate_text(header, (size_t)n, room, seed);
    while (length % 8 != 0 && length < room) {
        header[length++] = ' ';
    }
    memmove(data + 8 + length, data + 8 + n, numbers);
    memcpy(data + 8, header, length);
    n = length;
    memcpy(data, &n, 8);
    free(header);
    return 8 + length + numbers;
}
