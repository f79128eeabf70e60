// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "session_impl.h"

#include <string.h>

// What a session does differently when every mechanism is healthy or changed on its own.

// Usable targets by falling ratio, equal ones by index; gives their number.
static int sort_targets(pf_session *s, int n_targets)
{
    int n = 0;
    for (int t = 0; t < n_targets; t++) {
        if (!s->next[t].usable) {
            continue;
        }
        int at = n++;
        while (at > 0 && s->next[s->order[at - 1]].ratio < s->next[t].ratio) {
            s->order[at] = s->order[at - 1];
            at--;
        }
        s->order[at] = t;
    }
    return n;
}

// Full rows: another target's change can make this one's category, so what it says is weighed
// against that. The strongest evidence is taken first; whatever follows may be explained by it.
static void update_explained(pf_session *s, int probe, int n_targets)
{
    const pf_kit *k = s->kit;
    int first = k->probe_target[probe], n = sort_targets(s, n_targets);
    size_t bins = (size_t)k->n_bins;
    for (int t = 0; t < n_targets; t++) {
        s->target_belief[t] = s->belief[s->next[t].mechanism];
    }
    for (int i = 0; i < n; i++) {
        int t = s->order[i], j = s->next[t].mechanism - 1;
        size_t category = (size_t)s->next[t].category;
        pf_channel_row own = pf_kit_channel(k, first + t);
        const double *given =
            k->cross + k->probe_cross[probe] + (size_t)t * (size_t)n_targets * bins + category;
        double ratio = pf_odds_explained_ratio(own.nominal[category], own.changed[category],
                                               n_targets, t, given, bins, s->target_belief);
        s->new_odds[j] = pf_odds_update(s->odds[j], ratio);
        s->target_belief[t] = pf_odds_probability(s->new_odds[j]);
    }
}

void pf__session_update_odds(pf_session *s, int probe, int n_targets)
{
    memcpy(s->new_odds, s->odds, sizeof(double) * (size_t)s->m);
    if (s->kit->probe_cross[probe] >= 0) {
        update_explained(s, probe, n_targets);
    } else {
        for (int t = 0; t < n_targets; t++) {
            int j = s->next[t].mechanism - 1;
            s->new_odds[j] = pf_odds_update(s->odds[j], s->next[t].ratio);
        }
    }
    pf_odds_belief(s->m, s->new_odds, s->new_belief);
}

const double *pf_session_others(pf_session *s)
{
    if (s->stage != 2 || !pf__session_many(s)) {
        return NULL;
    }
    s->others[0] = 1;
    for (int j = 1; j <= s->m; j++) {
        s->others[j] = pf_joint_moments(&s->joint, j).mean;
    }
    return s->others;
}
