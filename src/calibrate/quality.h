// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_QUALITY_H
#define PF_QUALITY_H

#include "preflight/kit.h"

// How good a kit is, read off what calibration stored. Nothing is run.

// The gains at which separation is known, ascending: the knots of the looks, or the grid.
const double *pf__quality_gains(const pf_kit *kit, int *n);

// How far apart one look at a mechanism lies when it is healthy and when it has gain `gain` (index
// of the gains above), in standard deviations: that of the probe which separates it best. probe
// (Nullable): which; -1 where no probe looks at it, and then the value is 0.
double pf__quality_apart(const pf_kit *kit, int mechanism, int gain, int *probe);

// What a look tells of whether the target (counted over all probes) changed, in bits of the one
// that there is to tell: the mutual information of its category with a fair coin.
double pf__quality_bits(const pf_kit *kit, int target);

// Mean and bound of a task's return where use `use` (of the task, -1: none) has this gain, the gain
// is known exactly and the command is corrected as far as its limits let it.
double pf__quality_bound(const pf_kit *kit, int task, int use, double gain, double *mean);

// The least gain, in steps of .01, from which on up to 1 that bound reaches j_min. NaN: not even
// that of the healthy task does.
double pf__quality_least_gain(const pf_kit *kit, int task, int use);

#endif
