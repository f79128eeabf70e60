// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "matmul_wide.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>
#include <pthread.h>
#include <stdlib.h>

// A tile is TALL x WIDE of the result in 28 registers, over DEEP of k; the left operand is taken
// TILES tiles at a time (in the second-level cache, with a panel of the right one), the right
// operand in panels of WIDE columns, BROAD columns at a time. Measured on Ice Lake.
enum { TALL = 14, WIDE = 32, DEEP = 512, TILES = 12, BROAD = 512 };
enum { LANES = 16, NEAR = 1 << 17 }; // NEAR: floats of a result that stays in the cache

#define TARGET __attribute__((target("avx512f,prfchw")))
#define INLINE TARGET static inline __attribute__((always_inline))

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int padded(int n)
{
    return (n + WIDE - 1) / WIDE * WIDE;
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

// One panel: k x WIDE from `width` columns, the others 0.
TARGET static void pack_panel(bool transposed, size_t pitch, int width, int k, const float *b,
                              float *to)
{
    __mmask32 mask = width < 32 ? (1u << width) - 1 : ~0u;
    if (!transposed) {
        for (int l = 0; l < k; l++, b += pitch, to += WIDE) {
            _mm_prefetch((const char *)(b + 16 * pitch), _MM_HINT_T0);
            _mm_prefetch((const char *)(b + 16 * pitch + LANES), _MM_HINT_T0);
            _mm512_storeu_ps(to, _mm512_maskz_loadu_ps((__mmask16)mask, b));
            _mm512_storeu_ps(to + LANES,
                             _mm512_maskz_loadu_ps((__mmask16)(mask >> LANES), b + LANES));
        }
        return;
    }
    int whole = width == WIDE ? k / LANES * LANES : 0;
    for (int l = 0; l < whole; l += LANES) {
        transpose(b + l, pitch, to + (size_t)l * WIDE, WIDE);
        transpose(b + LANES * pitch + l, pitch, to + (size_t)l * WIDE + LANES, WIDE);
    }
    for (int l = whole; l < k; l++) {
        for (int j = 0; j < WIDE; j++) {
            to[(size_t)l * WIDE + (size_t)j] = j < width ? b[(size_t)j * pitch + (size_t)l] : 0;
        }
    }
}

// A block of the right operand, in panels: columns j.., rows l.. of it.
typedef struct block {
    int j, width, l, deep;
    const float *packed;
} block;

static void pack_right(bool transposed, int n, int k, const block *at, const float *b, float *to)
{
    size_t pitch = (size_t)(transposed ? k : n), l = (size_t)at->l;
    for (int p = 0; p < at->width; p += WIDE) {
        size_t j = (size_t)(at->j + p);
        pack_panel(transposed, pitch, least(WIDE, at->width - p), at->deep,
                   transposed ? b + j * pitch + l : b + l * pitch + j,
                   to + (size_t)p * (size_t)at->deep);
    }
}

// Where a block lies in an operand packed as a whole.
static size_t block_at(int n, int k, int j, int l)
{
    return (size_t)j * (size_t)k + (size_t)l * (size_t)padded(least(BROAD, n - j));
}

// One tile of the left operand. Row-major: blocks of 16 of k, in each of them row by row; else k by
// k.
TARGET static void pack_tile(bool transposed, size_t pitch, int rows, int k, const float *a,
                             float *to)
{
    if (transposed) {
        __mmask16 mask = (__mmask16)((1u << rows) - 1);
        for (int l = 0; l < k; l++, a += pitch, to += rows) {
            _mm512_mask_storeu_ps(to, mask, _mm512_maskz_loadu_ps(mask, a));
        }
        return;
    }
    for (int l = 0; l < k; l += LANES) {
        __mmask16 mask = (__mmask16)((1u << least(LANES, k - l)) - 1);
        for (int i = 0; i < rows; i++, to += LANES) {
            _mm512_storeu_ps(to, _mm512_maskz_loadu_ps(mask, a + (size_t)i * pitch + l));
        }
    }
}

// --- one tile

typedef struct tile {
    const float *a, *b, *next; // packed; next: what to fetch meanwhile
    float *c;
    const float *soon[2]; // rows to be fetched meanwhile: of c, and what lies beside it; or NULL
    size_t pitch;
    int k;
    __mmask16 left, right; // columns of the tile that are there
    bool carry;            // go on from c
} tile;

INLINE void load(int rows, const tile *t, __m512 c[TALL][2])
{
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        c[i][0] = c[i][1] = _mm512_setzero_ps();
    }
    if (t->carry) {
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++) {
            const float *from = t->c + (size_t)i * t->pitch;
            c[i][0] = _mm512_maskz_loadu_ps(t->left, from);
            c[i][1] = _mm512_maskz_loadu_ps(t->right, from + LANES);
        }
    }
}

INLINE void store(int rows, const tile *t, __m512 c[TALL][2])
{
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        float *to = t->c + (size_t)i * t->pitch;
        _mm512_mask_storeu_ps(to, t->left, c[i][0]);
        _mm512_mask_storeu_ps(to + LANES, t->right, c[i][1]);
    }
}

INLINE void add(int rows, size_t step, const float *a, const float *b, __m512 c[TALL][2])
{
    __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + LANES);
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        __m512 value = _mm512_set1_ps(a[(size_t)i * step]);
        c[i][0] = _mm512_fmadd_ps(value, b0, c[i][0]);
        c[i][1] = _mm512_fmadd_ps(value, b1, c[i][1]);
    }
}

// step of the packed left operand from row to row: LANES when it is row-major in blocks, else 1.
INLINE void run(int rows, size_t step, const tile *t)
{
    enum { UNROLL = 4 };
    __m512 c[TALL][2];
    const float *a = t->a, *b = t->b, *next = t->next;
    size_t next_k = step == 1 ? (size_t)rows : 1;
    load(rows, t, c);
    int l = 0;
    const float *c_soon = t->soon[0], *beside = t->soon[1];
    for (; l + LANES <= t->k; l += LANES) {
        // a row at a time, so that the fetches do not crowd out those of the operands
        if (c_soon && l < rows * LANES) {
            __builtin_prefetch(c_soon, 1);
            __builtin_prefetch(c_soon + LANES, 1);
            c_soon += t->pitch;
        }
        if (beside && l < rows * LANES) {
            __builtin_prefetch(beside);
            __builtin_prefetch(beside + LANES);
            beside += t->pitch;
        }
        for (int q = 0; q < LANES; q += UNROLL) {
            // one line in four steps: more of them cost more than they save
            _mm_prefetch((const char *)next, _MM_HINT_T1);
            next += LANES;
#pragma GCC unroll 4
            for (int u = 0; u < UNROLL; u++) {
                add(rows, step, a, b, c);
                a += next_k;
                b += WIDE;
            }
        }
        a += step == 1 ? 0 : (size_t)(rows - 1) * LANES;
    }
    for (; l < t->k; l++) {
        add(rows, step, a, b, c);
        a += next_k;
        b += WIDE;
    }
    store(rows, t, c);
}

#define HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define CASE(rows)                                                                                 \
    case rows:                                                                                     \
        run(rows, LANES, t);                                                                       \
        break;
TARGET static void run_plain(int rows, const tile *t)
{
    switch (rows) {
        HEIGHTS(CASE)
    }
}
#undef CASE
#define CASE(rows)                                                                                 \
    case rows:                                                                                     \
        run(rows, 1, t);                                                                           \
        break;
TARGET static void run_transposed(int rows, const tile *t)
{
    switch (rows) {
        HEIGHTS(CASE)
    }
}
#undef CASE

// --- the blocks of a thread

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;

enum { LEFT = TILES * TALL * DEEP + LANES, RIGHT = BROAD * DEEP };

static void make_key(void)
{
    have_key = pthread_key_create(&key, free) == 0;
}

static bool take_blocks(float **left, float **right)
{
    pthread_once(&once, make_key);
    void *memory = have_key ? pthread_getspecific(key) : NULL;
    if (!memory && have_key &&
        posix_memalign(&memory, 4096, (size_t)(LEFT + RIGHT) * sizeof(float)) == 0 &&
        pthread_setspecific(key, memory) != 0) {
        free(memory);
        memory = NULL;
    }
    *right = memory;
    *left = memory ? *right + RIGHT : NULL;
    return memory != NULL;
}

// --- the product

typedef struct product {
    const pf_product *of;
    int tiles, short_rows, tall; // `tall` tiles of short_rows + 1 rows, then tiles of short_rows
} product;

// The rows are shared out evenly, so that no tile is much shorter than the others.
static int first_row(const product *p, int t)
{
    return t * p->short_rows + least(t, p->tall);
}

static void pack_left(const product *p, int t, int end, int l, int deep, float *to)
{
    const pf_product *of = p->of;
    size_t pitch = (size_t)(of->a_transposed ? of->m : of->k);
    for (; t < end; t++, to += TALL * DEEP) {
        int i = first_row(p, t);
        const float *from =
            of->a_transposed ? of->a + (size_t)l * pitch + i : of->a + (size_t)i * pitch + l;
        pack_tile(of->a_transposed, pitch, first_row(p, t + 1) - i, deep, from, to);
    }
}

// Tiles first..end-1 of the rows by the panels of the block.
static void multiply_block(const product *p, int first, int end, const block *b, const float *left)
{
    const pf_product *of = p->of;
    tile t = {.pitch = (size_t)of->n, .k = b->deep, .carry = b->l > 0};
    bool finish = b->l + b->deep == of->k && of->finish.run;
    bool far = (size_t)of->m * (size_t)of->n > NEAR;
    for (int panel = 0; panel < b->width; panel += WIDE) {
        int column = b->j + panel, columns = least(WIDE, b->width - panel);
        unsigned mask = columns < WIDE ? (1u << columns) - 1 : ~0u;
        t.left = (__mmask16)mask;
        t.right = (__mmask16)(mask >> LANES);
        t.b = b->packed + (size_t)panel * (size_t)b->deep;
        t.next = t.b + (size_t)b->deep * WIDE;
        for (int i = first; i < end; i++) {
            int row = first_row(p, i), rows = first_row(p, i + 1) - row;
            t.a = left + (size_t)(i - first) * TALL * DEEP;
            t.c = of->c + (size_t)row * t.pitch + (size_t)column;
            t.soon[0] = far ? t.c : NULL;
            t.soon[1] = finish && of->beside ? of->beside + (t.c - of->c) : NULL;
            if (of->a_transposed) {
                run_transposed(rows, &t);
            } else {
                run_plain(rows, &t);
            }
            // the tiles of a panel fetch the next panel between them
            t.next = i - first < 7 ? t.next + (size_t)b->deep * LANES / 4 : t.b;
            if (finish) {
                of->finish.run(of->finish.self, row, column, rows, columns, t.pitch, t.c);
            }
        }
    }
}

bool pf_wide_matmul(const pf_product *of)
{
    float *left, *right;
    if (!take_blocks(&left, &right)) {
        return false;
    }
    product p = {.of = of, .tiles = (of->m + TALL - 1) / TALL};
    p.short_rows = of->m / p.tiles;
    p.tall = of->m % p.tiles;
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
            for (int first = 0; first < p.tiles; first += TILES) {
                int end = least(first + TILES, p.tiles);
                pack_left(&p, first, end, b.l, b.deep, left);
                multiply_block(&p, first, end, &b, left);
            }
        }
    }
    return true;
}

bool pf_wide_available(void)
{
    return __builtin_cpu_supports("avx512f");
}

size_t pf_wide_packed_size(int n, int k)
{
    return (size_t)padded(n) * (size_t)k;
}

void pf_wide_pack(bool b_transposed, int n, int k, const float *b, float *packed)
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

bool pf_wide_available(void)
{
    return false;
}

bool pf_wide_matmul(const pf_product *of)
{
    (void)of;
    return false;
}

size_t pf_wide_packed_size(int n, int k)
{
    return (size_t)n * (size_t)k;
}

void pf_wide_pack(bool b_transposed, int n, int k, const float *b, float *packed)
{
    (void)b_transposed, (void)n, (void)k, (void)b, (void)packed;
}

#endif
