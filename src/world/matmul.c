// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "matmul.h"

#include "preflight/model.h"

#include <stdio.h>
#include <string.h>

void pf_matmul_plain(bool a_transposed, bool b_transposed, int m, int n, int k, const float *a,
                     const float *b, float *c)
{
    size_t a_row = a_transposed ? 1 : (size_t)k, a_column = a_transposed ? (size_t)m : 1;
    size_t b_row = b_transposed ? 1 : (size_t)n, b_column = b_transposed ? (size_t)k : 1;
    for (size_t i = 0; i < (size_t)m; i++) {
        float *row = c + i * (size_t)n;
        memset(row, 0, (size_t)n * sizeof *row);
        for (size_t l = 0; l < (size_t)k; l++) {
            float value = a[i * a_row + l * a_column];
            for (size_t j = 0; j < (size_t)n; j++) {
                row[j] += value * b[l * b_row + j * b_column];
            }
        }
    }
}

#if PF_HAVE_OPENBLAS

#include <cblas.h>
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char library[96];

// One thread per call: the workers are the parallelism, and another number of threads gives other
// bits.
static void set_up(void)
{
    openblas_set_num_threads(1);
    char version[32] = "";
    sscanf(openblas_get_config(), "OpenBLAS %31s", version);
    snprintf(library, sizeof library, "openblas %s %s", version, openblas_get_corename());
}

void pf_matmul(bool a_transposed, bool b_transposed, int m, int n, int k, const float *a,
               const float *b, float *c)
{
    pthread_once(&once, set_up);
    cblas_sgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans,
                b_transposed ? CblasTrans : CblasNoTrans, m, n, k, 1, a, a_transposed ? m : k, b,
                b_transposed ? k : n, 0, c, n);
}

const char *pf_numeric_library(void)
{
    pthread_once(&once, set_up);
    return library;
}

#else

void pf_matmul(bool a_transposed, bool b_transposed, int m, int n, int k, const float *a,
               const float *b, float *c)
{
    pf_matmul_plain(a_transposed, b_transposed, m, n, k, a, b, c);
}

const char *pf_numeric_library(void)
{
    return "plain";
}

#endif
