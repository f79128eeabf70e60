// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "matmul.h"
#include "host/parallel.h"
#include "model/rollout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void pf__matmul_plain(bool a_transposed, bool b_transposed, int m, int n, int k, const float *a,
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

static void by_library(const pf_product *p)
{
    pthread_once(&once, set_up);
    cblas_sgemm(CblasRowMajor, p->a_transposed ? CblasTrans : CblasNoTrans,
                p->b_transposed ? CblasTrans : CblasNoTrans, p->m, p->n, p->k, 1, p->a,
                p->a_transposed ? p->m : p->k, p->b, p->b_transposed ? p->k : p->n, 0, p->c, p->n);
}

static const char *library_name(void)
{
    pthread_once(&once, set_up);
    return library;
}

static const bool have_library = true;

#else

static void by_library(const pf_product *p)
{
    (void)p;
}

static const char *library_name(void)
{
    return "";
}

static const bool have_library = false;

#endif

// The bits of the wide product, for a thread without memory for its blocks.
static void by_fused_loop(const pf_product *p)
{
    size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            float sum = 0;
            for (size_t l = 0; l < k; l++) {
                sum = fmaf(p->a[p->a_transposed ? l * m + i : i * k + l],
                           p->b[p->b_transposed ? j * k + l : l * n + j], sum);
            }
            p->c[i * n + j] = sum;
        }
    }
}

// The one mutable global: only pf__matmul_engine writes it.
static pf_engine chosen = PF_ENGINE_AUTO;

bool pf__matmul_engine(pf_engine engine)
{
    if ((engine == PF_ENGINE_WIDE && !pf__wide_available()) ||
        (engine == PF_ENGINE_LIBRARY && !have_library)) {
        return false;
    }
    chosen = engine;
    return true;
}

static pf_engine engine(void)
{
    if (chosen != PF_ENGINE_AUTO) {
        return chosen;
    }
    return pf__wide_available() ? PF_ENGINE_WIDE
           : have_library       ? PF_ENGINE_LIBRARY
                                : PF_ENGINE_PLAIN;
}

void pf__matmul_run(const pf_product *p)
{
    pf_engine by = engine();
    if (by == PF_ENGINE_WIDE && pf__wide_matmul(p)) {
        return;
    }
    if (by == PF_ENGINE_WIDE) {
        by_fused_loop(p);
    } else if (by == PF_ENGINE_LIBRARY) {
        by_library(p);
    } else {
        pf__matmul_plain(p->a_transposed, p->b_transposed, p->m, p->n, p->k, p->a, p->b, p->c);
    }
    if (p->finish.run) {
        p->finish.run(p->finish.self, 0, 0, p->m, p->n, (size_t)p->n, p->c);
    }
}

void pf__matmul(bool a_transposed, bool b_transposed, int m, int n, int k, const float *a,
                const float *b, float *c)
{
    pf_product p = {a_transposed, b_transposed, m, n, k, a, b, NULL, c, {NULL, NULL}, NULL};
    pf__matmul_run(&p);
}

int pf__matmul_rows(int n)
{
    return engine() == PF_ENGINE_WIDE ? n : (n + 15) / 16 * 16;
}

size_t pf__matmul_packed_size(int n, int k)
{
    return engine() == PF_ENGINE_WIDE ? pf__wide_packed_size(n, k) : 0;
}

void pf__matmul_pack(bool b_transposed, int n, int k, const float *b, float *packed)
{
    pf__wide_pack(b_transposed, n, k, b, packed);
}

const char *pf__numeric_library(void)
{
    pf_engine by = engine();
    return by == PF_ENGINE_WIDE ? "avx512 2" : by == PF_ENGINE_LIBRARY ? library_name() : "plain";
}

void pf__machine_name(char name[PF_MACHINE_NAME])
{
    char processor[128];
    pf__processor_name(processor, sizeof processor);
    snprintf(name, PF_MACHINE_NAME, "%s, %s", processor, pf__numeric_library());
}
