//! Any bytes for what takes apart the messages, parameters and rows of PostgreSQL's clients:
//! values, or an error. They are made of good ones by changing a few bytes, the same in every run;
//! `make fuzz` takes longer than the tests. (These parts need the engine's values: the fuzzer,
//! which has a build of its own, would have to build the engine.)

use super::copy::Copy;
use super::copy::csv::csv_fields;
use super::copy::text::text_fields;
use super::decode::parameter;
use super::message::{take, take_in_startup};
use super::words::Words;
use bytes::{Bytes, BytesMut};
use hypostyle::postgres::TYPES;
use std::time::{Duration, Instant};

/// Numbers that look random (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators").
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// One of the good ones, with up to three changes.
    fn changed(&mut self, good: &[&[u8]]) -> Vec<u8> {
        const TELLING: [u8; 16] = *b"\0\x01\x7f\x80\xff{}[]\",\\'-.9";
        let mut bytes = self.pick(good).to_vec();
        for _ in 0..self.below(4) {
            let place = self.below(bytes.len());
            match self.below(6) {
                0 => bytes.truncate(place),
                1 => bytes.insert(place, *self.pick(&TELLING)),
                2 if !bytes.is_empty() => drop(bytes.remove(place)),
                3 => {
                    let other = *self.pick(good);
                    let start = self.below(other.len());
                    bytes.splice(place..place, other[start..].iter().copied());
                }
                4 if !bytes.is_empty() => bytes[place] ^= 1 << self.below(8),
                _ if !bytes.is_empty() => bytes[place] = *self.pick(&TELLING),
                _ => {}
            }
        }
        bytes
    }
}

/// Calls `one` 50,000 times, or for as long as `FUZZ_SECONDS` says.
fn many(mut one: impl FnMut(&mut Random)) {
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut random = Random(7);
    let mut round = 0;
    while end.map_or(round < 500, |end| Instant::now() < end) {
        (0..100).for_each(|_| one(&mut random));
        round += 1;
    }
}

#[test]
fn messages_are_taken_or_refused() {
    const GOOD: [&[u8]; 9] = [
        b"Q\0\0\0\x0dSELECT 1\0",
        b"P\0\0\0\x16s\0SELECT $1\0\0\x01\0\0\0\x17",
        b"B\0\0\0\x1ap\0s\0\0\x01\0\x01\0\x01\0\0\0\x04\0\0\0\x2a\0\x01\0\x01",
        b"D\0\0\0\x07Ss\0",
        b"E\0\0\0\x0ap\0\0\0\0\0",
        b"C\0\0\0\x07Pp\0",
        b"d\0\0\0\x081\t2\n",
        b"f\0\0\0\x08why\0",
        b"p\0\0\0\x0bsecret\0",
    ];
    many(|random| {
        let mut received = BytesMut::from(&random.changed(&GOOD)[..]);
        received.extend_from_slice(&random.changed(&GOOD));
        let take = if random.below(2) == 0 { take } else { take_in_startup };
        loop {
            let before = received.len();
            match take(&mut received) {
                // Each message takes bytes, so that this ends.
                Ok(Some(_message)) => assert!(received.len() < before),
                Ok(None) => break assert_eq!(received.len(), before),
                Err(error) => {
                    break assert!(matches!(error.sqlstate(), "08P01" | "22021" | "0A000"), "{error}");
                }
            }
        }
    });
}

#[test]
fn parameters_are_values_or_refused() {
    const TEXTS: [&[u8]; 18] = [
        b"-42",
        b"123456789012345678901234567890.5",
        b"1.5e-300",
        b"NaN",
        b"-infinity",
        b"true",
        b"2024-02-29",
        b"2024-02-29 23:59:59.999999+05:30",
        b"24:00:00",
        b"0001-01-01 00:00:00 BC",
        b"1 year -2 mons +3 days -04:05:06.789",
        b"P1Y2M3DT4H5M6S",
        b"\\xdeadbeef",
        b"a\\001\\\\b",
        b"00112233-4455-6677-8899-aabbccddeeff",
        b"{1,NULL,\"a,\\\"b\",{2}}",
        b"{\"a\": [1, {\"b\": null}], \"c\": \"\\u00e9\"}",
        "h\u{e9} \u{1f600}".as_bytes(),
    ];
    const BINARY: [&[u8]; 9] = [
        b"\x01",
        b"\0\x2a",
        b"\0\0\0\x2a",
        b"\0\0\0\0\0\0\0\x2a",
        b"\x7f\xff\xff\xff\xff\xff\xff\xff",
        b"\0\0\0\0\0\0\0\x2a\0\0\0\x03\0\0\0\x0c",
        b"\0\x02\0\0\x40\0\0\x03\0\x0c\x0d\x7a",
        b"\0\0\0\x01\0\0\0\x01\0\0\0\x17\0\0\0\x02\0\0\0\x01\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff",
        b"\0\0\0\x01\0\0\0\0\0\0\x06\xa4\0\0\0\x01\0\0\0\x01\0\0\0\x0c\0\x02\0\0\x40\0\0\x03\0\x0c\x0d\x7a",
    ];
    many(|random| {
        let of = random.pick(&TYPES);
        let oid = *random.pick(&[of.oid, of.array, 0]);
        let binary = random.below(2) == 0;
        let value = Bytes::from(random.changed(if binary { &BINARY } else { &TEXTS }));
        if let Err(error) = parameter(Some(&value), oid, binary, "Europe/Berlin") {
            assert_ne!(error.sqlstate(), "XX000", "{oid} {binary} {value:?}: {error}");
        }
    });
}

#[test]
fn rows_and_options_of_copy_are_read_or_refused() {
    const OPTIONS: [&[u8]; 5] = [
        b"main.\"T\" (a, \"B\") FROM STDIN",
        b"(SELECT ')' FROM t) TO STDOUT WITH (FORMAT csv, HEADER, DELIMITER ';', NULL 'x')",
        b"t FROM STDIN WITH DELIMITER AS '|' CSV HEADER QUOTE '\"' ESCAPE '\\'",
        b"t FROM STDIN (FORMAT binary)",
        b"t TO STDOUT (ENCODING 'UTF8', FORCE_QUOTE *, FORMAT text)",
    ];
    const ROWS: [&[u8]; 4] = [
        b"1\ta\\tb\\\\\t\\N\t\\101\\x42",
        b"1,\"a,\"\"b\"\"\",,\"\"",
        b"\\.",
        "\u{e9};|\u{1f600}|\"\\\"\"".as_bytes(),
    ];
    many(|random| {
        let text = random.changed(&OPTIONS);
        let Ok(text) = std::str::from_utf8(&text) else { return };
        let Ok(Some(copy)) = Copy::read(Words::of(text)) else { return };
        let row = random.changed(&ROWS);
        let Ok(row) = std::str::from_utf8(&row) else { return };
        assert!(!csv_fields(row, &copy).is_empty());
        assert!(text_fields(row, &copy).is_ok_and(|fields| !fields.is_empty()) || row.contains('\\'));
    });
}
