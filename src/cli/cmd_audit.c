// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include "core/sha256.h"
#include "host/file.h"
#include "model/rollout.h"
#include "wire/audit_file.h"

#include <stdlib.h>
#include <string.h>

typedef struct call {
    const char *catalogue, *plant, *model, *seed, *sessions, *output, *progress, *threads;
    cli_list kit;
    cli_trust trust;
    bool json, rules, replace;
    bool mixed;
    double n_threads;
    cli_form form;   // of progress
    pf_ranks *ranks; // Nullable
} call;

// One audit under way.
typedef struct run {
    pf_audit audit;
    bool *known;
    pf_audit_result *results;
    const char *path; // of the file that it keeps
    cli_progress progress;
    const call *c;
    bool headed; // the table has begun
} run;

static void print_head(void)
{
    printf("%-28s %5s %6s %6s %6s %6s %7s %8s %9s %7s %12s\n", "the machine has", "runs", "alarm",
           "named", "all go", "go", "<bound", "false go", "upper 95%", "misfit", "unrehearsed");
}

static void print_result(const pf_audit_result *r, bool rules)
{
    if (!r->covered) {
        printf("%-28s %s: %s\n", r->name, r->broke ? "the machine failed" : "not covered", r->why);
        return;
    }
    double n = r->sessions;
    bool bad = r->with.false_go > 0;
    printf("%s%-28s %5.1f %6.2f %6.2f %6.2f %6.2f %7d %8d %9.3f %7.2f %12d%s\n",
           cli_paint(bad ? CLI_YELLOW : ""), r->name, (r->probes + r->rehearsals) / n, r->alarm / n,
           r->named / n, r->with.all_go / n, r->with.go / (n * r->tasks), r->with.below_bound,
           r->with.false_go, pf__audit_upper(r->with.false_go, r->sessions), r->misfit / n,
           r->without.false_go, cli_paint(NULL));
    for (int rule = 0; rule < PF_RULES && rules; rule++) {
        const pf_audit_count *one = &r->rules[rule];
        printf("  %-26s %5.1f %6s %6s %6.2f %6.2f %7s %8d %9.3f\n", pf__rule_name(rule),
               r->rule_runs[rule] / n, "", "", one->all_go / n, one->go / (n * r->tasks), "",
               one->false_go, pf__audit_upper(one->false_go, r->sessions));
    }
}

// A line of the table, which begins with the first one: what is refused before has none.
static void show(run *r, const pf_audit_result *result)
{
    cli_progress_end(&r->progress);
    if (!r->headed) {
        print_head();
        r->headed = true;
    }
    print_result(result, r->c->rules);
}

// What was found stands in the file before the next entry begins.
static pf_status keep(void *self, int entry, const pf_audit_result *result, pf_error *error)
{
    run *r = self;
    pf_text text = {0};
    r->known[entry] = true;
    pf__audit_json(&text, &r->audit, r->known, r->results);
    pf_status status = text.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for an audit")
                                   : pf__file_write(r->path, text.data, text.size, error);
    pf__text_free(&text);
    if (status == PF_OK && !r->c->json) {
        show(r, result);
        fflush(stdout);
    }
    return status;
}

static int finish(const run *r)
{
    int false_go = 0, covered = 0, promised = 0, broke = 0;
    for (int e = 0; e < r->audit.catalogue->n; e++) {
        const pf_audit_result *one = &r->results[e];
        covered += one->covered;
        promised += one->covered && one->promised;
        broke += one->broke;
        false_go += one->covered && one->promised ? one->with.false_go : 0;
    }
    if (r->c->json) {
        pf_text text = {0};
        pf__audit_json(&text, &r->audit, r->known, r->results);
        cli_print(&text);
        pf__text_free(&text);
    } else {
        printf("\n%d of %s, %s each. %s with a false go among %s. Kept in %s\n", covered,
               pf__counted(r->audit.catalogue->n, "entry").text,
               pf__counted(r->audit.sessions, "session").text,
               pf__counted(false_go, "session").text, pf__counted(promised, "promised entry").text,
               r->path);
    }
    if (broke > 0 || promised == 0) {
        fprintf(stderr,
                broke > 0 ? "preflight audit: the machine failed under %s; nothing is "
                            "known of what it does\n"
                          : "preflight audit: no entry that is promised could be tested\n",
                pf__counted(broke, "entry").text);
    }
    return false_go == 0 && broke == 0 && promised > 0 ? EXIT_YES : EXIT_NO;
}

// The bytes of the audit that this one goes on from, NULL: there is none. --replace does without
// one that is damaged or that nobody of --trust signed.
static pf_status read_earlier(const run *r, char **text, size_t *n, pf_error *error)
{
    pf_status status = cli_audit_keepable(r->path, error);
    status = status ? status : cli_audit_read(&r->c->trust, r->path, text, n, error);
    bool empty = status == PF_OK && *n == 0; // nothing was kept in it yet
    if (status == PF_OK && !empty && pf__audit_damaged(*text, *n)) {
        status = pf_fail(error, PF_ERR_FORMAT, "%s: " PF_AUDIT_DAMAGED, r->path);
    }
    bool refused = status == PF_ERR_FORMAT || status == PF_ERR_MISMATCH;
    if (empty || refused) {
        free(*text);
        *text = NULL;
        *n = 0;
    }
    return refused && r->c->replace ? PF_OK : status;
}

// What the earlier audit knows is taken over and shown.
static pf_status take_over(run *r, const char *text, size_t n, pf_error *error)
{
    int taken = 0;
    pf_status status = pf__audit_resume(text, n, &r->audit, r->known, r->results, &taken, error);
    for (int e = 0; e < r->audit.catalogue->n && !r->c->json; e++) {
        if (r->known[e]) {
            show(r, &r->results[e]);
        }
    }
    return status;
}

// From the earlier audit to the end of this one.
static int go_on(run *r, const char *text, size_t n)
{
    pf_error error = {PF_OK, ""};
    size_t entries = (size_t)r->audit.catalogue->n;
    r->known = calloc(entries, sizeof *r->known);
    r->results = calloc(entries, sizeof *r->results);
    pf_status status = r->known && r->results
                           ? take_over(r, text, n, &error)
                           : pf_fail(&error, PF_ERR_MEMORY, "out of memory for an audit");
    if (status == PF_OK) {
        status = pf__audit_run(&r->audit, r->known, r->results, &error);
    }
    cli_progress_end(&r->progress);
    if (status == PF_ERR_INTERRUPTED) {
        fprintf(stderr, "preflight audit: interrupted; %sthe same command goes on from %s\n",
                r->c->trust.signers ? "once it is signed, " : "", r->path);
        return EXIT_INTERRUPTED;
    }
    return status == PF_OK ? finish(r) : cli_fail("audit", status, &error);
}

static int work(run *r)
{
    pf_error error = {PF_OK, ""};
    char *text = NULL, what[200] = "";
    size_t n = 0;
    pf_status status = read_earlier(r, &text, &n, &error);
    bool instead = status == PF_ERR_FORMAT || status == PF_ERR_MISMATCH;
    if (status == PF_OK && !r->c->replace) {
        status = pf__audit_would_lose(text, n, &r->audit, what, sizeof what, &error);
    }
    int result = status != PF_OK ? cli_fail("audit", status, &error)
                 : what[0]       ? cli_usage("audit",
                                             "%s keeps %s; keep this one elsewhere with -o FILE, or "
                                                   "say --replace",
                                             r->path, what)
                                 : go_on(r, text, n);
    if (instead) {
        cli_say("audit", "an audit goes on from a file that is there; keep this one elsewhere with "
                         "-o FILE, or say --replace");
    }
    free(text);
    return result;
}

// All that decides the result must be the same on all ranks.
static pf_status meet(const call *c, const cli_kit *file, const pf_audit *audit, pf_error *error)
{
    char machine[PF_MACHINE_NAME], sha[65], numbers[96];
    const pf_plant_info *info = pf_plant_get_info(audit->plant);
    pf_text key = {0};
    pf__machine_name(machine);
    pf__sha256_of(file->bytes, file->n_bytes, sha);
    snprintf(numbers, sizeof numbers, "%d %llu %d", audit->sessions,
             (unsigned long long)audit->seed, (int)audit->rules);
    cli_key_add(&key, "kit", sha);
    cli_key_add(&key, "catalogue", audit->catalogue->sha256);
    cli_key_add(&key, "numbers", numbers);
    cli_key_add(&key, "model", audit->model ? pf_model_get_info(audit->model)->sha256 : "");
    cli_key_add(&key, "plant", pf_plant_environment(info));
    cli_key_add(&key, "source", info->source);
    pf_meeting meeting = {"the audit", key.data, machine};
    pf_status status = key.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory")
                                  : pf__ranks_meet(c->ranks, &meeting, error);
    pf__text_free(&key);
    return status;
}

// A rank that flies sessions: whatever it fails with, rank 0 says it.
static int help(const call *c, const cli_kit *file, const pf_audit *audit)
{
    pf_error error = {PF_OK, ""};
    pf_status status = meet(c, file, audit, &error);
    if (status == PF_OK) {
        cli_ranks_begin();
        status = pf__audit_run(audit, NULL, NULL, &error);
        cli_ranks_end();
    }
    // rank 0 knows what work failed with; what failed before goes with the end
    return status == PF_OK ? EXIT_YES : cli_fail("audit", status, &error);
}

static int work_or_help(run *r, const cli_kit *file)
{
    pf_error error = {PF_OK, ""};
    if (pf__ranks_worker(r->c->ranks)) {
        return help(r->c, file, &r->audit);
    }
    pf_status status = pf__ranks_many(r->c->ranks) ? meet(r->c, file, &r->audit, &error) : PF_OK;
    return status == PF_OK ? work(r) : cli_fail("audit", status, &error);
}

static bool read_catalogue(const call *c, pf_catalogue *catalogue, int *status)
{
    pf_error error = {PF_OK, ""};
    void *text = NULL;
    size_t n = 0;
    pf_status result = c->catalogue ? pf__file_read_until(c->catalogue, (size_t)1 << 20,
                                                          &cli_interrupted, &text, &n, &error)
                                    : PF_OK;
    if (result == PF_OK) {
        result = pf__catalogue_read(catalogue, c->catalogue, text, n, &error);
    }
    free(text);
    if (result != PF_OK) {
        *status = cli_fail("audit", result, &error);
    }
    return result == PF_OK;
}

static int with_kit(const call *c, const cli_kit *file, const pf_catalogue *catalogue,
                    double sessions, double seed)
{
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    pf_model *model = NULL;
    int status = EXIT_YES;
    pf_kit_info k = pf_kit_get_info(file->kit);
    if (k.recorded && !c->plant) {
        return cli_usage("audit",
                         "%s was made from recordings; name a simulated machine with "
                         "--plant",
                         c->kit.item[0]);
    }
    if (!k.rules.field) {
        return cli_usage("audit", "%s has the paper's rules; an audit is about a field kit",
                         c->kit.item[0]);
    }
    if (!c->model && k.starts_from_channels) {
        return cli_usage("audit", "%s predicts with a learned model; give its file with --model",
                         c->kit.item[0]);
    }
    pf_status result = cli_plant_for_kit(&plant, file->kit, c->plant, &c->trust, &error);
    if (result != PF_OK) {
        return cli_fail("audit", result, &error);
    }
    if (!cli_model_for_kit("audit", file->kit, c->model, &model, &status)) {
        pf_plant_destroy(plant);
        return status;
    }
    pf_effort effort;
    char *path = c->output ? NULL : pf__audit_path(c->kit.item[0]);
    run r = {.audit = {.kit = file->kit,
                       .plant = plant,
                       .model = model,
                       .catalogue = catalogue,
                       .sessions = (int)sessions,
                       .seed = (uint64_t)seed,
                       .rules = c->rules,
                       .effort = &effort,
                       .ranks = c->ranks,
                       .done = keep,
                       .self = &r},
             .path = c->output ? c->output : path,
             .c = c};
    enum { FEW = 20 };
    effort = cli_effort(&r.progress, (int)c->n_threads);
    r.progress.form = c->form;
    r.progress.main = r.progress.job = "audit";
    r.progress.shorter.share = FEW / sessions;
    snprintf(r.progress.shorter.option, sizeof r.progress.shorter.option, "--sessions %d", FEW);
    status = r.path ? work_or_help(&r, file) : EXIT_INTERNAL;
    free(r.known);
    free(r.results);
    free(path);
    pf_model_destroy(model);
    pf_plant_destroy(plant);
    return status;
}

int cmd_audit(int argc, char **argv)
{
    call c = {0};
    const cli_option options[] = {
        {"--catalogue", .value = &c.catalogue},
        {"--sessions", .value = &c.sessions},
        {"--plant", .value = &c.plant},
        {"--model", .value = &c.model},
        {"--seed", .value = &c.seed},
        {"--threads", .value = &c.threads},
        {"-o", .value = &c.output},
        {"--json", .flag = &c.json},
        {"--mixed", .flag = &c.mixed},
        {"--rules", .flag = &c.rules},
        {"--replace", .flag = &c.replace},
        {"--progress", .value = &c.progress},
        {"--trust", .value = &c.trust.signers},
        {"--allow-exec", .flag = &c.trust.allow_exec},
    };
    int status = EXIT_YES;
    if (!cli_ranks_open("audit", &c.ranks, &status)) {
        return status;
    }
    if (!cli_parse("audit", argc, argv, options, sizeof options / sizeof options[0], &c.kit)) {
        return EXIT_USAGE;
    }
    cli_ranks_mixed(c.mixed);
    double seed = 0, sessions = 60;
    if (c.kit.n != 1) {
        return cli_usage("audit", "name one kit file");
    }
    if (!cli_seed("audit", c.seed, &seed) || !cli_threads("audit", c.threads, &c.n_threads) ||
        !cli_progress_form("audit", c.progress, &c.form)) {
        return EXIT_USAGE;
    }
    if (c.sessions && !cli_integer("audit", "--sessions", c.sessions, 1, 1e6, &sessions)) {
        return EXIT_USAGE;
    }
    if (c.output && strcmp(c.output, "-") == 0) {
        return cli_usage("audit", "-o needs a file, which keeps the result; --json prints it");
    }
    const cli_file inputs[] = {{"an input, the kit", c.kit.item[0]},
                               {"an input, the catalogue", c.catalogue},
                               {"an input, the model", c.model}};
    status = cli_outputs("audit", 3, inputs, 1, &(cli_file){"-o", c.output});
    cli_kit file;
    pf_catalogue catalogue;
    if (status != EXIT_YES || !cli_kit_open("audit", c.kit.item[0], &c.trust, &file, &status)) {
        return status;
    }
    status = cli_spare_plant("audit", pf_kit_get_string(file.kit, PF_KIT_PLANT),
                             pf_kit_folder(file.kit), 1, &(cli_file){"-o", c.output});
    if (status == EXIT_YES && read_catalogue(&c, &catalogue, &status)) {
        status = with_kit(&c, &file, &catalogue, sessions, seed);
        pf__catalogue_free(&catalogue);
    }
    cli_kit_close(&file);
    return status;
}
