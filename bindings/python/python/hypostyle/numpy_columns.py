"""Results as NumPy arrays, each converted on first access."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from hypostyle import _native, errors
from hypostyle.optional import require

Decimals = Literal["float", "int", "object"]
Strings = Literal["numpy", "object"]

_PENDING = object()


class Columns(dict[str, Any]):
    """A dict from column name to NumPy array that converts a column when it is first needed.

    Numbers and timestamps of a stored table are copy-on-write mappings: writing to them changes
    neither the database nor another result. Many threads may use it.
    """

    def __init__(self, names: list[str], load: Callable[[int], Any], threads: int) -> None:
        super().__init__(dict.fromkeys(names, _PENDING))
        self._load = {name: index for index, name in enumerate(names)}
        self._loader = load
        self._locks = {name: threading.Lock() for name in names}
        self._threads = threads

    def materialize(self) -> "Columns":
        """Convert all columns now, several at a time; return self."""
        with ThreadPoolExecutor(self._threads) as pool:
            for _ in pool.map(self.__getitem__, list(self)):
                pass
        return self

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if value is not _PENDING:
            return value
        with self._locks[name]:
            value = super().__getitem__(name)
            if value is _PENDING:
                value = self._loader(self._load[name])
                super().__setitem__(name, value)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - `self.get` is this method

    def values(self) -> Any:  # a list, where dict has a view: the arrays do not change
        return [self[name] for name in self]

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def pop(self, name: str, *default: Any) -> Any:
        if name in self:
            value = self[name]
            del self[name]
            return value
        return super().pop(name, *default)

    def popitem(self) -> tuple[str, Any]:
        if not self:
            raise KeyError("there are no columns")
        name = list(self)[-1]
        return name, self.pop(name)

    def setdefault(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else super().setdefault(name, default)

    def copy(self) -> dict[str, Any]:
        """Return an ordinary dict of all columns."""
        return dict(self.items())

    # Overriding this also keeps dict(columns) and {**columns} from reading past __getitem__.
    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def __or__(self, other: Any) -> Any:
        return self.copy() | dict(other.items())

    def __ror__(self, other: Any) -> Any:
        return dict(other.items()) | self.copy()

    def __eq__(self, other: object) -> bool:
        return self.copy() == (other.copy() if isinstance(other, Columns) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return dict, (self.copy(),)

    def __copy__(self) -> dict[str, Any]:
        return self.copy()

    def __repr__(self) -> str:
        pending = sum(1 for value in super().values() if value is _PENDING)
        return f"<{len(self)} columns, {pending} not converted yet: {', '.join(self)}>"


def check_options(decimals: str, strings: str) -> None:
    """Raise DataError for an option that does not exist."""
    if decimals not in ("float", "int", "object"):
        raise errors.DataError(f"decimals is {decimals!r}, but must be 'float', 'int' or 'object'")
    if strings not in ("numpy", "object"):
        raise errors.DataError(f"strings is {strings!r}, but must be 'numpy' or 'object'")


def to_numpy(column: _native.Column, decimals: Decimals = "float", strings: Strings = "numpy") -> Any:
    """Return the NumPy array of a private column; the table in README.md lists the dtypes."""
    np = require("numpy", "fetchnumpy()")
    kind = column.kind
    if kind in ("string", "dictionary") and strings == "numpy":
        dtype = np.dtypes.StringDType(na_object=np.nan) if column.null_count else np.dtypes.StringDType()
        array = np.empty(len(column), dtype)
        column.pack_strings(array.ctypes.data, array.itemsize, array.dtype)
        return array
    parts = None if kind == "decimal" and decimals == "object" else column.numpy(decimals == "int")
    if parts is None:
        values: Iterable[Any] = column.objects()
        if kind == "decimal" and decimals == "int":
            values = (None if value is None else int(f"{value:f}".replace(".", "")) for value in values)
        return np.fromiter(values, dtype=object, count=len(column))
    dtype_name, memory, mask, width = parts
    array = over(memory, dtype_name)
    if mask is not None:
        return np.ma.MaskedArray(array, mask=np.frombuffer(mask, dtype=np.bool_), copy=False)
    return array.reshape(len(column), width) if kind == "vector" else array


def over(memory: _native.WritableBuffer, dtype: str) -> Any:
    """Return an array over the memory; NumPy does not take empty memory."""
    np = require("numpy", "an array")
    return np.frombuffer(memory, dtype=dtype) if len(memory) else np.empty(0, dtype)
