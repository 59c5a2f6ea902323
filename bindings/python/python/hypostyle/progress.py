"""The progress of a statement, for progress bars."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """The progress of the running statement, or of the last one when it ended; in seconds.

    While a statement is computed, the rows are those that it has processed (for BACKUP, bytes).
    Once its result comes from a server, they are the rows that have come, counted from zero. Their
    total is known in advance for stored tables and short results. Another result is sent while it
    is computed, and the progress is that of the computation until it is over.
    """

    done: int
    """Rows."""
    total: int | None
    """Rows in all; `None` where that is not known. At a good end it is `done`."""
    elapsed: float
    """Since the statement began, until its end."""
    remaining: float | None
    """An estimate, by the speed up to now; 0 at a good end, `None` where nothing tells."""
    receiving: bool
    """Whether the rows are those of a result that comes from a server."""
    running: bool
    """False once its last row has come, it has failed, or its result was let go."""

    @property
    def fraction(self) -> float | None:
        """The share that is done, from 0 to 1; `None` if the total is not known."""
        if self.total is None:
            return None
        return min(self.done / self.total, 1.0) if self.total else 1.0

    def __str__(self) -> str:
        share = "" if self.fraction is None else f"{self.fraction:.0%}  "
        total = "" if self.total is None else f" of {self.total:,}"
        left = "" if self.remaining is None else f", about {self.remaining:.1f} s left"
        return f"{share}{self.done:,}{total} rows, {self.elapsed:.1f} s{left if self.running else ''}"
