// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "audit/audit.h"
#include "field_kit.h"
#include "host/file.h"
#include "program.h"
#include "test.h"
#include "wire/audit_file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- the exact limit

static void check_upper(void)
{
    // summed in whole numbers elsewhere; 0 of 60 is 1 - .05^(1/60)
    static const double limits[][3] = {{0, 60, .048703}, {1, 60, .07664},    {3, 60, .124187},
                                       {0, 20, .139108}, {2, 30, .195326},   {5, 100, .102253},
                                       {0, 1, .95},      {10, 1000, .016903}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        CHECK_NEAR(pf__audit_upper((int)limits[i][0], (int)limits[i][1]), limits[i][2], 1e-6);
    }
    for (int n = 1; n <= 40; n++) {
        CHECK(pf__audit_upper(n, n) == 1);
        for (int k = 0; k < n; k++) {
            double p = pf__audit_upper(k, n), sum = 0, term = pow(1 - p, n);
            for (int j = 0; j <= k; j++) {
                sum += term;
                term *= p / (1 - p) * (n - j) / (j + 1);
            }
            CHECK_NEAR(sum, .05, 1e-9);
            CHECK(p > (double)k / n && p < pf__audit_upper(k + 1, n));
        }
    }
}

// --- the catalogue

static void refused(const char *text, const char *part)
{
    pf_catalogue c;
    pf_error error = {PF_OK, ""};
    CHECK(pf__catalogue_read(&c, "mine.yaml", text, strlen(text), &error) != PF_OK);
    CHECK_CONTAINS(error.text, part);
    if (!CHECK_CONTAINS(error.text, "mine.yaml")) {
        printf("    %s\n", text);
    }
    pf__catalogue_free(&c);
}

static void check_refusals(void)
{
    static const char *const kinds[] = {"gain",       "dead_band", "backlash",     "saturation",
                                        "rate_limit", "lag",       "intermittent", "stuck"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        refused("entries: [{name: a, fault: slack, value: 1}]", kinds[i]);
    }
    refused("entries: [{name: a, fault: slack, value: 1}]", "'slack'");
    refused("entries: [{name: a, fault: slack, value: 1}]", "gain_along");
    refused("entries: [{name: a, fault: backlash, value: 1, on: channel}]", "frozen");
    refused("entries: [{name: a, fault: none, on: channel}]", "'none'");
    refused("entries: [{name: a, fault: frozen, on: sensor}]", "sensor");
    refused("entries: [{name: a, fault: gain, value: -1}]", "between 0 and");
    refused("entries: [{name: a, fault: dropout, value: 1.5, on: channel}]", "between 0 and 1");
    refused("entries: [{name: a, fault: gain, from: .5, to: 2e6}]", "between 0 and");
    refused("entries: [{name: a, fault: gain, from: .5}]", "from and a larger to");
    refused("entries: [{name: a, fault: gain, to: .5}]", "from and a larger to");
    refused("entries: [{name: a, fault: gain, from: .5, to: .4}]", "from and a larger to");
    refused("entries: [{name: a, fault: gain, value: .5, from: .4, to: .6}]", "either value");
    refused("entries: [{name: a, fault: gain}]", "gain needs a value");
    refused("entries: [{name: a, fault: none}, {name: a, fault: none}]", "a");
    refused("entries: [{name: a, fault: gain, value: .5, size: 2}]", "size");
    refused("entries: [{fault: gain, value: .5}]", "name");
    refused("entries: [{name: a, value: .5}]", "fault");
    refused("entries: []", "entries");
    refused("faults: [{name: a, fault: none}]", "faults");
    refused("entries: [{name: a, fault: none]", "not valid YAML");
}

// A name that stands twice would be one line of a file for two results.
static void check_names(void)
{
    static const char text[] = "entries:\n  - {name: weak, fault: gain, value: .5}\n"
                               "  - {name: weak, fault: gain, value: .6}\n";
    pf_catalogue c;
    pf_error error = {PF_OK, ""};
    CHECK(pf__catalogue_read(&c, "mine.yaml", text, sizeof text - 1, &error) != PF_OK);
    CHECK_CONTAINS(error.text, "weak");
    pf__catalogue_free(&c);
}

static void check_catalogue(void)
{
    pf_catalogue c;
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    const pf_kit *kit = &field_kit_of("dc_servo", NULL)->kit;
    CHECK(pf_plant_create(&plant, "dc_servo", &error) == PF_OK);
    CHECK(pf__catalogue_read(&c, NULL, NULL, 0, &error) == PF_OK);
    CHECK(c.n >= 40 && strlen(c.sha256) == 64);
    const pf_plant_info *info = pf_plant_get_info(plant);
    int promised = 0;
    for (int e = 0; e < c.n; e++) {
        bool seen[4] = {false};
        promised += c.entries[e].promised != 0;
        for (int s = 0; s < 6; s++) {
            pf_fault faults[2], again[2];
            int n = 0, m = 0;
            const pf_audit_entry *entry = &c.entries[e];
            CHECK(pf__catalogue_faults(entry, kit, info, 7, s, faults, &n, &error) == PF_OK);
            CHECK(pf__catalogue_faults(entry, kit, info, 7, s, again, &m, &error) == PF_OK);
            CHECK(n == m && (n == 0 || memcmp(faults, again, sizeof *faults * (size_t)n) == 0));
            CHECK((n == 0) == (strcmp(entry->fault, "none") == 0));
            CHECK(n < 2 || faults[0].at != faults[1].at);
            CHECK(n == 0 || isnan(entry->from) ||
                  (faults[0].value >= entry->from && faults[0].value <= entry->to));
            if (n > 0 && faults[0].at >= 0) {
                seen[faults[0].at] = true;
            }
        }
        bool mechanism = c.entries[e].on < 0 && strcmp(c.entries[e].fault, "none") != 0;
        CHECK(!mechanism || (!seen[0] && seen[1] && seen[2] && seen[3])); // each in turn
        CHECK(c.entries[e].on != PF_FAULT_ON_CHANNEL || (seen[0] && seen[1]));
    }
    CHECK(promised == c.n - 2); // all but the intermittent one and a channel's scale
    pf__catalogue_free(&c);
    pf_plant_destroy(plant);
}

// --- counts

static const char short_catalogue[] =
    "entries:\n"
    "  - {name: healthy, fault: none}\n"
    "  - {name: weak, fault: gain, from: .15, to: .95}\n"
    "  - {name: play, fault: backlash, value: .5}\n"
    "  - {name: top end, fault: saturation, value: .5}\n"
    "  - {name: frozen, fault: frozen, on: channel}\n"
    "  - {name: late, fault: lag, value: 2}\n"
    "  - {name: sometimes, fault: intermittent, value: .3, promised: false}\n"
    "  - {name: two, fault: gain, value: .35, second: .8}\n";

typedef struct bench {
    pf_catalogue catalogue;
    field f;
    pf_audit audit;
    pf_audit_result results[16];
    bool known[16];
    pf_effort effort;
    volatile int stop;
    int stop_after; // entries; 0: never
    int done;
} bench;

static pf_status keep(void *self, int entry, const pf_audit_result *result, pf_error *error)
{
    bench *b = self;
    (void)error;
    CHECK(result == &b->results[entry]);
    b->known[entry] = true;
    b->done++;
    __atomic_store_n(&b->stop, b->done == b->stop_after, __ATOMIC_RELAXED);
    return PF_OK;
}

static void open_bench(bench *b, const char *plant, const char *text, int sessions, int threads)
{
    pf_error error = {PF_OK, ""};
    memset(b, 0, sizeof *b);
    CHECK(pf__catalogue_read(&b->catalogue, "mine.yaml", text, strlen(text), &error) == PF_OK);
    CHECK_STR(error.text, "");
    field_open(&b->f, plant, &field_kit_of(plant, NULL)->kit);
    b->effort = (pf_effort){.threads = threads, .stop = &b->stop};
    b->audit = (pf_audit){.kit = b->f.kit,
                          .plant = b->f.plant,
                          .catalogue = &b->catalogue,
                          .sessions = sessions,
                          .seed = 3,
                          .effort = &b->effort,
                          .done = keep,
                          .self = b};
}

static void close_bench(bench *b)
{
    field_close(&b->f);
    pf__catalogue_free(&b->catalogue);
}

static pf_status run(bench *b)
{
    pf_error error = {PF_OK, ""};
    pf_status status = pf__audit_run(&b->audit, b->known, b->results, &error);
    CHECK(status == PF_OK || status == PF_ERR_INTERRUPTED);
    return status;
}

static char *json_of(bench *b)
{
    pf_text out = {0};
    pf__audit_json(&out, &b->audit, b->known, b->results);
    return out.data; // free() it
}

// One check of one session, and its flights, into the counts.
static void count_session(bench *b, int e, int item, pf_audit_result *r)
{
    const pf_audit_entry *entry = &b->catalogue.entries[e];
    field *f = &b->f;
    const pf_kit *k = f->kit;
    uint64_t seed = pf_key_stream(3, entry->name, (uint64_t)item, PF_PURPOSE_EVALUATION, 0) >> 12;
    CHECK(pf__catalogue_faults(entry, k, pf_plant_get_info(f->plant), 3, item, f->faults,
                               &f->n_faults, NULL) == PF_OK);
    pf_session *s = field_check(f, seed, NULL);
    pf_session_state state = pf_session_get_state(s);
    bool doubt = field_misfit(f) || (state.alarm && !state.named), named = true;
    int go[2] = {0, 0}, low[2] = {0, 0};
    for (int t = 0; t < k->n_tasks; t++) {
        const pf_task_readiness *task = pf_session_task(s, t);
        bool met = task->why == PF_WHY_CERTIFIED || task->why == PF_WHY_REHEARSAL ||
                   task->why == PF_WHY_NOT_REHEARSED || task->why == PF_WHY_MISFIT;
        bool is[2] = {task->decision == PF_GO, met && !doubt};
        pf_audit_count *counts[2] = {&r->with, &r->without};
        double flown = field_fly(f, t);
        for (int way = 0; way < 2; way++) {
            go[way] += is[way];
            counts[way]->go += is[way];
            counts[way]->below_bound += is[way] && flown < task->lower;
            low[way] += is[way] && flown < k->j_min;
        }
    }
    for (int j = 1; j < k->n_mech; j++) {
        bool faulty = false;
        for (int i = 0; i < f->n_faults; i++) {
            faulty = faulty || (entry->on < 0 && f->faults[i].at == j);
        }
        named = named && (pf_session_mechanism(s, j)->changed > .5) == faulty;
    }
    r->with.below_j_min += low[0];
    r->without.below_j_min += low[1];
    r->with.false_go += low[0] > 0;
    r->without.false_go += low[1] > 0;
    r->with.all_go += go[0] == k->n_tasks;
    r->without.all_go += go[1] == k->n_tasks;
    r->alarm += state.alarm;
    r->misfit += field_misfit(f);
    r->named += named;
    if (strcmp(entry->fault, "gain") == 0) {
        const double *interval = pf_session_mechanism(s, f->faults[0].at)->interval;
        double gain = f->faults[0].value;
        r->within += gain >= interval[0] && gain <= interval[1];
    } else {
        r->within = -1;
    }
    r->probes += state.told - state.rehearsals;
    r->rehearsals += state.rehearsals;
}

static void check_counts(void)
{
    bench b;
    int sessions = pf_long() ? 60 : 12, wrong = 0;
    open_bench(&b, "dc_servo", short_catalogue, sessions, 1);
    CHECK(run(&b) == PF_OK && b.done == b.catalogue.n);
    for (int e = 0; e < b.catalogue.n; e++) {
        const pf_audit_result *r = &b.results[e];
        pf_audit_result own = {.name = r->name, .covered = true, .sessions = sessions};
        own.tasks = b.f.kit->n_tasks;
        own.promised = strcmp(r->name, "sometimes") != 0;
        for (int i = 0; i < sessions; i++) {
            count_session(&b, e, i, &own);
        }
        if (!CHECK(memcmp(&own, r, sizeof own) == 0)) {
            printf("    entry %s\n", r->name);
        }
        wrong += r->without.false_go;
        CHECK(r->with.false_go == 0 || !r->promised);
    }
    CHECK(b.results[0].with.all_go == sessions && b.results[0].named >= sessions - 1);
    CHECK(wrong > sessions); // what rehearsals are for
    close_bench(&b);
}

// What a session showed besides its counts, again by one check and its flights. A twin that is a
// copy of the plant changes nothing; every task is flown, the refused ones too.
static void check_detail(void)
{
    bench b;
    pf_plant *twin = NULL;
    int refused = 0;
    open_bench(&b, "dc_servo", short_catalogue, 1, 1);
    field *f = &b.f;
    CHECK(pf_plant_clone(f->plant, &twin, NULL) == PF_OK);
    for (int i = 0; i < 6; i++) {
        int e = i < 3 ? 7 : 4; // two gains, a frozen channel
        int32_t decision[8];
        double lower[8], flown[8], sum = 0;
        pf_audit_detail detail = {.decision = decision, .lower = lower, .flown = flown};
        pf_audit_result with, without;
        uint64_t seed = pf__audit_seed(3, b.catalogue.entries[e].name, i);
        CHECK(pf__audit_session(&b.audit, f->plant, &b.catalogue.entries[e], i, &without, NULL) ==
              PF_OK);
        CHECK(pf__catalogue_faults(&b.catalogue.entries[e], f->kit, pf_plant_get_info(f->plant), 3,
                                   i, f->faults, &f->n_faults, NULL) == PF_OK);
        pf_audit_machine m = {f->plant, twin, seed, f->faults, f->n_faults};
        CHECK(pf__audit_machine(&b.audit, &m, &with, &detail, NULL) == PF_OK);
        with.name = without.name;
        CHECK(memcmp(&with, &without, sizeof with) == 0);
        pf_session *s = field_check(f, seed, NULL);
        for (int j = 0; j < f->n_faults && e == 7; j++) {
            sum += fabs(pf_session_mechanism(s, f->faults[j].at)->mean_gain - f->faults[j].value);
        }
        CHECK(e == 7 ? detail.gain_error == sum / 2 : isnan(detail.gain_error));
        for (int t = 0; t < f->kit->n_tasks; t++) {
            const pf_task_readiness *task = pf_session_task(s, t);
            CHECK(decision[t] == (int)task->decision && lower[t] == task->lower);
            CHECK(flown[t] == field_fly(f, t));
            refused += task->decision != PF_GO;
        }
    }
    CHECK(refused > 0);
    pf_plant_destroy(twin);
    close_bench(&b);
}

// Whether nothing is taken over, and nothing is known of what would be lost.
static bool takes_nothing(const char *text, size_t size, const pf_audit *audit, bench *b,
                          pf_status status)
{
    pf_error error = {PF_OK, ""};
    bool known[16] = {false};
    char what[200];
    int n = -1;
    return CHECK(pf__audit_resume(text, size, audit, known, b->results, &n, &error) == status) &&
           CHECK(n == 0) && CHECK((error.text[0] != 0) == (status != PF_OK)) &&
           CHECK(status == PF_OK ||
                 pf__audit_would_lose(text, size, audit, what, sizeof what, &error) == status);
}

static void *no_memory(size_t size)
{
    (void)size;
    return NULL;
}

static void check_stop(void)
{
    bench whole, cut;
    pf_error error = {PF_OK, ""};
    open_bench(&whole, "dc_servo", short_catalogue, 4, 1);
    open_bench(&cut, "dc_servo", short_catalogue, 4, 1);
    CHECK(run(&whole) == PF_OK);
    char *all = json_of(&whole);
    cut.stop_after = 3;
    CHECK(run(&cut) == PF_ERR_INTERRUPTED);
    CHECK(cut.done == 3 && cut.known[2] && !cut.known[3]);
    char *part = json_of(&cut);
    CHECK(strlen(part) < strlen(all));
    size_t size = strlen(part);
    close_bench(&cut);
    open_bench(&cut, "dc_servo", short_catalogue, 4, 1);
    int n = 0;
    CHECK(pf__audit_resume(part, size, &cut.audit, cut.known, cut.results, &n, &error) == PF_OK);
    CHECK(n == 3);
    CHECK(run(&cut) == PF_OK && cut.done == cut.catalogue.n - 3);
    char *again = json_of(&cut);
    CHECK_STR(again, all);
    PF_CASE("an audit of another question is not gone on with");
    pf_audit other = cut.audit;
    other.seed = 4;
    CHECK(takes_nothing(part, size, &other, &cut, PF_OK));
    other = cut.audit;
    other.sessions = 5;
    CHECK(takes_nothing(part, size, &other, &cut, PF_OK));
    other = cut.audit;
    other.kit = &field_kit_of("dc_servo", "alarm_trials=60")->kit;
    CHECK(takes_nothing(part, size, &other, &cut, PF_OK));
    PF_CASE("only where there is no audit at all is there none: a damaged one is an error");
    CHECK(takes_nothing(NULL, 0, &cut.audit, &cut, PF_OK));
    CHECK(takes_nothing(part, size / 2, &cut.audit, &cut, PF_ERR_FORMAT));
    CHECK(takes_nothing("", 0, &cut.audit, &cut, PF_ERR_FORMAT));
    PF_CASE("nor is memory that is short");
    json_set_alloc_funcs(no_memory, free);
    CHECK(takes_nothing(part, size, &cut.audit, &cut, PF_ERR_MEMORY));
    json_set_alloc_funcs(malloc, free);
    free(all);
    free(part);
    free(again);
    close_bench(&whole);
    close_bench(&cut);
}

static void check_threads(void)
{
    bench one, two;
    open_bench(&one, "dc_servo", short_catalogue, 7, 1);
    open_bench(&two, "dc_servo", short_catalogue, 7, 2);
    CHECK(run(&one) == PF_OK && run(&two) == PF_OK);
    char *a = json_of(&one), *b = json_of(&two);
    CHECK_STR(b, a);
    free(a);
    free(b);
    close_bench(&one);
    close_bench(&two);
}

static void check_not_covered(void)
{
    static const char text[] =
        "entries:\n  - {name: wind, fault: disturbance, value: 3, on: plant}\n"
        "  - {name: slow, fault: time_constant, value: 1.4, on: plant}\n"
        "  - {name: weak, fault: gain, value: .5}\n";
    bench b;
    open_bench(&b, "pendulum", text, 2, 1);
    CHECK(run(&b) == PF_OK);
    CHECK(!b.results[0].covered && !b.results[1].covered && b.results[2].covered);
    CHECK_CONTAINS(b.results[0].why, "cannot have the fault disturbance");
    CHECK(b.results[0].with.go == 0 && b.results[2].sessions == 2);
    char *json = json_of(&b);
    CHECK_CONTAINS(json, "{\"fault\":\"wind\",\"covered\":false,\"promised\":true,\"broke\":false,"
                         "\"why\":");
    free(json);
    close_bench(&b);
    PF_CASE("a machine with one candidate has no two losses");
    static const char two[] = "entries: [{name: two, fault: gain, value: .5, second: .5}]\n";
    open_bench(&b, "pendulum", two, 2, 1);
    pf_plant_info single = *pf_plant_get_info(b.f.plant);
    single.n_mech = 2;
    pf_fault faults[2];
    int n = 0;
    pf_error error = {PF_OK, ""};
    CHECK(pf__catalogue_faults(&b.catalogue.entries[0], b.f.kit, &single, 0, 0, faults, &n,
                               &error) == PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "only one candidate");
    close_bench(&b);
}

// --- the program

static json_t *load(const char *folder, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *json = json_load_file(path, 0, NULL);
    CHECK(json != NULL);
    return json;
}

static int get(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    CHECK(json_is_integer(value));
    return (int)json_integer_value(value);
}

// The last line of a journal that holds a verdict.
static json_t *last_verdict(const char *folder, const char *name, int *probes, int *rehearsals)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    json_t *verdict = NULL;
    *probes = *rehearsals = 0;
    for (json_t *line = NULL; file && (line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL));) {
        json_t *request = json_object_get(line, "request");
        const char *op = json_string_value(json_object_get(request, "op"));
        if (op && strcmp(op, "tell") == 0) {
            *probes += json_object_get(request, "probe") != NULL;
            *rehearsals += json_object_get(request, "rehearsal") != NULL;
        }
        if (op && strcmp(op, "readiness") == 0) {
            json_decref(verdict);
            verdict = json_incref(json_object_get(line, "reply"));
        }
        json_decref(line);
    }
    if (file) {
        fclose(file);
    }
    CHECK(verdict != NULL);
    return verdict;
}

// One session of an audit against the journal of the same check, made by the program.
static void check_journal(const char *folder)
{
    char command[900];
    static const char text[] = "entries: [{name: play, fault: backlash, value: .5}]\n";
    pf_error error = {PF_OK, ""};
    int probes, rehearsals, go = 0;
    snprintf(command, sizeof command, "%s/one.yaml", folder);
    CHECK(pf__file_write(command, text, sizeof text - 1, &error) == PF_OK);
    snprintf(command, sizeof command,
             "audit %s/servo.kit --catalogue %s/one.yaml --sessions 1 --seed 5 -o %s/one.json "
             "--json >%s/out.json",
             folder, folder, folder, folder);
    CHECK(program(command, 0, ""));
    json_t *audit = load(folder, "out.json"), *file = load(folder, "one.json");
    CHECK(json_equal(audit, file));
    json_t *entry = json_array_get(json_object_get(audit, "entries"), 0);
    unsigned long long seed = pf_key_stream(5, "play", 0, PF_PURPOSE_EVALUATION, 0) >> 12;
    snprintf(command, sizeof command,
             "check %s/servo.kit --fault 1:backlash=.5 --seed %llu --journal %s/journal; [ $? -le "
             "1 ]",
             folder, seed, folder);
    CHECK(program(command, 0, ""));
    json_t *verdict = last_verdict(folder, "journal", &probes, &rehearsals), *task;
    size_t i;
    json_array_foreach(json_object_get(verdict, "tasks"), i, task)
    {
        go += strcmp(json_string_value(json_object_get(task, "decision")), "go") == 0;
    }
    CHECK(get(entry, "go") == go && get(entry, "probes") == probes);
    CHECK(get(entry, "rehearsals") == rehearsals && rehearsals > 0);
    CHECK(get(verdict, "rehearsals") == rehearsals && get(verdict, "probes") == probes);
    CHECK(get(entry, "alarm") == json_is_true(json_object_get(verdict, "alarm")));
    json_decref(audit);
    json_decref(file);
    json_decref(verdict);
}

// What a certificate says of an audit; 0: nothing.
static int audited(const char *folder, const char *kit)
{
    char command[600];
    snprintf(command, sizeof command, "check %s/%s --json >%s/certificate.json", folder, kit,
             folder);
    CHECK(program(command, 0, ""));
    json_t *certificate = load(folder, "certificate.json");
    json_t *audit = json_object_get(certificate, "audit");
    int sessions = json_is_null(audit) ? 0 : get(audit, "sessions");
    CHECK(json_is_null(audit) || (get(audit, "entries") == 2 && get(audit, "covered") == 2 &&
                                  get(audit, "false_go") == 0));
    double worst = json_number_value(json_object_get(audit, "worst_upper"));
    CHECK(json_is_null(audit) || fabs(worst - pf__audit_upper(0, sessions)) < 1e-12);
    json_decref(certificate);
    return sessions;
}

// servo.kit has no audit; two.yaml has the faults none and weak.
static void check_replace(const char *folder)
{
    static const char weak[] = "entries: [{name: weak, fault: gain, value: .5}]\n";
    static const struct {
        const char *options; // after the catalogue
        int status, sessions;
        const char *part;
    } calls[] = {
        {"two.yaml --sessions 4 --rules", 0, 4, "2 of 2 entries, 4 sessions each"},
        {"two.yaml --sessions 4", 2, 4,
         "keeps an audit of 2 faults, 4 sessions each, with --rules; keep this one elsewhere"},
        {"two.yaml --sessions 3 --rules", 2, 4, "an audit of 2 faults, 4 sessions each"},
        {"weak.yaml --sessions 5 --rules", 2, 4,
         "an audit with the fault 'none', which this one leaves out"},
        {"two.yaml --sessions 4 --rules", 0, 4, "2 of 2 entries"},     // the same one
        {"two.yaml --sessions 5 --rules", 0, 5, "5 sessions each"},    // a better one
        {"two.yaml --sessions 3 --replace", 0, 3, "3 sessions each"}}; // as was asked for
    char path[300], command[900];
    snprintf(path, sizeof path, "%s/weak.yaml", folder);
    CHECK(pf__file_write(path, weak, sizeof weak - 1, NULL) == PF_OK);
    snprintf(path, sizeof path, "%s/servo.kit.audit.json", folder);
    CHECK(remove(path) == 0);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        snprintf(command, sizeof command, "audit %s/servo.kit --catalogue %s/%s", folder, folder,
                 calls[i].options);
        CHECK(program(command, calls[i].status, calls[i].part));
        CHECK(audited(folder, "servo.kit") == calls[i].sessions);
    }
    PF_CASE("program: an audit that is damaged or cannot be read is not begun again unasked");
    char *kept = program_text(folder, "servo.kit.audit.json");
    CHECK(pf__file_write(path, kept, strlen(kept) / 2, NULL) == PF_OK);
    CHECK(program_in(folder, "audit @/servo.kit --catalogue @/two.yaml --sessions 3", 3,
                     "is no audit, or a damaged one"));
    char *damaged = program_text(folder, "servo.kit.audit.json");
    CHECK(strlen(damaged) == strlen(kept) / 2);
    CHECK(program_in(folder, "audit @/servo.kit --catalogue @/two.yaml --sessions 3 --replace", 0,
                     "2 of 2 entries"));
    CHECK(program_in(folder, "--version; truncate -s 70M @/servo.kit.audit.json", 0, ""));
    CHECK(program_in(folder, "audit @/servo.kit --catalogue @/two.yaml --sessions 3", 3,
                     "servo.kit.audit.json: larger than"));
    CHECK(program_in(folder, "kit report @/servo.kit -o @/page.html", 3, "larger than"));
    CHECK(program_in(folder, "--version; mkfifo @/pipe.kit.audit.json && cp @/servo.kit @/pipe.kit",
                     0, ""));
    CHECK(program_in(folder, "audit @/pipe.kit --catalogue @/two.yaml --sessions 3", 3,
                     "pipe.kit.audit.json: is no plain file"));
    CHECK(program_in(folder, "calibrate dc_servo -o @/pipe.kit --audit", 3, "is no plain file"));
    CHECK(program_in(folder, "--version; : >@/empty.json", 0, ""));
    CHECK(program_in(folder,
                     "audit @/servo.kit --catalogue @/two.yaml --sessions 3 -o @/empty.json", 0,
                     "2 of 2 entries"));
    free(kept);
    free(damaged);
    CHECK(remove(path) == 0);
}

static void check_certificate(const char *folder)
{
    char command[900];
    static const char text[] = "entries: [{name: none, fault: none}, {name: weak, fault: gain, "
                               "value: .5}]\n";
    pf_error error = {PF_OK, ""};
    PF_CASE("program: a certificate says what its kit was audited against");
    snprintf(command, sizeof command, "%s/two.yaml", folder);
    CHECK(pf__file_write(command, text, sizeof text - 1, &error) == PF_OK);
    CHECK(audited(folder, "servo.kit") == 0);
    snprintf(command, sizeof command, "check %s/servo.kit", folder);
    CHECK(program(command, 0, "This kit was not audited"));
    snprintf(command, sizeof command, "audit %s/servo.kit --catalogue %s/two.yaml --sessions 7",
             folder, folder);
    CHECK(program(command, 0, "2 of 2 entries, 7 sessions each. 0 sessions with a false go"));
    CHECK(audited(folder, "servo.kit") == 7);
    snprintf(command, sizeof command, "check %s/servo.kit", folder);
    CHECK(program(command, 0, "audited against 2 of 2 entries, 7 sessions each: 0 false"));
    PF_CASE(
        "program: an audit with more false verdicts than alpha allows stands beside the verdict");
    snprintf(command, sizeof command,
             "--version; sed -i.good 's/\"below_j_min\":0,\"false_go\":0,\"upper\":[^,}]*/"
             "\"below_j_min\":1,\"false_go\":1,\"upper\":%.17g/' %s/servo.kit.audit.json",
             pf__audit_upper(1, 7), folder);
    CHECK(program(command, 0, ""));
    snprintf(command, sizeof command, "check %s/servo.kit --report %s/s.html --certificate %s/s.c",
             folder, folder, folder);
    CHECK(program(command, 0, "A go of this kit may be false."));
    snprintf(command, sizeof command, "explain %s/s.c", folder);
    CHECK(program(command, 0, "A go of this kit may be false."));
    char *sheet = program_text(folder, "s.html");
    const char *at = strstr(sheet, "<b>This kit was audited. It did not pass: ");
    CHECK(at && strstr(sheet, "Machine, kit and check") > at);
    free(sheet);
    snprintf(command, sizeof command,
             "--version; mv %s/servo.kit.audit.json.good %s/servo.kit.audit.json", folder, folder);
    CHECK(program(command, 0, ""));
    PF_CASE("program: the audit of another kit, or half of one, is not shown");
    snprintf(command, sizeof command, "%s/other.kit", folder);
    const field_kit *other = field_kit_of("dc_servo", "alarm_trials=60");
    CHECK(pf__file_write(command, other->bytes, other->n, &error) == PF_OK);
    snprintf(command, sizeof command,
             "--version; cp %s/servo.kit.audit.json %s/other.kit.audit.json", folder, folder);
    CHECK(program(command, 0, ""));
    CHECK(audited(folder, "other.kit") == 0);
    snprintf(command, sizeof command,
             "--version; sed 's/\"total\":2/\"total\":3/' %s/other.kit.audit.json "
             ">%s/servo.kit.audit.json",
             folder, folder);
    CHECK(program(command, 0, ""));
    CHECK(audited(folder, "servo.kit") == 0);
    PF_CASE("program: counts that are missing, of another kind or too many are no counts");
    static const char *const edits[] = {
        "s/\"false_go\":0,//g",
        "s/\"false_go\":0/\"false_go\":\"x\"/g",
        "s/\"sessions\":7,\"tasks\"/\"sessions\":120000,\"tasks\"/g",
        "s/\"sessions\":7/\"sessions\":100000/g",
        "s/\"upper\":[^,}]*/\"upper\":1e-9/g",
        "s/\"named\":[0-9]*/\"named\":8/",
        "s/\"all_go\":[0-9]*/\"all_go\":7/; s/\"go\":[0-9]*/\"go\":0/",
        "s/\"machine\":\"dc_servo/\"machine\":\"other/"};
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        snprintf(command, sizeof command,
                 "audit %s/servo.kit --catalogue %s/two.yaml --sessions 7 -o %s/whole.json", folder,
                 folder, folder);
        CHECK(program(command, 0, ""));
        snprintf(command, sizeof command,
                 "--version; sed '%s' %s/whole.json >%s/servo.kit.audit.json", edits[i], folder,
                 folder);
        CHECK(program(command, 0, ""));
        CHECK(audited(folder, "servo.kit") == 0);
        if (!strstr(edits[i], "machine")) { // that one is whole, and another machine's
            CHECK(program_in(folder, "audit @/servo.kit --catalogue @/two.yaml --sessions 7", 3,
                             "servo.kit.audit.json: is no audit, or a damaged one, or its numbers "
                             "contradict"));
        }
    }
    PF_CASE("program: a better audit of the same kit is not replaced unasked");
    check_replace(folder);
    PF_CASE("program: an audit that tested nothing proves nothing");
    static const char none[] = "entries: [{name: slow, fault: time_constant, value: 1.4, on: plant,"
                               " promised: false}, {name: weak, fault: gain, value: .5, promised: "
                               "false}]\n";
    snprintf(command, sizeof command, "%s/none.yaml", folder);
    CHECK(pf__file_write(command, none, sizeof none - 1, &error) == PF_OK);
    snprintf(command, sizeof command, "audit %s/servo.kit --catalogue %s/none.yaml --sessions 3",
             folder, folder);
    CHECK(program(command, 1, "no entry that is promised could be tested"));
    snprintf(command, sizeof command, "check %s/servo.kit", folder);
    CHECK(program(command, 0, "audited against nothing that is promised"));
}

static void check_calls(const char *folder)
{
    static const struct {
        const char *arguments;
        int status;
        const char *part;
    } calls[] = {{"", 2, "name one kit"},
                 {"%s/nosuch.kit", 3, "nosuch.kit"},
                 {"%s/servo.kit --sessions 0", 2, "--sessions"},
                 {"%s/servo.kit --catalogue /nosuch.yaml", 3, "nosuch.yaml"},
                 {"%s/paper.kit", 2, "an audit is about a field kit"},
                 {"%1$s/servo.kit -o %1$s/servo.kit", 2, "would overwrite an input"},
                 {"%1$s/servo.kit --catalogue %1$s/two.yaml -o %1$s/two.yaml", 2,
                  "would overwrite an input"},
                 {"%s/servo.kit -o -", 2, "-o needs a file"},
                 {"%s/servo.kit --model x", 2, "--model"}};
    char command[600], path[300];
    pf_error error = {PF_OK, ""};
    const field_kit *paper = field_kit_of("dc_servo", "field=false");
    snprintf(path, sizeof path, "%s/paper.kit", folder);
    CHECK(pf__file_write(path, paper->bytes, paper->n, &error) == PF_OK);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        int n = snprintf(command, sizeof command, "audit ");
        snprintf(command + n, sizeof command - (size_t)n, calls[i].arguments, folder);
        CHECK(program(command, calls[i].status, calls[i].part));
    }
}

void test_audit(void)
{
    char folder[200], path[300];
    pf_error error = {PF_OK, ""};
    PF_CASE("the upper limit is exact");
    check_upper();
    PF_CASE("catalogue: refusals name what is wrong");
    check_refusals();
    PF_CASE("catalogue: a name stands once");
    check_names();
    PF_CASE("catalogue: ours puts every fault everywhere in turn");
    check_catalogue();
    PF_CASE("every count is that of single checks and flights");
    check_counts();
    PF_CASE("the detail of a session is that of its check and flights");
    check_detail();
    PF_CASE("stopped and gone on with is the same file");
    check_stop();
    PF_CASE("one thread and two count the same");
    check_threads();
    PF_CASE("what a plant cannot have is not covered, and says why");
    check_not_covered();
    PF_CASE("program: a folder with a kit");
    CHECK(program_folder(folder, sizeof folder, "audit"));
    const field_kit *kit = field_kit_of("dc_servo", NULL);
    snprintf(path, sizeof path, "%s/servo.kit", folder);
    CHECK(pf__file_write(path, kit->bytes, kit->n, &error) == PF_OK);
    PF_CASE("program: an entry is what the journal of its check says");
    check_journal(folder);
    check_certificate(folder);
    PF_CASE("program: wrong calls of audit");
    check_calls(folder);
}
