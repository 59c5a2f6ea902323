//! Functions of regular expressions that DataFusion has, too. It compiles their patterns again with each
//! call, which is for few rows where a pattern is long.

use crate::arguments::refused;
use crate::builtin::place_of;
use crate::pattern::{as_replacement, is_short};
use crate::regular::{Last, Regular};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use regex::Regex;
use std::borrow::Cow;
use std::sync::Arc;

const REPLACE: &str = "regexp_replace";

/// Returns what a function gives; `None` for other functions, and for arguments that are no texts.
///
/// # Errors
/// `InvalidInput` for patterns (2201B) and options (22023) that are none.
pub(crate) fn computed(name: &str, args: &ScalarFunctionArgs) -> Result<Option<ColumnarValue>> {
    let values = args.args.as_slice();
    let is_text = |place: usize| values.get(place).is_none_or(|value| value.data_type().is_string());
    let is_scalar = values.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = if is_scalar { 1 } else { args.number_rows };
    let found: ArrayRef = match name {
        "regexp_like" if (0..3).all(is_text) => Arc::new(liked(values, rows)?),
        "regexp_count"
            if [0, 1, 3].into_iter().all(is_text)
                && values.get(2).is_none_or(|start| start.data_type() == DataType::Int64) =>
        {
            Arc::new(counted(values, rows)?)
        }
        REPLACE if (0..values.len()).all(is_text) && !is_quick(values) => Arc::new(replaced(values, rows)?),
        _ => return Ok(None),
    };
    let found = cast(&found, args.return_field.data_type())?;
    Ok(Some(match is_scalar {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
        false => ColumnarValue::Array(found),
    }))
}

/// Says whether matches of one pattern are replaced that costs little to compile: DataFusion has ways of its
/// own for some.
fn is_quick(values: &[ColumnarValue]) -> bool {
    let constant = |place: usize| match values.get(place) {
        Some(ColumnarValue::Scalar(value)) => value.try_as_str().flatten(),
        _ => None,
    };
    let has_options = values.len() < 4 || constant(3).is_some_and(|options| !options.is_empty());
    constant(1).is_some_and(is_short) && constant(2).is_some() && has_options
}

fn liked(values: &[ColumnarValue], rows: usize) -> Result<BooleanArray> {
    let [texts, patterns] = texts_and_patterns(values)?;
    let options = values.get(2).map(Given::of).transpose()?;
    let mut patterns = Patterns::new(&patterns, options.as_ref(), "regexp_like");
    let found = (0..rows).map(|row| match texts.at(row) {
        Some(text) => Ok(patterns.regex(row)?.map(|regex| regex.is_match(text))),
        None => Ok(None),
    });
    found.collect()
}

fn counted(values: &[ColumnarValue], rows: usize) -> Result<Int64Array> {
    let [texts, patterns] = texts_and_patterns(values)?;
    let options = values.get(3).map(Given::of).transpose()?;
    let mut patterns = Patterns::new(&patterns, options.as_ref(), "regexp_count");
    let starts = values.get(2).map(|starts| starts.to_array(rows)).transpose()?;
    let starts = starts.as_ref().map(|starts| starts.as_primitive::<Int64Type>());
    let found = (0..rows).map(|row| {
        let start = starts.map_or(Some(1), |starts| starts.is_valid(row).then(|| starts.value(row)));
        let (Some(text), Some(start)) = (texts.at(row), start) else { return Ok(None) };
        let Some(regex) = patterns.regex(row)? else { return Ok(None) };
        if start < 1 {
            return Err(refused("regexp_count(): where to begin is 1 or more"));
        }
        let from = place_of(text, start);
        Ok(Some(from.map_or(0, |from| regex.find_iter(&text[from..]).count() as i64)))
    });
    found.collect()
}

fn replaced(values: &[ColumnarValue], rows: usize) -> Result<StringViewArray> {
    let [texts, patterns] = texts_and_patterns(values)?;
    let replacements = Given::of(&values[2])?;
    let options = values.get(3).map(Given::of).transpose()?;
    let mut patterns = Patterns::new(&patterns, options.as_ref(), REPLACE);
    let constant = if replacements.is_one { replacements.at(0).map(as_replacement) } else { None };
    let mut found = StringViewBuilder::with_capacity(rows);
    for row in 0..rows {
        let is_of_all = patterns.options(row).is_some_and(|options| options.contains('g'));
        let (Some(text), Some(given)) = (texts.at(row), replacements.at(row)) else {
            found.append_null();
            continue;
        };
        let Some(regex) = patterns.regex(row)? else {
            found.append_null();
            continue;
        };
        let with = match &constant {
            Some(constant) => Cow::Borrowed(constant.as_str()),
            None => Cow::Owned(as_replacement(given)),
        };
        found.append_value(regex.replacen(text, usize::from(!is_of_all), &*with));
    }
    Ok(found.finish())
}

fn texts_and_patterns(values: &[ColumnarValue]) -> Result<[Given; 2]> {
    Ok([Given::of(&values[0])?, Given::of(&values[1])?])
}

/// An argument that is a text.
struct Given {
    texts: StringViewArray,
    /// It is the same for all rows.
    is_one: bool,
}

impl Given {
    fn of(value: &ColumnarValue) -> Result<Self> {
        let (texts, is_one) = match value {
            ColumnarValue::Array(texts) => (texts.clone(), false),
            ColumnarValue::Scalar(text) => (text.to_array()?, true),
        };
        Ok(Self { texts: cast(&texts, &DataType::Utf8View)?.as_string_view().clone(), is_one })
    }

    fn at(&self, row: usize) -> Option<&str> {
        let row = if self.is_one { 0 } else { row };
        self.texts.is_valid(row).then(|| self.texts.value(row))
    }
}

/// The patterns of a call.
struct Patterns<'a> {
    patterns: &'a Given,
    options: Option<&'a Given>,
    /// The function.
    name: &'static str,
    last: Last<'a>,
}

impl<'a> Patterns<'a> {
    fn new(patterns: &'a Given, options: Option<&'a Given>, name: &'static str) -> Self {
        Self { patterns, options, name, last: Last::default() }
    }

    /// Returns the options of a row; `None` for NULL.
    fn options(&self, row: usize) -> Option<&'a str> {
        self.options.map_or(Some(""), |options| options.at(row))
    }

    /// Returns the expression of a row; `None` where its pattern or its options are NULL.
    fn regex(&mut self, row: usize) -> Result<Option<&Regex>> {
        let (Some(pattern), Some(options)) = (self.patterns.at(row), self.options(row)) else {
            return Ok(None);
        };
        let name = self.name;
        self.last.regex(pattern, options, || compiled(pattern, options, name)).map(Some)
    }
}

fn compiled(pattern: &str, options: &str, name: &str) -> Result<Arc<Regex>> {
    // That all matches are replaced says nothing of the pattern.
    let options = if name == REPLACE { options.replace('g', "") } else { options.to_string() };
    if options.contains('g') {
        return Err(refused(format!("{name}() does not support the option 'g'")));
    }
    let pattern = if options.is_empty() { pattern.to_string() } else { format!("(?{options}){pattern}") };
    Regular { pattern, ..Regular::default() }.compiled()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Field, FieldRef};
    use hypostyle_error::from_datafusion;

    fn constant(text: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::from(text))
    }

    fn column(texts: &[Option<&str>]) -> ColumnarValue {
        ColumnarValue::Array(Arc::new(texts.iter().copied().collect::<StringViewArray>()))
    }

    fn call(
        name: &str,
        args: Vec<ColumnarValue>,
        rows: usize,
        gives: DataType,
    ) -> Result<Option<ColumnarValue>> {
        let arg_fields: Vec<FieldRef> =
            args.iter().map(|value| Arc::new(Field::new("a", value.data_type(), true)) as FieldRef).collect();
        let return_field = Arc::new(Field::new("f", gives, true));
        let config_options = Arc::default();
        computed(
            name,
            &ScalarFunctionArgs { args, arg_fields, number_rows: rows, return_field, config_options },
        )
    }

    #[test]
    fn texts_are_matched_with_patterns() {
        let texts = || column(&[Some("abc"), Some("ABC"), None, Some("b b")]);
        let patterns = || column(&[Some("^b"), Some("b"), Some("b"), None]);
        let liked = |args: Vec<ColumnarValue>| {
            let found = call("regexp_like", args, 4, DataType::Boolean).unwrap().unwrap();
            found.into_array(4).unwrap().as_boolean().iter().collect::<Vec<_>>()
        };
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(liked(vec![texts(), constant("b")]), [yes, no, None, yes]);
        assert_eq!(liked(vec![texts(), constant("B"), constant("i")]), [yes, yes, None, yes]);
        assert_eq!(liked(vec![texts(), constant("")]), [yes, yes, None, yes]);
        assert_eq!(liked(vec![texts(), patterns()]), [no, no, None, None]);
        assert_eq!(liked(vec![texts(), patterns(), constant("i")]), [no, yes, None, None]);
        let counted = |args: Vec<ColumnarValue>| {
            let found = call("regexp_count", args, 4, DataType::Int64).unwrap().unwrap();
            found.into_array(4).unwrap().as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
        };
        let start = |number: i64| ColumnarValue::Scalar(ScalarValue::from(number));
        assert_eq!(counted(vec![texts(), constant("b")]), [Some(1), Some(0), None, Some(2)]);
        let from_two = vec![texts(), constant("b"), start(2), constant("i")];
        assert_eq!(counted(from_two), [Some(1), Some(1), None, Some(1)]);
        assert_eq!(counted(vec![texts(), constant("b"), start(9)]), [Some(0), Some(0), None, Some(0)]);
    }

    #[test]
    fn matches_are_replaced() {
        let replaced = |args: Vec<ColumnarValue>| {
            let found = call(REPLACE, args, 3, DataType::Utf8).unwrap()?;
            let found = found.into_array(3).unwrap();
            Some(found.as_string::<i32>().iter().map(|text| text.map(str::to_string)).collect::<Vec<_>>())
        };
        let texts = || column(&[Some("abab"), None, Some("cc")]);
        let some =
            |texts: [&str; 2]| Some(vec![Some(texts[0].to_string()), None, Some(texts[1].to_string())]);
        // Costs little to compile.
        assert_eq!(replaced(vec![texts(), constant("b"), constant("x")]), None);
        let patterns = || column(&[Some("(b)"), Some("b"), Some("c")]);
        assert_eq!(replaced(vec![texts(), patterns(), constant("<\\1$>")]), some(["a<b$>ab", "<$>c"]));
        let all = vec![texts(), patterns(), constant("x"), constant("g")];
        assert_eq!(replaced(all), some(["axax", "xx"]));
        let insensitive =
            vec![texts(), constant("B"), constant("x"), column(&[Some("gi"), Some("i"), Some("")])];
        assert_eq!(replaced(insensitive), some(["axax", "cc"]));
        let without_options = vec![texts(), constant("b"), constant("x"), constant("")];
        assert_eq!(replaced(without_options), some(["axab", "cc"]));
    }

    #[test]
    fn patterns_and_options_that_are_none_are_refused() {
        let sqlstate = |name: &str, args: Vec<ColumnarValue>| {
            let found = call(name, args, 1, DataType::Boolean);
            from_datafusion(found.unwrap_err()).sqlstate().to_string()
        };
        assert_eq!(sqlstate("regexp_like", vec![constant("a"), constant("*")]), "2201B");
        assert_eq!(sqlstate("regexp_like", vec![constant("a"), constant("a"), constant("g")]), "22023");
        let start = ColumnarValue::Scalar(ScalarValue::from(0_i64));
        assert_eq!(sqlstate("regexp_count", vec![constant("a"), constant("a"), start]), "22023");
        assert!(call("upper", vec![constant("a")], 1, DataType::Utf8).unwrap().is_none());
    }
}
