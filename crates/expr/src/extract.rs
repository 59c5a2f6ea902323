//! `extract`, whose seconds, their parts, and seconds since 1970 are exact, as in PostgreSQL. DataFusion cuts
//! fractions off, as `date_part` does, and makes a DOUBLE of the latter.

use crate::builtin::described;
use crate::date_part::DatePart;
use datafusion::error::Result;
use datafusion::functions::datetime::date_part;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::{Expr, ScalarUDF};
use std::sync::LazyLock;

/// Plans it.
#[derive(Debug)]
pub struct Extract;

impl ExprPlanner for Extract {
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        static PART: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::from(DatePart::over(date_part())));
        let [Expr::Literal(part, _), of] = args.as_slice() else { return Ok(PlannerResult::Original(args)) };
        let part = part.try_as_str().flatten().unwrap_or_default();
        let part = part.trim_matches(['\'', '"']).to_ascii_lowercase();
        let exact = match part.as_str() {
            "second" | "seconds" | "sec" | "secs" | "s" => described("extract_seconds"),
            "millisecond" | "milliseconds" | "msec" | "msecs" | "ms" => described("extract_milliseconds"),
            "microsecond" | "microseconds" | "usec" | "usecs" | "us" => described("extract_microseconds"),
            "epoch" => described("extract_epoch"),
            _ => None,
        };
        Ok(PlannerResult::Planned(match exact {
            Some(exact) => exact.call(vec![of.clone()]),
            None => PART.call(args),
        }))
    }
}
