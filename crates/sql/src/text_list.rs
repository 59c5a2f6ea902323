//! Lists written as text: `{1,NULL,"a b"}` as PostgreSQL writes arrays, and `[1, NULL, 'a b']` as
//! DuckDB writes lists.

/// Returns the elements of a list's text, NULLs as `None`; those that are lists themselves stay
/// text. `None` for a text that is no list.
pub fn split_elements(text: &str) -> Option<Vec<Option<String>>> {
    let text = text.trim();
    let brackets = text.starts_with('[');
    let (open, close) = if brackets { ('[', ']') } else { ('{', '}') };
    let inner = text.strip_prefix(open)?.strip_suffix(close)?;
    let mut elements = Vec::new();
    if inner.trim().is_empty() {
        return Some(elements);
    }
    let is_quote = |character: char| character == '"' || brackets && character == '\'';
    let (mut element, mut was_quoted, mut depth, mut quoted) = (String::new(), false, 0_usize, None);
    let mut finish = |element: &mut String, was_quoted: &mut bool| {
        let text = std::mem::take(element);
        let is_quoted = std::mem::take(was_quoted);
        let bare = text.trim();
        if !is_quoted && bare.is_empty() {
            return None;
        }
        elements.push(match bare {
            bare if !is_quoted && bare.eq_ignore_ascii_case("null") => None,
            bare if !is_quoted => Some(bare.to_string()),
            _ => Some(text),
        });
        Some(())
    };
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            // In a nested list the backslash is kept, because it is read again.
            '\\' => {
                if depth > 0 {
                    element.push('\\');
                }
                element.push(characters.next()?);
            }
            quote if quoted == Some(quote) || quoted.is_none() && is_quote(quote) => {
                quoted = if quoted.is_none() { Some(quote) } else { None };
                if depth > 0 {
                    element.push(quote);
                } else if !was_quoted {
                    // Only blanks may stand before the quote.
                    if !element.trim().is_empty() {
                        return None;
                    }
                    element.clear();
                    was_quoted = true;
                }
            }
            other if quoted.is_some() => element.push(other),
            '{' | '[' => {
                depth += 1;
                element.push(character);
            }
            '}' | ']' => {
                depth = depth.checked_sub(1)?;
                element.push(character);
            }
            ',' if depth == 0 => finish(&mut element, &mut was_quoted)?,
            blank if blank.is_whitespace() && depth == 0 && was_quoted => {}
            // There is text behind a closing quote.
            _ if depth == 0 && was_quoted => return None,
            other => element.push(other),
        }
    }
    finish(&mut element, &mut was_quoted)?;
    (quoted.is_none() && depth == 0).then_some(elements)
}

/// Says whether a text is that of an array of several dimensions, as PostgreSQL writes it. A list of
/// texts must not take its parts for texts.
pub fn is_array_of_arrays(text: &str) -> bool {
    let inner = text.trim_start().strip_prefix('{');
    inner.is_some_and(|inner| inner.trim_start().starts_with('{'))
}

#[cfg(test)]
mod tests {
    use super::{is_array_of_arrays, split_elements};

    #[test]
    fn arrays_of_arrays_are_known() {
        for (text, expected) in [
            ("{{1},{2}}", true),
            (" { {1}}", true),
            ("{\"{1}\"}", false),
            ("[{1}]", false),
            ("{", false),
            ("", false),
        ] {
            assert_eq!(is_array_of_arrays(text), expected, "{text}");
        }
    }

    #[test]
    fn elements_are_those_of_postgresql_and_duckdb() {
        for (text, expected) in [
            ("{}", Some(vec![])),
            (" { } ", Some(vec![])),
            ("{1,2}", Some(vec![Some("1"), Some("2")])),
            ("[1, NULL, 3]", Some(vec![Some("1"), None, Some("3")])),
            (
                r#"{a b, "c,d","NULL" ,nUll,"e\"f\\",""}"#,
                Some(vec![Some("a b"), Some("c,d"), Some("NULL"), None, Some("e\"f\\"), Some("")]),
            ),
            ("['a, b', it''s]", None),
            ("['a, b', c]", Some(vec![Some("a, b"), Some("c")])),
            (r#"{{1,2},{"x\"y",}}"#, Some(vec![Some("{1,2}"), Some(r#"{"x\"y",}"#)])),
            ("{1,,2}", None),
            ("{1,2", None),
            ("1,2", None),
            ("{1}}", None),
            (r#"{a"b"}"#, None),
            (r#"{"a"b}"#, None),
            (r#"{"a}"#, None),
            ("{a\\", None),
            ("", None),
        ] {
            let found = split_elements(text);
            let found: Option<Vec<Option<&str>>> =
                found.as_ref().map(|elements| elements.iter().map(Option::as_deref).collect());
            assert_eq!(found, expected, "{text}");
        }
    }
}
