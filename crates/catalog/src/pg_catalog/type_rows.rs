//! The rows of `pg_type`, and the functions by which PostgreSQL reads and writes values of its
//! types.
//!
//! Clients choose their way of reading a type by the names of its functions, so the names are
//! PostgreSQL's own. They are only names: nobody can call these functions.

use crate::pg_catalog::objects::{OWNER_OID, PG_CATALOG_OID};
use crate::pg_catalog::rows::{Row, row};
use hypostyle_pgtypes::types::{PostgresType, TYPES};
use std::sync::OnceLock;

/// PostgreSQL's text for a missing function.
pub(super) const NO_FUNCTION: &str = "-";

const DEFAULT_COLLATION: i64 = 100;
const C_COLLATION: i64 = 950;

/// The functions of types, one a line, with their numbers.
const PROCEDURES: &str = include_str!("procedures.txt");

/// Returns the numbers and names of the functions of types.
pub(super) fn procedures() -> &'static [(i64, &'static str)] {
    static PARSED: OnceLock<Vec<(i64, &'static str)>> = OnceLock::new();
    PARSED.get_or_init(|| {
        let parse = |line: &'static str| {
            let (oid, name) = line.split_once(' ')?;
            Some((oid.parse().ok()?, name))
        };
        PROCEDURES.lines().filter_map(parse).collect()
    })
}

/// Returns the function of a type that does something, with an underscore in its name or without.
fn procedure(of: &str, does: &str) -> &'static str {
    let is = |name: &str| {
        name.strip_prefix(of).is_some_and(|end| end == does || end.strip_prefix('_') == Some(does))
    };
    procedures().iter().find(|(_, name)| is(name)).map_or(NO_FUNCTION, |(_, name)| name)
}

/// Returns what arrays of a type are made of, and names and vectors, which are arrays, too.
fn element(of: &PostgresType) -> i64 {
    match of.name {
        "name" => 18,
        "int2vector" => 21,
        "oidvector" => 26,
        _ => 0,
    }
}

fn subscript(of: &PostgresType) -> &'static str {
    match of.name {
        "name" => "raw_array_subscript_handler",
        "int2vector" | "oidvector" => "array_subscript_handler",
        "jsonb" => "jsonb_subscript_handler",
        _ => NO_FUNCTION,
    }
}

fn collation(of: &PostgresType) -> i64 {
    match (of.name, of.category) {
        ("name", _) => C_COLLATION,
        ("pg_node_tree", _) | (_, 'S') => DEFAULT_COLLATION,
        _ => 0,
    }
}

fn storage(of: &PostgresType) -> &'static str {
    match of.name {
        "numeric" | "inet" => "m",
        "int2vector" | "oidvector" => "p",
        _ if of.bytes < 0 => "x",
        _ => "p",
    }
}

/// Returns what all types say alike.
fn any(oid: u32, name: &str) -> Row {
    row! {
        oid: oid, typname: name, typnamespace: PG_CATALOG_OID, typowner: OWNER_OID, typisdefined: true, typdelim: ",",
        typrelid: 0_i64, typnotnull: false, typbasetype: 0_i64, typtypmod: -1_i64, typndims: 0_i64,
    }
}

fn scalar(of: &PostgresType) -> Row {
    let preferred = ["bool", "text", "oid", "float8", "timestamptz", "interval", "inet"];
    let mut row = any(of.oid, of.name);
    row.extend(row! {
        typlen: i64::from(of.bytes), typbyval: matches!(of.bytes, 1 | 2 | 4 | 8),
        typtype: if of.category == 'P' { "p" } else { "b" }, typcategory: of.category,
        typispreferred: preferred.contains(&of.name), typsubscript: subscript(of), typelem: element(of),
        typarray: of.array, typinput: procedure(of.name, "in"), typoutput: procedure(of.name, "out"),
        typreceive: procedure(of.name, "recv"), typsend: procedure(of.name, "send"),
        typmodin: procedure(of.name, "typmodin"), typmodout: procedure(of.name, "typmodout"),
        typanalyze: NO_FUNCTION, typalign: of.alignment, typstorage: storage(of), typcollation: collation(of),
    });
    row
}

fn array(of: &PostgresType) -> Row {
    let is_pseudo = of.category == 'P';
    let mut row = any(of.array, &format!("_{}", of.name));
    row.extend(row! {
        typlen: -1_i64, typbyval: false, typtype: if is_pseudo { "p" } else { "b" },
        typcategory: if is_pseudo { 'P' } else { 'A' }, typispreferred: false,
        typsubscript: "array_subscript_handler", typelem: of.oid, typarray: 0_i64, typinput: "array_in",
        typoutput: "array_out", typreceive: "array_recv", typsend: "array_send",
        typmodin: procedure(of.name, "typmodin"), typmodout: procedure(of.name, "typmodout"),
        typanalyze: "array_typanalyze", typalign: if of.alignment == 'd' { "d" } else { "i" }, typstorage: "x",
        typcollation: collation(of),
    });
    row
}

pub(super) fn type_rows() -> Vec<Row> {
    let arrays = TYPES.iter().filter(|of| of.array != 0).map(array);
    TYPES.iter().map(scalar).chain(arrays).collect()
}
