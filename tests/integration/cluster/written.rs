//! Readers that ask for what was written elsewhere.

use super::{Cluster, failure};
use crate::tpch::sorted_rows;
use hypostyle::Connection;

fn epoch(connection: &Connection) -> String {
    sorted_rows(connection, "SHOW cluster_epoch").unwrap()[0].rsplit('|').next().unwrap().to_string()
}

#[test]
fn a_reader_that_asks_for_it_sees_what_was_written_elsewhere() {
    let cluster = Cluster::new(3);
    let (one, other, reader) = (cluster.on(0), cluster.on(1), cluster.on(2));
    one.execute("CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 6 FRAGMENTS REPLICAS 3").unwrap();
    let count = "SELECT count(*) FROM t";
    for (number, writer) in [&one, &other, &one, &other].into_iter().enumerate() {
        // The reader is not told of it.
        cluster.cut(2);
        writer.execute(&format!("INSERT INTO t VALUES ({number})")).unwrap();
        cluster.mend(2);
        assert_eq!(sorted_rows(&reader, count).unwrap(), [number.to_string()], "before it has asked");
        assert_eq!(sorted_rows(writer, count).unwrap(), [(number + 1).to_string()]);
        reader.execute(&format!("SET cluster_epoch = {}", epoch(writer))).unwrap();
        assert_eq!(sorted_rows(&reader, count).unwrap(), [(number + 1).to_string()]);
        assert_eq!(epoch(&reader), epoch(writer));
        cluster.nodes[0].look_after();
    }
    reader.execute("SET cluster_epoch = 1").unwrap();
    assert_eq!(sorted_rows(&reader, count).unwrap(), ["4"], "what it knows is later");
    assert_eq!(failure(&reader, "SET cluster_epoch = 'x'").sqlstate(), "22000");
    assert_eq!(failure(&reader, "SET cluster_epoch = 1000000").sqlstate(), "57P03");
    reader.execute("BEGIN").unwrap();
    assert_eq!(failure(&reader, "SET cluster_epoch = 2").sqlstate(), "0A000");
}
