// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "core/certificate.h"
#include "core/rehearsal.h"
#include "core/session_impl.h"
#include "kit_fixture.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- the rule

// Every closed form again, for random numbers.
static void check_rule(void)
{
    pf_rng rng;
    pf_rng_init(&rng, 4);
    int passed = 0, failed = 0;
    for (int trial = 0; trial < 2000; trial++) {
        double mean = exp(3 * pf_rng_normal(&rng)), sd = mean * pf_rng_uniform(&rng) + 1e-9;
        double clean = mean + 3 * sd * pf_rng_uniform(&rng), least = exp(3 * pf_rng_normal(&rng));
        double cv = pf_rng_uniform(&rng), energy = exp(3 * pf_rng_normal(&rng));
        double j_min = pf_rng_uniform(&rng), theta = -log(j_min) < 10 ? -log(j_min) : 10;
        int n = 1 + (int)pf_rng_below(&rng, 50);
        double numbers[PF_REHEARSAL_NUMBERS];
        numbers[PF_REHEARSAL_MEAN] = mean;
        numbers[PF_REHEARSAL_SD] = sd;
        numbers[PF_REHEARSAL_CLEAN] = clean;
        numbers[PF_REHEARSAL_ENERGY] = least;
        numbers[PF_REHEARSAL_CV] = cv;
        // an audit may take a share off what it may miss
        double strictness = trial % 2 ? .5 * pf_rng_uniform(&rng) : 0;
        pf_kit kit = {.j_min = j_min, .rehearsal_strictness = strictness};
        pf__rehearsal_rule r = pf__rehearsal_rule_of(&kit, numbers, energy, n);
        double e = energy < least ? energy : least, limit = (1 - strictness) * theta * e;
        CHECK_NEAR(r.energy, e, 1e-12 * e);
        CHECK_NEAR(r.limit, limit, 1e-12 * limit);
        double at = limit, s = sqrt(sd * sd + 4 * at * mean / n + cv * cv * at * at);
        CHECK_NEAR(pf__rehearsal_spread(&r, at), s, 1e-12 * s);
        double free = clean - mean < limit ? clean - mean : limit;
        double most = limit - 2 * s > free ? limit - 2 * s : free;
        CHECK(pf__rehearsal_passes(&r, mean + most * .999999 - 1e-12));
        CHECK(!pf__rehearsal_passes(&r, mean + most * 1.000001 + 1e-9 * (mean + most)));
        CHECK(pf__rehearsal_clean(&r, clean) && !pf__rehearsal_clean(&r, clean * 1.0000001));
        double d = mean * 2 * pf_rng_uniform(&rng), x = d > mean ? d - mean : 0;
        s = sqrt(sd * sd + 4 * x * mean / n + cv * cv * x * x);
        CHECK_NEAR(pf__rehearsal_bound(&r, d), exp(-(x + 2 * s) / e), 1e-12);
        passed += pf__rehearsal_passes(&r, d);
        failed += !pf__rehearsal_passes(&r, d);
    }
    CHECK(passed > 100 && failed > 100);
}

// --- sessions on a machine made by hand: three open loops in one group, and a policy

enum { M = 3, MECH = M + 1, CHAN = 2, TASKS = M + 1, POLICY = M };

typedef struct stand {
    pf_fixture *f;
    pf_session *s;
    pf_rng rng;
    double gains[MECH]; // of the machine
    double run[MECH];   // what rehearsals show of them
    double off;         // added to every number of a rehearsal, in units of the return scale
    double jump;        // added to the first channel of a probe
    bool policy_fails;  // its run is far off
} stand;

static pf_fixture_config usual(void)
{
    pf_fixture_config c = pf_fixture_config_default();
    c.field = c.looks = c.misfit = true;
    c.rehearse = PF_REHEARSE_GROUP;
    c.m = c.targets = M;
    return c;
}

static void open_stand(stand *a, const pf_fixture_config *c)
{
    *a = (stand){.f = pf_fixture_create(c)};
    for (int j = 0; j < MECH; j++) {
        a->gains[j] = a->run[j] = 1;
    }
    pf_rng_init(&a->rng, 11);
    a->s = NULL;
}

// A session of its own after the kit was edited.
static void start(stand *a)
{
    CHECK(pf_kit_check(&a->f->kit, NULL) == PF_OK);
    a->s = pf_fixture_session(a->f, NULL, 1);
}

static void close_stand(stand *a)
{
    free(a->s);
    pf_fixture_free(a->f);
}

static void weaken(stand *a, int mechanism, double gain)
{
    a->gains[mechanism] = a->run[mechanism] = gain;
}

// Probes until something else is asked for.
static pf_ask probe(stand *a)
{
    pf_predictor predictor = pf_fixture_predictor(a->f);
    for (;;) {
        pf_ask ask = pf_session_ask(a->s);
        if (ask.kind != PF_ASK_PROBE) {
            return ask;
        }
        double y[16];
        pf_hypothesis truth = {ask.probe, 0, 1, a->gains};
        pf_fixture_response(a->f, &truth, a->f->config.noise, &a->rng, y);
        y[0] += a->jump;
        pf_tell tell = {.probe = ask.probe, .response = y, .rows = ask.rows, .channels = CHAN};
        if (!CHECK(pf_session_tell(a->s, &tell, &predictor, NULL) == PF_OK)) {
            exit(4);
        }
    }
}

// What the machine does in a rehearsal.
static void perform(stand *a, const pf_ask *ask, double *y)
{
    pf_run run = {
        .task = ask->tasks[0], .command = ask->command, .rows = ask->rows, .gains = a->run};
    pf_fixture_run(a->f, &run, ask->correction, a->f->config.noise, &a->rng, y);
    for (int i = 0; i < ask->rows * CHAN; i++) {
        double off = a->policy_fails && ask->tasks[0] == POLICY ? 100 : a->off;
        y[i] += off * a->f->kit.return_scale[i % CHAN];
    }
}

static pf_tell told(const pf_ask *ask, const double *y)
{
    return (pf_tell){.probe = ask->probe,
                     .response = y,
                     .rows = ask->rows,
                     .channels = CHAN,
                     .n_tasks = ask->n_tasks,
                     .tasks = ask->tasks};
}

// The rehearsal that was asked for, run and told; gives what is asked for next.
static pf_ask rehearse(stand *a)
{
    pf_ask ask = pf_session_ask(a->s);
    pf_predictor predictor = pf_fixture_predictor(a->f);
    double y[64];
    pf_error error = {PF_OK, ""};
    CHECK(ask.kind == PF_ASK_REHEARSAL && ask.stage == PF_STAGE_REHEARSE && ask.probe == -1);
    perform(a, &ask, y);
    pf_tell tell = told(&ask, y);
    if (!CHECK(pf_session_tell(a->s, &tell, &predictor, &error) == PF_OK)) {
        printf("    %s\n", error.text);
        exit(4);
    }
    return pf_session_ask(a->s);
}

static bool asks(const pf_ask *ask, int n, const int *tasks)
{
    bool same = ask->kind == PF_ASK_REHEARSAL && ask->n_tasks == n;
    for (int i = 0; same && i < n; i++) {
        same = ask->tasks[i] == tasks[i];
    }
    return same;
}

static const int all[] = {0, 1, 2}, one[][1] = {{0}, {1}, {2}, {3}};

static void verdict(stand *a, int task, pf_decision decision, pf_why why, pf_rehearsed rehearsed)
{
    pf_session_certify(a->s);
    const pf_task_readiness *r = pf_session_task(a->s, task);
    if (!CHECK(r->decision == decision && r->why == why && r->rehearsed == rehearsed)) {
        printf("    task %d: %s, %s, %s\n", task, pf_decision_name(r->decision),
               pf_why_name(r->why), pf_rehearsed_name(r->rehearsed));
    }
}

static void check_plain(void)
{
    stand a;
    pf_fixture_config c = usual();
    PF_CASE("a healthy machine: the group in one run, the policy alone, all go");
    open_stand(&a, &c);
    start(&a);
    pf_ask ask = probe(&a);
    CHECK(asks(&ask, 3, all) && ask.rows == 5 && ask.command && ask.correction);
    verdict(&a, 0, PF_GO_IF, PF_WHY_NOT_REHEARSED, PF_REHEARSED_NOT);
    double charge = pf_session_get_state(a.s).charge;
    int probes = pf_session_get_state(a.s).told;
    ask = rehearse(&a);
    CHECK(asks(&ask, 1, one[POLICY]) && ask.rows == 4 && !ask.command);
    CHECK_NEAR(pf_session_get_state(a.s).charge, charge + .05, 1e-12);
    verdict(&a, 1, PF_GO_IF, PF_WHY_NOT_REHEARSED, PF_REHEARSED_NOT); // nothing has rested yet
    verdict(&a, POLICY, PF_GO_IF, PF_WHY_NOT_REHEARSED, PF_REHEARSED_NOT);
    ask = rehearse(&a);
    CHECK(ask.kind == PF_ASK_DONE && ask.why == PF_DONE_READY);
    verdict(&a, 1, PF_GO, PF_WHY_CERTIFIED, PF_REHEARSED_GROUP);
    verdict(&a, POLICY, PF_GO, PF_WHY_CERTIFIED, PF_REHEARSED_APART);
    pf_session_state state = pf_session_get_state(a.s);
    CHECK(state.told == probes + 2 && state.rehearsals == 2);
    CHECK_NEAR(state.charge, charge + .09, 1e-12);
    close_stand(&a);
    PF_CASE("no verdict is there before it is asked for");
    open_stand(&a, &c);
    start(&a);
    probe(&a);
    for (int t = 0; t < TASKS; t++) {
        CHECK(pf_session_task(a.s, t)->decision == PF_NO_GO);
    }
    rehearse(&a);
    CHECK(pf_session_task(a.s, 0)->decision == PF_NO_GO);
    close_stand(&a);
    PF_CASE("each: no group");
    c.rehearse = PF_REHEARSE_EACH;
    open_stand(&a, &c);
    start(&a);
    ask = probe(&a);
    for (int t = 0; t < TASKS; t++) {
        CHECK(asks(&ask, 1, one[t]));
        ask = rehearse(&a);
    }
    CHECK(ask.kind == PF_ASK_DONE);
    verdict(&a, 2, PF_GO, PF_WHY_CERTIFIED, PF_REHEARSED_APART);
    close_stand(&a);
}

// The bound of a rehearsed task, again from what was seen.
static void check_bound(void)
{
    pf_fixture_config c = usual();
    c.rehearse = PF_REHEARSE_EACH;
    stand a;
    open_stand(&a, &c);
    weaken(&a, 2, .5);
    a.run[2] = .4; // less than the probes showed
    start(&a);
    pf_ask ask = probe(&a);
    const pf_kit *k = &a.f->kit;
    while (ask.kind == PF_ASK_REHEARSAL) {
        int task = ask.tasks[0];
        double y[64], asked[64], idle[64], still[64] = {0};
        pf_run nominal = {.task = task,
                          .command = ask.command ? pf_kit_task_command(k, task) : NULL};
        nominal.rows = ask.rows;
        pf_run rest = {.task = task, .command = still, .rows = ask.rows, .idle = true};
        pf_session_certify(a.s);
        double before = pf_session_task(a.s, task)->lower;
        perform(&a, &ask, y);
        pf_fixture_run(a.f, &nominal, NULL, 0, NULL, asked);
        pf_fixture_run(a.f, &rest, NULL, 0, NULL, idle);
        pf_tell tell = told(&ask, y);
        pf_predictor predictor = pf_fixture_predictor(a.f);
        CHECK(pf_session_tell(a.s, &tell, &predictor, NULL) == PF_OK);
        double d = 0, energy = 0, seen;
        for (int i = 0; i < ask.rows * CHAN; i++) {
            d += pow((y[i] - asked[i]) / k->return_scale[i % CHAN], 2);
            energy += pow((asked[i] - idle[i]) / k->return_scale[i % CHAN], 2);
        }
        bool passed = pf_session_rehearsed(a.s, &seen);
        CHECK_NEAR(seen, d, 1e-9 * d);
        pf__rehearsal_rule rule = pf__rehearsal_rule_of(
            k, k->rehearsal + task * PF_REHEARSAL_NUMBERS, energy, ask.rows * CHAN);
        CHECK(passed == pf__rehearsal_passes(&rule, d));
        pf_session_certify(a.s);
        const pf_task_readiness *r = pf_session_task(a.s, task);
        CHECK((r->decision == PF_GO) == passed);
        double bound = fmax(k->j_min, pf__rehearsal_bound(&rule, d));
        CHECK_NEAR(r->lower, passed ? fmin(before, bound) : before, 1e-12);
        ask = pf_session_ask(a.s);
    }
    close_stand(&a);
}

// --- corrections

// The command is clip(c u) with the correction of the certificate at hand, and of the last one.
static void check_command(stand *a, const pf_ask *ask, double *correction)
{
    const pf_kit *k = &a->f->kit;
    pf_session_certify(a->s);
    for (int j = 1; j < MECH; j++) {
        double c = pf_session_mechanism(a->s, j)->correction;
        CHECK(ask->correction[j] == c && (isnan(correction[j]) || correction[j] == c));
        correction[j] = c;
    }
    for (int i = 0; ask->command && i < ask->rows * MECH; i++) {
        double u = 0;
        for (int t = 0; t < ask->n_tasks; t++) {
            u += pf_kit_task_command(k, ask->tasks[t])[i];
        }
        u *= i % MECH > 0 ? correction[i % MECH] : 1;
        u = u < k->lo[i % MECH] ? k->lo[i % MECH] : u > k->hi[i % MECH] ? k->hi[i % MECH] : u;
        CHECK_NEAR(ask->command[i], u, 1e-12);
    }
}

static void check_corrections(void)
{
    static const double gains[] = {1, .6, .45, .3, .2};
    for (int i = 0; i < 10; i++) {
        pf_fixture_config c = usual();
        c.rehearse = i % 2 ? PF_REHEARSE_EACH : PF_REHEARSE_GROUP;
        stand a;
        open_stand(&a, &c);
        a.f->kit.rehearsals = 1 + i / 5;
        weaken(&a, 1 + i % 3, gains[i % 5]);
        a.off = i % 4 == 3 ? 1 : 0; // groups fail, too
        start(&a);
        double correction[MECH] = {NAN, NAN, NAN, NAN};
        int runs = 0;
        for (pf_ask ask = probe(&a); ask.kind == PF_ASK_REHEARSAL; ask = rehearse(&a)) {
            check_command(&a, &ask, correction);
            runs++;
        }
        pf_session_certify(a.s);
        for (int j = 1; j < MECH && runs > 0; j++) {
            CHECK(pf_session_mechanism(a.s, j)->correction == correction[j]);
        }
        CHECK(runs > 0 || gains[i % 5] < .3);
        close_stand(&a);
    }
    PF_CASE("what the current mechanism does in a task, it does in its rehearsal");
    pf_fixture_config c = usual();
    stand a;
    open_stand(&a, &c);
    for (int r = 0; r < 5; r++) {
        a.f->at.task_command[r * MECH] = .2; // of task 0, which does not list it
    }
    start(&a);
    double correction[MECH] = {NAN, NAN, NAN, NAN};
    pf_ask ask = probe(&a);
    check_command(&a, &ask, correction);
    ask = rehearse(&a);
    CHECK(asks(&ask, 1, one[POLICY])); // as predicted
    close_stand(&a);
}

// --- limits and budget

static void check_limits(void)
{
    pf_fixture_config c = usual();
    stand a;
    PF_CASE("a step beyond the slew limit is not rehearsed");
    open_stand(&a, &c);
    a.f->at.slew[1] = .3; // the task of mechanism 1 begins with .35
    start(&a);
    pf_ask ask = probe(&a);
    CHECK(asks(&ask, 1, one[1]));
    ask = rehearse(&a);
    CHECK(asks(&ask, 1, one[2]));
    ask = rehearse(&a);
    CHECK(asks(&ask, 1, one[POLICY]));
    ask = rehearse(&a);
    CHECK(ask.kind == PF_ASK_DONE);
    verdict(&a, 0, PF_GO_IF, PF_WHY_NOT_REHEARSED, PF_REHEARSED_NOT);
    verdict(&a, 1, PF_GO, PF_WHY_CERTIFIED, PF_REHEARSED_APART);
    close_stand(&a);
    PF_CASE("excursions of a group add up; one that is too far is not rehearsed");
    c.bounded = true;
    open_stand(&a, &c);
    for (int u = 0; u < a.f->kit.n_uses; u++) {
        a.f->at.excursion[u] = u == 1 ? 1.2 : .4; // of task 1 alone
    }
    start(&a);
    ask = probe(&a);
    CHECK(asks(&ask, 1, one[0]));
    ask = rehearse(&a);
    CHECK(asks(&ask, 1, one[2]));
    ask = rehearse(&a);
    CHECK(ask.kind == PF_ASK_DONE); // the policy has three uses: 1.2
    verdict(&a, 1, PF_GO_IF, PF_WHY_NOT_REHEARSED, PF_REHEARSED_NOT);
    verdict(&a, POLICY, PF_GO_IF, PF_WHY_NOT_REHEARSED, PF_REHEARSED_NOT);
    close_stand(&a);
    PF_CASE("a correction that would overdrive a sound machine is not rehearsed");
    open_stand(&a, &c);
    a.f->at.excursion[0] = .6; // of task 0; twice the command would be 1.2
    weaken(&a, 1, .5);
    start(&a);
    ask = probe(&a);
    CHECK(asks(&ask, 1, one[1]));
    while (rehearse(&a).kind == PF_ASK_REHEARSAL) {
    }
    verdict(&a, 0, PF_GO_IF, PF_WHY_NOT_REHEARSED, PF_REHEARSED_NOT);
    close_stand(&a);
}

static void check_budget(void)
{
    pf_fixture_config c = usual();
    for (int budget = 0; budget <= 2; budget++) {
        stand a;
        open_stand(&a, &c);
        a.f->kit.budget3 = budget;
        start(&a);
        pf_ask ask = probe(&a);
        for (int i = 0; i < budget; i++) {
            CHECK(ask.kind == PF_ASK_REHEARSAL);
            ask = rehearse(&a);
        }
        CHECK(ask.kind == PF_ASK_DONE);
        // one run of all and none besides is no proof
        verdict(&a, 0, budget > 1 ? PF_GO : PF_GO_IF,
                budget > 1 ? PF_WHY_CERTIFIED : PF_WHY_NOT_REHEARSED,
                budget > 1 ? PF_REHEARSED_GROUP : PF_REHEARSED_NOT);
        verdict(&a, POLICY, budget > 1 ? PF_GO : PF_GO_IF,
                budget > 1 ? PF_WHY_CERTIFIED : PF_WHY_NOT_REHEARSED,
                budget > 1 ? PF_REHEARSED_APART : PF_REHEARSED_NOT);
        close_stand(&a);
    }
}

// A group is believed only with another run beside it, and while nothing fails, whatever ends
// first.
static void check_confirmed(void)
{
    pf_fixture_config c = usual();
    for (int budget = 2; budget <= 5; budget++) {
        stand a;
        open_stand(&a, &c);
        a.f->kit.budget3 = budget;
        a.policy_fails = true;
        start(&a);
        probe(&a);
        while (rehearse(&a).kind == PF_ASK_REHEARSAL) {
        }
        int alone = budget - 2; // after the group and the policy
        for (int task = 0; task < 3; task++) {
            verdict(&a, task, task < alone ? PF_GO : PF_GO_IF,
                    task < alone ? PF_WHY_CERTIFIED : PF_WHY_NOT_REHEARSED,
                    task < alone ? PF_REHEARSED_APART : PF_REHEARSED_NOT);
        }
        close_stand(&a);
    }
    stand a; // the other run is skipped: the group runs apart
    open_stand(&a, &c);
    start(&a);
    probe(&a);
    pf_ask ask = rehearse(&a);
    CHECK(asks(&ask, 1, one[POLICY]) && pf_session_skip(a.s, NULL) == PF_OK);
    ask = pf_session_ask(a.s);
    CHECK(asks(&ask, 1, one[0]));
    verdict(&a, 1, PF_GO_IF, PF_WHY_NOT_REHEARSED, PF_REHEARSED_NOT);
    close_stand(&a);
}

// Numbers in a file that make every run look healthy make none go.
static void check_hostile(void)
{
    pf_fixture_config c = usual();
    stand a;
    open_stand(&a, &c);
    for (int t = 0; t < a.f->kit.n_tasks; t++) {
        double *numbers = a.f->at.rehearsal + t * PF_REHEARSAL_NUMBERS;
        numbers[PF_REHEARSAL_MEAN] = numbers[PF_REHEARSAL_CLEAN] = 1e9;
        numbers[PF_REHEARSAL_ENERGY] = 1e300;
    }
    for (int g = 0; g < a.f->kit.n_groups; g++) {
        double *numbers = a.f->at.group_rehearsal + g * PF_REHEARSAL_NUMBERS;
        numbers[PF_REHEARSAL_MEAN] = numbers[PF_REHEARSAL_CLEAN] = 1e9;
        numbers[PF_REHEARSAL_SD] = 1e-9;
    }
    for (int j = 0; j < 4; j++) {
        a.run[j] = 0; // dead in every run of a task
    }
    start(&a);
    probe(&a);
    while (rehearse(&a).kind == PF_ASK_REHEARSAL) {
    }
    for (int t = 0; t < TASKS; t++) {
        pf_session_certify(a.s);
        CHECK(pf_session_task(a.s, t)->decision != PF_GO);
    }
    close_stand(&a);
}

// --- blind directions

// What adds the same to every number of a run, as the model of such a kit does, is not seen. The
// rest is.
static void check_blind(void)
{
    pf_fixture_config c = usual();
    stand a;
    PF_CASE("an error in a blind direction passes, and only there");
    for (int blind = 0; blind < 2; blind++) {
        c.blind = blind;
        open_stand(&a, &c);
        a.off = 3;
        start(&a);
        probe(&a);
        while (rehearse(&a).kind == PF_ASK_REHEARSAL) {
        }
        verdict(&a, 0, blind ? PF_GO : PF_NO_GO, blind ? PF_WHY_CERTIFIED : PF_WHY_REHEARSAL,
                blind ? PF_REHEARSED_GROUP : PF_REHEARSED_APART);
        close_stand(&a);
    }
    PF_CASE("a loss that only the run shows is seen beside a blind direction");
    open_stand(&a, &c);
    a.run[1] = .2;
    start(&a);
    probe(&a);
    while (rehearse(&a).kind == PF_ASK_REHEARSAL) {
    }
    verdict(&a, 0, PF_NO_GO, PF_WHY_REHEARSAL, PF_REHEARSED_APART);
    close_stand(&a);
    PF_CASE("a group that a model errs about more than a failure shows is not run, its tasks once");
    for (int more = 0; more < 2; more++) {
        open_stand(&a, &c);
        double *group = a.f->at.group_rehearsal;
        double theta = -log(a.f->kit.j_min), room = theta * group[PF_REHEARSAL_ENERGY];
        group[PF_REHEARSAL_CLEAN] = group[PF_REHEARSAL_MEAN] + (more ? 1.01 : .99) * room;
        start(&a);
        pf_ask ask = probe(&a);
        for (int i = 0; more && i < M; i++) {
            CHECK(asks(&ask, 1, one[i]));
            ask = rehearse(&a);
            verdict(&a, i, PF_GO, PF_WHY_CERTIFIED, PF_REHEARSED_APART);
        }
        CHECK(more || asks(&ask, M, all));
        close_stand(&a);
    }
    open_stand(&a, &c);
    start(&a);
    PF_CASE("the distance is what Pythagoras leaves of it");
    const pf_kit *k = &a.f->kit;
    for (int which = 0; which < k->n_tasks + k->n_groups; which++) {
        int n = pf__kit_run_rows(k, which) * CHAN;
        double x[16], y[16], work[16], sum = 0, along = 0;
        for (int i = 0; i < n; i++) {
            x[i] = pf_rng_normal(&a.rng);
            y[i] = pf_rng_normal(&a.rng);
            double d = (x[i] - y[i]) / k->return_scale[i % CHAN];
            sum += d * d;
            along += d / sqrt(n);
        }
        CHECK_NEAR(pf__rehearsal_distance(k, which, x, y, work), sum - along * along, 1e-12 * sum);
        CHECK(pf__rehearsal_numbers(k, which) == n - 1);
    }
    PF_CASE("blind directions of a file that make no sense are refused");
    static const struct {
        int entry;
        double value;
    } bad[] = {{0, .9}, {0, 0}, {3, NAN}, {9, -1.5}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double was = a.f->at.blind[bad[i].entry];
        a.f->at.blind[bad[i].entry] = bad[i].value;
        pf_error error = {PF_OK, ""};
        CHECK(pf_kit_check(k, &error) == PF_ERR_FORMAT);
        CHECK_CONTAINS(error.text, "blind");
        a.f->at.blind[bad[i].entry] = was;
    }
    for (int i = 0; i <= k->n_rehearse + k->n_groups; i++) {
        int32_t was = a.f->at.blind_first[i];
        for (int step = -1; step < 2; step += 2) {
            pf_error error = {PF_OK, ""};
            a.f->at.blind_first[i] = was + step;
            CHECK(pf_kit_check(k, &error) == PF_ERR_FORMAT);
            CHECK_CONTAINS(error.text, "blind");
        }
        a.f->at.blind_first[i] = was;
    }
    CHECK(pf_kit_check(k, NULL) == PF_OK);
    close_stand(&a);
}

static void check_skip(void)
{
    pf_fixture_config c = usual();
    stand a;
    open_stand(&a, &c);
    start(&a);
    pf_ask ask = probe(&a);
    int probes = pf_session_get_state(a.s).told;
    double charge = pf_session_get_state(a.s).charge;
    CHECK(pf_session_skip(a.s, NULL) == PF_OK);
    ask = pf_session_ask(a.s);
    CHECK(asks(&ask, 1, one[0]));
    ask = rehearse(&a);
    CHECK(asks(&ask, 1, one[1]));
    CHECK(pf_session_skip(a.s, NULL) == PF_OK);
    ask = pf_session_ask(a.s);
    CHECK(asks(&ask, 1, one[2]));
    ask = rehearse(&a);
    CHECK(asks(&ask, 1, one[POLICY]));
    CHECK(pf_session_skip(a.s, NULL) == PF_OK);
    CHECK(pf_session_ask(a.s).kind == PF_ASK_DONE);
    verdict(&a, 0, PF_GO, PF_WHY_CERTIFIED, PF_REHEARSED_APART);
    verdict(&a, 1, PF_GO_IF, PF_WHY_NOT_REHEARSED, PF_REHEARSED_NOT);
    verdict(&a, 2, PF_GO, PF_WHY_CERTIFIED, PF_REHEARSED_APART);
    verdict(&a, POLICY, PF_GO_IF, PF_WHY_NOT_REHEARSED, PF_REHEARSED_NOT);
    // what was given up was no run: it costs nothing and is not counted
    pf_session_state state = pf_session_get_state(a.s);
    CHECK(state.told == probes + 2 && state.rehearsals == 2);
    CHECK_NEAR(state.charge, charge + .1, 1e-12);
    close_stand(&a);
}

// --- failures

static void check_failed(void)
{
    pf_fixture_config c = usual();
    stand a;
    static const int order[] = {0, 0, 1, 2, 2};
    PF_CASE("a group that fails goes apart, each task passes twice, and who fails is named");
    open_stand(&a, &c);
    a.f->kit.budget3 = pf__rehearsal_budget(&a.f->kit);
    CHECK(a.f->kit.budget3 == 1 + 3 * 2 + 1); // the group, its tasks twice, the policy
    a.run[2] = .3;                            // a fault that no probe shows
    start(&a);
    pf_ask ask = probe(&a);
    CHECK(asks(&ask, 3, all));
    ask = rehearse(&a);
    CHECK(!pf_session_rehearsed(a.s, NULL));
    for (int i = 0; i < 5; i++) {
        CHECK(asks(&ask, 1, one[order[i]]));
        ask = rehearse(&a);
        CHECK(pf_session_rehearsed(a.s, NULL) == (order[i] != 1));
    }
    ask = rehearse(&a);
    CHECK(ask.kind == PF_ASK_DONE && ask.why == PF_DONE_SETTLED);
    verdict(&a, 0, PF_GO, PF_WHY_CERTIFIED, PF_REHEARSED_APART);
    verdict(&a, 1, PF_NO_GO, PF_WHY_REHEARSAL, PF_REHEARSED_APART);
    verdict(&a, 2, PF_GO, PF_WHY_CERTIFIED, PF_REHEARSED_APART);
    verdict(&a, POLICY, PF_NO_GO, PF_WHY_REHEARSAL, PF_REHEARSED_APART); // it uses 2 as well
    close_stand(&a);
    PF_CASE("what the whole of a group cannot show runs alone");
    open_stand(&a, &c);
    for (int i = 0; i < 2 * a.f->kit.n_uses; i++) {
        a.f->at.use_edge[i] = i % 2 ? 1.001 : .999;
    }
    start(&a);
    ask = probe(&a);
    CHECK(asks(&ask, 3, all));
    ask = rehearse(&a);
    CHECK(asks(&ask, 1, one[0]));
    close_stand(&a);
    PF_CASE("twice");
    open_stand(&a, &c);
    a.f->kit.rehearsals = 2;
    start(&a);
    ask = probe(&a);
    for (int i = 0; i < 4; i++) {
        CHECK(i < 2 ? asks(&ask, 3, all) : asks(&ask, 1, one[POLICY]));
        verdict(&a, i / 2 * POLICY, PF_GO_IF, PF_WHY_NOT_REHEARSED, PF_REHEARSED_NOT);
        ask = rehearse(&a);
    }
    CHECK(ask.kind == PF_ASK_DONE && pf_session_get_state(a.s).rehearsals == 4);
    verdict(&a, 0, PF_GO, PF_WHY_CERTIFIED, PF_REHEARSED_GROUP);
    close_stand(&a);
    PF_CASE("twice: what fails in the second run is not go");
    open_stand(&a, &c);
    a.f->kit.rehearsals = 2;
    start(&a);
    probe(&a);
    rehearse(&a);
    a.run[1] = .2;
    while (rehearse(&a).kind == PF_ASK_REHEARSAL) {
    }
    verdict(&a, 0, PF_NO_GO, PF_WHY_REHEARSAL, PF_REHEARSED_APART);
    verdict(&a, 1, PF_GO, PF_WHY_CERTIFIED, PF_REHEARSED_APART);
    close_stand(&a);
}

// --- what a rehearsal does not touch

typedef struct beliefs {
    double belief[MECH], severity[M * 9], joint[M * PF_POSTERIOR_GAINS], nominal, misfit;
    bool alarm, probed[MECH];
    double change, peak;
} beliefs;

static beliefs beliefs_of(const pf_session *s)
{
    beliefs b;
    memset(&b, 0, sizeof b);
    pf_session_state state = pf_session_get_state(s);
    memcpy(b.belief, s->belief, sizeof b.belief);
    memcpy(b.severity, s->severity, sizeof b.severity);
    memcpy(b.joint, s->joint.mass, sizeof b.joint);
    memcpy(b.probed, s->probed, sizeof b.probed);
    b.nominal = s->joint.nominal;
    b.misfit = state.misfit;
    b.alarm = state.alarm;
    b.change = state.change;
    b.peak = state.peak;
    return b;
}

static void check_untouched(void)
{
    for (int i = 0; i < 12; i++) {
        pf_fixture_config c = usual();
        c.faults = i % 2 ? PF_FAULTS_MANY : PF_FAULTS_ONE;
        stand a;
        open_stand(&a, &c);
        weaken(&a, 1 + i % 3, i < 6 ? 1 : .5);
        a.off = i % 4 == 2 ? .5 : 0;
        start(&a);
        pf_ask ask = probe(&a);
        beliefs before = beliefs_of(a.s), after;
        CHECK(ask.kind == PF_ASK_REHEARSAL);
        while (rehearse(&a).kind == PF_ASK_REHEARSAL) {
        }
        after = beliefs_of(a.s);
        CHECK(memcmp(&before, &after, sizeof before) == 0);
        close_stand(&a);
    }
}

// --- refusals

static pf_status no_prediction(void *self, const pf_run *run, const double *start, int n_start,
                               double *response, pf_error *error)
{
    (void)self, (void)start, (void)n_start;
    for (int i = 0; i < run->rows * CHAN; i++) {
        response[i] = NAN;
    }
    (void)error;
    return PF_OK;
}

static void refused(stand *a, const pf_tell *tell, const pf_predictor *predictor, pf_status status,
                    const char *part)
{
    pf_error error = {PF_OK, ""};
    pf_ask before = pf_session_ask(a->s), after;
    pf_session_state was = pf_session_get_state(a->s);
    beliefs b = beliefs_of(a->s);
    pf__rehearsal states[TASKS];
    memcpy(states, a->s->rehearsal, sizeof states);
    CHECK(pf_session_tell(a->s, tell, predictor, &error) == status);
    CHECK_CONTAINS(error.text, part);
    CHECK(strchr(error.text, '\n') == NULL && strlen(error.text) > 10);
    after = pf_session_ask(a->s);
    pf_session_state is = pf_session_get_state(a->s);
    beliefs now = beliefs_of(a->s);
    CHECK(memcmp(&b, &now, sizeof b) == 0);
    CHECK(memcmp(states, a->s->rehearsal, sizeof states) == 0);
    CHECK(before.kind == after.kind && before.n_tasks == after.n_tasks &&
          before.tasks == after.tasks && before.command == after.command);
    CHECK(was.told == is.told && was.charge == is.charge && was.rehearsals == is.rehearsals);
}

static void check_refusals(void)
{
    pf_fixture_config c = usual();
    stand a;
    open_stand(&a, &c);
    start(&a);
    pf_ask ask = probe(&a);
    pf_predictor predictor = pf_fixture_predictor(a.f), silent = predictor, mad = predictor;
    silent.run = NULL;
    mad.run = no_prediction;
    double y[64];
    perform(&a, &ask, y);
    const int32_t others[] = {0, 2, 1}, fewer[] = {0, 1};
    pf_tell good = told(&ask, y), tell = good;
    tell.tasks = others;
    refused(&a, &tell, &predictor, PF_ERR_PROBE, "rehearsal");
    tell = good;
    tell.tasks = fewer;
    tell.n_tasks = 2;
    refused(&a, &tell, &predictor, PF_ERR_PROBE, "another was told");
    tell = good;
    tell.tasks = NULL;
    refused(&a, &tell, &predictor, PF_ERR_PROBE, "rehearsal");
    tell = good;
    tell.probe = 0;
    refused(&a, &tell, &predictor, PF_ERR_PROBE, "a probe was told");
    tell = good;
    tell.rows--;
    refused(&a, &tell, &predictor, PF_ERR_SHAPE, "response: 4 rows of 2 channels, expected 5");
    tell = good;
    tell.response = NULL;
    refused(&a, &tell, &predictor, PF_ERR_ARGUMENT, "response");
    refused(&a, &good, &silent, PF_ERR_PREDICTION, "nothing predicts");
    refused(&a, &good, NULL, PF_ERR_PREDICTION, "nothing predicts");
    refused(&a, &good, &mad, PF_ERR_NONFINITE, "prediction: row 0, channel 0");
    y[3] = INFINITY;
    refused(&a, &good, &predictor, PF_ERR_NONFINITE, "response: row 1, channel 1");
    perform(&a, &ask, y);
    PF_CASE("a rehearsal that was told is not told again");
    CHECK(pf_session_tell(a.s, &good, &predictor, NULL) == PF_OK);
    pf_error error = {PF_OK, ""};
    int n = pf_session_get_state(a.s).told;
    CHECK(pf_session_tell(a.s, &good, &predictor, &error) == PF_ERR_PROBE);
    CHECK_STR(error.text, "tell: no rehearsal is outstanding; ask first");
    CHECK(pf_session_skip(a.s, &error) == PF_ERR_PROBE);
    CHECK(pf_session_get_state(a.s).told == n);
    PF_CASE("a rehearsal is no evidence, and stage 2 is over");
    const pf_evidence evidence = {0};
    pf_session_ask(a.s);
    CHECK(pf_session_tell_evidence(a.s, &evidence, &error) == PF_ERR_STAGE);
    CHECK(pf_session_stage2(a.s, &error) == PF_ERR_STAGE);
    PF_CASE("a probe that was asked for is not told as a rehearsal");
    pf_session_reset(a.s);
    ask = pf_session_ask(a.s);
    tell = (pf_tell){.probe = -1, .response = y, .rows = ask.rows, .channels = CHAN};
    tell.n_tasks = 3;
    tell.tasks = good.tasks;
    CHECK(pf_session_tell(a.s, &tell, &predictor, &error) == PF_ERR_PROBE);
    CHECK(pf_session_get_state(a.s).told == 0);
    close_stand(&a);
}

// --- doubt

// Probes that fit no machine: groups are not asked for, and a run must be clean to count.
static void check_doubt(double off, pf_decision decision)
{
    pf_fixture_config c = usual();
    stand a;
    open_stand(&a, &c);
    for (int t = 0; t < a.f->kit.n_targets; t++) {
        a.f->direction[t * a.f->window] = 0; // nobody acts there
    }
    pf_fixture_refit(a.f);
    a.jump = 5;
    a.off = off;
    start(&a);
    pf_ask ask = probe(&a);
    CHECK(pf_session_get_state(a.s).misfit > 1 && pf_session_get_state(a.s).misfit_channel == 0);
    for (int t = 0; t < TASKS; t++) {
        CHECK(asks(&ask, 1, one[t]));
        ask = rehearse(&a);
    }
    CHECK(ask.kind == PF_ASK_DONE);
    for (int t = 0; t < TASKS; t++) {
        verdict(&a, t, decision, decision == PF_GO ? PF_WHY_CERTIFIED : PF_WHY_MISFIT,
                PF_REHEARSED_APART);
    }
    CHECK(pf_session_get_state(a.s).explained == (decision == PF_GO));
    close_stand(&a);
    // without a rehearsal there is no go either
    open_stand(&a, &c);
    for (int t = 0; t < a.f->kit.n_targets; t++) {
        a.f->direction[t * a.f->window] = 0;
    }
    pf_fixture_refit(a.f);
    a.f->kit.budget3 = 0;
    a.jump = 5;
    start(&a);
    CHECK(probe(&a).kind == PF_ASK_DONE);
    verdict(&a, 0, PF_NO_GO, PF_WHY_MISFIT, PF_REHEARSED_NOT);
    close_stand(&a);
}

// --- what no probe shows

// Looks that are alike from gain .35 to 1: a loss there is a condition, until the task itself ran.
static void check_unseen(int budget)
{
    pf_fixture_config c = usual();
    c.targets = 1;
    stand a;
    open_stand(&a, &c);
    a.f->kit.budget3 = budget;
    for (int i = 0; i < a.f->kit.n_look; i++) {
        int knot = i % (1 + a.f->kit.n_knots) - 1;
        a.f->at.look_mean[i] = knot == 0 || knot == 4 ? a.f->at.look_mean[i] : 0;
    }
    start(&a);
    pf_ask ask = probe(&a);
    CHECK(ask.kind == (budget > 0 ? PF_ASK_REHEARSAL : PF_ASK_DONE));
    for (int t = 0; t < M; t++) {
        verdict(&a, t, PF_GO_IF, PF_WHY_UNSEEN_LOSS, PF_REHEARSED_NOT);
        const pf_task_readiness *r = pf_session_task(a.s, t);
        // where the return falls below j_min, and where the looks begin to speak
        CHECK(r->unseen[0] > .25 && r->unseen[0] <= .35 && r->unseen[1] > .45 && r->unseen[1] < .6);
        CHECK(r->lower < a.f->kit.j_min);
    }
    while (ask.kind == PF_ASK_REHEARSAL) {
        ask = rehearse(&a);
    }
    for (int t = 0; t < M && budget > 0; t++) {
        verdict(&a, t, PF_GO, PF_WHY_CERTIFIED, PF_REHEARSED_GROUP);
        CHECK(pf_session_task(a.s, t)->lower >= a.f->kit.j_min);
    }
    close_stand(&a);
}

// --- memory

static void check_memory(void)
{
    for (int i = 0; i < 6; i++) {
        pf_fixture_config c = usual();
        c.seed = (uint64_t)i;
        c.rows = 2 + i; // shorter and longer than the tasks
        c.faults = i % 2 ? PF_FAULTS_MANY : PF_FAULTS_ONE;
        c.misfit = i % 3 != 0;
        c.blind = i % 2 == 0;
        pf_fixture *f = pf_fixture_create(&c);
        size_t size = pf_session_size(&f->kit);
        // nothing after the end: the sanitizers see one byte too far
        unsigned char *memory = malloc(size);
        pf_session *s = NULL;
        pf_error error = {PF_OK, ""};
        CHECK(pf_session_init(&s, &f->kit, NULL, memory, size - 1, &error) == PF_ERR_MEMORY);
        CHECK_CONTAINS(error.text, "bytes");
        CHECK(pf_session_init(&s, &f->kit, NULL, memory, size, &error) == PF_OK);
        stand a = {.f = f, .s = s};
        for (int j = 0; j < MECH; j++) {
            a.gains[j] = a.run[j] = 1;
        }
        pf_rng_init(&a.rng, 3);
        pf_ask ask = probe(&a);
        CHECK(ask.kind == PF_ASK_REHEARSAL);
        while (ask.kind == PF_ASK_REHEARSAL) {
            ask = rehearse(&a);
        }
        pf_session_certify(s);
        free(memory);
        pf_fixture_free(f);
    }
}

void test_rehearsal(void)
{
    PF_CASE("the rule: spread, pass, clean and bound by hand");
    check_rule();
    check_plain();
    PF_CASE("distance, verdict and bound of runs by hand");
    check_bound();
    PF_CASE("every run has the corrections of the certificate");
    check_corrections();
    check_limits();
    PF_CASE("over budget is not rehearsed");
    check_budget();
    PF_CASE("a group without another run, or beside a failure, is no proof");
    check_confirmed();
    PF_CASE("numbers that let everything pass let nothing go");
    check_hostile();
    check_blind();
    PF_CASE("a group that is skipped is asked for one by one, a task that is skipped is not");
    check_skip();
    check_failed();
    PF_CASE("neither belief, posterior, misfit nor alarm hears of a rehearsal");
    check_untouched();
    PF_CASE("what was not asked for is refused in one line and changes nothing");
    check_refusals();
    PF_CASE("with misfit only clean runs apart are go");
    check_doubt(0, PF_GO);
    PF_CASE("with misfit a run that is only good enough is not");
    check_doubt(.1, PF_NO_GO);
    PF_CASE("a loss that no probe shows is a condition, and is named");
    check_unseen(0);
    PF_CASE("a run of the task would have shown it");
    check_unseen(100);
    PF_CASE("exactly the memory that is asked for");
    check_memory();
}
