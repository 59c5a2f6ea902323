//! Golden plans: what the statements of tests/plans are bound to, and optimized to.
//!
//! Each NAME.sql has statements with blank lines between them, and a comment before each that says what it
//! shows. NAME.txt has their plans, and is written anew where `HYPOSTYLE_BLESS` is set. Plans are those of
//! EXPLAIN VERBOSE, without the physical ones, which depend on the machine. A comment `rule NAME: …` is of a
//! statement whose plan that rule changes.

use crate::session::test_options::OPTIONS;
use crate::session::{Engine, EngineOptions, Parameters, Session};
use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use hypostyle_storage::Database;
use hypostyle_types::{Identity, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// The variable that has the files written.
const BLESS: &str = "HYPOSTYLE_BLESS";

/// What EXPLAIN VERBOSE shows of a step that changes nothing.
const UNCHANGED: &str = "SAME TEXT AS ABOVE";

/// What a golden file has of a rule that does not change its statement's plan.
const IDLE: &str = "changes nothing";

/// How many digits a mark of a table has that a statement changes.
const MARK: usize = 16;

struct Case {
    /// What the statement shows.
    heading: String,
    sql: String,
}

impl Case {
    /// Returns the kind of the row that EXPLAIN VERBOSE has of the rule that the statement is about.
    fn step(&self) -> Option<String> {
        let (rule, _) = self.heading.strip_prefix("rule ")?.split_once(':')?;
        // It comes behind the optimizer, before the plan is shown.
        Some(if rule == "join_order" { "logical_plan".into() } else { format!("logical_plan after {rule}") })
    }
}

/// A kind of plan, and its text.
type Plan = (String, String);

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/plans")).join(name)
}

/// Returns the statements of a script, with the comments before them.
fn cases(name: &str) -> Vec<Case> {
    let path = path(name);
    let script = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let case = |block: &str| {
        let (comments, sql): (Vec<&str>, Vec<&str>) = block.lines().partition(|line| line.starts_with("--"));
        let heading = comments.iter().map(|line| line.trim_start_matches('-').trim()).collect::<Vec<_>>();
        Case { heading: heading.join(" "), sql: sql.join("\n") }
    };
    script.split("\n\n").filter(|block| !block.trim().is_empty()).map(|block| case(block.trim())).collect()
}

/// Returns a session with what some statements make.
fn session(setup: &[String]) -> Arc<Session> {
    let engine =
        Engine::new(Database::in_memory().unwrap(), EngineOptions { threads: 1, ..OPTIONS }).unwrap();
    let session = Session::new(engine, Identity::default()).unwrap();
    for sql in setup {
        session.execute(sql, &Parameters::None).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    session
}

/// Returns the plans of a statement, one after the other.
fn plans(session: &Session, sql: &str) -> Result<Vec<Plan>> {
    let outcome = session.execute(&format!("EXPLAIN VERBOSE {sql}"), &Parameters::None)?;
    let (_, batches) = session.collect_rows(outcome)?;
    let mut plans: Vec<Plan> = Vec::new();
    for batch in &batches {
        let [kinds, texts] = [0, 1].map(|column| cast(batch.column(column), &DataType::Utf8).unwrap());
        for row in 0..batch.num_rows() {
            let text = match (texts.as_string::<i32>().value(row).trim_end(), plans.last()) {
                (UNCHANGED, Some((_, before))) => before.clone(),
                (text, _) => text.to_string(),
            };
            plans.push((kinds.as_string::<i32>().value(row).to_string(), text));
        }
    }
    Ok(plans)
}

/// Returns what a golden file has of a statement.
fn shown(session: &Session, case: &Case) -> String {
    let plans = match plans(session, &case.sql) {
        Ok(plans) => plans,
        Err(error) => return section("error", &format!("{} {}", error.sqlstate(), error.message())),
    };
    let of =
        |wanted: &str| plans.iter().rfind(|(kind, _)| kind == wanted).map_or("", |(_, text)| text.as_str());
    let Some(step) = case.step() else {
        let (bound, optimized) = (of("analyzed_logical_plan"), of("logical_plan"));
        return section("bound", bound) + &section("optimized", optimized) + &section("route", of("route"));
    };
    let changed = plans
        .windows(2)
        .find(|pair| matches!(pair, [before, after] if after.0 == step && before.1 != after.1));
    match changed {
        Some([before, after]) => section("before", &before.1) + &section("behind", &after.1),
        _ => section(&step, IDLE),
    }
}

fn section(name: &str, text: &str) -> String {
    let lines: String = text.lines().map(|line| format!("    {}\n", without_marks(line))).collect();
    format!("{name}:\n{lines}")
}

/// Returns a line without the marks of tables that a statement changes, which are random.
fn without_marks(line: &str) -> String {
    let is_mark = |text: &str| {
        text.len() >= MARK && text.as_bytes()[..MARK].iter().all(|byte| byte.is_ascii_hexdigit())
    };
    let (mut rest, mut kept) = (line, String::new());
    while let Some(colon) = rest.find(':') {
        let behind = &rest[colon + 1..];
        kept.push_str(&rest[..colon]);
        rest = match behind.is_char_boundary(MARK.min(behind.len())) && is_mark(behind) {
            true => &behind[MARK..],
            false => {
                kept.push(':');
                behind
            }
        };
    }
    kept + rest
}

/// Compares the plans of statements with those of a golden file, or writes it.
fn check(name: &str, setup: &[String], cases: &[Case]) {
    let found = all_shown(setup, cases);
    // What depends on the order of a hash table, or counts on, differs in another session.
    let again = all_shown(setup, cases);
    let others: Vec<&str> =
        found.iter().zip(&again).filter(|(one, other)| one != other).map(|(one, _)| one.as_str()).collect();
    let path = path(&format!("{name}.txt"));
    let text = found.join("\n");
    let how = format!("{BLESS}=1 cargo test --release -p hypostyle-engine golden_plans");
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; write it by {how}", path.display()));
    let line = golden.lines().zip(text.lines()).take_while(|(golden, found)| golden == found).count();
    let at = |text: &str| text.lines().nth(line).unwrap_or("(its end)").to_string();
    assert!(
        golden == text,
        "{}, line {}: the file has\n{}\nand the plan is now\n{}\nIf that is meant, write it anew by {how}",
        path.display(),
        line + 1,
        at(&golden),
        at(&text)
    );
    let idle: Vec<&str> = found.iter().filter(|shown| shown.contains(IDLE)).map(String::as_str).collect();
    assert!(idle.is_empty(), "rules that do not act:\n{}", idle.join("\n"));
    assert!(others.is_empty(), "plans that differ from session to session:\n{}", others.join("\n"));
}

/// Returns what a golden file has of some statements, planned in a session of their own.
fn all_shown(setup: &[String], cases: &[Case]) -> Vec<String> {
    let session = session(setup);
    let of = |case: &Case| format!("-- {}\n{}\n\n{}", case.heading, case.sql, shown(&session, case));
    cases.iter().map(of).collect()
}

fn tables() -> Vec<String> {
    cases("tables.sql").into_iter().map(|case| case.sql).collect()
}

#[test]
fn each_clause() {
    check("clauses", &tables(), &cases("clauses.sql"));
}

#[test]
fn each_rule() {
    check("rules", &tables(), &cases("rules.sql"));
}

#[test]
fn in_a_time_zone() {
    let mut setup = tables();
    setup.push("SET timezone = 'Europe/Berlin'".to_string());
    check("zone", &setup, &cases("zone.sql"));
}

#[test]
fn tpch() {
    let case = |(place, sql): (usize, &&str)| Case {
        heading: format!("query {}", place + 1),
        sql: sql.trim().trim_end_matches(';').to_string(),
    };
    let cases: Vec<Case> = hypostyle_tpch::QUERIES.iter().enumerate().map(case).collect();
    check("tpch", &["CALL tpch_generate(sf => 0.01)".to_string()], &cases);
}

#[test]
fn star_schema() {
    let case = |(name, sql): &(&str, &str)| Case {
        heading: (*name).to_string(),
        sql: sql.trim().trim_end_matches(';').to_string(),
    };
    let cases: Vec<Case> = hypostyle_tpch::ssb::QUERIES.iter().map(case).collect();
    check("ssb", &["CALL ssb_generate(sf => 0.01)".to_string()], &cases);
}
