//! How alike texts are: by their sound, and by their groups of three letters, as PostgreSQL's extensions
//! fuzzystrmatch and pg_trgm tell it.

use crate::builtin::written::{Described, Kind};
use arrow::array::{ArrayRef, AsArray, Float32Array, Int64Array, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(
        &["soundex"],
        &[Kind::Text],
        |_| Ok(DataType::Utf8),
        |args, _| {
            let texts = args[0].as_string::<i32>().iter();
            Ok(Arc::new(texts.map(|text| text.map(soundex)).collect::<StringArray>()))
        },
    ),
    // How many of the four letters and digits of their sounds are the same.
    Described::new(
        &["difference"],
        &[Kind::Text, Kind::Text],
        |_| Ok(DataType::Int64),
        |args, _| {
            let counts = pairs(args).map(|(one, other)| {
                let (one, other) = (soundex(one?), soundex(other?));
                Some(one.bytes().zip(other.bytes()).filter(|(one, other)| one == other).count() as i64)
            });
            Ok(Arc::new(counts.collect::<Int64Array>()))
        },
    ),
    Described::new(
        &["similarity"],
        &[Kind::Text, Kind::Text],
        |_| Ok(DataType::Float32),
        |args, _| {
            let shares = pairs(args).map(|(one, other)| Some(similarity(one?, other?)));
            Ok(Arc::new(shares.collect::<Float32Array>()))
        },
    ),
    Described::new(
        &["show_trgm"],
        &[Kind::Text],
        |_| Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))),
        |args, _| {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for text in args[0].as_string::<i32>() {
                lists.append_option(text.map(|text| trigrams(text).into_iter().map(in_text).map(Some)));
            }
            Ok(Arc::new(lists.finish()))
        },
    ),
];

fn pairs(args: &[ArrayRef]) -> impl Iterator<Item = (Option<&str>, Option<&str>)> {
    args[0].as_string::<i32>().iter().zip(args[1].as_string::<i32>().iter())
}

/// Returns the digit of a letter's sound, and anything else as it is.
fn code(letter: char) -> char {
    const CODES: &[u8; 26] = b"01230120022455012623010202";
    let upper = letter.to_ascii_uppercase();
    match upper {
        'A'..='Z' => char::from(CODES[usize::from(upper as u8 - b'A')]),
        _ => letter,
    }
}

/// Returns the first letter of a text, and the digits of the sounds behind it.
fn soundex(text: &str) -> String {
    let text = text.trim_start_matches(|letter: char| !letter.is_ascii_alphabetic());
    let mut letters = text.chars();
    let Some(mut before) = letters.next() else { return String::new() };
    let mut sound = String::from(before.to_ascii_uppercase());
    for letter in letters {
        let digit = code(letter);
        if sound.len() < 4 && letter.is_ascii_alphabetic() && digit != code(before) && digit != '0' {
            sound.push(digit);
        }
        before = letter;
    }
    while sound.len() < 4 {
        sound.push('0');
    }
    sound
}

/// Returns the groups of three letters in the words of a text, each of which has two blanks before it and one
/// behind it.
fn trigrams(text: &str) -> BTreeSet<[char; 3]> {
    let lower = text.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut found = BTreeSet::new();
    for word in words {
        let letters: Vec<char> = [' ', ' '].into_iter().chain(word.chars()).chain([' ']).collect();
        found.extend(letters.windows(3).map(|group| [group[0], group[1], group[2]]));
    }
    found
}

fn in_text(group: [char; 3]) -> String {
    group.iter().collect()
}

/// Returns how many groups two texts share, of all that they have.
fn similarity(one: &str, other: &str) -> f32 {
    let (one, other) = (trigrams(one), trigrams(other));
    let shared = one.intersection(&other).count();
    match one.len() + other.len() - shared {
        0 => 0.0,
        all => shared as f32 / all as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::{similarity, soundex};

    #[test]
    fn texts_have_sounds() {
        for (text, sound) in [
            ("Anne", "A500"),
            ("Ann", "A500"),
            ("Andrew", "A536"),
            ("Margaret", "M626"),
            (" 1robert", "R163"),
            ("", ""),
            ("12", ""),
        ] {
            assert_eq!(soundex(text), sound, "{text}");
        }
    }

    #[test]
    fn texts_share_groups_of_letters() {
        assert_eq!(similarity("word", "two words"), 4.0 / 11.0);
        assert_eq!((similarity("a", "A!"), similarity("", ""), similarity("a", "b")), (1.0, 0.0, 0.0));
    }
}
