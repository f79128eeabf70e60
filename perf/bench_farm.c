// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include "bench/foreman.h"
#include "host/file.h"
#include "host/parallel.h"
#include "model/rollout.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// What handing out costs: a suite whose trials cost nothing, since no worker computes anything.
// `mpirun -n N bench_farm SUITE.yaml PROFILE DB` prints how long rank 0 took for a trial, in
// seconds and in seconds of its processor; without mpirun that of one thread, without messages. The
// results in DB are noise.

static void must(pf_status status, const pf_error *error)
{
    if (status != PF_OK) {
        fprintf(stderr, "bench_farm: %s\n", error->text);
        exit(1);
    }
}

static double processor_time(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static pf_status say(pf_link *link, const pf_said *said, const void *bytes, size_t n,
                     pf_error *error)
{
    pf_text text = {0};
    pf__text_add_n(&text, (const char *)said, sizeof *said);
    pf__text_add_n(&text, bytes, n);
    pf_status status = pf__link_tell(link, &text, error);
    pf__text_free(&text);
    return status;
}

// Kits are there at once, and half of the metrics have a value.
static pf_status pretend(void *self, int worker, pf_link *link, const pf_text *text,
                         pf_error *error)
{
    (void)worker;
    const pf_experiment *e = self;
    static pf_trial_result results[64];
    pf_job job;
    pf_said said;
    memset(&job, 0, sizeof job);
    memset(&said, 0, sizeof said);
    memcpy(&job, text->data, text->size);
    if (job.kind == PF_JOB_KITS) {
        said.kind = PF_SAID_KITS;
        said.kits = job.kits;
        return say(link, &said, "", 0, error);
    }
    pf_status status = PF_OK;
    for (int i = 0; i < job.n && status == PF_OK; i++) {
        for (int m = 0; m < e->n_methods; m++) {
            for (int k = 0; k < PF_METRIC_COUNT; k++) {
                results[m].value[k] = k % 2 ? strtod("nan", NULL) : job.unit[i].trial + .1 * k;
            }
        }
        said.kind = PF_SAID_DONE;
        said.unit = job.unit[i];
        status = say(link, &said, results, (size_t)e->n_methods * sizeof *results, error);
    }
    return status;
}

static void run(pf_experiment *e, pf_ranks *ranks, const char *db)
{
    pf_error error = {PF_OK, ""};
    pf_run_foreman *foreman = NULL;
    pf_run_report report = {0};
    bool work = false, first = !pf__ranks_worker(ranks);
    pf_run_place place = {.ranks = ranks, .models = "."};
    pf_farm farm = {.ranks = ranks, .threads = 1, .work = pretend, .self = e};
    if (pf__ranks_many(ranks)) {
        must(pf__experiment_meet(e, ranks, &error), &error);
    }
    if (first) {
        must(pf__store_open(&place.store, db, PF_STORE_WRITE, &error), &error);
        must(pf__foreman_create(&foreman, e, &place, &report, &work, &error), &error);
        farm.foreman = pf__foreman_of(foreman);
    }
    if (first) {
        must(pf__store_gather(place.store, true, &error), &error);
    }
    double began = pf__seconds(), before = processor_time();
    must(pf__farm_run(&farm, &error), &error);
    double wall = pf__seconds() - began, used = processor_time() - before;
    if (first && report.done > 0) {
        double n = (double)report.done;
        printf("%zu trials of %d methods in %.2f s, %.2f s of rank 0's processor: %.0f us each, "
               "%.0f of its processor\n",
               report.done, e->n_methods, wall, used, 1e6 * wall / n, 1e6 * used / n);
    }
    pf__foreman_destroy(foreman);
    pf__store_close(place.store);
}

int main(int argc, char **argv)
{
    pf_error error = {PF_OK, ""};
    void *text = NULL;
    size_t n = 0;
    pf_suite suite;
    pf_experiment experiment;
    pf_ranks *ranks = NULL;
    if (argc != 4) {
        fprintf(stderr, "usage: bench_farm SUITE.yaml PROFILE DB\n");
        return 2;
    }
    must(pf__ranks_open(&ranks, &error), &error);
    must(pf__file_read(argv[1], (size_t)1 << 20, &text, &n, &error), &error);
    must(pf__suite_read(&suite, "farm", text, n, NULL, 0, &error), &error);
    must(pf__experiment_init(&experiment, &suite, pf__profile_find(argv[2]), &error), &error);
    run(&experiment, ranks, argv[3]);
    pf__ranks_close(ranks, "", 0);
    pf__experiment_free(&experiment);
    pf__suite_free(&suite);
    free(text);
    return 0;
}
