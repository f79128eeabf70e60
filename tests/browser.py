#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Opens pages in Chromium and looks at them: browser.py FOLDER CHROMIUM PAGE...

FOLDER has what scripts/check_browser.sh made: pages, and beside NAME.html of a sheet NAME.json, its
certificate. A PAGE that is not there is a failure. Last line: N passed, N failed.
"""
import json
import pathlib
import re
import sys

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

folder, chromium = pathlib.Path(sys.argv[1]), sys.argv[2]
counts = {True: 0, False: 0}


def check(what, good, more=""):
    counts[bool(good)] += 1
    if not good:
        print(f"FAILED {what} {more}")


def violations(page):
    found = Axe().run(page).response["violations"]
    return [f"{v['id']}: {v['nodes'][0]['html'][:160]}" for v in found]


def rows_of(page, caption):
    """The body of the table with this caption, as texts."""
    return page.evaluate(
        """caption => { const t = [...document.querySelectorAll('table')].find(t => t.caption?.textContent == caption);
        return [...t.tBodies[0].rows].map(r => [...r.cells].map(c => c.textContent.trim())); }""", caption)


def percent(p):
    p *= 100
    return ("below 0.01 %" if p < .01 else "over 99.99 %" if p > 99.99 else
            f"{p:.2f} %" if p < 1 or p > 99.9 else f"{p:.1f} %")


def shown_as(name):
    """A page shows a character that would steer the text around it as one that is missing."""
    return re.sub("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\x00-\x1f\x7f-\x9f]", "\ufffd", name)


def check_sheet(name, page, certificate):
    """What the sheet shows is what the certificate says."""
    tasks, mechanisms = certificate["tasks"], certificate["mechanisms"]
    # the exit status of check is 0 only if every task is go
    ready = (folder / f"{name.stem}.status").read_text().strip() == "0"
    check(f"{name}: verdict", (page.inner_text(".verdict") == "GO") == ready)
    shown = rows_of(page, "Tasks")
    check(f"{name}: every task", [r[0] for r in shown] == [shown_as(t["name"]) for t in tasks])
    check(f"{name}: bounds", [r[4] for r in shown] == [f"{t['lower']:.3f}" for t in tasks])
    check(f"{name}: decisions", [r[1].lower() for r in shown] == [t["decision"] for t in tasks])
    shown = rows_of(page, "Mechanisms")
    check(f"{name}: every mechanism", [r[0] for r in shown] == [shown_as(m["name"]) for m in mechanisms])
    check(f"{name}: beliefs", [r[2] for r in shown] == [percent(m["p_changed"]) for m in mechanisms])
    sent = page.inner_text("main")
    for task in tasks:
        for j, factor in zip(task["mechanisms"], task["correction"]):
            if task["decision"] == "go" and abs(factor - 1) > .005:
                check(f"{name}: the condition", f"{factor:.3f} times its command" in sent)
    check(f"{name}: the certificate inside", json.loads(page.text_content("pre")) == certificate)
    if len(mechanisms) <= 16:
        pages = len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True)))
        check(f"{name}: two sheets of paper", 1 <= pages <= 2, f"{pages} pages")


def check_page(browser, path):
    name = path.relative_to(folder)
    page = browser.new_page()
    asked, said = [], []
    page.on("request", lambda r: asked.append(r.url))
    page.on("console", lambda m: said.append(m.text))
    page.on("pageerror", lambda e: said.append(str(e)))
    page.on("dialog", lambda d: (said.append("dialog"), d.dismiss()))
    page.goto(path.as_uri())
    nearby = path.parent.as_uri() + "/figures/"
    check(f"{name}: nothing is fetched", all(u == path.as_uri() or u.startswith(nearby) for u in asked), asked)
    check(f"{name}: no message", not said, said)
    check(f"{name}: nothing runs",
          page.evaluate("document.querySelectorAll('script,iframe,object,[onerror],[onclick]').length") == 0)
    wide = path.name.startswith("wide")  # 256 mechanisms
    check(f"{name}: small", path.stat().st_size < (1_000_000 if wide else 300_000), path.stat().st_size)
    paper = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        paper.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        found = violations(page)
        check(f"{name}: axe, {scheme}", not found, found)
    check(f"{name}: light and dark", paper[0] != paper[1], paper)
    page.set_viewport_size({"width": 360, "height": 740})
    check(f"{name}: on a phone", page.evaluate("document.documentElement.scrollWidth") <= 360,
          page.evaluate("document.documentElement.scrollWidth"))
    page.set_viewport_size({"width": 1280, "height": 900})
    certificate = path.with_suffix(".json")
    if certificate.exists():
        page.emulate_media(color_scheme="light")
        check_sheet(name, page, json.loads(certificate.read_text()))
    page.close()


for wanted in sys.argv[3:]:
    check(f"{wanted}: was made", (folder / wanted).exists())
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    for path in sorted(folder.rglob("*.html")):
        check_page(browser, path)
    browser.close()
print(f"{counts[True]} passed, {counts[False]} failed")
sys.exit(counts[False] > 0)
