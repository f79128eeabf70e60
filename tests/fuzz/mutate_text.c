// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// For the targets whose inputs are of this sort (CMakeLists.txt).
#include "mutate.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return mutate_text(data, size, most, seed);
}
