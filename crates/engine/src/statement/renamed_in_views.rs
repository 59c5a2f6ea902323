//! Views over a table that gets another name, or of which a column does: they keep their columns, as in
//! PostgreSQL. So do materialized views when they are refreshed.

use crate::session::Parameters;
use crate::statement::constraint::with_view_of;
use crate::statement::definer::Definer;
use crate::statement::dialect::parse_query;
use crate::statement::target::Target;
use crate::statement::view_columns::columns_of;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{ObjectName, Query, Statement};
use hypostyle_sql::build;
use hypostyle_sql::identifier::parts_of;
use hypostyle_sql::parse::parse_stored;
use hypostyle_sql::renamed_column::{rename, rename_table};
use hypostyle_storage::{Catalog, SCHEMA_MAIN, Transaction, ViewEntry};
use hypostyle_types::{LogicalType, Result, TableId};

/// Says whether a name is that of the table.
type IsTable<'a> = &'a dyn Fn(&ObjectName) -> bool;

/// The columns of a query: their names, their types, and whether they may be NULL.
type Columns = Vec<(String, LogicalType, bool)>;

/// What has a query.
enum Owner {
    View(ViewEntry),
    /// A materialized view, and the schema in which names are looked up that have none.
    Materialized {
        id: TableId,
        schema: String,
    },
}

impl Owner {
    fn schema(&self) -> &str {
        match self {
            Self::View(_) => SCHEMA_MAIN,
            Self::Materialized { schema, .. } => schema,
        }
    }
}

/// A view whose query names the table, or the column.
pub(super) struct Following {
    owner: Owner,
    /// Its query with the new name.
    renamed: Query,
    /// The columns that it has.
    columns: Columns,
}

/// Returns the queries of views, and of materialized ones, whose texts have a name in them.
fn queries_with(catalog: &Catalog, name: &str) -> Vec<(Owner, String)> {
    let name = name.to_lowercase();
    let mentions = |sql: &str| sql.to_lowercase().contains(&name);
    let views = catalog.views.iter().filter(|view| mentions(&view.sql));
    let views = views.map(|view| (Owner::View(view.clone()), view.sql.clone()));
    let materialized = catalog.tables.iter().filter_map(|table| {
        let query = table.query.as_ref().filter(|query| mentions(&query.sql))?;
        let owner = Owner::Materialized { id: table.id, schema: query.schema.clone() };
        Some((owner, query.sql.clone()))
    });
    views.chain(materialized).collect()
}

impl Definer<'_> {
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
        let queries = queries_with(writer.catalog(), old);
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        with_view_of(self.scope, writer, |_, _| {
            let following = |(owner, sql): (Owner, String)| {
                let is_table = |name: &ObjectName| {
                    let parts = parts_of(name).unwrap_or_default();
                    match parts.as_slice() {
                        [table] => *table == target.name && target.schema == owner.schema(),
                        [.., schema, table] => *table == target.name && *schema == target.schema,
                        [] => false,
                    }
                };
                let DfStatement::Statement(statement) = parse_stored(&sql).ok()? else { return None };
                let Statement::Query(query) = *statement else { return None };
                let mut renamed = query.as_ref().clone();
                if !rename(&mut renamed, &is_table) {
                    return None;
                }
                let columns = self.columns_of_view(&target.database, &owner, &query)?;
                Some(Following { owner, renamed, columns })
            };
            Ok(queries.into_iter().filter_map(following).collect())
        })
    }

    /// Returns the columns of a view's query.
    fn columns_of_view(&self, database: &str, owner: &Owner, query: &Query) -> Option<Columns> {
        let Owner::Materialized { schema, .. } = owner else {
            return columns_of(self.queries, database, query);
        };
        // It is read as it is when the view is refreshed.
        let asking = build::limited(build::rows_of(parse_query(&query.to_string()).ok()?), 0);
        let before = self.scope.path();
        self.scope.set_current(database, schema);
        let columns = self.queries.columns(asking, &Parameters::None);
        self.scope.set_path(before);
        columns.ok()
    }

    /// Has views name what has its new name by now, where they give the same columns then.
    pub(super) fn rename_in_views(
        &self,
        writer: &mut Transaction,
        target: &Target,
        views: Vec<Following>,
    ) -> Result<()> {
        for Following { owner, renamed, columns } in views {
            let given = with_view_of(self.scope, writer, |_, _| {
                Ok(self.columns_of_view(&target.database, &owner, &renamed))
            })?;
            if given.is_none_or(|given| given != columns) {
                continue;
            }
            let sql = renamed.to_string();
            match owner {
                Owner::View(view) => {
                    writer.drop_view(&view.schema, &view.name)?;
                    writer.create_view(ViewEntry { sql, ..view })?;
                }
                Owner::Materialized { id, .. } => writer.alter_table(id, |table| {
                    if let Some(query) = &mut table.query {
                        query.sql = sql;
                    }
                    Ok(())
                })?,
            }
        }
        Ok(())
    }
}
