//! `pg_sleep`, which an interrupt ends.

use crate::meter::Meter;
use crate::wrapped::equal_by;
use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{ScalarValue, exec_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_error::external;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const NAME: &str = "pg_sleep";

/// The time within which an interrupt is noticed.
const LOOK: Duration = Duration::from_millis(10);

/// A century: nobody waits for longer.
const SECONDS_MAX: f64 = 3.2e9;

pub(super) fn register(context: &SessionContext, meter: &Arc<Meter>) {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Volatile);
    context.register_udf(ScalarUDF::from(Sleep { meter: meter.clone(), signature }));
}

/// Waits for a number of seconds for each row, and gives nothing.
#[derive(Debug)]
pub(crate) struct Sleep {
    meter: Arc<Meter>,
    signature: Signature,
}

// The meter belongs to the session.
equal_by!(Sleep: signature);

impl Sleep {
    fn wait(&self, seconds: f64) -> Result<()> {
        let wait = Duration::from_secs_f64(seconds.clamp(0.0, SECONDS_MAX));
        let start = Instant::now();
        loop {
            self.meter.check_room(0, NAME).map_err(external)?;
            let left = wait.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let seconds = args.args.first().ok_or_else(|| exec_datafusion_err!("{NAME}(seconds)"))?;
        let seconds: ArrayRef = cast(&seconds.to_array(args.number_rows)?, &DataType::Float64)?;
        // Other queries use the thread meanwhile.
        let wait = || {
            let mut known = seconds.as_primitive::<Float64Type>().iter().flatten();
            known.try_for_each(|seconds| self.wait(if seconds.is_nan() { 0.0 } else { seconds }))
        };
        let is_worker = tokio::runtime::Handle::try_current()
            .is_ok_and(|handle| handle.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread);
        let waited = if is_worker { tokio::task::block_in_place(wait) } else { wait() };
        waited?;
        let nothing = ScalarValue::Utf8(None);
        Ok(ColumnarValue::Array(nothing.to_array_of_size(args.number_rows)?))
    }
}
