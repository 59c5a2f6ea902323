//! UUIDs that begin with the time at which they were made, and what others say about themselves.

use crate::builtin::written::{Described, Kind};
use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, TimeUnit};
use chrono::Utc;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_error::external;
use hypostyle_types::parse_uuid;
use std::sync::Arc;
use uuid::{Uuid, Variant};

pub(super) const FUNCTIONS: &[Described] = &[
    // NULL for those of another variant, as in PostgreSQL.
    Described::new(
        &["version_of_uuid"],
        &[Kind::Text],
        |_| Ok(DataType::Int64),
        |args, _| {
            let version = |uuid: &Uuid| i64::try_from(uuid.get_version_num()).ok();
            let versions = known(&args[0])?.into_iter().map(|uuid| uuid.as_ref().and_then(version));
            Ok(Arc::new(versions.collect::<Int64Array>()))
        },
    ),
    Described::new(
        &["moment_of_uuid"],
        &[Kind::Text],
        |_| Ok(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        |args, _| {
            let moments = known(&args[0])?.into_iter().map(|uuid| uuid.as_ref().and_then(moment));
            Ok(Arc::new(moments.collect::<TimestampMicrosecondArray>().with_timezone("UTC")))
        },
    ),
];

/// Returns the UUIDs that say how they were made.
fn known(texts: &ArrayRef) -> Result<Vec<Option<Uuid>>> {
    let uuids = texts.as_string::<i32>().iter().map(|text| {
        let uuid = text.map(parse_uuid).transpose().map_err(external)?;
        Ok(uuid.filter(|uuid| uuid.get_variant() == Variant::RFC4122))
    });
    uuids.collect()
}

/// Returns the microseconds since 1970 that a UUID has in it, if it has.
fn moment(uuid: &Uuid) -> Option<i64> {
    let (seconds, nanoseconds) = uuid.get_timestamp()?.to_unix();
    let microseconds = i64::try_from(seconds).ok()?.checked_mul(1_000_000)?;
    microseconds.checked_add(i64::from(nanoseconds / 1000))
}

pub(super) fn register(context: &SessionContext) {
    let signature = Signature::nullary(Volatility::Volatile);
    context.register_udf(ScalarUDF::from(UuidOfNow { signature }));
}

/// `uuidv7()`: the UUIDs of a connection come in the order in which they are made, to some fourths of a
/// microsecond.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct UuidOfNow {
    signature: Signature,
}

impl ScalarUDFImpl for UuidOfNow {
    fn name(&self) -> &str {
        "uuidv7"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let uuids = (0..args.number_rows).map(|_| Some(of_now().hyphenated().to_string()));
        Ok(ColumnarValue::Array(Arc::new(uuids.collect::<StringArray>())))
    }
}

/// Returns a UUID of version 7: milliseconds, their fraction in 12 bits, and 62 bits of a random one.
fn of_now() -> Uuid {
    let now = Utc::now();
    let milliseconds = u128::from(now.timestamp_millis().unsigned_abs()) & 0xffff_ffff_ffff;
    let fraction = u128::from(now.timestamp_subsec_nanos() % 1_000_000) * 4096 / 1_000_000;
    // The variant of a random UUID is the one of all.
    let random = Uuid::new_v4().as_u128() & u128::from(u64::MAX);
    Uuid::from_u128(milliseconds << 80 | 7 << 76 | fraction << 64 | random)
}

#[cfg(test)]
mod tests {
    use super::{moment, of_now};
    use uuid::{Uuid, Variant};

    #[test]
    fn uuids_have_the_time_at_which_they_were_made() {
        let before = chrono::Utc::now().timestamp_millis();
        let uuid = of_now();
        let after = chrono::Utc::now().timestamp_millis();
        assert_eq!((uuid.get_version_num(), uuid.get_variant()), (7, Variant::RFC4122));
        assert!((before..=after).contains(&(moment(&uuid).unwrap() / 1000)));
        assert_eq!(moment(&Uuid::new_v4()), None);
    }
}
