# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Cost over size on logarithmic axes, a panel per figure, and the fitted a + b x^p. growth.py sets DATA
# (a block per figure: name, unit, p, a, b; then sizes and costs), N (blocks), PICTURE and ENDING.
set encoding utf8
COLUMNS = 4
LINES = (N + COLUMNS - 1) / COLUMNS
if (ENDING eq 'svg') {
    set terminal svg size 1200, 330 * LINES font 'sans,13' background '#ffffff'
} else {
    set terminal pngcairo size 1200, 330 * LINES font 'sans,10' background '#ffffff'
}
set output PICTURE
set border 3 lc rgb '#606060'
set tics nomirror
set grid back lt 1 lw 0.6 lc rgb '#d8d8d8'
set format x '%.0s%c'
set format y '%.4g'
set ytics (.02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000)
set key left top samplen 2
LABEL(name) = name eq 'table' ? 'trials in the database' : name eq 'rows' ? 'rows of a response' : name eq 'recordings' ? 'rows of recordings' : name eq 'trials' ? 'trials of a run' : name
COST(name, unit) = unit eq 'ns' ? 'stage-1 opportunity, ns' : unit eq 'MB' ? 'bench table, MB' : name eq 'table' ? 'bench table, s' : name eq 'recordings' ? 'calibration, s' : 'run of one plant, s'
array NAME[N]; array UNIT[N]; array P[N]; array A[N]; array B[N]
array X0[N]; array X1[N]; array Y0[N]; array Y1[N] # the ranges
do for [i = 1:N] {
    stats DATA index i - 1 every ::0::0 using (NAME[i] = strcol(1), UNIT[i] = strcol(2), P[i] = $3, A[i] = $4, B[i] = $5, 0) nooutput
    stats DATA index i - 1 every ::1 using 1:2 name 'S' nooutput
    X0[i] = S_min_x; X1[i] = S_max_x; Y0[i] = S_min_y; Y1[i] = S_max_y
}
set logscale xy
set multiplot layout LINES, COLUMNS
do for [i = 1:N] {
    set xlabel LABEL(NAME[i])
    set ylabel COST(NAME[i], UNIT[i])
    set xrange [X0[i] / 1.3:X1[i] * 1.3]
    set yrange [Y0[i] / 1.5:Y1[i] * 3]
    plot A[i] + B[i] * x**P[i] with lines lw 1.5 lc rgb '#1f77b4' title sprintf('a + b x^{%.2f}', P[i]), \
        DATA index i - 1 every ::1 using 1:2 with points pt 7 ps 0.7 lc rgb '#d62728' notitle
}
unset multiplot
