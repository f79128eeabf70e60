// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// What a simulator behind exec: says. The input is its hello, then after a line end an answer to
// roll, which must have as many numbers as the hello promised.
#include "plant/bridge/bridge.c" // the functions that take answers are its own

#include "fuzz_input.h"

static json_t *parse(const uint8_t *data, size_t size)
{
    char *exact = fuzz_copy(data, size);
    json_t *json = json_loadb(exact, size, JSON_REJECT_DUPLICATES, NULL);
    free(exact);
    return json;
}

static void take_all(const pf_description *about, json_t *reply)
{
    enum { ROWS = 3, MOST = 1 << 16, HYPOTHESES = 2 };
    char what[PF_WHAT_SIZE] = "";
    size_t n_chan = (size_t)about->n_chan, n_state = (size_t)about->n_state;
    if (n_chan * ROWS > MOST || n_state > MOST || about->n_metrics > MOST || about->draws > MOST) {
        return;
    }
    double *start = calloc(n_state + 1, sizeof *start), *initial = calloc(n_chan, sizeof *initial);
    double *output = calloc(ROWS * n_chan, sizeof *output);
    double *metrics = calloc((size_t)about->n_metrics + 1, sizeof *metrics);
    double *returns = calloc((size_t)about->draws * HYPOTHESES + 1, sizeof *returns);
    double beyond[HYPOTHESES];
    demand(start && initial && output && metrics && returns);
    pf_trace trace = {.start = start, .initial = initial, .output = output};
    pf_status status = take_answer(about, reply, ROWS, &trace, what);
    demand(status == PF_OK || what[0]);
    for (size_t i = 0; i < ROWS * n_chan && status == PF_OK; i++) {
        demand(isfinite(output[i]));
    }
    demand(take_metrics(about, reply, metrics, what) == PF_OK || what[0]);
    demand(take_forecast(about, reply, HYPOTHESES, returns, beyond, what) == PF_OK || what[0]);
    free(start);
    free(initial);
    free(output);
    free(metrics);
    free(returns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t n = end ? (size_t)(end - data) : size;
    char what[PF_WHAT_SIZE] = "";
    pf_description about;
    json_t *hello = parse(data, n);
    json_t *reply = end ? parse(end + 1, size - n - 1) : NULL;
    if (hello) {
        pf_status status = pf__description_parse(hello, &about, what);
        demand(status == PF_OK || (what[0] && !strchr(what, '\n')));
        if (status == PF_OK) {
            pf_plant_info info = pf__description_info(&about, "fuzz");
            demand(info.n_mech >= 1 && info.n_chan >= 1 && pf__description_same(&about, &about));
            take_all(&about, reply);
        }
        pf__description_free(&about);
    }
    json_decref(reply);
    return 0;
}
