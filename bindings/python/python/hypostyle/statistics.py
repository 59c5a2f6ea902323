"""How a result came from a server: the codecs, the bytes, and the times."""

from dataclasses import dataclass

from hypostyle import _native


@dataclass(frozen=True)
class TransferStatistics:
    """The statistics of one result, until now; times are in seconds.

    Of a mapping of the server's columns only the descriptors have come, so that it has no bytes.
    """

    rows: int
    raw_bytes: int
    """Bytes of the chunks before codecs."""
    sent_bytes: int
    """Bytes of the chunks on the wire or in memory files."""
    execute: float
    """Until the server had the first row."""
    encode: float
    """Encoding, by all of the server's threads together."""
    send: float
    """In the server's socket: what the network and the client cost."""
    wait: float
    """Waiting for the client to take what was sent."""
    decode: float
    """Decoding, by all of the client's threads together."""
    mapped: bool
    """Whether the result is a mapping of the server's files."""
    codecs: dict[str, dict[str, int]]
    """For each column how many chunks came in which codec."""

    def __str__(self) -> str:
        if self.mapped:
            return f"{self.rows:,} rows in mapped files of the server; first row after {self.execute:.4f} s"
        ratio = self.raw_bytes / self.sent_bytes if self.sent_bytes else 1.0
        lines = [
            f"{self.rows:,} rows, {self.raw_bytes:,} bytes sent as {self.sent_bytes:,} ({ratio:.1f} to 1)",
            f"first row after {self.execute:.4f} s, encode {self.encode:.4f} s, send {self.send:.4f} s, "
            f"wait {self.wait:.4f} s, decode {self.decode:.4f} s",
        ]
        for column, codecs in self.codecs.items():
            chosen = ", ".join(f"{codec} ×{chunks}" for codec, chunks in codecs.items())
            lines.append(f"  {column}: {chosen}")
        return "\n".join(lines)


def of(native: _native.QueryResult, names: list[str]) -> TransferStatistics | None:
    """Return the statistics of a result with columns of these names; `None` without a transfer."""
    found = native.statistics
    if found is None:
        return None
    rows, raw_bytes, sent_bytes, (execute, encode, send, wait, decode), mapped, chosen = found
    codecs: dict[str, dict[str, int]] = {}
    for column, codec, chunks in chosen:
        codecs.setdefault(names[column], {})[codec] = chunks
    return TransferStatistics(
        rows, raw_bytes, sent_bytes, execute, encode, send, wait, decode, mapped, codecs
    )
