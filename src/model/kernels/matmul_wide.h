// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_MATMUL_WIDE_H
#define PF_MATMUL_WIDE_H

#include "matmul.h"

// Our own product for AVX-512. Every c_ij is one sum over k in ascending order by fused
// multiply-add, from 0, with one rounding per k: the bits of a scalar loop of fmaf. They do not
// depend on m, n, the place of a row or column, or how the product is cut into blocks; so a row
// gives the same result in any batch.

// Whether this processor (and compiler) can.
bool pf__wide_available(void);

// false, with c untouched: no memory for the thread's blocks. They are taken at its first product
// and given back when it ends.
bool pf__wide_matmul(const pf_product *of);

// Floats of a right operand (k x n) packed as a whole, and the packing, at a 64-byte boundary.
size_t pf__wide_packed_size(int n, int k);
void pf__wide_pack(bool b_transposed, int n, int k, const float *b, float *packed);

#endif
