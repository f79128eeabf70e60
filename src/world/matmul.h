// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_MATMUL_H
#define PF_MATMUL_H

#include <stdbool.h>

// c (m x n) = a (m x k) b (k x n), row-major float32; a transposed operand is stored the other way
// round. Through the numeric library where there is one, on the calling thread alone.
void pf_matmul(bool a_transposed, bool b_transposed, int m, int n, int k, const float *a,
               const float *b, float *c);

// The same in plain C, as the reference and where there is no library.
void pf_matmul_plain(bool a_transposed, bool b_transposed, int m, int n, int k, const float *a,
                     const float *b, float *c);

#endif
