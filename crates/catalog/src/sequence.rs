//! nextval, currval, lastval and setval, and the values that a session has taken.

use crate::scope::{Name, Named, Scope, TEMPORARY};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{ScalarValue, TableReference, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result as FusionResult};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_storage::{SequenceState, Snapshot, unknown_sequence};
use hypostyle_sync::Mutex;
use hypostyle_types::Privileges;
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Returns the parts of a sequence's name in a text, as in `nextval('name')`.
pub fn sequence_name(text: &str) -> Vec<String> {
    let name = TableReference::parse_str(text);
    let parts = [name.catalog(), name.schema(), Some(name.table())];
    parts.into_iter().flatten().map(str::to_string).collect()
}

/// Sequences, as one session uses them.
pub struct Sequences {
    scope: Arc<Scope>,
    privileges: Privileges,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    values: HashMap<Name, i64>,
    last: Option<Name>,
}

impl Sequences {
    /// Creates the sequences of a session, and registers the functions.
    pub fn new(scope: Arc<Scope>, context: &SessionContext, privileges: Privileges) -> Arc<Self> {
        let sequences = Arc::new(Self { scope, privileges, taken: Mutex::default() });
        for what in [What::Next, What::Current, What::Last, What::Set] {
            context.register_udf(ScalarUDF::from(SequenceFunction::new(what, sequences.clone())));
        }
        sequences
    }

    fn named(&self, text: &str) -> Result<Name> {
        self.scope.resolve(&sequence_name(text), None)
    }

    /// Takes values that follow each other, unless others take some between them.
    ///
    /// # Errors
    /// `UnknownName`; `InvalidInput` when the sequence has no more; `ReadOnly`, `DiskFull`, `Io`.
    pub fn next(&self, name: &Name, count: u64) -> Result<Vec<i64>> {
        self.check_writable(name, "nextval")?;
        let Named { database, snapshot, .. } = self.scope.database(&name.database)?;
        let values = match self.scope.counted_column(name) {
            Some((node, table, column)) => {
                let wanted = usize::try_from(count).unwrap_or(usize::MAX);
                within(&snapshot, name, node.next_values(table, column, wanted)?)?
            }
            None => database.next_values(&snapshot, &name.schema, &name.name, count)?,
        };
        if let Some(last) = values.last() {
            let mut taken = self.taken.lock();
            taken.values.insert(name.clone(), *last);
            taken.last = Some(name.clone());
        }
        Ok(values)
    }

    fn current(&self, name: &Name) -> Result<i64> {
        let seen = self.scope.database(&name.database)?.snapshot;
        if seen.catalog().sequence(&name.schema, &name.name).is_none() {
            return Err(unknown_sequence(seen.catalog(), &name.name));
        }
        self.taken.lock().values.get(name).copied().ok_or_else(|| {
            Error::invalid_input(format!("nextval('{}') was not called in this session", name.name))
                .with_sqlstate("55000")
        })
    }

    fn last(&self) -> Result<i64> {
        let last = self.taken.lock().last.clone();
        let last = last.ok_or_else(|| {
            Error::invalid_input("nextval was not called in this session").with_sqlstate("55000")
        })?;
        self.current(&last)
    }

    /// Refuses to change a sequence in a read-only transaction, but for one of a temporary table.
    fn check_writable(&self, name: &Name, function: &str) -> Result<()> {
        if name.database == TEMPORARY {
            return Ok(());
        }
        self.privileges.check_write()?;
        if self.scope.read_only.load(Ordering::Relaxed) {
            let message = format!(
                "the transaction is read-only; {function} cannot change the sequence \"{}\"",
                name.name
            );
            return Err(Error::new(ErrorKind::ReadOnly, message).with_sqlstate("25006"));
        }
        Ok(())
    }

    fn set(&self, name: &Name, state: SequenceState) -> Result<()> {
        self.check_writable(name, "setval")?;
        let Named { database, snapshot, .. } = self.scope.database(&name.database)?;
        match self.scope.counted_column(name) {
            Some((node, table, column)) => {
                let last = u64::try_from(state.last).ok().filter(|last| *last > 0);
                let last = last.ok_or_else(|| {
                    let message = format!("{} is less than 1, from which the cluster counts", state.last);
                    Error::invalid_input(message).with_sqlstate("22003")
                })?;
                within(&snapshot, name, vec![last])?;
                node.count_after(table, column, last - u64::from(!state.is_called))?;
            }
            None => database.set_sequence(&snapshot, &name.schema, &name.name, state)?,
        }
        if state.is_called {
            self.taken.lock().values.insert(name.clone(), state.last);
        }
        Ok(())
    }
}

/// Returns values that the cluster has counted, if a sequence has them.
///
/// # Errors
/// `InvalidInput` (2200H) for one beyond its end.
fn within(snapshot: &Snapshot, name: &Name, values: Vec<u64>) -> Result<Vec<i64>> {
    let sequence = snapshot.catalog().sequence(&name.schema, &name.name);
    let max = sequence.map_or(i64::MAX, |sequence| sequence.max);
    let end = || {
        let message = format!("sequence \"{}\" has reached its maximum value, {max}", name.name);
        Error::invalid_input(message).with_sqlstate("2200H")
    };
    let value = |value: u64| i64::try_from(value).ok().filter(|value| *value <= max).ok_or_else(end);
    values.into_iter().map(value).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Next,
    Current,
    Last,
    Set,
}

pub(crate) struct SequenceFunction {
    what: What,
    sequences: Arc<Sequences>,
    signature: Signature,
}

impl std::fmt::Debug for SequenceFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for SequenceFunction {
    fn eq(&self, other: &Self) -> bool {
        self.what == other.what && Arc::ptr_eq(&self.sequences, &other.sequences)
    }
}

impl Eq for SequenceFunction {}

impl Hash for SequenceFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.what.hash(state);
    }
}

impl SequenceFunction {
    fn new(what: What, sequences: Arc<Sequences>) -> Self {
        let (text, number) = (DataType::Utf8, DataType::Int64);
        let arguments = match what {
            What::Last => TypeSignature::Nullary,
            What::Next | What::Current => TypeSignature::Exact(vec![text]),
            What::Set => TypeSignature::OneOf(vec![
                TypeSignature::Exact(vec![text.clone(), number.clone()]),
                TypeSignature::Exact(vec![text, number, DataType::Boolean]),
            ]),
        };
        // Each row is a call of its own.
        Self { what, sequences, signature: Signature::new(arguments, Volatility::Volatile) }
    }

    fn value(&self, name: &Name, to: Option<i64>, is_called: Option<bool>) -> Result<Option<i64>> {
        match self.what {
            What::Next => Ok(self.sequences.next(name, 1)?.pop()),
            What::Current => self.sequences.current(name).map(Some),
            What::Last => self.sequences.last().map(Some),
            What::Set => match (to, is_called) {
                (Some(last), Some(is_called)) => {
                    self.sequences.set(name, SequenceState { last, is_called })?;
                    Ok(Some(last))
                }
                _ => Ok(None),
            },
        }
    }
}

impl ScalarUDFImpl for SequenceFunction {
    fn name(&self) -> &str {
        match self.what {
            What::Next => "nextval",
            What::Current => "currval",
            What::Last => "lastval",
            What::Set => "setval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> FusionResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> FusionResult<ColumnarValue> {
        let external = |error: Error| DataFusionError::External(Box::new(error));
        let rows = args.number_rows;
        // All rows of a batch take their values at once.
        if let (What::Next, [ColumnarValue::Scalar(ScalarValue::Utf8(Some(name)))]) =
            (self.what, args.args.as_slice())
        {
            let name = self.sequences.named(name).map_err(external)?;
            let values = self.sequences.next(&name, rows as u64).map_err(external)?;
            return Ok(ColumnarValue::Array(Arc::new(Int64Array::from(values))));
        }
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let arrays: Vec<ArrayRef> = arrays
            .iter()
            .map(|array| match array.len() == rows {
                true => Ok(array.clone()),
                false => ScalarValue::try_from_array(array, 0)?.to_array_of_size(rows),
            })
            .collect::<FusionResult<_>>()?;
        let names = arrays.first().map(|names| cast(names, &DataType::Utf8)).transpose()?;
        let values = (0..rows).map(|row| {
            let name = match &names {
                Some(names) if names.is_null(row) => return Ok(None),
                Some(names) => self.sequences.named(names.as_string::<i32>().value(row)).map_err(external)?,
                None => Name::default(),
            };
            let to = arrays.get(1).and_then(|to| {
                let to = to.as_primitive::<Int64Type>();
                to.is_valid(row).then(|| to.value(row))
            });
            let is_called = match arrays.get(2).map(|called| called.as_boolean()) {
                Some(called) => called.is_valid(row).then(|| called.value(row)),
                None => Some(true),
            };
            self.value(&name, to, is_called).map_err(external)
        });
        let values: Int64Array = values.collect::<FusionResult<_>>()?;
        match values.len() == rows {
            true => Ok(ColumnarValue::Array(Arc::new(values))),
            false => Err(plan_datafusion_err!("{} gave another number of rows", self.name())),
        }
    }
}
