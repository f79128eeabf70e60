// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "page.h"

#include <ctype.h>
#include <string.h>

// The Markdown of our own reports as HTML: headings, paragraphs, lists, tables, fenced code, and in
// a line code, bold, links and pictures. Everything else is text.

// --- in a line

static void add_part(pf_text *out, const char *from, const char *to)
{
    pf__page_text_n(out, from, (size_t)(to - from));
}

static void add_inline(pf_text *out, const char *s, const char *end);

// Whether a link may be followed: a place nearby or https; a picture may only be nearby.
static bool is_safe(const char *from, const char *to, bool picture)
{
    size_t n = (size_t)(to - from);
    bool nearby = n > 0 && !memchr(from, ':', n) && *from != '/' && *from != '\\';
    bool https = n > 8 && strncmp(from, "https://", 8) == 0;
    return !memchr(from, '"', n) && (nearby || (https && !picture));
}

// A page beside this one has been made a page too.
static void add_target(pf_text *out, const char *from, const char *to)
{
    size_t n = (size_t)(to - from);
    bool page = n > 3 && strncmp(to - 3, ".md", 3) == 0 && !memchr(from, '/', n);
    add_part(out, from, page ? to - 3 : to);
    pf__text_add(out, page ? ".html" : "");
}

// A link or picture that begins at s; NULL: there is none.
static const char *add_link(pf_text *out, const char *s, const char *end)
{
    bool picture = *s == '!';
    const char *text = s + 1 + picture, *mid = text;
    while (mid + 1 < end && !(mid[0] == ']' && mid[1] == '(')) {
        mid++;
    }
    const char *close = mid + 1 < end ? memchr(mid, ')', (size_t)(end - mid)) : NULL;
    if (!close || !is_safe(mid + 2, close, picture)) {
        return NULL;
    }
    pf__text_add(out, picture ? "<img src=\"" : "<a href=\"");
    add_target(out, mid + 2, close);
    pf__text_add(out, picture ? "\" alt=\"" : "\">");
    if (picture) {
        add_part(out, text, mid);
        pf__text_add(out, "\">");
    } else {
        add_inline(out, text, mid);
        pf__text_add(out, "</a>");
    }
    return close + 1;
}

// Something between two equal marks; NULL: there is no second one.
static const char *add_marked(pf_text *out, const char *s, const char *end, const char *mark,
                              const char *tag)
{
    size_t n = strlen(mark);
    for (const char *to = s + n; to + n <= end; to++) {
        if (strncmp(to, mark, n) == 0 && to > s + n) {
            pf__text_addf(out, "<%s>", tag);
            if (*mark == '`') {
                add_part(out, s + n, to);
            } else {
                add_inline(out, s + n, to);
            }
            pf__text_addf(out, "</%s>", tag);
            return to + n;
        }
    }
    return NULL;
}

static void add_inline(pf_text *out, const char *s, const char *end)
{
    const char *plain = s;
    while (s < end) {
        bool bold = *s == '*' && s + 1 < end && s[1] == '*';
        bool link = *s == '[' || (*s == '!' && s + 1 < end && s[1] == '[');
        const char *next = NULL;
        if (bold || link || *s == '`') {
            add_part(out, plain, s);
            plain = s;
            next = link   ? add_link(out, s, end)
                   : bold ? add_marked(out, s, end, "**", "b")
                          : add_marked(out, s, end, "`", "code");
        }
        plain = next ? next : plain;
        s = next ? next : s + 1;
    }
    add_part(out, plain, end);
}

// --- lines

typedef struct reader {
    const char *s; // the line at hand
    pf_text *out;
} reader;

static const char *line_end(const char *s)
{
    const char *end = strchr(s, '\n');
    return end ? end : s + strlen(s);
}

static void next_line(reader *r)
{
    r->s = line_end(r->s);
    r->s += *r->s == '\n';
}

static bool is_blank(const char *s)
{
    return s[strspn(s, " \t\r")] == '\n' || !s[strspn(s, " \t\r")];
}

// One cell of a table row at *s, which moves on; false: there is none.
static bool next_cell(const char **s, const char *end, const char **from, const char **to)
{
    const char *at = *s + (*s < end && **s == '|');
    if (at >= end || is_blank(at)) {
        return false;
    }
    const char *bar = at;
    for (bool code = false; bar < end && (code || *bar != '|'); bar++) {
        code = code != (*bar == '`');
    }
    *from = at;
    *to = bar;
    while (*from < *to && isspace((unsigned char)**from)) {
        (*from)++;
    }
    while (*to > *from && isspace((unsigned char)(*to)[-1])) {
        (*to)--;
    }
    *s = bar;
    return true;
}

// The line below the head says where a column is right-aligned.
static bool is_right(const char *rule, int column)
{
    const char *end = line_end(rule), *from, *to;
    for (int i = 0; next_cell(&rule, end, &from, &to); i++) {
        if (i == column) {
            return to > from && to[-1] == ':';
        }
    }
    return false;
}

static void add_row(reader *r, const char *rule, bool head)
{
    const char *s = r->s, *end = line_end(s), *from, *to;
    pf__text_add(r->out, "<tr>");
    for (int column = 0; next_cell(&s, end, &from, &to); column++) {
        const char *tag = head || column == 0 ? "th" : "td";
        pf__text_addf(r->out, "<%s%s>", tag,
                      head                     ? " scope=\"col\""
                      : column == 0            ? " scope=\"row\""
                      : is_right(rule, column) ? " class=\"n\""
                                               : "");
        add_inline(r->out, from, to);
        pf__text_addf(r->out, "</%s>", tag);
    }
    pf__text_add(r->out, "</tr>\n");
}

static bool is_rule(const char *s)
{
    return *s == '|' && strspn(s, "|-: \t\r") == (size_t)(line_end(s) - s);
}

static void add_table(reader *r)
{
    const char *head = r->s, *rule = line_end(head);
    rule += *rule == '\n';
    bool named = strspn(head, "| \t\r") < (size_t)(line_end(head) - head);
    // what scrolls must be within reach of the keyboard
    pf__text_add(r->out, "<div class=\"t\" tabindex=\"0\"><table>\n");
    if (named) {
        pf__text_add(r->out, "<thead>");
        add_row(r, rule, true);
        pf__text_add(r->out, "</thead>\n");
    }
    pf__text_add(r->out, "<tbody>\n");
    for (next_line(r), next_line(r); *r->s == '|'; next_line(r)) {
        add_row(r, rule, false);
    }
    pf__text_add(r->out, "</tbody></table></div>\n");
}

static int heading_of(const char *s)
{
    size_t n = strspn(s, "#");
    return n >= 1 && n <= 4 && s[n] == ' ' ? (int)n : 0;
}

static bool is_item(const char *s)
{
    return s[0] == '-' && s[1] == ' ';
}

static bool is_fence(const char *s)
{
    return strncmp(s, "```", 3) == 0;
}

// Lines up to a blank one or one that begins something else, as one text.
static void add_lines(reader *r)
{
    pf_text text = {0};
    do {
        const char *from = r->s + strspn(r->s, " \t"), *to = line_end(from);
        pf__text_add(&text, text.size > 0 ? "\n" : "");
        pf__text_add_n(&text, from, (size_t)(to - from));
        next_line(r);
    } while (*r->s && !is_blank(r->s) && !heading_of(r->s) && !is_item(r->s) && !is_fence(r->s) &&
             *r->s != '|');
    add_inline(r->out, text.data ? text.data : "", text.data ? text.data + text.size : "");
    r->out->failed = r->out->failed || text.failed;
    pf__text_free(&text);
}

static void add_list(reader *r)
{
    pf__text_add(r->out, "<ul>\n");
    while (is_item(r->s)) {
        r->s += 2;
        pf__text_add(r->out, "<li>");
        add_lines(r);
        pf__text_add(r->out, "</li>\n");
    }
    pf__text_add(r->out, "</ul>\n");
}

static void add_code(reader *r)
{
    pf__text_add(r->out, "<pre>");
    for (next_line(r); *r->s && !is_fence(r->s); next_line(r)) {
        const char *end = line_end(r->s);
        add_part(r->out, r->s, end + (*end == '\n'));
    }
    next_line(r);
    pf__text_add(r->out, "</pre>\n");
}

void pf__page_markdown(pf_text *out, const char *text)
{
    reader r = {text, out};
    while (*r.s) {
        int level = heading_of(r.s);
        if (is_blank(r.s)) {
            next_line(&r);
        } else if (level > 0) {
            const char *end = line_end(r.s);
            pf__text_addf(out, "<h%d>", level);
            add_inline(out, r.s + level + 1, end);
            pf__text_addf(out, "</h%d>\n", level);
            next_line(&r);
        } else if (*r.s == '|' && is_rule(line_end(r.s) + (*line_end(r.s) == '\n'))) {
            add_table(&r);
        } else if (is_item(r.s)) {
            add_list(&r);
        } else if (is_fence(r.s)) {
            add_code(&r);
        } else {
            pf__text_add(out, "<p>");
            add_lines(&r);
            pf__text_add(out, "</p>\n");
        }
    }
}
