// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "weakened.h"

#include "core/kit_layout.h"
#include "settings/settings.h"
#include "words.h"

#include <stdio.h>
#include <string.h>

typedef struct found {
    pf_weakened *list;
    int n;
} found;

static void add(found *f, const char *setting, const char *words)
{
    if (f->n < PF_WEAKENED_MOST) {
        f->list[f->n].setting = setting;
        snprintf(f->list[f->n].words, sizeof f->list[f->n].words, "%s is %s", setting, words);
        f->n++;
    }
}

// Where `weaker` holds, a number that is not its default.
static void add_number(found *f, bool weaker, const char *setting, double is, double usual,
                       const char *means)
{
    char words[140];
    if (weaker) {
        snprintf(words, sizeof words, "%.6g, not %.6g: %s", is, usual, means);
        add(f, setting, words);
    }
}

// The mechanism that is held for least likely to have changed, against an even share of the
// default: a list may be in order as a whole and rule out one mechanism.
static void add_prior(found *f, const pf_kit *k, double change)
{
    double even = change / (k->n_mech - 1);
    int least = 1;
    for (int j = 2; j < k->n_mech; j++) {
        least = k->prior[j] < k->prior[least] ? j : least;
    }
    char means[96];
    snprintf(means, sizeof means, "%.40s is held for less likely to have changed",
             pf_kit_mechanism_name(k, least));
    add_number(f, k->prior[least] < even * (1 - 1e-9), "prior", k->prior[least], even, means);
}

// What the rules of a kit leave out.
static void add_rules(found *f, const pf_kit *k)
{
    if (!k->field) {
        add(f, "field", "false: the paper's rules, which certify what no probe has looked at");
        return;
    }
    if (k->rehearse == PF_REHEARSE_NONE) {
        add(f, "rehearse", "none, not group: no task is tried before it is go-if");
    } else if (k->n_rehearse > 0 && k->budget3 == 0) {
        add(f, "budget.rehearsal", "0: no task is tried before it is go-if");
    }
    if (k->posterior != PF_POSTERIOR_JOINT) {
        add(f, "posterior", "transport, not joint: what fits no loss of strength is not noticed");
    } else if (k->n_misfit == 0) {
        add(f, "method", "one without a misfit: what fits no loss of strength is not noticed");
    }
    if (k->certificate == PF_CERTIFICATE_MEMBERS && pf__kit_starts_from_channels(k)) {
        add(f, "certificate",
            "members, not anchored: returns are what the model expects of itself");
    }
}

// A multiple of the plant's own noise, or where it has none of the scale of a reading; 1 is much
// for either. Misfit and rehearsals forgive what such noise could have done.
static void add_noise(found *f, const pf_kit *k)
{
    char words[100];
    if (k->sensor_noise > 1) {
        snprintf(words, sizeof words, "%.6g: what is off by less than so much noise is not noticed",
                 k->sensor_noise);
        add(f, "sensor_noise", words);
    }
}

// Not here are settings that make no false go easier to get, as audits of kits with and without
// them say (docs/trust.md): g_cal, grid and every_severity are about the alarm and the paper's
// severity, while the joint posterior has gains of its own; `bound: worst` makes the same promise
// in another way; with `stop: break`, fewer looks or less noise than the sensors have, less is go.
// Budgets have no default but what is found from the machine.
int pf__weakened(const pf_kit *k, pf_weakened list[PF_WEAKENED_MOST])
{
    const pf_settings usual = pf__settings_default(PF_SETTINGS_FIELD);
    found f = {list, 0};
    add_rules(&f, k);
    add_number(&f, k->j_min < usual.j_min, "j_min", k->j_min, usual.j_min,
               "a task that returns this little is go");
    add_number(&f, k->alpha > usual.alpha, "alpha", k->alpha, usual.alpha,
               "a bound may be broken more often");
    add_prior(&f, k, pf__settings_number(&usual.prior));
    add_noise(&f, k);
    bool simulated = k->n_response == 0; // of recordings it is how many there are
    add_number(&f, simulated && k->episodes < usual.episodes, "episodes", k->episodes,
               usual.episodes, "readings and rehearsals are known from fewer runs");
    add_number(&f, k->alarm_trials < usual.alarm_trials, "alarm_trials", k->alarm_trials,
               usual.alarm_trials, "alarm and misfit are known from fewer sessions");
    bool twin = strcmp(pf_kit_get_string(k, PF_KIT_PREDICTOR), "twin") == 0;
    add_number(&f, twin && k->n_members < usual.members, "members", k->n_members, usual.members,
               "bounds are known from fewer starts");
    return f.n;
}

void pf__weakened_json(pf_text *out, const pf_kit *kit)
{
    pf_weakened list[PF_WEAKENED_MOST];
    int n = pf__weakened(kit, list);
    pf__json_open(out, "weakened", "[");
    for (int i = 0; i < n; i++) {
        pf__json_comma(out);
        pf__text_add(out, "{");
        pf__json_add_string(out, "setting", list[i].setting);
        pf__json_add_string(out, "words", list[i].words);
        pf__text_add(out, "}");
    }
    pf__text_add(out, "]");
}

void pf__words_weakened_head(pf_text *out)
{
    pf__text_add(out, "\nThe settings of this kit weaken its verdict:\n");
}

void pf__words_weakened_one(pf_text *out, const char *words)
{
    pf__text_add(out, "- ");
    pf__words_name(out, words);
    pf__text_add(out, "\n");
}

void pf__words_weakened(pf_text *out, const pf_kit *kit)
{
    pf_weakened list[PF_WEAKENED_MOST];
    int n = pf__weakened(kit, list);
    for (int i = 0; i < n; i++) {
        if (i == 0) {
            pf__words_weakened_head(out);
        }
        pf__words_weakened_one(out, list[i].words);
    }
}
