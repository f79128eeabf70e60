// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "page.h"

#include <math.h>
#include <string.h>

// Classes: n a number, w with an interval, x broken anywhere, y a text, k0.. inks, g the mark of a
// healthy value; screen and paper: what is shown on one of them only.
static const char style[] =
    ":root{color-scheme:light dark;--ink:#111;--paper:#fff;--rule:#bbb;--panel:#f6f6f6;"
    "--go:#0a6b2d;--if:#8a5a00;--no:#a11212;--bar:#6b8fc9;"
    "--k0:#111;--k1:#0a6b2d;--k2:#1f4e9e;--k3:#a11212;--k4:#8a5a00;--k5:#6a1f9e;--k6:#00707a;"
    "--k7:#b0508c}"
    "@media screen and (prefers-color-scheme:dark){:root{--ink:#eee;--paper:#161616;--rule:#555;"
    "--panel:#222;--go:#5fd38a;--if:#e3b04b;--no:#ff8a80;--bar:#6b8fc9;"
    "--k0:#eee;--k1:#5fd38a;--k2:#8ab4f8;--k3:#ff8a80;--k4:#e3b04b;--k5:#c792ea;--k6:#4dd0e1;"
    "--k7:#f48fb1}}"
    "@page{size:A4;margin:12mm}@media "
    "print{body{font-size:11px;margin:0}.screen{display:none}}"
    "@media screen{.paper{display:none}}"
    "body{font:13px/1.4 system-ui,sans-serif;max-width:182mm;margin:1em auto;padding:0 6px;"
    "color:var(--ink);background:var(--paper);overflow-wrap:anywhere}"
    "h1{font-size:20px;margin:0 0 .3em;overflow-wrap:anywhere}h2{font-size:15px;margin:1.2em 0 "
    ".3em}"
    "h3{font-size:13px;margin:1em 0 .2em}"
    ".wide{max-width:330mm}.t{overflow-x:auto}@media print{.t{overflow:visible}}"
    "table{border-collapse:collapse;width:100%;margin:.5em 0}caption{text-align:left;"
    "font-weight:600}th,td{border:1px solid var(--rule);padding:2px 5px;text-align:left;"
    "vertical-align:top;unicode-bidi:isolate;overflow-wrap:break-word}.x{overflow-wrap:anywhere}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}td.n,.w "
    "span{white-space:nowrap}.y{min-width:14em}"
    ".verdict{font-size:34px;font-weight:700;border:3px solid;padding:2px 14px;"
    "display:inline-block}.go{color:var(--go)}.go-if{color:var(--if)}.no-go{color:var(--no)}"
    ".sign{break-inside:avoid}.sign .s td{height:3.2em;width:33%}figure{display:inline-block;"
    "margin:4px 8px 4px 0;break-inside:avoid}figcaption{font-size:11px}"
    "img{max-width:100%;background:#fff}figure svg{max-width:100%;height:auto}svg "
    ".p{fill:var(--panel)}"
    "svg .l{fill:none;stroke-width:1.4}svg .a{stroke:var(--rule)}svg .g{stroke:var(--go)}"
    "svg .m{stroke:var(--ink);stroke-width:2}svg .b{fill:var(--bar)}"
    ".k0{stroke:var(--k0);color:var(--k0)}.k1{stroke:var(--k1);color:var(--k1)}"
    ".k2{stroke:var(--k2);color:var(--k2)}.k3{stroke:var(--k3);color:var(--k3)}"
    ".k4{stroke:var(--k4);color:var(--k4)}.k5{stroke:var(--k5);color:var(--k5)}"
    ".k6{stroke:var(--k6);color:var(--k6)}.k7{stroke:var(--k7);color:var(--k7)}"
    "pre{white-space:pre-wrap;word-break:break-all;font-size:9px}.small{font-size:11px}section+"
    "section{break-before:page;margin-top:3em}@media "
    "print{.sign .s td{height:2.4em}th,td{padding:0 4px}p,ul,table{margin:.4em 0}h2{margin:.7em 0 "
    ".2em}.verdict{font-size:26px}}";

void pf__page_text(pf_text *out, const char *text)
{
    pf__page_text_n(out, text, strlen(text));
}

void pf__page_text_n(pf_text *out, const char *text, size_t n)
{
    while (n > 0) {
        size_t size = pf__utf8_size(text, n);
        const char *as = NULL;
        switch (*text) {
        case '&':
            as = "&amp;";
            break;
        case '<':
            as = "&lt;";
            break;
        case '>':
            as = "&gt;";
            break;
        case '"':
            as = "&quot;";
            break;
        default:
            // what steers the text around it is shown as a character that is missing
            as = pf__text_steers(text, n) > 0 && !strchr("\t\n", *text) ? "&#xfffd;" : NULL;
        }
        size = size ? size : 1;
        pf__text_add_n(out, as ? as : text, as ? strlen(as) : size);
        text += size;
        n -= size;
    }
}

void pf__page_name(pf_text *out, const char *name)
{
    pf__page_cell(out, "bdi", name);
}

// Whether a text has a word that no column has room for: it may be broken anywhere, others never.
static bool is_long(const char *text)
{
    enum { ROOM = 24 };
    size_t most = 0;
    while (*text) {
        size_t n = strcspn(text, " ");
        most = n > most ? n : most;
        text += n + (text[n] == ' ');
    }
    return most > ROOM;
}

void pf__page_cell(pf_text *out, const char *tag, const char *text)
{
    bool cell = strcmp(tag, "td") == 0 || strcmp(tag, "th scope=\"row\"") == 0;
    pf__text_addf(out, "<%s%s>", tag, cell && is_long(text) ? " class=\"x\"" : "");
    pf__page_text(out, text);
    pf__text_addf(out, "</%.*s>", (int)strcspn(tag, " "), tag);
}

void pf__page_fact(pf_text *out, const char *name, const char *value)
{
    pf__page_row(out, name);
    pf__page_cell(out, "td", value);
    pf__page_row_end(out);
}

void pf__page_number(pf_text *out, double value, int digits)
{
    if (isnan(value)) {
        pf__text_add(out, "<td>-</td>");
    } else {
        pf__text_addf(out, "<td class=\"n\">%.*f</td>", digits, value);
    }
}

void pf__page_open(pf_text *out, const char *title, const char *name, bool wide)
{
    pf__text_add(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
                      "name=\"viewport\" content=\"width=device-width\"><title>");
    pf__page_text(out, title);
    pf__page_text(out, name);
    pf__text_addf(out, "</title><style>%s</style></head><body%s><main>\n", style,
                  wide ? " class=\"wide\"" : "");
}

void pf__page_heading(pf_text *out, const char *title, const char *name)
{
    pf__text_add(out, "<h1>");
    pf__page_text(out, title);
    pf__page_name(out, name);
    pf__text_add(out, "</h1>\n");
}

void pf__page_close(pf_text *out)
{
    pf__text_add(out, "</main></body></html>\n");
}

// --- tables

void pf__page_head(pf_text *out, const char *caption, int n, const char *const *names)
{
    // what scrolls must be within reach of the keyboard
    pf__text_add(out, "<div class=\"t\" tabindex=\"0\"><table>\n");
    pf__page_cell(out, "caption", caption);
    if (n > 0) {
        pf__text_add(out, "<thead><tr>");
        for (int i = 0; i < n; i++) {
            pf__page_cell(out, "th scope=\"col\"", names[i]);
        }
        pf__text_add(out, "</tr></thead>\n");
    }
    pf__text_add(out, "<tbody>\n");
}

void pf__page_row(pf_text *out, const char *name)
{
    pf__text_add(out, "<tr>");
    pf__page_cell(out, "th scope=\"row\"", name);
}

void pf__page_row_end(pf_text *out)
{
    pf__text_add(out, "</tr>\n");
}

void pf__page_table_end(pf_text *out)
{
    pf__text_add(out, "</tbody></table></div>\n");
}

// --- pictures

void pf__page_plot(pf_text *out, const pf_plot *plot, const char *title, const char *description)
{
    int shown = plot->shown ? plot->shown : 1;
    pf__text_addf(out, "<svg role=\"img\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">",
                  shown * plot->width, shown * plot->height, plot->width, plot->height);
    pf__page_cell(out, "title", title);
    pf__page_cell(out, "desc", description);
    pf__text_addf(out, "<rect class=\"p\" width=\"%d\" height=\"%d\"/>", plot->width, plot->height);
}

static double height_of(const pf_plot *p, double y)
{
    double v = p->hi > p->lo ? (y - p->lo) / (p->hi - p->lo) : .5;
    return p->height - 3 - (p->height - 6) * v;
}

void pf__page_line(pf_text *out, const pf_plot *plot, size_t n, const double *y, int ink,
                   const char *dash)
{
    pf__text_addf(out, "<polyline class=\"l k%d\" stroke-dasharray=\"%s\" points=\"",
                  ink % PF_PAGE_INKS, dash);
    size_t step = n / (size_t)plot->width + 1; // no more points than there is room for
    for (size_t i = 0; i < n; i = i + step < n || i + 1 == n ? i + step : n - 1) {
        double x = n > 1 ? (double)plot->width * (double)i / (double)(n - 1) : plot->width / 2.0;
        pf__text_addf(out, "%s%.1f,%.1f", i ? " " : "", x, height_of(plot, y[i]));
    }
    pf__text_add(out, "\"/>");
}

void pf__page_level(pf_text *out, const pf_plot *plot, double y)
{
    pf__text_addf(out, "<line class=\"a\" x1=\"0\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>",
                  height_of(plot, y), plot->width, height_of(plot, y));
}

void pf__page_plot_end(pf_text *out)
{
    pf__text_add(out, "</svg>");
}

void pf__page_interval(pf_text *out, double lo, double value, double hi, double top)
{
    const double width = 150;
    double from = width * fmin(fmax(lo, 0), top) / top, to = width * fmin(fmax(hi, 0), top) / top,
           at = width * fmin(fmax(value, 0), top) / top, one = width / top;
    pf__text_addf(
        out,
        "<td class=\"w\"><svg role=\"img\" width=\"%.0f\" height=\"16\" viewBox=\"0 0 %.0f 16\">"
        "<title>%.2f</title><desc>90 %% interval from %.2f to %.2f; the mark is 1</desc>"
        "<line class=\"a\" x1=\"0\" y1=\"8\" x2=\"%.0f\" y2=\"8\"/>"
        "<line class=\"g\" x1=\"%.1f\" y1=\"1\" x2=\"%.1f\" y2=\"15\"/>"
        "<rect class=\"b\" x=\"%.1f\" y=\"4\" width=\"%.1f\" height=\"8\"/>"
        "<line class=\"m\" x1=\"%.1f\" y1=\"2\" x2=\"%.1f\" y2=\"14\"/></svg> "
        "<span>%.2f (%.2f to %.2f)</span></td>",
        width, width, value, lo, hi, width, one, one, from, fmax(to - from, 1), at, at, value, lo,
        hi);
}
