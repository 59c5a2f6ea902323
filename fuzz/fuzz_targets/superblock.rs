//! Reads arbitrary bytes as a superblock. The result is an error or a superblock that is the same
//! after a round trip.
#![no_main]

use hypostyle_format::Superblock;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(superblock) = Superblock::decode(bytes) {
        let again = Superblock::decode(&superblock.encode()).unwrap();
        assert_eq!(format!("{superblock:?}"), format!("{again:?}"));
    }
});
