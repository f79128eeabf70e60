// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef EMBEDDED_PLANT_H
#define EMBEDDED_PLANT_H

// Three connected tanks: a main pump feeds the first one, each has a standby pump of its own. Used
// three times: as the model on the board, as the machine it simulates, and by the host program
// that calibrates the kit.
enum { TANKS = 3, PUMPS = TANKS + 1, PROBE_ROWS = 8, TASK_ROWS = 12 };

#define SENSOR_SD .02 // m
#define WIND_SD .005  // m per step: boiling and splashing

// Levels x (m) after one second of deliveries v (0 to 1 of a pump's flow) and disturbance w.
static inline void tanks_step(double *x, const double *v, const double *w)
{
    double before[TANKS];
    for (int i = 0; i < TANKS; i++) {
        before[i] = x[i];
    }
    for (int i = 0; i < TANKS; i++) {
        double inflow = v[i + 1] + (i == 0 ? v[0] : 0);
        double next_door = before[(i + 1) % TANKS];
        x[i] += .2 * inflow - .05 * before[i] + .05 * (next_door - before[i]) + w[i];
    }
}

#endif
