# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Four panels over the true gain: error, rank and margin over the baselines, coverage of the interval.
load FIGURES.'/common.gp'

# settings that differ in the gain alone: those with the fewest keys
FEWEST = MOST
do for [i = 1:N_RUN] { FEWEST = has(SETTING[i], 'g') && keys(SETTING[i]) < FEWEST ? keys(SETTING[i]) : FEWEST }
gain(setting) = run(setting) && keys(setting) == FEWEST ? number(setting, 'g') : NaN
x(method) = row(MEAN, method) ? gain(strcol(2)) : NaN

# the baseline with the smallest error at each setting
array BEST[MOST]; array LEAST[MOST]
do for [i = 1:N_RUN] { LEAST[i] = 1e300; BEST[i] = '' }
better(i) = i > 0 && column(4) < LEAST[i] ? (LEAST[i] = column(4), BEST[i] = strcol(3), 1) : 0
ERROR = block('compensation_error')
stats DATA index ERROR using (strcol(1) eq MEAN && is_baseline(strcol(3)) ? better(run(strcol(2))) : 0) nooutput
best(environment) = environment eq MEAN && run(strcol(2)) && strcol(3) eq BEST[run(strcol(2))] ? gain(strcol(2)) : NaN
name(method) = METHOD_LABEL[sum [i = 1:N_METHODS] (METHOD[i] eq method ? i : 0)]

RANK = block('rank_compensation_error'); MARGIN = block('compensation_error'.DIFFERENCE)
RANKED = 0
if (RANK) { stats DATA index RANK using (row(MEAN, REFERENCE) ? (RANKED = 1) : 0) nooutput }

eval canvas(1200, 960)
set multiplot title SUITE.', mean over '.plural(N_ENVIRONMENTS, 'plant').'; dotted: the calibration gain'

# the legend
set lmargin at screen 0.02; set rmargin at screen 0.98; set bmargin at screen 0.89; set tmargin at screen 0.96
unset border; unset tics; unset grid
set xrange [0:1]; set yrange [0:1]
set key center center horizontal maxrows 3 samplen 3 width 1
plot for [m = 1:N_METHODS] NaN with linespoints lw width(METHOD[m]) dt dashes(METHOD[m]) pt 3 + m ps 0.8 \
    lc rgb colour(METHOD[m]) title METHOD_LABEL[m]
unset key
set border 3 lc rgb '#606060'; set tics nomirror; set grid back lt 1 lw 0.6 lc rgb '#d8d8d8'
set xrange [0.1:0.9]
set xlabel 'true gain g' offset 0,0.3
set arrow 1 from G_CAL, graph 0 to G_CAL, graph 1 nohead dt 3 lw 1.5 lc rgb '#606060'
LINES = "plot DATA index b using (x(REFERENCE)):6:7 with filledcurves fs transparent solid 0.2 noborder " \
    ."lc rgb colour(REFERENCE) notitle, for [m = 1:N_METHODS] DATA index b using (x(METHOD[m])):4 with linespoints " \
    ."lw width(METHOD[m]) dt dashes(METHOD[m]) pt 3 + m ps 0.8 lc rgb colour(METHOD[m]) notitle"
do for [p = 0:3] {
    set lmargin at screen (p % 2 ? 0.585 : 0.095)
    set rmargin at screen (p % 2 ? 0.98 : 0.49)
    set bmargin at screen (p > 1 ? 0.07 : 0.515)
    set tmargin at screen (p > 1 ? 0.435 : 0.88)
    set yrange [0:*]; set ytics autofreq; set offsets 0,0,0,0
    if (p == 0) { b = ERROR; set ylabel 'compensation error'; eval LINES }
    if (p == 1 && RANKED) {
        set ylabel 'rank of EG-MPT, mean over plants'
        set yrange [8.3:0.7]; set ytics 1
        plot DATA index RANK using (x(REFERENCE)):4:6:7 with yerrorbars lw 1.5 pt 7 ps 0.8 lc rgb '#D55E00' notitle, \
            DATA index RANK using (x(REFERENCE)):4 with lines lw 2 lc rgb '#D55E00' notitle
    }
    if (p == 2 && RANKED) {
        set ylabel 'best competitor minus EG-MPT'
        set yrange [*:*]; set offsets 0,0,graph 0.3,graph 0.03
        plot DATA index MARGIN using (best(strcol(1))):4:6:7 with yerrorbars lw 1.5 pt 7 ps 0.8 lc rgb '#D55E00' notitle, \
            DATA index MARGIN using (best(strcol(1))):4 with lines lw 2 lc rgb '#D55E00' notitle, \
            DATA index MARGIN using (best(strcol(1))):7:(name(strcol(3))) with labels left rotate by 70 offset 0.2,0.4 font ',10' \
                tc rgb '#404040' notitle, \
            0 lw 1 lc rgb 'black' notitle
    }
    if (p == 1 && !RANKED) { b = block('detection'); set ylabel 'detection'; set yrange [0:1.02]; eval LINES }
    if (p == 2 && !RANKED) { b = block('delay'); set ylabel 'delay, rounds'; eval LINES }
    if (p == 3) {
        b = block('coverage'); set ylabel 'coverage of the 90 % interval'; set yrange [0:1]
        set arrow 2 from graph 0, first 0.9 to graph 1, first 0.9 nohead dt 2 lc rgb 'black'
        eval LINES
    }
}
unset multiplot
