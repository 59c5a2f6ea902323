//! TPC-H through SQL: the sizes of the tables and the answers of all queries, as the specification
//! fixes them.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use hypostyle::{Connection, Database, Error, OpenOptions, tpch};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::channel;
use std::time::Duration;

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
        let joins =
            plan.contains("PosFoldExec") || plan.contains("PosRowsExec") || plan.contains("HashJoinExec");
        assert!(joins, "query {number}: {plan}");
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

/// Returns the rows of a result in order, with six digits of floats: their sums depend on the order of
/// rows.
pub fn sorted_rows(connection: &Connection, sql: &str) -> Result<Vec<String>, Error> {
    let batches = connection.execute(sql)?.record_batches()?;
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = batch.columns().iter();
        let format = |column| ArrayFormatter::try_new(column, &FormatOptions::default()).unwrap();
        let columns: Vec<_> =
            columns.map(|column| (column.data_type().is_floating(), format(column.as_ref()))).collect();
        for row in 0..batch.num_rows() {
            let cell = |(is_float, column): &(bool, ArrayFormatter<'_>)| {
                let text = column.value(row).to_string();
                match text.parse::<f64>() {
                    Ok(number) if *is_float => format!("{number:.6e}"),
                    _ => text,
                }
            };
            rows.push(columns.iter().map(cell).collect::<Vec<_>>().join("|"));
        }
    }
    rows.sort_unstable();
    Ok(rows)
}

/// Queries that need more memory than those of TPC-H: many groups, partitions and sorted rows.
const LARGE: [&str; 5] = [
    "SELECT l_orderkey, l_linenumber, l_comment, sum(l_quantity), max(l_shipdate) FROM lineitem GROUP BY 1, 2, 3",
    "SELECT l_orderkey, l_suppkey, l_tax FROM lineitem ORDER BY l_comment, l_orderkey, l_linenumber",
    "SELECT count(*), sum(n) FROM (SELECT row_number() OVER (PARTITION BY l_suppkey ORDER BY l_comment) AS n FROM lineitem)",
    "SELECT count(DISTINCT l_comment), count(DISTINCT l_extendedprice) FROM lineitem",
    "SELECT o_orderpriority, l_shipmode, count(*) FROM orders JOIN lineitem ON o_orderdate = l_shipdate GROUP BY CUBE (o_orderpriority, l_shipmode)",
];

#[test]
fn with_little_memory_queries_give_the_same_rows_or_are_refused() {
    // The generator keeps a text of 300 MB in its process.
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path().join("t.hypo"), OpenOptions::default()).unwrap();
    database.connect().unwrap().execute("CALL tpch_generate(sf => 0.05)").unwrap();
    drop(database);
    crate::alone::run_in(directory.path(), "tpch::with_little_memory");
}

fn hash_of(rows: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    rows.hash(&mut hasher);
    hasher.finish()
}

#[test]
#[ignore = "run by with_little_memory_queries_give_the_same_rows_or_are_refused in a process of its own"]
fn with_little_memory() {
    let open = |memory_limit| {
        let options = OpenOptions { memory_limit, threads: Some(2), ..OpenOptions::default() };
        Database::open("t.hypo", options).unwrap().connect().unwrap()
    };
    let queries: Vec<&str> = (1..=22).map(|number| tpch::query(number).unwrap()).chain(LARGE).collect();
    // The rows themselves, as text, would be more memory of the process than the database may take.
    let expected: Vec<u64> = {
        let connection = open(None);
        queries.iter().map(|sql| hash_of(&sorted_rows(&connection, sql).unwrap())).collect()
    };
    for (limit, refused_max) in [(128 << 20, 0), (16 << 20, 10), (4 << 20, queries.len())] {
        let connection = open(Some(limit));
        let mut refused = Vec::new();
        for (sql, expected) in queries.iter().zip(&expected) {
            match sorted_rows(&connection, sql) {
                Ok(rows) => assert_eq!(hash_of(&rows), *expected, "{limit}: {sql}"),
                Err(error) => {
                    assert_eq!(error.sqlstate(), "53200", "{limit}: {sql}: {error}");
                    refused.push(format!("{sql}: {error}"));
                }
            }
        }
        println!("{limit} bytes: {} of {} queries are refused", refused.len(), queries.len());
        assert!(refused.len() <= refused_max, "{limit}: {} were refused: {refused:#?}", refused.len());
    }
    ends_while_rows_that_are_shared_out_anew_spill(&open(Some(4 << 20)));
}

/// Runs a query whose repartitions spill, on both sides at once, which DataFusion's own files do not
/// survive: each side waits for the other.
fn ends_while_rows_that_are_shared_out_anew_spill(connection: &Connection) {
    connection.execute("SET position_pipelines = off").unwrap();
    let run = || {
        let sql =
            "SELECT sum(n) FROM (SELECT l_suppkey, count(DISTINCT l_comment) AS n FROM lineitem GROUP BY 1)";
        if let Err(error) = sorted_rows(connection, sql) {
            assert_eq!(error.sqlstate(), "53200", "{error}");
        }
    };
    let (ended, is_over) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..20).for_each(|_| run());
            ended.send(()).unwrap();
        });
        if is_over.recv_timeout(Duration::from_secs(60)).is_err() {
            connection.interrupt();
            panic!("a query does not end");
        }
    });
}
