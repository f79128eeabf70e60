// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"
#include "design/search.h"
#include "plant/plant_impl.h"

#include "preflight/design.h"
#include "preflight/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The whole story for somebody who has never heard of the method.

typedef struct story {
    pf_plant *plant;
    void *bytes; // of the kit
    size_t n_bytes;
    pf_kit *kit;
    pf_check *check;
    pf_session *session; // of the check
    cli_faults faults;   // in secret
    int chapter;         // of the story
    bool recovering, told_severity;
    int told_before; // probes of the session before this one
    uint64_t seed;
} story;

static void heading(story *s, const char *text)
{
    printf("\n%s%d. %s%s\n", cli_paint(CLI_BOLD), ++s->chapter, text, cli_paint(NULL));
}

// A bar of at most 24 cells for a probability.
static void bar(double p, const char *colour)
{
    int cells = (int)lround(24 * p);
    printf("%s", cli_paint(colour));
    for (int i = 0; i < 24; i++) {
        fputs(i < cells ? "#" : i == 0 && p > .005 ? "." : " ", stdout);
    }
    printf("%s", cli_paint(NULL));
}

// A kit with the single pulses, or with group probes and the pulses beside them.
static pf_status calibrate(story *s, bool groups, pf_error *error)
{
    pf_plan *plan = NULL;
    cli_progress progress;
    pf_effort effort = cli_effort(&progress, 0);
    pf_status status =
        pf_plan_create(&plan, pf_plant_get_info(s->plant), NULL, NULL, 0, NULL, 0, error);
    if (status == PF_OK && groups) {
        status = pf__plan_design(plan, NULL, s->plant, NULL, &effort, error);
    }
    if (status == PF_OK) {
        free(s->bytes);
        free(s->kit);
        s->bytes = NULL;
        s->kit = NULL;
        status = pf_calibrate(plan, s->plant, NULL, &effort, &s->bytes, &s->n_bytes, error);
    }
    cli_progress_end(&progress);
    pf_plan_destroy(plan);
    return status == PF_OK ? cli_kit_load(&s->kit, s->bytes, s->n_bytes, error) : status;
}

// Twenty passive runs, healthy and weak, compared bit by bit.
static pf_status show_passive(story *s, pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(s->plant);
    double command[8 * 8], one[8 * 6], other[8 * 6], largest = 0;
    pf__pulse_command(info->probe, info->n_mech, 0, command);
    for (int run = 0; run < 20; run++) {
        pf_roll roll = pf_roll_default();
        roll.key = pf_key_stream(s->seed, pf_plant_environment(info), (uint64_t)run,
                                 PF_PURPOSE_CONTRACT, 0);
        roll.command = command;
        roll.rows = info->probe->rows;
        roll.disturbance = true;
        roll.sensor_noise = 1;
        pf_status status = pf_plant_roll(s->plant, &roll, &(pf_trace){.output = one}, error);
        roll.faults = s->faults.item;
        roll.n_faults = s->faults.n;
        if (status == PF_OK) {
            status = pf_plant_roll(s->plant, &roll, &(pf_trace){.output = other}, error);
        }
        if (status == PF_OK) {
            status = pf_fault_sense(roll.faults, roll.n_faults, info, roll.key, NULL, roll.rows,
                                    other, error);
        }
        if (status != PF_OK) {
            return status;
        }
        for (int i = 0; i < roll.rows * info->n_chan; i++) {
            largest = fmax(largest, fabs(one[i] - other[i]));
        }
    }
    heading(s, "What the logs show");
    printf("Today's controller fires thruster 0 only. Twenty logged runs of this machine and of a\n"
           "healthy one, same disturbances and noise: largest difference in any sample %g.\n"
           "%s\n",
           largest,
           largest == 0 ? "Whatever is wrong with an idle thruster, the logs cannot show it."
                        : "This fault is not dormant: the logs hold it, if one looks.");
    return PF_OK;
}

static void print_belief(const story *s)
{
    const pf_kit *kit = s->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    const double *b = pf_session_belief(s->session);
    for (int i = 0; i < k.n_mech; i++) {
        printf("      %-12s %7.4f ", i ? pf_kit_mechanism_name(kit, i) : "nothing", b[i]);
        bar(b[i], i == 0 ? CLI_GREEN : CLI_YELLOW);
        printf("%s\n", i > 0 && pf_session_probed(s->session, i) ? " probed" : "");
    }
}

static void print_severity(const story *s, int mechanism)
{
    const pf_kit *kit = s->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    const double *phi =
        pf_session_severity(s->session) + (size_t)(mechanism - 1) * (size_t)k.n_grid;
    printf("      strength left in %s, if it is the one:\n", pf_kit_mechanism_name(kit, mechanism));
    for (int g = 0; g < k.n_grid; g++) {
        if (phi[g] > .005) {
            printf("      gain %.2f    %7.4f ", k.grid[g], phi[g]);
            bar(phi[g], CLI_YELLOW);
            printf("\n");
        }
    }
}

static void after_ask(void *self, const pf_ask *ask)
{
    story *s = self;
    if (ask->kind == PF_ASK_PROBE && ask->stage == 2 && !s->recovering) {
        heading(s, "How much is left: recovery probes");
        s->recovering = true;
    }
}

// What one target says.
static void print_reading(story *s, const char *what, const char *name, const pf_reading *r)
{
    printf("  %s %-12s matched score %7.2f: ", what, name, r->score);
    if (r->ratio > 1) {
        printf("%sas a weak one answers, %.0f to 1%s\n", cli_paint(CLI_YELLOW), r->ratio,
               cli_paint(NULL));
    } else if (r->ratio < 1) {
        printf("as a healthy one answers, %.0f to 1\n", 1 / r->ratio);
    } else {
        printf("says nothing, look again later\n");
    }
    if (!r->gate) {
        return;
    }
    printf("      evidence of a loss opens the gate for the amplitude: z = %.2f (0 healthy, 1 at a "
           "gain of %.2f)\n",
           r->coordinate, pf_kit_get_info(s->kit).g_cal);
    if (!s->told_severity) {
        print_belief(s);
        print_severity(s, r->mechanism);
        s->told_severity = true;
    }
}

static void after_tell(void *self, const pf_ask *ask, const pf_answer *answer)
{
    (void)answer;
    story *s = self;
    const pf_kit *kit = s->kit;
    if (ask->stage == 2) {
        pf_joint joint = pf_session_joint(s->session);
        const int32_t *targets = NULL;
        pf_kit_probe_targets(kit, ask->probe, &targets);
        int j = targets[0];
        double lo, hi;
        pf_joint_interval(&joint, j, &lo, &hi);
        pf_moments moments = pf_joint_moments(&joint, j);
        printf("  probe %-12s strength of %s: %.3f on average, 90 %% between %.2f and %.2f\n",
               pf_kit_probe_name(kit, ask->probe), pf_kit_mechanism_name(kit, j), moments.mean, lo,
               hi);
        return;
    }
    int n = 0;
    const pf_reading *r = pf_session_readings(s->session, &n);
    if (n > 1) {
        printf("  probe %s\n", pf_kit_probe_name(kit, ask->probe));
    }
    for (int t = 0; t < n; t++) {
        print_reading(s, n > 1 ? "     " : "probe", pf_kit_mechanism_name(kit, r[t].mechanism),
                      &r[t]);
    }
    if (pf_session_get_state(s->session).alarm &&
        pf_session_get_state(s->session).alarm_opportunity ==
            pf_session_get_state(s->session).opportunities - 1) {
        printf("      %sALARM%s: P(something changed) = %.3f is above %.3f. The rest is probed "
               "all the same.\n",
               cli_paint(CLI_RED), cli_paint(NULL), pf_session_get_state(s->session).change,
               pf_session_get_state(s->session).threshold);
    }
}

static pf_status drive(story *s, pf_error *error)
{
    pf_drive d = pf_drive_default();
    d.stop = &cli_interrupted;
    d.self = s;
    d.after_ask = after_ask;
    d.after_tell = after_tell;
    pf_status status = pf_check_run(s->check, &d, error);
    if (status == PF_OK) {
        printf("  belief after %d probes (charge %.2f):\n", pf_session_get_state(s->session).told,
               pf_session_get_state(s->session).charge);
        print_belief(s);
    }
    return status;
}

static pf_status probe_one_by_one(story *s, pf_error *error)
{
    heading(s, "Whether and where: pulses, one thruster at a time");
    printf(
        "Each probe pulses one idle thruster for %d steps. Its response is compared with what a\n"
        "healthy and a weakened thruster would give; the task-weighted risk picks the next.\n",
        pf_kit_probe_rows(s->kit, 0));
    return drive(s, error);
}

static pf_status start(story *s, pf_error *error)
{
    pf_check_config config = {
        .machine = s->plant, .seed = s->seed, .faults = s->faults.item, .n_faults = s->faults.n};
    pf_check_destroy(s->check);
    pf_status status = pf_check_create(&s->check, s->kit, &config, error);
    s->session = status == PF_OK ? pf_check_session(s->check) : NULL;
    return status;
}

// Which thrusters share a probe.
static void print_groups(const story *s)
{
    const pf_kit *kit = s->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    for (int q = 0; q < k.n_probes; q++) {
        const int32_t *targets = NULL;
        int n = pf_kit_probe_targets(kit, q, &targets);
        if (n == 1) {
            continue;
        }
        printf("  %s:", pf_kit_probe_name(kit, q));
        for (int t = 0; t < n; t++) {
            printf(" %s", pf_kit_mechanism_name(kit, targets[t]));
        }
        printf("\n");
    }
}

static pf_status probe_groups(story *s, pf_error *error)
{
    s->told_before = pf_session_get_state(s->session).told;
    pf_status status = calibrate(s, true, error);
    if (status == PF_OK) {
        status = start(s, error);
    }
    if (status != PF_OK) {
        return status;
    }
    heading(s, "The same day again with group probes");
    printf(
        "Several thrusters fire at once, in groups and patterns designed on the simulator so that "
        "every\none of them stands out from the others; same strength, same length:\n");
    print_groups(s);
    s->recovering = false;
    status = drive(s, error);
    if (status == PF_OK) {
        printf("  %d probes, against %d one by one.\n", pf_session_get_state(s->session).told,
               s->told_before);
    }
    return status;
}

// Whether the machine is what a kit is made for.
static bool losses_only(const story *s)
{
    for (int i = 0; i < s->faults.n; i++) {
        if (s->faults.item[i].kind != PF_FAULT_GAIN || s->faults.item[i].value > 1) {
            return false;
        }
    }
    return true;
}

// All tasks have the same disturbance; an intermittent fault draws for each.
static pf_key task_key(const story *s, int task)
{
    bool intermittent = false;
    for (int i = 0; i < s->faults.n; i++) {
        intermittent = intermittent || s->faults.item[i].kind == PF_FAULT_INTERMITTENT;
    }
    return pf_key_stream(s->seed, pf_plant_environment(pf_plant_get_info(s->plant)), 0,
                         PF_PURPOSE_TASK, intermittent ? (uint64_t)task : 0);
}

// Every task flown with the correction and without, whatever was decided.
static pf_status fly(story *s, pf_flight *flight, pf_error *error)
{
    const pf_kit *kit = s->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    double corrections[PF_MECH_MAX];
    heading(s, "What really happens when each task is flown");
    printf("%-12s %-8s %12s %12s %12s\n", "task", "verdict", "promised >=", "corrected",
           "uncorrected");
    int broken = 0, saved = 0, stopped = 0;
    pf_key key = task_key(s, 0);
    for (int j = 0; j < k.n_mech; j++) {
        corrections[j] = pf_session_mechanism(s->session, j)->correction;
    }
    pf_status status = pf_flight_start(flight, key, error);
    for (int t = 0; t < k.n_tasks && status == PF_OK; t++) {
        const pf_task_readiness *r = pf_session_task(s->session, t);
        pf_attempt attempt = {.task = t,
                              .key = task_key(s, t),
                              .corrections = corrections,
                              .faults = s->faults.item,
                              .n_faults = s->faults.n};
        pf_flown corrected, plain;
        status = pf_flight_fly(flight, &attempt, &corrected, error);
        attempt.corrections = NULL;
        if (status == PF_OK) {
            status = pf_flight_fly(flight, &attempt, &plain, error);
        }
        if (status != PF_OK) {
            return status;
        }
        double with = corrected.ret, without = plain.ret;
        bool go = r->decision == PF_GO, fails = without < k.j_min;
        broken += go && with < r->lower;
        saved += go && fails && with >= k.j_min;
        stopped += !go && fails;
        printf("%-12s %s%-8s%s %12.3f %s%12.3f%s %s%12.3f%s\n", pf_kit_task_name(kit, t),
               cli_paint(go ? CLI_GREEN : CLI_RED), go ? "go" : "NO-GO", cli_paint(NULL), r->lower,
               cli_paint(with >= k.j_min ? CLI_GREEN : CLI_RED), with, cli_paint(NULL),
               cli_paint(fails ? CLI_RED : ""), without, cli_paint(NULL));
    }
    if (status != PF_OK) {
        return status;
    }
    printf("\nA return of 1 is perfect tracking, %.2f is required. ", k.j_min);
    if (saved > 0) {
        printf("Without the check %d task%s would have\nfailed; with the correction %s. ", saved,
               saved > 1 ? "s" : "", saved > 1 ? "they succeed" : "it succeeds");
    }
    if (stopped > 0) {
        printf("%d task%s that would have failed %s stopped. ", stopped, stopped > 1 ? "s" : "",
               stopped > 1 ? "were" : "was");
    }
    printf("%s\n", !broken ? "Every promised bound was kept."
                   : losses_only(s)
                       ? "A promised bound was broken this time; it may be in 1 of 10."
                       : "A promised bound was broken; it holds for lost strength only.");
    printf(
        "\nNext: preflight calibrate attitude -o a.kit && preflight check a.kit --fault 3:0.35\n");
    return PF_OK;
}

static void tell_secret(const story *s)
{
    const pf_plant_info *info = pf_plant_get_info(s->plant);
    const pf_fault *f = s->faults.item;
    bool loss = s->faults.n == 1 && f->kind == PF_FAULT_GAIN && f->value < 1;
    printf("%sIn secret: ", cli_paint(CLI_DIM));
    if (loss) {
        printf("%s has only %.0f %% of its strength left.", info->mechanisms[f->at].name,
               100 * f->value);
    } else {
        printf("this machine %s", s->faults.n > 0 ? "has the fault " : "is healthy.");
    }
    for (int i = 0; i < s->faults.n && !loss; i++) {
        char text[80];
        pf_fault_text(&f[i], info, text, sizeof text);
        printf("%s%s%s", i > 0 ? " and " : "", text, i + 1 == s->faults.n ? "." : "");
    }
    printf("%s\n", cli_paint(NULL));
}

static pf_status tell_story(story *s, pf_error *error)
{
    printf(
        "A spacecraft with eight thrusters. Today's job uses one; the next job is not known yet.\n"
        "Any of the seven idle thrusters may have lost strength.\n");
    pf_status status = calibrate(s, false, error);
    if (status == PF_OK) {
        printf("Calibrated on a simulator beforehand: %d probes, %d tasks (a %zu-byte kit).\n",
               pf_kit_get_info(s->kit).n_probes, pf_kit_get_info(s->kit).n_tasks, s->n_bytes);
        tell_secret(s);
        status = show_passive(s, error);
    }
    if (status == PF_OK) {
        status = start(s, error);
    }
    if (status == PF_OK) {
        status = probe_one_by_one(s, error);
    }
    if (status == PF_OK) {
        status = probe_groups(s, error);
    }
    if (status == PF_OK) {
        heading(s, "The verdict for every task that may come");
        cli_print_readiness(s->session, NULL);
        pf_flight *flight = NULL;
        status = pf_flight_create(&flight, s->plant, s->kit, error);
        status = status ? status : fly(s, flight, error);
        pf_flight_destroy(flight);
    }
    return status;
}

// What is wrong in secret; the idle thrusters are what it is about. False: printed.
static bool choose_faults(story *s, cli_list *given)
{
    const pf_plant_info *info = pf_plant_get_info(s->plant);
    if (given->n == 0) {
        *given = (cli_list){.item = {"5:0.20"}, .n = 1};
    }
    if (given->n == 1 && strcmp(given->item[0], "none") == 0) {
        given->n = 0;
    }
    if (!cli_read_faults("demo", given, info, NULL, &s->faults)) {
        return false;
    }
    for (int i = 0; i < s->faults.n; i++) {
        const pf_fault *f = &s->faults.item[i];
        const pf_fault_info *kind = pf_fault_at((int)f->kind);
        if (kind && kind->place == PF_FAULT_ON_MECHANISM && f->at == 0) {
            cli_usage("demo", "--fault %s: thruster 0 is in use, its loss would not be hidden",
                      given->item[i]);
            return false;
        }
    }
    return true;
}

int cmd_demo(int argc, char **argv)
{
    const char *seed_text = NULL;
    cli_list rest = {.n = 0}, fault = {.n = 0};
    const cli_option options[] = {{"--fault", .list = &fault}, {"--seed", .value = &seed_text}};
    if (!cli_parse("demo", argc, argv, options, 2, &rest)) {
        return EXIT_USAGE;
    }
    double seed = 7;
    if (rest.n > 0) {
        return cli_usage("demo", "takes no arguments besides its options");
    }
    if (!cli_seed("demo", seed_text, &seed)) {
        return EXIT_USAGE;
    }
    pf_error error = {PF_OK, ""};
    story s = {.seed = (uint64_t)seed};
    pf_status status = pf_plant_create(&s.plant, "attitude", &error);
    if (status != PF_OK) {
        return cli_fail("demo", status, &error);
    }
    int exit_status = EXIT_USAGE;
    if (choose_faults(&s, &fault)) {
        status = tell_story(&s, &error);
        exit_status = status == PF_OK ? EXIT_YES : cli_fail("demo", status, &error);
    }
    pf_check_destroy(s.check);
    pf_plant_destroy(s.plant);
    free(s.bytes);
    free(s.kit);
    return exit_status;
}
