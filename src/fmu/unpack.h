// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FMU_UNPACK_H
#define PF_FMU_UNPACK_H

#include "preflight/base.h"

// The zip archive that an FMU is.

typedef struct pf_fmu_zip pf_fmu_zip;

// Opens an archive in memory, which must outlive it, and looks at every entry: names that lead out
// of a folder, links, and more than `most` bytes in all are refused.
pf_status pf__fmu_zip_open(pf_fmu_zip **zip, const void *data, size_t size, uint64_t most,
                           pf_error *error);
void pf__fmu_zip_close(pf_fmu_zip *zip); // Nullable.

// One entry whole, followed by a zero; free with free(). What is missing says so.
pf_status pf__fmu_zip_read(pf_fmu_zip *zip, const char *name, void **data, size_t *size,
                           pf_error *error);

// Whether there is an entry of that name.
bool pf__fmu_zip_has(pf_fmu_zip *zip, const char *name);

// The platforms that it has binaries for, "linux64, win64"; "": none.
void pf__fmu_zip_platforms(pf_fmu_zip *zip, char *out, size_t size);

// Writes into a folder what one platform needs: all but sources, documentation and the binaries of
// others. Ends when more has come out than the archive may hold. Nullable folder: nothing is
// written, everything is read.
pf_status pf__fmu_zip_unpack(pf_fmu_zip *zip, const char *platform, const char *folder,
                             pf_error *error);

#endif
