# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# The known-model study: how much of what Bayes recovers transport recovers, and how much of it lies
# within a category.
load FIGURES.'/common.gp'

# CRPS of the uniform prior on 17 gains from .15 to .95, averaged over the truths: what knowing
# nothing costs
N = 17
PRIOR = sum [t = 0:N - 1] sum [k = 0:N - 2] .05 * ((k + 1.0) / N - (k >= t))**2 / N

# one bar per setting of a knob, the unbroken assumptions first
array KNOB[MOST]; N_BARS = 0
do for [pass = 1:2] {
    do for [i = 1:N_RUN] {
        knob = given(SETTING[i], 'knob')
        if ((pass == 1) == (knob eq 'none') && knob ne 'noise') { N_BARS = N_BARS + 1; KNOB[N_BARS] = SETTING[i] }
    }
}
bar(setting) = sum [i = 1:N_BARS] (KNOB[i] eq setting ? i : 0)
array BAYES[MOST]; array TRANSPORT[MOST]
do for [i = 1:N_BARS] { BAYES[i] = NaN; TRANSPORT[i] = NaN }
keep(i, method) = i == 0 ? 0 : method eq 'bayes' ? (BAYES[i] = column(4), 1) : method eq 'transport' ? (TRANSPORT[i] = column(4), 1) : 0
stats DATA index block('crps') using (strcol(1) eq MEAN ? keep(bar(strcol(2)), strcol(3)) : 0) nooutput
share(i) = (PRIOR - TRANSPORT[i]) / (PRIOR - BAYES[i])
noise(setting) = given(setting, 'knob') eq 'none' ? 1 : given(setting, 'knob') eq 'noise' ? number(setting, 'value') : NaN
ARMS = 'bayes transport category'
TINTS = '#000000 #D55E00 #0072B2'

eval canvas(1300, 600)
set multiplot title SUITE.': transport against the exact posterior (left), and what a category discards (right)'
set lmargin at screen 0.07; set rmargin at screen 0.66; set bmargin at screen 0.38; set tmargin at screen 0.9
set ylabel 'share of the Bayes gain in CRPS'
set grid noxtics
set xtics () rotate by 45 right scale 0
do for [i = 1:N_BARS] {
    knob = spaced(given(KNOB[i], 'knob'))
    set xtics add (tic(knob eq 'none' ? knob : knob.' '.given(KNOB[i], 'value')) i)
}
set xrange [0:N_BARS + 1]
set yrange [*<0:1.15]
set boxwidth 0.7
plot sample [i = 1:N_BARS:1] '+' using ($1):(share(int($1))) with boxes fs solid 0.85 noborder lc rgb '#D55E00' notitle, \
    [0:N_BARS + 1] 1 lw 1 dt 2 lc rgb 'black' notitle, [0:N_BARS + 1] 0 lw 1 lc rgb 'black' notitle

set lmargin at screen 0.73; set rmargin at screen 0.98; set bmargin at screen 0.13
set ylabel 'bits of the gain recovered'
set xlabel 'sensor noise, multiple of nominal'
set grid xtics
set logscale x 2
set xtics (0.5, 1, 2, 4) rotate by 0 center
set xrange [0.45:4.5]
set yrange [0:*]
set key top right
plot for [a = 1:3] DATA index block('log_score') using (row(MEAN, word(ARMS, a)) ? noise(strcol(2)) : NaN):4 smooth unique \
    with linespoints lw 2 pt 7 lc rgb word(TINTS, a) title word(ARMS, a)
unset multiplot
