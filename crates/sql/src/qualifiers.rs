//! Names of three parts and more. `x.t.c` is a column of a relation that is called `t` where `x.t` names the
//! same table (ISO/IEC 9075-2, 6.6), which a catalog tells: the name then has a schema only where the table
//! has it in FROM. A relation with an alias has no schema (7.6). Otherwise `x` is another relation's name, or
//! a column's, and what follows are fields of structures.

use crate::call::call;
use crate::identifier::fold;
use crate::plain::{alias_of, relations_in, relations_of};
use crate::walk::{Part, expressions_mut, walk_mut};
use crate::with_names::{KnowsWith, WithNames};
use sqlparser::ast::{
    Delete, Expr, FromTable, Ident, Merge, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, Statement, TableFactor, TableObject, TableWithJoins, Update, UpdateTableFromKind, Value,
    VisitorMut,
};
use std::ops::ControlFlow;

/// Returns database, schema and name of the table that a name means; `None` for one that means none.
pub type FullName<'a> = &'a dyn Fn(&[String]) -> Option<[String; 3]>;

/// The schema of the system's tables, which are found without it.
const SYSTEM: &str = "pg_catalog";

/// Writes such names as the columns or fields that they are. Says whether it was asked what names mean.
pub fn rewrite(part: &mut (impl Part + ?Sized), full_name: FullName) -> bool {
    let mut names =
        Qualifiers { full_name, scopes: Vec::new(), with: WithNames::default(), has_asked: false };
    let _done = walk_mut(part, &mut names);
    names.has_asked
}

/// Takes the schema off names of a table's columns in a query in which the table has its own name for an
/// alias.
pub fn take_schema_off(query: &mut Query, table: &[String]) {
    let _all = expressions_mut(query, &mut |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() > table.len()
            && parts.iter().zip(table).all(|(part, own)| fold(part) == *own)
        {
            drop(parts.drain(..table.len().saturating_sub(1)));
        }
        ControlFlow::<()>::Continue(())
    });
}

/// What a query calls one of its relations.
struct Relation {
    name: String,
    /// The name of the table, as written; `None` for an alias, a subquery or a name of WITH.
    table: Option<Vec<String>>,
    /// A statement writes to it: the query that finds its rows has its name without a schema, as an alias.
    is_target: bool,
}

/// What a name of three parts and more is.
enum Meant {
    /// A column of a table, or a field of one, behind parts that FROM does not write.
    Column { more: usize },
    /// Fields of a column, which so many parts are.
    Fields { of: usize },
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

    /// Returns the table that a name with its schema means, as the query, or one around it, has it in FROM.
    fn table(&self, parts: &[String]) -> Option<&[String]> {
        let name = parts.last()?;
        let is_system = parts.first().is_some_and(|schema| schema == SYSTEM);
        let named = self.scopes.iter().rev().flatten().filter(|relation| relation.name == *name);
        let mut tables = named.filter_map(|relation| relation.table.as_deref());
        tables.find(|table| {
            table.ends_with(parts)
                || is_system && table.len() == 1
                || (self.full_name)(parts).is_some_and(|full| (self.full_name)(table) == Some(full))
        })
    }

    /// Returns what a name is, if it may have the schema of a relation.
    fn meant(&self, parts: &[String]) -> Option<Meant> {
        let [first, second, third, others @ ..] = parts else { return None };
        let may_have_database = !others.is_empty() && self.is_relation(third);
        let may_have_schema = self.is_relation(second);
        let before = [(may_have_database, 3), (may_have_schema, 2)];
        let mut before = before.into_iter().filter(|(may_be, _)| *may_be).map(|(_, count)| &parts[..count]);
        let found = before.find_map(|before| self.table(before).map(|table| (before, table)));
        match found {
            Some((before, table)) => Some(Meant::Column { more: self.more_than(before, table) }),
            None if may_have_database || may_have_schema => {
                Some(Meant::Fields { of: if self.is_relation(first) { 2 } else { 1 } })
            }
            None => None,
        }
    }

    /// Returns how many parts a name has before those that FROM writes of its table, where the name of the
    /// table alone means no other.
    fn more_than(&self, before: &[String], table: &[String]) -> usize {
        let Some(name) = table.last() else { return 0 };
        match self.relations(name).as_slice() {
            [only] if only.table.as_deref() != Some(table) => 0,
            [only] if only.is_target => before.len() - 1,
            [_] if before.ends_with(table) => before.len() - table.len(),
            _ => 0,
        }
    }

    /// Writes the tables of `s.t.*` among items as FROM writes them.
    fn write_items(&mut self, items: &mut [SelectItem]) {
        for item in items {
            let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
            else {
                continue;
            };
            let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident().map(fold)).collect();
            if parts.len() > 1 {
                self.has_asked = true;
                let more = self.table(&parts).map_or(0, |table| self.more_than(&parts, table));
                drop(name.0.drain(..more));
            }
        }
    }

    /// Writes those of RETURNING.
    fn write_returning(&mut self, statement: &mut Statement) {
        let items = match statement {
            Statement::Delete(delete) => delete.returning.as_mut(),
            Statement::Update(update) => update.returning.as_mut(),
            Statement::Insert(insert) => insert.returning.as_mut(),
            _ => None,
        };
        if let Some(items) = items {
            self.write_items(items);
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
                Some(Relation { name, table: (!is_of_with).then_some(parts), is_target: false })
            }
            other => {
                let name = alias_of(other).map(|alias| fold(&alias.name))?;
                Some(Relation { name, table: None, is_target: false })
            }
        }
    }

    /// Returns what the relations are called that a statement writes to.
    fn targets<'b>(&self, from: impl IntoIterator<Item = &'b TableWithJoins>) -> Vec<Relation> {
        let as_target = |relation: Relation| Relation { is_target: true, ..relation };
        self.scope(from).into_iter().map(as_target).collect()
    }

    /// Returns the relations that a statement itself reads or writes to.
    fn scope_of(&self, statement: &Statement) -> Vec<Relation> {
        match statement {
            Statement::Delete(Delete { from, using, .. }) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
                let mut scope = self.targets(from);
                scope.extend(self.scope(using.iter().flatten()));
                scope
            }
            Statement::Update(Update { table, from, .. }) => {
                let from = from.iter().flat_map(|from| match from {
                    UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from) => from,
                });
                let mut scope = self.targets([table]);
                scope.extend(self.scope(from));
                scope
            }
            Statement::Merge(Merge { table, source, .. }) => {
                let as_target = |relation: Relation| Relation { is_target: true, ..relation };
                let mut scope: Vec<Relation> = relations_in(table)
                    .into_iter()
                    .filter_map(|of| self.relation(of))
                    .map(as_target)
                    .collect();
                scope.extend(relations_in(source).into_iter().filter_map(|of| self.relation(of)));
                scope
            }
            Statement::Insert(insert) => {
                let excluded = Relation { name: "excluded".into(), table: None, is_target: false };
                let mut scope = vec![excluded];
                if let (TableObject::TableName(name), None) = (&insert.table, &insert.table_alias) {
                    let parts: Vec<String> =
                        name.0.iter().filter_map(|part| part.as_ident().map(fold)).collect();
                    let name = parts.last().cloned();
                    scope.extend(name.map(|name| Relation { name, table: Some(parts), is_target: true }));
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
        self.write_returning(statement);
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
        self.write_items(&mut select.projection);
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
            match self.meant(&folded) {
                Some(Meant::Column { more }) => drop(parts.drain(..more)),
                Some(Meant::Fields { of }) => *expr = fields(std::mem::take(parts), of),
                None => {}
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
            ("SELECT t.c, s.t.c FROM d.s.t", "SELECT t.c, s.t.c FROM d.s.t"),
            ("SELECT d.s.t.c FROM s.t", "SELECT s.t.c FROM s.t"),
            ("SELECT main.t.c, d.main.t.c, main.t.s.f FROM t", "SELECT t.c, t.c, t.s.f FROM t"),
            ("SELECT (SELECT main.t.c FROM s.t) FROM t", "SELECT (SELECT main.t.c FROM s.t) FROM t"),
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
                "WITH t AS (SELECT t.c FROM t) SELECT get_field(get_field(main, 't'), 'c') FROM t",
            ),
            ("SELECT main.t.*, t.* FROM t", "SELECT t.*, t.* FROM t"),
            ("SELECT s.t.*, t.* FROM s.t", "SELECT s.t.*, t.* FROM s.t"),
            ("DELETE FROM s.t WHERE s.t.c = 1", "DELETE FROM s.t WHERE t.c = 1"),
            ("DELETE FROM s.t RETURNING d.s.t.*, s.t.c", "DELETE FROM s.t RETURNING t.*, t.c"),
            ("UPDATE t SET c = s.t.c FROM s.t", "UPDATE t SET c = s.t.c FROM s.t"),
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
