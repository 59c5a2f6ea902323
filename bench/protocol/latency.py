"""The smallest possible query, beside psycopg and PostgreSQL on the same path; and a row of PostgreSQL by our
client, in columns and in rows.
"""

from __future__ import annotations

from measure import Bar, Measurement
from protocol.bench import Bench, progress
from protocol.networks import Path
from protocol.peers.postgresql import PostgreSQL

REPETITIONS = 1000
# A scheduler keeps the two ends of a connection on one core or on two: each run has new
# connections.
RUNS_MORE = 8
PEER = "psycopg"
# The bars: at most 1.2 times the peer's time, no more than it, and none.
QUERIES = {"SELECT 1": 0.83, "SELECT ?": 1.0, "a row by its key": None}
# A result in columns takes at most 1.5 times as long as the same by a plain SELECT.
COLUMNS_RATIO = 0.67
PLAIN = "plain SELECT"


def latency(bench: Bench) -> None:
    peer = bench.peer(PostgreSQL)
    if not isinstance(peer, PostgreSQL):
        bench.report.note("SELECT 1 is not measured: PostgreSQL does not run")
        return
    _small_results(bench, peer)
    client = bench.ours.client("latency_client.py")
    for place, via in (("Unix", False), ("TCP", True)):
        addresses = {
            "ours": bench.ours.address(Path(bench.ours.port) if via else None),
            "postgresql": peer.address(Path(peer.port) if via else None),
        }
        for query, ratio_min in QUERIES.items():
            medians: list[dict[str, float]] = []
            runs = bench.options.runs + RUNS_MORE
            for run in range(runs):
                progress(f"{query}, {place}: run {run + 1} of {runs}")
                medians.append(client.ask(**addresses, repetitions=REPETITIONS, query=query))
            bench.report.add(
                Measurement(
                    f"{query}, {place}: p50 of {REPETITIONS:,}",
                    [each["ours"] for each in medians],
                    {PEER: [each["postgresql"] for each in medians]},
                    ratio_min and Bar(ratio_min=ratio_min, peer=PEER),
                )
            )


def _small_results(bench: Bench, peer: PostgreSQL) -> None:
    """Measure one row by its key, which PostgreSQL sends our client in columns, and in rows."""
    client = peer.client("small_results_client.py")
    for place, path in (("Unix", None), ("TCP", Path(peer.port))):
        medians: list[dict[str, float]] = []
        for run in range(bench.options.runs + RUNS_MORE):
            progress(f"PostgreSQL++, a row by its key, {place}: run {run + 1}")
            addresses = {
                "columns": peer.url(path, "transfer=columns"),
                "rows": peer.url(path, "transfer=rows"),
                "psycopg": peer.address(path),
            }
            medians.append(client.ask(**addresses, repetitions=REPETITIONS))
        samples = {name: [each[name] for each in medians] for name in ("columns", "rows", PEER)}
        bench.report.add(
            Measurement(
                f"PostgreSQL++, a row by its key, {place}: p50",
                samples["columns"],
                {PLAIN: samples["rows"], PEER: samples[PEER]},
                Bar(ratio_min=COLUMNS_RATIO, peer=PLAIN),
            )
        )
