//! The bodies of frames, in the order of protocol.md's sections.
//!
//! A message whose fields follow one another is a list of them (`field`), which is written and read
//! alike; those with flags, or fields that only some of them have, do it themselves.

mod append;
mod call;
mod catalog;
mod chunk;
mod error;
mod field;
mod flow;
mod hello;
mod result;
mod statement;

pub use append::{Append, End};
pub use call::{Call, Reply, check_call_bytes};
pub use catalog::TableEntry;
pub use chunk::{ChunkHeader, DictionaryHeader, Place};
pub use error::Failure;
pub use flow::{Cancel, Credit, Elsewhere, Progress, Received};
pub use hello::{Capabilities, Hello, Note, Role, Welcome};
pub use result::{Chosen, Done, ResultHeader, Times, Transaction};
pub use statement::{Answer, Ask, Describe, Description, Gives, Parameters, Query, QueryKind};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CALL_BYTES_MAX;
    use crate::frame::FRAME_HEADER_BYTES;
    use std::sync::Arc;
    use std::time::Duration;

    fn done() -> Done {
        let chosen = Chosen { column: 2, encoding: 7, compression: 1, chunks: 9 };
        let times = Times { execute: Duration::from_micros(5), ..Times::default() };
        Done { query: 3, rows: 4, affected: Some(6), times, chosen: vec![chosen; 2], ..Done::default() }
    }

    fn welcome() -> Welcome {
        Welcome {
            version: 1,
            capabilities: Capabilities::PROGRESS,
            frame_bytes_max: 1 << 20,
            server: "server".into(),
            session: 7,
            key: vec![1, 2, 3],
            role: Role::Write,
            last: vec![4],
        }
    }

    #[test]
    fn a_message_that_is_cut_or_goes_on_is_refused() {
        let body = |frame: Vec<u8>| frame[FRAME_HEADER_BYTES..].to_vec();
        type IsRead = fn(&[u8]) -> bool;
        let call = Call { query: 1, credit: 2, chunk_bytes: 3, request: vec![4; 5], rows: None };
        let with_rows = Call { rows: Some(Arc::new(arrow_schema::Schema::empty())), ..call.clone() };
        let bodies: [(Vec<u8>, IsRead); 7] = [
            (body(done().frame()), |bytes| Done::decode(bytes).is_ok()),
            (body(welcome().frame()), |bytes| Welcome::decode(bytes).is_ok()),
            (body(Credit { query: 1, bytes: 2 }.frame()), |bytes| Credit::decode(bytes).is_ok()),
            (body(Received(5).frame()), |bytes| Received::decode(bytes).is_ok()),
            (body(call.frame()), |bytes| Call::decode(bytes).is_ok()),
            (body(with_rows.frame()), |bytes| Call::decode(bytes).is_ok()),
            (body(Reply { query: 1, reply: vec![2; 3] }.frame()), |bytes| Reply::decode(bytes).is_ok()),
        ];
        for (body, is_read) in bodies {
            assert!(is_read(&body));
            assert!((0..body.len()).all(|length| !is_read(&body[..length])));
            assert!(!is_read(&[&body[..], &[0]].concat()));
        }
    }

    #[test]
    fn fields_come_back_in_their_order() {
        let frame = done().frame();
        assert_eq!(Done::decode(&frame[FRAME_HEADER_BYTES..]).unwrap(), done());
        let frame = Credit { query: 0x0403_0201, bytes: 0x0c0b_0a09_0807_0605 }.frame();
        assert_eq!(frame[FRAME_HEADER_BYTES..], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let unknown = Progress { query: 1, done: 2, total: None, elapsed: Duration::MAX };
        let again = Progress::decode(&unknown.frame()[FRAME_HEADER_BYTES..]).unwrap();
        assert_eq!((again.total, again.elapsed), (None, Duration::from_micros(u64::MAX)));
    }

    #[test]
    fn a_call_is_as_long_as_a_call_may_be() {
        let request = vec![7; CALL_BYTES_MAX];
        let call = Call { query: 1, credit: 2, chunk_bytes: 3, request, rows: None };
        assert_eq!(Call::decode(&call.frame()[FRAME_HEADER_BYTES..]).unwrap(), call);
        let longer = Call { request: vec![7; CALL_BYTES_MAX + 1], ..call };
        let error = Call::decode(&longer.frame()[FRAME_HEADER_BYTES..]).unwrap_err();
        assert_eq!(error.sqlstate(), "08P01", "{error}");
        let longer = Reply { query: 1, reply: longer.request };
        let error = Reply::decode(&longer.frame()[FRAME_HEADER_BYTES..]).unwrap_err();
        assert_eq!(error.sqlstate(), "08P01", "{error}");
    }

    #[test]
    fn what_is_too_long_for_a_call_or_its_receiver_is_not_sent() {
        let check = |bytes, frame| {
            check_call_bytes("request", bytes, frame, 1 << 27).map_err(|error| {
                assert_eq!(error.sqlstate(), "54000");
                error.message().to_string()
            })
        };
        check(CALL_BYTES_MAX, 1 << 27).unwrap();
        assert!(check(CALL_BYTES_MAX + 1, 1 << 27).unwrap_err().contains("a call may have"));
        assert!(check(0, (1 << 27) + 1).unwrap_err().contains("the other side accepts"));
    }

    #[test]
    fn flags_of_later_versions_are_refused() {
        let call = Call { query: 1, credit: 2, chunk_bytes: 3, request: vec![4; 5], rows: None };
        let mut frame = call.frame();
        for flags in [2, 3, 128] {
            frame[FRAME_HEADER_BYTES + 16] = flags;
            assert_eq!(Call::decode(&frame[FRAME_HEADER_BYTES..]).unwrap_err().sqlstate(), "08P01");
        }
    }

    #[test]
    fn the_version_is_looked_at_before_what_may_be_otherwise_in_it() {
        for (version, is_offered) in [(0, false), (1, true), (2, false)] {
            let frame = Welcome { version, ..welcome() }.frame();
            let decoded = Welcome::decode(&frame[FRAME_HEADER_BYTES..]);
            assert_eq!(decoded.is_ok(), is_offered, "{version}");
            let cut = Welcome::decode(&frame[FRAME_HEADER_BYTES..][..2]).unwrap_err();
            assert_eq!(cut.message().contains("was not offered"), !is_offered, "{version}");
        }
    }
}
