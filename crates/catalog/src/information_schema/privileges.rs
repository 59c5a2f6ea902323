//! Privileges: the session's user owns everything and has all of them. The server decides what a
//! user may not do.

use crate::information_schema::InformationSchema;
use crate::pg_catalog::rows::{Row, Value, row};
use datafusion::error::Result;

const OF_TABLES: [&str; 7] = ["INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"];
const OF_COLUMNS: [&str; 4] = ["INSERT", "SELECT", "UPDATE", "REFERENCES"];

impl InformationSchema {
    pub(super) fn table_privileges(&self) -> Result<Vec<Row>> {
        let user = self.user()?;
        let mut rows = Vec::new();
        for named in self.named() {
            rows.extend(OF_TABLES.iter().map(|privilege| {
                row! {
                    grantor: user.as_str(), grantee: user.as_str(), table_catalog: named.database.as_str(),
                    table_schema: named.schema.as_str(), table_name: named.name.as_str(), privilege_type: *privilege,
                    is_grantable: "YES", with_hierarchy: if *privilege == "SELECT" { "YES" } else { "NO" },
                }
            }));
        }
        Ok(rows)
    }

    pub(super) async fn column_privileges(&self) -> Result<Vec<Row>> {
        let user = self.user()?;
        let names = ["table_catalog", "table_schema", "table_name", "column_name"];
        let mut rows = Vec::new();
        for column in self.columns().await? {
            let kept: Vec<(&'static str, Value)> =
                column.into_iter().filter(|(name, _)| names.contains(name)).collect();
            rows.extend(OF_COLUMNS.iter().map(|privilege| {
                let mut row = row! {
                    grantor: user.as_str(), grantee: user.as_str(), privilege_type: *privilege, is_grantable: "YES",
                };
                row.extend(kept.clone());
                row
            }));
        }
        Ok(rows)
    }
}
