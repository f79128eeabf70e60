// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_CLOCK_H
#define PF_CLOCK_H

// Seconds of a clock that never goes back.
double pf__seconds(void);

#endif
