//! SQL text to a syntax tree in the dialect that is planned: the text is read, in the first of
//! three dialects that knows it, and then rewritten by the [`PASSES`] in their order.

use crate::gate;
use crate::gate::check_size;
use crate::identity_options::order_identity_options;
use crate::insert_clauses::{conflict_apart, known_by_name, known_overriding, mark_overriding};
use crate::merge_actions::KnownActions;
use crate::reading::in_any;
use crate::tokenized::{Tokenized, tokens_of};
use crate::{
    asof_join, chains, clauses, collation, common_table, defined_macros, escapes, expansion, field_access,
    forms, grouping, literal, numbers, only, phrases, pivot, pivot_words, positional_join, printable,
    refused, row_values, samples, search_cycle, set_orders, structure_values, table_as, time_literal,
    twin_keys, windows,
};
use datafusion_sql::parser::{DFParser, Statement as DfStatement};
use hypostyle_error::complexity::{NESTED_TOO_DEEPLY, too_complex};
use hypostyle_error::from_datafusion;
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{Query, Statement};
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::Token;
use std::borrow::Cow;
use std::collections::VecDeque;

pub use crate::reading::{Text, parse_as_written};

/// The caller's additions to the dialect.
pub struct Extension {
    /// Changes the statement as it is written, before all passes.
    pub as_written: fn(&Text<'_>, &mut Statement),
    /// Gives the names of system catalogs and their functions a meaning.
    pub system_names: fn(&str, &mut Statement),
}

impl Extension {
    /// Adds nothing.
    pub const NONE: Self = Self { as_written: |_, _| {}, system_names: |_, _| {} };

    /// Changes a statement as it is written, where that was made and never read: it may have whatever words.
    pub fn write(&self, statement: &mut Statement) {
        (self.as_written)(&Text { sql: "", tokens: &[] }, statement);
    }
}

/// A rewrite of a statement's syntax.
pub struct Pass {
    pub name: &'static str,
    /// The reason for it.
    pub why: &'static str,
    /// The passes that must have run before, by their names.
    pub after: &'static [&'static str],
    /// Says whether the statement may have something to rewrite: most have nothing, and some are
    /// long.
    concerns: fn(&Text) -> bool,
    run: fn(&Text, &Extension, &mut Statement) -> Result<()>,
}

/// The passes, in the order in which they run.
const PASSES: [Pass; 24] = [
    Pass {
        name: "as written",
        why: "the caller's additions see what is written",
        after: &[],
        concerns: |_| true,
        run: |text, extension, statement| {
            (extension.as_written)(text, statement);
            Ok(())
        },
    },
    Pass {
        name: "printable",
        why: "parts of the tree are printed, and read again",
        after: &["as written"],
        concerns: |_| true,
        run: |_, _, statement| {
            printable::rewrite(statement);
            Ok(())
        },
    },
    Pass {
        name: "pivot",
        why: "DataFusion has neither PIVOT nor UNPIVOT, and what they stand for is rewritten as any query",
        after: &["printable"],
        concerns: |text| text.has(&["PIVOT", "UNPIVOT"]),
        run: |_, _, statement| pivot::rewrite(statement),
    },
    Pass {
        name: "asof join",
        why: "DataFusion has no join with the nearest row",
        after: &["printable"],
        concerns: |text| text.has(&["ASOF JOIN"]),
        run: |_, _, statement| asof_join::rewrite(statement),
    },
    Pass {
        name: "positional join",
        why: "DataFusion has no join of rows by their places",
        after: &["printable"],
        concerns: |text| text.has(&["GLOBAL"]),
        run: |_, _, statement| positional_join::rewrite(statement),
    },
    Pass {
        name: "search and cycle",
        why: "DataFusion has neither of these clauses, and their marks are no keys of the query's order",
        after: &["printable"],
        concerns: |text| text.has(&["RECURSIVE"]),
        run: |_, _, statement| search_cycle::rewrite(statement),
    },
    Pass {
        name: "expansion",
        why: "names of WITH that double with every level are refused before anything walks through them",
        after: &[],
        concerns: |text| text.has(&["WITH"]),
        run: |_, _, statement| expansion::check(statement),
    },
    Pass {
        name: "refused",
        why: "what has no meaning is an error before a pass takes it away",
        after: &["as written"],
        concerns: |text| text.has(&refused::WORDS) || text.has(&["INTO"]) && text.has(&["SELECT"]),
        run: |_, _, statement| refused::check(statement),
    },
    Pass {
        name: "set parentheses",
        why: "clauses behind a query in parentheses are its own",
        after: &[],
        concerns: |text| text.has(&["ORDER"]) && text.tokens.contains(&Token::LParen),
        run: |_, _, statement| {
            set_orders::without_parentheses(statement);
            Ok(())
        },
    },
    Pass {
        name: "set orders",
        why: "ORDER BY of a set operation names columns of its result, and no others",
        after: &["set parentheses"],
        concerns: |text| text.has(&["ORDER"]) && text.has(&["UNION", "INTERSECT", "EXCEPT"]),
        run: |_, _, statement| set_orders::check(statement),
    },
    Pass {
        name: "chains",
        why: "a chain of AND or OR is as deep as it is long, and the time to walk it grows with the square",
        after: &[],
        concerns: |text| text.has(&["AND", "OR"]),
        run: |_, _, statement| {
            chains::balance(statement);
            Ok(())
        },
    },
    Pass {
        name: "grouping",
        why: "sets are counted, keys in lists are sets, and one key under two names is two",
        after: &[],
        concerns: |text| text.has(&["GROUP", "PIVOT"]),
        run: |_, _, statement| {
            grouping::write_lists_out(statement);
            grouping::check_sets(statement)?;
            twin_keys::tell_apart(statement);
            grouping::columns_of_constants(statement);
            Ok(())
        },
    },
    Pass {
        name: "structure values",
        why: "the planner wants one type for a column of VALUES",
        after: &[],
        concerns: |text| text.has(&["VALUES"]) && (text.sql.contains(['{', '\'']) || text.has(&["STRUCT"])),
        run: |_, _, statement| structure_values::complete(statement),
    },
    Pass {
        name: "common table",
        why: "WITH stands before queries alone; what is written in the place of a name has been counted",
        after: &["expansion"],
        concerns: |text| text.has(&["WITH"]),
        run: |_, _, statement| {
            common_table::distribute(statement);
            Ok(())
        },
    },
    Pass {
        name: "row values",
        why: "the planner takes rows of values for structures",
        after: &[],
        concerns: |text| text.may_have_rows(),
        run: |text, _, statement| {
            if text.has(&["ROW"]) {
                row_values::without_word(statement);
            }
            row_values::rewrite(statement)
        },
    },
    Pass {
        name: "windows",
        why: "DataFusion has no frames that leave rows out; what stands for one needs the whole window",
        after: &[],
        concerns: |text| text.has(&["OVER", "WINDOW"]),
        run: |_, _, statement| windows::rewrite(statement),
    },
    Pass {
        name: "collation",
        why: "the planner knows no collations",
        after: &[],
        concerns: |text| text.has(&["COLLATE"]),
        run: |_, _, statement| collation::rewrite(statement),
    },
    Pass {
        name: "clauses",
        why: "DataFusion lacks these clauses and operators",
        after: &[],
        concerns: |text| text.has(&clauses::WORDS) || text.tokens.iter().any(clauses::is_operator),
        run: |_, _, statement| {
            clauses::rewrite(statement);
            Ok(())
        },
    },
    Pass {
        name: "field access",
        why: "the planner knows fields behind names alone",
        after: &[],
        concerns: |text| text.sql.contains('.'),
        run: |_, _, statement| {
            field_access::rewrite(statement);
            Ok(())
        },
    },
    Pass {
        name: "forms",
        why: "DataFusion lacks these forms of queries, or ignores them",
        after: &[],
        concerns: |_| true,
        run: |_, _, statement| forms::rewrite(statement),
    },
    Pass {
        name: "literals",
        why: "DataFusion takes the text of an INTERVAL as it is; one of an expression is no literal any more",
        after: &["clauses"],
        concerns: |text| text.has(&literal::SIGNS) || text.has(&time_literal::SIGNS),
        run: |_, _, statement| literal::rewrite(statement),
    },
    Pass {
        name: "system names",
        why: "names of system catalogs and of their functions are the caller's",
        after: &[],
        concerns: |_| true,
        run: |text, extension, statement| {
            (extension.system_names)(text.sql, statement);
            Ok(())
        },
    },
    Pass {
        name: "any",
        why: "a list that is compared with ANY handles NULLs in a function; system names make lists of texts",
        after: &["system names"],
        concerns: |text| text.has(&["ANY", "SOME", "ALL"]),
        run: |_, _, statement| {
            forms::rewrite_any(statement);
            Ok(())
        },
    },
    Pass {
        name: "printable at last",
        why: "the passes have made what is printed, and read again, later",
        after: &["printable", "any"],
        concerns: |_| true,
        run: |_, _, statement| {
            printable::rewrite(statement);
            Ok(())
        },
    },
];

/// Whoever is told of each pass that a statement's words concern, with the statement, when it has run.
pub type Watcher<'a> = &'a mut dyn FnMut(&Pass, &Statement);

/// Parses one statement: in DataFusion's dialect, or else in DuckDB's, which has what users of
/// notebooks are used to (`FROM t`, struct types, trailing commas), or else in PostgreSQL's.
///
/// # Errors
/// `Syntax`, which is 54001 where the text is too complex.
pub fn parse(sql: &str, extension: &Extension) -> Result<DfStatement> {
    parse_watched(sql, extension, &mut |_, _| {})
}

/// Parses as [`parse`] does, and tells of the passes: `cargo run -p hypostyle-sql --example passes`.
///
/// # Errors
/// Those of [`parse`].
pub fn parse_watched(sql: &str, extension: &Extension, watcher: Watcher<'_>) -> Result<DfStatement> {
    check_size(sql)?;
    let sql = &*escapes::plain(sql)?;
    let sql = &*numbers::in_digits(sql)?;
    let Tokenized { written: tokens, meant } = Tokenized::read(sql);
    gate::check(tokens.iter())?;
    check_numbers(&tokens)?;
    refused::check_tokens(&tokens)?;
    let known = samples::known(&tokens)?.or_else(|| phrases::known(&tokens));
    let known = known.or_else(|| search_cycle::known(&tokens)).or_else(|| only::known(&tokens));
    let known = match known.or_else(|| pivot_words::known(&tokens)) {
        None => asof_join::known(&tokens)?
            .or_else(|| positional_join::known(&tokens))
            .or_else(|| defined_macros::known(&tokens)),
        known => known,
    };
    if let Some(known) = known {
        return parse_watched(&known.iter().map(Token::to_string).collect::<String>(), extension, watcher);
    }
    if let Some(known) = table_as::known(&tokens) {
        return parse_watched(&known, extension, watcher);
    }
    let words = Text { sql, tokens: &tokens };
    let KnownWords { text: sql, merge, is_overriding } = in_known_words(&words);
    // Other words have other tokens.
    let known = meant.filter(|_| matches!(sql, Cow::Borrowed(_))).map(|meant| (&tokens[..], meant));
    let parsed = in_any(&sql, known, statements).or_else(|error| {
        let apart = words.has(&["CONFLICT"]).then(|| conflict_apart(&tokens_of(&sql))).flatten();
        match apart {
            Some(sql) => in_any(&sql, None, statements).map_err(|_| error),
            None => Err(error),
        }
    });
    let mut statements = parsed?;
    match (statements.pop_front(), statements.is_empty()) {
        (Some(mut statement), true) => {
            if let Some(inner) = explained(&mut statement) {
                if let Some(merge) = merge {
                    merge.restore(inner);
                }
                if is_overriding {
                    mark_overriding(inner);
                }
                let text = Text { sql: &sql, tokens: &tokens };
                for pass in PASSES.iter().filter(|pass| (pass.concerns)(&text)) {
                    (pass.run)(&text, extension, inner)?;
                    watcher(pass, inner);
                }
            }
            Ok(statement)
        }
        _ => Err(Error::new(ErrorKind::Syntax, "one statement was expected")),
    }
}

/// Parses a query.
///
/// # Errors
/// `Syntax`, also where the text is another statement.
pub fn parse_query(sql: &str, extension: &Extension) -> Result<Query> {
    if let DfStatement::Statement(statement) = parse(sql, extension)?
        && let Statement::Query(query) = *statement
    {
        return Ok(*query);
    }
    Err(Error::new(ErrorKind::Syntax, "a query was expected"))
}

/// A text in words that the parsers know, and what some of them stand for.
struct KnownWords<'a> {
    text: Cow<'a, str>,
    merge: Option<KnownActions>,
    /// It has words in place of OVERRIDING SYSTEM VALUE.
    is_overriding: bool,
}

fn in_known_words<'a>(text: &Text<'a>) -> KnownWords<'a> {
    let mut known = KnownWords { text: text.sql.into(), merge: None, is_overriding: false };
    let mut tokens = Cow::Borrowed(text.tokens);
    if text.has(&["IDENTITY"]) {
        let sql = order_identity_options(&tokens);
        tokens = tokens_of(&sql).into();
        known.text = sql.into();
    }
    if text.has(&["OVERRIDING"])
        && let Some(sql) = known_overriding(&tokens)
    {
        tokens = tokens_of(&sql).into();
        known.text = sql.into();
        known.is_overriding = true;
    }
    let may_be_by_name = ["INSERT", "BY", "NAME"].iter().all(|word| text.has(&[word]));
    if may_be_by_name && let Some(sql) = known_by_name(&tokens) {
        tokens = tokens_of(&sql).into();
        known.text = sql.into();
    }
    if text.has(&["MERGE"]) {
        let mut merge = KnownActions::find(&tokens);
        known.text = std::mem::take(&mut merge.text).into();
        known.merge = Some(merge);
    }
    known
}

/// Returns the statement itself, or that which EXPLAIN is about.
pub fn explained(statement: &mut DfStatement) -> Option<&mut Statement> {
    match statement {
        DfStatement::Statement(inner) => Some(inner),
        DfStatement::Explain(explain) => explained(&mut explain.statement),
        _ => None,
    }
}

/// Looks whether a word begins right behind a number: `1_000` would be 1, under the name `_000`.
///
/// # Errors
/// `Syntax` naming both.
fn check_numbers(tokens: &[Token]) -> Result<()> {
    for pair in tokens.windows(2) {
        if let [Token::Number(number, _), Token::Word(word)] = pair {
            return Err(Error::new(
                ErrorKind::Syntax,
                format!("trailing junk after a number: {number}{word}"),
            ));
        }
    }
    Ok(())
}

fn statements(parser: &mut DFParser<'_>) -> Result<VecDeque<DfStatement>> {
    parser.parse_statements().map_err(from_datafusion)
}

/// Parses a query that is stored, which has been parsed and rewritten before.
pub fn parse_stored(sql: &str) -> Result<DfStatement> {
    check_size(sql)?;
    let mut statements = in_any(sql, None, statements)?;
    match (statements.pop_front(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        _ => Err(Error::new(ErrorKind::Syntax, "one statement was expected")),
    }
}

/// Returns an error of the parser's own.
pub fn syntax(error: ParserError) -> Error {
    let text = match error {
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => text,
        ParserError::RecursionLimitExceeded => return too_complex(NESTED_TOO_DEEPLY),
    };
    Error::new(ErrorKind::Syntax, text)
}

#[cfg(test)]
mod tests {
    use super::{Extension, PASSES, parse_watched};
    use std::collections::HashSet;

    #[test]
    fn each_pass_runs_after_those_that_it_needs() {
        let mut before = HashSet::new();
        for pass in &PASSES {
            for needed in pass.after {
                assert!(
                    before.contains(needed),
                    "{} needs {needed}, which comes later or is none",
                    pass.name
                );
            }
            assert!(
                !pass.why.is_empty() && before.insert(pass.name),
                "{} has no reason, or is twice",
                pass.name
            );
        }
    }

    #[test]
    fn the_passes_of_a_statement_are_those_that_its_words_concern() {
        let passes = |sql: &str| {
            let mut names = Vec::new();
            parse_watched(sql, &Extension::NONE, &mut |pass, _| names.push(pass.name)).unwrap();
            names
        };
        let always = ["as written", "printable", "forms", "system names", "printable at last"];
        assert_eq!(passes("SELECT 1"), always);
        let mut all = passes("SELECT a FROM t JOIN u USING (a) WHERE a OR b");
        all.retain(|name| !always.contains(name));
        assert_eq!(all, ["refused", "chains"]);
        assert_eq!(passes("EXPLAIN SELECT 1"), always);
    }
}
