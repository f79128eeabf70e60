// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "score.h"

#include "constants.h"

#include <math.h>
#include <string.h>

// Four doubles side by side, because compilers do not find this by themselves: the same four
// partial sums as pf__dot, and so the same bits, whatever the width of the machine's registers.
#if defined(__GNUC__)
typedef double four __attribute__((vector_size(32)));
#define ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE inline
#endif
#if defined(__GNUC__) && defined(__x86_64__)
#define HAVE_WIDE
#endif

double pf__dot(int n, const double *a, const double *b)
{
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
    }
    for (; i < n; i++) {
        s0 += a[i] * b[i];
    }
    return (s0 + s1) + (s2 + s3);
}

#if defined(__GNUC__)
// Four rows at once: the additions of one dot wait for each other, those of four do not.
static ALWAYS_INLINE void dot_four(int n, const double *a, const double *b, double *out)
{
    const double *b1 = b + n, *b2 = b1 + n, *b3 = b2 + n;
    four s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        four x, y0, y1, y2, y3;
        memcpy(&x, a + i, sizeof x);
        memcpy(&y0, b + i, sizeof y0);
        memcpy(&y1, b1 + i, sizeof y1);
        memcpy(&y2, b2 + i, sizeof y2);
        memcpy(&y3, b3 + i, sizeof y3);
        s0 += x * y0;
        s1 += x * y1;
        s2 += x * y2;
        s3 += x * y3;
    }
    for (; i < n; i++) {
        s0[0] += a[i] * b[i];
        s1[0] += a[i] * b1[i];
        s2[0] += a[i] * b2[i];
        s3[0] += a[i] * b3[i];
    }
    out[0] = (s0[0] + s0[1]) + (s0[2] + s0[3]);
    out[1] = (s1[0] + s1[1]) + (s1[2] + s1[3]);
    out[2] = (s2[0] + s2[1]) + (s2[2] + s2[3]);
    out[3] = (s3[0] + s3[1]) + (s3[2] + s3[3]);
}

#ifdef HAVE_WIDE
__attribute__((target("avx"))) static void dot_four_wide(int n, const double *a, const double *b,
                                                         double *out)
{
    dot_four(n, a, b, out);
}
#endif

static void dot_four_any(int n, const double *a, const double *b, double *out)
{
#ifdef HAVE_WIDE
    if (__builtin_cpu_supports("avx")) {
        dot_four_wide(n, a, b, out);
        return;
    }
#endif
    dot_four(n, a, b, out);
}
#endif

void pf__dot_rows(int n, int rows, const double *a, const double *b, double *out)
{
    int k = 0;
#if defined(__GNUC__)
    // the last four may be some of those before once more
    for (; rows >= 4 && k < rows; k += 4) {
        int from = k + 4 <= rows ? k : rows - 4;
        dot_four_any(n, a, b + (size_t)from * (size_t)n, out + from);
    }
#endif
    for (; k < rows; k++) {
        out[k] = pf__dot(n, a, b + (size_t)k * (size_t)n);
    }
}

void pf__scaled_difference(int rows, int n_chan, const double *x, const double *base,
                           const double *scale, int scale_rows, double *out)
{
    for (int r = 0; r < rows; r++) {
        const double *s = scale + (scale_rows > 1 ? (size_t)r * (size_t)n_chan : 0);
        size_t at = (size_t)r * (size_t)n_chan;
        for (int c = 0; c < n_chan; c++) {
            out[at + (size_t)c] = (x[at + (size_t)c] - base[at + (size_t)c]) / s[c];
        }
    }
}

void pf__whiten(int n, const double *factor, double *x)
{
    // from the last row up, so that what a row needs is still there
    for (int i = n - 1; i >= 0; i--) {
        x[i] = pf__dot(i + 1, factor + (size_t)i * (size_t)(i + 1) / 2, x);
    }
}

double pf__residual_norm(int n, const double *residual)
{
    return sqrt(pf__dot(n, residual, residual));
}

pf_match pf__match_norm(double norm)
{
    return (pf_match){norm, NAN, 1, true, 0, 0};
}

double pf__coordinate(double coefficient, double centre_nominal, double centre_changed)
{
    return (coefficient - centre_nominal) / (centre_changed - centre_nominal);
}

// A signature that is none explains nothing: all of the residual (<r,r>) is off it.
static pf_match match_nothing(int n, double whole)
{
    return (pf_match){NAN, NAN, 0, false, 0, sqrt(whole / n)};
}

// What the others explain is not off, also where a target has no signature of its own.
static void share_off(int t, pf_match *out)
{
    double least = INFINITY;
    for (int j = 0; j < t; j++) {
        least = out[j].size > 0 && out[j].off < least ? out[j].off : least;
    }
    for (int j = 0; j < t; j++) {
        out[j].off = !(out[j].size > 0) && isfinite(least) ? least : out[j].off;
    }
}

// From <h,h>, <r,h> and <r,r> of one target.
static pf_match match_sums(int n, double energy, double product, double whole)
{
    if (!(energy > 0 && energy < INFINITY)) {
        return match_nothing(n, whole);
    }
    double left = whole - product / energy * product;
    return (pf_match){product / sqrt(energy),       product / energy, 1, true, sqrt(energy),
                      sqrt(left > 0 ? left / n : 0)};
}

static void match_one(int n, const double *h, const double *r, pf_match *out)
{
    *out = match_sums(n, pf__dot(n, h, h), pf__dot(n, r, h), pf__dot(n, r, r));
}

// The three sums of one window: <h,h>, <r,h>, <r,r>.
typedef struct window_sums {
    double energy, product, whole;
} window_sums;

static ALWAYS_INLINE window_sums sum_window(int n, const double *response, const double *nominal,
                                            const double *changed, const double *inverse)
{
    double e[4] = {0}, p[4] = {0}, q[4] = {0};
    int i = 0;
#if defined(__GNUC__)
    four ve = {0}, vp = {0}, vq = {0};
    for (; i + 4 <= n; i += 4) {
        four y, b, c, w;
        memcpy(&y, response + i, sizeof y);
        memcpy(&b, nominal + i, sizeof b);
        memcpy(&c, changed + i, sizeof c);
        memcpy(&w, inverse + i, sizeof w);
        four h = (c - b) * w, r = (y - b) * w;
        ve += h * h;
        vp += r * h;
        vq += r * r;
    }
    memcpy(e, &ve, sizeof e);
    memcpy(p, &vp, sizeof p);
    memcpy(q, &vq, sizeof q);
#endif
    for (; i < n; i++) {
        double h = (changed[i] - nominal[i]) * inverse[i];
        double r = (response[i] - nominal[i]) * inverse[i];
        e[i % 4] += h * h;
        p[i % 4] += r * h;
        q[i % 4] += r * r;
    }
    return (window_sums){(e[0] + e[1]) + (e[2] + e[3]), (p[0] + p[1]) + (p[2] + p[3]),
                         (q[0] + q[1]) + (q[2] + q[3])};
}

#ifdef HAVE_WIDE
__attribute__((target("avx"))) static window_sums sum_window_wide(int n, const double *response,
                                                                  const double *nominal,
                                                                  const double *changed,
                                                                  const double *inverse)
{
    return sum_window(n, response, nominal, changed, inverse);
}
#endif

static window_sums sum_window_any(int n, const double *response, const double *nominal,
                                  const double *changed, const double *inverse)
{
#ifdef HAVE_WIDE
    if (__builtin_cpu_supports("avx")) {
        return sum_window_wide(n, response, nominal, changed, inverse);
    }
#endif
    return sum_window(n, response, nominal, changed, inverse);
}

bool pf__match_window(int n, const double *response, const double *nominal, const double *changed,
                      const double *inverse, pf_match *out)
{
    window_sums s = sum_window_any(n, response, nominal, changed, inverse);
    *out = match_sums(n, s.energy, s.product, s.whole);
    return isfinite(s.energy) && isfinite(s.product) && isfinite(s.whole);
}

size_t pf__match_scratch(int n_targets)
{
    // correlations and their working copy, norms, products and a working copy of those
    return 2 * (size_t)n_targets * (size_t)n_targets + 3 * (size_t)n_targets;
}

static void accept(pf_match *out, double score, double remaining, double norm)
{
    if (!(remaining >= PF_REMAINING_ONLINE)) {
        *out = (pf_match){NAN, NAN, remaining, false, norm, 0};
        return;
    }
    *out = (pf_match){score, score / (remaining * norm), remaining, true, norm, 0};
}

// The inverse of the lower Cholesky factor of c (t x t, unit diagonal) into its lower triangle; the
// transposed factor is left above. False if a pivot is small. Whole rows at a time, so that no
// number waits for its neighbour.
static bool invert_factor(int t, double *c)
{
    for (int p = 0; p < t; p++) {
        double *row = c + p * t;
        if (row[p] < PF_PIVOT_CAREFUL) {
            return false;
        }
        row[p] = sqrt(row[p]);
        for (int k = p + 1; k < t; k++) {
            row[k] /= row[p];
        }
        for (int i = p + 1; i < t; i++) {
            for (int k = i; k < t; k++) {
                c[i * t + k] -= row[i] * row[k];
            }
        }
    }
    for (int i = 0; i < t; i++) {
        double *row = c + i * t, pivot = row[i];
        for (int k = 0; k < i; k++) {
            row[k] = 0;
        }
        for (int p = 0; p < i; p++) {
            for (int k = 0; k <= p; k++) {
                row[k] -= c[p * t + i] * c[p * t + k];
            }
        }
        for (int k = 0; k < i; k++) {
            row[k] /= pivot;
        }
        row[i] = 1 / pivot;
    }
    return true;
}

// All targets at once from the inverse factor: (C^-1)_jj = 1/remaining_j^2. What the signatures
// explain of the residual together is |L^-1 y|^2; the rest of `whole` is off all of them.
static void match_all(int t, int n, double whole, const double *inverse, const double *norm,
                      const double *product, double *work, pf_match *out)
{
    double left = whole;
    for (int i = 0; i < t; i++) {
        work[i] = 0;
        for (int k = 0; k <= i; k++) {
            work[i] += inverse[i * t + k] * product[k];
        }
        left -= work[i] * work[i];
    }
    for (int j = 0; j < t; j++) {
        double diagonal = 0, solution = 0;
        for (int i = j; i < t; i++) {
            diagonal += inverse[i * t + j] * inverse[i * t + j];
            solution += inverse[i * t + j] * work[i];
        }
        double remaining = 1 / sqrt(diagonal);
        accept(&out[j], solution * remaining, remaining, norm[j]);
        out[j].off = sqrt(left > 0 ? left / n : 0);
    }
}

// One target against the span of the others, whatever their rank: eliminates them from the
// correlations c (t x t, overwritten) and products y (overwritten), dependent ones left out. Gives
// what all of them together explain of the residual.
static double match_careful(int t, int j, double *c, double *y, double norm, pf_match *out)
{
    double explained = 0;
    for (int p = 0; p < t; p++) {
        double pivot = c[p * t + p];
        if (p == j || pivot < PF_PIVOT_DEPENDENT) {
            continue;
        }
        explained += y[p] * y[p] / pivot;
        for (int i = 0; i < t; i++) {
            if (i != j && i <= p) {
                continue;
            }
            double factor = c[i * t + p] / pivot;
            for (int k = 0; k < t; k++) {
                c[i * t + k] -= factor * c[p * t + k];
            }
            y[i] -= factor * y[p];
        }
    }
    double remaining = c[j * t + j] > 0 ? sqrt(c[j * t + j]) : 0;
    accept(out, y[j] / remaining, remaining, norm);
    return explained + (c[j * t + j] >= PF_PIVOT_DEPENDENT ? y[j] * y[j] / c[j * t + j] : 0);
}

// Correlations of the signatures (t x t), their norms and their products with the residual over
// their norms; a vanished one correlates with nothing.
static void correlate(int t, int n, const double *signatures, const double *residual, double *corr,
                      double *norm, double *product)
{
    // inner products first, in the lower triangle; four cost no more than one
    for (int i = 0; i < t; i++) {
        int rows = t >= 4 && i < 3 ? 4 : i + 1;
        pf__dot_rows(n, rows, signatures + (size_t)i * (size_t)n, signatures, corr + i * t);
    }
    pf__dot_rows(n, t, residual, signatures, product);
    for (int i = 0; i < t; i++) {
        norm[i] = sqrt(corr[i * t + i]);
        norm[i] = isfinite(norm[i]) ? norm[i] : 0;
        bool alive = norm[i] > 0;
        product[i] = alive ? product[i] / norm[i] : 0;
        corr[i * t + i] = alive ? 1 : 0;
        for (int k = 0; k < i; k++) {
            double c = alive && norm[k] > 0 ? corr[i * t + k] / (norm[i] * norm[k]) : 0;
            corr[i * t + k] = corr[k * t + i] = c;
        }
    }
}

void pf__match_targets(int n_targets, int n, const double *signatures, const double *residual,
                       double *scratch, pf_match *out)
{
    if (n_targets == 1) {
        match_one(n, signatures, residual, out);
        return;
    }
    int t = n_targets;
    double *corr = scratch, *work = corr + t * t, *norm = work + t * t;
    double *product = norm + t, *y = product + t;
    correlate(t, n, signatures, residual, corr, norm, product);
    for (int i = 0; i < t * t; i++) {
        work[i] = corr[i];
    }
    if (invert_factor(t, work)) {
        match_all(t, n, pf__dot(n, residual, residual), work, norm, product, y, out);
        return;
    }
    double whole = pf__dot(n, residual, residual);
    for (int j = 0; j < t; j++) {
        if (!(norm[j] > 0)) {
            out[j] = match_nothing(n, whole);
            continue;
        }
        for (int i = 0; i < t * t; i++) {
            work[i] = corr[i];
        }
        for (int i = 0; i < t; i++) {
            y[i] = product[i];
        }
        double left = whole - match_careful(t, j, work, y, norm[j], &out[j]);
        out[j].off = sqrt(left > 0 ? left / n : 0);
    }
    share_off(t, out);
}

// Subtracts from v its projection on each of the orthonormal rows of basis, twice for accuracy.
static void project_out(int n, int rank, const double *basis, double *v)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < rank; k++) {
            const double *b = basis + (size_t)k * (size_t)n;
            double along = pf__dot(n, v, b);
            for (int i = 0; i < n; i++) {
                v[i] -= along * b[i];
            }
        }
    }
}

void pf__match_targets_plain(int n_targets, int n, const double *signatures, const double *residual,
                             double *scratch, pf_match *out)
{
    double *basis = scratch, *left = scratch + (size_t)n_targets * (size_t)n;
    for (int j = 0; j < n_targets; j++) {
        // an orthonormal basis of the other signatures
        int rank = 0;
        for (int k = 0; k < n_targets; k++) {
            const double *h = signatures + (size_t)k * (size_t)n;
            double *b = basis + (size_t)rank * (size_t)n;
            double whole = sqrt(pf__dot(n, h, h));
            if (k == j || !(whole > 0)) {
                continue;
            }
            for (int i = 0; i < n; i++) {
                b[i] = h[i];
            }
            project_out(n, rank, basis, b);
            double size = sqrt(pf__dot(n, b, b));
            if (size < sqrt(PF_PIVOT_DEPENDENT) * whole) {
                continue;
            }
            for (int i = 0; i < n; i++) {
                b[i] /= size;
            }
            rank++;
        }
        const double *h = signatures + (size_t)j * (size_t)n;
        double norm = sqrt(pf__dot(n, h, h));
        if (!(norm > 0)) {
            out[j] = match_nothing(n, pf__dot(n, residual, residual));
            continue;
        }
        for (int i = 0; i < n; i++) {
            left[i] = h[i];
        }
        project_out(n, rank, basis, left);
        double size = sqrt(pf__dot(n, left, left));
        accept(&out[j], pf__dot(n, residual, left) / size, size / norm, norm);
        // what neither the others nor the rest of this one explain
        double explained = 0, along = size > sqrt(PF_PIVOT_DEPENDENT) * norm
                                          ? pf__dot(n, residual, left) / size
                                          : 0;
        for (int k = 0; k < rank; k++) {
            double part = pf__dot(n, residual, basis + (size_t)k * (size_t)n);
            explained += part * part;
        }
        double rest = pf__dot(n, residual, residual) - explained - along * along;
        out[j].off = sqrt(rest > 0 ? rest / n : 0);
    }
    share_off(n_targets, out);
}
