// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "cli.h"

#include "calibrate/plan.h"
#include "host/file.h"
#include "host/page.h"
#include "plant/plant_impl.h"
#include "preflight/design.h"
#include "wire/protocol.h"
#include "wire/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The whole story for somebody who has never heard of the method, in three acts: a healthy machine,
// a loss that is corrected, a loss too deep. Every act is a real check.

typedef struct story {
    const char *name; // of the plant, as it was called
    pf_plant *plant;
    pf_plan *plan;
    void *bytes; // of the kit
    size_t n_bytes;
    pf_kit *kit;
    pf_flight *flight;
    double gain;   // of the loss that is corrected. NaN: one that is found
    int mechanism; // that is weak. 0: one that is found
    bool chosen;   // by --mechanism
    uint64_t seed;
    pf_text report; // one sheet per act. Empty: none is wanted
    const char *report_path;
} story;

// What an act is looked for with: losses in this order, until one comes out as it should.
typedef struct act {
    const char *title, *missing;
    double gains[4];
    int n_gains;
    bool (*fits)(const cli_check *c, int mechanism);
} act;

// --- the machine and its kit

// Group probes are designed on many runs. That takes a moment on a plant of ours and a minute on
// others, where one pulse per mechanism is tried first.
static bool is_ours(const pf_plant_info *info)
{
    for (int i = 0; i < pf_plant_count(); i++) {
        if (strcmp(pf_plant_at(i)->info.name, info->name) == 0) {
            return true;
        }
    }
    return false;
}

// As `calibrate` makes it, from fewer episodes.
static pf_status calibrate(story *s, const char *probes, const pf_effort *effort, pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(s->plant);
    const char *const settings[] = {"episodes=50", "alarm_trials=200", "sensor_noise=.25"};
    // without any noise every loss is seen at once, and there is nothing to show
    int n = info->deterministic && info->sensor_noise == 0 ? 3 : 2;
    pf_plan_destroy(s->plan);
    pf_status status = pf_plan_create(&s->plan, info, NULL, NULL, 0, settings, n, error);
    status =
        status ? status : pf_plan_choose_probes(s->plan, probes, s->plant, NULL, effort, error);
    return status ? status
                  : pf_calibrate(s->plan, s->plant, NULL, effort, &s->bytes, &s->n_bytes, error);
}

static pf_status make_kit(story *s, pf_error *error)
{
    cli_progress progress;
    pf_effort effort = cli_effort(&progress, 0);
    bool pulses = !is_ours(pf_plant_get_info(s->plant));
    pf_status status = pulses ? calibrate(s, "single", &effort, error) : PF_ERR_ARGUMENT;
    if (status != PF_OK && status != PF_ERR_INTERRUPTED) {
        status = calibrate(s, "designed", &effort, error);
    }
    cli_progress_end(&progress);
    status = status ? status : cli_kit_load(&s->kit, s->bytes, s->n_bytes, error);
    return status ? status : pf_flight_create(&s->flight, s->plant, s->kit, error);
}

static void tell_start(const story *s)
{
    const pf_plant_info *info = pf_plant_get_info(s->plant);
    pf_kit_info k = pf_kit_get_info(s->kit);
    pf_text text = {0};
    const pf_mechanism *now = &info->mechanisms[0]; // of a model file it moves nothing
    bool idle = now->lo == 0 && now->hi == 0;
    pf__text_addf(&text, "The plant %s: %s. Today's job %s%s, and the next job is not known yet. ",
                  s->name, info->title, idle ? "moves nothing" : "uses only ",
                  idle ? "" : now->name);
    pf__text_addf(&text,
                  k.n_mech == 2 ? "%s may have lost strength.\n"
                                : "Any of the other %s may have lost strength.\n",
                  k.n_mech == 2 ? info->mechanisms[1].name
                                : pf__counted(k.n_mech - 1, "mechanism").text);
    pf__text_addf(&text, "A quick kit was made on the simulator: %s, %s.\n",
                  pf__counted(k.n_probes, "probe").text, pf__counted(k.n_tasks, "task").text);
    cli_show(&text);
    pf__text_free(&text);
}

// --- what came out

static bool uses(const pf_kit *kit, int task, int mechanism)
{
    const int32_t *list = NULL;
    int n = pf_kit_task_mechanisms(kit, task, &list);
    for (int u = 0; u < n; u++) {
        if (list[u] == mechanism) {
            return true;
        }
    }
    return false;
}

static bool is_healthy(const cli_check *c, int mechanism)
{
    (void)mechanism;
    return pf__all_go(c->session, NULL);
}

// Every task that needs it is go, with more than its command.
static bool is_corrected(const cli_check *c, int mechanism)
{
    bool used = false, go = pf_session_mechanism(c->session, mechanism)->correction > 1.02;
    for (int t = 0; t < pf_kit_get_info(c->kit).n_tasks; t++) {
        if (uses(c->kit, t, mechanism)) {
            used = true;
            go = go && pf_session_task(c->session, t)->decision == PF_GO;
        }
    }
    return used && go;
}

static bool is_refused(const cli_check *c, int mechanism)
{
    for (int t = 0; t < pf_kit_get_info(c->kit).n_tasks; t++) {
        if (uses(c->kit, t, mechanism) && pf_session_task(c->session, t)->decision == PF_NO_GO) {
            return true;
        }
    }
    return false;
}

static const act acts[] = {
    {"A healthy machine", "a healthy machine is not go on every task", {1}, 1, is_healthy},
    {"A loss that is corrected",
     "no loss is found, corrected and go",
     {.5, .35, .7},
     3,
     is_corrected},
    {"A loss too deep", "no loss is too deep", {.1, .05, 0, .2}, 4, is_refused},
};
enum { ACTS = sizeof acts / sizeof acts[0], MOST_TRIES = 12 };

// --- one act

// What today's logs would show of a loss: the largest difference in twenty runs. NaN: not known.
static pf_status compare_logs(const story *s, const pf_fault *loss, double *largest,
                              pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(s->plant);
    size_t n = (size_t)s->plan->passive_rows * (size_t)info->n_chan;
    double *log = s->plan->passive ? calloc(2 * n + 1, sizeof *log) : NULL;
    pf_status status = PF_OK;
    *largest = log ? 0 : NAN;
    for (uint64_t run = 0; log && run < 20 && status == PF_OK; run++) {
        pf_roll roll = pf_roll_default();
        roll.key = pf_key_stream(s->seed, pf_plant_environment(info), run, PF_PURPOSE_CONTRACT, 0);
        roll.command = s->plan->passive;
        roll.rows = s->plan->passive_rows;
        roll.disturbance = true;
        roll.sensor_noise = 1;
        status = pf_plant_roll(s->plant, &roll, &(pf_trace){.output = log}, error);
        roll.faults = loss;
        roll.n_faults = 1;
        status =
            status ? status : pf_plant_roll(s->plant, &roll, &(pf_trace){.output = log + n}, error);
        for (size_t i = 0; i < n; i++) {
            *largest = fmax(*largest, fabs(log[i] - log[n + i]));
        }
    }
    free(log);
    return status;
}

static pf_status tell_secret(const story *s, int number, const cli_check *c, pf_text *out,
                             pf_error *error)
{
    const pf_fault *loss = c->faults;
    pf__text_addf(out, "\n# %d. %s\n", number, acts[number - 1].title);
    if (c->n_faults == 0) {
        pf__text_add(out, "In secret: nothing is wrong with it.\n");
        return PF_OK;
    }
    double largest = 0;
    pf_status status = compare_logs(s, loss, &largest, error);
    pf__text_addf(out, "In secret: %s delivers %.0f %% of its %s.",
                  pf_kit_mechanism_name(s->kit, loss->at), 100 * loss->value,
                  pf_kit_loses_force(s->kit, loss->at) ? "force" : "command");
    if (largest == 0) {
        pf__text_add(out, " Today's logs do not show it: twenty runs of this machine and of a "
                          "healthy one are equal to the last bit.");
    } else if (largest > 0) {
        pf__text_addf(out, " Today's logs differ from those of a healthy one by up to %.3g.",
                      largest);
    }
    pf__text_add(out, "\n");
    return status;
}

// A task flown on the machine, corrected or as it is.
static pf_status fly(const story *s, const cli_check *c, int task, bool corrected, double *ret,
                     pf_error *error)
{
    double corrections[PF_MECH_MAX];
    int n_mech = pf_kit_get_info(s->kit).n_mech;
    for (int j = 0; j < n_mech; j++) {
        corrections[j] = pf_session_mechanism(c->session, j)->correction;
    }
    pf_attempt attempt = {.task = task,
                          .key = pf_key_stream(s->seed,
                                               pf_plant_environment(pf_plant_get_info(s->plant)), 0,
                                               PF_PURPOSE_TASK, 0),
                          .corrections = corrected ? corrections : NULL,
                          .faults = c->faults,
                          .n_faults = c->n_faults};
    pf_flown flown = {0};
    pf_status status = pf_flight_start(s->flight, attempt.key, error);
    status = status ? status : pf_flight_fly(s->flight, &attempt, &flown, error);
    *ret = flown.ret;
    return status;
}

// What really happens: the tasks that need the weak mechanism are flown, whatever was decided; all
// tasks of a healthy machine.
static pf_status tell_flights(const story *s, const cli_check *c, pf_text *out, pf_error *error)
{
    pf_status status = PF_OK;
    double least = INFINITY;
    pf__text_add(out, "\n## What really happens when it is flown\n");
    for (int t = 0; t < pf_kit_get_info(s->kit).n_tasks && status == PF_OK; t++) {
        double with = 0, without = 0;
        if (c->n_faults > 0 && !uses(s->kit, t, c->faults->at)) {
            continue;
        }
        status = fly(s, c, t, true, &with, error);
        status = status ? status : fly(s, c, t, false, &without, error);
        least = fmin(least, with);
        if (c->n_faults > 0) {
            const pf_task_readiness *r = pf_session_task(c->session, t);
            pf__text_addf(out, "%s, %s: it returns %.3f with %s and %.3f without.\n",
                          pf_kit_task_name(s->kit, t), pf__shouted(r->decision), with,
                          r->decision == PF_NO_GO
                              ? "the correction that was not good enough to send"
                              : "its correction",
                          without);
        }
    }
    if (c->n_faults == 0) {
        pf__text_addf(out, "Every task returns at least %.3f.\n", least);
    }
    return status;
}

static pf_status tell_act(story *s, int number, const cli_check *c, bool found, int tries,
                          pf_error *error)
{
    pf_text text = {0};
    pf_status status = tell_secret(s, number, c, &text, error);
    if (!found) {
        pf__text_addf(&text, "This plant does not show it: %s.", acts[number - 1].missing);
        if (tries > 1) {
            pf__text_addf(&text, " %s were tried; this is the last.",
                          pf__counted(tries, "loss").text);
        }
        pf__text_add(&text, "\n");
    }
    pf__text_add(&text, "\n");
    cli_show(&text);
    pf__text_clear(&text);
    cli_check_show(c);
    status = status ? status : tell_flights(s, c, &text, error);
    cli_show(&text);
    pf__text_free(&text);
    return status == PF_OK && s->report_path ? cli_check_sheet(c, false, &s->report, error)
                                             : status;
}

// Tries losses until a check comes out as the act wants it, and tells that one, else the last.
static pf_status play(story *s, int number, pf_error *error)
{
    act a = acts[number - 1];
    int candidates = pf_kit_get_info(s->kit).n_mech - 1;
    if (a.fits == is_corrected && !isnan(s->gain)) {
        a.gains[0] = s->gain;
        a.n_gains = 1;
    }
    int each = s->chosen || a.fits == is_healthy ? 1 : candidates;
    int most = a.n_gains * each < MOST_TRIES ? a.n_gains * each : MOST_TRIES;
    for (int i = 0; i < most; i++) {
        // the mechanism of the act before comes first
        int first = s->mechanism > 0 ? s->mechanism - 1 : 0,
            j = 1 + (first + i % each) % candidates;
        pf_fault loss = {.kind = PF_FAULT_GAIN, .at = j, .value = a.gains[i / each]};
        cli_check c = {.image = s->bytes,
                       .n_image = s->n_bytes,
                       .kit = s->kit,
                       .machine = s->plant,
                       .faults = &loss,
                       .n_faults = loss.value < 1,
                       .log = {.fd = -1},
                       .seed = s->seed};
        pf_status status = cli_check_run(&c, error);
        bool found = status == PF_OK && a.fits(&c, j);
        if (status == PF_OK && (found || i + 1 == most)) {
            cli_check_finish(&c);
            status = tell_act(s, number, &c, found, i + 1, error);
        }
        cli_check_close(&c);
        if (status != PF_OK || found) {
            s->mechanism = loss.value < 1 ? j : s->mechanism;
            return status;
        }
    }
    return PF_OK;
}

// --- all of it

static int write_report(story *s)
{
    pf__page_close(&s->report);
    int status = cli_write("demo", s->report_path, &s->report);
    if (status == EXIT_YES) {
        pf_text text = {0};
        pf__text_addf(&text, "\nThe sheets of the %d checks are in %s.\n", ACTS, s->report_path);
        cli_show(&text);
        pf__text_free(&text);
    }
    return status;
}

static int tell_story(story *s)
{
    pf_error error = {PF_OK, ""};
    pf_status status = make_kit(s, &error);
    if (status == PF_OK) {
        pf__page_open(&s->report, "Three checks of ", s->name, false);
        tell_start(s);
    }
    for (int number = 1; number <= ACTS && status == PF_OK; number++) {
        status = play(s, number, &error);
    }
    if (status != PF_OK) {
        return cli_fail("demo", status, &error);
    }
    int exit_status = s->report_path ? write_report(s) : EXIT_YES;
    if (exit_status == EXIT_YES) {
        const char *quote = strchr(s->name, ' ') ? "'" : "";
        printf("\nNext: preflight calibrate %s%s%s -o my.kit && preflight check my.kit --fault "
               "%s:0.5\n",
               quote, s->name, quote,
               pf_kit_mechanism_name(s->kit, s->mechanism > 0 ? s->mechanism : 1));
    }
    return exit_status;
}

// --gain and --mechanism. False: printed.
static bool choose_loss(story *s, const char *gain, const char *mechanism)
{
    const pf_plant_info *info = pf_plant_get_info(s->plant);
    s->gain = gain && pf__is_decimal(gain, false) ? pf__number_read(gain, NULL) : NAN;
    if (gain && !(s->gain >= 0 && s->gain < 1)) {
        cli_usage("demo", "--gain: '%s' is no loss; say a number from 0 to below 1", gain);
        return false;
    }
    for (int j = 1; mechanism && j < info->n_mech; j++) {
        s->mechanism = strcmp(mechanism, info->mechanisms[j].name) == 0 ? j : s->mechanism;
    }
    s->chosen = s->mechanism > 0;
    if (mechanism && !s->chosen) {
        bool used = strcmp(mechanism, info->mechanisms[0].name) == 0;
        cli_usage("demo",
                  used ? "--mechanism %s: today's job uses it, so its loss would not be hidden"
                       : "--mechanism %s: the plant has none of that name; `preflight list faults "
                         "PLANT` names them",
                  mechanism);
        return false;
    }
    return true;
}

static int check_report(const char *path, const char *plant)
{
    pf_error error = {PF_OK, ""};
    pf_status status = path ? pf__file_writable(path, &error) : PF_OK;
    if (path && strcmp(path, "-") == 0) {
        return cli_usage("demo", "--report needs a file; standard output has the story");
    }
    if (status == PF_OK && path && !pf__protocol_supported()) {
        status = pf_fail(&error, PF_ERR_UNSUPPORTED,
                         "--report: this program was built without jansson; install "
                         "libjansson-dev and build again");
    }
    return status == PF_OK ? cli_spare_plant("demo", plant, NULL, 1, &(cli_file){"--report", path})
                           : cli_fail("demo", status, &error);
}

int cmd_demo(int argc, char **argv)
{
    const char *seed_text = NULL, *gain = NULL, *mechanism = NULL, *color = NULL;
    cli_list rest = {.n = 0};
    story s = {.name = "attitude"};
    const cli_option options[] = {{"--seed", .value = &seed_text},
                                  {"--gain", .value = &gain},
                                  {"--mechanism", .value = &mechanism},
                                  {"--report", .value = &s.report_path},
                                  {"--color", .value = &color}};
    if (!cli_parse("demo", argc, argv, options, 5, &rest)) {
        return EXIT_USAGE;
    }
    double seed = 7;
    if (rest.n > 1) {
        return cli_usage("demo", "name one plant at most");
    }
    if (!cli_seed("demo", seed_text, &seed) || !cli_color("demo", color)) {
        return EXIT_USAGE;
    }
    s.name = rest.n > 0 ? rest.item[0] : s.name;
    int exit_status = check_report(s.report_path, s.name);
    if (exit_status != EXIT_YES) {
        return exit_status;
    }
    pf_error error = {PF_OK, ""};
    s.seed = (uint64_t)seed;
    pf_status status = cli_plant_create(&s.plant, s.name, &error);
    if (status != PF_OK) {
        return cli_fail("demo", status, &error);
    }
    exit_status = choose_loss(&s, gain, mechanism) ? tell_story(&s) : EXIT_USAGE;
    pf_flight_destroy(s.flight);
    pf_plan_destroy(s.plan);
    pf_plant_destroy(s.plant);
    pf__text_free(&s.report);
    free(s.bytes);
    free(s.kit);
    return exit_status;
}
