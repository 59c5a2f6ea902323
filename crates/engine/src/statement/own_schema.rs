//! Names in definitions. A view or a default is stored with the schemas of what it names, if they are
//! not `main`: it means the same wherever it is used.

use crate::statement::definer::Ddl;
use crate::statement::names::Names;
use datafusion::sql::sqlparser::ast::{ColumnOption, CreateTable, Expr, Ident, ObjectName, Query};
use hypostyle_catalog::scope::Name;
use hypostyle_catalog::sequence::sequence_name;
use hypostyle_catalog::sequence_default::named_sequence;
use hypostyle_files::reader_of;
use hypostyle_sql::identifier::quoted;
use hypostyle_sql::relations::{called_with_names, without_schema};
use hypostyle_sql::walk::{Part, expressions_mut};
use hypostyle_storage::{Catalog, SCHEMA_MAIN};
use std::ops::ControlFlow;

impl Ddl<'_> {
    /// Writes the schemas of tables, views and sequences into the query of a view. The names of files
    /// become calls of the functions that read them, which whoever reads the view must be allowed.
    pub(super) fn name_schemas(&self, database: &str, query: &mut Query) {
        if self.identity.privileges.machine {
            called_with_names(query, &|name| {
                reader_of(name).filter(|_| !self.databases.names().is_relation(name))
            });
        }
        self.databases.names().name_schemas_of_sequences(database, query);
        without_schema(query, &mut |object| {
            let found =
                self.databases.names().resolve(object).ok().filter(|found| found.database == database);
            if let Some(found) = found
                && self.databases.names().is_apart(&found, |catalog, schema, name| {
                    catalog.table(schema, name).is_some() || catalog.view(schema, name).is_some()
                })
            {
                let part = |name: String| Ident::with_quote('"', name);
                *object = ObjectName::from(vec![part(found.schema), part(found.name)]);
            }
        });
    }
}

impl Names<'_> {
    /// Writes the schemas of sequences into the defaults of a table to be made.
    pub(super) fn name_schemas_of_defaults(&self, database: &str, create: &mut CreateTable) {
        for column in &mut create.columns {
            for option in &mut column.options {
                if let ColumnOption::Default(value) = &mut option.option {
                    self.name_schemas_of_sequences(database, value);
                }
            }
        }
    }

    /// Writes the schemas of sequences into a part of a statement.
    pub(super) fn name_schemas_of_sequences(&self, database: &str, part: &mut impl Part) {
        let _all = expressions_mut(part, &mut |expr: &mut Expr| {
            if let Some(text) = named_sequence(expr)
                && let [name] = sequence_name(text).as_slice()
                && let Ok(found) = self.scope.resolve(std::slice::from_ref(name), None)
                && found.database == database
                && self.is_apart(&found, |catalog, schema, name| catalog.sequence(schema, name).is_some())
            {
                *text = format!("{}.{}", quoted(&found.schema), quoted(&found.name));
            }
            ControlFlow::<()>::Continue(())
        });
    }

    /// Says whether a name without a schema is that of a table or a view.
    fn is_relation(&self, name: &str) -> bool {
        let found = self.scope.resolve(&[name.to_string()], None);
        found.and_then(|found| Ok((self.snapshot_of(&found.database)?, found))).is_ok_and(
            |(snapshot, found)| {
                let catalog = snapshot.catalog();
                catalog.table(&found.schema, &found.name).is_some()
                    || catalog.view(&found.schema, &found.name).is_some()
            },
        )
    }

    /// Says whether something is there, in another schema than `main`.
    fn is_apart(&self, found: &Name, is_there: impl Fn(&Catalog, &str, &str) -> bool) -> bool {
        found.schema != SCHEMA_MAIN
            && self
                .snapshot_of(&found.database)
                .is_ok_and(|snapshot| is_there(snapshot.catalog(), &found.schema, &found.name))
    }
}
