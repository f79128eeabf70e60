// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "audit_file.h"
#include "words.h"

#include "core/sha256.h"
#include "host/file.h"
#include "host/json.h"
#include "host/page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *pf__audit_path(const char *kit)
{
    static const char ending[] = ".audit.json";
    size_t n = strlen(kit);
    char *path = malloc(n + sizeof ending);
    if (path) {
        memcpy(path, kit, n);
        memcpy(path + n, ending, sizeof ending);
    }
    return path;
}

// --- writing

static void add_count(pf_text *out, const pf_audit_count *c, int sessions)
{
    pf__json_add_int(out, "go", c->go);
    pf__json_add_int(out, "all_go", c->all_go);
    pf__json_add_int(out, "below_bound", c->below_bound);
    pf__json_add_int(out, "below_j_min", c->below_j_min);
    pf__json_add_int(out, "false_go", c->false_go);
    pf__json_add_number(out, "upper", pf__audit_upper(c->false_go, sessions));
}

static void add_entry(pf_text *out, const pf_audit_result *r, bool rules)
{
    pf__text_add(out, "{");
    pf__json_add_string(out, "fault", r->name);
    pf__json_key(out, "covered");
    pf__text_add(out, r->covered ? "true" : "false");
    pf__json_key(out, "promised");
    pf__text_add(out, r->promised ? "true" : "false");
    if (!r->covered) {
        pf__json_key(out, "broke");
        pf__text_add(out, r->broke ? "true" : "false");
        pf__json_add_string(out, "why", r->why);
        pf__text_add(out, "}");
        return;
    }
    pf__json_add_int(out, "sessions", r->sessions);
    pf__json_add_int(out, "tasks", r->tasks);
    pf__json_add_int(out, "alarm", r->alarm);
    pf__json_add_int(out, "misfit", r->misfit);
    pf__json_add_int(out, "named", r->named);
    if (r->within >= 0) {
        pf__json_add_int(out, "within", r->within);
    }
    pf__json_add_int(out, "probes", r->probes);
    pf__json_add_int(out, "rehearsals", r->rehearsals);
    add_count(out, &r->with, r->sessions);
    pf__json_key(out, "without_rehearsal");
    pf__text_add(out, "{");
    add_count(out, &r->without, r->sessions);
    pf__text_add(out, "}");
    for (int rule = 0; rule < PF_RULES && rules; rule++) {
        pf__json_open(out, pf__rule_name(rule), "{");
        pf__json_add_int(out, "runs", r->rule_runs[rule]);
        add_count(out, &r->rules[rule], r->sessions);
        pf__text_add(out, "}");
    }
    pf__text_add(out, "}");
}

// Whose audit it is: the name and the version of the machine.
enum { MACHINE_TEXT = 300 };
static void machine_text(const pf_plant *plant, char out[MACHINE_TEXT])
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    snprintf(out, MACHINE_TEXT, "%s, %s", info->name, info->source ? info->source : "");
}

static void add_head(pf_text *out, const pf_audit *a)
{
    char sha[65], machine[MACHINE_TEXT];
    pf__sha256_text(pf_kit_get_info(a->kit).sha256, sha);
    pf__json_add_string(out, "kit", sha);
    pf__json_add_string(out, "plant", pf_kit_get_string(a->kit, PF_KIT_PLANT));
    machine_text(a->plant, machine);
    pf__json_add_string(out, "machine", machine);
    pf__json_add_string(out, "catalogue", a->catalogue->sha256);
    pf__json_add_int(out, "sessions", a->sessions);
    pf__json_add_number(out, "seed", (double)a->seed);
    pf__json_add_int(out, "total", a->catalogue->n);
    pf__json_key(out, "rules");
    pf__text_add(out, a->rules ? "true" : "false");
    pf__json_add_string(out, "preflight", PF_VERSION);
}

void pf__audit_json(pf_text *out, const pf_audit *a, const bool *known,
                    const pf_audit_result *results)
{
    pf__text_add(out, "{\"format\":\"preflight-audit\"");
    add_head(out, a);
    pf__json_key(out, "entries");
    pf__text_add(out, "[");
    for (int e = 0; e < a->catalogue->n; e++) {
        if (known[e]) {
            pf__json_comma(out);
            pf__text_add(out, "\n");
            add_entry(out, &results[e], a->rules);
        }
    }
    pf__text_add(out, "\n]}\n");
}

// --- reading

// A count; what is none is -1.
static int get_int(json_t *object, const char *key)
{
    json_t *found = json_object_get(object, key);
    json_int_t value = json_is_integer(found) ? json_integer_value(found) : -1;
    return value >= 0 && value <= 1000000000 ? (int)value : -1;
}

static bool is_count(const pf_audit_count *c, const pf_audit_result *r)
{
    int64_t tasks = (int64_t)r->sessions * r->tasks;
    return c->go >= 0 && c->go <= tasks && c->below_bound >= 0 && c->below_bound <= c->go &&
           c->below_j_min >= 0 && c->below_j_min <= c->go && c->false_go >= 0 &&
           c->false_go <= c->below_j_min && c->below_j_min <= (int64_t)c->false_go * r->tasks &&
           c->all_go >= 0 && c->all_go <= r->sessions && (int64_t)c->all_go * r->tasks <= c->go;
}

static bool is_share(int count, const pf_audit_result *r)
{
    return count >= 0 && count <= r->sessions;
}

// Whether the counts of an entry go together.
static bool makes_sense(const pf_audit_result *r)
{
    return !r->covered || (r->sessions > 0 && r->sessions <= 1000000 && r->tasks > 0 &&
                           is_share(r->alarm, r) && is_share(r->misfit, r) &&
                           is_share(r->named, r) && r->within <= r->sessions && r->probes >= 0 &&
                           r->rehearsals >= 0 && is_count(&r->with, r) && is_count(&r->without, r));
}

static pf_audit_count get_count(json_t *o)
{
    return (pf_audit_count){.go = get_int(o, "go"),
                            .all_go = get_int(o, "all_go"),
                            .below_bound = get_int(o, "below_bound"),
                            .below_j_min = get_int(o, "below_j_min"),
                            .false_go = get_int(o, "false_go")};
}

static void get_entry(json_t *o, pf_audit_result *r)
{
    const char *why = json_string_value(json_object_get(o, "why"));
    r->covered = json_is_true(json_object_get(o, "covered"));
    r->broke = json_is_true(json_object_get(o, "broke"));
    r->promised = json_is_true(json_object_get(o, "promised"));
    snprintf(r->why, sizeof r->why, "%s", why ? why : "");
    r->sessions = get_int(o, "sessions");
    r->tasks = get_int(o, "tasks");
    r->alarm = get_int(o, "alarm");
    r->misfit = get_int(o, "misfit");
    r->named = get_int(o, "named");
    r->within = json_object_get(o, "within") ? get_int(o, "within") : -1;
    r->probes = get_int(o, "probes");
    r->rehearsals = get_int(o, "rehearsals");
    r->with = get_count(o);
    r->without = get_count(json_object_get(o, "without_rehearsal"));
    for (int rule = 0; rule < PF_RULES; rule++) {
        json_t *one = json_object_get(o, pf__rule_name(rule));
        r->rules[rule] = get_count(one);
        r->rule_runs[rule] = get_int(one, "runs");
    }
}

// Whether an upper limit is the one that follows from the counts, to rounding.
static bool follows(json_t *object, const pf_audit_count *c, int sessions)
{
    const double slack = 1e-6;
    double upper = json_number_value(json_object_get(object, "upper"));
    return c->false_go < sessions
               ? upper > 0 && upper < 1 &&
                     fabs(pf__audit_p_value(c->false_go, sessions, upper) / .05 - 1) < slack
               : upper == 1;
}

// Whether an entry says what can be: its counts go together, and with all that follows from them.
static bool agrees(json_t *item, int sessions)
{
    pf_audit_result r = {0};
    get_entry(item, &r);
    bool good = !r.covered ||
                (r.sessions == sessions && makes_sense(&r) && follows(item, &r.with, sessions) &&
                 follows(json_object_get(item, "without_rehearsal"), &r.without, sessions));
    for (int rule = 0; rule < PF_RULES && good && r.covered; rule++) {
        json_t *one = json_object_get(item, pf__rule_name(rule));
        good = !one || (is_count(&r.rules[rule], &r) && follows(one, &r.rules[rule], sessions));
    }
    return good;
}

static bool all_agree(json_t *json)
{
    json_t *entries = json_object_get(json, "entries");
    int sessions = get_int(json, "sessions");
    bool good = sessions > 0;
    for (size_t i = 0; i < json_array_size(entries) && good; i++) {
        good = agrees(json_array_get(entries, i), sessions);
    }
    return good;
}

// A text as JSON. Refused where it is no audit; text NULL, there is none: *json is NULL.
static pf_status parse(const char *text, size_t n, json_t **json, pf_error *error)
{
    json_error_t problem = {.line = 0}; // jansson leaves the code as it is where memory is short
    *json = text ? pf__json_load(text, n, JSON_REJECT_DUPLICATES, &problem) : NULL;
    if (!text) {
        return PF_OK;
    }
    enum json_error_code code = *json ? json_error_unknown : json_error_code(&problem);
    if (!*json && (code == json_error_out_of_memory || code == json_error_unknown)) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for an audit");
    }
    const char *format = json_string_value(json_object_get(*json, "format"));
    if (!format || strcmp(format, "preflight-audit") != 0 ||
        !json_is_array(json_object_get(*json, "entries")) || !all_agree(*json)) {
        json_decref(*json);
        *json = NULL;
        return pf_fail(error, PF_ERR_FORMAT, PF_AUDIT_DAMAGED);
    }
    return PF_OK;
}

bool pf__audit_damaged(const char *text, size_t n)
{
    json_t *json = NULL;
    pf_status status = parse(text, n, &json, NULL);
    json_decref(json);
    return status == PF_ERR_FORMAT;
}

// Whether a file was made for the same question.
static pf_status compare_heads(json_t *json, const pf_audit *a, bool *same, pf_error *error)
{
    pf_text head = {0};
    json_error_t problem;
    pf__text_add(&head, "{");
    add_head(&head, a);
    pf__text_add(&head, "}");
    json_t *own = head.failed ? NULL : pf__json_load(head.data, head.size, 0, &problem);
    const char *key;
    json_t *value;
    *same = own != NULL;
    json_object_foreach(own, key, value)
    {
        *same = *same && json_equal(value, json_object_get(json, key));
    }
    bool known = own != NULL;
    json_decref(own);
    pf__text_free(&head);
    return known ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for an audit");
}

pf_status pf__audit_resume(const char *text, size_t n_text, const pf_audit *a, bool *known,
                           pf_audit_result *results, int *n, pf_error *error)
{
    *n = 0;
    json_t *json = NULL;
    bool same = false;
    pf_status status = parse(text, n_text, &json, error);
    status = json ? compare_heads(json, a, &same, error) : status;
    json_t *entries = same ? json_object_get(json, "entries") : NULL;
    for (size_t i = 0; i < json_array_size(entries); i++) {
        json_t *item = json_array_get(entries, i);
        const char *name = json_string_value(json_object_get(item, "fault"));
        for (int e = 0; name && e < a->catalogue->n; e++) {
            if (strcmp(a->catalogue->entries[e].name, name) == 0 && !known[e]) {
                get_entry(item, &results[e]);
                results[e].name = a->catalogue->entries[e].name;
                known[e] = makes_sense(&results[e]) && !results[e].broke &&
                           (!results[e].covered || results[e].sessions == a->sessions);
                *n += known[e];
            }
        }
    }
    json_decref(json);
    return status;
}

// Whether the audit was of this machine.
static bool same_machine(json_t *json, const pf_plant *plant)
{
    char own[MACHINE_TEXT];
    const char *machine = json_string_value(json_object_get(json, "machine"));
    machine_text(plant, own);
    return machine && strcmp(machine, own) == 0;
}

// The names and the count of what is done in an audit.
typedef struct done {
    int n;
    const char *left_out; // the first that a catalogue does not have
} done;

static done done_in(json_t *entries, const pf_catalogue *catalogue)
{
    done d = {0};
    for (size_t i = 0; i < json_array_size(entries); i++) {
        json_t *item = json_array_get(entries, i);
        const char *name = json_string_value(json_object_get(item, "fault"));
        pf_audit_result r = {0};
        get_entry(item, &r);
        if (name && r.covered && makes_sense(&r)) {
            bool kept = d.left_out || pf__catalogue_find(catalogue, name);
            d.left_out = kept ? d.left_out : name;
            d.n++;
        }
    }
    return d;
}

pf_status pf__audit_would_lose(const char *text, size_t n, const pf_audit *a, char *what,
                               size_t size, pf_error *error)
{
    char sha[65];
    json_t *json = NULL;
    bool same = false;
    what[0] = 0;
    pf_status status = parse(text, n, &json, error);
    status = json ? compare_heads(json, a, &same, error) : status;
    const char *kit = json_string_value(json_object_get(json, "kit"));
    pf__sha256_text(pf_kit_get_info(a->kit).sha256, sha);
    if (kit && strcmp(kit, sha) == 0 && same_machine(json, a->plant) && !same) {
        done d = done_in(json_object_get(json, "entries"), a->catalogue);
        bool rules = json_is_true(json_object_get(json, "rules")) && !a->rules;
        int sessions = get_int(json, "sessions");
        if (d.n > 0 && d.left_out) {
            snprintf(what, size, "an audit with the fault '%.80s', which this one leaves out",
                     d.left_out);
        } else if (d.n > 0 && (sessions > a->sessions || rules)) {
            snprintf(what, size, "an audit of %s, %s each%s", pf__counted(d.n, "fault").text,
                     pf__counted(sessions, "session").text, rules ? ", with --rules" : "");
        }
    }
    json_decref(json);
    return status;
}

// Whether an entry has the name of an earlier one.
static bool named_before(json_t *entries, size_t i)
{
    json_t *name = json_object_get(json_array_get(entries, i), "fault");
    for (size_t j = 0; j < i; j++) {
        if (json_equal(name, json_object_get(json_array_get(entries, j), "fault"))) {
            return true;
        }
    }
    return !name;
}

static void add_words(pf_text *words, int entries, int covered, int promised, int sessions,
                      bool unrehearsed, int false_go, double worst)
{
    char line[240];
    if (promised == 0) {
        snprintf(line, sizeof line, "audited against nothing that is promised: %d of %s", covered,
                 pf__counted(entries, "entry").text);
    } else {
        pf__print(line, sizeof line,
                  "audited%s against %d of %s, %s each: %d false among the %d promised, at worst "
                  "%.1f %% (upper 95 %% limit)",
                  unrehearsed ? " without rehearsals, as you accept," : "", covered,
                  pf__counted(entries, "entry").text, pf__counted(sessions, "session").text,
                  false_go, promised, 100 * worst);
    }
    pf__text_add(words, line);
}

bool pf__audit_summary(pf_text *out, const char *text, size_t n_text, const char *kit_sha256,
                       const pf_plant *machine, bool unrehearsed, double alpha, pf_text *words)
{
    json_t *json = NULL;
    // what is no audit says nothing
    out->failed = parse(text, n_text, &json, NULL) == PF_ERR_MEMORY || out->failed;
    json_t *entries = json_object_get(json, "entries");
    const char *kit = json_string_value(json_object_get(json, "kit"));
    const char *catalogue = json_string_value(json_object_get(json, "catalogue"));
    size_t n = json_array_size(entries);
    bool whole = json && kit && catalogue && strcmp(kit, kit_sha256) == 0 && n > 0 &&
                 (int)n == get_int(json, "total") && same_machine(json, machine);
    int covered = 0, false_go = 0, promised = 0, sessions = get_int(json, "sessions");
    double worst = 0, go = 0, tasks = 0;
    for (size_t i = 0; i < n && whole; i++) {
        pf_audit_result r = {0};
        get_entry(json_array_get(entries, i), &r);
        whole = makes_sense(&r) && !named_before(entries, i) && !r.broke &&
                (!r.covered || r.sessions == sessions);
        covered += r.covered;
        const pf_audit_count *count = unrehearsed ? &r.without : &r.with;
        go += r.covered ? count->go : 0;
        tasks += r.covered ? (double)r.sessions * r.tasks : 0;
        promised += r.covered && r.promised;
        if (r.covered && r.promised) {
            double upper = pf__audit_upper(count->false_go, r.sessions);
            false_go += count->false_go;
            worst = upper > worst ? upper : worst;
        }
    }
    if (whole) {
        worst = promised > 0 ? worst : 1; // nothing was tested
        pf__json_add_string(out, "catalogue", catalogue);
        pf__json_add_int(out, "entries", (int)n);
        pf__json_add_int(out, "covered", covered);
        pf__json_add_int(out, "promised", promised);
        pf__json_key(out, "unrehearsed");
        pf__text_add(out, unrehearsed ? "true" : "false");
        pf__json_add_int(out, "sessions", sessions);
        pf__json_add_int(out, "false_go", false_go);
        pf__json_add_number(out, "worst_upper", worst);
        pf__json_add_number(out, "go", tasks > 0 ? go / tasks : 0);
        add_words(words, (int)n, covered, promised, sessions, unrehearsed, false_go, worst);
        pf__text_addf(words, promised > 0 ? ", %.0f %% of the tasks go." : ".",
                      100 * go / fmax(1, tasks));
        pf__words_audit_failed(words, false_go, worst, alpha);
    }
    json_decref(json);
    return whole;
}

static void add_row(pf_text *html, const char *name, const pf_audit_result *r)
{
    pf__page_row(html, name);
    if (!r->covered) {
        pf__page_cell(html, "td colspan=\"6\"", r->why[0] ? r->why : "this plant cannot have it");
    } else {
        double upper = pf__audit_upper(r->with.false_go, r->sessions);
        pf__page_cell(html, "td", r->promised ? "yes" : "no");
        pf__page_number(html, r->sessions, 0);
        pf__page_number(html, r->misfit, 0);
        pf__text_addf(html, "<td class=\"n\">%d of %lld</td>", r->with.go,
                      (long long)r->sessions * r->tasks);
        pf__text_addf(html, "<td class=\"n%s\">%d</td>", r->with.false_go ? " no-go" : "",
                      r->with.false_go);
        pf__text_addf(html, "<td class=\"n\">%.1f %%</td>", 100 * upper);
    }
    pf__page_row_end(html);
}

bool pf__audit_table(pf_text *html, const char *text, size_t n_text, const char *kit_sha256)
{
    json_t *json = NULL;
    if (parse(text, n_text, &json, NULL) == PF_ERR_MEMORY) {
        html->failed = true;
    }
    json_t *entries = json_object_get(json, "entries");
    const char *kit = json_string_value(json_object_get(json, "kit"));
    bool same = kit && strcmp(kit, kit_sha256) == 0;
    size_t n = same ? json_array_size(entries) : 0;
    int total = get_int(json, "total");
    if (same) {
        pf__text_addf(html, "<p>%zu of %d entries of the catalogue are done.</p>\n", n,
                      total > (int)n ? total : (int)n);
        PF_PAGE_HEAD(html, "Machines that are sick in every way", "fault", "promised", "sessions",
                     "misfit", "tasks go", "sessions with a false go", "at most (95 %)");
    }
    for (size_t i = 0; i < n; i++) {
        pf_audit_result r = {0};
        json_t *item = json_array_get(entries, i);
        const char *name = json_string_value(json_object_get(item, "fault"));
        get_entry(item, &r);
        if (name && makes_sense(&r)) {
            add_row(html, name, &r);
        }
    }
    if (same) {
        pf__page_table_end(html);
    }
    json_decref(json);
    return same;
}
