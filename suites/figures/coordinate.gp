# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# The realised coordinate over the true gain, one panel per environment, one colour per mechanism.
load FIGURES.'/common.gp'

COLOURS = '#D55E00 #0072B2 #009E73 #CC79A7 #E69F00 #56B4E9 #000000 #999999'
PANELS = N_ENVIRONMENTS < 4 ? N_ENVIRONMENTS : 4
Z = block('coordinate')
# the spread is another metric: it is kept by method and setting
array SPREAD[N_METHODS * N_SETTINGS]
slot(setting, m) = (m - 1) * N_SETTINGS + run(setting)
method(id) = sum [m = 1:N_METHODS] (METHOD[m] eq id ? m : 0)
keep(environment) = strcol(1) eq environment && run(strcol(2)) ? (SPREAD[slot(strcol(2), method(strcol(3)))] = column(4), 1) : 0
x(environment, m) = row(environment, METHOD[m]) && run(strcol(2)) ? number(strcol(2), 'g') : NaN
sd(m) = run(strcol(2)) ? SPREAD[slot(strcol(2), m)] : NaN

# mechanisms that have results; "all" is their mean
array HAS[MOST]; array MECHANISM[MOST]; N_MECHANISMS = 0
do for [m = 1:N_METHODS] { HAS[m] = 0 }
stats DATA index Z using (strcol(3) eq 'all' ? 0 : (HAS[method(strcol(3))] = 1)) nooutput
do for [m = 1:N_METHODS] { if (HAS[m]) { N_MECHANISMS = N_MECHANISMS + 1; MECHANISM[N_MECHANISMS] = m } }

eval canvas(PANELS > 1 ? 200 + 500 * PANELS : 950, 580)
set multiplot title SUITE.': realised coordinate, mean and spread over episodes; dotted: the calibration gain'
set bmargin at screen 0.12; set tmargin at screen 0.79
set xlabel 'true gain g'
set ylabel 'coordinate z' offset 1,0
set xrange [0.1:1]
set yrange [*:*]
set key at screen 0.5,0.92 center horizontal maxrows 1 samplen 2 width 2
set arrow 1 from G_CAL, graph 0 to G_CAL, graph 1 nohead dt 3 lw 1.5 lc rgb '#606060'
do for [e = 1:PANELS] {
    do for [i = 1:N_METHODS * N_SETTINGS] { SPREAD[i] = NaN }
    stats DATA index block('coordinate_sd') using (keep(ENVIRONMENT[e])) nooutput
    set lmargin at screen 0.085 + 0.955 * (e - 1) / PANELS
    set rmargin at screen 0.085 + 0.955 * e / PANELS - 0.095
    set title ENVIRONMENT_LABEL[e]
    plot (1 - x) / (1 - G_CAL) lw 2 lc rgb 'black' dt 2 title 'ideal', \
        for [k = 1:N_MECHANISMS] DATA index Z using (x(ENVIRONMENT[e], MECHANISM[k])):4:(sd(MECHANISM[k])) with yerrorbars \
            lw 1.5 pt 7 ps 0.6 lc rgb word(COLOURS, (k - 1) % 8 + 1) title sprintf('mechanism %d', k)
    unset key
}
unset multiplot
