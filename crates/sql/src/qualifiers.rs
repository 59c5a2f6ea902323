//! Names of three parts and more. DataFusion finds `x.t.c` in any relation that is called `t`,
//! whatever `x` is. A relation with an alias has no schema (ISO/IEC 9075-2, 7.6), so that `x` is
//! another one's name there, or a column's, and what follows are fields of structures.

use crate::call::call;
use crate::identifier::fold;
use crate::walk::walk_mut;
use sqlparser::ast::{Expr, Ident, Select, Statement, TableFactor, TableWithJoins, Value, VisitorMut};
use std::ops::ControlFlow;

/// Writes such names as the fields that they are.
pub fn rewrite(statement: &mut Statement) {
    let _done = walk_mut(statement, &mut Qualifiers { scopes: Vec::new() });
}

/// What a query calls one of its relations.
struct Relation {
    name: String,
    /// The schema before its name; `None` for a relation that has none: an alias, a subquery.
    schema: Option<Option<String>>,
}

struct Qualifiers {
    /// The relations of each query around.
    scopes: Vec<Vec<Relation>>,
}

impl Qualifiers {
    /// Returns the relations that a name may mean: those of the innermost query that has some.
    fn relations(&self, name: &str) -> Vec<&Relation> {
        let named = |scope: &'_ Vec<Relation>| scope.iter().any(|relation| relation.name == name);
        let scope = self.scopes.iter().rev().find(|scope| named(scope));
        scope.into_iter().flatten().filter(|relation| relation.name == name).collect()
    }

    /// Returns how many parts of a name say which column it is, where its fields follow.
    fn column_parts(&self, parts: &[String]) -> Option<usize> {
        let [first, second, _, ..] = parts else { return None };
        let others = self.relations(second);
        if others.is_empty() {
            return None;
        }
        let is_relation = !self.relations(first).is_empty();
        let is_schema = others.iter().any(|other| match &other.schema {
            Some(Some(schema)) => schema == first || first == "public",
            Some(None) => !is_relation,
            None => false,
        });
        match (is_schema, is_relation) {
            (true, _) => None,
            (false, true) => Some(2),
            (false, false) => Some(1),
        }
    }
}

impl VisitorMut for Qualifiers {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut scope = Vec::new();
        select.from.iter().for_each(|tables| relations(tables, &mut scope));
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() > 2
        {
            let folded: Vec<String> = parts.iter().map(fold).collect();
            if let Some(count) = self.column_parts(&folded) {
                *expr = fields(std::mem::take(parts), count);
            }
        }
        ControlFlow::Continue(())
    }
}

fn relations(tables: &TableWithJoins, scope: &mut Vec<Relation>) {
    for factor in std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation)) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => relations(table_with_joins, scope),
            TableFactor::Table { name, alias: None, args: None, .. } => {
                let mut parts = name.0.iter().rev().filter_map(|part| part.as_ident().map(fold));
                if let Some(name) = parts.next() {
                    scope.push(Relation { name, schema: Some(parts.next()) });
                }
            }
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::TableFunction { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. }
            | TableFactor::NestedJoin { alias: Some(alias), .. } => {
                scope.push(Relation { name: fold(&alias.name), schema: None });
            }
            _ => {}
        }
    }
}

/// Returns the fields that a name has behind its first parts, which are a column's.
fn fields(mut parts: Vec<Ident>, count: usize) -> Expr {
    let fields = parts.split_off(count);
    let column = match count {
        1 => Expr::Identifier(parts.remove(0)),
        _ => Expr::CompoundIdentifier(parts),
    };
    fields.into_iter().fold(column, |of, field| {
        let name = Expr::value(Value::SingleQuotedString(fold(&field)));
        call("get_field", vec![of, name])
    })
}

#[cfg(test)]
mod tests {
    use super::rewrite;
    use crate::parse::{Extension, parse};
    use datafusion_sql::parser::Statement as DfStatement;

    #[test]
    fn an_alias_has_no_schema() {
        for (sql, meant) in [
            ("SELECT x.t.c FROM u AS t", "SELECT get_field(get_field(x, 't'), 'c') FROM u AS t"),
            ("SELECT s.t.c FROM s.t", "SELECT s.t.c FROM s.t"),
            ("SELECT s.t.c FROM t", "SELECT s.t.c FROM t"),
            ("SELECT r.t.c, s.t.c FROM r.t, s.t", "SELECT r.t.c, s.t.c FROM r.t, s.t"),
            ("SELECT r.s.t.c FROM s.t, r", "SELECT r.s.t.c FROM s.t, r"),
            ("SELECT o.t.c FROM s.t", "SELECT get_field(get_field(o, 't'), 'c') FROM s.t"),
            ("SELECT r.s.v FROM t AS s, t AS r", "SELECT get_field(r.s, 'v') FROM t AS s, t AS r"),
            ("SELECT r.s.v FROM t AS r", "SELECT r.s.v FROM t AS r"),
            (
                "SELECT 1 FROM t AS r WHERE (SELECT x.r.c)",
                "SELECT 1 FROM t AS r WHERE (SELECT get_field(get_field(x, 'r'), 'c'))",
            ),
        ] {
            let DfStatement::Statement(mut statement) = parse(sql, &Extension::NONE).unwrap() else {
                panic!()
            };
            rewrite(&mut statement);
            assert_eq!(statement.to_string(), meant, "{sql}");
        }
    }
}
