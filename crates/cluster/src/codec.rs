//! Physical plans as bytes: the operators of DataFusion, our functions, and the scans of fragments.
//!
//! The boundaries between stages of a query (`stages`), and what gives rows to several tasks of one, travel
//! as their crate writes them. These have no expressions but columns, so that it never writes a function by
//! its name.
//!
//! A function travels with its parameters, never by its name alone: another node would compute by
//! other rules without a word (docs/decisions/0020).

use crate::converter::{Converter, refusal, with_field, with_schema};
use crate::part::PartExec;
use crate::table::FragmentScanExec;
use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::proto_decode::PhysicalExprDecodeCtx;
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{BroadcastExec, DistributedCodec, NetworkBoundaryExt};
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_proto_converter,
};
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf;
use hypostyle_expr::portable::Functions;
use hypostyle_types::TableId;
use prost::Message;
use roaring::RoaringTreemap;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Makes what reads the rows that a scan stands for.
pub type Resolve<'a> = &'a dyn Fn(&FragmentScanExec) -> Result<Arc<dyn ExecutionPlan>>;

/// Returns a plan as bytes.
///
/// # Errors
/// `NotImplemented` for operators and functions that belong to one session.
pub fn encode(plan: Arc<dyn ExecutionPlan>, functions: &Arc<Functions>) -> Result<Vec<u8>> {
    let codec = Codec::new(functions.clone());
    let bytes = physical_plan_to_bytes_with_proto_converter(plan, &codec, &Converter);
    // DataFusion makes an internal error of it.
    match codec.refused.into_inner() {
        Some(what) => Err(refusal(&what)),
        None => Ok(bytes?.to_vec()),
    }
}

/// Returns a plan from bytes, with what `resolve` makes in the place of each scan of fragments.
///
/// # Errors
/// For bytes that are no plan, and those of `resolve`.
pub fn decode(bytes: &[u8], context: &TaskContext, resolve: Resolve<'_>) -> Result<Arc<dyn ExecutionPlan>> {
    let codec = Codec::new(functions(context.session_config())?);
    let plan = physical_plan_from_bytes_with_proto_converter(bytes, context, &codec, &Converter)?;
    resolved(plan, resolve)
}

/// Returns a plan with what `resolve` makes in the place of each scan of fragments.
///
/// # Errors
/// Those of `resolve`.
pub fn resolved(plan: Arc<dyn ExecutionPlan>, resolve: Resolve<'_>) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = |node: Arc<dyn ExecutionPlan>| match node.downcast_ref::<FragmentScanExec>() {
        Some(scan) => Ok(Transformed::yes(resolve(scan)?)),
        None => Ok(Transformed::no(node)),
    };
    plan.transform_up(replaced).data()
}

/// The first byte of what is neither a scan nor the columns of a projection: no message begins with it. The
/// second one tells what it is.
const APART: u8 = 0;
const BOUNDARY: u8 = 0;
const PART: u8 = 1;

/// A scan of fragments as it travels.
#[derive(Clone, PartialEq, Message)]
struct ScanMessage {
    #[prost(uint64, tag = "1")]
    table: u64,
    #[prost(message, optional, tag = "2")]
    schema: Option<protobuf::Schema>,
    #[prost(uint64, repeated, tag = "3")]
    projection: Vec<u64>,
    #[prost(message, optional, tag = "4")]
    predicate: Option<protobuf::PhysicalExprNode>,
    /// The places of the rows, as a bitmap.
    #[prost(bytes = "vec", optional, tag = "5")]
    rows: Option<Vec<u8>>,
}

/// Returns the functions that a session sends and receives.
///
/// # Errors
/// `Internal` for a session without them.
pub fn functions(config: &SessionConfig) -> Result<Arc<Functions>> {
    config.get_extension::<Functions>().ok_or_else(|| {
        DataFusionError::Internal("a session does not know which functions can be sent".into())
    })
}

/// What DataFusion asks for whatever is not its own.
struct Codec {
    functions: Arc<Functions>,
    /// The first operator or expression that cannot be sent.
    refused: OnceLock<String>,
}

impl Codec {
    fn new(functions: Arc<Functions>) -> Self {
        Self { functions, refused: OnceLock::new() }
    }

    fn refuse(&self, what: &str) -> DataFusionError {
        let _first = self.refused.set(what.into());
        refusal(what)
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec").finish_non_exhaustive()
    }
}

impl PhysicalExtensionCodec for Codec {
    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buffer: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if node.is_network_boundary() || node.is::<BroadcastExec>() {
            buffer.extend([APART, BOUNDARY]);
            return DistributedCodec.try_encode(node, buffer, converter);
        }
        if let Some(part) = node.downcast_ref::<PartExec>() {
            buffer.extend([APART, PART]);
            buffer.extend(part.to_bytes()?);
            return Ok(());
        }
        let Some(scan) = node.downcast_ref::<FragmentScanExec>() else {
            return Err(self.refuse(node.name()));
        };
        let predicate = scan.predicate.as_ref();
        let message = ScanMessage {
            table: scan.table.0,
            schema: Some(scan.table_schema.as_ref().try_into()?),
            projection: scan.projection.iter().map(|place| *place as u64).collect(),
            predicate: predicate.map(|expr| converter.physical_expr_to_proto(expr, self)).transpose()?,
            rows: scan.rows.as_deref().map(bytes_of).transpose()?,
        };
        message.encode(buffer).map_err(|error| DataFusionError::External(Box::new(error)))
    }

    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let [APART, kind, bytes @ ..] = bytes {
            return match *kind {
                BOUNDARY => DistributedCodec.try_decode(bytes, inputs, context, converter),
                PART => Ok(Arc::new(PartExec::from_bytes(bytes)?)),
                _ => Err(no_plan("an operator that is not known")),
            };
        }
        if let [input] = inputs {
            return with_schema(bytes, input);
        }
        let message = ScanMessage::decode(bytes).map_err(|error| no_plan(&error.to_string()))?;
        let schema: Schema =
            message.schema.as_ref().ok_or_else(|| no_plan("a scan without columns"))?.try_into()?;
        let decoding = PhysicalPlanDecodeContext::new(context, self);
        let predicate = message
            .predicate
            .map(|expr| converter.proto_to_physical_expr(&expr, &schema, &decoding))
            .transpose()?;
        let projection = message.projection.iter().map(|place| usize::try_from(*place).unwrap_or(usize::MAX));
        let scan = FragmentScanExec::try_new(
            TableId(message.table),
            Arc::new(schema),
            projection.collect(),
            predicate,
        )?;
        let Some(rows) = message.rows else { return Ok(Arc::new(scan)) };
        let rows = RoaringTreemap::deserialize_from(rows.as_slice());
        Ok(Arc::new(scan.of_rows(rows.map_err(|error| no_plan(&error.to_string()))?)))
    }

    fn try_encode_udf(&self, function: &ScalarUDF, buffer: &mut Vec<u8>) -> Result<()> {
        buffer.extend(self.functions.encode(function)?);
        Ok(())
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        self.functions.decode(name, bytes)
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, buffer: &mut Vec<u8>) -> Result<()> {
        buffer.extend(self.functions.encode(function)?);
        Ok(())
    }

    fn try_decode_udaf(&self, name: &str, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
        self.functions.decode(name, bytes)
    }

    fn try_encode_udwf(&self, function: &WindowUDF, buffer: &mut Vec<u8>) -> Result<()> {
        buffer.extend(self.functions.encode(function)?);
        Ok(())
    }

    fn try_decode_udwf(&self, name: &str, bytes: &[u8]) -> Result<Arc<WindowUDF>> {
        self.functions.decode(name, bytes)
    }

    fn try_encode_higher_order_function(
        &self,
        function: &HigherOrderUDF,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        buffer.extend(self.functions.encode(function)?);
        Ok(())
    }

    fn try_decode_higher_order_function(&self, name: &str, bytes: &[u8]) -> Result<Arc<HigherOrderUDF>> {
        self.functions.decode(name, bytes)
    }

    fn try_encode_expr(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        _: &mut Vec<u8>,
        _: &PhysicalExprEncodeCtx<'_>,
    ) -> Result<()> {
        Err(self.refuse(&format!("the expression {expr}")))
    }

    fn try_decode_expr(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn PhysicalExpr>],
        _: &PhysicalExprDecodeCtx<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        with_field(bytes, inputs)
    }
}

/// Returns places as bytes.
fn bytes_of(places: &RoaringTreemap) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(places.serialized_size());
    places.serialize_into(&mut bytes)?;
    Ok(bytes)
}

fn no_plan(why: &str) -> DataFusionError {
    DataFusionError::Plan(format!("what another node sent is no plan: {why}"))
}
