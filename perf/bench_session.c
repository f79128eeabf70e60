// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "core/kit_layout.h"

#include "host/file.h"
#include "preflight/session.h"

#include <stdlib.h>

// `bench_session KIT`: time of one tell and the next ask on a kit from recordings, each probe
// answered by its nominal response, as bench_python.py does it in Python.

enum { PAIRS = 2000, REPEATS = 50 };

// Seconds per pair; sessions that end are reset, which is not counted.
static double one_run(pf_session *session, const pf_kit *k)
{
    double spent = 0;
    int pairs = 0;
    while (pairs < PAIRS) {
        pf_session_reset(session);
        pf_ask ask = pf_session_ask(session);
        double begin = bench_cpu();
        while (ask.kind == PF_ASK_PROBE) {
            const double *response =
                k->response + (size_t)k->probe_row[ask.probe] * (size_t)k->n_chan;
            pf_tell tell = {
                .probe = ask.probe, .response = response, .rows = ask.rows, .channels = k->n_chan};
            if (pf_session_tell(session, &tell, NULL, NULL) != PF_OK) {
                fputs("bench_session: tell was refused\n", stderr);
                exit(1);
            }
            ask = pf_session_ask(session);
            pairs++;
        }
        spent += bench_cpu() - begin;
    }
    return spent / pairs;
}

int main(int argc, char **argv)
{
    pf_error error = {PF_OK, ""};
    void *bytes = NULL;
    size_t n = 0;
    pf_kit kit;
    pf_session *session = NULL;
    if (argc != 2 || pf__file_read(argv[1], (size_t)1 << 30, &bytes, &n, &error) != PF_OK ||
        pf__kit_read(&kit, bytes, n, &error) != PF_OK) {
        fprintf(stderr, "bench_session KIT: %s\n", error.text);
        return 1;
    }
    size_t size = (pf_session_size(&kit) + 15) & ~(size_t)15;
    void *memory = aligned_alloc(16, size);
    if (!memory || kit.n_response == 0 ||
        pf_session_init(&session, &kit, NULL, memory, size, &error) != PF_OK) {
        fprintf(stderr, "bench_session: needs a kit from recordings: %s\n", error.text);
        return 1;
    }
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        double seconds = one_run(session, &kit);
        best = seconds < best ? seconds : best;
    }
    bench_print("tell_ask_c", 1e6 * best, "us");
    free(memory);
    free(bytes);
    return 0;
}
