//! Prepared statements, and portals: statements with values for their parameters, and with the rows
//! that they have left.

use super::column::{all_described, check_count};
use super::command::Command;
use super::decode::type_of_parameter;
use super::reply::CHANGED;
use super::rows::Rows;
use super::words::highest_parameter;
use hypostyle::kind::{has_in_name, parameters_as_arrays, writes_values};
use hypostyle::postgres::{JSON, TEXT, by_name, by_oid, shown};
use hypostyle::{Connection, Held, Meaning, ScalarValue, StatementDescription};
use hypostyle_pgtypes::Column;
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// The largest number that the protocol counts.
const PARAMETERS_MAX: usize = 65_535;

/// Types whose names mean the same in SQL.
const IN_SQL: [&str; 9] = ["bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "date"];

/// Further types whose names in PREPARE tell what the values of messages are.
const IN_PREPARE: [&str; 5] = ["bytea", "numeric", "timestamp", "timestamptz", "uuid"];

/// The longest statement whose syntax is checked when it is prepared.
const CHECKED_BYTES_MAX: usize = 64 << 10;

/// So many bytes of a description take no memory of the session's.
const DESCRIPTION_BYTES_FREE: usize = 16 << 10;

pub(super) struct Statement {
    pub command: Command,
    /// Those that the client has told; 0 for one that it has not.
    types: Vec<u32>,
    /// The values that it can use, if the client has told types: it may tell more than there are parameters.
    values_max: usize,
    /// Made when something of it is needed: it costs as much as planning.
    description: OnceCell<StatementDescription>,
    /// What that takes of the session's memory.
    memory: OnceCell<Option<Held>>,
    /// What names meant when it was made, or when it was last seen to hold.
    meaning: RefCell<Option<Meaning>>,
    /// Definitions have changed something of its description since.
    is_outdated: Cell<bool>,
}

impl Statement {
    pub fn new(sql: &str, types: Vec<u32>) -> Result<Self> {
        match hypostyle::split_statements(sql).as_slice() {
            [] => Ok(Self::of(Command::Empty, types)),
            [one] => Ok(Self::of(Command::read(one)?, with_arrays_of_oids(one, types))),
            _ => Err(Error::new(
                ErrorKind::Syntax,
                "cannot insert multiple commands into a prepared statement",
            )),
        }
    }

    /// Makes the statement of a PREPARE, with the types of its parameters as they are written there. `None`
    /// if these are others than messages have.
    pub fn of_prepare(sql: &str, types: &str) -> Option<Self> {
        let oid = |name: &str| {
            let (scalar, is_array) = by_name(name)?;
            let is_known = IN_SQL.contains(&scalar.name) || IN_PREPARE.contains(&scalar.name);
            (is_known && !is_array).then_some(scalar.oid)
        };
        let types = match types {
            "" => Vec::new(),
            some => {
                let names = some.strip_prefix('(')?.strip_suffix(')')?;
                names.split(',').map(oid).collect::<Option<_>>()?
            }
        };
        let statement = Self::new(sql, types).ok()?;
        matches!(statement.command, Command::Run { .. }).then_some(statement)
    }

    fn of(command: Command, types: Vec<u32>) -> Self {
        let (description, memory) = (OnceCell::new(), OnceCell::new());
        let (meaning, is_outdated) = (RefCell::default(), Cell::new(false));
        let sql = match &command {
            Command::Run { sql, .. } | Command::Declare { sql, .. } if !types.is_empty() => Some(sql),
            _ => None,
        };
        let values_max = sql.and_then(|sql| highest_parameter(sql)).unwrap_or(usize::MAX);
        Self { command, types, values_max, description, memory, meaning, is_outdated }
    }

    /// Checks that the text is a statement. One that is longer is looked at when it is described or runs:
    /// reading it twice would take long.
    ///
    /// # Errors
    /// Those of parsing it.
    pub fn check_syntax(&self, connection: &Connection) -> Result<()> {
        match self.sql().filter(|sql| sql.len() <= CHECKED_BYTES_MAX) {
            Some(sql) => connection.check_syntax(sql),
            None => Ok(()),
        }
    }

    /// The statement that the engine knows about.
    fn sql(&self) -> Option<&str> {
        match &self.command {
            Command::Run { sql, .. } | Command::Declare { sql, .. } => Some(sql),
            _ => None,
        }
    }

    fn description(&self, connection: &Connection) -> Result<&StatementDescription> {
        if let Some(known) = self.description.get() {
            return Ok(known);
        }
        let description = match self.sql() {
            Some(sql) => {
                let meaning = connection.meaning()?;
                let description = self.described(sql, connection)?;
                *self.meaning.borrow_mut() = Some(meaning);
                description
            }
            None => StatementDescription {
                parameters: Vec::new(),
                columns: None,
                runs_to_tell: false,
                origins: Vec::new(),
                follows_definitions: true,
            },
        };
        let bytes = bytes_of(&description);
        if bytes > DESCRIPTION_BYTES_FREE {
            let _first = self.memory.set(connection.hold("prepared statements", bytes as u64)?);
        }
        Ok(self.description.get_or_init(|| description))
    }

    /// The bytes of its description, about, if there is one.
    pub fn description_bytes(&self) -> usize {
        self.description.get().map_or(0, bytes_of)
    }

    fn described(&self, sql: &str, connection: &Connection) -> Result<StatementDescription> {
        let given: Vec<_> = self.types.iter().map(|oid| type_of_parameter(*oid)).collect();
        connection.describe_with(sql, &given)
    }

    /// Says whether a client that prepares the text again may have this statement: it would surely be
    /// described in the same way.
    pub fn holds(&self, connection: &Connection) -> bool {
        let Some(known) = self.description.get() else { return true };
        let Some(sql) = self.sql() else { return true };
        let is_fixed = known.follows_definitions && !finds_columns(sql) || writes_values(sql);
        let meaning = self.meaning.borrow();
        is_fixed
            && !self.is_outdated.get()
            && meaning.as_ref().is_some_and(|meaning| connection.still_means(meaning).unwrap_or(false))
    }

    /// Checks that the statement gives the columns that it was described with.
    ///
    /// # Errors
    /// 0A000 if a definition, or what a PIVOT finds, has changed them since; drivers prepare the statement
    /// again then.
    pub fn check_unchanged(&self, connection: &Connection) -> Result<()> {
        let (Some(known), Some(sql)) = (self.description.get(), self.sql()) else { return Ok(()) };
        let holds = match self.meaning.borrow().as_ref() {
            Some(meaning) => connection.still_means(meaning)?,
            None => true,
        };
        if holds && !finds_columns(sql) {
            return Ok(());
        }
        let meaning = connection.meaning()?;
        let now = self.described(sql, connection)?;
        self.is_outdated.set(self.is_outdated.get() || now != *known);
        let is_alike = match (all_described(known), all_described(&now)) {
            (Some(known), Some(now)) => {
                known.len() == now.len() && known.iter().zip(&now).all(|(known, now)| known.is_alike(now))
            }
            (known, now) => known.is_none() && now.is_none(),
        };
        if !is_alike {
            return Err(Error::unsupported(CHANGED));
        }
        *self.meaning.borrow_mut() = Some(meaning);
        Ok(())
    }

    /// The types of all parameters.
    pub fn parameters(&self, connection: &Connection) -> Result<Vec<u32>> {
        let known = &self.description(connection)?.parameters;
        let count = known.len().max(self.types.len());
        let parameter = |index: usize| {
            let told = self.types.get(index).copied().filter(|oid| by_oid(*oid).is_some());
            let found = || known.get(index).cloned().flatten().map(|logical_type| shown(&logical_type).oid());
            told.or_else(found).unwrap_or(TEXT.oid)
        };
        Ok((0..count).map(parameter).collect())
    }

    /// The types of the parameters that values are given for; what the client has told is enough if
    /// it is all.
    pub fn bound(&self, connection: &Connection, values: usize) -> Result<Vec<u32>> {
        match self.types.len() >= values && self.types.iter().all(|oid| by_oid(*oid).is_some()) {
            true => Ok(self.types.clone()),
            false => self.parameters(connection),
        }
    }

    /// The values without those that only the client's types have asked for.
    pub fn used(&self, mut values: Vec<ScalarValue>) -> Vec<ScalarValue> {
        values.truncate(self.values_max);
        values
    }

    /// The types of parameters in the form of PREPARE; nothing if one of them is not told, or is not the same
    /// for values of SQL.
    pub fn types_in_sql(&self) -> String {
        let name = |oid: &u32| match by_oid(*oid)? {
            (scalar, false) => IN_SQL.contains(&scalar.name).then_some(scalar.sql),
            (_, true) => None,
        };
        match self.types.iter().map(name).collect::<Option<Vec<_>>>() {
            Some(names) if !names.is_empty() => format!(" ({})", names.join(", ")),
            _ => String::new(),
        }
    }

    /// The type of a parameter that was described as JSON and is none: a structure, a map, or a list of
    /// such. One that the client has told is what it says.
    pub fn nested(&self, index: usize) -> Option<&LogicalType> {
        if self.types.get(index).is_some_and(|oid| by_oid(*oid).is_some()) {
            return None;
        }
        let known = self.description.get()?.parameters.get(index)?.as_ref()?;
        let shown = shown(known);
        let is_nested = !shown.is_array && shown.scalar == JSON && *known != LogicalType::Json;
        is_nested.then_some(known)
    }

    /// The columns that the client was told of.
    pub fn told(&self) -> Option<Vec<Column>> {
        all_described(self.description.get()?)
    }

    /// The columns of the result, if there is one; `None` when the statement has to run to tell.
    pub fn columns(&self, connection: &Connection) -> Result<Option<Option<Vec<Column>>>> {
        if matches!(self.command, Command::Declare { .. }) {
            return Ok(Some(None));
        }
        let description = self.description(connection)?;
        Ok(match description.runs_to_tell {
            true => None,
            false => {
                check_count(description.columns.as_ref().map_or(0, Vec::len))?;
                Some(all_described(description))
            }
        })
    }
}

/// The bytes that a description takes, about.
fn bytes_of(description: &StatementDescription) -> usize {
    let columns = description.columns.as_deref().unwrap_or_default();
    let names: usize = columns.iter().map(|column| column.name.len()).sum();
    let (parameters, origins) = (description.parameters.as_slice(), description.origins.as_slice());
    names + size_of_val(columns) + size_of_val(parameters) + size_of_val(origins)
}

/// Says whether the columns of a statement may be those of values that it finds: it may have a PIVOT.
fn finds_columns(sql: &str) -> bool {
    has_in_name(sql, "pivot")
}

/// The type of arrays of `oid`.
const OIDS: u32 = 1028;

/// The types of parameters, with those that are cast to `oid[]`: to the engine these are numbers,
/// and a client that asks for types by their numbers may not know arrays of numbers yet.
fn with_arrays_of_oids(sql: &str, mut types: Vec<u32>) -> Vec<u32> {
    for number in parameters_as_arrays(sql, "oid").into_iter().filter(|number| *number <= PARAMETERS_MAX) {
        let Some(place) = number.checked_sub(1) else { continue };
        types.resize(types.len().max(place + 1), 0);
        if types[place] == 0 {
            types[place] = OIDS;
        }
    }
    types
}

/// How far a portal is.
pub(super) enum State {
    Ready,
    Open(Box<Rows>),
    /// It has run without giving rows, and the client has not yet been told the tag.
    Complete(String),
    /// All its rows have been given: there are no more.
    Ended,
    Done,
}

pub(super) struct Portal {
    pub statement: Rc<Statement>,
    pub values: Vec<ScalarValue>,
    pub formats: Vec<i16>,
    pub state: State,
    /// Outlives the transaction.
    pub hold: bool,
    /// The open transaction has made it.
    pub is_new: bool,
    /// The number of the session's portals before it.
    pub number: u64,
    /// What the values take of the session's memory.
    pub _memory: Option<Held>,
    /// What the query takes of it while it waits until its rows are asked for.
    pub opened: Option<Held>,
}

#[cfg(test)]
impl Statement {
    /// One that is described with so many columns.
    pub fn of_columns(count: usize) -> Self {
        let statement = Self::of(Command::Empty, Vec::new());
        statement.describe_as(count);
        statement
    }

    pub fn describe_as(&self, count: usize) {
        let column = |number| hypostyle::ColumnDescription {
            name: format!("column_{number}"),
            logical_type: LogicalType::Integer,
            nullable: true,
        };
        let description = StatementDescription {
            parameters: Vec::new(),
            columns: Some((0..count).map(column).collect()),
            runs_to_tell: false,
            origins: Vec::new(),
            follows_definitions: true,
        };
        assert!(self.description.set(description).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::{OIDS, Statement, with_arrays_of_oids};

    #[test]
    fn types_of_prepare_are_those_of_messages() {
        let types = |types| Statement::of_prepare("SELECT $1", types).map(|statement| statement.types);
        assert_eq!(types(""), Some(vec![]));
        assert_eq!(types("( INT,timestamp, uuid )"), Some(vec![23, 1114, 2950]));
        for other in ["(hugeint)", "(decimal(10, 2))", "(int[])", "(char)", "(int /* c */)", "int", "()"] {
            assert_eq!(types(other), None, "{other}");
        }
        assert!(Statement::of_prepare("COPY t FROM STDIN", "").is_none());
    }

    #[test]
    fn casts_tell_arrays_of_oids() {
        let told = |sql| with_arrays_of_oids(sql, vec![]);
        assert_eq!(told("SELECT $1, any($2::oid[])"), [0, OIDS]);
        let none = told("SELECT x::oid[], '::oid[]', $99999999999999999999::oid[], 7::oid[], $0::oid[]");
        assert!(none.is_empty(), "{none:?}");
        assert_eq!(with_arrays_of_oids("$1::oid[] $2::oid[]", vec![23]), [23, OIDS]);
    }
}
