//! What a session tells DataFusion: settings, rules and functions.

use super::Engine;
use super::engine::EngineOptions;
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::config::ConfigOptions;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use hypostyle_bind::expression::json_alias::Unaliased;
use hypostyle_bind::group::group_keys::PrimaryKeys;
use hypostyle_catalog::databases::Databases;
use hypostyle_catalog::measures::measures;
use hypostyle_catalog::pg_catalog::settings::Settings;
use hypostyle_catalog::primary_key::key_of;
use hypostyle_catalog::scope::{SEARCH, Scope};
use hypostyle_cluster::distribute::Gathers;
use hypostyle_cluster::stages::InStages;
use hypostyle_error::from_datafusion;
use hypostyle_exec::counters::Counters;
use hypostyle_exec::optimizer;
use hypostyle_exec::position::Mode;
use hypostyle_exec::scan::is_same_table;
use hypostyle_expr::chain::Chains;
use hypostyle_expr::extract::Extract;
use hypostyle_expr::function::Clock;
use hypostyle_expr::json_operators::Operators;
use hypostyle_expr::meter::Meter;
use hypostyle_expr::registry::register_all;
use hypostyle_expr::setting::Setting;
use hypostyle_expr::types::TypeNames;
use hypostyle_expr::{interval, text_operand, truth};
use hypostyle_foreign::ForeignConnections;
use hypostyle_plan::join_order::JoinOrder;
use hypostyle_plan::{physical_planner, rules};
use hypostyle_sync::Mutex;
use hypostyle_types::{Identity, Result};
use std::sync::Arc;

/// Rows of a join's smaller side that one of a single thread would collect, those that any does,
/// and what a row takes where only bytes are known.
const COLLECTED_ROWS: usize = 16 << 20;

const COLLECTED_ROWS_MIN: usize = 128 << 10;

const COLLECTED_ROW_BYTES: usize = 64;

/// What each thread of a sort keeps for merging, unless that is more than its part of the memory: a few
/// batches of rows that are read again.
const MERGE_BYTES: u64 = 10 << 20;

/// Plans for so many threads, and for the memory that there is. The smaller side of a join is collected
/// by one of them, unless so many rows are hashed sooner by all, who must share out the rows of both
/// sides for it (docs/decisions/0010).
pub(super) fn share_work(options: &mut ConfigOptions, of: &EngineOptions) {
    let threads = of.threads.max(1);
    let memory = of.query_memory_limit.map_or(of.memory_limit, |limit| limit.min(of.memory_limit));
    let merging = MERGE_BYTES.min(memory / 8_u64.saturating_mul(threads as u64));
    options.execution.sort_spill_reservation_bytes = usize::try_from(merging).unwrap_or(usize::MAX);
    options.execution.target_partitions = threads;
    let rows = (COLLECTED_ROWS / threads.saturating_mul(threads)).max(COLLECTED_ROWS_MIN);
    options.optimizer.hash_join_single_partition_threshold_rows = rows;
    options.optimizer.hash_join_single_partition_threshold = rows * COLLECTED_ROW_BYTES;
}

/// Has a session take over changed limits.
pub(crate) fn take_environment(
    engine: &Engine,
    context: &SessionContext,
    spare: &Mutex<Option<SessionState>>,
) {
    let environment = engine.environment();
    let state = context.state_ref();
    let mut state = state.write();
    let mut builder = SessionStateBuilder::new_from_existing(state.clone()).with_runtime_env(environment);
    if let Some(config) = builder.config() {
        share_work(config.options_mut(), &engine.options());
    }
    *state = builder.build();
    *spare.lock() = None;
}

/// Sets what DataFusion's defaults are not meant for.
fn set_options(options: &mut ConfigOptions) -> Result<()> {
    options.sql_parser.map_string_types_to_utf8view = true;
    options.sql_parser.parse_float_as_decimal = true;
    // Rows of a subquery stay in its order, as in PostgreSQL: a LIMIT outside of it depends on them.
    options.sql_parser.enable_subquery_sort_elimination = false;
    options.extensions.insert(Setting::<Mode>::default());
    options.extensions.insert(Setting::<JoinOrder>::default());
    options.extensions.insert(Setting::<ForeignConnections>::default());
    options.extensions.insert(Setting::<InStages>::default());
    // This is the zone of TIMESTAMP WITH TIME ZONE without a zone.
    options.execution.time_zone = Some("UTC".into());
    options.execution.parquet.pushdown_filters = false;
    // One file for each batch that a repartition spills. It reads a file to its end before it looks into
    // the next one, where those who write wait for it to read: they would wait for each other
    // (apache/datafusion#24883).
    options.execution.max_spill_file_size_bytes = ConfigNonZeroUsize::try_new(1).map_err(from_datafusion)?;
    // Fields of structures that are taken below joins and renamed columns lose whose they are: the rules that
    // do so refuse `FROM t AS x (a, b)` and `x.s.f = y.s.f + 1`.
    options.optimizer.enable_leaf_expression_pushdown = false;
    // This optimization takes memory for as many groups as LIMIT says, before there is one.
    options.optimizer.enable_topk_aggregation = false;
    // An array of 4 bytes for each number between the least and the greatest key of a join's
    // build side is quicker to look into than a hash table, also while 19 of 20 are missing: a
    // seventh less work for TPC-H's 22 queries.
    options.execution.perfect_hash_join_min_key_density = 0.05;
    // The optimizer may find out that a CASE is never NULL, which the operators do not see:
    // `CASE WHEN a > b THEN a ELSE 4 END`.
    options.execution.skip_physical_aggregate_schema_check = true;
    Ok(())
}

/// The session's settings, rules and functions, but for those that a session keeps values for.
pub(super) fn context(
    engine: &Arc<Engine>,
    identity: &Identity,
    scope: &Arc<Scope>,
    counters: &Arc<Counters>,
    meter: &Arc<Meter>,
    settings: &Arc<Settings>,
    clock: &Arc<Clock>,
) -> Result<SessionContext> {
    let mut config = SessionConfig::new()
        // Our catalog has an information_schema of its own.
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(SEARCH, SEARCH)
        .with_extension(counters.clone())
        .with_extension(meter.clone())
        .with_extension(Arc::new(PrimaryKeys(key_of)))
        .with_extension(Arc::new(measures()))
        .with_extension(Arc::new(identity.privileges))
        .with_extension(settings.clone());
    share_work(config.options_mut(), &engine.options());
    set_options(config.options_mut())?;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_catalog_list(Arc::new(Databases::new(scope.clone())))
        .with_runtime_env(engine.environment())
        // These come before those of DataFusion, which compute the types of operands.
        .with_expr_planners(vec![
            Arc::new(Chains),
            Arc::new(Unaliased),
            Arc::new(Operators),
            Arc::new(Extract),
        ])
        .with_default_features()
        .with_analyzer_rules(rules::analyzer_rules(meter))
        .with_optimizer_rules(rules::optimizer_rules())
        .with_type_planner(Arc::new(TypeNames))
        .with_query_planner(Arc::new(physical_planner::Planner {
            is_same: is_same_table,
            others: vec![Arc::new(Gathers)],
        }))
        .with_physical_optimizer_rules(rules::watched_physical(optimizer::rules()))
        .build();
    let mut context = SessionContext::new_with_state(state);
    hypostyle_files::register(&context);
    hypostyle_catalog::pg_catalog::register(&context, scope, settings);
    // The others look at the types of operands.
    context.register_expr_planner(Arc::new(text_operand::TextOperands)).map_err(from_datafusion)?;
    // This wraps functions that are registered before.
    register_all(&context, meter, clock);
    context.register_expr_planner(Arc::new(interval::Scaling)).map_err(from_datafusion)?;
    context.register_expr_planner(Arc::new(truth::Truths)).map_err(from_datafusion)?;
    Ok(context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::test_options::OPTIONS;
    use crate::session::{Parameters, Session};
    use hypostyle_storage::Database;
    use std::collections::{BTreeSet, HashMap};

    fn session() -> Arc<Session> {
        let engine = Engine::new(Database::in_memory().unwrap(), OPTIONS).unwrap();
        Session::new(engine, Identity::default()).unwrap()
    }

    /// Returns the names of a kind of functions of which one leads to another function than its
    /// own.
    fn strays<F: PartialEq>(
        functions: &HashMap<String, Arc<F>>,
        names: impl Fn(&F) -> (String, Vec<String>),
    ) -> BTreeSet<String> {
        let mut strays = BTreeSet::new();
        for (called, function) in functions {
            let (name, aliases) = names(function);
            for known in std::iter::once(name).chain(aliases) {
                if functions.get(&known) != Some(function) {
                    strays.insert(format!("{called} is also called {known}, which is another function"));
                }
            }
        }
        strays
    }

    /// DataFusion registers all functions again when a state is built anew, and some when a setting
    /// changes, each under all of its names. Were one of these that of another function, either could
    /// be found under it.
    #[test]
    fn all_names_of_a_function_lead_to_it() {
        let session = session();
        let state = session.context.state();
        let mut all = strays(state.scalar_functions(), |function| {
            (function.name().to_string(), function.aliases().to_vec())
        });
        all.extend(strays(state.aggregate_functions(), |function| {
            (function.name().to_string(), function.aliases().to_vec())
        }));
        all.extend(strays(state.window_functions(), |function| {
            (function.name().to_string(), function.aliases().to_vec())
        }));
        all.extend(strays(state.higher_order_functions(), |function| {
            (function.name().to_string(), function.aliases().to_vec())
        }));
        assert!(all.is_empty(), "{all:#?}");
    }

    #[test]
    fn a_state_that_is_built_anew_has_the_same_functions() {
        let session = session();
        let before = session.context.state();
        let is_same = |after: &SessionState| {
            before.scalar_functions() == after.scalar_functions()
                && before.aggregate_functions() == after.aggregate_functions()
                && before.window_functions() == after.window_functions()
                && before.higher_order_functions() == after.higher_order_functions()
        };
        // The order in which functions are registered again is another one each time.
        for _ in 0..8 {
            take_environment(&session.engine, &session.context, &session.spare_state);
            assert!(is_same(&session.context.state()));
        }
        for sql in [
            "SET timezone = 'Asia/Tokyo'",
            "SET timezone = 'UTC'",
            "SET batch_size = 100",
            "RESET batch_size",
        ] {
            session.execute(sql, &Parameters::None).unwrap();
        }
        assert!(is_same(&session.context.state()));
    }
}
