// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "coordinate.h"

#include "preflight/severity.h"

#include <math.h>

const char *const *pf_coordinate_arms(void)
{
    static const char *const names[PF_COORDINATE_ARMS] = {
        "all",         "mechanism-1", "mechanism-2", "mechanism-3", "mechanism-4",
        "mechanism-5", "mechanism-6", "mechanism-7", "mechanism-8"};
    return names;
}

// Mean and spread of z: within a mechanism, so that the pooled spread holds no bias between them.
typedef struct spread {
    double mean, sd;
} spread;

static pf_status measure(pf_bank *bank, const pf_kit *kit, uint64_t seed, double gain, int probe,
                         int episodes, spread *out, pf_error *error)
{
    int target = kit->probe_target[probe], mechanism = kit->target_mech[target];
    double sum = 0, square = 0;
    for (int i = 0; i < episodes; i++) {
        const pf_evidence *e = NULL;
        pf_bank_start(bank, seed, (uint64_t)i, PF_PURPOSE_EVALUATION, 1, &mechanism, &gain);
        pf_status status = pf_bank_stage1(bank, 0, probe, true, &e, error);
        if (status != PF_OK) {
            return status;
        }
        double z = pf_coordinate(e->match[0].coefficient, kit->m0[target], kit->m1[target]);
        sum += z;
        square += z * z;
    }
    out->mean = sum / episodes;
    out->sd = sqrt(fmax(square / episodes - out->mean * out->mean, 0) * episodes /
                   (episodes > 1 ? episodes - 1 : 1));
    return PF_OK;
}

static void put(pf_trial_result *result, double mean, double sd, double ideal)
{
    result->value[PF_METRIC_coordinate] = mean;
    result->value[PF_METRIC_coordinate_bias] = mean - ideal;
    result->value[PF_METRIC_coordinate_sd] = sd;
    result->value[PF_METRIC_noise_to_signal] = sd / ideal;
}

pf_status pf_coordinate_run(pf_bank *bank, const pf_kit *kit, uint64_t seed, double gain,
                            int episodes, pf_trial_result results[PF_COORDINATE_ARMS],
                            pf_error *error)
{
    double mean = 0, variance = 0, ideal = pf_severity_line(gain, kit->g_cal);
    for (int arm = 0; arm < PF_COORDINATE_ARMS; arm++) {
        for (int i = 0; i < PF_METRIC_COUNT; i++) {
            results[arm].value[i] = NAN;
        }
    }
    for (int q = 0; q < kit->n_probes; q++) {
        spread s;
        pf_status status = measure(bank, kit, seed, gain, q, episodes, &s, error);
        if (status != PF_OK) {
            return status;
        }
        if (q + 1 < PF_COORDINATE_ARMS) {
            put(&results[q + 1], s.mean, s.sd, ideal);
        }
        mean += s.mean / kit->n_probes;
        variance += s.sd * s.sd / kit->n_probes;
    }
    put(&results[0], mean, sqrt(variance), ideal);
    return PF_OK;
}
