// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"

#include <math.h>

// What others send: signs of a Hadamard matrix, and the orthogonal multisines of aircraft
// identification (Morelli), each mechanism with harmonics of its own and phases that keep the peak
// low for the power (Schroeder's to begin with, then by search).

static const double pi = 3.14159265358979323846;

// Phases are looked for on a circle of this many points.
enum { PHASES = 24, ROUNDS = 4 };

void pf__family_hadamard(int n, int steps, double *wave)
{
    for (int i = 0; i < n; i++) {
        for (int r = 0; r < steps; r++) {
            int both = i & r, odd = 0;
            for (; both; both &= both - 1) {
                odd = !odd;
            }
            wave[i * steps + r] = odd ? -1 : 1;
        }
    }
}

// Harmonics of a mechanism: first, first + n, ... below the Nyquist frequency; that one alone may
// be used too where steps is even, as a cosine.
static int count_harmonics(int n, int steps, int first)
{
    int most = (steps - 1) / 2, count = 0;
    for (int k = first; k <= most; k += n) {
        count++;
    }
    return count;
}

static void fill(int n, int steps, int first, int count, const double *phase, double *wave)
{
    double peak = 0;
    for (int r = 0; r < steps; r++) {
        double sum = 0;
        for (int i = 0; i < count; i++) {
            sum += cos(2 * pi * (first + i * n) * r / steps + phase[i]);
        }
        wave[r] = count > 0 ? sum : r % 2 ? -1 : 1;
        peak = fmax(peak, fabs(wave[r]));
    }
    for (int r = 0; r < steps; r++) {
        wave[r] /= peak;
    }
}

static double power(int steps, const double *wave)
{
    double sum = 0;
    for (int r = 0; r < steps; r++) {
        sum += wave[r] * wave[r];
    }
    return sum;
}

void pf__family_multisine(int n, int steps, double *wave)
{
    double phase[PF_DESIGN_STEPS], trial[PF_DESIGN_STEPS];
    for (int j = 0; j < n; j++) {
        int count = count_harmonics(n, steps, j + 1);
        for (int i = 0; i < count; i++) {
            phase[i] = -pi * i * (i - 1) / count; // Schroeder 1970
        }
        double *own = wave + j * steps;
        fill(n, steps, j + 1, count, phase, own);
        double best = power(steps, own); // with the peak at 1: most power, lowest peak factor
        for (int round = 0; round < ROUNDS * count; round++) {
            int i = round % count;
            double kept = phase[i];
            for (int p = 0; p < PHASES; p++) {
                phase[i] = 2 * pi * p / PHASES;
                fill(n, steps, j + 1, count, phase, trial);
                if (power(steps, trial) > best * (1 + 1e-12)) {
                    best = power(steps, trial);
                    kept = phase[i];
                }
            }
            phase[i] = kept;
        }
        fill(n, steps, j + 1, count, phase, own);
    }
}
