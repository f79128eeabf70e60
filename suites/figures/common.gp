# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Read first by every template. `bench figure` sets FIGURES (this folder), DATA (the table it wrote),
# PICTURE (the picture's name) and ENDING (svg or png). Where TO is set, the picture goes to standard
# output: the program writes the file.
#
# DATA has one block of names, then one block of numbers per metric.
#   names:   what id label      of suite, method, environment, mean, run, pooled, metric, shown, ...
#   numbers: environment setting method mean sd lo hi paper
# Names reach gnuplot only as these strings: they are never part of a command.
reset
set encoding utf8
set datafile missing NaN
set border 3 lc rgb '#606060'
set tics nomirror
set pointintervalbox 0
set grid back lt 1 lw 0.6 lc rgb '#d8d8d8'

# --- the names
MOST = 300
array METHOD[MOST]; array METHOD_LABEL[MOST]           # in the order of the table
array ENVIRONMENT[MOST]; array ENVIRONMENT_LABEL[MOST] # without means
array SETTING[MOST]                                    # as run, then those averaged over a key
array METRIC[MOST]; array METRIC_LABEL[MOST]           # metric i has block i
array SHOWN[MOST]                                      # metrics that the suite lists
N_METHODS = 0; N_ENVIRONMENTS = 0; N_RUN = 0; N_SETTINGS = 0; N_METRICS = 0; N_SHOWN = 0
SUITE = ''; PAPER_MEAN = 0; AT = ''; G_CAL = NaN
note_method(id, label) = (N_METHODS = N_METHODS + 1, METHOD[N_METHODS] = id, METHOD_LABEL[N_METHODS] = label, 1)
note_environment(id, label) = (N_ENVIRONMENTS = N_ENVIRONMENTS + 1, ENVIRONMENT[N_ENVIRONMENTS] = id, \
    ENVIRONMENT_LABEL[N_ENVIRONMENTS] = label, 1)
note_setting(id, run) = (N_RUN = N_RUN + run, N_SETTINGS = N_SETTINGS + 1, SETTING[N_SETTINGS] = id, 1)
note_metric(id, label) = (N_METRICS = N_METRICS + 1, METRIC[N_METRICS] = id, METRIC_LABEL[N_METRICS] = label, 1)
note_shown(id) = (N_SHOWN = N_SHOWN + 1, SHOWN[N_SHOWN] = id, 1)
note(what, id, label) = what eq 'method' ? note_method(id, label) \
    : what eq 'environment' ? note_environment(id, label) \
    : what eq 'run' ? note_setting(id, 1) \
    : what eq 'pooled' ? note_setting(id, 0) \
    : what eq 'metric' ? note_metric(id, label) \
    : what eq 'shown' ? note_shown(id) \
    : what eq 'suite' ? (SUITE = id, 1) \
    : what eq 'at' ? (AT = id, 1) \
    : what eq 'paper_mean' ? (PAPER_MEAN = 1) \
    : what eq 'g_cal' ? (G_CAL = real(id), 1) : 1
stats DATA index 0 using (note(strcol(1), strcol(2), strcol(3))) nooutput
MEAN = N_ENVIRONMENTS > 1 ? 'macro' : ENVIRONMENT[1] # the mean over environments, or the only one
BY_SETTING = N_ENVIRONMENTS == 1 && N_RUN > 1 && N_SETTINGS == N_RUN

# --- what is known of them
REFERENCE = 'eg-mpt'
DIFFERENCE = '_minus_eg_mpt' # what the name of a paired difference ends in
BASELINES = ' random bayes-risk bandit-qcd sept asid-fim opax task-oed '
is_baseline(id) = strstrt(BASELINES, ' '.id.' ') > 0
# Okabe and Ito's colours, told apart with any colour vision; EG-MPT is vermillion.
colour(id) = id eq 'eg-mpt' ? '#D55E00' \
    : id eq 'eg-mpt:no-transport' ? '#E69F00' \
    : id eq 'eg-mpt:no-gate' || id eq 'bayes-risk' ? '#0072B2' \
    : id eq 'eg-mpt:uniform' || id eq 'sept' || id eq 'group' ? '#009E73' \
    : id eq 'eg-mpt:neither' || id eq 'random' ? '#999999' \
    : id eq 'bandit-qcd' || id eq 'group:random' ? '#56B4E9' \
    : id eq 'asid-fim' ? '#F0E442' \
    : id eq 'opax' ? '#CC79A7' \
    : id eq 'task-oed' ? '#000000' : '#666666'
width(id) = id eq REFERENCE ? 3 : 1.7
dashes(id) = strstrt(id, ':') ? 2 : 1

# --- texts
# a setting is "key=value;key=value"
has(setting, key) = strstrt(';'.setting, ';'.key.'=') > 0
until(text) = strstrt(text, ';') > 0 ? text[1:strstrt(text, ';') - 1] : text
given(setting, key) = has(setting, key) ? until(setting[strstrt(';'.setting, ';'.key.'=') + strlen(key) + 1:*]) : ''
number(setting, key) = has(setting, key) ? real(given(setting, key)) : NaN
keys(setting) = strstrt(setting, ';') == 0 ? 1 : 1 + keys(setting[strstrt(setting, ';') + 1:*])
# a tic's label is a format: a percent sign is written twice
tic(text) = strstrt(text, '%') == 0 ? text : text[1:strstrt(text, '%')].'%'.tic(text[strstrt(text, '%') + 1:*])
# in two lines, after "of" or after the first word
broken(text, at) = at == 0 ? text : text[1:at - 1]."\n".text[at + 1:*]
lines(text) = broken(text, strstrt(text, ' of ') ? strstrt(text, ' of ') + 3 : strstrt(text, ' '))
spaced(text) = strstrt(text, '_') == 0 ? text : text[1:strstrt(text, '_') - 1].' '.spaced(text[strstrt(text, '_') + 1:*])
plural(n, thing) = sprintf('%d ', n).thing.(n == 1 ? '' : 's')

# --- the numbers
block(metric) = sum [i = 1:N_METRICS] (METRIC[i] eq metric ? i : 0) # 0: the suite does not have it
label(metric) = block(metric) ? METRIC_LABEL[block(metric)] : spaced(metric)
is(environment, setting, method) = strcol(1) eq environment && strcol(2) eq setting && strcol(3) eq method
row(environment, method) = strcol(1) eq environment && strcol(3) eq method
run(setting) = sum [i = 1:N_RUN] (SETTING[i] eq setting ? i : 0) # 0: averaged over a key

# eval canvas(WIDTH, HEIGHT) opens the picture. Texts are drawn as they are, without markup.
canvas(w, h) = sprintf("set terminal %s noenhanced size %d,%d font 'DejaVu Sans,13' background '#ffffff'; set output%s", \
    ENDING eq 'svg' ? 'svg' : 'pngcairo', w, h, exists('TO') ? '' : " PICTURE.'.".ENDING."'")
