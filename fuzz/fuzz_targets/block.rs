//! Reads arbitrary bytes as a block record.
#![no_main]

use hypostyle_format::BlockRecord;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(record) = BlockRecord::decode(bytes) {
        let again = BlockRecord::decode(&record.encode()).unwrap();
        assert_eq!(format!("{record:?}"), format!("{again:?}"));
    }
});
