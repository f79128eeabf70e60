// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/model.h"
#include "model/rollout.h"

#include <stdio.h>
#include <stdlib.h>

// model_roll MODEL REQUEST: what each member of a model says, for a witness in another language.
// REQUEST is text: steps and hypotheses, the start, the commands row by row, the gains. Prints one
// line per member, hypothesis and step. Status 3 with the reason where the model is refused.

static double *read_numbers(FILE *f, size_t n)
{
    double *x = calloc(n + 1, sizeof *x);
    for (size_t i = 0; x && i < n; i++) {
        if (fscanf(f, "%lf", &x[i]) != 1) {
            fprintf(stderr, "model_roll: the request is cut off\n");
            exit(2);
        }
    }
    return x;
}

static int say(const pf_model *m, const pf_model_request *q)
{
    const pf_model_info *info = pf_model_get_info(m);
    pf_error error;
    size_t rows = (size_t)q->n_hypotheses * (size_t)q->steps, chan = (size_t)info->n_chan;
    double *scratch = calloc(pf__model_scratch(m, q->n_hypotheses), sizeof *scratch);
    double *response = calloc(rows * chan, sizeof *response);
    pf_status status = PF_OK;
    for (int e = 0; e < info->n_members && status == PF_OK; e++) {
        status = pf__model_roll(m, e, q, scratch, response, &error);
        for (size_t i = 0; i < rows * chan && status == PF_OK; i++) {
            printf("%.17g%c", response[i], (i + 1) % chan ? ' ' : '\n');
        }
    }
    if (status != PF_OK) {
        fprintf(stderr, "model_roll: %s\n", error.text);
    }
    free(scratch);
    free(response);
    return status == PF_OK ? 0 : 3;
}

int main(int argc, char **argv)
{
    pf_model *m = NULL;
    pf_error error;
    FILE *f = argc == 3 ? fopen(argv[2], "r") : NULL;
    int steps, hypotheses;
    if (!f || fscanf(f, "%d %d", &steps, &hypotheses) != 2 || steps < 1 || hypotheses < 1) {
        fprintf(stderr, "usage: model_roll MODEL REQUEST\n");
        return 2;
    }
    if (pf_model_load(&m, argv[1], &error) != PF_OK) {
        fprintf(stderr, "model_roll: %s\n", error.text);
        fclose(f);
        return 3;
    }
    size_t chan = (size_t)pf_model_get_info(m)->n_chan, mech = (size_t)pf_model_get_info(m)->n_mech;
    double *start = read_numbers(f, chan * (size_t)pf_model_get_info(m)->history);
    double *command = read_numbers(f, (size_t)steps * mech);
    double *gains = read_numbers(f, (size_t)hypotheses * mech);
    fclose(f);
    int status = say(m, &(pf_model_request){start, command, steps, hypotheses, gains, NULL});
    free(start);
    free(command);
    free(gains);
    pf_model_destroy(m);
    return status;
}
