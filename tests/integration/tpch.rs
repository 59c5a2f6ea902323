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

#[test]
fn all_queries_of_the_star_schema_run_over_generated_tables() {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    connection.execute("CALL ssb_generate(sf => 0.1)").unwrap();
    let rows = |sql: &str| connection.execute(sql).unwrap().row_count().unwrap();
    assert_eq!(rows("SELECT * FROM date"), 2556);
    assert_eq!(rows("SELECT * FROM part"), 20_000);
    for (name, sql) in tpch::ssb::QUERIES {
        assert!(rows(sql) > 0, "{name}");
    }
    // Brands of one category, and nations of one region.
    let query = |wanted: &str| tpch::ssb::QUERIES.iter().find(|(name, _)| *name == wanted).unwrap().1;
    assert_eq!((rows(query("Q2.1")), rows(query("Q3.1"))), (7 * 40, 6 * 5 * 5));
    let error = connection.execute("CALL ssb_generate(sf => 0)").err().unwrap();
    assert!(error.message().contains("scale factor"), "{error}");
    let error = connection.execute("CALL dbgen()").err().unwrap();
    assert!(error.message().contains("tpch_generate(sf => 1) and ssb_generate(sf => 1)"), "{error}");
}
