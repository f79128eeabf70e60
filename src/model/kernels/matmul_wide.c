// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "matmul.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include "host/arena.h"

#include <immintrin.h>
#include <pthread.h>
#include <stdlib.h>

// A tile of the result is up to VECTORS registers wide and so high that 24 to 28 registers hold it,
// over DEEP of k: six rows of four registers keep both multipliers busy and the loads idle. The
// left operand is read where it lies, or packed where it is transposed, BLOCK rows at a time (in
// the second-level cache, with a panel of the right one); the right one is packed in panels of WIDE
// columns, BROAD columns at a time. Measured on Ice Lake.
enum { LANES = 16, VECTORS = 4, WIDE = VECTORS * LANES, DEEP = 512, BLOCK = 192, BROAD = 512 };
// A transposed left operand is packed in strips of STRIP rows, which the heights of tiles divide.
enum { STRIP = 48, NEAR = 1 << 17 }; // NEAR: floats of a result that stays in the cache

#define TARGET __attribute__((target("avx512f,prfchw")))
#define INLINE TARGET static inline __attribute__((always_inline))

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int padded(int n)
{
    return (n + LANES - 1) / LANES * LANES;
}

// --- packing

// 16 x 16, rows `pitch` apart; fetches what lies 64 columns on.
INLINE void transpose(const float *from, size_t pitch, float *to, size_t to_pitch)
{
    __m512 r[LANES], t[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        r[i] = _mm512_loadu_ps(from + (size_t)i * pitch);
        _mm_prefetch((const char *)(from + (size_t)i * pitch + 64), _MM_HINT_T0);
    }
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < LANES; i += 4) {
        r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        _mm512_storeu_ps(to + (size_t)i * to_pitch, r[i]);
    }
}

// A block of the right operand, in panels: columns j.., rows l.. of it. A panel has `deep` rows of
// WIDE columns, the last one of padded(width); what is beyond the width is 0.
typedef struct block {
    int j, width, l, deep;
    const float *packed;
} block;

static float *panel_at(const block *at, int column, float *to)
{
    return to + (size_t)(column / WIDE * WIDE) * (size_t)at->deep + column % WIDE;
}

static size_t panel_pitch(const block *at, int column)
{
    return (size_t)least(WIDE, padded(at->width - column / WIDE * WIDE));
}

// Row by row, as it lies.
TARGET static void pack_rows(const block *at, size_t pitch, const float *b, float *to)
{
    for (int l = 0; l < at->deep; l++, b += pitch) {
        for (int v = 0; v < at->width; v += LANES) {
            __mmask16 mask = (__mmask16)((1u << least(LANES, at->width - v)) - 1);
            _mm_prefetch((const char *)(b + 2 * pitch + v), _MM_HINT_T0);
            _mm512_storeu_ps(panel_at(at, v, to) + (size_t)l * panel_pitch(at, v),
                             _mm512_maskz_loadu_ps(mask, b + v));
        }
    }
}

TARGET static void pack_columns(const block *at, size_t pitch, const float *b, float *to)
{
    for (int v = 0; v < at->width; v += LANES, b += LANES * pitch) {
        float *panel = panel_at(at, v, to);
        size_t wide = panel_pitch(at, v);
        int columns = least(LANES, at->width - v), whole = 0;
        for (; columns == LANES && whole + LANES <= at->deep; whole += LANES) {
            transpose(b + whole, pitch, panel + (size_t)whole * wide, wide);
        }
        for (int l = whole; l < at->deep; l++) {
            for (int j = 0; j < LANES; j++) {
                panel[(size_t)l * wide + (size_t)j] =
                    j < columns ? b[(size_t)j * pitch + (size_t)l] : 0;
            }
        }
    }
}

static void pack_right(bool transposed, int n, int k, const block *at, const float *b, float *to)
{
    size_t j = (size_t)at->j, l = (size_t)at->l;
    if (transposed) {
        pack_columns(at, (size_t)k, b + j * (size_t)k + l, to);
    } else {
        pack_rows(at, (size_t)n, b + l * (size_t)n + j, to);
    }
}

// Where a block lies in an operand packed as a whole.
static size_t block_at(int n, int k, int j, int l)
{
    return (size_t)j * (size_t)k + (size_t)l * (size_t)padded(least(BROAD, n - j));
}

// --- one tile

typedef struct tile {
    const float *a;       // packed, or its first row, a_pitch from row to row
    const float *b, *far; // packed; far: what to fetch meanwhile
    float *c;
    const float *beside; // rows to be fetched meanwhile besides those of c; or NULL
    size_t a_pitch, pitch;
    int k;
    __mmask16 last; // columns of the last vector that are there
    bool carry;     // go on from c
    bool fetch;     // c lies far away
} tile;

#define ROWS_UNROLLED _Pragma("GCC unroll 14") for (int i = 0; i < rows; i++)
#define VECTORS_UNROLLED _Pragma("GCC unroll 4") for (int v = 0; v < wide; v++)
enum { TALLEST = 14 };

INLINE void load(int rows, int wide, const tile *t, __m512 c[TALLEST][VECTORS])
{
    ROWS_UNROLLED VECTORS_UNROLLED c[i][v] = _mm512_setzero_ps();
    if (t->carry) {
        ROWS_UNROLLED VECTORS_UNROLLED
        {
            __mmask16 mask = v == wide - 1 ? t->last : 0xffff;
            c[i][v] = _mm512_maskz_loadu_ps(mask, t->c + (size_t)i * t->pitch + v * LANES);
        }
    }
}

INLINE void store(int rows, int wide, const tile *t, __m512 c[TALLEST][VECTORS])
{
    ROWS_UNROLLED VECTORS_UNROLLED
    {
        __mmask16 mask = v == wide - 1 ? t->last : 0xffff;
        _mm512_mask_storeu_ps(t->c + (size_t)i * t->pitch + v * LANES, mask, c[i][v]);
    }
}

INLINE void add(int rows, int wide, size_t row, const float *a, const float *b,
                __m512 c[TALLEST][VECTORS])
{
    __m512 right[VECTORS];
    VECTORS_UNROLLED right[v] = _mm512_loadu_ps(b + v * LANES);
    ROWS_UNROLLED
    {
        __m512 left = _mm512_set1_ps(a[(size_t)i * row]);
        VECTORS_UNROLLED c[i][v] = _mm512_fmadd_ps(left, right[v], c[i][v]);
    }
}

// Fetches the rows that the end of the tile will need, a few lines at a time.
INLINE void fetch(int wide, const tile *t, int row)
{
    VECTORS_UNROLLED
    {
        if (t->fetch) {
            __builtin_prefetch(t->c + (size_t)row * t->pitch + v * LANES, 1);
        }
        if (t->beside) {
            __builtin_prefetch(t->beside + (size_t)row * t->pitch + v * LANES);
        }
    }
}

INLINE void run(int rows, int wide, bool packed, const tile *t)
{
    enum { UNROLL = 4, SOON = 16 };
    __m512 c[TALLEST][VECTORS];
    const float *a = t->a, *b = t->b, *far = t->far;
    size_t row = packed ? 1 : t->a_pitch, next = packed ? STRIP : 1;
    load(rows, wide, t, c);
    int l = 0;
    for (; l + UNROLL <= t->k; l += UNROLL) {
        // one line in four steps: more of them cost more than they save
        _mm_prefetch((const char *)far, _MM_HINT_T1);
        far += LANES;
        if (l % SOON == 0 && l / SOON < rows) {
            fetch(wide, t, l / SOON);
        }
#pragma GCC unroll 4
        for (int u = 0; u < UNROLL; u++) {
            add(rows, wide, row, a, b, c);
            a += next;
            b += wide * LANES;
        }
    }
    for (; l < t->k; l++) {
        add(rows, wide, row, a, b, c);
        a += next;
        b += wide * LANES;
    }
    store(rows, wide, t, c);
}

// Heights of tiles by the width of the panel; a rest of other height is made of several.
#define LOW(X, wide) X(1, wide) X(2, wide) X(4, wide) X(6, wide)
#define SHAPES(X)                                                                                  \
    LOW(X, 1)                                                                                      \
    X(8, 1) X(12, 1) X(14, 1) LOW(X, 2) X(8, 2) X(12, 2) X(14, 2) LOW(X, 3) X(8, 3) LOW(X, 4)
#define SHAPE(rows, wide) (rows) * 8 + (wide)

// Rows of a tile of a result with n columns.
static int height(const pf_product *of)
{
    return of->n > 3 * LANES ? 6 : of->n > 2 * LANES ? 8 : of->a_transposed ? 12 : TALLEST;
}

// The highest tile that there is within a full one, or within what is left of it.
static int tile_rows(int tall, int left)
{
    return left >= tall ? tall : left >= 8 ? 8 : left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

#define CASE(rows, wide)                                                                           \
    case SHAPE(rows, wide):                                                                        \
        run(rows, wide, false, t);                                                                 \
        break;
TARGET static void run_plain(int rows, int wide, const tile *t)
{
    switch (SHAPE(rows, wide)) {
        SHAPES(CASE)
    }
}
#undef CASE
#define CASE(rows, wide)                                                                           \
    case SHAPE(rows, wide):                                                                        \
        run(rows, wide, true, t);                                                                  \
        break;
TARGET static void run_packed(int rows, int wide, const tile *t)
{
    switch (SHAPE(rows, wide)) {
        SHAPES(CASE)
    }
}
#undef CASE

// --- the blocks of a thread

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;

enum { LEFT = BLOCK * DEEP, RIGHT = BROAD * DEEP };

static void make_key(void)
{
    have_key = pthread_key_create(&key, free) == 0;
}

static bool take_blocks(float **left, float **right)
{
    pthread_once(&once, make_key);
    void *memory = have_key ? pthread_getspecific(key) : NULL;
    if (!memory && have_key) {
        memory = pf__pages_take((size_t)(LEFT + RIGHT) * sizeof(float));
        if (memory && pthread_setspecific(key, memory) != 0) {
            free(memory);
            memory = NULL;
        }
    }
    *right = memory;
    *left = memory ? *right + RIGHT : NULL;
    return memory != NULL;
}

// --- the product

// Rows i..end-1 of a transposed left operand, in strips, each k by k.
TARGET static void pack_left(const pf_product *of, int i, int end, int l, int deep, float *to)
{
    size_t pitch = (size_t)of->m;
    for (; i < end; i += STRIP) {
        const float *a = of->a + (size_t)l * pitch + i;
        __mmask16 mask[STRIP / LANES];
        for (int v = 0; v < STRIP / LANES; v++) {
            int there = least(LANES, end - i - v * LANES);
            mask[v] = (__mmask16)(there > 0 ? (1u << there) - 1 : 0);
        }
        for (int k = 0; k < deep; k++, a += pitch) {
            for (int v = 0; v < STRIP / LANES; v++, to += LANES) {
                _mm_prefetch((const char *)(a + 8 * pitch + v * LANES), _MM_HINT_T0);
                _mm512_storeu_ps(to, _mm512_maskz_loadu_ps(mask[v], a + v * LANES));
            }
        }
    }
}

// Rows first..end-1 by the panels of the block; left: Nullable, packed.
static void multiply_block(const pf_product *of, int first, int end, const block *b,
                           const float *left)
{
    tile t = {.a_pitch = (size_t)of->k, .pitch = (size_t)of->n, .k = b->deep, .carry = b->l > 0};
    bool finish = b->l + b->deep == of->k && of->finish.run;
    int tall = height(of);
    t.fetch = (size_t)of->m * (size_t)of->n > NEAR;
    for (int panel = 0; panel < b->width; panel += WIDE) {
        int column = b->j + panel, columns = least(WIDE, b->width - panel);
        int wide = (columns + LANES - 1) / LANES;
        t.last = (__mmask16)((1u << (columns - (wide - 1) * LANES)) - 1);
        t.b = b->packed + (size_t)panel * (size_t)b->deep;
        t.far = t.b + (size_t)b->deep * WIDE;
        for (int row = first, rows; row < end; row += rows) {
            int in = row - first;
            rows = tile_rows(tall, end - row);
            t.c = of->c + (size_t)row * t.pitch + (size_t)column;
            t.beside = finish && of->beside ? of->beside + (t.c - of->c) : NULL;
            if (left) {
                t.a = left + (size_t)(in / STRIP * STRIP) * (size_t)b->deep + in % STRIP;
                run_packed(rows, wide, &t);
            } else {
                t.a = of->a + (size_t)row * t.a_pitch + b->l;
                run_plain(rows, wide, &t);
            }
            // the first tiles of a panel fetch the next panel between them
            t.far = in < (LANES - 1) * tall ? t.far + (size_t)b->deep * LANES / 4 : t.b;
            if (finish) {
                of->finish.run(of->finish.self, row, column, rows, columns, t.pitch, t.c);
            }
        }
    }
}

bool pf__wide_matmul(const pf_product *of)
{
    float *left, *right;
    if (!take_blocks(&left, &right)) {
        return false;
    }
    int at_once = BLOCK - BLOCK % height(of);
    block b = {.j = 0};
    for (b.j = 0; b.j < of->n; b.j += BROAD) {
        b.width = least(BROAD, of->n - b.j);
        for (b.l = 0; b.l < of->k; b.l += DEEP) {
            b.deep = least(DEEP, of->k - b.l);
            if (of->packed) {
                b.packed = of->packed + block_at(of->n, of->k, b.j, b.l);
            } else {
                pack_right(of->b_transposed, of->n, of->k, &b, of->b, right);
                b.packed = right;
            }
            for (int first = 0; first < of->m; first += at_once) {
                int end = least(first + at_once, of->m);
                if (of->a_transposed) {
                    pack_left(of, first, end, b.l, b.deep, left);
                }
                multiply_block(of, first, end, &b, of->a_transposed ? left : NULL);
            }
        }
    }
    return true;
}

bool pf__wide_available(void)
{
    return __builtin_cpu_supports("avx512f");
}

size_t pf__wide_packed_size(int n, int k)
{
    return (size_t)padded(n) * (size_t)k;
}

void pf__wide_pack(bool b_transposed, int n, int k, const float *b, float *packed)
{
    block at = {.j = 0};
    for (at.j = 0; at.j < n; at.j += BROAD) {
        at.width = least(BROAD, n - at.j);
        for (at.l = 0; at.l < k; at.l += DEEP) {
            at.deep = least(DEEP, k - at.l);
            pack_right(b_transposed, n, k, &at, b, packed + block_at(n, k, at.j, at.l));
        }
    }
}

#else

bool pf__wide_available(void)
{
    return false;
}

bool pf__wide_matmul(const pf_product *of)
{
    (void)of;
    return false;
}

size_t pf__wide_packed_size(int n, int k)
{
    return (size_t)n * (size_t)k;
}

void pf__wide_pack(bool b_transposed, int n, int k, const float *b, float *packed)
{
    (void)b_transposed, (void)n, (void)k, (void)b, (void)packed;
}

#endif
