// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"
#include "core/sha256.h"

#include "host/arena.h"
#include "host/file.h"
#include "preflight/run.h"
#include "wire/audit_file.h"
#include "wire/journal.h"
#include "wire/sheet.h"
#include "wire/reply.h"

#include <stdlib.h>
#include <string.h>

typedef struct call {
    const char *plant, *model, *seed, *method, *journal, *certificate, *report;
    cli_list fault, kit, accept;
    cli_accepted accepted;
    bool json;
} call;

// One check under way, with everything it writes.
typedef struct run {
    cli_kit *file;
    cli_faults faults;
    pf_plant *machine;
    pf_plant *twin;  // the kit's simulator, where the machine is another. NULL: not needed
    pf_model *model; // of a kit that predicts with one
    pf_check *check;
    pf_session *session;
    pf_witness witness;
    uint64_t seed;
    pf_text journal;
    const cli_accepted *accepted;
    const char *kit_path;
    bool quiet;
    const double *rehearsed; // the command of the rehearsal under way
    pf_observed *runs;       // what was seen, for the search of a likeness
    int n_runs;
    pf_arena arena;       // of the runs
    char looks_like[120]; // "": nothing that the catalogue knows
    char audit[256];      // what the kit was audited against
} run;

static void journal_event(run *r, const char *request, const pf_witness *witness,
                          const pf_text *reply)
{
    pf_text line = {0};
    pf__text_addf(&line, "{\"ok\":true");
    pf__text_add(&line, reply->size > 0 ? "," : "");
    pf__text_add(&line, reply->size > 0 ? reply->data : "");
    pf__text_add(&line, "}");
    pf__journal_entry(&r->journal, request, witness, line.data ? line.data : "");
    pf__text_add(&r->journal, "\n");
    pf__text_free(&line);
}

static const double *copied(run *r, size_t n, const double *values)
{
    double *copy = pf__arena_take(&r->arena, n, sizeof *copy);
    if (copy) {
        memcpy(copy, values, n * sizeof *copy);
    }
    return copy;
}

// Hooks of the drive: everything asked and told goes into the journal as serve would write it.
static void after_ask(void *self, const pf_ask *asked)
{
    run *r = self;
    pf_text reply = {0};
    if (asked->kind == PF_ASK_REHEARSAL && asked->command) {
        // the session plans its next rehearsal where this command stands
        size_t n = (size_t)asked->rows * (size_t)pf_kit_get_info(r->file->kit).n_mech;
        r->rehearsed = copied(r, n, asked->command);
    }
    pf__reply_ask(&reply, r->session, asked);
    journal_event(r, "{\"op\":\"ask\"}", NULL, &reply);
    pf__text_free(&reply);
}

static pf_predictor watch(void *self, const pf_predictor *inner, const pf_ask *asked)
{
    run *r = self;
    (void)asked;
    pf__witness_start(&r->witness, r->file->kit, inner, pf_session_get_state(r->session).per_gain);
    return pf__witness_predictor(&r->witness);
}

static void journal_tell(run *r, const pf_ask *asked, const pf_answer *answer)
{
    const pf_kit *kit = r->file->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    pf_text request = {0}, reply = {0};
    if (asked->kind == PF_ASK_REHEARSAL) {
        pf__text_add(&request, "{\"op\":\"tell\",\"rehearsal\":[");
        for (int i = 0; i < asked->n_tasks; i++) {
            pf__text_addf(&request, i ? ",%d" : "%d", (int)asked->tasks[i]);
        }
        pf__text_add(&request, "],\"response\":");
    } else {
        pf__text_addf(&request, "{\"op\":\"tell\",\"probe\":%d,\"response\":", asked->probe);
    }
    pf__json_matrix(&request, asked->rows, k.n_chan, answer->response);
    if (!k.recorded) {
        pf__json_key(&request, "state");
        pf__json_numbers(&request, k.n_state, answer->start);
    }
    pf__text_add(&request, "}");
    pf__reply_tell(&reply, r->session, asked->stage);
    journal_event(r, request.data ? request.data : "", &r->witness, &reply);
    pf__text_free(&request);
    pf__text_free(&reply);
}

// Who is blamed: the likeliest hypothesis, with several faults all that are rather changed.
static void print_blamed(const run *r)
{
    const pf_kit *kit = r->file->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    const double *belief = pf_session_belief(r->session);
    bool many = k.faults == PF_FAULTS_MANY, any = false;
    int likeliest = 0;
    for (int i = 1; i < k.n_mech; i++) {
        likeliest = belief[i] > belief[likeliest] ? i : likeliest;
        if (many && belief[i] > .5) {
            printf("%s%s", any ? "+" : "", pf_kit_mechanism_name(kit, i));
            any = true;
        }
    }
    if (!any) {
        printf("%s", likeliest && !many ? pf_kit_mechanism_name(kit, likeliest) : "nothing");
    }
}

// The reading that says most for a change.
static const pf_reading *strongest(const run *r)
{
    int n = 0;
    const pf_reading *all = pf_session_readings(r->session, &n), *most = all;
    for (int t = 1; t < n; t++) {
        most = all[t].ratio > most->ratio ? &all[t] : most;
    }
    return most;
}

static void print_rehearsal(const run *r, const pf_ask *asked)
{
    const pf_kit *kit = r->file->kit;
    bool passed = pf_session_rehearsed(r->session, NULL);
    printf("%3d  rehearsal", pf_session_get_state(r->session).told);
    if (asked->n_tasks > 1 && asked->n_tasks == pf_kit_get_info(kit).n_tasks) {
        printf("  all %d tasks", asked->n_tasks);
    } else {
        for (int i = 0; i < asked->n_tasks; i++) {
            printf("%s%s", i ? "+" : "  ", pf_kit_task_name(kit, asked->tasks[i]));
        }
    }
    printf("  %s\n", passed               ? "as predicted"
                     : asked->n_tasks > 1 ? "not as predicted: each alone"
                                          : "NOT as predicted");
}

static void print_tell(run *r, const pf_ask *asked)
{
    const pf_kit *kit = r->file->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    if (asked->kind == PF_ASK_REHEARSAL) {
        print_rehearsal(r, asked);
        return;
    }
    printf("%3d  stage %d  %-16s", pf_session_get_state(r->session).told, asked->stage,
           pf_kit_probe_name(kit, asked->probe));
    if (asked->stage == 2) {
        printf("  recovery\n");
        return;
    }
    const pf_reading *reading = strongest(r);
    if (pf_kit_probe_targets(kit, asked->probe, NULL) > 1) {
        printf("  %-12s", pf_kit_mechanism_name(kit, reading->mechanism));
    }
    if (!reading->plausible) {
        printf("  implausible: no machine of the model answers like this\n");
        return;
    }
    printf("  score %8.2f  category %d/%d  gate %-4s  P(change) %.4f  likeliest ", reading->score,
           reading->category + 1, k.n_bins, reading->gate ? "open" : "shut",
           pf_session_get_state(r->session).change);
    print_blamed(r);
    printf("%s\n", pf_session_get_state(r->session).alarm ? "  ALARM" : "");
}

// Keeps a run; where memory is short, or nothing could repeat it, it is left out.
static void keep_run(run *r, const pf_ask *asked, const pf_answer *answer)
{
    const pf_kit *kit = r->file->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    bool probe = asked->kind == PF_ASK_PROBE;
    bool loop = probe ? pf_kit_probe_policy(kit, asked->probe)[0] != 0 : !asked->command;
    if (k.recorded || k.starts_from_channels || loop) {
        return;
    }
    size_t rows = (size_t)asked->rows;
    const double *sent = probe ? pf_kit_probe_command(kit, asked->probe) : r->rehearsed;
    pf_observed *grown = realloc(r->runs, (size_t)(r->n_runs + 1) * sizeof *grown);
    if (!grown) {
        return;
    }
    r->runs = grown;
    grown[r->n_runs++] =
        (pf_observed){.probe = asked->probe,
                      .task = probe ? -1 : asked->tasks[0],
                      .rows = asked->rows,
                      .command = copied(r, rows * (size_t)k.n_mech, sent),
                      .start = copied(r, (size_t)k.n_state, answer->start),
                      .response = copied(r, rows * (size_t)k.n_chan, answer->response)};
}

static void after_tell(void *self, const pf_ask *asked, const pf_answer *answer)
{
    run *r = self;
    keep_run(r, asked, answer);
    journal_tell(r, asked, answer);
    if (!r->quiet) {
        print_tell(r, asked);
    }
}

// What the kit was audited against, or null; and a line that says so.
static void add_audit(run *r, const char *sha, pf_text *out)
{
    pf_text summary = {0};
    char line[240];
    char *path = pf__audit_path(r->kit_path);
    pf__text_add(&summary, "{");
    bool audited = path && pf__audit_summary(&summary, path, sha, r->machine,
                                             r->accepted->not_rehearsed, line, sizeof line);
    pf__text_add(&summary, "}");
    pf__json_key(out, "audit");
    pf__text_add(out, audited && summary.data ? summary.data : "null");
    snprintf(r->audit, sizeof r->audit, "%s",
             audited ? line : "not audited (`preflight audit` does it)");
    pf__text_free(&summary);
    free(path);
}

// readiness: the members that the journal has too.
static void certificate(run *r, const pf_text *readiness, pf_text *out)
{
    char sha[65];
    pf__sha256_text(pf_kit_get_info(r->file->kit).sha256, sha);
    pf__text_add(out, "{");
    pf__json_key(out, "kit");
    pf__json_string(out, sha);
    pf__json_key(out, "plant");
    pf__json_string(out, pf_plant_get_info(r->machine)->name);
    pf__json_key(out, "preflight");
    pf__json_string(out, PF_VERSION);
    pf__text_addf(out, ",\"seed\":%llu", (unsigned long long)r->seed);
    pf__json_key(out, "alpha");
    pf__json_number(out, pf_kit_get_info(r->file->kit).alpha);
    pf__json_key(out, "j_min");
    pf__json_number(out, pf_kit_get_info(r->file->kit).j_min);
    pf__json_key(out, "accepted");
    pf__text_addf(out, "[%s%s%s]", r->accepted->not_rehearsed ? "\"not-rehearsed\"" : "",
                  r->accepted->not_rehearsed && r->accepted->unseen_loss ? "," : "",
                  r->accepted->unseen_loss ? "\"unseen-loss\"" : "");
    pf__json_key(out, "rules");
    pf__json_string(out, pf_kit_get_info(r->file->kit).rules.field ? "field" : "paper");
    pf__json_key(out, "looks_like");
    if (r->looks_like[0]) {
        pf__json_string(out, r->looks_like);
    } else {
        pf__text_add(out, "null");
    }
    add_audit(r, sha, out);
    pf__text_add(out, ",");
    pf__text_add_n(out, readiness->data, readiness->size);
    pf__text_add(out, "}\n");
}

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

// What is odd about the responses, in words.
static void print_doubt(const run *r)
{
    pf_session_state state = pf_session_get_state(r->session);
    const char *channel =
        state.misfit_channel >= 0 ? pf_kit_channel_name(r->file->kit, state.misfit_channel) : NULL;
    printf("%s", cli_paint(CLI_YELLOW));
    if (state.misfit > 1) {
        printf("\nThe responses fit no machine of the model: %s%s speaks since run %d.\n",
               channel ? "channel " : "the mix of amplitudes", channel ? channel : "",
               state.misfit_look);
    } else if (state.implausible > 0) {
        printf("\n%d response%s such as no machine of the model gives.\n", state.implausible,
               state.implausible == 1 ? " was" : "s were");
    } else if (state.alarm && !state.explained) {
        printf("\nThe alarm sounded and nothing explains it.\n");
    }
    if (r->looks_like[0]) {
        printf("It looks like %s.\n", r->looks_like);
    }
    printf("%s", cli_paint(NULL));
}

static void print_end(const run *r, bool all)
{
    pf_session_state state = pf_session_get_state(r->session);
    bool conditions = all && !cli_all_go(r->session, NULL);
    int probes = state.told - state.rehearsals;
    print_doubt(r);
    printf("\n%s%s%s after %d probe%s and %d rehearsal%s, charge %.3g\n",
           cli_paint(all ? CLI_GREEN : CLI_RED),
           conditions ? "all ready under the accepted conditions"
           : all      ? "all ready"
                      : "not ready for every task",
           cli_paint(NULL), probes, plural(probes), state.rehearsals, plural(state.rehearsals),
           state.charge);
    printf("This kit was %s.\n", r->audit);
    if (!pf_kit_get_info(r->file->kit).rules.field) {
        printf(
            "%sThis kit has the paper's rules: nothing is rehearsed, and what fits no machine of "
            "the model is not noticed.%s\n",
            cli_paint(CLI_YELLOW), cli_paint(NULL));
    }
}

// Names the fault of the catalogue that explains what no gain explains.
static void find_likeness(run *r)
{
    pf_session_state state = pf_session_get_state(r->session);
    bool failed = state.misfit > 1 || state.implausible > 0;
    for (int t = 0; t < pf_kit_get_info(r->file->kit).n_tasks; t++) {
        failed = failed || pf_session_task(r->session, t)->why == PF_WHY_REHEARSAL;
    }
    pf_catalogue catalogue;
    pf_fault fault = {0};
    bool found = false;
    pf_plant *twin = r->twin ? r->twin : r->machine;
    if (!failed || r->arena.failed || r->n_runs == 0) {
        return;
    }
    // a likeness is a hint: where it cannot be had the verdict stands all the same
    if (pf__catalogue_read(&catalogue, NULL, NULL, 0, NULL) == PF_OK &&
        pf__looks_like(r->file->kit, twin, &catalogue, r->n_runs, r->runs, &fault, &found, NULL) ==
            PF_OK &&
        found) {
        pf_fault_text(&fault, pf_plant_get_info(twin), r->looks_like, sizeof r->looks_like);
    }
    pf__catalogue_free(&catalogue);
}

static int write_sheet(const run *r, const char *path, const pf_text *verdict)
{
    pf_text html = {0};
    pf_error error = {PF_OK, ""};
    bool whole = r->journal.data && verdict->data && !r->journal.failed && !verdict->failed;
    pf_status result =
        whole ? pf__sheet(r->journal.data, r->journal.size, verdict->data, &html, &error)
              : pf_fail(&error, PF_ERR_MEMORY, "out of memory for the sheet");
    int status = result == PF_OK ? cli_write("check", path, &html)
                                 : cli_fail_in("check", path, result, &error);
    pf__text_free(&html);
    return status;
}

static int report(run *r, const call *c)
{
    find_likeness(r);
    pf_text verdict = {0}, reply = {0};
    pf__reply_readiness(&reply, r->session);
    journal_event(r, "{\"op\":\"readiness\"}", NULL, &reply);
    certificate(r, &reply, &verdict);
    int status = EXIT_YES;
    if (c->journal) {
        status = cli_write("check", c->journal, &r->journal);
    }
    if (status == EXIT_YES && c->certificate) {
        status = cli_write("check", c->certificate, &verdict);
    }
    if (status == EXIT_YES && c->report) {
        status = write_sheet(r, c->report, &verdict);
    }
    if (status == EXIT_YES && c->json) {
        fputs(verdict.data ? verdict.data : "", stdout);
    } else if (status == EXIT_YES) {
        cli_print_readiness(r->session, &c->accepted);
    }
    bool all = cli_all_go(r->session, &c->accepted);
    if (status == EXIT_YES && !c->json) {
        print_end(r, all);
    }
    pf__text_free(&verdict);
    pf__text_free(&reply);
    return status != EXIT_YES ? status : all ? EXIT_YES : EXIT_NO;
}

// The machine is what --plant names, else the kit's own simulator. Another machine than that needs
// the simulator as a twin, where the kit predicts with one.
static pf_status open_plants(run *r, const call *c, pf_error *error)
{
    const pf_kit *kit = r->file->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    const char *own = pf_kit_get_string(kit, PF_KIT_PLANT);
    bool twin = !k.recorded && !k.starts_from_channels;
    pf_status status = cli_plant_for_kit(&r->machine, kit, c->plant, error);
    if (status == PF_OK && twin && strcmp(pf_plant_get_info(r->machine)->name, own) != 0) {
        status = cli_plant_for_kit(&r->twin, kit, NULL, error);
    }
    return status;
}

static bool open_model(run *r, const call *c, int *status)
{
    const pf_kit *kit = r->file->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    if (!c->model && k.starts_from_channels) {
        *status = cli_usage("check",
                            "%s predicts with a learned model; give its file with --model FILE "
                            "(sha256 %s)",
                            c->kit.item[0], pf_kit_get_string(kit, PF_KIT_MODEL));
        return false;
    }
    return cli_model_for_kit("check", kit, c->model, &r->model, status);
}

static pf_status start(run *r, const call *c, pf_error *error)
{
    const pf_kit *kit = r->file->kit;
    pf_check_config config = {.machine = r->machine,
                              .twin = r->twin,
                              .model = r->model,
                              .method = c->method,
                              .seed = r->seed,
                              .faults = r->faults.item,
                              .n_faults = r->faults.n};
    pf_status status = pf_check_create(&r->check, kit, &config, error);
    if (status == PF_OK) {
        r->session = pf_check_session(r->check);
        pf__journal_header(&r->journal, r->file->bytes, r->file->n_bytes,
                           pf_session_method(r->session)->id, r->seed);
        pf__text_add(&r->journal, "\n");
        pf_text hello = {0};
        pf__reply_hello(&hello, kit);
        journal_event(r, "{\"op\":\"hello\",\"protocol\":2}", NULL, &hello);
        pf__text_free(&hello);
    }
    return status;
}

// The check did not come to its end. What was observed until then is evidence all the same.
static int give_up(run *r, const call *c, pf_status result, const pf_error *error)
{
    if (!c->journal || r->journal.size == 0) {
        return cli_fail("check", result, error);
    }
    bool kept = cli_write("check", c->journal, &r->journal) == EXIT_YES;
    int status = EXIT_INTERRUPTED;
    if (result == PF_ERR_INTERRUPTED) {
        fprintf(stderr, "preflight check: interrupted\n");
    } else {
        status = cli_fail("check", result, error);
    }
    if (kept) {
        fprintf(stderr, "preflight check: the journal up to there is in %s\n", c->journal);
    }
    return status;
}

// Probes cost something: an output that cannot be written is found before the first.
static int check_outputs(const call *c)
{
    enum { OUTPUTS = 3 };
    const char *outputs[OUTPUTS] = {c->journal, c->certificate, c->report};
    static const char *const names[OUTPUTS] = {"--journal", "--certificate", "--report"};
    pf_error error = {PF_OK, ""};
    for (int i = 0; i < OUTPUTS; i++) {
        pf_status status = outputs[i] ? pf__file_writable(outputs[i], &error) : PF_OK;
        if (status != PF_OK) {
            return cli_fail("check", status, &error);
        }
        if (outputs[i] && pf__file_same(outputs[i], c->kit.item[0])) {
            return cli_usage("check", "%s would overwrite the kit", outputs[i]);
        }
        if (outputs[i] && c->model && pf__file_same(outputs[i], c->model)) {
            return cli_usage("check", "%s would overwrite the model", outputs[i]);
        }
    }
    for (int i = 0; i < OUTPUTS; i++) {
        for (int k = 0; k < i; k++) {
            if (outputs[i] && outputs[k] && pf__file_same(outputs[i], outputs[k])) {
                return cli_usage("check", "%s and %s name the same file", names[k], names[i]);
            }
        }
    }
    return EXIT_YES;
}

static int drive(run *r, const call *c)
{
    pf_error error = {PF_OK, ""};
    pf_status result = open_plants(r, c, &error);
    if (result == PF_OK && !cli_read_faults("check", &c->fault, pf_plant_get_info(r->machine),
                                            r->file->kit, &r->faults)) {
        return EXIT_USAGE;
    }
    result = result == PF_OK ? start(r, c, &error) : result;
    if (result == PF_OK) {
        pf_drive how = pf_drive_default();
        how.stop = &cli_interrupted;
        how.self = r;
        how.after_ask = after_ask;
        how.watch = watch;
        how.after_tell = after_tell;
        result = pf_check_run(r->check, &how, &error);
    }
    return result == PF_OK ? report(r, c) : give_up(r, c, result, &error);
}

static void close_run(run *r)
{
    pf_check_destroy(r->check);
    pf_model_destroy(r->model);
    pf_plant_destroy(r->twin);
    pf_plant_destroy(r->machine);
    pf__witness_free(&r->witness);
    pf__arena_free(&r->arena);
    free(r->runs);
    pf__text_free(&r->journal);
    cli_kit_close(r->file);
}

int cmd_check(int argc, char **argv)
{
    call c = {0};
    const cli_option options[] = {
        {"--plant", .value = &c.plant},     {"--fault", .list = &c.fault},
        {"--seed", .value = &c.seed},       {"--method", .value = &c.method},
        {"--journal", .value = &c.journal}, {"--certificate", .value = &c.certificate},
        {"--json", .flag = &c.json},        {"--model", .value = &c.model},
        {"--accept", .list = &c.accept},    {"--report", .value = &c.report},
    };
    if (!cli_parse("check", argc, argv, options, sizeof options / sizeof options[0], &c.kit)) {
        return EXIT_USAGE;
    }
    double seed = 0;
    if (c.kit.n != 1) {
        return cli_usage("check", "name one kit file");
    }
    if (!cli_seed("check", c.seed, &seed) || !cli_accept("check", &c.accept, &c.accepted)) {
        return EXIT_USAGE;
    }
    int status = check_outputs(&c);
    cli_kit file;
    if (status != EXIT_YES || !cli_kit_open("check", c.kit.item[0], &file, &status)) {
        return status;
    }
    run r = {.file = &file,
             .seed = (uint64_t)seed,
             .quiet = c.json,
             .accepted = &c.accepted,
             .kit_path = c.kit.item[0]};
    if (open_model(&r, &c, &status)) {
        status = drive(&r, &c);
    }
    close_run(&r);
    return status;
}
