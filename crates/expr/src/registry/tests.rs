use super::samples::{aggregate_samples, made, named, ordered, scalar_samples};
use super::table::TABLE;
use crate::meter::{Ledger, Meter};
use crate::portable::{Entry, Functions, Kind};
use arrow::datatypes::{DataType, Field, FieldRef};
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
    super::functions(&config, &Meter::new(&Ledger::new(1 << 30)), &[]).unwrap()
}

/// Encodes a function, decodes it, and checks that it is the same, and encoded alike.
fn round_trip<K: Kind + std::fmt::Debug>(functions: &Functions, function: &K) -> Arc<K> {
    let bytes = functions.encode(function).unwrap();
    let decoded = functions.decode::<K>(function.name(), &bytes).unwrap();
    assert_eq!(*decoded, *function);
    assert_eq!(functions.encode(decoded.as_ref()).unwrap(), bytes);
    decoded
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
        entries.iter().filter_map(Entry::tag)
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
