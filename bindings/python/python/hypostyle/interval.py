"""Values of time for which Python's standard library has no class or no direct name."""

import datetime
import functools
import re
import zoneinfo
from dataclasses import dataclass

from hypostyle import errors

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{2}):?(\d{2})")


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """A SQL INTERVAL that `datetime.timedelta` cannot hold.

    Months, days and nanoseconds are counted separately, because a month has no fixed number of
    days, and a day has no fixed number of hours. It can be a parameter and a value to append.
    """

    months: int = 0
    days: int = 0
    nanoseconds: int = 0


@functools.cache
def time_zone(name: str) -> datetime.tzinfo:
    """Return the time zone of an Arrow name: "UTC", "Europe/Rome" or an offset such as "+02:00".

    Raises:
        DataError: there is no such zone. Files have any names.
    """
    try:
        return _zone(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise errors.DataError(
            f'a column has the time zone "{name}", which Python does not know; '
            "CAST it to TIMESTAMPTZ or to text"
        ) from error


def _zone(name: str) -> datetime.tzinfo:
    if name in ("UTC", "Z", "Etc/UTC"):
        return datetime.UTC
    if match := _OFFSET.fullmatch(name):
        sign, hours, minutes = match.groups()
        offset = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        return datetime.timezone(-offset if sign == "-" else offset)
    return zoneinfo.ZoneInfo(name)


def zone_name(zone: datetime.tzinfo) -> str | None:
    """Return the Arrow name of a zone; `None` for dateutil's rules or offsets with seconds."""
    # A zoneinfo object has a key, a pytz object has a zone.
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if name:
        return str(name)
    offset = zone.utcoffset(None)
    if offset is None or offset % datetime.timedelta(minutes=1):
        return None
    if not offset:
        return "UTC"
    minutes = abs(offset) // datetime.timedelta(minutes=1)
    return f"{'-' if offset.days < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
