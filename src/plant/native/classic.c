// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "classic.h"

#include <math.h>

const int pf__classic_both[2] = {1, 2};

static const double amplitude[] = {0, .25, .25};
const pf_pulse pf__classic_probe = {8, 8, false, amplitude};
const pf_pulse pf__classic_task = {12, 12, false, amplitude};

double pf__classic_sign(double value)
{
    return (value > 0) - (value < 0);
}

double pf__classic_square(double value)
{
    static const volatile double two = 2;
    return pow(value, two);
}

void pf__classic_push(double share, double *u)
{
    u[0] = 0;
    u[1] = share > 0 ? share : 0;
    u[2] = share < 0 ? -share : 0;
}

void pf__classic_mirror(int policy, double push, int n_state, double *x)
{
    bool other = policy == 0 ? push < 0 : push > 0;
    for (int i = 0; i < n_state && other; i++) {
        x[i] = -x[i];
    }
}
