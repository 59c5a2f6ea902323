//! What DataFusion's messages do not tell of a plan: they are extended where that is possible, and the
//! rest is refused, since another node would compute other rows without a word.
//!
//! | not told | |
//! |---|---|
//! | the metadata of literals, casts, functions and projections: JSON and UUIDs are text in plans | told |
//! | how many grouping sets an aggregate without keys has: `GROUP BY ()` | told |
//! | FILTER, and IGNORE NULLS, of window functions | refused |
//! | the projection of generate_series | refused |

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::common::metadata::FieldMetadata;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::expressions::{CastExpr, Literal};
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, PhysicalGroupBy};
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::windows::{
    BoundedWindowAggExec, WindowAggExec, WindowUDFExpr, create_udwf_window_expr,
};
use datafusion_proto::physical_plan::to_proto::serialize_physical_expr_with_converter;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalPlanNodeExt, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::physical_expr_node::ExprType;
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto::protobuf::{
    PhysicalExprNode, PhysicalExtensionExprNode, PhysicalExtensionNode, PhysicalPlanNode,
};
use prost::Message;
use std::sync::Arc;

/// Turns plans into DataFusion's messages and back.
pub(crate) struct Converter;

impl PhysicalProtoConverterExtension for Converter {
    fn execution_plan_to_proto(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalPlanNode> {
        check_is_told(plan)?;
        let mut node = PhysicalPlanNode::try_from_physical_plan_with_converter(plan.clone(), codec, self)?;
        if let Some(PhysicalPlanType::Aggregate(message)) = &mut node.physical_plan_type
            && let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
            && aggregate.group_expr().is_empty()
        {
            // Each set has as many flags as there are keys, which are none.
            message.groups = vec![false; aggregate.group_expr().groups().len()];
        }
        let Some(schema) = untold_schema(plan)? else { return Ok(node) };
        let message = SchemaMessage { schema: Some(schema.as_ref().try_into()?) };
        let extension = PhysicalExtensionNode { node: message.encode_to_vec(), inputs: vec![node] };
        Ok(PhysicalPlanNode { physical_plan_type: Some(PhysicalPlanType::Extension(extension)) })
    }

    fn proto_to_execution_plan(
        &self,
        proto: &PhysicalPlanNode,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match &proto.physical_plan_type {
            Some(PhysicalPlanType::Aggregate(message))
                if message.group_expr.is_empty() && !message.groups.is_empty() =>
            {
                let mut message = message.clone();
                let sets = std::mem::take(&mut message.groups).len();
                let proto =
                    PhysicalPlanNode { physical_plan_type: Some(PhysicalPlanType::Aggregate(message)) };
                with_sets(self.default_proto_to_execution_plan(&proto, context)?, sets)
            }
            _ => self.default_proto_to_execution_plan(proto, context),
        }
    }

    fn physical_expr_to_proto(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalExprNode> {
        let node = serialize_physical_expr_with_converter(expr, codec, self)?;
        let Some(field) = untold_field(expr)? else { return Ok(node) };
        let message = FieldMessage { field: Some(field.as_ref().try_into()?) };
        let extension = PhysicalExtensionExprNode { expr: message.encode_to_vec(), inputs: vec![node] };
        Ok(PhysicalExprNode { expr_id: None, expr_type: Some(ExprType::Extension(extension)) })
    }

    fn proto_to_physical_expr(
        &self,
        proto: &PhysicalExprNode,
        schema: &Schema,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        self.default_proto_to_physical_expr(proto, schema, context)
    }
}

/// The field that an expression gives, beside the expression.
#[derive(Clone, PartialEq, Message)]
struct FieldMessage {
    #[prost(message, optional, tag = "1")]
    field: Option<datafusion_proto::protobuf::Field>,
}

/// Returns the field of an expression whose own message does not tell it.
fn untold_field(expr: &Arc<dyn PhysicalExpr>) -> Result<Option<FieldRef>> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        if *cast.cast_options() != DEFAULT_CAST_OPTIONS {
            return Err(refusal("a cast that has options"));
        }
        return Ok(cast.has_explicit_metadata().then(|| cast.target_field().clone()));
    }
    if !expr.is::<Literal>() && !expr.is::<ScalarFunctionExpr>() {
        return Ok(None);
    }
    // The field of these does not depend on their input.
    let field = expr.return_field(&Schema::empty())?;
    Ok(if field.metadata().is_empty() { None } else { Some(field) })
}

/// Returns an expression with the field that came beside it.
///
/// # Errors
/// For bytes that are no field, and for other expressions.
pub(crate) fn with_field(bytes: &[u8], inputs: &[Arc<dyn PhysicalExpr>]) -> Result<Arc<dyn PhysicalExpr>> {
    let no_field = || DataFusionError::Plan("what another node sent is no expression with a field".into());
    let message = FieldMessage::decode(bytes).map_err(|_| no_field())?;
    let field: Field = message.field.as_ref().ok_or_else(no_field)?.try_into()?;
    let [expr] = inputs else { return Err(no_field()) };
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return Ok(Arc::new(CastExpr::new_with_target_field(cast.expr().clone(), Arc::new(field), None)));
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        let metadata = FieldMetadata::new_from_field(&field);
        return Ok(Arc::new(Literal::new_with_metadata(literal.value().clone(), Some(metadata))));
    }
    let call = expr.downcast_ref::<ScalarFunctionExpr>().ok_or_else(no_field)?;
    Ok(Arc::new(ScalarFunctionExpr::new(
        call.name(),
        Arc::new(call.fun().clone()),
        call.args().to_vec(),
        Arc::new(field),
        Arc::new(call.config_options().clone()),
    )))
}

/// The columns that a projection gives, beside the projection.
#[derive(Clone, PartialEq, Message)]
struct SchemaMessage {
    #[prost(message, optional, tag = "1")]
    schema: Option<datafusion_proto::protobuf::Schema>,
}

/// Returns the columns of a projection whose expressions do not tell them.
fn untold_schema(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<SchemaRef>> {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let told = ProjectionExec::try_new(projection.expr().to_vec(), projection.input().clone())?;
    Ok(if told.schema() == plan.schema() { None } else { Some(plan.schema()) })
}

/// Returns a projection with the columns that came beside it.
///
/// # Errors
/// For bytes that are no columns, and for other operators.
pub(crate) fn with_schema(bytes: &[u8], plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let no_schema = || DataFusionError::Plan("what another node sent is no projection".into());
    let message = SchemaMessage::decode(bytes).map_err(|_| no_schema())?;
    let schema: Schema = message.schema.as_ref().ok_or_else(no_schema)?.try_into()?;
    let projection = plan.downcast_ref::<ProjectionExec>().ok_or_else(no_schema)?;
    let (items, input) = (projection.expr().to_vec(), projection.input().clone());
    Ok(Arc::new(ProjectionExec::try_new_with_schema_metadata(items, input, &schema)?))
}

/// Returns an aggregate without keys that has so many grouping sets.
fn with_sets(plan: Arc<dyn ExecutionPlan>, sets: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return Ok(plan) };
    let has_sets = aggregate.group_expr().has_grouping_set();
    let keys = PhysicalGroupBy::new(Vec::new(), Vec::new(), vec![Vec::new(); sets], has_sets);
    let new = AggregateExec::try_new(
        *aggregate.mode(),
        keys,
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        aggregate.input().clone(),
        aggregate.input_schema(),
    )?;
    Ok(Arc::new(new.with_limit_options(aggregate.limit_options())))
}

/// Refuses an operator whose message does not tell all of it.
fn check_is_told(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    if plan.is::<LazyMemoryExec>() {
        return Err(refusal(plan.name()));
    }
    let windows = if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        (window.window_expr(), window.input())
    } else if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        (window.window_expr(), window.input())
    } else {
        return Ok(());
    };
    let (calls, input) = windows;
    for call in calls {
        if !is_plain(call, &input.schema())? {
            return Err(refusal("a window function with FILTER or IGNORE NULLS"));
        }
    }
    Ok(())
}

/// Says whether a window function has neither FILTER nor IGNORE NULLS. DataFusion tells nobody, so it is
/// compared with one that surely has not.
fn is_plain(call: &Arc<dyn WindowExpr>, input: &Schema) -> Result<bool> {
    let (by, order, frame) = (call.partition_by(), call.order_by(), call.get_window_frame().clone());
    let any = call.as_any();
    let plain: Arc<dyn WindowExpr> = if let Some(window) = any.downcast_ref::<PlainAggregateWindowExpr>() {
        let function = Arc::new(window.get_aggregate_expr().clone());
        Arc::new(PlainAggregateWindowExpr::new(function, by, order, frame, None))
    } else if let Some(window) = any.downcast_ref::<SlidingAggregateWindowExpr>() {
        let function = Arc::new(window.get_aggregate_expr().clone());
        Arc::new(SlidingAggregateWindowExpr::new(function, by, order, frame, None))
    } else if let Some(window) = any.downcast_ref::<StandardWindowExpr>()
        && let Some(function) = window.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()
    {
        let name = call.name().to_string();
        let function = create_udwf_window_expr(function.fun(), function.args(), input, name, false)?;
        Arc::new(StandardWindowExpr::new(function, by, order, frame))
    } else {
        return Ok(false);
    };
    Ok(format!("{call:?}") == format!("{plain:?}"))
}

/// Returns the error for what stays on its node.
pub(crate) fn refusal(what: &str) -> DataFusionError {
    DataFusionError::NotImplemented(format!("{what} stays on its node"))
}
