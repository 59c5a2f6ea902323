//! Functions and operators of JSON. A value of type JSON is text whose field says what it is. What is
//! no JSON is a value of its own where JSON is made, and is read as JSON where it is taken apart.

mod call;
mod change;
mod jsonpath;
pub mod order;
mod path;
mod read;
mod set;
pub(crate) mod text;
mod transform;
mod write;

pub(crate) use call::{is_json, json_field};
pub(crate) use text::includes;
pub use text::{Parts, compact, elements, members, normalised, quote, unquoted};
pub(crate) use transform::{JsonColumn, JsonTransform};
pub use write::texts;

use crate::cast::{as_in_sql, is_uuid};
use crate::described::as_described;
use crate::types::JSONB;
use crate::wrapped::equal_by;
use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use call::{Argument, Call, Described, Gives};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// A function of JSON.
#[derive(Debug)]
pub(crate) struct JsonFunction {
    described: &'static Described,
    aliases: Vec<String>,
    signature: Signature,
}

equal_by!(JsonFunction: described.names);

impl JsonFunction {
    fn new(described: &'static Described) -> Self {
        let signature = Signature::user_defined(Volatility::Immutable);
        Self { described, aliases: described.aliases(), signature }
    }

    /// Says whether it gives JSON.
    pub(crate) fn gives_json(&self) -> bool {
        self.described.gives == Gives::Json
    }

    fn gives(&self, fields: &[FieldRef], scalars: &[Option<&ScalarValue>]) -> FieldRef {
        let list = |of: Field| DataType::List(Arc::new(of.with_name("item")));
        let text = Field::new("item", DataType::LargeUtf8, true);
        let is_list_of_paths = fields.get(1).is_some_and(|field| field.data_type().is_nested());
        let path = scalars.get(1).copied().flatten().and_then(|path| path.try_as_str().flatten());
        let is_of_several = is_list_of_paths
            || path.and_then(|path| path::read(path).ok()).is_some_and(|steps| path::is_of_several(&steps));
        let data_type = match self.described.gives {
            Gives::Json => return Arc::new(json_field(self.name())),
            Gives::JsonAtPath if !is_of_several => return Arc::new(json_field(self.name())),
            Gives::JsonAtPath | Gives::Jsons => list(json_field("item")),
            Gives::Text => DataType::LargeUtf8,
            Gives::TextAtPath if !is_of_several => DataType::LargeUtf8,
            Gives::TextAtPath | Gives::Texts => list(text),
            Gives::Integer => DataType::Int64,
            Gives::Double => DataType::Float64,
            Gives::Boolean => DataType::Boolean,
        };
        Arc::new(Field::new(self.name(), data_type, true))
    }
}

impl ScalarUDFImpl for JsonFunction {
    as_described!();

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let field = |of: &DataType| Arc::new(Field::new("", of.clone(), true));
        let fields: Vec<FieldRef> = types.iter().map(field).collect();
        Ok(self.gives(&fields, &[]).data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(self.gives(args.arg_fields, args.scalar_arguments))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arguments = args.args.iter().zip(&args.arg_fields).map(|(value, field)| {
            let is_one = matches!(value, ColumnarValue::Scalar(_));
            Ok(Argument {
                values: value.to_array(if is_one { 1 } else { rows })?,
                field: field.clone(),
                is_one,
            })
        });
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let gives = args.return_field.as_ref();
        let zone = args.config_options.execution.time_zone.as_deref().unwrap_or("UTC");
        let call = Call { name: self.described.names[0], args: &arguments, rows, gives, zone };
        let values = (self.described.body)(&call)?;
        let values =
            if values.data_type() == gives.data_type() { values } else { cast(&values, gives.data_type())? };
        Ok(match (is_scalar, values.as_list_opt::<i32>()) {
            // The field of a list says of its elements that they are JSON.
            (true, Some(list)) => ColumnarValue::Scalar(ScalarValue::List(Arc::new(list.clone()))),
            (true, None) => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            (false, _) => ColumnarValue::Array(values),
        })
    }
}

/// The digits of the DECIMALs by which whole numbers are read.
const DIGITS: u8 = 76;

/// Casts from JSON and to it, after the types are coerced: a text that JSON says is cast to another type
/// than a text without its quotes, and null is NULL; and values that are no texts become JSON.
pub fn cast_by_meaning(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (expr, to) = match &expression {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => (expr, field),
        _ => return Ok(Transformed::no(expression)),
    };
    let is_literal = matches!(expr.as_ref(), Expr::Literal(_, None));
    if is_json(to) {
        let Ok(from) = expr.get_type(schema) else { return Ok(Transformed::no(expression)) };
        let name = if to.metadata().contains_key(JSONB) { "to_jsonb" } else { "to_json" };
        let is_text = from.is_string() && !is_uuid(expr, schema);
        return Ok(match (is_text || from.is_null(), function(name)) {
            (false, Some(func)) => {
                let args = vec![expr.as_ref().clone()];
                let call = Expr::ScalarFunction(ScalarFunction { func, args });
                // What is around it was given a common type by that of the cast.
                Transformed::yes(match call.get_type(schema)? == *to.data_type() {
                    true => call,
                    false => Expr::Cast(Cast { expr: Box::new(call), field: to.clone() }),
                })
            }
            _ => Transformed::no(expression),
        });
    }
    let is_else = to.data_type().is_string() || to.data_type().is_null() || is_literal;
    if is_else || !expr.to_field(schema).is_ok_and(|(_, field)| is_json(&field)) {
        return Ok(Transformed::no(expression));
    }
    let Some(func) = function("json_as_text") else { return Ok(Transformed::no(expression)) };
    let text = Expr::ScalarFunction(ScalarFunction { func, args: vec![expr.as_ref().clone()] });
    let is_safe = matches!(expression, Expr::TryCast(_));
    let cast = |of: Expr, to: &FieldRef| match is_safe {
        true => Expr::TryCast(TryCast { expr: Box::new(of), field: to.clone() }),
        false => Expr::Cast(Cast { expr: Box::new(of), field: to.clone() }),
    };
    // A number with a fraction is rounded, as a DECIMAL is.
    let text = match to.data_type().is_integer() {
        true => {
            let number = Field::new("", DataType::Decimal256(DIGITS, DIGITS as i8 / 2), true);
            as_in_sql(cast(text, &Arc::new(number)), schema)?.data
        }
        false => text,
    };
    Ok(Transformed::yes(cast(text, to)))
}

/// Returns a function by its name.
pub(crate) fn function(name: &str) -> Option<Arc<ScalarUDF>> {
    let described = all().find(|described| described.names.contains(&name))?;
    Some(Arc::new(ScalarUDF::from(JsonFunction::new(described))))
}

fn all() -> impl Iterator<Item = &'static Described> {
    let tables: [&'static [Described]; 5] =
        [read::FUNCTIONS, write::FUNCTIONS, change::FUNCTIONS, set::FUNCTIONS, jsonpath::FUNCTIONS];
    tables.into_iter().flatten()
}

pub(crate) fn register(context: &SessionContext) {
    for described in all() {
        context.register_udf(ScalarUDF::from(JsonFunction::new(described)));
    }
    transform::register(context);
}
