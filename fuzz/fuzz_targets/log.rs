//! Reads arbitrary bytes as a log and as a checkpoint, bare and in frames with right checksums.
#![no_main]

use hypostyle_format::{Catalog, FrameKind, LogReader, encode_frame};
use hypostyle_types::Version;
use libfuzzer_sys::fuzz_target;

fn read_log(bytes: &[u8]) {
    let mut reader = LogReader::new(bytes, Version(0));
    while let Ok(Some(_commit)) = reader.next_commit() {}
}

fuzz_target!(|bytes: &[u8]| {
    let _bare = Catalog::decode_checkpoint(bytes);
    read_log(bytes);
    for kind in [FrameKind::Checkpoint, FrameKind::Commit, FrameKind::CommitWithAttachments] {
        let frame = encode_frame(kind, Version(1), bytes).unwrap();
        if let Ok(catalog) = Catalog::decode_checkpoint(&frame) {
            let again = Catalog::decode_checkpoint(&catalog.encode_checkpoint().unwrap()).unwrap();
            assert_eq!(format!("{catalog:?}"), format!("{again:?}"));
        }
        read_log(&frame);
    }
});
