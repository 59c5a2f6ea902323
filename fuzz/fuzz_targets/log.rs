//! Any bytes as a log and as a checkpoint, bare and in frames whose checksums are right.
#![no_main]

use hypostyle_format::{Catalog, FrameKind, encode_frame, read_log};
use hypostyle_types::Version;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _bare = Catalog::decode_checkpoint(bytes);
    let _bare = read_log(bytes, &mut Catalog::default());
    for kind in [FrameKind::Checkpoint, FrameKind::Commit] {
        let frame = encode_frame(kind, Version(1), bytes).unwrap();
        if let Ok(catalog) = Catalog::decode_checkpoint(&frame) {
            let again = Catalog::decode_checkpoint(&catalog.encode_checkpoint().unwrap()).unwrap();
            assert_eq!(format!("{catalog:?}"), format!("{again:?}"));
        }
        let _framed = read_log(&frame, &mut Catalog::default());
    }
});
