// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// The file with the audit of a kit on any bytes, by all that read it.
#include "../attitude_kit.h"
#include "core/kit_layout.h"
#include "fuzz_input.h"
#include "wire/audit_file.h"

#include <jansson.h>

enum { ENTRIES = 64 };

static void resume(const char *text, size_t size, const pf_audit *audit)
{
    pf_error error = {PF_OK, ""};
    bool known[ENTRIES] = {false};
    static pf_audit_result results[ENTRIES];
    char what[300] = "";
    int n = 0;
    memset(results, 0, sizeof results);
    demand_reason(pf__audit_resume(text, size, audit, known, results, &n, &error), &error);
    for (int i = 0; i < audit->catalogue->n; i++) {
        n -= known[i];
        demand(!known[i] || !results[i].covered || results[i].sessions > 0);
    }
    demand(n == 0);
    demand_reason(pf__audit_would_lose(text, size, audit, what, sizeof what, &error), &error);
    demand(!strchr(what, '\n'));
    pf_text again = {0};
    pf__audit_json(&again, audit, known, results);
    json_t *json = json_loads(again.data, JSON_REJECT_DUPLICATES, NULL);
    demand(json_is_object(json));
    json_decref(json);
    pf__text_free(&again);
}

// The kit is the one that the file names, or there would be nothing to read.
static void name_kit(pf_kit *kit, const uint8_t *data, size_t size, char sha256[65])
{
    json_t *json = json_loadb((const char *)data, size, 0, NULL);
    const char *named = json_string_value(json_object_get(json, "kit"));
    for (int i = 0; i < 32; i++) {
        unsigned byte = kit->sha256[i];
        if (named && strlen(named) == 64) {
            sscanf(named + 2 * i, "%2x", &byte);
        }
        kit->sha256[i] = (uint8_t)byte;
        snprintf(sha256 + 2 * i, 3, "%02x", byte & 255);
    }
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char entries[] = "entries: [{name: healthy, fault: none}, "
                                  "{name: half, fault: gain, value: .5}]";
    pf_error error = {PF_OK, ""};
    pf_catalogue catalogue;
    pf_plant *plant = NULL;
    pf_text html = {0}, line = {0};
    pf_text said = {0};
    char sha256[65];
    const char *text = (const char *)data;
    pf_kit kit = *attitude_small_kit();
    name_kit(&kit, data, size, sha256);
    demand(pf_plant_create(&plant, "attitude", &error) == PF_OK);
    demand(pf__catalogue_read(&catalogue, "two", entries, sizeof entries - 1, &error) == PF_OK);
    pf_audit audit = {
        .kit = &kit, .plant = plant, .catalogue = &catalogue, .sessions = 4, .seed = 1};
    resume(text, size, &audit);
    pf__audit_damaged(text, size);
    pf__audit_table(&html, text, size, sha256);
    pf__text_add(&line, "{\"x\":1");
    pf__audit_summary(&line, text, size, sha256, plant, size % 2 == 0, .1, &said);
    pf__text_add(&line, "}");
    json_t *json = json_loads(line.data, JSON_REJECT_DUPLICATES, NULL);
    demand(json_is_object(json) && (!said.data || !strchr(said.data, '\n')));
    pf__text_free(&said);
    json_decref(json);
    pf__text_free(&html);
    pf__text_free(&line);
    pf__catalogue_free(&catalogue);
    pf_plant_destroy(plant);
    return 0;
}
