// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "fuzz_kit.h"
#include "core/kit_layout.h"
#include "core/rng.h"

#include "preflight/run.h"
#include "preflight/session.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// More than a session on any kit worth checking takes.
enum { SESSION_MAX = 1 << 24, TELLS_MAX = 40 };

static void demand(bool good)
{
    if (!good) {
        abort();
    }
}

// A model that is linear in the lost gain: each mechanism has a direction of its own.
typedef struct linear_model {
    const pf_kit *kit;
} linear_model;

static pf_status predict(void *self, const pf_hypothesis *h, const double *start, int n_start,
                         double *response, pf_error *error)
{
    const pf_kit *k = ((linear_model *)self)->kit;
    (void)start;
    (void)n_start;
    (void)error;
    int rows = pf_kit_probe_rows(k, h->probe);
    pf_rng rng;
    pf_rng_init(&rng, pf__key_derive(pf_key_root((uint64_t)h->mechanism), (uint64_t)h->probe));
    for (int i = 0; i < rows * k->n_chan; i++) {
        double others = h->others ? 1 - h->others[k->n_mech - 1] : 0;
        response[i] = (h->mechanism > 0 ? (1 - h->gain) * pf_rng_normal(&rng) : 0) + others;
    }
    return PF_OK;
}

// Any response to a command that is no probe, the same for the same run.
static pf_status run_command(void *self, const pf_run *run, const double *start, int n_start,
                             double *response, pf_error *error)
{
    const pf_kit *k = ((linear_model *)self)->kit;
    (void)start;
    (void)n_start;
    (void)error;
    for (int i = 0; i < run->rows * k->n_chan; i++) {
        response[i] = 0;
        for (int j = 0; j < k->n_mech && run->command; j++) {
            double gain = run->gains ? run->gains[j] : 1;
            response[i] += gain * run->command[i / k->n_chan * k->n_mech + j];
        }
    }
    return PF_OK;
}

static void check_belief(const pf_session *s)
{
    const pf_kit *k = pf_session_kit(s);
    const double *belief = pf_session_belief(s);
    double sum = 0, none = 1;
    for (int i = 0; i < k->n_mech; i++) {
        demand(belief[i] >= 0 && belief[i] <= 1 + 1e-9);
        sum += belief[i];
        none *= i > 0 ? 1 - belief[i] : 1;
    }
    // with several faults each mechanism has a probability of its own
    demand(fabs(k->faults == PF_FAULTS_MANY ? belief[0] - none : sum - 1) < 1e-5);
    double change = pf_session_get_state(s).change;
    demand(change >= 0 && change <= 1 + 1e-5);
}

static void check_readiness(pf_session *s)
{
    const pf_kit *k = pf_session_kit(s);
    pf_session_certify(s);
    for (int t = 0; t < k->n_tasks; t++) {
        const pf_task_readiness *r = pf_session_task(s, t);
        bool go = r->decision == PF_GO;
        demand(go == (r->why == PF_WHY_CERTIFIED));
        demand(!go || (isfinite(r->lower) && r->lower >= k->j_min));
        for (int u = k->task_use[t]; u < k->task_use[t + 1] && go && k->field; u++) {
            demand(k->use_mech[u] == 0 || pf_session_probed(s, k->use_mech[u]));
        }
    }
}

static void run_session(pf_session *s, double *response, pf_rng *rng)
{
    const pf_kit *k = pf_session_kit(s);
    linear_model model = {k};
    pf_predictor linear = {&model, predict, run_command};
    pf_error error = {PF_OK, ""};
    check_readiness(s);
    for (int i = 0; i < TELLS_MAX; i++) {
        pf_ask ask = pf_session_ask(s);
        check_belief(s);
        if (ask.kind == PF_ASK_DONE) {
            break;
        }
        bool probe = ask.kind == PF_ASK_PROBE;
        demand(ask.rows > 0 && (probe ? ask.probe >= 0 && ask.probe < k->n_probes
                                      : ask.n_tasks > 0 && ask.tasks[0] < k->n_tasks));
        double size = pf_rng_below(rng, 8) == 0 ? pow(10, 600 * pf_rng_uniform(rng) - 300) : 1;
        for (int j = 0; j < ask.rows * k->n_chan; j++) {
            response[j] = fmax(-1e300, fmin(1e300, size * pf_rng_normal(rng)));
        }
        pf_tell tell = {.probe = ask.probe,
                        .response = response,
                        .rows = ask.rows,
                        .channels = k->n_chan,
                        .n_tasks = ask.n_tasks,
                        .tasks = ask.tasks};
        pf_status status =
            pf_rng_below(rng, 10) == 0
                ? pf_session_skip(s, &error)
                : pf_session_tell(s, &tell, k->n_response > 0 ? NULL : &linear, &error);
        demand(status == PF_OK || error.text[0]);
        if (status != PF_OK) {
            demand(pf_session_skip(s, &error) == PF_OK);
        }
        check_belief(s);
        check_readiness(s);
    }
    check_readiness(s);
}

static void check_json(const pf_kit *kit)
{
    char *text = pf_kit_json(kit);
    json_t *json = text ? json_loads(text, 0, NULL) : NULL;
    demand(json != NULL);
    json_decref(json);
    free(text);
}

static void run_kit(const pf_kit *kit, uint64_t seed)
{
    size_t size = pf_session_size(kit);
    int probe = pf__kit_most_rows(kit), rehearsal = pf__kit_rehearsal_rows(kit);
    size_t window = (size_t)(probe > rehearsal ? probe : rehearsal) * (size_t)kit->n_chan;
    check_json(kit);
    demand(size > 0);
    if (size > SESSION_MAX) {
        return;
    }
    void *memory = aligned_alloc(16, (size + 15) & ~(size_t)15);
    double *response = calloc(window, sizeof(double));
    pf_session *session = NULL;
    pf_rng rng;
    pf_rng_init(&rng, pf_key_root(seed));
    for (int i = 0; memory && response && i < kit->n_methods; i++) {
        pf_session_config config = {.method = pf_kit_method_id(kit, i), .seed = seed};
        demand(pf_session_init(&session, kit, &config, memory, size, NULL) == PF_OK);
        run_session(session, response, &rng);
    }
    free(memory);
    free(response);
}

// What was loaded can be saved and loaded again. The file may have had sections that are not known.
static void check_again(const pf_kit *kit)
{
    size_t n = pf__kit_image_size(kit);
    void *again = malloc(n);
    pf_kit copy;
    demand(again && pf__kit_save(kit, again, n, NULL) == PF_OK);
    demand(pf__kit_read(&copy, again, n, NULL) == PF_OK && pf__kit_image_size(&copy) == n);
    free(again);
}

void fuzz_kit_run(const uint8_t *bytes, size_t n)
{
    uint8_t *image = malloc(n > 0 ? n : 1);
    if (!image) {
        return;
    }
    if (n > 0) {
        memcpy(image, bytes, n);
    }
    pf_kit kit;
    pf_error error = {PF_OK, ""};
    pf_status status = pf__kit_read(&kit, image, n, &error);
    if (status == PF_OK) {
        check_again(&kit);
        run_kit(&kit, n + kit.sha256[0]);
    } else {
        demand(error.code == status && error.text[0] && !strchr(error.text, '\n'));
    }
    free(image);
}
