//! The shell reads lines and prints results, until Ctrl-D.
//!
//! An entry ends with `;` or is a dot command. Until then Enter starts another line of it. Entries
//! are kept in `$XDG_STATE_HOME/hypostyle/history` (by default under `~/.local/state`).

use crate::complete::{Catalog, Offer, offer};
use crate::failure::{Failure, Outcome};
use crate::highlight::{colour, faint};
use crate::session::Session;
use crate::{command, script};
use hypostyle::{Connection, Error, ErrorKind, statement_is_complete};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::config::{ColorMode, CompletionType, Config};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hinter, HistoryHinter};
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Editor, Helper};
use std::borrow::Cow;
use std::cell::RefCell;
use std::io::ErrorKind as IoErrorKind;
use std::path::PathBuf;

const HISTORY_ENTRIES_MAX: usize = 10_000;

pub fn run(session: &mut Session) -> Outcome {
    let mut editor = editor(&session.connection).map_err(terminal_error)?;
    let history = history_path();
    if let Some(path) = &history {
        // The shell works without a history, too.
        let _ = editor.load_history(path);
    }
    if !session.quiet {
        println!(
            "Hypostyle {}: SQL ends with a semicolon, .help lists commands, Ctrl-D leaves.",
            env!("CARGO_PKG_VERSION")
        );
    }
    loop {
        let entry = match editor.readline(&session.prompt()) {
            Ok(entry) => entry,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            // The next line may be, and what is open in the session would be lost.
            Err(ReadlineError::Io(error)) if error.kind() == IoErrorKind::InvalidData => {
                Failure::from(Error::invalid_input("what was typed is not UTF-8 text")).report();
                continue;
            }
            Err(error) => return Err(terminal_error(error).into()),
        };
        if entry.trim().is_empty() {
            continue;
        }
        if editor.add_history_entry(entry.trim_end()).unwrap_or(false)
            && let Some(path) = &history
        {
            // It is saved at once, so that a crash or a second shell loses nothing.
            let _ = editor.append_history(path);
        }
        session.screen_height = editor.dimensions().map(|(_, height)| usize::from(height));
        match run_entry(session, entry.trim()) {
            Err(failure) if failure.ends_session() => return Err(failure),
            Err(failure) => failure.report(),
            Ok(()) => {}
        }
        if let Some(assistant) = editor.helper_mut() {
            assistant.refresh(&session.connection);
        }
    }
}

fn run_entry(session: &mut Session, entry: &str) -> Outcome {
    match bare_command(entry) {
        Some(command) => command::run(session, &command),
        None => script::run_sql(session, entry),
    }
}

/// Returns the dot command that an entry is; people also type `quit` without the dot, and psql's commands.
fn bare_command(entry: &str) -> Option<String> {
    match entry.trim().trim_end_matches(';').trim_end() {
        dot if dot.starts_with('.') => Some(dot.to_string()),
        psql if psql.starts_with('\\') => Some(command::of_psql(psql)),
        word @ ("help" | "quit" | "exit") => Some(format!(".{word}")),
        "?" => Some(".help".into()),
        _ => None,
    }
}

fn editor(connection: &Connection) -> rustyline::Result<Editor<Assistant, FileHistory>> {
    let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .max_history_size(HISTORY_ENTRIES_MAX)?
        .color_mode(if colours { ColorMode::Enabled } else { ColorMode::Disabled })
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Assistant::new(connection, colours)));
    Ok(editor)
}

fn terminal_error(error: ReadlineError) -> Error {
    Error::new(ErrorKind::Io, format!("cannot read from the terminal: {error}"))
}

/// Returns the path in an environment variable.
fn path_in(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Returns the start script of a shell: `~/.hypostylerc`, or `hypostyle/rc` among the configuration
/// files.
pub fn start_script() -> Option<PathBuf> {
    let home = path_in("HOME");
    let configuration = path_in("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let places =
        [home.map(|home| home.join(".hypostylerc")), configuration.map(|place| place.join("hypostyle/rc"))];
    places.into_iter().flatten().find(|path| path.is_file())
}

/// Returns the history file, in an existing directory. Returns None without a home directory.
fn history_path() -> Option<PathBuf> {
    let state =
        path_in("XDG_STATE_HOME").or_else(|| path_in("HOME").map(|home| home.join(".local/state")))?;
    let directory = state.join("hypostyle");
    std::fs::create_dir_all(&directory).ok()?;
    Some(directory.join("history"))
}

/// Helps the editor while a line is typed.
struct Assistant {
    connection: Connection,
    /// The names, read when Tab first needs them after a statement.
    catalog: RefCell<Option<Catalog>>,
    commands: Vec<String>,
    files: FilenameCompleter,
    history: HistoryHinter,
    colours: bool,
}

impl Assistant {
    fn new(connection: &Connection, colours: bool) -> Self {
        Self {
            connection: connection.clone(),
            catalog: RefCell::new(None),
            commands: command::names(),
            files: FilenameCompleter::new(),
            history: HistoryHinter::new(),
            colours,
        }
    }

    /// Drops the names after a statement: they may have changed, and so may the database.
    fn refresh(&mut self, connection: &Connection) {
        self.connection = connection.clone();
        self.catalog.replace(None);
    }
}

impl Helper for Assistant {}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let pair = |word: String| Pair { display: word.clone(), replacement: word };
        let mut catalog = self.catalog.borrow_mut();
        let catalog = catalog.get_or_insert_with(|| Catalog::of(&self.connection));
        if line.starts_with('.') {
            let typed = &line[..position];
            return match typed.split_once(' ') {
                Some((command, word)) if command::choices(command).is_some() => {
                    let choices = command::choices(command).into_iter().flatten();
                    Ok((
                        position - word.len(),
                        choices.filter(|choice| choice.starts_with(word)).map(pair).collect(),
                    ))
                }
                None => {
                    let names = self.commands.iter().filter(|name| name.starts_with(typed));
                    Ok((0, names.cloned().map(pair).collect()))
                }
                Some((".schema" | ".tables", name)) => {
                    let names = catalog.tables.iter().map(|table| table.name.clone());
                    Ok((
                        position - name.len(),
                        names.filter(|known| known.starts_with(name)).map(pair).collect(),
                    ))
                }
                Some(_) => self.files.complete_path(line, position),
            };
        }
        match offer(line, position, catalog) {
            Offer::FileName => self.files.complete_path(line, position),
            Offer::Words { start, words } => Ok((start, words.into_iter().map(pair).collect())),
        }
    }
}

impl Hinter for Assistant {
    type Hint = String;

    fn hint(&self, line: &str, position: usize, context: &Context<'_>) -> Option<String> {
        // The rest of an entry of many lines would push the prompt away.
        self.history.hint(line, position, context).filter(|hint| !hint.contains('\n'))
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _position: usize) -> Cow<'l, str> {
        match self.colours && !line.starts_with('.') {
            true => Cow::Owned(colour(line)),
            false => Cow::Borrowed(line),
        }
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        if self.colours { Cow::Owned(faint(hint)) } else { Cow::Borrowed(hint) }
    }

    fn highlight_char(&self, _line: &str, _position: usize, kind: CmdKind) -> bool {
        self.colours && kind != CmdKind::MoveCursor
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        let entry = context.input();
        match bare_command(entry).is_some() || statement_is_complete(entry) {
            true => Ok(ValidationResult::Valid(None)),
            false => Ok(ValidationResult::Incomplete),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_need_no_dot_where_no_sql_could_stand() {
        assert_eq!(bare_command(" .tables x ; ").as_deref(), Some(".tables x"));
        assert_eq!(bare_command("quit;").as_deref(), Some(".quit"));
        assert_eq!(bare_command("SELECT 1"), None);
        assert_eq!(bare_command("\\d t;").as_deref(), Some(".schema t"));
        assert_eq!(bare_command("?").as_deref(), Some(".help"));
    }
}
