// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_PREFLIGHT_H
#define PREFLIGHT_PREFLIGHT_H

// The online procedure: all that a board needs. The laboratory is in plant.h, model.h, run.h,
// calibrate.h, design.h and train.h.
#include "preflight/base.h"
#include "preflight/kit.h"
#include "preflight/session.h"

#endif
