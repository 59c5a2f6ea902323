//! The fragment of each row: by the value and not by the array it lies in, as docs/cluster.md says,
//! for ever.

use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Date64Array, Decimal32Array,
    Decimal64Array, Decimal128Array, Decimal256Array, DictionaryArray, DurationMicrosecondArray,
    DurationSecondArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array,
    LargeBinaryArray, LargeStringArray, StringArray, StringViewArray, Time32SecondArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray,
    UInt8Array, UInt64Array,
};
use arrow_buffer::i256;
use hypostyle_placement::partition::{
    Condition, Datum, KeyColumn, Kind, Limit, Partitioning, Value, fragment_of_hash, hash_columns, hash_row,
};
use hypostyle_types::{ColumnId, ErrorKind};
use proptest::prelude::*;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

fn hashes(array: impl Array + 'static, kind: Kind) -> Vec<u64> {
    let rows = array.len();
    hash_columns(&[(Arc::new(array), kind)], rows).unwrap()
}

fn column(kind: Kind) -> KeyColumn {
    KeyColumn { column: ColumnId(0), kind }
}

/// A value as a test writes it, with its hash as docs/cluster.md defines it.
#[derive(Clone, Debug)]
enum Plain {
    Null,
    Whole(i64),
    Text(String),
    Float(f64),
}

impl Plain {
    fn hash(&self, before: u64) -> u64 {
        let (tag, bytes) = match self {
            Self::Null => (0, Vec::new()),
            Self::Whole(number) => (1, number.to_le_bytes().to_vec()),
            Self::Float(number) if number.is_nan() => (3, 0x7ff8_0000_0000_0000_u64.to_le_bytes().to_vec()),
            Self::Float(number) if *number == 0.0 => (3, vec![0; 8]),
            Self::Float(number) => (3, number.to_bits().to_le_bytes().to_vec()),
            Self::Text(text) => (10, text.as_bytes().to_vec()),
        };
        xxh3_64_with_seed(&bytes, before.wrapping_add(tag))
    }

    fn datum(&self) -> Datum<'_> {
        match self {
            Self::Null => Datum::Null,
            Self::Whole(number) => Datum::Integer(*number),
            Self::Float(number) => Datum::float(*number),
            Self::Text(text) => Datum::Text(text),
        }
    }
}

#[test]
fn the_vectors_of_the_documentation_hold() {
    let text = include_str!("../../../../docs/cluster.md");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.contains("| `0x"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let uuid = uuid::Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff).as_u128();
    let keys: Vec<Vec<Datum<'_>>> = vec![
        vec![Datum::Null],
        vec![Datum::Integer(0)],
        vec![Datum::Integer(1)],
        vec![Datum::Integer(-1)],
        vec![Datum::decimal(150, 2)],
        vec![Datum::decimal(u64::MAX.into(), 0)],
        vec![Datum::float(-0.0)],
        vec![Datum::float(1.5)],
        vec![Datum::float(-f64::NAN)],
        vec![Datum::Boolean(true)],
        vec![Datum::Date(20_000)],
        vec![Datum::Time(43_200_000_000_000)],
        vec![Datum::Timestamp(1_700_000_000_000_000_000)],
        vec![Datum::Instant(1_700_000_000_000_000_000)],
        vec![Datum::Duration(1_000_000_000)],
        vec![Datum::Text("")],
        vec![Datum::Text("Hypostyle")],
        vec![Datum::Bytes(&[0, 255])],
        vec![Datum::Uuid(uuid)],
        vec![Datum::Integer(1), Datum::Text("a")],
        vec![Datum::Text("a"), Datum::Integer(1)],
        vec![Datum::Null, Datum::Null],
    ];
    let vectors: Vec<String> = keys
        .iter()
        .map(|key| format!("| `0x{:016x}` | {} |", hash_row(key), fragment_of_hash(hash_row(key), 32)))
        .collect();
    assert_eq!(rows.len(), keys.len(), "the vectors are:\n{}", vectors.join("\n"));
    for (row, vector) in rows.iter().zip(&vectors) {
        assert_eq!(&format!("| {} | {} |", row[2], row[3]), vector, "{}", row[1]);
    }
}

#[test]
fn equal_values_have_one_hash_in_every_array() {
    let numbers = hashes(Int64Array::from(vec![Some(7), None, Some(-3)]), Kind::Exact);
    let decimal = |scale: i8| 10_i128.pow(u32::from(scale.unsigned_abs()));
    let equal: Vec<ArrayRef> = vec![
        Arc::new(Int8Array::from(vec![Some(7), None, Some(-3)])),
        Arc::new(Int32Array::from(vec![Some(7), None, Some(-3)])),
        Arc::new(
            Decimal32Array::from(vec![Some(700), None, Some(-300)]).with_precision_and_scale(9, 2).unwrap(),
        ),
        Arc::new(
            Decimal64Array::from(vec![Some(7), None, Some(-3)]).with_precision_and_scale(18, 0).unwrap(),
        ),
        Arc::new(
            Decimal128Array::from(vec![Some(7 * decimal(30)), None, Some(-3 * decimal(30))])
                .with_precision_and_scale(38, 30)
                .unwrap(),
        ),
        Arc::new(
            Decimal256Array::from(vec![Some(i256::from_i128(70)), None, Some(i256::from_i128(-30))])
                .with_precision_and_scale(76, 1)
                .unwrap(),
        ),
        Arc::new(DictionaryArray::<Int8Type>::new(
            Int8Array::from(vec![Some(1), None, Some(0)]),
            Arc::new(Int64Array::from(vec![-3, 7])),
        )),
    ];
    for array in equal {
        assert_eq!(
            hash_columns(&[(array.clone(), Kind::Exact)], 3).unwrap(),
            numbers,
            "{}",
            array.data_type()
        );
    }
    assert_eq!(hashes(UInt8Array::from(vec![7]), Kind::Exact)[0], numbers[0]);
    assert_eq!(hashes(UInt64Array::from(vec![7]), Kind::Exact)[0], numbers[0]);
    let large =
        Decimal128Array::from(vec![i128::from(u64::MAX) * 10]).with_precision_and_scale(38, 1).unwrap();
    assert_eq!(hashes(UInt64Array::from(vec![u64::MAX]), Kind::Exact), hashes(large, Kind::Exact));

    let words = vec![Some("a"), None, Some("a word that is longer than a view has room for")];
    let texts = hashes(StringArray::from(words.clone()), Kind::Text);
    assert_eq!(hashes(LargeStringArray::from(words.clone()), Kind::Text), texts);
    assert_eq!(hashes(StringViewArray::from(words.clone()), Kind::Text), texts);
    assert_eq!(hashes(words.iter().copied().collect::<DictionaryArray<Int32Type>>(), Kind::Text), texts);
    let bytes: Vec<Option<&[u8]>> = words.iter().map(|word| word.map(str::as_bytes)).collect();
    let binary = hashes(BinaryArray::from(bytes.clone()), Kind::Bytes);
    assert_ne!(binary, texts);
    assert_eq!(hashes(LargeBinaryArray::from(bytes.clone()), Kind::Bytes), binary);
    assert_eq!(hashes(BinaryViewArray::from(bytes), Kind::Bytes), binary);
}

#[test]
fn equal_moments_and_floats_have_one_hash() {
    let floats = hashes(Float64Array::from(vec![0.0, f64::NAN, 1.5]), Kind::Float);
    assert_eq!(hashes(Float64Array::from(vec![-0.0, -f64::NAN, 1.5]), Kind::Float), floats);
    assert_eq!(hashes(Float32Array::from(vec![-0.0, f32::NAN, 1.5]), Kind::Float), floats);
    let days = hashes(Date32Array::from(vec![-1, 20_000]), Kind::Date);
    assert_eq!(hashes(Date64Array::from(vec![-86_400_000 + 5, 20_000 * 86_400_000]), Kind::Date), days);
    let seconds = hashes(TimestampSecondArray::from(vec![-5, i64::MAX]), Kind::Timestamp);
    assert_eq!(hashes(TimestampMicrosecondArray::from(vec![-5_000_000]), Kind::Timestamp)[0], seconds[0]);
    let zoned = TimestampSecondArray::from(vec![-5]).with_timezone("Europe/Berlin");
    let utc = TimestampNanosecondArray::from(vec![-5_000_000_000]).with_timezone("UTC");
    assert_eq!(hashes(zoned.clone(), Kind::Instant), hashes(utc, Kind::Instant));
    assert_ne!(hashes(zoned, Kind::Instant)[0], seconds[0]);
    let noon = hashes(Time32SecondArray::from(vec![43_200]), Kind::Time);
    assert_eq!(hashes(Time64MicrosecondArray::from(vec![43_200_000_000]), Kind::Time), noon);
    let length = hashes(DurationSecondArray::from(vec![1]), Kind::Duration);
    assert_eq!(hashes(DurationMicrosecondArray::from(vec![1_000_000]), Kind::Duration), length);
    let text = StringArray::from(vec!["00112233-4455-6677-8899-AABBCCDDEEFF"]);
    let bytes = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes();
    let stored = FixedSizeBinaryArray::try_from_iter([bytes].into_iter()).unwrap();
    assert_eq!(hashes(text, Kind::Uuid), hashes(stored, Kind::Uuid));
    hashes(BooleanArray::from(vec![true]), Kind::Boolean);
}

#[test]
fn arrays_of_other_types_are_refused() {
    let number: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    for kind in [
        Kind::Float,
        Kind::Boolean,
        Kind::Date,
        Kind::Time,
        Kind::Timestamp,
        Kind::Text,
        Kind::Bytes,
        Kind::Uuid,
    ] {
        let error = hash_columns(&[(number.clone(), kind)], 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{kind:?}");
    }
    let none: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    assert_eq!(hash_columns(&[(none.clone(), Kind::Uuid)], 1).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(hash_columns(&[(none.clone(), Kind::Text)], 2).unwrap_err().kind(), ErrorKind::InvalidInput);
    let hash = Partitioning::Hash { columns: vec![column(Kind::Text)], fragments: 4 };
    assert_eq!(hash.fragments_of(&[], 1, 0).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(hash.fragments_of(&[none], 2, 0).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn dictionaries_may_have_no_values() {
    let keys = Int8Array::from(vec![None::<i8>, None]);
    let empty = DictionaryArray::new(keys, Arc::new(StringArray::from(Vec::<&str>::new())));
    assert_eq!(hashes(empty, Kind::Text), [hash_row(&[Datum::Null]); 2]);
}

#[test]
fn a_value_outside_of_all_ranges_is_named() {
    let range = |bounds, max_value| Partitioning::Range { column: column(Kind::Exact), bounds, max_value };
    let bounds = vec![Value::Integer(0), Value::Exact { unscaled: i256::from_i128(105), scale: 1 }];
    let rows = |scheme: &Partitioning, array: ArrayRef| {
        scheme.fragments_of(std::slice::from_ref(&array), array.len(), 0)
    };
    let open = range(bounds.clone(), true);
    open.check().unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), Some(0), Some(10), Some(11), None]));
    assert_eq!(rows(&open, numbers.clone()).unwrap(), [0, 1, 1, 2, 2]);
    let closed = range(bounds, false);
    let error = rows(&closed, numbers).unwrap_err();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Constraint, "23514"));
    assert!(error.message().contains("key 11:") && error.message().contains("10.5"), "{}", error.message());
    let null: ArrayRef = Arc::new(Int64Array::from(vec![None]));
    assert!(rows(&closed, null).unwrap_err().message().contains("NULL"));
    for bounds in [
        vec![Value::Integer(1), Value::Integer(1)],
        vec![Value::Integer(2), Value::Integer(1)],
        vec![Value::Text("x".into())],
        vec![Value::Exact { unscaled: i256::ONE, scale: 77 }],
        vec![],
    ] {
        assert!(range(bounds.clone(), false).check().is_err(), "{bounds:?}");
    }
}

#[test]
fn turns_go_on_where_they_ended() {
    let scheme = Partitioning::RoundRobin { fragments: 3 };
    assert_eq!(scheme.fragments_of(&[], 5, 0).unwrap(), [0, 1, 2, 0, 1]);
    assert_eq!(scheme.fragments_of(&[], 4, 5).unwrap(), [2, 0, 1, 2]);
    assert_eq!(scheme.fragments_of(&[], 2, u64::MAX).unwrap(), [0, 1]);
    assert_eq!(Partitioning::Replicated.fragments_of(&[], 2, 5).unwrap(), [0, 0]);
    assert!(scheme.matching(&[Condition::IsNull { column: 0 }]).iter().all(|matching| *matching));
}

fn whole() -> impl Strategy<Value = Option<i64>> {
    prop::option::weighted(0.9, prop_oneof![-20_i64..20, any::<i64>()])
}

fn word() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(0.9, "[ab]{0,3}|.{0,300}")
}

fn float() -> impl Strategy<Value = Option<f64>> {
    let special = prop::sample::select(vec![0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, 1.5]);
    prop::option::weighted(0.9, prop_oneof![special, any::<f64>()])
}

proptest! {
    #[test]
    fn whole_columns_are_hashed_as_single_rows(rows in prop::collection::vec((whole(), word(), float()), 0..60)) {
        let columns: [(ArrayRef, Kind); 3] = [
            (Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()), Kind::Exact),
            (Arc::new(rows.iter().map(|row| row.1.clone()).collect::<StringArray>()), Kind::Text),
            (Arc::new(rows.iter().map(|row| row.2).collect::<Float64Array>()), Kind::Float),
        ];
        let found = hash_columns(&columns, rows.len()).unwrap();
        for ((number, text, float), found) in rows.into_iter().zip(found) {
            let key = [
                number.map_or(Plain::Null, Plain::Whole),
                text.map_or(Plain::Null, Plain::Text),
                float.map_or(Plain::Null, Plain::Float),
            ];
            prop_assert_eq!(found, key.iter().fold(0, |before, value| value.hash(before)));
            let data: Vec<Datum<'_>> = key.iter().map(Plain::datum).collect();
            prop_assert_eq!(found, hash_row(&data));
        }
    }

    #[test]
    fn decimals_are_ordered_as_numbers(a in any::<i64>(), b in any::<i64>(), of_a in 0_u8..19, of_b in 0_u8..19) {
        let raised = |number: i64, scale: u8| i128::from(number) * 10_i128.pow(u32::from(18 - scale));
        let expected = raised(a, of_a).cmp(&raised(b, of_b));
        let (one, other) = (Datum::decimal(a.into(), of_a), Datum::decimal(b.into(), of_b));
        prop_assert_eq!(one.compare(&other), Some(expected));
        let wide = Datum::exact(i256::from_i128(a.into()), of_a);
        prop_assert_eq!(hash_row(&[wide]), hash_row(&[one]));
        prop_assert_eq!(hash_row(&[one]) == hash_row(&[other]), expected.is_eq());
    }

    #[test]
    fn ranges_are_found_as_by_a_loop(
        bounds in prop::collection::btree_set(-20_i64..20, 0..6), rows in prop::collection::vec(whole(), 0..40),
    ) {
        let values: Vec<Value> = bounds.iter().map(|&bound| Value::Integer(bound)).collect();
        let scheme = Partitioning::Range { column: column(Kind::Exact), bounds: values, max_value: true };
        let array: ArrayRef = Arc::new(rows.iter().copied().collect::<Int64Array>());
        let found = scheme.fragments_of(&[array], rows.len(), 0).unwrap();
        for (row, found) in rows.into_iter().zip(found) {
            let expected = bounds.iter().filter(|&&bound| row.is_none_or(|row| bound <= row)).count();
            prop_assert_eq!(found as usize, expected);
        }
    }

    #[test]
    fn pruned_fragments_have_no_row_that_matches(
        by_range in any::<bool>(), rows in prop::collection::vec((whole(), whole()), 1..60),
        fragments in 1_u32..9, list in prop::collection::vec(-20_i64..20, 0..5), other in -20_i64..20,
        low in -21_i64..21, high in -21_i64..21, includes in any::<(bool, bool)>(), which in 0_usize..5,
    ) {
        let key = column(Kind::Exact);
        let scheme = if by_range {
            let bounds = (0..fragments).map(|number| Value::Integer(i64::from(number) * 4 - 12)).collect();
            Partitioning::Range { column: key, bounds, max_value: true }
        } else {
            Partitioning::Hash { columns: vec![key, KeyColumn { column: ColumnId(1), ..key }], fragments }
        };
        let limit = |value, includes| match (includes, value) {
            (_, -21 | 21) => Limit::None,
            (true, value) => Limit::Including(Value::Integer(value)),
            (false, value) => Limit::Excluding(Value::Integer(value)),
        };
        let (lower, upper) = (limit(low, includes.0), limit(high, includes.1));
        let values = |list: &[i64]| list.iter().map(|&number| Value::Integer(number)).collect();
        let conditions = match which {
            0 => vec![Condition::In { column: 0, values: values(&list) }, Condition::IsNull { column: 1 }],
            1 => vec![
                Condition::In { column: 0, values: values(&list) },
                Condition::In { column: 1, values: values(&[other]) },
            ],
            2 => vec![Condition::Range { column: 0, lower, upper }],
            3 => vec![Condition::IsNull { column: 0 }, Condition::In { column: 1, values: values(&[other]) }],
            // Of another kind: says nothing.
            _ => vec![Condition::In { column: 0, values: vec![Value::Text("1".into())] }],
        };
        let matches = |row: &(Option<i64>, Option<i64>), condition: &Condition| match condition {
            Condition::IsNull { column } => [row.0, row.1][*column].is_none(),
            Condition::In { column, values } => [row.0, row.1][*column]
                .is_some_and(|row| values.contains(&Value::Integer(row)) || values[0].kind() != Kind::Exact),
            Condition::Range { lower, upper, .. } => row.0.is_some_and(|row| {
                let above = |value: &Value| Value::Integer(row).datum().compare(&value.datum()).unwrap();
                let low = match lower {
                    Limit::None => true,
                    Limit::Including(value) => above(value).is_ge(),
                    Limit::Excluding(value) => above(value).is_gt(),
                };
                low && match upper {
                    Limit::None => true,
                    Limit::Including(value) => above(value).is_le(),
                    Limit::Excluding(value) => above(value).is_lt(),
                }
            }),
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>()),
        ];
        let found = scheme.fragments_of(&columns[..scheme.columns().len()], rows.len(), 0).unwrap();
        let matching = scheme.matching(&conditions);
        prop_assert_eq!(matching.len(), scheme.fragments() as usize);
        let conditions: Vec<_> = match by_range {
            // The second column is not in the key of ranges.
            true => conditions.into_iter().filter(|c| !matches!(c, Condition::In { column: 1, .. } | Condition::IsNull { column: 1 })).collect(),
            false => conditions,
        };
        for (row, fragment) in rows.iter().zip(found) {
            let is_asked = conditions.iter().all(|condition| match condition {
                Condition::In { values, .. } if values.is_empty() => false,
                condition => matches(row, condition),
            });
            prop_assert!(!is_asked || matching[fragment as usize], "{:?} in {} by {:?}", row, fragment, conditions);
        }
    }
}

#[test]
fn pruning_leaves_one_fragment_for_one_key() {
    let key = column(Kind::Text);
    let hash = Partitioning::Hash { columns: vec![key], fragments: 32 };
    let equals = Condition::In { column: 0, values: vec![Value::Text("x".into())] };
    let count = |scheme: &Partitioning, conditions: &[Condition]| {
        scheme.matching(conditions).into_iter().filter(|matching| *matching).count()
    };
    assert_eq!(count(&hash, std::slice::from_ref(&equals)), 1);
    assert_eq!(count(&hash, &[]), 32);
    assert_eq!(count(&hash, &[Condition::In { column: 0, values: vec![] }]), 0);
    let many = (0..2000).map(|number| Value::Text(number.to_string())).collect();
    assert_eq!(count(&hash, &[Condition::In { column: 0, values: many }]), 32);
    let range = Partitioning::Range {
        column: key,
        bounds: ["f", "m", "t"].map(|bound| Value::Text(bound.into())).to_vec(),
        max_value: true,
    };
    assert_eq!(range.matching(&[equals]), [false, false, false, true]);
    let between = |lower, upper| range.matching(&[Condition::Range { column: 0, lower, upper }]);
    let (f, m) = (Value::Text("f".into()), Value::Text("m".into()));
    assert_eq!(
        between(Limit::Including(f.clone()), Limit::Excluding(m.clone())),
        [false, true, false, false]
    );
    assert_eq!(between(Limit::Excluding(f), Limit::Including(m)), [false, true, true, false]);
}

#[test]
fn equal_keys_are_in_equal_fragments_of_tables_that_are_divided_alike() {
    let hash = |kinds: &[Kind], fragments| Partitioning::Hash {
        columns: (3..)
            .zip(kinds)
            .map(|(place, kind)| KeyColumn { column: ColumnId(place), kind: *kind })
            .collect(),
        fragments,
    };
    let one = hash(&[Kind::Exact, Kind::Text], 4);
    let moved = one.moved(|column| Some(ColumnId(column.0 + 1))).unwrap();
    assert!(one.divides_like(&one) && one.divides_like(&moved));
    let others = [
        hash(&[Kind::Exact, Kind::Text], 5),
        hash(&[Kind::Text, Kind::Exact], 4),
        hash(&[Kind::Exact], 4),
        Partitioning::RoundRobin { fragments: 4 },
        Partitioning::Replicated,
    ];
    assert!(others.iter().all(|other| !one.divides_like(other) && !other.divides_like(&one)));
    assert!(!Partitioning::Replicated.divides_like(&Partitioning::Replicated));
}
