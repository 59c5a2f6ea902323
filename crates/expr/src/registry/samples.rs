//! Functions of all types that are told by their parameters.

use arrow::array::{
    Array, ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    IntervalMonthDayNanoArray, StringArray, StructArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use serde_json::{Value, json};
use std::sync::Arc;

/// A function: its name, its encoding, arguments, and what it makes of them.
type Sample = (&'static str, Value, Vec<ColumnarValue>, &'static str);

pub(super) fn made(tag: &str, parameters: Value) -> Value {
    json!({"made": {"tag": tag, "parameters": parameters}})
}

pub(super) fn named(origin: &str, name: &str) -> Value {
    json!({"named": {"origin": origin, "name": name}})
}

pub(super) fn ordered(origin: &str, name: &str, is_ordered: bool) -> Value {
    json!({"named": {"origin": origin, "name": name, "is_ordered": is_ordered}})
}

fn column(values: impl Array + 'static) -> ColumnarValue {
    ColumnarValue::Array(Arc::new(values))
}

fn integers(values: &[i64]) -> ColumnarValue {
    column(Int64Array::from(values.to_vec()))
}

fn dates(values: &[i32]) -> ColumnarValue {
    column(Date32Array::from(values.to_vec()))
}

fn texts(values: &[&str]) -> ColumnarValue {
    column(StringArray::from(values.to_vec()))
}

fn decimals(values: &[i128]) -> ColumnarValue {
    column(Decimal128Array::from(values.to_vec()).with_precision_and_scale(10, 2).unwrap())
}

fn interval(months: i32, days: i32, nanoseconds: i64) -> ColumnarValue {
    column(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(months, days, nanoseconds)]))
}

fn moment(microseconds: i64) -> TimestampMicrosecondArray {
    TimestampMicrosecondArray::from(vec![microseconds])
}

const HOUR: i64 = 3_600_000_000;

fn years(values: &[i32]) -> ColumnarValue {
    column(Int32Array::from(values.to_vec()))
}

/// Returns functions of each type of scalar ones, with some of their parameters.
pub(super) fn scalar_samples() -> Vec<Sample> {
    [of_numbers(), of_texts(), of_times(), of_others()].concat()
}

fn of_texts() -> Vec<Sample> {
    vec![("json_key", made("json_key", json!(null)), vec![texts(&["true", "[]"])], "0401, 00")]
}

fn of_numbers() -> Vec<Sample> {
    let numbers = || vec![integers(&[1, -2]), integers(&[3, 4])];
    vec![
        ("checked_add", made("arithmetic", json!("checked_add")), numbers(), "4, 2"),
        ("checked_subtract", made("arithmetic", json!("checked_subtract")), numbers(), "-2, -6"),
        ("divide", made("arithmetic", json!("divide")), vec![decimals(&[100]), integers(&[8])], "0.125"),
        (
            "chain",
            made("chain", json!([["+", true], ["-", false]])),
            vec![integers(&[10]), integers(&[1]), integers(&[100])],
            "89",
        ),
        ("chain", made("chain", json!([["-", true]])), vec![integers(&[10]), integers(&[1])], "9"),
        ("chain", made("chain", json!([["-", false]])), vec![integers(&[10]), integers(&[1])], "-9"),
        ("checked_negative", made("negated", json!(null)), vec![integers(&[1, -2])], "-1, 2"),
        ("one_nan", made("one_nan", json!(null)), vec![column(Float64Array::from(vec![-f64::NAN]))], "NaN"),
        ("floor", made("rounding", json!(["floor", 1])), vec![decimals(&[129])], "1.2"),
        ("ceil", made("rounding", json!(["ceil", 0])), vec![decimals(&[129])], "2"),
        ("round", made("rounding", json!(["round", null])), vec![decimals(&[129]), integers(&[1])], "1.30"),
    ]
}

fn of_times() -> Vec<Sample> {
    let zone = || ColumnarValue::Scalar(ScalarValue::from("Europe/Amsterdam"));
    let zoned = || column(moment(0).with_timezone("UTC"));
    let within = || {
        let field = Field::new("a", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true);
        let late = Arc::new(moment(23 * HOUR + HOUR / 2).with_timezone("UTC")) as ArrayRef;
        column(StructArray::from(vec![(Arc::new(field), late)]))
    };
    let dates_within = |is_safe: bool| {
        let fields = json!([{"name": "a", "type": {"plain": "Date32"}, "nullable": true}]);
        made("cast_in_zone", json!([{"name": "", "type": {"struct": fields}, "nullable": true}, is_safe]))
    };
    vec![
        ("cast_within", dates_within(false), vec![zone(), within()], "{a: 1970-01-02}"),
        ("try_cast_within", dates_within(true), vec![zone(), within()], "{a: 1970-01-02}"),
        (
            "time_difference",
            made("time_difference", json!(null)),
            vec![column(moment(25 * HOUR)), column(moment(0))],
            "1 days 1 hours",
        ),
        ("interval_length", made("interval_length", json!(null)), vec![interval(0, 1, 5)], "86400000000005"),
        ("interval_part", made("interval_part", json!(["month"])), vec![interval(14, 0, 0)], "2"),
        ("interval_part", made("interval_part", json!(["epoch"])), vec![interval(0, 1, 0)], "86400.0"),
        ("century_of_year", made("part_of_year", json!(["century"])), vec![years(&[2001])], "21"),
        ("decade_of_year", made("part_of_year", json!(["decade"])), vec![years(&[2001])], "200"),
        (
            "interval_scaled",
            made("interval_scaled", json!([false])),
            vec![interval(2, 0, 0), column(Float64Array::from(vec![2.0]))],
            "4 mons",
        ),
        (
            "interval_quotient",
            made("interval_scaled", json!([true])),
            vec![interval(2, 0, 0), column(Float64Array::from(vec![2.0]))],
            "1 mons",
        ),
        (
            "plus_within",
            made("shift_in_zone", json!([false])),
            vec![zone(), zoned(), interval(0, 1, 0)],
            "1970-01-02T00:00:00Z",
        ),
        (
            "minus_within",
            made("shift_in_zone", json!([true])),
            vec![zone(), zoned(), interval(0, 1, 0)],
            "1969-12-31T00:00:00Z",
        ),
        ("date_plus", made("days_later", json!([true])), vec![dates(&[1]), integers(&[2])], "1970-01-04"),
        ("date_minus", made("days_later", json!([false])), vec![dates(&[1]), integers(&[2])], "1969-12-31"),
        (
            "time_plus",
            made("time_moved", json!([true])),
            vec![column(Time64MicrosecondArray::from(vec![HOUR])), interval(0, 0, HOUR * 1000)],
            "02:00:00",
        ),
        (
            "time_minus",
            made("time_moved", json!([false])),
            vec![column(Time64MicrosecondArray::from(vec![HOUR])), interval(0, 0, HOUR * 1000)],
            "00:00:00",
        ),
    ]
}

fn of_others() -> Vec<Sample> {
    let cast_to = |plain: &str, is_safe: bool| {
        made("cast", json!([{"name": "", "type": {"plain": plain}, "nullable": true}, is_safe]))
    };
    let list = json!({"large_list": {"name": "item", "type": {"plain": "Int64"}, "nullable": true,
        "metadata": {"a": "b"}}});
    let row = StructArray::from(vec![(
        Arc::new(Field::new("a", DataType::Int64, true)),
        Arc::new(Int64Array::from(vec![7, 8])) as ArrayRef,
    )]);
    vec![
        (
            "beside_key",
            made("beside_key", json!(null)),
            vec![integers(&[1]), integers(&[2])],
            "{key: 1, value: 2}",
        ),
        (
            "regexp_like",
            made("bounded", named("data_fusion", "regexp_like")),
            vec![texts(&["ab", "c"]), texts(&["a.", "x"])],
            "true, false",
        ),
        (
            "||",
            made("bounded", made("joined_texts", json!(null))),
            vec![texts(&["a", "c"]), texts(&["b", "d"])],
            "ab, cd",
        ),
        ("||", made("joined_texts", json!(null)), vec![texts(&["a"]), texts(&["b"])], "ab"),
        (
            "greatest_by_key",
            made("extreme", json!(true)),
            vec![integers(&[1]), integers(&[5]), integers(&[9]), integers(&[2])],
            "1",
        ),
        (
            "least_by_key",
            made("extreme", json!(false)),
            vec![integers(&[1]), integers(&[5]), integers(&[9]), integers(&[2])],
            "5",
        ),
        (
            "get_field",
            made("field", named("registered", "get_field")),
            vec![column(row), ColumnarValue::Scalar(ScalarValue::from("a"))],
            "7, 8",
        ),
        ("nested_key", made("nested_key", json!(null)), vec![integers(&[1])], "018000000000000001"),
        ("cast", cast_to("Int32", false), vec![texts(&["12", "-3"])], "12, -3"),
        ("try_cast", cast_to("Int32", true), vec![texts(&["12", "x"])], "12, "),
        ("cast", cast_to("Date32", false), vec![texts(&["2024-02-29"])], "2024-02-29"),
        (
            "cast",
            made("cast", json!([{"name": "l", "type": list, "nullable": false}, false])),
            vec![texts(&["[1, 2]"])],
            "[1, 2]",
        ),
        (
            "typed",
            made(
                "typed",
                json!({"name": "", "type": {"plain": "Utf8"}, "nullable": true,
                "metadata": {"ARROW:extension:name": "arrow.json"}}),
            ),
            vec![texts(&["[1]"])],
            "[1]",
        ),
    ]
}

/// Returns functions of each type of aggregates: their names, and their encodings.
pub(super) fn aggregate_samples() -> Vec<(&'static str, Value)> {
    vec![
        ("array_agg", made("asking", json!([named("registered", "array_agg"), false]))),
        ("array_agg", made("asking", json!([ordered("registered", "array_agg", true), false]))),
        ("count", made("asking", json!([named("registered", "count"), false]))),
        ("first_value", made("asking", json!([named("data_fusion", "first_value"), false]))),
        ("max", made("float_extreme", json!(true))),
        ("min", made("float_extreme", json!(false))),
        ("string_agg", made("asking", json!([named("registered", "string_agg"), true]))),
        ("sum", made("asking", json!([named("registered", "sum"), false]))),
        ("sum", made("asking", json!([named("data_fusion", "sum"), false]))),
    ]
}
