//! Functions as they are written down: their names, the kinds of their arguments, and what computes them.

use crate::arguments::{ArgumentKind, Common};
use crate::described::as_described;
use crate::interval::INTERVAL;
use crate::wrapped::equal_by;
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The type that an argument is converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Whatever it is.
    Any,
    Text,
    Integer,
    Double,
    Interval,
    /// A point in time, a date or their text, with or without a zone, in microseconds.
    Time,
    /// A point in time, or how far it is from another.
    TimeOrInterval,
    /// A point in time, or a time of day.
    TimeOrClock,
    List,
    /// A text, or a list of texts.
    Texts,
    /// A number, a point in time, a time of day or an interval, which a pattern shows.
    Shown,
    /// The same, or a DURATION, also as other units of Arrow's.
    Elapsed,
}

impl ArgumentKind for Kind {
    const ANY: Self = Self::Any;

    fn coerced(self, of: &DataType) -> Option<DataType> {
        let as_one = |kind: Common| kind.coerced(of, Some(DataType::Utf8));
        match self {
            Self::Any => as_one(Common::Any),
            Self::Text => as_one(Common::Text),
            Self::Integer => as_one(Common::Integer),
            Self::List => as_one(Common::List),
            Self::Double if of.is_numeric() || of.is_null() => Some(DataType::Float64),
            Self::Interval if *of == INTERVAL || of.is_string() || of.is_null() => Some(INTERVAL),
            Self::Time => match of {
                DataType::Timestamp(_, zone) => {
                    Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
                }
                DataType::Date32 | DataType::Null => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
                of if of.is_string() => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
                _ => None,
            },
            Self::TimeOrInterval if *of == INTERVAL => Some(INTERVAL),
            Self::TimeOrInterval => Self::Time.coerced(of),
            Self::TimeOrClock => match of {
                DataType::Time32(_) | DataType::Time64(_) => Some(DataType::Time64(TimeUnit::Microsecond)),
                of => Self::Time.coerced(of),
            },
            Self::Texts => match of {
                DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
                    let text = Self::Text.coerced(of.data_type())?;
                    Some(DataType::List(Arc::new(Field::new_list_field(text, true))))
                }
                of => Self::Text.coerced(of),
            },
            Self::Shown => match of {
                DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Time64(_) => Some(of.clone()),
                of if of.is_numeric() || *of == INTERVAL => Some(of.clone()),
                of => Self::Time.coerced(of),
            },
            Self::Elapsed => match of {
                DataType::Duration(_) => Some(DataType::Duration(TimeUnit::Microsecond)),
                DataType::Time32(_) => Some(DataType::Time64(TimeUnit::Microsecond)),
                DataType::Date64 => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
                of => Self::Shown.coerced(of),
            },
            _ => None,
        }
    }

    fn described(self) -> &'static str {
        match self {
            Self::Any => "a value",
            Self::Text => "a text",
            Self::Integer => "an integer",
            Self::Double => "a number",
            Self::Interval => "an interval",
            Self::Time => "a point in time",
            Self::TimeOrInterval => "a point in time or an interval",
            Self::TimeOrClock => "a point in time or a time of day",
            Self::List => "a list",
            Self::Texts => "a text or a list of texts",
            Self::Shown | Self::Elapsed => "a point in time, an interval or a number",
        }
    }

    fn is_of_one_type(self) -> bool {
        self == Self::TimeOrClock
    }
}

/// Computes a function of as many rows as there are.
type Body = fn(&[ArrayRef], usize) -> Result<ArrayRef>;

/// The type of a function of arguments of types.
type Gives = fn(&[DataType]) -> Result<DataType>;

/// A function as it is written down.
pub(super) type Described = crate::described::Described<Kind, Gives, Body>;

/// A function that is described.
#[derive(Debug)]
pub(crate) struct Builtin {
    described: &'static Described,
    aliases: Vec<String>,
    signature: Signature,
}

equal_by!(Builtin: name());

impl ScalarUDFImpl for Builtin {
    as_described!();

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        (self.described.gives)(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let gives = self.return_type(&types)?;
        Ok(Arc::new(Field::new(self.name(), gives, true)))
    }

    /// Bins of points in time are in the order of these. Those of times of day may begin on the day before.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let is_same = |of: &ExprProperties| of.sort_properties == SortProperties::Singleton;
        Ok(match inputs {
            [width, time, origins @ ..]
                if self.name() == "date_bin"
                    && matches!(time.range.data_type(), DataType::Timestamp(..))
                    && is_same(width)
                    && origins.iter().all(is_same) =>
            {
                time.sort_properties
            }
            _ => SortProperties::Unordered,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let values = (self.described.body)(&columns, rows)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}

/// Returns the function that is written down.
pub(super) fn function(described: &'static Described) -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::from(Builtin { described, aliases: described.aliases(), signature })
}
