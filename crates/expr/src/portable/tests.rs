use super::*;
use crate::meter::{Ledger, Meter};
use crate::portable::entry::Way;
use crate::portable::table::TABLE;
use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, StringArray,
    StructArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalMonthDayNano};
use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, HigherOrderUDF, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, WindowUDF, create_udaf,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

fn functions() -> Functions {
    functions_in("UTC")
}

fn functions_in(time_zone: &str) -> Functions {
    let mut config = ConfigOptions::default();
    config.execution.time_zone = Some(time_zone.into());
    Functions::new(&config, &Meter::new(&Ledger::new(1 << 30)), &[]).unwrap()
}

/// Encodes a function, decodes it, and checks that it is the same, and encoded alike.
fn round_trip<K: Kind + std::fmt::Debug>(functions: &Functions, function: &K) -> Arc<K> {
    let bytes = functions.encode(function).unwrap();
    let decoded = functions.decode::<K>(function.name(), &bytes).unwrap();
    assert_eq!(*decoded, *function);
    assert_eq!(functions.encode(decoded.as_ref()).unwrap(), bytes);
    decoded
}

fn made(tag: &str, parameters: Value) -> Value {
    json!({"made": {"tag": tag, "parameters": parameters}})
}

fn named(origin: &str, name: &str) -> Value {
    json!({"named": {"origin": origin, "name": name}})
}

fn ordered(origin: &str, name: &str, is_ordered: bool) -> Value {
    json!({"named": {"origin": origin, "name": name, "is_ordered": is_ordered}})
}

fn column(values: impl arrow::array::Array + 'static) -> ColumnarValue {
    ColumnarValue::Array(Arc::new(values))
}

fn integers(values: &[i64]) -> ColumnarValue {
    column(Int64Array::from(values.to_vec()))
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

/// A function of each type that is told by its parameters, with some of these: its name, its
/// encoding, arguments, and what it makes of them.
fn scalar_samples() -> Vec<(&'static str, Value, Vec<ColumnarValue>, &'static str)> {
    let numbers = || vec![integers(&[1, -2]), integers(&[3, 4])];
    let cast_to = |plain: &str, is_safe: bool| {
        made("cast", json!([{"name": "", "type": {"plain": plain}, "nullable": true}, is_safe]))
    };
    let list = json!({"large_list": {"name": "item", "type": {"plain": "Int64"}, "nullable": true,
        "metadata": {"a": "b"}}});
    let row = StructArray::from(vec![(
        Arc::new(Field::new("a", DataType::Int64, true)),
        Arc::new(Int64Array::from(vec![7, 8])) as ArrayRef,
    )]);
    let zone = || ColumnarValue::Scalar(ScalarValue::from("Europe/Amsterdam"));
    let zoned = || column(moment(0).with_timezone("UTC"));
    vec![
        ("checked_add", made("arithmetic", json!("checked_add")), numbers(), "4, 2"),
        ("checked_subtract", made("arithmetic", json!("checked_subtract")), numbers(), "-2, -6"),
        ("divide", made("arithmetic", json!("divide")), vec![decimals(&[100]), integers(&[8])], "0.125"),
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
            "chain",
            made("chain", json!([["+", true], ["-", false]])),
            vec![integers(&[10]), integers(&[1]), integers(&[100])],
            "89",
        ),
        ("chain", made("chain", json!([["-", true]])), vec![integers(&[10]), integers(&[1])], "9"),
        ("chain", made("chain", json!([["-", false]])), vec![integers(&[10]), integers(&[1])], "-9"),
        (
            "time_difference",
            made("time_difference", json!(null)),
            vec![column(moment(25 * HOUR)), column(moment(0))],
            "1 days 1 hours",
        ),
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
        ("interval_length", made("interval_length", json!(null)), vec![interval(0, 1, 5)], "86400000000005"),
        ("interval_part", made("interval_part", json!(["month"])), vec![interval(14, 0, 0)], "2"),
        ("interval_part", made("interval_part", json!(["epoch"])), vec![interval(0, 1, 0)], "86400.0"),
        ("checked_negative", made("negated", json!(null)), vec![integers(&[1, -2])], "-1, 2"),
        ("nested_key", made("nested_key", json!(null)), vec![integers(&[1])], "018000000000000001"),
        ("century_of_year", made("part_of_year", json!(["century"])), vec![years(&[2001])], "21"),
        ("decade_of_year", made("part_of_year", json!(["decade"])), vec![years(&[2001])], "200"),
        ("one_nan", made("one_nan", json!(null)), vec![column(Float64Array::from(vec![-f64::NAN]))], "NaN"),
        ("floor", made("rounding", json!(["floor", 1])), vec![decimals(&[129])], "1.2"),
        ("ceil", made("rounding", json!(["ceil", 0])), vec![decimals(&[129])], "2"),
        ("round", made("rounding", json!(["round", null])), vec![decimals(&[129]), integers(&[1])], "1.30"),
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

fn years(values: &[i32]) -> ColumnarValue {
    column(Int32Array::from(values.to_vec()))
}

fn aggregate_samples() -> Vec<(&'static str, Value)> {
    vec![
        ("array_agg", made("asking", json!([named("registered", "array_agg"), false]))),
        ("array_agg", made("asking", json!([ordered("registered", "array_agg", true), false]))),
        ("count", made("asking", json!([named("data_fusion", "count"), false]))),
        ("sum", made("asking", json!([named("registered", "sum"), false]))),
        ("sum", made("asking", json!([named("data_fusion", "sum"), false]))),
    ]
}

fn bytes(encoding: &Value) -> Vec<u8> {
    serde_json::to_vec(encoding).unwrap()
}

/// Returns what a function makes of arguments, as text.
fn results(function: &ScalarUDF, args: &[ColumnarValue]) -> Result<String> {
    let field = |value: &ColumnarValue| Arc::new(Field::new("", value.data_type(), true)) as FieldRef;
    let arg_fields: Vec<FieldRef> = args.iter().map(field).collect();
    let scalars: Vec<Option<&ScalarValue>> = args
        .iter()
        .map(|value| match value {
            ColumnarValue::Scalar(scalar) => Some(scalar),
            ColumnarValue::Array(_) => None,
        })
        .collect();
    let of = ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments: &scalars };
    let return_field = function.return_field_from_args(of)?;
    let lengths = args.iter().filter_map(|value| match value {
        ColumnarValue::Array(values) => Some(values.len()),
        ColumnarValue::Scalar(_) => None,
    });
    let number_rows = lengths.max().unwrap_or(1);
    let config_options = Arc::new(ConfigOptions::default());
    let args =
        ScalarFunctionArgs { args: args.to_vec(), arg_fields, number_rows, return_field, config_options };
    let values = function.invoke_with_args(args)?.into_array(number_rows)?;
    let shown = (0..values.len()).map(|row| array_value_to_string(&values, row));
    Ok(shown.collect::<std::result::Result<Vec<_>, _>>()?.join(", "))
}

#[test]
fn functions_with_parameters_come_back_and_compute_the_same() {
    let functions = functions();
    let mut known: Vec<Arc<ScalarUDF>> = Vec::new();
    for (name, encoding, args, expected) in scalar_samples() {
        let decoded = functions.decode::<ScalarUDF>(name, &bytes(&encoding)).unwrap();
        let again: Value = serde_json::from_slice(&functions.encode(decoded.as_ref()).unwrap()).unwrap();
        assert_eq!(again, encoding, "{name}");
        let again = round_trip(&functions, decoded.as_ref());
        assert!(!known.contains(&again), "{encoding} is equal to a function with other parameters");
        assert_eq!(results(&decoded, &args).unwrap(), expected, "{encoding}");
        assert_eq!(results(&again, &args).unwrap(), expected, "{encoding}");
        known.push(again);
    }
}

#[test]
fn aggregates_with_parameters_come_back() {
    let functions = functions();
    let mut known: Vec<Arc<AggregateUDF>> = Vec::new();
    for (name, encoding) in aggregate_samples() {
        let decoded = functions.decode::<AggregateUDF>(name, &bytes(&encoding)).unwrap();
        let again: Value = serde_json::from_slice(&functions.encode(decoded.as_ref()).unwrap()).unwrap();
        assert_eq!(again, encoding, "{name}");
        let again = round_trip(&functions, decoded.as_ref());
        assert!(!known.contains(&again), "{encoding} is equal to a function with other parameters");
        known.push(again);
    }
}

/// A type without a sample would be without a test.
#[test]
fn every_type_with_parameters_has_a_sample() {
    fn tags<K: Kind>(entries: &[Entry<K>]) -> impl Iterator<Item = &'static str> {
        entries.iter().filter_map(|entry| match entry.way {
            Way::Made { tag, .. } => Some(tag),
            _ => None,
        })
    }
    let tag = |encoding: &Value| encoding["made"]["tag"].as_str().unwrap().to_string();
    let mut sampled: BTreeSet<String> =
        scalar_samples().iter().map(|(_, encoding, ..)| tag(encoding)).collect();
    sampled.extend(aggregate_samples().iter().map(|(_, encoding)| tag(encoding)));
    let known: Vec<&str> = tags(TABLE.scalars).chain(tags(TABLE.aggregates)).collect();
    assert!(
        tags(TABLE.windows).chain(tags(TABLE.higher_orders)).next().is_none(),
        "add samples for these kinds"
    );
    assert_eq!(sampled.len(), known.len(), "two types have one tag, or one has no sample: {known:?}");
    assert!(known.iter().all(|tag| sampled.contains(*tag)), "{known:?}");
}

/// Checks all functions of a kind that there are, and returns the names of those that stay.
fn check_all<K: Kind + std::fmt::Debug>(
    functions: &Functions,
    names: impl Fn(&dyn datafusion::execution::FunctionRegistry) -> Vec<String>,
) -> BTreeSet<String> {
    let mut staying = BTreeSet::new();
    let registries = functions.registries();
    for (origin, registry) in registries.iter().enumerate() {
        let names = names(*registry);
        assert!(!names.is_empty());
        for name in names {
            let function = K::named(*registry, &name).unwrap();
            match functions.encode(function.as_ref()) {
                Ok(_) => drop(round_trip(functions, function.as_ref())),
                Err(error) => {
                    assert!(error.to_string().contains("cannot be sent to another node"), "{error}");
                    staying.insert(format!("{origin} {}", function.name()));
                }
            }
        }
    }
    staying
}

#[test]
fn all_functions_by_name_come_back() {
    for functions in [functions(), functions_in("Europe/Amsterdam")] {
        let staying = check_all::<ScalarUDF>(&functions, |registry| registry.udfs().into_iter().collect());
        let expected = [
            "0 current_date",
            "0 current_time",
            "0 now",
            "0 pg_sleep",
            "0 statement_timestamp",
            "1 current_date",
            "1 current_time",
            "1 now",
        ];
        assert_eq!(staying.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        let none = [
            check_all::<AggregateUDF>(&functions, |registry| registry.udafs().into_iter().collect()),
            check_all::<WindowUDF>(&functions, |registry| registry.udwfs().into_iter().collect()),
            check_all::<HigherOrderUDF>(&functions, |registry| {
                registry.higher_order_function_names().into_iter().collect()
            }),
        ];
        assert!(none.iter().all(BTreeSet::is_empty), "{none:?}");
    }
}

#[test]
fn aggregates_come_back_with_what_is_known_about_the_order_of_rows() {
    let functions = functions();
    for registry in functions.registries() {
        for name in ["array_agg", "first_value", "last_value"] {
            let function = AggregateUDF::named(registry, name).unwrap();
            let [met, unmet] = [true, false].map(|is_met| function.over_order(is_met).unwrap());
            assert_ne!(met, unmet);
            round_trip(&functions, &met);
            round_trip(&functions, &unmet);
        }
    }
}

/// A function of another type under any name.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Impostor {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Impostor {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::from(1_i64)))
    }
}

#[test]
fn functions_under_the_name_of_others_are_refused() {
    let functions = functions();
    let refused = |error: datafusion::error::DataFusionError| {
        let error = hypostyle_error::from_datafusion(error);
        assert_eq!(error.sqlstate(), "0A000", "{error}");
        assert!(error.message().contains("it is not the one that sessions have"), "{error}");
    };
    for name in ["lower", "abs", "cast", "checked_add", "unheard_of"] {
        let signature = Signature::any(1, Volatility::Immutable);
        refused(functions.encode(&ScalarUDF::from(Impostor { name, signature })).unwrap_err());
    }
    // A registered function under a further name is another one.
    let lower = ScalarUDF::named(functions.registries()[0], "lower").unwrap();
    refused(functions.encode(&lower.as_ref().clone().with_aliases(["small"])).unwrap_err());
    let accumulator = Arc::new(|_: datafusion::logical_expr::function::AccumulatorArgs<'_>| {
        datafusion::common::internal_err!("no accumulator")
    });
    let (of, state) = (vec![DataType::Int64], Arc::new(vec![DataType::Int64]));
    let sum = create_udaf("sum", of, Arc::new(DataType::Int64), Volatility::Immutable, accumulator, state);
    refused(functions.encode(&sum).unwrap_err());
    // DataFusion's own is told as such, and not as ours.
    let own = datafusion::functions_aggregate::sum::sum_udaf();
    let ours = AggregateUDF::named(functions.registries()[0], "sum").unwrap();
    assert_ne!(functions.encode(own.as_ref()).unwrap(), functions.encode(ours.as_ref()).unwrap());
    assert_ne!(round_trip(&functions, own.as_ref()), ours);
}

#[test]
fn functions_of_a_session_are_refused_when_they_come() {
    let functions = functions();
    for (origin, name) in [("registered", "now"), ("registered", "pg_sleep"), ("data_fusion", "current_time")]
    {
        let error = functions.decode::<ScalarUDF>(name, &bytes(&named(origin, name))).unwrap_err();
        assert_eq!(hypostyle_error::from_datafusion(error).sqlstate(), "0A000", "{name}");
    }
}

#[test]
fn bytes_that_encode_no_function_are_errors() {
    let functions = functions();
    let bounded = |within: Value| made("bounded", within);
    let mut deep = named("data_fusion", "repeat");
    for _ in 0..50 {
        deep = bounded(deep);
    }
    let text = |text: &str| text.as_bytes().to_vec();
    let cast = |of: Value| bytes(&made("cast", json!([{"name": "", "type": of, "nullable": true}, false])));
    for (name, bytes) in [
        ("lower", Vec::new()),
        ("lower", text("lower")),
        ("lower", text("{\"named\": {\"origin\": \"registered\"}}")),
        ("lower", bytes(&named("registered", "upper"))),
        ("lower", bytes(&named("data_fusion", "no_such_function"))),
        ("lower", bytes(&ordered("registered", "lower", true))),
        ("chain", bytes(&made("chain", json!([["^", true]])))),
        ("chain", bytes(&made("chains", json!([])))),
        ("checked_add", bytes(&made("arithmetic", json!("add")))),
        ("floor", bytes(&made("rounding", json!(["floor", 1e300])))),
        ("abs", bytes(&bounded(named("registered", "abs")))),
        ("repeat", bytes(&bounded(named("registered", "repeat")))),
        ("repeat", bytes(&deep)),
        ("repeat", text(&"{\"made\": {\"tag\": \"bounded\", \"parameters\": ".repeat(100_000))),
        ("cast", cast(json!({"plain": "Decimal128(99, 1)"}))),
        (
            "cast",
            cast(json!({"fixed_size_list": [{"name": "", "type": {"plain": "Int8"}, "nullable": true}, -1]})),
        ),
        ("cast", cast(json!({"map": [{"name": "", "type": {"plain": "Int8"}, "nullable": true}, true]}))),
    ] {
        let error = functions.decode::<ScalarUDF>(name, &bytes).unwrap_err();
        let error = hypostyle_error::from_datafusion(error);
        assert_eq!(error.sqlstate(), "08P01", "{error}");
    }
}

/// Changes, leaves out and repeats bytes of encodings.
#[test]
fn no_bytes_make_decoding_panic() {
    let functions = functions();
    let mut number = 1_u64;
    let mut random = |below: usize| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (number >> 33) as usize % below
    };
    let scalars: Vec<(&str, Vec<u8>)> =
        scalar_samples().into_iter().map(|(name, encoding, ..)| (name, bytes(&encoding))).collect();
    let aggregates: Vec<(&str, Vec<u8>)> =
        aggregate_samples().into_iter().map(|(name, encoding)| (name, bytes(&encoding))).collect();
    for round in 0..20_000 {
        let samples = if round % 4 == 0 { &aggregates } else { &scalars };
        let (name, mut bytes) = samples[random(samples.len())].clone();
        for _ in 0..=random(3) {
            let place = random(bytes.len());
            match random(4) {
                0 => bytes[place] = random(256) as u8,
                1 => bytes[place] = b"0123456789-[]{}\",:entu"[random(22)],
                2 => bytes.truncate(place.max(1)),
                _ => bytes.extend_from_within(place..),
            }
        }
        // What is decoded is a function that can be encoded.
        match round % 4 {
            0 => {
                if let Ok(function) = functions.decode::<AggregateUDF>(name, &bytes) {
                    round_trip(&functions, function.as_ref());
                }
            }
            1 => {
                if let Ok(function) = functions.decode::<WindowUDF>(name, &bytes) {
                    round_trip(&functions, function.as_ref());
                }
            }
            _ => {
                if let Ok(function) = functions.decode::<ScalarUDF>(name, &bytes) {
                    round_trip(&functions, function.as_ref());
                }
            }
        }
    }
}
