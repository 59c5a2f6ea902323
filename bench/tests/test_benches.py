"""What benches of the report parse and compare: messages of three protocols, and answers of all systems."""

from __future__ import annotations

import re
from datetime import date

import duckdb
import hypostyle
import pandas as pd
import pyarrow as pa
import pytest

import one_thread
import planning
from answers import difference
from dataset import queries
from design_space import without_nulls
from measure import REPOSITORY
from protocol import wire_dumps
from protocol.acs import acs
from protocol.data import LINEITEM, own_data
from protocol.ontime import ontime
from protocol.processes import PeerError
from r import for_sqlite
from systems.libraries import QUERIES


def bytes_of(text):
    return bytes.fromhex(re.sub(r"#.*|\s", "", text))


def data_of(fields):
    return b" ".join(content for kind, _, content in fields if kind == "data")


def whole(fields):
    return b"".join(content for _, _, content in fields)


# Messages: the chapter's rows -------------------------------------------------------------------------


def test_rows_of_postgresql_are_told_apart():
    rows = bytes_of(
        """44 00000019 0002 00000009 313030303030303030 00000002 4f4b
           44 00000013 0002 ffffffff 00000005 4450464b47"""
    )
    described = bytes_of("54 00000006 0002") + rows + bytes_of("43 00000008 53454c00 5a 00000005 49")
    fields = wire_dumps.parts_of_postgresql(described)
    assert (data_of(fields), whole(fields)) == (b"100000000 OK DPFKG", rows)


def test_rows_of_mariadb_are_told_apart():
    rows = bytes_of("0d0000 04 09 313030303030303030 02 4f4b 070000 05 fb 05 4450464b47")
    column = bytes_of("040000 02 03646566")
    end = bytes_of("050000 09 fe00000200")
    answer = bytes_of("010000 01 02") + column + column + end + rows + end
    fields = wire_dumps.parts_of_mariadb(answer)
    assert (data_of(fields), whole(fields)) == (b"100000000 OK DPFKG", rows)


def test_a_chunk_of_ours_is_that_of_the_specification():
    specified = (REPOSITORY / "docs" / "protocol.md").read_text().partition("# Chunk, from the server")[2]
    chunk = bytes_of(specified.partition("\n")[2].partition("# Done")[0])
    result = bytes_of("02000000 23000000 0000")
    fields = wire_dumps.parts_of_hypostyle(result + chunk)
    assert whole(fields) == chunk
    assert data_of(fields) == bytes_of("00e1f505") + b" OKDPFKG"


def test_a_chunk_of_postgresql_is_in_a_message_of_its_own():
    specified = (REPOSITORY / "docs" / "protocol.md").read_text().partition("# Chunk, from the server")[2]
    chunk = bytes_of(specified.partition("\n")[2].partition("# Done")[0])
    result = bytes_of("64 0000000e 02000000 23000000 0000")
    message = b"d" + (len(chunk) + 4).to_bytes(4, "big") + chunk
    fields = wire_dumps.parts_of_postgresql_in_columns(result + message + bytes_of("63 00000004"))
    assert whole(fields) == message
    assert data_of(fields) == bytes_of("00e1f505") + b" OKDPFKG"


def test_an_answer_without_a_chunk_is_refused():
    with pytest.raises(PeerError, match="no chunk"):
        wire_dumps.parts_of_hypostyle(bytes_of("02000000 23000000 0000"))


def test_the_rows_of_the_long_result_are_the_two_and_more_of_their_kind():
    rows = wire_dumps.many_rows()
    assert rows[:2] == wire_dumps.ROWS
    assert len(rows) == 2 + wire_dumps.MORE_ROWS
    assert hypostyle.sql(wire_dumps.query(rows)).fetchall() == rows


# Answers ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The tables of TPC-H, as every system gets them."""
    path = tmp_path_factory.mktemp("tpch") / "tpch.hypo"
    names = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
    with hypostyle.connect(path) as connection:
        connection.sql("CALL tpch_generate(sf => 0.01)")
        return {name: connection.table(name).arrow() for name in names}


@pytest.mark.parametrize("name", planning.OTHERS)
def test_statements_to_be_planned_are_those_of_duckdb(name, tables):
    with duckdb.connect() as connection:
        for table, rows in tables.items():
            connection.register(table, rows)
        assert connection.execute(f"EXPLAIN {planning.OTHERS[name]}").fetchall()


@pytest.fixture(scope="module")
def frames(tables):
    found = {}
    for name, table in tables.items():
        fields = []
        for field in table.schema:
            kind = pa.float64() if pa.types.is_decimal(field.type) else field.type
            kind = pa.string() if pa.types.is_dictionary(kind) else kind
            fields.append(pa.field(field.name, pa.timestamp("us") if pa.types.is_date(kind) else kind))
        found[name] = table.cast(pa.schema(fields)).to_pandas()
    return found


@pytest.mark.parametrize("name", one_thread.QUERIES)
def test_queries_of_pandas_answer_as_duckdb(name, tables, frames):
    with duckdb.connect() as connection:
        for table, rows in tables.items():
            connection.register(table, rows)
        known = connection.sql(queries()[name]).fetchall()
    known = one_thread.numbers_of([[str(value) for value in row] for row in known])
    rows = [[str(value) for value in row] for row in QUERIES[name](frames).itertuples(index=False, name=None)]
    assert known, f"{name} has no rows here"
    assert difference(one_thread.comparable(rows, known), known) is None


def test_values_become_comparable():
    like = [[1.5, "1995-03-05", "text", 7]]
    assert one_thread.comparable([["1.50", "1995-03-05 00:00:00", "text", "7"]], like) == like
    days = (date(1995, 3, 5) - date(1970, 1, 1)).days
    assert one_thread.comparable([[1.5, days, "text", 7]], like) == like
    assert difference(one_thread.comparable([], like), like) is not None
    assert difference(one_thread.comparable(like + like, like), like) is not None


@pytest.mark.parametrize(
    ("ours", "rounding", "is_same"),
    [(0.0500813, 0.0, False), (0.0500813, 1e-6, True), (0.06, 1e-6, False), ("x", 1.0, False)],
)
def test_rounding_is_allowed_where_it_is_told(ours, rounding, is_same):
    assert (difference([[ours]], [[0.05008133906]], rounding) is None) == is_same


def test_sqlite_gets_numbers_of_days():
    sql = for_sqlite("d <= date '1998-12-01' - interval '90' day and extract(year from d) = 1998")
    days = (date(1998, 9, 2) - date(1970, 1, 1)).days
    assert f"d <= {days} and CAST(strftime('%Y', d * 86400, 'unixepoch') AS INTEGER) = 1998" == sql


# Data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("generate", "integers"), [(acs, 265), (ontime, 17)])
def test_rows_of_the_design_space_have_no_nulls_and_the_chapters_integers(generate, integers):
    source = generate(0.002)
    table = without_nulls(source)
    assert (table.num_rows, table.num_columns) == (source.num_rows, source.num_columns)
    assert sum(column.null_count for column in table.columns) == 0
    assert sum(pa.types.is_integer(field.type) for field in table.schema) == integers
    for name in source.column_names:
        there = source[name].is_valid().to_pylist()
        kept, given = table[name].to_pylist(), source[name].to_pylist()
        assert all(
            float(one) == float(other) if _is_number(other) else one == other
            for one, other, valid in zip(kept, given, there, strict=True)
            if valid
        ), name


def _is_number(value):
    return not isinstance(value, str | date)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_own_rows_take_the_place_of_lineitem(tmp_path, monkeypatch, suffix):
    monkeypatch.setenv("HYPOSTYLE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / f"own.{suffix}"
    frame = pd.DataFrame(
        {"n": [1, 2, 3], "x": [0.5, 1.5, 2.5], "s": ["a", "b", "ä"], "b": [True, False, True]}
    )
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if suffix == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    else:
        duckdb.sql("FROM frame").write_parquet(str(path)) if suffix == "parquet" else frame.to_csv(
            path, index=False
        )
    data = own_data(path)
    rows = data.tables[LINEITEM].read()
    assert rows.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.string()]
    assert rows["s"].to_pylist() == ["a", "b", "ä"]
    assert data.tables[LINEITEM].csv.read_text().count("\n") == 3


@pytest.mark.parametrize(
    ("name", "content"),
    [("gone.csv", None), ("bad.parquet", b"no parquet"), ("bad.arrow", b""), ("none.csv", b"a,b\n")],
)
def test_files_that_are_no_data_are_refused(tmp_path, monkeypatch, name, content):
    monkeypatch.setenv("HYPOSTYLE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit, match=re.escape(str(path))):
        own_data(path)


# Disk -----------------------------------------------------------------------------------------------------


def test_systems_without_room_on_the_disk_are_left_out():
    systems = list(one_thread.SERVERS)
    without_database = ["hypostyle", "DuckDB", "pandas"]
    assert one_thread.with_room(systems, 10, 40) == ([], pytest.approx(-0.5))
    assert one_thread.with_room(systems, 10, 46)[0] == without_database
    assert set(one_thread.with_room(systems, 10, 60)[0]) == {*without_database, "MonetDBLite"}
    found, left = one_thread.with_room(systems, 10, 200)
    assert found == systems and left >= one_thread.R_GB
