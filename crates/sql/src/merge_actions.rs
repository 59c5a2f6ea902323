//! The actions of MERGE, and those among them that the parser does not know: DO NOTHING, and INSERT
//! DEFAULT VALUES.
//!
//! The parser reads other actions in their places. What it has read there becomes an UPDATE of no
//! columns or an INSERT of no rows, which it makes of no text.

use crate::walk::walk_mut;
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    Merge, MergeAction, MergeInsertExpr, MergeInsertKind, MergeUpdateExpr, Statement, Values, VisitorMut,
};
use sqlparser::tokenizer::{Location, Token};
use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::ControlFlow;

/// What a clause of MERGE does with a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action<'a> {
    Nothing,
    Delete,
    Update(&'a MergeUpdateExpr),
    Insert(&'a MergeInsertExpr),
    InsertDefaults,
}

impl<'a> Action<'a> {
    pub fn new(action: &'a MergeAction) -> Self {
        match action {
            MergeAction::Delete { .. } => Self::Delete,
            MergeAction::Update(update) if update.assignments.is_empty() => Self::Nothing,
            MergeAction::Update(update) => Self::Update(update),
            MergeAction::Insert(insert) => match &insert.kind {
                MergeInsertKind::Values(Values { rows, .. }) if rows.is_empty() => Self::InsertDefaults,
                _ => Self::Insert(insert),
            },
        }
    }
}

/// An action that the parser does not know.
#[derive(Clone, Copy, Debug)]
enum Unknown {
    Nothing,
    InsertDefaults,
}

/// A MERGE in words that the parser knows.
#[derive(Debug, Default)]
pub struct KnownActions {
    pub text: String,
    /// The places in that text of the actions that stand for others.
    others: HashMap<Location, Unknown>,
}

impl KnownActions {
    /// Returns the text of some tokens without actions that the parser does not know.
    pub fn find(tokens: &[Token]) -> Self {
        let words: Vec<usize> =
            (0..tokens.len()).filter(|place| !matches!(tokens[*place], Token::Whitespace(_))).collect();
        let mut known = Self::default();
        let (mut inserts, mut written) = (false, 0);
        for at in 0..words.len() {
            let begins = |wanted: &[&str]| {
                let is = |(place, word): (&usize, &&str)| match &tokens[*place] {
                    Token::Word(found) => {
                        found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word)
                    }
                    _ => false,
                };
                words.len() >= at + wanted.len() && words[at..].iter().zip(wanted).all(is)
            };
            if begins(&["WHEN", "MATCHED"]) {
                inserts = false;
            } else if begins(&["WHEN", "NOT", "MATCHED"]) {
                inserts = !begins(&["WHEN", "NOT", "MATCHED", "BY", "SOURCE"]);
            }
            let (length, unknown) = if begins(&["THEN", "DO", "NOTHING"]) {
                (2, Unknown::Nothing)
            } else if begins(&["THEN", "INSERT", "DEFAULT", "VALUES"]) {
                (3, Unknown::InsertDefaults)
            } else {
                continue;
            };
            let action = &words[at + 1..=at + length];
            known.write(&tokens[written..action[0]]);
            known.others.insert(end_of(&known.text), unknown);
            let stands_for_insert = inserts || matches!(unknown, Unknown::InsertDefaults);
            known.text.push_str(if stands_for_insert {
                "INSERT VALUES (NULL)"
            } else {
                "UPDATE SET a = NULL"
            });
            written = action[length - 1] + 1;
        }
        known.write(&tokens[written..]);
        known
    }

    fn write(&mut self, tokens: &[Token]) {
        self.text.extend(tokens.iter().map(Token::to_string));
    }

    /// Puts the actions that the parser does not know in the places of those that stand for them.
    pub fn restore(&self, statement: &mut Statement) {
        let ControlFlow::Continue(()) = walk_mut(statement, &mut Restoring(&self.others));
    }
}

/// Returns where a token would be that follows a text.
fn end_of(text: &str) -> Location {
    let last = text.rsplit('\n').next().unwrap_or_default();
    Location { line: text.matches('\n').count() as u64 + 1, column: last.chars().count() as u64 + 1 }
}

struct Restoring<'a>(&'a HashMap<Location, Unknown>);

impl VisitorMut for Restoring<'_> {
    type Break = Infallible;

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<Infallible> {
        if let Statement::Merge(Merge { clauses, .. }) = statement {
            for clause in clauses {
                let (MergeAction::Update(MergeUpdateExpr { update_token: token, .. })
                | MergeAction::Insert(MergeInsertExpr { insert_token: token, .. })
                | MergeAction::Delete { delete_token: token }) = &clause.action;
                match (self.0.get(&token.0.span.start), &mut clause.action) {
                    (Some(Unknown::Nothing), action) => {
                        *action = MergeAction::Update(MergeUpdateExpr {
                            update_token: AttachedToken::empty(),
                            assignments: Vec::new(),
                            update_predicate: None,
                            delete_predicate: None,
                        });
                    }
                    (
                        Some(Unknown::InsertDefaults),
                        MergeAction::Insert(MergeInsertExpr {
                            kind: MergeInsertKind::Values(values), ..
                        }),
                    ) => values.rows.clear(),
                    _ => {}
                }
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, KnownActions};
    use crate::parse::{Extension, parse};
    use crate::tokenized::tokens_of;
    use datafusion_sql::parser::Statement as DfStatement;
    use sqlparser::ast::{MergeAction, Statement};

    fn actions_of(actions: &str) -> Vec<MergeAction> {
        let sql = format!("MERGE INTO t USING s\nON true /* ü */ {actions}");
        match parse(&sql, &Extension::NONE).unwrap() {
            DfStatement::Statement(statement) => match *statement {
                Statement::Merge(merge) => merge.clauses.into_iter().map(|clause| clause.action).collect(),
                other => panic!("{other} is no MERGE"),
            },
            other => panic!("{other} is no MERGE"),
        }
    }

    #[test]
    fn unknown_actions_are_read() {
        let read = actions_of(
            "WHEN MATCHED AND CASE WHEN a THEN b END THEN DO /* so */ NOTHING\nWHEN MATCHED THEN DELETE \
             when not matched by source then do nothing when not matched and a = 'ä' then do nothing \
             WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
        );
        let read: Vec<_> = read.iter().map(Action::new).collect();
        let expected =
            [Action::Nothing, Action::Delete, Action::Nothing, Action::Nothing, Action::InsertDefaults];
        assert_eq!(read, expected);
    }

    #[test]
    fn no_other_action_is_taken_for_one() {
        let read = actions_of(
            "WHEN MATCHED AND a THEN UPDATE SET __nothing = NULL WHEN MATCHED THEN UPDATE SET a = NULL \
             WHEN NOT MATCHED AND a THEN INSERT VALUES (__defaults) WHEN NOT MATCHED THEN INSERT VALUES (NULL)",
        );
        assert!(matches!(
            read.iter().map(Action::new).collect::<Vec<_>>()[..],
            [Action::Update(_), Action::Update(_), Action::Insert(_), Action::Insert(_)]
        ));
    }

    #[test]
    fn other_texts_stay() {
        for other in
            ["SELECT 'MERGE WHEN MATCHED THEN DO NOTHING'", "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING"]
        {
            assert_eq!(KnownActions::find(&tokens_of(other)).text, other);
        }
    }
}
