// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef MUTATE_H
#define MUTATE_H

#include <stddef.h>
#include <stdint.h>

// Mutations that know what an input looks like, beside those of libFuzzer, which take turns with
// them. Each changes the data in place and gives the new size, of at most `most`.

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

// JSON, YAML, CSV: tokens stay whole. One becomes another of the same text or an extreme value, is
// left out or said twice; a line is left out, said twice or moved.
size_t mutate_text(uint8_t *data, size_t size, size_t most, unsigned seed);

// Binary files: a double, float or integer at its place becomes an extreme value or that of another
// place.
size_t mutate_numbers(uint8_t *data, size_t size, size_t most, unsigned seed);

// Safetensors: the text of the header alone, whose length is then right, or numbers behind it.
size_t mutate_tensors(uint8_t *data, size_t size, size_t most, unsigned seed);

#endif
