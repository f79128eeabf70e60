// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

// What the example needs of a board. Another board has its own board.c, start.c and linker script.

void board_init(void);                 // before main: the counter runs
void board_write(const char *text);    // to whoever watches
_Noreturn void board_exit(int status); // the program is over; a product would never call it

// Words that the debugger passes, as on a host; a product has none.
int board_arguments(char *line, size_t bytes, char **words, int most);

// Instructions so far, modulo 2^32, in QEMU with -icount shift=0. On the chip: clocks of the timer.
uint32_t board_count(void);

// The stack, which start.c paints before main.
size_t board_stack_most(void);            // bytes that were ever in use
void board_stack_paint(void);             // what is free now, anew
uintptr_t board_stack_now(void);          // the stack pointer of the caller
size_t board_stack_since(uintptr_t from); // bytes used below `from` since it was painted

#endif
