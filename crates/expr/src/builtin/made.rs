//! Lists and structures as they are written, `[a, b]` and `{'a': 1}`. DataFusion forgets that values
//! in them are JSON, and has no list of bytes and NULLs. And structures in a list may have other fields
//! than each other.

use crate::common_type::beside_nulls;
use crate::json::{is_json, json_field};
use crate::structures;
use crate::truth::reads_text;
use crate::wrapped::{as_within, equal_by};
use arrow::array::{Array, AsArray, ListArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions::core::{named_struct, r#struct};
use datafusion::functions_nested::make_array::make_array_udf;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, StructFieldMapping,
};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

pub(super) fn register(context: &SessionContext) {
    context.register_udf(list().as_ref().clone());
    context.register_udf(structure().as_ref().clone());
    context.register_udf(row().as_ref().clone());
}

/// Returns the function that makes a list of its elements.
pub(crate) fn list() -> Arc<ScalarUDF> {
    let aliases = ["make_list", "list_value", "list_pack", "array_value"];
    Arc::new(ScalarUDF::from(Made::new(make_array_udf(), &aliases)))
}

/// Returns the function that makes a structure of names and values.
pub(crate) fn structure() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Made::new(named_struct(), &[])))
}

/// Returns the function that makes a structure of values alone, ROW(…).
pub(crate) fn row() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Made::new(r#struct(), &["row"])))
}

#[derive(Debug)]
pub(crate) struct Made {
    inner: Arc<ScalarUDF>,
    aliases: Vec<String>,
}

equal_by!(Made: inner);

impl Made {
    fn new(inner: Arc<ScalarUDF>, aliases: &[&str]) -> Self {
        Self { inner, aliases: aliases.iter().map(ToString::to_string).collect() }
    }

    /// Returns the layout of a list's texts, where texts have different ones.
    fn common_text(&self, types: &[DataType]) -> Option<DataType> {
        let first = types.first()?;
        if self.name() != "make_array"
            || types.iter().all(|of| of == first)
            || !types.iter().all(DataType::is_string)
        {
            return None;
        }
        let widest = [DataType::Utf8View, DataType::LargeUtf8];
        widest.into_iter().find(|text| types.contains(text))
    }

    /// Returns the type of a list's elements beside texts as they are written, which have none in common with
    /// it. Texts of columns have other layouts.
    fn beside_texts(&self, types: &[DataType]) -> Option<DataType> {
        let is_open = |of: &&DataType| of.is_null() || **of == DataType::Utf8;
        let mut others = types.iter().filter(|of| !is_open(of));
        let first = others.next().filter(|of| reads_text(of) && !of.is_numeric())?;
        let is_read = self.name() == "make_array" && types.contains(&DataType::Utf8);
        (is_read && others.all(|of| of == first)).then(|| first.clone())
    }

    /// Returns the type of what is made of values, which says that they are JSON where they are.
    fn told(&self, of: &DataType, args: &[FieldRef]) -> DataType {
        let said = |field: &FieldRef, value: &FieldRef| match is_json(value) {
            true => Arc::new(field.as_ref().clone().with_metadata(json_field("").metadata().clone())),
            false => field.clone(),
        };
        match of {
            DataType::List(field) => {
                let mut values = args.iter().filter(|arg| !arg.data_type().is_null()).peekable();
                let first = values.peek().map(|first| (*first).clone());
                match first.filter(|_| values.all(|value| is_json(value))) {
                    Some(first) => DataType::List(said(field, &first)),
                    None => of.clone(),
                }
            }
            DataType::Struct(fields) => {
                let is_row = self.name() == "struct";
                let step = if is_row { 1 } else { 2 };
                let values = args.iter().skip(step - 1).step_by(step);
                let fields = fields.iter().zip(values).enumerate().map(|(place, (field, value))| {
                    let field = said(field, value);
                    match is_row {
                        true => Arc::new(Field::clone(&field).with_name(structures::row_field(place))),
                        false => field,
                    }
                });
                DataType::Struct(fields.collect())
            }
            other => other.clone(),
        }
    }
}

impl ScalarUDFImpl for Made {
    as_within!(name, signature, return_type);

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if self.common_text(types).is_some() {
            // A cast to another layout of texts would not say of a value that it is JSON.
            return Ok(types.to_vec());
        }
        let common = structures::common(types).or_else(|| beside_nulls(types));
        match common.or_else(|| self.beside_texts(types)) {
            Some(common) => Ok(vec![common; types.len()]),
            None => self.inner.coerce_types(types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let values = args.arg_fields;
        let types: Vec<DataType> = values.iter().map(|value| value.data_type().clone()).collect();
        let field = match self.common_text(&types) {
            Some(text) => {
                let as_text =
                    |value: &FieldRef| Arc::new(value.as_ref().clone().with_data_type(text.clone()));
                let values: Vec<FieldRef> = values.iter().map(as_text).collect();
                self.inner.return_field_from_args(ReturnFieldArgs { arg_fields: &values, ..args })?
            }
            None => self.inner.return_field_from_args(args)?,
        };
        let told = self.told(field.data_type(), values);
        Ok(Arc::new(Field::clone(&field).with_data_type(told)))
    }

    fn struct_field_mapping(&self, literals: &[Option<ScalarValue>]) -> Option<StructFieldMapping> {
        self.inner.inner().struct_field_mapping(literals)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of = args.return_field.data_type().clone();
        let DataType::List(field) = &of else { return self.inner.invoke_with_args(args) };
        let types: Vec<DataType> = args.arg_fields.iter().map(|value| value.data_type().clone()).collect();
        let args = match self.common_text(&types) {
            Some(text) => {
                let values =
                    args.args.iter().map(|value| value.cast_to(&text, None)).collect::<Result<_>>()?;
                ScalarFunctionArgs { args: values, ..args }
            }
            None => args,
        };
        let made = self.inner.invoke_with_args(args)?;
        let told = |list: &ListArray| {
            let parts = (list.offsets().clone(), list.values().clone(), list.nulls().cloned());
            ListArray::try_new(field.clone(), parts.0, parts.1, parts.2).map(Arc::new)
        };
        Ok(match made {
            ColumnarValue::Array(lists) if *lists.data_type() != of => match lists.as_list_opt() {
                Some(lists) => ColumnarValue::Array(told(lists)?),
                None => ColumnarValue::Array(lists),
            },
            ColumnarValue::Scalar(ScalarValue::List(list)) if *list.data_type() != of => {
                ColumnarValue::Scalar(ScalarValue::List(told(&list)?))
            }
            made => made,
        })
    }
}
