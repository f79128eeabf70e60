# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Two metrics, every method at every environment, with 95 % intervals and the paper's numbers; the
# settings instead of the environments where there is one environment.
load FIGURES.'/common.gp'

# groups of bars: an environment at a setting
array WHERE[MOST]; array WHEN[MOST]; array WHAT[MOST]
values(setting) = until(setting)[strstrt(until(setting), '=') + 1:*] \
    .(strstrt(setting, ';') ? ' '.values(setting[strstrt(setting, ';') + 1:*]) : '')
N_GROUPS = BY_SETTING ? N_SETTINGS : N_ENVIRONMENTS
do for [i = 1:N_GROUPS] {
    WHERE[i] = BY_SETTING ? ENVIRONMENT[1] : ENVIRONMENT[i]
    WHEN[i] = BY_SETTING ? SETTING[i] : AT
    WHAT[i] = BY_SETTING ? values(SETTING[i]) : lines(ENVIRONMENT_LABEL[i])
}
if (PAPER_MEAN) {
    N_GROUPS = N_GROUPS + 1
    WHERE[N_GROUPS] = 'macro-shown'; WHEN[N_GROUPS] = AT; WHAT[N_GROUPS] = "Mean of\nthe paper's"
}
if (N_ENVIRONMENTS > 1) {
    N_GROUPS = N_GROUPS + 1
    WHERE[N_GROUPS] = 'macro'; WHEN[N_GROUPS] = AT; WHAT[N_GROUPS] = "Mean of\nall"
}
group(environment, setting) = sum [i = 1:N_GROUPS] (WHERE[i] eq environment && WHEN[i] eq setting ? i : 0)
STEP = N_METHODS + 2
place(g, m) = g == 0 ? NaN : (g - 1) * STEP + m - 1
x(m) = strcol(3) eq METHOD[m] ? place(group(strcol(1), strcol(2)), m) : NaN
method(id) = sum [m = 1:N_METHODS] (METHOD[m] eq id ? m : 0)
# the paper's mean is over the plants that it shows
paper(environment) = environment eq 'macro' && PAPER_MEAN ? NaN : column(8)

BARS = "plot for [m = 1:N_METHODS] DATA index b using (x(m)):4 with boxes fs solid 0.9 noborder " \
    ."lc rgb colour(METHOD[m]) title METHOD_LABEL[m], for [m = 1:N_METHODS] DATA index b " \
    ."using (x(m)):6:(0):(column(7) - column(6)) with vectors nohead lw 1.2 lc rgb '#303030' notitle"
POINTS = ", DATA index b using (x(method(strcol(3)))):(paper(strcol(1))) with points pt 9 ps 0.9 " \
    ."lc rgb 'black' title 'the paper'"

PANELS = N_SHOWN < 2 ? N_SHOWN : 2
eval canvas(1600, 90 + (BY_SETTING ? 450 : 400) * PANELS)
set multiplot layout PANELS,1 title SUITE.', '.(BY_SETTING ? ENVIRONMENT_LABEL[1] : AT).': mean and 95 % interval' \
    margins 0.065,0.97,(BY_SETTING ? 0.15 : 0.08),0.88 spacing 0,(BY_SETTING ? 0.19 : 0.11)
set grid noxtics
set xtics () scale 0
if (BY_SETTING) { set xtics rotate by -30 font ',10' }
do for [i = 1:N_GROUPS] { set xtics add (tic(WHAT[i]) (i - 1) * STEP + (N_METHODS - 1) / 2.0) }
set xrange [-2:N_GROUPS * STEP - 1]
set yrange [*<0:*]
set boxwidth 0.9
set key at screen 0.5,0.935 center horizontal maxrows 2 samplen 1.5 width 1
do for [p = 1:PANELS] {
    b = block(SHOWN[p])
    set ylabel label(SHOWN[p])
    N_PAPER = 0
    stats DATA index b using (group(strcol(1), strcol(2)) > 0 && paper(strcol(1)) == paper(strcol(1)) ? (N_PAPER = 1) : 0) nooutput
    eval BARS.(N_PAPER ? POINTS : '')
    unset key
}
unset multiplot
