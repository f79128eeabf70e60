# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Tables as text, as HTML for notebooks and as pandas data frames."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

if TYPE_CHECKING:
    import pandas

# kind of a column: its type in a data frame. "names" is a tuple of names, "maybe" a count that may
# be unknown
DTYPES = {"name": "str", "names": "str", "text": "str", "verdict": "str", "flag": "bool",
          "whole": "int64", "maybe": "Int64", "number": "float64"}
LEFT = ("name", "names", "text", "verdict")
GO, GO_IF, NO_GO = "#2a7f4f", "#8f6410", "#b3372f"
COLOURS = {"go": GO, "go-if": GO_IF, "no-go": NO_GO}


class Column(NamedTuple):
    """key of the rows and name in a data frame; head is shown, None: in data frames only."""

    key: str
    kind: str
    head: Optional[str] = None


class Table:
    """Rows are mappings with all keys of the columns; None is "not known"."""

    def __init__(self, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]):
        self.columns = columns
        self.rows = rows

    def _shown(self) -> List[Column]:
        """A column of texts that are all empty is left out."""
        return [c for c in self.columns if c.head is not None
                and (c.kind != "text" or any(row[c.key] for row in self.rows))]

    def text(self) -> str:
        """Columns in line, numbers to the right."""
        columns = self._shown()
        lines = [[c.head or "" for c in columns]]
        lines += [[_text(c.kind, row[c.key]) for c in columns] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*lines)]
        return "\n".join("  ".join(
            cell.ljust(width) if c.kind in LEFT else cell.rjust(width)
            for c, cell, width in zip(columns, line, widths)).rstrip() for line in lines)

    def html(self) -> str:
        """Nothing but a table: no script, no style sheet, and the notebook's own colours."""
        columns = self._shown()
        head = "".join(f"<th{_side(c)}>{html.escape(c.head or '')}</th>" for c in columns)
        body = "".join("<tr>" + "".join(f"<td{_side(c)}>{_cell(c.kind, row[c.key])}</td>"
                                        for c in columns) + "</tr>" for row in self.rows)
        return (f'<table style="margin:.5em 0"><thead><tr>{head}</tr></thead>'
                f"<tbody>{body}</tbody></table>")

    def frame(self) -> pandas.DataFrame:
        """All columns, those that are not shown too."""
        pandas = import_pandas()
        return pandas.DataFrame({
            c.key: pandas.Series([_plain(row[c.key]) for row in self.rows], dtype=DTYPES[c.kind])
            for c in self.columns})


class Shown:
    """What a notebook shows as tables. A class gives `_tables`, the first one first, `_facts` for
    the line above them, and in `_hidden` what is for data frames only."""

    _hidden: Sequence[str] = ()

    def _tables(self) -> Dict[str, Table]:
        raise NotImplementedError

    def _facts(self) -> Dict[str, Any]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        facts = " · ".join(f"{html.escape(k)} <bdi>{html.escape(str(v))}</bdi>"
                           for k, v in self._facts().items())
        tables = "".join(table.html() for name, table in self._tables().items()
                         if name not in self._hidden)
        return f"<div><p><b>{type(self).__name__}</b> · {facts}</p>{tables}</div>"

    def to_pandas(self, table: Optional[str] = None) -> pandas.DataFrame:
        """A data frame; docs/python.md has the tables and their columns. By default the first."""
        tables = self._tables()
        name = next(iter(tables)) if table is None else table
        if name not in tables:
            raise ValueError(f"table {name!r} is unknown; there are {', '.join(tables)}")
        return tables[name].frame()


def import_pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("pandas is missing: pip install pandas "
                          "(or preflight-readiness[bench])") from None
    return pandas


def _plain(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, tuple) else value


def _text(kind: str, value: Any) -> str:
    if value is None or value != value:  # NaN
        return "-"
    if kind == "number":
        return f"{value:.3f}"
    if kind == "flag":
        return "yes" if value else "no"
    return str(_plain(value))


def _side(column: Column) -> str:
    side = "left" if column.kind in LEFT else "right"
    return f' style="text-align:{side};padding:.1em .6em"'


def _cell(kind: str, value: Any) -> str:
    """What others named is isolated: neither its markup nor its direction reaches the page."""
    if isinstance(value, tuple):
        return ", ".join(_cell("name", v) for v in value)
    text = html.escape(_text(kind, value))
    if kind == "verdict":  # white on a colour of its own is read on any background
        return (f'<span style="background:{COLOURS.get(value, NO_GO)};color:#fff;'
                f'padding:0 .4em;border-radius:.3em">{text}</span>')
    return f"<bdi>{text}</bdi>" if kind in LEFT else text
