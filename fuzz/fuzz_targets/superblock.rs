//! Any bytes in the place of a superblock: an error or a superblock, and the same after a round trip.
#![no_main]

use hypostyle_format::Superblock;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(superblock) = Superblock::decode(bytes) {
        let again = Superblock::decode(&superblock.encode()).unwrap();
        assert_eq!(format!("{superblock:?}"), format!("{again:?}"));
    }
});
