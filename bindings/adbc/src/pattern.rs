//! Search patterns of ADBC: `%` is any text, `_` any one character, and every other character is
//! itself.

/// Says whether the filter accepts a name. No filter accepts all names.
pub fn passes(filter: Option<&str>, name: &str) -> bool {
    filter.is_none_or(|pattern| matches(pattern, name))
}

/// Says whether a text matches a pattern. The time is at worst proportional to the product of the
/// lengths: after a mismatch only the last `%` takes one more character.
pub fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut place) = (0, 0);
    // The place behind the last `%`, and the end of the text that it takes.
    let mut retry: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(place) {
            Some('%') => {
                place += 1;
                retry = Some((place, at));
            }
            Some(wanted) if *wanted == '_' || *wanted == text[at] => {
                place += 1;
                at += 1;
            }
            _ => match &mut retry {
                Some((behind, taken)) => {
                    *taken += 1;
                    (place, at) = (*behind, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[place..].iter().all(|rest| *rest == '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_like_does() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("%", "anything", true),
            ("_", "", false),
            ("_", "ä", true),
            ("__", "ä", false),
            ("a%", "abc", true),
            ("a%", "ba", false),
            ("%c", "abc", true),
            ("%b%", "abc", true),
            ("a_c", "abc", true),
            ("a%b%c", "a--b--b--c", true),
            ("a%b%c", "a--c--b", false),
            ("%aab", "aaab", true),
            ("order_s", "orders", false),
            ("ORDERS", "orders", false),
            ("50\\%", "50\\", true),
            ("a.c", "abc", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{text:?} like {pattern:?}");
        }
    }

    #[test]
    fn a_hostile_pattern_ends() {
        let text = "a".repeat(5_000);
        assert!(!matches(&format!("{}b", "%a".repeat(200)), &text));
    }

    #[test]
    fn no_filter_lets_all_through() {
        assert!(passes(None, "x"));
        assert!(!passes(Some(""), "x"));
    }
}
