// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "experiment.h"
#include "core/rng.h"
#include "own_method.h"

#include "host/parallel.h"
#include "host/text.h"
#include "plant/plant_impl.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The kits of one (environment, seed, calibration).
typedef struct cached_kits {
    int environment, seed;
    const pf_cell *cell; // one that needs them
    bool needed, made;
    pf_trial_kits kits;
    double reveal;    // the threshold of the reading `reveal: mitigation`
    pf_status status; // of the calibration; trials on a failed one fail with its reason
    pf_error error;
} cached_kits;

// What one thread has: a plant of each environment, and the responses and session of the kits at
// hand.
typedef struct worker {
    const pf_experiment *experiment;
    pf_plant **plants;         // by environment; of processes the last one alone
    const cached_kits *kits;   // of the responses
    pf_responses responses[2]; // of the paper's library and of the group probes, where needed
    void *memory;              // of a session
    size_t bytes;
    pf_trial_result *results; // by method
    long rolls;
} worker;

typedef struct kit_cache {
    const pf_experiment *experiment;
    pf_store *store;
    int n_workers;
    worker *workers; // who calibrate and run, by thread
    bool keep;       // take kits from the store, and write what was calibrated to it
    size_t n, n_needed;
    cached_kits *kits;
    size_t *needed; // indices of the needed ones
    pf_arena arena; // of workers, kits and needed
} kit_cache;

static const pf_model *model_of(const pf_experiment *e, int environment)
{
    return e->models ? e->models[environment] : NULL;
}

// --- workers

static void clear_responses(worker *w)
{
    for (int b = 0; b < 2; b++) {
        w->rolls += w->responses[b].rolls;
        pf__responses_free(&w->responses[b]);
        w->responses[b] = (pf_responses){0};
    }
    free(w->memory);
    w->kits = NULL;
    w->memory = NULL;
}

// The worker's plant of an environment, made when first asked for. Processes take memory and end
// when another one is needed.
static pf_status worker_plant(worker *w, int environment, pf_plant **plant, pf_error *error)
{
    const pf_config_refs *names = &w->experiment->suite->environments;
    pf_status status = PF_OK;
    if (!w->plants[environment]) {
        clear_responses(w);
        for (int i = 0; i < names->n; i++) {
            if (pf__plant_is_process(names->text[i])) {
                pf_plant_destroy(w->plants[i]);
                w->plants[i] = NULL;
            }
        }
        status = pf__plant_create(&w->plants[environment], names->text[environment], NULL,
                                  w->experiment->suite->stop, error);
    }
    *plant = w->plants[environment];
    return status;
}

// --- kit cache: kits by environment, seed and calibration

static void cache_free(kit_cache *c)
{
    for (int i = 0; i < c->n_workers && !c->arena.failed; i++) {
        clear_responses(&c->workers[i]);
        for (int k = 0; k < c->experiment->suite->environments.n; k++) {
            pf_plant_destroy(c->workers[i].plants[k]);
        }
    }
    for (size_t i = 0; i < c->n && !c->arena.failed; i++) {
        pf__kits_free(&c->kits[i].kits);
    }
    pf__arena_free(&c->arena);
    memset(c, 0, sizeof *c);
}

// Free follows whatever it returned.
static pf_status cache_init(kit_cache *c, const pf_experiment *e, pf_store *store,
                            const pf_effort *effort, pf_error *error)
{
    size_t n = (size_t)e->n_calibrations, environments = (size_t)e->suite->environments.n;
    *c = (kit_cache){.experiment = e, .store = store, .n_workers = pf__threads(effort)};
    c->n = environments * (size_t)e->seeds * n;
    c->workers = pf__arena_take(&c->arena, (size_t)c->n_workers, sizeof *c->workers);
    c->kits = pf__arena_take(&c->arena, c->n, sizeof *c->kits);
    c->needed = pf__arena_take(&c->arena, c->n, sizeof *c->needed);
    for (int i = 0; i < c->n_workers && c->workers; i++) {
        worker *w = &c->workers[i];
        w->experiment = e;
        w->plants = pf__arena_take(&c->arena, environments, sizeof *w->plants);
        w->results = pf__arena_take(&c->arena, (size_t)e->n_methods, sizeof *w->results);
    }
    if (c->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for kits");
    }
    for (size_t i = 0; i < c->n; i++) {
        c->kits[i].cell = &e->cells[e->calibration_cell[i % n]];
        c->kits[i].seed = (int)(i / n % (size_t)e->seeds);
        c->kits[i].environment = (int)(i / n / (size_t)e->seeds);
    }
    return PF_OK;
}

// The entry of a unit.
static cached_kits *cache_find(const kit_cache *c, const pf_unit *unit)
{
    const pf_experiment *e = c->experiment;
    size_t at = (size_t)unit->place * (size_t)e->seeds + (size_t)unit->seed;
    return &c->kits[at * (size_t)e->n_calibrations + (size_t)e->cells[unit->cell].calibration];
}

static bool uses_place(const pf_suite *suite, int place)
{
    for (int i = 0; i < suite->methods.n; i++) {
        if (pf__kits_place(suite, i) == place) {
            return true;
        }
    }
    return false;
}

// Where a kit is kept: by family, or a field kit with its method.
static pf_blob kit_blob(const pf_suite *suite, int place, const char *key, char out[192])
{
    bool field = suite->settings.verdict == PF_VERDICT_FIELD;
    const char *name = pf__suite_audits(suite) ? (place == 0 ? "shipped" : "version-0.1")
                                               : suite->methods.text[place];
    snprintf(out, 192, "%s%s%.100s", key, field ? "|" : "", field ? name : "");
    return field ? PF_BLOB_KIT_FIELD : (pf_blob)place;
}

// Kits from the store; *found only if all of them are there and whole.
static pf_status fetch(kit_cache *c, cached_kits *kits, const char *key, bool *found,
                       pf_error *error)
{
    *found = true;
    for (int i = 0; i < PF_KITS_MAX && *found; i++) {
        char own[192];
        if (!uses_place(c->experiment->suite, i)) {
            continue;
        }
        pf_blob blob = kit_blob(c->experiment->suite, i, key, own);
        pf_status status =
            pf__store_get(c->store, blob, own, &kits->kits.bytes[i], &kits->kits.n[i], error);
        if (status != PF_OK) {
            return status;
        }
        *found = kits->kits.bytes[i] != NULL;
    }
    *found = *found && pf__kits_load(&kits->kits, NULL) == PF_OK;
    if (!*found) {
        pf__kits_free(&kits->kits);
    }
    return PF_OK;
}

static pf_status keep(kit_cache *c, const cached_kits *kits, const char *key, pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 0; i < PF_KITS_MAX && status == PF_OK; i++) {
        if (kits->kits.bytes[i]) {
            char own[192];
            pf_blob blob = kit_blob(c->experiment->suite, i, key, own);
            status =
                pf__store_put(c->store, blob, own, kits->kits.bytes[i], kits->kits.n[i], error);
        }
    }
    return status;
}

_Static_assert((int)PF_BLOB_KIT_GROUP == (int)PF_FAMILY_GROUP, "kits are kept by family");

typedef struct blob_place {
    pf_store *store;
    pf_status status; // what the store refuses ends the run
    pf_error *error;
} blob_place;

static bool get_nominal(void *self, const char *key, void **bytes, size_t *n)
{
    blob_place *d = self;
    d->status = pf__store_get(d->store, PF_BLOB_NOMINAL, key, bytes, n, d->error);
    return d->status == PF_OK;
}

static bool put_nominal(void *self, const char *key, const void *bytes, size_t n)
{
    blob_place *d = self;
    if (d->status == PF_OK) {
        d->status = pf__store_put(d->store, PF_BLOB_NOMINAL, key, bytes, n, d->error);
    }
    return d->status == PF_OK;
}

static pf_status calibrate_reveal(worker *w, cached_kits *kits, pf_error *error);

static pf_kits_request kits_request(const pf_experiment *e, const cached_kits *kits,
                                    pf_plant *plant)
{
    static const char *const audited[] = {"eg-mpt", "eg-mpt"};
    const pf_suite *suite = e->suite;
    bool audits = pf__suite_audits(suite), old = audits && uses_place(suite, 1);
    return (pf_kits_request){.plant = plant,
                             .seed = (uint64_t)kits->seed,
                             .model = model_of(e, kits->environment),
                             .settings = &kits->cell->settings,
                             .amplitude = kits->cell->amplitude,
                             .risk = (pf_risk)kits->cell->risk,
                             .opportunities = kits->cell->opportunities,
                             .n_methods = audits ? 1 + old : suite->methods.n,
                             .methods = audits ? audited : (const char *const *)suite->methods.text,
                             .own = suite->own,
                             .old = old,
                             .fingerprint = e->fingerprint[kits->environment],
                             .group = pf__experiment_group(e, kits->environment)};
}

// The kits of one entry. What the plant or the data refuse stays with it, what the store refuses
// ends the run.
static pf_status fill_one(void *self, int index, size_t item, pf_error *error)
{
    kit_cache *c = self;
    const pf_experiment *e = c->experiment;
    const pf_suite *suite = e->suite;
    cached_kits *kits = &c->kits[c->needed[item]];
    pf_plant *plant = NULL;
    kits->status = worker_plant(&c->workers[index], kits->environment, &plant, &kits->error);
    if (kits->status == PF_OK && pf__experiment_learned(e) &&
        !(e->models && e->models[kits->environment])) {
        kits->status =
            pf_fail(&kits->error, PF_ERR_FILE, "the model of %s is not in the folder of models",
                    suite->environments.text[kits->environment]);
    }
    if (kits->status != PF_OK) {
        return PF_OK;
    }
    pf_kits_request request = kits_request(e, kits, plant);
    char key[65];
    bool found = false;
    pf__kits_key(&request, key);
    blob_place nominal = {c->store, PF_OK, error};
    if (c->keep) {
        request.nominal = (pf_blob_store){&nominal, get_nominal, put_nominal};
    }
    // who does not keep kits does not trust kept ones either: verification calibrates anew
    pf_status status = c->keep ? fetch(c, kits, key, &found, error) : PF_OK;
    if (status == PF_OK && !found) {
        kits->status = pf__kits_calibrate(&kits->kits, &request, &kits->error);
        for (int i = 0; i < request.n_methods && kits->status == PF_OK; i++) {
            kits->status = pf__own_method_check(suite->own, request.methods[i], &kits->error);
        }
        kits->made = kits->status == PF_OK;
        status = nominal.status;
        if (status == PF_OK && kits->made && c->keep) {
            status = keep(c, kits, key, error);
        }
    }
    if (status == PF_OK && kits->status == PF_OK &&
        suite->settings.reveal == PF_REVEAL_MITIGATION) {
        kits->status = calibrate_reveal(&c->workers[index], kits, &kits->error);
    }
    if (kits->status == PF_ERR_INTERRUPTED && status == PF_OK) {
        status = pf_fail(error, PF_ERR_INTERRUPTED, "stopped; run it again to go on");
    }
    return status;
}

// Loads (where they are kept) or calibrates all that are marked needed.
static pf_status cache_fill(kit_cache *c, const pf_effort *effort, pf_error *error)
{
    c->n_needed = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->kits[i].needed) {
            c->needed[c->n_needed++] = i;
        }
    }
    return pf__parallel(effort, c->n_workers, c->n_needed, fill_one, c, "calibrating", error);
}

// --- one unit

static pf_status take_kits(worker *w, const cached_kits *kits, pf_error *error)
{
    if (w->kits == kits) {
        return PF_OK;
    }
    pf_plant *plant = NULL;
    clear_responses(w);
    pf_status status = worker_plant(w, kits->environment, &plant, error);
    if (status != PF_OK) {
        return status;
    }
    w->bytes = (pf__kits_session_size(&kits->kits) + 15) & ~(size_t)15;
    w->memory = aligned_alloc(16, w->bytes);
    const pf_model *model = model_of(w->experiment, kits->environment);
    status = w->memory ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for a session");
    bool shared = w->experiment->suite->settings.verdict == PF_VERDICT_PAPER;
    for (int b = 0; b < 2 && status == PF_OK && shared; b++) {
        const pf_kit *kit = pf__kits_library(&kits->kits, b == 1);
        status = kit ? pf__responses_init(&w->responses[b], plant, kit, model, error) : PF_OK;
        w->responses[b].own_reference =
            w->experiment->suite->settings.reference == PF_REFERENCE_MEMBER;
        if (status == PF_OK && kit && model &&
            w->experiment->suite->settings.certificate == PF_CERTIFICATE_ANCHORED) {
            status = pf__responses_anchor(&w->responses[b], error);
        }
    }
    if (status != PF_OK) {
        clear_responses(w);
        return status;
    }
    w->kits = kits;
    return PF_OK;
}

// The change of a trial and its answers, the same for every method.
static pf_schedule start_trial(worker *w, const pf_plant_info *info, const pf_cell *cell,
                               uint64_t seed, int trial, int trials)
{
    const pf_suite *suite = w->experiment->suite;
    bool drawn = cell->n_faults > 0;
    pf_schedule_settings settings = {.trials = trials,
                                     .share = suite->nominal,
                                     .candidates = info->n_mech - 1,
                                     .opportunities = cell->opportunities,
                                     .n_faults = drawn ? cell->n_faults : 1,
                                     .n_gains = drawn ? suite->gains.n : 1,
                                     .gains = drawn ? suite->gains.value : &cell->gain};
    pf_schedule schedule = pf__schedule_draw(seed, info->name, trial, &settings);
    for (int b = 0; b < 2; b++) {
        if (w->responses[b].kit) {
            pf__responses_start(&w->responses[b], seed, (uint64_t)trial, PF_PURPOSE_EVALUATION,
                                schedule.n_changed, schedule.mechanism, schedule.gain);
        }
    }
    return schedule;
}

// The cell of a calibration that comes in its turn.
static const pf_cell *cell_in_turn(const pf_experiment *e, int calibration, int turn)
{
    int n = 0;
    for (int i = 0; i < e->n_cells; i++) {
        n += e->cells[i].calibration == calibration;
    }
    turn %= n;
    for (int i = 0;; i++) {
        if (e->cells[i].calibration == calibration && turn-- == 0) {
            return &e->cells[i];
        }
    }
}

// The reading `reveal: mitigation`: trials of their own, as many as the alarm has, over the cells
// of this calibration in turn, and the threshold that the compared methods lose least with.
static pf_status calibrate_reveal(worker *w, cached_kits *kits, pf_error *error)
{
    const pf_experiment *e = w->experiment;
    const pf_suite *suite = e->suite;
    pf_reveal_losses losses = {{0}};
    bool shares[PF_KITS_MAX];
    pf_status status = take_kits(w, kits, error);
    const pf_plant_info *info =
        status == PF_OK ? pf_plant_get_info(w->plants[kits->environment]) : NULL;
    uint64_t seed = (uint64_t)kits->seed + (UINT64_C(1) << 40); // none of the experiment's
    pf__sharing_methods(suite->methods.n, (const char *const *)suite->methods.text, shares);
    for (int trial = 0; trial < e->alarm_trials && status == PF_OK; trial++) {
        const pf_cell *cell = cell_in_turn(e, kits->cell->calibration, trial);
        pf_schedule schedule = start_trial(w, info, cell, seed, trial, e->alarm_trials);
        pf_trial_setup setup = pf__experiment_setup(e, cell);
        setup.losses = &losses;
        for (int i = 0; i < suite->methods.n && status == PF_OK; i++) {
            const char *method = suite->methods.text[i];
            bool group = pf__family_of(suite->own, method) == PF_FAMILY_GROUP;
            status = !shares[i] ? PF_OK
                                : pf__trial_run(&w->responses[group],
                                                kits->kits.kit[pf__kits_place(suite, i)], method,
                                                &schedule, &setup, w->memory, w->bytes,
                                                &w->results[i], error);
        }
    }
    kits->reveal = pf__reveal_threshold(&losses);
    return status;
}

// All methods on one unit into w->results.
static pf_status worker_run(worker *w, const cached_kits *kits, const pf_unit *unit,
                            pf_error *error)
{
    const pf_suite *suite = w->experiment->suite;
    if (w->experiment->responses > 0 && !w->experiment->coordinate) {
        return pf__mechanism_run(unit->setting, (uint64_t)unit->seed, w->experiment->responses,
                                 w->results, error);
    }
    if (kits->status != PF_OK) {
        return pf_fail(error, kits->status, "calibration: %s", kits->error.text);
    }
    pf_status status = take_kits(w, kits, error);
    if (status != PF_OK) {
        return status;
    }
    pf_plant *plant = w->plants[kits->environment];
    const pf_plant_info *info = pf_plant_get_info(plant);
    const pf_cell *cell = &w->experiment->cells[unit->cell];
    pf_trial_setup setup = pf__experiment_setup(w->experiment, cell);
    uint64_t seed = (uint64_t)unit->seed;
    if (w->experiment->coordinate) {
        return pf__coordinate_run(&w->responses[0], kits->kits.kit[0], seed, cell->gain,
                                  w->experiment->responses, w->results, error);
    }
    if (pf__suite_audits(suite)) {
        pf_verdict_trial trial = {.catalogue = &w->experiment->catalogue,
                                  .entry = cell->text,
                                  .plant = plant,
                                  .model = model_of(w->experiment, kits->environment),
                                  .kit = (const pf_kit *const *)kits->kits.kit,
                                  .seed = seed,
                                  .session = unit->trial};
        return pf__verdict_run(&trial, suite->methods.n, w->experiment->methods, w->results, error);
    }
    pf_schedule schedule = start_trial(w, info, cell, seed, unit->trial, w->experiment->trials);
    if (suite->settings.reveal == PF_REVEAL_MITIGATION) {
        setup.deploy = kits->reveal;
    }
    for (int i = 0; i < suite->methods.n && status == PF_OK; i++) {
        const char *method = suite->methods.text[i];
        const pf_kit *kit = kits->kits.kit[pf__kits_place(suite, i)];
        pf_responses *responses =
            &w->responses[pf__family_of(suite->own, method) == PF_FAMILY_GROUP];
        pf_field_trial field = {plant, model_of(w->experiment, kits->environment),
                                pf__field_seed(unit->seed, unit->trial)};
        pf_error why = {PF_OK, ""};
        status = suite->settings.verdict == PF_VERDICT_FIELD
                     ? pf__trial_field(&field, kit, method, &schedule, &setup, &w->results[i], &why)
                     : pf__trial_run(responses, kit, method, &schedule, &setup, w->memory, w->bytes,
                                     &w->results[i], &why);
        status = status ? status : pf__own_method_check(suite->own, method, &why);
        if (status != PF_OK) {
            pf_fail(error, status, "%s: %s", method, why.text);
        }
    }
    return status;
}

typedef struct run {
    const pf_experiment *experiment;
    pf_store *store;
    const pf_effort *effort;
    kit_cache cache;
    pthread_mutex_t lock; // of everything below
    bool broken;          // the store failed; the others stop too
    size_t since_count;   // finished since the store was last counted
    int64_t left_out;     // units that this run will not do
    pf_store_counts counts;
    pf_run_report *report;
} run;

// --- run: one claimed unit after the other

static bool stopped(run *r)
{
    pthread_mutex_lock(&r->lock);
    bool stop = r->broken || (r->effort && pf__stopped(r->effort->stop));
    pthread_mutex_unlock(&r->lock);
    return stop;
}

// What the store has and the suite has not is claimed too, and refused.
static bool wants(const void *self, pf_unit *unit)
{
    const run *r = self;
    return pf__experiment_find(r->experiment, unit) < 0 ||
           pf__experiment_wants(r->experiment, unit);
}

// Other processes finish units too, so the store is asked now and then.
static void show(run *r, bool failed)
{
    enum { COUNT_EVERY = 100 };
    pthread_mutex_lock(&r->lock);
    r->report->done += !failed;
    r->report->failed += failed;
    if (++r->since_count >= COUNT_EVERY) {
        pf_store_counts counts;
        if (pf__store_count(r->store, r->experiment->hash, &counts, NULL) == PF_OK) {
            r->counts = counts;
            r->since_count = 0;
        }
    }
    if (r->effort && r->effort->progress) {
        size_t total = (size_t)(r->counts.total - r->left_out);
        size_t done = (size_t)(r->counts.done + r->counts.failed) + r->since_count;
        r->effort->progress(r->effort->self, "trials", done < total ? done : total, total);
    }
    pthread_mutex_unlock(&r->lock);
}

static pf_status run_unit(run *r, worker *own, const pf_unit *unit, pf_error *error)
{
    if (unit->place < 0 || unit->cell < 0 || unit->seed < 0 || unit->seed >= r->experiment->seeds) {
        return pf_fail(error, PF_ERR_INTERNAL, "the store has a unit that the suite has not: %s %s",
                       unit->environment, unit->setting);
    }
    pf_error why = {PF_OK, ""};
    pf_status ran = worker_run(own, cache_find(&r->cache, unit), unit, &why);
    if (ran == PF_ERR_INTERRUPTED) {
        return pf__store_unclaim(r->store, unit, error);
    }
    bool failed = ran != PF_OK;
    pf_status status = failed ? pf__store_fail(r->store, unit, why.text, error)
                              : pf__store_finish(r->store, unit, r->experiment->n_methods,
                                                 r->experiment->methods, own->results, error);
    if (status == PF_OK) {
        show(r, failed);
    } else {
        pf__store_unclaim(r->store, unit, NULL); // if it can still be written
    }
    return status;
}

static pf_status work(void *self, int index, size_t item, pf_error *error)
{
    (void)item;
    run *r = self;
    worker *own = &r->cache.workers[index];
    pf_status status = PF_OK;
    int n = 1;
    while (status == PF_OK && n > 0 && !stopped(r)) {
        pf_unit units[PF_STORE_CLAIM];
        status = pf__store_claim(r->store, r->experiment->hash, wants, r, units, &n, error);
        for (int i = 0; i < n; i++) {
            if (status == PF_OK && !stopped(r)) {
                status = run_unit(r, own, &units[i], error);
            } else {
                pf__store_unclaim(r->store, &units[i], NULL); // if it can still be written
            }
        }
    }
    clear_responses(own);
    pthread_mutex_lock(&r->lock);
    r->broken = r->broken || status != PF_OK;
    r->report->rolls += own->rolls;
    own->rolls = 0;
    pthread_mutex_unlock(&r->lock);
    return status;
}

static void pause_briefly(void)
{
    struct timespec moment = {0, 50000000};
    nanosleep(&moment, NULL);
}

// Passes until nothing is left to claim; units of dead processes are given back in between, and
// units of living ones are waited for, so that success means complete.
static pf_status run_passes(run *r, pf_error *error)
{
    const char *hash = r->experiment->hash;
    pf_effort team = {.threads = r->effort ? r->effort->threads : 0};
    pf_store_counts before, after;
    for (;;) {
        int workers = r->cache.n_workers;
        pf_status status = pf__parallel(&team, workers, (size_t)workers, work, r, "trials", error);
        if (status == PF_OK && stopped(r)) {
            status = pf_fail(error, PF_ERR_INTERRUPTED, "stopped; run it again to go on");
        }
        status = status ? status : pf__store_count(r->store, hash, &before, error);
        if (status == PF_OK && before.running == 0) {
            return PF_OK;
        }
        status = status ? status : pf__store_recover(r->store, hash, error);
        status = status ? status : pf__store_count(r->store, hash, &after, error);
        if (status != PF_OK) {
            return status;
        }
        if (before.running == after.running) {
            if (pf__experiment_in_part(r->experiment)) {
                return PF_OK;
            }
            pause_briefly();
        }
    }
}

// the whole

static bool mark_needed(run *r)
{
    bool any = false;
    const pf_experiment *e = r->experiment;
    for (size_t i = 0; i < e->n_units; i++) {
        if (pf__experiment_wants(e, &e->units[i])) {
            cache_find(&r->cache, &e->units[i])->needed = e->responses == 0 || e->coordinate;
            any = true;
        }
    }
    return any;
}

static void note_known(void *self, const pf_unit *unit, const char *reason)
{
    (void)reason;
    run *r = self;
    pf_unit own = *unit;
    r->left_out -=
        pf__experiment_find(r->experiment, &own) >= 0 && !pf__experiment_wants(r->experiment, &own);
}

// What is neither wanted (--only, a missing backend) nor done already is no part of the progress.
static pf_status count_left_out(run *r, pf_error *error)
{
    const pf_experiment *e = r->experiment;
    for (size_t i = 0; i < e->n_units; i++) {
        r->left_out += !pf__experiment_wants(e, &e->units[i]);
    }
    pf_status status =
        r->left_out > 0 ? pf__store_done(r->store, e->hash, note_known, r, error) : PF_OK;
    return status || r->left_out == 0 ? status
                                      : pf__store_failures(r->store, e->hash, note_known, r, error);
}

static pf_status prepare(run *r, pf_error *error)
{
    const pf_experiment *e = r->experiment;
    pf_status status = pf__store_begin(r->store, e->hash, e->suite->id, e->profile->name,
                                       e->settings, e->units, e->n_units, error);
    status = status ? status : pf__store_recover(r->store, e->hash, error);
    status = status ? status : count_left_out(r, error);
    return status ? status : pf__store_count(r->store, e->hash, &r->counts, error);
}

static pf_status run_all(run *r, pf_error *error)
{
    pf_status status = prepare(r, error);
    if (status != PF_OK || r->counts.done + r->counts.failed == r->counts.total ||
        !mark_needed(r)) {
        return status;
    }
    status = cache_fill(&r->cache, r->effort, error);
    for (size_t i = 0; i < r->cache.n; i++) {
        r->report->kits += r->cache.kits[i].needed;
        r->report->kits_made += r->cache.kits[i].made;
    }
    return status ? status : run_passes(r, error);
}

pf_status pf__experiment_run(const pf_experiment *e, pf_store *store, const pf_effort *effort,
                             pf_run_report *report, pf_error *error)
{
    memset(report, 0, sizeof *report);
    run r = {.experiment = e, .store = store, .effort = effort, .report = report};
    pf_status status = cache_init(&r.cache, e, store, effort, error);
    r.cache.keep = true;
    pthread_mutex_init(&r.lock, NULL);
    status = status ? status : run_all(&r, error);
    pthread_mutex_destroy(&r.lock);
    cache_free(&r.cache);
    return status;
}

// --- verify

typedef struct check {
    const pf_experiment *experiment;
    kit_cache cache;
    bool *done; // by unit
    size_t n;
    size_t *sample;          // n indices of units, ascending
    int64_t *place;          // by unit: position in the sample, -1: not in it
    pf_trial_result *stored; // n x methods
    bool *there;             // n x methods
    char (*difference)[320]; // n
    pf_arena arena;          // of all these
} check;

static int find_method(const pf_experiment *e, const char *method)
{
    for (int i = 0; i < e->n_methods; i++) {
        if (strcmp(e->methods[i], method) == 0) {
            return i;
        }
    }
    return -1;
}

static void note_done(void *self, const pf_unit *unit, const char *reason)
{
    (void)reason;
    check *c = self;
    pf_unit own = *unit;
    int64_t at = pf__experiment_find(c->experiment, &own);
    if (at >= 0) {
        c->done[at] = true;
    }
}

static pf_status note_values(void *self, const pf_unit *unit, const char *method,
                             const pf_trial_result *result, pf_error *error)
{
    (void)error;
    check *c = self;
    pf_unit own = *unit;
    int64_t at = pf__experiment_find(c->experiment, &own);
    int m = find_method(c->experiment, method);
    if (at >= 0 && m >= 0 && c->place[at] >= 0) {
        size_t slot = (size_t)c->place[at] * (size_t)c->experiment->n_methods + (size_t)m;
        c->stored[slot] = *result;
        c->there[slot] = true;
    }
    return PF_OK;
}

// Selection sampling: n of the available units, every set as likely, by the hash alone.
static void choose(check *c, size_t available)
{
    pf_rng rng;
    pf_rng_init(&rng, pf__key_text(pf_key_root(c->n), c->experiment->hash));
    size_t left = available, want = c->n, taken = 0;
    for (size_t i = 0; i < c->experiment->n_units; i++) {
        c->place[i] = -1;
        if (!c->done[i]) {
            continue;
        }
        if (pf_rng_below(&rng, (uint32_t)left) < want) {
            c->place[i] = (int64_t)taken;
            c->sample[taken++] = i;
            want--;
        }
        left--;
    }
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

// The first difference of a unit in words; empty if there is none.
static void compare(const check *c, size_t item, const pf_trial_result *now, char out[320])
{
    const pf_experiment *e = c->experiment;
    const pf_unit *u = &e->units[c->sample[item]];
    for (int m = 0; m < e->n_methods; m++) {
        size_t slot = item * (size_t)e->n_methods + (size_t)m;
        if (!c->there[slot]) {
            snprintf(out, 320, "%s %s seed %d trial %d, %s: the row is missing", u->environment,
                     u->setting, u->seed, u->trial, e->methods[m]);
            return;
        }
        for (int i = 0; i < PF_METRIC_COUNT; i++) {
            double stored = c->stored[slot].value[i], computed = now[m].value[i];
            if (!same(stored, computed)) {
                char a[32] = "none", b[32] = "none";
                if (!isnan(stored)) {
                    pf__number_text(stored, a);
                }
                if (!isnan(computed)) {
                    pf__number_text(computed, b);
                }
                snprintf(out, 320, "%s %s seed %d trial %d, %s, %s: stored %s, recomputed %s",
                         u->environment, u->setting, u->seed, u->trial, e->methods[m],
                         pf__metric_name(i), a, b);
                return;
            }
        }
    }
}

static pf_status recompute(void *self, int index, size_t item, pf_error *error)
{
    (void)error;
    check *c = self;
    worker *own = &c->cache.workers[index];
    const pf_unit *unit = &c->experiment->units[c->sample[item]];
    pf_error why = {PF_OK, ""};
    if (worker_run(own, cache_find(&c->cache, unit), unit, &why) != PF_OK) {
        snprintf(c->difference[item], 320, "%s %s seed %d trial %d: now fails: %.90s",
                 unit->environment, unit->setting, unit->seed, unit->trial, why.text);
    } else {
        compare(c, item, own->results, c->difference[item]);
    }
    return PF_OK;
}

static pf_status take_sample(check *c, pf_store *store, size_t sample, pf_verify_report *report,
                             pf_error *error)
{
    const pf_experiment *e = c->experiment;
    c->done = pf__arena_take(&c->arena, e->n_units, sizeof *c->done);
    c->place = pf__arena_take(&c->arena, e->n_units, sizeof *c->place);
    pf_status status = c->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a sample")
                                       : pf__store_done(store, e->hash, note_done, c, error);
    if (status != PF_OK) {
        return status;
    }
    for (size_t i = 0; i < e->n_units; i++) {
        report->available += c->done[i];
    }
    c->n = sample < report->available ? sample : report->available;
    size_t slots = c->n * (size_t)e->n_methods;
    c->sample = pf__arena_take(&c->arena, c->n, sizeof *c->sample);
    c->stored = pf__arena_take(&c->arena, slots, sizeof *c->stored);
    c->there = pf__arena_take(&c->arena, slots, sizeof *c->there);
    c->difference = pf__arena_take(&c->arena, c->n, sizeof *c->difference);
    if (c->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a sample");
    }
    choose(c, report->available);
    return pf__store_rows(store, e->hash, note_values, c, error);
}

static pf_status check_sample(check *c, const pf_effort *effort, pf_error *error)
{
    for (size_t i = 0; i < c->n; i++) {
        const pf_unit *unit = &c->experiment->units[c->sample[i]];
        cache_find(&c->cache, unit)->needed = true;
    }
    pf_status status = cache_fill(&c->cache, effort, error);
    return status
               ? status
               : pf__parallel(effort, c->cache.n_workers, c->n, recompute, c, "verifying", error);
}

pf_status pf__experiment_verify(const pf_experiment *e, pf_store *store, size_t sample,
                                const pf_effort *effort, pf_verify_report *report, pf_error *error)
{
    memset(report, 0, sizeof *report);
    check c = {.experiment = e};
    pf_status status = cache_init(&c.cache, e, store, effort, error);
    status = status ? status : take_sample(&c, store, sample, report, error);
    status = status ? status : check_sample(&c, effort, error);
    report->checked = status == PF_OK ? c.n : 0;
    for (size_t i = 0; i < report->checked; i++) {
        if (c.difference[i][0]) {
            if (report->different++ == 0) {
                memcpy(report->difference, c.difference[i], sizeof report->difference);
            }
        }
    }
    cache_free(&c.cache);
    pf__arena_free(&c.arena);
    return status;
}
