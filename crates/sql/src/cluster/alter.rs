//! ALTER CLUSTER.

use super::{AlterCluster, ClusterStatement};
use crate::cursor::Cursor;
use hypostyle_placement::config::check_address;
use hypostyle_types::Result;

/// Reads ALTER CLUSTER and what it changes.
///
/// # Errors
/// `Syntax` at its place in the text.
pub(super) fn parse(sql: &str) -> Result<ClusterStatement> {
    let mut cursor = Cursor::skipping(sql, 2);
    let change = change(&mut cursor)?;
    cursor.end()?;
    Ok(ClusterStatement::Alter(change))
}

fn change(cursor: &mut Cursor<'_>) -> Result<AlterCluster> {
    if cursor.take("ADD") {
        let name = node(cursor)?;
        cursor.expect(&["ADDRESS"])?;
        return Ok(AlterCluster::AddNode { name, address: address(cursor)? });
    }
    if cursor.take("DRAIN") {
        if cursor.take("CLIENTS") {
            cursor.expect(&["OF"])?;
            return Ok(AlterCluster::DrainClients { name: node(cursor)? });
        }
        return Ok(AlterCluster::DrainNode { name: node(cursor)? });
    }
    if cursor.take("DROP") {
        return Ok(AlterCluster::DropNode { name: node(cursor)?, force: cursor.take("FORCE") });
    }
    if cursor.take("REBALANCE") {
        let table = if cursor.take("TABLE") { Some(cursor.table()?) } else { None };
        return Ok(AlterCluster::Rebalance { table });
    }
    if cursor.take("PROMOTE") {
        return Ok(AlterCluster::Promote { name: cursor.name("the name of a node")? });
    }
    Err(cursor.unexpected("ADD NODE, DRAIN NODE, DROP NODE, REBALANCE or PROMOTE"))
}

/// Reads NODE and the name of one.
fn node(cursor: &mut Cursor<'_>) -> Result<String> {
    cursor.expect(&["NODE"])?;
    cursor.name("the name of a node")
}

fn address(cursor: &mut Cursor<'_>) -> Result<String> {
    let at = cursor.start();
    let address = cursor.text("an address")?;
    check_address("ADDRESS", &address).map_err(|error| cursor.wrong(at, error.message()))?;
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Extension;
    use sqlparser::ast::{Ident, ObjectName};

    fn parsed(sql: &str) -> AlterCluster {
        match ClusterStatement::parse(sql, &Extension::NONE) {
            Ok(Some(ClusterStatement::Alter(alter))) => alter,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn each_change_is_read() {
        let (name, table) = (String::from("n2"), ObjectName::from(vec![Ident::new("s"), Ident::new("T")]));
        for (sql, expected) in [
            (
                "alter cluster add node N2 address 'h''s:4953';",
                AlterCluster::AddNode { name: name.clone(), address: "h's:4953".into() },
            ),
            (
                "ALTER /* a */ CLUSTER ADD NODE \"N \"\"2\" ADDRESS '[::1]:1' -- b",
                AlterCluster::AddNode { name: "N \"2".into(), address: "[::1]:1".into() },
            ),
            ("ALTER CLUSTER DRAIN NODE n2", AlterCluster::DrainNode { name: name.clone() }),
            ("alter cluster drain clients of node n2", AlterCluster::DrainClients { name: name.clone() }),
            ("ALTER CLUSTER DRAIN NODE clients", AlterCluster::DrainNode { name: "clients".into() }),
            ("ALTER CLUSTER DROP NODE n2", AlterCluster::DropNode { name: name.clone(), force: false }),
            ("ALTER CLUSTER DROP NODE n2 force", AlterCluster::DropNode { name: name.clone(), force: true }),
            ("ALTER CLUSTER REBALANCE", AlterCluster::Rebalance { table: None }),
            ("ALTER CLUSTER REBALANCE TABLE s.T", AlterCluster::Rebalance { table: Some(table) }),
            ("ALTER CLUSTER PROMOTE n2", AlterCluster::Promote { name }),
            ("ALTER CLUSTER DROP NODE force", AlterCluster::DropNode { name: "force".into(), force: false }),
            ("ALTER CLUSTER PROMOTE node", AlterCluster::Promote { name: "node".into() }),
        ] {
            assert_eq!(parsed(sql), expected, "{sql}");
        }
    }

    #[test]
    fn errors_say_what_was_expected_and_where() {
        for (sql, position, message) in [
            ("ALTER CLUSTER", 14, "ADD NODE, DRAIN NODE, DROP NODE, REBALANCE or PROMOTE was expected"),
            ("ALTER CLUSTER GROW", 15, "PROMOTE was expected, not GROW"),
            ("ALTER CLUSTER DRAIN CLIENTS n2", 29, "OF was expected, not n2"),
            ("ALTER CLUSTER ADD n2 ADDRESS 'h:1'", 19, "NODE was expected, not n2"),
            ("ALTER CLUSTER ADD NODE 'n2' ADDRESS 'h:1'", 24, "the name of a node was expected, not 'n2'"),
            ("ALTER CLUSTER ADD NODE \"\" ADDRESS 'h:1'", 24, "the name of a node has 1 to"),
            ("ALTER CLUSTER ADD NODE n2", 26, "ADDRESS was expected, not the end of the statement"),
            ("ALTER CLUSTER ADD NODE ö ADDRESS h:1", 34, "an address in single quotes was expected, not h"),
            ("ALTER CLUSTER ADD NODE ö ADDRESS 'h'", 34, "ADDRESS: 'h' is not host:port"),
            ("ALTER CLUSTER ADD NODE n ADDRESS 'h:1", 34, "an address in single quotes was expected"),
            ("ALTER CLUSTER DROP NODE n2 FORCED", 28, "the end of the statement was expected, not FORCED"),
            ("ALTER CLUSTER REBALANCE t", 25, "the end of the statement was expected, not t"),
            ("ALTER CLUSTER REBALANCE TABLE s.", 33, "the name of a table was expected"),
            ("ALTER CLUSTER PROMOTE n2, n3", 25, "the end of the statement was expected, not ,"),
        ] {
            let error = ClusterStatement::parse(sql, &Extension::NONE).unwrap_err();
            assert!(error.message().contains(message), "{sql}: {error}");
            assert_eq!((error.position(), error.sqlstate()), (Some(position), "42601"), "{sql}");
        }
    }
}
