//! Intervals whose parts are brought below a day and a month, as in PostgreSQL.

use crate::builtin::written::{Described, Kind};
use crate::interval::INTERVAL;
use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::error::Result;
use hypostyle_error::external;
use hypostyle_types::{DAY_MICROSECONDS, Error};
use std::sync::Arc;

const DAY_NANOSECONDS: i64 = DAY_MICROSECONDS * 1000;
const MONTH_DAYS: i64 = 30;

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(&["justify_hours"], &[Kind::Interval], interval, |args, _| each(&args[0], Parts::hours)),
    Described::new(&["justify_days"], &[Kind::Interval], interval, |args, _| each(&args[0], Parts::days)),
    Described::new(&["justify_interval"], &[Kind::Interval], interval, |args, _| each(&args[0], Parts::all)),
];

fn interval(_: &[DataType]) -> Result<DataType> {
    Ok(INTERVAL)
}

/// The parts of an interval, with room for what is carried over.
struct Parts {
    months: i64,
    days: i64,
    nanoseconds: i64,
}

fn each(intervals: &ArrayRef, justify: fn(&mut Parts)) -> Result<ArrayRef> {
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
    let justified = intervals.map(|interval| {
        let Some(IntervalMonthDayNano { months, days, nanoseconds }) = interval else { return Ok(None) };
        let mut parts = Parts { months: months.into(), days: days.into(), nanoseconds };
        justify(&mut parts);
        match (i32::try_from(parts.months), i32::try_from(parts.days)) {
            (Ok(months), Ok(days)) => Ok(Some(IntervalMonthDayNano::new(months, days, parts.nanoseconds))),
            _ => Err(external(Error::invalid_input("interval out of range").with_sqlstate("22008"))),
        }
    });
    Ok(Arc::new(justified.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

impl Parts {
    /// Makes days of 24 hours.
    fn hours(&mut self) {
        self.carry_hours();
        self.same_sign_below_days();
    }

    /// Makes months of 30 days.
    fn days(&mut self) {
        self.carry_days();
        if self.months > 0 && self.days < 0 {
            (self.days, self.months) = (self.days + MONTH_DAYS, self.months - 1);
        } else if self.months < 0 && self.days > 0 {
            (self.days, self.months) = (self.days - MONTH_DAYS, self.months + 1);
        }
    }

    /// Does both, and gives all parts one sign.
    fn all(&mut self) {
        self.carry_hours();
        self.carry_days();
        let rest = (self.days, self.nanoseconds);
        if self.months > 0 && rest < (0, 0) {
            (self.days, self.months) = (self.days + MONTH_DAYS, self.months - 1);
        } else if self.months < 0 && rest > (0, 0) {
            (self.days, self.months) = (self.days - MONTH_DAYS, self.months + 1);
        }
        self.same_sign_below_days();
    }

    fn carry_hours(&mut self) {
        self.days += self.nanoseconds / DAY_NANOSECONDS;
        self.nanoseconds %= DAY_NANOSECONDS;
    }

    fn carry_days(&mut self) {
        self.months += self.days / MONTH_DAYS;
        self.days %= MONTH_DAYS;
    }

    fn same_sign_below_days(&mut self) {
        if self.days > 0 && self.nanoseconds < 0 {
            (self.nanoseconds, self.days) = (self.nanoseconds + DAY_NANOSECONDS, self.days - 1);
        } else if self.days < 0 && self.nanoseconds > 0 {
            (self.nanoseconds, self.days) = (self.nanoseconds - DAY_NANOSECONDS, self.days + 1);
        }
    }
}
