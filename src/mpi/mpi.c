// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "host/ranks.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>

// The module of src/host/ranks.h: it alone is linked to MPI.

static int start(int *rank, int *size)
{
    int level = 0;
    return MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS ||
           MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) != MPI_SUCCESS ||
           MPI_Comm_rank(MPI_COMM_WORLD, rank) != MPI_SUCCESS ||
           MPI_Comm_size(MPI_COMM_WORLD, size) != MPI_SUCCESS;
}

static int begin_send(int to, int tag, const void *bytes, size_t n, void **request)
{
    MPI_Request *one = n <= INT_MAX ? malloc(sizeof *one) : NULL;
    if (!one || MPI_Isend(bytes, (int)n, MPI_BYTE, to, tag, MPI_COMM_WORLD, one) != MPI_SUCCESS) {
        free(one);
        return 1;
    }
    *request = one;
    return 0;
}

static int sent(void *request, bool *done)
{
    int flag = 0;
    int code = MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    *done = flag || code != MPI_SUCCESS;
    if (*done) {
        free(request);
    }
    return code != MPI_SUCCESS;
}

static int peek(int *from, int *tag, size_t *n, bool *there)
{
    int flag = 0, count = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status) != MPI_SUCCESS ||
        (flag && MPI_Get_count(&status, MPI_BYTE, &count) != MPI_SUCCESS)) {
        return 1;
    }
    *there = flag;
    if (flag) {
        *from = status.MPI_SOURCE;
        *tag = status.MPI_TAG;
        *n = (size_t)count;
    }
    return 0;
}

static int take(int from, int tag, void *bytes, size_t n)
{
    return MPI_Recv(bytes, (int)n, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE) !=
           MPI_SUCCESS;
}

static void end(void)
{
    MPI_Finalize();
}

static void quit(int status)
{
    MPI_Abort(MPI_COMM_WORLD, status);
}

PF_API extern const pf_mpi_calls pf_mpi;
const pf_mpi_calls pf_mpi = {PF_MPI_CALLS, start, begin_send, sent, peek, take, end, quit};
