"""Habits that may only become fewer, and faults that may not be; and that the counting counts."""

import json

import pytest
import tidy


@pytest.fixture(scope="module")
def counted():
    return tidy.counts()


@pytest.mark.parametrize("what", json.loads(tidy.RECORD.read_text()))
def test_habits_only_become_fewer(what, counted):
    recorded = json.loads(tidy.RECORD.read_text())[what]
    assert counted[what] <= recorded, f"{counted[what]} {what}, {recorded} are recorded: see scripts/tidy.py"


@pytest.mark.parametrize("what", tidy.FAULTS)
def test_nothing_is_where_it_must_not_be(what):
    assert tidy.FAULTS[what]() == []


def test_every_count_is_recorded(counted):
    assert counted.keys() == json.loads(tidy.RECORD.read_text()).keys()


def test_a_long_function_is_found_and_a_short_one_is_not():
    def body(lines):
        return ["    pub(crate) async fn f(", "        a: u8,", "    ) {", *["        a();"] * lines, "    }"]

    assert list(tidy.long_functions(body(tidy.FUNCTION_LINES_MAX - 3))) == [1]
    assert list(tidy.long_functions(body(tidy.FUNCTION_LINES_MAX - 4))) == []
    trait = ["    fn declared(&self);", "", *body(5)]
    assert list(tidy.long_functions(trait)) == []


def test_comments_are_measured_and_code_is_not():
    wide = "x" * tidy.COMMENT_COLUMNS_MAX
    assert list(tidy.wide_comments([f"// {wide}", f"let {wide};", "// x"])) == [1]


def test_only_the_first_word_of_a_doc_comment_counts():
    lines = [
        "/// Of a table.",
        "/// On and on.",
        "fn f() {}",
        "// Of no matter.",
        "//! Returns.",
        "//! Of it.",
    ]
    assert list(tidy.bare_prepositions(lines)) == [1]


def test_imports_are_found_by_path_and_in_groups():
    modules = {"scan", "scan::exec", "statement", "statement::write", "session"}
    text = "use crate::scan::{exec::Exec, Scan};\nuse super::write::Target;\nlet a = crate::session::Session;"
    found = tidy.imports_of(text, "statement::merge", modules)
    assert found == {"scan", "scan::exec", "statement::write", "session"}


def test_a_module_imports_the_children_that_it_names():
    modules = {"statement", "statement::write"}
    assert tidy.imports_of("use write::Target;\nuse arrow::write::x;", "statement", modules) == {
        "statement::write"
    }


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}, "g": set()}
    assert sorted(map(sorted, tidy.circles(graph))) == [["a", "b", "c"], ["d", "e"]]
