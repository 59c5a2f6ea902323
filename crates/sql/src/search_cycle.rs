//! SEARCH and CYCLE behind a recursive query of WITH (ISO/IEC 9075-2, 7.18). The parser's tree has no place
//! for them, so that a mark among the keys of the query's order says them. They are columns that the query
//! computes beside its own: where a row is in the order of the search, and by which rows it was found.

use crate::build;
use crate::call::call;
use crate::identifier::fold;
use crate::phrases::{is_word, next};
use crate::refused::check_recursive;
use crate::replaced_tokens::{blank, replace};
use crate::tokenized::tokens_of;
use crate::walk::{Part, checked, done, walk_mut};
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    BinaryOperator, Cte, DataType, Expr, Ident, ObjectNamePart, OrderByExpr, OrderByKind, Query, Select,
    SelectItem, SetExpr, SetOperator, TableAliasColumnDef, TableFactor, TableWithJoins, Value, VisitorMut,
};
use sqlparser::tokenizer::Token;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// What the name of no column begins with, which is the last key of such a query.
const MARK: &str = "search clause ";

/// The rows of one part of the query, and what the rows that they were found by have.
const FOUND: &str = "rows found";
const SEARCH: &str = "search before";
const PATH: &str = "path before";

/// The clauses of one query.
struct Clauses {
    search: Option<Search>,
    cycle: Option<Cycle>,
}

struct Search {
    is_depth: bool,
    by: Vec<Ident>,
    set: Ident,
}

struct Cycle {
    columns: Vec<Ident>,
    set: Ident,
    /// The value of `set` where a row was found before, and elsewhere.
    again: Expr,
    first: Expr,
    path: Ident,
}

/// Returns the tokens in words that are known; `None` where they are known already.
pub fn known(tokens: &[Token]) -> Option<Vec<Token>> {
    if !tokens.iter().any(|token| is_word(Some(token), &["RECURSIVE"])) {
        return None;
    }
    let mut written = Vec::new();
    for close in (0..tokens.len()).filter(|place| tokens[*place] == Token::RParen) {
        let Some(first) = next(tokens, close) else { continue };
        let Some((_, last)) = clauses(tokens, first) else { continue };
        let text: String = tokens[first..=last].iter().map(Token::to_string).collect();
        let mark = Token::make_word(&format!("{MARK}{}", text.replace('"', "\"\"")), Some('"'));
        let word = |word: &str| Token::make_word(word, None);
        written.push((close..close, vec![blank(), word("ORDER"), blank(), word("BY"), blank(), mark]));
        written.push((first..last + 1, vec![blank()]));
    }
    let mut known = tokens.to_vec();
    replace(&mut known, written).then_some(known)
}

/// Reads the clauses that begin at a place; also returns where they end.
fn clauses(tokens: &[Token], first: usize) -> Option<(Clauses, usize)> {
    let mut reader = Reader { tokens, at: Some(first), last: first };
    let search = if reader.is("SEARCH") { Some(reader.search()?) } else { None };
    let cycle = if reader.is("CYCLE") { Some(reader.cycle()?) } else { None };
    (search.is_some() || cycle.is_some()).then_some((Clauses { search, cycle }, reader.last))
}

/// Reads tokens, one after the other.
struct Reader<'a> {
    tokens: &'a [Token],
    at: Option<usize>,
    last: usize,
}

impl<'a> Reader<'a> {
    fn token(&self) -> Option<&'a Token> {
        let tokens = self.tokens;
        self.at.map(|at| &tokens[at])
    }

    fn is(&self, word: &str) -> bool {
        is_word(self.token(), &[word])
    }

    fn step(&mut self) {
        if let Some(at) = self.at {
            self.last = at;
            self.at = next(self.tokens, at);
        }
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let is_next = self.is(word);
        is_next.then(|| self.step())
    }

    fn name(&mut self) -> Option<Ident> {
        let Token::Word(word) = self.token()? else { return None };
        self.step();
        Some(match word.quote_style {
            Some(quote) => Ident::with_quote(quote, word.value.replace("\"\"", "\"")),
            None => Ident::new(word.value.as_str()),
        })
    }

    fn names(&mut self) -> Option<Vec<Ident>> {
        let mut names = vec![self.name()?];
        while self.token() == Some(&Token::Comma) {
            self.step();
            names.push(self.name()?);
        }
        Some(names)
    }

    fn constant(&mut self) -> Option<Expr> {
        let constant = match self.token()? {
            Token::SingleQuotedString(text) => build::text(&text.replace("''", "'")),
            Token::Number(number, _) => Expr::value(Value::Number(number.clone(), false)),
            word if is_word(Some(word), &["TRUE"]) => build::truth(true),
            word if is_word(Some(word), &["FALSE"]) => build::truth(false),
            _ => return None,
        };
        self.step();
        Some(constant)
    }

    fn search(&mut self) -> Option<Search> {
        self.word("SEARCH")?;
        let is_depth = self.is("DEPTH");
        self.word(if is_depth { "DEPTH" } else { "BREADTH" })?;
        self.word("FIRST")?;
        self.word("BY")?;
        let by = self.names()?;
        self.word("SET")?;
        Some(Search { is_depth, by, set: self.name()? })
    }

    fn cycle(&mut self) -> Option<Cycle> {
        self.word("CYCLE")?;
        let columns = self.names()?;
        self.word("SET")?;
        let set = self.name()?;
        let (again, first) = match self.word("TO") {
            Some(()) => {
                let again = self.constant()?;
                self.word("DEFAULT")?;
                (again, self.constant()?)
            }
            None => (build::truth(true), build::truth(false)),
        };
        self.word("USING")?;
        Some(Cycle { columns, set, again, first, path: self.name()? })
    }
}

/// Writes such queries as what they mean.
///
/// # Errors
/// `Syntax` for names that are none of the query's columns, or taken; `Unsupported` for a query whose parts
/// are no SELECT from itself.
pub fn rewrite(part: &mut impl Part) -> Result<()> {
    checked(walk_mut(part, &mut Marked))
}

struct Marked;

impl VisitorMut for Marked {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        done(with.cte_tables.iter_mut().try_for_each(|table| match taken_mark(&mut table.query) {
            Some(clauses) => with_columns(table, &clauses),
            None => Ok(()),
        }))
    }
}

/// Takes the mark out of a query.
fn taken_mark(query: &mut Query) -> Option<Clauses> {
    let OrderByKind::Expressions(keys) = &query.order_by.as_ref()?.kind else { return None };
    let [OrderByExpr { expr: Expr::Identifier(name), .. }] = keys.as_slice() else { return None };
    let tokens = tokens_of(name.value.strip_prefix(MARK).filter(|_| name.quote_style.is_some())?);
    let first = tokens.iter().position(|token| !matches!(token, Token::Whitespace(_)))?;
    let (found, _) = clauses(&tokens, first)?;
    query.order_by = None;
    Some(found)
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Syntax, message)
}

/// Has a query compute the columns of its clauses.
fn with_columns(table: &mut Cte, clauses: &Clauses) -> Result<()> {
    let name = fold(&table.alias.name);
    let columns = columns_of(table)?;
    clauses.check(&columns)?;
    check_recursive(&name, &table.query)?;
    let not_recursive =
        || wrong(format!("SEARCH and CYCLE are of recursive queries, and \"{name}\" is none"));
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = table.query.body.as_mut() else {
        return Err(not_recursive());
    };
    let SetExpr::Select(step) = right.as_mut() else {
        return Err(Error::unsupported(format!(
            "the step of \"{name}\" behind UNION is no SELECT, which SEARCH and CYCLE want"
        )));
    };
    let itself = itself_in(step, &name).ok_or_else(|| {
        Error::unsupported(format!(
            "the step of \"{name}\" has to name \"{name}\" once in its FROM, for SEARCH and CYCLE to know the row before"
        ))
    })?;
    let hidden = clauses.read_before(step, &itself);
    let first = build::query(left.as_ref().clone());
    **left = with_further_columns(first, columns.clone(), Vec::new(), clauses.of_first_rows());
    let step = build::query(SetExpr::Select(step.clone()));
    **right = with_further_columns(step, columns.clone(), hidden, clauses.of_steps());
    let named = if table.alias.columns.is_empty() { columns } else { Vec::new() };
    let named = named.into_iter().chain(clauses.names().into_iter().cloned());
    table.alias.columns.extend(named.map(|name| TableAliasColumnDef { name, data_type: None }));
    Ok(())
}

/// Returns the names of the columns of a query.
///
/// # Errors
/// `Unsupported` where it does not tell them.
fn columns_of(table: &Cte) -> Result<Vec<Ident>> {
    fn named(body: &SetExpr) -> Option<Vec<Ident>> {
        match body {
            SetExpr::Select(select) => select.projection.iter().map(name_of).collect(),
            SetExpr::SetOperation { left, .. } => named(left),
            SetExpr::Query(query) => named(&query.body),
            _ => None,
        }
    }
    fn name_of(item: &SelectItem) -> Option<Ident> {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().cloned(),
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
            _ => None,
        }
    }
    if !table.alias.columns.is_empty() {
        return Ok(table.alias.columns.iter().map(|column| column.name.clone()).collect());
    }
    named(&table.query.body).ok_or_else(|| {
        let name = &table.alias.name;
        Error::unsupported(format!(
            "SEARCH and CYCLE of \"{}\" want its columns by name: WITH RECURSIVE {name} (a, b) AS …",
            fold(name)
        ))
    })
}

/// Returns what a SELECT calls the query of a name in its FROM, if it is there once.
fn itself_in(select: &Select, name: &str) -> Option<Ident> {
    fn called(tables: &TableWithJoins, name: &str, found: &mut Vec<Ident>) {
        let joined = tables.joins.iter().map(|join| &join.relation);
        for relation in std::iter::once(&tables.relation).chain(joined) {
            match relation {
                TableFactor::Table { name: table, alias, args: None, .. } => {
                    if let [ObjectNamePart::Identifier(table)] = table.0.as_slice()
                        && fold(table) == name
                    {
                        found.push(alias.as_ref().map_or_else(|| table.clone(), |alias| alias.name.clone()));
                    }
                }
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    called(table_with_joins, name, found);
                }
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    select.from.iter().for_each(|tables| called(tables, name, &mut found));
    if found.len() == 1 { found.pop() } else { None }
}

/// Returns the rows of a query with further columns behind those of these names. What is hidden is for these
/// alone.
fn with_further_columns(rows: Query, columns: Vec<Ident>, hidden: Vec<Ident>, further: Vec<Expr>) -> SetExpr {
    let items = columns.iter().map(|column| found(column.clone())).chain(further).map(build::item).collect();
    let named = columns.into_iter().chain(hidden).collect();
    *build::select(items, vec![build::derived_as(rows, build::name(FOUND), named)]).body
}

fn found(column: Ident) -> Expr {
    Expr::CompoundIdentifier(vec![build::name(FOUND), column])
}

/// Returns a row of columns, behind other values.
fn row(before: Option<Expr>, columns: &[Ident]) -> Expr {
    call("row", before.into_iter().chain(columns.iter().cloned().map(found)).collect())
}

impl Search {
    fn of_first_row(&self) -> Expr {
        match self.is_depth {
            true => call("make_array", vec![row(None, &self.by)]),
            false => row(Some(build::cast(build::number(0), DataType::BigInt(None))), &self.by),
        }
    }

    fn of_step(&self) -> Expr {
        let before = build::name(SEARCH);
        if self.is_depth {
            return call("list_append", vec![found(before), row(None, &self.by)]);
        }
        let depth = Expr::CompoundIdentifier(vec![build::name(FOUND), before, Ident::new("f1")]);
        row(Some(build::binary(depth, BinaryOperator::Plus, build::number(1))), &self.by)
    }
}

impl Cycle {
    fn of_step(&self) -> [Expr; 2] {
        let before = || found(build::name(PATH));
        let is_again = call("list_contains", vec![before(), row(None, &self.columns)]);
        let mut mark = build::case(is_again, self.again.clone());
        if let Expr::Case { else_result, .. } = &mut mark {
            *else_result = Some(Box::new(self.first.clone()));
        }
        [mark, call("list_append", vec![before(), row(None, &self.columns)])]
    }
}

impl Clauses {
    /// Returns the names of the columns that the clauses add.
    fn names(&self) -> Vec<&Ident> {
        let of_cycle = self.cycle.iter().flat_map(|cycle| [&cycle.set, &cycle.path]);
        self.search.iter().map(|search| &search.set).chain(of_cycle).collect()
    }

    /// Looks whether the names are columns of a query where they should be, and nowhere else.
    fn check(&self, columns: &[Ident]) -> Result<()> {
        let mut known: HashSet<String> = columns.iter().map(fold).collect();
        let by = self.search.iter().flat_map(|search| &search.by);
        let mut wanted = by.chain(self.cycle.iter().flat_map(|cycle| &cycle.columns));
        if let Some(missing) = wanted.find(|name| !known.contains(&fold(name))) {
            return Err(wrong(format!("{missing} in SEARCH or CYCLE is no column of the query")));
        }
        match self.names().into_iter().find(|name| !known.insert(fold(name))) {
            Some(taken) => Err(wrong(format!("SEARCH or CYCLE sets {taken}, which is a column already"))),
            None => Ok(()),
        }
    }

    /// Has a step read what the row before has, and find nothing behind a row that was found before.
    /// Returns the names of these columns.
    fn read_before(&self, step: &mut Select, itself: &Ident) -> Vec<Ident> {
        let of = |column: &Ident| Expr::CompoundIdentifier(vec![itself.clone(), column.clone()]);
        let mut hidden = Vec::new();
        let mut read = |column: &Ident, name: &str| {
            // Columns that are renamed have other names below.
            step.projection.push(build::item_named(of(column), &format!("{name} this")));
            hidden.push(build::name(name));
        };
        if let Some(search) = &self.search {
            read(&search.set, SEARCH);
        }
        if let Some(cycle) = &self.cycle {
            read(&cycle.path, PATH);
            let goes_on = build::binary(of(&cycle.set), BinaryOperator::NotEq, cycle.again.clone());
            step.selection = Some(match step.selection.take() {
                Some(condition) => build::binary(condition, BinaryOperator::And, goes_on),
                None => goes_on,
            });
        }
        hidden
    }

    fn of_first_rows(&self) -> Vec<Expr> {
        let of_cycle = self
            .cycle
            .iter()
            .flat_map(|cycle| [cycle.first.clone(), call("make_array", vec![row(None, &cycle.columns)])]);
        self.search.iter().map(Search::of_first_row).chain(of_cycle).collect()
    }

    fn of_steps(&self) -> Vec<Expr> {
        let of_cycle = self.cycle.iter().flat_map(Cycle::of_step);
        self.search.iter().map(Search::of_step).chain(of_cycle).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::known;
    use crate::parse::{Extension, parse};
    use crate::tokenized::tokens_of;

    #[test]
    fn clauses_are_marks_in_the_query_before_them() {
        let text = "with recursive s as (select 1) search depth first by a, \"B\" set o select 1";
        let found: String = known(&tokens_of(text)).unwrap().iter().map(ToString::to_string).collect();
        let plain = |text: &str| text.split_whitespace().collect::<String>();
        let shown = "with recursive s as (select 1 ORDER BY \
                     \"search clause search depth first by a, \"\"B\"\" set o\") select 1";
        assert_eq!(plain(&found), plain(shown), "{found}");
        assert!(known(&tokens_of(&found)).is_none());
        for text in
            ["select (1) search", "with recursive s as (select 1) search deep first by a set o select 1"]
        {
            assert!(known(&tokens_of(text)).is_none(), "{text}");
        }
    }

    #[test]
    fn what_they_cannot_mean_is_refused() {
        for (clause, state) in [
            ("SEARCH DEPTH FIRST BY x SET o", "42601"),
            ("SEARCH DEPTH FIRST BY a SET a", "42601"),
            ("CYCLE a SET o USING o", "42601"),
            ("SEARCH DEPTH FIRST BY a SET o CYCLE a SET o USING p", "42601"),
        ] {
            let sql = format!(
                "WITH RECURSIVE s (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM s WHERE a < 3) {clause} SELECT * FROM s"
            );
            let error = parse(&sql, &Extension::NONE).unwrap_err();
            assert_eq!(error.sqlstate(), state, "{sql}: {error}");
        }
        for (query, state) in [
            ("SELECT 1", "42601"),
            ("SELECT 1 UNION ALL VALUES (2)", "0A000"),
            ("SELECT 1 UNION ALL SELECT 2", "0A000"),
            ("SELECT 1 UNION ALL SELECT s.a FROM s, s AS q", "0A000"),
            ("SELECT 1 UNION ALL SELECT count(*) FROM s", "42P19"),
        ] {
            let sql =
                format!("WITH RECURSIVE s (a) AS ({query}) SEARCH BREADTH FIRST BY a SET o SELECT * FROM s");
            let error = parse(&sql, &Extension::NONE).unwrap_err();
            assert_eq!(error.sqlstate(), state, "{sql}: {error}");
        }
    }
}
