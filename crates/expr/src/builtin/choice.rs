//! Functions of DataFusion with another meaning for arguments of some types: `length` of a list or a
//! BLOB, `to_date` by a pattern.

use crate::builtin::described;
use crate::builtin::matches::REPLACED_FROM;
use crate::nested_type;
use crate::searching::searching;
use crate::wrapped::{as_within, equal_by};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::functions::core::overlay;
use datafusion::functions::unicode::substr;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;
use std::sync::{Arc, LazyLock};

/// Whether the other function is meant.
type Choice = fn(&[DataType]) -> bool;

/// The functions, those that are meant instead, and when.
const CHOICES: [(&str, &str, Choice); 17] = [
    ("to_timestamp", "moment_of_seconds", is_one_number),
    ("character_length", "array_length", is_list),
    ("to_date", "date_by_pattern", has_pattern),
    ("round", "round_double", is_double),
    ("round", "round_even", is_one_double),
    ("to_hex", "hex_of_integer", is_short_integer),
    ("array_sum", "array_sum_exact", is_list_of_exact),
    ("substr", "substring_of_pattern", are_two_texts),
    ("substr", PART_OF_BLOB, is_blob),
    ("strpos", PLACE_IN_BLOB, is_blob),
    ("character_length", "length_of_blob", is_blob),
    ("reverse", "reversed_blob", is_blob),
    ("btrim", "trimmed_blob", is_blob),
    ("ltrim", "left_trimmed_blob", is_blob),
    ("rtrim", "right_trimmed_blob", is_blob),
    ("overlay", OVERLAID_BLOB, is_blob),
    ("regexp_replace", REPLACED_FROM, has_start),
];

const PART_OF_BLOB: &str = "part_of_blob";
const PLACE_IN_BLOB: &str = "place_in_blob";
const OVERLAID_BLOB: &str = "overlaid_blob";

pub(super) fn register(context: &SessionContext) {
    for (name, other, is_other) in CHOICES {
        if let (Ok(inner), Ok(other)) = (context.udf(name), context.udf(other)) {
            context.register_udf(ScalarUDF::from(Chosen::new(inner, other, is_other)));
        }
    }
}

/// Returns `substr` as it is registered, for `substring(text FROM 2)` and `substr(text, 2)`: the parser knows
/// them, and the planner takes DataFusion's own for them.
pub(crate) fn substring() -> Option<Arc<ScalarUDF>> {
    static SUBSTRING: LazyLock<Option<Arc<ScalarUDF>>> = LazyLock::new(|| {
        let of_pattern = described("substring_of_pattern")?;
        let of_texts = Arc::new(ScalarUDF::from(Chosen::new(substr(), of_pattern, are_two_texts)));
        Some(Arc::new(ScalarUDF::from(Chosen::new(of_texts, described(PART_OF_BLOB)?, is_blob))))
    });
    SUBSTRING.clone()
}

/// Returns `strpos` as it is registered, for `position(a IN b)`.
pub(crate) fn position() -> Option<Arc<ScalarUDF>> {
    static POSITION: LazyLock<Option<Arc<ScalarUDF>>> = LazyLock::new(|| {
        let of_blob = described(PLACE_IN_BLOB)?;
        Some(Arc::new(ScalarUDF::from(Chosen::new(Arc::new(searching()), of_blob, is_blob))))
    });
    POSITION.clone()
}

/// Returns `overlay` as it is registered, for `overlay(a PLACING b FROM 2)`.
pub(crate) fn overlaid() -> Option<Arc<ScalarUDF>> {
    static OVERLAID: LazyLock<Option<Arc<ScalarUDF>>> = LazyLock::new(|| {
        let of_blob = described(OVERLAID_BLOB)?;
        Some(Arc::new(ScalarUDF::from(Chosen::new(overlay(), of_blob, is_blob))))
    });
    OVERLAID.clone()
}

fn is_blob(types: &[DataType]) -> bool {
    types.first().is_some_and(DataType::is_binary)
}

fn is_list(types: &[DataType]) -> bool {
    types.first().is_some_and(nested_type::is_list)
}

fn has_pattern(types: &[DataType]) -> bool {
    types.len() > 1
}

/// Says whether the fourth argument is where to begin, and no options.
fn has_start(types: &[DataType]) -> bool {
    types.get(3).is_some_and(DataType::is_integer)
}

fn are_two_texts(types: &[DataType]) -> bool {
    matches!(types, [of, pattern] if of.is_string() && pattern.is_string())
}

fn is_one_number(types: &[DataType]) -> bool {
    matches!(types, [of] if of.is_numeric())
}

fn is_double(types: &[DataType]) -> bool {
    types.first().is_some_and(|of| of.is_floating()) && types.len() == 2
}

fn is_one_double(types: &[DataType]) -> bool {
    matches!(types, [of] if of.is_floating())
}

fn is_short_integer(types: &[DataType]) -> bool {
    matches!(types, [DataType::Int8 | DataType::Int16 | DataType::Int32])
}

fn is_list_of_exact(types: &[DataType]) -> bool {
    match types.first() {
        Some(DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _)) => {
            of.data_type().is_integer() || of.data_type().is_decimal()
        }
        _ => false,
    }
}

/// Returns the types with BIGINT for shorter integers: `substr` takes no SMALLINT.
fn with_long_integers(types: &[DataType]) -> Vec<DataType> {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    let long = |of: &DataType| match of {
        Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 => Int64,
        other => other.clone(),
    };
    types.iter().map(long).collect()
}

#[derive(Debug)]
pub(crate) struct Chosen {
    inner: Arc<ScalarUDF>,
    other: Arc<ScalarUDF>,
    is_other: Choice,
    signature: Signature,
}

// The function decides when the other one is meant.
equal_by!(Chosen: inner);

impl Chosen {
    fn new(inner: Arc<ScalarUDF>, other: Arc<ScalarUDF>, is_other: Choice) -> Self {
        let signature = Signature::user_defined(inner.signature().volatility);
        Self { inner, other, is_other, signature }
    }

    fn meant(&self, types: &[DataType]) -> &ScalarUDF {
        if (self.is_other)(types) { &self.other } else { &self.inner }
    }

    fn coerced(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let field = |of: &DataType| Arc::new(arrow::datatypes::Field::new("", of.clone(), true));
        let fields: Vec<FieldRef> = types.iter().map(field).collect();
        let coerced = fields_with_udf(&fields, self.meant(types))?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }
}

impl ScalarUDFImpl for Chosen {
    as_within!(name, aliases);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.coerced(types).or_else(|error| self.coerced(&with_long_integers(types)).map_err(|_| error))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.meant(types).return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        self.meant(&types).return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let types = args.iter().map(|arg| context.get_data_type(arg)).collect::<Result<Vec<_>>>()?;
        match (self.is_other)(&types) {
            true => Ok(ExprSimplifyResult::Original(args)),
            false => self.inner.simplify(args, context),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        self.meant(&types).invoke_with_args(args)
    }
}
