//! PostgreSQL's types: their numbers, which its clients know by heart, and the types of ours that
//! they show.

use hypostyle_types::LogicalType;

/// A type of PostgreSQL that values can have, or columns of `pg_catalog` are said to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostgresType {
    pub oid: u32,
    /// The type of arrays of it.
    pub array: u32,
    pub name: &'static str,
    /// The name in SQL, as `format_type` gives it.
    pub sql: &'static str,
    /// -1: as many as the value has.
    pub bytes: i16,
    /// The category, as in `pg_type.typcategory`.
    pub category: char,
    /// The alignment, as in `pg_type.typalign`.
    pub alignment: char,
}

const fn of(
    oid: u32,
    array: u32,
    name: &'static str,
    sql: &'static str,
    bytes: i16,
    category: char,
    alignment: char,
) -> PostgresType {
    PostgresType { oid, array, name, sql, bytes, category, alignment }
}

pub const BOOL: PostgresType = of(16, 1000, "bool", "boolean", 1, 'B', 'c');
pub const BYTEA: PostgresType = of(17, 1001, "bytea", "bytea", -1, 'U', 'i');
pub const NAME: PostgresType = of(19, 1003, "name", "name", 64, 'S', 'c');
pub const INT8: PostgresType = of(20, 1016, "int8", "bigint", 8, 'N', 'd');
pub const INT2: PostgresType = of(21, 1005, "int2", "smallint", 2, 'N', 's');
pub const INT4: PostgresType = of(23, 1007, "int4", "integer", 4, 'N', 'i');
pub const TEXT: PostgresType = of(25, 1009, "text", "text", -1, 'S', 'i');
pub const OID: PostgresType = of(26, 1028, "oid", "oid", 4, 'N', 'i');
pub const XID: PostgresType = of(28, 1011, "xid", "xid", 4, 'U', 'i');
pub const JSON: PostgresType = of(114, 199, "json", "json", -1, 'U', 'i');
pub const FLOAT4: PostgresType = of(700, 1021, "float4", "real", 4, 'N', 'i');
pub const FLOAT8: PostgresType = of(701, 1022, "float8", "double precision", 8, 'N', 'd');
pub const VARCHAR: PostgresType = of(1043, 1015, "varchar", "character varying", -1, 'S', 'i');
pub const DATE: PostgresType = of(1082, 1182, "date", "date", 4, 'D', 'i');
pub const TIME: PostgresType = of(1083, 1183, "time", "time without time zone", 8, 'D', 'd');
pub const TIMESTAMP: PostgresType = of(1114, 1115, "timestamp", "timestamp without time zone", 8, 'D', 'd');
pub const TIMESTAMPTZ: PostgresType = of(1184, 1185, "timestamptz", "timestamp with time zone", 8, 'D', 'd');
pub const INTERVAL: PostgresType = of(1186, 1187, "interval", "interval", 16, 'T', 'd');
pub const NUMERIC: PostgresType = of(1700, 1231, "numeric", "numeric", -1, 'N', 'i');
pub const UUID: PostgresType = of(2950, 2951, "uuid", "uuid", 16, 'U', 'c');

/// All types that there are, but for those of arrays.
pub const TYPES: [PostgresType; 42] = [
    BOOL,
    BYTEA,
    of(18, 1002, "char", "\"char\"", 1, 'Z', 'c'),
    NAME,
    INT8,
    INT2,
    of(22, 1006, "int2vector", "int2vector", -1, 'A', 'i'),
    INT4,
    of(24, 1008, "regproc", "regproc", 4, 'N', 'i'),
    TEXT,
    of(26, 1028, "oid", "oid", 4, 'N', 'i'),
    of(27, 1010, "tid", "tid", 6, 'U', 's'),
    of(28, 1011, "xid", "xid", 4, 'U', 'i'),
    of(29, 1012, "cid", "cid", 4, 'U', 'i'),
    of(30, 1013, "oidvector", "oidvector", -1, 'A', 'i'),
    JSON,
    of(194, 0, "pg_node_tree", "pg_node_tree", -1, 'Z', 'i'),
    FLOAT4,
    FLOAT8,
    of(869, 1041, "inet", "inet", -1, 'I', 'i'),
    of(1033, 1034, "aclitem", "aclitem", 12, 'U', 'i'),
    of(1042, 1014, "bpchar", "character", -1, 'S', 'i'),
    VARCHAR,
    DATE,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    INTERVAL,
    of(1266, 1270, "timetz", "time with time zone", 12, 'D', 'd'),
    NUMERIC,
    of(2205, 2210, "regclass", "regclass", 4, 'N', 'i'),
    of(2206, 2211, "regtype", "regtype", 4, 'N', 'i'),
    of(2249, 2287, "record", "record", -1, 'P', 'd'),
    of(2277, 0, "anyarray", "anyarray", -1, 'P', 'd'),
    of(2278, 0, "void", "void", 4, 'P', 'i'),
    of(2279, 0, "trigger", "trigger", 4, 'P', 'i'),
    UUID,
    of(3220, 3221, "pg_lsn", "pg_lsn", 8, 'U', 'd'),
    of(3802, 3807, "jsonb", "jsonb", -1, 'U', 'i'),
    of(4089, 4090, "regnamespace", "regnamespace", 4, 'N', 'i'),
    of(4096, 4097, "regrole", "regrole", 4, 'N', 'i'),
    of(5069, 271, "xid8", "xid8", 8, 'U', 'd'),
];

/// The type of PostgreSQL that shows values of a type of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The type of the value, or of its elements if it is an array.
    pub scalar: PostgresType,
    pub is_array: bool,
    /// The modifier, as in `pg_attribute.atttypmod`.
    pub modifier: i32,
}

impl Shown {
    pub fn oid(&self) -> u32 {
        if self.is_array { self.scalar.array } else { self.scalar.oid }
    }

    /// Bytes of a value; -1: as many as it has.
    pub fn bytes(&self) -> i16 {
        if self.is_array { -1 } else { self.scalar.bytes }
    }
}

/// Returns the type of PostgreSQL for a type of ours. What PostgreSQL lacks becomes the next wider
/// one, or JSON.
pub fn shown(logical_type: &LogicalType) -> Shown {
    use LogicalType::*;
    let mut modifier = -1;
    let scalar = match logical_type {
        Boolean => BOOL,
        TinyInt | SmallInt | UTinyInt => INT2,
        Integer | USmallInt => INT4,
        BigInt | UInteger => INT8,
        UBigInt => NUMERIC,
        Float => FLOAT4,
        Double => FLOAT8,
        Decimal { precision, scale } => {
            modifier = (i32::from(*precision) << 16 | i32::from(*scale)) + 4;
            NUMERIC
        }
        Date => DATE,
        Time => TIME,
        Timestamp { time_zone: None, .. } => TIMESTAMP,
        Timestamp { .. } => TIMESTAMPTZ,
        Interval | Duration { .. } => INTERVAL,
        Varchar => VARCHAR,
        Json | Struct { .. } | Map { .. } => JSON,
        Blob | FixedBinary { .. } => BYTEA,
        Uuid => UUID,
        List { element } | Array { element, .. } => {
            let element_shown = shown(element);
            // Lists of lists may differ in length, which PostgreSQL's arrays of arrays must not. What is
            // shown as JSON is so as a whole.
            let is_nested = element_shown.scalar == JSON && **element != Json;
            return match element_shown.is_array || is_nested {
                true => Shown { scalar: JSON, is_array: false, modifier },
                false => Shown { is_array: true, ..element_shown },
            };
        }
    };
    Shown { scalar, is_array: false, modifier }
}

/// Returns the type of a number, and whether it is one of arrays.
pub fn by_oid(oid: u32) -> Option<(PostgresType, bool)> {
    let found = TYPES.iter().find(|known| known.oid == oid || known.array == oid && oid != 0)?;
    Some((*found, found.array == oid))
}

/// Returns the type of a name: PostgreSQL's own, SQL's, or with `[]` or a leading `_` that of
/// arrays.
pub fn by_name(name: &str) -> Option<(PostgresType, bool)> {
    let name = name.trim().trim_start_matches("pg_catalog.").to_ascii_lowercase();
    let scalar = |name: &str| {
        let alias = match name {
            "int" => "int4",
            "decimal" => "numeric",
            "float" => "float8",
            other => other,
        };
        TYPES.iter().find(|known| known.name == alias || known.sql == alias).copied()
    };
    if let Some(element) = name.strip_suffix("[]") {
        return Some((scalar(element.trim())?, true));
    }
    scalar(&name).map(|found| (found, false)).or_else(|| Some((scalar(name.strip_prefix('_')?)?, true)))
}

/// Returns a type as SQL has it, with what its modifier says.
pub fn format_type(oid: u32, modifier: Option<i64>) -> Option<String> {
    let (found, is_array) = by_oid(oid)?;
    let brackets = if is_array { "[]" } else { "" };
    let digits = modifier.filter(|modifier| *modifier >= 4).map(|modifier| modifier - 4);
    Some(match digits {
        Some(digits) if found == NUMERIC => {
            format!("{}({},{}){brackets}", found.sql, digits >> 16, digits & 0x7ff)
        }
        Some(length) if found == VARCHAR => format!("{}({length}){brackets}", found.sql),
        _ => format!("{}{brackets}", found.sql),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_one_and_names_lead_back() {
        let decimal = LogicalType::decimal(10, 2).unwrap();
        assert_eq!(
            format_type(shown(&decimal).oid(), Some(shown(&decimal).modifier.into())).unwrap(),
            "numeric(10,2)"
        );
        let list = LogicalType::List { element: Box::new(LogicalType::Integer) };
        assert_eq!(format_type(shown(&list).oid(), None).unwrap(), "integer[]");
        let nested = LogicalType::List { element: Box::new(list) };
        assert_eq!(shown(&nested).oid(), JSON.oid);
        let documents = LogicalType::List { element: Box::new(LogicalType::Json) };
        assert_eq!(format_type(shown(&documents).oid(), None).unwrap(), "json[]");
        assert_eq!(shown(&LogicalType::List { element: Box::new(documents) }).oid(), JSON.oid);
        for name in ["int4", "integer", "pg_catalog.int4", "INT"] {
            assert_eq!(by_name(name), Some((INT4, false)), "{name}");
        }
        assert_eq!(by_name("_text"), by_name("text[]"));
        assert_eq!(by_name("hstore"), None);
        assert_eq!(by_oid(1007), Some((INT4, true)));
        assert_eq!(by_oid(0), None);
    }
}
