//! The parsed forms of a session's last texts. Programs run the same few texts repeatedly, and
//! parsing a small query takes about as long as running it.

use super::given_value::{GivenValue, is_plain_cast, parameter_of, value_alone};
use super::keyed_query::{KeyedQuery, is_keyed};
use super::outcome::Outcome;
use super::parameters::Parameters;
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::{Expr, Query, SelectItem, Statement, Value};
use hypostyle_sql::Statement as SqlStatement;
use hypostyle_sql::common_table::writes_within;
use hypostyle_sql::plain::only_items;
use std::collections::HashMap;
use std::sync::Arc;

/// Statements that are remembered, and the longest of their texts in bytes.
const STATEMENTS_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 4096;

/// All their texts: what they are parsed to takes some hundred times as much, in each session.
const ALL_BYTES_MAX: usize = 32 << 10;

/// The largest result that is remembered.
const RESULT_BYTES_MAX: usize = 4096;

/// The text that was read last without being run, and what it is: clients have a text checked and described,
/// and run it then.
#[derive(Debug)]
pub(crate) struct LastRead {
    sql: String,
    /// It is that of a session that speaks PostgreSQL's protocol.
    is_wire: bool,
    pub statement: SqlStatement,
}

impl LastRead {
    /// Returns `None` for a text that is too long to be kept. No values were given for its `?`.
    pub fn new(sql: &str, is_wire: bool, statement: SqlStatement) -> Option<Self> {
        (sql.len() <= TEXT_BYTES_MAX).then(|| Self { sql: sql.to_string(), is_wire, statement })
    }

    /// Says whether a text means this, with so many values for its `?`, which get numbers then.
    pub fn is(&self, sql: &str, is_wire: bool, given: Option<usize>) -> bool {
        self.sql == sql && self.is_wire == is_wire && (given.is_none() || !sql.contains('?'))
    }
}

/// An INSERT of values that need no planning.
#[derive(Debug)]
pub(crate) struct ValuesInsert {
    /// The parts of its table's name.
    pub table: Vec<String>,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<GivenValue>>,
    pub parameters: usize,
    pub returning: Vec<SelectItem>,
}

#[derive(Clone, Debug)]
pub(crate) enum Parsed {
    Insert(Arc<ValuesInsert>),
    /// Any other that reads or writes rows.
    Other(Other),
    /// A query of literals and parameters alone, as by which programs ask whether a connection is
    /// alive.
    Given(Arc<GivenQuery>),
    /// A query for rows of one table by values of its columns.
    Keyed(Other, Arc<KeyedQuery>),
}

/// A query of literals, and of parameters as they are or cast, such as `SELECT 1` and
/// `SELECT ?::INTEGER, 'x'`, and its result for some values. For others of the same types the values are
/// another row of it. Nothing but a setting can change it.
#[derive(Debug)]
pub(crate) struct GivenQuery {
    pub other: Other,
    /// The parameter of each column; `None` for a literal.
    parameters: Vec<Option<GivenValue>>,
    result: RecordBatch,
}

impl GivenQuery {
    /// Returns `None` unless the columns of the outcome are the values as they were given.
    pub fn recognize(other: &Other, parameters: &Parameters, outcome: &Outcome) -> Option<Self> {
        let places = Self::places(other)?;
        let Outcome::Batches { batches, .. } = outcome else { return None };
        let [result] = batches.as_slice() else { return None };
        let query = Self { other: other.clone(), parameters: places, result: result.clone() };
        let is_small = result.get_array_memory_size() <= RESULT_BYTES_MAX;
        (is_small && query.result(parameters).as_ref() == Some(result)).then_some(query)
    }

    /// Returns the parameter of each column of a query of parameters and literals.
    fn places(other: &Other) -> Option<Vec<Option<GivenValue>>> {
        let Statement::Query(query) = other.statement.as_ref() else { return None };
        let item = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                let parameter = parameter_of(expr);
                (parameter.is_some() || is_literal(expr)).then_some(parameter)
            }
            _ => None,
        };
        only_items(query).filter(|_| other.reads_nothing)?.iter().map(item).collect()
    }

    /// Returns the result for other values; `None` if they are of other types.
    pub fn result(&self, parameters: &Parameters) -> Option<RecordBatch> {
        let values = match parameters {
            Parameters::None => [].as_slice(),
            Parameters::Positional(values) => values,
            Parameters::Named(_) => return None,
        };
        let columns =
            self.parameters.iter().zip(self.result.columns()).zip(self.result.schema_ref().fields());
        let columns = columns.map(|((parameter, known), field)| match parameter {
            None => Some(known.clone()),
            Some(given) => {
                let value = value_alone(given, values)?;
                let is_text = matches!(given, GivenValue::Cast(..)) && value.data_type().is_string();
                // A cast to text has the type of stored columns here, and the planner's has views.
                let value = match is_text && field.data_type().is_string() {
                    true => value.cast_to(field.data_type()).ok()?,
                    false => value,
                };
                let fits = value.data_type() == *field.data_type() && value.is_null() == field.is_nullable();
                value.to_array().ok().filter(|_| fits)
            }
        });
        RecordBatch::try_new(self.result.schema(), columns.collect::<Option<_>>()?).ok()
    }
}

/// A statement, and what is known of it before it runs.
#[derive(Clone, Debug)]
pub(crate) struct Other {
    pub statement: Arc<Statement>,
    /// The number of values for its `?`, which are numbered.
    pub given: Option<usize>,
    /// It is a query of literals, parameters and operators: it needs no rows of a database.
    pub reads_nothing: bool,
    /// It may be one for rows of one table by values of its columns.
    pub may_be_keyed: bool,
}

impl Parsed {
    /// Returns `None` for a statement that is not worth it.
    pub fn recognize(statement: &Statement, parameters: &Parameters) -> Option<Self> {
        let is_of_rows = match statement {
            Statement::Query(query) => !writes_within(query),
            other => matches!(other, Statement::Update(_) | Statement::Delete(_)),
        };
        is_of_rows.then(|| {
            Self::Other(Other {
                statement: Arc::new(statement.clone()),
                given: positional(parameters),
                reads_nothing: matches!(statement, Statement::Query(query) if is_of_values(query)),
                may_be_keyed: matches!(statement, Statement::Query(query) if is_keyed(query)),
            })
        })
    }
}

/// Says whether a query is nothing but a list of expressions of literals, parameters and operators.
fn is_of_values(query: &Query) -> bool {
    let item_is_value = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => is_value(expr),
        _ => false,
    };
    only_items(query).is_some_and(|items| items.iter().all(item_is_value))
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_)),
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_literal(inner),
        Expr::BinaryOp { left, right, .. } => is_literal(left) && is_literal(right),
        _ => false,
    }
}

fn is_value(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) => true,
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_value(inner),
        Expr::BinaryOp { left, right, .. } => is_value(left) && is_value(right),
        Expr::Cast { expr: inner, .. } => is_plain_cast(expr) && is_value(inner),
        _ => false,
    }
}

/// Returns the number of a placeholder, from 1.
pub(crate) fn placeholder(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => name.strip_prefix('$')?.parse().ok(),
            _ => None,
        },
        Expr::Nested(inner) => placeholder(inner),
        _ => None,
    }
}

/// Returns how many values go by position, if they do.
pub(crate) fn positional(parameters: &Parameters) -> Option<usize> {
    match parameters {
        Parameters::Positional(values) => Some(values.len()),
        Parameters::None | Parameters::Named(_) => None,
    }
}

#[derive(Debug, Default)]
pub(crate) struct Remembered(HashMap<String, Parsed>);

impl Remembered {
    pub fn get(&self, sql: &str) -> Option<Parsed> {
        self.0.get(sql).cloned()
    }

    /// Says whether a text is that of a query.
    pub fn is_query(&self, sql: &str) -> bool {
        match self.0.get(sql) {
            Some(Parsed::Given(_) | Parsed::Keyed(..)) => true,
            Some(Parsed::Other(other)) => matches!(other.statement.as_ref(), Statement::Query(_)),
            Some(Parsed::Insert(_)) | None => false,
        }
    }

    pub fn put(&mut self, sql: &str, parsed: Parsed) {
        if sql.len() > TEXT_BYTES_MAX {
            return;
        }
        let all: usize = self.0.keys().map(String::len).sum();
        if self.0.len() >= STATEMENTS_MAX || all + sql.len() > ALL_BYTES_MAX {
            self.0.clear();
        }
        self.0.insert(sql.to_string(), parsed);
    }

    /// Forgets the results, because settings change.
    pub fn forget_results(&mut self) {
        self.0.retain(|_, parsed| !matches!(parsed, Parsed::Given(_) | Parsed::Keyed(..)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Engine, EngineOptions, Session, test_options};
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::common::ScalarValue;
    use datafusion::sql::parser::Statement as DfStatement;
    use hypostyle_sql::parse::{self, Extension};
    use hypostyle_storage::Database;
    use hypostyle_types::Identity;

    fn parse(sql: &str) -> hypostyle_types::Result<DfStatement> {
        parse::parse(sql, &Extension::NONE)
    }

    #[test]
    fn texts_are_remembered_while_they_are_short_together() {
        let mut remembered = Remembered::default();
        let DfStatement::Statement(statement) = parse("SELECT 1").unwrap() else { unreachable!() };
        let parsed = Parsed::recognize(&statement, &Parameters::None).unwrap();
        for (bytes, known) in [(100, STATEMENTS_MAX), (4000, ALL_BYTES_MAX / 4000), (5000, 0)] {
            remembered.0.clear();
            for number in 0..3 * STATEMENTS_MAX {
                let text = format!("{number:>bytes$}");
                remembered.put(&text, parsed.clone());
                assert_eq!(remembered.get(&text).is_some(), bytes < 5000);
                assert!(remembered.0.len() <= known, "{bytes}: {}", remembered.0.len());
            }
        }
    }

    #[test]
    fn queries_of_parameters_read_nothing() {
        let reads_nothing = |sql: &str| {
            let DfStatement::Statement(statement) = parse(sql).unwrap() else { unreachable!() };
            match Parsed::recognize(&statement, &Parameters::None) {
                Some(Parsed::Other(other)) => other.reads_nothing,
                _ => false,
            }
        };
        for sql in ["SELECT $1", "SELECT $1 AS a, -$2 + 1 AS b, 'x'", "SELECT 1", "SELECT CAST($1 AS INT)"] {
            assert!(reads_nothing(sql), "{sql}");
        }
        for sql in [
            "SELECT $1 FROM t",
            "SELECT nextval($1)",
            "SELECT (SELECT $1)",
            "SELECT $1 WHERE $2",
            "SELECT $1::regclass",
            "SELECT $1::mood",
            "DELETE FROM t",
        ] {
            assert!(!reads_nothing(sql), "{sql}");
        }
    }

    #[test]
    fn values_that_are_given_back_are_a_row_of_their_query() {
        let engine = EngineOptions { threads: 1, memory_limit: 1 << 28, ..test_options::OPTIONS };
        let engine = Engine::new(Database::in_memory().unwrap(), engine).unwrap();
        let session = || Session::new(engine.clone(), Identity::default()).unwrap();
        let run = |session: &Session, sql: &str, values: Vec<ScalarValue>| {
            let outcome = session.execute(sql, &Parameters::Positional(values));
            let rows = outcome.and_then(|outcome| session.collect_rows(outcome));
            let is_given = matches!(session.remembered.lock().get(sql), Some(Parsed::Given(_)));
            let shown = match rows {
                Ok((_, batches)) => pretty_format_batches(&batches).unwrap().to_string(),
                Err(error) => format!("{} {}", error.sqlstate(), error.message()),
            };
            (shown, is_given)
        };
        let repeated = session();
        let two = |one: i64, other: &str| vec![ScalarValue::from(one), ScalarValue::from(other)];
        let null = || vec![ScalarValue::from(1i64), ScalarValue::Null];
        let text = || vec![ScalarValue::from("one"), ScalarValue::from("two")];
        let far = || vec![ScalarValue::from(1i64 << 40), ScalarValue::from("")];
        let half = || vec![ScalarValue::from(2.5), ScalarValue::from("x")];
        for (sql, is_kept) in [
            ("SELECT ?, ?", true),
            ("SELECT (?) AS b, 'x' AS c, ? AS a, 1 + 1", true),
            ("SELECT $2, $1, $2", true),
            ("SELECT CAST(? AS SMALLINT), ?::TEXT AS b", true),
            ("SELECT (?::TEXT)::TEXT, ?", true),
            ("SELECT ? IS NULL, ?", false),
            ("SELECT ?::DATE IS NULL, ?", false),
            ("SELECT ?, ? WHERE TRUE", false),
        ] {
            for round in 0..3 {
                let first = [two(1, "a"), two(2, "b"), two(3, ""), null(), null(), text()];
                for values in first.into_iter().chain([far(), half(), half(), two(4, "c")]) {
                    let planned = run(&session(), sql, values.clone());
                    let (rows, is_given) = run(&repeated, sql, values);
                    assert_eq!((rows, false), planned, "{sql}");
                    assert!(is_given == is_kept || round == 0, "{sql}");
                }
            }
            repeated.execute("SET TimeZone = 'UTC'", &Parameters::None).unwrap();
            assert!(!matches!(repeated.remembered.lock().get(sql), Some(Parsed::Given(_))), "{sql}");
        }
        let missing = repeated.execute("SELECT $2, $1, $2", &Parameters::Positional(vec![ScalarValue::Null]));
        assert_eq!(missing.err().unwrap().sqlstate(), "07001");
    }

    #[test]
    fn a_text_that_is_checked_is_not_read_again() {
        let engine = EngineOptions { threads: 1, memory_limit: 1 << 28, ..test_options::OPTIONS };
        let engine = Engine::new(Database::in_memory().unwrap(), engine).unwrap();
        let session = Session::new(engine, Identity::default()).unwrap();
        let is_kept = || session.last_read.lock().is_some();
        let run = |sql: &str| {
            drop(session.execute(sql, &Parameters::Positional(vec![ScalarValue::from(1i64)])).unwrap());
        };
        session.check_syntax("SELECT $1 + 1").unwrap();
        assert!(is_kept());
        session.describe_statement("SELECT $1 + 1", &[]).unwrap();
        assert!(is_kept());
        run("SELECT $1 + 2");
        assert!(is_kept());
        run("SELECT $1 + 1");
        assert!(!is_kept());
        // Its parameters have no numbers yet.
        session.check_syntax("SELECT ? + 1").unwrap();
        run("SELECT ? + 1");
        assert!(is_kept());
        session.describe_statement("SELECT 3", &[]).unwrap();
        assert!(session.last_read.lock().as_ref().is_some_and(|last| last.is("SELECT 3", false, None)));
    }

    #[test]
    fn transactions_forget_no_results() {
        let engine = EngineOptions { threads: 1, memory_limit: 1 << 28, ..test_options::OPTIONS };
        let engine = Engine::new(Database::in_memory().unwrap(), engine).unwrap();
        let session = Session::new(engine, Identity::default()).unwrap();
        let run = |sql: &str| session.execute(sql, &Parameters::None).unwrap();
        let is_known = || matches!(session.remembered.lock().get("SELECT 1"), Some(Parsed::Given(_)));
        let learn = || (0..2).for_each(|_| drop(run("SELECT 1")));
        learn();
        for sql in [
            "BEGIN",
            "SAVEPOINT a",
            "ROLLBACK TO SAVEPOINT a",
            "SHOW TimeZone",
            "COMMIT",
            "BEGIN",
            "ROLLBACK",
        ] {
            run(sql);
            assert!(is_known(), "{sql}");
        }
        // What SET LOCAL has set is taken back, and so are results.
        run("BEGIN");
        run("SET LOCAL TimeZone = 'Europe/Berlin'");
        assert!(!is_known());
        learn();
        assert!(is_known());
        run("ROLLBACK");
        assert!(!is_known());
    }

    #[test]
    fn only_texts_of_the_caller_are_remembered() {
        let engine = EngineOptions { threads: 1, memory_limit: 1 << 28, ..test_options::OPTIONS };
        let engine = Engine::new(Database::in_memory().unwrap(), engine).unwrap();
        let session = Session::new(engine, Identity::default()).unwrap();
        let texts = [
            "CREATE TABLE t (a INT PRIMARY KEY, b INT CHECK (b > 0), c INT DEFAULT 7)",
            "INSERT INTO t SELECT 1, 2, NULL",
            "INSERT INTO t SELECT 1, 2, 1 ON CONFLICT (a) DO UPDATE SET b = excluded.b + 1 RETURNING b + 1",
            "UPDATE t SET b = b + 1, c = DEFAULT FROM (SELECT 1 AS d) AS u WHERE a = d RETURNING b, d",
            "MERGE INTO t USING (SELECT 1 AS d) AS u ON a = d WHEN MATCHED THEN UPDATE SET b = b + 1",
            "DELETE FROM t USING (SELECT 1 AS d) AS u WHERE a = d RETURNING b + d",
        ];
        for sql in texts.iter().chain(&texts[1..]) {
            session.execute(sql, &Parameters::None).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        let remembered = session.remembered.lock();
        assert!(remembered.0.contains_key(texts[3]) && remembered.0.contains_key(texts[5]));
        for text in remembered.0.keys() {
            assert!(texts.contains(&text.as_str()), "{text} was parsed");
        }
    }

    #[test]
    fn only_queries_of_literals_have_one_result() {
        let is_of_literals = |sql: &str| {
            let DfStatement::Statement(statement) = parse(sql).unwrap() else { unreachable!() };
            let Some(Parsed::Other(other)) = Parsed::recognize(&statement, &Parameters::None) else {
                return false;
            };
            GivenQuery::places(&other).is_some_and(|places| places.iter().all(Option::is_none))
        };
        for sql in ["SELECT 1", "SELECT -1 AS a, 'x', NULL, TRUE", "SELECT (2 + 3) * 4 > 5 AND NOT FALSE"] {
            assert!(is_of_literals(sql), "{sql}");
        }
        for sql in [
            "SELECT now()",
            "SELECT a FROM t",
            "SELECT 1 FROM t",
            "SELECT 1 WHERE FALSE",
            "SELECT DISTINCT 1",
            "SELECT 1 LIMIT 0",
            "SELECT ?",
            "SELECT (SELECT 1)",
            "SELECT '2020-01-01'::TIMESTAMPTZ",
            "SELECT 1 UNION ALL SELECT 2",
            "SELECT *",
        ] {
            assert!(!is_of_literals(sql), "{sql}");
        }
    }
}
