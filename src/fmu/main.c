// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // getline, memfd
#include "machine.h"
#include "unpack.h"

#include "core/sha256.h"
#include "host/file.h"
#include "host/json.h"
#include "host/scratch.h"
#include "plant/plant_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

// preflight-fmu FILE [STEP]: an FMU behind the bridge protocol, which `fmu:FILE` runs. FMUs are
// native code that may print, hang, crash or exit. So it is two processes: one that unpacks the
// archive, waits and removes what was unpacked, and one that runs the FMU and speaks.

#define FMU_BYTES ((size_t)1 << 30)        // of the archive
#define UNPACKED_BYTES ((uint64_t)1 << 30) // and of what is in it
#define NUMBERS_MOST (1 << 22)             // of a trajectory, in and out

// Everything that is known before the FMU runs.
typedef struct host {
    const char *file; // its name without folders
    char sha256[65];
    pf_scratch scratch;
    pf_arena arena;
    pf_fmu_model model;
    pf_fmu_machine machine;
    FILE *in, *out;
} host;

// --- before the FMU runs

static pf_status no_platform(pf_fmu_zip *zip, const pf_fmu_model *model, pf_error *error)
{
    char there[120];
    pf__fmu_zip_platforms(zip, there, sizeof there);
    return pf_fail(
        error, PF_ERR_UNSUPPORTED,
        "it has no binaries/%s/%s.so, which runs here; %s%s; export it for this platform",
        pf__fmu_platform(model->major), model->identifier,
        there[0] ? "it has binaries for " : "it has no binaries", there);
}

static pf_status unpack(host *h, pf_fmu_zip *zip, double step_s, pf_error *error)
{
    void *xml = NULL;
    size_t size = 0;
    char library[512];
    pf_status status = pf__fmu_zip_read(zip, "modelDescription.xml", &xml, &size, error);
    status = status == PF_OK ? pf__fmu_describe(&h->model, xml, size, error) : status;
    free(xml);
    status = status == PF_OK ? pf__fmu_machine(&h->machine, &h->arena, &h->model, step_s, error)
                             : status;
    if (status != PF_OK) {
        return status;
    }
    const char *platform = pf__fmu_platform(h->model.major);
    snprintf(library, sizeof library, "binaries/%s/%s.so", platform, h->model.identifier);
    if (!pf__fmu_zip_has(zip, library)) {
        return no_platform(zip, &h->model, error);
    }
    status = pf__scratch_create(&h->scratch, error);
    return status == PF_OK ? pf__fmu_zip_unpack(zip, platform, h->scratch.path, error) : status;
}

static pf_status open_file(host *h, const char *path, const char *step, pf_error *error)
{
    void *data = NULL;
    size_t size = 0;
    char *end = NULL;
    double step_s = step ? pf__number_read(step, &end) : 0;
    pf_fmu_zip *zip = NULL;
    if (step && (end == step || *end || !(step_s > 0) || !(step_s < 1e9))) {
        return pf_fail(error, PF_ERR_ARGUMENT, "#%s is no control step in seconds", step);
    }
    pf_status status = pf__file_read(path, FMU_BYTES, &data, &size, error);
    if (status == PF_OK) {
        pf__sha256_of(data, size, h->sha256);
        status = pf__fmu_zip_open(&zip, data, size, UNPACKED_BYTES, error);
    }
    status = status == PF_OK ? unpack(h, zip, step_s, error) : status;
    pf__fmu_zip_close(zip);
    free(data);
    return status;
}

// --- the process that runs the FMU

static bool say(const host *h, const char *line, const double *values, size_t n)
{
    fputs(line, h->out);
    fputc('\n', h->out);
    if (n > 0) {
        fwrite(values, sizeof *values, n, h->out);
    }
    return fflush(h->out) == 0;
}

static bool say_error(const host *h, long long id, const pf_error *error)
{
    pf_text text = {0};
    char shown[sizeof error->text];
    pf__text_add(&text, "{");
    if (id >= 0) {
        pf__text_addf(&text, "\"id\":%lld,", id);
    }
    pf__text_add(&text, "\"error\":");
    // words of files, of the linker and of the FMU, in any encoding
    pf__json_string(&text, pf__text_shown(shown, sizeof shown, error->text, strlen(error->text)));
    pf__text_add(&text, pf__fmu_lost(h->machine.fmu) ? ",\"restart\":true}" : "}");
    bool said = say(h, text.data ? text.data : "{\"error\":\"out of memory\"}", NULL, 0);
    pf__text_free(&text);
    return said;
}

static bool answer_hello(const host *h)
{
    pf_text text = {0};
    pf__fmu_hello(&h->machine, h->file, h->sha256, &text);
    bool said = !text.failed && say(h, text.data, NULL, 0);
    pf__text_free(&text);
    return said;
}

// Reads n numbers that nothing is done with.
static bool skip(host *h, size_t n)
{
    double some[512];
    const size_t most = sizeof some / sizeof some[0];
    while (n > 0) {
        size_t part = n < most ? n : most;
        if (fread(some, sizeof *some, part, h->in) != part) {
            return false;
        }
        n -= part;
    }
    return true;
}

// A trajectory that there is no room for.
static bool refuse_roll(host *h, long long id, int rows, size_t n_in)
{
    const pf_fmu_machine *m = &h->machine;
    pf_error error = {PF_OK, ""};
    pf_fail(&error, PF_ERR_MEMORY,
            "%d rows of %d mechanisms and %d channels are too many: at most %d numbers, or what "
            "memory there is; ask for fewer rows",
            rows, m->n_mech, m->n_chan, NUMBERS_MOST);
    return skip(h, n_in) && say_error(h, id, &error);
}

// Reads what follows the line of a request, runs it and answers. False: there is nobody any more,
// or the FMU said "fatal", after which another process must go on.
static bool answer_roll(host *h, long long id, int rows)
{
    pf_fmu_machine *m = &h->machine;
    size_t n_in = (size_t)m->n_mech * ((size_t)rows + 1), n_chan = (size_t)m->n_chan;
    size_t n_out = n_chan * ((size_t)rows + 1);
    bool fits = rows <= NUMBERS_MOST / (m->n_chan + m->n_mech);
    double *in = fits ? malloc((n_in + n_out) * sizeof *in) : NULL, *out = in ? in + n_in : NULL;
    if (!in) {
        return refuse_roll(h, id, rows, n_in);
    }
    if (fread(in, sizeof *in, n_in, h->in) != n_in) {
        free(in);
        return false;
    }
    pf_error error = {PF_OK, ""};
    char line[96];
    bool said;
    if (pf__fmu_roll(m, in, in + m->n_mech, rows, out, out + n_chan, &error) == PF_OK) {
        snprintf(line, sizeof line, "{\"id\":%lld,\"start\":[0],\"rows\":%d%s}", id, rows,
                 pf__fmu_lost(m->fmu) ? ",\"restart\":true" : "");
        said = say(h, line, out, n_out);
    } else {
        said = say_error(h, id, &error);
    }
    free(in);
    return said && !pf__fmu_lost(m->fmu);
}

// One request. False: it is none of ours, or there is nobody any more.
static bool answer(host *h, const char *line, size_t size)
{
    json_error_t problem;
    json_t *request = pf__json_load(line, size, JSON_REJECT_DUPLICATES, &problem);
    const char *op = json_string_value(json_object_get(request, "op"));
    json_int_t id = json_integer_value(json_object_get(request, "id"));
    json_int_t rows = json_integer_value(json_object_get(request, "rows"));
    bool hello = op && strcmp(op, "hello") == 0, roll = op && strcmp(op, "roll") == 0;
    json_decref(request);
    if (hello) {
        return answer_hello(h);
    }
    return roll && rows >= 0 && rows <= PF_TRACE_MAX && answer_roll(h, id, (int)rows);
}

// Standard input and output are the FMU's to read and print to, and lead nowhere.
static bool move_streams(host *h)
{
    h->in = fdopen(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10), "r");
    h->out = fdopen(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10), "w");
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    return h->in && h->out && nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
           dup2(nothing, STDOUT_FILENO) >= 0 && setvbuf(h->out, NULL, _IOFBF, 1 << 20) == 0;
}

// Speaks until nobody listens. problem: why there is no machine.
static int serve(host *h, pf_error *problem)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    if (problem->code == PF_OK && chdir(h->scratch.path) == 0) { // what it writes is removed too
        pf__fmu_machine_load(&h->machine, h->scratch.path, problem);
    }
    if (problem->code != PF_OK) {
        n = getline(&line, &room, h->in);
        free(line);
        return n > 0 && say_error(h, -1, problem) ? 0 : 1;
    }
    while ((n = getline(&line, &room, h->in)) > 0 && answer(h, line, (size_t)n)) {
    }
    free(line);
    pf__fmu_end(h->machine.fmu);
    return n > 0;
}

// --- the process that waits

static volatile sig_atomic_t runner; // process to end

static void on_term(int number)
{
    (void)number;
    if (runner > 0) {
        kill(runner, SIGKILL);
    }
}

// Waits for the other process. Its number stays its own until nobody may signal it any more.
static int reap(pid_t pid)
{
    siginfo_t info;
    int code = 0;
    while (pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    }
    runner = 0;
    while (pid > 0 && waitpid(pid, &code, 0) < 0 && errno == EINTR) {
    }
    return code;
}

// Ends as the other process did, without a second core file.
static int end_as(int code)
{
    if (WIFSIGNALED(code)) {
        int number = WTERMSIG(code);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(number, SIG_DFL);
        raise(number);
    }
    return WIFEXITED(code) ? WEXITSTATUS(code) : 1;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "preflight-fmu is run by `preflight`, as in preflight list fmu:FILE.fmu\n");
        return 2;
    }
    host h = {.scratch = {.lock = -1}};
    pf_error problem = {PF_OK, ""};
    const char *slash = strrchr(argv[1], '/');
    h.file = slash ? slash + 1 : argv[1];
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    problem.code = open_file(&h, argv[1], argc > 2 ? argv[2] : NULL, &problem);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGTERM, SIG_DFL);
        // what the FMU leaves to be done at the end of a process is not waited for
        _exit(move_streams(&h) ? serve(&h, &problem) : 1);
    }
    runner = pid;
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    int code = reap(pid);
    pf__scratch_remove(&h.scratch);
    pf__fmu_model_free(&h.model);
    pf__arena_free(&h.arena);
    return pid > 0 ? end_as(code) : 1;
}
