//! Patterns of LIKE and SIMILAR TO, and the size of regular expressions.

use datafusion::error::Result;
use hypostyle_error::external;
use hypostyle_types::Error;

/// What stands before a character of a pattern that is meant as it is.
pub const ESCAPE: char = '\\';

/// The function that gives a pattern of LIKE as it is, and refuses one that ends in its escape
/// character.
pub const WHOLE_PATTERN: &str = "whole_pattern";

/// Looks whether a pattern ends in its escape character.
///
/// # Errors
/// `InvalidInput` (22025) naming it.
pub fn check_pattern(text: &str) -> Result<()> {
    let escapes = text.chars().rev().take_while(|letter| *letter == ESCAPE).count();
    // A character that is escaped escapes nothing.
    match escapes % 2 {
        0 => Ok(()),
        _ => {
            let message = format!(
                "the pattern '{text}' ends in its escape character, which is to stand before another one"
            );
            Err(external(Error::invalid_input(message).with_sqlstate("22025")))
        }
    }
}

/// PostgreSQL's replacements have `\1` to `\9` for groups, `\0` and `\&` for the whole match, and `\\` for a
/// backslash. Groups of the library are `${1}`, a `$` by itself is `$$`, and a group that there is not is
/// nothing.
pub(crate) fn as_replacement(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '$' {
            out.push('$');
        }
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next_if(|next| next.is_ascii_digit() || matches!(*next, '&' | '\\')) {
            Some('&') => out.push_str("${0}"),
            Some(digit) if digit.is_ascii_digit() => out.extend(['$', '{', digit, '}']),
            _ => {
                out.push('\\');
                // DataFusion takes a backslash and digits for a group.
                if characters.peek().is_some_and(char::is_ascii_digit) {
                    out.push_str("${_}");
                }
            }
        }
    }
    out
}

/// A constant pattern of so many bytes costs little more than to read the text.
pub(crate) const SHORT_PATTERN_BYTES: usize = 64;

/// The states that such a pattern may have with its repetitions written out.
const SHORT_PATTERN_STATES: u64 = 256;

/// Says whether a regular expression costs little to compile and to match.
pub(crate) fn is_short(pattern: &str) -> bool {
    pattern.len() <= SHORT_PATTERN_BYTES && states_of(pattern) <= SHORT_PATTERN_STATES
}

/// The states of a class of characters, or of one character of several bytes.
pub(crate) const CLASS_STATES: u64 = 4;

/// Returns about how many states a regular expression has once its counted repetitions are written out:
/// `(a{9}){9}` has 81. Each may have to be looked at for each byte of a text.
pub(crate) fn states_of(pattern: &str) -> u64 {
    let mut rest = pattern.chars().peekable();
    // The states in front of the groups that are open, those of this group, and those of its last item.
    let mut open: Vec<u64> = Vec::new();
    let (mut before, mut last) = (0_u64, 0_u64);
    // Comments may hide what a parenthesis belongs to, so that there each count is of all before it.
    let mut is_verbose = false;
    while let Some(letter) = rest.next() {
        let item = match letter {
            '?' | '*' | '+' | '|' | '^' | '$' => continue,
            '{' => {
                let times = count_of(&mut rest);
                if is_verbose {
                    let outer = open.drain(..).fold(before, u64::saturating_add);
                    before = outer.saturating_add(last).saturating_mul(times);
                    last = 0;
                } else {
                    last = last.saturating_mul(times);
                }
                continue;
            }
            '(' => {
                open.push(before.saturating_add(last));
                (before, last) = (0, 0);
                is_verbose = is_verbose || has_verbose_flag(&mut rest);
                continue;
            }
            ')' => {
                if let Some(outer) = open.pop() {
                    (before, last) = (outer, before.saturating_add(last));
                }
                continue;
            }
            '[' if !is_verbose => {
                skip_class(&mut rest);
                CLASS_STATES
            }
            '\\' => escaped(&mut rest, is_verbose),
            '.' | '[' => CLASS_STATES,
            letter if letter.is_ascii() => 1,
            _ => CLASS_STATES,
        };
        before = before.saturating_add(last);
        last = item;
    }
    open.into_iter().fold(before.saturating_add(last), u64::saturating_add)
}

type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Reads a repetition behind its brace, and returns the greatest number in it.
fn count_of(rest: &mut Letters<'_>) -> u64 {
    let (mut greatest, mut number) = (1_u64, 0_u64);
    let is_of_count = |letter: &char| letter.is_ascii_digit() || letter.is_whitespace() || *letter == ',';
    while let Some(letter) = rest.next_if(is_of_count) {
        number = match letter.to_digit(10) {
            Some(digit) => number.saturating_mul(10).saturating_add(u64::from(digit)),
            None => 0,
        };
        greatest = greatest.max(number);
    }
    rest.next_if_eq(&'}');
    greatest
}

/// Reads the flags or the name at the beginning of a group, and says whether white space and comments
/// may be between its items.
fn has_verbose_flag(rest: &mut Letters<'_>) -> bool {
    if rest.next_if_eq(&'?').is_none() {
        return false;
    }
    let is_of_head = |letter: &char| !matches!(letter, ':' | '>' | ')');
    let mut is_verbose = false;
    while let Some(letter) = rest.next_if(is_of_head) {
        is_verbose |= letter == 'x';
    }
    rest.next_if(|letter| matches!(letter, ':' | '>'));
    is_verbose
}

/// Reads a class of characters behind its bracket.
fn skip_class(rest: &mut Letters<'_>) {
    begin_class(rest);
    let mut depth = 1;
    while depth > 0 {
        match rest.next() {
            None => return,
            Some('\\') => {
                rest.next();
            }
            Some('[') => {
                begin_class(rest);
                depth += 1;
            }
            Some(']') => depth -= 1,
            Some(_) => (),
        }
    }
}

/// Reads what stands first in a class, where a bracket means itself.
fn begin_class(rest: &mut Letters<'_>) {
    rest.next_if_eq(&'^');
    if rest.next_if_eq(&'-').is_none() {
        rest.next_if_eq(&']');
    }
}

/// Reads what follows a backslash, and returns its states.
fn escaped(rest: &mut Letters<'_>, is_verbose: bool) -> u64 {
    let letter = rest.next();
    if !is_verbose && matches!(letter, Some('x' | 'u' | 'U' | 'p' | 'P')) && rest.next_if_eq(&'{').is_some() {
        rest.by_ref().take_while(|letter| *letter != '}').for_each(drop);
    }
    match letter {
        Some('w' | 'W' | 'd' | 'D' | 's' | 'S' | 'p' | 'P') => CLASS_STATES,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::states_of;

    #[test]
    fn repetitions_of_a_regular_expression_are_counted() {
        for (pattern, states) in [
            ("", 0),
            ("abc*|d+", 4),
            ("a{9}", 9),
            ("(a{9}){9}", 81),
            ("(?:ab{2,5}c){,10}x", 71),
            ("(?<name>ab){3,}", 6),
            ("a{0}", 1),
            ("[]({2}]{3}", 12),
            ("[^[a](]{3}", 12),
            (r"\d{4}-\d{2}", 25),
            (r"\({3}\x{41}{2}\p{Greek}{2}", 13),
            ("(a{10}b", 11),
            ("a){10}", 10),
            ("((((a{1,100}){1,100}){1,100}){1,100})", 100_000_000),
            ("a{18446744073709551616}{9}", u64::MAX),
            ("(?x)a # (\nb{3}", 18),
            ("(?x)(a{2} # [((\\x{\n b){3}", 33),
        ] {
            assert_eq!(states_of(pattern), states, "{pattern}");
        }
    }
}
