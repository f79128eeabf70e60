// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include <locale.h>
#include <unistd.h>

// Loaded before a program (LD_PRELOAD) it does what a desktop program does first: it takes the
// user's locale. One with a decimal point would prove nothing, so that ends the program.
__attribute__((constructor)) static void take_locale(void)
{
    if (!setlocale(LC_ALL, "") || localeconv()->decimal_point[0] == '.') {
        _exit(99);
    }
}
