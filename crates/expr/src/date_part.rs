//! `date_part` whose years before the first are negative, as in PostgreSQL: there is no year 0. DataFusion
//! counts them from 0 down.

use crate::wrapped::as_within;
use crate::year_part::{counted, is_year, shown};
use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, lit};
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct DatePart {
    inner: Arc<ScalarUDF>,
}

impl DatePart {
    pub(crate) fn over(inner: Arc<ScalarUDF>) -> Self {
        Self { inner }
    }
}

impl ScalarUDFImpl for DatePart {
    as_within!(name, aliases, signature, return_type, return_field_from_args);

    /// The points in time that a year has, of which comparisons with a constant make comparisons of these.
    fn preimage(&self, args: &[Expr], year: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        match year {
            Expr::Literal(ScalarValue::Int32(Some(0)), _) => Ok(PreimageResult::None),
            Expr::Literal(ScalarValue::Int32(Some(year)), _) => {
                self.inner.preimage(args, &lit(counted(*year)), info)
            }
            other => self.inner.preimage(args, other, info),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_of_years = match args.args.as_slice() {
            [ColumnarValue::Scalar(part), of] => {
                part.try_as_str().flatten().is_some_and(is_year) && has_years(&of.data_type())
            }
            _ => false,
        };
        let parts = self.inner.invoke_with_args(args)?;
        Ok(if is_of_years { with_shown_years(parts) } else { parts })
    }
}

/// Says whether values have a year of the calendar.
fn has_years(of: &DataType) -> bool {
    matches!(of, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

fn with_shown_years(parts: ColumnarValue) -> ColumnarValue {
    match &parts {
        ColumnarValue::Scalar(ScalarValue::Int32(Some(year))) => {
            ColumnarValue::Scalar(ScalarValue::Int32(Some(shown(*year))))
        }
        ColumnarValue::Array(years) => match years.as_primitive_opt::<Int32Type>() {
            Some(years) if years.values().iter().any(|year| *year <= 0) => {
                ColumnarValue::Array(Arc::new(years.unary::<_, Int32Type>(shown)))
            }
            _ => parts,
        },
        ColumnarValue::Scalar(_) => parts,
    }
}
