"""Results: one class, from which every library gets the columns in its own form."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hypostyle import _native, display, errors, numpy_columns, pandas_frame, plan, polars_frame, statistics
from hypostyle.numpy_columns import Columns, Decimals, Strings
from hypostyle.optional import require, unique_names
from hypostyle.pandas_frame import Dtypes
from hypostyle.statistics import TransferStatistics

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Row = tuple[Any, ...]
Description = tuple[str, str, None, None, int | None, int | None, bool]

_ROWS_PER_STEP = 4096


class Result:
    """The result of a statement; returned by `Connection.sql()` and `Connection.table()`.

    The result of a whole table, of some of its columns or of its first rows is a mapping of the
    stored columns: no method that returns columns copies them. Other results are computed on first
    use and then kept, so that methods can be mixed freely; only `batches()` keeps nothing.

    Arrays and frames that were made from a result outlive it, the connection, and the table.
    """

    def __init__(self, native: _native.QueryResult) -> None:
        self._native = native
        columns = native.columns()
        self._names = [name for name, _, _ in columns]
        self._types = [kind for _, kind, _ in columns]
        self._nullable = [nullable for _, _, nullable in columns]
        self._numpy: dict[tuple[str, str], Columns] = {}

    @property
    def columns(self) -> list[str]:
        """The names of the columns; empty for a statement that returns no rows."""
        return list(self._names)

    @property
    def types(self) -> list[str]:
        """The SQL types of the columns, e.g. "DECIMAL(15,2)"."""
        return list(self._types)

    @property
    def description(self) -> list[Description] | None:
        """The columns as in PEP 249; `None` for a statement that returns no rows."""
        if not self._native.is_query:
            return None
        rows = zip(self._names, self._types, self._nullable, strict=True)
        return [(name, kind, None, None, *_precision(kind), nullable) for name, kind, nullable in rows]

    @property
    def rows_affected(self) -> int | None:
        """The rows that INSERT, COPY or CREATE TABLE AS wrote; `None` for a query."""
        return self._native.rows_affected

    @property
    def statistics(self) -> TransferStatistics | None:
        """How the result came from its server, until now; `None` for an embedded database.

        The result is complete after a call that needs all rows: `len(result)`, `arrow()`, `df()`, …
        """
        return statistics.of(self._native, unique_names(self._names))

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return len(self), len(self._names)

    def __len__(self) -> int:
        return self._native.row_count()

    # Rows

    def fetchone(self) -> Row | None:
        """Return the next row, or `None` after the last.

        Values are exact: `decimal.Decimal`, `datetime` classes, `uuid.UUID`, `bytes`, lists, dicts.
        """
        rows = self._native.fetch(1, True)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[Row]:
        """Return the next `size` rows, fewer at the end."""
        if size < 0:
            raise errors.DataError(f"cannot fetch {size} rows")
        return self._native.fetch(size, True)

    def fetchall(self) -> list[Row]:
        """Return all rows that `fetchone()` and `fetchmany()` have not returned."""
        return self._native.fetch(None, True)

    def __iter__(self) -> Iterator[Row]:
        """Iterate over all rows from the first one, whatever was fetched."""
        start = 0
        while rows := self._native.slice(start, _ROWS_PER_STEP):
            yield from rows
            start += len(rows)

    # Columns

    def fetchnumpy(self, *, decimals: Decimals = "float", strings: Strings = "numpy") -> Columns:
        """Return the columns as NumPy arrays: a dict that converts each one when it is first
        needed.

        Args:
            decimals: DECIMAL as "float" (float64), "int" (integers, scaled by ten to the number of
                decimal places; zero-copy up to 18 digits) or "object" (`decimal.Decimal`).
            strings: VARCHAR as "numpy" (StringDType, NULL is NaN) or "object" (`str`, NULL is
                None).

        NULL is masked in integers and booleans, NaN in floats, NaT in times, None in objects. DATE
        is datetime64[D], TIME is timedelta64 since midnight, and a vector such as FLOAT[3] is a row
        of a 2-D array. A second column of the same name is called "name_1".
        """
        numpy_columns.check_options(decimals, strings)
        key = (decimals, strings)
        if key not in self._numpy:
            require("numpy", "fetchnumpy()")
            native = self._native
            native.materialize()
            # A mapping costs nothing per row: if it is created now, it stays after DROP TABLE and
            # close().
            mapped = [native.column_private(i) for i in range(len(self._names))] if native.is_mapped else None

            def load(index: int) -> Any:
                column = native.column_private(index) if mapped is None else mapped[index]
                return numpy_columns.to_numpy(column, decimals, strings)

            self._numpy[key] = Columns(unique_names(self._names), load, native.threads)
        return self._numpy[key]

    def __getitem__(self, name: str) -> Any:
        """Return a column as a NumPy array, as `fetchnumpy()` does."""
        columns = self.fetchnumpy()
        if name not in columns:
            raise KeyError(f"no column {name!r}; the columns are {', '.join(columns)}")
        return columns[name]

    def df(self, *, dtypes: Dtypes = "numpy") -> "pandas.DataFrame":
        """Return a pandas frame.

        Args:
            dtypes: "numpy" gives types that pandas computes with: DATE and TIMESTAMP as datetime64,
                DECIMAL as the nearest float64, integers and booleans with NULLs as pandas' own
                `Int64`, `boolean` …, strings as `str` or `category`, and objects (`time`, `bytes`,
                `UUID`, `list`, `dict`) for the rest. Dates and decimals are converted at once; all
                other stored columns are shared. "exact" shares every column, in constant time, and
                keeps every digit: it uses ArrowDtype for dates, decimals, booleans, integers with
                NULLs, binary and nested values.

        The method needs pandas; "exact" needs pyarrow for the types that only Arrow has.
        """
        return pandas_frame.to_pandas(self._native, unique_names(self._names), dtypes)

    fetchdf = df

    def pl(self) -> "polars.DataFrame":
        """Return a Polars frame. The method needs Polars, but not pyarrow."""
        return polars_frame.to_polars(self._native, unique_names(self._names))

    def arrow(self) -> "pyarrow.Table":
        """Return a pyarrow table. A stored column is one chunk that shares its memory, or several if
        deleted rows lie between them.
        """
        return require("pyarrow", "arrow()").RecordBatchReader.from_stream(self).read_all()

    def batches(self) -> "pyarrow.RecordBatchReader":
        """Iterate over record batches as they are computed; a batch is dropped once the next is
        read.

        This is for results larger than memory. Rows that were read this way are not available to
        other methods.
        """
        reader = require("pyarrow", "batches()").RecordBatchReader
        rows = reader.from_stream(_Once(self._native))
        return reader.from_batches(rows.schema, _WithOwnErrors(rows, self._native))

    fetch_record_batch = batches

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Return the whole result as a stream, without a copy (the Arrow PyCapsule interface)."""
        if polars_frame.is_calling():
            return polars_frame.readable_stream(self._native)
        return self._native.stream_capsule(True)

    def __arrow_c_schema__(self) -> Any:
        """Return the schema (the Arrow PyCapsule interface)."""
        return self._native.schema_capsule()

    # Looks

    def __repr__(self) -> str:
        if not self._names:
            return _without_rows(self._native)
        if rows := self._plan():
            return plan.text(rows)
        if plan.is_postgres(self._names):
            return plan.postgres_text(self._native.slice(0, plan.ROWS_MAX))
        return display.box(display.preview(self._native, self._names, self._types))

    def _repr_html_(self) -> str:
        if not self._names:
            return f"<p>{_without_rows(self._native)}</p>"
        if rows := self._plan():
            return plan.as_html(rows)
        if plan.is_postgres(self._names):
            return plan.preformatted(plan.postgres_text(self._native.slice(0, plan.ROWS_MAX)))
        return display.table_html(display.preview(self._native, self._names, self._types))

    def _plan(self) -> list[Row] | None:
        """Return the rows of a result that is a plan."""
        if not plan.may_be(self._names):
            return None
        rows = self._native.slice(0, plan.ROWS_MAX)
        return rows if plan.is_plan(rows) else None


class _WithOwnErrors:
    """The batches of a result's stream. Through C only the text of an error comes; here it is the
    database's own, each time that a batch is asked for behind it.
    """

    def __init__(self, reader: "pyarrow.RecordBatchReader", native: _native.QueryResult) -> None:
        self._reader: pyarrow.RecordBatchReader | None = reader
        self._native: _native.QueryResult | None = native
        self._failure: BaseException | None = None

    def __iter__(self) -> "_WithOwnErrors":
        return self

    def __next__(self) -> Any:
        if self._failure is not None:
            raise self._failure
        try:
            return next(self._reader)
        except StopIteration:
            raise
        except BaseException as failure:
            # The failure that is kept has this frame: what the frame has would be kept, too, and with
            # the rest of the result the next statement would have to wait for it.
            native, self._native, self._reader = self._native, None, None
            self._failure = failure
            try:
                native.raise_failure()
            except BaseException as own:
                self._failure = own
            finally:
                del native
            raise self._failure from None


class _Once:
    """A result as a stream that runs the statement while it is read."""

    def __init__(self, native: _native.QueryResult) -> None:
        self._native = native

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self._native.stream_capsule(False)


def _without_rows(native: _native.QueryResult) -> str:
    affected = native.rows_affected
    return "done" if affected is None else f"{affected:,} row{'' if affected == 1 else 's'} affected"


def _precision(kind: str) -> tuple[int | None, int | None]:
    """Return the precision and scale of "DECIMAL(p,s)"."""
    if not (kind.startswith("DECIMAL(") and kind.endswith(")")):
        return None, None
    precision, _, scale = kind.removeprefix("DECIMAL(").removesuffix(")").partition(",")
    return int(precision), int(scale)
