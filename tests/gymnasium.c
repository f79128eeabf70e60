// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "gymnasium.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>

json_t *gymnasium_fixture(const char *script)
{
    char command[2048], file[512];
    snprintf(file, sizeof file, "%s/%s.json", pf_scratch_dir(), script);
    snprintf(command, sizeof command,
             "'%s/build/venv/bin/python' '%s/tests/%s' '%s' >'%s.log' 2>&1", PF_SOURCE, PF_SOURCE,
             script, file, file);
    return system(command) == 0 ? json_load_file(file, 0, NULL) : NULL;
}

const json_t *gymnasium_system(const json_t *fixture, const char *name)
{
    return json_object_get(json_object_get(fixture, "systems"), name);
}

void gymnasium_numbers(const json_t *list, double *to)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        to[i] = json_real_value(json_array_get(list, i));
    }
}

pf_plant *plant_checked(const char *name)
{
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    if (!CHECK(pf_plant_create(&plant, name, &error) == PF_OK)) {
        printf("%s\n", error.text);
    }
    return plant;
}

void roll_checked(pf_plant *plant, const pf_roll *roll, const pf_trace *trace)
{
    pf_error error = {PF_OK, ""};
    if (!CHECK(pf_plant_roll(plant, roll, trace, &error) == PF_OK)) {
        printf("%s\n", error.text);
    }
}
