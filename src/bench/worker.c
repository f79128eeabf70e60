// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "core/rng.h"
#include "foreman.h"
#include "own_method.h"

#include "host/file.h"
#include "host/parallel.h"
#include "model/model_impl.h"
#include "host/text.h"
#include "plant/plant_impl.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The kits of one (environment, seed, calibration).
typedef struct cached_kits {
    int environment, seed;
    const pf_cell *cell; // one that needs them
    bool needed;         // to verify
    bool here;           // in the memory of this process, or they failed
    pf_trial_kits kits;
    pf_kits_made made;
} cached_kits;

// What one thread has: a plant of each environment, and the responses and session of the kits at
// hand.
typedef struct worker {
    const pf_experiment *experiment;
    pf_experiment *own;        // the same, where it takes in models that come from rank 0
    pf_plant **plants;         // by environment; of processes the last one alone
    const cached_kits *kits;   // of the responses
    pf_responses responses[2]; // of the paper's library and of the group probes, where needed
    void *memory;              // of a session
    size_t bytes;
    pf_trial_result *results; // by method
    long rolls, said_rolls;   // of responses that are gone; what the foreman knows of
} worker;

typedef struct kit_cache {
    const pf_experiment *experiment;
    int n_workers;
    worker *workers; // who calibrate and run, by thread
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
static pf_status cache_init(kit_cache *c, const pf_experiment *e, int n_workers, pf_error *error)
{
    size_t n = (size_t)e->n_calibrations, environments = (size_t)e->suite->environments.n;
    *c = (kit_cache){.experiment = e, .n_workers = n_workers};
    c->n = pf__kits_count(e);
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
        c->kits[i].environment = pf__kits_environment(e, i);
    }
    return PF_OK;
}

// The entry of a unit.
static cached_kits *cache_find(const kit_cache *c, const pf_unit *unit)
{
    return &c->kits[pf__kits_of(c->experiment, unit)];
}

// --- what the store keeps, by way of the foreman

static pf_status tell(pf_link *link, const pf_said *said, const void *bytes, size_t n,
                      pf_error *error)
{
    pf_text text = {0};
    pf__text_add_n(&text, (const char *)said, sizeof *said);
    pf__text_add_n(&text, bytes ? bytes : "", n);
    pf_status status = pf__link_tell(link, &text, error);
    pf__text_free(&text);
    return status;
}

// Bytes of the foreman's, free() them. NULL: there are none.
static pf_status ask(pf_link *link, const pf_said *said, void **bytes, size_t *n, pf_error *error)
{
    pf_text text = {0}, reply = {0};
    pf__text_add_n(&text, (const char *)said, sizeof *said);
    pf_status status = text.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a message")
                                   : pf__link_ask(link, &text, &reply, error);
    pf__text_free(&text);
    bool some = status == PF_OK && reply.size > 0;
    *bytes = some ? reply.data : NULL;
    *n = some ? reply.size : 0;
    if (!some) {
        pf__text_free(&reply);
    }
    return status;
}

static pf_said says(pf_said_kind kind)
{
    pf_said said;
    memset(&said, 0, sizeof said); // gaps too: it is sent as it is
    said.kind = kind;
    return said;
}

static pf_said says_blob(pf_said_kind kind, pf_blob blob, const char *key)
{
    pf_said said = says(kind);
    said.blob = blob;
    snprintf(said.key, sizeof said.key, "%s", key);
    return said;
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
static pf_status fetch(const kit_cache *c, pf_link *link, cached_kits *kits, const char *key,
                       bool *found, pf_error *error)
{
    *found = true;
    for (int i = 0; i < PF_KITS_MAX && *found; i++) {
        char own[192];
        if (!uses_place(c->experiment->suite, i)) {
            continue;
        }
        pf_blob blob = kit_blob(c->experiment->suite, i, key, own);
        pf_said said = says_blob(PF_SAID_GET, blob, own);
        pf_status status = ask(link, &said, &kits->kits.bytes[i], &kits->kits.n[i], error);
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

static pf_status keep(const kit_cache *c, pf_link *link, const cached_kits *kits, const char *key,
                      pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 0; i < PF_KITS_MAX && status == PF_OK; i++) {
        if (kits->kits.bytes[i]) {
            char own[192];
            pf_blob blob = kit_blob(c->experiment->suite, i, key, own);
            pf_said said = says_blob(PF_SAID_PUT, blob, own);
            status = tell(link, &said, kits->kits.bytes[i], kits->kits.n[i], error);
        }
    }
    return status;
}

_Static_assert((int)PF_BLOB_KIT_GROUP == (int)PF_FAMILY_GROUP, "kits are kept by family");

typedef struct blob_place {
    pf_link *link;
    pf_status status; // what the store refuses ends the run
    pf_error *error;
} blob_place;

static bool get_nominal(void *self, const char *key, void **bytes, size_t *n)
{
    blob_place *d = self;
    pf_said said = says_blob(PF_SAID_GET, PF_BLOB_NOMINAL, key);
    d->status = ask(d->link, &said, bytes, n, d->error);
    return d->status == PF_OK;
}

static bool put_nominal(void *self, const char *key, const void *bytes, size_t n)
{
    blob_place *d = self;
    if (d->status == PF_OK) {
        pf_said said = says_blob(PF_SAID_PUT, PF_BLOB_NOMINAL, key);
        d->status = tell(d->link, &said, bytes, n, d->error);
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

// The plant and the model of kits. A rank that computes gets the model from rank 0.
static pf_status get_ready(worker *w, pf_link *link, int environment, pf_plant **plant,
                           pf_error *error)
{
    pf_experiment *e = w->own; // of a rank; NULL: models are here, or nowhere
    pf_status status = worker_plant(w, environment, plant, error);
    if (status != PF_OK || !pf__experiment_learned(w->experiment) ||
        model_of(w->experiment, environment)) {
        return status;
    }
    void *bytes = NULL;
    size_t n = 0;
    if (e && link) {
        pf_said said = says(PF_SAID_GET_MODEL);
        said.environment = environment;
        status = ask(link, &said, &bytes, &n, error);
        if (status == PF_OK && bytes) {
            return pf__model_read(&e->models[environment], "the model of rank 0", bytes, n, error);
        }
    }
    return status ? status
                  : pf_fail(error, PF_ERR_FILE, "the model of %s is not in the folder of models",
                            w->experiment->suite->environments.text[environment]);
}

// What came of kits stays with them; a stop ends the run.
static pf_status note_made(cached_kits *kits, pf_status status, const pf_error *why,
                           pf_error *error)
{
    kits->made.status = status;
    snprintf(kits->made.why, sizeof kits->made.why, "%s", why->text);
    kits->here = true;
    return status == PF_ERR_INTERRUPTED
               ? pf_fail(error, PF_ERR_INTERRUPTED, "stopped; run it again to go on")
               : PF_OK;
}

// The kits of one entry, from the store (without a link: never, verification calibrates anew), or
// calibrated and kept there. What the plant or the data refuse stays with the entry, what the store
// refuses ends the run.
static pf_status make_kits(kit_cache *c, worker *w, pf_link *link, cached_kits *kits,
                           pf_error *error)
{
    const pf_experiment *e = c->experiment;
    pf_plant *plant = NULL;
    pf_error why = {PF_OK, ""};
    pf_status made = get_ready(w, link, kits->environment, &plant, &why);
    if (made != PF_OK) {
        return note_made(kits, made, &why, error);
    }
    pf_kits_request request = kits_request(e, kits, plant);
    char key[65];
    bool found = false;
    pf__kits_key(&request, key);
    blob_place nominal = {link, PF_OK, error};
    if (link) {
        request.nominal = (pf_blob_store){&nominal, get_nominal, put_nominal};
    }
    pf_status status = link ? fetch(c, link, kits, key, &found, error) : PF_OK;
    if (status == PF_OK && !found) {
        made = pf__kits_calibrate(&kits->kits, &request, &why);
        for (int i = 0; i < request.n_methods && made == PF_OK; i++) {
            made = pf__own_method_check(e->suite->own, request.methods[i], &why);
        }
        kits->made.anew = made == PF_OK;
        status = nominal.status;
        if (status == PF_OK && kits->made.anew && link) {
            status = keep(c, link, kits, key, error);
        }
    }
    if (status == PF_OK && made == PF_OK && e->suite->settings.reveal == PF_REVEAL_MITIGATION) {
        made = calibrate_reveal(w, kits, &why);
    }
    return status ? status : note_made(kits, made, &why, error);
}

// Kits that another has made, as a trial needs them.
static pf_status load_kits(kit_cache *c, worker *w, pf_link *link, cached_kits *kits, double reveal,
                           pf_error *error)
{
    pf_plant *plant = NULL;
    char key[65];
    bool found = false;
    if (kits->here || !pf__kits_needed(c->experiment)) {
        return PF_OK;
    }
    pf_status status = get_ready(w, link, kits->environment, &plant, error);
    if (status != PF_OK) {
        return status;
    }
    pf_kits_request request = kits_request(c->experiment, kits, plant);
    pf__kits_key(&request, key);
    status = fetch(c, link, kits, key, &found, error);
    kits->made.reveal = reveal;
    kits->here = found;
    return status || found
               ? status
               : pf_fail(error, PF_ERR_MISMATCH, "the kits of %s are not in the database any more",
                         c->experiment->suite->environments.text[kits->environment]);
}

static pf_status verify_kits(void *self, int index, size_t item, pf_error *error)
{
    kit_cache *c = self;
    return make_kits(c, &c->workers[index], NULL, &c->kits[c->needed[item]], error);
}

// Calibrates all that are marked needed.
static pf_status cache_fill(kit_cache *c, const pf_effort *effort, pf_error *error)
{
    c->n_needed = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->kits[i].needed) {
            c->needed[c->n_needed++] = i;
        }
    }
    return pf__parallel(effort, c->n_workers, c->n_needed, verify_kits, c, "calibrating", error);
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
        w->responses[b].askers = w->experiment->suite->methods.n;
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
    kits->made.reveal = pf__reveal_threshold(&losses);
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
    if (kits->made.status != PF_OK) {
        return pf_fail(error, kits->made.status, "calibration: %s", kits->made.why);
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
        setup.deploy = kits->made.reveal;
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

// --- run: one job after the other

typedef struct run {
    pf_experiment *experiment;
    const pf_run_place *place;
    kit_cache cache;
} run;

static pf_status learn(run *r, pf_link *link, const pf_job *job, pf_error *error)
{
    char path[PF_MODEL_PATH];
    void *bytes = NULL;
    size_t n = 0;
    pf_said said = says(PF_SAID_LEARNED);
    pf_experiment *e = r->experiment;
    said.environment = job->environment;
    pf_effort effort = {.threads = r->place->effort->threads, .stop = r->place->effort->stop};
    pf_status status =
        pf__experiment_learn_one(e, job->environment, r->place->models, true, &effort, error);
    status = status ? status
                    : pf__experiment_model_path(e, job->environment, r->place->models, path, error);
    status = status ? status : pf__file_read(path, (size_t)1 << 31, &bytes, &n, error);
    status = status ? status : tell(link, &said, bytes, n, error);
    free(bytes);
    return status;
}

static pf_status prepare_kits(run *r, worker *own, pf_link *link, const pf_job *job,
                              pf_error *error)
{
    cached_kits *kits = &r->cache.kits[job->kits];
    pf_said said = says(PF_SAID_KITS);
    pf_status status = make_kits(&r->cache, own, link, kits, error);
    said.kits = job->kits;
    said.made = kits->made;
    return status ? status : tell(link, &said, NULL, 0, error);
}

// Trajectories since it was last asked.
static long take_rolls(worker *w)
{
    long all = w->rolls + w->responses[0].rolls + w->responses[1].rolls, before = w->said_rolls;
    w->said_rolls = all;
    return all - before;
}

static pf_status run_unit(run *r, worker *own, pf_link *link, const pf_job *job, int i,
                          pf_error *error)
{
    const pf_unit *unit = &job->unit[i];
    cached_kits *kits = cache_find(&r->cache, unit);
    pf_status status = load_kits(&r->cache, own, link, kits, job->reveal[i], error);
    if (status != PF_OK) {
        return status;
    }
    pf_error why = {PF_OK, ""};
    pf_status ran = worker_run(own, kits, unit, &why);
    pf_said said = says(ran == PF_OK                ? PF_SAID_DONE
                        : ran == PF_ERR_INTERRUPTED ? PF_SAID_BACK
                                                    : PF_SAID_FAILED);
    said.unit = *unit;
    said.rolls = take_rolls(own);
    snprintf(said.why, sizeof said.why, "%s", why.text);
    size_t n = ran == PF_OK ? (size_t)r->experiment->n_methods * sizeof *own->results : 0;
    return tell(link, &said, own->results, n, error);
}

static pf_status run_units(run *r, worker *own, pf_link *link, const pf_job *job, pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 0; i < job->n; i++) {
        if (status == PF_OK && !pf__link_stopped(link)) {
            status = run_unit(r, own, link, job, i, error);
        } else {
            pf_said said = says(PF_SAID_BACK);
            said.unit = job->unit[i];
            tell(link, &said, NULL, 0, NULL); // if it can still be written
        }
    }
    return status;
}

static pf_status work(void *self, int index, pf_link *link, const pf_text *text, pf_error *error)
{
    run *r = self;
    worker *own = &r->cache.workers[pf__ranks_many(r->place->ranks) ? 0 : index];
    pf_job job;
    memset(&job, 0, sizeof job);
    memcpy(&job, text->data, text->size < sizeof job ? text->size : sizeof job);
    return job.kind == PF_JOB_MODEL  ? learn(r, link, &job, error)
           : job.kind == PF_JOB_KITS ? prepare_kits(r, own, link, &job, error)
                                     : run_units(r, own, link, &job, error);
}

// One process writes for many: what comes at once is written at once.
static pf_status run_farm(const pf_farm *farm, const pf_run_place *place, pf_error *error)
{
    bool gathers = place->store && pf__ranks_many(place->ranks);
    pf_status status = gathers ? pf__store_gather(place->store, true, error) : PF_OK;
    status = status ? status : pf__farm_run(farm, error);
    pf_status written =
        gathers ? pf__store_gather(place->store, false, status == PF_OK ? error : NULL) : PF_OK;
    return status ? status : written;
}

static pf_status run_all(run *r, pf_run_report *report, pf_error *error)
{
    const pf_run_place *place = r->place;
    pf_run_foreman *foreman = NULL;
    bool work_to_do = true;
    pf_farm farm = {.ranks = place->ranks,
                    .effort = place->effort,
                    .threads = r->cache.n_workers,
                    .work = work,
                    .self = r};
    pf_status status = PF_OK;
    if (place->store) {
        status = pf__foreman_create(&foreman, r->experiment, place, report, &work_to_do, error);
        farm.foreman = status == PF_OK ? pf__foreman_of(foreman) : farm.foreman;
    }
    if (status == PF_OK && (work_to_do || pf__ranks_many(place->ranks))) {
        status = run_farm(&farm, place, error);
    }
    if (status != PF_OK && place->store) {
        pf__store_unclaim_all(place->store, r->experiment->hash, NULL); // if it can be written
    }
    pf__foreman_destroy(foreman);
    return status;
}

pf_status pf__experiment_run(pf_experiment *e, const pf_run_place *place, pf_run_report *report,
                             pf_error *error)
{
    memset(report, 0, sizeof *report);
    run r = {.experiment = e, .place = place};
    int workers = pf__ranks_many(place->ranks) ? 1 : pf__threads(place->effort);
    pf_status status = cache_init(&r.cache, e, workers, error);
    if (status == PF_OK && pf__ranks_worker(place->ranks)) {
        r.cache.workers[0].own = e;
        status = pf__experiment_models(e, place->models, true, error);
    }
    status = status ? status : run_all(&r, report, error);
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
    pf_status status = cache_init(&c.cache, e, pf__threads(effort), error);
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
