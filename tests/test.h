// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TEST_H
#define PF_TEST_H

#include <stdbool.h>

// A test program is a list of groups; a group is a function that opens named cases and checks.
// Checks count and go on; they survive NDEBUG.

void pf_case(const char *name);
bool pf_test_check(bool passed, const char *file, int line, const char *what);
bool pf_check_near(double actual, double expected, double tolerance, const char *file, int line,
                   const char *what);
bool pf_check_string(const char *actual, const char *expected, const char *file, int line);
bool pf_check_contains(const char *actual, const char *part, const char *file, int line);

// Opens a case; the checks that follow belong to it.
#define PF_CASE(name) pf_case(name)
#define CHECK(condition) pf_test_check((condition), __FILE__, __LINE__, #condition)
#define CHECK_NEAR(actual, expected, tolerance)                                                    \
    pf_check_near((actual), (expected), (tolerance), __FILE__, __LINE__, #actual)
#define CHECK_STR(actual, expected) pf_check_string((actual), (expected), __FILE__, __LINE__)
#define CHECK_CONTAINS(actual, part) pf_check_contains((actual), (part), __FILE__, __LINE__)

// A case that cannot run here. In CI (environment variable CI) a skip is a failure.
void pf_skip(const char *why);

// Whether tests run at full size (--long, `make check-all`): more repetitions of the same checks.
bool pf_long(void);
// The golden file of this run (--golden FILE, else the project's own).
const char *pf_golden_file(void);
// A folder of this run's own, removed at the end.
const char *pf_scratch_dir(void);

// Name of the group, and whether it also runs under the sanitizers (`--asan`): the core and all
// that reads foreign bytes does, long statistics do not. Add a row for a new file.
#define GROUPS(X)                                                                                  \
    X(golden, true)                                                                                \
    X(rng, true)                                                                                   \
    X(score, true)                                                                                 \
    X(belief, true)                                                                                \
    X(propositions, true)                                                                          \
    X(kit, true)                                                                                   \
    X(trust, true)                                                                                 \
    X(session, true)                                                                               \
    X(odds, true)                                                                                  \
    X(whiten, true)                                                                                \
    X(posterior, true)                                                                             \
    X(misfit, false)                                                                               \
    X(rehearsal, true)                                                                             \
    X(failsafe, true)                                                                              \
    X(plant, true)                                                                                 \
    X(lanes, true)                                                                                 \
    X(fault, true)                                                                                 \
    X(mujoco, true)                                                                                \
    X(mujoco_file, true)                                                                           \
    X(classic, true)                                                                               \
    X(loops, true)                                                                                 \
    X(bridge, true)                                                                                \
    X(gym, true)                                                                                   \
    X(fmu, true)                                                                                   \
    X(config, true)                                                                                \
    X(plan, true)                                                                                  \
    X(exchange, true)                                                                              \
    X(library, true)                                                                               \
    X(doctor, true)                                                                                \
    X(design, false)                                                                               \
    X(calibrate, false)                                                                            \
    X(recordings, true)                                                                            \
    X(ensemble, false)                                                                             \
    X(paired, false)                                                                               \
    X(alarm, false)                                                                                \
    X(faults, false)                                                                               \
    X(audit, false)                                                                                \
    X(verdict, false)                                                                              \
    X(serve, true)                                                                                 \
    X(journal, true)                                                                               \
    X(signals, false)                                                                              \
    X(said, true)                                                                                  \
    X(sheet, true)                                                                                 \
    X(outputs, true)                                                                               \
    X(pages, true)                                                                                 \
    X(terminal, false)                                                                             \
    X(machine, true)                                                                               \
    X(part, true)                                                                                  \
    X(progress, false)                                                                             \
    X(locale, false)                                                                               \
    X(disk, true)                                                                                  \
    X(host, true)                                                                                  \
    X(safetensors, true)                                                                           \
    X(transitions, true)                                                                           \
    X(network, true)                                                                               \
    X(rollouts, true)                                                                              \
    X(model, true)                                                                                 \
    X(train, false)                                                                                \
    X(trajectory, false)                                                                           \
    X(matmul, true)                                                                                \
    X(bench, false)                                                                                \
    X(field, false)                                                                                \
    X(fidelity, false)                                                                             \
    X(store, true)                                                                                 \
    X(settings, false)                                                                             \
    X(domain, true)                                                                                \
    X(responses, false)                                                                            \
    X(predictions, true)                                                                           \
    X(episode, true)                                                                               \
    X(aggregate, false)                                                                            \
    X(figure, false)

#define X(name, asan) void test_##name(void);
GROUPS(X)
#undef X

#endif
