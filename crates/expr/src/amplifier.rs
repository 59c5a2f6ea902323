//! Functions whose results can be much larger than their arguments, or that compute for long. The
//! size and the cost of a call are known before it is made.
//!
//! DataFusion's functions allocate any result: `repeat('x', 1000000000)` of 8192 rows is 8 TB. The
//! functions of [`FUNCTIONS`] are wrapped wherever a plan has them. A value has no more than
//! [`Meter::value_limit`] bytes (54000). The result for a batch of rows has no more than
//! [`Meter::batch_limit`] bytes, and there must be memory for it (53200). A function whose cost
//! depends on more than the number of rows runs in slices of rows, and interrupts are checked
//! between them.

use crate::at_once;
use crate::builtin::{LIKE_EACH, SLEEP, described};
use crate::impl_portable;
use crate::matching;
use crate::meter::{Meter, SMALL_BYTES};
use crate::pattern::{CLASS_STATES, ESCAPE, SHORT_PATTERN_BYTES, is_short, states_of};
use crate::portable::{Decoder, Encoded, Functions, Portable, malformed};
use crate::room::asking;
use crate::sizes::{Argument, ELEMENT_BYTES};
use crate::walk::{map_expressions, schema_below};
use crate::wrapped::{as_within, equal_by};
use arrow::array::{Array, ArrayRef, AsArray, LargeStringArray};
use arrow::compute::kernels::concat_elements::concat_elements_utf8_many;
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ExprSchema, ScalarValue, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::expr::{BinaryExpr, Cast, Like, ScalarFunction};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, StructFieldMapping, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr as PhysicalBinary, Column, Literal};
use datafusion::prelude::SessionContext;
use hypostyle_error::external;
use hypostyle_types::{Error, ErrorKind};
use std::sync::{Arc, LazyLock};

/// The work that is done at once, in units of [`Cost`].
const SLICE_COST: u64 = 16 << 20;

/// The largest cost of one row whose computation nothing can stop: less than a second.
const DISTANCE_MAX: u64 = 1 << 28;

/// The same of two lists, whose elements are compared faster.
const MEMBERS_MAX: u64 = 1 << 30;

/// The text that a regular expression is matched with.
const MATCHED_BYTES_MAX: u64 = 16 << 20;

/// The product of a text and of the pattern that it is matched with, in bytes: in the worst case
/// the steps that it takes.
const MATCHED_STEPS_MAX: u64 = 1 << 31;

/// The product of a text, in bytes, and of the states that repetitions make: each state takes tens of
/// nanoseconds for each byte.
const REPEATED_STEPS_MAX: u64 = 1 << 28;

/// The cost of such a step.
const STATE_COST: u64 = 8;

/// The cost of compiling a regular expression.
const COMPILE_COST: u64 = 2 << 20;

/// The cost of a pattern of LIKE, which seldom is as complex.
const LIKE_COST: u64 = 128 << 10;
const LIKE_BYTE_COST: u64 = 4 << 10;

/// The size of a function's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Output {
    /// The result is as large as all arguments together.
    Joined,
    /// The first argument stands between all others.
    Separated,
    /// The first argument, as often as the second says.
    Repeated,
    /// The result has as many characters as the second argument says.
    Padded,
    /// The result has as many elements as the second argument says, each as large as the third.
    Resized,
    /// Elements from the first argument to the second.
    Series,
    /// The first argument with the third in the place of the second.
    Replaced,
    /// The same by a regular expression, whose groups may be in the third.
    ReplacedByPattern,
    /// A list's elements as text, with the second argument between them.
    Listed,
    /// The third argument in the place of elements.
    ElementsReplaced,
    /// The first argument cut into elements, where the second is.
    Cut,
    /// The result is this many times as large as the first argument.
    Times(u64),
    /// The second argument, a format, each of whose characters may become as many.
    Formatted(u64),
    /// The first argument with the others in it, each perhaps more than once, quoted, or padded.
    Composed,
    /// There are as many values as rows.
    Small,
}

/// The additional cost of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Cost {
    Output,
    /// The product of two lengths.
    Distance,
    /// The same: each letter of the first text is looked for among those of the second.
    Letters,
    /// The product of the lengths of two lists.
    Members,
    /// A pattern is compiled, and matched with the first argument.
    Pattern,
    /// The patterns of LIKE in the first argument, each of which is compiled.
    Patterns,
}

use Output::*;

/// The functions, by DataFusion's names.
const FUNCTIONS: &[(&str, Output, Cost)] = &[
    ("array_append", Joined, Cost::Output),
    ("array_concat", Joined, Cost::Output),
    ("array_has_all", Small, Cost::Members),
    ("array_has_any", Small, Cost::Members),
    ("array_prepend", Joined, Cost::Output),
    ("array_repeat", Repeated, Cost::Output),
    ("array_replace", ElementsReplaced, Cost::Output),
    ("array_replace_all", ElementsReplaced, Cost::Output),
    ("array_replace_n", ElementsReplaced, Cost::Output),
    ("array_resize", Resized, Cost::Output),
    ("array_to_string", Listed, Cost::Output),
    ("arrays_zip", Joined, Cost::Output),
    ("concat", Joined, Cost::Output),
    ("concat_ws", Separated, Cost::Output),
    ("bin", Times(8), Cost::Output),
    ("btrim", Small, Cost::Letters),
    ("damerau_levenshtein", Small, Cost::Distance),
    ("encode", Times(4), Cost::Output),
    ("format", Composed, Cost::Output),
    ("generate_series", Series, Cost::Output),
    ("hex", Times(2), Cost::Output),
    ("initcap", Times(3), Cost::Output),
    ("jaro_similarity", Small, Cost::Distance),
    ("jaro_winkler_similarity", Small, Cost::Distance),
    ("levenshtein", Small, Cost::Distance),
    ("like_list", Small, Cost::Patterns),
    (LIKE_EACH, Small, Cost::Patterns),
    ("list_string_agg", Listed, Cost::Output),
    ("lower", Times(3), Cost::Output),
    ("lpad", Padded, Cost::Output),
    ("ltrim", Small, Cost::Letters),
    ("make_array", Joined, Cost::Output),
    ("map_concat", Joined, Cost::Output),
    ("nfc_normalize", Times(3), Cost::Output),
    ("normalize", Times(11), Cost::Output),
    ("overlay", Joined, Cost::Output),
    ("printf", Composed, Cost::Output),
    ("range", Series, Cost::Output),
    ("regexp_count", Small, Cost::Pattern),
    ("regexp_extract_all", Cut, Cost::Pattern),
    ("regexp_full_match", Small, Cost::Pattern),
    ("regexp_instr", Small, Cost::Pattern),
    ("regexp_like", Small, Cost::Pattern),
    ("regexp_match", Times(1), Cost::Pattern),
    ("regexp_replace", ReplacedByPattern, Cost::Pattern),
    ("regexp_replace_from", ReplacedByPattern, Cost::Pattern),
    ("regexp_split_to_array", Cut, Cost::Pattern),
    ("regexp_substr", Times(1), Cost::Pattern),
    ("repeat", Repeated, Cost::Output),
    ("replace", Replaced, Cost::Output),
    ("rpad", Padded, Cost::Output),
    ("rtrim", Small, Cost::Letters),
    ("show_trgm", Times(32), Cost::Output),
    ("strftime", Formatted(16), Cost::Output),
    ("string_split", Cut, Cost::Output),
    ("string_to_array", Cut, Cost::Output),
    ("strip_accents", Times(3), Cost::Output),
    ("substring_of_pattern", Times(1), Cost::Pattern),
    ("to_char", Formatted(16), Cost::Output),
    ("translate", Times(4), Cost::Output),
    ("upper", Times(3), Cost::Output),
    ("url_encode", Times(3), Cost::Output),
    (JOIN, Joined, Cost::Output),
];

/// Puts the wrapped functions into the places of those that there are.
pub(crate) fn register(context: &SessionContext, meter: &Arc<Meter>) {
    for (name, ..) in FUNCTIONS {
        if let Ok(function) = context.udf(name)
            && let Some(bounded) = Bounded::over(&function, meter)
        {
            context.register_udf(ScalarUDF::from(bounded));
        }
    }
}

/// Wraps the functions that planning puts into plans by itself, and takes a function for `||` of
/// texts.
#[derive(Debug)]
pub struct BoundFunctions(pub Arc<Meter>);

impl AnalyzerRule for BoundFunctions {
    fn name(&self) -> &str {
        "bound_functions"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            let schema = schema_below(&plan);
            map_expressions(plan, |expr| {
                let function = as_function(expr, &*schema)?;
                let bounded = bounded(function.data, &self.0)?;
                Ok(Transformed::new_transformed(bounded.data, function.transformed || bounded.transformed))
            })
        })?;
        Ok(plan.data)
    }
}

/// Returns the operators whose results or steps may be many as functions: `||` of texts or bytes,
/// regular expressions, and LIKE with patterns that are not the same for all rows.
fn as_function(expr: Expr, schema: &dyn ExprSchema) -> Result<Transformed<Expr>> {
    use datafusion::logical_expr::ExprSchemable;
    if let Expr::Like(like) = expr {
        let is_of_texts = [&like.expr, &like.pattern]
            .iter()
            .all(|side| side.get_type(schema).is_ok_and(|of| of.is_string()));
        let is_plain = matches!(like.escape_char, None | Some(ESCAPE));
        return Ok(match like.pattern.any_column_refs() && is_plain && is_of_texts {
            true => like_each(like),
            false => Transformed::no(Expr::Like(like)),
        });
    }
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let is_match = matches!(
        op,
        Operator::RegexMatch | Operator::RegexNotMatch | Operator::RegexIMatch | Operator::RegexNotIMatch
    );
    let is_of_bytes = |of: &DataType| of.is_string() || of.is_binary() || of.is_null();
    // Types are computed only where they decide, because each takes the time of the whole
    // expression.
    if op == Operator::StringConcat
        && [&left, &right].iter().all(|side| side.get_type(schema).is_ok_and(|of| is_of_bytes(&of)))
    {
        let call = ScalarFunction::new_udf(TEXTS.clone(), vec![*left, *right]);
        return Ok(Transformed::yes(Expr::ScalarFunction(call)));
    }
    if is_match
        && !is_short_pattern(&right)
        && let (Ok(text), Ok(pattern)) = (left.get_type(schema), right.get_type(schema))
        && text.is_string()
        && text == pattern
    {
        return Ok(Transformed::yes(matched(*left, op, *right, &text)?));
    }
    Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })))
}

/// Returns LIKE as a function, which is computed for few rows at a time.
fn like_each(like: Like) -> Transformed<Expr> {
    let Some(function) = described(LIKE_EACH) else { return Transformed::no(Expr::Like(like)) };
    let text = |of: Box<Expr>| Expr::Cast(Cast::new(of, DataType::Utf8));
    let asked = match (like.negated, like.case_insensitive) {
        (false, false) => "like",
        (false, true) => "ilike",
        (true, false) => "not like",
        (true, true) => "not ilike",
    };
    let asked = Expr::Literal(ScalarValue::from(asked), None);
    Transformed::yes(function.call(vec![text(like.pattern), text(like.expr), asked]))
}

fn is_short_pattern(pattern: &Expr) -> bool {
    matches!(pattern, Expr::Literal(value, _)
        if value.try_as_str().is_some_and(|text| text.is_none_or(is_short)))
}

/// Returns a match with a regular expression as a function, which is held to limits.
fn matched(text: Expr, op: Operator, pattern: Expr, of: &DataType) -> Result<Expr> {
    let mut args = vec![text, pattern];
    if matches!(op, Operator::RegexIMatch | Operator::RegexNotIMatch) {
        args.push(Expr::Literal(ScalarValue::from("i").cast_to(of)?, None));
    }
    let call =
        Expr::ScalarFunction(ScalarFunction::new_udf(datafusion::functions::regex::regexp_like(), args));
    let is_negated = matches!(op, Operator::RegexNotMatch | Operator::RegexNotIMatch);
    Ok(if is_negated { Expr::Not(Box::new(call)) } else { call })
}

fn bounded(expr: Expr, meter: &Arc<Meter>) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::ScalarFunction(mut call) => match Bounded::over(&call.func, meter) {
            Some(bounded) => {
                call.func = Arc::new(ScalarUDF::from(bounded));
                Transformed::yes(Expr::ScalarFunction(call))
            }
            None => Transformed::no(Expr::ScalarFunction(call)),
        },
        other => asking(other, meter),
    })
}

/// Says whether an expression calls a function that may take so long that somebody should be able
/// to stop it.
pub fn calls_slow_function(expr: &Expr) -> bool {
    let is_slow = |name: &str| {
        name == SLEEP || FUNCTIONS.iter().any(|(known, _, cost)| *known == name && cost.is_slow())
    };
    let calls =
        expr.exists(|expr| Ok(matches!(expr, Expr::ScalarFunction(call) if is_slow(call.func.name()))));
    calls.is_ok_and(|calls| calls)
}

/// A function of [`FUNCTIONS`].
#[derive(Debug)]
pub(crate) struct Bounded {
    inner: Arc<ScalarUDF>,
    meter: Arc<Meter>,
    output: Output,
    cost: Cost,
}

impl Bounded {
    /// Returns `None` for other functions, and for one that is wrapped already.
    fn over(function: &Arc<ScalarUDF>, meter: &Arc<Meter>) -> Option<Self> {
        let (_, output, cost) = *FUNCTIONS.iter().find(|(name, ..)| *name == function.name())?;
        let is_bounded = (function.inner().as_ref() as &dyn std::any::Any).is::<Self>();
        (!is_bounded).then(|| Self { inner: function.clone(), meter: meter.clone(), output, cost })
    }

    /// Checks that the memory for the rows is within the limits and available.
    fn check_output(&self, arguments: &[Argument], rows: usize) -> Result<()> {
        // A result of constants is computed once.
        let rows = if arguments.iter().all(Argument::is_scalar) { rows.min(1) } else { rows };
        if self.output.at_most(arguments, rows) < SMALL_BYTES {
            return Ok(());
        }
        let limit = self.meter.value_limit();
        let mut total: u64 = 0;
        for row in 0..rows {
            let mut bytes = self.output.of_row(arguments, row);
            if bytes > limit {
                bytes = self.output.counted(arguments, row).unwrap_or(bytes);
            }
            if bytes > limit {
                let name = self.name();
                return Err(limited(format!(
                    "{name}() would give a value of {bytes} bytes, and one may have {limit} (an eighth of memory_limit, and no \
                     more than 1 GiB)"
                )));
            }
            total = total.saturating_add(bytes);
        }
        if rows > 1 && !at_once::take(total) {
            return Err(limited(format!("{}() is computed for fewer rows at once", self.name())));
        }
        if total > self.meter.batch_limit() {
            let message = format!(
                "{}() would give {total} bytes for {rows} rows at once, and memory_limit lets it give {}; raise memory_limit, or set \
                 a smaller batch_size",
                self.name(),
                self.meter.batch_limit()
            );
            return Err(external(Error::new(ErrorKind::OutOfMemory, message)));
        }
        self.meter.check_room(total, self.name()).map_err(external)
    }

    fn invoke(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.cost == Cost::Pattern
            && let Some(found) = matching::computed(self.name(), &args)?
        {
            return Ok(found);
        }
        self.inner.invoke_with_args(args)
    }

    /// Returns the rows that are computed at once, as the ends of slices.
    fn slices(&self, arguments: &[Argument], rows: usize) -> Result<Vec<usize>> {
        let is_scalar = arguments.iter().all(Argument::is_scalar);
        let constant = arguments.get(1).filter(|pattern| self.cost == Cost::Pattern && pattern.is_scalar());
        let constant = constant.and_then(|pattern| pattern.text(0)).map(states_of);
        if is_scalar || self.cost == Cost::Output {
            (0..rows.min(1))
                .try_for_each(|row| self.cost.of_row(arguments, row, constant, self.name()).map(drop))?;
            return Ok(vec![rows]);
        }
        let (mut ends, mut cost) = (Vec::new(), 0_u64);
        for row in 0..rows {
            if cost > SLICE_COST {
                ends.push(row);
                cost = 0;
            }
            cost = cost.saturating_add(self.cost.of_row(arguments, row, constant, self.name())?);
        }
        ends.push(rows);
        Ok(ends)
    }
}

fn limited(message: String) -> DataFusionError {
    external(Error::invalid_input(message).with_sqlstate("54000"))
}

fn no_less_than_one(count: u64) -> u64 {
    count.max(1)
}

impl Output {
    /// Returns a bound of what all rows take that is found quickly.
    fn at_most(self, arguments: &[Argument], rows: usize) -> u64 {
        let rows = rows as u64;
        let all = || arguments.iter().map(Argument::total).fold(0, u64::saturating_add);
        let greatest = |place: usize| arguments.get(place).map_or(0, Argument::greatest);
        match self {
            Joined => all().saturating_add(ELEMENT_BYTES * rows * arguments.len() as u64),
            Separated => all().saturating_mul(no_less_than_one(arguments.len() as u64)),
            Repeated => (all() + ELEMENT_BYTES * rows).saturating_mul(greatest(1)),
            Padded => rows.saturating_mul(greatest(1)).saturating_mul(4),
            Times(times) => all().saturating_mul(times),
            Cut => all().saturating_mul(ELEMENT_BYTES + 1),
            Formatted(times) => all().saturating_mul(times),
            Small => 0,
            // These need a look at every row.
            Composed | Resized | Series | Replaced | ReplacedByPattern | Listed | ElementsReplaced => {
                u64::MAX
            }
        }
    }

    /// Returns what a row takes, or a bound of it.
    fn of_row(self, arguments: &[Argument], row: usize) -> u64 {
        let bytes = |place: usize| arguments.get(place).map_or(0, |argument| argument.bytes(row));
        let count = |place: usize| arguments.get(place).map_or(0, |argument| argument.count(row));
        let all = || arguments.iter().map(|argument| argument.bytes(row)).fold(0, u64::saturating_add);
        let leaves = || arguments.first().map_or((0, 0), |argument| argument.leaves(row));
        match self {
            Joined => all() + ELEMENT_BYTES * arguments.len() as u64,
            Separated => {
                all().saturating_add(bytes(0).saturating_mul(arguments.len().saturating_sub(2) as u64))
            }
            Repeated => (bytes(0) + self.of_element(arguments)).saturating_mul(count(1)),
            Padded => {
                let is_ascii = [0, 2].iter().all(|place| {
                    let text = arguments.get(*place).and_then(|argument| argument.text(row));
                    text.is_none_or(str::is_ascii)
                });
                count(1).saturating_mul(if is_ascii { 1 } else { 4 })
            }
            Resized => count(1).saturating_mul(bytes(2).max(ELEMENT_BYTES)).saturating_add(bytes(0)),
            Series => series(arguments, row).saturating_mul(size_of::<i64>() as u64),
            Replaced => {
                let found = bytes(0) / no_less_than_one(bytes(1)) + 1;
                bytes(0).saturating_add(found.saturating_mul(bytes(2)))
            }
            ReplacedByPattern => {
                let groups = arguments.get(2).and_then(|with| with.text(row)).map_or(0, groups_in);
                let grouped = bytes(0).saturating_mul(groups);
                let all_matches = arguments.get(3).and_then(|flags| flags.text(row));
                // From some place on, all matches are asked for by the number 0.
                let which = arguments.get(4).and_then(|which| which.number(row));
                let is_of_all = all_matches.is_some_and(|flags| flags.contains('g')) || which == Some(0);
                let matches = if is_of_all { bytes(0) + 1 } else { 1 };
                bytes(0).saturating_add(grouped).saturating_add(matches.saturating_mul(bytes(2)))
            }
            Listed => {
                let (elements, of_elements) = leaves();
                let shown = of_elements.saturating_mul(self.of_element(arguments));
                let between = bytes(1).max(1).saturating_add(bytes(2));
                shown.saturating_add(elements.saturating_mul(between))
            }
            ElementsReplaced => {
                let (elements, of_elements) = leaves();
                of_elements.saturating_add(elements.saturating_mul(bytes(2)))
            }
            Cut => bytes(0).saturating_mul(ELEMENT_BYTES + 1),
            Times(times) => all().saturating_mul(times),
            Formatted(times) => bytes(1).saturating_mul(times).saturating_add(bytes(0)),
            Composed => {
                let others = (1..arguments.len()).map(bytes).max().unwrap_or(0);
                // Each byte of a quoted name may be a quote, which is doubled.
                let filled = others.saturating_mul(2) + 2;
                let specifiers =
                    arguments.first().and_then(|pattern| pattern.text(row)).map_or("", |text| text);
                let widths = specifiers.split('%').skip(1).map(|specifier| filled.max(width_of(specifier)));
                widths.fold(bytes(0), u64::saturating_add)
            }
            Small => 0,
        }
    }

    /// Returns what an element takes besides its bytes; of text that is made of values, the bytes
    /// for each that they have.
    fn of_element(self, arguments: &[Argument]) -> u64 {
        let Some(first) = arguments.first().map(Argument::data_type) else { return 0 };
        match self {
            Repeated => {
                if first.is_string() {
                    0
                } else {
                    ELEMENT_BYTES
                }
            }
            _ => {
                let mut element = &first;
                while let DataType::List(field)
                | DataType::LargeList(field)
                | DataType::FixedSizeList(field, _) = element
                {
                    element = field.data_type();
                }
                if element.is_string() { 1 } else { 4 }
            }
        }
    }

    /// Returns what a row takes, where a bound of it is too much and it pays to look.
    fn counted(self, arguments: &[Argument], row: usize) -> Option<u64> {
        let text = |place: usize| arguments.get(place).and_then(|argument| argument.text(row));
        match self {
            Replaced => {
                let (within, from, to) = (text(0)?, text(1)?, text(2)?);
                let found = within.matches(from).count() as u64;
                Some((within.len() as u64).saturating_add(found.saturating_mul(to.len() as u64)))
            }
            Cut => {
                let (within, at) = (text(0)?, text(1)?);
                let found = if at.is_empty() { 0 } else { within.matches(at).count() as u64 };
                Some(within.len() as u64 + (found + 1) * ELEMENT_BYTES)
            }
            _ => None,
        }
    }
}

/// Returns the width that a specifier of format() begins with; it is never greater.
fn width_of(specifier: &str) -> u64 {
    const WIDTH_MAX: u64 = 1 << 20;
    // Those of printf() are more than those of format().
    const FLAGS: [char; 5] = ['$', '-', '+', ' ', '#'];
    let end = specifier.find(|c: char| !c.is_ascii_digit() && !FLAGS.contains(&c));
    let options = &specifier[..end.unwrap_or(specifier.len())];
    let width = options.rsplit(FLAGS).next().unwrap_or_default();
    if width.is_empty() { 0 } else { width.parse().map_or(WIDTH_MAX, |width: u64| width.min(WIDTH_MAX)) }
}

/// Returns the groups that a replacement names.
fn groups_in(replacement: &str) -> u64 {
    replacement.matches(['\\', '$']).count() as u64
}

/// Returns the elements of range() and generate_series().
fn series(arguments: &[Argument], row: usize) -> u64 {
    let place = |place: usize| arguments.get(place).and_then(|argument| argument.place(row));
    let (start, stop) = match arguments.len() {
        1 => (Some(0.0), place(0)),
        _ => (place(0), place(1)),
    };
    let step = match arguments.get(2) {
        Some(step) => step.step(row),
        None => Some(1.0),
    };
    match (start, stop, step) {
        // The function refuses it.
        (_, _, Some(0.0)) => 0,
        (Some(start), Some(stop), Some(step)) if (stop - start) / step >= 0.0 => {
            ((stop - start) / step + 1.0) as u64
        }
        _ => 0,
    }
}

impl Cost {
    /// Says whether a row may take so long that it should be computed where it can be given up.
    fn is_slow(self) -> bool {
        !matches!(self, Self::Output | Self::Letters)
    }

    /// Returns what a row costs. A pattern that all rows have comes with its states.
    ///
    /// # Errors
    /// 54000 when it is more than anybody should wait for.
    fn of_row(self, arguments: &[Argument], row: usize, states: Option<u64>, name: &str) -> Result<u64> {
        let bytes = |place: usize| arguments.get(place).map_or(0, |argument| argument.bytes(row));
        match self {
            Self::Output => Ok(0),
            Self::Members => {
                let length = |place: usize| arguments.get(place).map_or(0, |list| list.leaves(row).0);
                let cost = length(0).saturating_mul(length(1));
                match cost > MEMBERS_MAX {
                    true => Err(limited(format!(
                        "{name}() compares lists of {} and {} elements, and the product may be {MEMBERS_MAX}",
                        length(0),
                        length(1)
                    ))),
                    false => Ok(cost),
                }
            }
            Self::Patterns => {
                let (patterns, bytes) = arguments.first().map_or((0, 0), |list| list.leaves(row));
                Ok(patterns.saturating_mul(LIKE_COST).saturating_add(bytes.saturating_mul(LIKE_BYTE_COST)))
            }
            Self::Distance | Self::Letters => {
                let cost = bytes(0).saturating_mul(bytes(1));
                match cost > DISTANCE_MAX {
                    true => Err(limited(format!(
                        "{name}() compares texts of {} and {} bytes, and the product may be {DISTANCE_MAX}",
                        bytes(0),
                        bytes(1)
                    ))),
                    false => Ok(cost),
                }
            }
            Self::Pattern if bytes(0) > MATCHED_BYTES_MAX => Err(limited(format!(
                "{name}() matches a text of {} bytes, and it may have {MATCHED_BYTES_MAX}",
                bytes(0)
            ))),
            Self::Pattern if bytes(0).saturating_mul(bytes(1)) > MATCHED_STEPS_MAX => Err(limited(format!(
                "{name}() matches a text of {} bytes with a pattern of {}, and the product may be {MATCHED_STEPS_MAX}",
                bytes(0),
                bytes(1)
            ))),
            Self::Pattern => {
                let is_constant = arguments.get(1).is_none_or(Argument::is_scalar);
                let of_row = || arguments.get(1).and_then(|pattern| pattern.text(row)).map_or(0, states_of);
                let states = states.unwrap_or_else(of_row);
                let mut steps = bytes(0) * (1 + bytes(1) / SHORT_PATTERN_BYTES as u64);
                if states > bytes(1).max(SHORT_PATTERN_BYTES as u64).saturating_mul(CLASS_STATES) {
                    steps = bytes(0).saturating_mul(states);
                    if steps > REPEATED_STEPS_MAX {
                        return Err(limited(format!(
                            "{name}() matches a text of {} bytes with a pattern that has {states} states when its \
                             repetitions are written out, and the product may be {REPEATED_STEPS_MAX}",
                            bytes(0)
                        )));
                    }
                    steps = steps.saturating_mul(STATE_COST);
                }
                Ok(steps.saturating_add(if is_constant { 0 } else { COMPILE_COST }))
            }
        }
    }
}

// The meter and the limits belong to the session.
equal_by!(Bounded: inner);

impl Portable for Bounded {
    type Function = ScalarUDF;

    const TAG: &'static str = "bounded";

    /// The function within, which decides about its limits.
    type Parameters = Encoded;

    fn parameters(&self, functions: &Functions) -> Result<Encoded> {
        functions.describe(self.inner.as_ref())
    }

    fn from_parameters(inner: Encoded, decoder: &Decoder<'_>) -> Result<Self> {
        let inner = decoder.function(inner)?;
        Self::over(&inner, decoder.meter())
            .ok_or_else(|| malformed(format!("{}() has no limits to be held to", inner.name())))
    }
}

impl ScalarUDFImpl for Bounded {
    as_within!(name, aliases, schema_name, signature, coerce_types, return_type, return_field_from_args);

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let updated = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::from(Self {
            inner: updated,
            meter: self.meter.clone(),
            output: self.output,
            cost: self.cost,
        }))
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if ["lpad", "rpad"].contains(&self.name()) {
            clear_negative_lengths(&mut args.args);
        }
        let rows = args.number_rows;
        let arguments = args.args.iter().map(|value| Argument::of(value, rows));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        self.check_output(&arguments, rows)?;
        if self.cost != Cost::Output {
            self.meter.check_room(0, self.name()).map_err(external)?;
        }
        let ends = self.slices(&arguments, rows)?;
        drop(arguments);
        if let [_] = ends.as_slice() {
            return self.invoke(args);
        }
        let mut start = 0;
        let slices = ends.into_iter().map(|end| {
            self.meter.check_room(0, self.name()).map_err(external)?;
            let length = end - start;
            let slice = sliced(&args, start, length);
            start = end;
            self.invoke(slice)?.into_array(length)
        });
        let slices = slices.collect::<Result<Vec<ArrayRef>>>()?;
        let slices: Vec<&dyn Array> = slices.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&slices)?))
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // DataFusion would turn it into an operator, which has no limits.
        if self.cost == Cost::Pattern && !args.get(1).is_some_and(is_short_pattern) {
            return Ok(ExprSimplifyResult::Original(args));
        }
        Ok(match self.inner.inner().simplify(args, context)? {
            // It may be another call of the function, and one of DataFusion's.
            ExprSimplifyResult::Simplified(expr) => {
                ExprSimplifyResult::Simplified(expr.transform_up(|expr| bounded(expr, &self.meter))?.data)
            }
            original => original,
        })
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, context: &SimplifyContext) -> Result<PreimageResult> {
        self.inner.inner().preimage(args, literal, context)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.inner().evaluate_bounds(inputs)
    }

    fn propagate_constraints(
        &self,
        interval: &Interval,
        inputs: &[&Interval],
    ) -> Result<Option<Vec<Interval>>> {
        self.inner.inner().propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.inner().output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().strictly_order_preserving(inputs)
    }

    fn struct_field_mapping(&self, literals: &[Option<ScalarValue>]) -> Option<StructFieldMapping> {
        self.inner.inner().struct_field_mapping(literals)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.inner().placement(args)
    }
}

/// Returns a call for some of the rows.
fn sliced(args: &ScalarFunctionArgs, start: usize, rows: usize) -> ScalarFunctionArgs {
    let slice = |value: &ColumnarValue| match value {
        ColumnarValue::Array(values) => ColumnarValue::Array(values.slice(start, rows)),
        scalar => scalar.clone(),
    };
    ScalarFunctionArgs {
        args: args.args.iter().map(slice).collect(),
        arg_fields: args.arg_fields.clone(),
        number_rows: rows,
        return_field: args.return_field.clone(),
        config_options: args.config_options.clone(),
    }
}

const JOIN: &str = "||";

static TEXTS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Texts::default())));

/// Returns a call of `||` for texts in a row.
pub fn joined_all(texts: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(TEXTS.clone(), texts))
}

/// Returns what a call of [`joined_all`] joins.
pub fn join_operands(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == JOIN => Some(&call.args),
        _ => None,
    }
}

/// `||` of texts or of bytes: of two, or of texts in a row.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Texts {
    signature: Signature,
}

impl Default for Texts {
    fn default() -> Self {
        Self { signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

impl_portable!(Texts, "joined_texts");

impl ScalarUDFImpl for Texts {
    fn name(&self) -> &str {
        JOIN
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(names.join(&format!(" {JOIN} ")))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let Some((first, rest)) = types.split_first() else {
            return Err(plan_datafusion_err!("{JOIN} takes at least two arguments"));
        };
        rest.iter().try_fold(first.clone(), |left, right| {
            BinaryTypeCoercer::new(&left, &Operator::StringConcat, right).get_result_type()
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(JOIN, self.return_type(&types)?, nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.args.len() > 2 {
            return joined_texts(&args);
        }
        // This applies DataFusion's operator to these values.
        let (mut fields, mut arrays, mut sides) = (Vec::new(), Vec::new(), Vec::new());
        for value in args.args {
            let side: Arc<dyn PhysicalExpr> = match value {
                ColumnarValue::Array(values) => {
                    fields.push(Field::new("", values.data_type().clone(), true));
                    arrays.push(values);
                    Arc::new(Column::new("", arrays.len() - 1))
                }
                ColumnarValue::Scalar(value) => Arc::new(Literal::new(value)),
            };
            sides.push(side);
        }
        let is_constant = arrays.is_empty();
        let rows = if is_constant { 1 } else { args.number_rows };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?;
        let (Some(right), Some(left)) = (sides.pop(), sides.pop()) else {
            return Err(plan_datafusion_err!("{JOIN} takes two arguments"));
        };
        let joined = PhysicalBinary::new(left, Operator::StringConcat, right).evaluate(&batch)?;
        match joined {
            ColumnarValue::Array(values) if is_constant => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?))
            }
            other => Ok(other),
        }
    }
}

/// Texts in a row, which are NULL where one of them is.
fn joined_texts(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let is_constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = if is_constant { 1 } else { args.number_rows };
    let texts = args.args.iter().map(|value| {
        let text = value.cast_to(&DataType::LargeUtf8, None)?;
        text.into_array(rows)
    });
    let texts = texts.collect::<Result<Vec<ArrayRef>>>()?;
    let texts: Vec<&LargeStringArray> = texts.iter().map(|texts| texts.as_string::<i64>()).collect();
    let joined: ArrayRef = Arc::new(concat_elements_utf8_many(&texts)?);
    let joined = cast(&joined, args.return_field.data_type())?;
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?),
        false => ColumnarValue::Array(joined),
    })
}

/// Makes negative lengths of a padding function zero, which is what they mean. DataFusion adds up
/// all lengths to make room beforehand, and takes a sum below zero for a huge one.
fn clear_negative_lengths(args: &mut [ColumnarValue]) {
    if let Some(ColumnarValue::Array(lengths)) = args.get_mut(1)
        && let Some(numbers) = lengths.as_primitive_opt::<Int64Type>()
    {
        *lengths = Arc::new(numbers.unary::<_, Int64Type>(|length| length.max(0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Ledger;
    use crate::sizes::bytes_of;
    use arrow::array::{Int64Array, ListArray, StringViewArray};
    use hypostyle_error::from_datafusion;

    const ROWS: usize = 200;

    /// Numbers that look random, and are the same each time.
    fn numbers(seed: u64) -> impl Iterator<Item = u64> {
        let next = |number: &u64| Some(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        std::iter::successors(Some(seed), next).skip(1).map(|number| number >> 33)
    }

    fn texts(seed: u64, alphabet: &str) -> ColumnarValue {
        let letters: Vec<char> = alphabet.chars().collect();
        let mut random = numbers(seed);
        let mut next = || random.next().unwrap();
        let text = |_| {
            let length = next() % 12;
            (length > 0)
                .then(|| (0..length).map(|_| letters[next() as usize % letters.len()]).collect::<String>())
        };
        ColumnarValue::Array(Arc::new((0..ROWS).map(text).collect::<StringViewArray>()))
    }

    fn counts(seed: u64, below: u64) -> ColumnarValue {
        let counts = numbers(seed).map(|number| (number % 10 != 0).then(|| (number % below) as i64));
        ColumnarValue::Array(Arc::new(counts.take(ROWS).collect::<Int64Array>()))
    }

    fn lists(seed: u64) -> ColumnarValue {
        let mut random = numbers(seed);
        let rows = (0..ROWS).map(|_| {
            let length = random.next().unwrap() % 6;
            (length != 5)
                .then(|| (0..length).map(|element| Some(element as i64 * 1_000_003)).collect::<Vec<_>>())
        });
        let rows: Vec<_> = rows.collect();
        ColumnarValue::Array(Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows)))
    }

    fn constant(value: impl Into<ScalarValue>) -> ColumnarValue {
        ColumnarValue::Scalar(value.into())
    }

    fn view(text: &str) -> ColumnarValue {
        constant(ScalarValue::Utf8View(Some(text.into())))
    }

    fn arguments_of(function: &ScalarUDF, args: Vec<ColumnarValue>, rows: usize) -> ScalarFunctionArgs {
        let fields: Vec<FieldRef> =
            args.iter().map(|value| Arc::new(Field::new("a", value.data_type(), true))).collect();
        let constants: Vec<Option<&ScalarValue>> = args
            .iter()
            .map(|value| match value {
                ColumnarValue::Scalar(value) => Some(value),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        let of = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &constants };
        let return_field = function.return_field_from_args(of).unwrap();
        ScalarFunctionArgs {
            args,
            arg_fields: fields,
            number_rows: rows,
            return_field,
            config_options: Arc::default(),
        }
    }

    fn function(name: &str) -> Arc<ScalarUDF> {
        SessionContext::new().udf(name).unwrap()
    }

    fn meter(limit: u64) -> Arc<Meter> {
        Meter::new(&Ledger::new(limit))
    }

    fn called(name: &str, limit: u64, args: Vec<ColumnarValue>, rows: usize) -> Result<ColumnarValue> {
        let function = match name {
            JOIN => TEXTS.clone(),
            name => function(name),
        };
        let bounded = Bounded::over(&function, &meter(limit)).unwrap();
        bounded.invoke_with_args(arguments_of(&function, args, rows))
    }

    #[test]
    #[ignore = "calls functions with texts as they are, where plans convert them first: encode and others want that"]
    fn what_is_foretold_is_what_is_given_or_little_more() {
        let (ascii, others) = ("abc, ", "aß€𝄞,");
        for seed in 0..20 {
            let text = |number: u64, of: &str| texts(seed * 7 + number, of);
            // The estimate may exceed the result by these: a factor, and a number of bytes.
            for (name, args, times, besides) in [
                ("repeat", vec![text(1, others), counts(seed, 30)], 1, 0),
                ("repeat", vec![view("text"), counts(seed, 30)], 1, 0),
                ("concat", vec![text(1, ascii), text(2, others), view("x")], 1, 48),
                ("concat_ws", vec![view("--"), text(1, ascii), text(2, others)], 1, 32),
                ("lpad", vec![text(1, ascii), counts(seed, 40)], 1, 0),
                ("rpad", vec![text(1, others), counts(seed, 40), view("€")], 4, 160),
                ("replace", vec![text(1, ascii), view("a"), view("bcd")], 4, 4),
                ("regexp_replace", vec![text(1, ascii), view("[ab]"), view("<\\0>"), view("g")], 4, 80),
                ("translate", vec![text(1, ascii), view("ab"), view("€𝄞")], 4, 80),
                ("upper", vec![text(1, others)], 3, 0),
                ("encode", vec![text(1, ascii), view("hex")], 1, 6),
                ("array_repeat", vec![counts(seed, 99), counts(seed, 30)], 3, 0),
                ("array_to_string", vec![lists(seed), view(", ")], 6, 40),
                ("array_concat", vec![lists(seed), lists(seed + 1)], 1, 32),
                ("array_append", vec![lists(seed), counts(seed, 9)], 1, 32),
                ("array_resize", vec![lists(seed), counts(seed, 20), constant(7_i64)], 2, 48),
                ("range", vec![counts(seed, 20), counts(seed + 1, 300), constant(3_i64)], 1, 8),
                ("generate_series", vec![counts(seed, 20), counts(seed + 1, 300), constant(3_i64)], 1, 8),
                (JOIN, vec![text(1, others), text(2, others)], 1, 32),
            ] {
                let function = if name == JOIN { TEXTS.clone() } else { function(name) };
                let (_, output, _) = FUNCTIONS.iter().find(|(known, ..)| *known == name).unwrap();
                let arguments: Vec<Argument> =
                    args.iter().map(|value| Argument::of(value, ROWS).unwrap()).collect();
                let given = function.invoke_with_args(arguments_of(&function, args.clone(), ROWS)).unwrap();
                let given = given.into_array(ROWS).unwrap();
                let mut all = 0;
                for row in 0..ROWS {
                    let (real, foretold) =
                        (bytes_of(given.as_ref(), row..row + 1), output.of_row(&arguments, row));
                    let is_right =
                        real <= foretold && (given.is_null(row) || foretold <= real * times + besides);
                    assert!(is_right, "{name}: {foretold} for {real}, row {row} of {args:?}");
                    all += foretold;
                }
                assert!(output.at_most(&arguments, ROWS) >= all, "{name}");
            }
        }
    }

    #[test]
    fn a_value_and_a_batch_are_bounded() {
        let sqlstate = |name: &str, args: Vec<ColumnarValue>, rows: usize| {
            let called = called(name, 64 << 20, args, rows);
            called
                .map_err(from_datafusion)
                .map_or_else(|error| error.sqlstate().to_string(), |_| "00000".into())
        };
        for (count, rows, expected) in
            [(8 << 20, 1, "00000"), (8 << 20, 100, "00000"), ((8 << 20) + 1, 1, "54000")]
        {
            assert_eq!(sqlstate("repeat", vec![view("x"), constant(count as i64)], rows), expected);
        }
        // For a batch the result is computed once for each row.
        let letters: ArrayRef = Arc::new(StringViewArray::from(vec!["x"; 17]));
        let counts = constant(1_i64 << 20);
        let some = ColumnarValue::Array(letters.slice(0, 16));
        assert_eq!(sqlstate("repeat", vec![some, counts.clone()], 16), "00000");
        assert_eq!(sqlstate("repeat", vec![ColumnarValue::Array(letters), counts], 17), "53200");
        // A bound that is too large is checked row by row.
        let rare = format!("{}a", "b".repeat(1 << 20));
        assert_eq!(sqlstate("replace", vec![view(&rare), view("a"), view(&rare)], 1), "00000");
        let often = view(&"a".repeat(1 << 20));
        assert_eq!(sqlstate("replace", vec![often, view("a"), view(&rare)], 1), "54000");
        let far = |stop: i64, step: i64| vec![constant(1_i64), constant(stop), constant(step)];
        for (args, expected) in [
            (far(1 << 40, 1), "54000"),
            (far(1 << 40, 1 << 30), "00000"),
            (far(-(1 << 40), 1), "00000"),
            (far(-(1 << 40), -1), "54000"),
        ] {
            assert_eq!(sqlstate("range", args, 1), expected);
        }
        let format = |pattern: &str| Composed.of_row(&[Argument::of(&view(pattern), 1).unwrap()], 0);
        assert_eq!(format("100"), 3);
        assert_eq!(format("%+5000d%#- 300s"), 15 + 5000 + 300);
        assert_eq!(format("%1$5000s%s%2$-7000L%99999999999999999999s"), 41 + 5000 + 2 + 7000 + (1 << 20));
    }

    #[test]
    fn what_nothing_can_stop_is_bounded_and_the_rest_sees_interrupts() {
        let meter = meter(1 << 30);
        let levenshtein = function("levenshtein");
        let bounded = Bounded::over(&levenshtein, &meter).unwrap();
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["some text or other ".repeat(50); 100]));
        let args = vec![ColumnarValue::Array(texts.clone()), view(&"another text ".repeat(60))];
        let sliced = bounded.invoke_with_args(arguments_of(&levenshtein, args.clone(), 100)).unwrap();
        let whole = levenshtein.invoke_with_args(arguments_of(&levenshtein, args.clone(), 100)).unwrap();
        assert_eq!(&sliced.into_array(100).unwrap(), &whole.into_array(100).unwrap());
        let arguments: Vec<Argument> = args.iter().map(|value| Argument::of(value, 100).unwrap()).collect();
        assert!(bounded.slices(&arguments, 100).unwrap().len() > 2);
        meter.interrupted.store(true, std::sync::atomic::Ordering::Release);
        let error = bounded.invoke_with_args(arguments_of(&levenshtein, args.clone(), 100)).unwrap_err();
        assert_eq!(from_datafusion(error).kind(), ErrorKind::Interrupted);
        let long = |bytes: usize| view(&"x".repeat(bytes));
        for (name, args) in [
            ("levenshtein", vec![long(20_000), long(20_000)]),
            ("btrim", vec![long(1 << 15), long(1 << 15)]),
            ("regexp_replace", vec![long((16 << 20) + 1), view("x"), view("y")]),
            ("regexp_like", vec![long(1 << 18), long(1 << 18)]),
            ("regexp_like", vec![long(1 << 18), view(r"(\w+\s*){20,200}y")]),
            ("regexp_count", vec![long(1 << 18), view("(x{0,100}){0,100}y")]),
        ] {
            let error = called(name, 1 << 34, args, 1).unwrap_err();
            assert_eq!(from_datafusion(error).sqlstate(), "54000", "{name}");
        }
    }
}
