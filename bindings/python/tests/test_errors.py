"""The place in a statement that an exception shows, and the line of it with a caret."""

import pickle
import traceback

import hypostyle
import pytest

CASES = {
    "select nme from t": (8, "LINE 1: select nme from t", "nme from t"),
    "select n\nfrom t\nwhere nme > 1": (23, "LINE 3: where nme > 1", "nme > 1"),
    "select n fom t x": (14, "LINE 1: select n fom t x", "t x"),
    "select 'größe', nme from t": (17, "LINE 1: select 'größe', nme from t", "nme from t"),
}


@pytest.mark.parametrize("sql", CASES)
def test_the_caret_is_under_the_place(con, sql):
    position, line, rest = CASES[sql]
    con.execute("create table t as select 1 as n")
    with pytest.raises(hypostyle.ProgrammingError) as raised:
        con.sql(sql)
    error = raised.value
    assert error.position == position
    assert sql[error.position - 1 :].startswith(rest)
    first, caret = error.excerpt.splitlines()
    assert first == line
    assert first[len(caret) - 1 :].startswith(rest)
    assert str(error) == f"{error.message}\n{error.excerpt}"
    assert "LINE" not in error.message
    shown = "".join(traceback.format_exception(error))
    assert shown.endswith(f"{first}\n{caret}\n")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.sqlstate, again.position) == (str(error), error.sqlstate, position)


def test_errors_without_a_place(con):
    con.execute("create table t as select 1 as n")
    with pytest.raises(hypostyle.DataError) as raised:
        con.append("t", {"n": ["x"]})
    assert raised.value.position is None and raised.value.excerpt == ""
    assert str(raised.value) == raised.value.message
