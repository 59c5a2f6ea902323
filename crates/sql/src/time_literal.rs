//! Texts that are intervals, dates and times, as they are written: INTERVALs in the forms of the
//! standard, types with a number of digits, and words such as `today`. DataFusion takes the text of
//! an INTERVAL unchanged, and drops the digits.

use crate::call::call;
use crate::interval_text::{Fields, Last, in_words, is_unit, read_with, read_within};
use crate::replaced_tokens::{blank, replace};
use crate::text_value::text_of;
use crate::walk::taken;
use arrow::datatypes::IntervalMonthDayNano;
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{BinaryOperator, CastKind, DataType, Expr, Interval, UnaryOperator, Value};
use sqlparser::tokenizer::Token;

/// Words of a statement that may have such texts.
pub const SIGNS: [&str; 6] = ["INTERVAL", "DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "DATETIME"];

/// Rewrites one expression, after those within it.
///
/// # Errors
/// `InvalidInput` for a text that is no interval, `Syntax` for a number of no unit.
pub fn rewrite(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Interval(interval) => as_read(interval),
        // DataFusion would put the sign in front of the text, of which it is the first number's.
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: of } if matches!(of.as_ref(), Expr::Interval(_)) => {
            let interval = taken(of);
            match constant(&interval) {
                Some((text, read)) => *expr = Expr::Interval(literal(negative(read, text)?)),
                None => **of = Expr::Nested(Box::new(interval)),
            }
            Ok(())
        }
        Expr::TypedString(typed) => {
            let text = Expr::Value(typed.value.clone());
            if let Some(meant) = cast_within(CastKind::Cast, &text, &typed.data_type)? {
                *expr = meant;
            }
            Ok(())
        }
        Expr::Cast { kind, expr: of, data_type, array: false, format: None } => {
            if let Some(meant) = cast_within(kind.clone(), of, data_type)? {
                *expr = meant;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Reads an interval as PostgreSQL does. It may have a unit behind it, or fields, as
/// `INTERVAL '1-2' YEAR TO MONTH`.
fn as_read(interval: &mut Interval) -> Result<()> {
    let mut is_negative = false;
    if let Expr::UnaryOp { op: UnaryOperator::Minus, expr } = interval.value.as_ref()
        && text_of(expr).is_some()
    {
        is_negative = true;
        interval.value = expr.clone();
    }
    let Some(text) = text_of(&interval.value) else {
        return match (interval.value.as_ref(), &interval.leading_field) {
            (Expr::Value(value), None) if matches!(value.value, Value::Number(..)) => {
                let message =
                    format!("INTERVAL {value} has no unit; write one behind it, as in INTERVAL {value} DAY");
                Err(Error::new(ErrorKind::Syntax, message))
            }
            _ => Ok(()),
        };
    };
    let digits = interval.fractional_seconds_precision.or(interval.leading_precision);
    let digits = digits.map(|digits| u32::try_from(digits).unwrap_or(u32::MAX));
    let words = match (&interval.leading_field, &interval.last_field) {
        (None, _) => String::new(),
        (Some(only), None) => only.to_string(),
        (Some(first), Some(last)) => format!("{first} TO {last}"),
    };
    let read = match Fields::named(&words, digits) {
        Some(fields) => read_within(text, fields)?,
        None if interval.last_field.is_none() => read_with(text, Some(&words))?,
        None => return Err(Error::new(ErrorKind::Syntax, format!("an INTERVAL has no fields {words}"))),
    };
    let read = if is_negative { negative(read, text)? } else { read };
    *interval = literal(read);
    Ok(())
}

/// Returns the text of an interval that has been read, and the interval.
fn constant(expr: &Expr) -> Option<(&str, IntervalMonthDayNano)> {
    match expr {
        Expr::Interval(interval) if interval.leading_field.is_none() => {
            let text = text_of(&interval.value)?;
            Some((text, read_with(text, None).ok()?))
        }
        _ => None,
    }
}

/// Says whether the size of a window frame is less than nothing, where it is a constant.
pub fn is_negative(size: &Expr) -> bool {
    match size {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => matches!(expr.as_ref(), Expr::Value(_)),
        Expr::Interval(interval) => {
            let unit = interval.leading_field.as_ref().map(ToString::to_string);
            let read = text_of(&interval.value).and_then(|text| read_with(text, unit.as_deref()).ok());
            // A month has 30 days where intervals are compared.
            read.is_some_and(|IntervalMonthDayNano { months, days, nanoseconds }| {
                let days = i128::from(months) * 30 + i128::from(days);
                days * 86_400_000_000_000 + i128::from(nanoseconds) < 0
            }) || is_negative(&interval.value)
        }
        _ => false,
    }
}

fn negative(interval: IntervalMonthDayNano, text: &str) -> Result<IntervalMonthDayNano> {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    match (months.checked_neg(), days.checked_neg(), nanoseconds.checked_neg()) {
        (Some(months), Some(days), Some(nanoseconds)) => {
            Ok(IntervalMonthDayNano::new(months, days, nanoseconds))
        }
        _ => Err(Error::invalid_input(format!("interval out of range: - \"{text}\"")).with_sqlstate("22008")),
    }
}

fn literal(interval: IntervalMonthDayNano) -> Interval {
    Interval {
        value: Box::new(Expr::value(Value::SingleQuotedString(in_words(interval)))),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    }
}

/// Returns what a cast to a type with digits or fields, or of a word such as `today`, stands for.
fn cast_within(kind: CastKind, of: &Expr, data_type: &DataType) -> Result<Option<Expr>> {
    let cast = |of: Expr, data_type: DataType| Expr::Cast {
        kind: kind.clone(),
        expr: Box::new(of),
        data_type,
        array: false,
        format: None,
    };
    let number = |digits: u64| Expr::value(Value::Number(digits.to_string(), false));
    let is_time = matches!(data_type, DataType::Date | DataType::Time(..) | DataType::Timestamp(..));
    if is_time && let Some(moment) = text_of(of).and_then(moment_of_word) {
        return Ok(Some(cast(moment, data_type.clone())));
    }
    Ok(match data_type {
        DataType::Interval { fields: None, precision: None } => None,
        DataType::Interval { fields, precision } => {
            let words = fields.as_ref().map(ToString::to_string).unwrap_or_default();
            let digits = precision.map(|digits| u32::try_from(digits).unwrap_or(u32::MAX));
            match (text_of(of), Fields::named(&words, digits)) {
                (Some(text), Some(fields)) if !matches!(kind, CastKind::TryCast | CastKind::SafeCast) => {
                    Some(Expr::Interval(literal(read_within(text, fields)?)))
                }
                _ => {
                    let whole = cast(of.clone(), DataType::Interval { fields: None, precision: None });
                    let words = Expr::value(Value::SingleQuotedString(words));
                    Some(call("interval_within", vec![whole, words, number(precision.unwrap_or(9))]))
                }
            }
        }
        // A column has seconds, milliseconds, microseconds or nanoseconds.
        DataType::Timestamp(Some(digits @ (1 | 2 | 4 | 5)), zone) if !is_within(of) => {
            let whole = cast(of.clone(), DataType::Timestamp(None, *zone));
            Some(cast(call("time_within", vec![whole, number(*digits)]), data_type.clone()))
        }
        DataType::Time(Some(digits @ 0..=5), zone) => {
            let whole = cast(of.clone(), DataType::Time(None, *zone));
            Some(call("time_within", vec![whole, number(*digits)]))
        }
        _ => None,
    })
}

/// Says whether an expression has been cut to its digits already: statements are read again.
fn is_within(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if function.name.to_string() == "time_within")
}

/// Returns the point in time that a word stands for.
fn moment_of_word(text: &str) -> Option<Expr> {
    let day = |days| {
        let left = Box::new(call("current_date", vec![]));
        let interval = literal(IntervalMonthDayNano::new(0, days, 0));
        Expr::Nested(Box::new(Expr::BinaryOp {
            left,
            op: BinaryOperator::Plus,
            right: Box::new(Expr::Interval(interval)),
        }))
    };
    Some(match text.trim().to_ascii_lowercase().as_str() {
        "now" => call("now", vec![]),
        "today" => call("current_date", vec![]),
        "yesterday" => day(-1),
        "tomorrow" => day(1),
        _ => return None,
    })
}

/// Rewrites tokens of intervals that the parser does not know: `INTERVAL 3 DECADES`, of a unit that
/// it would take for a name, `INTERVAL (2) DAY` and `INTERVAL(2) '1 day'`; and `INTERVAL 3 DAY` in a
/// window frame, where DataFusion knows texts alone. Says whether there were some.
pub fn known(tokens: &mut Vec<Token>) -> bool {
    let is_blank = |token: &Token| matches!(token, Token::Whitespace(_));
    let mut meant = Vec::new();
    for place in 0..tokens.len() {
        if !matches!(&tokens[place], Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("INTERVAL"))
        {
            continue;
        }
        let behind: Vec<usize> =
            (place + 1..tokens.len()).filter(|at| !is_blank(&tokens[*at])).take(4).collect();
        let found: Vec<&Token> = behind.iter().map(|at| &tokens[*at]).collect();
        match found.as_slice() {
            [Token::Number(number, _), Token::Word(unit), others @ ..]
                if unit.quote_style.is_none()
                    && is_unit(&unit.value)
                    && (!is_known_unit(&unit.value) || ends_bound(others)) =>
            {
                let text = format!("{number} {}", unit.value);
                meant.push((place + 1..behind[1] + 1, vec![blank(), Token::SingleQuotedString(text)]));
            }
            [Token::LParen, Token::Number(number, _), Token::RParen, Token::Word(unit)]
                if unit.quote_style.is_none() && is_unit(&unit.value) =>
            {
                let text = format!("{number} {}", unit.value);
                meant.push((place + 1..behind[3] + 1, vec![blank(), Token::SingleQuotedString(text)]));
            }
            [Token::LParen, Token::Number(digits, long), Token::RParen, Token::SingleQuotedString(text)] => {
                let (text, digits) = (text.clone(), Token::Number(digits.clone(), *long));
                let (second, text) = (Token::make_word("SECOND", None), Token::SingleQuotedString(text));
                let written = vec![blank(), text, blank(), second, Token::LParen, digits, Token::RParen];
                meant.push((place + 1..behind[3] + 1, written));
            }
            _ => {}
        }
    }
    replace(tokens, meant)
}

/// Says whether tokens begin with the word that ends a bound of a window frame.
fn ends_bound(tokens: &[&Token]) -> bool {
    let is = |word: &str| ["PRECEDING", "FOLLOWING"].iter().any(|known| word.eq_ignore_ascii_case(known));
    matches!(tokens, [Token::Word(word), ..] if is(&word.value))
}

/// Says whether the parser knows a unit behind a number.
fn is_known_unit(unit: &str) -> bool {
    const KNOWN: [&str; 10] = [
        "CENTURY",
        "DECADE",
        "MICROSECOND",
        "MICROSECONDS",
        "MILLENNIUM",
        "MILLISECOND",
        "MILLISECONDS",
        "NANOSECOND",
        "NANOSECONDS",
        "QUARTER",
    ];
    const WEEKS: [&str; 2] = ["WEEK", "WEEKS"];
    let is_one = |units: &[&str]| units.iter().any(|known| unit.eq_ignore_ascii_case(known));
    Last::named(unit).is_some() || is_one(&KNOWN) || is_one(&WEEKS)
}

#[cfg(test)]
mod tests {
    use super::{Token, known};
    use crate::tokenized::tokens_of;

    #[test]
    fn units_that_the_parser_does_not_know_are_in_the_text() {
        for (written, meant) in [
            ("INTERVAL 3 decades", "INTERVAL '3 decades'"),
            ("INTERVAL 3 days", "INTERVAL 3 days"),
            ("INTERVAL 3 days PRECEDING", "INTERVAL '3 days' PRECEDING"),
            ("INTERVAL (3) days", "INTERVAL '3 days'"),
            ("INTERVAL 3 AS decades", "INTERVAL 3 AS decades"),
            ("1 + interval 2 Centuries + 1", "1 + interval '2 Centuries' + 1"),
            ("INTERVAL ( 2 ) '1 day'", "INTERVAL '1 day' SECOND(2)"),
        ] {
            let mut tokens = tokens_of(written);
            let changed = known(&mut tokens);
            assert_eq!(tokens.iter().map(ToString::to_string).collect::<String>(), meant);
            assert_eq!(changed, written != meant);
        }
    }

    #[test]
    fn many_units_are_written_at_once() {
        let mut tokens = tokens_of(&format!("SELECT {}0", "INTERVAL 3 decades, ".repeat(100_000)));
        assert!(known(&mut tokens));
        let texts = tokens.iter().filter(|token| matches!(token, Token::SingleQuotedString(_)));
        assert_eq!(texts.count(), 100_000);
    }
}
