//! One element of each list, as the aggregate of its elements gives it: `list_first(l)`, `list_last(l)`,
//! `list_any_value(l)`.

use crate::arguments::refused;
use crate::builtin::of_list::other_names;
use arrow::array::{Array, AsArray, LargeListArray, UInt64Array, new_null_array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_error::type_name::type_name;
use std::sync::Arc;

const FUNCTIONS: [(&str, Which); 3] =
    [("list_first", Which::First), ("list_last", Which::Last), ("list_any_value", Which::Any)];

pub(super) fn register(context: &SessionContext) {
    for (name, which) in FUNCTIONS {
        let signature = Signature::any(1, Volatility::Immutable);
        let aliases = context.udf(name).map_or_else(|_| Vec::new(), |known| other_names(&known, name));
        context.register_udf(ScalarUDF::from(Element { name, aliases, which, signature }));
    }
}

/// Which element it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Which {
    First,
    Last,
    /// The first one that is not NULL.
    Any,
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Element {
    name: &'static str,
    aliases: Vec<String>,
    which: Which,
    signature: Signature,
}

impl Element {
    fn gives(&self, of: &DataType) -> Result<Field> {
        match of {
            DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
                Ok(field.as_ref().clone().with_name(self.name).with_nullable(true))
            }
            DataType::Null => Ok(Field::new(self.name, DataType::Null, true)),
            other => Err(refused(format!("{}() is of a list, not of {}", self.name, type_name(other)))),
        }
    }

    /// Returns the place of the element among those of all lists.
    fn place(&self, lists: &LargeListArray, is_some: impl Fn(usize) -> bool, row: usize) -> Option<u64> {
        if lists.is_null(row) {
            return None;
        }
        let mut places = lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
        let place = match self.which {
            Which::First => places.next(),
            Which::Last => places.next_back(),
            Which::Any => places.find(|place| is_some(*place)),
        };
        place.map(|place| place as u64)
    }
}

impl ScalarUDFImpl for Element {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let of = types.first().ok_or_else(|| refused(format!("{}() takes a list", self.name)))?;
        Ok(self.gives(of)?.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let of = args.arg_fields.first().ok_or_else(|| refused(format!("{}() takes a list", self.name)))?;
        Ok(Arc::new(self.gives(of.data_type())?))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [given] = args.args.as_slice() else {
            return Err(refused(format!("{}() takes a list", self.name)));
        };
        let is_scalar = matches!(given, ColumnarValue::Scalar(_));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let found = match given.data_type() {
            DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
                let lists = cast(&given.to_array(rows)?, &DataType::LargeList(field))?;
                let lists = lists.as_list::<i64>();
                let nulls = lists.values().logical_nulls();
                let is_some = |place: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(place));
                let places: UInt64Array = (0..rows).map(|row| self.place(lists, is_some, row)).collect();
                take(lists.values(), &places, None)?
            }
            _ => new_null_array(args.return_field.data_type(), rows),
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}
