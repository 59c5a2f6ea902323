"""Shows results as text and HTML: the first and last rows in a box."""

import datetime
import html
import shutil
import unicodedata
from typing import Any, NamedTuple

_ROWS_MAX = 40
_ROWS_AT_EACH_END = 10
_CELL_WIDTH_MAX = 48
_WIDTH_WITHOUT_TERMINAL = 120
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "U")
_ESCAPES = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


class Preview(NamedTuple):
    """The shown part of a result.

    Attributes:
        names: the names of the columns.
        types: their SQL types.
        head: the first rows.
        tail: the last rows; empty when `head` has all rows.
        rows: the number of rows of the result.
    """

    names: list[str]
    types: list[str]
    head: list[tuple[Any, ...]]
    tail: list[tuple[Any, ...]]
    rows: int


def preview(native: Any, names: list[str], types: list[str]) -> Preview:
    """Return the rows to show: all of a short result, both ends of a long one."""
    rows = native.row_count()
    if rows <= _ROWS_MAX:
        return Preview(names, types, native.slice(0, rows), [], rows)
    tail = native.slice(rows - _ROWS_AT_EACH_END, _ROWS_AT_EACH_END)
    return Preview(names, types, native.slice(0, _ROWS_AT_EACH_END), tail, rows)


def cell(value: Any) -> str:
    """Return a value as SQL shows it, on one line and not too long."""
    if value is None:
        text = "NULL"
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, bytes):
        text = "\\x" + value[:_CELL_WIDTH_MAX].hex()
    elif isinstance(value, datetime.datetime):
        text = value.isoformat(sep=" ")
    else:
        text = str(value)
    text = text[: _CELL_WIDTH_MAX + 1].translate(_ESCAPES)
    return text if len(text) <= _CELL_WIDTH_MAX else text[: _CELL_WIDTH_MAX - 1] + "…"


def width(text: str) -> int:
    """Return the columns of a terminal that the text takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def box(shown: Preview) -> str:
    """Draw the preview in a box; columns beyond the terminal's width are counted."""
    names = [cell(name) for name in shown.names]
    head = [[cell(value) for value in row] for row in shown.head]
    tail = [[cell(value) for value in row] for row in shown.tail]
    body = [*head, ["·"] * len(names), *tail] if tail else head
    widths = [max(width(line[index]) for line in [names, shown.types, *body]) for index in range(len(names))]
    fitting = _columns_that_fit(widths)
    right = [kind.startswith(_NUMBERS) for kind in shown.types]

    def line(cells: list[str], centered: bool = False) -> str:
        padded = []
        for index in range(fitting):
            free = widths[index] - width(cells[index])
            before = free // 2 if centered else free if right[index] else 0
            padded.append(f" {' ' * before}{cells[index]}{' ' * (free - before)} ")
        return "│" + "│".join(padded) + "│"

    def rule(left: str, middle: str, end: str) -> str:
        return left + middle.join("─" * (size + 2) for size in widths[:fitting]) + end

    lines = [
        rule("┌", "┬", "┐"),
        line(names, centered=True),
        line(shown.types, centered=True),
        rule("├", "┼", "┤"),
        *(line(cells) for cells in body),
        rule("└", "┴", "┘"),
        _summary(shown, fitting),
    ]
    return "\n".join(lines)


def _columns_that_fit(widths: list[int]) -> int:
    left = shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 24)).columns - 1
    for index, size in enumerate(widths):
        left -= size + 3
        if left < 0:
            return max(index, 1)
    return len(widths)


def _summary(shown: Preview, columns: int) -> str:
    def count(number: int, noun: str) -> str:
        return f"{number:,} {noun}{'' if number == 1 else 's'}"

    text = f"{count(shown.rows, 'row')} × {count(len(shown.names), 'column')}"
    if shown.tail:
        text += f", {len(shown.head) + len(shown.tail)} rows shown"
    if columns < len(shown.names):
        text += f", {count(columns, 'column')} shown"
    return text


def table_html(shown: Preview) -> str:
    """Return the preview as an HTML table, with every value escaped."""
    right = [kind.startswith(_NUMBERS) for kind in shown.types]

    def row(values: list[str]) -> str:
        cells = (
            f'<td style="text-align: {"right" if is_number else "left"}">{html.escape(value)}</td>'
            for value, is_number in zip(values, right, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    heads = (
        f"<th>{html.escape(name)}<br><small>{html.escape(kind)}</small></th>"
        for name, kind in zip(shown.names, shown.types, strict=True)
    )
    body = [row([cell(value) for value in values]) for values in shown.head]
    if shown.tail:
        body.append(row(["⋮"] * len(shown.names)))
        body += [row([cell(value) for value in values]) for values in shown.tail]
    return (
        f"<div><table><thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        f"<p>{html.escape(_summary(shown, len(shown.names)))}</p></div>"
    )
