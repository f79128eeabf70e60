# Fills a man page or a shell completion with the commands and options of the program:
#   preflight --options | awk -v template=docs/preflight.1.in -v version=0.0.0 -f scripts/options.awk
# Lines of the template that are a word between two @ are replaced.
BEGIN { FS = "\t" }

$1 == "command" {
    name[++commands] = $2; line[$2] = $3; usage[$2] = $4; words[$2] = $5; about[$2] = $6; after[$2] = $7
}
$1 == "verb" {
    verbs[$2] = verbs[$2] (verbs[$2] == "" ? "" : " ") $3
    if ($5 != "") { verb_help[$2] = verb_help[$2] man_item(bold($3) argument($4), $5) }
}
$1 == "option" {
    n = ++options[$2]
    key = $2 SUBSEP n
    option[key] = $4; takes[key] = $5; kind[key] = $6; completes[key] = $7; help[key] = $8
    only[key] = $3
}

END {
    while ((getline row <template) > 0) {
        if (row == "@MAN_COMMANDS@") { man_commands() }
        else if (row == "@BASH_OPTIONS@") { bash_options() }
        else if (row == "@BASH_KINDS@") { bash_kinds() }
        else if (row == "@ZSH_COMMANDS@") { zsh_commands() }
        else if (row == "@ZSH_ARGUMENTS@") { zsh_arguments() }
        else { gsub(/@VERSION@/, version, row); print row }
    }
}

# --- the man page

function roff(s) { # literal text
    gsub(/\\n/, "\n", s)
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    gsub(/\n\./, "\n\\\\\\&.", s)
    gsub(/\n'/, "\n\\\\\\&'", s)
    sub(/^[.']/, "\\\\\\&&", s)
    return s
}
function bold(s) { return "\\fB" roff(s) "\\fR" }
function argument(s) { return s == "" ? "" : " \\fI" roff(s) "\\fR" }
function man_item(head, text) { return ".TP\n" head "\n" roff(text) "\n" }

function man_examples(s,    lines, n, i, out, prose) { # paragraphs; lines of examples as they are
    n = split(s, lines, /\\n/)
    for (i = 1; i <= n; i++) {
        if (lines[i] ~ /^Example: /) {
            sub(/^Example: /, "", lines[i])
            out = out ".nf\n" roff(lines[i]) "\n.fi\n"
        } else if (lines[i] != "") {
            prose = prose roff(lines[i]) "\n"
        }
    }
    return (prose == "" ? "" : ".PP\n" prose) (out == "" ? "" : ".PP\nExample:\n" out)
}

function man_commands(    c, i, k, from, text) {
    for (c = 1; c <= commands; c++) {
        k = name[c]
        print ".SS " k "\n" bold("preflight " k) " " roff(usage[k])
        print ".PP\n" roff(toupper(substr(line[k], 1, 1)) substr(line[k], 2)) "."
        printf "%s", man_examples(about[k])
        printf "%s", verb_help[k]
        for (i = 1; i <= options[k]; i++) {
            text = help[k, i]
            if (only[k, i] != "") { from = only[k, i]; gsub(/ /, ", ", from); text = from ": " text }
            printf "%s", man_item(bold(option[k, i]) argument(takes[k, i]), text)
        }
        printf "%s", man_examples(after[k])
    }
}

# --- completions

function names(k,    i, all) {
    for (i = 1; i <= options[k]; i++) { all = all option[k, i] " " }
    return all "--help"
}

function bash_options(    c, all) {
    for (c = 1; c <= commands; c++) {
        print "    " name[c] ") echo \"" names(name[c]) "\" ;;"
        all = all name[c] " "
    }
    print "    *) echo \"" all "--help --version\" ;;"
}

function bash_kinds(    c, i, k) {
    for (c = 1; c <= commands; c++) {
        k = name[c]
        for (i = 1; i <= options[k]; i++) {
            if (kind[k, i] != "flag") {
                print "    " k "\\ " option[k, i] ") echo \"" (completes[k, i] == "" ? "value" : completes[k, i]) "\" ;;"
            }
        }
        if (verbs[k] != "") { print "    " k "\\ VERB) echo \"=" verbs[k] "\" ;;" }
        print "    " k "\\ ARGUMENT) echo \"" words[k] "\" ;;"
    }
}

function quoted(s) { # inside single quotes and brackets of _arguments
    gsub(/\\n/, " ", s)
    gsub(/\[|\]|:/, "\\\\&", s)
    gsub(/'/, "'\\''", s)
    return s
}
function action(words) {
    if (words == "file") { return "_files" }
    if (words == "folder") { return "_files -/" }
    if (words == "setting") { return "_preflight_settings" }
    if (words ~ /^=/) { return "_preflight_words " quoted(substr(words, 2)) }
    return words == "" ? " " : "_preflight_list " words "s"
}

function zsh_commands(    c) {
    for (c = 1; c <= commands; c++) { print "        '" name[c] ":" quoted(line[name[c]]) "'" }
}

function zsh_arguments(    c, i, k, row) {
    for (c = 1; c <= commands; c++) {
        k = name[c]
        printf "    %s) _arguments '--help[%s]'", k, quoted(line[k])
        for (i = 1; i <= options[k]; i++) {
            row = option[k, i] "[" quoted(help[k, i]) "]"
            if (kind[k, i] != "flag") { row = row ":" quoted(takes[k, i]) ":" action(completes[k, i]) }
            printf " \\\n        '%s%s'", kind[k, i] == "list" ? "*" : "", row
        }
        if (verbs[k] != "") { printf " \\\n        '1:what:(%s)'", verbs[k] }
        printf " \\\n        '*:argument:%s' ;;\n", action(words[k])
    }
}
