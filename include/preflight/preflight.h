// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_PREFLIGHT_H
#define PREFLIGHT_PREFLIGHT_H

// The online procedure, from left to right as data flow through it.
#include "preflight/base.h"
#include "preflight/rng.h"
#include "preflight/score.h"
#include "preflight/channel.h"
#include "preflight/belief.h"
#include "preflight/severity.h"
#include "preflight/joint.h"
#include "preflight/recovery.h"
#include "preflight/certificate.h"
#include "preflight/method.h"
#include "preflight/odds.h"
#include "preflight/predictor.h"
#include "preflight/kit.h"
#include "preflight/session.h"

#endif
