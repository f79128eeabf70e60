// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_PART_H
#define PF_PART_H

#include "preflight/base.h"

// Finished items of a long job, kept in a file so that the job goes on after a stop or a crash.
// Everything is deterministic, so an item is known by the number of its stage and its own number,
// as long as the key is the same: it names all that decides the result.

// Memory that an item writes a result to, and nothing else does.
typedef struct pf_slot {
    void *data;
    size_t size;
    bool loose; // it holds gaps between numbers: only its first number is compared
} pf_slot;

enum { PF_SLOTS = 3 };

// The slots of an item; gives how many.
typedef int (*pf_slots_fn)(void *self, size_t item, pf_slot *slots);

// A stage begins: what the file has of it goes into the slots, and kept[item] is 1 then. Some have
// 2, and their slots stay as they are: they are to be run again and compared, since the plant may
// have changed. Gives how many have 1.
pf_status pf__part_stage(pf_part *part, size_t n, pf_slots_fn slots, void *self, uint8_t *kept,
                         size_t *n_kept, pf_error *error);

// An item has been run: keeps it, or compares it where kept is 2. From one thread at a time.
pf_status pf__part_item(pf_part *part, size_t item, pf_slots_fn slots, void *self, uint8_t kept,
                        pf_error *error);

#endif
