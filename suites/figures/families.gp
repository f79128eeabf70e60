# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# What removing each part costs on each environment; squares where it is a gain beyond doubt.
load FIGURES.'/common.gp'

rung(label) = strstrt(label, ', ') ? label[strstrt(label, ', ') + 2:*] : label
N_ROWS = N_ENVIRONMENTS + (N_ENVIRONMENTS > 1)
place(environment) = environment eq 'macro' ? 1 : sum [i = 1:N_ENVIRONMENTS] (ENVIRONMENT[i] eq environment ? N_ROWS + 1 - i : 0)
y(method) = strcol(3) eq method && strcol(2) eq AT && place(strcol(1)) > 0 ? place(strcol(1)) : NaN
tint(hi) = hi < 0 ? 0xD55E00 : 0x0072B2

METRIC_SHOWN = N_SHOWN ? SHOWN[1] : 'compensation_error'
b = block(METRIC_SHOWN.DIFFERENCE)
W = 200 + 300 * (N_METHODS - 1)
eval canvas(W, 560)
set multiplot layout 1,N_METHODS - 1 \
    title SUITE.': rung minus full, '.label(METRIC_SHOWN).', with 95 % intervals; squares: resolved below zero' \
    margins 180.0 / W,0.975,0.11,0.85 spacing 0.025,0
set grid noytics
set xtics rotate by -45
set xrange [*<0:0<*]
set yrange [0.3:N_ROWS + 0.7]
set arrow 1 from 0, graph 0 to 0, graph 1 nohead lc rgb 'black'
set ytics () scale 0
do for [i = 1:N_ENVIRONMENTS] { set ytics add (tic(ENVIRONMENT_LABEL[i]) N_ROWS + 1 - i) }
if (N_ENVIRONMENTS > 1) { set ytics add ('Mean of all' 1) }
do for [m = 1:N_METHODS] {
    if (METHOD[m] ne REFERENCE) {
        set title rung(METHOD_LABEL[m])
        plot DATA index b using 4:(y(METHOD[m])):6:7:(tint(column(7))) with xerrorbars lc rgb variable pt 0 lw 1.5 notitle, \
            DATA index b using 4:(y(METHOD[m])):(column(7) < 0 ? 5 : 7):(tint(column(7))) with points pt variable \
                lc rgb variable ps 0.9 notitle
        set ytics format ''
        set ytics ()
        do for [i = 1:N_ROWS] { set ytics add ('' i) }
    }
}
unset multiplot
