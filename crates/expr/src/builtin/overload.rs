//! Functions that DuckDB has for further types: a character and some of a text as elements of a list, and
//! what a list or the keys of a map contain.

use crate::arguments::refused;
use crate::nested_type::is_list;
use crate::wrapped::as_within;
use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_types::LogicalType;
use std::sync::Arc;

/// Registers them, with those of their functions that are found by name.
pub(super) fn register(context: &SessionContext, described: fn(&str) -> Option<Arc<ScalarUDF>>) {
    let further = [
        ("array_element", described("text_element")),
        ("array_slice", described("text_slice")),
        ("contains", context.udf("array_has").ok()),
    ];
    for (name, other) in further {
        if let (Ok(inner), Some(other)) = (context.udf(name), other) {
            let signature = Signature::user_defined(Volatility::Immutable);
            context.register_udf(ScalarUDF::from(Overload { inner, other, signature }));
        }
    }
}

/// A function, and another one for the types that it does not take.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Overload {
    inner: Arc<ScalarUDF>,
    other: Arc<ScalarUDF>,
    signature: Signature,
}

/// Returns the key of a map.
fn key(of: &DataType) -> Option<&FieldRef> {
    let DataType::Map(entries, _) = of else { return None };
    match entries.data_type() {
        DataType::Struct(pair) => pair.first(),
        _ => None,
    }
}

/// Returns the keys of maps as lists.
fn keys(maps: &ArrayRef) -> Result<ArrayRef> {
    let (Some(maps), Some(key)) = (maps.as_map_opt(), key(maps.data_type())) else {
        return Err(refused("a map was expected"));
    };
    let field = Arc::new(Field::new_list_field(key.data_type().clone(), true));
    let (offsets, nulls) = (maps.offsets().clone(), maps.nulls().cloned());
    Ok(Arc::new(ListArray::try_new(field, offsets, maps.keys().clone(), nulls)?))
}

impl Overload {
    /// Says whether the other function is meant, by the type of the first argument.
    fn is_other(&self, first: &DataType) -> bool {
        match self.name() {
            "contains" => is_list(first) || key(first).is_some(),
            _ => first.is_string(),
        }
    }
}

impl ScalarUDFImpl for Overload {
    as_within!(name, aliases, schema_name);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if let ([map, _], "contains") = (types, self.name())
            && let Some(key) = key(map)
        {
            return Ok(vec![map.clone(), key.data_type().clone()]);
        }
        let function = match types {
            [first, ..] if self.is_other(first) => &self.other,
            _ => &self.inner,
        };
        let fields: Vec<FieldRef> =
            types.iter().map(|of| Arc::new(Field::new("", of.clone(), true)) as FieldRef).collect();
        let coerced = fields_with_udf(&fields, function.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, _] if self.name() == "contains" => Ok(DataType::Boolean),
            [first, ..] if self.is_other(first) => self.other.return_type(types),
            _ => self.inner.return_type(types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [first, ..] if self.is_other(first.data_type()) => {
                if matches!(LogicalType::from_arrow(first), Ok(LogicalType::Json | LogicalType::Uuid)) {
                    return Err(refused(format!("{}() is of a list or a text", self.name())));
                }
                let types: Vec<DataType> =
                    args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
                Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
            }
            _ => self.inner.return_field_from_args(args),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let first = args.args.first().map(ColumnarValue::data_type);
        let Some(first) = first.filter(|first| self.is_other(first)) else {
            return self.inner.invoke_with_args(args);
        };
        if key(&first).is_some() {
            let lists = keys(&args.args[0].to_array(args.number_rows)?)?;
            if let Some(field) = args.arg_fields.first_mut() {
                *field = Arc::new(Field::new("", lists.data_type().clone(), true));
            }
            args.args[0] = ColumnarValue::Array(lists);
        }
        self.other.invoke_with_args(args)
    }
}
