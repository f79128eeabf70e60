// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "audit_file.h"
#include "journal.h"
#include "plant/plant_impl.h"
#include "protocol.h"
#include "sheet.h"

#include <string.h>

// What stands in where the program was built without jansson: every call says so.

static pf_status missing(pf_error *error)
{
    return pf_fail(
        error, PF_ERR_UNSUPPORTED,
        "this program was built without jansson; install libjansson-dev and build again");
}

bool pf__protocol_supported(void)
{
    return false;
}

pf_status pf__protocol_create(pf_protocol **protocol, const void *kit, size_t n_kit,
                              const pf_protocol_config *config, pf_error *error)
{
    (void)kit, (void)n_kit, (void)config;
    *protocol = NULL;
    return missing(error);
}

pf_status pf__replay_journal(const char *text, size_t n, bool explain, pf_replay *result,
                             pf_error *error)
{
    (void)text, (void)n, (void)explain;
    memset(result, 0, sizeof *result);
    return missing(error);
}

pf_status pf__explain_certificate(const char *text, size_t n, pf_text *out, pf_error *error)
{
    (void)text, (void)n, (void)out;
    return missing(error);
}

pf_status pf__sheet(const char *journal, size_t n, const char *certificate, pf_text *html,
                    pf_error *error)
{
    (void)journal, (void)n, (void)certificate, (void)html;
    return missing(error);
}

pf_status pf__sheet_section(const char *journal, size_t n, const char *certificate, pf_text *html,
                            pf_error *error)
{
    return pf__sheet(journal, n, certificate, html, error);
}

// There is no protocol that these could be called with.

void pf__protocol_destroy(pf_protocol *protocol)
{
    (void)protocol;
}

void pf__protocol_line(pf_protocol *protocol, const char *line, size_t n, pf_text *reply,
                       pf_text *journal)
{
    (void)protocol, (void)line, (void)n, (void)reply, (void)journal;
}

size_t pf__protocol_line_max(const pf_protocol *protocol)
{
    (void)protocol;
    return 0;
}

void pf__protocol_too_long(const pf_protocol *protocol, pf_text *reply)
{
    (void)protocol, (void)reply;
}

pf_status pf__journal_head_read(const char *text, size_t n, pf_journal_head *head, pf_error *error)
{
    (void)text, (void)n;
    *head = (pf_journal_head){.kit = NULL};
    return missing(error);
}

pf_status pf__replay_resume(pf_protocol *protocol, const char *text, size_t n, pf_resumed *resumed,
                            pf_error *error)
{
    (void)protocol, (void)text, (void)n;
    *resumed = (pf_resumed){0};
    return missing(error);
}

pf_session *pf__protocol_session(pf_protocol *protocol)
{
    (void)protocol;
    return NULL;
}

char *pf__audit_path(const char *kit)
{
    pf_text path = {0};
    pf__text_addf(&path, "%s.audit.json", kit);
    if (path.failed) {
        pf__text_free(&path);
    }
    return path.data;
}

void pf__audit_json(pf_text *out, const pf_audit *audit, const bool *known,
                    const pf_audit_result *results)
{
    (void)out, (void)audit, (void)known, (void)results;
}

pf_status pf__audit_resume(const char *text, size_t n_text, const pf_audit *audit, bool *known,
                           pf_audit_result *results, int *n, pf_error *error)
{
    (void)text, (void)n_text, (void)audit, (void)known, (void)results;
    *n = 0;
    return missing(error);
}

pf_status pf__audit_would_lose(const char *text, size_t n, const pf_audit *audit, char *what,
                               size_t size, pf_error *error)
{
    (void)text, (void)n, (void)audit, (void)what, (void)size;
    return missing(error);
}

bool pf__audit_damaged(const char *text, size_t n)
{
    (void)text, (void)n;
    return false;
}

bool pf__audit_table(pf_text *html, const char *text, size_t n_text, const char *kit_sha256)
{
    (void)html, (void)text, (void)n_text, (void)kit_sha256;
    return false;
}

bool pf__audit_summary(pf_text *out, const char *text, size_t n_text, const char *kit_sha256,
                       const pf_plant *machine, bool unrehearsed, double alpha, pf_text *words)
{
    (void)out, (void)text, (void)n_text, (void)kit_sha256, (void)machine, (void)unrehearsed;
    (void)alpha, (void)words;
    return false;
}

// Plants behind a process.

static pf_status no_plant(pf_plant **plant, const char *kind, const char *name, pf_error *error)
{
    *plant = NULL;
    return pf_fail(error, PF_ERR_UNSUPPORTED,
                   "%s%s: built without jansson; install libjansson-dev and build again", kind,
                   name);
}

pf_status pf__bridge_create(pf_plant **plant, const char *command, const char *folder,
                            const volatile int *stop, pf_error *error)
{
    (void)folder, (void)stop;
    return no_plant(plant, "exec:", command, error);
}

pf_status pf_plant_from_function(pf_plant **plant, const char *name, const char *hello,
                                 pf_roll_function roll, void *self, pf_error *error)
{
    (void)hello, (void)roll, (void)self;
    return no_plant(plant, "", name, error);
}

pf_status pf__gym_create(pf_plant **plant, const char *id, const volatile int *stop,
                         pf_error *error)
{
    (void)stop;
    return no_plant(plant, "gym:", id, error);
}

pf_status pf__fmu_create(pf_plant **plant, const char *reference, const volatile int *stop,
                         pf_error *error)
{
    (void)stop;
    return no_plant(plant, "fmu:", reference, error);
}

pf_status pf__domain_create(pf_plant **plant, const char *name, const volatile int *stop,
                            pf_error *error)
{
    (void)stop;
    return no_plant(plant, "", name, error);
}
