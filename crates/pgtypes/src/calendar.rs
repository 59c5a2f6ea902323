//! Dates and times of day as PostgreSQL writes them (`DateStyle` ISO), and the days between our
//! epoch and its own.

use bytes::BytesMut;
use hypostyle_types::{ClockText, DAY_MICROSECONDS, DateText, MomentText};
use std::fmt::{Display, Write};

/// The days from 1970-01-01 to 2000-01-01.
pub const EPOCH_DAYS: i32 = 10_957;
pub const EPOCH_MICROSECONDS: i64 = EPOCH_DAYS as i64 * DAY_MICROSECONDS;

fn put(out: &mut BytesMut, text: impl Display) {
    // A buffer in memory takes everything.
    let _never_fails = write!(out, "{text}");
}

pub fn put_date(out: &mut BytesMut, days: i32) {
    put(out, DateText(days.into()));
}

/// Writes the time of a day.
pub fn put_time(out: &mut BytesMut, microseconds: i64) {
    put(out, ClockText(microseconds.saturating_mul(1000)));
}

/// A timestamp; with the seconds that its zone is ahead of UTC where it has one.
pub fn put_timestamp(out: &mut BytesMut, microseconds: i64, offset: Option<i64>) {
    put(out, moment(microseconds, offset));
}

/// The same in the form that JSON has.
pub fn put_json_timestamp(out: &mut BytesMut, microseconds: i64, offset: Option<i64>) {
    put(out, format_args!("{:#}", moment(microseconds, offset)));
}

fn moment(microseconds: i64, offset: Option<i64>) -> MomentText {
    let local = microseconds.saturating_add(offset.unwrap_or(0) * 1_000_000);
    let (days, time) = (local.div_euclid(DAY_MICROSECONDS), local.rem_euclid(DAY_MICROSECONDS));
    MomentText { days, nanoseconds: time * 1000, ahead: offset }
}
