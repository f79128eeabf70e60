// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "board.h"

// From reset to main on any Cortex-M4F: vector table, floating point unit, memory, a painted stack.
// Nothing here is of one board; addresses come from the linker script.

extern uint32_t stack_bottom[], stack_top[];                      // the stack grows down
extern uint32_t data_begin[], data_end[], bss_begin[], bss_end[]; // in RAM
extern const uint32_t data_in_flash[];                            // what data starts as

#define SCB_CPACR (*(volatile uint32_t *)0xe000ed88u)
#define SCB_CFSR (*(volatile uint32_t *)0xe000ed28u)

int main(int argc, char **argv);
_Noreturn void reset(void);
_Noreturn void fault_report(void);
void fault(void);

// --- how much stack was used: words that still have the paint were not

enum { PAINT = 0x5ac3f00d };

static size_t most;

uintptr_t board_stack_now(void)
{
    uintptr_t sp;
    __asm__ volatile("mov %0, sp" : "=r"(sp));
    return sp;
}

// Paints what is below the caller. The loop is volatile, so that it stays a loop and calls nothing.
__attribute__((noinline)) static void paint(void)
{
    uintptr_t end = board_stack_now();
    for (volatile uint32_t *word = stack_bottom; (uintptr_t)word < end; word++) {
        *word = PAINT;
    }
}

static uintptr_t lowest(void)
{
    const uint32_t *word = stack_bottom;
    while (word < stack_top && *word == PAINT) {
        word++;
    }
    return (uintptr_t)word;
}

size_t board_stack_most(void)
{
    size_t now = (uintptr_t)stack_top - lowest();
    return now > most ? now : most;
}

size_t board_stack_since(uintptr_t from)
{
    return from - lowest();
}

void board_stack_paint(void)
{
    most = board_stack_most();
    paint();
}

// --- errno: the C library keeps it in a kilobyte of RAM for its files; there are none

int *__errno(void);
int *__errno(void)
{
    static int number;
    return &number;
}

// --- reset

_Noreturn void reset(void)
{
    static char line[64], *words[4];
    SCB_CPACR |= 0xfu << 20; // coprocessors 10 and 11: the floating point unit
    __asm__ volatile("dsb\n isb");
    const uint32_t *from = data_in_flash;
    for (uint32_t *to = data_begin; to < data_end; to++) {
        *to = *from++;
    }
    for (volatile uint32_t *to = bss_begin; to < bss_end; to++) {
        *to = 0;
    }
    paint();
    board_init();
    board_exit(main(board_arguments(line, sizeof line, words, 4), words));
}

// --- faults: the stack may be what broke, so it starts again at its top

_Noreturn void fault_report(void)
{
    board_write(SCB_CFSR & 0x1e00u ? "fault: the stack is too small, or a wrong address\n"
                                   : "fault\n");
    board_exit(3);
}

__attribute__((naked)) void fault(void)
{
    __asm__ volatile("ldr r0, =stack_top\n mov sp, r0\n b fault_report");
}

typedef union vector {
    void *stack;
    void (*handler)(void);
} vector;

// Sixteen entries are the core's; interrupts of devices follow in the order of the chip's manual.
__attribute__((section(".vectors"), used)) static const vector vectors[16] = {
    {.stack = stack_top},
    {.handler = reset},
    {.handler = fault} /* NMI */,
    {.handler = fault} /* hard */,
    {.handler = fault} /* memory */,
    {.handler = fault} /* bus */,
    {.handler = fault} /* usage */,
    [11] = {.handler = fault} /* call */,
    [14] = {.handler = fault} /* switch */,
    [15] = {.handler = fault} /* tick */};
