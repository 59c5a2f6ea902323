use super::*;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::Schema;
use hypostyle_types::ErrorKind;

fn shape(kind: Kind) -> Shape {
    Shape { kind, name: None }
}

/// Decodes values of one column.
fn decode(kind: Kind, values: &[Option<&[u8]>]) -> Result<ArrayRef> {
    let shape = shape(kind);
    let schema = Arc::new(Schema::new(vec![shape.field("c", true)]));
    let mut rows = Rows::new(schema, &[shape]);
    for value in values {
        rows.row(&mut Cursor(&row(&[*value])))?;
    }
    Ok(rows.finish()?.column(0).clone())
}

/// Returns the bytes of a row.
fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut bytes = (values.len() as i16).to_be_bytes().to_vec();
    for value in values {
        match value {
            None => bytes.extend_from_slice(&(-1_i32).to_be_bytes()),
            Some(value) => {
                bytes.extend_from_slice(&(value.len() as i32).to_be_bytes());
                bytes.extend_from_slice(value);
            }
        }
    }
    bytes
}

/// Returns the bytes of a number.
fn numeric(weight: i16, sign: u16, scale: u16, groups: &[u16]) -> Vec<u8> {
    let mut bytes = (groups.len() as u16).to_be_bytes().to_vec();
    bytes.extend_from_slice(&weight.to_be_bytes());
    bytes.extend_from_slice(&sign.to_be_bytes());
    bytes.extend_from_slice(&scale.to_be_bytes());
    groups.iter().for_each(|group| bytes.extend_from_slice(&group.to_be_bytes()));
    bytes
}

/// Returns the bytes of an array of integers.
fn array(dimensions: &[i32], elements: &[Option<i32>]) -> Vec<u8> {
    let mut bytes = (dimensions.len() as i32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 23]);
    for length in dimensions {
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 1]);
    }
    for element in elements {
        match element {
            None => bytes.extend_from_slice(&[255; 4]),
            Some(value) => {
                bytes.extend_from_slice(&[0, 0, 0, 4]);
                bytes.extend_from_slice(&value.to_be_bytes());
            }
        }
    }
    bytes
}

fn list(depth: usize) -> Kind {
    (1..depth).fold(Kind::List(Arc::new(shape(Kind::Int4))), |inner, _| Kind::List(Arc::new(shape(inner))))
}

fn texts(array: &ArrayRef) -> Vec<Option<&str>> {
    array.as_string::<i64>().iter().collect()
}

#[test]
fn numbers_of_a_fixed_length_keep_their_extremes() {
    let values = decode(Kind::Int2, &[Some(&[0x80, 0]), None, Some(&[0x7f, 0xff])]).unwrap();
    let values: Vec<_> = values.as_primitive::<Int16Type>().iter().collect();
    assert_eq!(values, [Some(i16::MIN), None, Some(i16::MAX)]);
    let bytes = i64::MIN.to_be_bytes();
    let values = decode(Kind::Int8, &[Some(&bytes), None]).unwrap();
    assert_eq!(values.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(i64::MIN), None]);
    let values = decode(Kind::Oid, &[Some(&[255; 4])]).unwrap();
    assert_eq!(values.as_primitive::<UInt32Type>().value(0), u32::MAX);
    let (nan, zero) = (f64::NAN.to_be_bytes(), (-0.0_f64).to_be_bytes());
    let values = decode(Kind::Float8, &[Some(&nan), Some(&zero), None]).unwrap();
    let values = values.as_primitive::<Float64Type>();
    assert!(values.value(0).is_nan() && values.value(1).is_sign_negative() && values.is_null(2));
    // The value under a NULL is one by which programs know it.
    assert!(values.value(2).is_nan());
    let values = decode(Kind::Bool, &[Some(&[1]), Some(&[0]), None]).unwrap();
    assert_eq!(values.as_boolean().iter().collect::<Vec<_>>(), [Some(true), Some(false), None]);
}

#[test]
fn values_of_another_length_are_errors() {
    for kind in [
        Kind::Bool,
        Kind::Int2,
        Kind::Int4,
        Kind::Int8,
        Kind::Oid,
        Kind::Float4,
        Kind::Float8,
        Kind::Decimal { precision: 9, scale: 2 },
        Kind::Decimal { precision: 76, scale: 2 },
        Kind::NumericText,
        Kind::NumericDouble,
        Kind::Char,
        Kind::Date,
        Kind::Time,
        Kind::Timestamp,
        Kind::TimestampTz,
        Kind::Interval,
        Kind::Uuid,
        Kind::Jsonb,
        list(1),
        list(3),
        Kind::Struct(Arc::new(vec![("a".into(), shape(Kind::Int4))])),
    ] {
        for length in [0, 3, 17] {
            let bytes = vec![0x11; length];
            assert!(decode(kind.clone(), &[Some(&bytes)]).is_err(), "{kind:?} of {length}");
        }
    }
}

#[test]
fn dates_and_times_count_from_1970() {
    let dates =
        decode(Kind::Date, &[Some(&0_i32.to_be_bytes()), Some(&(-10_957_i32).to_be_bytes())]).unwrap();
    assert_eq!(dates.as_primitive::<Date32Type>().values().to_vec(), [10_957, 0]);
    for infinite in [i32::MAX, i32::MIN] {
        let error = decode(Kind::Date, &[Some(&infinite.to_be_bytes())]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(
            error.message().contains("row 1, column \"c\"") && error.message().contains("infinite"),
            "{error}"
        );
    }
    assert!(decode(Kind::Date, &[Some(&(i32::MAX - 1).to_be_bytes())]).is_err());
    let times = decode(Kind::TimestampTz, &[Some(&(-EPOCH_MICROSECONDS).to_be_bytes())]).unwrap();
    assert_eq!(times.as_primitive::<TimestampMicrosecondType>().value(0), 0);
    assert_eq!(times.data_type(), &shape(Kind::TimestampTz).data_type());
    for wrong in [i64::MAX, i64::MIN, i64::MAX - 1] {
        assert!(decode(Kind::Timestamp, &[Some(&wrong.to_be_bytes())]).is_err());
    }
    for (time, is_one) in [(0, true), (DAY_MICROSECONDS - 1, true), (DAY_MICROSECONDS, false), (-1, false)] {
        assert_eq!(decode(Kind::Time, &[Some(&i64::to_be_bytes(time))]).is_ok(), is_one);
    }
    let bytes = [&5_i64.to_be_bytes()[..], &6_i32.to_be_bytes(), &(-7_i32).to_be_bytes()].concat();
    let intervals = decode(Kind::Interval, &[Some(&bytes)]).unwrap();
    let expected = IntervalMonthDayNano::new(-7, 6, 5000);
    assert_eq!(intervals.as_primitive::<IntervalMonthDayNanoType>().value(0), expected);
    let infinite = [&i64::MAX.to_be_bytes()[..], &[0x7f, 255, 255, 255, 0x7f, 255, 255, 255]].concat();
    assert!(decode(Kind::Interval, &[Some(&infinite)]).is_err());
}

#[test]
fn decimals_are_exact() {
    let of = |precision: u8, scale: i8, bytes: &[u8]| {
        let array = decode(Kind::Decimal { precision, scale }, &[Some(bytes)])?;
        Ok(match array.data_type() {
            DataType::Decimal32(_, _) => array.as_primitive::<Decimal32Type>().value_as_string(0),
            DataType::Decimal64(_, _) => array.as_primitive::<Decimal64Type>().value_as_string(0),
            DataType::Decimal128(_, _) => array.as_primitive::<Decimal128Type>().value_as_string(0),
            _ => array.as_primitive::<Decimal256Type>().value_as_string(0),
        })
    };
    let shown = |precision: u8, scale: i8, bytes: &[u8]| -> String {
        let result: Result<String> = of(precision, scale, bytes);
        result.unwrap_or_else(|error| format!("{:?}", error.kind()))
    };
    assert_eq!(shown(9, 2, &numeric(0, 0, 0, &[])), "0.00");
    assert_eq!(shown(9, 2, &numeric(0, 0x4000, 2, &[12, 3400])), "-12.34");
    assert_eq!(shown(18, 3, &numeric(1, 0, 3, &[1, 0, 10])), "10000.001");
    assert_eq!(shown(18, 0, &numeric(2, 0, 0, &[7])), "700000000");
    assert_eq!(shown(38, 38, &numeric(-10, 0, 38, &[100])), "0.00000000000000000000000000000000000001");
    let nines = vec![9999; 19];
    assert_eq!(shown(76, 0, &numeric(18, 0, 0, &nines)), "9".repeat(76));
    assert_eq!(shown(76, 76, &numeric(-1, 0, 76, &nines)), format!("0.{}", "9".repeat(76)));
    // There is no room for more digits on either side.
    assert_eq!(shown(4, 0, &numeric(1, 0, 0, &[1])), "InvalidInput");
    assert_eq!(shown(9, 2, &numeric(0, 0, 3, &[1, 10])), "InvalidInput");
    assert_eq!(shown(76, 0, &numeric(32_767, 0, 0, &[1])), "InvalidInput");
    assert_eq!(shown(9, 2, &numeric(0, 0xc000, 0, &[])), "InvalidInput");
    assert_eq!(shown(9, 2, &numeric(0, 0, 0, &[10_000])), "Connection");
    assert_eq!(shown(9, 2, &numeric(0, 0x1234, 0, &[])), "Connection");
}

#[test]
fn numbers_without_a_precision_are_text_or_doubles() {
    let text =
        |bytes: &[u8]| texts(&decode(Kind::NumericText, &[Some(bytes)]).unwrap())[0].unwrap().to_string();
    assert_eq!(text(&numeric(0, 0, 0, &[])), "0");
    assert_eq!(text(&numeric(0, 0, 3, &[])), "0.000");
    assert_eq!(text(&numeric(1, 0x4000, 2, &[1, 2, 3400])), "-10002.34");
    assert_eq!(text(&numeric(-2, 0, 8, &[1234])), "0.00001234");
    assert_eq!(text(&numeric(-3, 0, 10, &[1200])), "0.0000000012");
    assert_eq!(text(&numeric(2, 0, 0, &[5])), "500000000");
    assert_eq!(text(&numeric(0, 0xd000, 0, &[])), "Infinity");
    assert_eq!(text(&numeric(0, 0xf000, 0, &[])), "-Infinity");
    let long = text(&numeric(32_767, 0, 16_383, &[1]));
    assert_eq!(long.len(), 4 * 32_767 + 1 + 1 + 16_383);
    let double = |bytes: &[u8]| {
        let array = decode(Kind::NumericDouble, &[Some(bytes)]).unwrap();
        array.as_primitive::<Float64Type>().value(0)
    };
    assert_eq!(double(&numeric(0, 0x4000, 1, &[12, 5000])), -12.5);
    assert!(double(&numeric(0, 0xc000, 0, &[])).is_nan());
}

#[test]
fn texts_and_bytes_come_as_they_are() {
    let array = decode(Kind::Text, &[Some("é".as_bytes()), None, Some(b"")]).unwrap();
    assert_eq!(texts(&array), [Some("é"), None, Some("")]);
    let error = decode(Kind::Text, &[Some(b"ok"), Some(b"\xff")]).unwrap_err();
    assert!(error.message().contains("column \"c\"") && error.sqlstate() == "22021", "{error}");
    // Half a character of one value and the other half of the next are no text.
    assert!(decode(Kind::Text, &[Some(&[0xc3]), Some(&[0xa9])]).is_err());
    let array = decode(Kind::Bytes, &[Some(b"\xff\0"), None]).unwrap();
    assert_eq!(array.as_binary::<i64>().value(0), b"\xff\0");
    let array = decode(Kind::Char, &[Some(b"a"), Some(&[0]), Some(&[0xff])]).unwrap();
    assert_eq!(texts(&array), [Some("a"), Some(""), Some("\\377")]);
    let array = decode(Kind::Jsonb, &[Some(b"\x01{}")]).unwrap();
    assert_eq!(texts(&array), [Some("{}")]);
    assert!(decode(Kind::Jsonb, &[Some(b"\x02{}")]).is_err());
    let array = decode(Kind::Uuid, &[Some(&[7; 16]), None]).unwrap();
    assert_eq!(array.as_fixed_size_binary().value(0), [7; 16]);
}

#[test]
fn labels_that_are_new_are_added() {
    let labels = Arc::new(vec!["a".to_string(), "b".to_string()]);
    let values: [Option<&[u8]>; 4] = [Some(b"b"), None, Some(b"new"), Some(b"b")];
    let array = decode(Kind::Enum(labels.clone()), &values).unwrap();
    let dictionary = array.as_dictionary::<Int32Type>();
    assert_eq!(dictionary.keys().iter().collect::<Vec<_>>(), [Some(1), None, Some(2), Some(1)]);
    assert_eq!(texts(dictionary.values()), [Some("a"), Some("b"), Some("new")]);
    assert!(decode(Kind::Enum(labels), &[Some(b"\xff")]).is_err());
    let nothing = decode(Kind::Enum(Arc::default()), &[None]).unwrap();
    assert!(nothing.is_null(0));
}

#[test]
fn arrays_are_lists_for_each_dimension() {
    let flat =
        decode(list(1), &[Some(&array(&[3], &[Some(1), None, Some(3)])), None, Some(&array(&[], &[]))])
            .unwrap();
    let flat = flat.as_list::<i64>();
    assert_eq!((flat.value_length(0), flat.is_null(1), flat.value_length(2)), (3, true, 0));
    assert_eq!(
        flat.value(0).as_primitive::<Int32Type>().iter().collect::<Vec<_>>(),
        [Some(1), None, Some(3)]
    );
    let vector = decode(list(1), &[Some(&array(&[0], &[])), Some(&array(&[1], &[Some(7)]))]).unwrap();
    let vector = vector.as_list::<i64>();
    assert_eq!((vector.value_length(0), vector.value_length(1)), (0, 1));
    let elements: Vec<_> = (1..=6).map(Some).collect();
    let nested = decode(list(2), &[Some(&array(&[2, 3], &elements)), Some(&array(&[], &[]))]).unwrap();
    let nested = nested.as_list::<i64>();
    assert_eq!((nested.value_length(0), nested.value_length(1)), (2, 0));
    let second = nested.value(0).as_list::<i64>().value(1);
    assert_eq!(second.as_primitive::<Int32Type>().values().to_vec(), [4, 5, 6]);
    let error = decode(list(1), &[Some(&array(&[2, 3], &elements))]).unwrap_err();
    assert!(error.message().contains("2 dimensions"), "{error}");
    assert!(decode(list(2), &[Some(&array(&[6], &elements))]).is_err());
}

#[test]
fn arrays_that_tell_of_more_than_came_are_errors() {
    let one = [Some(1)];
    for dimensions in [
        &[i32::MAX][..],
        &[-1],
        &[0],
        &[0, 1],
        &[2],
        &[i32::MAX, i32::MAX],
        &[i32::MAX, 0],
        &[1 << 16, 1 << 16, 1 << 16, 1 << 16, 1 << 16, 1 << 16],
        &[1, 1, 1, 1, 1, 1, 1],
    ] {
        assert!(
            decode(list(dimensions.len().min(6)), &[Some(&array(dimensions, &one))]).is_err(),
            "{dimensions:?}"
        );
    }
    let whole = array(&[2], &[Some(1), Some(2)]);
    for length in 0..whole.len() {
        assert!(decode(list(1), &[Some(&whole[..length])]).is_err());
    }
    assert!(decode(list(1), &[Some(&[&whole[..], &[0]].concat())]).is_err());
}

#[test]
fn arrays_of_other_types_come_as_text() {
    let kind = Kind::List(Arc::new(shape(Kind::Shown)));
    let array =
        decode(kind.clone(), &[Some(br#"{a,"b \"c\"",NULL,"NULL","{"}"#), Some(b"{}"), Some(b"[0:1]={x,y}")]);
    let array = array.unwrap();
    let lists = array.as_list::<i64>();
    assert_eq!(texts(&lists.value(0)), [Some("a"), Some("b \"c\""), None, Some("NULL"), Some("{")]);
    assert_eq!((lists.value_length(1), lists.value_length(2)), (0, 2));
    let nested = Kind::List(Arc::new(shape(kind.clone())));
    let array = decode(nested, &[Some(b"{{a,b},{c,d}}")]).unwrap();
    assert_eq!(texts(&array.as_list::<i64>().value(0).as_list::<i64>().value(1)), [Some("c"), Some("d")]);
    for wrong in [&b"{"[..], b"{a", b"{a}}", b"{\"a}", b"{a\\", b"{{a}}", b"[", b"{a,{b}}"] {
        assert!(decode(kind.clone(), &[Some(wrong)]).is_err(), "{wrong:?}");
    }
    assert!(decode(list(1), &[Some(b"{1}")]).is_err());
}

#[test]
fn composites_have_their_members() {
    let members = Arc::new(vec![("a".into(), shape(Kind::Int4)), ("b".into(), shape(Kind::Text))]);
    let mut bytes = vec![0, 0, 0, 2, 0, 0, 0, 23, 0, 0, 0, 4, 0, 0, 0, 9];
    bytes.extend_from_slice(&[0, 0, 0, 25, 255, 255, 255, 255]);
    let array = decode(Kind::Struct(members.clone()), &[Some(&bytes), None]).unwrap();
    let structure = array.as_struct();
    assert_eq!(structure.column(0).as_primitive::<Int32Type>().value(0), 9);
    assert!(structure.column(1).is_null(0) && structure.is_null(1));
    bytes[3] = 3;
    assert!(decode(Kind::Struct(members), &[Some(&bytes)]).is_err());
}

#[test]
fn copy_comes_in_pieces_of_any_length() {
    let mut bytes = SIGNATURE.to_vec();
    bytes.extend_from_slice(&[0; 8]);
    for number in 0..5_i32 {
        bytes.extend_from_slice(&row(&[Some(&number.to_be_bytes()), None]));
    }
    bytes.extend_from_slice(&[0xff, 0xff]);
    let shapes = [shape(Kind::Int4), shape(Kind::Text)];
    let fields: Vec<_> = shapes.iter().map(|shape| shape.field("c", true)).collect();
    let schema = Arc::new(Schema::new(fields));
    for length in 1..bytes.len() {
        let (mut rows, mut copy) = (Rows::new(schema.clone(), &shapes), Copy::default());
        for piece in bytes.chunks(length) {
            copy.take(piece, &mut rows).unwrap();
        }
        copy.end().unwrap();
        let batch = rows.finish().unwrap();
        assert_eq!(batch.column(0).as_primitive::<Int32Type>().values().to_vec(), [0, 1, 2, 3, 4]);
        assert_eq!(batch.column(1).null_count(), 5);
        let (mut rows, mut copy) = (Rows::new(schema.clone(), &shapes), Copy::default());
        copy.take(&bytes[..length], &mut rows).unwrap();
        assert!(copy.end().is_err());
    }
}

#[test]
fn a_row_of_copy_comes_to_its_end() {
    assert!(check_row(ROW_BYTES_MAX).is_ok());
    assert_eq!(check_row(ROW_BYTES_MAX + 1).unwrap_err().sqlstate(), "08P01");
}

#[test]
fn copy_in_another_form_is_an_error() {
    let header = [&SIGNATURE[..], &[0; 8]].concat();
    let critical = [&SIGNATURE[..], &[0, 1, 0, 0, 0, 0, 0, 0]].concat();
    let long = [&SIGNATURE[..], &[0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]].concat();
    let shapes = [shape(Kind::Int4)];
    let schema = Arc::new(Schema::new(vec![shapes[0].field("c", true)]));
    for bytes in [
        b"1\t2\n".to_vec(),
        critical,
        long,
        [&header[..], &[0xff, 0xff, 0]].concat(),
        [&header[..], &[0x80, 0]].concat(),
        [&header[..], &[0, 2, 255, 255, 255, 255, 255, 255, 255, 255]].concat(),
        [&header[..], &[0, 1, 255, 255, 255, 254]].concat(),
    ] {
        let (mut rows, mut copy) = (Rows::new(schema.clone(), &shapes), Copy::default());
        assert!(copy.take(&bytes, &mut rows).is_err(), "{bytes:?}");
    }
}

#[test]
fn batches_are_bounded() {
    let shapes = [shape(Kind::Bytes)];
    let schema = Arc::new(Schema::new(vec![shapes[0].field("c", true)]));
    let mut rows = Rows::new(schema, &shapes);
    let value = vec![0; 1 << 20];
    let mut count = 0;
    while !rows.is_full() {
        rows.row(&mut Cursor(&row(&[Some(&value)]))).unwrap();
        count += 1;
    }
    assert!(count <= 17, "{count}");
    rows.finish().unwrap();
    assert!(rows.is_empty() && !rows.is_full());
    let error = rows.row(&mut Cursor(&[0, 1, 0, 0, 0, 9])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection);
}

/// Bytes of any kind are values or errors, never a panic.
#[test]
fn any_bytes_are_a_value_or_an_error() {
    let kinds = [
        Kind::NumericText,
        Kind::Decimal { precision: 5, scale: 2 },
        Kind::Decimal { precision: 76, scale: 38 },
        Kind::NumericDouble,
        Kind::Interval,
        list(1),
        list(2),
        Kind::List(Arc::new(shape(Kind::Shown))),
        Kind::Struct(Arc::new(vec![("a".into(), shape(list(1)))])),
        Kind::Enum(Arc::default()),
    ];
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..20_000 {
        let length = random() as usize % 48;
        // Small numbers pass more checks than large ones.
        let bytes: Vec<u8> = (0..length)
            .map(|_| match random() % 4 {
                0 => random() as u8,
                1 => b"{},\"\\"[random() as usize % 5],
                _ => (random() % 3) as u8,
            })
            .collect();
        let kind = kinds[random() as usize % kinds.len()].clone();
        let _value_or_error = decode(kind, &[Some(&bytes)]);
    }
}
