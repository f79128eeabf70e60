// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_MISFIT_H
#define PF_MISFIT_H

#include "evidence.h"
#include "kit_layout.h"
#include "posterior.h"

// Whether the looks of a session fit any machine of the model: a gain on one mechanism, or none.
// Two signs add up over the looks: what the nearest hypothesis leaves of the response in a channel,
// and how far the coordinates lie from the likeliest hypothesis.

// What the hypothesis nearest to a look predicts of its response, with one prediction more at most.
// The evidence is that of the look; others is work space of n_mech numbers.
pf_status pf__misfit_predict(const pf_kit *kit, const pf__look *look, pf__evidence *evidence,
                             double *others, const double **predicted, pf_error *error);

// What the prediction of the nearest hypothesis leaves of a response, by channel: the sum of
// squares in standard deviations as a normal deviate (cube root, then mean and sd of calibration).
// A channel that is stuck fits nothing. u has n_chan
// entries.
void pf__misfit_channels(const pf_kit *kit, int probe, const double *response,
                         const double *predicted, double *u);
// The cube root that `u` is made of: what calibration takes mean and sd of.
void pf__misfit_roots(const pf_kit *kit, int probe, const double *response, const double *predicted,
                      double *root);

// How many readings at the end of a response are equal to the bit in a channel, at least 1: a
// sensor that stands still repeats itself, noise and all.
int pf__misfit_still(int rows, int n_chan, const double *response, int channel);
// Whether that is more than twice what calibration saw.
bool pf__misfit_stuck(const pf_kit *kit, int rows, const double *response, int channel);

// The most that a channel moves between two readings of a start of n_start numbers.
double pf__misfit_moved(int n_start, int n_chan, const double *start, int channel);
// Whether it moves there, before any command, more than on a healthy machine, or nobody tells. A
// predictor that starts from several readings takes such a motion for the machine's own and expects
// it to go on.
bool pf__misfit_restless(const pf_kit *kit, const double *start, int n_start, int channel);

// The sum q of n squares of standard normal numbers as a normal deviate (Wilson and Hilferty).
double pf__misfit_shape(double q, int n);

// Over the looks of a session. Largest values are kept: a later look does not excuse an earlier
// one.
typedef struct pf__misfit {
    double *sum;        // n_chan: of u over the looks
    int looks;          // that counted
    double chan, shape; // A and B, the largest so far
    int channel, look;  // where and in which run A was largest
    int shape_look;     // when B was
    int implausible;    // looks that no machine of the model gives
} pf__misfit;

void pf__misfit_reset(pf__misfit *misfit, int n_chan);
// number: of the run, from 1.
void pf__misfit_add(pf__misfit *misfit, int n_chan, const double *u, double shape, int number);
// V: the larger of the two in units of calibration; misfit above the kit's level.
double pf__misfit_value(const pf__misfit *misfit, const pf_kit *kit);

#endif
