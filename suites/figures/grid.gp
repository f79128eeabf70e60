# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# The ladder on the power grid: what the posterior is worth, what the generator could not deliver and
# was not able to ramp, and what removing a part costs.
METRICS = 'gain_mae crps compensation_error asked_shortfall asked_infeasible'
PAIRED = 'compensation_error'; PAIRED_LABEL = 'compensation error: rung minus EG-MPT'
load FIGURES.'/measures.gp'
