// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TEST_DATABASE_H
#define PF_TEST_DATABASE_H

// The first number that a statement gives on a database of `bench`, with another attached as b
// (nullable); 0: no row, -1: it fails.
long long database_ask(const char *path, const char *other, const char *sql);

#endif
