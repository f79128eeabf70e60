// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "field_kit.h"

#include "calibrate/plan.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The tests cannot go on without a kit or a check.
static void must(pf_status status, const pf_error *error)
{
    if (status != PF_OK) {
        fprintf(stderr, "field: %s\n", error->text);
        exit(4);
    }
}

const field_kit *field_kit_of(const char *plant, const char *set)
{
    static struct {
        char key[160];
        field_kit kit;
    } kept[16]; // for the life of the process
    char key[160];
    int i = 0;
    snprintf(key, sizeof key, "%s %s", plant, set ? set : "");
    while (i < 16 && kept[i].key[0] && strcmp(kept[i].key, key) != 0) {
        i++;
    }
    if (i == 16) {
        fprintf(stderr, "field: too many kits\n");
        exit(4);
    }
    field_kit *out = &kept[i].kit;
    if (kept[i].key[0]) {
        return out;
    }
    memcpy(kept[i].key, key, sizeof key);
    pf_error error = {PF_OK, ""};
    pf_plant *machine = NULL;
    pf_plan plan;
    must(pf_plant_create(&machine, plant, &error), &error);
    must(pf__plan_from_config(&plan, pf_plant_get_info(machine), "--set", NULL, 0, &set,
                              set ? 1 : 0, &error),
         &error);
    must(pf_calibrate(&plan, machine, NULL, NULL, &out->bytes, &out->n, &error), &error);
    must(pf__kit_read(&out->kit, out->bytes, out->n, &error), &error);
    pf__plan_free(&plan);
    pf_plant_destroy(machine);
    return out;
}

void field_open(field *f, const char *plant, const pf_kit *kit)
{
    pf_error error = {PF_OK, ""};
    *f = (field){.kit = kit};
    must(pf_plant_create(&f->plant, plant, &error), &error);
}

void field_close(field *f)
{
    pf_check_destroy(f->check);
    pf_plant_destroy(f->plant);
}

void field_faults(field *f, const char *words)
{
    const pf_plant_info *info = pf_plant_get_info(f->plant);
    pf_error error = {PF_OK, ""};
    f->n_faults = 0;
    while (*words) {
        char word[64];
        size_t n = strcspn(words, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        must(pf_fault_parse(word, info, &f->faults[f->n_faults++], &error), &error);
        words += n + (words[n] == ' ');
    }
    must(pf_fault_set_units(f->faults, f->n_faults, f->kit, info, &error), &error);
}

pf_session *field_check(field *f, uint64_t seed, const pf_drive *drive)
{
    pf_error error = {PF_OK, ""};
    pf_check_config config = {
        .machine = f->plant, .seed = seed, .faults = f->faults, .n_faults = f->n_faults};
    pf_check_destroy(f->check);
    must(pf_check_create(&f->check, f->kit, &config, &error), &error);
    must(pf_check_run(f->check, drive, &error), &error);
    f->seed = seed;
    return f->session = pf_check_session(f->check);
}

double field_fly(field *f, int task)
{
    const char *environment = pf_plant_environment(pf_plant_get_info(f->plant));
    double corrections[PF_MECH_MAX];
    pf_flight *flight = NULL;
    pf_flown flown = {0, 0, 0};
    pf_error error = {PF_OK, ""};
    for (int j = 0; j < f->kit->n_mech; j++) {
        corrections[j] = pf_session_mechanism(f->session, j)->correction;
    }
    pf_attempt attempt = {
        .task = task,
        .key = pf_key_stream(f->seed, environment, 0, PF_PURPOSE_TASK, (uint64_t)task + 1),
        .corrections = corrections,
        .faults = f->faults,
        .n_faults = f->n_faults};
    must(pf_flight_create(&flight, f->plant, f->kit, &error), &error);
    must(
        pf_flight_start(flight, pf_key_stream(f->seed, environment, 0, PF_PURPOSE_TASK, 0), &error),
        &error);
    must(pf_flight_fly(flight, &attempt, &flown, &error), &error);
    pf_flight_destroy(flight);
    return flown.ret;
}

int field_go(const field *f)
{
    int n = 0;
    for (int t = 0; t < f->kit->n_tasks; t++) {
        n += pf_session_task(f->session, t)->decision == PF_GO;
    }
    return n;
}

int field_false_go(field *f)
{
    int n = 0;
    for (int t = 0; t < f->kit->n_tasks; t++) {
        n += pf_session_task(f->session, t)->decision == PF_GO && field_fly(f, t) < f->kit->j_min;
    }
    return n;
}

bool field_misfit(const field *f)
{
    pf_session_state state = pf_session_get_state(f->session);
    return state.misfit > 1 || state.implausible > 0;
}
