//! Plans that a session keeps, over tables of a cluster that change.

use super::Cluster;
use crate::tpch::sorted_rows;

#[test]
fn a_plan_that_is_kept_sees_the_newest_rows() {
    let cluster = Cluster::new(3);
    let writer = cluster.on(0);
    writer
        .execute("CREATE TABLE t (k BIGINT, g INTEGER) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 2")
        .unwrap();
    writer.execute("CREATE TABLE d (g INTEGER, name VARCHAR) REPLICATED").unwrap();
    writer.execute("INSERT INTO d VALUES (0, 'even'), (1, 'odd')").unwrap();
    let sql = "SELECT name, count(*), sum(k) FROM t JOIN d ON t.g = d.g WHERE k > 10 GROUP BY name";
    let readers = [0, 1, 2].map(|node| cluster.on(node));
    let mut last = 0;
    // A statement is planned anew the first times, and again when there are twice as many rows.
    for round in 1..=8 {
        let rows = if round == 6 { 5000 } else { 20 };
        let (first, next) = (last + 1, last + rows);
        writer
            .execute(&format!("INSERT INTO t SELECT v, v % 2 FROM generate_series({first}, {next}) AS r (v)"))
            .unwrap();
        last = next;
        let (even, odd): (Vec<i64>, Vec<i64>) = (11..=last).partition(|k| k % 2 == 0);
        let expected = [("even", even), ("odd", odd)];
        let expected: Vec<String> = expected
            .iter()
            .map(|(name, keys)| format!("{name}|{}|{}", keys.len(), keys.iter().sum::<i64>()))
            .collect();
        // One node is away now and then.
        if round % 3 == 0 {
            cluster.cut(2);
        }
        for reader in &readers[..if round % 3 == 0 { 2 } else { 3 }] {
            assert_eq!(sorted_rows(reader, sql).unwrap(), expected, "round {round}");
        }
        cluster.mend(2);
        cluster.nodes[0].look_after();
    }
    writer.execute("DELETE FROM t WHERE k > 11").unwrap();
    writer.execute("UPDATE d SET name = 'uneven' WHERE g = 1").unwrap();
    for reader in &readers {
        assert_eq!(sorted_rows(reader, sql).unwrap(), ["uneven|1|11"]);
    }
    // The table of that name may become another one.
    writer.execute("DROP TABLE d").unwrap();
    writer
        .execute("CREATE TABLE d (g INTEGER, name VARCHAR) PARTITION BY HASH (g) INTO 2 FRAGMENTS")
        .unwrap();
    writer.execute("INSERT INTO d VALUES (1, 'one')").unwrap();
    for reader in &readers {
        assert_eq!(sorted_rows(reader, sql).unwrap(), ["one|1|11"]);
    }
}
