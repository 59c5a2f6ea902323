//! Maintenance statements of PostgreSQL's programs: VACUUM and ANALYZE in all their forms, CREATE
//! EXTENSION, and views that are renamed as if they were tables.

use crate::session::outcome::DONE;
use crate::session::{Outcome, Session};
use crate::statement::dialect::parse;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{ObjectName, Statement};
use datafusion::sql::sqlparser::tokenizer::Token;
use hypostyle_catalog::scope::Name;
use hypostyle_sql::parse::tokens_of;
use hypostyle_types::{Error, ErrorKind, Result, did_you_mean};

/// Extensions that programs install before they look for what is in them.
const EXTENSIONS: [&str; 15] = [
    "btree_gin",
    "btree_gist",
    "citext",
    "cube",
    "earthdistance",
    "fuzzystrmatch",
    "hstore",
    "intarray",
    "pg_stat_statements",
    "pg_trgm",
    "pgcrypto",
    "plpgsql",
    "tablefunc",
    "unaccent",
    "uuid-ossp",
];

/// Options of VACUUM and ANALYZE that are words.
const OPTIONS: [&str; 5] = ["FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"];

/// The operands of VACUUM or ANALYZE.
struct Maintenance {
    full: bool,
    tables: Vec<String>,
}

impl Maintenance {
    fn of(sql: &str) -> Result<Self> {
        let wrong = |found: String| {
            Error::new(ErrorKind::Syntax, format!("names of tables were expected, not {found}"))
        };
        let tokens = tokens_of(sql);
        let mut tokens = tokens
            .iter()
            .filter(|token| !matches!(token, Token::Whitespace(_) | Token::SemiColon))
            .skip(1)
            .peekable();
        let (mut full, mut tables) = (false, Vec::new());
        if tokens.next_if_eq(&&Token::LParen).is_some() {
            let options: Vec<_> = tokens.by_ref().take_while(|token| **token != Token::RParen).collect();
            full = options.iter().any(|token| is_word(token, &["FULL"]));
        }
        while let Some(option) = tokens.next_if(|token| is_word(token, &OPTIONS)) {
            full |= is_word(option, &["FULL"]);
        }
        while let Some(token) = tokens.next() {
            let Token::Word(_) = token else { return Err(wrong(token.to_string())) };
            let mut name = token.to_string();
            while tokens.next_if_eq(&&Token::Period).is_some() {
                let part = tokens.next().map(ToString::to_string).unwrap_or_default();
                name = format!("{name}.{part}");
            }
            tables.push(name);
            // These are its columns.
            if tokens.next_if_eq(&&Token::LParen).is_some() {
                tokens.by_ref().take_while(|token| **token != Token::RParen).for_each(drop);
            }
            match tokens.next() {
                None | Some(Token::Comma) => {}
                Some(other) => return Err(wrong(other.to_string())),
            }
        }
        Ok(Self { full, tables })
    }
}

fn is_word(token: &Token, words: &[&str]) -> bool {
    matches!(token, Token::Word(word) if words.iter().any(|known| word.value.eq_ignore_ascii_case(known)))
}

impl Session {
    pub(super) fn vacuum_tables(&self, sql: &str) -> Result<Outcome> {
        let Maintenance { full, tables } = Maintenance::of(sql)?;
        let full = if full { " FULL" } else { "" };
        let statements = match tables.is_empty() {
            true => vec![format!("VACUUM{full}")],
            false => tables.iter().map(|table| format!("VACUUM{full} {table}")).collect(),
        };
        let mut outcome = DONE;
        for statement in &statements {
            outcome = match parse(statement)? {
                DfStatement::Statement(statement) => match statement.as_ref() {
                    Statement::Vacuum(vacuum) => self.vacuum(vacuum)?,
                    _ => return Err(Error::internal("not a VACUUM")),
                },
                _ => return Err(Error::internal("not a VACUUM")),
            };
        }
        Ok(outcome)
    }

    /// Runs ANALYZE, which has nothing to do: statistics are part of the columns' files, and are
    /// never out of date.
    pub(super) fn analyze_tables(&self, sql: &str) -> Result<Outcome> {
        for table in Maintenance::of(sql)?.tables {
            let found = self.scope.resolve(&hypostyle_sql::identifier::split_name(&table), None)?;
            let snapshot = self.scope.database(&found.database)?.snapshot;
            let catalog = snapshot.catalog();
            if catalog.table(&found.schema, &found.name).is_none()
                && catalog.view(&found.schema, &found.name).is_none()
            {
                return Err(hypostyle_storage::unknown_table(catalog, &table));
            }
        }
        Ok(DONE)
    }

    /// Runs CREATE EXTENSION and DROP EXTENSION for built-in extensions.
    pub(super) fn extension(&self, sql: &str) -> Result<Outcome> {
        let tokens = tokens_of(sql);
        let words: Vec<&str> = tokens
            .iter()
            .filter_map(|token| match token {
                Token::Word(word) => Some(word.value.as_str()),
                _ => None,
            })
            .skip(2)
            .collect();
        let is = |word: &str, known: &str| word.eq_ignore_ascii_case(known);
        let name = match words.as_slice() {
            [one, not, exists, name, ..] if is(one, "IF") && is(not, "NOT") && is(exists, "EXISTS") => name,
            [one, exists, name, ..] if is(one, "IF") && is(exists, "EXISTS") => name,
            [name, ..] => name,
            [] => return Err(Error::new(ErrorKind::Syntax, "the name of an extension was expected")),
        };
        if EXTENSIONS.iter().any(|known| is(name, known)) {
            return Ok(DONE);
        }
        let suggestion = did_you_mean(name, EXTENSIONS);
        let message = format!("extension \"{name}\" is not available{suggestion}");
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// Renames a view; false when the name is not a view's.
    pub(super) fn rename_view(&self, view: &ObjectName, name: &ObjectName) -> Result<bool> {
        let Name { database, schema, name: old } = self.resolve(view)?;
        let Some(mut entry) = self.snapshot_of(&database)?.catalog().view(&schema, &old).cloned() else {
            return Ok(false);
        };
        let Name { database: to, schema: to_schema, name: new } =
            self.scope.resolve(&hypostyle_sql::identifier::parts_of(name)?, Some(&database))?;
        if name.0.len() > 1 && (&to, &to_schema) != (&database, &schema) {
            return Err(Error::new(ErrorKind::Syntax, "RENAME keeps a view in its schema"));
        }
        self.write(&database, |writer| {
            entry.name = new;
            writer.drop_view(&schema, &old)?;
            writer.create_view(entry)
        })?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::Maintenance;

    #[test]
    fn tables_are_found_behind_options() {
        let of = |sql: &str| Maintenance::of(sql).map(|found| (found.full, found.tables));
        assert_eq!(of("VACUUM").unwrap(), (false, vec![]));
        assert_eq!(of("vacuum full analyze t").unwrap(), (true, vec!["t".to_string()]));
        let both = vec!["main.\"T\"".to_string(), "u".into()];
        assert_eq!(of("ANALYZE (VERBOSE, SKIP_LOCKED) main.\"T\" (a, b), u;").unwrap(), (false, both));
        assert!(of("ANALYZE 1").is_err() && of("VACUUM t u").is_err());
    }
}
