//! Decides what Tab offers: tables where a table can stand, columns of the tables that the
//! statement names, keywords, and dot commands.
//!
//! The functions are pure: the names come in as a [`Catalog`], and the offers go out as text.

use crate::token::{KEYWORDS, is_keyword, quote_name, unquote_name};
use hypostyle::arrow::array::AsArray;
use hypostyle::arrow::compute::cast;
use hypostyle::arrow::datatypes::DataType;
use hypostyle::lexer::{Token, TokenKind, tokens};
use hypostyle::{Connection, Result, TableDescription};

/// The names that exist.
#[derive(Debug, Default)]
pub struct Catalog {
    pub tables: Vec<Table>,
    pub functions: Vec<String>,
    pub settings: Vec<String>,
}

#[derive(Debug)]
pub struct Table {
    pub schema: String,
    pub name: String,
    pub columns: Vec<String>,
}

impl Catalog {
    /// Returns the names that a connection sees. A database that cannot list them still has
    /// keywords.
    pub fn of(connection: &Connection) -> Self {
        let names = |sql: &str| first_column(connection, sql).unwrap_or_default();
        Self {
            functions: names(
                "SELECT DISTINCT routine_name FROM information_schema.routines WHERE left(routine_name, 2) <> '__' ORDER BY 1",
            ),
            settings: names("SHOW settings"),
            ..Self::new(connection.tables().unwrap_or_default())
        }
    }

    fn new(tables: Vec<TableDescription>) -> Self {
        let tables = tables.into_iter().map(|table| Table {
            schema: table.schema,
            name: table.name,
            columns: table.columns.into_iter().map(|column| column.name).collect(),
        });
        Self { tables: tables.collect(), ..Self::default() }
    }
}

/// Returns the texts of a query's first column.
fn first_column(connection: &Connection, sql: &str) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for batch in connection.execute(sql)?.record_batches()? {
        let Ok(column) = cast(batch.column(0), &DataType::Utf8) else { continue };
        texts.extend(column.as_string::<i32>().iter().flatten().map(str::to_string));
    }
    Ok(texts)
}

/// The texts that may replace the text from `start` to the cursor.
#[derive(Debug, PartialEq)]
pub enum Offer {
    Words {
        start: usize,
        words: Vec<String>,
    },
    /// The cursor is in a string, which may be a file name.
    FileName,
}

/// The keywords before the name of a table.
const BEFORE_TABLE: &[&str] =
    &["FROM", "JOIN", "INTO", "UPDATE", "TABLE", "DESCRIBE", "SUMMARIZE", "COPY", "VIEW"];
/// What SHOW shows beside settings.
const SHOWN: &[&str] = &["CLUSTER", "DATABASES", "FRAGMENTS", "INDEXES", "PARTITIONS", "SESSIONS", "TABLES"];
/// The keywords that end the list of tables after FROM.
const AFTER_TABLES: &[&str] = &[
    "SELECT",
    "WHERE",
    "GROUP",
    "ORDER",
    "HAVING",
    "LIMIT",
    "ON",
    "USING",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "SET",
];

/// Returns the offers for the cursor at `position` of `line`.
pub fn offer(line: &str, position: usize, catalog: &Catalog) -> Offer {
    let all: Vec<Token<'_>> = tokens(line).collect();
    let before: Vec<Token<'_>> = all.iter().copied().filter(|token| token.start < position).collect();
    let current = before.last().filter(|token| token.end() >= position);
    let (start, before) = match current.map(|token| token.kind) {
        Some(TokenKind::Text) => return Offer::FileName,
        Some(TokenKind::Comment | TokenKind::Number | TokenKind::Parameter) => {
            return Offer::Words { start: position, words: Vec::new() };
        }
        Some(TokenKind::Word | TokenKind::QuotedName) => {
            (before[before.len() - 1].start, &before[..before.len() - 1])
        }
        Some(TokenKind::Symbol) | None => (position, &before[..]),
    };
    let typed = &line[start..position];
    let words = match before {
        [.., qualifier, dot] if dot.is_symbol(".") => {
            names_within(&unquote_name(qualifier.text), &tables_around(position, &all), catalog)
        }
        [.., word] if expects_by(word) => {
            words_like(&["BY"], if typed.is_empty() { word.text } else { typed }).collect()
        }
        _ if expects_table(before) => table_names(catalog),
        [] | [_] if expects_setting(before) => settings(before, typed, catalog),
        _ => {
            let mut words = columns_of(&tables_around(position, &all), catalog);
            if !typed.is_empty() {
                words.extend(words_like(KEYWORDS, typed));
                words.extend(table_names(catalog));
                words.extend(catalog.functions.iter().cloned());
            }
            words
        }
    };
    Offer::Words { start, words: beginning_with(typed, words) }
}

/// A table that a statement names, and its name there.
struct Named {
    table: String,
    alias: String,
}

/// Returns the tables after FROM, JOIN, INTO and UPDATE in the statement around `position`.
fn tables_around(position: usize, all: &[Token<'_>]) -> Vec<Named> {
    let ends_statement = |token: &Token<'_>| token.is_symbol(";");
    let from = all.iter().rposition(|token| token.end() <= position && ends_statement(token));
    let tokens = &all[from.map_or(0, |index| index + 1)..];
    let tokens = &tokens[..tokens.iter().position(ends_statement).unwrap_or(tokens.len())];
    (0..tokens.len())
        .filter(|index| is_name(&tokens[*index]) && expects_table(&tokens[..*index]))
        .map(|index| named(&tokens[index..]))
        .collect()
}

/// Reads `[schema.]table [[AS] alias]`.
fn named(tokens: &[Token<'_>]) -> Named {
    let text = |index: usize| tokens.get(index).map(|token| token.text);
    let name_at = |index: usize| tokens.get(index).filter(|token| is_name(token));
    let (table, mut next) = match (text(1), name_at(2)) {
        (Some("."), Some(name)) => (unquote_name(name.text), 3),
        _ => (unquote_name(tokens[0].text), 1),
    };
    if text(next).is_some_and(|word| word.eq_ignore_ascii_case("AS")) {
        next += 1;
    }
    let alias = name_at(next).map_or_else(|| table.clone(), |name| unquote_name(name.text));
    Named { table, alias }
}

fn is_name(token: &Token<'_>) -> bool {
    match token.kind {
        TokenKind::QuotedName => true,
        TokenKind::Word => !is_keyword(token.text),
        _ => false,
    }
}

/// Says whether the next name is a table's: directly after FROM and the like, or after a comma in
/// their list.
fn expects_table(before: &[Token<'_>]) -> bool {
    let text = |token: &Token<'_>| token.text.to_ascii_uppercase();
    match before.last().map(text).as_deref() {
        Some(",") => {
            let mut depth = 0;
            for word in before.iter().rev().map(text) {
                match word.as_str() {
                    ")" => depth += 1,
                    // A comma inside parentheses belongs to a call or to a subquery's own list.
                    "(" if depth == 0 => return false,
                    "(" => depth -= 1,
                    word if depth == 0 && AFTER_TABLES.contains(&word) => return false,
                    "FROM" if depth == 0 => return true,
                    _ => {}
                }
            }
            false
        }
        Some(word) => BEFORE_TABLE.contains(&word),
        None => false,
    }
}

/// Says whether nothing but BY can stand behind a word.
fn expects_by(word: &Token<'_>) -> bool {
    word.kind == TokenKind::Word
        && ["ORDER", "GROUP", "PARTITION"].iter().any(|known| word.text.eq_ignore_ascii_case(known))
}

/// Says whether the next name is a setting's.
fn expects_setting(before: &[Token<'_>]) -> bool {
    let word = before.first().map(|token| token.text.to_ascii_uppercase());
    matches!(word.as_deref(), Some("SET" | "RESET" | "SHOW"))
}

/// Returns the settings, and what else SHOW shows.
fn settings(before: &[Token<'_>], typed: &str, catalog: &Catalog) -> Vec<String> {
    let shows = before.first().is_some_and(|token| token.text.eq_ignore_ascii_case("SHOW"));
    let shown = if shows { SHOWN } else { &[] };
    catalog.settings.iter().cloned().chain(words_like(shown, typed)).collect()
}

/// Returns the columns of the table that `qualifier` stands for, or the tables of that schema.
fn names_within(qualifier: &str, named: &[Named], catalog: &Catalog) -> Vec<String> {
    let table = named.iter().find(|named| named.alias == qualifier).map_or(qualifier, |named| &named.table);
    let columns = catalog.tables.iter().filter(|known| known.name == table).flat_map(|known| &known.columns);
    let tables = catalog.tables.iter().filter(|known| known.schema == qualifier).map(|known| &known.name);
    columns.chain(tables).map(|name| quote_name(name)).collect()
}

/// Returns the columns of the named tables, or of all tables if none is named.
fn columns_of(named: &[Named], catalog: &Catalog) -> Vec<String> {
    let wanted = |table: &&Table| named.is_empty() || named.iter().any(|named| named.table == table.name);
    catalog
        .tables
        .iter()
        .filter(wanted)
        .flat_map(|table| &table.columns)
        .map(|name| quote_name(name))
        .collect()
}

fn table_names(catalog: &Catalog) -> Vec<String> {
    let name = |table: &Table| match table.schema.as_str() {
        "main" | "public" | "" => quote_name(&table.name),
        schema => format!("{}.{}", quote_name(schema), quote_name(&table.name)),
    };
    catalog.tables.iter().map(name).collect()
}

/// Returns words in the case of the typed text.
fn words_like(words: &[&str], typed: &str) -> impl Iterator<Item = String> {
    let capitals = typed.starts_with(|c: char| c.is_uppercase());
    words.iter().map(move |word| if capitals { (*word).to_string() } else { word.to_ascii_lowercase() })
}

/// Returns the words that begin with the typed text, each once, in the given order.
fn beginning_with(typed: &str, words: Vec<String>) -> Vec<String> {
    let start = typed.trim_start_matches('"').to_lowercase();
    let mut kept: Vec<String> = Vec::new();
    for word in words {
        if word.trim_start_matches('"').to_lowercase().starts_with(&start) && !kept.contains(&word) {
            kept.push(word);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let table = |schema: &str, name: &str, columns: &[&str]| Table {
            schema: schema.into(),
            name: name.into(),
            columns: columns.iter().map(|name| (*name).into()).collect(),
        };
        Catalog {
            tables: vec![
                table("main", "orders", &["o_key", "o_date", "Total"]),
                table("main", "lineitem", &["l_key", "l_tax"]),
                table("raw", "events", &["at"]),
            ],
            functions: vec!["lower".into(), "ltrim".into()],
            settings: vec!["memory_limit".into(), "timezone".into()],
        }
    }

    /// Returns the offers at `|`.
    fn words(line: &str) -> Vec<String> {
        let position = line.find('|').unwrap();
        match offer(&line.replace('|', ""), position, &catalog()) {
            Offer::Words { words, .. } => words,
            Offer::FileName => vec!["<file>".into()],
        }
    }

    #[test]
    fn tables_come_where_tables_stand() {
        assert_eq!(words("SELECT * FROM |"), ["orders", "lineitem", "raw.events"]);
        assert_eq!(words("SELECT * FROM orders o JOIN li|"), ["lineitem"]);
        assert_eq!(words("SELECT * FROM orders, l|"), ["lineitem"]);
        assert_eq!(words("INSERT INTO o|"), ["orders"]);
        assert_eq!(words("SELECT * FROM raw.|"), ["events"]);
    }

    #[test]
    fn columns_come_of_the_tables_named_before_or_after() {
        assert_eq!(words("SELECT l_| FROM lineitem"), ["l_key", "l_tax"]);
        assert_eq!(words("SELECT o_|"), ["o_key", "o_date"]);
        assert_eq!(words("SELECT * FROM orders, lineitem WHERE l_t|"), ["l_tax"]);
        assert_eq!(words("SELECT * FROM orders WHERE l_|"), Vec::<String>::new());
        assert_eq!(words("FROM lineitem; SELECT l_| FROM orders"), Vec::<String>::new());
        assert_eq!(words("SELECT coalesce(o_key, o_d| FROM orders"), ["o_date"]);
    }

    #[test]
    fn a_dot_gives_the_columns_of_its_table_or_alias() {
        assert_eq!(words("SELECT x.| FROM lineitem AS x"), ["l_key", "l_tax"]);
        assert_eq!(words("SELECT o.o_d| FROM orders o"), ["o_date"]);
        assert_eq!(words("SELECT orders.|"), ["o_key", "o_date", "\"Total\""]);
        assert_eq!(words("SELECT e.| FROM raw.events e"), ["at"]);
    }

    #[test]
    fn names_that_need_quotes_get_them() {
        assert_eq!(words("SELECT tot| FROM orders"), ["\"Total\""]);
        assert_eq!(words("SELECT \"tot|"), ["\"Total\""], "a quote that is still open");
    }

    #[test]
    fn keywords_follow_the_case_typed() {
        assert_eq!(words("SEL|"), ["SELECT"]);
        assert_eq!(words("sel|"), ["select"]);
        assert_eq!(words("SELECT * FROM orders ORDER |"), ["BY"]);
        assert_eq!(words("select * from orders group b|"), ["by"]);
        assert_eq!(words("SELECT rank() OVER (PARTITION |"), ["BY"]);
        assert_eq!(words("|"), ["o_key", "o_date", "\"Total\"", "l_key", "l_tax", "at"]);
    }

    #[test]
    fn functions_and_settings_are_names_too() {
        assert_eq!(words("SELECT lo|"), ["lower"]);
        assert_eq!(words("SET |"), ["memory_limit", "timezone"]);
        assert_eq!(words("show time|"), ["timezone"]);
        assert_eq!(words("show t|"), ["timezone", "tables"]);
        assert_eq!(words("SHOW FR|"), ["FRAGMENTS"]);
        assert_eq!(words("SET T|"), ["timezone"]);
    }

    #[test]
    fn text_is_a_file_and_comments_are_nothing() {
        assert_eq!(words("COPY orders FROM 'da|'"), ["<file>"]);
        assert_eq!(words("-- SEL|"), Vec::<String>::new());
    }
}
