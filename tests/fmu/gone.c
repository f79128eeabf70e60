// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0

// A library that an FMU needs and nobody has.
int fmu_gone(void);

int fmu_gone(void)
{
    return 1;
}
