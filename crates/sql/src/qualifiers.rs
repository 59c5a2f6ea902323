//! Names of three parts and more. DataFusion finds `x.t.c` in any relation that is called `t`,
//! whatever `x` is. It is a column of that relation where `x.t` names the same table (ISO/IEC 9075-2,
//! 6.6). A relation with an alias has no schema (7.6). Otherwise `x` is another relation's name, or a
//! column's, and what follows are fields of structures.

use crate::call::call;
use crate::identifier::fold;
use crate::plain::{alias_of, relations_in, relations_of};
use crate::walk::{Part, walk_mut};
use crate::with_names::{KnowsWith, WithNames};
use sqlparser::ast::{
    Delete, Expr, FromTable, Ident, Merge, Query, Select, SetExpr, Statement, TableFactor, TableObject,
    TableWithJoins, Update, UpdateTableFromKind, Value, VisitorMut,
};
use std::ops::ControlFlow;

/// Returns database, schema and name of the table that a name means; `None` for one that means none.
pub type FullName<'a> = &'a dyn Fn(&[String]) -> Option<[String; 3]>;

/// The schema of the system's tables, which are found without it.
const SYSTEM: &str = "pg_catalog";

/// Writes such names as the fields that they are. Says whether it was asked what names mean.
pub fn rewrite(part: &mut (impl Part + ?Sized), full_name: FullName) -> bool {
    let mut names =
        Qualifiers { full_name, scopes: Vec::new(), with: WithNames::default(), has_asked: false };
    let _done = walk_mut(part, &mut names);
    names.has_asked
}

/// What a query calls one of its relations.
struct Relation {
    name: String,
    /// The name of the table, as written; `None` for an alias, a subquery or a name of WITH.
    table: Option<Vec<String>>,
}

struct Qualifiers<'a> {
    full_name: FullName<'a>,
    /// The relations of each query around.
    scopes: Vec<Vec<Relation>>,
    with: WithNames,
    has_asked: bool,
}

impl Qualifiers<'_> {
    /// Returns the relations that a name may mean: those of the innermost query that has some.
    fn relations(&self, name: &str) -> Vec<&Relation> {
        let named = |scope: &'_ Vec<Relation>| scope.iter().any(|relation| relation.name == name);
        let scope = self.scopes.iter().rev().find(|scope| named(scope));
        scope.into_iter().flatten().filter(|relation| relation.name == name).collect()
    }

    fn is_relation(&self, name: &str) -> bool {
        !self.relations(name).is_empty()
    }

    /// Says whether a name with its schema is that of a table which the query, or one around it,
    /// reads.
    fn is_table(&self, parts: &[String]) -> bool {
        let Some(name) = parts.last() else { return false };
        let is_system = parts.first().is_some_and(|schema| schema == SYSTEM);
        let named = self.scopes.iter().flatten().filter(|relation| relation.name == *name);
        named.filter_map(|relation| relation.table.as_ref()).any(|table| {
            table.ends_with(parts)
                || is_system && table.len() == 1
                || (self.full_name)(parts).is_some_and(|full| (self.full_name)(table) == Some(full))
        })
    }

    /// Returns how many parts of a name say which column it is, where its fields follow.
    fn column_parts(&self, parts: &[String]) -> Option<usize> {
        let [first, second, third, others @ ..] = parts else { return None };
        let may_have_database = !others.is_empty() && self.is_relation(third);
        let may_have_schema = self.is_relation(second);
        let is_table = may_have_database && self.is_table(parts.get(..3)?)
            || may_have_schema && self.is_table(parts.get(..2)?);
        match (may_have_database || may_have_schema, is_table) {
            (true, false) => Some(if self.is_relation(first) { 2 } else { 1 }),
            _ => None,
        }
    }

    /// Returns what the relations of a FROM are called.
    fn scope<'b>(&self, from: impl IntoIterator<Item = &'b TableWithJoins>) -> Vec<Relation> {
        relations_of(from).into_iter().filter_map(|factor| self.relation(factor)).collect()
    }

    fn relation(&self, factor: &TableFactor) -> Option<Relation> {
        match factor {
            TableFactor::Table { name, alias: None, args: None, .. } => {
                let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident().map(fold)).collect();
                let name = parts.last().cloned()?;
                let is_of_with = parts.len() == 1 && self.with.has(&name);
                Some(Relation { name, table: (!is_of_with).then_some(parts) })
            }
            other => alias_of(other).map(|alias| Relation { name: fold(&alias.name), table: None }),
        }
    }

    /// Returns the relations that a statement itself reads or writes to.
    fn scope_of(&self, statement: &Statement) -> Vec<Relation> {
        match statement {
            Statement::Delete(Delete { from, using, .. }) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
                self.scope(from.iter().chain(using.iter().flatten()))
            }
            Statement::Update(Update { table, from, .. }) => {
                let from = from.iter().flat_map(|from| match from {
                    UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from) => from,
                });
                self.scope(std::iter::once(table).chain(from))
            }
            Statement::Merge(Merge { table, source, .. }) => {
                let relations = [table, source].into_iter().flat_map(relations_in);
                relations.filter_map(|factor| self.relation(factor)).collect()
            }
            Statement::Insert(insert) => {
                let mut scope = vec![Relation { name: "excluded".into(), table: None }];
                if let (TableObject::TableName(name), None) = (&insert.table, &insert.table_alias) {
                    let parts: Vec<String> =
                        name.0.iter().filter_map(|part| part.as_ident().map(fold)).collect();
                    scope.extend(parts.last().cloned().map(|name| Relation { name, table: Some(parts) }));
                }
                scope
            }
            _ => Vec::new(),
        }
    }
}

impl KnowsWith for Qualifiers<'_> {
    fn with_names(&mut self) -> &mut WithNames {
        &mut self.with
    }
}

impl VisitorMut for Qualifiers<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        let scope = self.scope_of(statement);
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_statement(&mut self, _: &mut Statement) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.enter(query)?;
        // ORDER BY is outside of the SELECT.
        let scope = match query.body.as_ref() {
            SetExpr::Select(select) => self.scope(&select.from),
            _ => Vec::new(),
        };
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        self.leave(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let scope = self.scope(&select.from);
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
            self.has_asked = true;
            let folded: Vec<String> = parts.iter().map(fold).collect();
            if let Some(count) = self.column_parts(&folded) {
                *expr = fields(std::mem::take(parts), count);
            }
        }
        ControlFlow::Continue(())
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

    /// Names mean tables of the database `d`, where no schema is written of its schema `main`.
    fn full_name(parts: &[String]) -> Option<[String; 3]> {
        match parts {
            [name] => Some(["d".into(), "main".into(), name.clone()]),
            [schema, name] => Some(["d".into(), schema.clone(), name.clone()]),
            [database, schema, name] => Some([database.clone(), schema.clone(), name.clone()]),
            _ => None,
        }
    }

    #[test]
    fn a_qualifier_names_the_table_that_is_read() {
        for (sql, meant) in [
            ("SELECT x.t.c FROM u AS t", "SELECT get_field(get_field(x, 't'), 'c') FROM u AS t"),
            ("SELECT s.t.c FROM s.t", "SELECT s.t.c FROM s.t"),
            ("SELECT d.s.t.c FROM s.t", "SELECT d.s.t.c FROM s.t"),
            ("SELECT main.t.c, d.main.t.c FROM t", "SELECT main.t.c, d.main.t.c FROM t"),
            ("SELECT s.t.c FROM t", "SELECT get_field(get_field(s, 't'), 'c') FROM t"),
            ("SELECT 1 FROM t ORDER BY s.t.c", "SELECT 1 FROM t ORDER BY get_field(get_field(s, 't'), 'c')"),
            ("SELECT r.t.c, s.t.c FROM r.t, s.t", "SELECT r.t.c, s.t.c FROM r.t, s.t"),
            ("SELECT r.s.t.c FROM s.t, r", "SELECT get_field(get_field(r.s, 't'), 'c') FROM s.t, r"),
            ("SELECT o.t.c FROM s.t", "SELECT get_field(get_field(o, 't'), 'c') FROM s.t"),
            ("SELECT r.s.v FROM t AS s, t AS r", "SELECT get_field(r.s, 'v') FROM t AS s, t AS r"),
            ("SELECT r.s.v FROM t AS r", "SELECT r.s.v FROM t AS r"),
            (
                "SELECT 1 FROM t AS r WHERE (SELECT x.r.c)",
                "SELECT 1 FROM t AS r WHERE (SELECT get_field(get_field(x, 'r'), 'c'))",
            ),
            (
                "WITH t AS (SELECT main.t.c FROM t) SELECT main.t.c FROM t",
                "WITH t AS (SELECT main.t.c FROM t) SELECT get_field(get_field(main, 't'), 'c') FROM t",
            ),
            ("DELETE FROM s.t WHERE s.t.c = 1", "DELETE FROM s.t WHERE s.t.c = 1"),
            (
                "DELETE FROM s.t WHERE main.t.c = 1",
                "DELETE FROM s.t WHERE get_field(get_field(main, 't'), 'c') = 1",
            ),
            ("UPDATE t SET c = s.t.c", "UPDATE t SET c = get_field(get_field(s, 't'), 'c')"),
        ] {
            let DfStatement::Statement(mut statement) = parse(sql, &Extension::NONE).unwrap() else {
                panic!()
            };
            rewrite(&mut statement, &full_name);
            assert_eq!(statement.to_string(), meant, "{sql}");
        }
    }
}
