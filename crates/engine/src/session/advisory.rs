//! Advisory locks of PostgreSQL's clients, and their functions that end other sessions.
//!
//! A lock is a number whose meaning the programs define. It belongs to a session or to its
//! transaction, and a session may take one several times. A function does not wait for a lock of
//! another session: it fails, and the statement is tried again until the lock is free, on a thread
//! that no other session needs.

use super::{Engine, Session};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result as FusionResult};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_catalog::scope::Scope;
use hypostyle_sql::kind::has_in_name;
use hypostyle_sync::Mutex;
use hypostyle_types::Identity;
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The names of all functions that take locks have it in them.
const SIGN: &str = "advisory_";

/// The interval between two attempts to take a lock.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A database, and the number or the two of them that a lock is.
type LockName = (String, Vec<i64>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    session: u64,
    shared: bool,
    of_transaction: bool,
}

/// All that are held in an engine.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<HashMap<LockName, Vec<Hold>>>);

impl Locks {
    fn take(&self, key: LockName, hold: Hold) -> bool {
        let mut locks = self.0.lock();
        let holds = locks.entry(key).or_default();
        let others = holds.iter().filter(|other| other.session != hold.session);
        let is_free = others.into_iter().all(|other| other.shared && hold.shared);
        if is_free {
            holds.push(hold);
        }
        is_free
    }

    /// Gives a lock back that a session holds beyond its transaction; false when it does not.
    fn give_back(&self, key: &LockName, session: u64, shared: bool) -> bool {
        let mut locks = self.0.lock();
        let Some(holds) = locks.get_mut(key) else { return false };
        let wanted = Hold { session, shared, of_transaction: false };
        let Some(place) = holds.iter().position(|hold| *hold == wanted) else { return false };
        holds.remove(place);
        if holds.is_empty() {
            locks.remove(key);
        }
        true
    }

    fn retain(&self, keep: impl Fn(&Hold) -> bool) {
        self.0.lock().retain(|_, holds| {
            holds.retain(|hold| keep(hold));
            !holds.is_empty()
        });
    }
}

/// The locks of one session.
#[derive(Debug)]
pub(crate) struct SessionLocks {
    locks: Arc<Locks>,
    session: u64,
    scope: Arc<Scope>,
    identity: Identity,
    engine: Weak<Engine>,
    /// It may have some of a transaction's.
    of_transaction: AtomicBool,
}

impl SessionLocks {
    pub fn new(engine: &Arc<Engine>, session: u64, scope: &Arc<Scope>, identity: &Identity) -> Arc<Self> {
        Arc::new(Self {
            locks: engine.advisory_locks.clone(),
            session,
            scope: scope.clone(),
            identity: identity.clone(),
            engine: Arc::downgrade(engine),
            of_transaction: AtomicBool::new(false),
        })
    }

    /// Releases the locks that the transaction has taken.
    pub fn end_transaction(&self) {
        if self.of_transaction.swap(false, Ordering::AcqRel) {
            self.locks.retain(|hold| hold.session != self.session || !hold.of_transaction);
        }
    }

    /// Interrupts or ends the session of a process, as clients call it; false when there is none.
    fn end(&self, process: i64, only_statement: bool) -> Result<bool> {
        let Some(engine) = self.engine.upgrade() else { return Ok(false) };
        let found =
            engine.sessions().into_iter().find(|session| i64::from(session.settings().process()) == process);
        let Some(session) = found else { return Ok(false) };
        if session.identity.user != self.identity.user {
            self.identity.privileges.check_machine("end sessions of other users")?;
        }
        if only_statement {
            session.interrupt()
        } else {
            session.kill()
        }
        Ok(true)
    }
}

impl Drop for SessionLocks {
    fn drop(&mut self) {
        self.locks.retain(|hold| hold.session != self.session);
    }
}

fn taken() -> Error {
    Error::new(ErrorKind::Conflict, "another session has the advisory lock").with_sqlstate("55P03")
}

/// Says whether a statement has failed because a lock is not free.
fn is_taken(error: &Error) -> bool {
    error.kind() == ErrorKind::Conflict && error.sqlstate() == "55P03"
}

/// Says whether a statement may take a lock: its result is computed at once.
pub(crate) fn may_lock(sql: &str) -> bool {
    has_in_name(sql, SIGN)
}

impl Session {
    /// Runs what may take locks, again as long as they are not free.
    pub(crate) fn with_locks<T>(&self, mut run: impl FnMut() -> Result<T>) -> Result<T> {
        let (since, limit) = (Instant::now(), self.settings.time("lock_timeout"));
        loop {
            match run() {
                Err(error) if is_taken(&error) => {
                    self.check_interrupt()?;
                    if limit.is_some_and(|limit| since.elapsed() >= limit) {
                        let message =
                            "canceling statement due to lock timeout: another session has the advisory lock";
                        return Err(Error::new(ErrorKind::Interrupted, message).with_sqlstate("55P03"));
                    }
                    std::thread::sleep(LOOK_INTERVAL);
                }
                other => return other,
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Lock { tries: bool, shared: bool, of_transaction: bool },
    Unlock { shared: bool },
    UnlockAll,
    CancelStatement,
    EndSession,
}

const fn lock(tries: bool, of_transaction: bool, shared: bool) -> Action {
    Action::Lock { tries, shared, of_transaction }
}

const FUNCTIONS: [(&str, Action); 13] = [
    ("pg_advisory_lock", lock(false, false, false)),
    ("pg_advisory_lock_shared", lock(false, false, true)),
    ("pg_advisory_xact_lock", lock(false, true, false)),
    ("pg_advisory_xact_lock_shared", lock(false, true, true)),
    ("pg_try_advisory_lock", lock(true, false, false)),
    ("pg_try_advisory_lock_shared", lock(true, false, true)),
    ("pg_try_advisory_xact_lock", lock(true, true, false)),
    ("pg_try_advisory_xact_lock_shared", lock(true, true, true)),
    ("pg_advisory_unlock", Action::Unlock { shared: false }),
    ("pg_advisory_unlock_shared", Action::Unlock { shared: true }),
    ("pg_advisory_unlock_all", Action::UnlockAll),
    ("pg_cancel_backend", Action::CancelStatement),
    ("pg_terminate_backend", Action::EndSession),
];

pub(crate) fn register(context: &SessionContext, locks: &Arc<SessionLocks>) {
    for (name, action) in FUNCTIONS {
        let one = TypeSignature::Exact(vec![DataType::Int64]);
        let two = TypeSignature::Exact(vec![DataType::Int64, DataType::Int64]);
        let signature = match action {
            Action::UnlockAll => TypeSignature::Nullary,
            Action::CancelStatement => one,
            // The second argument is the time to wait, in milliseconds.
            Action::EndSession | Action::Lock { .. } | Action::Unlock { .. } => {
                TypeSignature::OneOf(vec![one, two])
            }
        };
        context.register_udf(ScalarUDF::from(AdvisoryFunction {
            name,
            action,
            signature: Signature::new(signature, Volatility::Volatile),
            locks: locks.clone(),
        }));
    }
}

#[derive(Debug)]
pub(crate) struct AdvisoryFunction {
    name: &'static str,
    action: Action,
    signature: Signature,
    locks: Arc<SessionLocks>,
}

impl PartialEq for AdvisoryFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.locks, &other.locks)
    }
}

impl Eq for AdvisoryFunction {}

impl Hash for AdvisoryFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl AdvisoryFunction {
    /// Says whether it gives a truth; others give nothing, as an empty text.
    fn tells(&self) -> bool {
        !matches!(self.action, Action::Lock { tries: false, .. } | Action::UnlockAll)
    }

    fn call(&self, arguments: Vec<i64>) -> Result<bool> {
        let locks = &self.locks;
        let key = |arguments| (locks.scope.current().0, arguments);
        match self.action {
            Action::Lock { tries, shared, of_transaction } => {
                let hold = Hold { session: locks.session, shared, of_transaction };
                locks.of_transaction.fetch_or(of_transaction, Ordering::AcqRel);
                match locks.locks.take(key(arguments), hold) {
                    false if !tries => Err(taken()),
                    is_taken => Ok(is_taken),
                }
            }
            Action::Unlock { shared } => Ok(locks.locks.give_back(&key(arguments), locks.session, shared)),
            Action::UnlockAll => {
                locks.locks.retain(|hold| hold.session != locks.session || hold.of_transaction);
                Ok(true)
            }
            Action::CancelStatement => locks.end(arguments[0], true),
            Action::EndSession => locks.end(arguments[0], false),
        }
    }
}

impl ScalarUDFImpl for AdvisoryFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> FusionResult<DataType> {
        Ok(if self.tells() { DataType::Boolean } else { DataType::Utf8 })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> FusionResult<ColumnarValue> {
        let is_scalar = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { arguments.number_rows.min(1) } else { arguments.number_rows };
        let numbers = arguments
            .args
            .iter()
            .map(|value| Ok(cast(&value.to_array(rows)?, &DataType::Int64)?))
            .collect::<FusionResult<Vec<ArrayRef>>>()?;
        let call = |row: usize| {
            let number =
                |array: &ArrayRef| array.is_valid(row).then(|| array.as_primitive::<Int64Type>().value(row));
            let given = numbers.iter().map(number).collect::<Option<Vec<i64>>>();
            given.map(|given| self.call(given)).transpose()
        };
        let results = (0..rows).map(call).collect::<Result<Vec<Option<bool>>>>();
        let results = results.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let array: ArrayRef = match self.tells() {
            true => Arc::new(BooleanArray::from(results)),
            false => Arc::new(results.into_iter().map(|done| done.map(|_| "")).collect::<StringArray>()),
        };
        Ok(match is_scalar && rows == 1 {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            false => ColumnarValue::Array(array),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_shared_or_of_one_session() {
        let (locks, key) = (Locks::default(), ("db".to_string(), vec![1]));
        let hold = |session, shared| Hold { session, shared, of_transaction: false };
        assert!(locks.take(key.clone(), hold(1, false)) && locks.take(key.clone(), hold(1, false)));
        assert!(!locks.take(key.clone(), hold(2, true)));
        assert!(locks.give_back(&key, 1, false) && !locks.take(key.clone(), hold(2, true)));
        assert!(locks.give_back(&key, 1, false) && !locks.give_back(&key, 1, false));
        assert!(locks.take(key.clone(), hold(2, true)) && locks.take(key.clone(), hold(3, true)));
        assert!(!locks.take(key.clone(), hold(3, false)));
        locks.retain(|hold| hold.session != 2);
        assert!(locks.take(key, hold(3, false)));
    }
}
