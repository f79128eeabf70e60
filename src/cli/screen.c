// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE // winsize
#include "screen.h"
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    LEAST_WIDTH = 40,  // below it nothing reads well, and lines may run over
    USUAL_WIDTH = 80,  // where nobody says how wide it is
    GAP = 2,           // between columns
    FOLD = 4,          // indent of a row that goes on below
    LEAST_COLUMN = 20, // a text goes on below rather than in less
    COLUMNS = sizeof(((cli_columns *)0)->width) / sizeof(int)
};

// --- what the terminal is

static enum { AUTO, ALWAYS, NEVER } color = AUTO;
static bool is_piped; // standard output is a terminal that somebody reads for us

void cli_screen_piped(void)
{
    is_piped = true;
}

bool cli_color(const char *command, const char *when)
{
    static const char *const words[] = {"auto", "always", "never"};
    for (int i = 0; when && i < 3; i++) {
        if (strcmp(when, words[i]) == 0) {
            color = i;
            return true;
        }
    }
    if (when) {
        cli_usage(command, "--color: '%s' is not auto, always or never", when);
    }
    return !when;
}

static bool is_coloured(void)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    bool may =
        isatty(1) && !is_piped && !(no_color && no_color[0]) && term && strcmp(term, "dumb") != 0;
    return color == ALWAYS || (color == AUTO && may);
}

const char *cli_paint(const char *colour)
{
    return !is_coloured() ? "" : colour ? colour : "\033[0m";
}

int cli_width(void)
{
    const char *given = getenv("COLUMNS");
    struct winsize size = {0};
    int width = given && pf__is_decimal(given, true) ? atoi(given) : 0;
    if (width <= 0 && isatty(1) && !is_piped && ioctl(1, TIOCGWINSZ, &size) == 0) {
        width = size.ws_col;
    }
    return width <= 0 ? USUAL_WIDTH : width < LEAST_WIDTH ? LEAST_WIDTH : width;
}

// --- words

// A text as it is laid out: what was written, and how far the line is.
typedef struct layout {
    pf_text out;
    int width;
    int at; // columns used in this line
} layout;

typedef struct span {
    const char *text;
    size_t n;
} span;

// Columns of a text: its characters, not its bytes.
static int columns_of(span s)
{
    int n = 0;
    for (size_t i = 0; i < s.n; i++) {
        n += ((unsigned char)s.text[i] & 0xC0) != 0x80;
    }
    return n;
}

static void add_spaces(layout *l, int n)
{
    pf__text_addf(&l->out, "%*s", n > 0 ? n : 0, "");
    l->at += n > 0 ? n : 0;
}

// Nothing ends in a space.
static void end_line(layout *l)
{
    while (l->out.size > 0 && l->out.data[l->out.size - 1] == ' ') {
        l->out.data[--l->out.size] = 0;
    }
    pf__text_add(&l->out, "\n");
    l->at = 0;
}

// The colour of a word that carries a verdict or a warning, "" for others.
static const char *colour_of(span word)
{
    static const struct {
        const char *word, *colour;
    } rows[] = {{"GO", CLI_GREEN},     {"GO-IF", CLI_YELLOW}, {"NO-GO", CLI_RED},
                {"ALARM", CLI_YELLOW}, {"NOT", CLI_RED},      {"IMPLAUSIBLE", CLI_YELLOW}};
    while (word.n > 0 && strchr(".,:;", word.text[word.n - 1])) {
        word.n--;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (word.n == strlen(rows[i].word) && memcmp(word.text, rows[i].word, word.n) == 0) {
            return rows[i].colour;
        }
    }
    return "";
}

static void add_word(layout *l, span word)
{
    const char *colour = cli_paint(colour_of(word));
    pf__text_add(&l->out, colour);
    pf__text_add_n(&l->out, word.text, word.n);
    pf__text_add(&l->out, colour[0] ? cli_paint(NULL) : "");
    l->at += columns_of(word);
}

// Where the word that begins here ends. A number keeps its "%".
static size_t end_of_word(span s, size_t from)
{
    size_t end = from;
    while (end < s.n && (s.text[end] != ' ' || (end + 1 < s.n && s.text[end + 1] == '%'))) {
        end++;
    }
    return end;
}

// The words of a text from here on; lines that go on start at the indent.
static void add_words(layout *l, span s, int indent)
{
    bool first = true;
    for (size_t i = 0; i < s.n;) {
        size_t end = end_of_word(s, i);
        span word = {s.text + i, end - i};
        if (word.n > 0 && !first && l->at + 1 + columns_of(word) > l->width) {
            end_line(l);
            add_spaces(l, indent);
        } else if (word.n > 0 && !first) {
            add_spaces(l, 1);
        }
        if (word.n > 0) {
            add_word(l, word);
            first = false;
        }
        i = end + 1;
    }
}

// --- lines

// A paragraph keeps its indent, and that of what follows "12. ".
static void add_paragraph(layout *l, span line)
{
    size_t indent = 0, number = 0;
    while (indent < line.n && line.text[indent] == ' ') {
        indent++;
    }
    span rest = {line.text + indent, line.n - indent};
    while (number < rest.n && rest.text[number] >= '0' && rest.text[number] <= '9') {
        number++;
    }
    bool listed = number > 0 && number + 1 < rest.n && memcmp(rest.text + number, ". ", 2) == 0;
    add_spaces(l, (int)indent);
    add_words(l, rest, (int)(indent + (listed ? number + 2 : 0)));
    end_line(l);
}

static void add_heading(layout *l, span line)
{
    bool part = line.n > 1 && line.text[1] == '#';
    size_t skip = part ? 3 : 2;
    span text = {line.text + skip, line.n > skip ? line.n - skip : 0};
    pf__text_addf(&l->out, "%s", cli_paint(CLI_BOLD));
    add_words(l, text, 0);
    pf__text_addf(&l->out, "%s\n", cli_paint(NULL));
    int n = columns_of(text) < l->width ? columns_of(text) : l->width;
    for (l->at = 0; n > 0; n--) {
        pf__text_add(&l->out, part ? "-" : "=");
    }
    end_line(l);
}

// Cell `index` of a row; false: it has fewer.
static bool cell_of(span row, int index, span *cell, bool *last)
{
    size_t from = 0;
    for (int i = 0; from <= row.n; i++) {
        const char *tab = memchr(row.text + from, '\t', row.n - from);
        size_t end = tab ? (size_t)(tab - row.text) : row.n;
        if (i == index) {
            *cell = (span){row.text + from, end - from};
            *last = !tab;
            return true;
        }
        from = end + 1;
    }
    return false;
}

// The name of a column, without the sign that it goes to the right.
static span head_of(span cell)
{
    bool right = cell.n > 0 && cell.text[0] == '>';
    return (span){cell.text + right, cell.n - right};
}

// Where a column does not fit any more, the row goes on below, in every row at the same place. A
// row with fewer cells than the table has its last one over the rest.
static void add_row(layout *l, const cli_columns *c, span row, bool head)
{
    span cell;
    bool last = false;
    for (int i = 0; !last && i < c->n && cell_of(row, i, &cell, &last); i++) {
        cell = head ? head_of(cell) : cell;
        if (last && cell.n == 0) {
            break;
        }
        int gap = l->at > 0 ? GAP : 0, left = l->width - l->at - gap, n = columns_of(cell);
        bool text = last && !c->right[i];
        int need = text && n > c->width[i] ? n : c->width[i];
        need = text && need > LEAST_COLUMN ? LEAST_COLUMN : need;
        if (need > left && l->at > FOLD) {
            end_line(l);
            gap = FOLD;
        }
        add_spaces(l, gap + (c->right[i] && (!last || i == c->n - 1) ? c->width[i] - n : 0));
        int from = l->at;
        add_words(l, cell, from);
        add_spaces(l, c->right[i] || last ? 0 : c->width[i] - (l->at - from));
    }
    end_line(l);
}

static void columns_take(cli_columns *c, span row, bool head)
{
    span cell;
    bool last = false;
    for (int i = 0; !last && i < COLUMNS && cell_of(row, i, &cell, &last); i++) {
        if (head) {
            c->n = i + 1;
            c->right[i] = cell.n > 0 && cell.text[0] == '>';
            cell = head_of(cell);
        }
        // the last cell of a short row goes over the rest
        bool own = !last || i == c->n - 1;
        c->width[i] = own && columns_of(cell) > c->width[i] ? columns_of(cell) : c->width[i];
    }
}

// --- a whole text

static span line_at(span text, size_t from)
{
    const char *end = memchr(text.text + from, '\n', text.n - from);
    return (span){text.text + from, end ? (size_t)(end - text.text) - from : text.n - from};
}

static bool is_row(span line)
{
    return memchr(line.text, '\t', line.n) != NULL;
}

// The table that begins here; gives the place after it.
static size_t add_table(layout *l, span text, size_t from)
{
    cli_columns c = {0};
    size_t end = from;
    for (; end < text.n && is_row(line_at(text, end)); end += line_at(text, end).n + 1) {
        columns_take(&c, line_at(text, end), end == from);
    }
    for (size_t at = from; at < end; at += line_at(text, at).n + 1) {
        add_row(l, &c, line_at(text, at), at == from);
    }
    return end;
}

static void print(layout *l)
{
    cli_print(&l->out);
    pf__text_free(&l->out);
}

// Names come from files: a control character in one must not reach the terminal, nor one that
// turns the direction of the line.
static span harmless(span text, pf_text *room)
{
    pf__text_add_shown(room, text.text, text.n, "\n\t");
    cli_output_lost = cli_output_lost || room->failed;
    return (span){room->data ? room->data : "", room->size};
}

void cli_printf(const char *format, ...)
{
    pf_text text = {0}, room = {0};
    va_list list;
    va_start(list, format);
    pf__text_vaddf(&text, format, list);
    va_end(list);
    cli_output_lost = cli_output_lost || text.failed;
    span all = harmless((span){text.data ? text.data : "", text.size}, &room);
    fwrite(all.text, 1, all.n, stdout);
    pf__text_free(&room);
    pf__text_free(&text);
}

void cli_show(const pf_text *text)
{
    pf_text room = {0};
    cli_output_lost = cli_output_lost || text->failed;
    span all = harmless((span){text->data ? text->data : "", text->size}, &room);
    layout l = {.width = cli_width()};
    for (size_t at = 0; at < all.n;) {
        span line = line_at(all, at);
        if (is_row(line)) {
            at = add_table(&l, all, at);
            continue;
        }
        (line.n > 1 && line.text[0] == '#' ? add_heading : add_paragraph)(&l, line);
        at += line.n + 1;
    }
    print(&l);
    pf__text_free(&room);
}

static span whole(const char *text)
{
    return (span){text, strlen(text)};
}

void cli_columns_start(cli_columns *columns, const char *head)
{
    *columns = (cli_columns){.head = head};
    columns_take(columns, whole(head), true);
}

void cli_columns_fit(cli_columns *columns, int column, const char *cell)
{
    pf_text room = {0};
    int n = columns_of(harmless(whole(cell), &room)), *width = &columns->width[column];
    *width = n > *width ? n : *width;
    pf__text_free(&room);
}

static void show_row(const cli_columns *columns, const char *row, bool head)
{
    pf_text room = {0};
    layout l = {.width = cli_width()};
    add_row(&l, columns, harmless(whole(row), &room), head);
    print(&l);
    pf__text_free(&room);
}

void cli_show_head(const cli_columns *columns)
{
    show_row(columns, columns->head, true);
}

void cli_show_row(const cli_columns *columns, const pf_text *row)
{
    cli_output_lost = cli_output_lost || row->failed;
    show_row(columns, row->data ? row->data : "", false);
}
