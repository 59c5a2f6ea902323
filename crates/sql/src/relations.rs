//! The names of stored relations in a query: of tables and views, but not of what WITH names.

use crate::identifier::fold;
use crate::walk::walk_mut;
use crate::with_names::{KnowsWith, WithNames};
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Query, TableAlias, TableFactor, TableFunctionArgs,
    Value, VisitorMut,
};
use std::ops::ControlFlow;

/// Calls a function for the name of each relation that a query reads without its schema.
pub fn without_schema(query: &mut Query, each: &mut dyn FnMut(&mut ObjectName)) {
    let mut each = |name: &mut ObjectName| {
        each(name);
        None
    };
    let _done = walk_mut(query, &mut Relations { each: &mut each, with: WithNames::default() });
}

/// Has a query call a function of one text in the place of some relations that it names without a schema;
/// `function` tells which, by their names.
pub fn called_with_names(query: &mut Query, function: &dyn Fn(&str) -> Option<&'static str>) {
    let mut each = |name: &mut ObjectName| {
        let called = name.0.first()?.as_ident()?.value.clone();
        *name = ObjectName::from(vec![Ident::new(function(&called)?)]);
        let text = Expr::value(Value::SingleQuotedString(called));
        let args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(text))];
        Some(TableFunctionArgs { args, settings: None })
    };
    let _done = walk_mut(query, &mut Relations { each: &mut each, with: WithNames::default() });
}

/// Changes the name of a relation; it may return the arguments of a function that it is then.
type Each<'a> = &'a mut dyn FnMut(&mut ObjectName) -> Option<TableFunctionArgs>;

struct Relations<'a> {
    each: Each<'a>,
    with: WithNames,
}

impl KnowsWith for Relations<'_> {
    fn with_names(&mut self) -> &mut WithNames {
        &mut self.with
    }
}

impl VisitorMut for Relations<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.enter(query)
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.leave(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: args @ None, .. } = factor
            && let [part] = name.0.as_slice()
            && let Some(called) = part.as_ident().cloned()
            && !self.with.has(&fold(&called))
        {
            let before = name.clone();
            *args = (self.each)(name);
            // The query goes on to call it by the name alone.
            if *name != before && alias.is_none() {
                let name = if args.is_some() { Ident::with_quote('"', called.value) } else { called };
                *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::{called_with_names, without_schema};
    use crate::parse::{Extension, parse_query};
    use sqlparser::ast::{Ident, ObjectNamePart};

    #[test]
    fn tables_are_told_from_names_of_with() {
        for (sql, meant) in [
            ("SELECT * FROM t", "SELECT * FROM s.t AS t"),
            ("SELECT * FROM t AS u, a.t", "SELECT * FROM s.t AS u, a.t"),
            ("SELECT (SELECT 1 FROM t)", "SELECT (SELECT 1 FROM s.t AS t)"),
            (
                "WITH t AS (SELECT * FROM t) SELECT * FROM t",
                "WITH t AS (SELECT * FROM s.t AS t) SELECT * FROM t",
            ),
            (
                "WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT 1 FROM t, u) SELECT * FROM t",
                "WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT 1 FROM t, s.u AS u) SELECT * FROM t",
            ),
            ("SELECT * FROM range(3)", "SELECT * FROM range(3) AS range (range)"),
        ] {
            let mut query = parse_query(sql, &Extension::NONE).unwrap();
            without_schema(&mut query, &mut |name| {
                name.0.insert(0, ObjectNamePart::Identifier(Ident::new("s")))
            });
            assert_eq!(query.to_string(), meant, "{sql}");
        }
    }

    #[test]
    fn names_of_files_become_calls() {
        let function = |name: &str| name.ends_with(".csv").then_some("read_csv");
        for (sql, meant) in [
            ("SELECT * FROM 'it''s.csv'", "SELECT * FROM read_csv('it''s.csv') AS \"it's.csv\""),
            ("SELECT a.x FROM \"d/a.csv\" AS a, t", "SELECT a.x FROM read_csv('d/a.csv') AS a, t"),
            ("SELECT * FROM s.\"a.csv\"", "SELECT * FROM s.\"a.csv\""),
            (
                "WITH \"a.csv\" AS (SELECT 1) SELECT * FROM \"a.csv\"",
                "WITH \"a.csv\" AS (SELECT 1) SELECT * FROM \"a.csv\"",
            ),
        ] {
            let mut query = parse_query(sql, &Extension::NONE).unwrap();
            called_with_names(&mut query, &function);
            assert_eq!(query.to_string(), meant, "{sql}");
        }
    }
}
