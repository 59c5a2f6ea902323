//! Shows the place of an error in a statement's text as PostgreSQL's clients do: the line, and a
//! caret below the place.

/// The columns of the screen in which a line is shown; a longer line is cut around the place.
const COLUMNS: usize = 70;
/// The columns that stay visible before and after the place.
const AROUND: usize = 15;
const CUT: &str = "...";

/// Returns `LINE 2: select nme from t` and below it a caret under the character at `position`,
/// which counts from 1. The position one past the end of the text is its end. Returns `None` if the
/// text has no such place.
pub fn excerpt(text: &str, position: usize) -> Option<String> {
    let before = position.checked_sub(1)?;
    let count = text.chars().count();
    if before > count || count == 0 {
        return None;
    }
    let end = text.char_indices().nth(before).map_or(text.len(), |(index, _)| index);
    // An error at the end of the text is shown behind its last word.
    let end = if end == text.len() { text.trim_end().len() } else { end };
    let start = text[..end].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[start..].split(['\n', '\r']).next().unwrap_or_default();
    let number = text[..start].matches('\n').count() + 1;
    let head = format!("LINE {number}: ");
    let characters: Vec<char> = line.chars().map(visible).collect();
    let place = text[start..end].chars().count().min(characters.len());
    let (from, to) = window(&characters, place);
    let cut_before = if from > 0 { CUT } else { "" };
    let cut_after = if to < characters.len() { CUT } else { "" };
    let shown: String = characters[from..to].iter().collect();
    let indent = head.len() + cut_before.len() + width(&characters[from..place]);
    Some(format!("{head}{cut_before}{shown}{cut_after}\n{:indent$}^", ""))
}

/// Returns the part of a line that is shown.
fn window(characters: &[char], place: usize) -> (usize, usize) {
    if width(characters) <= COLUMNS {
        return (0, characters.len());
    }
    let (mut from, mut to) = (place, place);
    let mut left = COLUMNS;
    let mut take = |one: &char| {
        let columns = width_of(*one);
        let fits = columns <= left;
        if fits {
            left -= columns;
        }
        fits
    };
    // First some of the text behind the place is shown, then the text before it, then the rest.
    let after = characters[to..].iter().take(AROUND).take_while(|one| take(one)).count();
    to += after;
    let before = characters[..from].iter().rev().take_while(|one| take(one)).count();
    from -= before;
    to += characters[to..].iter().take_while(|one| take(one)).count();
    (from, to)
}

/// Replaces a tab or another control character, which would move the caret.
fn visible(character: char) -> char {
    if character.is_control() { ' ' } else { character }
}

fn width(characters: &[char]) -> usize {
    characters.iter().copied().map(width_of).sum()
}

/// Returns the columns of a terminal in which a character is shown: two for East Asian scripts and
/// emoji (Unicode, annex 11), none for characters that combine with the previous one.
fn width_of(character: char) -> usize {
    match character as u32 {
        0x0300..=0x036F | 0x200B..=0x200F | 0x20D0..=0x20FF | 0xFE00..=0xFE0F => 0,
        0x1100..=0x115F
        | 0x2E80..=0x303E
        | 0x3041..=0xA4CF
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1F64F
        | 0x1F900..=0x1F9FF
        | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the excerpt, and the character above its caret.
    fn drawn(text: &str, position: usize) -> (String, char) {
        let drawn = excerpt(text, position).unwrap();
        let (line, caret) = drawn.split_once('\n').unwrap();
        let columns = caret.chars().count() - 1;
        let mut passed = 0;
        let under = line.chars().find(|character| {
            let found = passed >= columns;
            passed += width_of(*character);
            found
        });
        (line.to_string(), under.unwrap_or('$'))
    }

    #[test]
    fn the_caret_is_under_the_character() {
        assert_eq!(excerpt("select nme from t", 8).unwrap(), "LINE 1: select nme from t\n               ^");
        let cases = [
            ("select\n  nme\nfrom t", 10, "LINE 2:   nme", 'n'),
            ("select\r\n  nme\r\nfrom t", 11, "LINE 2:   nme", 'n'),
            ("select\t'a',\tnme", 13, "LINE 1: select 'a', nme", 'n'),
            ("select 'größe', nme", 17, "LINE 1: select 'größe', nme", 'n'),
            ("select '大小', nme", 14, "LINE 1: select '大小', nme", 'n'),
            ("select '🙂', nme", 13, "LINE 1: select '🙂', nme", 'n'),
            ("select (", 9, "LINE 1: select (", '$'),
            ("select (\n\n ", 12, "LINE 1: select (", '$'),
            ("s", 1, "LINE 1: s", 's'),
        ];
        for (text, position, line, under) in cases {
            assert_eq!(drawn(text, position), (line.to_string(), under), "{text:?}");
        }
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let long = format!("select {}nme{} from t", "1234, ".repeat(40), ", 5678".repeat(40));
        let (line, under) = drawn(&long, 8 + 6 * 40);
        assert_eq!(under, 'n');
        assert!(line.starts_with("LINE 1: ...") && line.ends_with("..."), "{line}");
        assert!(line.chars().count() <= COLUMNS + 8 + 2 * CUT.len(), "{line}");
        let (line, under) = drawn(&long, 8);
        assert_eq!(under, '1');
        assert!(line.starts_with("LINE 1: select 1234,") && line.ends_with("..."), "{line}");
        let end = long.chars().count();
        let (line, under) = drawn(&long, end);
        assert_eq!(under, 't');
        assert!(line.ends_with("from t"), "{line}");
        let wide = format!("select '{}', nme", "大".repeat(200));
        assert_eq!(drawn(&wide, wide.chars().count() - 2).1, 'n');
    }

    #[test]
    fn a_place_that_is_not_there_is_not_drawn() {
        for (text, position) in [("", 1), ("select", 0), ("select", 8)] {
            assert_eq!(excerpt(text, position), None);
        }
    }
}
