//! Constraints and indexes as SQL text, and names as SQL takes them.

use crate::pg_catalog::keywords::needs_quotes;
use crate::pg_catalog::objects::{Constraint, Objects, Relation, What};
use hypostyle_storage::{ConstraintRule, ReferentialAction, TableEntry};
use hypostyle_types::ColumnId;

/// Returns a name in quotes, where it needs them.
pub fn quote(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !needs_quotes(name);
    if plain { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Returns a relation's name, with its schema where the name alone would not find it.
pub(super) fn qualified(relation: &Relation, current: &str) -> String {
    match relation.schema_name == current || relation.temporary {
        true => quote(&relation.name),
        false => format!("{}.{}", quote(&relation.schema_name), quote(&relation.name)),
    }
}

fn names(table: Option<&TableEntry>, columns: &[ColumnId]) -> String {
    let name = |id: &ColumnId| {
        let column = table.and_then(|table| table.columns.iter().find(|column| column.id == *id));
        column.map_or_else(|| "?".to_string(), |column| quote(&column.name))
    };
    columns.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn action(action: ReferentialAction) -> Option<&'static str> {
    match action {
        ReferentialAction::NoAction => None,
        ReferentialAction::Restrict => Some("RESTRICT"),
        ReferentialAction::Cascade => Some("CASCADE"),
        ReferentialAction::SetNull => Some("SET NULL"),
        ReferentialAction::SetDefault => Some("SET DEFAULT"),
    }
}

/// Returns a referential action as `pg_constraint` has it.
pub(super) fn action_code(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::NoAction => "a",
        ReferentialAction::Restrict => "r",
        ReferentialAction::Cascade => "c",
        ReferentialAction::SetNull => "n",
        ReferentialAction::SetDefault => "d",
    }
}

/// Returns what `pg_get_constraintdef` gives.
pub(super) fn constraint(objects: &Objects, constraint: &Constraint, current: &str) -> String {
    let table = objects.table(constraint.table).map(AsRef::as_ref);
    match &constraint.entry.rule {
        ConstraintRule::PrimaryKey { columns } => format!("PRIMARY KEY ({})", names(table, columns)),
        ConstraintRule::Unique { columns } => format!("UNIQUE ({})", names(table, columns)),
        ConstraintRule::Check { sql } => format!("CHECK (({sql}))"),
        ConstraintRule::ForeignKey { columns, table: referred_table, referred, on_delete, on_update } => {
            let oid = Objects::oid_of_table(constraint.table, referred_table.0);
            let name =
                objects.relation(oid).map_or_else(String::new, |relation| qualified(relation, current));
            let referred = names(objects.table(oid).map(AsRef::as_ref), referred);
            let mut text = format!("FOREIGN KEY ({}) REFERENCES {name}({referred})", names(table, columns));
            for (what, taken) in [("UPDATE", *on_update), ("DELETE", *on_delete)] {
                if let Some(taken) = action(taken) {
                    text.push_str(&format!(" ON {what} {taken}"));
                }
            }
            text.push_str(constraint.entry.deferral.sql());
            text
        }
    }
}

/// Returns what `pg_get_indexdef` gives: of the whole index, or of one of its columns from 1.
pub(super) fn index(objects: &Objects, relation: &Relation, column: usize) -> Option<String> {
    let What::Index { table, columns, unique, .. } = &relation.what else { return None };
    let entry = objects.table(*table)?;
    if column > 0 {
        return Some(names(Some(entry), columns.get(column - 1..column)?));
    }
    let of = objects.relation(*table)?;
    Some(format!(
        "CREATE {}INDEX {} ON {}.{} USING btree ({})",
        if *unique { "UNIQUE " } else { "" },
        quote(&relation.name),
        quote(&of.schema_name),
        quote(&of.name),
        names(Some(entry), columns)
    ))
}
