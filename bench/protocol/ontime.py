"""A table shaped like the chapter's Airline On-Time Statistics: flights, 109 columns, 55.2 % NULLs.

What is taken from the public description: the 109 columns with their meaning and order; 17 are integers,
the rest decimals, strings (times of day are strings of four digits) and one date. Rows are sorted by month,
carrier, flight number and day, so a flight's airports and schedule repeat from row to row. What concerns
diversions is nearly always missing, and causes of delays are there only for late flights.

What is assumed: delays are normal with a tail, taxi times and durations vary around the route's; most rows
are from the years before tail numbers, taxi and air times and time blocks were reported, in such a share
that all NULLs together are 55.2 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

ROWS_PER_SCALE = 200_000
COLUMNS = 109
NULL_SHARE = 0.552
SEED = 1987

DETAILED_SHARE = 0.17
DAYS = 30
AIRPORTS = 320
STATES = 52
CARRIERS = ("AA", "AS", "CO", "DL", "EA", "HP", "NW", "PA", "PI", "PS", "TW", "UA", "US", "WN")
MINUTES = pa.decimal128(8, 2)


@dataclass
class Flights:
    """The schedule and the actual flights, with one element for each row."""

    random: np.random.Generator
    month: np.ndarray
    carrier: np.ndarray
    number: np.ndarray
    day: np.ndarray
    origin: np.ndarray
    destination: np.ndarray
    distance: np.ndarray
    planned_departure: np.ndarray  # minutes since midnight, as all times
    planned_minutes: np.ndarray
    flown: np.ndarray
    detailed: np.ndarray
    diverted: np.ndarray
    departure_delay: np.ndarray
    arrival_delay: np.ndarray

    def __len__(self) -> int:
        return len(self.day)


def ontime(scale: float) -> pa.Table:
    """Return the table at this scale; the same bytes every time."""
    flights = _flights(np.random.default_rng(SEED), max(1, round(ROWS_PER_SCALE * scale)))
    return pa.table(dict(_columns(flights)))


def _flights(random: np.random.Generator, rows: int) -> Flights:
    scheduled = rows // DAYS + 1
    month, carrier = random.integers(1, 13, scheduled), random.integers(0, len(CARRIERS), scheduled)
    number = random.integers(1, 6000, scheduled)
    order = np.lexsort((number, carrier, month))
    # Few airports have most of the flights.
    origin, destination = (AIRPORTS * random.random((2, scheduled)) ** 2).astype(np.int32)
    destination = np.where(origin == destination, (origin + 1) % AIRPORTS, destination)
    distance = 150 + (origin * 7919 + destination * 104_729) % 2400
    departure = random.integers(6 * 12, 23 * 12, scheduled) * 5
    duration = 40 + distance // 8

    def each_day(values: np.ndarray) -> np.ndarray:
        return np.repeat(values[order], DAYS)[:rows]

    flown = random.random(rows) > 0.02
    delay = np.round(
        random.normal(-1, 6, rows) + np.where(random.random(rows) < 0.2, random.exponential(35, rows), 0)
    )
    return Flights(
        random,
        month=each_day(month),
        carrier=each_day(carrier),
        number=each_day(number),
        day=np.tile(np.arange(1, DAYS + 1), scheduled)[:rows],
        origin=each_day(origin),
        destination=each_day(destination),
        distance=each_day(distance),
        planned_departure=each_day(departure),
        planned_minutes=each_day(duration),
        flown=flown,
        detailed=flown & (random.random(rows // 500 + 1) < DETAILED_SHARE).repeat(500)[:rows],
        diverted=flown & (random.random(rows) < 0.002),
        departure_delay=delay,
        arrival_delay=delay + np.round(random.normal(-2, 9, rows)),
    )


def _columns(flights: Flights) -> Iterator[tuple[str, pa.Array]]:
    yield from _when_and_who(flights)
    yield from _airport("origin", flights.origin)
    yield from _airport("dest", flights.destination)
    yield from _departure(flights)
    yield from _ground_and_arrival(flights)
    yield from _outcome(flights)
    yield from _diversions(flights)


def _when_and_who(flights: Flights) -> Iterator[tuple[str, pa.Array]]:
    date = np.array("1993-01", "M8[M]") + (flights.month - 1)
    date = date.astype("M8[D]") + np.minimum(flights.day, 28) - 1
    yield "year", pa.repeat(pa.scalar(1993, pa.int32()), len(flights))
    yield "quarter", _integers((flights.month + 2) // 3)
    yield "month", _integers(flights.month)
    yield "dayofmonth", _integers(np.minimum(flights.day, 28))
    yield "dayofweek", _integers((date.astype(np.int64) + 3) % 7 + 1)
    yield "flightdate", pa.array(date, pa.date32())
    yield "uniquecarrier", _chosen(CARRIERS, flights.carrier)
    yield "airlineid", _integers(19_386 + flights.carrier * 17)
    yield "carrier", _chosen(CARRIERS, flights.carrier)
    tails = [f"N{100 + number * 7 % 900}{CARRIERS[number % len(CARRIERS)]}" for number in range(2500)]
    tail = (flights.number * 31 + flights.day // 3) % len(tails)
    yield "tailnum", _chosen(tails, tail, flights.detailed)
    yield "flightnum", _chosen([str(number) for number in range(6000)], flights.number)


def _airport(prefix: str, airport: np.ndarray) -> Iterator[tuple[str, pa.Array]]:
    codes = [_letters(number * 89 + 1200) for number in range(AIRPORTS)]
    states = [_letters(number * 13 + 40)[1:] for number in range(STATES)]
    state = airport * 29 % STATES
    cities = [
        f"{_letters(n * 89 + 1200).title()}ville Falls, {states[n * 29 % STATES]}" for n in range(AIRPORTS)
    ]
    yield f"{prefix}airportid", _integers(10_135 + airport * 14)
    yield f"{prefix}airportseqid", _integers((10_135 + airport * 14) * 100 + 2)
    yield f"{prefix}citymarketid", _integers(30_070 + airport * 11)
    yield prefix, _chosen(codes, airport)
    yield f"{prefix}cityname", _chosen(cities, airport)
    yield f"{prefix}state", _chosen(states, state)
    yield f"{prefix}statefips", _integers(state + 1)
    yield f"{prefix}statename", _chosen([f"State of {text.title()}" for text in states], state)
    yield f"{prefix}wac", _integers(state + 11)


def _departure(flights: Flights) -> Iterator[tuple[str, pa.Array]]:
    yield "crsdeptime", _clock(flights.planned_departure)
    yield "deptime", _clock(flights.planned_departure + flights.departure_delay, flights.flown)
    yield from _delay("dep", flights.departure_delay, flights.flown)
    yield "deptimeblk", _block(flights.planned_departure, flights.detailed)


def _ground_and_arrival(flights: Flights) -> Iterator[tuple[str, pa.Array]]:
    taxi_out, taxi_in = (np.round(flights.random.gamma(shape, 3, len(flights))) + 2 for shape in (4, 2))
    off = flights.planned_departure + flights.departure_delay + taxi_out
    planned_arrival = flights.planned_departure + flights.planned_minutes
    arrival = planned_arrival + flights.arrival_delay
    yield "taxiout", _decimals(taxi_out, flights.detailed)
    yield "wheelsoff", _clock(off, flights.detailed)
    yield "wheelson", _clock(arrival - taxi_in, flights.detailed)
    yield "taxiin", _decimals(taxi_in, flights.detailed)
    yield "crsarrtime", _clock(planned_arrival)
    yield "arrtime", _clock(arrival, flights.flown)
    yield from _delay("arr", flights.arrival_delay, flights.flown)
    yield "arrtimeblk", _block(planned_arrival, flights.detailed)


def _outcome(flights: Flights) -> Iterator[tuple[str, pa.Array]]:
    random, rows = flights.random, len(flights)
    actual = np.maximum(flights.planned_minutes + flights.arrival_delay - flights.departure_delay, 20)
    yield "cancelled", _decimals(~flights.flown)
    reported = ~flights.flown & (random.random(rows) < DETAILED_SHARE)
    yield "cancellationcode", _chosen("ABCD", random.integers(0, 4, rows), reported)
    yield "diverted", _decimals(flights.diverted)
    yield "crselapsedtime", _decimals(flights.planned_minutes)
    yield "actualelapsedtime", _decimals(actual, flights.flown)
    yield "airtime", _decimals(np.maximum(actual - 18, 12), flights.detailed)
    yield "flights", _decimals(np.ones(rows))
    yield "distance", _decimals(flights.distance)
    yield "distancegroup", _integers(flights.distance // 250 + 1)
    late = flights.detailed & (flights.arrival_delay >= 15)
    for cause in ("carrier", "weather", "nas", "security", "lateaircraft"):
        share = random.integers(0, 4, rows) / 3
        yield f"{cause}delay", _decimals(np.round(flights.arrival_delay * share), late)
    returned = flights.detailed & (random.random(rows) < 0.006)
    yield "firstdeptime", _clock(flights.planned_departure + 5, returned)
    for name in ("totaladdgtime", "longestaddgtime"):
        yield name, _decimals(random.integers(5, 90, rows), returned)


def _diversions(flights: Flights) -> Iterator[tuple[str, pa.Array]]:
    random, rows = flights.random, len(flights)
    nobody = np.zeros(rows, bool)
    yield "divairportlandings", _decimals(flights.diverted, flights.detailed)
    for name in ("divreacheddest", "divactualelapsedtime", "divarrdelay", "divdistance"):
        yield name, _decimals(random.integers(0, 400, rows), flights.diverted)
    for number in range(1, 6):
        # A flight is diverted once, rarely twice, and hardly ever more often.
        landed = flights.diverted & (random.random(rows) < 0.04 ** (number - 1)) if number < 4 else nobody
        airport = random.integers(0, AIRPORTS, rows)
        clock = random.integers(0, 1440, rows)
        codes = [_letters(code * 89 + 1200) for code in range(AIRPORTS)]
        yield f"div{number}airport", _chosen(codes, airport, landed)
        yield f"div{number}airportid", _decimals(10_135 + airport * 14, landed)
        yield f"div{number}airportseqid", _decimals((10_135 + airport * 14) % 1000, landed)
        yield f"div{number}wheelson", _clock(clock, landed)
        yield f"div{number}totalgtime", _decimals(clock % 90, landed)
        yield f"div{number}longestgtime", _decimals(clock % 70, landed)
        yield f"div{number}wheelsoff", _clock(clock + 45, landed)
        yield f"div{number}tailnum", _chosen(codes, airport, landed)


def _delay(prefix: str, delay: np.ndarray, flown: np.ndarray) -> Iterator[tuple[str, pa.Array]]:
    yield f"{prefix}delay", _decimals(delay, flown)
    yield f"{prefix}delayminutes", _decimals(np.maximum(delay, 0), flown)
    yield f"{prefix}del15", _decimals(delay >= 15, flown)
    yield f"{prefix}delaygroups", _decimals(np.clip(delay // 15, -2, 12), flown)


def _clock(minutes: np.ndarray, present: np.ndarray | None = None) -> pa.Array:
    texts = [f"{minute // 60:02}{minute % 60:02}" for minute in range(1440)]
    return _chosen(texts, np.asarray(minutes, np.int64) % 1440, present)


def _block(minutes: np.ndarray, present: np.ndarray) -> pa.Array:
    return _chosen([f"{hour:02}00-{hour:02}59" for hour in range(24)], minutes // 60 % 24, present)


def _chosen(
    texts: list[str] | tuple[str, ...] | str, index: np.ndarray, present: np.ndarray | None = None
) -> pa.Array:
    mask = None if present is None else ~present
    return pa.array(list(texts)).take(pa.array(index.astype(np.int32), mask=mask))


def _integers(values: np.ndarray) -> pa.Array:
    return pa.array(values.astype(np.int32))


def _decimals(values: np.ndarray, present: np.ndarray | None = None) -> pa.Array:
    mask = None if present is None else ~present
    return pa.array(np.asarray(values, np.int32), mask=mask).cast(pa.decimal128(10, 0)).cast(MINUTES)


def _letters(number: int) -> str:
    """Return three capitals."""
    return "".join(chr(ord("A") + number // 26**place % 26) for place in (2, 1, 0))
