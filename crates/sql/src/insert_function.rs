//! Functions of PL/pgSQL that try to insert a row, and give the row, or which key of another row it violates:
//! the only functions of that language that are known, by the tokens of their bodies. Programs make one to
//! find a row or else insert it, as Sequelize does for each `findOrCreate`.

use crate::build::every_column;
use crate::cursor::Cursor;
use crate::identifier::fold;
use crate::parse::{Extension, parse};
use datafusion_sql::parser::Statement as DfStatement;
use sqlparser::ast::{ArgMode, CreateFunction, CreateFunctionBody, Expr, Insert, Statement, Value};

/// What such a function does.
#[derive(Clone, Debug)]
pub struct InsertFunction {
    /// The INSERT, which returns its row.
    pub insert: Insert,
    /// The names of what the function gives: the row, and the key that is violated.
    pub row: String,
    pub detail: String,
}

impl InsertFunction {
    /// Reads what a CREATE FUNCTION makes; `None` where it is another function.
    pub fn read(function: &CreateFunction, extension: &Extension) -> Option<Self> {
        let arguments = function.args.iter().flatten();
        let given = arguments
            .map(|argument| argument.name.as_ref().filter(|_| argument.mode == Some(ArgMode::Out)).map(fold));
        let [row, detail] = given.collect::<Option<Vec<String>>>()?.try_into().ok()?;
        let insert = inserted(body(function)?, &row, &detail)?;
        let DfStatement::Statement(insert) = parse(insert, extension).ok()? else { return None };
        let Statement::Insert(mut insert) = *insert else { return None };
        insert.returning = Some(vec![every_column()]);
        Some(Self { insert, row, detail })
    }
}

/// Returns the text between the quotation marks or tags of a function.
fn body(function: &CreateFunction) -> Option<&str> {
    let Some(CreateFunctionBody::AsBeforeOptions { body: Expr::Value(body), .. }) = &function.function_body
    else {
        return None;
    };
    match &body.value {
        Value::DollarQuotedString(body) => Some(body.value.as_str()),
        Value::SingleQuotedString(body) => Some(body.as_str()),
        _ => None,
    }
}

/// Returns the INSERT of a body that puts its row into one variable, and the key that it violates into
/// another one.
fn inserted<'a>(body: &'a str, row: &str, detail: &str) -> Option<&'a str> {
    let mut cursor = Cursor::skipping(body, 0);
    cursor.expect(&["BEGIN"]).ok()?;
    let start = cursor.start();
    let end = loop {
        let end = cursor.start();
        if !cursor.take("RETURNING") {
            cursor.next()?;
        } else if cursor.take_symbol("*") && cursor.take("INTO") {
            break end;
        }
    };
    let is = |name: String, known: &str| (name == known).then_some(());
    is(cursor.name("a variable").ok()?, row)?;
    cursor.expect_symbol(";").ok()?;
    cursor.expect(&["EXCEPTION", "WHEN", "unique_violation", "THEN"]).ok()?;
    cursor.expect(&["GET", "STACKED", "DIAGNOSTICS"]).ok()?;
    is(cursor.name("a variable").ok()?, detail)?;
    cursor.take_symbol(":");
    cursor.expect_symbol("=").ok()?;
    cursor.expect(&["PG_EXCEPTION_DETAIL"]).ok()?;
    cursor.expect_symbol(";").ok()?;
    cursor.expect(&["END"]).ok()?;
    cursor.end().ok()?;
    Some(cursor.text_between(start, end).trim_end())
}

#[cfg(test)]
mod tests {
    use super::inserted;

    #[test]
    fn the_insert_of_a_body_is_found_among_its_tokens() {
        let behind =
            "EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS caught = PG_EXCEPTION_DETAIL; END";
        let insert = "INSERT INTO \"c\" VALUES ('; RETURNING * INTO x')";
        let body = format!("BEGIN {insert} RETURNING * INTO response; {behind}");
        assert_eq!(inserted(&body, "response", "caught"), Some(insert));
        let other = format!("\nbegin -- so\n{insert}\nreturning * into Response;\n{behind};\n");
        assert_eq!(inserted(&other, "response", "caught"), Some(insert));
        let twice = format!("{body}; {body}");
        for (body, row) in [
            (body.as_str(), "caught"),
            (twice.as_str(), "response"),
            ("BEGIN END", "response"),
            ("BEGIN INSERT INTO c VALUES (1) RETURNING * INTO response; END", "response"),
            ("BEGIN INSERT INTO c VALUES (1) RETURNING id; END", "response"),
            ("", "response"),
        ] {
            assert_eq!(inserted(body, row, "caught"), None, "{body}");
        }
    }
}
