// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// modelDescription.xml of an FMU, as any text, and what a machine says of itself that is made of
// it: its hello must be one that the bridge takes, or refuses with a reason.
#include "fmu/machine.h"
#include "fuzz_input.h"
#include "host/json.h"
#include "plant/bridge/hello.h"

#include <math.h>

static void check_model(const pf_fmu_model *model)
{
    const pf_fmu_variables *both[] = {&model->inputs, &model->outputs};
    demand((model->major == 2 || model->major == 3) && model->identifier && model->token);
    for (int i = 0; i < 2; i++) {
        int numbers = 0;
        for (int k = 0; k < both[i]->n; k++) {
            const pf_fmu_variable *v = &both[i]->list[k];
            demand(v->name[0] && v->n >= 1 && v->lo <= v->hi);
            for (int e = 0; e < v->n; e++) {
                demand(isfinite(v->start[e]));
            }
            numbers += v->n;
        }
        demand(numbers == both[i]->numbers && numbers <= PF_FMU_NUMBERS_MOST);
    }
}

static void check_hello(const pf_fmu_machine *machine)
{
    pf_text text = {0};
    char what[PF_WHAT_SIZE] = "";
    pf_description about;
    pf__fmu_hello(machine, "fuzz.fmu", "0123456789abcdef", &text);
    demand(!text.failed && !strchr(text.data, '\n'));
    json_t *hello = pf__json_load(text.data, text.size, JSON_REJECT_DUPLICATES, NULL);
    demand(hello);
    pf_status status = pf__description_parse(hello, &about, what);
    demand(status == PF_OK || (what[0] && !strchr(what, '\n')));
    pf__description_free(&about);
    pf__text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pf_error error = {PF_OK, ""};
    pf_fmu_model model;
    pf_fmu_machine machine;
    pf_arena arena = {0};
    char *exact = fuzz_copy(data, size);
    pf_status status = pf__fmu_describe(&model, exact, size, &error);
    demand_reason(status, &error);
    free(exact);
    if (status == PF_OK) {
        check_model(&model);
        status = pf__fmu_machine(&machine, &arena, &model, 0, &error);
        demand_reason(status, &error);
    }
    if (status == PF_OK) {
        check_hello(&machine);
    }
    pf__arena_free(&arena);
    pf__fmu_model_free(&model);
    return 0;
}
