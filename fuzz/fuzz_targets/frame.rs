//! Reads arbitrary bytes as a preface and as a frame's header.
#![no_main]

use hypostyle_wire::{FrameHeader, Preface};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: ([u8; 8], u32, u16)| {
    let (bytes, length_max, newest) = input;
    if let Ok(preface) = Preface::decode(&bytes) {
        assert_eq!(preface.encode(), bytes);
        let _version = preface.agree(newest);
    }
    if let Ok(header) = FrameHeader::decode(&bytes, length_max) {
        assert_eq!(header.encode(), bytes);
        assert!(header.length <= length_max);
    }
});
