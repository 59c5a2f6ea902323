//! Which of a text's statements get which parameters.

use crate::session::Parameters;
use hypostyle_error::wrong_parameters;
use hypostyle_sql::kind::Kind;
use hypostyle_sql::lexer::{TokenKind, tokens};
use hypostyle_types::Result;

/// Returns the parameters of each statement; `None` where there is no choice.
///
/// # Errors
/// `InvalidInput` when there are more or fewer values than `?`, or more than the highest number.
pub(super) fn shares(statements: &[&str], parameters: &Parameters) -> Result<Option<Vec<Parameters>>> {
    check_numbers(statements, parameters)?;
    if statements.len() < 2 || parameters.is_empty() {
        return Ok(None);
    }
    let marks = |statement: &str| -> (usize, usize) {
        let found = tokens(statement).filter(|token| token.kind == TokenKind::Parameter);
        found.fold((0, 0), |(unnumbered, all), token| (unnumbered + usize::from(token.text == "?"), all + 1))
    };
    let marks: Vec<(usize, usize)> = statements.iter().map(|statement| marks(statement)).collect();
    let unnumbered: usize = marks.iter().map(|(unnumbered, _)| unnumbered).sum();
    if let Parameters::Positional(values) = parameters
        && unnumbered > 0
    {
        if unnumbered != values.len() {
            return Err(wrong_parameters("the statements", unnumbered, values.len()));
        }
        let mut rest = values.as_slice();
        let shares = marks.iter().map(|(unnumbered, _)| {
            let (own, others) = rest.split_at(*unnumbered);
            rest = others;
            if own.is_empty() { Parameters::None } else { Parameters::Positional(own.to_vec()) }
        });
        return Ok(Some(shares.collect()));
    }
    // EXECUTE gives the values of what is prepared.
    let shares = statements.iter().zip(&marks).map(|(statement, (_, all))| match all {
        0 => Parameters::None,
        _ if Kind::read(statement).prepares() => Parameters::None,
        _ => parameters.clone(),
    });
    Ok(Some(shares.collect()))
}

/// # Errors
/// `InvalidInput` when there are more values than the highest number among parameters that all have numbers.
fn check_numbers(statements: &[&str], parameters: &Parameters) -> Result<()> {
    let Parameters::Positional(values) = parameters else { return Ok(()) };
    if values.is_empty() {
        return Ok(());
    }
    let mut highest = 0;
    let all = statements.iter().flat_map(|statement| tokens(statement));
    for mark in all.filter(|token| token.kind == TokenKind::Parameter) {
        // Each `?` is counted where it gets its number, and names have no places.
        let number = mark.text.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
        let Some(number) = number else { return Ok(()) };
        highest = highest.max(number);
    }
    match values.len() > highest {
        true => {
            let statements = if statements.len() == 1 { "the statement" } else { "the statements" };
            Err(wrong_parameters(statements, highest, values.len()))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::ScalarValue;

    #[test]
    fn values_behind_the_highest_number_are_refused() {
        let values = |count| Parameters::Positional(vec![ScalarValue::Null; count]);
        for (statements, most) in [
            (&["SELECT $1::int"][..], 1),
            (&["SELECT $2, '$3', $1"], 2),
            (&["SELECT $3"], 3),
            (&["SELECT 1"], 0),
            (&["SELECT $1", "SELECT $2"], 2),
        ] {
            assert!(shares(statements, &values(most)).is_ok(), "{statements:?}");
            let refused = shares(statements, &values(most + 1)).unwrap_err();
            assert_eq!(refused.sqlstate(), "07001", "{statements:?}");
        }
        // Elsewhere it is told what a name or a `?` lacks.
        for statement in ["SELECT $a", "SELECT ?", "SELECT $1 ? 'key'"] {
            assert!(shares(&[statement], &values(5)).is_ok(), "{statement}");
        }
    }
}
