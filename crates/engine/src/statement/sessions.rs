//! SHOW SESSIONS and KILL, which list and end the sessions of the engine.

use crate::session::{Activity, Engine, Outcome};
use arrow::array::{ArrayRef, Float64Array, StringArray, UInt64Array};
use arrow::record_batch::RecordBatch;
use hypostyle_sql::statement::Kill;
use hypostyle_types::{Error, ErrorKind, Identity, Result};
use std::sync::Arc;

/// Ends a session, or only its statement.
pub(super) fn kill_session(
    engine: &Engine,
    identity: &Identity,
    Kill { session: id, only_statement }: Kill,
) -> Result<Outcome> {
    let missing = || {
        Error::new(ErrorKind::UnknownName, format!("there is no session {id}; SHOW SESSIONS lists them"))
            .with_sqlstate("42704")
    };
    let other = engine.session(id).ok_or_else(missing)?;
    if other.identity.user != identity.user {
        identity.privileges.check_machine("end sessions of other users")?;
    }
    if only_statement {
        other.interrupt();
    } else {
        other.kill();
    }
    Ok(Outcome::Done { rows_affected: None })
}

/// Returns a row for each session of the engine; only one's own without the right to see the
/// others'.
pub(super) fn show_sessions(engine: &Engine, identity: &Identity, own: u64) -> Result<Outcome> {
    let all = identity.privileges.machine;
    let sessions: Vec<Activity> =
        engine.activities().into_iter().filter(|activity| all || activity.session == own).collect();
    let text = |value: fn(&Activity) -> Option<&str>| -> ArrayRef {
        Arc::new(sessions.iter().map(value).collect::<StringArray>())
    };
    let columns = [
        (
            "session_id",
            Arc::new(sessions.iter().map(|activity| activity.session).collect::<UInt64Array>()) as ArrayRef,
        ),
        ("user_name", text(|activity| Some(&activity.identity.user))),
        ("client", text(|activity| Some(&activity.identity.client))),
        ("peer", text(|activity| Some(&activity.identity.peer))),
        ("state", text(|activity| Some(activity.state))),
        ("statement", text(|activity| activity.statement.as_deref())),
        (
            "seconds",
            Arc::new(
                sessions.iter().map(|activity| activity.elapsed.as_secs_f64()).collect::<Float64Array>(),
            ),
        ),
        ("rows_done", Arc::new(sessions.iter().map(|activity| activity.rows_done).collect::<UInt64Array>())),
    ];
    let batch = RecordBatch::try_from_iter(columns)
        .map_err(|error| Error::internal(format!("cannot list the sessions: {error}")))?;
    Ok(Outcome::batch(batch))
}
