# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Tables in notebooks and as data frames."""
import html.parser
import subprocess
import sys
import unittest
import unittest.mock

import pandas
import preflight as pf
from preflight._show import Column, Table
from preflight.plant import Channel, Mechanism, Pulse
from support import Case
from test_evaluate import Sum

MARKUP = "<b onclick='x'>&\""
TURNED = "\u202e\u05de\u05e0\u05d5\u05e2"  # right to left


class Odd(Sum):
    """A plant whose names would disturb a page."""

    name = "odd"
    mechanisms = [Mechanism(n, -9, 9) for n in ("main", MARKUP, TURNED)]
    channels = [Channel(MARKUP, scale=.1), Channel(TURNED, scale=.1)]
    probe = Pulse([0, .5, .5], steps=4)


class Page(html.parser.HTMLParser):
    """Reads a page strictly: every tag is closed, in order. Text of <bdi> is kept."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.names, self.rest = [], set(), [], ""
        self.attributes = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "bdi":
            self.names.append(data)
        else:
            self.rest += data


class ShowTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.kit = pf.Kit.calibrate(Odd(), episodes=20, alarm_trials=50, sensor_noise=.1)
        cls.ready = cls.kit.check(fault={TURNED: .3}, seed=1)
        cls.found = cls.kit.evaluate(faults={MARKUP: None, TURNED: {2: .3}}, trials=2)

    def test_pages(self):
        """Whole, nothing but tables, and every name for itself."""
        for thing in (self.kit, self.ready, self.found):
            page = Page(thing._repr_html_())
            self.assertEqual(page.open, [])
            self.assertLessEqual(page.tags, {"div", "p", "b", "table", "thead", "tbody", "tr", "th",
                                             "td", "bdi", "span"})
            self.assertEqual(page.attributes, {"style"})
            self.assertIn(MARKUP, page.names)
            self.assertIn(TURNED, page.names)
            for name in (MARKUP, TURNED):
                self.assertNotIn(name, page.rest)
            self.assertIn(type(thing).__name__, page.rest)

    def test_a_page_says_what_the_object_says(self):
        page = Page(self.ready._repr_html_())
        for task in self.ready.tasks:
            self.assertIn(f"{task['lower']:.3f}", page.rest)
        self.assertIn("go", page.rest)
        self.assertIn("2 of 2", page.names)
        refused = self.kit.check(fault={"plant": {"effectiveness": .5}}, seed=1)
        why = next(t for t in refused.tasks if t["decision"] != "go")["why"]
        self.assertIn(why, "".join(Page(refused._repr_html_()).names))
        self.assertNotIn("because", page.rest)  # nothing to say: no column

    def test_several_names_stand_apart(self):
        table = Table((Column("uses", "names", "uses"),), [{"uses": ("<a>", TURNED)}])
        self.assertEqual(Page(table.html()).names, ["<a>", TURNED])
        self.assertEqual(table.frame()["uses"][0], f"<a>, {TURNED}")

    def test_text(self):
        columns = (Column("a", "name", "what"), Column("n", "whole", "n"),
                   Column("x", "number", "x"), Column("hidden", "flag"))
        rows = [{"a": "one", "n": 5, "x": .12345, "hidden": True},
                {"a": "three", "n": 1234, "x": None, "hidden": False}]
        self.assertEqual(Table(columns, rows).text().splitlines(), [
            "what      n      x", "one       5  0.123", "three  1234      -"])
        text = str(self.kit.evaluate(faults=[None], trials=2))
        self.assertRegex(text, r"(?m)^healthy +2 ")
        self.assertIn("0 of 2 trials", text)

    def frame(self, thing, table, **dtypes):
        """The frame of a table; columns of these types."""
        frame = thing.to_pandas(table)
        for column, dtype in dtypes.items():
            if dtype == "str":
                self.assertTrue(pandas.api.types.is_string_dtype(frame[column]), column)
            else:
                self.assertEqual(str(frame[column].dtype), dtype, column)
        return frame

    def test_frames_of_a_kit(self):
        frame = self.frame(self.kit, "probes", probe="str", mechanism="str", rows="int64",
                           charge="float64", separation="float64")
        self.assertEqual(len(frame), sum(len(p.targets) for p in self.kit.probes))
        self.assertTrue(frame.equals(self.kit.to_pandas()))
        frame = self.frame(self.kit, "mechanisms", candidate="bool", lo="float64", prior="float64")
        self.assertEqual(list(frame.mechanism), ["main", MARKUP, TURNED])
        self.assertEqual(list(frame.candidate), [False, True, True])
        frame = self.frame(self.kit, "tasks", task="str", mechanisms="str", rehearsals="int64")
        self.assertEqual(list(frame.task), list(self.kit.tasks))
        self.frame(self.kit, "channels", channel="str", scale="float64")
        with self.assertRaisesRegex(ValueError, "'wrong' is unknown; there are probes, tasks"):
            self.kit.to_pandas("wrong")

    def test_frames_of_a_readiness(self):
        frame = self.frame(self.ready, None, task="str", decision="str", lower="float64", go="bool",
                           correction="float64", mean="float64", sd="float64", rehearsed="str",
                           why="str", reason="str", fallback="str")
        self.assertEqual(list(frame.lower), [t["lower"] for t in self.ready.tasks])
        self.assertEqual(list(frame.correction), [t["correction"][0] for t in self.ready.tasks])
        frame = self.frame(self.ready, "mechanisms", mechanism="str", p_changed="float64",
                           gain_lo="float64", probed="bool")
        self.assertEqual(list(frame.correction), [t["correction"][0] for t in self.ready.tasks])
        self.assertLess(frame.gain_lo[1], .3)
        self.assertGreater(frame.gain_hi[1], .3)

    def test_frames_of_an_evaluation(self):
        counts = dict.fromkeys(("trials", "alarm", "named", "misfit", "go", "all_go", "false_go",
                                "below_bound", "below_j_min", "probes", "rehearsals"), "int64")
        frame = self.frame(self.found, "faults", fault="str", within="Int64", broken="Int64",
                           held_back="Int64", gain_error="float64", false_go_upper="float64",
                           promised="bool", note="str", **counts)
        self.assertEqual(list(frame.fault), [MARKUP, TURNED])
        self.assertTrue(frame.within.isna()[0] and frame.gain_error.isna()[0])
        self.assertEqual(frame.named[1], 2)
        trials = self.frame(self.found, "trials", seed="int64", alarm="bool", false_go="bool",
                            gain_error="float64", within="Int64")
        self.assertEqual(trials.groupby("fault").alarm.sum()[TURNED], frame.alarm[1])
        tasks = self.frame(self.found, "tasks", task="str", decision="str", flown="float64",
                           kept="bool", met="bool")
        self.assertEqual((len(trials), len(tasks)), (4, 8))

    def test_without_pandas(self):
        """Nothing needs it but a data frame, which says what to install."""
        with unittest.mock.patch.dict(sys.modules, pandas=None):
            self.assertIn("<table ", self.kit._repr_html_())
            with self.assertRaisesRegex(ImportError, r"pip install pandas"):
                self.kit.to_pandas()
        done = subprocess.run([sys.executable, "-c", "import sys, preflight; preflight.Evaluation; "
                               "preflight.Session; sys.exit('pandas' in sys.modules)"])
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
