// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "model/rollout.h"

#include "preflight/model.h"
#include "preflight/base.h"
#include "model/kernels/loops.h"
#include "model/kernels/matmul.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float *numbers(pf_rng *rng, size_t n)
{
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; x && i < n; i++) {
        x[i] = (float)pf_rng_normal(rng);
    }
    return x;
}

// The promise of pf__wide_matmul, written out.
static float element(const pf_product *p, size_t i, size_t j)
{
    size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
    float sum = 0;
    for (size_t l = 0; l < k; l++) {
        sum = fmaf(p->a[p->a_transposed ? l * m + i : i * k + l],
                   p->b[p->b_transposed ? j * k + l : l * n + j], sum);
    }
    return sum;
}

static size_t differing(const pf_product *p)
{
    size_t n = (size_t)p->n, count = 0;
    for (size_t i = 0; i < (size_t)p->m * n; i++) {
        float want = element(p, i / n, i % n);
        count += memcmp(&want, &p->c[i], sizeof want) != 0;
    }
    return count;
}

typedef struct shape {
    int m, n, k;
} shape;

// Each once around the edges of tiles, panels and blocks.
static const shape shapes[] = {
    {1, 1, 1},     {14, 32, 16},  {15, 33, 17},  {13, 31, 15},   {2, 16, 40},    {29, 17, 3},
    {27, 35, 512}, {43, 64, 513}, {171, 40, 20}, {169, 33, 530}, {5, 545, 9},    {3, 520, 1030},
    {6, 64, 16},   {7, 65, 17},   {183, 31, 20}, {193, 70, 20},  {385, 17, 513}, {400, 400, 9}};

// A part of a result is finished once, its rows in order.
typedef struct witness {
    int n, *next_row;
    bool orderly;
} witness;

static void see(void *self, int row, int column, int rows, int width, size_t pitch, float *x)
{
    witness *w = self;
    for (int j = column; j < column + width; j++) {
        w->orderly = w->orderly && j < w->n && w->next_row[j] == row;
        w->next_row[j] = row + rows;
    }
    for (int r = 0; r < rows; r++) {
        for (int j = 0; j < width; j++) {
            x[(size_t)r * pitch + (size_t)j] += 1;
        }
    }
}

static void check_shape(pf_rng *rng, shape s, int kinds)
{
    size_t size = (size_t)s.m * (size_t)s.n;
    float *a = numbers(rng, (size_t)s.m * (size_t)s.k),
          *b = numbers(rng, (size_t)s.k * (size_t)s.n);
    float *c = malloc((size + 1) * sizeof *c), *kept = malloc(size * sizeof *kept);
    float *packed =
        aligned_alloc(64, (pf__wide_packed_size(s.n, s.k) * sizeof(float) + 63) / 64 * 64);
    if (CHECK(a && b && c && kept && packed)) {
        pf_product p = {.a_transposed = kinds & 1,
                        .b_transposed = kinds & 2,
                        .m = s.m,
                        .n = s.n,
                        .k = s.k,
                        .a = a,
                        .b = b,
                        .c = c};
        memset(c, 0xff, size * sizeof *c);
        c[size] = 7;
        CHECK(pf__wide_matmul(&p));
        CHECK(differing(&p) == 0);
        CHECK(c[size] == 7);
        memcpy(kept, c, size * sizeof *c);
        pf__wide_pack(p.b_transposed, s.n, s.k, b, packed);
        p.packed = packed;
        CHECK(pf__wide_matmul(&p));
        CHECK(memcmp(kept, c, size * sizeof *c) == 0);
        int *next_row = calloc((size_t)s.n, sizeof *next_row);
        witness w = {s.n, next_row, true};
        p.finish = (pf_finish){see, &w};
        p.beside = kept;
        CHECK(next_row && pf__wide_matmul(&p) && w.orderly);
        for (size_t i = 0; i < size; i++) {
            CHECK(c[i] == kept[i] + 1);
        }
        free(next_row);
    }
    free(a);
    free(b);
    free(c);
    free(kept);
    free(packed);
}

static void wide_bits(void)
{
    PF_CASE("every element of the wide product is one chain of fmaf");
    if (!pf__wide_available()) {
        return; // nothing to test here: the processor has no AVX-512
    }
    pf_rng rng;
    pf_rng_init(&rng, 1);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int kinds = 0; kinds < 4; kinds++) {
            check_shape(&rng, shapes[i], kinds);
        }
    }
    for (int i = 0; i < 60; i++) {
        shape s = {1 + (int)pf_rng_below(&rng, 60), 1 + (int)pf_rng_below(&rng, 80),
                   1 + (int)pf_rng_below(&rng, 70)};
        check_shape(&rng, s, i % 4);
    }
}

static void engines(void)
{
    enum { M = 200, N = 70, K = 600 };
    static const struct {
        pf_engine engine;
        const char *name;
    } all[] = {{PF_ENGINE_WIDE, "avx512 2"},
               {PF_ENGINE_LIBRARY, "openblas"},
               {PF_ENGINE_PLAIN, "plain"},
               {PF_ENGINE_AUTO, ""}};
    PF_CASE("every engine multiplies, and finishes each part once");
    pf_rng rng;
    pf_rng_init(&rng, 2);
    float *a = numbers(&rng, M * K), *b = numbers(&rng, K * N), *c = numbers(&rng, M * N);
    int next_row[N];
    pf_product p = {false, true, M, N, K, a, b, NULL, c, {see, NULL}, NULL};
    for (size_t e = 0; e < sizeof all / sizeof all[0] && CHECK(a && b && c); e++) {
        if (!pf__matmul_engine(all[e].engine)) {
            continue;
        }
        CHECK_CONTAINS(pf__numeric_library(), all[e].name);
        witness w = {N, next_row, true};
        memset(next_row, 0, sizeof next_row);
        p.finish.self = &w;
        pf__matmul_run(&p);
        double worst = 0;
        for (size_t i = 0; i < M * N; i++) {
            worst = fmax(worst, fabs((double)c[i] - 1 - (double)element(&p, i / N, i % N)));
        }
        CHECK(worst < 1e-3);
        for (int j = 0; j < N; j++) {
            w.orderly = w.orderly && next_row[j] == M;
        }
        CHECK(w.orderly);
    }
    pf__matmul_engine(PF_ENGINE_AUTO);
    free(a);
    free(b);
    free(c);
}

// x = silu(x + bias) by both, over all magnitudes and what is not finite.
static void silu_bits(pf_rng *rng, int rows, int width, bool slope)
{
    enum { PITCH = 70 };
    size_t n = (size_t)rows * PITCH;
    float *x[2] = {numbers(rng, n), numbers(rng, n)}, *d[2] = {numbers(rng, n), numbers(rng, n)};
    float *bias = numbers(rng, PITCH);
    if (CHECK(x[0] && x[1] && d[0] && d[1] && bias)) {
        for (size_t i = 0; i < n; i++) {
            x[0][i] *= expf((float)(i % 30) - 20);
        }
        memcpy(x[1], x[0], n * sizeof(float));
        memcpy(d[1], d[0], n * sizeof(float));
        pf__loop_silu_plain(rows, width, PITCH, bias, x[0], slope ? d[0] : NULL);
        pf__loop_silu_wide(rows, width, PITCH, bias, x[1], slope ? d[1] : NULL);
        CHECK(memcmp(x[0], x[1], n * sizeof(float)) == 0);
        CHECK(memcmp(d[0], d[1], n * sizeof(float)) == 0);
    }
    for (int i = 0; i < 2; i++) {
        free(x[i]);
        free(d[i]);
    }
    free(bias);
}

static void silu_shapes(void)
{
    PF_CASE("silu by hand is silu by the compiler in every shape, and leaves the rest alone");
    static const int widths[] = {1, 15, 16, 17, 32, 48, 63, 64, 65}, heights[] = {1, 2, 3, 7};
    pf_rng rng;
    pf_rng_init(&rng, 4);
    for (size_t w = 0; pf__loop_wide() && w < sizeof widths / sizeof widths[0]; w++) {
        for (size_t h = 0; h < sizeof heights / sizeof heights[0]; h++) {
            silu_bits(&rng, heights[h], widths[w], h % 2 == 0);
            silu_bits(&rng, heights[h], widths[w], h % 2 == 1);
        }
    }
}

static void silu_values(void)
{
    enum { ROWS = 300, WIDTH = 45, PITCH = 50, N = ROWS * PITCH };
    PF_CASE("silu by hand is silu by the compiler, to the bit, for any value");
    if (!pf__loop_wide()) {
        return;
    }
    pf_rng rng;
    pf_rng_init(&rng, 3);
    float *x[2] = {numbers(&rng, N), numbers(&rng, N)},
          *d[2] = {numbers(&rng, N), numbers(&rng, N)};
    float *bias = numbers(&rng, WIDTH);
    if (CHECK(x[0] && x[1] && d[0] && d[1] && bias)) {
        for (size_t i = 0; i < N; i++) {
            x[0][i] *= expf((float)(i % 30) - 20);
        }
        const float odd[] = {0, -0.0f, 87, -87, 86.99999f, 88, -200, 1e30f, INFINITY, -INFINITY};
        memcpy(x[0], odd, sizeof odd);
        memset(bias, 0, 10 * sizeof *bias);
        memcpy(x[1], x[0], N * sizeof(float));
        memcpy(d[1], d[0], N * sizeof(float));
        pf__loop_silu_plain(ROWS, WIDTH, PITCH, bias, x[0], d[0]);
        pf__loop_silu_wide(ROWS, WIDTH, PITCH, bias, x[1], d[1]);
        CHECK(memcmp(x[0], x[1], N * sizeof(float)) == 0);
        CHECK(memcmp(d[0], d[1], N * sizeof(float)) == 0);
        pf__loop_silu_plain(ROWS, WIDTH, PITCH, bias, x[0], NULL);
        pf__loop_silu_wide(ROWS, WIDTH, PITCH, bias, x[1], NULL);
        CHECK(memcmp(x[0], x[1], N * sizeof(float)) == 0);
        x[1][0] = NAN;
        pf__loop_silu_wide(1, 1, PITCH, bias, x[1], NULL);
        CHECK(isnan(x[1][0]));
    }
    for (int i = 0; i < 2; i++) {
        free(x[i]);
        free(d[i]);
    }
    free(bias);
}

static void reciprocal_bits(void)
{
    enum { N = 1024 };
    PF_CASE("the reciprocal of every significand is that of a division");
    float x[N], y[N];
    int wrong = 0;
    for (uint32_t high = 0; pf__loop_wide() && high < 1u << 23; high += N) {
        for (uint32_t i = 0; i < N; i++) {
            uint32_t bits = ((127 + high % 120) << 23) | (high + i);
            memcpy(&x[i], &bits, sizeof bits);
        }
        memcpy(y, x, sizeof x);
        pf__loop_reciprocal_wide(N, y);
        for (int i = 0; i < N; i++) {
            wrong += y[i] != 1.0f / x[i];
        }
    }
    CHECK(wrong == 0);
}

void test_matmul(void)
{
    reciprocal_bits();
    silu_values();
    silu_shapes();
    wide_bits();
    engines();
}
