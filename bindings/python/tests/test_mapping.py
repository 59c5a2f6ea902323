"""Results are mappings: copy-on-write, valid after their sources are gone, cheap to create."""

import copy
import pickle
import sys
import threading

import hypostyle
import numpy as np
import pandas as pd
import pytest

ROWS = 200_000


@pytest.fixture
def stored(directory):
    with hypostyle.connect(directory) as con:
        con.append(
            "t", {"i": np.arange(ROWS), "f": np.arange(ROWS) / 4, "s": ["a", "b"] * (ROWS // 2)}, create=True
        )
        yield con


def test_writing_into_an_array_changes_nothing_else(stored):
    first, second = stored.table("t"), stored.table("t")
    array = first["i"]
    array[:] = -1
    assert second["i"][5] == 5
    assert stored.sql("select sum(i) as s from t").fetchone() == (ROWS * (ROWS - 1) // 2,)
    assert first["i"][5] == -1
    assert first.df()["i"][5] == 5


def test_writing_into_a_frame_changes_nothing_else(stored):
    frame = stored.table("t").df()
    frame.loc[:, "f"] = 0.0
    frame.loc[0, "i"] = 77
    assert stored.table("t").df()["f"][4] == 1.0
    assert stored.table("t").fetchone()[0] == 0


def test_arrays_outlive_everything(directory):
    con = hypostyle.connect(directory)
    con.append("t", {"i": np.arange(ROWS), "d": np.arange(ROWS).astype("M8[D]")}, create=True)
    result = con.table("t")
    columns, frame, table, polars = result.fetchnumpy(), result.df(), result.arrow(), result.pl()
    con.sql("drop table t")
    con.close()
    del con, result
    assert columns["i"].sum() == ROWS * (ROWS - 1) // 2
    assert columns["d"][3] == np.datetime64("1970-01-04")
    assert frame["i"].sum() == table["i"].to_numpy().sum() == polars["i"].sum() == columns["i"].sum()


def test_the_mapping_behaves_as_a_dict(stored):
    columns = stored.table("t").fetchnumpy()
    assert isinstance(columns, dict)
    assert list(columns) == list(columns.keys()) == ["i", "f", "s"]
    assert len(columns) == 3 and "i" in columns and "x" not in columns
    assert "3 not converted" in repr(columns)
    assert columns["i"] is columns["i"]
    assert "2 not converted" in repr(columns)
    assert all(isinstance(array, np.ndarray) for array in dict(columns).values())
    assert all(isinstance(array, np.ndarray) for array in {**columns}.values())
    assert all(isinstance(array, np.ndarray) for _, array in columns.items())
    assert columns.get("x") is None
    assert columns.get("f") is columns["f"]
    assert list(columns | {"y": 1}) == ["i", "f", "s", "y"]
    assert list({"y": 1} | columns) == ["y", "i", "f", "s"]
    assert type(copy.copy(columns)) is dict
    assert pickle.loads(pickle.dumps(columns))["i"][9] == 9
    assert pd.DataFrame(stored.table("t").fetchnumpy(), columns=["i", "f"]).shape == (ROWS, 2)
    columns["new"] = 1
    assert columns.pop("new") == 1
    assert columns.pop("i")[1] == 1
    assert "i" not in columns
    with pytest.raises(KeyError):
        columns["i"]


def test_materialize_converts_all(stored):
    columns = stored.table("t").fetchnumpy().materialize()
    assert "0 not converted" in repr(columns)


def test_threads_that_ask_together_get_one_array(stored):
    columns = stored.table("t").fetchnumpy()
    barrier = threading.Barrier(8)
    found = []

    def ask():
        barrier.wait()
        found.append(columns["s"])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(array) for array in found}) == 1


def test_stored_results_share_memory_with_arrow_and_pandas(stored):
    result = stored.table("t")
    table = result.arrow()
    assert all(column.num_chunks == 1 for column in table.columns)
    again = stored.table("t").arrow()
    addresses = [t["i"].chunk(0).buffers()[1].address for t in (table, again)]
    assert addresses[0] == addresses[1]
    frame = result.df()
    assert frame["i"].to_numpy().base is not None
    assert str(frame["s"].dtype) == "category"


def file_at(address):
    """Return the file that is mapped at an address of this process, if there is one."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            where, *_, last = line.split(maxsplit=5)
            start, end = (int(part, 16) for part in where.split("-"))
            if start <= address < end:
                return last.strip() if last.startswith("/") else None
    return None


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc/self/maps")
def test_results_are_mappings_of_files_again_after_compaction(stored, directory):
    def files():
        table = stored.table("t").arrow()
        assert table["i"].null_count == 0
        # The buffer of the values; for strings that occur often, the indices into the dictionary.
        buffers = [table.column(name).chunk(0).buffers()[1] for name in table.column_names]
        return [file_at(buffer.address) for buffer in buffers]

    def are_mapped():
        return [file is not None and file.startswith(str(directory)) for file in files()]

    assert are_mapped() == [True] * 3
    stored.execute("DELETE FROM t WHERE i % 100 = 42")
    assert are_mapped() == [False] * 3
    stored.execute("VACUUM t")
    assert are_mapped() == [True] * 3
    assert stored.table("t").arrow().num_rows == ROWS * 99 // 100


def test_limit_and_projection_of_a_table(stored):
    result = stored.sql("select f as g, i from t limit 10 offset 4")
    assert result.columns == ["g", "i"]
    assert result["i"].tolist() == list(range(4, 14))
    assert result["g"].tolist() == [value / 4 for value in range(4, 14)]
    assert result.df()["i"].tolist() == list(range(4, 14))
    assert [row[1] for row in result] == list(range(4, 14))


def test_methods_can_be_mixed(stored):
    result = stored.sql("select i from t where i < 10000 order by i")
    assert result.fetchone() == (0,)
    assert result.fetchmany(3) == [(1,), (2,), (3,)]
    assert len(result) == 10000
    assert len(result.df()) == 10000
    assert len(list(result)) == 10000
    rest = result.fetchall()
    assert rest[0] == (4,) and len(rest) == 9996
    assert result.fetchall() == [] and result.fetchone() is None


def test_batches_stream_once(stored):
    result = stored.sql("select i + 1 as j from t")
    assert sum(batch.num_rows for batch in result.batches()) == ROWS


def test_unknown_column(stored):
    with pytest.raises(KeyError, match="the columns are i, f, s"):
        stored.table("t")["x"]
