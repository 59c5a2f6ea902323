//! Texts in the normal forms of Unicode, without accents, and by what readers take for characters.

use crate::arguments::refused;
use crate::builtin::number::wrong;
use crate::builtin::written::{Described, Kind};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;
use std::sync::Arc;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation;

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(
        &["strip_accents"],
        &[Kind::Text],
        |_| Ok(DataType::Utf8),
        |args, _| {
            let texts = args[0].as_string::<i32>().iter();
            Ok(Arc::new(texts.map(|text| text.map(without_accents)).collect::<StringArray>()))
        },
    ),
    Described::new(
        &["nfc_normalize"],
        &[Kind::Text],
        |_| Ok(DataType::Utf8),
        |args, _| {
            let texts = args[0].as_string::<i32>().iter();
            Ok(Arc::new(texts.map(|text| text.map(|text| Form::Nfc.of(text))).collect::<StringArray>()))
        },
    ),
    // The form is NFC where none is given.
    Described::new(
        &["normalize"],
        &[Kind::Text, Kind::Text],
        |_| Ok(DataType::Utf8),
        |args, _| {
            let found = in_forms(args, |text, form| form.of(text))?;
            Ok(Arc::new(found.into_iter().collect::<StringArray>()))
        },
    )
    .optional(1),
    // What stands for `IS NORMALIZED`.
    Described::new(
        &["is_normalized"],
        &[Kind::Text, Kind::Text],
        |_| Ok(DataType::Boolean),
        |args, _| {
            let found = in_forms(args, |text, form| text.is_ascii() || form.of(text) == text)?;
            Ok(Arc::new(found.into_iter().collect::<BooleanArray>()))
        },
    )
    .optional(1),
    // Clusters of graphemes (Unicode Standard Annex 29).
    Described::new(
        &["length_grapheme"],
        &[Kind::Text],
        |_| Ok(DataType::Int64),
        |args, _| {
            let texts = args[0].as_string::<i32>().iter();
            let lengths = texts.map(|text| text.map(|text| text.graphemes(true).count() as i64));
            Ok(Arc::new(lengths.collect::<Int64Array>()))
        },
    ),
    Described::new(
        &["left_grapheme"],
        &[Kind::Text, Kind::Integer],
        |_| Ok(DataType::Utf8),
        |args, rows| {
            parts(args, rows, |length, count, _| {
                Ok((0, if count < 0 { length.saturating_add(count) } else { count }))
            })
        },
    ),
    Described::new(
        &["right_grapheme"],
        &[Kind::Text, Kind::Integer],
        |_| Ok(DataType::Utf8),
        |args, rows| {
            parts(args, rows, |length, count, _| {
                Ok((if count < 0 { count.saturating_neg() } else { length.saturating_sub(count) }, length))
            })
        },
    ),
    // From a place, which is counted from the end where it is negative, and how many.
    Described::new(
        &["substring_grapheme"],
        &[Kind::Text, Kind::Integer, Kind::Integer],
        |_| Ok(DataType::Utf8),
        |args, rows| {
            parts(args, rows, |length, place, count| {
                let start = if place < 0 { length.saturating_add(place) } else { place.saturating_sub(1) };
                match count {
                    Some(count) if count < 0 => Err(wrong("22011", "negative substring length not allowed")),
                    Some(count) => Ok((start, start.saturating_add(count))),
                    None => Ok((start, length)),
                }
            })
        },
    )
    .optional(1),
];

/// Where a part of so many clusters starts and ends, by one number or two.
type Bounds = fn(i64, i64, Option<i64>) -> Result<(i64, i64)>;

/// Returns the clusters of each text from one place to another. The places, from 0, may be outside of it:
/// they come of how many clusters there are, and of the numbers in the arguments.
fn parts(args: &[ArrayRef], rows: usize, bounds: Bounds) -> Result<ArrayRef> {
    let texts = args[0].as_string::<i32>();
    let number = |place: usize, row: usize| args[place].as_primitive::<Int64Type>().value(row);
    let part = |row: usize| {
        if args.iter().any(|values| values.is_null(row)) {
            return Ok(None);
        }
        let text = texts.value(row);
        let length = text.graphemes(true).count() as i64;
        let (start, end) = bounds(length, number(1, row), args.get(2).map(|_| number(2, row)))?;
        let (start, end) = (start.clamp(0, length), end.clamp(0, length));
        let taken = usize::try_from(end - start).unwrap_or_default();
        Ok(Some(text.graphemes(true).skip(start as usize).take(taken).collect::<String>()))
    };
    Ok(Arc::new((0..rows).map(part).collect::<Result<StringArray>>()?))
}

/// A normal form (Unicode Standard Annex 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

impl Form {
    fn named(name: &str) -> Result<Self> {
        match name.to_ascii_uppercase().as_str() {
            "NFC" => Ok(Self::Nfc),
            "NFD" => Ok(Self::Nfd),
            "NFKC" => Ok(Self::Nfkc),
            "NFKD" => Ok(Self::Nfkd),
            _ => {
                Err(refused(format!("invalid normalization form: {name}; there are NFC, NFD, NFKC and NFKD")))
            }
        }
    }

    fn of(self, text: &str) -> String {
        if text.is_ascii() {
            return text.to_string();
        }
        match self {
            Self::Nfc => text.nfc().collect(),
            Self::Nfd => text.nfd().collect(),
            Self::Nfkc => text.nfkc().collect(),
            Self::Nfkd => text.nfkd().collect(),
        }
    }
}

/// Calls a function with each text and the form that is asked for; without one where either is NULL.
fn in_forms<T>(args: &[ArrayRef], of: impl Fn(&str, Form) -> T) -> Result<Vec<Option<T>>> {
    let texts = args[0].as_string::<i32>().iter();
    match args.get(1) {
        None => Ok(texts.map(|text| text.map(|text| of(text, Form::Nfc))).collect()),
        Some(forms) => {
            let pairs = texts.zip(forms.as_string::<i32>());
            let found = pairs.map(|pair| match pair {
                (Some(text), Some(form)) => Form::named(form).map(|form| Some(of(text, form))),
                _ => Ok(None),
            });
            found.collect()
        }
    }
}

fn without_accents(text: &str) -> String {
    if text.is_ascii() {
        return text.to_string();
    }
    text.nfd().filter(|letter| !is_combining_mark(*letter)).nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::{Form, without_accents};

    #[test]
    fn texts_have_normal_forms() {
        let (composed, decomposed) = ("\u{e9}\u{fb01}", "e\u{301}\u{fb01}");
        assert_eq!(Form::Nfc.of(decomposed), composed);
        assert_eq!(Form::Nfd.of(composed), decomposed);
        assert_eq!(Form::Nfkc.of(decomposed), "\u{e9}fi");
        assert_eq!(Form::Nfkd.of(composed), "e\u{301}fi");
        assert_eq!(without_accents("m\u{fc}hleisen \u{e0}\u{315}"), "muhleisen a");
        assert!(Form::named("nfkd").is_ok() && Form::named("NFX").is_err());
    }
}
