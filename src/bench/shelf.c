// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "runner_impl.h"

#include "coordinate.h"
#include "mechanism.h"

#include "host/parallel.h"

#include <stdlib.h>
#include <string.h>

// --- kits

pf_status pf__shelves_init(pf_shelves *s, const pf_experiment *e, pf_store *store, pf_error *error)
{
    memset(s, 0, sizeof *s);
    s->experiment = e;
    s->store = store;
    size_t n = (size_t)e->n_calibrations;
    s->n = (size_t)e->suite->environments.n * (size_t)e->seeds * n;
    s->shelf = calloc(s->n, sizeof *s->shelf);
    s->needed = calloc(s->n, sizeof *s->needed);
    if (!s->shelf || !s->needed) {
        pf__shelves_free(s);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for kits");
    }
    for (size_t i = 0; i < s->n; i++) {
        s->shelf[i].cell = &e->cells[e->calibration_cell[i % n]];
        s->shelf[i].seed = (int)(i / n % (size_t)e->seeds);
        s->shelf[i].environment = (int)(i / n / (size_t)e->seeds);
    }
    return PF_OK;
}

void pf__shelves_free(pf_shelves *s)
{
    for (size_t i = 0; s->shelf && i < s->n; i++) {
        pf_kits_free(&s->shelf[i].kits);
    }
    free(s->shelf);
    free(s->needed);
    memset(s, 0, sizeof *s);
}

pf_shelf *pf__shelves_find(const pf_shelves *s, const pf_unit *unit)
{
    const pf_experiment *e = s->experiment;
    const pf_cell *cell = pf_experiment_cell(e, unit->setting);
    int environment = pf_experiment_environment(e, unit->environment);
    if (!cell || environment < 0 || unit->seed < 0 || unit->seed >= e->seeds) {
        return NULL;
    }
    size_t at = (size_t)environment * (size_t)e->seeds + (size_t)unit->seed;
    return &s->shelf[at * (size_t)e->n_calibrations + (size_t)cell->calibration];
}

static bool uses_family(const pf_suite *suite, int family)
{
    for (int i = 0; i < suite->methods.n; i++) {
        if (pf_family_of(suite->methods.text[i]) == family) {
            return true;
        }
    }
    return false;
}

// Kits from the store; *found only if all of them are there and whole.
static pf_status fetch(pf_shelves *s, pf_shelf *shelf, const char *key, bool *found,
                       pf_error *error)
{
    *found = true;
    for (int i = 0; i < PF_FAMILIES && *found; i++) {
        if (!uses_family(s->experiment->suite, i)) {
            continue;
        }
        pf_status status =
            pf_store_kit_get(s->store, key, i, &shelf->kits.bytes[i], &shelf->kits.n[i], error);
        if (status != PF_OK) {
            return status;
        }
        *found = shelf->kits.bytes[i] != NULL;
    }
    *found = *found && pf_kits_load(&shelf->kits, NULL) == PF_OK;
    if (!*found) {
        pf_kits_free(&shelf->kits);
    }
    return PF_OK;
}

static pf_status keep(pf_shelves *s, const pf_shelf *shelf, const char *key, pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 0; i < PF_FAMILIES && status == PF_OK; i++) {
        if (shelf->kits.bytes[i]) {
            status =
                pf_store_kit_put(s->store, key, i, shelf->kits.bytes[i], shelf->kits.n[i], error);
        }
    }
    return status;
}

_Static_assert((int)PF_STORE_LEDGER >= (int)PF_FAMILIES, "a place that no kit has");

typedef struct drawer {
    pf_store *store;
    pf_status status; // what the store refuses ends the run
    pf_error *error;
} drawer;

static bool get_ledger(void *self, const char *key, void **bytes, size_t *n)
{
    drawer *d = self;
    d->status = pf_store_kit_get(d->store, key, PF_STORE_LEDGER, bytes, n, d->error);
    return d->status == PF_OK;
}

static bool put_ledger(void *self, const char *key, const void *bytes, size_t n)
{
    drawer *d = self;
    if (d->status == PF_OK) {
        d->status = pf_store_kit_put(d->store, key, PF_STORE_LEDGER, bytes, n, d->error);
    }
    return d->status == PF_OK;
}

// One shelf. What the plant or the data refuse stays on the shelf, what the store refuses ends the
// run.
static pf_status fill_one(void *self, int worker, size_t item, pf_error *error)
{
    (void)worker;
    pf_shelves *s = self;
    const pf_experiment *e = s->experiment;
    const pf_suite *suite = e->suite;
    pf_shelf *shelf = &s->shelf[s->needed[item]];
    pf_plant *plant = NULL;
    shelf->status =
        pf_plant_create(&plant, suite->environments.text[shelf->environment], &shelf->error);
    if (shelf->status == PF_OK && pf_experiment_learned(e) &&
        !(e->models && e->models[shelf->environment])) {
        shelf->status =
            pf_fail(&shelf->error, PF_ERR_FILE, "the model of %s is not in the folder of models",
                    suite->environments.text[shelf->environment]);
    }
    if (shelf->status != PF_OK) {
        pf_plant_destroy(plant);
        return PF_OK;
    }
    pf_kits_request request = {.plant = plant,
                               .seed = (uint64_t)shelf->seed,
                               .model = e->models ? e->models[shelf->environment] : NULL,
                               .sensor_noise = suite->sensor_noise,
                               .amplitude = shelf->cell->amplitude,
                               .risk = (pf_risk)shelf->cell->risk,
                               .opportunities = shelf->cell->opportunities,
                               .g_cal = shelf->cell->g_cal,
                               .sigma = suite->sigma,
                               .hazard = suite->hazard,
                               .grid = suite->grid,
                               .bins = shelf->cell->bins,
                               .episodes = shelf->cell->episodes,
                               .alarm_trials = e->alarm_trials,
                               .n_methods = suite->methods.n,
                               .methods = (const char *const *)suite->methods.text,
                               .fingerprint = e->fingerprint[shelf->environment],
                               .group = pf_experiment_group(e, shelf->environment)};
    char key[65];
    bool found = false;
    pf_kits_key(&request, key);
    drawer ledgers = {s->store, PF_OK, error};
    if (s->keep) {
        request.ledgers = (pf_keeper){&ledgers, get_ledger, put_ledger};
    }
    // who does not keep kits does not trust kept ones either: verification calibrates anew
    pf_status status = s->keep ? fetch(s, shelf, key, &found, error) : PF_OK;
    if (status == PF_OK && !found) {
        shelf->status = pf_kits_calibrate(&shelf->kits, &request, &shelf->error);
        shelf->made = shelf->status == PF_OK;
        status = ledgers.status;
        if (status == PF_OK && shelf->made && s->keep) {
            status = keep(s, shelf, key, error);
        }
    }
    pf_plant_destroy(plant);
    return status;
}

pf_status pf__shelves_fill(pf_shelves *s, const pf_effort *effort, pf_error *error)
{
    s->n_needed = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->shelf[i].needed) {
            s->needed[s->n_needed++] = i;
        }
    }
    return pf_parallel(effort, pf_threads(effort), s->n_needed, fill_one, s, "calibrating", error);
}

// --- one worker

pf_status pf__desk_init(pf_desk *d, const pf_experiment *e, pf_error *error)
{
    memset(d, 0, sizeof *d);
    d->experiment = e;
    d->environment = -1;
    d->results = calloc((size_t)e->n_methods, sizeof *d->results);
    return d->results ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for results");
}

static void clear_bank(pf_desk *d)
{
    for (int b = 0; b < 2; b++) {
        d->rolls += d->bank[b].rolls;
        pf_bank_free(&d->bank[b]);
        d->bank[b] = (pf_bank){0};
    }
    free(d->memory);
    d->shelf = NULL;
    d->memory = NULL;
}

void pf__desk_free(pf_desk *d)
{
    clear_bank(d);
    pf_plant_destroy(d->plant);
    free(d->results);
    d->plant = NULL;
    d->results = NULL;
}

static pf_status take_shelf(pf_desk *d, const pf_shelf *shelf, pf_error *error)
{
    if (d->shelf == shelf) {
        return PF_OK;
    }
    clear_bank(d);
    pf_status status = PF_OK;
    if (d->environment != shelf->environment) {
        pf_plant_destroy(d->plant);
        d->plant = NULL;
        d->environment = -1;
        const char *name = d->experiment->suite->environments.text[shelf->environment];
        status = pf_plant_create(&d->plant, name, error);
        if (status != PF_OK) {
            return status;
        }
        d->environment = shelf->environment;
    }
    d->bytes = (pf_kits_session_size(&shelf->kits) + 15) & ~(size_t)15;
    d->memory = aligned_alloc(16, d->bytes);
    const pf_model *model =
        d->experiment->models ? d->experiment->models[shelf->environment] : NULL;
    status = d->memory ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for a session");
    for (int b = 0; b < 2 && status == PF_OK; b++) {
        const pf_kit *kit = pf_kits_library(&shelf->kits, b == 1);
        status = kit ? pf_bank_init(&d->bank[b], d->plant, kit, model, error) : PF_OK;
    }
    if (status != PF_OK) {
        clear_bank(d);
        return status;
    }
    d->shelf = shelf;
    return PF_OK;
}

pf_status pf__desk_run(pf_desk *d, const pf_shelf *shelf, const pf_unit *unit, pf_error *error)
{
    const pf_suite *suite = d->experiment->suite;
    if (d->experiment->responses > 0 && !d->experiment->coordinate) {
        return pf_mechanism_run(unit->setting, (uint64_t)unit->seed, d->experiment->responses,
                                d->results, error);
    }
    if (shelf->status != PF_OK) {
        return pf_fail(error, shelf->status, "calibration: %s", shelf->error.text);
    }
    pf_status status = take_shelf(d, shelf, error);
    if (status != PF_OK) {
        return status;
    }
    const pf_plant_info *info = pf_plant_get_info(d->plant);
    const pf_cell *cell = pf_experiment_cell(d->experiment, unit->setting);
    pf_trial_setup setup = pf_experiment_setup(d->experiment, cell);
    uint64_t seed = (uint64_t)unit->seed;
    if (d->experiment->coordinate) {
        return pf_coordinate_run(&d->bank[0], &shelf->kits.kit[0], seed, cell->gain,
                                 d->experiment->responses, d->results, error);
    }
    bool drawn = cell->n_faults > 0;
    pf_law_settings settings = {.trials = d->experiment->trials,
                                .share = suite->nominal,
                                .candidates = info->n_mech - 1,
                                .opportunities = cell->opportunities,
                                .n_faults = drawn ? cell->n_faults : 1,
                                .n_gains = drawn ? suite->gains.n : 1,
                                .gains = drawn ? suite->gains.value : &cell->gain};
    pf_law law = pf_law_draw(seed, info->name, unit->trial, &settings);
    for (int b = 0; b < 2; b++) {
        if (d->bank[b].kit) {
            pf_bank_start(&d->bank[b], seed, (uint64_t)unit->trial, PF_PURPOSE_EVALUATION,
                          law.n_changed, law.mechanism, law.gain);
        }
    }
    for (int i = 0; i < suite->methods.n && status == PF_OK; i++) {
        const char *method = suite->methods.text[i];
        int family = pf_family_of(method);
        const pf_kit *kit = &shelf->kits.kit[family];
        pf_error why = {PF_OK, ""};
        status = pf_trial_run(&d->bank[family == PF_FAMILY_GROUP], kit, method, &law, &setup,
                              d->memory, d->bytes, &d->results[i], &why);
        if (status != PF_OK) {
            pf_fail(error, status, "%s: %s", method, why.text);
        }
    }
    return status;
}
