//! Functions of lists and elements of which some are DECIMALs: DataFusion finds no function for
//! those of two precisions. And those that look for all or any elements of a list in another one,
//! by PostgreSQL's rules: no NULL is found, and of NULL nothing is known. What lies under a NULL is
//! no element.

use crate::common_type::{of_compared_numbers, of_decimals};
use crate::json::includes;
use crate::structures;
use crate::truth::reads_text;
use crate::value_keys::{comparable, has_equals, has_other_equals, nested_keys};
use crate::wrapped::as_within;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, LargeBinaryArray, LargeListArray, UInt64Array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;
use hypostyle_error::external;
use hypostyle_types::check_json_text;
use std::collections::HashSet;
use std::sync::Arc;

/// A function of lists and elements.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ListFunction {
    name: &'static str,
    /// How many of its first arguments are lists and elements.
    alike: usize,
    does: Does,
    /// A text as it is written beside a list is one of its elements.
    reads_texts: bool,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Does {
    /// It gives all elements.
    Joins,
    /// It only says where elements are, and not what they are.
    Finds,
    /// It gives elements of its first list, or has others in their places, by what is equal.
    Chooses,
}

const fn list_function(name: &'static str, alike: usize, does: Does, reads_texts: bool) -> ListFunction {
    ListFunction { name, alike, does, reads_texts }
}

static FUNCTIONS: [ListFunction; 18] = [
    list_function("array_append", 2, Does::Joins, true),
    list_function("array_concat", usize::MAX, Does::Joins, false),
    list_function("array_distinct", 1, Does::Chooses, false),
    list_function("array_except", 2, Does::Chooses, false),
    list_function("array_has", 2, Does::Finds, false),
    list_function("array_has_all", 2, Does::Finds, false),
    list_function("array_has_any", 2, Does::Finds, false),
    list_function("array_intersect", 2, Does::Chooses, false),
    list_function("array_position", 2, Does::Finds, false),
    list_function("array_positions", 2, Does::Finds, false),
    list_function("array_prepend", 2, Does::Joins, true),
    list_function("array_remove", 2, Does::Chooses, true),
    list_function("array_remove_all", 2, Does::Chooses, true),
    list_function("array_remove_n", 2, Does::Chooses, true),
    list_function("array_replace", 3, Does::Chooses, true),
    list_function("array_replace_all", 3, Does::Chooses, true),
    list_function("array_replace_n", 3, Does::Chooses, true),
    list_function("array_union", 2, Does::Joins, false),
];

/// Says whether a function gives elements of its first list, or has others in their places.
pub fn chooses_elements(name: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.name == name && function.does == Does::Chooses)
}

pub(super) fn register(context: &SessionContext) {
    for function in &FUNCTIONS {
        if let Ok(inner) = context.udf(function.name) {
            let signature = Signature::user_defined(inner.signature().volatility);
            context.register_udf(ScalarUDF::from(OfElements { inner, function, signature }));
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OfElements {
    inner: Arc<ScalarUDF>,
    function: &'static ListFunction,
    signature: Signature,
}

/// The type of a list's elements, or that of what may be one.
fn element(of: &DataType) -> &DataType {
    match of {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            field.data_type()
        }
        other => other,
    }
}

/// A list of other elements, or one of them.
fn with_element(of: &DataType, element: &DataType) -> DataType {
    let field = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(element.clone()));
    match of {
        DataType::List(own) => DataType::List(field(own)),
        DataType::LargeList(own) => DataType::LargeList(field(own)),
        DataType::FixedSizeList(own, size) => DataType::FixedSizeList(field(own), *size),
        DataType::Null => DataType::Null,
        _ => element.clone(),
    }
}

/// Returns types of a list and elements with that of the list's elements for a text as it is written. Texts
/// of columns have other layouts.
fn with_texts_read(types: &[DataType], alike: usize) -> Vec<DataType> {
    let list = types.iter().take(alike).find(|of| of.is_list());
    let read = list.map(element).filter(|of| reads_text(of));
    let types = types.iter().enumerate().map(|(place, of)| match read {
        Some(read) if place < alike && *of == DataType::Utf8 => read,
        _ => of,
    });
    types.cloned().collect()
}

impl ScalarUDFImpl for OfElements {
    as_within!(name, aliases, return_type, return_field_from_args);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if matches!(self.name(), "array_has_all" | "array_has_any")
            && let [one, other] = types
        {
            // A text beside a list is the text of one; two texts are JSON.
            match (one.is_string(), other.is_string()) {
                (true, true) if self.name() == "array_has_all" => return Ok(types.to_vec()),
                (true, false) if other.is_list() => return Ok(vec![other.clone(); 2]),
                (false, true) if one.is_list() => return Ok(vec![one.clone(); 2]),
                _ => {}
            }
        }
        let ListFunction { alike, reads_texts, .. } = *self.function;
        let types = match self.name() {
            "array_concat" => of_lists(types),
            _ if reads_texts => with_texts_read(types, alike),
            _ => types.to_vec(),
        };
        let elements: Vec<DataType> = types.iter().take(alike).map(element).cloned().collect();
        let compared = match self.function.does {
            Does::Joins => None,
            // Values are compared, which a DOUBLE has not all digits of.
            Does::Finds | Does::Chooses => of_compared_numbers(&elements),
        };
        let common = compared.or_else(|| of_decimals(&elements)).or_else(|| structures::common(&elements));
        let types = types.iter().enumerate().map(|(place, of)| match &common {
            Some(common) if place < alike => with_element(of, common),
            _ => of.clone(),
        });
        let fields: Vec<FieldRef> = types.map(|of| Arc::new(Field::new("", of, true))).collect();
        let coerced = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // IN, which it may become, would look for what is the same.
        let is_compared = |arg: &Expr| {
            arg.get_type(context.schema().as_ref()).is_ok_and(|of| has_other_equals(element(&of)))
        };
        match args.iter().any(is_compared) {
            true => Ok(ExprSimplifyResult::Original(args)),
            false => self.inner.simplify(args, context),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.function.does == Does::Finds {
            find_equals(&mut args)?;
        }
        match self.name() {
            "array_has_all" => self.invoke_as_set(args, true),
            "array_has_any" => self.invoke_as_set(args, false),
            "array_remove_all" => self.invoke_removing(args),
            "array_distinct" => self.invoke_distinct(args),
            _ => self.invoke_within(args),
        }
    }
}

impl OfElements {
    fn invoke_within(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for value in &mut args.args {
            if let ColumnarValue::Array(lists) = value {
                *lists = without_hidden(lists)?;
            }
        }
        self.inner.invoke_with_args(args)
    }

    /// Removes NULLs where the element is one, too.
    fn invoke_removing(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, of) = (args.number_rows, args.return_field.data_type().clone());
        let [lists, sought] = args.args.as_slice() else { return self.invoke_within(args) };
        let sought = sought.to_array(rows)?;
        if has_equals(sought.data_type()) && element(&lists.data_type()) == sought.data_type() {
            let lists = lists.to_array(rows)?;
            let lists = cast(&lists, &wide(lists.data_type()))?;
            let lists = lists.as_list::<i64>();
            let (keys, sought) = (nested_keys(lists.values())?, nested_keys(&sought)?);
            let removed = kept(lists, |row, place| key_at(&keys, place) != key_at(&sought, row))?;
            return Ok(ColumnarValue::Array(cast(&removed, &of)?));
        }
        let Some(nulls) = sought.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
            return self.invoke_within(args);
        };
        let lists = lists.to_array(rows)?;
        if lists.data_type().is_null() {
            return self.invoke_within(args);
        }
        let lists = cast(&lists, &wide(lists.data_type()))?;
        let (compact, _) = without_nulls(lists.as_list::<i64>())?;
        let compact = cast(&compact, &of)?;
        let removed = cast(&self.invoke_within(args)?.into_array(rows)?, &of)?;
        let is_some = BooleanArray::new(nulls.inner().clone(), None);
        Ok(ColumnarValue::Array(zip(&is_some, &removed, &compact)?))
    }

    /// Keeps the first one of elements that are equal and not the same.
    fn invoke_distinct(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [lists] = args.args.as_slice() else { return self.inner.invoke_with_args(args) };
        if !has_other_equals(element(&lists.data_type())) {
            return self.inner.invoke_with_args(args);
        }
        let lists = lists.to_array(args.number_rows)?;
        let lists = cast(&lists, &wide(lists.data_type()))?;
        let lists = lists.as_list::<i64>();
        let keys = nested_keys(lists.values())?;
        let (mut list, mut seen) = (0, HashSet::new());
        let distinct = kept(lists, |row, place| {
            if row != list {
                list = row;
                seen.clear();
            }
            seen.insert(key_at(&keys, place))
        })?;
        Ok(ColumnarValue::Array(cast(&distinct, args.return_field.data_type())?))
    }

    fn invoke_as_set(&self, mut args: ScalarFunctionArgs, all: bool) -> Result<ColumnarValue> {
        let lists = ColumnarValue::values_to_arrays(&args.args)?;
        let [within, sought] = lists.as_slice() else { return self.inner.invoke_with_args(args) };
        if within.data_type().is_string() && sought.data_type().is_string() {
            return json_includes(within, sought);
        }
        if within.data_type().is_null() || sought.data_type().is_null() {
            return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None)));
        }
        let sought = cast(sought, &wide(sought.data_type()))?;
        let (sought, has_null) = without_nulls(sought.as_list::<i64>())?;
        let within = cast(within, &wide(within.data_type()))?;
        let known = NullBuffer::union(within.logical_nulls().as_ref(), sought.logical_nulls().as_ref());
        args.arg_fields = [within.data_type(), sought.data_type()]
            .map(|of| Arc::new(Field::new("", of.clone(), true)))
            .to_vec();
        args.args = vec![ColumnarValue::Array(within), ColumnarValue::Array(Arc::new(sought))];
        args.number_rows = has_null.len();
        let found = self.inner.invoke_with_args(args)?.into_array(has_null.len())?;
        let found = found
            .as_boolean()
            .iter()
            .zip(has_null)
            .map(|(found, has_null)| found.unwrap_or_default() && !(all && has_null));
        let found = BooleanBuffer::from_iter(found);
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(found, known))))
    }
}

/// A NULL without a type beside lists is one of them.
fn of_lists(types: &[DataType]) -> Vec<DataType> {
    let list = types.iter().find(|of| of.is_list());
    let of_list = |of: &DataType| list.filter(|_| of.is_null()).unwrap_or(of).clone();
    types.iter().map(of_list).collect()
}

/// Makes elements that are equal the same: 0.0 and -0.0, and intervals of one length.
fn find_equals(args: &mut ScalarFunctionArgs) -> Result<()> {
    const LIST_AND_SOUGHT: usize = 2;
    if !args.args.iter().take(LIST_AND_SOUGHT).any(|value| has_equals(element(&value.data_type()))) {
        return Ok(());
    }
    for (value, field) in args.args.iter_mut().zip(&mut args.arg_fields).take(LIST_AND_SOUGHT) {
        *value = match value {
            ColumnarValue::Array(values) => ColumnarValue::Array(comparable(values)?),
            ColumnarValue::Scalar(one) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&comparable(&one.to_array()?)?, 0)?)
            }
        };
        *field = Arc::new(field.as_ref().clone().with_data_type(value.data_type()));
    }
    Ok(())
}

/// Whether JSON includes other JSON.
fn json_includes(within: &ArrayRef, sought: &ArrayRef) -> Result<ColumnarValue> {
    let texts = |values: &ArrayRef| cast(values, &DataType::LargeUtf8);
    let (within, sought) = (texts(within)?, texts(sought)?);
    let is_included = |(within, sought): (Option<&str>, Option<&str>)| {
        let (Some(within), Some(sought)) = (within, sought) else { return Ok(None) };
        check_json_text(within).and_then(|()| check_json_text(sought)).map_err(external)?;
        Ok(Some(includes(within, sought)))
    };
    let found = within.as_string::<i64>().iter().zip(sought.as_string::<i64>()).map(is_included);
    Ok(ColumnarValue::Array(Arc::new(found.collect::<Result<BooleanArray>>()?)))
}

/// Lists of which nothing lies under a NULL: DataFusion's functions take what does for its
/// elements.
fn without_hidden(lists: &ArrayRef) -> Result<ArrayRef> {
    let is_list = matches!(lists.data_type(), DataType::List(_) | DataType::LargeList(_));
    if !is_list || lists.null_count() == 0 {
        return Ok(lists.clone());
    }
    let rows = u64::try_from(lists.len()).unwrap_or_default();
    let rows: UInt64Array = (0..rows).map(|row| lists.is_valid(row as usize).then_some(row)).collect();
    Ok(take(lists, &rows, None)?)
}

fn wide(of: &DataType) -> DataType {
    match of {
        DataType::List(field) | DataType::FixedSizeList(field, _) => DataType::LargeList(field.clone()),
        other => other.clone(),
    }
}

/// Lists without the NULLs among their elements, and which of them had some.
fn without_nulls(lists: &LargeListArray) -> Result<(LargeListArray, Vec<bool>)> {
    let compact = kept(lists, |_, place| lists.values().is_valid(place))?;
    let is_shorter = |row: usize| lists.is_valid(row) && compact.value_length(row) != lists.value_length(row);
    let has_null = (0..lists.len()).map(is_shorter).collect();
    Ok((compact, has_null))
}

/// Lists of those elements that a function keeps, which is told of the list and the element's place.
fn kept(lists: &LargeListArray, mut keeps: impl FnMut(usize, usize) -> bool) -> Result<LargeListArray> {
    let DataType::LargeList(field) = lists.data_type() else {
        return Err(internal_datafusion_err!("a list was expected"));
    };
    let (mut lengths, mut places) = (Vec::with_capacity(lists.len()), Vec::new());
    for row in 0..lists.len() {
        let range = lists.value_offsets()[row]..lists.value_offsets()[row + 1];
        let range = if lists.is_valid(row) { range } else { 0..0 };
        let before = places.len();
        places.extend(range.filter(|place| keeps(row, *place as usize)));
        lengths.push(places.len() - before);
    }
    let elements = take(lists.values(), &Int64Array::from(places), None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(LargeListArray::try_new(field.clone(), offsets, elements, lists.nulls().cloned())?)
}

fn key_at(keys: &LargeBinaryArray, place: usize) -> Option<&[u8]> {
    keys.is_valid(place).then(|| keys.value(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_table_have_the_names_of_datafusions() {
        let context = SessionContext::new();
        for function in &FUNCTIONS {
            assert_eq!(context.udf(function.name).unwrap().name(), function.name);
        }
    }

    #[test]
    fn functions_that_choose_elements_give_a_list_of_the_first_ones() {
        for name in ["array_distinct", "array_except", "array_remove", "array_replace_n"] {
            assert!(chooses_elements(name), "{name}");
        }
        for name in ["array_append", "array_concat", "array_has", "array_position", "array_sort", "upper"] {
            assert!(!chooses_elements(name), "{name}");
        }
    }
}
