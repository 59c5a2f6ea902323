//! Reads arbitrary bytes as the catalog of a cluster, which other nodes send, and as a node's file. The
//! result is an error, or a catalog that is the same after a round trip and has one more state after
//! each change that fits.
#![no_main]

use hypostyle_placement::catalog::{Catalog, Change};
use hypostyle_placement::config::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _config = Config::parse(text);
    }
    let Ok(catalog) = Catalog::decode(bytes) else { return };
    assert_eq!(Catalog::decode(&catalog.encode().unwrap()).unwrap(), catalog);
    let tables = catalog.tables.iter().map(|table| Change::Begin { table: table.id, statement: None });
    let dropped = catalog.nodes.iter().map(|node| Change::RemoveNode { node: node.id, force: true });
    for change in tables.chain(dropped) {
        if let Ok(next) = catalog.apply(&change) {
            assert!(next.epoch > catalog.epoch);
            next.check().unwrap();
        }
    }
});
