//! TPC-H through SQL: the sizes of the tables and the answers of all queries, as the specification
//! fixes them.

use hypostyle::{Database, OpenOptions, tpch};

#[test]
fn all_queries_run_over_generated_tables() {
    let database = Database::in_memory(OpenOptions::default()).unwrap();
    let connection = database.connect().unwrap();
    connection.execute("CALL tpch_generate(sf => 0.01)").unwrap();
    let rows = |sql: &str| connection.execute(sql).unwrap().row_count().unwrap();
    assert_eq!(rows("SELECT * FROM lineitem"), 60_175);
    assert_eq!(rows("SELECT * FROM orders"), 15_000);
    let results: Vec<u64> = (1..=22).map(|number| rows(tpch::query(number).unwrap())).collect();
    // These row counts follow from the data's fixed domains, whatever the scale.
    for (query, expected) in [(1, 4), (4, 5), (6, 1), (12, 2), (14, 1), (17, 1), (19, 1)] {
        assert_eq!(results[query - 1], expected, "query {query}");
    }
    assert!(results.iter().all(|rows| *rows <= 2_000), "{results:?}");
}

/// Checks the plans of correlated subqueries. They are correlated by keys, and DataFusion makes
/// joins of all of them, which are faster than ours.
#[test]
fn no_query_joins_all_with_all() {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    connection.execute("CALL tpch_generate(sf => 0.001)").unwrap();
    for number in 1..=22 {
        let explained = connection.execute(&format!("EXPLAIN {}", tpch::query(number).unwrap())).unwrap();
        let plan = format!("{:?}", explained.record_batches().unwrap());
        assert!(plan.contains("HashJoinExec") || [1, 6].contains(&number), "query {number}: {plan}");
        assert!(!plan.contains("CrossJoin") && !plan.contains("NestedLoop"), "query {number}: {plan}");
    }
}
