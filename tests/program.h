// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TEST_PROGRAM_H
#define PF_TEST_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

// Runs the real program with arguments as a shell reads them (redirections too; output and errors
// are caught). True if it ends with the status and its output holds the part; else what it did is
// printed.
bool program(const char *arguments, int status, const char *part);

// Lines of the output are so wide from here on; 1000 unless told, so that no sentence is cut.
void program_width(int columns);

// The same, where @ in the arguments stands for the folder.
bool program_in(const char *folder, const char *arguments, int status, const char *part);

// A fresh folder of that name in this run's scratch folder.
bool program_folder(char *path, size_t n, const char *name);

// A file of a folder as text; free it. A file that cannot be read fails a check and is empty.
char *program_text(const char *folder, const char *name);

// How often a text holds a part.
int program_count(const char *text, const char *part);

// Exit status and messages of every command for bad calls and bad files. The folder holds
// attitude.kit, run (a journal), certificate and garbage.
void check_exit_status(const char *folder);

#endif
