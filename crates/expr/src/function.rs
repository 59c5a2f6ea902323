//! DataFusion's functions under further names and for further types, as users of PostgreSQL and
//! DuckDB know them.

use crate::common_type::{CHOOSING, beside_nulls};
use crate::date_part::DatePart;
use crate::interval::INTERVAL;
use crate::nested_type::element;
use crate::time_zone::in_zones;
use crate::wrapped::{as_within, equal_by};
use crate::{interval_part, structures};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, StructArray, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type, TimeUnit, TimestampMicrosecondType};
use chrono::{DateTime, Datelike, NaiveDate, Utc, Weekday};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{ScalarValue, exec_datafusion_err, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::functions::core::coalesce;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_types::LogicalType;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

const SCALAR: [(&str, &[&str]); 8] = [
    ("octet_length", &["strlen"]),
    ("make_array", &["list_value", "list_pack", "array_value"]),
    ("starts_with", &["prefix"]),
    ("ends_with", &["suffix"]),
    ("signum", &["sign"]),
    ("regexp_like", &["regexp_matches"]),
    ("uuid", &["gen_random_uuid", "uuidv4"]),
    ("arrays_zip", &["array_zip"]),
];

const AGGREGATE: [(&str, &[&str]); 5] = [
    ("array_agg", &["list"]),
    ("first_value", &["first", "arbitrary"]),
    ("last_value", &["last"]),
    ("approx_distinct", &["approx_count_distinct"]),
    ("approx_percentile_cont", &["approx_quantile"]),
];

/// Registers the names, for the functions that there are, and functions in the place of
/// DataFusion's.
pub(crate) fn register(context: &SessionContext, clock: &Arc<Clock>) {
    context.register_udf(ScalarUDF::from(OctetLength::new()));
    if let Ok(inner) = context.udf("date_trunc") {
        context.register_udf(ScalarUDF::from(DateTrunc::over(inner)));
    }
    if let Ok(inner) = context.udf("date_part") {
        context.register_udf(ScalarUDF::from(DatePart::over(inner)));
    }
    for name in CHOOSING {
        if let Ok(inner) = context.udf(name) {
            let signature = Signature::user_defined(Volatility::Immutable);
            context.register_udf(ScalarUDF::from(Choosing { inner, signature }));
        }
    }
    for (given, name, aliases) in GIVEN {
        let aliases = aliases.iter().map(ToString::to_string).collect();
        let signature = Signature::nullary(Volatility::Stable);
        context.register_udf(ScalarUDF::from(Now { given, name, aliases, clock: clock.clone(), signature }));
    }
    for name in SERIES {
        if let Some(inner) = context.state().table_functions().get(name) {
            context.register_udtf(name, Arc::new(Series { inner: inner.function().clone() }));
        }
    }
    for name in COUNTING {
        if let Ok(inner) = context.udf(name) {
            context.register_udf(ScalarUDF::from(Counting { inner }));
        }
    }
    if let Ok(inner) = context.udf("map_entries") {
        context.register_udf(ScalarUDF::from(MapEntries { inner }));
    }
    for (name, aliases) in SCALAR {
        if let Ok(function) = context.udf(name) {
            context.register_udf(function.as_ref().clone().with_aliases(aliases.iter().copied()));
        }
    }
    for (name, aliases) in AGGREGATE {
        if let Ok(function) = context.udaf(name) {
            context.register_udaf(function.as_ref().clone().with_aliases(aliases.iter().copied()));
        }
    }
}

/// Functions that count and are unsigned in DataFusion, where a difference of two may be out of
/// range, and whose results PostgreSQL's clients take for decimals.
const COUNTING: [&str; 4] = ["array_length", "array_position", "array_ndims", "cardinality"];

/// One of [`COUNTING`], as BIGINT. The length of a dimension is NULL where it is empty, and so are the
/// dimensions of an empty list, as in PostgreSQL.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Counting {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Counting {
    as_within!(name, aliases, signature, coerce_types);

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let own = Arc::new(Field::new(self.name(), self.inner.return_type(&types)?, true));
        let is_of_dimension = self.name() == "array_length" && args.args.len() == 2;
        let lists = match args.args.first() {
            Some(lists) if self.name() == "array_ndims" && element(&lists.data_type()).is_some() => {
                Some(lists.to_array(args.number_rows)?)
            }
            _ => None,
        };
        let counted = self.inner.invoke_with_args(ScalarFunctionArgs { return_field: own, ..args })?;
        let counted = counted.cast_to(&DataType::Int64, None)?;
        if let Some(lists) = lists {
            return Ok(ColumnarValue::Array(of_elements(&lists, counted)?));
        }
        match counted {
            ColumnarValue::Scalar(ScalarValue::Int64(Some(0))) if is_of_dimension => {
                Ok(ColumnarValue::Scalar(ScalarValue::Int64(None)))
            }
            ColumnarValue::Array(counted) if is_of_dimension => {
                let lengths = counted.as_primitive::<Int64Type>().iter();
                let lengths: Int64Array =
                    lengths.map(|length| length.filter(|length| *length != 0)).collect();
                Ok(ColumnarValue::Array(Arc::new(lengths)))
            }
            counted => Ok(counted),
        }
    }
}

/// Returns what is counted of lists that have elements, and NULL for the others.
fn of_elements(lists: &ArrayRef, counted: ColumnarValue) -> Result<ArrayRef> {
    let lengths = cast(&length(lists.as_ref())?, &DataType::Int64)?;
    let counted = counted.into_array(lists.len())?;
    let pairs = counted.as_primitive::<Int64Type>().iter().zip(lengths.as_primitive::<Int64Type>());
    let counted: Int64Array = pairs.map(|(count, length)| count.filter(|_| length != Some(0))).collect();
    Ok(Arc::new(counted))
}

/// The entries of a map as structures. DataFusion's panics where a field says of the keys or values what
/// they are.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct MapEntries {
    inner: Arc<ScalarUDF>,
}

impl MapEntries {
    /// Returns the field of a list of the entries of maps of a type.
    fn entry(of: &DataType) -> Result<FieldRef> {
        match of {
            DataType::Map(entries, _) if let DataType::Struct(pair) = entries.data_type() => {
                let named = |place: usize, name: &str, is_nullable: bool| {
                    pair[place].as_ref().clone().with_name(name).with_nullable(is_nullable)
                };
                let pair = Fields::from(vec![named(0, "key", false), named(1, "value", true)]);
                Ok(Arc::new(Field::new_list_field(DataType::Struct(pair), false)))
            }
            _ => plan_err!("map_entries() takes a map"),
        }
    }
}

impl ScalarUDFImpl for MapEntries {
    as_within!(name, aliases, signature);

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().map_or_else(|| plan_err!("map_entries() takes a map"), Self::entry).map(DataType::List)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = matches!(args.args.as_slice(), [ColumnarValue::Scalar(_)]);
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let Some(maps) = arrays.first().and_then(|maps| maps.as_map_opt()) else {
            return plan_err!("map_entries() takes a map");
        };
        let field = Self::entry(maps.data_type())?;
        let DataType::Struct(pair) = field.data_type() else { return plan_err!("an entry is a structure") };
        let columns = vec![maps.keys().clone(), maps.values().clone()];
        let entries = StructArray::try_new(pair.clone(), columns, None)?;
        let lists =
            ListArray::try_new(field, maps.offsets().clone(), Arc::new(entries), maps.nulls().cloned())?;
        match is_constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&lists, 0)?)),
            false => Ok(ColumnarValue::Array(Arc::new(lists))),
        }
    }
}

/// One of [`CHOOSING`], which in DataFusion take no text beside points in time or BOOLEANs, as in
/// `coalesce(shipped, '1970-01-01')`, and no NULL beside bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Choosing {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Choosing {
    as_within!(name, aliases, return_type, return_field_from_args);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if let Some(common) = structures::common(types).or_else(|| beside_nulls(types)) {
            return Ok(vec![common; types.len()]);
        }
        let read = types.iter().find(|of| of.is_temporal() || **of == DataType::Boolean);
        // A text as it is written, not one of a column, is also of the type of bytes and of a list.
        let is_long =
            |of: &&DataType| of.is_binary() || matches!(of, DataType::List(_) | DataType::LargeList(_));
        let read_here = types.iter().find(is_long);
        let meant = types.iter().map(|of| match of {
            DataType::Utf8 => read.or(read_here).unwrap_or(of),
            _ => read.filter(|_| of.is_string()).unwrap_or(of),
        });
        let meant: Vec<DataType> = meant.cloned().collect();
        if read_here.is_some()
            && let Some(common) = beside_nulls(&meant)
        {
            return Ok(vec![common; types.len()]);
        }
        let fields: Vec<FieldRef> =
            meant.iter().map(|of| Arc::new(Field::new("", of.clone(), true)) as FieldRef).collect();
        // `ifnull` is `coalesce` of two, and takes what that takes.
        let fields = match (self.name(), types) {
            ("nvl", [_, _]) => fields_with_udf(&fields, coalesce().as_ref())?,
            _ => fields_with_udf(&fields, self.inner.as_ref())?,
        };
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, context)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }
}

/// The bytes of a text, or of a BLOB, which DataFusion's does not take.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OctetLength {
    signature: Signature,
}

impl OctetLength {
    fn new() -> Self {
        let of = |given| TypeSignature::Exact(vec![given]);
        let kinds = vec![of(DataType::Utf8View), of(DataType::LargeBinary), TypeSignature::String(1)];
        Self { signature: Signature::one_of(kinds, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for OctetLength {
    fn name(&self) -> &str {
        "octet_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args[0].to_array(args.number_rows)?;
        let bytes = length(cast(&values, &DataType::LargeBinary)?.as_ref())?;
        Ok(ColumnarValue::Array(cast(&bytes, &DataType::Int64)?))
    }
}

/// The times at which the running statement began, and the session's explicit transaction, in microseconds
/// since 1970.
#[derive(Debug)]
pub struct Clock {
    transaction: AtomicI64,
    statement: AtomicI64,
}

impl Default for Clock {
    fn default() -> Self {
        let now = Utc::now().timestamp_micros();
        Self { transaction: AtomicI64::new(i64::MIN), statement: AtomicI64::new(now) }
    }
}

impl Clock {
    /// Notes that a statement begins; `None` for one that is a transaction of its own.
    pub fn set(&self, begun: Option<i64>) {
        self.transaction.store(begun.unwrap_or(i64::MIN), Ordering::Relaxed);
        self.statement.store(Utc::now().timestamp_micros(), Ordering::Relaxed);
    }

    /// Returns what `now()` is in a statement without a plan.
    pub fn now(&self) -> ScalarValue {
        let moment = self.get().unwrap_or_else(|| self.statement.load(Ordering::Relaxed));
        ScalarValue::TimestampMicrosecond(Some(moment), Some("UTC".into()))
    }

    /// Returns when the statement began, for expressions that are compiled by themselves.
    pub fn statement(&self) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp_micros(self.statement.load(Ordering::Relaxed))
    }

    fn get(&self) -> Option<i64> {
        Some(self.transaction.load(Ordering::Relaxed)).filter(|begun| *begun != i64::MIN)
    }
}

/// The point in time that a statement gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Given {
    /// The begin of the transaction.
    Transaction,
    /// The begin of the statement.
    Statement,
    /// The day on which the transaction began, in the session's zone.
    Day,
}

const GIVEN: [(Given, &str, &[&str]); 3] = [
    (Given::Transaction, "now", &["current_timestamp", "transaction_timestamp", "get_current_timestamp"]),
    (Given::Statement, "statement_timestamp", &["clock_timestamp"]),
    (Given::Day, "current_date", &["today"]),
];

/// A point in time that a statement is given, in microseconds, as columns have it; DataFusion's are
/// nanoseconds, and make nanoseconds of what they are put beside, and each statement's own, where a
/// transaction has one.
#[derive(Debug)]
pub(crate) struct Now {
    given: Given,
    name: &'static str,
    aliases: Vec<String>,
    clock: Arc<Clock>,
    signature: Signature,
}

// The clock belongs to the session.
equal_by!(Now: given);

impl ScalarUDFImpl for Now {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.given {
            Given::Day => DataType::Date32,
            _ => LogicalType::timestamp_with_time_zone().arrow_type(),
        })
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), self.return_type(&[])?, false)))
    }

    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let Some(started) = context.query_execution_start_time() else {
            return Ok(ExprSimplifyResult::Original(arguments));
        };
        let begun = self.clock.get().filter(|_| self.given != Given::Statement);
        let moment = begun.unwrap_or_else(|| started.timestamp_micros());
        let moment = ScalarValue::TimestampMicrosecond(Some(moment), Some("UTC".into()));
        let moment = match self.given {
            Given::Day => {
                let zone = context.config_options().execution.time_zone.clone();
                let zone = zone.as_deref().unwrap_or("UTC");
                let clocks = in_zones(&moment.to_array()?, |_| Some(zone))?;
                ScalarValue::try_from_array(&cast(&clocks, &DataType::Date32)?, 0)?
            }
            _ => moment,
        };
        Ok(ExprSimplifyResult::Simplified(Expr::Literal(moment, None)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{}() was not made a constant", self.name)
    }
}

const SERIES: [&str; 2] = ["generate_series", "range"];

/// One of [`SERIES`], of points in time in any unit. There are no rows where an argument is NULL.
#[derive(Debug)]
struct Series {
    inner: Arc<dyn TableFunctionImpl>,
}

impl TableFunctionImpl for Series {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let in_nanoseconds = |expr: &Expr| match expr {
            Expr::Literal(value, metadata) => match value.data_type() {
                DataType::Timestamp(_, zone) => {
                    let value = value.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, zone))?;
                    Ok(Expr::Literal(value, metadata.clone()))
                }
                // DataFusion knows BIGINTs, and NULL without a type.
                of if of.is_integer() => {
                    let value = match value.is_null() {
                        true => ScalarValue::Null,
                        false => value.cast_to(&DataType::Int64)?,
                    };
                    Ok(Expr::Literal(value, metadata.clone()))
                }
                _ => Ok(expr.clone()),
            },
            other => Ok(other.clone()),
        };
        let exprs: Vec<Expr> = args.exprs().iter().map(in_nanoseconds).collect::<Result<_>>()?;
        self.inner.call_with_args(TableFunctionArgs::new(&exprs, args.session()))
    }
}

/// DataFusion's, which takes a date for nanoseconds, and rounds constants before 1970 up; and of intervals.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct DateTrunc {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl DateTrunc {
    fn over(inner: Arc<ScalarUDF>) -> Self {
        Self { inner, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for DateTrunc {
    as_within!(name, aliases);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [precision, of] = types else {
            return plan_err!("date_trunc() takes a precision, as 'month', and a point in time");
        };
        let of = match of {
            DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) => of.clone(),
            of if *of == INTERVAL => of.clone(),
            DataType::Date32 | DataType::Date64 | DataType::Null => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
            of if of.is_string() => DataType::Timestamp(TimeUnit::Microsecond, None),
            of => return plan_err!("date_trunc() of {of}: a point in time was expected"),
        };
        let precision = if precision.is_string() { precision.clone() } else { DataType::Utf8 };
        Ok(vec![precision, of])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[1].clone())
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        match input {
            // 31 days are more than a month, and have none in them.
            [_, of] if of.range.data_type() == INTERVAL => Ok(SortProperties::Unordered),
            _ => self.inner.output_ordering(input),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if matches!(&args.args[0], ColumnarValue::Scalar(precision) if precision.is_null()) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(args.return_field.data_type())?));
        }
        let is_constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let of = args.args[1].to_array(if is_constant { 1 } else { args.number_rows })?;
        let first = first_day(&args.args[0]);
        let values = match (first, of.data_type()) {
            (_, interval) if *interval == INTERVAL => {
                interval_part::truncated(&args.args[0], of.as_primitive())?
            }
            (Some(first), DataType::Timestamp(TimeUnit::Microsecond, None)) => {
                truncated(of.as_primitive(), first)?
            }
            (Some(first), DataType::Timestamp(TimeUnit::Microsecond, Some(zone))) => {
                let clocks = in_zones(&of, |_| Some(zone))?;
                let moments = in_zones(&truncated(clocks.as_primitive(), first)?, |_| Some(zone))?;
                cast(&moments, of.data_type())?
            }
            _ => {
                args.args[0] = in_singular(&args.args[0]);
                args.args[1] = ColumnarValue::Array(of);
                self.inner.invoke_with_args(args)?.into_array(1)?
            }
        };
        match is_constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)),
            false => Ok(ColumnarValue::Array(values)),
        }
    }
}

fn precision_of(value: &ColumnarValue) -> Option<String> {
    let ColumnarValue::Scalar(precision) = value else { return None };
    let precision = precision.try_as_str()??.to_ascii_lowercase();
    Some(match precision.as_str() {
        "centuries" => "century".into(),
        "millennia" | "millenniums" => "millennium".into(),
        other => other.strip_suffix('s').unwrap_or(other).into(),
    })
}

/// Returns a precision that may have been written as in `milliseconds`.
fn in_singular(precision: &ColumnarValue) -> ColumnarValue {
    let singular = precision_of(precision).map(|precision| ColumnarValue::Scalar(precision.into()));
    singular.unwrap_or_else(|| precision.clone())
}

/// Returns what gives the first day of the week, the month, the quarter, the year or more years of
/// another; `None` for other precisions.
fn first_day(precision: &ColumnarValue) -> Option<fn(NaiveDate) -> Option<NaiveDate>> {
    match precision_of(precision)?.as_str() {
        "week" => Some(|day| Some(day.week(Weekday::Mon).first_day())),
        "month" => Some(|day| day.with_day(1)),
        "quarter" => Some(|day| day.with_day(1)?.with_month0(day.month0() / 3 * 3)),
        "year" => Some(|day| day.with_ordinal(1)),
        "decade" => Some(|day| NaiveDate::from_ymd_opt(day.year().div_euclid(10) * 10, 1, 1)),
        // Decades, centuries and millennia begin with their first year.
        "century" => Some(|day| NaiveDate::from_ymd_opt((day.year() - 1).div_euclid(100) * 100 + 1, 1, 1)),
        "millennium" => {
            Some(|day| NaiveDate::from_ymd_opt((day.year() - 1).div_euclid(1000) * 1000 + 1, 1, 1))
        }
        _ => None,
    }
}

/// Truncates points in time in microseconds. DataFusion's function counts nanoseconds, which end in
/// 2262.
fn truncated(
    values: &TimestampMicrosecondArray,
    first: fn(NaiveDate) -> Option<NaiveDate>,
) -> Result<ArrayRef> {
    let truncate = |value: i64| {
        let day = DateTime::from_timestamp_micros(value).and_then(|time| first(time.date_naive()));
        let start =
            day.and_then(|day| day.and_hms_opt(0, 0, 0)).map(|time| time.and_utc().timestamp_micros());
        start.ok_or_else(|| exec_datafusion_err!("date_trunc(): a point in time is out of range"))
    };
    Ok(Arc::new(values.try_unary::<_, TimestampMicrosecondType, _>(truncate)?))
}
