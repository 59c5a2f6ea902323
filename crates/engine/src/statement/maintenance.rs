//! Maintenance statements of PostgreSQL's programs: VACUUM and ANALYZE in all their forms, CREATE
//! EXTENSION, and views that are renamed as if they were tables.

use crate::session::outcome::DONE;
use crate::session::{Outcome, Session};
use crate::statement::definer::Ddl;
use crate::statement::names::Names;
use datafusion::sql::sqlparser::ast::ObjectName;
use hypostyle_catalog::scope::Name;
use hypostyle_types::{Error, ErrorKind, Result, did_you_mean};

/// Extensions that programs install before they look for what is in them.
const EXTENSIONS: [&str; 15] = [
    "btree_gin",
    "btree_gist",
    "citext",
    "cube",
    "earthdistance",
    "fuzzystrmatch",
    "hstore",
    "intarray",
    "pg_stat_statements",
    "pg_trgm",
    "pgcrypto",
    "plpgsql",
    "tablefunc",
    "unaccent",
    "uuid-ossp",
];

impl Session {
    pub(super) fn vacuum_tables(&self, tables: &[ObjectName]) -> Result<Outcome> {
        if tables.is_empty() {
            return self.vacuum(None);
        }
        let mut outcome = DONE;
        for table in tables {
            outcome = self.vacuum(Some(table))?;
        }
        Ok(outcome)
    }
}

impl Ddl<'_> {
    /// Renames a view; false when the name is not a view's.
    pub(super) fn rename_view(&self, view: &ObjectName, name: &ObjectName) -> Result<bool> {
        let Name { database, schema, name: old } = self.databases.names().resolve(view)?;
        let Some(mut entry) =
            self.databases.names().snapshot_of(&database)?.catalog().view(&schema, &old).cloned()
        else {
            return Ok(false);
        };
        let Name { database: to, schema: to_schema, name: new } =
            self.databases.scope.resolve(&hypostyle_sql::identifier::parts_of(name)?, Some(&database))?;
        if name.0.len() > 1 && (&to, &to_schema) != (&database, &schema) {
            return Err(Error::new(ErrorKind::Syntax, "RENAME keeps a view in its schema"));
        }
        self.databases.write(&database, |writer| {
            entry.name = new;
            writer.drop_view(&schema, &old)?;
            writer.create_view(entry)
        })?;
        Ok(true)
    }
}

/// Runs CREATE EXTENSION and DROP EXTENSION for built-in extensions.
pub(super) fn built_in_extension(name: &str) -> Result<Outcome> {
    if EXTENSIONS.iter().any(|known| name.eq_ignore_ascii_case(known)) {
        return Ok(DONE);
    }
    let suggestion = did_you_mean(name, EXTENSIONS);
    let message = format!("extension \"{name}\" is not available{suggestion}");
    Err(Error::new(ErrorKind::Unsupported, message))
}

impl Names<'_> {
    /// Runs ANALYZE, which has nothing to do: statistics are part of the columns' files, and are
    /// never out of date.
    pub(super) fn analyze_tables(&self, tables: &[ObjectName]) -> Result<Outcome> {
        for table in tables {
            let found = self.resolve(table)?;
            let snapshot = self.scope.database(&found.database)?.snapshot;
            let catalog = snapshot.catalog();
            if catalog.table(&found.schema, &found.name).is_none()
                && catalog.view(&found.schema, &found.name).is_none()
            {
                return Err(hypostyle_storage::unknown_table(catalog, &table.to_string()));
            }
        }
        Ok(DONE)
    }
}
