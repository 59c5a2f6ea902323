//! Texts in the normal forms of Unicode, and without accents.

use crate::arguments::refused;
use crate::builtin::written::{Described, Kind};
use arrow::array::{ArrayRef, AsArray, BooleanArray, StringArray};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use std::sync::Arc;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

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
];

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
