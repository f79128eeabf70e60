// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "board.h"

#include <stdbool.h>

// An STM32F405 under a debugger, or QEMU's netduinoplus2. Output, arguments and the exit status go
// through Arm's semihosting: a breakpoint that the debugger answers. Without a debugger that is a
// fault, so a product writes to its serial port in board_write, and needs nothing else of it.

enum {
    SYS_WRITE0 = 0x04,      // a text that ends with 0
    SYS_GET_CMDLINE = 0x15, // the arguments
    SYS_EXIT_EXTENDED = 0x20
};

static uint32_t semihosting(uint32_t operation, const void *block)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = block;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void board_write(const char *text)
{
    semihosting(SYS_WRITE0, text);
}

_Noreturn void board_exit(int status)
{
    const uint32_t block[2] = {0x20026 /* the application ends */, (uint32_t)status};
    for (;;) {
        semihosting(SYS_EXIT_EXTENDED, block);
    }
}

int board_arguments(char *line, size_t bytes, char **words, int most)
{
    const uint32_t block[2] = {(uint32_t)(uintptr_t)line, bytes};
    int n = 0;
    if (semihosting(SYS_GET_CMDLINE, block) != 0) {
        return 0;
    }
    for (bool inside = false; *line; line++) {
        if (*line == ' ') {
            *line = '\0';
            inside = false;
        } else if (!inside && n < most) {
            words[n++] = line;
            inside = true;
        }
    }
    return n;
}

// --- timer 2, the only device in use

#define RCC_APB1ENR (*(volatile uint32_t *)0x40023840u)
#define TIM2_CR1 (*(volatile uint32_t *)0x40000000u)
#define TIM2_CNT (*(volatile uint32_t *)0x40000024u)

void board_init(void)
{
    RCC_APB1ENR |= 1; // its clock
    TIM2_CR1 = 1;     // 32 bits, no prescaler
}

uint32_t board_count(void)
{
    return TIM2_CNT;
}
