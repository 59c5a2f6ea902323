//! Which of a text's statements get which parameters.

use crate::session::Parameters;
use hypostyle_error::wrong_parameters;
use hypostyle_sql::kind::Kind;
use hypostyle_sql::lexer::{TokenKind, tokens};
use hypostyle_types::Result;

/// Returns the parameters of each statement; `None` where there is no choice.
///
/// # Errors
/// `InvalidInput` when there are more or fewer values than `?`.
pub(super) fn shares(statements: &[&str], parameters: &Parameters) -> Result<Option<Vec<Parameters>>> {
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
        _ if Kind::of(statement).prepares() => Parameters::None,
        _ => parameters.clone(),
    });
    Ok(Some(shares.collect()))
}
