// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_MATMUL_H
#define PF_MATMUL_H

#include <stdbool.h>
#include <stddef.h>

// What is done with each part of a result while it is near: rows x width at x, which is at `row`,
// `column` of the result; pitch floats from row to row. Within a column the rows come in ascending
// order, each once.
typedef struct pf_finish {
    void (*run)(void *self, int row, int column, int rows, int width, size_t pitch, float *x);
    void *self;
} pf_finish;

// c (m x n) = a (m x k) b (k x n), row-major float32, k > 0; a transposed operand is stored the
// other way round. packed (Nullable): b by pf__matmul_pack, for the engine that can use it.
// finish.run: Nullable; beside (Nullable): of the shape of c, what it also reads or writes, so that
// it is fetched ahead.
typedef struct pf_product {
    bool a_transposed, b_transposed;
    int m, n, k;
    const float *a, *b, *packed;
    float *c;
    pf_finish finish;
    const float *beside;
} pf_product;

// On the calling thread alone, by our own kernel where the processor has AVX-512 (matmul_wide.c),
// else through the numeric library, else in plain C.
void pf__matmul_run(const pf_product *p);

// The bare product.
void pf__matmul(bool a_transposed, bool b_transposed, int m, int n, int k, const float *a,
                const float *b, float *c);

// The same in plain C, as the reference and where there is nothing else.
void pf__matmul_plain(bool a_transposed, bool b_transposed, int m, int n, int k, const float *a,
                      const float *b, float *c);

// Rows that a product for n rows should have: n where a row gives the same bits in any batch, else
// a multiple of 16, so that few shapes occur.
int pf__matmul_rows(int n);

// Floats of a packed right operand, 0 where packing is of no use; and the packing, at a 64-byte
// boundary.
size_t pf__matmul_packed_size(int n, int k);
void pf__matmul_pack(bool b_transposed, int n, int k, const float *b, float *packed);

// For tests and measurements, before any work starts: what computes the products. False: there is
// no such engine here.
typedef enum pf_engine {
    PF_ENGINE_AUTO,
    PF_ENGINE_WIDE,
    PF_ENGINE_LIBRARY,
    PF_ENGINE_PLAIN
} pf_engine;
bool pf__matmul_engine(pf_engine engine);

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
