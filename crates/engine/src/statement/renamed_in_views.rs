//! Views over a table that gets another name, or of which a column does: they keep their columns, as in
//! PostgreSQL.

use crate::session::Session;
use crate::statement::target::Target;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{ObjectName, Query, Statement};
use hypostyle_sql::identifier::parts_of;
use hypostyle_sql::parse::parse_stored;
use hypostyle_sql::renamed_column::{rename, rename_table};
use hypostyle_storage::{SCHEMA_MAIN, Transaction, ViewEntry};
use hypostyle_types::{LogicalType, Result};

/// Says whether a name is that of the table.
type IsTable<'a> = &'a dyn Fn(&ObjectName) -> bool;

/// A view whose query names the table, or the column.
pub(super) struct Following {
    view: ViewEntry,
    /// Its query with the new name.
    renamed: Query,
    /// The columns that it has.
    columns: Vec<(String, LogicalType, bool)>,
}

impl Session {
    /// Returns the views that name a column which is to get another name.
    pub(super) fn views_that_name(
        &self,
        writer: &mut Transaction,
        target: &Target,
        old: &str,
        new: &str,
    ) -> Result<Vec<Following>> {
        self.views_that_mention(writer, target, old, &|query, is_table| rename(query, is_table, old, new))
    }

    /// Returns the views that name a table which is to get another name.
    pub(super) fn views_over(
        &self,
        writer: &mut Transaction,
        target: &Target,
        new: &str,
    ) -> Result<Vec<Following>> {
        self.views_that_mention(writer, target, &target.name, &|query, is_table| {
            rename_table(query, is_table, new)
        })
    }

    fn views_that_mention(
        &self,
        writer: &mut Transaction,
        target: &Target,
        old: &str,
        rename: &dyn Fn(&mut Query, IsTable<'_>) -> bool,
    ) -> Result<Vec<Following>> {
        let mentions = |view: &&ViewEntry| view.sql.to_lowercase().contains(&old.to_lowercase());
        let views: Vec<ViewEntry> = writer.catalog().views.iter().filter(mentions).cloned().collect();
        if views.is_empty() {
            return Ok(Vec::new());
        }
        let is_table = |name: &ObjectName| {
            let parts = parts_of(name).unwrap_or_default();
            match parts.as_slice() {
                [table] => *table == target.name && target.schema == SCHEMA_MAIN,
                [.., schema, table] => *table == target.name && *schema == target.schema,
                [] => false,
            }
        };
        self.with_view_of(writer, |session, _, _| {
            let following = |view: ViewEntry| {
                let DfStatement::Statement(statement) = parse_stored(&view.sql).ok()? else { return None };
                let Statement::Query(query) = *statement else { return None };
                let mut renamed = query.as_ref().clone();
                if !rename(&mut renamed, &is_table) {
                    return None;
                }
                let columns = session.columns_of(&target.database, &query)?;
                Some(Following { view, renamed, columns })
            };
            Ok(views.into_iter().filter_map(following).collect())
        })
    }

    /// Has views name what has its new name by now, where they give the same columns then.
    pub(super) fn rename_in_views(
        &self,
        writer: &mut Transaction,
        target: &Target,
        views: Vec<Following>,
    ) -> Result<()> {
        for Following { view, renamed, columns } in views {
            let given = self
                .with_view_of(writer, |session, _, _| Ok(session.columns_of(&target.database, &renamed)))?;
            if given.is_some_and(|given| given == columns) {
                writer.drop_view(&view.schema, &view.name)?;
                writer.create_view(ViewEntry { sql: renamed.to_string(), ..view })?;
            }
        }
        Ok(())
    }
}
