//! `list_transform` and `list_filter` with functions of an element and, as in DuckDB, of its place,
//! which DataFusion's do not know.

use crate::arguments::refused;
use crate::meter::Meter;
use crate::sizes::Argument;
use crate::wrapped::equal_by;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, LargeListArray, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, filter, take_arrays};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDF,
    HigherOrderUDFImpl, LambdaParametersProgress, ValueOrLambda, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use hypostyle_types::{Error, ErrorKind};
use std::sync::Arc;

pub(super) fn register(context: &SessionContext, meter: &Arc<Meter>) {
    let functions: [(What, &[&str]); 2] = [
        (What::Transformed, &["list_transform", "list_apply", "array_apply", "apply", "transform"]),
        (What::Filtered, &["list_filter", "filter"]),
    ];
    for (what, aliases) in functions {
        let kinds = vec![ValueOrLambda::Value(()), ValueOrLambda::Lambda(())];
        let signature = HigherOrderSignature::exact(kinds, Volatility::Immutable);
        let aliases = aliases.iter().map(ToString::to_string).collect();
        let function = HigherOrderUDF::new_from_impl(Each { what, aliases, signature, meter: meter.clone() });
        context.register_higher_order_function(Arc::new(function));
    }
}

/// What becomes of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Transformed,
    Filtered,
}

/// A function of a list, and of a function of its elements.
#[derive(Debug)]
pub(crate) struct Each {
    what: What,
    aliases: Vec<String>,
    signature: HigherOrderSignature,
    meter: Arc<Meter>,
}

// The meter belongs to the session.
equal_by!(Each: what);

impl Each {
    fn element<L>(&self, list: Option<&ValueOrLambda<FieldRef, L>>) -> Result<FieldRef> {
        match list {
            Some(ValueOrLambda::Value(list)) => match list.data_type() {
                DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
                    Ok(field.clone())
                }
                other => Err(refused(format!("{}() is of a list, not of {}", self.name(), type_name(other)))),
            },
            _ => Err(refused(format!("{}() takes a list and a function", self.name()))),
        }
    }

    /// Returns the results for as many elements. One that is the same for all of them was computed once,
    /// whatever its size, and is repeated here.
    fn results(&self, found: ColumnarValue, elements: usize) -> Result<ArrayRef> {
        if let ColumnarValue::Scalar(_) = &found {
            let (bytes, limit) = (Argument::of(&found, elements)?.total(), self.meter.batch_limit());
            if bytes > limit {
                let message = format!(
                    "{}() would give {bytes} bytes for {elements} elements at once, and memory_limit lets it give {limit}; \
                     raise memory_limit",
                    self.name()
                );
                return Err(external(Error::new(ErrorKind::OutOfMemory, message)));
            }
            self.meter.check_room(bytes, self.name()).map_err(external)?;
        }
        found.into_array(elements)
    }
}

impl HigherOrderUDFImpl for Each {
    fn name(&self) -> &str {
        match self.what {
            What::Transformed => "array_transform",
            What::Filtered => "array_filter",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let of_one = |of: &DataType| match of {
            DataType::FixedSizeList(field, _) => DataType::LargeList(field.clone()),
            DataType::Null => DataType::new_list(DataType::Null, true),
            other => other.clone(),
        };
        Ok(types.iter().map(of_one).collect())
    }

    fn lambda_parameters(
        &self,
        _: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let place = Arc::new(Field::new("place", DataType::Int64, false));
        Ok(LambdaParametersProgress::Complete(vec![vec![self.element(fields.first())?, place]]))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs<'_>) -> Result<FieldRef> {
        let own = self.element(args.arg_fields.first())?;
        let (Some(ValueOrLambda::Value(list)), Some(ValueOrLambda::Lambda(function))) =
            (args.arg_fields.first(), args.arg_fields.get(1))
        else {
            return Err(refused(format!("{}() takes a list and a function", self.name())));
        };
        let element = match self.what {
            What::Filtered => own,
            What::Transformed => {
                let of = Field::new_list_field(function.data_type().clone(), function.is_nullable());
                Arc::new(of.with_metadata(function.metadata().clone()))
            }
        };
        let gives = match list.data_type() {
            DataType::List(_) => DataType::List(element),
            _ => DataType::LargeList(element),
        };
        Ok(Arc::new(Field::new("", gives, list.is_nullable())))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let [ValueOrLambda::Value(lists), ValueOrLambda::Lambda(function)] = args.args.as_slice() else {
            return Err(refused(format!("{}() takes a list and a function", self.name())));
        };
        let lists = lists.to_array(args.number_rows)?;
        let (lists, rows, places) = elements(&lists)?;
        let values = lists.values().clone();
        let found = function
            .evaluate(&[&|| Ok(values.clone()), &|| Ok(Arc::new(places.clone()) as ArrayRef)], |around| {
                Ok(take_arrays(around, &rows, None)?)
            })?;
        let found = self.results(found, values.len())?;
        let (DataType::List(field) | DataType::LargeList(field)) = args.return_type() else {
            return Err(refused(format!("{}() gives a list", self.name())));
        };
        let made = match self.what {
            What::Transformed => LargeListArray::try_new(
                field.clone(),
                lists.offsets().clone(),
                cast(&found, field.data_type())?,
                lists.nulls().cloned(),
            )?,
            What::Filtered => kept(&lists, field, &found)?,
        };
        Ok(ColumnarValue::Array(cast(&(Arc::new(made) as ArrayRef), args.return_type())?))
    }
}

/// Returns lists without anything that lies under a NULL or before the first element, and of each
/// element its row, and its place in the list, which begins with 1.
fn elements(lists: &ArrayRef) -> Result<(LargeListArray, UInt64Array, Int64Array)> {
    let (DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _)) =
        lists.data_type()
    else {
        return Err(refused("a list was expected"));
    };
    let wide = cast(lists, &DataType::LargeList(field.clone()))?;
    let wide = wide.as_list::<i64>();
    let length = |row: usize| if wide.is_valid(row) { wide.value_length(row) } else { 0 };
    let row_of = |row: usize| std::iter::repeat_n(row as u64, length(row) as usize);
    let rows: UInt64Array = (0..wide.len()).flat_map(row_of).collect();
    let places: Int64Array = (0..wide.len()).flat_map(|row| 1..=length(row)).collect();
    let range = |row: usize| (0..length(row)).map(move |at| (wide.value_offsets()[row] + at) as u64);
    let taken: UInt64Array = (0..wide.len()).flat_map(range).collect();
    let values = arrow::compute::take(wide.values(), &taken, None)?;
    let offsets = OffsetBuffer::from_lengths((0..wide.len()).map(|row| length(row) as usize));
    Ok((LargeListArray::try_new(field.clone(), offsets, values, wide.nulls().cloned())?, rows, places))
}

fn kept(lists: &LargeListArray, field: &FieldRef, wanted: &ArrayRef) -> Result<LargeListArray> {
    let wanted = cast(wanted, &DataType::Boolean)?;
    let wanted: BooleanArray =
        wanted.as_boolean().iter().map(|wanted| Some(wanted.unwrap_or_default())).collect();
    let length = |row: usize| {
        let range = lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
        range.filter(|at| wanted.value(*at)).count()
    };
    let offsets = OffsetBuffer::from_lengths((0..lists.len()).map(length));
    let values = filter(lists.values(), &wanted)?;
    Ok(LargeListArray::try_new(field.clone(), offsets, values, lists.nulls().cloned())?)
}
