// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "binding.h"

#include "audit/audit.h"
#include "host/parallel.h"

#include <stdlib.h>
#include <string.h>

// --- the catalogue

struct pf_py_catalogue {
    pf_catalogue it;
};

int pf_py_catalogue_open(pf_py_catalogue **catalogue, const char *file, const char *text, size_t n,
                         char *why)
{
    pf_error error = {PF_OK, ""};
    *catalogue = NULL;
    pf_py_catalogue *made = calloc(1, sizeof *made);
    pf_status status = made ? pf__catalogue_read(&made->it, file, text, n, &error)
                            : pf_fail(&error, PF_ERR_MEMORY, "out of memory for a catalogue");
    if (status != PF_OK) {
        pf_py_catalogue_close(made);
        return pf_py_report(status, &error, why);
    }
    *catalogue = made;
    return PF_OK;
}

void pf_py_catalogue_close(pf_py_catalogue *catalogue)
{
    if (catalogue) {
        pf__catalogue_free(&catalogue->it);
        free(catalogue);
    }
}

const char *pf_py_catalogue_entry(const pf_py_catalogue *catalogue, int entry, int *promised)
{
    if (entry >= catalogue->it.n) {
        return NULL;
    }
    *promised = catalogue->it.entries[entry].promised != 0;
    return catalogue->it.entries[entry].name;
}

// --- trials

struct pf_py_evaluator {
    const pf_kit *kit;
    int n_tasks;
    pf_model *model;
    int workers;
    pf_plant **plants, **twins; // one per worker, the first is the caller's; twins NULL: the plant
};

// Clones for all workers but the first.
static pf_status clone(pf_plant ***copies, pf_plant *plant, int n, pf_error *error)
{
    *copies = calloc((size_t)n, sizeof **copies);
    if (!*copies) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for an evaluation");
    }
    (*copies)[0] = plant;
    pf_status status = PF_OK;
    for (int i = 1; i < n && status == PF_OK; i++) {
        status = pf_plant_clone(plant, &(*copies)[i], error);
    }
    return status;
}

static pf_status fill(pf_py_evaluator *e, pf_py_plant *machine, pf_py_plant *twin,
                      const char *model, pf_error *error)
{
    pf_kit_info k = pf_kit_get_info(e->kit);
    if (!k.rules.field) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "the kit has the paper's rules; an evaluation is about a field kit");
    }
    e->n_tasks = k.n_tasks;
    pf_status status = pf_kit_fits_machine(e->kit, pf_plant_get_info(machine->plant), error);
    if (status == PF_OK && twin) {
        status = pf_kit_fits_twin(e->kit, pf_plant_get_info(twin->plant), error);
    }
    if (status == PF_OK && model) {
        status = pf_model_load(&e->model, model, error);
    }
    if (status == PF_OK && model) {
        status = pf_kit_fits_model(e->kit, e->model, error);
    }
    if (status == PF_OK) {
        status = clone(&e->plants, machine->plant, e->workers, error);
    }
    return status == PF_OK && twin ? clone(&e->twins, twin->plant, e->workers, error) : status;
}

int pf_py_evaluator_open(pf_py_evaluator **evaluator, const pf_py_kit *kit, pf_py_plant *machine,
                         pf_py_plant *twin, const char *model, int threads, char *why)
{
    pf_error error = {PF_OK, ""};
    *evaluator = NULL;
    pf_py_evaluator *e = calloc(1, sizeof *e);
    pf_status status =
        e ? PF_OK : pf_fail(&error, PF_ERR_MEMORY, "out of memory for an evaluation");
    if (status == PF_OK) {
        e->kit = kit->kit;
        e->workers = pf__threads(&(pf_effort){.threads = threads});
        status = fill(e, machine, twin, model, &error);
    }
    if (status != PF_OK) {
        pf_py_evaluator_close(e);
        return pf_py_report(status, &error, why);
    }
    *evaluator = e;
    return PF_OK;
}

void pf_py_evaluator_close(pf_py_evaluator *e)
{
    if (e) {
        for (int i = 1; i < e->workers; i++) {
            pf_plant_destroy(e->plants ? e->plants[i] : NULL);
            pf_plant_destroy(e->twins ? e->twins[i] : NULL);
        }
        free(e->plants);
        free(e->twins);
        pf_model_destroy(e->model);
        free(e);
    }
}

typedef struct work {
    const pf_py_evaluator *evaluator;
    const pf_py_row *row;
    pf_audit audit;
    pf_py_trial *trials;
    const pf_py_flights *flights;
} work;

static pf_status run_trial(void *self, int worker, size_t item, pf_error *error)
{
    const work *w = self;
    const pf_py_evaluator *e = w->evaluator;
    const pf_py_row *row = w->row;
    size_t at = item * (size_t)e->n_tasks;
    pf_fault drawn[2];
    pf_audit_machine m = {.plant = e->plants[worker],
                          .twin = e->twins ? e->twins[worker] : NULL,
                          .seed = pf__audit_seed(w->audit.seed, row->name, (int)item),
                          .faults = row->faults ? row->faults->item : NULL,
                          .n_faults = row->faults ? row->faults->n : 0};
    pf_audit_detail detail = {.decision = w->flights->decision + at,
                              .lower = w->flights->lower + at,
                              .flown = w->flights->flown + at};
    pf_audit_result r;
    pf_status status = PF_OK;
    if (row->catalogue) {
        status = pf__catalogue_faults(&row->catalogue->it.entries[row->entry], e->kit,
                                      pf_plant_get_info(m.plant), w->audit.seed, (int)item, drawn,
                                      &m.n_faults, error);
        m.faults = m.n_faults > 0 ? drawn : NULL;
    }
    status = status ? status : pf__audit_machine(&w->audit, &m, &r, &detail, error);
    if (status == PF_OK) {
        w->trials[item] = (pf_py_trial){.seed = m.seed,
                                        .gain_error = detail.gain_error,
                                        .alarm = r.alarm,
                                        .misfit = r.misfit,
                                        .named = r.named,
                                        .within = r.within,
                                        .probes = r.probes,
                                        .rehearsals = r.rehearsals,
                                        .go = r.with.go,
                                        .all_go = r.with.all_go,
                                        .below_bound = r.with.below_bound,
                                        .below_j_min = r.with.below_j_min,
                                        .false_go = r.with.false_go};
    }
    return status;
}

int pf_py_evaluate(const pf_py_evaluator *e, const pf_py_row *row, int n, uint64_t seed,
                   const volatile int *stop, pf_py_trial *trials, const pf_py_flights *flights,
                   char *why)
{
    pf_error error = {PF_OK, ""};
    pf_effort effort = {.threads = e->workers, .stop = stop};
    work w = {.evaluator = e,
              .row = row,
              .audit = {.kit = e->kit, .model = e->model, .seed = seed},
              .trials = trials,
              .flights = flights};
    pf_status status =
        pf__parallel(&effort, e->workers, (size_t)n, run_trial, &w, row->name, &error);
    return pf_py_report(status, &error, why);
}

double pf_py_upper(int k, int n)
{
    return pf__audit_upper(k, n);
}
