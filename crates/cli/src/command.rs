//! Dot commands: the commands of the shell itself, which are not SQL.
//!
//! They form a command line of their own. So the parser of the program's arguments reads them too,
//! writes their help, and finds the nearest name to an unknown one.

use crate::failure::{Failure, Outcome};
use crate::output::{Format, columns_writer};
use crate::session::Session;
use crate::sink::Sink;
use crate::{schema, script};
use clap::error::{ContextKind, ContextValue, ErrorKind as UsageKind};
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use hypostyle::arrow::array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use hypostyle::{ColumnDescription, Error, ErrorKind, LogicalType, TableKind};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true, disable_help_subcommand = true)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, PartialEq, Subcommand)]
#[command(disable_help_flag = true)]
enum Command {
    /// Show all commands, or how to use one
    #[command(name = ".help")]
    Help { command: Option<String> },
    /// List tables and views; PATTERN is a part of the name, or as in LIKE
    #[command(name = ".tables")]
    Tables { pattern: Option<String> },
    /// Show the CREATE statements of all tables and views, or of one
    #[command(name = ".schema")]
    Schema { table: Option<String> },
    /// Load a CSV, Parquet or JSON file of this machine into a table, made if missing
    #[command(name = ".import")]
    Import { file: String, table: String },
    /// Choose how results are printed; TABLE is what INSERT statements name
    #[command(name = ".mode")]
    Mode { format: Format, table: Option<String> },
    /// Show column names or leave them out
    #[command(name = ".headers")]
    Headers { switch: Switch },
    /// Choose the text for NULL
    #[command(name = ".nullvalue")]
    NullValue {
        #[arg(allow_hyphen_values = true)]
        text: String,
    },
    /// Print the time of each statement
    #[command(name = ".timer")]
    Timer { switch: Switch },
    /// Run a script
    #[command(name = ".read")]
    Read { file: PathBuf },
    /// Leave this database and open another; without PATH an empty one in memory
    #[command(name = ".open")]
    Open { path: Option<PathBuf> },
    /// Write results to a file; without FILE to the terminal again
    #[command(name = ".output")]
    Output { file: Option<String> },
    /// Write the next result to a file
    #[command(name = ".once")]
    Once { file: String },
    /// Show at most N rows in a box, half of them from the end; 0 shows all
    #[command(name = ".maxrows")]
    MaxRows { rows: usize },
    /// Make boxes at most N characters wide; 0 takes the width of the terminal
    #[command(name = ".maxwidth")]
    MaxWidth { width: usize },
    /// Give the columns of boxes these widths, from the left; 0 is as wide as it has to be
    #[command(name = ".width")]
    Width { widths: Vec<u16> },
    /// Choose what stands between the columns of a list
    #[command(name = ".separator")]
    Separator {
        #[arg(allow_hyphen_values = true)]
        text: String,
    },
    /// Show what is longer than the screen with a program: on ($PAGER, or less), off, or the
    /// program
    #[command(name = ".pager")]
    Pager { program: String },
    /// Choose the prompt: %d is the database, %t the transaction (* open, ! failed); without TEXT
    /// the usual one
    #[command(name = ".prompt")]
    Prompt { text: Option<String> },
    /// End a script at its first failure, or go on
    #[command(name = ".bail")]
    Bail { switch: Switch },
    /// Print statements before they run
    #[command(name = ".echo")]
    Echo { switch: Switch },
    /// Print words
    #[command(name = ".print")]
    Print {
        #[arg(allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Run a command of the system's shell
    #[command(name = ".shell", alias = ".system")]
    Shell {
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Change the directory that file names are relative to
    #[command(name = ".cd")]
    Cd { directory: PathBuf },
    /// Show the settings of the shell
    #[command(name = ".show")]
    Show,
    /// Show which database is open
    #[command(name = ".databases")]
    Databases,
    /// Leave
    #[command(name = ".quit", alias = ".exit")]
    Quit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// Returns the dot command that does what a command of psql does, or its name as it is.
pub fn of_psql(entry: &str) -> String {
    let entry = entry.trim().trim_end_matches(';');
    let (name, rest) = entry.split_once(char::is_whitespace).unwrap_or((entry, ""));
    let rest = rest.trim();
    let own = match name {
        "\\d" | "\\d+" if !rest.is_empty() => ".schema",
        "\\d" | "\\d+" | "\\dt" | "\\dv" => ".tables",
        "\\?" => ".help",
        "\\l" => ".databases",
        "\\i" => ".read",
        "\\o" => ".output",
        "\\cd" => ".cd",
        "\\echo" => ".print",
        "\\!" => ".shell",
        "\\timing" if rest.is_empty() => ".timer on",
        "\\timing" => ".timer",
        "\\q" => ".quit",
        _ => return entry.to_string(),
    };
    format!("{own} {rest}").trim_end().to_string()
}

/// Runs the dot command on one line.
pub fn run(session: &mut Session, line: &str) -> Outcome {
    match parse(line)? {
        Command::Help { command } => help(session, command.as_deref())?,
        Command::Tables { pattern } => tables(session, pattern.as_deref())?,
        Command::Schema { table } => {
            let text = schema::create_statements(&session.connection, table.as_deref())?;
            session.output.write_all(text.as_bytes())?;
        }
        Command::Import { file, table } => session.import(&file, &table)?,
        Command::Mode { format, table } => {
            session.settings.format = format;
            if let Some(table) = table {
                session.settings.insert_table = table;
            }
        }
        Command::Headers { switch } => session.settings.headers = switch == Switch::On,
        Command::NullValue { text } => session.settings.null = Some(text),
        Command::Timer { switch } => session.timer = switch == Switch::On,
        Command::Read { file } => script::run_file(session, &file)?,
        Command::Open { path } => session.reopen(path.as_deref())?,
        Command::Output { file } => {
            session.output.flush()?;
            session.output_after = None;
            session.output = file.map_or_else(|| Ok(Sink::standard()), |file| Sink::file(&file))?;
        }
        Command::Once { file } => {
            session.output.flush()?;
            let before = std::mem::replace(&mut session.output, Sink::file(&file)?);
            session.output_after.get_or_insert(before);
        }
        Command::MaxRows { rows } => session.settings.rows_max = rows,
        Command::MaxWidth { width } => session.settings.width_max = width,
        Command::Width { widths } => session.settings.column_widths = widths,
        Command::Separator { text } => session.settings.separator = unescaped(&text),
        Command::Pager { program } => {
            session.pager = match program.as_str() {
                "off" => None,
                "on" => Some(std::env::var("PAGER").unwrap_or_else(|_| "less".into())),
                _ => Some(program),
            }
        }
        Command::Prompt { text } => session.prompt = text.unwrap_or_default(),
        Command::Bail { switch } => session.bail = switch == Switch::On,
        Command::Echo { switch } => session.echo = switch == Switch::On,
        Command::Print { words } => writeln!(session.output, "{}", words.join(" "))?,
        Command::Shell { .. } => shell(line)?,
        Command::Cd { directory } => std::env::set_current_dir(&directory)
            .map_err(|error| Error::from_io(&error, format!("cannot go to \"{}\"", directory.display())))?,
        Command::Show => show(session)?,
        Command::Databases => {
            let path = session.connection.path().map(|path| path.display().to_string());
            let name = path.or_else(|| session.connection.address());
            writeln!(session.output, "{}", name.as_deref().unwrap_or("in memory"))?;
        }
        Command::Quit => return Err(Failure::Leave),
    }
    session.output.flush()?;
    Ok(())
}

/// Runs the text after the command's name with the system shell, which reads its quotes.
fn shell(line: &str) -> hypostyle::Result<()> {
    let text = line.trim().split_once(char::is_whitespace).map_or("", |(_, text)| text);
    let status = std::process::Command::new("sh").args(["-c", text]).status();
    let status = status.map_err(|error| Error::from_io(&error, "cannot run the system's shell"))?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::invalid_input(format!("the command has failed: {status}"))),
    }
}

/// Replaces `\t` and `\n` by a tab and a line end.
fn unescaped(text: &str) -> String {
    text.replace("\\t", "\t").replace("\\n", "\n")
}

fn show(session: &mut Session) -> Outcome {
    let switch = |on: bool| if on { "on" } else { "off" }.to_string();
    let settings = &session.settings;
    let widths: Vec<String> = settings.column_widths.iter().map(u16::to_string).collect();
    let format = settings.format.to_possible_value();
    let lines = [
        ("bail", switch(session.bail)),
        ("echo", switch(session.echo)),
        ("headers", switch(settings.headers)),
        ("maxrows", settings.rows_max.to_string()),
        ("maxwidth", settings.width_max.to_string()),
        ("mode", format.map(|format| format.get_name().to_string()).unwrap_or_default()),
        ("nullvalue", settings.null.clone().unwrap_or_else(|| "as the mode has it".into())),
        ("pager", session.pager.clone().unwrap_or_else(|| "off".into())),
        ("separator", format!("{:?}", settings.separator)),
        ("timer", switch(session.timer)),
        ("width", if widths.is_empty() { "as wide as it has to be".into() } else { widths.join(" ") }),
    ];
    for (name, value) in lines {
        writeln!(session.output, "{name:>10}: {value}")?;
    }
    Ok(())
}

/// Returns the words that can follow a command's name, if there are only a few.
pub fn choices(name: &str) -> Option<Vec<String>> {
    let commands = Line::command();
    let command = commands.find_subcommand(name)?;
    if command.get_name() == ".help" {
        return Some(names());
    }
    let values = command.get_positionals().next()?.get_possible_values();
    let names: Vec<String> = values.iter().map(|value| value.get_name().to_string()).collect();
    (!names.is_empty()).then_some(names)
}

/// Returns the names of all commands, for completion.
pub fn names() -> Vec<String> {
    Line::command().get_subcommands().map(|command| command.get_name().to_string()).collect()
}

fn parse(line: &str) -> hypostyle::Result<Command> {
    // A semicolon at the end is a habit from SQL and means nothing here.
    let words = split_words(line.trim().trim_end_matches(';'))?;
    let name = words.first().cloned().unwrap_or_default();
    Line::try_parse_from(&words).map(|line| line.command).map_err(|error| explain(&name, &error))
}

/// Turns the parser's error into one of ours.
fn explain(name: &str, error: &clap::Error) -> Error {
    if error.kind() == UsageKind::InvalidSubcommand {
        let hint = match error.get(ContextKind::SuggestedSubcommand) {
            Some(ContextValue::Strings(names)) => names.last().cloned(),
            Some(ContextValue::String(name)) => Some(name.clone()),
            _ => None,
        };
        let hint = hint.map_or_else(|| "see .help".into(), |hint| format!("did you mean \"{hint}\"?"));
        return Error::new(ErrorKind::UnknownName, format!("no command \"{name}\"; {hint}"));
    }
    let text = error.to_string();
    let reason = text.lines().next().unwrap_or_default().trim_start_matches("error: ").trim_end_matches(':');
    let usage = Line::command()
        .find_subcommand_mut(name)
        .map(|command| format!("; usage: {}", usage(command)))
        .unwrap_or_default();
    let options = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) if !values.is_empty() => format!(" ({})", values.join(", ")),
        _ => String::new(),
    };
    Error::invalid_input(format!("{name}: {reason}{options}{usage}"))
}

fn usage(command: &mut clap::Command) -> String {
    let text = command.render_usage().to_string();
    text.trim_start_matches("Usage: ").trim().to_string()
}

/// Splits a line at spaces; quotes, single or double, keep spaces.
fn split_words(line: &str) -> hypostyle::Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match c {
            '\'' | '"' => {
                let inside = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        Some(end) if end == c => break,
                        Some(other) => inside.push(other),
                        None => {
                            return Err(Error::new(
                                ErrorKind::Syntax,
                                format!("the quote {c} in {line} is not closed"),
                            ));
                        }
                    }
                }
            }
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn help(session: &mut Session, name: Option<&str>) -> Outcome {
    let mut commands = Line::command();
    let Some(name) = name else {
        for command in commands.get_subcommands_mut() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            writeln!(session.output, "{:24} {about}", usage(command))?;
        }
        writeln!(
            session.output,
            "\n\\d, \\dt, \\l, \\i, \\o, \\timing and \\q mean what they mean in psql. All else is SQL and ends with a \
             semicolon. Tab completes, Ctrl-C stops, Ctrl-D leaves."
        )?;
        return Ok(());
    };
    let name = if name.starts_with('.') { name.to_string() } else { format!(".{name}") };
    let Some(command) = commands.find_subcommand(&name) else {
        // The parser reports it, with its suggestion.
        return parse(&name).map(drop).map_err(Into::into);
    };
    writeln!(session.output, "{}", command.clone().disable_help_flag(true).render_help())?;
    Ok(())
}

fn tables(session: &mut Session, pattern: Option<&str>) -> Outcome {
    let started = Instant::now();
    let mut tables = session.connection.tables()?;
    tables.retain(|table| pattern.is_none_or(|pattern| matches_pattern(&table.name, pattern)));
    let kinds = tables.iter().map(|table| match table.kind {
        TableKind::Table => "table",
        TableKind::View => "view",
    });
    let columns: Vec<(&str, LogicalType, ArrayRef)> = vec![
        (
            "schema",
            LogicalType::Varchar,
            Arc::new(StringArray::from_iter_values(tables.iter().map(|t| &t.schema))),
        ),
        (
            "name",
            LogicalType::Varchar,
            Arc::new(StringArray::from_iter_values(tables.iter().map(|t| &t.name))),
        ),
        ("kind", LogicalType::Varchar, Arc::new(StringArray::from_iter_values(kinds))),
        ("rows", LogicalType::UBigInt, Arc::new(UInt64Array::from_iter(tables.iter().map(|t| t.row_count)))),
        (
            "columns",
            LogicalType::UInteger,
            Arc::new(UInt32Array::from_iter_values(tables.iter().map(|t| t.columns.len() as u32))),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns.iter().map(|(name, _, array)| (*name, Arc::clone(array))))
        .map_err(|error| Error::internal(format!("cannot list the tables: {error}")))?;
    let columns: Vec<ColumnDescription> = columns
        .into_iter()
        .map(|(name, logical_type, _)| ColumnDescription { name: name.into(), logical_type, nullable: true })
        .collect();
    let mut writer = columns_writer(&session.settings, &session.output, &columns);
    writer.batch(&mut session.output, &batch)?;
    writer.end(&mut session.output, started.elapsed())
}

/// Matches a name with `%` and `_` as in LIKE, or with a part of it if there is neither. Upper and
/// lower case do not matter.
fn matches_pattern(name: &str, pattern: &str) -> bool {
    let (name, pattern) = (name.to_lowercase(), pattern.to_lowercase());
    if !pattern.contains(['%', '_']) {
        return name.contains(&pattern);
    }
    fn like(name: &[char], pattern: &[char]) -> bool {
        match pattern {
            [] => name.is_empty(),
            ['%', rest @ ..] => (0..=name.len()).any(|skip| like(&name[skip..], rest)),
            [c, rest @ ..] => !name.is_empty() && (*c == '_' || *c == name[0]) && like(&name[1..], rest),
        }
    }
    like(&name.chars().collect::<Vec<_>>(), &pattern.chars().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_sound() {
        Line::command().debug_assert();
        assert!(names().contains(&".tables".to_string()));
    }

    #[test]
    fn commands_of_psql_are_known() {
        for (entry, own) in [
            ("\\d", ".tables"),
            ("\\d  t", ".schema t"),
            ("\\dt a%", ".tables a%"),
            ("\\timing", ".timer on"),
            ("\\timing off", ".timer off"),
            ("\\q", ".quit"),
            ("\\foo x", "\\foo x"),
        ] {
            assert_eq!(of_psql(entry), own);
        }
        assert!(parse("\\foo x").unwrap_err().message().starts_with("no command \"\\foo\""));
    }

    #[test]
    fn commands_are_read_with_their_words() {
        assert_eq!(parse(".tables").unwrap(), Command::Tables { pattern: None });
        assert_eq!(
            parse(".import 'my file.csv' \"T t\";").unwrap(),
            Command::Import { file: "my file.csv".into(), table: "T t".into() }
        );
        assert_eq!(parse(".mode jsonl").unwrap(), Command::Mode { format: Format::Jsonl, table: None });
        assert_eq!(
            parse(".mode insert t").unwrap(),
            Command::Mode { format: Format::Insert, table: Some("t".into()) }
        );
        assert_eq!(parse(".width 3 0 10").unwrap(), Command::Width { widths: vec![3, 0, 10] });
        assert_eq!(parse(".separator -").unwrap(), Command::Separator { text: "-".into() });
        assert_eq!(parse(".nullvalue -").unwrap(), Command::NullValue { text: "-".into() });
        assert_eq!(parse(".nullvalue ''").unwrap(), Command::NullValue { text: String::new() });
        assert_eq!(parse(".exit").unwrap(), Command::Quit);
    }

    #[test]
    fn a_wrong_command_says_what_is_right() {
        let message = |line: &str| parse(line).unwrap_err().message().to_string();
        assert_eq!(message(".tabels"), "no command \".tabels\"; did you mean \".tables\"?");
        assert_eq!(message(".xyzzy"), "no command \".xyzzy\"; see .help");
        assert_eq!(parse(".tabels").unwrap_err().kind(), ErrorKind::UnknownName);
        let mode = message(".mode boxes");
        assert!(
            mode.contains("boxes") && mode.contains("markdown") && mode.contains("usage: .mode <FORMAT>"),
            "{mode}"
        );
        assert!(
            message(".import a.csv").contains("usage: .import <FILE> <TABLE>"),
            "{}",
            message(".import a.csv")
        );
        assert!(message(".read 'open").contains("not closed"));
    }

    #[test]
    fn choices_are_offered_where_there_are_few() {
        assert_eq!(choices(".echo"), Some(vec!["on".into(), "off".into()]));
        assert!(choices(".mode").unwrap().contains(&"insert".to_string()));
        assert!(choices(".help").unwrap().contains(&".mode".to_string()));
        assert_eq!(choices(".read"), None);
        assert_eq!(choices(".nothing"), None);
    }

    #[test]
    fn patterns_are_parts_or_like() {
        assert!(matches_pattern("Lineitem", "item"));
        assert!(matches_pattern("lineitem", "line%"));
        assert!(matches_pattern("lineitem", "l_neitem"));
        assert!(!matches_pattern("lineitem", "%order%"));
    }
}
