//! Converts PostgreSQL's patterns of times (`YYYY-MM-DD HH24:MI:SS`) to those of strftime
//! (`%Y-%m-%d`), which functions know.

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use hypostyle_types::Error;
use std::borrow::Cow;

/// The patterns, longer ones first. Patterns of numbers and signs may be written in any case.
const PATTERNS: [(&str, &str); 18] = [
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("IYYY", "%G"),
    ("YYYY", "%Y"),
    ("DDD", "%j"),
    ("HH", "%I"),
    ("MI", "%M"),
    ("SS", "%S"),
    ("MS", "%3f"),
    ("US", "%6f"),
    ("MM", "%m"),
    ("DD", "%d"),
    ("YY", "%y"),
    ("IW", "%V"),
    ("ID", "%u"),
    ("AM", "%p"),
    ("PM", "%p"),
    ("TZ", "%Z"),
];

const NAMES: [(&str, &str); 4] = [("Month", "%B"), ("Mon", "%b"), ("Day", "%A"), ("Dy", "%a")];

/// Returns a pattern of strftime for one of PostgreSQL; one with `%` is one already.
///
/// # Errors
/// `Unsupported` for letters that have no such pattern.
pub fn in_percents(pattern: &str) -> hypostyle_types::Result<Cow<'_, str>> {
    if pattern.contains('%') {
        return Ok(pattern.into());
    }
    let (mut out, mut rest, mut bare) = (String::new(), pattern, false);
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, behind) = quoted.split_once('"').unwrap_or((quoted, ""));
            out.push_str(text);
            rest = behind;
            continue;
        }
        if let Some(behind) = rest.strip_prefix("FM") {
            (bare, rest) = (true, behind);
            continue;
        }
        let is = |known: &str| rest.get(..known.len()).is_some_and(|text| text.eq_ignore_ascii_case(known));
        let name = NAMES.iter().find(|(known, _)| rest.starts_with(known));
        let found = name.or_else(|| PATTERNS.iter().find(|(known, _)| is(known)));
        match found {
            Some((known, percent)) => {
                out.push_str(if bare { "%-" } else { "%" });
                let is_lower = *percent == "%p" && first.is_ascii_lowercase();
                out.push_str(if is_lower { "P" } else { &percent[1..] });
                rest = &rest[known.len()..];
            }
            None if first.is_ascii_alphabetic() && first != 'T' => {
                return Err(Error::unsupported(format!(
                    "the pattern \"{pattern}\" is not supported from \"{rest}\" on; write it with the patterns of \
                     strftime, such as %Y-%m-%d %H:%M:%S"
                )));
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        bare = false;
    }
    // Names have no padding to be left out.
    for (_, percent) in NAMES {
        out = out.replace(&format!("%-{}", &percent[1..]), percent);
    }
    Ok(out.into())
}

/// Returns [`in_percents`] of each.
pub fn with_percents(patterns: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(patterns, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>().iter().map(|text| text.map(in_percents).transpose());
    let texts: StringArray = texts
        .collect::<hypostyle_types::Result<_>>()
        .map_err(|error| DataFusionError::External(Box::new(error)))?;
    Ok(cast(&texts, patterns.data_type())?)
}

#[cfg(test)]
mod tests {
    use super::in_percents;

    #[test]
    fn patterns_of_postgresql_are_those_of_strftime() {
        for (pattern, expected) in [
            ("YYYY-MM-DD HH24:MI:SS.US", "%Y-%m-%d %H:%M:%S.%6f"),
            ("yyyymmdd", "%Y%m%d"),
            ("FMDD. FMMonth YYYY", "%-d. %B %Y"),
            ("Dy, DD Mon YY", "%a, %d %b %y"),
            ("YYYY-MM-DD\"T\"HH24:MI", "%Y-%m-%dT%H:%M"),
            ("IYYY-IW", "%G-%V"),
            ("HH:MI AM pm", "%I:%M %p %P"),
            ("%d.%m.", "%d.%m."),
            ("", ""),
            ("é YYYY", "é %Y"),
        ] {
            assert_eq!(in_percents(pattern).unwrap(), expected, "{pattern}");
        }
        assert!(in_percents("YYYY Q").is_err());
    }
}
