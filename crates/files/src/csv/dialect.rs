//! The delimiters and quotes of a CSV file.
//!
//! Records are found here and taken apart in `records`, by the same rules. A quote counts only at
//! the start of a value, a doubled quote stands for itself, and `\r`, `\n` and `\r\n` end a record.
//! Empty lines are no records, but where there is only one column they may be its NULLs.

use std::io::BufRead;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    pub delimiter: u8,
    pub quote: Option<u8>,
    /// Makes a quote part of a quoted value, where doubling does not.
    pub escape: Option<u8>,
    /// Begins what is left out of a line.
    pub comment: Option<u8>,
    /// Records may end early: the values that they lack are NULL.
    pub is_padded: bool,
    /// Blanks after a delimiter are no part of the value.
    pub is_spaced: bool,
    /// An empty line is a record of one empty value.
    pub has_empty_lines: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    RecordStart,
    ValueStart,
    Plain,
    Quoted,
    Escaped,
    /// A quote inside a quoted value was seen: the value's end, or the first half of a doubled
    /// quote.
    QuoteSeen,
    Comment,
    /// The start of a record, after `\r`: a `\n` belongs to it.
    ReturnSeen,
}

impl State {
    fn is_start(self) -> bool {
        matches!(self, Self::RecordStart | Self::ReturnSeen)
    }

    /// Returns the state after a byte that ends a line.
    fn after(line_end: u8) -> Self {
        if line_end == b'\r' { Self::ReturnSeen } else { Self::RecordStart }
    }
}

/// The result of scanning the quotes and line ends of some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// The offset after the last whole record; 0 if there is none.
    pub end: usize,
    /// A quoted value goes on at the end of the bytes.
    pub is_open: bool,
    /// Something else than a delimiter or a line end comes after a quoted value.
    pub is_misquoted: bool,
}

enum Event {
    Character,
    ValueEnd,
    RecordEnd,
    Nothing,
}

impl Dialect {
    fn step(&self, state: State, byte: u8) -> (State, Event) {
        let is_line_end = byte == b'\n' || byte == b'\r';
        let state = match state {
            State::ReturnSeen if byte == b'\n' => return (State::RecordStart, Event::Nothing),
            State::ReturnSeen => State::RecordStart,
            state => state,
        };
        match state {
            State::Quoted if Some(byte) == self.quote => (State::QuoteSeen, Event::Nothing),
            State::Quoted if Some(byte) == self.escape => (State::Escaped, Event::Nothing),
            State::Quoted | State::Escaped => (State::Quoted, Event::Character),
            State::QuoteSeen if Some(byte) == self.quote => (State::Quoted, Event::Character),
            State::Comment if is_line_end => (State::after(byte), Event::Nothing),
            State::Comment => (State::Comment, Event::Nothing),
            State::RecordStart if is_line_end => match self.has_empty_lines {
                true => (State::after(byte), Event::RecordEnd),
                false => (State::after(byte), Event::Nothing),
            },
            State::RecordStart if Some(byte) == self.comment => (State::Comment, Event::Nothing),
            State::RecordStart | State::ValueStart if Some(byte) == self.quote => {
                (State::Quoted, Event::Nothing)
            }
            _ if byte == self.delimiter => (State::ValueStart, Event::ValueEnd),
            _ if is_line_end => (State::after(byte), Event::RecordEnd),
            _ if Some(byte) == self.comment => (State::Comment, Event::RecordEnd),
            State::ValueStart if byte == b' ' && self.is_spaced => (State::ValueStart, Event::Nothing),
            _ => (State::Plain, Event::Character),
        }
    }

    /// Returns where whole records end, and what their quotes tell.
    ///
    /// Every byte of every file passes here on one thread at a time, so this jumps from quote to
    /// quote.
    pub fn ends(&self, bytes: &[u8]) -> Ends {
        let Some(quote) = self.quote.filter(|_| self.escape.or(self.comment).is_none() && !self.is_spaced)
        else {
            return self.ends_stepwise(bytes);
        };
        let (mut at, mut ends) = (0, Ends::default());
        loop {
            let found = find(quote, bytes, at);
            let outside = &bytes[at..found.unwrap_or(bytes.len())];
            if let Some(last) = outside.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')) {
                ends.end = at + last + 1;
            }
            let Some(found) = found else { return ends };
            at = found + 1;
            let opens =
                found == 0 || matches!(bytes[found - 1], b'\n' | b'\r') || bytes[found - 1] == self.delimiter;
            if !opens {
                continue;
            }
            // The text inside quotes ends at a quote that is not the first half of a doubled one.
            loop {
                let Some(found) = find(quote, bytes, at) else { return Ends { is_open: true, ..ends } };
                at = found + 1;
                if bytes.get(at) != Some(&quote) {
                    break;
                }
                at += 1;
            }
            ends.is_misquoted |= bytes.get(at).is_some_and(|next| !self.ends_value(*next));
        }
    }

    fn ends_value(&self, byte: u8) -> bool {
        matches!(byte, b'\n' | b'\r') || byte == self.delimiter
    }

    /// Returns the definition of [`Self::ends`].
    fn ends_stepwise(&self, bytes: &[u8]) -> Ends {
        let (mut state, mut ends) = (State::RecordStart, Ends::default());
        for (index, byte) in bytes.iter().enumerate() {
            let (next, _) = self.step(state, *byte);
            ends.is_misquoted |= state == State::QuoteSeen && next == State::Plain;
            state = next;
            if state.is_start() {
                ends.end = index + 1;
            }
        }
        Ends { is_open: matches!(state, State::Quoted | State::Escaped), ..ends }
    }

    /// Says whether a quoted value goes on after the quote that ends it, or never ends: then its
    /// quotes are not what they seem, and it may hold records that are others'.
    pub fn is_misquoted(&self, bytes: &[u8]) -> bool {
        let ends = self.ends(bytes);
        ends.is_misquoted || ends.is_open
    }

    /// Returns the place of each record, without empty lines before it.
    pub fn records(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let (mut state, mut start, mut records) = (State::RecordStart, 0, Vec::new());
        for (index, byte) in bytes.iter().enumerate() {
            if state.is_start() {
                start = index;
            }
            let (next, event) = self.step(state, *byte);
            state = next;
            if matches!(event, Event::RecordEnd) {
                records.push(start..index + 1);
            }
        }
        if !state.is_start() && state != State::Comment {
            records.push(start..bytes.len());
        }
        records
    }

    /// Returns the first record and the bytes up to its end.
    pub fn first_record(&self, bytes: &[u8]) -> Option<(Vec<String>, usize)> {
        let (mut state, mut has_ended) = (State::RecordStart, false);
        let end = bytes.iter().position(|byte| {
            let (next, event) = self.step(state, *byte);
            state = next;
            has_ended |= matches!(event, Event::RecordEnd);
            has_ended && state.is_start()
        });
        let mut end = end.map_or(bytes.len(), |index| index + 1);
        if bytes[..end].ends_with(b"\r") && bytes.get(end) == Some(&b'\n') {
            end += 1;
        }
        let values = self.values(&bytes[..end]);
        (!values.is_empty()).then(|| (texts(&values), end))
    }

    /// Says whether a record has delimiters, and a blank after each of them.
    pub fn is_spaced_out(&self, record: &[u8]) -> bool {
        let (mut state, mut is_delimited) = (State::RecordStart, false);
        for (index, byte) in record.iter().enumerate() {
            let (next, event) = self.step(state, *byte);
            state = next;
            if matches!(event, Event::ValueEnd) {
                if record.get(index + 1) != Some(&b' ') {
                    return false;
                }
                is_delimited = true;
            }
        }
        is_delimited
    }

    /// Returns the values of one record.
    pub fn values(&self, record: &[u8]) -> Vec<Vec<u8>> {
        let (mut state, mut value, mut values) = (State::RecordStart, Vec::new(), Vec::new());
        for byte in record {
            let (next, event) = self.step(state, *byte);
            let is_cut = next == State::Comment && state != State::QuoteSeen;
            state = next;
            match event {
                Event::Character => value.push(*byte),
                Event::ValueEnd => values.push(std::mem::take(&mut value)),
                Event::RecordEnd => {
                    if is_cut {
                        value.truncate(before_comment(&value));
                    }
                    values.push(value);
                    return values;
                }
                Event::Nothing => {}
            }
        }
        if !state.is_start() && state != State::Comment {
            values.push(value);
        }
        values
    }
}

/// Returns the next place of a byte; `skip_until` is the standard library's way to the platform's
/// `memchr`.
pub fn find(byte: u8, bytes: &[u8], from: usize) -> Option<usize> {
    let mut rest = &bytes[from..];
    let skipped = rest.skip_until(byte).unwrap_or(0);
    let last = (from + skipped).checked_sub(1)?;
    (skipped > 0 && bytes[last] == byte).then_some(last)
}

/// Returns the length of a value without the blanks between it and the comment that follows.
pub fn before_comment(value: &[u8]) -> usize {
    value.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |last| last + 1)
}

/// Returns values as text; what is not UTF-8 is replaced.
pub fn texts(values: &[Vec<u8>]) -> Vec<String> {
    values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAS: Dialect = Dialect {
        delimiter: b',',
        quote: Some(b'"'),
        escape: None,
        comment: None,
        is_padded: false,
        is_spaced: false,
        has_empty_lines: false,
    };

    #[test]
    fn records_and_values_follow_the_quotes() {
        let file = b"a,\"b\nb\",c\r\n\r\n\"say \"\"x\"\"\",5\" pipe,\n\"\",,z";
        let records = COMMAS.records(file);
        let values: Vec<Vec<String>> =
            records.iter().map(|record| texts(&COMMAS.values(&file[record.clone()]))).collect();
        assert_eq!(values[0], ["a", "b\nb", "c"]);
        assert_eq!(values[1], ["say \"x\"", "5\" pipe", ""]);
        assert_eq!(values[2], ["", "", "z"]);
        assert_eq!(values.len(), 3);
        assert_eq!(COMMAS.first_record(file).unwrap().1, 11);
    }

    #[test]
    fn a_chunk_never_ends_inside_quotes() {
        let ends = |bytes: &[u8]| (COMMAS.ends(bytes).end, COMMAS.ends(bytes).is_open);
        assert_eq!(ends(b"1,2\n3,\"4\n5"), (4, true));
        assert_eq!(ends(b"1,2\n3,\"4\n5\"\n"), (12, false));
        assert_eq!(ends(b"1,2\n3"), (4, false));
        let escaping = Dialect { escape: Some(b'\\'), ..COMMAS };
        assert_eq!(escaping.values(b"\"a\\\"b\",c"), [b"a\"b".to_vec(), b"c".to_vec()]);
        let unquoted = Dialect { quote: None, ..COMMAS };
        assert_eq!(unquoted.values(b"\"a,b\""), [b"\"a".to_vec(), b"b\"".to_vec()]);
    }

    #[test]
    fn what_follows_a_quoted_value_tells_that_quotes_are_text() {
        for sound in ["\"a\",b\n", "\"a\"\r\n", "a\"b\",c\"\n", "\"a\"", "\"\"\n", "\"a\"\"b\"\n"] {
            assert!(!COMMAS.is_misquoted(sound.as_bytes()), "{sound:?}");
        }
        for wrong in ["\"a\" b\n", "1,\"a\n2,b \"c\"\n", "\"a\n", "\"a\"\"\n"] {
            assert!(COMMAS.is_misquoted(wrong.as_bytes()), "{wrong:?}");
        }
    }

    #[test]
    fn comments_are_left_out() {
        let commented = Dialect { comment: Some(b'#'), ..COMMAS };
        let file = b"# say \"hi\"\n#\na,b #, \"c\n# \"\n\"#c\",d\n# end";
        let records = commented.records(file);
        let values: Vec<Vec<String>> =
            records.iter().map(|record| texts(&commented.values(&file[record.clone()]))).collect();
        assert_eq!(values, [["a", "b"], ["#c", "d"]]);
        assert!(!commented.is_misquoted(file));
        assert_eq!(commented.first_record(file).unwrap(), (vec!["a".into(), "b".into()], 23));
        assert_eq!(commented.ends(b"a #x").end, 0);
    }

    #[test]
    fn blanks_after_delimiters_and_empty_lines_count_where_they_are_asked_for() {
        let spaced = Dialect { is_spaced: true, ..COMMAS };
        assert_eq!(texts(&spaced.values(b"a,  b, \"c, d\" ,")), ["a", "b", "c, d ", ""]);
        assert!(spaced.is_spaced_out(b"a, b, \"c,d\"\n"));
        assert!(!spaced.is_spaced_out(b"a, b,c\n") && !spaced.is_spaced_out(b"a\n"));
        let lone = Dialect { has_empty_lines: true, ..COMMAS };
        let file = b"\r\na\r\n\r\n\n\"\"\r\r\n";
        let values: Vec<Vec<String>> =
            lone.records(file).into_iter().map(|record| texts(&lone.values(&file[record]))).collect();
        assert_eq!(values, [[""], ["a"], [""], [""], [""], [""]]);
    }

    #[test]
    fn jumping_over_quotes_ends_where_stepping_does() {
        let alphabet = b"aa,\"\"\n\r";
        let mut seed = 1_u64;
        for length in (0..40).cycle().take(20_000) {
            let text: Vec<u8> = (0..length)
                .map(|_| {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    alphabet[(seed >> 33) as usize % alphabet.len()]
                })
                .collect();
            let shown = String::from_utf8_lossy(&text);
            assert_eq!(COMMAS.ends(&text), COMMAS.ends_stepwise(&text), "{shown:?}");
        }
    }
}
