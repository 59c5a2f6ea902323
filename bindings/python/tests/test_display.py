"""Results in a terminal and in a notebook."""

import re

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


QUERY = "select k, sum(i) as s from t where i > 5 group by k order by s desc limit 3"


def test_plans_are_trees(con):
    con.sql("set position_pipelines = off")
    con.sql("create table t as select i, i % 7 as k from generate_series(1, 9) g (i)")
    for result in (con.sql(f"explain {QUERY}"), con.explain(QUERY), con.sql(f"EXPLAIN VERBOSE {QUERY}")):
        text = repr(result)
        assert "─" in text or "initial_logical_plan" in text
        assert all("…" not in line for line in text.splitlines())
    lines = repr(con.explain(QUERY)).splitlines()
    assert lines[0].startswith("Sort")
    assert lines[-1].lstrip(" │└─").startswith("Scan") and "table=t, columns=[i, k]" in lines[-1]
    assert all("Exec" not in line for line in lines)
    starts = [len(line) - len(line.lstrip(" │└├─")) for line in lines]
    assert starts == [3 * depth for depth in range(len(lines))]
    assert repr(con.explain("select ?::bigint as x", [1])).startswith("Projection")
    assert con.explain(QUERY).fetchall()[-1] == ("route", "planned")
    assert con.explain("select k, i from t").fetchall()[-1] == ("route", "stored columns")


def test_the_branches_of_a_plan(con):
    con.sql("create table t as select i from generate_series(1, 9) g (i)")
    lines = repr(
        con.explain("select i from t union all select i + 1 from t union all select i + 2 from t")
    ).splitlines()
    assert lines[0].startswith("In order") and lines[1].startswith("└─ Union")
    below = [line[3:] for line in lines[2:]]
    tops = [line for line in below if line[0] in "├└"]
    assert [top[0] for top in tops] == ["├", "├", "└"]
    assert all(line[0] in "├└│ " for line in below)


def test_a_pipeline_stands_for_an_aggregate_and_all_below(con):
    con.sql("create table t as select i, i % 7 as k from generate_series(1, 9) g (i)")
    lines = [line.lstrip(" │└├─") for line in repr(con.explain(QUERY)).splitlines()]
    assert lines[-1].startswith("Pos fold") and "rows=[t" in lines[-1]
    assert not any(line.startswith(("Aggregate", "Scan")) for line in lines)
    ran = repr(con.explain(QUERY, analyze=True))
    assert re.search(r"└─ Pos fold  +[\d.,]+  +[\d.,]+ ms", ran) and "left_to_operators" not in ran


def test_plans_that_ran_have_rows_times_and_a_total(con):
    con.sql("set position_pipelines = off")
    con.sql("create table t as select i, i % 7 as k from generate_series(1, 1000) g (i)")
    lines = repr(con.explain(QUERY, analyze=True)).splitlines()
    assert lines[0].split() == ["rows", "time"]
    assert lines[-1].split()[0] == "total" and lines[-1].endswith(" ms")
    scan = next(line for line in lines if "table=t" in line)
    assert re.search(r"└─ Scan  +\S.*  +[\d.,]+ ms  table=t", scan)
    html = con.explain(QUERY, analyze=True)._repr_html_()
    assert html.startswith("<pre") and "└─" in html and "&gt; 5" in html


def test_columns_named_as_those_of_a_plan_are_a_table(con):
    con.sql("create table t (plan_type varchar, plan varchar)")
    con.sql("insert into t values ('free', 'none at all')")
    assert "none at all" in repr(con.table("t"))
    con.sql("insert into t values ('paid', null)")
    assert "2 rows" in repr(con.table("t"))
