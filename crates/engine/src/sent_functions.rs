//! Functions of plans that have been to another node: each type of ours is told or refused, and the
//! statements of the SQL tests have the same rows with them.

use crate::session::portable::functions;
use crate::session::{Engine, EngineOptions, Parameters, Session};
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition};
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use hypostyle_expr::meter::{Ledger, Meter};
use hypostyle_expr::portable::{Functions, Kind};
use hypostyle_expr::walk::map_expressions;
use hypostyle_storage::{Database, Verify};
use hypostyle_sync::Mutex;
use hypostyle_types::Identity;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const OPTIONS: EngineOptions = EngineOptions {
    threads: 1,
    memory_limit: 1 << 30,
    query_memory_limit: None,
    temp_directory: None,
    temp_directory_limit: None,
    allow_network_filesystem: false,
    verify: Verify::Never,
};

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

/// Returns the path of the module that a file is.
fn module_of(file: &Path, crates: &Path) -> String {
    let parts: Vec<&str> =
        file.strip_prefix(crates).unwrap().iter().map(|part| part.to_str().unwrap()).collect();
    let [name, "src", modules @ ..] = parts.as_slice() else { panic!("{} is no source", file.display()) };
    let modules = modules.iter().map(|part| part.trim_end_matches(".rs"));
    let modules = modules.filter(|part| !matches!(*part, "mod" | "lib"));
    std::iter::once(format!("hypostyle_{name}"))
        .chain(modules.map(String::from))
        .collect::<Vec<_>>()
        .join("::")
}

/// A new type of functions has to be told to other nodes, or to say why it is not.
#[test]
fn every_type_of_functions_is_in_a_table() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let names = ["error", "sql", "expr", "exec", "plan", "files", "catalog", "tpch", "engine"];
    let mut files = Vec::new();
    for name in names {
        sources(&crates.join(name).join("src"), &mut files);
    }
    let meter = Meter::new(&Ledger::new(1 << 30));
    let known: BTreeSet<&str> =
        functions(&ConfigOptions::default(), &meter).unwrap().type_names().into_iter().collect();
    let mut found = BTreeSet::new();
    for file in files.iter().filter(|file| file.file_name().is_some_and(|name| name != "tests.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        for line in text.lines() {
            let Some((kind, of)) = line.strip_prefix("impl ").and_then(|line| line.split_once(" for "))
            else {
                continue;
            };
            if matches!(kind, "ScalarUDFImpl" | "AggregateUDFImpl" | "WindowUDFImpl" | "HigherOrderUDFImpl") {
                found.insert(format!("{}::{}", module_of(file, crates), of.trim_end_matches([' ', '{'])));
            }
        }
    }
    assert!(found.len() > 45, "{found:?}");
    let missing: Vec<&String> = found.iter().filter(|path| !known.contains(path.as_str())).collect();
    assert!(missing.is_empty(), "add these types to their crates' tables of functions: {missing:?}");
}

/// Puts what comes back from another node in the place of functions.
struct Travelled {
    functions: Functions,
    /// How often functions have come back, and what was said of those that stay.
    came_back: Mutex<BTreeMap<String, usize>>,
    stayed: Mutex<BTreeMap<String, String>>,
}

impl fmt::Debug for Travelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Travelled")
    }
}

impl Travelled {
    fn new(session: &Session) -> Arc<Self> {
        let state = session.context.state();
        let functions = functions(state.config_options(), &session.meter).unwrap();
        Arc::new(Self { functions, came_back: Mutex::default(), stayed: Mutex::default() })
    }

    /// Sends a function; one that stays is left where it is.
    fn send<K: Kind + fmt::Debug>(&self, function: &mut Arc<K>) {
        match self.functions.encode(function.as_ref()) {
            Ok(bytes) => {
                let came_back = self.functions.decode::<K>(function.name(), &bytes).unwrap();
                assert_eq!(came_back, *function);
                *function = came_back;
                *self.came_back.lock().entry(function.name().to_string()).or_default() += 1;
            }
            Err(error) => {
                self.stayed.lock().insert(function.name().to_string(), error.to_string());
            }
        }
    }

    fn send_all(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        map_expressions(plan, |mut expr| {
            match &mut expr {
                Expr::ScalarFunction(call) => self.send(&mut call.func),
                Expr::AggregateFunction(call) => self.send(&mut call.func),
                Expr::HigherOrderFunction(call) => self.send(&mut call.func),
                Expr::WindowFunction(call) => match &mut call.fun {
                    WindowFunctionDefinition::AggregateUDF(function) => self.send(function),
                    WindowFunctionDefinition::WindowUDF(function) => self.send(function),
                },
                _ => return Ok(Transformed::no(expr)),
            }
            Ok(Transformed::yes(expr))
        })
    }
}

/// [`Travelled`], before expressions are simplified.
#[derive(Debug)]
struct Analyzed(Arc<Travelled>);

impl AnalyzerRule for Analyzed {
    fn name(&self) -> &str {
        "travelled"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(|plan| self.0.send_all(plan))?.data)
    }
}

/// [`Travelled`], after all other rules.
#[derive(Debug)]
struct Optimized(Arc<Travelled>);

impl OptimizerRule for Optimized {
    fn name(&self) -> &str {
        "travelled"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // The plan is the same as before.
        Ok(Transformed::no(self.0.send_all(plan)?.data))
    }
}

/// Sends the functions of physical plans.
#[derive(Debug)]
struct Planned(Arc<Travelled>);

impl PhysicalOptimizerRule for Planned {
    fn name(&self) -> &str {
        "travelled"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        self.visit(&plan)?;
        Ok(plan)
    }
}

impl Planned {
    fn visit(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        plan.apply_expressions(&mut |expr: &Arc<dyn PhysicalExpr>| {
            self.visit_expression(expr);
            Ok(TreeNodeRecursion::Continue)
        })?;
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            aggregate.aggr_expr().iter().for_each(|call| self.0.send(&mut Arc::new(call.fun().clone())));
        }
        plan.children().into_iter().try_for_each(|child| self.visit(child))
    }

    fn visit_expression(&self, expr: &Arc<dyn PhysicalExpr>) {
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            self.0.send(&mut Arc::new(call.fun().clone()));
        }
        expr.children().into_iter().for_each(|child| self.visit_expression(child));
    }
}

/// Returns the statements of a file for sqllogictest.
fn statements(text: &str) -> Vec<String> {
    let records = text.split("\n\n").map(|record| {
        let lines = record.lines().skip_while(|line| line.starts_with('#') || line.starts_with("connection"));
        lines.collect::<Vec<_>>()
    });
    let statements = records.filter_map(|record| {
        let (kind, lines) = record.split_first()?;
        let is_run = kind.starts_with("statement ") || kind.starts_with("query");
        let sql: Vec<&str> = lines.iter().copied().take_while(|line| *line != "----").collect();
        is_run.then(|| sql.join("\n"))
    });
    statements.collect()
}

/// Returns the rows of a statement, sorted, or its error.
fn answer(session: &Session, sql: &str) -> String {
    let rows = session.execute(sql, &Parameters::None).and_then(|outcome| session.collect_rows(outcome));
    let sorted = |shown: String| {
        let mut lines: Vec<&str> = shown.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    match rows {
        Ok((_, batches)) => {
            let shown = pretty_format_batches(&batches);
            shown.map_or_else(|error| error.to_string(), |shown| sorted(shown.to_string()))
        }
        Err(error) => error.to_string(),
    }
}

/// What a statement says whose rows differ each time, and what takes files or time.
const LEFT_OUT: [&str; 16] = [
    "random",
    "uuid()",
    "gen_random",
    "now",
    "current_t",
    "clock_t",
    "_timestamp()",
    "timeofday",
    "sleep",
    "$__",
    "attach",
    "copy ",
    "explain",
    "export",
    "checkpoint",
    "summarize",
];

/// All statements of the SQL tests have the same rows when their functions have been to another node.
#[test]
fn statements_have_the_same_rows_with_functions_that_were_sent() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    let mut files = Vec::new();
    sources(&directory, &mut files);
    files.sort();
    let (mut came_back, mut stayed) = (BTreeMap::new(), BTreeMap::new());
    let (mut run, mut differences) = (0, Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let [plain, sent] = [(); 2].map(|()| {
            let engine = Engine::new(Database::in_memory().unwrap(), OPTIONS).unwrap();
            Session::new(engine, Identity::default()).unwrap()
        });
        let travelled = Travelled::new(&sent);
        sent.context.add_analyzer_rule(Arc::new(Analyzed(travelled.clone())));
        sent.context.add_optimizer_rule(Arc::new(Optimized(travelled.clone())));
        add_physical(&sent, Arc::new(Planned(travelled.clone())));
        for sql in statements(&text) {
            let lower = sql.to_lowercase();
            if LEFT_OUT.iter().any(|word| lower.contains(word)) {
                continue;
            }
            let (sent, plain) = (answer(&sent, &sql), answer(&plain, &sql));
            if sent != plain {
                differences.push(format!("{}: {sql}\n{sent}\ninstead of\n{plain}", file.display()));
            }
            run += 1;
        }
        came_back.append(&mut travelled.came_back.lock());
        stayed.append(&mut travelled.stayed.lock());
    }
    assert!(differences.is_empty(), "{} of {run} differ: {}", differences.len(), differences.join("\n\n"));
    assert!(run > 1000, "{run} statements were run");
    assert!(came_back.len() > 150, "{} functions were sent", came_back.len());
    // The others say why they stay.
    let unknown: Vec<_> =
        stayed.iter().filter(|(_, why)| why.contains("its parameters are unknown")).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Adds a rule after all others.
fn add_physical(session: &Session, rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>) {
    let state = session.context.state_ref();
    let mut state = state.write();
    let builder = datafusion::execution::SessionStateBuilder::new_from_existing(state.clone());
    *state = builder.with_physical_optimizer_rule(rule).build();
}
