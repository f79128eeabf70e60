// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "recordings_machine.h"
#include "core/kit_layout.h"
#include "test.h"

#include "host/csv.h"
#include "host/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- with a plan

typedef struct planned {
    pf_plan plan;
    pf_mechanism mechanisms[MECH];
    pf_channel channels[CHAN];
    pf_plan_probe probes[2];
    pf_plan_task tasks[2];
    double grid[3], prior[MECH];
    int uses[2][2];
} planned;

static void make_plan(planned *p)
{
    *p = (planned){.mechanisms = {{"wind", 0, 0}, {"port", -2, 2}, {"starboard", -1, 1}},
                   .channels = {{"speed", 0, 0}, {"turn", 0, .5}},
                   .grid = {.2, .35, .8},
                   .prior = {.9, .04, .06},
                   .uses = {{1, 2}, {0, 2}}};
    p->probes[0] =
        (pf_plan_probe){"left", ROWS, &recording_commands[0][0][0], .5, 1, &p->uses[0][0], NULL};
    p->probes[1] =
        (pf_plan_probe){"right", ROWS, &recording_commands[1][0][0], .25, 1, &p->uses[0][1], NULL};
    for (int t = 0; t < 2; t++) {
        p->tasks[t] = (pf_plan_task){.name = t ? "steer" : "sail",
                                     .n_uses = 2,
                                     .uses = p->uses[t],
                                     .rows = ROWS,
                                     .command = &recording_commands[t][0][0],
                                     .policy = "",
                                     .policy_index = -1,
                                     .reveal = .5,
                                     .importance = 2};
    }
    p->plan = (pf_plan){.plant = "boat",
                        .n_mech = MECH,
                        .n_chan = CHAN,
                        .n_state = 4,
                        .mechanisms = p->mechanisms,
                        .channels = p->channels,
                        .n_probes = 2,
                        .n_tasks = 2,
                        .probes = p->probes,
                        .tasks = p->tasks,
                        .method = "eg-mpt",
                        .n_grid = 3,
                        .grid = p->grid,
                        .prior = p->prior,
                        .settings = {.g_cal = .35,
                                     .bins = 4,
                                     .episodes = 60,
                                     .hazard = .01,
                                     .budget1 = 5,
                                     .budget2 = 1,
                                     .rehearsals = 1,
                                     .alpha = .2,
                                     .j_min = .8,
                                     .temperature = .05,
                                     .stop = PF_STOP_BREAK,
                                     .seed = 11,
                                     .alarm_trials = 300,
                                     .alarm_rate = .05,
                                     .members = 16}};
}

static void test_with_plan(void)
{
    PF_CASE("a kit after a configuration, with and without u columns");
    planned p;
    make_plan(&p);
    recording r = recording_usual();
    r.by_index = true;
    made m = recording_kit(&p.plan, &r);
    r.no_u = true;
    made bare = recording_kit(&p.plan, &r);
    if (m.status == PF_OK && bare.status == PF_OK) {
        const pf_kit *k = &m.kit;
        CHECK(recording_kits_agree(&m, &bare));
        CHECK(k->n_grid == 3 && k->n_bins == 4 && k->budget1 == 5 && k->budget2 == 1);
        CHECK(k->stop == PF_STOP_BREAK && k->field == 0 && k->seed == 11);
        CHECK(k->hazard == .01 && k->prior[2] == .06 && k->alarm_trials == 300);
        CHECK(k->n_state == 0 && k->episodes == 40 && k->lo[1] == -2 && k->hi[2] == 1);
        CHECK(k->charge[0] == .5 && k->task_importance[1] == 2 && k->scale[1] == .5);
        CHECK(k->scale[0] > .08 && k->scale[0] < .12);
        CHECK_STR(pf_kit_get_string(k, PF_KIT_PLANT), "boat");
        CHECK_STR(pf_kit_mechanism_name(k, 2), "starboard");
        // the current mechanism of the second task carries no error
        size_t row = 2 * (size_t)k->n_members * (size_t)k->n_shares;
        CHECK_NEAR(k->tracking_error[row + 20], 0, 1e-15);
        CHECK_NEAR(k->tracking_error[row + 10], .25, 1e-15);
    }
    free(m.bytes);
    free(bare.bytes);
    PF_CASE("a recorded gain near the configured one; a method of random probes");
    r.gains[0] = .3;
    p.plan.method = "eg-mpt:uniform";
    m = recording_kit(&p.plan, &r);
    CHECK(m.status == PF_OK && m.kit.g_cal == .3 && m.kit.n_grid == 4);
    free(m.bytes);
}

// Keeps what was said, one line after another.
static void keep_warning(void *self, const char *text)
{
    pf_text *said = self;
    pf__text_add(said, text);
}

static void test_uncertified(void)
{
    PF_CASE("tasks without an error curve are named, with what to record");
    planned p;
    recording r = recording_usual();
    r.by_index = true;
    make_plan(&p);
    char *csv = recording_text(&r);
    double other[ROWS * MECH];
    for (int i = 0; i < ROWS * MECH; i++) {
        other[i] = .5 * recording_commands[0][i / MECH][i % MECH];
    }
    for (int way = 0; way < 3; way++) {
        pf_text said = {0};
        pf_effort effort = {.threads = 1, .self = &said, .warn = keep_warning};
        void *bytes = NULL;
        size_t n = 0;
        pf_error error;
        pf_kit kit;
        make_plan(&p);
        p.plan.settings.field = true;
        // the first task uses both mechanisms, its probe tells of one
        p.tasks[0].n_uses = way == 2 ? 2 : 1;
        p.tasks[0].command = way == 1 ? other : p.tasks[0].command;
        CHECK(pf_calibrate_recordings(&p.plan, "log.csv", csv, strlen(csv), &effort, &bytes, &n,
                                      &error) == PF_OK);
        CHECK(pf__kit_read(&kit, bytes, n, &error) == PF_OK);
        const char *text = said.data ? said.data : "";
        CHECK((strstr(text, "was not recorded, so it has no error curve") != NULL) == (way == 1));
        CHECK((strstr(text, "with mechanism 'starboard' weakened") != NULL) == (way == 2));
        // the last use of the first task: a candidate without a curve returns nothing, healthy or
        // not
        int use = kit.task_use[1] - 1;
        const double *nte =
            kit.tracking_error + (size_t)use * (size_t)kit.n_members * (size_t)kit.n_shares;
        CHECK((nte[20] > 9) == (way > 0) && kit.shares[20] == 1);
        CHECK((nte[(size_t)kit.n_shares * 3 + 20] > 9) == (way > 0));
        free(said.data);
        free(bytes);
    }
    free(csv);
}

// A kit of the usual recordings with a configuration; `more` follows the mechanisms.
static made configured(const char *limits, const char *more, bool no_u)
{
    char text[512];
    recording r = recording_usual();
    r.no_u = no_u;
    made m = {.status = PF_ERR_INTERNAL};
    pf_plan *plan = NULL;
    snprintf(text, sizeof text, "mechanisms: [wind, {name: port, %s}, {name: starboard, %s}]\n%s",
             limits, limits, more);
    m.status = pf_plan_create(&plan, NULL, "limits.yaml", text, strlen(text), NULL, 0, &m.error);
    if (m.status == PF_OK) {
        char *csv = recording_text(&r);
        m = recording_kit_of_text(plan, csv, 1);
        free(csv);
    }
    pf_plan_destroy(plan);
    return m;
}

static void test_limits(void)
{
    PF_CASE("a configuration with limits alone: probes and tasks are those of the u columns");
    recording r = recording_usual();
    made plain = recording_kit(NULL, &r), m = configured("lo: -2, hi: 2", "", false);
    if (!CHECK(m.status == PF_OK)) {
        printf("%s\n", m.error.text);
        free(plain.bytes);
        return;
    }
    const pf_kit *a = &plain.kit, *b = &m.kit;
    CHECK(b->lo[1] == -2 && b->hi[2] == 2 && isinf(b->hi[0]) && isinf(a->hi[1]));
    CHECK_STR(pf_kit_mechanism_name(b, 2), "starboard");
    CHECK_STR(pf_kit_channel_name(b, 1), pf_kit_channel_name(a, 1));
    CHECK_STR(pf_kit_probe_name(b, 0), pf_kit_probe_name(a, 0));
    CHECK_STR(pf_kit_task_name(b, 1), pf_kit_task_name(a, 1));
    CHECK(b->n_probes == 2 && b->n_tasks == 2);
    CHECK(memcmp(a->command, b->command, sizeof(double) * 2 * ROWS * MECH) == 0);
    CHECK(memcmp(a->prior, b->prior, sizeof(double) * MECH) == 0);
    CHECK(memcmp(a->variant, b->variant, sizeof(double) * WINDOW) == 0);
    free(m.bytes);
    free(plain.bytes);
    PF_CASE("the same with finite limits from which pulses could be derived, with tasks, settings");
    m = configured("lo: -1, hi: 1",
                   "tasks: [{name: sail, mechanisms: port}]\nchannels: [speed, turn]\nalpha: .2\n"
                   "prior: [.8, .1, .1]\n",
                   false);
    if (CHECK(m.status == PF_OK)) {
        CHECK(m.kit.n_probes == 2 && m.kit.n_tasks == 1 && m.kit.alpha == .2);
        CHECK(m.kit.prior[1] == .1 && m.kit.command[MECH + 1] == 1);
        CHECK_STR(pf_kit_task_name(&m.kit, 0), "sail");
        CHECK_STR(pf_kit_probe_name(&m.kit, 1), "right");
    }
    free(m.bytes);
    PF_CASE("what was commanded beyond the limits is refused");
    m = configured("lo: -1, hi: .5", "", false);
    CHECK(m.status == PF_ERR_ARGUMENT && m.bytes == NULL);
    CHECK_CONTAINS(m.error.text, "probe 'left' commands 1 to port");
    CHECK_CONTAINS(m.error.text, "limits -1..0.5");
    PF_CASE("without u columns the configuration says what the probes are");
    m = configured("lo: -1", "", true);
    CHECK(m.status == PF_ERR_MISMATCH && m.bytes == NULL);
    CHECK_CONTAINS(m.error.text, "no u columns, and the configuration has neither `probes` nor");
    m = configured("lo: -1, hi: 1", "", true);
    CHECK(m.status == PF_ERR_FORMAT && m.bytes == NULL);
    CHECK_CONTAINS(m.error.text, "no probe of the configuration");
}

static void refuse_plan(const planned *p, const recording *r, pf_status status, const char *part)
{
    char *csv = recording_text(r);
    made m = recording_kit_of_text(&p->plan, csv, 1);
    CHECK(m.status == status && m.bytes == NULL);
    CHECK_CONTAINS(m.error.text, part);
    free(m.bytes);
    free(csv);
}

static void test_plan_refusals(void)
{
    PF_CASE("recordings that do not fit the configuration");
    planned p;
    recording r = recording_usual();
    r.by_index = true;
    make_plan(&p);
    p.channels[1].name = "roll";
    refuse_plan(&p, &r, PF_ERR_MISMATCH,
                "log.csv:1: column 'turn': channel 1 of the configuration");
    make_plan(&p);
    p.plan.n_chan = 1;
    refuse_plan(&p, &r, PF_ERR_MISMATCH, "2 channel columns, the configuration has 1");
    make_plan(&p);
    p.plan.n_mech = 2;
    refuse_plan(&p, &r, PF_ERR_MISMATCH, "3 u columns, the configuration has 2 mechanisms");
    make_plan(&p);
    p.plan.method = "random";
    refuse_plan(&p, &r, PF_ERR_ARGUMENT, "method 'random' has not the matched statistic");
    p.plan.method = "none";
    refuse_plan(&p, &r, PF_ERR_ARGUMENT, "method 'none' is unknown");
    make_plan(&p);
    p.plan.settings.scale = PF_SCALE_PULSE;
    refuse_plan(&p, &r, PF_ERR_ARGUMENT, "scale: recordings are divided by their own residual");
    make_plan(&p);
    p.probes[1].command = &recording_commands[0][0][0];
    refuse_plan(&p, &r, PF_ERR_MISMATCH,
                "column 'u1': 0, but 1 in the configuration for step 1 of probe 'right'");
    make_plan(&p);
    p.probes[1].rows = 5;
    refuse_plan(&p, &r, PF_ERR_SHAPE, "has 6 steps, probe 'right' has 5");
    make_plan(&p);
    p.probes[0].n_targets = 2;
    refuse_plan(&p, &r, PF_ERR_MISMATCH, "probe 'left', mechanism 'starboard': no weakened");
    make_plan(&p);
    p.probes[0].targets = &p.uses[0][1];
    refuse_plan(&p, &r, PF_ERR_MISMATCH, "probe 'left', mechanism 'starboard': no weakened");
    make_plan(&p);
    p.plan.n_probes = 1;
    refuse_plan(&p, &r, PF_ERR_FORMAT, "column 'probe': no probe of the configuration");
    // signatures whose square is no double, either way
    make_plan(&p);
    p.channels[0].scale = p.channels[1].scale = 1e-200;
    refuse_plan(&p, &r, PF_ERR_DEGENERATE,
                "mechanism 'port': its effect is too large for a double");
    p.channels[0].scale = p.channels[1].scale = 1e200;
    refuse_plan(
        &p, &r, PF_ERR_DEGENERATE,
        "log.csv: probe 'left', mechanism 'port': its weakened responses equal the nominal");
    make_plan(&p);
    r.by_index = false;
    refuse_plan(&p, &r, PF_ERR_FORMAT, "column 'mechanism': no mechanism of the configuration");
}

// --- refusals of the file

// A copy with the first `old` replaced.
static char *replaced(const char *csv, const char *old, const char *new)
{
    const char *at = strstr(csv, old);
    pf_text out = {0};
    if (!CHECK(at != NULL)) {
        at = csv;
        old = "";
    }
    pf__text_add_n(&out, csv, (size_t)(at - csv));
    pf__text_add(&out, new);
    pf__text_add(&out, at + strlen(old));
    return out.data;
}

static void refuse_text(const char *csv, pf_status status, const char *part)
{
    made m = recording_kit_of_text(NULL, csv, 1);
    CHECK(m.status == status && m.bytes == NULL && m.n == 0 && m.error.code == status);
    CHECK_CONTAINS(m.error.text, part);
    CHECK(strchr(m.error.text, '\n') == NULL);
    free(m.bytes);
}

// The first `old` of a good file replaced, and what is said then.
static const struct {
    const char *old, *new;
    pf_status status;
    const char *part;
} bad_rows[] = {
    {"episode,", "run,", PF_ERR_FORMAT, "log.csv:1: column 1 must be 'episode'"},
    {",gain,step", ",step,gain", PF_ERR_FORMAT, "column 4 must be 'gain'"},
    {"speed", "turn", PF_ERR_FORMAT, "two columns are called 'turn'"},
    {"speed", "", PF_ERR_FORMAT, "column 6 has no name"},
    {",speed,turn", "", PF_ERR_FORMAT, "there is no channel column"},
    {",u1,", ",v1,", PF_ERR_FORMAT, "column 'v1': 'u1' is expected here"},
    {",u0,u1,u2", ",a,b,c", PF_ERR_FORMAT, "0 u columns; without a configuration"},
    {"p0m0g1-0,left,,1,1,", "p0m0g1-0,left,,1,1,nan,", PF_ERR_FORMAT,
     "log.csv:2: 11 fields, the header has 10"},
    {"p0m0g1-0,left,,1,1,", "p0m0g1-0,left,,1,", PF_ERR_FORMAT,
     "log.csv:2: 9 fields, the header has 10"},
    {"left,,1,1,", "left,,1,one,", PF_ERR_FORMAT,
     "log.csv:2: column 'step': 'one' is not a whole number"},
    {"left,,1,1,", "left,,1,0,", PF_ERR_FORMAT, "column 'step': '0' is not a whole number"},
    {"left,,1,1,", "left,,1,1.0,", PF_ERR_FORMAT, "'1.0' is not a whole number"},
    {"left,,1,2,", "left,,1,1,", PF_ERR_FORMAT,
     "log.csv:3: column 'step': step 1 of episode 'p0m0g1-0' stands on line 2 already"},
    {"left,,1,2,", "left,,1,9,", PF_ERR_FORMAT,
     "episode 'p0m0g1-0' has 6 rows but no step 2; steps are 1..L"},
    {"p0m0g1-0,", ",", PF_ERR_FORMAT, "log.csv:2: column 'episode': empty"},
    {",left,,", ",,,", PF_ERR_FORMAT, "column 'probe': empty"},
    {"left,,1,2,", "right,,1,2,", PF_ERR_FORMAT,
     "log.csv:3: column 'episode': 'p0m0g1-0' has another probe, mechanism or gain on line 2"},
    {"left,,1,", "left,u1,1,", PF_ERR_FORMAT, "column 'mechanism': must be empty"},
    {"left,,1,", "left,,.5,", PF_ERR_FORMAT, "column 'mechanism': empty, but the gain is not 1"},
    {"left,u1,", "left,,", PF_ERR_FORMAT, "column 'mechanism': empty, but the gain is not 1"},
    {"left,u1,", "left,u3,", PF_ERR_FORMAT, "column 'mechanism': no mechanism"},
    {"left,u1,", "left,u0,", PF_ERR_FORMAT, "mechanism 0 is the current one"},
    {"left,u1,", "left,3,", PF_ERR_FORMAT, "column 'mechanism': no mechanism"},
    {"left,,1,", "left,,2,", PF_ERR_FORMAT, "column 'gain': out of range"},
    {"left,,1,", "left,,-1,", PF_ERR_FORMAT, "column 'gain': out of range"},
    {"left,,1,", "left,,,", PF_ERR_FORMAT, "column 'gain': empty"},
    {"left,,1,1,", "left,,1,1,1e200,3,0,1,0\nx,left,,1,1,", PF_ERR_FORMAT,
     "column 'speed': larger than 1e100"},
    {"left,,1,1,", "left,,1,1,nan,3,0,1,0\nx,left,,1,1,", PF_ERR_NONFINITE,
     "log.csv:2: column 'speed': 'nan' is not finite"},
    {"left,,1,1,", "left,,1,1,1,-Infinity,0,1,0\nx,left,,1,1,", PF_ERR_NONFINITE,
     "column 'turn': '-Infinity' is not finite"},
    {"left,,1,1,", "left,,1,1,1e999,3,0,1,0\nx,left,,1,1,", PF_ERR_NONFINITE,
     "column 'speed': '1e999' is too large"},
    {"left,,1,1,", "left,,1,1,0x10,3,0,1,0\nx,left,,1,1,", PF_ERR_FORMAT, "'0x10' is not a number"},
    {"left,,1,1,", "left,,1,1,1,3,,1,0\nx,left,,1,1,", PF_ERR_FORMAT, "column 'u0': empty"},
    {"left,,1,1,", "left,,1,1,1,3,0,.9,0\nx,left,,1,1,", PF_ERR_FORMAT,
     "log.csv:3: column 'u1': 1, but 0.9 on line 2 for step 1 of probe 'left'"},
    {"left,", "\"left\",", PF_ERR_FORMAT, "log.csv:2: quotes are not supported"},
    {"left,",
     "le\x01"
     "ft,",
     PF_ERR_FORMAT, "is a control character (0x01)"},
    {"left,",
     "le\xff"
     "ft,",
     PF_ERR_FORMAT, "is not UTF-8 (0xff)"},
    {"\np0", "\n\np0", PF_ERR_FORMAT, "log.csv:2: the line is blank"},
};

static void test_rows_refused(void)
{
    recording r = recording_usual();
    r.nominal = r.weak = 20;
    char *csv = recording_text(&r);
    for (size_t i = 0; i < sizeof bad_rows / sizeof bad_rows[0]; i++) {
        PF_CASE(bad_rows[i].part);
        char *text = replaced(csv, bad_rows[i].old, bad_rows[i].new);
        refuse_text(text, bad_rows[i].status, bad_rows[i].part);
        free(text);
    }
    PF_CASE("nothing, a header only, a file cut anywhere");
    refuse_text("", PF_ERR_FORMAT, "log.csv: the file is empty");
    refuse_text("\n\n", PF_ERR_FORMAT, "log.csv: the file is empty");
    refuse_text("episode,probe,mechanism,gain,step,y,u0,u1\n", PF_ERR_FORMAT, "there is no row");
    size_t n = strlen(csv);
    for (size_t cut = 0; cut + 1 < n; cut += 997) {
        pf_error error = {0};
        void *bytes = NULL;
        size_t size = 0;
        CHECK(pf_calibrate_recordings(NULL, "log.csv", csv, cut, NULL, &bytes, &size, &error) !=
              PF_OK);
        CHECK(bytes == NULL && error.text[0] != 0);
    }
    free(csv);
}

static void refuse_recording(const recording *r, pf_status status, const char *part)
{
    char *csv = recording_text(r);
    refuse_text(csv, status, part);
    free(csv);
}

static void test_data_refused(void)
{
    PF_CASE("too few episodes");
    recording r = recording_usual();
    r.nominal = 19;
    refuse_recording(&r, PF_ERR_DEGENERATE,
                     "probe 'left', mechanism 'u1': 19 nominal episodes at gain 1, at least 20");
    r = recording_usual();
    r.weak = 19;
    refuse_recording(&r, PF_ERR_DEGENERATE,
                     "mechanism 'u1': 19 weakened episodes at gain 0.35, at least 20");
    PF_CASE("no weakened episodes, or none at a common gain");
    r = recording_usual();
    r.n_gains = 0;
    refuse_recording(&r, PF_ERR_DEGENERATE, "probe 'left' has no weakened episodes");
    r = recording_usual();
    char *csv = recording_text(&r), *at = csv;
    while ((at = strstr(at, "right,u2,0.34999999999999998,")) != NULL) {
        memcpy(at, "right,u2,0.54999999999999998,", 12);
    }
    refuse_text(csv, PF_ERR_FORMAT, "no gain was recorded for every mechanism of every probe");
    free(csv);
    PF_CASE("no noise at all");
    r = recording_usual();
    r.w.noise = 0;
    refuse_recording(&r, PF_ERR_DEGENERATE, "column 'speed': the nominal episodes do not differ");
    PF_CASE("nothing but noise");
    r.w.noise = 20;
    refuse_recording(&r, PF_ERR_DEGENERATE, "mechanism 'u1': nominal and weakened responses lie");
    PF_CASE("a fault that is hardly one");
    r = recording_usual();
    r.w.noise = .3;
    r.gains[0] = .97;
    refuse_recording(&r, PF_ERR_DEGENERATE, "dispersions apart, at least 3 are needed");
}

// --- the reader itself

static void test_csv(void)
{
    PF_CASE("csv: fields, numbers, rewind");
    static const char text[] = "u0, u1 ,name\r\n1,-2.5e-1,a b\r\n +.5 ,7., \n";
    pf_csv csv;
    pf_error error;
    bool more = false;
    double x = 0;
    int i = 0;
    CHECK(pf__csv_open(&csv, "c.csv", text, sizeof text - 1, &error) == PF_OK);
    CHECK(csv.n_columns == 3 && pf__csv_is(csv.header[1], "u1"));
    for (int pass = 0; pass < 2; pass++) {
        CHECK(pf__csv_next(&csv, &more, &error) == PF_OK && more && csv.line == 2);
        CHECK(pf__csv_number(&csv, 1, &x, &error) == PF_OK && x == -.25);
        CHECK(pf__csv_integer(&csv, 0, 0, 5, &i, &error) == PF_OK && i == 1);
        CHECK(pf__csv_integer(&csv, 0, 2, 5, &i, &error) == PF_ERR_FORMAT && i == 1);
        CHECK_STR(error.text, "c.csv:2: column 'u0': '1' is not a whole number from 2 to 5");
        CHECK(pf__csv_is(csv.field[2], "a b"));
        CHECK(pf__csv_next(&csv, &more, &error) == PF_OK && more && csv.line == 3);
        CHECK(pf__csv_number(&csv, 0, &x, &error) == PF_OK && x == .5);
        CHECK(pf__csv_number(&csv, 1, &x, &error) == PF_OK && x == 7);
        CHECK(pf__csv_number(&csv, 2, &x, &error) == PF_ERR_FORMAT && x == 7);
        CHECK_STR(error.text, "c.csv:3: column 'name': empty; a number is needed");
        CHECK(pf__csv_next(&csv, &more, &error) == PF_OK && !more);
        pf__csv_rewind(&csv);
    }
    pf__csv_close(&csv);
    PF_CASE("csv: what is no number");
    static const char *const bad[] = {"1e", "e5",    ".",   "+",    "--1",  "1 2",      "0x1",
                                      "1f", "1_0",   "١",   "1e+",  "infx", "Nan(1)",   "1e309",
                                      "-",  "1.2.3", "inf", "-INF", "NAN",  "12345678a"};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        char row[64];
        snprintf(row, sizeof row, "x\n%s\n", bad[k]);
        CHECK(pf__csv_open(&csv, "c.csv", row, strlen(row), &error) == PF_OK);
        CHECK(pf__csv_next(&csv, &more, &error) == PF_OK && more);
        x = 3;
        CHECK(pf__csv_number(&csv, 0, &x, &error) != PF_OK && x == 3);
        CHECK_CONTAINS(error.text, "c.csv:2: column 'x': '");
        CHECK(pf__csv_integer(&csv, 0, -9, 9, &i, &error) == PF_ERR_FORMAT);
        pf__csv_close(&csv);
    }
}

static void test_csv_sizes(void)
{
    pf_csv csv;
    pf_error error;
    bool more = false;
    double x = 0;
    int i = 0;
    PF_CASE("csv: NUL bytes, overlong lines and fields, too many columns");
    CHECK(pf__csv_open(&csv, "c.csv", "a\0b\n", 4, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "byte 2 of the line is a control character (0x00)");
    CHECK(pf__csv_open(&csv, "c.csv", "a,\xed\xa0\x80\n", 6, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "not UTF-8");
    size_t n = PF_CSV_LINE + 8;
    char *big = malloc(n);
    memset(big, '1', n);
    memcpy(big, "x\n", 2);
    CHECK(pf__csv_open(&csv, "c.csv", big, n, &error) == PF_OK);
    CHECK(pf__csv_next(&csv, &more, &error) == PF_ERR_FORMAT && !more);
    CHECK_STR(error.text, "c.csv:2: the line is longer than 1 MiB; is this a CSV file?");
    pf__csv_close(&csv);
    CHECK(pf__csv_open(&csv, "c.csv", big, 400, &error) == PF_OK);
    CHECK(pf__csv_next(&csv, &more, &error) == PF_OK && more);
    CHECK(pf__csv_number(&csv, 0, &x, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "111...' is not a number");
    CHECK(pf__csv_integer(&csv, 0, 0, 9, &i, &error) == PF_ERR_FORMAT);
    pf__csv_close(&csv);
    memset(big, ',', n);
    CHECK(pf__csv_open(&csv, "c.csv", big, 10000, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "10001 columns, at most 8192 are read");
    CHECK(pf__csv_open(&csv, "c.csv", big, PF_CSV_BYTES + 1, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "at most 1 GiB is read");
    free(big);
}

void test_recordings_refused(void)
{
    test_limits();
    test_csv();
    test_csv_sizes();
    test_with_plan();
    test_uncertified();
    test_plan_refusals();
    test_rows_refused();
    test_data_refused();
}
