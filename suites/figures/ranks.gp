# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# The rank of EG-MPT on every environment in five metrics, beside the paper's.
load FIGURES.'/common.gp'

RANKED = 'compensation_error worst_error crps probes coverage'
place(environment) = sum [i = 1:N_ENVIRONMENTS] (ENVIRONMENT[i] eq environment ? i : 0)
y(environment) = strcol(3) eq REFERENCE && strcol(2) eq AT && place(environment) > 0 ? place(environment) : NaN
text(ours, paper) = sprintf('%.0f', ours).(paper == paper ? sprintf(' (%.0f)', paper) : '')

eval canvas(860, 620)
set title "Rank of EG-MPT among eight methods: ours (the paper's)"
set palette defined (1 '#D55E00', 2 '#E69F00', 4 '#f2f2f2', 8 '#9ecae1')
set bmargin 4
set cbrange [1:8]
set cblabel 'rank'
set xtics () scale 0
do for [k = 1:5] { set xtics add (lines(spaced(word(RANKED, k))) k) }
set ytics () scale 0
do for [i = 1:N_ENVIRONMENTS] { set ytics add (tic(ENVIRONMENT_LABEL[i]) i) }
set xrange [0.5:5.5]
set yrange [N_ENVIRONMENTS + 0.5:0.5]
unset key
unset grid
plot for [k = 1:5] DATA index block('rank_'.word(RANKED, k)) using (k):(y(strcol(1))):(k - .5):(k + .5):(y(strcol(1)) - .5):(y(strcol(1)) + .5):4 \
        with boxxyerror fs solid noborder fc palette notitle, \
    for [k = 1:5] DATA index block('rank_'.word(RANKED, k)) using (k):(y(strcol(1))):(text(column(4), column(8))) with labels notitle
