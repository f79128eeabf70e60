// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_PAGES_H
#define PF_PAGES_H

#include <stddef.h>

// Memory that is walked through again and again, at a 64-byte boundary: in large pages where it is
// large and the system has them, since looking up small ones takes a twentieth of a rollout. NULL:
// there is none. Free with free().
void *pf__pages_take(size_t bytes);

#endif
