"""Values of time that Python's standard library has no class or no direct name for."""

import datetime
import functools
import re
import zoneinfo
from dataclasses import dataclass

_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """A SQL INTERVAL that `datetime.timedelta` cannot hold.

    Months, days and nanoseconds are counted apart, because a month has no fixed number of days, and
    a day none of hours. Usable as a parameter and as a value to append.
    """

    months: int = 0
    days: int = 0
    nanoseconds: int = 0


@functools.cache
def time_zone(name: str) -> datetime.tzinfo:
    """The time zone of an Arrow name: "UTC", "Europe/Rome" or an offset such as "+02:00"."""
    if name in ("UTC", "Z", "Etc/UTC"):
        return datetime.UTC
    if match := _OFFSET.fullmatch(name):
        sign, hours, minutes = match.groups()
        offset = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        return datetime.timezone(-offset if sign == "-" else offset)
    return zoneinfo.ZoneInfo(name)
