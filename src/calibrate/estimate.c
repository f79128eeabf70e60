// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "source.h"

// How long a calibration takes. The work is counted in rows of trajectories, which the plant
// simulates or the predictor foresees; what a row takes is measured on the first episodes.

double pf__look_rows(const pf_plan *plan, int probe)
{
    // the response, what is expected of a healthy machine, and of a loss of every target
    return plan->probes[probe].rows * (2.0 + plan->probes[probe].n_targets);
}

// Looks at probes: those of a fixed number, then those of sessions, which choose among the probes.
static double rows_of_probes(const pf_plan *plan, const pf_kit *kit)
{
    pf_counts n = pf__counts(plan);
    double all = 0, mean = 0;
    for (int q = 0; q < plan->n_probes; q++) {
        double rows = pf__look_rows(plan, q), targets = plan->probes[q].n_targets;
        double classes = 1 + targets * (plan->settings.every_severity ? 2 : 1);
        all += rows * plan->settings.episodes * classes;
        all +=
            kit->n_knots > 0 ? rows * (n.nominal_looks + targets * kit->n_knots * n.knot_looks) : 0;
        all += kit->n_misfit > 0 ? rows * (n.residuals + n.misfits) : 0;
        mean += rows / plan->n_probes;
    }
    double sessions = plan->settings.alarm_trials;
    sessions += kit->n_misfit > 0 ? (double)PF_SESSION_CLASSES * n.sessions : 0;
    return all + mean * kit->budget1 * sessions;
}

// Tasks at every share of their commands, and rehearsals of each.
static double rows_of_tasks(const pf_plan *plan, const pf_kit *kit)
{
    double all = 0;
    for (int t = 0; t < plan->n_tasks; t++) {
        double rows = plan->tasks[t].rows;
        double uses = (double)plan->tasks[t].n_uses * kit->n_members;
        all += rows * uses * (2.0 + PF_RETURN_SHARES);
        for (int u = 0; u < plan->tasks[t].n_uses; u++) {
            bool force = pf_kit_loses_force(kit, plan->tasks[t].uses[u]);
            all += force ? rows * kit->n_members * PF_FORCE_GAINS * PF_FORCE_CORRECTIONS : 0;
        }
        // the response, what is expected with the command and without
        all += kit->n_rehearse > 0 ? rows * pf__counts(plan).rehearsals * 3 : 0;
    }
    return all;
}

double pf__plant_rows(const pf_plan *plan, const pf_kit *kit)
{
    return rows_of_probes(plan, kit) + rows_of_tasks(plan, kit);
}

void pf__plant_estimate(const pf_plant_source *c, double seconds)
{
    enum { FEW_TRIALS = 200, FEW_EPISODES = 20 };
    const pf_kit *kit = &c->build.kit;
    pf_plan fewer[2] = {*c->plan, *c->plan};
    static const char *const names[2] = {"alarm_trials=200", "episodes=20"};
    pf_estimate estimate = {.what = "calibration",
                            .seconds = seconds * pf__plant_rows(c->plan, kit)};
    double best = .8 * estimate.seconds; // what saves less is not worth a word
    if (fewer[0].settings.alarm_trials > FEW_TRIALS) {
        fewer[0].settings.alarm_trials = FEW_TRIALS;
    }
    if (fewer[1].settings.episodes > FEW_EPISODES) {
        fewer[1].settings.episodes = FEW_EPISODES;
    }
    for (int i = 0; i < 2; i++) {
        double then = seconds * pf__plant_rows(&fewer[i], kit);
        if (then < best) {
            best = then;
            estimate.setting = names[i];
            estimate.seconds_then = then;
        }
    }
    c->effort->estimate(c->effort->self, &estimate);
}
