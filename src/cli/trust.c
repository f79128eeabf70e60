// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include "host/file.h"
#include "model/model_impl.h"
#include "plant/plant_impl.h"
#include "wire/audit_file.h"

#include <stdlib.h>
#include <unistd.h>

pf_status cli_trusted_read(const cli_trust *trust, const char *path, size_t most, void **data,
                           size_t *n, char *signer, pf_error *error)
{
    pf_status status = pf__file_read_until(path, most, &cli_interrupted, data, n, error);
    if (status == PF_OK && trust->signers) {
        // what was verified is what is used: the file is not opened again
        status =
            pf__signature_verify(trust->signers, path, *data, *n, signer, &cli_interrupted, error);
    }
    if (status != PF_OK) {
        free(*data);
        *data = NULL;
        *n = 0;
    }
    return status;
}

pf_status cli_audit_read(const cli_trust *trust, const char *path, char **text, size_t *n,
                         pf_error *error)
{
    void *data = NULL;
    pf_status status = PF_OK;
    *n = 0;
    if (!path) {
        status = pf_fail(error, PF_ERR_MEMORY, "out of memory for an audit");
    } else if (!pf__file_none(path)) {
        status = cli_trusted_read(trust, path, PF_AUDIT_BYTES, &data, n, NULL, error);
    }
    *text = data;
    return status;
}

pf_status cli_audit_keepable(const char *path, pf_error *error)
{
    return path && pf__file_none(path) && access(path, F_OK) == 0
               ? pf_fail(error, PF_ERR_FILE,
                         "%s: is no plain file, and an audit is kept in one; remove it", path)
               : PF_OK;
}

pf_status cli_trusted_model(const cli_trust *trust, pf_model **model, const char *path,
                            pf_error *error)
{
    void *bytes = NULL;
    size_t n = 0;
    *model = NULL;
    if (!trust->signers) {
        return pf_model_load(model, path, error);
    }
    pf_status status = cli_trusted_read(trust, path, PF_TENSORS_BYTES, &bytes, &n, NULL, error);
    return status == PF_OK ? pf__model_read(model, path, bytes, n, error) : status;
}

pf_status cli_trusted_plant(const cli_trust *trust, const char *file, const char *plant,
                            pf_error *error)
{
    if (!pf__plant_runs_code(plant) || trust->allow_exec || trust->signers) {
        return PF_OK;
    }
    return pf_fail(error, PF_ERR_MISMATCH,
                   "%s names a program, which was not run: '%s'. To run it, say --allow-exec,%s or "
                   "have the file signed and say --trust SIGNERS",
                   file, plant, trust->no_plant ? "" : " or --plant with the same words,");
}
