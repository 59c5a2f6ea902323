"""The package alone: without NumPy, pandas, Polars and pyarrow, and on an unsupported processor."""

import importlib.metadata
import subprocess
import sys
import textwrap

import hypostyle
from hypostyle import _cpu

BLOCK = "import sys; sys.modules.update(dict.fromkeys({blocked}))\n"


def run(program, blocked):
    text = BLOCK.format(blocked=sorted(blocked)) + textwrap.dedent(program)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)


def test_without_any_optional_package():
    done = run(
        """
        import datetime, hypostyle
        con = hypostyle.connect()
        con.append("t", [{"a": 1, "d": datetime.date(2024, 1, 1)}, {"a": None, "d": None}], create=True)
        con.append("t", {"a": [3], "d": [None]})
        rows = con.sql("select * from t").fetchall()
        assert rows == [(1, datetime.date(2024, 1, 1)), (None, None), (3, None)], rows
        assert "3 rows" in repr(con.table("t"))
        variable = {"x": [7]}
        assert con.sql("select * from variable").fetchall() == [(7,)]
        con.table("t").__arrow_c_stream__(), con.table("t").__arrow_c_schema__()
        packages = {"df": "pandas", "pl": "polars", "arrow": "pyarrow", "fetchnumpy": "numpy"}
        for method, package in packages.items():
            try:
                getattr(con.table("t"), method)()
            except ImportError as error:
                assert f"pip install {package}" in str(error), error
            else:
                raise AssertionError(method)
        print("fine")
        """,
        {"numpy", "pandas", "polars", "pyarrow"},
    )
    assert done.stdout.strip() == "fine", done.stderr


def test_importing_hypostyle_imports_none_of_them():
    done = run(
        "import hypostyle; print(sorted({'numpy', 'pandas', 'polars', 'pyarrow'} & set(sys.modules)))", set()
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_pandas_and_polars_without_pyarrow():
    done = run(
        """
        import hypostyle, pandas as pd, polars as pl
        con = hypostyle.connect()
        times = pd.to_datetime(["2024-01-01", None])
        frame = pd.DataFrame({"i": [1, 2], "f": [0.5, None], "s": ["x", None], "t": times})
        con.append("t", frame, create=True)
        assert con.table("t").fetchall()[1] == (2, None, None, None)
        back = con.table("t").df()
        dtypes = [str(dtype) for dtype in back.dtypes[["i", "f", "t"]]]
        assert dtypes == ["int64", "float64", "datetime64[us]"]
        assert back["s"].isna().tolist() == [False, True] and back["s"][0] == "x"
        con.sql(
            "create table all_types as select 1.25 as d, date '2024-02-29' as day, time '12:00' as t, "
            "case when n > 1 then n end as i, case when n > 1 then n > 2 end as b, 'x' || n as s, [n] as l, "
            "{'a': n} as r, 'a'::bytea as bytes, uuid() as u from generate_series(1, 3) as g (n)"
        )
        for query in ("select * from all_types", "select *, n.s || 'y' as z from all_types as n where i > 1"):
            every = con.sql(query).df()
            assert every["d"].sum() == 1.25 * len(every) and (every["day"] == "2024-02-29").all()
            assert every["i"].sum() == 5 and every["l"].tolist()[-1] == [3]
        try:
            con.table("all_types").df(dtypes="exact")
        except ImportError as error:
            assert "pip install pyarrow" in str(error), error
        else:
            raise AssertionError("exact")
        assert con.table("t").pl()["s"].to_list() == ["x", None]
        con.append("p", pl.DataFrame({"a": [1]}), create=True)
        print("fine")
        """,
        {"pyarrow"},
    )
    assert done.stdout.strip() == "fine", done.stderr


def test_an_old_processor_gets_a_sentence(monkeypatch):
    old = "processor : 0\nflags : fpu sse sse2 ssse3 sse4_1 sse4_2 avx popcnt\n"
    assert "avx2" in _cpu.missing_features(old)
    assert _cpu.missing_features("flags\t: avx2 bmi1 bmi2 fma f16c movbe abm sse") == set()
    monkeypatch.setattr(_cpu, "_cpuinfo", lambda: old)
    monkeypatch.setattr(_cpu.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(_cpu.sys, "platform", "linux")
    try:
        _cpu.check()
    except ImportError as error:
        assert "x86-64-v3" in str(error) and "avx2" in str(error)
    else:
        raise AssertionError("no ImportError")


def test_version():
    assert hypostyle.__version__ == importlib.metadata.version("hypostyle")
