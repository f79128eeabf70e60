// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FEATURES_H
#define PF_FEATURES_H

#include "preflight/plant.h"

// How the channels of a plant enter a network and leave it, so that equal physics look equal and a
// change is small and continuous: an angle enters as sine and cosine and changes by less than half
// a turn; a quaternion enters with length one and its first non-zero number positive, and its
// change is measured from there.

// Refuses a quaternion that is not four channels in a row.
pf_status pf__features_check(int n_chan, const pf_channel_kind *kinds, pf_error *error);

// Features of the channels, commands not counted: one per channel, two per angle.
int pf__features_count(int n_chan, const pf_channel_kind *kinds);

void pf__features_of(int n_chan, const pf_channel_kind *kinds, const double *x, double *features);

// What is to be predicted of the step from x to next.
void pf__features_change(int n_chan, const pf_channel_kind *kinds, const double *x,
                         const double *next, double *change);

// x after the change, in place.
void pf__features_apply(int n_chan, const pf_channel_kind *kinds, const double *change, double *x);

#endif
