# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# The first metric, settings in rows: every rule at the mean over the plants.
load FIGURES.'/common.gp'
b = block(SHOWN[1])
y(setting) = -run(setting)
mark(m) = m == 1 ? 7 : m + 2
hue(m) = word('#D55E00 #E69F00 #0072B2 #009E73 #CC79A7 #666666', m > 6 ? 6 : m)
eval canvas(980, 190 + 19 * N_RUN)
set title SUITE.': share of the sessions, mean of '.plural(N_ENVIRONMENTS, 'plant')
set key outside top center horizontal samplen 1.5
set ytics () scale 0 font ',11'
do for [i = 1:N_RUN] { set ytics add (tic(SETTING[i]) -i) }
set yrange [-N_RUN - 1:0]
set xrange [-.02:1.02]
set xlabel label(SHOWN[1])
set grid xtics ytics
plot for [m = N_METHODS:1:-1] DATA index b using (strcol(1) eq MEAN && strcol(3) eq METHOD[m] && run(strcol(2)) ? column(4) : NaN):(y(strcol(2))) \
    with points pt mark(m) ps (m == 1 ? 1.3 : 0.9) lc rgb hue(m) title METHOD_LABEL[m]
