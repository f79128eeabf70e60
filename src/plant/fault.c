// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "plant_impl.h"

// The fault layer: what stands between a command and what the plant receives. Plants whose physics
// puts the gain elsewhere replace it through pf_plant_class.deliver.
void pf_fault_deliver(int n_mech, const pf_mechanism *mechanisms, const double *u,
                      const double *gains, double *v)
{
    for (int j = 0; j < n_mech; j++) {
        double lo = mechanisms[j].lo, hi = mechanisms[j].hi;
        v[j] = gains[j] * (u[j] < lo ? lo : u[j] > hi ? hi : u[j]);
    }
}

void pf_pulse_command(const pf_pulse *pulse, int n_mech, int mechanism, double *command)
{
    for (int r = 0; r < pulse->rows; r++) {
        for (int j = 0; j < n_mech; j++) {
            double sign = pulse->doublet && r >= pulse->steps / 2 ? -1 : 1;
            bool active = j == mechanism && r < pulse->steps;
            command[r * n_mech + j] = active ? sign * pulse->amplitude[j] : 0;
        }
    }
}
