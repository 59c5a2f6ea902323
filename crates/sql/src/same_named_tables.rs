//! Tables of one name, from several schemas or databases, beside each other. DataFusion takes
//! `s.t.a` for a column of any `t` that has no schema in the query, and `t.a` for one of the first.

use crate::identifier::fold;
use crate::plain::{alias_of, relations_of};
use crate::walk::walk;
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    Expr, ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind, Statement, TableFactor, Visitor,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// The name of a table in a query: its alias, or its name as written.
type Called = Vec<String>;

#[derive(Default)]
struct Alike {
    called: BTreeSet<Called>,
    /// Last names of tables that one FROM has twice.
    twice: BTreeSet<String>,
    /// The qualifiers of columns.
    before_columns: BTreeSet<Called>,
}

fn folded(name: &ObjectName) -> Called {
    name.0.iter().filter_map(|part| part.as_ident()).map(fold).collect()
}

fn called(table: &TableFactor) -> Option<Called> {
    match table {
        TableFactor::Table { name, alias: None, .. } => Some(folded(name)),
        other => alias_of(other).map(|alias| vec![fold(&alias.name)]),
    }
}

impl Visitor for Alike {
    type Break = Error;

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<Error> {
        self.called.extend(called(table));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        let tables: Vec<Called> = relations_of(&select.from).into_iter().filter_map(called).collect();
        for (index, one) in tables.iter().enumerate() {
            let other = tables[..index].iter().find(|other| other.last() == one.last() && *other != one);
            let Some(other) = other else { continue };
            if one.len() == 1 || other.len() == 1 {
                return ControlFlow::Break(refused(one, other));
            }
            self.twice.extend(one.last().cloned());
        }
        for item in &select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
            {
                self.before_columns.insert(folded(name));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<Error> {
        if let Expr::CompoundIdentifier(parts) = expression {
            let parts: Vec<String> = parts[..parts.len() - 1].iter().map(fold).collect();
            self.before_columns.insert(parts);
        }
        ControlFlow::Continue(())
    }
}

fn refused(one: &Called, other: &Called) -> Error {
    let (one, other) = (one.join("."), other.join("."));
    Error::new(
        ErrorKind::InvalidInput,
        format!("the tables \"{one}\" and \"{other}\" have the same name; give one of them an alias"),
    )
    .with_sqlstate("42712")
}

/// # Errors
/// `InvalidInput` (42712) for tables that cannot be told apart, and 42702 for columns of either.
pub fn refuse_alike(statement: &Statement) -> Result<()> {
    let mut alike = Alike::default();
    if let ControlFlow::Break(error) = walk(statement, &mut alike) {
        return Err(error);
    }
    let Alike { called, twice, before_columns } = alike;
    if let Some([name]) =
        before_columns.iter().map(Vec::as_slice).find(|parts| matches!(parts, [name] if twice.contains(name)))
    {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("\"{name}\" may be one table or another here; name its schema, or give it an alias"),
        )
        .with_sqlstate("42P09"));
    }
    // A subquery may mean the table of the query around it.
    for one in called.iter().filter(|one| one.len() > 1) {
        let other = called.iter().find(|other| other.len() == 1 && other.last() == one.last());
        let is_named =
            |parts: &Called| parts.len() > 1 && parts.iter().skip(1).any(|part| Some(part) == one.last());
        if let Some(other) = other.filter(|_| before_columns.iter().any(is_named)) {
            return Err(refused(one, other));
        }
    }
    Ok(())
}
