//! Aggregates of the elements of a list: `list_median(l)` and the like. A list of each row has an
//! accumulator of its own.

use crate::arguments::refused;
use crate::nested_type::element;
use arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::prelude::SessionContext;
use hypostyle_error::type_name::type_name;
use hypostyle_sql::calls::FUNCTIONS_OF_LISTS;
use std::sync::Arc;

pub(super) fn register(context: &SessionContext) {
    for name in FUNCTIONS_OF_LISTS {
        if let Ok(inner) = context.udaf(name) {
            let signature = Signature::user_defined(Volatility::Immutable);
            let name = format!("list_{name}");
            let aliases = context.udf(&name).map_or_else(|_| Vec::new(), |known| other_names(&known, &name));
            context.register_udf(ScalarUDF::from(OfList { name, aliases, inner, signature }));
        }
    }
}

/// Returns all other names of a function of DataFusion's, as `array_avg` beside `list_avg`: whoever
/// takes one of its names takes them all, or it would come back under that one with the next of them.
pub(super) fn other_names(known: &ScalarUDF, name: &str) -> Vec<String> {
    let names = std::iter::once(known.name()).chain(known.aliases().iter().map(String::as_str));
    names.filter(|other| *other != name).map(String::from).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OfList {
    name: String,
    aliases: Vec<String>,
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for OfList {
    fn name(&self) -> &str {
        &self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let field = match types {
            [DataType::Null] => Arc::new(Field::new_list_field(DataType::Int64, true)),
            [of] if let Some(field) = element(of) => match field.data_type() {
                DataType::Null => Arc::new(Field::new_list_field(DataType::Int64, true)),
                _ => field.clone(),
            },
            [of] => return Err(refused(format!("{}() is of a list, not of {}", self.name, type_name(of)))),
            _ => return Err(refused(format!("{}() takes a list", self.name))),
        };
        let coerced = fields_with_udf(
            &[Arc::new(Field::new("", field.data_type().clone(), true))],
            self.inner.as_ref(),
        )?;
        let of = coerced.first().map_or(field.data_type(), |coerced| coerced.data_type()).clone();
        Ok(vec![DataType::LargeList(Arc::new(field.as_ref().clone().with_data_type(of).with_nullable(true)))])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first().and_then(element) {
            Some(field) => self.inner.return_type(&[field.data_type().clone()]),
            None => Err(refused(format!("{}() takes a list", self.name))),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let [lists] = args.args.as_slice() else {
            return Err(refused(format!("{}() takes a list", self.name)));
        };
        let found = self.aggregated(&lists.to_array(rows)?, args.return_field)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}

impl OfList {
    /// Returns the aggregate of each list.
    fn aggregated(&self, lists: &ArrayRef, return_field: FieldRef) -> Result<ArrayRef> {
        let gives = return_field.data_type().clone();
        let lists = lists.as_list_opt::<i64>();
        let lists = lists.ok_or_else(|| refused(format!("{}() takes a list", self.name)))?;
        let field: FieldRef = Arc::new(Field::new("element", lists.value_type(), true));
        let schema = Schema::new(vec![field.clone()]);
        let exprs: [Arc<dyn PhysicalExpr>; 1] = [Arc::new(Column::new("element", 0))];
        let expr_fields = [field];
        let mut found = Vec::with_capacity(lists.len());
        for row in 0..lists.len() {
            if lists.is_null(row) {
                found.push(ScalarValue::try_from(&gives)?);
                continue;
            }
            let mut accumulator = self.inner.accumulator(AccumulatorArgs {
                return_field: return_field.clone(),
                schema: &schema,
                ignore_nulls: false,
                order_bys: &[],
                is_reversed: false,
                name: self.inner.name(),
                is_distinct: false,
                exprs: &exprs,
                expr_fields: &expr_fields,
            })?;
            accumulator.update_batch(&[lists.value(row)])?;
            found.push(accumulator.evaluate()?);
        }
        match found.is_empty() {
            true => Ok(new_empty_array(&gives)),
            false => ScalarValue::iter_to_array(found),
        }
    }
}
