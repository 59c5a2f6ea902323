//! The types of a server's columns, and the types of ours in which they come.

use crate::address::Numeric;
use crate::link::Link;
use arrow_schema::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use hypostyle_pgtypes::types as pg;
use hypostyle_types::{DECIMAL_PRECISION_MAX, LogicalType, Result};
use hypostyle_wire::FIELDS_MAX;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The metadata of a field that names PostgreSQL's type where ours does not say it.
pub const TYPE_KEY: &str = "postgresql:type";

/// The deepest nesting of types that is followed.
const DEPTH_MAX: u32 = 32;

/// The types of names of columns: what `typmod` has of a numeric, above its lowest four.
const MODIFIER_OFFSET: i32 = 4;

/// A type as its values come.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    Float8,
    Decimal {
        precision: u8,
        scale: i8,
    },
    NumericText,
    NumericDouble,
    Text,
    /// The type `"char"`: one byte.
    Char,
    Bytes,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    Json,
    /// JSON with the number of its version before it.
    Jsonb,
    Enum(Arc<Vec<String>>),
    List(Arc<Shape>),
    Struct(Arc<Vec<(String, Shape)>>),
    /// A type whose values come as text.
    Shown,
    /// A composite type with a member of such a type, which comes as text, too.
    ShownRow,
}

/// A type of a column, of elements or of a member.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    pub kind: Kind,
    /// PostgreSQL's name of the type, where ours does not say it.
    pub name: Option<String>,
}

impl Shape {
    fn of(kind: Kind) -> Self {
        Self { kind, name: None }
    }

    fn named(kind: Kind, name: &str) -> Self {
        Self { kind, name: Some(name.into()) }
    }

    /// Says whether values come as text, as the server's output function for the type writes it.
    /// Arrays of such values do so as a whole.
    pub fn is_shown(&self) -> bool {
        match &self.kind {
            Kind::Shown | Kind::ShownRow => true,
            Kind::List(element) => element.is_shown(),
            _ => false,
        }
    }

    /// Says whether the frames of the extension have another type for it, or none: it sends no arrays of
    /// several dimensions, and all composite types by their members.
    pub fn is_other_in_columns(&self) -> bool {
        match &self.kind {
            Kind::ShownRow => true,
            Kind::List(element) => matches!(element.kind, Kind::List(_)) || element.is_other_in_columns(),
            Kind::Struct(members) => members.iter().any(|(_, member)| member.is_other_in_columns()),
            _ => false,
        }
    }

    /// Returns it as an element or a member, where labels are texts: only columns have dictionaries.
    fn within(self) -> Self {
        match self.kind {
            Kind::Enum(_) => Self { kind: Kind::Text, ..self },
            _ => self,
        }
    }

    /// Returns the expression by which a query gives a column as text.
    pub fn as_text(&self, column: &str) -> String {
        match (&self.kind, self.name.as_deref()) {
            // A cast would add the length of the network to an address that is shown without one, and the
            // name of an encoding to a document, which is not that of the text.
            (Kind::Shown, Some(name @ ("inet" | "cidr" | "xml"))) => {
                format!("pg_catalog.textin(pg_catalog.{name}_out({column}))")
            }
            _ => format!("{column}::pg_catalog.text"),
        }
    }

    pub fn data_type(&self) -> DataType {
        match &self.kind {
            Kind::Bool => DataType::Boolean,
            Kind::Int2 => DataType::Int16,
            Kind::Int4 => DataType::Int32,
            Kind::Int8 => DataType::Int64,
            Kind::Oid => DataType::UInt32,
            Kind::Float4 => DataType::Float32,
            Kind::Float8 | Kind::NumericDouble => DataType::Float64,
            Kind::Decimal { precision, scale } => {
                LogicalType::Decimal { precision: *precision, scale: *scale }.arrow_type()
            }
            Kind::NumericText
            | Kind::Text
            | Kind::Char
            | Kind::Json
            | Kind::Jsonb
            | Kind::Shown
            | Kind::ShownRow => DataType::LargeUtf8,
            Kind::Bytes => DataType::LargeBinary,
            Kind::Date => DataType::Date32,
            Kind::Time => DataType::Time64(TimeUnit::Microsecond),
            Kind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Kind::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Kind::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Kind::Uuid => DataType::FixedSizeBinary(16),
            Kind::Enum(_) => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::LargeUtf8)),
            Kind::List(element) => DataType::LargeList(Arc::new(element.field("item", true))),
            Kind::Struct(members) => DataType::Struct(Self::fields(members)),
        }
    }

    pub fn fields(members: &[(String, Shape)]) -> Fields {
        members.iter().map(|(name, shape)| shape.field(name, true)).collect()
    }

    /// Returns an Arrow field of the type.
    pub fn field(&self, name: &str, nullable: bool) -> Field {
        let field = Field::new(name, self.data_type(), nullable);
        let field = match &self.kind {
            Kind::Json | Kind::Jsonb => LogicalType::Json.mark(field),
            Kind::Uuid => LogicalType::Uuid.mark(field),
            _ => field,
        };
        match &self.name {
            Some(name) => {
                let mut metadata = field.metadata().clone();
                metadata.insert(TYPE_KEY.into(), name.clone());
                field.with_metadata(metadata)
            }
            None => field,
        }
    }
}

/// A column as the server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub name: String,
    /// The table and the number of the column in it; 0 for what is computed.
    pub table: u32,
    pub number: i16,
    pub oid: u32,
    pub modifier: i32,
    /// The dimensions that were declared for an array.
    pub dimensions: i32,
    pub is_nullable: bool,
}

/// What the catalog of a server says of a type.
#[derive(Clone, Debug)]
struct Known {
    name: String,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Array(u32),
    Composite(Vec<Described>),
    /// The base type, its modifier and its dimensions.
    Domain(u32, i32, i32),
    Enum(Arc<Vec<String>>),
    /// Well-known binary with a number of the reference system, of PostGIS.
    Geometry,
    Other,
}

/// The types of a server that are no part of every PostgreSQL.
#[derive(Default)]
pub struct Catalog(HashMap<u32, Known>);

impl Catalog {
    /// Forgets what a statement of the program may have changed.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Returns the shape of a column's values. Types whose members have types with members have any number of
    /// fields: `left` counts how many may still be made for all columns of a result. Then they are text.
    fn shape(&self, described: &Described, numeric: Numeric, depth: u32, left: &Cell<usize>) -> Shape {
        let (oid, modifier) = (described.oid, described.modifier);
        let is_followed = depth < DEPTH_MAX && left.get() > 0;
        left.set(left.get().saturating_sub(1));
        if let Some((scalar, is_array)) = pg::by_oid(oid) {
            let shape = scalar_shape(scalar, modifier, numeric);
            return if is_array { lists(shape, described.dimensions) } else { shape };
        }
        let Some(known) = self.0.get(&oid).filter(|_| is_followed) else {
            return Shape::named(Kind::Shown, &format!("oid {oid}"));
        };
        let inner = |oid: u32, modifier: i32, dimensions: i32| {
            let described = Described { oid, modifier, dimensions, ..described.clone() };
            self.shape(&described, numeric, depth + 1, left)
        };
        match &known.form {
            Form::Array(element) => lists(inner(*element, modifier, 0).within(), described.dimensions),
            Form::Domain(base, modifier, dimensions) => inner(*base, *modifier, *dimensions),
            Form::Enum(labels) => Shape::named(Kind::Enum(labels.clone()), &known.name),
            Form::Geometry => Shape::named(Kind::Bytes, &known.name),
            Form::Other => Shape::named(Kind::Shown, &known.name),
            Form::Composite(attributes) => {
                let members: Vec<(String, Shape)> = attributes
                    .iter()
                    .map(|member| {
                        (member.name.clone(), self.shape(member, numeric, depth + 1, left).within())
                    })
                    .collect();
                // The members of a value cannot be cast one by one.
                let has_shown = members.iter().any(|(_, shape)| shape.is_shown() || shape.has_shown());
                match has_shown || members.is_empty() {
                    true => Shape::named(Kind::ShownRow, &known.name),
                    false => Shape::named(Kind::Struct(Arc::new(members)), &known.name),
                }
            }
        }
    }
}

impl Shape {
    fn has_shown(&self) -> bool {
        match &self.kind {
            Kind::Shown | Kind::ShownRow => true,
            Kind::List(element) => element.has_shown(),
            Kind::Struct(members) => members.iter().any(|(_, shape)| shape.has_shown()),
            _ => false,
        }
    }
}

/// Returns lists of a shape, one inside the other for each dimension.
fn lists(element: Shape, dimensions: i32) -> Shape {
    (0..dimensions.clamp(1, 6)).fold(element, |inner, _| Shape::of(Kind::List(Arc::new(inner))))
}

fn scalar_shape(scalar: pg::PostgresType, modifier: i32, numeric: Numeric) -> Shape {
    Shape::of(match scalar.name {
        "bool" => Kind::Bool,
        "int2" => Kind::Int2,
        "int4" => Kind::Int4,
        "int8" => Kind::Int8,
        "oid" => Kind::Oid,
        "float4" => Kind::Float4,
        "float8" => Kind::Float8,
        "text" | "varchar" | "bpchar" | "name" => Kind::Text,
        "char" => Kind::Char,
        "bytea" => Kind::Bytes,
        "date" => Kind::Date,
        "time" => Kind::Time,
        "timestamp" => Kind::Timestamp,
        "timestamptz" => Kind::TimestampTz,
        "interval" => Kind::Interval,
        "uuid" => Kind::Uuid,
        "json" => Kind::Json,
        "jsonb" => Kind::Jsonb,
        "int2vector" => Kind::List(Arc::new(Shape::of(Kind::Int2))),
        "oidvector" => Kind::List(Arc::new(Shape::of(Kind::Oid))),
        "numeric" => return numeric_shape(modifier, numeric),
        _ => return Shape::named(Kind::Shown, scalar.sql),
    })
}

/// Returns the shape of a number with that modifier. A scale may be negative, or larger than the
/// precision.
fn numeric_shape(modifier: i32, numeric: Numeric) -> Shape {
    if modifier >= MODIFIER_OFFSET {
        let digits = modifier - MODIFIER_OFFSET;
        let precision = digits >> 16 & 0xffff;
        // The scale has eleven bits and a sign.
        let scale = (digits & 0x7ff ^ 1024) - 1024;
        let (precision, scale) = match scale {
            ..0 => (precision - scale, 0),
            _ => (precision.max(scale), scale),
        };
        let most = i32::from(DECIMAL_PRECISION_MAX);
        if (1..=most).contains(&precision)
            && let (Ok(precision), Ok(scale)) = (u8::try_from(precision), i8::try_from(scale))
        {
            return Shape::of(Kind::Decimal { precision, scale });
        }
    }
    let kind = match numeric {
        Numeric::Text | Numeric::Auto => Kind::NumericText,
        Numeric::Double => Kind::NumericDouble,
        Numeric::Decimal { precision, scale } => Kind::Decimal { precision, scale },
    };
    Shape::named(kind, "numeric")
}

/// Returns the shapes of columns. The server is asked for types that are not known yet.
///
/// # Errors
/// Those of the queries.
pub fn shapes(link: &mut Link, columns: &[Described], numeric: Numeric) -> Result<Vec<Shape>> {
    learn(link, columns.iter().map(|column| column.oid).collect())?;
    let left = Cell::new(FIELDS_MAX);
    Ok(columns.iter().map(|column| link.catalog.shape(column, numeric, 0, &left)).collect())
}

/// Asks the server for types, and for those that they are made of.
fn learn(link: &mut Link, oids: Vec<u32>) -> Result<()> {
    let mut wanted: BTreeSet<u32> = oids.into_iter().collect();
    for _ in 0..DEPTH_MAX {
        wanted.retain(|oid| pg::by_oid(*oid).is_none() && !link.catalog.0.contains_key(oid));
        if wanted.is_empty() {
            break;
        }
        wanted = learn_some(link, &wanted)?;
    }
    Ok(())
}

/// Returns numbers as a list in SQL.
fn listed(numbers: impl IntoIterator<Item = u32>) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

/// Returns a value of a row, as a number or as text.
fn number<T: std::str::FromStr + Default>(row: &[Option<String>], index: usize) -> T {
    text(row, index).parse().unwrap_or_default()
}

fn text(row: &[Option<String>], index: usize) -> &str {
    row.get(index).and_then(Option::as_deref).unwrap_or_default()
}

/// Asks the server for types, and returns those that they refer to.
fn learn_some(link: &mut Link, oids: &BTreeSet<u32>) -> Result<BTreeSet<u32>> {
    let rows = link.select(&format!(
        "SELECT oid, pg_catalog.format_type(oid, NULL), typtype, CASE WHEN typlen = -1 AND typcategory = 'A' \
         THEN typelem ELSE 0 END, typrelid, typbasetype, typtypmod, typndims, typname \
         FROM pg_catalog.pg_type \
         WHERE oid IN ({})",
        listed(oids.iter().copied())
    ))?;
    let mut labels = enum_labels(link, &rows)?;
    let mut members = attributes(link, &rows)?;
    let mut further = BTreeSet::new();
    for row in &rows {
        let (oid, element, base): (u32, u32, u32) = (number(row, 0), number(row, 3), number(row, 5));
        let form = match text(row, 2) {
            "e" => Form::Enum(Arc::new(labels.remove(&oid).unwrap_or_default())),
            "c" => Form::Composite(members.remove(&number(row, 4)).unwrap_or_default()),
            "d" => Form::Domain(base, number(row, 6), number(row, 7)),
            "b" if element != 0 => Form::Array(element),
            "b" if matches!(text(row, 8), "geometry" | "geography") => Form::Geometry,
            _ => Form::Other,
        };
        match &form {
            Form::Array(oid) | Form::Domain(oid, _, _) => drop(further.insert(*oid)),
            Form::Composite(members) => further.extend(members.iter().map(|member| member.oid)),
            Form::Enum(_) | Form::Geometry | Form::Other => {}
        }
        link.catalog.0.insert(oid, Known { name: text(row, 1).into(), form });
    }
    // Types that are gone meanwhile are not asked for again and again.
    for oid in oids {
        let name = format!("oid {oid}");
        link.catalog.0.entry(*oid).or_insert(Known { name, form: Form::Other });
    }
    Ok(further)
}

type Rows = Vec<Vec<Option<String>>>;

fn enum_labels(link: &mut Link, types: &Rows) -> Result<HashMap<u32, Vec<String>>> {
    let enums = types.iter().filter(|row| text(row, 2) == "e").map(|row| number(row, 0));
    let list = listed(enums);
    let mut labels: HashMap<u32, Vec<String>> = HashMap::new();
    if !list.is_empty() {
        let rows = link.select(&format!(
            "SELECT enumtypid, enumlabel FROM pg_catalog.pg_enum WHERE enumtypid IN ({list}) \
             ORDER BY enumsortorder"
        ))?;
        for row in &rows {
            labels.entry(number(row, 0)).or_default().push(text(row, 1).into());
        }
    }
    Ok(labels)
}

/// Returns the members of composite types, by the numbers of their relations.
fn attributes(link: &mut Link, types: &Rows) -> Result<HashMap<u32, Vec<Described>>> {
    let relations = types.iter().filter(|row| text(row, 2) == "c").map(|row| number(row, 4));
    let list = listed(relations);
    match list.is_empty() {
        true => Ok(HashMap::new()),
        false => relation_columns(link, &format!("a.attrelid IN ({list})")),
    }
}

/// Returns the columns of the relations that a condition on `pg_attribute` finds.
pub fn relation_columns(link: &mut Link, condition: &str) -> Result<HashMap<u32, Vec<Described>>> {
    let rows = link.select(&format!(
        "SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attndims, a.attnotnull \
         FROM pg_catalog.pg_attribute a \
         WHERE a.attnum > 0 AND NOT a.attisdropped AND {condition} ORDER BY a.attrelid, a.attnum"
    ))?;
    let mut columns: HashMap<u32, Vec<Described>> = HashMap::new();
    for row in &rows {
        columns.entry(number(row, 0)).or_default().push(Described {
            table: number(row, 0),
            number: number(row, 1),
            name: text(row, 2).into(),
            oid: number(row, 3),
            modifier: text(row, 4).parse().unwrap_or(-1),
            dimensions: number(row, 5),
            is_nullable: text(row, 6) != "t",
        });
    }
    Ok(columns)
}

/// Asks for the declared dimensions of columns that are arrays of a table.
pub fn add_dimensions(link: &mut Link, columns: &mut [Described]) -> Result<()> {
    let is_array = |link: &Link, oid: u32| match pg::by_oid(oid) {
        Some((_, is_array)) => is_array,
        None => matches!(link.catalog.0.get(&oid).map(|known| &known.form), Some(Form::Array(_))),
    };
    learn(link, columns.iter().map(|column| column.oid).collect())?;
    let asked: BTreeSet<u32> = columns
        .iter()
        .filter(|column| column.table != 0 && is_array(link, column.oid))
        .map(|column| column.table)
        .collect();
    if asked.is_empty() {
        return Ok(());
    }
    let condition = format!("a.attndims > 1 AND a.attrelid IN ({})", listed(asked));
    let found = relation_columns(link, &condition)?;
    for column in columns {
        let of_table = found.get(&column.table).into_iter().flatten();
        if let Some(declared) = of_table.into_iter().find(|declared| declared.number == column.number) {
            column.dimensions = declared.dimensions;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(oid: u32, modifier: i32, dimensions: i32) -> Described {
        Described { name: "c".into(), table: 0, number: 0, oid, modifier, dimensions, is_nullable: true }
    }

    fn shape(oid: u32, modifier: i32) -> Shape {
        Catalog::default().shape(&described(oid, modifier, 0), Numeric::Text, 0, &Cell::new(1))
    }

    #[test]
    fn numbers_are_exact_where_they_have_a_precision() {
        let of = |precision: i32, scale: i32| {
            numeric_shape((precision << 16 | scale & 0x7ff) + 4, Numeric::Text).kind
        };
        assert_eq!(of(10, 2), Kind::Decimal { precision: 10, scale: 2 });
        assert_eq!(of(76, 0), Kind::Decimal { precision: 76, scale: 0 });
        assert_eq!(of(77, 0), Kind::NumericText);
        assert_eq!(of(3, 5), Kind::Decimal { precision: 5, scale: 5 });
        assert_eq!(of(3, -2), Kind::Decimal { precision: 5, scale: 0 });
        assert_eq!(of(1000, 1000), Kind::NumericText);
        assert_eq!(numeric_shape(-1, Numeric::Double).kind, Kind::NumericDouble);
        let given = Numeric::Decimal { precision: 20, scale: 4 };
        assert_eq!(numeric_shape(-1, given).kind, Kind::Decimal { precision: 20, scale: 4 });
    }

    #[test]
    fn types_without_a_form_of_ours_come_as_text_with_their_name() {
        let inet = shape(869, -1);
        assert_eq!((inet.is_shown(), inet.name.as_deref()), (true, Some("inet")));
        assert_eq!(inet.as_text("c"), "pg_catalog.textin(pg_catalog.inet_out(c))");
        assert_eq!(inet.field("c", true).metadata().get(TYPE_KEY).map(String::as_str), Some("inet"));
        assert_eq!(shape(1041, -1).as_text("c"), "c::pg_catalog.text");
        let xml = Shape::named(Kind::Shown, "xml");
        assert_eq!(xml.as_text("c"), "pg_catalog.textin(pg_catalog.xml_out(c))");
        assert!(!shape(1007, -1).is_shown());
        assert_eq!(shape(99_999, -1).kind, Kind::Shown);
        assert_eq!(shape(3807, -1).kind, Kind::List(Arc::new(Shape::of(Kind::Jsonb))));
    }

    #[test]
    fn types_of_the_server_are_made_of_others() {
        let mut catalog = Catalog::default();
        let known = |name: &str, form: Form| Known { name: name.into(), form };
        let labels = Arc::new(vec!["a".to_string()]);
        catalog.0.insert(1, known("e", Form::Enum(labels.clone())));
        catalog.0.insert(2, known("e[]", Form::Array(1)));
        catalog.0.insert(3, known("d", Form::Domain(1700, (5 << 16 | 1) + 4, 0)));
        catalog.0.insert(4, known("c", Form::Composite(vec![described(2, -1, 2), described(3, -1, 0)])));
        catalog.0.insert(5, known("o", Form::Composite(vec![described(1041, -1, 0)])));
        catalog.0.insert(6, known("loop", Form::Array(6)));
        let of = |oid: u32| catalog.shape(&described(oid, -1, 0), Numeric::Text, 0, &Cell::new(FIELDS_MAX));
        let decimal = Shape::of(Kind::Decimal { precision: 5, scale: 1 });
        assert_eq!(of(1).kind, Kind::Enum(labels));
        let list = lists(Shape::named(Kind::Text, "e"), 2);
        let members = Arc::new(vec![("c".into(), list), ("c".into(), decimal)]);
        assert_eq!(of(4).kind, Kind::Struct(members));
        assert_eq!((of(5).kind, of(5).is_shown()), (Kind::ShownRow, true));
        assert!(of(5).is_other_in_columns() && of(4).is_other_in_columns());
        assert!(!of(1).is_other_in_columns() && !of(2).is_other_in_columns());
        // A catalog that is wrong ends somewhere.
        assert!(of(6).is_shown());
    }

    #[test]
    fn types_of_too_many_fields_come_as_text() {
        let mut catalog = Catalog::default();
        catalog
            .0
            .insert(1, Known { name: "t1".into(), form: Form::Composite(vec![described(23, -1, 0); 8]) });
        for level in 2..30 {
            let members = vec![described(level - 1, -1, 0); 8];
            catalog.0.insert(level, Known { name: format!("t{level}"), form: Form::Composite(members) });
        }
        let of =
            |oid: u32, left: usize| catalog.shape(&described(oid, -1, 0), Numeric::Text, 0, &Cell::new(left));
        assert!(matches!(of(2, 73).kind, Kind::Struct(_)));
        assert!(of(3, 73).is_shown());
        assert!(of(29, FIELDS_MAX).is_shown());
    }
}
