//! Privileges: the session's user owns everything, and has those that the server's role gives. Nobody can
//! pass them on: there is no GRANT.

use crate::information_schema::InformationSchema;
use crate::information_schema::relations::Kind;
use crate::pg_catalog::rows::{Row, Value, row};
use crate::scope::TEMPORARY;
use datafusion::error::Result;

const OF_TABLES: [&str; 7] = ["INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"];
const OF_COLUMNS: [&str; 4] = ["INSERT", "SELECT", "UPDATE", "REFERENCES"];

/// Says whether somebody has a privilege: everybody may read, and write what is temporary.
fn has(privilege: &str, is_temporary: bool, may_write: bool) -> bool {
    privilege == "SELECT" || is_temporary || may_write
}

impl InformationSchema {
    pub(super) fn table_privileges(&self) -> Result<Vec<Row>> {
        let user = self.user()?;
        let may_write = self.scope.privileges().write;
        let mut rows = Vec::new();
        for named in self.named() {
            let is_temporary = matches!(named.kind, Kind::Temporary) || named.database == TEMPORARY;
            let held = OF_TABLES.iter().filter(|privilege| has(privilege, is_temporary, may_write));
            rows.extend(held.map(|privilege| {
                row! {
                    grantor: user.as_str(), grantee: user.as_str(), table_catalog: named.database.as_str(),
                    table_schema: named.schema.as_str(), table_name: named.name.as_str(), privilege_type: *privilege,
                    is_grantable: "NO", with_hierarchy: if *privilege == "SELECT" { "YES" } else { "NO" },
                }
            }));
        }
        Ok(rows)
    }

    pub(super) async fn column_privileges(&self) -> Result<Vec<Row>> {
        let user = self.user()?;
        let names = ["table_catalog", "table_schema", "table_name", "column_name"];
        let may_write = self.scope.privileges().write;
        let is_temporary = |(name, value): &(&'static str, Value)| {
            *name == "table_catalog" && *value == Value::Text(TEMPORARY.into())
        };
        let mut rows = Vec::new();
        for column in self.columns().await? {
            let is_temporary = column.iter().any(is_temporary);
            let kept: Vec<(&'static str, Value)> =
                column.into_iter().filter(|(name, _)| names.contains(name)).collect();
            let held = OF_COLUMNS.iter().filter(|privilege| has(privilege, is_temporary, may_write));
            rows.extend(held.map(|privilege| {
                let mut row = row! {
                    grantor: user.as_str(), grantee: user.as_str(), privilege_type: *privilege, is_grantable: "NO",
                };
                row.extend(kept.clone());
                row
            }));
        }
        Ok(rows)
    }
}
