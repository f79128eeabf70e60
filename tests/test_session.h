// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TEST_SESSION_H
#define PF_TEST_SESSION_H

// The part of the group `session` about what responses do to it: garbage, readings, group probes.
void test_session_evidence(void);

#endif
