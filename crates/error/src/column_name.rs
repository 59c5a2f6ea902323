//! Names of columns that plans have and that no user sees.

/// The column of a row's position, where a statement that writes asks for it.
pub const POSITION: &str = "__position";

/// Stands in the names of columns that are one of several of a name, before a number. Nobody writes
/// it, and it is not seen.
pub const ONE_OF: char = '\u{2063}';

/// Returns the name of a column as it is shown: without what tells it from others of its name.
pub fn unmarked_name(name: &str) -> &str {
    name.split_once(ONE_OF).map_or(name, |(name, _)| name)
}

/// Returns a text with the names in it as they are shown.
pub fn unmarked_text(text: &str) -> String {
    let mut parts = text.split(ONE_OF);
    let mut shown = parts.next().unwrap_or_default().to_string();
    for part in parts {
        shown.push_str(part.trim_start_matches(|next: char| next.is_ascii_digit()));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::unmarked_text;

    #[test]
    fn names_in_a_text_lose_their_marks() {
        assert_eq!(unmarked_text("\"a\u{2063}\".x is none of b\u{2063}12, c1"), "\"a\".x is none of b, c1");
        assert_eq!(unmarked_text("a1"), "a1");
    }
}
