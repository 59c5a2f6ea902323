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


def test_a_public_type_needs_an_example():
    with_example = "/// A.\n///\n/// ```\n/// a();\n/// ```\n#[derive(Clone)]\npub struct A {}\n"
    assert tidy.types_without_example(
        with_example + "/// B.\npub enum B {}\nstruct C;\npub(crate) struct D;\n"
    ) == ["B"]


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


def test_tests_and_visibility_are_no_imports():
    modules = {"a", "b"}
    text = "pub(in crate::b) fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n"
    assert tidy.imports_of(text, "a", modules) == set()
    assert tidy.imports_of("#[cfg(test)]\nmod fuzz;\nuse crate::b::B;\n", "a", modules) == {"b"}


def test_modules_are_files_beside_a_root_and_beneath_any_other(tmp_path):
    file = tmp_path / "main.rs"
    file.write_text('mod one;\npub(crate) mod two;\n#[path = "../other.rs"]\nmod three;\nmod four {}\n')
    names = ["one.rs", "one/mod.rs", "two.rs", "two/mod.rs"]
    other = (tmp_path / "../other.rs").resolve()
    assert list(tidy.modules_of(file, True)) == [*(tmp_path / name for name in names), other]
    beneath = list(tidy.modules_of(file, False))
    assert beneath == [*(tmp_path / "main" / name for name in names), other]


def test_the_places_of_unsafe_code_are_read():
    places = tidy.allowed_unsafe_places()
    assert "crates/io" in places and "bindings" in places
    assert "scripts/tidy.py" not in places
    assert "crates/io/src/mapping.rs" in tidy.unsafe_places()


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}, "g": set()}
    assert sorted(map(sorted, tidy.circles(graph))) == [["a", "b", "c"], ["d", "e"]]
