//! Macros that are defined: functions that stand for an expression of their arguments (DuckDB).
//! Their calls become that expression in the tree. What an argument names stays what it names where the call
//! stands: an expression in which it could mean something else is refused.

use crate::gate::{self, check_size};
use crate::identifier::fold;
use crate::names::name_as_written;
use crate::phrases::{is_word, next};
use crate::tokenized::tokens_of;
use crate::walk::{Part, expressions, expressions_mut, parts_of, walk, walk_mut};
use hypostyle_error::complexity::too_complex;
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction, MacroArg,
    MacroDefinition, ObjectNamePart, OneOrManyWithParens, Query, Select, Value, Visitor, VisitorMut,
};
use sqlparser::tokenizer::Token;
use std::collections::HashMap;
use std::fmt::Display;
use std::ops::ControlFlow;

/// Parts of all expressions that calls in a statement stand for.
pub const PARTS_MAX: usize = 2000;

/// Bytes that the arguments of a call take more where they are written several times.
const COPIES_BYTES_MAX: usize = 1 << 20;

/// The text of the expression of one macro.
const BODY_BYTES_MAX: usize = 16 << 10;

/// The macros of a session, or of a database, by their names.
pub type Macros = HashMap<String, Macro>;

/// What stands before the name of a macro that is made only if there is none.
const IF_MISSING: &str = "if not exists";

/// Returns the tokens of `CREATE MACRO IF NOT EXISTS f` in words that are known; `None` where they are known
/// already.
pub fn known(tokens: &[Token]) -> Option<Vec<Token>> {
    let first = tokens.iter().position(|token| !matches!(token, Token::Whitespace(_)))?;
    if !is_word(tokens.get(first), &["CREATE"]) {
        return None;
    }
    let of_macro = |token: &Token| is_word(Some(token), &["MACRO", "FUNCTION"]);
    let place = tokens.iter().take(FIRST_WORDS).position(of_macro)?;
    let mut last = place;
    let begins = next(tokens, place)?;
    for word in ["IF", "NOT", "EXISTS"] {
        last = next(tokens, last).filter(|at| is_word(tokens.get(*at), &[word]))?;
    }
    let name = next(tokens, last)?;
    let mut known = tokens.to_vec();
    drop(known.splice(begins..name, [Token::make_word(IF_MISSING, Some('"')), Token::Period]));
    Some(known)
}

/// The tokens among which a definition says that it is one of a macro.
const FIRST_WORDS: usize = 24;

/// Says whether a name before that of a macro says that it is made only if there is none.
pub fn is_if_missing(name: &Ident) -> bool {
    name.quote_style.is_some() && name.value == IF_MISSING
}

/// What a call stands for.
#[derive(Clone, Debug)]
pub struct Macro {
    /// Names of arguments, and what stands for them where they are left out.
    parameters: Vec<(String, Option<Expr>)>,
    body: Expr,
    /// Names that functions within the expression give their own arguments.
    bound: Vec<String>,
}

impl Macro {
    /// Reads a definition.
    ///
    /// # Errors
    /// `Syntax` (42P13) for two arguments of one name; `Unsupported` for a query, and where names could mean
    /// something else.
    pub fn new(arguments: Vec<MacroArg>, definition: MacroDefinition) -> Result<Self> {
        let MacroDefinition::Expr(body) = definition else {
            return Err(Error::unsupported("a macro that gives a table is not supported; make a view"));
        };
        let mut parameters: Vec<(String, Option<Expr>)> = Vec::with_capacity(arguments.len());
        for MacroArg { name, default_expr } in arguments {
            let name = fold(&name);
            if parameters.iter().any(|(known, _)| *known == name) {
                let message = format!("a macro has an argument \"{name}\" once");
                return Err(Error::new(ErrorKind::Syntax, message).with_sqlstate("42P13"));
            }
            parameters.push((name, default_expr));
        }
        if body.to_string().len() > BODY_BYTES_MAX {
            return Err(too_complex("the expression of a macro is too long"));
        }
        let mut names = Names { parameters: &parameters, bound: Vec::new() };
        if let ControlFlow::Break(error) = walk(&body, &mut names) {
            return Err(error);
        }
        let bound = names.bound;
        Ok(Self { parameters, body, bound })
    }

    /// Returns what a call stands for.
    fn called(&self, name: &str, function: &Function) -> Result<Expr> {
        let list: &[FunctionArg] = match &function.args {
            FunctionArguments::None => &[],
            FunctionArguments::List(list)
                if list.duplicate_treatment.is_none() && list.clauses.is_empty() =>
            {
                &list.args
            }
            _ => return Err(not_a_call(name)),
        };
        let is_plain = function.over.is_none()
            && function.filter.is_none()
            && function.null_treatment.is_none()
            && function.within_group.is_empty();
        if !is_plain {
            return Err(not_a_call(name));
        }
        let mut values: Vec<Option<&Expr>> = vec![None; self.parameters.len()];
        for (number, argument) in list.iter().enumerate() {
            let (place, value) = self.place_of(number, argument).ok_or_else(|| self.wrong(name))?;
            let known = values.get_mut(place).filter(|known| known.is_none());
            *known.ok_or_else(|| self.wrong(name))? = Some(value);
        }
        let defaults = self.parameters.iter().map(|(_, default)| default.as_ref());
        let values = values.into_iter().zip(defaults).map(|(value, default)| value.or(default));
        let values: Vec<&Expr> = values.collect::<Option<_>>().ok_or_else(|| self.wrong(name))?;
        if let Some(taken) = values.iter().find_map(|value| self.taken_name(value)) {
            return Err(Error::unsupported(format!(
                "an argument of {name}() names \"{taken}\", which a function within the macro calls its own argument \
                 by; rename one of them"
            )));
        }
        self.check_copies(&values)?;
        let mut body = self.body.clone();
        let _all = expressions_mut(&mut body, &mut |part| {
            if let Some(value) = self.parameter(part).and_then(|place| values.get(place)) {
                *part = whole((*value).clone());
            }
            ControlFlow::<()>::Continue(())
        });
        Ok(whole(body))
    }

    /// Returns the place of the argument that an expression is.
    fn parameter(&self, expr: &Expr) -> Option<usize> {
        let Expr::Identifier(named) = expr else { return None };
        let named = fold(named);
        self.parameters.iter().position(|(known, _)| *known == named)
    }

    /// Refuses a call whose arguments would become too much, before they are written as often as they are
    /// used.
    fn check_copies(&self, values: &[&Expr]) -> Result<()> {
        let mut uses = vec![0_usize; values.len()];
        let _all = expressions(&self.body, &mut |part| {
            if let Some(used) = self.parameter(part).and_then(|place| uses.get_mut(place)) {
                *used += 1;
            }
            ControlFlow::<()>::Continue(())
        });
        let (mut parts, mut bytes) = (0_usize, 0_usize);
        for (value, uses) in values.iter().zip(uses).filter(|(_, uses)| *uses > 1) {
            parts = parts.saturating_add(parts_of(*value).saturating_mul(uses));
            bytes = bytes.saturating_add(value.to_string().len().saturating_mul(uses - 1));
        }
        if parts > PARTS_MAX || bytes > COPIES_BYTES_MAX { Err(too_much()) } else { Ok(()) }
    }

    /// Returns the place of an argument, and its value.
    fn place_of<'a>(&self, number: usize, argument: &'a FunctionArg) -> Option<(usize, &'a Expr)> {
        let named = |name: &Ident| self.parameters.iter().position(|(known, _)| *known == fold(name));
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some((number, value)),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. }
            | FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            } => Some((named(name)?, value)),
            _ => None,
        }
    }

    /// Returns a name in an argument that means something else within the expression.
    fn taken_name(&self, value: &Expr) -> Option<String> {
        if self.bound.is_empty() {
            return None;
        }
        let found = expressions(value, &mut |part| {
            let name = match part {
                Expr::Identifier(name) => Some(fold(name)),
                Expr::CompoundIdentifier(parts) => parts.first().map(fold),
                _ => None,
            };
            match name.filter(|name| self.bound.contains(name)) {
                Some(name) => ControlFlow::Break(name),
                None => ControlFlow::Continue(()),
            }
        });
        found.break_value()
    }

    fn wrong(&self, name: &str) -> Error {
        let names: Vec<&str> = self.parameters.iter().map(|(name, _)| name.as_str()).collect();
        let message = format!("the macro {name}({}) is called with other arguments", names.join(", "));
        Error::new(ErrorKind::Syntax, message).with_sqlstate("42883")
    }
}

fn too_much() -> Error {
    too_complex("the macros in it stand for too much")
}

fn not_a_call(name: &str) -> Error {
    Error::unsupported(format!(
        "{name}() is a macro, which has no DISTINCT, ORDER BY, FILTER and OVER; write them within it"
    ))
}

/// Returns an expression that stays one whatever stands beside it.
fn whole(expr: Expr) -> Expr {
    match expr {
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Value(_)
        | Expr::Function(_)
        | Expr::Nested(_) => expr,
        expr => Expr::Nested(Box::new(expr)),
    }
}

/// Looks at the names in the expression of a macro.
struct Names<'a> {
    parameters: &'a [(String, Option<Expr>)],
    bound: Vec<String>,
}

impl Names<'_> {
    fn is_parameter(&self, name: &Ident) -> bool {
        self.parameters.iter().any(|(known, _)| *known == fold(name))
    }
}

impl Visitor for Names<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Error> {
        ControlFlow::Break(Error::unsupported("a subquery within a macro is not supported; make a view"))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        match expr {
            Expr::CompoundIdentifier(parts) => match parts.first() {
                Some(first) if self.is_parameter(first) => ControlFlow::Break(Error::unsupported(format!(
                    "{expr} within a macro is not supported; write ({first}) before the point"
                ))),
                _ => ControlFlow::Continue(()),
            },
            Expr::Lambda(LambdaFunction { params, .. }) => {
                let names: Vec<&Ident> = match params {
                    OneOrManyWithParens::One(one) => vec![&one.name],
                    OneOrManyWithParens::Many(many) => many.iter().map(|one| &one.name).collect(),
                };
                for name in names {
                    if self.is_parameter(name) {
                        return ControlFlow::Break(Error::unsupported(format!(
                            "\"{name}\" is an argument of the macro and of a function within it; rename one of them"
                        )));
                    }
                    self.bound.push(fold(name));
                }
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The function that gives the value of a variable of the session.
const VARIABLE: &str = "getvariable";

/// Returns the name by which a variable is one of the macros: no call has it.
pub fn name_of_variable(name: &str) -> String {
    format!("{VARIABLE} {}", name.to_lowercase())
}

/// Returns the name of the variable that a call asks for.
fn variable_in(name: &str, function: &Function) -> Option<String> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] = list.args.as_slice() else {
        return None;
    };
    match &value.value {
        Value::SingleQuotedString(text) if name == VARIABLE => Some(name_of_variable(text)),
        _ => None,
    }
}

/// Writes what the calls of macros stand for, and says whether there are some.
///
/// # Errors
/// `Syntax` (42883) for other arguments, and (54001) where the statement becomes too complex; `Unsupported`
/// where names could mean something else.
pub fn expand(part: &mut (impl Part + Display), macros: &Macros) -> Result<bool> {
    let mut calls = Calls { macros, parts: 0 };
    if let ControlFlow::Break(error) = walk_mut(part, &mut calls) {
        return Err(error);
    }
    if calls.parts == 0 {
        return Ok(false);
    }
    let text = part.to_string();
    check_size(&text)?;
    gate::check(tokens_of(&text).iter())?;
    Ok(true)
}

struct Calls<'a> {
    macros: &'a Macros,
    /// The parts of what calls have become.
    parts: usize,
}

impl Calls<'_> {
    fn macro_of(&self, function: &Function) -> Option<(String, &Macro)> {
        let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
        let name = fold(name);
        let known = match variable_in(&name, function) {
            Some(variable) => self.macros.get(&variable),
            None => self.macros.get(&name),
        };
        known.map(|found| (name, found))
    }
}

impl VisitorMut for Calls<'_> {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        name_as_written(&mut select.projection, |expr| {
            let all = expressions(expr, &mut |part| match part {
                Expr::Function(function) if self.macro_of(function).is_some() => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            });
            all.is_break()
        });
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let Some((name, called)) = self.macro_of(function) else { return ControlFlow::Continue(()) };
        match called.called(&name, function) {
            Ok(meant) => {
                self.parts += parts_of(&meant);
                *expr = meant;
            }
            Err(error) => return ControlFlow::Break(error),
        }
        match self.parts > PARTS_MAX {
            true => ControlFlow::Break(too_much()),
            false => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{COPIES_BYTES_MAX, Macro, Macros, PARTS_MAX, expand};
    use crate::parse::{Extension, parse, parse_query};
    use datafusion_sql::parser::Statement as DfStatement;
    use hypostyle_types::Result;
    use sqlparser::ast::Statement;

    fn defined(sql: &str) -> Result<(String, Macro)> {
        let DfStatement::Statement(statement) = parse(sql, &Extension::NONE)? else { panic!("{sql}") };
        let Statement::CreateMacro { name, args, definition, .. } = *statement else { panic!("{sql}") };
        Ok((name.to_string(), Macro::new(args.unwrap_or_default(), definition)?))
    }

    fn macros() -> Macros {
        let all = [
            "CREATE TEMP MACRO twice(a) AS a * 2",
            "CREATE TEMP FUNCTION sum_of(a, b := 1) AS a + b",
            "CREATE TEMP MACRO one() AS 1",
            "CREATE TEMP MACRO both(a) AS [a, a]",
            "CREATE TEMP MACRO plus_each(l, n) AS list_transform(l, lambda x : x + n)",
        ];
        all.into_iter().map(|sql| defined(sql).unwrap()).collect()
    }

    fn expanded(sql: &str) -> Result<String> {
        let mut query = parse_query(sql, &Extension::NONE).unwrap();
        expand(&mut query, &macros()).map(|_| query.to_string())
    }

    #[test]
    fn calls_are_what_they_stand_for() {
        for (sql, meant) in [
            ("SELECT twice(x + 1) AS y FROM t", "SELECT ((x + 1) * 2) AS y FROM t"),
            ("SELECT twice(twice(x)) AS y FROM t", "SELECT ((x * 2) * 2) AS y FROM t"),
            ("SELECT sum_of(1) + one() AS y", "SELECT (1 + 1) + 1 AS y"),
            ("SELECT sum_of(b := 2, a := c) AS y FROM t", "SELECT (c + 2) AS y FROM t"),
            ("SELECT twice(x) FROM t", "SELECT (x * 2) AS \"twice(x)\" FROM t"),
        ] {
            assert_eq!(expanded(sql).unwrap(), meant, "{sql}");
        }
    }

    #[test]
    fn what_is_no_call_is_refused() {
        for (sql, state) in [
            ("SELECT twice()", "42883"),
            ("SELECT twice(1, 2)", "42883"),
            ("SELECT sum_of(1, c := 2)", "42883"),
            ("SELECT twice(x) OVER () FROM t", "0A000"),
            ("SELECT plus_each(l, x) FROM t", "0A000"),
        ] {
            assert_eq!(expanded(sql).unwrap_err().sqlstate(), state, "{sql}");
        }
        // Much that is written once is a literal's length; what is written again is bounded before it is.
        let long = format!("'{}'", "x".repeat(COPIES_BYTES_MAX));
        assert!(expanded(&format!("SELECT twice({long})")).is_ok());
        for argument in [format!("[{}]", vec!["1"; PARTS_MAX].join(", ")), long] {
            let sql = format!("SELECT both({argument})");
            assert_eq!(expanded(&sql).unwrap_err().sqlstate(), "54001", "{}", &sql[..20]);
        }
        let deep = format!("SELECT {}1{}", "twice(".repeat(15), ")".repeat(15));
        assert!(expanded(&deep).is_ok());
        for (sql, state) in [
            ("CREATE MACRO IF NOT EXISTS f(a, A) AS a", "42P13"),
            ("CREATE TEMP MACRO f(a, A) AS a", "42P13"),
            ("CREATE TEMP MACRO f(a) AS (SELECT a)", "0A000"),
            ("CREATE TEMP MACRO f(a) AS TABLE SELECT a", "0A000"),
            ("CREATE TEMP MACRO f(a) AS list_transform(l, lambda a : a + 1)", "0A000"),
        ] {
            assert_eq!(defined(sql).unwrap_err().sqlstate(), state, "{sql}");
        }
    }
}
