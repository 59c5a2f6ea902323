//! Rewrites the actions of MERGE that the parser does not know to others that it knows.

use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, Tokenizer};
use std::borrow::Cow;

/// The text in place of actions that the parser does not know: DO NOTHING with rows of the target,
/// and with others, and INSERT DEFAULT VALUES.
pub const KEEP: &str = "UPDATE SET __nothing = NULL";

pub const PASS_OVER: &str = "INSERT VALUES (__nothing)";

pub const INSERT_DEFAULTS: &str = "INSERT VALUES (__defaults)";

/// Returns a MERGE with all its actions in words that the parser knows.
pub fn known_actions(sql: &str) -> Cow<'_, str> {
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).with_unescape(false).tokenize() else {
        return Cow::Borrowed(sql);
    };
    let mut text: Vec<String> = tokens.iter().map(Token::to_string).collect();
    let places = (0..tokens.len()).filter(|place| !matches!(tokens[*place], Token::Whitespace(_)));
    let places: Vec<usize> = places.collect();
    let mut inserts = false;
    for at in 0..places.len() {
        let begins = |words: &[&str]| {
            let is = |(place, word): (&usize, &&str)| match &tokens[*place] {
                Token::Word(found) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
                _ => false,
            };
            places.len() >= at + words.len() && places[at..].iter().zip(words).all(is)
        };
        if begins(&["WHEN", "MATCHED"]) {
            inserts = false;
        } else if begins(&["WHEN", "NOT", "MATCHED"]) {
            inserts = !begins(&["WHEN", "NOT", "MATCHED", "BY", "SOURCE"]);
        }
        let (words, action) = if begins(&["THEN", "DO", "NOTHING"]) {
            (3, if inserts { PASS_OVER } else { KEEP })
        } else if begins(&["THEN", "INSERT", "DEFAULT", "VALUES"]) {
            (4, INSERT_DEFAULTS)
        } else {
            continue;
        };
        places[at + 1..at + words].iter().for_each(|place| text[*place].clear());
        text[places[at + 1]].push_str(action);
    }
    Cow::Owned(text.concat())
}

#[cfg(test)]
mod tests {
    use super::known_actions;

    #[test]
    fn actions_become_known() {
        let of =
            |actions: &str| known_actions(&format!("MERGE INTO t USING s ON true {actions}")).into_owned();
        assert_eq!(
            of("WHEN MATCHED AND CASE WHEN a THEN b END THEN DO /* so */ NOTHING"),
            "MERGE INTO t USING s ON true WHEN MATCHED AND CASE WHEN a THEN b END THEN \
             UPDATE SET __nothing = NULL /* so */ "
        );
        assert!(
            of("when not matched by source then do nothing").ends_with("then UPDATE SET __nothing = NULL ")
        );
        assert!(of("when not matched then do nothing").ends_with("then INSERT VALUES (__nothing) "));
        assert!(of("WHEN NOT MATCHED THEN INSERT DEFAULT VALUES").ends_with("INSERT VALUES (__defaults)  "));
        for other in
            ["SELECT 'MERGE WHEN MATCHED THEN DO NOTHING'", "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING"]
        {
            assert_eq!(known_actions(other), other);
        }
    }
}
