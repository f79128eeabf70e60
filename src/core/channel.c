// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/channel.h"

int pf_channel_category(const pf_channel_row *row, double score)
{
    int category = 0;
    while (category < row->n_bins - 1 && row->edges[category] < score) {
        category++;
    }
    return category;
}

double pf_channel_ratio(const pf_channel_row *row, int category)
{
    return row->changed[category] / row->nominal[category];
}

bool pf_gate_open(const pf_channel_row *row, int category)
{
    return row->changed[category] > row->nominal[category];
}
