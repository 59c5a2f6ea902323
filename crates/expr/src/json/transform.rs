//! `json_transform`: JSON as values, lists and structures of the types that another text of JSON names,
//! as DuckDB has it; and the columns of `json_to_recordset`, as PostgreSQL has it.

use super::call::is_json;
use super::text::{Kind, compact, elements, kind, member, members, unquoted};
use crate::arguments::refused;
use crate::cast::cast as cast_as_sql;
use crate::said::in_plans;
use crate::types::logical_type;
use crate::wrapped::equal_by;
use arrow::array::{Array, ArrayRef, AsArray, LargeListArray, LargeStringArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use hypostyle_sql::parse::parse_as_written;
use hypostyle_types::{Error, LogicalType, check_json_text};
use std::borrow::Cow;
use std::sync::Arc;

pub(super) fn register(context: &SessionContext) {
    for is_strict in [false, true] {
        let aliases = vec![if is_strict { "from_json_strict" } else { "from_json" }.to_string()];
        let signature = Signature::user_defined(Volatility::Immutable);
        context.register_udf(ScalarUDF::from(JsonTransform { is_strict, aliases, signature }));
    }
    for is_of_several in [false, true] {
        let signature = Signature::user_defined(Volatility::Immutable);
        context.register_udf(ScalarUDF::from(JsonColumn { is_of_several, signature }));
    }
}

/// JSON in another form. What does not fit is NULL, or an error if the function is strict.
#[derive(Debug)]
pub(crate) struct JsonTransform {
    is_strict: bool,
    aliases: Vec<String>,
    signature: Signature,
}

equal_by!(JsonTransform: is_strict);

impl JsonTransform {
    fn takes(&self) -> DataFusionError {
        refused(format!(
            "{}() takes JSON, and the text of a structure, as '{{\"a\": \"INTEGER\"}}'",
            self.name()
        ))
    }
}

impl ScalarUDFImpl for JsonTransform {
    fn name(&self) -> &str {
        if self.is_strict { "json_transform_strict" } else { "json_transform" }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [json, structure] if (json.is_string() || json.is_null()) && structure.is_string() => {
                Ok(types.to_vec())
            }
            _ => Err(self.takes()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(self.takes())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let structure = args.scalar_arguments.get(1).copied().flatten();
        let structure = structure.and_then(|structure| structure.try_as_str().flatten());
        let structure = structure.ok_or_else(|| self.takes())?;
        check_json_text(structure).map_err(external)?;
        field_of(structure, self.name())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (Some(json), Some(field)) = (args.args.first(), args.arg_fields.first()) else {
            return Err(self.takes());
        };
        let is_scalar = matches!(json, ColumnarValue::Scalar(_));
        let values =
            cast(&json.to_array(if is_scalar { 1 } else { args.number_rows })?, &DataType::Utf8View)?;
        let texts: Vec<Option<&str>> = values.as_string_view().iter().collect();
        if !is_json(field) {
            texts.iter().copied().flatten().try_for_each(check_json_text).map_err(external)?;
        }
        let made = Shape { is_strict: self.is_strict }.read(&args.return_field, &texts)?;
        // The fields of lists and structures say of their values that they are JSON.
        Ok(match (is_scalar, made.data_type()) {
            (true, DataType::List(_)) => {
                ColumnarValue::Scalar(ScalarValue::List(Arc::new(made.as_list::<i32>().clone())))
            }
            (true, DataType::Struct(_)) => {
                ColumnarValue::Scalar(ScalarValue::Struct(Arc::new(made.as_struct().clone())))
            }
            (true, _) => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            (false, _) => ColumnarValue::Array(made),
        })
    }
}

/// A column of the rows that `json_to_record(j) AS r (a INTEGER)` gives, or `json_to_recordset(j)`: a list of
/// the members of one name, as values of a type.
#[derive(Debug)]
pub(crate) struct JsonColumn {
    is_of_several: bool,
    signature: Signature,
}

equal_by!(JsonColumn: is_of_several);

impl JsonColumn {
    fn takes(&self) -> DataFusionError {
        refused(format!("{}() takes JSON, the name of a member and that of a type", self.name()))
    }

    /// Adds the members of a name that the rows have to others; says whether there are rows.
    fn add<'a>(&self, text: &'a str, name: &str, all: &mut Vec<Option<&'a str>>) -> Result<bool> {
        match (kind(text), self.is_of_several) {
            (Some(Kind::Null), _) => return Ok(false),
            (Some(Kind::Object), false) => all.push(member(text, name)),
            (Some(Kind::Array), true) if elements(text).all(|row| kind(row) == Some(Kind::Object)) => {
                all.extend(elements(text).map(|row| member(row, name)));
            }
            (_, false) => return Err(refused("json_to_record() is of a JSON object")),
            (_, true) => return Err(refused("json_to_recordset() is of a JSON array of objects")),
        }
        Ok(true)
    }
}

impl ScalarUDFImpl for JsonColumn {
    fn name(&self) -> &str {
        if self.is_of_several { "json_recordset_column" } else { "json_record_column" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [json, name, of]
                if (json.is_string() || json.is_null()) && name.is_string() && of.is_string() =>
            {
                Ok(types.to_vec())
            }
            _ => Err(self.takes()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(self.takes())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let of = args.scalar_arguments.get(2).copied().flatten();
        let of = of.and_then(|of| of.try_as_str().flatten()).ok_or_else(|| self.takes())?;
        let element = Arc::new(in_plans(&type_of(of)?.arrow_field("item", true)));
        Ok(Arc::new(Field::new(self.name(), DataType::List(element), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (Some(json), Some(ColumnarValue::Scalar(name))) = (args.args.first(), args.args.get(1)) else {
            return Err(self.takes());
        };
        let (Some(field), Some(Some(name))) = (args.arg_fields.first(), name.try_as_str()) else {
            return Err(self.takes());
        };
        let DataType::List(element) = args.return_field.data_type() else { return Err(self.takes()) };
        let values = cast(&json.to_array(args.number_rows)?, &DataType::Utf8View)?;
        let values = values.as_string_view();
        if !is_json(field) {
            values.iter().flatten().try_for_each(check_json_text).map_err(external)?;
        }
        let (mut all, mut lengths, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for text in values {
            let before = all.len();
            known.push(match text {
                Some(text) => self.add(text, name, &mut all)?,
                None => false,
            });
            lengths.push(all.len() - before);
        }
        // Values of another type are errors, as those of a cast are.
        let members = Shape { is_strict: true }.read(element, &all)?;
        let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), Some(NullBuffer::from(known)));
        let lists = LargeListArray::try_new(element.clone(), offsets, members, nulls)?;
        Ok(ColumnarValue::Array(cast(&lists, args.return_field.data_type())?))
    }
}

/// Returns the field that a part of a structure describes: a type, one of a list's elements, or those of
/// fields by their names.
fn field_of(structure: &str, name: &str) -> Result<FieldRef> {
    let of_type = |of: DataType| Ok(Arc::new(Field::new(name, of, true)));
    match kind(structure) {
        Some(Kind::Text) => {
            let found = type_of(&unquoted(structure))?;
            Ok(Arc::new(in_plans(&found.arrow_field(name, true))))
        }
        Some(Kind::Array) => {
            let mut types = elements(structure);
            match (types.next(), types.next()) {
                (Some(element), None) => of_type(DataType::List(field_of(element, "item")?)),
                _ => Err(refused(
                    "a list in a structure of JSON has the type of its elements in it, and nothing else",
                )),
            }
        }
        Some(Kind::Object) => {
            let fields = members(structure).map(|(name, of)| field_of(of, &unquoted(name)));
            let fields: Vec<FieldRef> = fields.collect::<Result<_>>()?;
            let is_twice = |(place, field): (usize, &FieldRef)| {
                fields.iter().take(place).any(|other| other.name().eq_ignore_ascii_case(field.name()))
            };
            if fields.is_empty() || fields.iter().enumerate().any(is_twice) {
                return Err(refused("an object in a structure of JSON has fields, and each of them once"));
            }
            of_type(DataType::Struct(fields.into()))
        }
        _ => Err(refused(format!(
            "{structure} is no type; a structure of JSON has the names of types, in quotes"
        ))),
    }
}

/// Returns the type of a name. What was null everywhere has none, and is a text.
fn type_of(name: &str) -> Result<LogicalType> {
    if name.eq_ignore_ascii_case("null") {
        return Ok(LogicalType::Varchar);
    }
    match parse_as_written(&format!("CAST(NULL AS {name})")) {
        Ok(SqlExpr::Cast { data_type, .. }) => logical_type(&data_type).map_err(external),
        _ => Err(refused(format!("\"{name}\" is no type"))),
    }
}

/// How JSON is read.
struct Shape {
    is_strict: bool,
}

impl Shape {
    /// Returns values of a field's type.
    fn read(&self, field: &Field, texts: &[Option<&str>]) -> Result<ArrayRef> {
        match field.data_type() {
            DataType::List(element) | DataType::LargeList(element) => self.lists(field, element, texts),
            DataType::Struct(fields) => self.structures(field, fields, texts),
            DataType::Map(..) | DataType::FixedSizeList(..) => {
                let message =
                    format!("JSON is not read as {}; read it as JSON", type_name(field.data_type()));
                Err(external(Error::unsupported(message)))
            }
            _ => self.values(field, texts),
        }
    }

    /// Returns NULL for what is of another kind, or an error.
    fn misfit<T>(&self, text: &str, field: &Field) -> Result<Option<T>> {
        if !self.is_strict {
            return Ok(None);
        }
        let shown: String = text.chars().take(60).collect();
        Err(refused(format!("the JSON {shown} is no {}", type_name(field.data_type()))))
    }

    fn lists(&self, field: &Field, element: &FieldRef, texts: &[Option<&str>]) -> Result<ArrayRef> {
        let (mut all, mut lengths, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for text in texts {
            let found = match text.and_then(|text| Some((text, kind(text)?))) {
                None | Some((_, Kind::Null)) => None,
                Some((text, Kind::Array)) => Some(elements(text)),
                Some((text, _)) => self.misfit(text, field)?,
            };
            let before = all.len();
            known.push(found.is_some());
            all.extend(found.into_iter().flatten().map(Some));
            lengths.push(all.len() - before);
        }
        let values = self.read(element, &all)?;
        let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), NullBuffer::from(known));
        let lists: ArrayRef =
            Arc::new(LargeListArray::try_new(element.clone(), offsets, values, Some(nulls))?);
        Ok(if lists.data_type() == field.data_type() { lists } else { cast(&lists, field.data_type())? })
    }

    fn structures(&self, field: &Field, fields: &Fields, texts: &[Option<&str>]) -> Result<ArrayRef> {
        let mut columns = vec![Vec::new(); fields.len()];
        let mut known = Vec::with_capacity(texts.len());
        for text in texts {
            let found = match text.and_then(|text| Some((text, kind(text)?))) {
                None | Some((_, Kind::Null)) => None,
                Some((text, Kind::Object)) => {
                    Some(members(text).map(|(name, value)| (unquoted(name), value)).collect::<Vec<_>>())
                }
                Some((text, _)) => self.misfit(text, field)?,
            };
            known.push(found.is_some());
            for (field, column) in fields.iter().zip(&mut columns) {
                let value = found.as_ref().and_then(|found| {
                    // The last one of several counts.
                    found.iter().rfind(|(name, _)| *name == field.name().as_str())
                });
                if self.is_strict && found.is_some() && value.is_none() {
                    return Err(refused(format!("an object of the JSON has no field \"{}\"", field.name())));
                }
                column.push(value.map(|(_, value)| *value));
            }
        }
        let columns = fields.iter().zip(&columns).map(|(field, column)| self.read(field, column));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let nulls = Some(NullBuffer::from(known));
        Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, texts.len())?))
    }

    fn values(&self, field: &Field, texts: &[Option<&str>]) -> Result<ArrayRef> {
        let shown = texts.iter().map(|text| match text {
            Some(text) => self.shown(text, field),
            None => Ok(None),
        });
        let shown: ArrayRef = Arc::new(shown.collect::<Result<LargeStringArray>>()?);
        let values = cast_as_sql(&shown, field, !self.is_strict)?;
        Ok(if values.data_type() == field.data_type() { values } else { cast(&values, field.data_type())? })
    }

    /// Returns the text that a value of JSON is read from; `None` for NULL.
    fn shown<'a>(&self, text: &'a str, field: &Field) -> Result<Option<Cow<'a, str>>> {
        let whole = || {
            let mut whole = String::new();
            compact(text, &mut whole);
            Ok(Some(Cow::Owned(whole)))
        };
        match kind(text) {
            None | Some(Kind::Null) => Ok(None),
            Some(_) if is_json(field) => whole(),
            Some(Kind::Text) => Ok(Some(unquoted(text))),
            Some(Kind::Object | Kind::Array) if field.data_type().is_string() => whole(),
            Some(Kind::Object | Kind::Array) => self.misfit(text, field),
            // A number with a fraction is rounded, as a DOUBLE is.
            Some(Kind::Number) if field.data_type().is_integer() && text.parse::<i128>().is_err() => {
                let number = text.parse::<f64>().map(f64::round_ties_even);
                Ok(Some(number.map_or(Cow::Borrowed(text), |number| Cow::Owned(format!("{number}")))))
            }
            Some(_) => Ok(Some(Cow::Borrowed(text))),
        }
    }
}
