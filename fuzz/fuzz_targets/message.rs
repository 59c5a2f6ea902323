//! Reads arbitrary bytes as the body of each message. The result is an error, or a message that is
//! the same after a round trip.
#![no_main]

use hypostyle_wire::{
    Answer, Append, Ask, Call, Cancel, ChunkHeader, Credit, Describe, Description, DictionaryHeader, Done,
    Elsewhere, End, FRAME_HEADER_BYTES, Failure, Hello, Note, Progress, Query, Received, Reply, ResultHeader,
    TableEntry, Welcome, decode_row,
};
use libfuzzer_sys::fuzz_target;

macro_rules! round_trip {
    ($body:expr, $($message:ty),*) => {{$(
        if let Ok(message) = <$message>::decode($body) {
            let frame = message.frame();
            let again = <$message>::decode(&frame[FRAME_HEADER_BYTES..]).unwrap();
            assert_eq!(again.frame(), frame);
        }
    )*}};
}

fuzz_target!(|input: (u8, &[u8])| {
    let (which, body) = input;
    match which % 8 {
        0 => round_trip!(body, Hello, Welcome),
        1 => {
            round_trip!(body, Query);
            if let Ok(Query { parameters: Some(parameters), .. }) = Query::decode(body) {
                let _row = decode_row(parameters.schema, &parameters.head, &parameters.payload);
            }
        }
        2 => round_trip!(body, Append, Answer, Ask, Describe, Description),
        3 => round_trip!(body, ResultHeader, Call, Reply),
        4 => round_trip!(body, Done, Failure),
        5 => round_trip!(body, Credit, Elsewhere, End, Received, Progress),
        6 => {
            let _tables = TableEntry::decode_list(body);
            let _cancel = Cancel::decode(body);
            let _note = Note::decode(body);
        }
        _ => {
            let _chunk = ChunkHeader::decode(body);
            let _dictionary = DictionaryHeader::decode(body);
        }
    }
});
