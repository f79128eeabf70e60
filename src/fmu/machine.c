// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE // mmap of no file
#include "machine.h"

#include "plant/plant_impl.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const double noise_share = .25; // suggested sensor noise, as of any machine without its own

// --- what it is made of

// Name of a number of a variable: its own, and the index of an element, as in u[1].
static void name_number(const pf_fmu_variable *v, int i, char *out, size_t size)
{
    char name[PF_NAME_MOST + 1];
    pf__name_tidy(name, v->name);
    snprintf(out, size, v->array ? "%s[%d]" : "%s", name, i + 1);
}

// Commands are deviations from rest, and rest is allowed.
static void set_limits(pf_fmu_machine *m)
{
    for (int i = 0, j = 1; i < m->model->inputs.n; i++) {
        const pf_fmu_variable *v = &m->model->inputs.list[i];
        for (int k = 0; k < v->n; k++, j++) {
            m->rest[j] = v->start[k];
            m->lo[j] = fmin(v->lo - v->start[k], 0);
            m->hi[j] = fmax(v->hi - v->start[k], 0);
        }
    }
}

static pf_status choose_step(pf_fmu_machine *m, double step_s, pf_error *error)
{
    m->step_s = step_s > 0 ? step_s : m->model->step_s;
    if (m->step_s > 0) {
        return PF_OK;
    }
    double length = m->model->stop_s - m->model->start_s;
    double example = m->model->stop_s > 0 ? length / 100 : .02;
    return pf_fail(
        error, PF_ERR_ARGUMENT,
        "its modelDescription.xml has no stepSize; say the control step in seconds behind "
        "the file, as in #%g",
        example);
}

pf_status pf__fmu_machine(pf_fmu_machine *m, pf_arena *arena, const pf_fmu_model *model,
                          double step_s, pf_error *error)
{
    *m = (pf_fmu_machine){
        .model = model, .n_mech = 1 + model->inputs.numbers, .n_chan = model->outputs.numbers};
    if (model->inputs.numbers == 0 || model->outputs.numbers == 0) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "it has no %s that is a real number, so %s",
                       model->inputs.numbers == 0 ? "input" : "output",
                       model->inputs.numbers == 0 ? "nothing can be commanded"
                                                  : "nothing can be seen");
    }
    if (m->n_mech > PF_MECH_MAX) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "it has %d real inputs, %d are the most",
                       model->inputs.numbers, PF_MECH_MAX - 1);
    }
    size_t n = (size_t)m->n_mech;
    m->rest = pf__arena_take(arena, n, sizeof *m->rest);
    m->lo = pf__arena_take(arena, n, sizeof *m->lo);
    m->hi = pf__arena_take(arena, n, sizeof *m->hi);
    m->inputs = pf__arena_take(arena, n, sizeof *m->inputs);
    if (arena->failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory");
    }
    set_limits(m);
    return choose_step(m, step_s, error);
}

// --- a trajectory

// The commands of a trajectory and where it goes.
typedef struct trajectory {
    const double *gains, *commands; // gains: Nullable
    int rows;
    double *initial, *output;
} trajectory;

static pf_status run_here(pf_fmu_machine *m, pf_fmu_renewal renewal, const trajectory *t,
                          pf_error *error)
{
    pf_status status = pf__fmu_renew(m->fmu, renewal, error);
    status = status == PF_OK ? pf__fmu_get(m->fmu, t->initial, error) : status;
    for (int r = 0; r < t->rows && status == PF_OK; r++) {
        for (int j = 1; j < m->n_mech; j++) {
            double u = t->commands[(size_t)r * (size_t)m->n_mech + (size_t)j];
            u = u < m->lo[j] ? m->lo[j] : u > m->hi[j] ? m->hi[j] : u;
            m->inputs[j] = m->rest[j] + (t->gains ? t->gains[j] : 1) * u;
        }
        status = pf__fmu_set(m->fmu, m->inputs + 1, error);
        if (status == PF_OK) {
            status = pf__fmu_step(m->fmu, m->model->start_s + r * m->step_s, m->step_s, error);
        }
        if (status == PF_OK) {
            status = pf__fmu_get(m->fmu, t->output + (size_t)r * (size_t)m->n_chan, error);
        }
    }
    if (status != PF_OK || renewal == PF_FMU_INSTANCE || renewal == PF_FMU_LIBRARY) {
        pf__fmu_end(m->fmu);
    }
    return status;
}

// What the other process leaves, in memory that both see.
typedef struct result {
    pf_error error;
    bool whole; // it came to an end
    double values[];
} result;

static pf_status take_result(const result *found, int code, const trajectory *t, size_t n_chan,
                             pf_error *error)
{
    if (!found->whole) {
        int number = WIFSIGNALED(code) ? WTERMSIG(code) : WEXITSTATUS(code);
        return pf_fail(error, PF_ERR_PLANT,
                       WIFSIGNALED(code) ? "it was ended by signal %d"
                                         : "it ended the process with status %d",
                       number);
    }
    if (found->error.code != PF_OK) {
        return pf_fail(error, found->error.code, "%s", found->error.text);
    }
    memcpy(t->initial, found->values, n_chan * sizeof *t->initial);
    if (t->rows > 0) {
        memcpy(t->output, found->values + n_chan, (size_t)t->rows * n_chan * sizeof *t->output);
    }
    return PF_OK;
}

// In a process of its own, so that nothing of an earlier trajectory is left, and what ends it ends
// nothing else. limit_s 0: as long as it takes.
static pf_status run_apart(pf_fmu_machine *m, const trajectory *t, unsigned limit_s,
                           pf_error *error)
{
    size_t n_chan = (size_t)m->n_chan, n = n_chan * ((size_t)t->rows + 1);
    size_t size = sizeof(result) + n * sizeof(double);
    result *found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory");
    }
    pid_t pid = fork();
    if (pid == 0) {
        trajectory theirs = *t;
        theirs.initial = found->values;
        theirs.output = found->values + n_chan;
        alarm(limit_s);
        run_here(m, PF_FMU_INSTANCE, &theirs, &found->error);
        found->whole = true;
        _exit(0);
    }
    int code = 0;
    while (pid > 0 && waitpid(pid, &code, 0) < 0 && errno == EINTR) {
    }
    pf_status status = pid > 0 ? take_result(found, code, t, n_chan, error)
                               : pf_fail(error, PF_ERR_PLANT, "no process can be started");
    munmap(found, size);
    return status;
}

static pf_status run(pf_fmu_machine *m, pf_fmu_renewal renewal, const trajectory *t,
                     unsigned limit_s, pf_error *error)
{
    return renewal == PF_FMU_PROCESS ? run_apart(m, t, limit_s, error)
                                     : run_here(m, renewal, t, error);
}

pf_status pf__fmu_roll(pf_fmu_machine *m, const double *gains, const double *commands, int rows,
                       double *initial, double *output, pf_error *error)
{
    return run(m, m->renewal, &(trajectory){gains, commands, rows, initial, output}, 0, error);
}

// --- what renews it

enum { PROOF_ROWS = 24, PROOF_STEPS = 12, PROOF_MOST = 64, PROOF_S = 10 };

// Room for a proof: commands, and what processes of their own answered to a pulse of each input.
typedef struct proof {
    pf_fmu_machine *m;
    double *commands; // PROOF_ROWS x n_mech
    double *fresh;    // n_mech answers of (1 + PROOF_ROWS) x n_chan
    double *again;    // one
    size_t size;      // numbers of one
} proof;

// A pulse of input j, `share` of a quarter of its range; 0 is silent.
static bool pulse(proof *p, pf_fmu_renewal renewal, int j, double share, double *answer)
{
    pf_fmu_machine *m = p->m;
    double range = pf__quarter_range(&(pf_mechanism){"", m->lo[j], m->hi[j]});
    double amplitude = isfinite(range) ? range : .25 * fmax(1, fabs(m->rest[j]));
    memset(p->commands, 0, sizeof(double) * PROOF_ROWS * (size_t)m->n_mech);
    for (int r = 0; r < PROOF_STEPS && j > 0; r++) {
        p->commands[r * m->n_mech + j] = share * amplitude;
    }
    trajectory t = {NULL, p->commands, PROOF_ROWS, answer, answer + m->n_chan};
    return run(m, renewal, &t, PROOF_S, NULL) == PF_OK;
}

// Whether a pulse after a silent run and after another pulse is that of a fresh process to the bit,
// for every input.
static bool proves(proof *p, pf_fmu_renewal renewal)
{
    int n = p->m->n_mech;
    bool equal = true;
    for (int j = 1; j < n && equal; j++) {
        int other = j + 1 < n ? j + 1 : 1;
        const double *fresh = p->fresh + (size_t)j * p->size;
        for (int after = 0; after < 2 && equal; after++) {
            equal = pulse(p, renewal, other, after == 0 ? 0 : .5, p->again) &&
                    pulse(p, renewal, j, 1, p->again) &&
                    memcmp(p->again, fresh, p->size * sizeof *fresh) == 0;
        }
    }
    pf__fmu_end(p->m->fmu);
    return equal;
}

static bool take_fresh(proof *p)
{
    for (int j = 1; j < p->m->n_mech; j++) {
        if (!pulse(p, PF_FMU_PROCESS, j, 1, p->fresh + (size_t)j * p->size)) {
            return false;
        }
    }
    return true;
}

static bool try_renewal(pf_fmu_machine *m, pf_fmu_renewal renewal)
{
    pf_arena arena = {0};
    proof p = {.m = m, .size = (size_t)(1 + PROOF_ROWS) * (size_t)m->n_chan};
    p.commands = pf__arena_take(&arena, PROOF_ROWS * (size_t)m->n_mech, sizeof(double));
    p.fresh = pf__arena_take(&arena, (size_t)m->n_mech * p.size, sizeof(double));
    p.again = pf__arena_take(&arena, p.size, sizeof(double));
    bool equal = !arena.failed && take_fresh(&p) && proves(&p, renewal);
    pf__arena_free(&arena);
    return equal;
}

typedef enum verdict { UNTRUE, TRUE, LATE } verdict;

// In a process of its own: an FMU may end or hang in functions that it only says it has. What does
// not say yes in time is no proof.
static verdict judge(pf_fmu_machine *m, pf_fmu_renewal renewal)
{
    enum { YES = 64, NO };
    pid_t pid = fork();
    if (pid == 0) {
        alarm(PROOF_S);
        _exit(try_renewal(m, renewal) ? YES : NO);
    }
    int code = 0;
    while (pid > 0 && waitpid(pid, &code, 0) < 0 && errno == EINTR) {
    }
    bool ended = pid > 0 && WIFEXITED(code), late = pid > 0 && WIFSIGNALED(code);
    return ended && WEXITSTATUS(code) == YES   ? TRUE
           : late && WTERMSIG(code) == SIGALRM ? LATE
                                               : UNTRUE;
}

// The cheapest one that is true. One that is late ends the search: to a slow FMU a process of its
// own is cheap.
static pf_fmu_renewal choose_renewal(pf_fmu_machine *m)
{
    static const pf_fmu_renewal order[] = {PF_FMU_STATE, PF_FMU_RESET, PF_FMU_INSTANCE,
                                           PF_FMU_LIBRARY};
    verdict found = m->n_mech - 1 <= PROOF_MOST ? UNTRUE : LATE;
    for (size_t i = 0; i < sizeof order / sizeof order[0] && found != LATE; i++) {
        found = order[i] != PF_FMU_STATE || m->model->has_state ? judge(m, order[i]) : UNTRUE;
        if (found == TRUE) {
            return order[i];
        }
    }
    return PF_FMU_PROCESS;
}

pf_status pf__fmu_machine_load(pf_fmu_machine *m, const char *folder, pf_error *error)
{
    pf_status status = pf__fmu_load(&m->fmu, m->model, folder, error);
    double *initial = status == PF_OK ? calloc((size_t)m->n_chan, sizeof *initial) : NULL;
    if (status == PF_OK && !initial) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory");
    }
    if (status == PF_OK) {
        m->renewal = choose_renewal(m);
        status = pf__fmu_roll(m, NULL, NULL, 0, initial, NULL, error);
    }
    free(initial);
    return status;
}

// --- its hello

static void add_limit(pf_text *out, const char *key, double value)
{
    if (isfinite(value)) {
        pf__json_add_number(out, key, value);
    }
}

static void add_mechanisms(const pf_fmu_machine *m, pf_text *out)
{
    char name[PF_NAME_MOST + 16], words[96];
    pf__json_open(out, "mechanisms", "[");
    pf__text_add(out, "{\"name\":\"none\",\"lo\":0,\"hi\":0,\"about\":\"moves nothing\"}");
    for (int i = 0, j = 1; i < m->model->inputs.n; i++) {
        const pf_fmu_variable *v = &m->model->inputs.list[i];
        for (int k = 0; k < v->n; k++, j++) {
            name_number(v, k, name, sizeof name);
            pf__text_add(out, ",{\"name\":");
            pf__json_string(out, name);
            add_limit(out, "lo", m->lo[j]);
            add_limit(out, "hi", m->hi[j]);
            pf__print(words, sizeof words, "rests at %g%s", m->rest[j],
                      isfinite(m->lo[j]) && isfinite(m->hi[j])
                          ? ""
                          : "; no limits: give `lo` and `hi` (--config)");
            pf__json_add_string(out, "about", words);
            pf__text_add(out, "}");
        }
    }
    pf__text_add(out, "]");
}

static void add_channels(const pf_fmu_machine *m, pf_text *out)
{
    char name[PF_NAME_MOST + 16];
    pf__json_open(out, "channels", "[");
    for (int i = 0; i < m->model->outputs.n; i++) {
        const pf_fmu_variable *v = &m->model->outputs.list[i];
        for (int k = 0; k < v->n; k++) {
            name_number(v, k, name, sizeof name);
            pf__json_comma(out);
            pf__json_string(out, name);
        }
    }
    pf__text_add(out, "]");
}

static void add_words(const pf_fmu_machine *m, pf_text *out)
{
    static const char *const renewals[] = {
        [PF_FMU_PROCESS] = "every trajectory has a process of its own",
        [PF_FMU_LIBRARY] = "every trajectory has an instance of its own, its library loaded anew",
        [PF_FMU_INSTANCE] = "every trajectory has an instance of its own",
        [PF_FMU_STATE] =
            "every trajectory begins with its saved state (tried: as in a fresh process)",
        [PF_FMU_RESET] = "every trajectory begins with a reset (tried: as in a fresh process)"};
    pf_text words = {0};
    pf__text_addf(&words, "%s", renewals[m->renewal]);
    if (m->model->inputs.others > 0) {
        pf__text_addf(&words, "; %s not commanded, not real",
                      pf__counted(m->model->inputs.others, "input").text);
    }
    if (m->model->outputs.others > 0) {
        pf__text_addf(&words, "; %s not read, not real",
                      pf__counted(m->model->outputs.others, "output").text);
    }
    pf__json_add_string(out, "about", words.data ? words.data : "");
    pf__text_free(&words);
}

void pf__fmu_hello(const pf_fmu_machine *m, const char *file, const char *sha256, pf_text *out)
{
    pf_text text = {0};
    pf__text_add(out, "{\"protocol\":1,\"name\":");
    pf__text_addf(&text, "fmu:%s", file);
    pf__json_string(out, text.data ? text.data : "fmu");
    pf__text_clear(&text);
    pf__text_addf(&text, "FMI %s %.16s", m->model->version, sha256);
    pf__json_add_string(out, "version", text.data);
    pf__text_clear(&text);
    pf__text_addf(&text, "FMU %s, %s%s", m->model->name,
                  m->model->tool ? "made by " : "tool not said",
                  m->model->tool ? m->model->tool : "");
    pf__json_add_string(out, "title", text.data);
    pf__text_free(&text);
    pf__json_add_number(out, "dt", m->step_s);
    pf__json_add_int(out, "state_size", 1); // every trajectory begins alike: it is 0
    pf__json_add_number(out, "sensor_noise", noise_share);
    pf__text_add(out, ",\"calm\":true,\"raw\":true");
    add_mechanisms(m, out);
    add_channels(m, out);
    add_words(m, out);
    pf__text_add(out, "}");
}
