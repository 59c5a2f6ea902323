//! Subqueries that depend on no row, and may be an error, where rows may not get to them: behind the
//! conditions of CASE, AND, OR and `coalesce`. DataFusion computes such a subquery before the rows around it.
//! Its error is kept in the place of its value, and is one of the statement where a row asks for the value,
//! as in PostgreSQL: `CASE WHEN a > 0 THEN (SELECT 1 / 0) END` is NULL where no `a` is greater.

use crate::logical_node::{at_once, node_of_one_input, shown_by_name};
use crate::subquery_guards::{divides, may_be_error, several_rows};
use arrow::array::{Array, ArrayRef, AsArray, StringArray, StructArray, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, SchemaRef};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Extension, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Subquery, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
    Volatility,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, execute_stream,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::{StreamExt, stream};
use hypostyle_error::{external, from_datafusion};
use hypostyle_expr::truth::ASKED;
use hypostyle_expr::typed::{in_type, scalar_in_type};
use hypostyle_expr::walk::{has_expression, named};
use hypostyle_expr::{impl_portable, one_input};
use hypostyle_types::{Error, ErrorKind};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

/// Returns a node whose subqueries of this kind keep their errors. One that cannot fail stays, and so does
/// one that all rows get to, unless it divides or reads texts: there may be no rows.
pub(crate) fn kept(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    // A limit is computed without rows.
    let is_other = matches!(plan, LogicalPlan::TableScan(_) | LogicalPlan::Limit(_));
    if is_other || !has_expression(&plan, |part| matches!(part, Expr::ScalarSubquery(_))) {
        return Ok(Transformed::no(plan));
    }
    let preserver = NamePreserver::new(&plan);
    let has_conjuncts = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    plan.map_expressions(|expr| {
        named(&preserver, expr, &mut |expr: Expr| {
            kept_below(expr, Place { is_guarded: false, has_conjuncts })
        })
    })
}

/// Where an expression stands.
#[derive(Clone, Copy)]
struct Place {
    /// Some rows may not get there.
    is_guarded: bool,
    /// AND connects conditions of a node, which are taken one by one.
    has_conjuncts: bool,
}

fn kept_below(expr: Expr, place: Place) -> Result<Transformed<Expr>> {
    let behind = Place { is_guarded: true, ..place };
    let guards = |part: &Expr| match part {
        Expr::Case(_) => true,
        Expr::BinaryExpr(BinaryExpr { op, .. }) => {
            *op == Operator::Or || *op == Operator::And && !place.has_conjuncts
        }
        _ => false,
    };
    expr.transform_down(|part| match part {
        Expr::ScalarSubquery(subquery) if is_kept(&subquery, place) => {
            Ok(Transformed::new(asked(subquery)?, true, TreeNodeRecursion::Jump))
        }
        part if !place.is_guarded && guards(&part) => {
            // What all rows get to may be in it, too; its error is one of theirs.
            let part = kept_below(part, behind)?;
            Ok(Transformed::new(part.data, part.transformed, TreeNodeRecursion::Jump))
        }
        Expr::ScalarFunction(call) if !place.is_guarded && call.func.short_circuits() => {
            let (mut args, mut changed) = (Vec::with_capacity(call.args.len()), false);
            for arg in call.args {
                let arg = kept_below(arg, if args.is_empty() { place } else { behind })?;
                changed |= arg.transformed;
                args.push(arg.data);
            }
            let call = Expr::ScalarFunction(ScalarFunction { func: call.func, args });
            Ok(Transformed::new(call, changed, TreeNodeRecursion::Jump))
        }
        part => Ok(Transformed::no(part)),
    })
}

fn is_kept(subquery: &Subquery, place: Place) -> bool {
    let plan = subquery.subquery.as_ref();
    subquery.outer_ref_columns.is_empty()
        && !matches!(plan, LogicalPlan::Extension(extension) if extension.node.as_any().is::<Kept>())
        && (divides(plan) || place.is_guarded && may_be_error(plan))
}

/// Returns the value of a subquery, which is an error where it is asked for.
fn asked(Subquery { subquery, outer_ref_columns, spans }: Subquery) -> Result<Expr> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Asked::default())));
    let node = Arc::new(Kept::new(Arc::unwrap_or_clone(subquery))?);
    let subquery = Arc::new(LogicalPlan::Extension(Extension { node }));
    let value = Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans });
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(FUNCTION.clone(), vec![value])))
}

/// Returns the fields of a value with an error in its place.
fn fields_of(value: &Field) -> Fields {
    let of = Field::new("value", value.data_type().clone(), true).with_metadata(value.metadata().clone());
    Fields::from(vec![
        of,
        Field::new("sqlstate", DataType::Utf8, true),
        Field::new("message", DataType::Utf8, true),
    ])
}

/// Gives the one value of its input, NULL if that has no row, or what is wrong with it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Kept {
    input: LogicalPlan,
    schema: DFSchemaRef,
}

impl Kept {
    fn new(input: LogicalPlan) -> Result<Self> {
        let value = input.schema().fields().first().ok_or_else(of_one_column)?;
        // Whether the value may be NULL is said of both together.
        let kept = Field::new("kept", DataType::Struct(fields_of(value)), value.is_nullable());
        let schema = DFSchema::from_unqualified_fields(Fields::from(vec![kept]), HashMap::new())?;
        Ok(Self { input, schema: Arc::new(schema) })
    }

    fn with_input(&self, input: LogicalPlan) -> Result<Self> {
        Self::new(input)
    }
}

shown_by_name!(Kept);

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input)
    }
}

impl UserDefinedLogicalNodeCore for Kept {
    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    node_of_one_input!("KeptError");
}

fn of_one_column() -> DataFusionError {
    DataFusionError::Internal("a subquery that stands for a value has one column".into())
}

/// Plans these nodes.
pub(crate) struct KeptErrors;

#[async_trait]
impl ExtensionPlanner for KeptErrors {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(Kept { schema, .. }), [input]) = (node.as_any().downcast_ref(), inputs) else {
            return Ok(None);
        };
        Ok(Some(Arc::new(KeptExec::new(input.clone(), schema.inner().clone()))))
    }
}

#[derive(Debug)]
struct KeptExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl KeptExec {
    fn new(input: Arc<dyn ExecutionPlan>, schema: SchemaRef) -> Self {
        Self { input, properties: at_once(schema) }
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input, properties: self.properties.clone() }
    }
}

impl DisplayAs for KeptExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for KeptExec {
    fn name(&self) -> &'static str {
        "KeptErrorExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    one_input!();

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let row = kept_row(self.input.clone(), self.schema(), context);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(row))))
    }
}

async fn kept_row(
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    context: Arc<TaskContext>,
) -> Result<RecordBatch> {
    let DataType::Struct(fields) = schema.field(0).data_type() else { return Err(of_one_column()) };
    let of = fields.first().ok_or_else(of_one_column)?.data_type();
    let (value, error) = match only_row(input, context).await {
        Ok(Some(value)) => (in_type(&value, of)?, None),
        Ok(None) => (new_null_array(of, 1), None),
        Err(error) => (new_null_array(of, 1), Some(of_values(error)?)),
    };
    let text = |text: Option<&str>| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    let state = text(error.as_ref().map(Error::sqlstate));
    let message = text(error.as_ref().map(Error::message));
    let kept = StructArray::try_new(fields.clone(), vec![value, state, message], None)?;
    Ok(RecordBatch::try_new(schema.clone(), vec![Arc::new(kept)])?)
}

/// Returns an error of values. Others, as of memory, are the statement's.
fn of_values(error: DataFusionError) -> Result<Error> {
    let error = Arc::new(error);
    let told = from_datafusion(DataFusionError::Shared(error.clone()));
    match told.kind() {
        ErrorKind::InvalidInput => Ok(told),
        _ => Err(DataFusionError::Shared(error)),
    }
}

/// Returns the first column of the only row that a plan gives.
async fn only_row(input: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Option<ArrayRef>> {
    let mut rows = execute_stream(input, context)?;
    let mut only = None;
    while let Some(batch) = rows.next().await.transpose()? {
        match (batch.num_rows(), only.is_some()) {
            (0, _) => {}
            (1, false) => only = Some(batch.column(0).clone()),
            _ => return Err(several_rows()),
        }
    }
    Ok(only)
}

/// The function that gives a value that was kept, or raises its error.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    signature: Signature,
}

impl Default for Asked {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl_portable!(Asked, "asked");

impl ScalarUDFImpl for Asked {
    fn name(&self) -> &str {
        ASKED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().and_then(value_of).map(|value| value.data_type().clone()).ok_or_else(of_one_column)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let kept = args.arg_fields.first().ok_or_else(of_one_column)?;
        let value = value_of(kept.data_type()).ok_or_else(of_one_column)?;
        Ok(Arc::new(value.as_ref().clone().with_name(ASKED).with_nullable(kept.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let wanted = args.return_field.data_type();
        let kept = args.args.first().ok_or_else(of_one_column)?.to_array(1)?;
        // No row asks.
        if args.number_rows == 0 || kept.is_empty() {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(wanted)?));
        }
        let Some([value, state, message]) = kept.as_struct_opt().map(StructArray::columns) else {
            return Err(of_one_column());
        };
        let text = |texts: &ArrayRef| {
            let texts = texts.as_string_opt::<i32>().filter(|texts| texts.is_valid(0));
            texts.map(|texts| texts.value(0).to_string())
        };
        if let (Some(state), Some(message)) = (text(state), text(message)) {
            return Err(external(Error::invalid_input(message).with_sqlstate(&state)));
        }
        let value = ScalarValue::try_from_array(value, 0)?;
        Ok(ColumnarValue::Scalar(scalar_in_type(&value, wanted)?))
    }
}

/// Returns the field of the value in a type of those that are kept.
fn value_of(kept: &DataType) -> Option<&FieldRef> {
    match kept {
        DataType::Struct(fields) => fields.first(),
        _ => None,
    }
}
