// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_FILE_H
#define PF_FILE_H

#include "preflight/base.h"

// A whole file in memory, aligned for a kit, with one zero byte after the end. Free with free().
pf_status pf__file_read(const char *path, size_t most, void **data, size_t *size, pf_error *error);

// The same; the flag (Nullable) ends the wait for whoever writes into a pipe.
pf_status pf__file_read_until(const char *path, size_t most, const volatile int *stop, void **data,
                              size_t *size, pf_error *error);

// Why a file cannot be opened or written, from errno.
pf_status pf__file_refuse(const char *path, int problem, pf_error *error);

// Writes a file so that it appears whole or not at all, and stays after a power cut: a new file
// with an unforeseeable name beside it, synced, then renamed, then the folder synced. What is there
// is replaced, a link itself and never what it points to; a device or pipe is written into; "-" is
// standard output. What a killed process left in the folder (preflight-<16 hex digits>.tmp) is
// removed.
pf_status pf__file_write(const char *path, const void *data, size_t size, pf_error *error);

// Gives a file that was written so another name in its folder.
pf_status pf__file_move(const char *from, const char *to, pf_error *error);

// Whether two paths name the same file, there already or not.
bool pf__file_same(const char *a, const char *b);

// Whether a name of somebody else's may become that of a file in a folder of ours: it stays in the
// folder ('/', a leading '.'), is no option (a leading '-') and steers no terminal.
bool pf__file_name_fits(const char *name);

// Whether it is there and a plain file, not a folder, device or pipe.
bool pf__file_regular(const char *path);

// Whether there is nothing to read: no file has that name, or a device or pipe has it. What cannot
// be looked at may be there.
bool pf__file_none(const char *path);

// Whether it is on a file system of another machine, where locks may not hold.
bool pf__file_on_network(const char *path);

// Whether a file of that name could be written, asked before long work rather than after it.
pf_status pf__file_writable(const char *path, pf_error *error);

// The folder of the program that runs; false: the system does not say.
bool pf__program_folder(char *folder, size_t size);

#endif
