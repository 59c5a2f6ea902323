"""The smallest possible query, beside psycopg and PostgreSQL on the same path."""

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
RATIO_MIN = 0.83  # at most 1.2 times its time


def latency(bench: Bench) -> None:
    peer = bench.peer(PostgreSQL)
    if not isinstance(peer, PostgreSQL):
        bench.report.note("SELECT 1 is not measured: PostgreSQL does not run")
        return
    client = bench.ours.client("latency_client.py")
    for place, via in (("Unix", False), ("TCP", True)):
        addresses = {
            "ours": bench.ours.address(Path(bench.ours.port) if via else None),
            "postgresql": peer.address(Path(peer.port) if via else None),
        }
        for statement, parameter in (("SELECT 1", False), ("SELECT ?", True)):
            medians: list[dict[str, float]] = []
            runs = bench.options.runs + RUNS_MORE
            for run in range(runs):
                progress(f"{statement}, {place}: run {run + 1} of {runs}")
                medians.append(client.ask(**addresses, repetitions=REPETITIONS, parameter=parameter))
            bench.report.add(
                Measurement(
                    f"{statement}, {place}: p50 of {REPETITIONS:,}",
                    [each["ours"] for each in medians],
                    {PEER: [each["postgresql"] for each in medians]},
                    None if parameter else Bar(ratio_min=RATIO_MIN, peer=PEER),
                )
            )
