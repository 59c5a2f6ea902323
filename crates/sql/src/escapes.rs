//! Texts with escapes, `E'…'` and `U&'…'`, as plain texts: PostgreSQL's escapes are read here, and
//! nobody behind reads or prints one. A text that goes on behind a new line becomes one text here, too.

use crate::lexer::{Token, TokenKind, tokens};
use hypostyle_types::{Error, ErrorKind, Result};
use std::borrow::Cow;

/// What stands before a digit in `U&'…'`, unless UESCAPE says otherwise.
const ESCAPE: char = '\\';

/// The last character of Unicode.
const LAST: u32 = 0x10_FFFF;

/// Returns a text in which no literal has escapes, and none goes on behind a new line.
///
/// # Errors
/// `InvalidInput`: 22025 for an escape that is none, 22021 for bytes that are no text; `Syntax` for
/// an escape of `U&'…'`, and for one in what continues `E'…'`.
pub fn plain(sql: &str) -> Result<Cow<'_, str>> {
    // Most texts have none.
    let may_be = |pair: &[u8]| matches!(pair, [b'e' | b'E', b'\''] | [b'u' | b'U', b'&']);
    if !sql.as_bytes().windows(2).any(may_be) && !may_be_continued(sql) {
        return Ok(sql.into());
    }
    let (mut text, mut copied) = (String::with_capacity(sql.len()), 0);
    let all: Vec<Token<'_>> = tokens(sql).collect();
    for (place, token) in all.iter().enumerate() {
        // What continues a text has been taken with it.
        if token.is_open || token.start < copied {
            continue;
        }
        let Some(Literal { start, end, quote, value }) = literal(sql, &all, place)? else { continue };
        text.push_str(&sql[copied..start]);
        // The blank keeps it apart from another text before it, in place of the letters of its kind.
        if !sql[start..].starts_with(quote) {
            text.push(' ');
        }
        text.push(quote);
        text.push_str(&value.replace(quote, &format!("{quote}{quote}")));
        text.push(quote);
        copied = end;
    }
    text.push_str(&sql[copied..]);
    Ok(text.into())
}

/// Says whether a text may go on: behind a quotation mark are a new line and another mark, or a comment.
fn may_be_continued(sql: &str) -> bool {
    sql.match_indices('\'').any(|(at, _)| {
        let behind = &sql[at + 1..];
        let next = behind.trim_start();
        let blank = &behind[..behind.len() - next.len()];
        next.starts_with("--") || next.starts_with('\'') && blank.contains(['\n', '\r'])
    })
}

/// A literal with escapes or of several parts, where it is, and what it means.
struct Literal {
    start: usize,
    end: usize,
    quote: char,
    value: String,
}

fn literal(sql: &str, all: &[Token<'_>], place: usize) -> Result<Option<Literal>> {
    let token = &all[place];
    let (start, Continued { parts, behind, end }) = (token.start, continued(sql, all, place));
    if token.kind == TokenKind::Text && token.text.starts_with(['e', 'E']) {
        let mut value = with_bytes(&token.text[2..token.text.len() - 1])?;
        for part in parts {
            // PostgreSQL reads escapes there, and so might end the part elsewhere than the lexer does.
            if part.contains('\\') {
                return Err(Error::new(
                    ErrorKind::Syntax,
                    "what continues E'…' on a new line may have no escapes; write E'…' || E'…'",
                ));
            }
            value.push_str(&part.replace("''", "'"));
        }
        return Ok(Some(Literal { start, end, quote: '\'', value }));
    }
    let Some(quote @ ('\'' | '"')) = token.text.chars().next() else { return Ok(None) };
    let unicode = unicode_before(all, place);
    if unicode.is_none() && parts.is_empty() {
        return Ok(None);
    }
    let marks = quote.to_string();
    let inside = [&token.text[1..token.text.len() - 1]].into_iter().chain(parts);
    let inside = inside.collect::<String>().replace(&marks.repeat(2), &marks);
    let Some(start) = unicode else { return Ok(Some(Literal { start, end, quote, value: inside })) };
    let (escape, end) = escape_of(&all[behind..])?.unwrap_or((ESCAPE, end));
    Ok(Some(Literal { start, end, quote, value: with_characters(&inside, escape)? }))
}

/// Returns where `U&` begins, if it stands before a literal.
fn unicode_before(all: &[Token<'_>], place: usize) -> Option<usize> {
    let [.., unicode, sign] = &all[..place] else { return None };
    let is_unicode = unicode.text.eq_ignore_ascii_case("u") && sign.is_symbol("&");
    (is_unicode && unicode.end() == sign.start && sign.end() == all[place].start).then_some(unicode.start)
}

/// The parts of a text behind its first one.
struct Continued<'a> {
    /// What stands between their quotation marks.
    parts: Vec<&'a str>,
    /// The place of the token behind them.
    behind: usize,
    /// Where the last part ends.
    end: usize,
}

/// Finds the parts of a text on the lines behind it. As in PostgreSQL, there are only blanks and comments
/// to the end of a line between two parts, and a new line among them.
fn continued<'a>(sql: &str, all: &[Token<'a>], place: usize) -> Continued<'a> {
    let mut found = Continued { parts: Vec::new(), behind: place + 1, end: all[place].end() };
    // Names are not continued, and neither are texts between tags.
    if all[place].kind != TokenKind::Text || all[place].text.starts_with('$') {
        return found;
    }
    let (mut last, mut is_new_line) = (found.end, false);
    for (at, token) in all.iter().enumerate().skip(place + 1) {
        is_new_line |= sql[last..token.start].contains(['\n', '\r']);
        last = token.end();
        match token.kind {
            TokenKind::Comment if token.text.starts_with("--") => {}
            TokenKind::Text if is_new_line && token.text.starts_with('\'') && !token.is_open => {
                found.parts.push(&token.text[1..token.text.len() - 1]);
                (found.behind, found.end) = (at + 1, last);
                is_new_line = false;
            }
            _ => break,
        }
    }
    found
}

/// Reads `UESCAPE 'c'`, and returns where it ends.
fn escape_of(behind: &[Token<'_>]) -> Result<Option<(char, usize)>> {
    let [word, escape, ..] = behind else { return Ok(None) };
    if !word.text.eq_ignore_ascii_case("uescape") || escape.kind != TokenKind::Text {
        return Ok(None);
    }
    let mut letters = escape.text.trim_matches('\'').chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None)
            if !letter.is_ascii_hexdigit() && !letter.is_whitespace() && !matches!(letter, '+' | '"') =>
        {
            Ok(Some((letter, escape.end())))
        }
        _ => Err(Error::new(
            ErrorKind::Syntax,
            format!(
                "UESCAPE {}: it is one character, and no digit, letter from A to F, plus, quotation mark or blank",
                escape.text
            ),
        )),
    }
}

/// Returns what is meant between the quotation marks of `E'…'`.
fn with_bytes(written: &str) -> Result<String> {
    let mut value = Vec::with_capacity(written.len());
    let mut rest = written;
    let mut buffer = [0; 4];
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        match first {
            // The lexer ends the text at a quotation mark that is alone.
            '\'' => {
                rest = rest.strip_prefix('\'').unwrap_or(rest);
                value.push(b'\'');
            }
            '\\' => {
                let (length, meant) = meant(rest)?;
                rest = &rest[length..];
                match meant {
                    Meant::Byte(byte) => value.push(byte),
                    Meant::Character(character) => {
                        value.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                    }
                }
            }
            other => value.extend_from_slice(other.encode_utf8(&mut buffer).as_bytes()),
        }
    }
    if value.contains(&0) {
        return Err(no_text(&[0]));
    }
    String::from_utf8(value).map_err(|error| {
        let wrong = error.utf8_error();
        let bytes = &error.as_bytes()[wrong.valid_up_to()..];
        no_text(&bytes[..wrong.error_len().unwrap_or(bytes.len())])
    })
}

enum Meant {
    Byte(u8),
    Character(char),
}

/// Reads what is behind a backslash: its length, and what is meant.
fn meant(rest: &str) -> Result<(usize, Meant)> {
    let digits = |from: usize, most: usize, radix: u32| {
        rest[from..].chars().take(most).take_while(|digit| digit.is_digit(radix)).count()
    };
    let byte = |from: usize, length: usize, radix: u32| {
        // PostgreSQL takes the last eight bits of three octal digits.
        let number = u32::from_str_radix(&rest[from..from + length], radix).unwrap_or_default();
        (from + length, Meant::Byte((number & 0xFF) as u8))
    };
    let Some(first) = rest.chars().next() else { return Err(no_escape("\\")) };
    let character = |meant: char| Ok((first.len_utf8(), Meant::Character(meant)));
    match first {
        '0'..='7' => Ok(byte(0, digits(0, 3, 8), 8)),
        'x' if digits(1, 2, 16) > 0 => Ok(byte(1, digits(1, 2, 16), 16)),
        'u' | 'U' => {
            let long = if first == 'u' { 4 } else { 8 };
            let (length, character) = of_unicode(rest, 1, long, "\\", |rest| {
                let next = rest.strip_prefix('\\')?;
                let long = if next.starts_with('u') { 4 } else { 8 };
                next.starts_with(['u', 'U']).then_some((2, long))
            })?;
            Ok((length, Meant::Character(character)))
        }
        'b' => character('\u{8}'),
        'f' => character('\u{C}'),
        'n' => character('\n'),
        'r' => character('\r'),
        't' => character('\t'),
        other => character(other),
    }
}

/// Returns what is meant between the quotation marks of `U&'…'`.
fn with_characters(written: &str, escape: char) -> Result<String> {
    let mut value = String::with_capacity(written.len());
    let mut rest = written;
    let sign = escape.to_string();
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        if first != escape {
            value.push(first);
        } else if let Some(behind) = rest.strip_prefix(escape) {
            value.push(escape);
            rest = behind;
        } else {
            let (from, long) = if rest.starts_with('+') { (1, 6) } else { (0, 4) };
            let (length, character) = of_unicode(rest, from, long, &sign, |rest| {
                let next = rest.strip_prefix(escape)?;
                Some(if next.starts_with('+') { (1 + sign.len(), 6) } else { (sign.len(), 4) })
            })?;
            value.push(character);
            rest = &rest[length..];
        }
    }
    Ok(value)
}

/// Reads a character of so many hexadecimal digits from a place on, which may be a surrogate before
/// another escape. `next` says where the digits of that one begin, and how many it has.
fn of_unicode(
    rest: &str,
    from: usize,
    long: usize,
    sign: &str,
    next: impl Fn(&str) -> Option<(usize, usize)>,
) -> Result<(usize, char)> {
    let whole = |end: usize| format!("{sign}{}", &rest[..rest.floor_char_boundary(end)]);
    let number = |from: usize, long: usize| {
        let digits = rest.get(from..from + long)?;
        let are_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|_| are_digits)
    };
    let end = from + long;
    let first = number(from, long).ok_or_else(|| no_escape(&whole(end)))?;
    let (end, code) = match first {
        0xD800..=0xDBFF => {
            let behind = next(&rest[end..]);
            let second =
                behind.and_then(|(place, long)| Some((end + place + long, number(end + place, long)?)));
            match second {
                Some((end, low @ 0xDC00..=0xDFFF)) => {
                    (end, 0x1_0000 + ((first - 0xD800) << 10) + (low - 0xDC00))
                }
                _ => return Err(no_escape(&whole(end))),
            }
        }
        other => (end, other),
    };
    match char::from_u32(code) {
        Some(character) if (1..=LAST).contains(&code) => Ok((end, character)),
        _ => Err(no_escape(&whole(end))),
    }
}

fn no_escape(written: &str) -> Error {
    let message = format!(
        "invalid Unicode escape {written}: it is \\uXXXX or \\UXXXXXXXX (\\XXXX or \\+XXXXXX in U&'…'), with digits \
         of a character, or of two surrogates one behind the other"
    );
    Error::invalid_input(message).with_sqlstate("22025")
}

fn no_text(bytes: &[u8]) -> Error {
    let shown: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    let shown = shown.join(" ");
    Error::invalid_input(format!("invalid byte sequence for encoding \"UTF8\": {shown}"))
        .with_sqlstate("22021")
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn escapes_are_read_as_in_postgresql() {
        for (written, meant) in [
            (r"E'\xc3\xa4\303\244\u00e4\U000000e4ä'", " 'äääää'"),
            (r"E'\ud83d\ude00\U0001f600\uD83D\U0000DE00'", " '😀😀😀'"),
            (r"e'\101\1012\7\x4g\xg\q\\'", " 'AA2\u{7}\u{4}gxgq\\'"),
            (r"E'\b\f\n\r\t'", " '\u{8}\u{c}\n\r\t'"),
            (r"E'it''s\'' or true --'", " 'it''s''' or true --'"),
            (r"E'\ö'", " 'ö'"),
            (r"'a'E'b'", "'a' 'b'"),
            (r"U&'d\0061t\+000061\\' u&'\d83d\de00'", r" 'data\'  '😀'"),
            (r"U&'d!0061''!!' UESCAPE '!', 1", " 'da''!', 1"),
            (r#"U&"d\0061""a""#, r#" "da""a""#),
            (r"SELECT 'E\x41', type'a\n' -- E'\n'", r"SELECT 'E\x41', type'a\n' -- E'\n'"),
            (r"u & '\0061' E '\n'", r"u & '\0061' E '\n'"),
            (r"$$E'\n'$$ E'\", r"$$E'\n'$$ E'\"),
            ("'a'\n'b' 'c'", "'ab' 'c'"),
            ("x'0a' -- it's\r\n \n -- so\n '0b'\n'0c', 'd'", "x'0a0b0c', 'd'"),
            ("'it'\n'''s', ''\n''", "'it''s', ''"),
            ("E'\\t'\n'''a'\n'b'", " '\t''ab'"),
            ("U&'!00'\n'61' UESCAPE '!'", " 'a'"),
            ("'a' 'b', 'a' /* \n */ 'b', 'a' /* */\n'b'", "'a' 'b', 'a' /* \n */ 'b', 'a' /* */\n'b'"),
            ("$$a$$\n'b', \"a\"\n'b'", "$$a$$\n'b', \"a\"\n'b'"),
            ("'a',\n'b'\n'c", "'a',\n'b'\n'c"),
        ] {
            assert_eq!(plain(written).unwrap(), meant, "{written}");
        }
    }

    #[test]
    fn escapes_that_mean_nothing_are_refused() {
        for (written, state) in [
            (r"E'\xff'", "22021"),
            (r"E'\377a'", "22021"),
            (r"E'\xc3'", "22021"),
            (r"E'\xed\xa0\x80'", "22021"),
            (r"E'\0'", "22021"),
            (r"E'\x00'", "22021"),
            (r"E'\400'", "22021"),
            (r"E'\u0000'", "22025"),
            (r"E'\u12'", "22025"),
            (r"E'\u+123'", "22025"),
            (r"E'\u12ä4'", "22025"),
            (r"E'\U0011'", "22025"),
            (r"E'\U00110000'", "22025"),
            (r"E'\ud83d'", "22025"),
            (r"E'\ud83dx'", "22025"),
            (r"E'\ud83d\u0061'", "22025"),
            (r"E'\ude00'", "22025"),
            (r"U&'\006'", "22025"),
            (r"U&'\+00006'", "22025"),
            (r"U&'\d83d'", "22025"),
            (r"U&'!0061' UESCAPE 'a'", "42601"),
            (r"U&'!0061' UESCAPE '!!'", "42601"),
            ("E'a'\n'\\' or true --'", "42601"),
        ] {
            let error = plain(written).unwrap_err();
            assert_eq!(error.sqlstate(), state, "{written}: {error}");
        }
    }
}
