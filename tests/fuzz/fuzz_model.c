// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// The reader of learned models on any bytes, as they are and with the right digest of the contents:
// refused in one line, or a model that predicts finite numbers or says why not.
#include "fuzz_input.h"
#include "model/model_impl.h"

#include <math.h>

enum { INPUT_MAX = 64 << 10, WORK_MAX = 1 << 20 };

static void show(const pf_model *model)
{
    const pf_model_info *info = pf_model_get_info(model);
    size_t names = strlen(info->plant) + strlen(info->source) + strlen(info->processor);
    for (int c = 0; c < info->n_chan; c++) {
        names += strlen(info->channels[c]);
    }
    for (int j = 0; j < info->n_mech; j++) {
        names += strlen(info->mechanisms[j].name);
        demand(info->mechanisms[j].lo <= info->mechanisms[j].hi);
    }
    demand(names > 0 && info->n_chan >= 1 && info->n_mech >= 1 && info->window >= 1 &&
           info->history >= 1 && info->n_members >= 1);
    demand(info->n_layers >= 0 && (info->n_layers == 0) == (info->width == 0));
    size_t n = pf__net_parameters(&model->net) * (size_t)info->n_members;
    for (size_t i = 0; model->theta && info->n_layers > 0 && i < n && i < WORK_MAX; i++) {
        demand(isfinite(model->theta[i]));
    }
}

static void load(const void *bytes, size_t size)
{
    pf_error error = {PF_OK, ""};
    pf_model *model = NULL;
    pf_status status = pf_model_load(&model, fuzz_file(bytes, size), &error);
    demand_reason(status, &error);
    demand((status == PF_OK) == (model != NULL));
    if (model) {
        show(model);
    }
    pf_model_destroy(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *sealed = NULL;
    size_t n = 0;
    if (size > INPUT_MAX) {
        return 0;
    }
    load(data, size);
    if (fuzz_reseal(data, size, &sealed, &n)) {
        load(sealed, n);
    }
    free(sealed);
    return 0;
}
