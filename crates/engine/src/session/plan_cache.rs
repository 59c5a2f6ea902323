//! The logical plans of a session's last statements. Programs run the same few statements
//! repeatedly, and planning one often takes longer than running it (docs/decisions/0019).
//!
//! A plan is kept as it was written, before parameters have their values, and as it was optimized,
//! where there are no parameters. It is used again only where nothing that it depends on has
//! changed: the settings of the planner, all definitions of all databases, the functions of the
//! session, and about how many rows its tables have. Plans that call functions whose values depend
//! on anything but their arguments are never kept.

use datafusion::config::ConfigOptions;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::expr::WindowFunctionDefinition;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::sql::sqlparser::ast::Statement;
use hypostyle_catalog::kept::{KeptPlan, Meaning};
use hypostyle_catalog::scope::Scope;
use hypostyle_exec::memory::{Held, for_kept};
use hypostyle_expr::walk::{any_node, has_expression};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Statements whose plans are kept, and the memory that they are taken to need.
const PLANS_MAX: usize = 64;
const BYTES_MAX: u64 = 1 << 20;

/// Statements that are known to have been planned before. The second time, a plan is kept.
const SEEN_MAX: usize = 256;

/// The plans of a session, by their statements.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    kept: HashMap<Statement, Kept>,
    /// Hashes of statements that were planned once, and whether their plans may be kept.
    seen: HashMap<u64, bool>,
    hash: RandomState,
    /// Counts lookups, to tell which plan was used last.
    lookups: u64,
    pub hits: u64,
}

#[derive(Debug)]
struct Kept {
    written: KeptPlan,
    optimized: Option<KeptPlan>,
    options: Arc<ConfigOptions>,
    meaning: Arc<Meaning>,
    is_wire: bool,
    memory: Held,
    used: u64,
}

/// A plan that was kept, over the rows that the running statement sees.
#[derive(Debug)]
pub(crate) struct FoundPlan {
    pub written: LogicalPlan,
    pub optimized: Option<LogicalPlan>,
}

/// What is there of a statement when it is to be planned.
#[derive(Debug)]
pub(crate) enum Lookup {
    Found(Box<FoundPlan>),
    /// Its plan is to be kept, if it can be.
    Wanted(Box<PlanKey>),
    Nothing,
}

/// A statement, and what its plan depends on.
#[derive(Debug)]
pub(crate) struct PlanKey {
    statement: Statement,
    options: Arc<ConfigOptions>,
    meaning: Arc<Meaning>,
    is_wire: bool,
}

impl Plans {
    /// Looks a statement up in which values that change its plan are written.
    pub fn look_up(
        &mut self,
        statement: &Statement,
        state: &SessionState,
        scope: &Scope,
        is_wire: bool,
    ) -> Lookup {
        self.lookups += 1;
        if let Some(kept) = self.kept.get_mut(statement) {
            if let Some(found) = kept.found(state, scope, is_wire) {
                kept.used = self.lookups;
                self.hits += 1;
                return Lookup::Found(Box::new(found));
            }
            self.kept.remove(statement);
        } else if !self.is_wanted(statement) {
            return Lookup::Nothing;
        }
        Lookup::Wanted(Box::new(PlanKey {
            statement: statement.clone(),
            options: state.config_options().clone(),
            meaning: Arc::new(Meaning::of(scope)),
            is_wire,
        }))
    }

    /// Says whether a statement has been planned before, and is not one whose plan cannot be kept.
    fn is_wanted(&mut self, statement: &Statement) -> bool {
        if self.seen.len() >= SEEN_MAX {
            self.seen.clear();
        }
        match self.seen.entry(self.hash.hash_one(statement)) {
            Entry::Occupied(seen) => *seen.get(),
            Entry::Vacant(new) => {
                new.insert(true);
                false
            }
        }
    }

    /// Keeps a plan, if it is one that can be kept and there is memory for it.
    pub fn keep(
        &mut self,
        key: PlanKey,
        written: &LogicalPlan,
        optimized: Option<&LogicalPlan>,
        scope: &Scope,
        pool: &Arc<dyn MemoryPool>,
    ) {
        let kept = depends_on_nothing_else(written).then(|| KeptPlan::of(written, scope)).flatten();
        let memory = for_kept("plans", &key.statement.to_string(), pool).ok();
        let (Some(kept), Some(memory)) = (kept, memory.filter(|memory| memory.bytes() <= BYTES_MAX)) else {
            self.seen.insert(self.hash.hash_one(&key.statement), false);
            return;
        };
        // With other values of parameters, the optimized plan is another one.
        let optimized = optimized.filter(|_| !has_parameters(written));
        let optimized = optimized.and_then(|plan| KeptPlan::of(plan, scope));
        while self.kept.len() >= PLANS_MAX || self.bytes() + memory.bytes() > BYTES_MAX {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            self.kept.remove(&oldest);
        }
        let PlanKey { statement, options, meaning, is_wire } = key;
        let used = self.lookups;
        let kept = Kept { written: kept, optimized, options, meaning, is_wire, memory, used };
        self.kept.insert(statement, kept);
    }

    /// Forgets all plans, because what they call by name has changed.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.seen.clear();
    }

    fn bytes(&self) -> u64 {
        self.kept.values().map(|kept| kept.memory.bytes()).sum()
    }
}

impl Kept {
    fn found(&self, state: &SessionState, scope: &Scope, is_wire: bool) -> Option<FoundPlan> {
        let is_valid = self.is_wire == is_wire
            && Arc::ptr_eq(&self.options, state.config_options())
            && self.meaning.is_that_of(scope);
        if !is_valid {
            return None;
        }
        let optimized = match &self.optimized {
            Some(plan) if !plan.fits(scope) => return None,
            Some(plan) => Some(plan.bound(scope)?),
            None => None,
        };
        Some(FoundPlan { written: self.written.bound(scope)?, optimized })
    }
}

/// Says whether a plan depends on the rows of its tables alone: it calls no function that may have
/// other values another time, and none of its nodes keeps rows.
fn depends_on_nothing_else(plan: &LogicalPlan) -> bool {
    !any_node(plan, |node| !is_of_query(node) || has_expression(node, depends_on_else))
}

fn has_parameters(plan: &LogicalPlan) -> bool {
    any_node(plan, |node| has_expression(node, |expr| matches!(expr, Expr::Placeholder(_))))
}

fn is_of_query(node: &LogicalPlan) -> bool {
    matches!(
        node,
        LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::TableScan(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Unnest(_)
    )
}

fn depends_on_else(expr: &Expr) -> bool {
    let volatility = match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility,
        Expr::AggregateFunction(call) => call.func.signature().volatility,
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) => function.signature().volatility,
            WindowFunctionDefinition::WindowUDF(function) => function.signature().volatility,
        },
        Expr::ScalarVariable(..) | Expr::HigherOrderFunction(_) => return true,
        _ => return false,
    };
    volatility != Volatility::Immutable
}

#[cfg(test)]
mod tests {
    use crate::session::test_options::OPTIONS;
    use crate::session::{Engine, Parameters, Session};
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::common::ScalarValue;
    use hypostyle_storage::Database;
    use hypostyle_types::Identity;
    use std::sync::Arc;

    fn engine() -> Arc<Engine> {
        Engine::new(Database::in_memory().unwrap(), OPTIONS).unwrap()
    }

    fn session(engine: &Arc<Engine>) -> Arc<Session> {
        Session::new(engine.clone(), Identity::default()).unwrap()
    }

    fn given(session: &Session, sql: &str, parameters: &Parameters) -> String {
        let outcome = session.execute(sql, parameters).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let (_, batches) = session.collect_rows(outcome).unwrap();
        pretty_format_batches(&batches).unwrap().to_string()
    }

    fn answer(session: &Session, sql: &str) -> String {
        given(session, sql, &Parameters::None)
    }

    /// Runs a query until its plan is found, and checks that it has the same rows each time.
    fn repeated(session: &Session, sql: &str) -> String {
        let rows = answer(session, sql);
        assert_eq!(answer(session, sql), rows, "{sql}");
        let hits = session.plans.lock().hits;
        assert_eq!(answer(session, sql), rows, "{sql}");
        assert_eq!(session.plans.lock().hits, hits + 1, "the plan of {sql} was not kept");
        rows
    }

    fn has(rows: &str, value: &str) -> bool {
        rows.contains(&format!(" {value} "))
    }

    /// A query that is optimized, and a small one that is not.
    const JOINED: &str = "SELECT * FROM t JOIN u ON t.a = u.a WHERE u.b > 0 ORDER BY 1";
    const SMALL: &str = "SELECT a, b FROM t WHERE b >= 10";

    fn filled(engine: &Arc<Engine>) -> Arc<Session> {
        let session = session(engine);
        for sql in [
            "CREATE TABLE t (a INT, b INT)",
            "INSERT INTO t VALUES (1, 10), (2, 20)",
            "CREATE TABLE u (a INT, b INT)",
            "INSERT INTO u VALUES (1, 100), (2, 200)",
        ] {
            answer(&session, sql);
        }
        session
    }

    #[test]
    fn rows_are_those_of_the_newest_snapshot() {
        let session = filled(&engine());
        for query in [JOINED, SMALL] {
            assert!(has(&repeated(&session, query), "20"));
        }
        for (change, gone, come) in [
            ("INSERT INTO t VALUES (2, 30)", "77", "30"),
            ("UPDATE t SET b = 40 WHERE b = 30", "30", "40"),
            ("DELETE FROM t WHERE b = 40", "40", "20"),
        ] {
            answer(&session, change);
            for query in [JOINED, SMALL] {
                let hits = session.plans.lock().hits;
                let rows = answer(&session, query);
                assert!(has(&rows, come) && !has(&rows, gone), "{change}: {rows}");
                assert_eq!(session.plans.lock().hits, hits + 1, "{change}");
            }
        }
    }

    #[test]
    fn the_plan_of_returning_is_for_the_rows_of_each_statement() {
        let session = filled(&engine());
        let returned = |number: i64| {
            answer(&session, &format!("INSERT INTO t VALUES ({number}, 100) RETURNING a + b AS sum"))
        };
        for number in 1..=2 {
            assert!(has(&returned(number), &(number + 100).to_string()));
        }
        for number in 3..=5 {
            let hits = session.plans.lock().hits;
            let rows = returned(number);
            assert!(has(&rows, &(number + 100).to_string()), "{rows}");
            assert_eq!(session.plans.lock().hits, hits + 1);
        }
        // The same words for a table of the same name, whose columns are others.
        answer(&session, "CREATE SCHEMA s; CREATE TABLE s.t (a DOUBLE, b DOUBLE)");
        for _ in 0..3 {
            let rows = answer(&session, "INSERT INTO s.t VALUES (0.25, 100) RETURNING a + b AS sum");
            assert!(has(&rows, "100.25"), "{rows}");
        }
    }

    #[test]
    fn definitions_that_change_are_planned_again() {
        let engine = engine();
        let (session, other) = (filled(&engine), session(&engine));
        for (by, change, shows) in [
            (&session, "ALTER TABLE t ADD COLUMN c VARCHAR DEFAULT 'new'", "new"),
            (&other, "ALTER TABLE t RENAME COLUMN c TO d", "d"),
            (&other, "ALTER TABLE t ALTER COLUMN d TYPE BIGINT USING 12345", "12345"),
            (&session, "ALTER TABLE t DROP COLUMN d", "20"),
            (&session, "DROP TABLE t; CREATE TABLE t (b VARCHAR, a INT); INSERT INTO t VALUES ('7', 1)", "7"),
            (&other, "DROP TABLE t; CREATE VIEW t AS SELECT 1 AS a, 8 AS b", "8"),
            (&session, "CREATE OR REPLACE VIEW t AS SELECT 1 AS a, 9 AS b", "9"),
            (&session, "CREATE TEMP TABLE t AS SELECT 1 AS a, 99 AS b", "99"),
            (&session, "DROP TABLE temp.t", "9"),
            (&other, "DROP VIEW t; CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 98)", "98"),
        ] {
            repeated(&session, JOINED);
            by.execute(change, &Parameters::None).unwrap_or_else(|error| panic!("{change}: {error}"));
            let rows = repeated(&session, JOINED);
            assert!(has(&rows, shows), "{change}: {rows}");
        }
        answer(&session, "DROP TABLE t");
        assert_eq!(session.execute(JOINED, &Parameters::None).err().unwrap().sqlstate(), "42P01");
    }

    #[test]
    fn definitions_that_are_rolled_back_were_never_there() {
        let engine = engine();
        let session = filled(&engine);
        let before = repeated(&session, JOINED);
        answer(&session, "BEGIN");
        answer(&session, "ALTER TABLE t RENAME COLUMN b TO in_transaction");
        assert!(has(&answer(&session, JOINED), "in_transaction"));
        assert!(has(&answer(&session, JOINED), "in_transaction"));
        answer(&session, "ROLLBACK");
        assert_eq!(repeated(&session, JOINED), before);
        answer(&session, "BEGIN");
        answer(
            &session,
            "DROP TABLE u; CREATE TABLE u (a INT, b INT, c INT); INSERT INTO u VALUES (1, 5, 55)",
        );
        assert!(has(&answer(&session, JOINED), "55"));
        assert!(has(&answer(&session, JOINED), "55"));
        answer(&session, "COMMIT");
        assert!(has(&repeated(&session, JOINED), "55"));
    }

    #[test]
    fn settings_and_names_without_a_schema_are_part_of_the_plan() {
        let session = filled(&engine());
        let zoned = "SELECT TIMESTAMPTZ '2020-01-01 00:00:00' = TIMESTAMPTZ '2020-01-01 05:00:00+05' AS same \
                     FROM t JOIN u ON t.a = u.a";
        assert!(has(&repeated(&session, zoned), "true"));
        answer(&session, "SET TimeZone = 'America/New_York'");
        assert!(has(&repeated(&session, zoned), "false"));
        answer(&session, "RESET TimeZone");
        assert!(has(&repeated(&session, zoned), "true"));
        assert!(has(&repeated(&session, JOINED), "20"));
        answer(&session, "CREATE SCHEMA s; CREATE TABLE s.t (a INT, b INT); CREATE TABLE s.u (a INT, b INT)");
        answer(&session, "INSERT INTO s.t VALUES (1, 41); INSERT INTO s.u VALUES (1, 42)");
        answer(&session, "USE s");
        assert!(has(&repeated(&session, JOINED), "41"));
        answer(&session, "USE main");
        assert!(has(&repeated(&session, JOINED), "20"));
    }

    #[test]
    fn what_differs_from_time_to_time_is_not_kept() {
        let session = filled(&engine());
        answer(&session, "CREATE SEQUENCE numbers");
        for sql in [
            "SELECT t.a, random() FROM t JOIN u ON t.a = u.a",
            "SELECT t.a, now() FROM t JOIN u ON t.a = u.a",
            "SELECT t.a, current_schema() FROM t JOIN u ON t.a = u.a",
            "SELECT t.a, nextval('numbers') FROM t JOIN u ON t.a = u.a",
            "SELECT count(*) FROM information_schema.tables JOIN t ON t.a = 1",
            "WITH r AS MATERIALIZED (SELECT a FROM t) SELECT * FROM r JOIN u ON r.a = u.a",
        ] {
            for _ in 0..3 {
                answer(&session, sql);
            }
            assert_eq!(session.plans.lock().hits, 0, "{sql}");
        }
    }

    #[test]
    fn one_plan_serves_all_values_of_parameters() {
        let session = filled(&engine());
        let by = |values: Vec<ScalarValue>, sql: &str| given(&session, sql, &Parameters::Positional(values));
        let small = "SELECT ? AS x, b FROM t WHERE a = ?";
        let joined = "SELECT t.b, u.b FROM t JOIN u ON t.a = u.a WHERE t.a = ? AND ? IS NOT NULL";
        for round in 0..4 {
            for (value, shown) in [
                (ScalarValue::from(1i64), "10"),
                (ScalarValue::from(2i32), "20"),
                (ScalarValue::from(2.0), "20"),
            ] {
                assert!(has(&by(vec![ScalarValue::from("text"), value.clone()], small), "text"));
                assert!(has(&by(vec![value.clone(), ScalarValue::from(true)], joined), shown), "{round}");
                assert!(!has(&by(vec![value, ScalarValue::Null], joined), shown));
            }
        }
        assert!(session.plans.lock().hits > 20);
        answer(&session, "PREPARE p AS SELECT t.b FROM t JOIN u ON t.a = u.a WHERE t.a = $1");
        for (value, shown) in [(1, "10"), (2, "20"), (1, "10"), (2, "20")] {
            assert!(has(&answer(&session, &format!("EXECUTE p({value})")), shown));
        }
    }

    #[test]
    fn plans_are_few_and_their_memory_is_counted() {
        let session = filled(&engine());
        let pool = session.context.runtime_env().memory_pool.clone();
        for number in 0..3 * super::PLANS_MAX {
            for _ in 0..2 {
                answer(&session, &format!("SELECT a + {number} FROM t WHERE b = {number}"));
            }
            let plans = session.plans.lock();
            assert!(plans.kept.len() <= super::PLANS_MAX && plans.bytes() <= super::BYTES_MAX);
            assert!(pool.reserved() as u64 >= plans.bytes());
        }
        assert!(session.plans.lock().kept.len() > super::PLANS_MAX / 4);
        session.plans.lock().clear();
        assert_eq!(session.plans.lock().bytes(), 0);
    }
}
