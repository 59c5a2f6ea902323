"""Appends lineitem from memory to a new, durable table: its bytes are synced when the call returns.

Each run is a process of its own, so that the growth of its peak memory is that of this work. Ours
and DuckDB take turns, and the disk is quiet before each.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import duckdb
import hypostyle
import pyarrow as pa

from dataset import directory, tpch
from measure import Bar, Measurement, Report, arguments, timed

# The rows per record batch of the source: as from a Parquet reader, and enough for two threads.
SOURCE_BATCH_ROWS = 131_072


def source_table(path: Path) -> pa.Table:
    """Return lineitem with the types of a user's table, in the memory of this process."""
    with hypostyle.connect(path, read_only=True) as connection:
        stored = connection.table("lineitem").arrow()
    schema = pa.schema([(field.name, _natural_type(field.type)) for field in stored.schema])
    return pa.Table.from_batches(stored.cast(schema).to_batches(max_chunksize=SOURCE_BATCH_ROWS))


def _natural_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_dictionary(kind) or pa.types.is_large_string(kind):
        return pa.string()
    return kind


def source_frame(table: pa.Table) -> Any:
    """Return the same as a usual pandas frame: float64 for decimals, datetime64 for dates."""
    fields = []
    for field in table.schema:
        kind = pa.float64() if pa.types.is_decimal(field.type) else field.type
        fields.append((field.name, pa.timestamp("us") if pa.types.is_date(kind) else kind))
    return table.cast(pa.schema(fields)).to_pandas()


def append_ours(path: Path, data: Any) -> None:
    with hypostyle.connect(path) as connection:
        connection.append("lineitem", data, create=True)


def append_duckdb(path: Path, data: Any) -> None:
    with duckdb.connect(path) as connection:
        connection.register("source", data)
        connection.execute("CREATE TABLE lineitem AS FROM source")
        connection.execute("CHECKPOINT")


def rows_stored(engine: str, path: Path) -> int:
    connect = hypostyle.connect if engine == "hypostyle" else duckdb.connect
    with connect(path, read_only=True) as connection:
        return connection.sql("SELECT count(*) FROM lineitem").fetchall()[0][0]


def resident_bytes(field: str) -> int:
    """Return `VmRSS`, the resident memory, or `VmHWM`, its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"the kernel does not tell {field}")


def worker(engine: str, kind: str, source: Path, target: Path) -> None:
    """Run once in a process of its own; print seconds and growth of peak memory as JSON."""
    with pa.OSFile(str(source)) as file:
        data: Any = pa.ipc.open_stream(file).read_all()
    rows = data.num_rows
    if kind == "pandas":
        data = source_frame(data)
    append = append_ours if engine == "hypostyle" else append_duckdb
    os.sync()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from what is resident now
    before = resident_bytes("VmRSS")
    seconds, _ = timed(append, target, data)
    growth = resident_bytes("VmHWM") - before
    stored = rows_stored(engine, target)
    if stored != rows:
        raise RuntimeError(f"{engine} stored {stored} rows of {rows}")
    print(json.dumps({"seconds": seconds, "bytes": growth}))


def run_worker(engine: str, kind: str, source: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=source.parent) as scratch:
        command = [sys.executable, __file__, "worker", engine, kind, str(source), f"{scratch}/target"]
        completed = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(completed.stdout)


def write_source(options: Namespace) -> Path:
    """Write the Arrow stream that every worker reads into its memory first."""
    dataset = tpch(options.sf, options.fresh)
    path = directory(options.sf) / "lineitem.arrows"
    if not path.exists():
        table = source_table(dataset.hypostyle)
        unfinished = path.with_suffix(".unfinished")
        with pa.OSFile(str(unfinished), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
        unfinished.rename(path)
    return path


def main(options: Namespace) -> None:
    source = write_source(options)
    report = Report("append", options)
    for kind, bar in (("Arrow", Bar(ratio_min=3)), ("pandas", None)):
        runs: dict[str, list[dict[str, float]]] = {"hypostyle": [], "duckdb": []}
        for engine in runs:
            run_worker(engine, kind, source)
        for _ in range(options.runs):
            for engine, samples in runs.items():
                samples.append(run_worker(engine, kind, source))
        for what, unit, limit in (("time", "seconds", bar), ("growth of peak memory", "bytes", None)):
            ours, peer = ([run[unit] for run in samples] for samples in runs.values())
            report.add(
                Measurement(
                    f"{kind} → durable table, {what}",
                    ours,
                    {"DuckDB": peer},
                    limit,
                    "bytes" if unit == "bytes" else "s",
                )
            )
    disk = shutil.disk_usage(source.parent)
    report.note(
        f"source {source.stat().st_size / 1e6:.0f} MB as an Arrow stream; disk {disk.free / 1e9:.0f} GB free"
    )
    report.write()


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2], sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5]))
    else:
        main(arguments(__doc__))
