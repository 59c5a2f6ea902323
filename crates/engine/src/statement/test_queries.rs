//! What stands for a session where parts of statements are tested by themselves.

use crate::session::cluster::InCluster;
use crate::session::plan_cache::Plans;
use crate::session::{Outcome, Parameters, Run, Waits};
use crate::statement::completion::{Compiler, Numbers};
use crate::statement::constraint::Checks;
use crate::statement::databases::InDatabases;
use crate::statement::definer::{Ddl, Definer};
use crate::statement::planner::Planner;
use crate::statement::queries::{Queries, Transactions};
use crate::statement::result::Purpose;
use crate::statement::writer::Writer;
use arrow::array::{ArrayRef, Int32Array, UInt64Array};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Query, Statement};
use hypostyle_catalog::scope::{Name, Scope};
use hypostyle_expr::function::Clock;
use hypostyle_storage::{Database, NewColumn, SCHEMA_MAIN, TableEntry, Transaction};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, Identity, LogicalType, Result, TableId};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

/// A database in memory without a session. Its queries find what a test says, in turn, and then nothing.
pub(super) struct Alone {
    pub database: Arc<Database>,
    pub scope: Arc<Scope>,
    run: Mutex<Run>,
    identity: Identity,
    context: SessionContext,
    spare: Mutex<Option<SessionState>>,
    plans: Arc<Mutex<Plans>>,
    clock: Clock,
    found: RefCell<VecDeque<Vec<RecordBatch>>>,
    asked: RefCell<Vec<String>>,
}

/// All sequences count from 1.
struct Counting;

impl Numbers for Counting {
    fn take(&self, _: &Name, count: u64) -> Result<Vec<i64>> {
        Ok((1..).take(usize::try_from(count).unwrap()).collect())
    }
}

impl Alone {
    pub fn new() -> Self {
        let database = Database::in_memory().unwrap();
        let scope = Scope::new(database.clone(), database.snapshot().unwrap());
        Self {
            database,
            scope,
            run: Mutex::default(),
            identity: Identity::default(),
            context: SessionContext::new(),
            spare: Mutex::default(),
            plans: Arc::default(),
            clock: Clock::default(),
            found: RefCell::default(),
            asked: RefCell::default(),
        }
    }

    /// Has the queries that follow find rows; the next one those of the first batch.
    pub fn find(&self, rows: impl IntoIterator<Item = RecordBatch>) {
        self.found.borrow_mut().extend(rows.into_iter().map(|rows| vec![rows]));
    }

    /// Has the query that follows these find nothing.
    pub fn find_nothing(&self) {
        self.found.borrow_mut().push_back(Vec::new());
    }

    /// Returns the queries that were asked.
    pub fn asked(&self) -> Vec<String> {
        self.asked.borrow().clone()
    }

    pub fn checks(&self) -> Checks<'_> {
        let cluster = InCluster {
            scope: &self.scope,
            run: &self.run,
            database: &self.database,
            node: None,
            is_of_node: false,
        };
        Checks { queries: self, scope: &self.scope, cluster }
    }

    pub fn compiler(&self) -> Compiler<'_> {
        Compiler { context: &self.context, clock: &self.clock, numbers: Arc::new(Counting) }
    }

    pub fn ddl(&self) -> Ddl<'_> {
        let (checks, compiler) = (self.checks(), self.compiler());
        let definer = Definer { queries: self, scope: &self.scope, checks, compiler, threads: 1 };
        let databases = InDatabases { scope: &self.scope, transactions: self };
        Ddl { queries: self, databases, identity: &self.identity, node: None, definer }
    }

    /// Returns a planner whose plans something else waits for.
    pub fn planner<'a, W: Waits>(&'a self, waits: &'a W, is_wire: bool) -> Planner<'a, W> {
        Planner {
            waits,
            context: &self.context,
            scope: &self.scope,
            spare: &self.spare,
            plans: &self.plans,
            run: &self.run,
            threads: 1,
            is_wire,
        }
    }

    pub fn writer(&self) -> Writer<'_> {
        let (checks, compiler) = (self.checks(), self.compiler());
        Writer { queries: self, scope: &self.scope, checks, compiler, threads: 1 }
    }
}

impl Queries for Alone {
    fn start_statement(&self, statement: DfStatement, _: &Parameters) -> Result<Outcome> {
        self.asked.borrow_mut().push(statement.to_string());
        let batches = self.found.borrow_mut().pop_front().unwrap_or_default();
        let schema = batches.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
        Ok(Outcome::Batches { schema, batches, rows_affected: None })
    }

    fn start_plan(&self, plan: LogicalPlan, _: Purpose) -> Result<Outcome> {
        Err(Error::internal(format!("nothing is planned here: {plan:?}")))
    }

    fn result(&self, statement: Statement, _: &Parameters) -> Result<Outcome> {
        Err(Error::internal(format!("no statement runs here: {statement}")))
    }

    fn collected(&self, started: Outcome) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        match started {
            Outcome::Batches { schema, batches, .. } => Ok((schema, batches)),
            _ => Err(Error::internal("a query that was not started here")),
        }
    }

    fn each_of(&self, started: Outcome, each: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        self.collected(started)?.1.into_iter().try_for_each(each)
    }

    fn plan_statement(&self, statement: DfStatement, _: &Parameters) -> Result<LogicalPlan> {
        Err(Error::internal(format!("nothing is planned here: {statement:?}")))
    }

    fn plan_as_written(&self, statement: Statement) -> Result<LogicalPlan> {
        Err(Error::internal(format!("nothing is planned here: {statement:?}")))
    }

    fn columns(&self, query: Query, parameters: &Parameters) -> Result<Vec<(String, LogicalType, bool)>> {
        let (schema, _) = self.rows(query, parameters)?;
        let fields = schema.fields().iter();
        fields
            .map(|field| Ok((field.name().clone(), LogicalType::from_arrow(field)?, field.is_nullable())))
            .collect()
    }

    fn columns_in(&self, _: &str, query: Query) -> Result<Vec<(String, LogicalType, bool)>> {
        self.columns(query, &Parameters::None)
    }

    fn proceed(&self) -> Result<()> {
        Ok(())
    }
}

/// Each change is a transaction of its own, and has no constraints to keep.
impl Transactions for Alone {
    fn change(&self, _: &str, change: &mut dyn FnMut(&mut Transaction) -> Result<()>) -> Result<()> {
        let mut transaction = self.database.begin(1)?;
        change(&mut transaction)?;
        transaction.commit()?;
        self.renew()
    }

    fn is_open(&self) -> bool {
        false
    }

    fn renew(&self) -> Result<()> {
        let snapshot = self.database.snapshot()?;
        for named in self.scope.databases.write().iter_mut() {
            named.snapshot = snapshot.clone();
        }
        Ok(())
    }

    fn make_temporary(&self) -> Result<()> {
        Err(Error::internal("there are no temporary tables here"))
    }
}

/// Makes a table of INTEGER columns, which is changed then.
pub(super) fn table_of_numbers(
    transaction: &mut Transaction,
    name: &str,
    columns: &[&str],
    change: impl FnOnce(&mut TableEntry),
) -> TableId {
    let column = |name: &&str| NewColumn::new(*name, LogicalType::Integer, true);
    let columns = columns.iter().map(column).collect();
    let id = transaction.create_table(SCHEMA_MAIN, name, columns).unwrap();
    let changed = transaction.alter_table(id, |table| {
        change(table);
        Ok(())
    });
    changed.unwrap();
    id
}

/// Returns rows of INTEGER columns, and of one more that has the rows' positions, if some are given.
pub(super) fn numbers(columns: &[(&str, &[i32])], positions: &[u64]) -> RecordBatch {
    let column = |(name, values): &(&str, &[i32])| -> (String, ArrayRef, bool) {
        (name.to_string(), Arc::new(Int32Array::from(values.to_vec())), true)
    };
    let mut all: Vec<(String, ArrayRef, bool)> = columns.iter().map(column).collect();
    if !positions.is_empty() {
        all.push(("position".into(), Arc::new(UInt64Array::from(positions.to_vec())), false));
    }
    RecordBatch::try_from_iter_with_nullable(all).unwrap()
}
