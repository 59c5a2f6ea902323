"""What a result looks like in a terminal and in a notebook."""

import numpy as np


def test_box(con):
    con.append("t", {"name": ["Zoë", None, "日本"], "value": [1.5, -22.25, None]}, create=True)
    lines = repr(con.table("t")).splitlines()
    assert lines[1].split() == ["│", "name", "│", "value", "│"]
    assert lines[2].split() == ["│", "VARCHAR", "│", "DOUBLE", "│"]
    assert lines[4] == "│ Zoë     │    1.5 │"
    assert lines[5] == "│ NULL    │ -22.25 │"
    assert lines[6] == "│ 日本    │   NULL │"
    assert lines[-1] == "3 rows × 2 columns"


def test_long_results_show_both_ends(con):
    con.append("t", {"x": np.arange(1000)}, create=True)
    text = repr(con.table("t"))
    assert "│      9 │" in text and "│    990 │" in text and "│    999 │" in text
    assert " 10 │" not in text and " 989 │" not in text
    assert text.endswith("1,000 rows × 1 column, 20 rows shown")


def test_wide_results_are_cut_at_the_terminal(con, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    con.append("t", {f"column_{n}": ["x" * 20] for n in range(10)}, create=True)
    text = repr(con.table("t"))
    assert max(len(line) for line in text.splitlines()) <= 60
    assert text.endswith("2 columns shown")


def test_cells_stay_on_one_line(con):
    con.append("t", {"s": ["a\nb\tc", "y" * 500], "b": [b"\x01\xff", b""]}, create=True)
    text = repr(con.table("t"))
    assert "a\\nb\\tc" in text and "\\x01ff" in text and "y" * 47 + "…" in text


def test_html_is_escaped(con):
    con.append("t", {"<b>&": ["<script>alert(1)</script>", None]}, create=True)
    html = con.table("t")._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html and "&lt;b&gt;&amp;" in html
    assert "2 rows × 1 column" in html and "NULL" in html


def test_html_is_truncated(con):
    con.append("t", {"x": np.arange(100_000)}, create=True)
    html = con.table("t")._repr_html_()
    assert html.count("<tr>") == 22 and "100,000 rows" in html


def test_statements_without_rows(con):
    con.sql("create table t (a integer)")
    done = con.sql("insert into t values (1)")
    assert repr(done) == "1 row affected"
    assert done._repr_html_() == "<p>1 row affected</p>"
