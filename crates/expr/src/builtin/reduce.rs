//! `list_reduce(list, (a, b) -> …)`: the elements of a list, one after the other, become one value
//! of their type, or of that of a value to begin with, which may follow. The function may have the
//! place of the element as a third parameter.

use crate::arguments::refused;
use crate::cast::cast;
use crate::wanted::check_wanted;
use crate::work;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt64Array, new_null_array};
use arrow::compute::{interleave, take, take_arrays};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDF,
    HigherOrderUDFImpl, LambdaParametersProgress, ValueOrLambda, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use std::sync::Arc;

pub(super) fn register(context: &SessionContext) {
    let signature = HigherOrderSignature::user_defined(Volatility::Immutable);
    let aliases = ["array_reduce", "reduce"].map(String::from).to_vec();
    context.register_higher_order_function(Arc::new(HigherOrderUDF::new_from_impl(Reduce {
        aliases,
        signature,
    })));
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reduce {
    aliases: Vec<String>,
    signature: HigherOrderSignature,
}

impl Reduce {
    /// The field of a list's elements.
    fn element<L>(&self, list: Option<&ValueOrLambda<FieldRef, L>>) -> Result<FieldRef> {
        match list {
            Some(ValueOrLambda::Value(list)) => match list.data_type() {
                DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
                    Ok(Arc::new(field.as_ref().clone().with_nullable(true)))
                }
                other => Err(refused(format!("{}() is of a list, not of {}", self.name(), type_name(other)))),
            },
            _ => Err(refused(format!("{}() takes a list and a function", self.name()))),
        }
    }

    /// The field of the value that is made.
    fn made<L>(&self, args: &[ValueOrLambda<FieldRef, L>]) -> Result<FieldRef> {
        let element = self.element(args.first())?;
        let Some(ValueOrLambda::Value(start)) = args.get(2) else { return Ok(element) };
        let types = [element.data_type().clone(), start.data_type().clone()];
        Ok(match type_union_resolution(&types) {
            Some(common) if common == types[0] => element,
            Some(common) => Arc::new(Field::new("start", common, true)),
            None => {
                let (name, of, start) = (self.name(), type_name(&types[0]), type_name(&types[1]));
                return Err(refused(format!("{name}() of a list of {of} cannot begin with {start}")));
            }
        })
    }
}

impl HigherOrderUDFImpl for Reduce {
    fn name(&self) -> &str {
        "list_reduce"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if !matches!(types.len(), 1 | 2) {
            return Err(refused("list_reduce() takes a list, a function, and perhaps a value to begin with"));
        }
        let wide = |of: &DataType| match of {
            DataType::List(field) | DataType::FixedSizeList(field, _) => DataType::LargeList(field.clone()),
            DataType::Null => DataType::LargeList(Arc::new(Field::new_list_field(DataType::Null, true))),
            other => other.clone(),
        };
        Ok(types.iter().take(1).map(wide).chain(types.iter().skip(1).cloned()).collect())
    }

    fn lambda_parameters(
        &self,
        _: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let element = self.element(fields.first())?;
        let place = Arc::new(Field::new("place", DataType::Int64, true));
        Ok(LambdaParametersProgress::Complete(vec![vec![self.made(fields)?, element, place]]))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.made(args.arg_fields)
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let [ValueOrLambda::Value(lists), ValueOrLambda::Lambda(function), start @ ..] = args.args.as_slice()
        else {
            return Err(refused(format!("{}() takes a list and a function", self.name())));
        };
        let lists = lists.to_array(args.number_rows)?;
        let lists = lists.as_list::<i64>();
        let of = args.return_field.as_ref();
        let length = |row: usize| if lists.is_valid(row) { lists.value_length(row) } else { 0 };
        let start = match start.first() {
            Some(ValueOrLambda::Value(start)) => Some(cast(&start.to_array(args.number_rows)?, of, false)?),
            _ => None,
        };
        let has_start = start.is_some();
        let values = match start {
            Some(start) => start,
            None => cast(lists.values(), of, false)?,
        };
        let first = |row: usize| match has_start {
            true if lists.is_valid(row) => (1, row),
            false if length(row) > 0 => (1, lists.value_offsets()[row] as usize),
            _ => (0, 0),
        };
        let mut rows: Vec<usize> = (0..lists.len()).collect();
        let begin: Vec<(usize, usize)> = rows.iter().map(|row| first(*row)).collect();
        let nothing = new_null_array(of.data_type(), 1);
        // The values of these rows so far, and those of rows whose lists have ended: no value is kept that
        // another one stands for.
        let mut made = interleave(&[nothing.as_ref(), values.as_ref()], &begin)?;
        let mut ended: Vec<ArrayRef> = Vec::new();
        let mut found: Vec<(usize, usize)> = vec![(0, 0); lists.len()];
        for step in i64::from(!has_start).. {
            check_wanted()?;
            work::check().map_err(external)?;
            let (on, off): (Vec<usize>, Vec<usize>) =
                (0..rows.len()).partition(|place| length(rows[*place]) > step);
            if !off.is_empty() {
                for (kept, place) in off.iter().enumerate() {
                    found[rows[*place]] = (ended.len(), kept);
                }
                ended.push(taken(&made, &off)?);
                made = taken(&made, &on)?;
                rows = on.into_iter().map(|place| rows[place]).collect();
            }
            if rows.is_empty() {
                break;
            }
            let places = rows.iter().map(|row| (lists.value_offsets()[*row] + step) as u64);
            let next = take(lists.values(), &UInt64Array::from_iter_values(places), None)?;
            let place = || Ok(Arc::new(Int64Array::from(vec![step + 1; rows.len()])) as ArrayRef);
            let value =
                function.evaluate(&[&|| Ok(made.clone()), &|| Ok(next.clone()), &place], |around| {
                    let rows = UInt64Array::from_iter_values(rows.iter().map(|row| *row as u64));
                    Ok(take_arrays(around, &rows, None)?)
                })?;
            made = cast(&value.into_array(rows.len())?, of, false)?;
        }
        let ended: Vec<&dyn Array> = ended.iter().map(AsRef::as_ref).collect();
        match ended.is_empty() {
            true => Ok(ColumnarValue::Array(made)),
            false => Ok(ColumnarValue::Array(interleave(&ended, &found)?)),
        }
    }
}

/// Returns the values in some places.
fn taken(values: &ArrayRef, places: &[usize]) -> Result<ArrayRef> {
    let places = UInt64Array::from_iter_values(places.iter().map(|place| *place as u64));
    Ok(take(values, &places, None)?)
}
