// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "reply.h"
#include "weakened.h"
#include "core/belief.h"
#include "core/kit_layout.h"
#include "settings/settings.h"
#include "core/method.h"
#include "core/sha256.h"

#include "preflight/run.h"

#include <math.h>

static void add_bool(pf_text *out, const char *key, bool value)
{
    pf__json_key(out, key);
    pf__text_add(out, value ? "true" : "false");
}

static void add_numbers(pf_text *out, const char *key, int n, const double *values)
{
    pf__json_key(out, key);
    pf__json_numbers(out, n, values);
}

static void add_names(pf_text *out, const char *key, const pf_kit *kit, int n,
                      const char *(*name)(const pf_kit *kit, int i))
{
    pf__json_open(out, key, "[");
    for (int i = 0; i < n; i++) {
        pf__json_comma(out);
        pf__json_string(out, name(kit, i));
    }
    pf__text_add(out, "]");
}

void pf__reply_hello(pf_text *out, const pf_kit *kit)
{
    char sha[65];
    pf__sha256_text(kit->sha256, sha);
    pf__json_add_int(out, "protocol", PF_PROTOCOL_VERSION);
    pf__json_add_string(out, "preflight", PF_VERSION);
    pf__json_add_string(out, "kit", sha);
    pf__json_add_string(out, "plant", pf_kit_get_string(kit, PF_KIT_PLANT));
    add_names(out, "mechanisms", kit, kit->n_mech, pf_kit_mechanism_name);
    add_names(out, "tasks", kit, kit->n_tasks, pf_kit_task_name);
    pf__json_key(out, "window");
    pf__text_addf(out, "[%d,%d]", pf__kit_most_rows(kit), (int)kit->n_chan);
    pf__json_add_int(out, "state_size", kit->n_state);
    pf__json_add_string(out, "faults", pf__faults_name((pf_faults)kit->faults));
    add_bool(out, "sensed_start", kit->sensed_start);
    pf__json_add_string(out, "rehearse",
                        kit->n_rehearse == 0                 ? "none"
                        : kit->rehearse == PF_REHEARSE_GROUP ? "group"
                                                             : "each");
}

// A list of mechanisms by their numbers.
static void add_indices(pf_text *out, const char *key, int n, const int32_t *mechanisms)
{
    pf__json_open(out, key, "[");
    for (int i = 0; i < n; i++) {
        pf__text_addf(out, i ? ",%d" : "%d", (int)mechanisms[i]);
    }
    pf__text_add(out, "]");
}

// The gains at which the prediction of a group must be given: a task of it just returns j_min
// there.
static void add_edges(pf_text *out, const pf_kit *kit, const pf_ask *ask)
{
    pf__json_key(out, "edges");
    pf__text_add(out, "[");
    for (int i = 0; i < ask->n_tasks; i++) {
        for (int u = kit->task_use[ask->tasks[i]]; u < kit->task_use[ask->tasks[i] + 1]; u++) {
            for (int side = 0; side < 2 && kit->use_mech[u] > 0; side++) {
                pf__json_comma(out);
                pf__text_add(out, "{");
                pf__json_add_int(out, "mechanism", kit->use_mech[u]);
                pf__json_add_number(out, "gain", kit->use_edge[2 * u + side]);
                pf__text_add(out, "}");
            }
        }
    }
    pf__text_add(out, "]");
}

static void add_rehearsal(pf_text *out, const pf_kit *kit, const pf_ask *ask)
{
    pf__json_add_string(out, "ask", "rehearsal");
    pf__json_add_int(out, "stage", ask->stage);
    pf__json_key(out, "tasks");
    pf__text_add(out, "[");
    for (int i = 0; i < ask->n_tasks; i++) {
        pf__text_addf(out, i ? ",%d" : "%d", (int)ask->tasks[i]);
    }
    pf__text_add(out, "]");
    pf__json_key(out, "names");
    pf__text_add(out, "[");
    for (int i = 0; i < ask->n_tasks; i++) {
        pf__json_comma(out);
        pf__json_string(out, pf_kit_task_name(kit, ask->tasks[i]));
    }
    pf__text_add(out, "]");
    if (ask->command) {
        pf__json_key(out, "command");
        pf__json_matrix(out, ask->rows, kit->n_mech, ask->command);
    } else {
        pf__json_add_string(out, "policy", pf_kit_task_policy(kit, ask->tasks[0]));
        add_numbers(out, "correction", kit->n_mech, ask->correction);
    }
    pf__json_add_int(out, "rows", ask->rows);
    if (ask->n_tasks > 1) {
        add_edges(out, kit, ask);
    }
}

static void add_mechanisms(pf_text *out, const pf_kit *kit, int task)
{
    const int32_t *uses = NULL;
    int n = pf_kit_task_mechanisms(kit, task, &uses);
    add_indices(out, "mechanisms", n, uses);
}

// What a probe sends: a command, or a closed loop of the machine by its name.
static void add_sent(pf_text *out, const pf_kit *kit, int probe)
{
    if (pf_kit_probe_policy(kit, probe)[0]) {
        pf__json_add_string(out, "policy", pf_kit_probe_policy(kit, probe));
        return;
    }
    pf__json_key(out, "command");
    pf__json_matrix(out, pf_kit_probe_rows(kit, probe), kit->n_mech,
                    pf_kit_probe_command(kit, probe));
}

void pf__reply_ask(pf_text *out, pf_session *session, const pf_ask *ask)
{
    const pf_kit *kit = pf_session_kit(session);
    if (ask->kind == PF_ASK_REHEARSAL) {
        add_rehearsal(out, kit, ask);
        return;
    }
    if (ask->kind == PF_ASK_DONE) {
        pf__json_add_string(out, "ask", "done");
        pf__json_add_string(out, "why", pf_done_name(ask->why));
        return;
    }
    pf__json_add_string(out, "ask", "probe");
    pf__json_add_int(out, "stage", ask->stage);
    pf__json_add_int(out, "probe", ask->probe);
    pf__json_add_string(out, "name", pf_kit_probe_name(kit, ask->probe));
    const int32_t *targets = NULL;
    int n_targets = pf_kit_probe_targets(kit, ask->probe, &targets);
    add_indices(out, "targets", n_targets, targets);
    add_sent(out, kit, ask->probe);
    pf__json_add_int(out, "rows", ask->rows);
    pf__json_add_number(out, "charge", kit->charge[ask->probe]);
    pf__json_add_number(out, "value", ask->has_value ? ask->value : NAN);
    const double *others = pf_session_others(session);
    if (others) {
        add_numbers(out, "gains", kit->n_mech, others);
    }
}

static void add_reading(pf_text *out, const pf_reading *r)
{
    pf__json_open(out, NULL, "{");
    pf__json_add_int(out, "mechanism", r->mechanism);
    pf__json_add_number(out, "score", r->score);
    pf__json_key(out, "category");
    pf__text_addf(out, r->category < 0 ? "null" : "%d", r->category);
    pf__json_add_number(out, "coordinate", r->coordinate);
    add_bool(out, "gate", r->gate);
    add_bool(out, "plausible", r->plausible);
    pf__text_add(out, "}");
}

void pf__reply_tell(pf_text *out, pf_session *session, int stage)
{
    const pf_kit *kit = pf_session_kit(session);
    int m = kit->n_mech - 1;
    if (stage == PF_STAGE_REHEARSE) {
        double distance = 0;
        bool passed = pf_session_rehearsed(session, &distance);
        add_bool(out, "passed", passed);
        pf__json_add_number(out, "distance", distance);
        return;
    }
    if (stage == PF_STAGE_LOOK) {
        int n = 0;
        const pf_reading *readings = pf_session_readings(session, &n);
        pf__json_open(out, "targets", "[");
        for (int t = 0; t < n; t++) {
            add_reading(out, &readings[t]);
        }
        pf__text_add(out, "]");
        const double *belief = pf_session_belief(session);
        add_numbers(out, "belief", m + 1, belief);
        pf__json_add_number(out, "change", pf_session_get_state(session).change);
        add_bool(out, "alarm", pf_session_get_state(session).alarm);
        pf__json_add_number(out, "misfit", pf_session_get_state(session).misfit);
        return;
    }
    pf_joint joint = pf_session_joint(session);
    pf__json_open(out, "belief", "[");
    pf__json_number(out, joint.nominal);
    for (int j = 1; j <= m; j++) {
        pf__json_comma(out);
        pf__json_number(out, pf_joint_moments(&joint, j).changed);
    }
    pf__text_add(out, "]");
    pf__json_key(out, "joint");
    pf__json_matrix(out, m, joint.n_grid, joint.mass);
    pf__json_open(out, "mean_gain", "[");
    for (int j = 1; j <= m; j++) {
        pf__json_comma(out);
        pf__json_number(out, pf_joint_moments(&joint, j).mean);
    }
    pf__text_add(out, "]");
}

static void add_task(pf_text *out, const pf_session *session, int task)
{
    const pf_kit *kit = pf_session_kit(session);
    const pf_task_readiness *r = pf_session_task(session, task);
    pf__json_open(out, NULL, "{");
    pf__json_add_string(out, "name", pf_kit_task_name(kit, task));
    add_mechanisms(out, kit, task);
    pf__json_open(out, "correction", "[");
    for (int u = kit->task_use[task]; u < kit->task_use[task + 1]; u++) {
        pf__json_comma(out);
        pf__json_number(out, pf_session_mechanism(session, kit->use_mech[u])->correction);
    }
    pf__text_add(out, "]");
    pf__json_add_number(out, "mean", r->mean);
    pf__json_add_number(out, "sd", r->sd);
    pf__json_add_number(out, "lower", r->lower);
    pf__json_add_string(out, "decision", pf_decision_name(r->decision));
    pf__json_add_string(out, "why", pf_why_name(r->why));
    if (r->why == PF_WHY_UNSEEN_LOSS) {
        add_numbers(out, "unseen", 2, r->unseen);
    }
    pf__json_add_string(out, "rehearsed", pf_rehearsed_name(r->rehearsed));
    const char *fallback = pf_kit_task_fallback(kit, task);
    pf__json_add_string(out, "fallback", fallback[0] ? fallback : "uncorrected");
    pf__text_add(out, "}");
}

void pf__reply_readiness(pf_text *out, const pf_session *session)
{
    const pf_kit *kit = pf_session_kit(session);
    pf_session_state state = pf_session_get_state(session);
    add_bool(out, "alarm", state.alarm);
    add_bool(out, "explained", state.explained);
    pf__json_add_number(out, "charge", state.charge);
    pf__json_add_int(out, "probes", state.told - state.rehearsals);
    pf__json_add_int(out, "rehearsals", state.rehearsals);
    pf__json_key(out, "misfit");
    pf__text_add(out, "{");
    pf__json_add_number(out, "value", state.misfit);
    pf__json_add_int(out, "implausible", state.implausible);
    pf__json_add_string(out, "channel",
                        state.misfit_channel >= 0 ? pf_kit_channel_name(kit, state.misfit_channel)
                                                  : "");
    pf__json_add_int(out, "look", state.misfit_look);
    pf__text_add(out, "}");
    pf__json_open(out, "mechanisms", "[");
    for (int j = 1; j < kit->n_mech; j++) {
        const pf_mechanism_readiness *r = pf_session_mechanism(session, j);
        pf__json_open(out, NULL, "{");
        pf__json_add_int(out, "mechanism", j);
        pf__json_add_string(out, "name", pf_kit_mechanism_name(kit, j));
        pf__json_add_number(out, "p_changed", r->changed);
        pf__json_add_number(out, "mean_gain", r->mean_gain);
        add_numbers(out, "interval", 2, r->interval);
        add_bool(out, "probed", r->probed);
        pf__text_add(out, "}");
    }
    pf__text_add(out, "]");
    pf__json_open(out, "tasks", "[");
    for (int t = 0; t < kit->n_tasks; t++) {
        add_task(out, session, t);
    }
    pf__text_add(out, "]");
}

// --- in words

void pf__reply_refusal(pf_text *out, const char *code, const char *message)
{
    // the message may quote bytes of a bad request; a reply is plain text whatever came in
    char plain[400];
    size_t n = 0;
    for (; message[n] && n + 1 < sizeof plain; n++) {
        plain[n] = (unsigned char)message[n] < 128 ? message[n] : '?';
    }
    plain[n] = 0;
    pf__text_add(out, "{\"ok\":false,\"error\":{");
    pf__json_add_string(out, "code", code);
    pf__json_add_string(out, "message", plain);
    pf__text_add(out, "}}");
}

// --- the kit

static void add_machine(pf_text *out, const pf_kit *k)
{
    pf__json_open(out, "mechanisms", "[");
    for (int j = 0; j < k->n_mech; j++) {
        pf__json_open(out, NULL, "{");
        pf__json_add_string(out, "name", pf_kit_mechanism_name(k, j));
        pf__json_add_number(out, "lo", k->lo[j]); // null: unbounded
        pf__json_add_number(out, "hi", k->hi[j]);
        pf__text_add(out, "}");
    }
    pf__text_add(out, "]");
    pf__json_open(out, "channels", "[");
    for (int c = 0; c < k->n_chan; c++) {
        pf__json_open(out, NULL, "{");
        pf__json_add_string(out, "name", pf_kit_channel_name(k, c));
        pf__json_key(out, "scale");
        if (k->n_scale == 1) {
            pf__json_number(out, k->scale[c]);
        } else {
            pf__text_add(out, "[");
            for (int r = 0; r < k->n_scale; r++) {
                pf__json_comma(out);
                pf__json_number(out, k->scale[(size_t)r * (size_t)k->n_chan + (size_t)c]);
            }
            pf__text_add(out, "]");
        }
        pf__json_add_number(out, "return_scale", k->return_scale[c]);
        pf__text_add(out, "}");
    }
    pf__text_add(out, "]");
}

// Where the recorded responses of target t (counted over all probes) begin in `variant`, in rows.
static size_t variant_row(const pf_kit *k, int target)
{
    size_t at = 0;
    for (int q = 0; q < k->n_probes; q++) {
        for (int t = k->probe_target[q]; t < k->probe_target[q + 1]; t++) {
            if (t == target) {
                return at;
            }
            at += (size_t)pf_kit_probe_rows(k, q) * (size_t)k->n_grid;
        }
    }
    return at;
}

static void add_target(pf_text *out, const pf_kit *k, int probe, int t)
{
    pf_channel_row row = pf__kit_channel(k, t);
    pf__json_open(out, NULL, "{");
    pf__json_add_int(out, "mechanism", k->target_mech[t]);
    add_numbers(out, "edges", k->n_bins - 1, row.edges);
    add_numbers(out, "nominal", k->n_bins, row.nominal);
    add_numbers(out, "changed", k->n_bins, row.changed);
    pf__json_add_number(out, "m0", k->centre_nominal[t]);
    pf__json_add_number(out, "m1", k->centre_changed[t]);
    pf__json_add_number(out, "sigma", k->sigma[t]);
    pf__json_add_number(out, "signature", k->signature[t]);
    if (k->n_curve > 0) {
        add_numbers(out, "curve", k->n_grid, k->curve + (size_t)t * (size_t)k->n_grid);
    }
    if (k->n_variant > 0) {
        int rows = pf_kit_probe_rows(k, probe);
        pf__json_open(out, "responses", "[");
        for (int g = 0; g < k->n_grid; g++) {
            size_t at = variant_row(k, t) + (size_t)g * (size_t)rows;
            pf__json_comma(out);
            pf__json_matrix(out, rows, k->n_chan, k->variant + at * (size_t)k->n_chan);
        }
        pf__text_add(out, "]");
    }
    pf__text_add(out, "}");
}

// The inverse covariance F^T F behind a whitening factor F, all n x n of it.
static void add_weight(pf_text *out, const double *factor, int n)
{
    pf__text_add(out, "[");
    for (int i = 0; i < n; i++) {
        pf__json_open(out, NULL, "[");
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int r = i > j ? i : j; r < n; r++) {
                const double *row = factor + (size_t)r * (size_t)(r + 1) / 2;
                sum += row[i] * row[j];
            }
            pf__json_comma(out);
            pf__json_number(out, sum);
        }
        pf__text_add(out, "]");
    }
    pf__text_add(out, "]");
}

static void add_probe(pf_text *out, const pf_kit *k, int q)
{
    int rows = pf_kit_probe_rows(k, q), n = k->probe_target[q + 1] - k->probe_target[q];
    pf__json_open(out, NULL, "{");
    pf__json_add_string(out, "name", pf_kit_probe_name(k, q));
    pf__json_add_number(out, "charge", k->charge[q]);
    pf__json_add_number(out, "off_limit", k->off_limit[q]);
    pf__json_add_number(out, "distance_limit", k->distance_limit[q]);
    pf__json_add_int(out, "rows", rows);
    add_sent(out, k, q);
    pf__json_open(out, "targets", "[");
    for (int t = k->probe_target[q]; t < k->probe_target[q + 1]; t++) {
        add_target(out, k, q, t);
    }
    pf__text_add(out, "]");
    if (k->probe_cross[q] >= 0) {
        // full rows: for each target, the row of its category under each target's fault
        pf__json_open(out, "full_rows", "[");
        for (int t = 0; t < n; t++) {
            size_t at = (size_t)k->probe_cross[q] + (size_t)t * (size_t)n * (size_t)k->n_bins;
            pf__json_comma(out);
            pf__json_matrix(out, n, k->n_bins, k->cross + at);
        }
        pf__text_add(out, "]");
    }
    if (pf__kit_whiten(k, q)) {
        pf__json_key(out, "weight");
        add_weight(out, pf__kit_whiten(k, q), rows * k->n_chan);
    }
    if (k->n_response > 0) {
        pf__json_key(out, "nominal_response");
        pf__json_matrix(out, rows, k->n_chan,
                        k->response + (size_t)k->probe_row[q] * (size_t)k->n_chan);
    }
    pf__text_add(out, "}");
}

// What a task misses by gain and correction, of each member of each use that loses force.
static void add_force(pf_text *out, const pf_kit *k, int t)
{
    const size_t cells = PF_FORCE_GAINS * PF_FORCE_CORRECTIONS;
    if (k->n_force == 0) {
        return;
    }
    add_numbers(out, "gains", PF_FORCE_GAINS, k->force_gains);
    add_numbers(out, "corrections", PF_FORCE_CORRECTIONS, k->corrections);
    pf__json_open(out, "force_nte", "[");
    for (int u = k->task_use[t]; u < k->task_use[t + 1]; u++) {
        pf__json_open(out, NULL, "[");
        for (int e = 0; e < k->n_members && pf_kit_loses_force(k, k->use_mech[u]); e++) {
            size_t row = (size_t)u * (size_t)k->n_members + (size_t)e;
            pf__json_comma(out);
            pf__json_matrix(out, PF_FORCE_GAINS, PF_FORCE_CORRECTIONS,
                            k->force_error + row * cells);
        }
        pf__text_add(out, "]");
    }
    pf__text_add(out, "]");
}

static void add_kit_task(pf_text *out, const pf_kit *k, int t)
{
    pf__json_open(out, NULL, "{");
    pf__json_add_string(out, "name", pf_kit_task_name(k, t));
    add_mechanisms(out, k, t);
    if (pf_kit_task_rows(k, t) > 0) {
        pf__json_key(out, "command");
        pf__json_matrix(out, pf_kit_task_rows(k, t), k->n_mech,
                        k->task_command + (size_t)k->task_row[t] * (size_t)k->n_mech);
    } else {
        pf__json_add_string(out, "policy", pf_kit_task_policy(k, t));
        if (k->n_reach > 0) {
            add_numbers(out, "reach", k->task_use[t + 1] - k->task_use[t],
                        k->reach + k->task_use[t]);
        }
    }
    pf__json_add_string(out, "fallback", pf_kit_task_fallback(k, t));
    pf__json_add_int(out, "rehearsals", pf_kit_task_rehearsals(k, t));
    pf__json_add_number(out, "reveal", k->task_reveal[t]);
    pf__json_add_number(out, "importance", k->task_importance[t]);
    add_numbers(out, "shares", k->n_shares, k->shares);
    add_force(out, k, t);
    pf__json_open(out, "nte", "[");
    for (int u = k->task_use[t]; u < k->task_use[t + 1]; u++) {
        pf__json_comma(out);
        pf__json_matrix(out, k->n_members, k->n_shares,
                        k->tracking_error + (size_t)u * (size_t)k->n_members * (size_t)k->n_shares);
    }
    pf__text_add(out, "]}");
}

static pf_settings settings_of(const pf_kit *k)
{
    pf_settings s;
    pf__settings_clear(&s);
#define PF_SETTING(field, key, type, field_kit, suite_default, least, most, ends, shape, config,   \
                   suite, kit, hash, group, help)                                                  \
    PF_KIT_##kit(s.field = k->field;)
#include "settings/settings.def"
    return s;
}

static void add_settings(pf_text *out, const pf_kit *k)
{
    int m = k->n_mech - 1;
    add_numbers(out, "weights", m, k->weight);
    add_numbers(out, "importance", m, k->importance);
    add_numbers(out, "reveal", m, k->reveal);
    pf__json_open(out, "threshold", "{");
    for (int i = 0; i < k->n_methods; i++) {
        pf__json_add_number(out, pf_kit_method_id(k, i), k->threshold[i]);
    }
    pf__text_add(out, "}");
    pf_settings settings = settings_of(k);
    pf__settings_json(out, &settings, PF_SETTINGS_KIT);
    pf__json_add_string(out, "weighting", k->n_whiten > 0 ? "shrunk" : "none");
}

void pf__reply_kit(pf_text *out, const pf_kit *k)
{
    char sha[65];
    pf__sha256_text(k->sha256, sha);
    pf__text_add(out, "{");
    pf__json_add_string(out, "format", "preflight-kit");
    pf__json_add_int(out, "version", PF_KIT_VERSION);
    pf__json_add_string(out, "sha256", sha);
    pf__json_add_string(out, "preflight", pf_kit_get_string(k, PF_KIT_PREFLIGHT));
    pf__json_add_string(out, "plant", pf_kit_get_string(k, PF_KIT_PLANT));
    if (pf_kit_folder(k)[0]) {
        pf__json_add_string(out, "folder", pf_kit_folder(k));
    }
    pf__json_add_string(out, "predictor", pf_kit_get_string(k, PF_KIT_PREDICTOR));
    if (pf_kit_get_string(k, PF_KIT_MODEL)[0]) {
        pf__json_add_string(out, "model", pf_kit_get_string(k, PF_KIT_MODEL));
    }
    pf__json_add_string(out, "statistic", pf__statistic_name((pf_statistic)k->statistic));
    pf__json_add_int(out, "state_size", k->n_state);
    add_machine(out, k);
    add_numbers(out, "grid", k->n_grid, k->grid);
    add_numbers(out, "prior", k->n_mech, k->prior);
    pf__json_open(out, "probes", "[");
    for (int q = 0; q < k->n_probes; q++) {
        add_probe(out, k, q);
    }
    pf__text_add(out, "]");
    add_settings(out, k);
    pf__weakened_json(out, k);
    pf__json_open(out, "tasks", "[");
    for (int t = 0; t < k->n_tasks; t++) {
        add_kit_task(out, k, t);
    }
    pf__text_add(out, "]");
    pf__json_open(out, "calibration", "{");
    pf__json_add_number(out, "seed", k->seed);
    pf__json_add_int(out, "episodes", k->episodes);
    pf__json_add_int(out, "alarm_trials", k->alarm_trials);
    pf__json_add_number(out, "cross_ratio", k->cross_ratio);
    pf__json_add_string(out, "source", pf_kit_get_string(k, PF_KIT_SOURCE));
    pf__json_add_string(out, "processor", pf_kit_get_string(k, PF_KIT_PROCESSOR));
    pf__text_add(out, "}}");
}

// --- texts for other programs

static char *taken(pf_text *text)
{
    if (text->failed) {
        pf__text_free(text);
        return NULL;
    }
    return text->data;
}

char *pf_kit_json(const pf_kit *kit)
{
    pf_text out = {0};
    pf__reply_kit(&out, kit);
    return taken(&out);
}

char *pf_session_json(pf_session *session)
{
    pf_text out = {0};
    pf_session_certify(session);
    pf__text_add(&out, "{");
    pf__reply_readiness(&out, session);
    pf__text_add(&out, "}");
    return taken(&out);
}

char *pf_plant_json(const pf_plant *plant)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    pf_text out = {0};
    pf__text_add(&out, "{");
    pf__json_add_string(&out, "name", info->name);
    pf__json_add_string(&out, "title", info->title ? info->title : "");
    pf__json_add_string(&out, "source", info->source ? info->source : "");
    pf__json_add_string(&out, "environment", pf_plant_environment(info));
    pf__json_add_int(&out, "state_size", info->n_state);
    pf__json_add_number(&out, "dt", info->dt_s);
    pf__json_open(&out, "mechanisms", "[");
    for (int j = 0; j < info->n_mech; j++) {
        pf__json_open(&out, NULL, "{");
        pf__json_add_string(&out, "name", info->mechanisms[j].name);
        pf__json_add_number(&out, "lo", info->mechanisms[j].lo);
        pf__json_add_number(&out, "hi", info->mechanisms[j].hi);
        pf__text_add(&out, "}");
    }
    pf__text_add(&out, "]");
    pf__json_open(&out, "channels", "[");
    for (int c = 0; c < info->n_chan; c++) {
        pf__json_open(&out, NULL, "{");
        pf__json_add_string(&out, "name", info->channels[c].name);
        pf__json_add_number(&out, "scale", info->channels[c].scale);
        pf__text_add(&out, "}");
    }
    pf__text_add(&out, "]");
    pf__json_key(&out, "faults");
    pf__text_add(&out, "[");
    for (int i = 0; i < info->n_faults; i++) {
        pf__json_comma(&out);
        pf__text_add(&out, "{");
        pf__json_add_string(&out, "name", info->faults[i].name);
        pf__json_add_string(&out, "help", info->faults[i].line);
        pf__json_add_number(&out, "least", info->faults[i].least);
        pf__json_add_number(&out, "most", info->faults[i].most);
        pf__text_add(&out, "}");
    }
    pf__text_add(&out, "]}");
    return taken(&out);
}
