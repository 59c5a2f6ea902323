//! POSITIONAL JOIN, which sets the rows of relations side by side in their order, as in DuckDB; where one has
//! fewer rows, it has NULLs. It becomes a FULL JOIN by the numbers of the rows, which `*` leaves out. A table
//! expression that is MATERIALIZED keeps the order of its rows, and so they are numbered in it.

use crate::asof_join::{leave_out, name_of};
use crate::build;
use crate::call::call;
use crate::identifier::fold;
use crate::phrases::is_word;
use crate::refused::is_positional_join;
use crate::replaced_tokens::blank;
use crate::walk::{Part, checked, done, expressions, walk_mut};
use hypostyle_types::{Error, Result};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    Cte, CteAsMaterialized, Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins,
    VisitorMut, With,
};
use sqlparser::tokenizer::Token;
use std::ops::ControlFlow;

/// What the names of the columns with the numbers of rows begin with, which are those of no others.
const NUMBER: &str = "positional row ";

/// Returns the tokens in words that are known; `None` where they are known already. A FULL JOIN without a
/// condition, which is GLOBAL, is none of SQL's.
pub fn known(tokens: &[Token]) -> Option<Vec<Token>> {
    if !tokens.iter().any(|token| is_word(Some(token), &["POSITIONAL"])) {
        return None;
    }
    let mut known = tokens.to_vec();
    let mut is_changed = false;
    for place in (0..tokens.len()).rev().filter(|place| is_positional_join(tokens, *place)) {
        let words = [Token::make_word("GLOBAL", None), blank(), Token::make_word("FULL", None)];
        drop(known.splice(place..=place, words));
        is_changed = true;
    }
    is_changed.then_some(known)
}

/// Writes such joins as what they mean.
///
/// # Errors
/// `Unsupported` for one behind another join, in parentheses, or of a relation without a name.
pub fn rewrite(part: &mut impl Part) -> Result<()> {
    checked(walk_mut(part, &mut Joins::default()))
}

#[derive(Default)]
struct Joins {
    /// The relations whose rows have been numbered.
    numbered: usize,
}

impl VisitorMut for Joins {
    type Break = Error;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        done(select.from.iter_mut().try_for_each(|tables| self.rewrite(tables)))?;
        let numbers: Vec<(Ident, Ident)> = select.from.iter().flat_map(numbers_in).collect();
        if !numbers.is_empty() {
            select.projection.iter_mut().for_each(|item| without_numbers(item, &numbers));
        }
        ControlFlow::Continue(())
    }

    /// What only selects from such a join gives its rows in their order.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let SetExpr::Select(select) = query.body.as_ref()
            && query.order_by.is_none()
            && let [tables] = select.from.as_slice()
            && only_selects(select)
        {
            let numbers: Vec<Expr> = numbers_in(tables).into_iter().map(column).collect();
            if !numbers.is_empty() {
                query.order_by = Some(build::order_by(vec![call("coalesce", numbers)]));
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. }
                if table_with_joins.joins.iter().any(is_positional) =>
            {
                let message = "a POSITIONAL JOIN in parentheses is not supported; write (SELECT * FROM …) AS";
                ControlFlow::Break(Error::unsupported(message))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Joins {
    /// Rewrites the joins of an item of FROM: those from the first one on that are positional.
    fn rewrite(&mut self, tables: &mut TableWithJoins) -> Result<()> {
        let TableWithJoins { relation, joins } = tables;
        let count = joins.iter().take_while(|join| is_positional(join)).count();
        if joins.iter().skip(count).any(is_positional) {
            let message =
                "a POSITIONAL JOIN behind another join is not supported; write that one as (SELECT …) AS";
            return Err(Error::unsupported(message));
        }
        if count == 0 {
            return Ok(());
        }
        let mut numbers = vec![column(self.number(relation)?)];
        for join in joins.iter_mut().take(count) {
            let number = column(self.number(&mut join.relation)?);
            let before = match numbers.as_slice() {
                [only] => only.clone(),
                several => call("coalesce", several.to_vec()),
            };
            let condition = build::equal(before, number.clone());
            join.join_operator = JoinOperator::FullOuter(JoinConstraint::On(condition));
            join.global = false;
            numbers.push(number);
        }
        Ok(())
    }

    /// Numbers the rows of a relation. Returns its name, and that of the column.
    fn number(&mut self, relation: &mut TableFactor) -> Result<(Ident, Ident)> {
        let Some(name) = name_of(relation) else {
            return Err(Error::unsupported(
                "a POSITIONAL JOIN with a relation without a name is not supported; write AS",
            ));
        };
        // A file has its name in quotes of a text.
        let name = build::name(&fold(&name));
        self.numbered += 1;
        let number = format!("{NUMBER}{}", self.numbered);
        // The table expression has the name of the column: one of its own, too.
        let rows = Cte {
            alias: TableAlias { explicit: false, ..build::called(build::name(&number), Vec::new()) },
            query: Box::new(build::all_rows(relation.clone())),
            from: None,
            materialized: Some(CteAsMaterialized::Materialized),
            closing_paren_token: AttachedToken::empty(),
        };
        let items = vec![
            build::every_column(),
            build::item_named(build::row_number(Vec::new(), Vec::new()), &number),
        ];
        let mut numbered = build::select(items, vec![build::table(build::name(&number), None)]);
        numbered.with =
            Some(With { with_token: AttachedToken::empty(), recursive: false, cte_tables: vec![rows] });
        *relation = build::derived(numbered, name.clone());
        Ok((name, build::name(&number)))
    }
}

fn is_positional(join: &Join) -> bool {
    join.global && matches!(join.join_operator, JoinOperator::FullOuter(JoinConstraint::None))
}

fn column((relation, name): (Ident, Ident)) -> Expr {
    Expr::CompoundIdentifier(vec![relation, name])
}

/// Returns the relations of an item of FROM whose rows are numbered, and the columns that number them.
fn numbers_in(tables: &TableWithJoins) -> Vec<(Ident, Ident)> {
    let relations = std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation));
    relations.filter_map(number_of).collect()
}

fn number_of(relation: &TableFactor) -> Option<(Ident, Ident)> {
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = relation else { return None };
    let SetExpr::Select(select) = subquery.body.as_ref() else { return None };
    match select.projection.last()? {
        SelectItem::ExprWithAlias { alias: number, .. } if number.value.starts_with(NUMBER) => {
            Some((alias.name.clone(), number.clone()))
        }
        _ => None,
    }
}

/// Leaves the numbers out of what an item stands for.
fn without_numbers(item: &mut SelectItem, numbers: &[(Ident, Ident)]) {
    let names = |is_meant: &dyn Fn(&Ident) -> bool| -> Vec<String> {
        let meant = numbers.iter().filter(|(relation, _)| is_meant(relation));
        meant.map(|(_, number)| number.value.clone()).collect()
    };
    match item {
        SelectItem::Wildcard(options) => leave_out(options, names(&|_| true).into_iter()),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
            let of = name.0.last().and_then(|part| part.as_ident()).map(fold);
            let numbers = names(&|relation| of.as_ref().is_some_and(|of| *of == fold(relation)));
            if !numbers.is_empty() {
                leave_out(options, numbers.into_iter());
            }
        }
        _ => {}
    }
}

/// Says whether a SELECT computes each of its rows of one row, as far as it is known here: a function may be
/// an aggregate.
fn only_selects(select: &Select) -> bool {
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(keys, modifiers) => !keys.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let calls = expressions(&select.projection, &mut |expr| match expr {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    !is_grouped
        && select.distinct.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && calls.is_continue()
}

#[cfg(test)]
mod tests {
    use crate::parse::{Extension, parse_query};

    fn read(sql: &str) -> Result<String, hypostyle_types::Error> {
        parse_query(sql, &Extension::NONE).map(|query| query.to_string())
    }

    #[test]
    fn rows_are_joined_by_their_numbers() {
        let joined = read("SELECT x + 1, y FROM t POSITIONAL JOIN s.u AS v").unwrap();
        for part in [
            "WITH \"positional row 1\" AS MATERIALIZED (SELECT * FROM t)",
            "row_number() OVER () AS \"positional row 2\" FROM \"positional row 2\") AS \"v\"",
            "FULL JOIN",
            "ON \"t\".\"positional row 1\" = \"v\".\"positional row 2\"",
            "ORDER BY coalesce(\"t\".\"positional row 1\", \"v\".\"positional row 2\")",
        ] {
            assert!(joined.contains(part), "{part}: {joined}");
        }
    }

    #[test]
    fn stars_leave_the_numbers_out() {
        let read = |sql: &str| read(sql).unwrap();
        let all = read("SELECT * FROM t POSITIONAL JOIN u positional join v");
        let excluded =
            "SELECT * EXCLUDE (\"positional row 1\", \"positional row 2\", \"positional row 3\") FROM";
        assert!(all.starts_with(excluded), "{all}");
        let third = r#"ON coalesce("t"."positional row 1", "u"."positional row 2") = "v"."positional row 3""#;
        assert!(all.contains(third), "{all}");
        let one = read("SELECT u.* FROM t POSITIONAL JOIN u");
        assert!(one.starts_with("SELECT u.* EXCLUDE (\"positional row 2\") FROM"), "{one}");
        // The rows of an aggregate have no such order.
        assert!(!read("SELECT count(*) FROM t POSITIONAL JOIN u").contains("ORDER BY"));
    }

    #[test]
    fn others_are_refused() {
        for sql in [
            "SELECT * FROM a JOIN b ON true POSITIONAL JOIN c",
            "SELECT * FROM (a POSITIONAL JOIN b) CROSS JOIN c",
            "SELECT * FROM a POSITIONAL JOIN (SELECT 1)",
        ] {
            assert_eq!(read(sql).unwrap_err().sqlstate(), "0A000", "{sql}");
        }
    }
}
