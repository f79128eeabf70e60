// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "experiment.h"
#include "own_method.h"
#include "core/sha256.h"
#include "model/rollout.h"
#include "model/transitions.h"
#include "plant/identity.h"
#include "plant/plant_impl.h"

#include "host/parallel.h"
#include "host/file.h"
#include "host/text.h"
#include "preflight/train.h"
#include "trial.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// More units than this are a mistake in a suite.
enum { UNITS_MAX = 4000000 };

// Room for n of that size in the experiment's memory; NULL where it failed, as no_memory says.
static void *take(pf_experiment *e, int n, size_t size)
{
    return pf__arena_take(&e->arena, (size_t)n, size);
}

static pf_status no_memory(pf_error *error)
{
    return pf_fail(error, PF_ERR_MEMORY, "out of memory for an experiment");
}

// --- axes

static pf_status check_axis(const char *name, int n, const double *value, pf_error *error)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++) {
            if (value[i] == value[k]) {
                return pf_fail(error, PF_ERR_FORMAT, "%s: %g is listed twice", name, value[i]);
            }
        }
    }
    return PF_OK;
}

// A setting is stored as text; a gain must come back from it as the same double.
static pf_status check_gains(const pf_suite *s, pf_error *error)
{
    for (int i = 0; i < s->gains.n; i++) {
        char text[32];
        pf__print(text, sizeof text, "%.2f", s->gains.value[i]);
        if (pf__number_read(text, NULL) != s->gains.value[i]) {
            return pf_fail(error, PF_ERR_FORMAT, "gains: %g has more than two decimals",
                           s->gains.value[i]);
        }
    }
    return PF_OK;
}

static pf_status check_axes(const pf_experiment *e, pf_error *error)
{
    const pf_suite *s = e->suite;
    pf_status status = check_gains(s, error);
    status = status ? status : check_axis("gains", s->gains.n, s->gains.value, error);
    status = status ? status : check_axis("stage2", s->stage2.n, s->stage2.value, error);
    status = status ? status : check_axis("bins", s->bins.n, s->bins.value, error);
    status = status ? status : check_axis("episodes", e->n_episodes, e->episodes, error);
    status = status ? status : check_axis("n_faults", s->n_faults.n, s->n_faults.value, error);
    if (status == PF_OK && s->n_faults.n > 0 && (s->named.n > 0 || s->recalibrate > 0)) {
        status = pf_fail(error, PF_ERR_FORMAT,
                         "n_faults: gains are drawn then; leave out settings and recalibrate");
    }
    for (int i = 0; i < s->stage2.n && status == PF_OK; i++) {
        if (s->stage2.value[i] > PF_RESPONSES_RECOVERIES) {
            status = pf_fail(error, PF_ERR_FORMAT, "stage2: %g is more than %d recovery probes",
                             s->stage2.value[i], PF_RESPONSES_RECOVERIES);
        }
    }
    for (int i = 0; i < s->environments.n && status == PF_OK; i++) {
        if (strlen(s->environments.text[i]) >= sizeof e->units->environment) {
            status = pf_fail(error, PF_ERR_FORMAT, "environments: '%s' is longer than %d bytes",
                             s->environments.text[i], (int)sizeof e->units->environment - 1);
        }
        for (int k = 0; k < i && status == PF_OK; k++) {
            if (strcmp(s->environments.text[i], s->environments.text[k]) == 0) {
                status = pf_fail(error, PF_ERR_FORMAT, "environments: '%s' is listed twice",
                                 s->environments.text[i]);
            }
        }
    }
    return status;
}

static void add_key(pf_cell *c, const char *key, int decimals, double value)
{
    size_t n = strlen(c->text);
    pf__print(c->text + n, sizeof c->text - n, "%s%s=%.*f", n > 0 ? ";" : "", key, decimals, value);
}

// Keys in the order of their bytes: B2, F, K, N, P, g.
static void name_cell(const pf_experiment *e, pf_cell *c)
{
    add_key(c, "B2", 0, c->settings.budget2);
    if (c->n_faults > 0) {
        add_key(c, "F", 0, c->n_faults);
    }
    if (e->suite->bins.n > 1) {
        add_key(c, "K", 0, c->settings.bins);
    }
    if (e->n_episodes > 1) {
        add_key(c, "N", 0, c->settings.episodes);
    }
    if (e->suite->opportunities.n > 0) {
        add_key(c, "P", 0, c->opportunities);
    }
    if (c->n_faults == 0) {
        add_key(c, "g", 2, c->gain);
    }
}

// What all points of the axes have in common.
static pf_settings cell_settings(const pf_experiment *e)
{
    pf_settings settings = e->suite->settings;
    settings.alarm_trials = e->alarm_trials;
    return settings;
}

// Settings as they are written.
static pf_status make_study_cells(pf_experiment *e, pf_error *error)
{
    const pf_suite *s = e->suite;
    e->n_cells = s->named.n;
    e->cells = take(e, e->n_cells, sizeof *e->cells);
    if (!e->cells) {
        return no_memory(error);
    }
    for (int i = 0; i < e->n_cells; i++) {
        pf_cell *c = &e->cells[i];
        c->settings = cell_settings(e);
        c->settings.bins = (int)s->bins.value[0];
        c->settings.episodes = (int)e->episodes[0];
        if (strlen(s->named.text[i]) >= sizeof c->text) {
            return pf_fail(error, PF_ERR_FORMAT, "settings: '%s' is too long", s->named.text[i]);
        }
        strcpy(c->text, s->named.text[i]);
    }
    return PF_OK;
}

// Entries of the catalogue that comes with the program, or those that the suite names.
static pf_status make_entry_cells(pf_experiment *e, pf_error *error)
{
    const pf_config_refs *named = &e->suite->named;
    const pf_catalogue *all = &e->catalogue;
    e->n_cells = named->n > 0 ? named->n : all->n;
    e->cells = take(e, e->n_cells, sizeof *e->cells);
    if (!e->cells) {
        return no_memory(error);
    }
    for (int i = 0; i < e->n_cells; i++) {
        const char *name = named->n > 0 ? named->text[i] : all->entries[i].name;
        if (!pf__catalogue_find(all, name) || strlen(name) >= sizeof e->cells->text) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "settings: the catalogue has no entry '%s'; see data/catalogue.yaml",
                           name);
        }
        pf_cell *c = &e->cells[i];
        *c = (pf_cell){.gain = NAN, .amplitude = NAN, .settings = cell_settings(e)};
        c->settings.bins = (int)e->suite->bins.value[0];
        c->settings.episodes = (int)e->episodes[0];
        c->settings.budget2 = (int)e->suite->stage2.value[0];
        strcpy(c->text, name);
    }
    return PF_OK;
}

// By pf_risk.
static const char *const risks[] = {"", "uniform", "head-heavy", "rare-critical"};

// One "key=value" of a setting into its cell. False: no such key or value.
static bool set_key(pf_cell *c, const char *key, const char *value)
{
    char *end;
    double number = pf__number_read(value, &end);
    bool whole = *value && !*end && number == floor(number) && number >= 0 && number < 1e6;
    bool share = *value && !*end && number > 0 && number < 1;
    if (strcmp(key, "profile") == 0) {
        for (c->risk = 3; c->risk > 0 && strcmp(value, risks[c->risk]) != 0; c->risk--) {
        }
        return c->risk > 0;
    }
    if (strcmp(key, "shock") == 0) {
        c->shock = strcmp(value, "demand") == 0;
        return c->shock;
    }
    if (strcmp(key, "g") == 0) {
        c->gain = number;
        return share;
    }
    if (strcmp(key, "A") == 0) {
        c->amplitude = number;
        return share;
    }
    // the ranges are those of the axes
    const struct {
        const char *key;
        int *to;
        double least, most;
    } keys[] = {{"B2", &c->settings.budget2, 0, PF_RESPONSES_RECOVERIES},
                {"K", &c->settings.bins, PF_SUITE_BINS_LEAST, PF_SUITE_BINS_MOST},
                {"N", &c->settings.episodes, PF_SUITE_EPISODES_LEAST, PF_SUITE_EPISODES_MOST},
                {"P", &c->opportunities, 1, PF_SUITE_OPPORTUNITIES_MOST}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(key, keys[i].key) == 0 && whole && number >= keys[i].least &&
            number <= keys[i].most) {
            *keys[i].to = (int)number;
            return true;
        }
    }
    return false;
}

static pf_status read_setting(pf_cell *c, pf_error *error)
{
    char copy[PF_SETTING_TEXT], *rest = copy;
    memcpy(copy, c->text, sizeof copy);
    while (rest) {
        char *key = rest, *value = strchr(key, '=');
        rest = strchr(rest, ';');
        if (rest) {
            *rest++ = '\0';
        }
        if (value) {
            *value++ = '\0';
        }
        if (!value || !set_key(c, key, value)) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "settings: '%s': '%s' is none of A B2 K N P g profile shock with a "
                           "value in range",
                           c->text, key);
        }
    }
    return PF_OK;
}

// Settings that are named one by one instead of by axes; what a setting leaves out is the suite's.
static pf_status make_named_cells(pf_experiment *e, pf_error *error)
{
    const pf_suite *s = e->suite;
    pf_status status = make_study_cells(e, error);
    for (int i = 0; i < e->n_cells && status == PF_OK; i++) {
        pf_cell *c = &e->cells[i];
        c->gain = s->gains.value[0];
        c->settings.budget2 = (int)s->stage2.value[0];
        c->amplitude = NAN;
        status = read_setting(c, error);
        c->settings.g_cal = s->recalibrate > 0 ? c->gain : s->settings.g_cal;
    }
    return status;
}

static pf_status make_cells(pf_experiment *e, pf_error *error)
{
    const pf_suite *s = e->suite;
    if (e->responses > 0 && !e->coordinate) {
        return make_study_cells(e, error);
    }
    if (pf__suite_audits(s)) {
        return make_entry_cells(e, error);
    }
    if (s->named.n > 0) {
        return make_named_cells(e, error);
    }
    int n_deadlines = s->opportunities.n > 0 ? s->opportunities.n : 1;
    int n_gains = s->n_faults.n > 0 ? s->n_faults.n : s->gains.n;
    e->n_cells = s->stage2.n * s->bins.n * e->n_episodes * n_gains * n_deadlines;
    e->cells = take(e, e->n_cells, sizeof *e->cells);
    if (!e->cells) {
        return no_memory(error);
    }
    // calibration outermost, so that units that share kits come together
    for (int i = 0; i < e->n_cells; i++) {
        int rest = i;
        pf_cell *c = &e->cells[i];
        c->settings = cell_settings(e);
        c->gain = s->n_faults.n > 0 ? NAN : s->gains.value[rest % n_gains];
        c->n_faults = s->n_faults.n > 0 ? (int)s->n_faults.value[rest % n_gains] : 0;
        rest /= n_gains;
        c->settings.budget2 = (int)s->stage2.value[rest % s->stage2.n];
        rest /= s->stage2.n;
        c->settings.episodes = (int)e->episodes[rest % e->n_episodes];
        rest /= e->n_episodes;
        c->opportunities =
            s->opportunities.n > 0 ? (int)s->opportunities.value[rest % n_deadlines] : 0;
        c->settings.bins = (int)s->bins.value[rest / n_deadlines];
        c->settings.g_cal = s->recalibrate > 0 ? c->gain : s->settings.g_cal;
        c->amplitude = NAN;
        name_cell(e, c);
    }
    return PF_OK;
}

// A kit for the field has its budget in it; in the paper's trials the session is told.
static bool same_calibration(const pf_suite *s, const pf_cell *a, const pf_cell *b)
{
    return (s->settings.verdict == PF_VERDICT_PAPER ||
            a->settings.budget2 == b->settings.budget2) &&
           a->settings.bins == b->settings.bins && a->settings.episodes == b->settings.episodes &&
           a->settings.g_cal == b->settings.g_cal && a->opportunities == b->opportunities &&
           a->risk == b->risk &&
           (a->amplitude == b->amplitude || (isnan(a->amplitude) && isnan(b->amplitude)));
}

static pf_status number_calibrations(pf_experiment *e, pf_error *error)
{
    e->calibration_cell = take(e, e->n_cells, sizeof *e->calibration_cell);
    if (!e->calibration_cell) {
        return no_memory(error);
    }
    for (int i = 0; i < e->n_cells; i++) {
        int k = 0;
        while (k < e->n_calibrations &&
               !same_calibration(e->suite, &e->cells[i], &e->cells[e->calibration_cell[k]])) {
            k++;
        }
        if (k == e->n_calibrations) {
            e->calibration_cell[e->n_calibrations++] = i;
        }
        e->cells[i].calibration = k;
    }
    return PF_OK;
}

// The order of the trials of an environment and seed: settings that share a calibration come
// together, and among them those that share a trial, and with it most of its responses.
static void place_cells(pf_experiment *e)
{
    int64_t first = 0;
    for (int k = 0; k < e->n_calibrations; k++) {
        int together = 0;
        for (int c = 0; c < e->n_cells; c++) {
            if (e->cells[c].calibration == k) {
                e->cells[c].first = first + together++;
            }
        }
        for (int c = 0; c < e->n_cells; c++) {
            if (e->cells[c].calibration == k) {
                e->cells[c].together = together;
            }
        }
        first += (int64_t)together * e->trials;
    }
}

static int64_t unit_at(const pf_experiment *e, int environment, int seed, int trial,
                       const pf_cell *cell)
{
    int64_t run = (int64_t)environment * e->seeds + seed;
    return run * e->n_cells * e->trials + cell->first + (int64_t)trial * cell->together;
}

static void add_units(const pf_experiment *e, int environment, int seed, const pf_cell *cell)
{
    for (int trial = 0; trial < e->trials; trial++) {
        pf_unit unit = {
            .seed = seed, .trial = trial, .place = environment, .cell = (int)(cell - e->cells)};
        snprintf(unit.environment, sizeof unit.environment, "%s",
                 e->suite->environments.text[environment]);
        memcpy(unit.setting, cell->text, sizeof unit.setting);
        e->units[unit_at(e, environment, seed, trial, cell)] = unit;
    }
}

static pf_status make_units(pf_experiment *e, pf_error *error)
{
    const pf_suite *s = e->suite;
    double n = (double)s->environments.n * e->seeds * e->n_cells * e->trials;
    if (n > UNITS_MAX) {
        return pf_fail(error, PF_ERR_FORMAT, "%g trials are more than %d", n, UNITS_MAX);
    }
    e->n_units = (size_t)n;
    e->units = take(e, (int)n, sizeof *e->units);
    if (!e->units) {
        return no_memory(error);
    }
    place_cells(e);
    for (int i = 0; i < s->environments.n; i++) {
        for (int seed = 0; seed < e->seeds; seed++) {
            for (int c = 0; c < e->n_cells; c++) {
                add_units(e, i, seed, &e->cells[c]);
            }
        }
    }
    return PF_OK;
}

// --- the whole

// The profile's number of episodes replaces the suite's, unless it is what the suite varies.
static pf_status take_profile(pf_experiment *e, pf_error *error)
{
    const pf_suite *s = e->suite;
    const pf_profile *p = e->profile;
    e->seeds = p->seeds > 0 ? p->seeds : s->seeds;
    e->trials = p->trials > 0 ? p->trials : s->trials;
    e->alarm_trials = p->alarm_trials > 0 ? p->alarm_trials : s->settings.alarm_trials;
    // a study has one unit per seed and setting; what the others call trials are its responses
    e->coordinate = s->kind && strcmp(s->kind, "coordinate") == 0;
    if (e->coordinate) { // nothing is detected
        e->alarm_trials = s->settings.alarm_trials;
    }
    bool study = e->coordinate || (s->kind && strcmp(s->kind, "mechanism") == 0);
    e->responses = study ? e->trials : 0;
    e->trials = study ? 1 : e->trials;
    e->n_methods = e->coordinate ? PF_COORDINATE_ARMS : study ? PF_ARMS : s->methods.n;
    e->methods = e->coordinate ? pf_coordinate_arms()
                 : study       ? pf_mechanism_arms()
                               : (const char *const *)s->methods.text;
    e->n_episodes = s->episodes.n;
    e->episodes = take(e, e->n_episodes, sizeof *e->episodes);
    if (!e->episodes) {
        return no_memory(error);
    }
    for (int i = 0; i < e->n_episodes; i++) {
        bool own = e->n_episodes > 1 || p->episodes == 0;
        e->episodes[i] = own ? s->episodes.value[i] : p->episodes;
    }
    return PF_OK;
}

// A changed plant must not pass for the one that was run before.
static pf_status take_fingerprints(pf_experiment *e, pf_error *error)
{
    const pf_config_refs *names = &e->suite->environments;
    pf_status status = PF_OK;
    e->fingerprint = take(e, names->n, sizeof *e->fingerprint);
    e->missing = take(e, names->n, sizeof *e->missing);
    if (e->arena.failed) {
        return no_memory(error);
    }
    for (int i = 0; i < names->n && status == PF_OK; i++) {
        pf_plant *plant = NULL;
        status = pf__plant_create(&plant, names->text[i], NULL, e->suite->stop, &e->missing[i]);
        if (pf__environment_missing(names->text[i], status)) {
            // what is run without it is another experiment
            snprintf(e->fingerprint[i], sizeof e->fingerprint[i], "missing");
            status = PF_OK;
            continue;
        }
        if (status != PF_OK && error) {
            *error = e->missing[i];
        }
        status =
            status ? status : pf__environment_usable(plant, names->text[i], e->suite->id, error);
        if (status == PF_OK && e->suite->settings.reveal == PF_REVEAL_MITIGATION &&
            pf_plant_get_info(plant)->n_metrics > 0) {
            status = pf_fail(error, PF_ERR_UNSUPPORTED,
                             "reveal: plant %s measures its tasks itself, which has no mitigation "
                             "loss; leave it at j_min",
                             names->text[i]);
        }
        status = status ? status : pf__plant_fingerprint(plant, e->fingerprint[i], error);
        pf_plant_destroy(plant);
    }
    return status;
}

// The path of an environment's library: {} in the name stands for the environment.
static void library_path(const char *name, const char *environment, pf_text *out)
{
    const char *hole = strstr(name, "{}");
    pf__text_add_n(out, name, hole ? (size_t)(hole - name) : strlen(name));
    pf__text_add(out, hole ? environment : "");
    pf__text_add(out, hole ? hole + 2 : "");
}

// Files of group probes, where the suite names them.
static pf_status take_libraries(pf_experiment *e, pf_error *error)
{
    const pf_suite *s = e->suite;
    pf_status status = PF_OK;
    if (!s->probes || strcmp(s->probes, "single") == 0 || strcmp(s->probes, "designed") == 0) {
        return PF_OK;
    }
    e->library = take(e, s->environments.n, sizeof *e->library);
    for (int i = 0; e->library && i < s->environments.n && status == PF_OK; i++) {
        pf_text path = {0};
        void *data = NULL;
        size_t n = 0;
        library_path(s->probes, s->environments.text[i], &path);
        status = path.failed ? no_memory(error)
                             : pf__file_read(path.data, (size_t)16 << 20, &data, &n, error);
        e->library[i] = status == PF_OK ? pf__arena_text(&e->arena, data) : NULL;
        free(data);
        pf__text_free(&path);
    }
    return status == PF_OK && e->arena.failed ? no_memory(error) : status;
}

static void add_names(pf_text *out, const char *key, const pf_config_refs *names)
{
    pf__json_key(out, key);
    pf__json_strings(out, names->n, (const char *const *)names->text);
}

static void add_list(pf_text *out, const char *key, int n, const double *values)
{
    pf__json_key(out, key);
    pf__json_numbers(out, n, values);
}

static void add_group(const pf_experiment *e, pf_text *out)
{
    const pf_suite *s = e->suite;
    const char *probes = e->library ? s->probes : pf__experiment_group(e, 0).probes;
    pf__json_add_string(out, "probes", probes ? probes : "by the method");
    for (int i = 0; e->library && i < s->environments.n; i++) {
        pf__json_add_string(out, "library", e->library[i]);
    }
}

static void add_fingerprints(const pf_experiment *e, pf_text *out)
{
    pf__json_open(out, "fingerprints", "[");
    for (int i = 0; i < e->suite->environments.n; i++) {
        pf__json_comma(out);
        pf__json_string(out, e->fingerprint[i]);
    }
    pf__text_add(out, "]");
}

// What older suites did not have stays out where it is not used, so that their hashes hold.
static void add_later(const pf_experiment *e, pf_text *out)
{
    const pf_suite *s = e->suite;
    if (s->opportunities.n > 0) {
        add_list(out, "opportunities", s->opportunities.n, s->opportunities.value);
    }
    if (s->named.n > 0 && e->responses == 0) {
        add_names(out, "settings", &s->named);
    }
    if (s->recalibrate > 0) {
        pf__json_add_string(out, "recalibrate", "g");
    }
    if (s->settings.verdict == PF_VERDICT_FIELD) {
        pf__json_open(out, "kit", "{");
        pf__settings_json(out, &s->settings, PF_SETTINGS_ALL);
        pf__text_add(out, "}");
    }
    if (pf__suite_audits(s)) {
        pf__json_add_string(out, "catalogue", e->catalogue.sha256);
    }
    for (int i = 0; i < s->methods.n; i++) {
        const pf_method *method = pf__method_of(s->own, s->methods.text[i]);
        if (method && method->rule == PF_RULE_OWN) {
            pf__json_add_string(out, method->id, method->line);
        }
    }
    if (s->n_faults.n > 0) {
        add_list(out, "n_faults", s->n_faults.n, s->n_faults.value);
    }
    if (pf__suite_groups(s) || s->settings.verdict == PF_VERDICT_FIELD) {
        add_group(e, out);
    }
    if (pf__experiment_learned(e)) {
        // a model follows from the plant, the profile and the numeric library, its seed aside: the
        // database notes which one it was
        pf__json_add_string(out, "predictor", "ensemble");
        for (int i = 0; i < s->environments.n; i++) {
            const char *source = pf__suite_learned_on(s, i);
            if (strcmp(source, s->environments.text[i]) != 0) {
                pf__json_add_string(out, "learned_on", source);
            }
        }
        pf__json_add_string(out, "processor", pf__numeric_library());
    }
}

// A reading that does nothing here is no part of the experiment.
static void forget_idle(const pf_experiment *e, pf_settings *settings)
{
    bool mujoco = false;
    for (int i = 0; i < e->suite->environments.n; i++) {
        mujoco = mujoco || pf__plant_is_mujoco(e->suite->environments.text[i]);
    }
    settings->pulse = mujoco ? settings->pulse : -1;
    settings->reference = pf__experiment_learned(e) ? settings->reference : -1;
    settings->certificate = pf__experiment_learned(e) ? settings->certificate : -1;
}

// The canonical settings, and their hash where the fingerprints are known.
static pf_status take_settings(pf_experiment *e, pf_error *error)
{
    const pf_suite *s = e->suite;
    pf_text out = {0};
    pf__text_add(&out, "{");
    pf__json_add_string(&out, "suite", s->id);
    pf__json_add_string(&out, "profile", e->profile->name);
    pf__json_add_string(&out, "preflight", PF_VERSION);
    add_names(&out, "environments", &s->environments);
    if (e->fingerprint) {
        add_fingerprints(e, &out);
    }
    add_names(&out, "methods", &s->methods);
    if (e->responses > 0) {
        add_names(&out, "knobs", &s->named);
        pf__json_add_number(&out, "responses", e->responses);
    }
    add_list(&out, "gains", s->gains.n, s->gains.value);
    add_list(&out, "stage2", s->stage2.n, s->stage2.value);
    add_list(&out, "bins", s->bins.n, s->bins.value);
    add_list(&out, "episodes", e->n_episodes, e->episodes);
    pf__json_add_number(&out, "seeds", e->seeds);
    pf__json_add_number(&out, "trials", e->trials);
    pf__json_add_number(&out, "nominal", s->nominal);
    pf_settings settings = s->settings;
    settings.alarm_trials = e->alarm_trials;
    forget_idle(e, &settings);
    pf__settings_json(&out, &settings,
                      pf__suite_groups(s) ? PF_SETTINGS_HASH_GROUPS : PF_SETTINGS_HASH);
    add_later(e, &out);
    pf__text_add(&out, "}");
    if (out.failed) {
        pf__text_free(&out);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the settings of a suite");
    }
    if (e->fingerprint) {
        char hash[65];
        pf__sha256_of(out.data, out.size, hash);
        memcpy(e->hash, hash, PF_HASH_TEXT - 1);
    }
    e->settings = out.data;
    return PF_OK;
}

pf_status pf__experiment_outline(pf_experiment *e, const pf_suite *suite, const pf_profile *profile,
                                 pf_error *error)
{
    memset(e, 0, sizeof *e);
    e->suite = suite;
    e->profile = profile;
    if (suite->from) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "suite '%s' has no trials of its own", suite->id);
    }
    pf_status status = take_profile(e, error);
    if (status == PF_OK && pf__suite_audits(suite)) {
        status = pf__catalogue_read(&e->catalogue, "the catalogue", NULL, 0, error);
    }
    status = status ? status : check_axes(e, error);
    status = status ? status : make_cells(e, error);
    status = status ? status : number_calibrations(e, error);
    status = status ? status : make_units(e, error);
    if (status != PF_OK) {
        pf__experiment_free(e);
    }
    return status;
}

// Files and settings of an outline, with the plants' fingerprints and a hash or without.
static pf_status complete(pf_experiment *e, bool fingerprints, pf_error *error)
{
    pf_status status = fingerprints ? take_fingerprints(e, error) : PF_OK;
    status = status ? status : take_libraries(e, error);
    status = status ? status : take_settings(e, error);
    if (status != PF_OK) {
        pf__experiment_free(e);
    }
    return status;
}

pf_status pf__experiment_complete(pf_experiment *e, pf_error *error)
{
    return complete(e, true, error);
}

pf_status pf__experiment_init(pf_experiment *e, const pf_suite *suite, const pf_profile *profile,
                              pf_error *error)
{
    pf_status status = pf__experiment_outline(e, suite, profile, error);
    return status ? status : complete(e, true, error);
}

pf_status pf__experiment_describe(pf_experiment *e, const pf_suite *suite,
                                  const pf_profile *profile, pf_error *error)
{
    pf_status status = pf__experiment_outline(e, suite, profile, error);
    return status ? status : complete(e, false, error);
}

void pf__experiment_free(pf_experiment *e)
{
    for (int i = 0; e->models && i < e->suite->environments.n; i++) {
        pf_model_destroy(e->models[i]);
    }
    free(e->settings);
    pf__catalogue_free(&e->catalogue);
    pf__arena_free(&e->arena);
    memset(e, 0, sizeof *e);
}

// --- from stored names back

const pf_cell *pf__experiment_cell(const pf_experiment *e, const char *setting)
{
    for (int i = 0; i < e->n_cells; i++) {
        if (strcmp(e->cells[i].text, setting) == 0) {
            return &e->cells[i];
        }
    }
    return NULL;
}

int64_t pf__experiment_find(const pf_experiment *e, pf_unit *unit)
{
    const pf_config_refs *names = &e->suite->environments;
    const pf_cell *cell = pf__experiment_cell(e, unit->setting);
    unit->place = names->n - 1;
    while (unit->place >= 0 && strcmp(names->text[unit->place], unit->environment) != 0) {
        unit->place--;
    }
    unit->cell = cell ? (int)(cell - e->cells) : -1;
    if (unit->place < 0 || !cell || unit->seed < 0 || unit->seed >= e->seeds || unit->trial < 0 ||
        unit->trial >= e->trials) {
        return -1;
    }
    return unit_at(e, unit->place, unit->seed, unit->trial, cell);
}

pf_group_settings pf__experiment_group(const pf_experiment *e, int environment)
{
    const pf_suite *s = e->suite;
    bool field = s->settings.verdict == PF_VERDICT_FIELD; // `calibrate` chooses by the method
    return (pf_group_settings){.probes = s->probes ? s->probes
                                         : field   ? NULL
                                                   : "designed",
                               .library = e->library ? e->library[environment] : NULL};
}

const char *pf__experiment_missing(const pf_experiment *e, int place)
{
    return e->missing && e->missing[place].code != PF_OK ? e->missing[place].text : NULL;
}

pf_trial_setup pf__experiment_setup(const pf_experiment *e, const pf_cell *cell)
{
    return (pf_trial_setup){.blame = e->suite->n_faults.n > 0 || pf__suite_groups(e->suite),
                            .budget2 = cell->settings.budget2,
                            .stop = (pf_stop)cell->settings.stop,
                            .rule = {cell->settings.alpha, cell->settings.bound == PF_BOUND_WORST},
                            .j_min = cell->settings.j_min,
                            .deploy = cell->settings.j_min,
                            .own = e->suite->own,
                            .variant = cell->shock};
}

// --- a part of the units

static const char *const clause_keys[] = {"environment", "seed", "g", "B2", "F",
                                          "K",           "N",    "P", "A",  "profile"};
enum { CLAUSE_KEYS = sizeof clause_keys / sizeof clause_keys[0], KEY_ENVIRONMENT = 0, KEY_SEED };

// The key of a clause and where its values start; -1: none of ours.
static int clause_key(const char *clause, const char **values)
{
    const char *equals = strchr(clause, '=');
    *values = equals ? equals + 1 : NULL;
    for (int i = 0; equals && i < CLAUSE_KEYS; i++) {
        size_t n = strlen(clause_keys[i]);
        if (n == (size_t)(equals - clause) && strncmp(clause_keys[i], clause, n) == 0) {
            return i;
        }
    }
    return -1;
}

// What a key tells apart: environments, seeds or cells. *first: of these in e->wanted.
static int key_items(const pf_experiment *e, int key, int *first)
{
    int environments = e->suite->environments.n;
    *first = key == KEY_ENVIRONMENT ? 0 : environments + (key == KEY_SEED ? 0 : e->seeds);
    return key == KEY_ENVIRONMENT ? environments : key == KEY_SEED ? e->seeds : e->n_cells;
}

static bool item_matches(const pf_experiment *e, int key, int item, const char *value)
{
    if (key == KEY_ENVIRONMENT) {
        return strcmp(e->suite->environments.text[item], value) == 0;
    }
    const pf_cell *c = &e->cells[key == KEY_SEED ? 0 : item];
    char *end = NULL;
    double number = pf__number_read(value, &end);
    const double have[] = {0,
                           item,
                           c->gain,
                           c->settings.budget2,
                           c->n_faults,
                           c->settings.bins,
                           c->settings.episodes,
                           c->opportunities,
                           c->amplitude};
    if (key == CLAUSE_KEYS - 1) {
        return c->risk > 0 && strcmp(value, risks[c->risk]) == 0;
    }
    return *value && *end == 0 && number == have[key];
}

// Marks what a value of a clause means; false: nothing has it.
static bool mark_value(const pf_experiment *e, int key, const char *value, size_t n, bool *hit)
{
    char text[128];
    int first = 0, items = key_items(e, key, &first);
    bool any = false;
    snprintf(text, sizeof text, "%.*s", (int)n, value);
    for (int i = 0; i < items; i++) {
        bool matches = n < sizeof text && item_matches(e, key, i, text);
        hit[first + i] = hit[first + i] || matches;
        any = any || matches;
    }
    return any;
}

static pf_status mark_clause(const pf_experiment *e, const char *clause, int key, bool *hit,
                             pf_error *error)
{
    const char *at = strchr(clause, '=') + 1;
    while (at) {
        const char *comma = strchr(at, ',');
        size_t n = comma ? (size_t)(comma - at) : strlen(at);
        if (!mark_value(e, key, at, n, hit)) {
            char value[64];
            snprintf(value, sizeof value, "%.*s", (int)n, at);
            return pf_fail(error, PF_ERR_ARGUMENT, "--only %s: nothing in the suite has %s '%s'",
                           clause, clause_keys[key], value);
        }
        at = comma ? comma + 1 : NULL;
    }
    return PF_OK;
}

pf_status pf__experiment_select(pf_experiment *e, int n, const char *const *clauses,
                                pf_error *error)
{
    int items = e->suite->environments.n + e->seeds + e->n_cells;
    bool named[CLAUSE_KEYS] = {false};
    bool *hits = take(e, CLAUSE_KEYS * items, sizeof *hits);
    e->wanted = n > 0 ? take(e, items, sizeof *e->wanted) : NULL;
    pf_status status = e->arena.failed ? no_memory(error) : PF_OK;
    for (int i = 0; i < n && status == PF_OK; i++) {
        const char *values = NULL;
        int key = clause_key(clauses[i], &values);
        if (key < 0) {
            return pf_fail(error, PF_ERR_ARGUMENT,
                           "--only %s: must be KEY=A,B with a key environment, seed, g, B2, F, "
                           "K, N, P, A or profile",
                           clauses[i]);
        }
        named[key] = true;
        status = mark_clause(e, clauses[i], key, hits + key * items, error);
    }
    // clauses of one key add up, different keys narrow
    for (int i = 0; i < items && status == PF_OK && e->wanted; i++) {
        e->wanted[i] = true;
        for (int key = 0; key < CLAUSE_KEYS; key++) {
            int first = 0, own = key_items(e, key, &first);
            bool mine = named[key] && i >= first && i < first + own;
            e->wanted[i] = e->wanted[i] && (!mine || hits[key * items + i]);
        }
    }
    return status;
}

pf_status pf__experiment_shard(pf_experiment *e, int shard, int shards, pf_error *error)
{
    int most = e->suite->environments.n * e->seeds * e->trials;
    if (shards > most) {
        return pf_fail(error, PF_ERR_ARGUMENT, "--shard: %s at this profile has %d shards at most",
                       e->suite->id, most);
    }
    e->shard = shard;
    e->shards = shards;
    return PF_OK;
}

bool pf__experiment_in_part(const pf_experiment *e)
{
    return e->wanted != NULL || e->shards > 1;
}

// Whether the shard has a trial (-1: any) of an environment and seed. These pairs are dealt out in
// turn; where there are more shards than pairs, each pair is cut into equal parts.
static bool in_shard(const pf_experiment *e, int place, int seed, int trial)
{
    if (e->shards <= 1) {
        return true;
    }
    int pairs = e->suite->environments.n * e->seeds, pair = place * e->seeds + seed;
    int parts = (e->shards + pairs - 1) / pairs;
    int first = trial < 0 ? 0 : (int)((int64_t)trial * parts / e->trials);
    for (int part = first; part <= (trial < 0 ? parts - 1 : first); part++) {
        if ((pair * parts + part) % e->shards == e->shard) {
            return true;
        }
    }
    return false;
}

bool pf__experiment_wants(const pf_experiment *e, const pf_unit *unit)
{
    int environments = e->suite->environments.n;
    return !pf__experiment_missing(e, unit->place) &&
           in_shard(e, unit->place, unit->seed, unit->trial) &&
           (!e->wanted || (e->wanted[unit->place] && e->wanted[environments + unit->seed] &&
                           e->wanted[environments + e->seeds + unit->cell]));
}

// Whether any cell and seed is wanted of an environment, here or not.
static bool wants_any(const pf_experiment *e, int place)
{
    int environments = e->suite->environments.n;
    bool seed = false, cell = !e->wanted;
    for (int i = 0; i < e->seeds && !seed; i++) {
        seed = (!e->wanted || e->wanted[environments + i]) && in_shard(e, place, i, -1);
    }
    for (int i = 0; i < e->n_cells && !cell; i++) {
        cell = e->wanted[environments + e->seeds + i];
    }
    return seed && cell && (!e->wanted || e->wanted[place]);
}

bool pf__experiment_wants_missing(const pf_experiment *e, int place)
{
    return pf__experiment_missing(e, place) && wants_any(e, place);
}

pf_status pf__experiment_runnable(const pf_experiment *e, pf_error *error)
{
    const char *why = NULL;
    for (int i = 0; i < e->suite->environments.n; i++) {
        const char *missing = pf__experiment_missing(e, i);
        if (!missing && wants_any(e, i)) {
            return PF_OK;
        }
        why = missing && !why ? missing : why;
    }
    return pf_fail(error, PF_ERR_UNSUPPORTED, "%s: environments: %s", e->suite->id,
                   why ? why : "nothing to run");
}

// --- learned models

static const double checkpoint_s = 5;

static pf_status another_model(const char *environment, const char *bound, const char *sha,
                               pf_error *error)
{
    char before[17], now[17];
    snprintf(before, sizeof before, "%.16s", bound);
    snprintf(now, sizeof now, "%.16s", sha);
    return pf_fail(error, PF_ERR_MISMATCH,
                   "%s: the trials in the database were made with another model (sha256 %s..., "
                   "this is %s...); name its folder with --models, or another --db",
                   environment, before, now);
}

pf_status pf__experiment_bound(const pf_experiment *e, pf_store *store, pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 0; e->models && i < e->suite->environments.n && status == PF_OK; i++) {
        const char *name = e->suite->environments.text[i];
        char bound[65];
        status = pf__store_bound(store, e->hash, name, bound, error);
        if (status != PF_OK || !bound[0]) {
            continue;
        }
        const char *sha = e->models[i] ? pf_model_get_info(e->models[i])->sha256 : "";
        if (!e->models[i]) {
            status = pf_fail(error, PF_ERR_FILE,
                             "the model that made the trials of %s is not in the folder of models; "
                             "name that with --models",
                             name);
        } else if (strcmp(bound, sha) != 0) {
            status = another_model(name, bound, sha, error);
        }
    }
    return status;
}

pf_status pf__experiment_bind(const pf_experiment *e, pf_store *store, pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 0; e->models && i < e->suite->environments.n && status == PF_OK; i++) {
        if (!e->models[i]) {
            continue;
        }
        const char *name = e->suite->environments.text[i];
        const char *sha = pf_model_get_info(e->models[i])->sha256;
        char bound[65];
        status = pf__store_bind(store, e->hash, name, sha, bound, error);
        if (status == PF_OK && strcmp(bound, sha) != 0) {
            status = another_model(name, bound, sha, error);
        }
    }
    return status;
}

bool pf__experiment_learned(const pf_experiment *e)
{
    return e->suite->predictor && strcmp(e->suite->predictor, "ensemble") == 0;
}

// Epochs over all members as one progress.
typedef struct watcher {
    const pf_effort *effort;
    const pf_train_settings *settings;
    char what[96];
    size_t done[PF_MODEL_MEMBERS];
} watcher;

static void on_epoch(void *self, const pf_epoch *epoch)
{
    watcher *w = self;
    size_t all = (size_t)epoch->epochs, done = 0;
    w->done[epoch->member] = epoch->finished ? all : (size_t)epoch->epoch;
    for (int e = 0; e < w->settings->members; e++) {
        done += w->done[e];
    }
    if (w->effort && w->effort->progress) {
        w->effort->progress(w->effort->self, w->what, done, all * (size_t)w->settings->members);
    }
}

// Data and checkpoints stand beside the model, so a run that was stopped goes on here too.
static pf_status train_model(pf_plant *plant, const pf_train_settings *s, const char *path,
                             const pf_effort *effort, pf_error *error)
{
    char data_path[PF_MODEL_PATH + 8];
    const pf_plant_info *info = pf_plant_get_info(plant);
    pf_transitions *data = NULL;
    watcher w = {.effort = effort, .settings = s};
    pf_train_watch watch = {&w, on_epoch};
    snprintf(data_path, sizeof data_path, "%s.data", path);
    snprintf(w.what, sizeof w.what, "learning %s", info->name);
    pf_status status = pf_train_check(s, info, error);
    status =
        status ? status : pf__transitions_ready(&data, s, true, plant, data_path, effort, error);
    status = status ? status : pf_train(s, data, path, checkpoint_s, effort, &watch, error);
    pf_transitions_close(data);
    return status;
}

// A model that is there must be of this plant and profile.
static pf_status check_shape(const pf_model *m, const pf_plant_info *plant,
                             const pf_train_settings *s, const char *path, pf_error *error)
{
    const pf_model_info *info = pf_model_get_info(m);
    pf_error why = {PF_OK, ""};
    if (pf__model_fits(m, plant, &why) != PF_OK) {
        return pf_fail(error, PF_ERR_MISMATCH, "%s: %s", path, why.text);
    }
    bool networks = s->kind == PF_TRAIN_RECURSIVE || info->n_layers > 0;
    if (networks &&
        (info->n_members != s->members || info->n_layers != s->layers || info->width != s->width)) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s: %d members of %d x %d, this profile has %d of %d x %d; remove it or "
                       "name another folder",
                       path, info->n_members, info->n_layers, info->width, s->members, s->layers,
                       s->width);
    }
    if (pf__train_made(s, m, &why) != PF_OK) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s is not of this profile: %s; remove it or name another folder", path,
                       why.text);
    }
    return PF_OK;
}

static pf_status rest(const pf_effort *effort, pf_error *error)
{
    struct timespec moment = {0, 200000000};
    nanosleep(&moment, NULL);
    return effort && pf__stopped(effort->stop)
               ? pf_fail(error, PF_ERR_INTERRUPTED, "stopped; run it again to go on")
               : PF_OK;
}

// Where a model is learned on another plant than it is used on: the two must be alike.
static pf_status check_source(const pf_experiment *e, int i, pf_plant *source, pf_error *error)
{
    const char *name = e->suite->environments.text[i], *from = pf__suite_learned_on(e->suite, i);
    char where[160], advice[200];
    pf_plant *used = NULL;
    if (strcmp(name, from) == 0) {
        return PF_OK;
    }
    snprintf(where, sizeof where, "%.100s", from);
    snprintf(advice, sizeof advice, "%.60s: learned_on: name a plant like %.60s", e->suite->id,
             name);
    pf_status status = pf__plant_create(&used, name, NULL, e->suite->stop, error);
    pf_comparison c = {where, advice, error, PF_OK};
    if (status == PF_OK) {
        status = pf__plants_alike(&c, pf_plant_get_info(source), pf_plant_get_info(used));
    }
    pf_plant_destroy(used);
    return status;
}

pf_status pf__experiment_model_path(const pf_experiment *e, int i, const char *folder, char *path,
                                    pf_error *error)
{
    char file[128];
    snprintf(file, sizeof file, "%s", pf__suite_learned_on(e->suite, i));
    for (char *slash = file; (slash = strchr(slash, '/'));) {
        *slash = '_';
    }
    int n = snprintf(path, PF_MODEL_PATH, "%s/%s-%s%s.model", folder, file, e->profile->name,
                     e->suite->settings.verdict == PF_VERDICT_FIELD ? "-use" : "");
    return n < PF_MODEL_PATH ? PF_OK
                             : pf_fail(error, PF_ERR_ARGUMENT, "the folder's name is too long");
}

pf_status pf__experiment_learn_one(pf_experiment *e, int i, const char *folder, bool train,
                                   const pf_effort *effort, pf_error *error)
{
    char path[PF_MODEL_PATH];
    pf_train_settings s;
    pf_plant *plant = NULL;
    pf_status status = pf_train_profile(&s, e->profile->name, error);
    status = status ? status : pf__experiment_model_path(e, i, folder, path, error);
    if (status != PF_OK || (!train && access(path, F_OK) != 0)) {
        return status;
    }
    status =
        pf__plant_create(&plant, pf__suite_learned_on(e->suite, i), NULL, e->suite->stop, error);
    if (status == PF_OK && e->suite->settings.verdict == PF_VERDICT_FIELD) {
        pf_train_for_use(&s); // the paper's suites have the paper's ensemble
        pf_train_complete(&s, pf_plant_get_info(plant));
    }
    status = status ? status : check_source(e, i, plant, error);
    while (status == PF_OK && access(path, F_OK) != 0) {
        status = train_model(plant, &s, path, effort, error);
        if (status == PF_ERR_FILE && (pf__train_busy(path) || access(path, F_OK) == 0)) {
            status = rest(effort, error); // another run learns it
        }
    }
    status = status ? status : pf_model_load(&e->models[i], path, error);
    status = status ? status : check_shape(e->models[i], pf_plant_get_info(plant), &s, path, error);
    pf_plant_destroy(plant);
    return status;
}

pf_status pf__experiment_models(pf_experiment *e, const char *folder, bool train, pf_error *error)
{
    if (!pf__experiment_learned(e)) {
        return PF_OK;
    }
    if (train && mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return pf_fail(error, PF_ERR_FILE, "the folder of models '%s' cannot be made: %s", folder,
                       strerror(errno));
    }
    e->models = take(e, e->suite->environments.n, sizeof *e->models);
    return e->models ? PF_OK : no_memory(error);
}

bool pf__experiment_learns(const pf_experiment *e, int i)
{
    return e->models && !pf__experiment_missing(e, i) && wants_any(e, i);
}

pf_status pf__experiment_learn(pf_experiment *e, const char *folder, bool train,
                               const pf_effort *effort, pf_error *error)
{
    pf_status status = pf__experiment_models(e, folder, train, error);
    for (int i = 0; i < e->suite->environments.n && status == PF_OK; i++) {
        if (pf__experiment_learns(e, i)) {
            status = pf__experiment_learn_one(e, i, folder, train, effort, error);
        }
    }
    return status;
}

pf_status pf__experiment_meet(const pf_experiment *e, pf_ranks *ranks, pf_error *error)
{
    char machine[PF_MACHINE_NAME];
    pf_text text = {0};
    pf__machine_name(machine);
    pf__text_addf(&text, "%s %d/%d", e->hash, e->shard, e->shards);
    for (int i = 0; e->wanted && i < e->suite->environments.n + e->seeds + e->n_cells; i++) {
        pf__text_add(&text, e->wanted[i] ? "1" : "0");
    }
    pf_status status =
        text.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory")
                    : pf__ranks_meet(ranks, &(pf_meeting){e->suite->id, text.data, machine}, error);
    pf__text_free(&text);
    return status;
}
