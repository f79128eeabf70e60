// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// The reader of checkpoints on any bytes, as they are and with the right digest of the contents:
// refused in one line, or a member that training can go on with.
#include "fuzz_input.h"
#include "model/train_impl.h"

#include <math.h>

enum { INPUT_MAX = 64 << 10 };

// As the corpus has them (scripts/fuzz_seeds.sh): "train dc_servo", one member of one narrow layer.
static const pf_train_settings settings = {.members = 1, .layers = 1, .width = 2, .epochs = 2};
static const pf_net net = {.n_in = 3, .n_out = 2, .n_layers = 1, .width = 2};

static void load(const void *bytes, size_t size)
{
    pf_error error = {PF_OK, ""};
    float numbers[4][64], history[64];
    bool found = false;
    pf_member member = {.theta = numbers[0],
                        .first = numbers[1],
                        .second = numbers[2],
                        .kept = numbers[3],
                        .history = history};
    size_t n = pf__net_parameters(&net);
    demand(n <= 64 && pf__member_epochs(&settings) * PF_HISTORY <= 64);
    pf_status status =
        pf__member_read(&member, &settings, &net, fuzz_file(bytes, size), "fuzz", &found, &error);
    demand_reason(status, &error);
    demand(found);
    for (size_t i = 0; i < n && status == PF_OK; i++) {
        demand(isfinite(member.theta[i]) && isfinite(member.kept[i]));
    }
    demand(status != PF_OK || (member.epoch >= 1 && member.best_epoch <= member.epoch &&
                               member.epoch <= pf__member_epochs(&settings)));
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
