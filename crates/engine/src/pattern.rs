//! Patterns of times as PostgreSQL has them (`YYYY-MM-DD HH24:MI:SS`), for functions that know those of strftime (`%Y-%m-%d`).

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;
use hypostyle_types::Error;
use std::borrow::Cow;
use std::sync::Arc;

/// Functions whose arguments behind the first are patterns.
const FUNCTIONS: [&str; 3] = ["to_char", "to_date", "to_timestamp"];

/// Those that are numbers or signs may be written in any case; longer ones first.
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

pub(crate) fn register(context: &SessionContext) {
    for name in FUNCTIONS {
        if let Ok(inner) = context.udf(name) {
            context.register_udf(ScalarUDF::from(Patterned { inner }));
        }
    }
}

/// A pattern of strftime for one of PostgreSQL; one with `%` is one already.
///
/// # Errors
/// `Unsupported` for letters that have no such pattern.
fn in_percents(pattern: &str) -> hypostyle_types::Result<Cow<'_, str>> {
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
                out.push_str(&percent[1..]);
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

/// One of [`FUNCTIONS`], called with strftime's patterns.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Patterned {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Patterned {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for pattern in args.args.iter_mut().skip(1).filter(|pattern| pattern.data_type().is_string()) {
            *pattern = rewritten(pattern)?;
        }
        self.inner.invoke_with_args(args)
    }
}

fn rewritten(patterns: &ColumnarValue) -> Result<ColumnarValue> {
    let texts = cast(&patterns.to_array(1)?, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>().iter().map(|text| text.map(in_percents).transpose());
    let texts: StringArray = texts
        .collect::<hypostyle_types::Result<_>>()
        .map_err(|error| DataFusionError::External(Box::new(error)))?;
    let texts: ArrayRef = cast(&texts, &patterns.data_type())?;
    Ok(match patterns {
        ColumnarValue::Scalar(_) => {
            ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&texts, 0)?)
        }
        ColumnarValue::Array(_) => ColumnarValue::Array(texts),
    })
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
            ("%d.%m.", "%d.%m."),
            ("", ""),
            ("é YYYY", "é %Y"),
        ] {
            assert_eq!(in_percents(pattern).unwrap(), expected, "{pattern}");
        }
        assert!(in_percents("YYYY Q").is_err());
    }
}
