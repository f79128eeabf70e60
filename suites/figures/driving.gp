# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Four measures of safety, and EG-MPT's advantage in the smallest time to collision.
METRICS = 'collision min_ttc min_headway tail_ttc'
PAIRED = 'min_ttc'; PAIRED_LABEL = 'smallest time to collision: method minus EG-MPT, s'
load FIGURES.'/measures.gp'
