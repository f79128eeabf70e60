// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "cli.h"

#include "core/sha256.h"
#include "host/file.h"
#include "wire/reply.h"
#include "wire/sheet.h"
#include "wire/weakened.h"

#include <stdlib.h>
#include <string.h>

// --- the journal

// Keeps the first failure.
static void note_lost(cli_check *c, pf_status status, const pf_error *error)
{
    if (c->lost == PF_OK && status != PF_OK) {
        c->lost = status;
        c->error = *error;
    }
}

// The faults that were put into a simulated machine; nothing: none.
static void add_injected(const cli_check *c, pf_text *out)
{
    for (int i = 0; i < c->n_faults; i++) {
        char one[200];
        pf_fault_text(&c->faults[i], pf_plant_get_info(c->machine), one, sizeof one);
        pf__text_addf(out, "%s%s", i ? ", " : "", one);
    }
}

// Adds a record to the journal, in its file first; after a failure no more.
static void add_record(cli_check *c, const pf_text *record)
{
    pf_error error = {PF_OK, ""};
    if (c->log.fd >= 0 && c->lost == PF_OK) {
        note_lost(c, pf__log_add(&c->log, record, &error), &error);
    }
    pf__text_join(&c->journal, record);
}

static void journal_event(cli_check *c, const pf_text *request, const pf_witness *witness,
                          const pf_text *reply)
{
    pf_text line = {0}, record = {0};
    pf__text_add(&line, "{\"ok\":true");
    pf__text_add(&line, reply->size > 0 ? "," : "");
    pf__text_join(&line, reply);
    pf__text_add(&line, "}");
    pf__journal_entry(&record, request, witness, &line);
    add_record(c, &record);
    pf__text_free(&record);
    pf__text_free(&line);
}

// The same for a request that says nothing but what is written here.
static void journal_plain(cli_check *c, const char *request, const pf_text *reply)
{
    pf_text text = {0};
    pf__text_add(&text, request);
    journal_event(c, &text, NULL, reply);
    pf__text_free(&text);
}

static const double *copied(cli_check *c, size_t n, const double *values)
{
    double *copy = pf__arena_take(&c->arena, n, sizeof *copy);
    if (copy) {
        memcpy(copy, values, n * sizeof *copy);
    }
    return copy;
}

// Hooks of the drive: everything asked and told goes into the journal as serve would write it.
static void after_ask(void *self, const pf_ask *asked)
{
    cli_check *c = self;
    pf_text reply = {0};
    c->alarmed = pf_session_get_state(c->session).alarm;
    if (asked->kind == PF_ASK_REHEARSAL && asked->command) {
        // the session plans its next rehearsal where this command stands
        size_t n = (size_t)asked->rows * (size_t)pf_kit_get_info(c->kit).n_mech;
        c->rehearsed = copied(c, n, asked->command);
    }
    pf__reply_ask(&reply, c->session, asked);
    journal_plain(c, "{\"op\":\"ask\"}", &reply);
    pf__text_free(&reply);
}

static pf_predictor watch(void *self, const pf_predictor *inner, const pf_ask *asked)
{
    cli_check *c = self;
    (void)asked;
    pf__witness_start(&c->witness, c->kit, inner, pf_session_get_state(c->session).per_gain);
    return pf__witness_predictor(&c->witness);
}

static void journal_tell(cli_check *c, const pf_ask *asked, const pf_answer *answer)
{
    const pf_kit *kit = c->kit;
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
    pf__reply_tell(&reply, c->session, asked->stage);
    journal_event(c, &request, &c->witness, &reply);
    pf__text_free(&request);
    pf__text_free(&reply);
}

// --- the runs, one row each

// That the alarm sounded, and who is rather changed than not, when it is so for the first time.
static void add_news(cli_check *c, pf_text *out)
{
    const double *belief = pf_session_belief(c->session);
    bool alarm = pf_session_get_state(c->session).alarm && !c->alarmed, any = false;
    pf__text_add(out, alarm ? "ALARM" : "");
    for (int j = 1; j < pf_kit_get_info(c->kit).n_mech; j++) {
        if (belief[j] > .5 && !c->named[j]) {
            pf__text_add(out, any ? ", " : alarm ? ": " : "named: ");
            pf__text_add(out, pf_kit_mechanism_name(c->kit, j));
            any = c->named[j] = true;
        }
    }
}

// The reading that says most for a change.
static const pf_reading *strongest(const cli_check *c)
{
    int n = 0;
    const pf_reading *all = pf_session_readings(c->session, &n), *most = all;
    for (int t = 1; t < n; t++) {
        most = all[t].ratio > most->ratio ? &all[t] : most;
    }
    return most;
}

static void add_rehearsal(const cli_check *c, const pf_ask *asked, pf_text *out)
{
    bool passed = pf_session_rehearsed(c->session, NULL);
    pf__text_add(out, "rehearsal of ");
    if (asked->n_tasks > 1 && asked->n_tasks == pf_kit_get_info(c->kit).n_tasks) {
        pf__text_addf(out, "all %d tasks", asked->n_tasks);
    } else {
        for (int i = 0; i < asked->n_tasks; i++) {
            pf__text_addf(out, i ? ", %s" : "%s", pf_kit_task_name(c->kit, asked->tasks[i]));
        }
    }
    pf__text_add(out, passed               ? ": as predicted"
                      : asked->n_tasks > 1 ? ": not as predicted, so each runs alone"
                                           : ": NOT as predicted");
}

// What a reading says, in odds.
static void add_answer(const pf_reading *reading, pf_text *out)
{
    if (!reading->plausible) {
        pf__text_add(out, "IMPLAUSIBLE");
    } else if (!reading->usable) {
        pf__text_add(out, "cannot tell");
    } else if (reading->ratio > 1) {
        pf__text_addf(out, "weak %.3g:1", reading->ratio);
    } else if (reading->ratio < 1) {
        pf__text_addf(out, "healthy %.3g:1", 1 / reading->ratio);
    } else {
        pf__text_add(out, "says nothing");
    }
}

// The cells of a probe are the same for every probe, whatever it moves.
static void add_probe(cli_check *c, const pf_ask *asked, pf_text *out)
{
    const int32_t *targets = NULL;
    pf_kit_probe_targets(c->kit, asked->probe, &targets);
    pf_session_state state = pf_session_get_state(c->session);
    pf__text_addf(out, "%s\t", pf_kit_probe_name(c->kit, asked->probe));
    if (asked->stage == PF_STAGE_RECOVER) {
        pf_joint joint = pf_session_joint(c->session);
        pf__text_addf(out, "%s\tgain %.3f\t", pf_kit_mechanism_name(c->kit, targets[0]),
                      pf_joint_moments(&joint, targets[0]).mean);
    } else {
        const pf_reading *reading = strongest(c);
        pf__text_addf(out, "%s\t", pf_kit_mechanism_name(c->kit, reading->mechanism));
        add_answer(reading, out);
        pf__text_add(out, "\t");
    }
    pf__words_percent(out, state.change);
    pf__text_add(out, "\t");
    add_news(c, out);
}

static void add_run(cli_check *c, const pf_ask *asked)
{
    pf_text row = {0};
    pf__text_addf(&row, "%d\t", pf_session_get_state(c->session).told);
    if (asked->kind == PF_ASK_REHEARSAL) {
        add_rehearsal(c, asked, &row);
    } else {
        add_probe(c, asked, &row);
    }
    if (c->live) {
        cli_show_row(&c->columns, &row);
    }
    pf__text_join(&c->runs, &row);
    pf__text_add(&c->runs, "\n");
    pf__text_free(&row);
}

// The columns are as wide as any name needs: rows are shown before the last one is known.
static void start_runs(cli_check *c)
{
    static const char head[] = ">run\tprobe\ttarget\tanswer\t>belief\t";
    pf_kit_info k = pf_kit_get_info(c->kit);
    cli_columns_start(&c->columns, head);
    for (int q = 0; q < k.n_probes; q++) {
        cli_columns_fit(&c->columns, 1, pf_kit_probe_name(c->kit, q));
    }
    for (int j = 1; j < k.n_mech; j++) {
        cli_columns_fit(&c->columns, 2, pf_kit_mechanism_name(c->kit, j));
    }
    cli_columns_fit(&c->columns, 3, "healthy 100:1");
    cli_columns_fit(&c->columns, 4, "over 99.99 %");
    pf__text_addf(&c->runs, "%s\n", head);
    if (c->live) {
        pf_text start = {0};
        pf__text_add(&start, "## What was done\n");
        pf__words_start(&start, c->session);
        pf__text_add(&start, "\n");
        cli_show(&start);
        pf__text_free(&start);
        cli_show_head(&c->columns);
    }
}

// Keeps a run, unless nothing could repeat it.
static void keep_run(cli_check *c, const pf_ask *asked, const pf_answer *answer)
{
    const pf_kit *kit = c->kit;
    pf_kit_info k = pf_kit_get_info(kit);
    bool probe = asked->kind == PF_ASK_PROBE;
    bool loop = probe ? pf_kit_probe_policy(kit, asked->probe)[0] != 0 : !asked->command;
    if (k.recorded || k.starts_from_channels || loop) {
        return;
    }
    size_t rows = (size_t)asked->rows;
    const double *sent = probe ? pf_kit_probe_command(kit, asked->probe) : c->rehearsed;
    pf_observed *grown = realloc(c->observed, (size_t)(c->n_observed + 1) * sizeof *grown);
    if (!grown) {
        c->arena.failed = true;
        return;
    }
    c->observed = grown;
    grown[c->n_observed++] =
        (pf_observed){.probe = asked->probe,
                      .task = probe ? -1 : asked->tasks[0],
                      .rows = asked->rows,
                      .command = copied(c, rows * (size_t)k.n_mech, sent),
                      .start = copied(c, (size_t)k.n_state, answer->start),
                      .response = copied(c, rows * (size_t)k.n_chan, answer->response)};
}

static void after_tell(void *self, const pf_ask *asked, const pf_answer *answer)
{
    cli_check *c = self;
    keep_run(c, asked, answer);
    journal_tell(c, asked, answer);
    add_run(c, asked);
}

// --- the certificate

// Why there is no audit that counts, in words; NULL: the file of it was read.
static const char *read_audit(cli_check *c, const char *path, char **text, size_t *n)
{
    pf_error error = {PF_OK, ""};
    pf_status status = cli_audit_read(&c->trust, path, text, n, &error);
    if (status == PF_ERR_MISMATCH) {
        return "not audited: the file with its audit is not signed";
    }
    note_lost(c, status, &error);
    if (*text && pf__audit_damaged(*text, *n)) {
        cli_warn_damaged("check", path);
        return "not audited: the file with its audit is damaged";
    }
    return *text ? NULL : "not audited (`preflight audit` does it)";
}

// What the kit was audited against, or null; and a line that says so.
static void add_audit(cli_check *c, const char *sha, pf_text *out)
{
    pf_text summary = {0}, words = {0};
    char *path = c->kit_path ? pf__audit_path(c->kit_path) : NULL, *text = NULL;
    size_t n = 0;
    const char *why = c->kit_path ? read_audit(c, path, &text, &n) : "not audited";
    pf__text_add(&summary, "{");
    bool audited =
        !why && pf__audit_summary(&summary, text, n, sha, c->machine, c->accepted.not_rehearsed,
                                  pf_kit_get_info(c->kit).alpha, &words);
    pf__text_add(&summary, "}");
    pf__json_key(out, "audit");
    if (audited) {
        pf__text_join(out, &summary);
        pf__text_join(&c->audit, &words);
    } else {
        pf__text_add(out, "null");
        out->failed = out->failed || summary.failed;
        pf__text_addf(&c->audit, "%s.",
                      why ? why
                          : "not audited: the file beside it is the audit of another kit or "
                            "machine, or not finished");
    }
    pf__text_free(&words);
    pf__text_free(&summary);
    free(text);
    free(path);
}

// readiness: the members that the journal has too.
static void write_certificate(cli_check *c, const pf_text *readiness)
{
    pf_text *out = &c->certificate;
    char sha[65];
    pf__sha256_text(pf_kit_get_info(c->kit).sha256, sha);
    pf__text_add(out, "{");
    pf__json_key(out, "kit");
    pf__json_string(out, sha);
    pf__json_key(out, "signed_by");
    pf__json_string_or_null(out, c->signer);
    pf__json_key(out, "plant");
    pf__json_string(out, pf_plant_get_info(c->machine)->name);
    pf__json_key(out, "preflight");
    pf__json_string(out, PF_VERSION);
    pf__text_addf(out, ",\"seed\":%llu", (unsigned long long)c->seed);
    pf_text injected = {0};
    add_injected(c, &injected);
    pf__json_key(out, "injected");
    pf__json_string_or_null(out, injected.data);
    out->failed = out->failed || injected.failed;
    pf__text_free(&injected);
    pf__json_add_number(out, "alpha", pf_kit_get_info(c->kit).alpha);
    pf__json_add_number(out, "j_min", pf_kit_get_info(c->kit).j_min);
    pf__json_key(out, "accepted");
    pf__text_addf(out, "[%s%s%s]", c->accepted.not_rehearsed ? "\"not-rehearsed\"" : "",
                  c->accepted.not_rehearsed && c->accepted.unseen_loss ? "," : "",
                  c->accepted.unseen_loss ? "\"unseen-loss\"" : "");
    pf__weakened_json(out, c->kit);
    pf__json_key(out, "rules");
    pf__json_string(out, pf_kit_get_info(c->kit).rules.field ? "field" : "paper");
    pf__json_key(out, "looks_like");
    pf__json_string_or_null(out, c->looks_like);
    add_audit(c, sha, out);
    pf__text_add(out, ",");
    pf__text_join(out, readiness);
    pf__text_add(out, "}\n");
}

// Names the fault of the catalogue that explains what no gain explains. It is a hint: where the
// plant cannot have such faults there is none.
static pf_status find_likeness(cli_check *c, pf_error *error)
{
    pf_session_state state = pf_session_get_state(c->session);
    bool failed = state.misfit > 1 || state.implausible > 0;
    for (int t = 0; t < pf_kit_get_info(c->kit).n_tasks; t++) {
        failed = failed || pf_session_task(c->session, t)->why == PF_WHY_REHEARSAL;
    }
    pf_catalogue catalogue;
    pf_fault fault = {0};
    bool found = false;
    pf_plant *twin = c->twin ? c->twin : c->machine;
    if (!c->likeness || !failed || c->n_observed == 0) {
        return PF_OK;
    }
    if (c->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for what was observed");
    }
    pf_status status = pf__catalogue_read(&catalogue, NULL, NULL, 0, error);
    status = status ? status
                    : pf__looks_like(c->kit, twin, &catalogue, c->n_observed, c->observed, &fault,
                                     &found, error);
    if (status == PF_OK && found) {
        pf_fault_text(&fault, pf_plant_get_info(twin), c->looks_like, sizeof c->looks_like);
    }
    pf__catalogue_free(&catalogue);
    return status == PF_ERR_MEMORY || status == PF_ERR_INTERRUPTED ? status : PF_OK;
}

// --- all of it

static pf_status start_journal(cli_check *c, pf_error *error)
{
    pf_text first = {0}, injected = {0};
    add_injected(c, &injected);
    pf__journal_header(&first, c->image, c->n_image, pf_session_method(c->session)->id, c->seed,
                       pf_plant_get_info(c->machine)->name, injected.data);
    first.failed = first.failed || injected.failed;
    pf__text_free(&injected);
    pf__text_add(&first, "\n");
    pf_status status = PF_OK;
    if (c->journal_path) {
        status = pf__log_start(&c->log, c->journal_path, PF_LOG_REPLACE, &cli_interrupted, &first,
                               error);
    }
    pf__text_join(&c->journal, &first);
    pf__text_free(&first);
    return status;
}

static pf_status start(cli_check *c, pf_error *error)
{
    pf_check_config config = {.machine = c->machine,
                              .twin = c->twin,
                              .model = c->model,
                              .method = c->method,
                              .seed = c->seed,
                              .faults = c->faults,
                              .n_faults = c->n_faults};
    pf_status status = pf_check_create(&c->check, c->kit, &config, error);
    if (status == PF_OK) {
        c->session = pf_check_session(c->check);
        status = start_journal(c, error);
    }
    if (status == PF_OK) {
        pf_text hello = {0};
        pf__reply_hello(&hello, c->kit);
        journal_plain(c, "{\"op\":\"hello\",\"protocol\":2}", &hello);
        pf__text_free(&hello);
        start_runs(c);
    }
    return status;
}

pf_status cli_check_run(cli_check *c, pf_error *error)
{
    pf_status status = start(c, error);
    if (status == PF_OK) {
        pf_drive how = pf_drive_default();
        how.stop = &cli_interrupted;
        how.self = c;
        how.after_ask = after_ask;
        how.watch = watch;
        how.after_tell = after_tell;
        status = pf_check_run(c->check, &how, error);
    }
    return status;
}

void cli_check_finish(cli_check *c)
{
    pf_text reply = {0};
    pf_error error = {PF_OK, ""};
    note_lost(c, find_likeness(c, &error), &error);
    pf__reply_readiness(&reply, c->session);
    journal_plain(c, "{\"op\":\"readiness\"}", &reply);
    write_certificate(c, &reply);
    pf__text_free(&reply);
    note_lost(c, pf__log_close(&c->log, &error), &error);
}

// A fault was put into the mechanism that no probe moves.
static void add_unseen(const cli_check *c, pf_text *out)
{
    bool unseen = false;
    for (int i = 0; i < c->n_faults; i++) {
        const pf_fault_info *kind = pf_fault_at((int)c->faults[i].kind);
        unseen = unseen || (kind && kind->place == PF_FAULT_ON_MECHANISM && c->faults[i].at == 0);
    }
    if (unseen) {
        pf__text_add(out, "\n");
        pf__words_name(out, pf_kit_mechanism_name(c->kit, 0));
        pf__text_add(out,
                     " is mechanism 0, which is never probed: --fault put a fault there that no "
                     "probe looks for.\n");
    }
}

void cli_check_show(const cli_check *c)
{
    pf_text text = {0};
    if (!c->live) {
        pf__text_add(&text, "## What was done\n");
        pf__text_join(&text, &c->runs);
    }
    pf__text_add(&text, "\n");
    pf__words_done(&text, c->session);
    if (c->kit_path) {
        pf__text_add(&text, "This kit was ");
        pf__text_join(&text, &c->audit);
        pf__text_add(&text, "\n");
    }
    pf__words_found(&text, c->session, c->looks_like);
    add_unseen(c, &text);
    pf__words_follows(&text, c->session, &c->accepted);
    cli_show(&text);
    pf__text_free(&text);
}

pf_status cli_check_sheet(const cli_check *c, bool page, pf_text *html, pf_error *error)
{
    bool whole =
        c->journal.data && c->certificate.data && !c->journal.failed && !c->certificate.failed;
    return whole ? (page ? pf__sheet : pf__sheet_section)(c->journal.data, c->journal.size,
                                                          c->certificate.data, html, error)
                 : pf_fail(error, PF_ERR_MEMORY, "out of memory for the sheet");
}

void cli_check_close(cli_check *c)
{
    pf_check_destroy(c->check);
    pf__log_close(&c->log, NULL); // of a check that did not come to its end
    pf__witness_free(&c->witness);
    pf__arena_free(&c->arena);
    free(c->observed);
    pf__text_free(&c->journal);
    pf__text_free(&c->certificate);
    pf__text_free(&c->runs);
    pf__text_free(&c->audit);
}
