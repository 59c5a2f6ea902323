//! The command line.

use crate::output::Format;
use clap::error::ErrorKind;
use clap::{ArgGroup, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use hypostyle::{OpenOptions, Verify};
use hypostyle_placement::config::Config;
use hypostyle_server::{Role, Tls};
use std::io::{IsTerminal, stdin};
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use tracing_subscriber::filter::LevelFilter;

const EXAMPLES: &str = "\
Examples:
  hypostyle                                      a shell on an in-memory database
  hypostyle shop.hypo                            a shell on the database in the directory shop.hypo
  hypostyle shop.hypo -c 'SELECT count(*) FROM orders'
  hypostyle shop.hypo -f load.sql -f report.sql  scripts, one after the other
  hypostyle --csv -c \"SELECT * FROM 'sales/*.parquet'\" > sales.csv
  hypostyle shop.hypo --parquet top.parquet -c 'SELECT * FROM orders LIMIT 10'
  echo 'SELECT 42' | hypostyle --json
  hypostyle serve shop.hypo --listen 127.0.0.1:4953 --unix /run/shop.sock
  hypostyle cluster up 3                         a cluster of three nodes on this machine
  hypostyle hypostyle://127.0.0.1/               a shell on a server

Exit status: 0 done, 1 a statement failed, 2 wrong usage, 130 interrupted.";

/// Hypostyle: an analytical database in your process.
#[derive(Debug, Parser)]
#[command(name = "hypostyle", version, after_help = EXAMPLES)]
#[command(group = ArgGroup::new("format").multiple(false))]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Options {
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Directory of the database, made if missing, or a server: hypostyle://user@host:port/,
    /// hypostyle+unix:///path; without it, or with :memory:, the database is in memory
    pub database: Option<PathBuf>,

    /// Run SQL (or a dot command) and leave; may be repeated
    #[arg(short = 'c', long = "command", value_name = "SQL", allow_hyphen_values = true)]
    commands: Vec<String>,

    /// Run a script, or with - standard input, and leave; may be repeated, in order with -c
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    pub opening: Opening,

    /// Print results as CSV
    #[arg(long, group = "format")]
    csv: bool,

    /// Print results as a JSON array of objects
    #[arg(long, group = "format")]
    json: bool,

    /// Print results as JSON, one object per line
    #[arg(long, group = "format")]
    jsonl: bool,

    /// Print results as a Markdown table
    #[arg(long, group = "format")]
    markdown: bool,

    /// Write the result of the one query to a Parquet file
    #[arg(long, value_name = "FILE", group = "format")]
    pub parquet: Option<PathBuf>,

    /// Print results as a box, shortened to the terminal (the default)
    #[arg(long = "box", group = "format")]
    boxed: bool,

    /// Leave out the line of column names
    #[arg(long)]
    pub no_header: bool,

    /// Text for NULL [default: nothing in CSV, NULL elsewhere]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub null: Option<String>,

    /// Print the time of each statement to standard error
    #[arg(long)]
    pub timing: bool,

    /// Print results and errors only: no counts, progress or greeting
    #[arg(long, short)]
    pub quiet: bool,

    /// Run this script first, whatever follows; a shell otherwise runs ~/.hypostylerc, or
    /// hypostyle/rc in $XDG_CONFIG_HOME, if there is one
    #[arg(long, value_name = "FILE")]
    pub init: Option<PathBuf>,

    #[arg(skip)]
    ordered: Vec<Source>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a database to other programs and machines
    Serve(Box<ServeOptions>),
    /// Run a cluster of several nodes on this machine, for development
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Print a user's line for the users' file; the password is read from standard input
    User {
        name: String,
        /// read, write, admin, or cluster for other nodes of a cluster
        #[arg(long, default_value = "read", value_parser = str::parse::<Role>)]
        role: Role,
    },
}

/// What to do with the nodes of a cluster on this machine.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Start the nodes that do not run, made if missing, and wait until they answer
    Up {
        /// Number of nodes, from 1 to 64
        #[arg(value_name = "NODES", value_parser = clap::value_parser!(u16).range(1..=64))]
        nodes: u16,

        /// Port of the first node; the others have those that follow [default: 4953]
        #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
        port: Option<u16>,

        #[command(flatten)]
        place: ClusterPlace,
    },
    /// End all nodes
    Down {
        #[command(flatten)]
        place: ClusterPlace,
    },
    /// Show which nodes there are and run
    Status {
        #[command(flatten)]
        place: ClusterPlace,
    },
}

/// The place of a cluster on this machine.
#[derive(Debug, Args)]
pub struct ClusterPlace {
    /// Directory of the cluster
    #[arg(long, value_name = "DIR", default_value = "hypostyle-cluster")]
    pub data: PathBuf,
}

/// How to serve a database.
#[derive(Debug, Args)]
pub struct ServeOptions {
    /// Directory of the database, made if missing, or :memory:
    pub database: PathBuf,

    /// Address and port for clients, such as 127.0.0.1:4953
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address)]
    pub listen: Option<SocketAddr>,

    /// Serve it as a node of a cluster, with the addresses and certificates of this file
    /// (docs/cluster.md)
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    pub cluster: Option<PathBuf>,

    /// Path of a Unix socket for clients on this machine, who get results without copies
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,

    /// Permissions of the Unix socket, such as 660 or 666; without it, those that the umask leaves
    #[arg(long, value_name = "OCTAL", requires = "unix", value_parser = parse_mode)]
    pub unix_mode: Option<u32>,

    /// Address and port for PostgreSQL's programs and drivers (docs/pgwire.md)
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address)]
    pub pgwire: Option<SocketAddr>,

    /// Users, their roles and passwords; `hypostyle user` writes its lines; read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,

    /// The server's certificate chain (PEM); clients from other machines then have to use TLS; read
    /// again on SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Certificates (PEM) of who signs the clients' own; clients from other machines then have to
    /// show one, beside a password
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,

    /// Address and port for /metrics (Prometheus), /health, /ready and /in-sync, which anyone may ask: they
    /// give counts and no data
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address)]
    pub metrics: Option<SocketAddr>,

    /// Clients at a time; other nodes of a cluster have as many places beside them
    #[arg(long, value_name = "N", default_value = "256", value_parser = parse_count)]
    pub clients_max: NonZeroUsize,

    /// Clients at a time from one address, or of one user of this machine [default: as many as
    /// there may be]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub clients_per_peer_max: Option<NonZeroUsize>,

    /// Interrupt statements that run longer
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub statement_timeout: Option<f64>,

    /// End sessions that are idle for longer
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub idle_timeout: Option<f64>,

    /// End sessions that are idle for longer with a transaction open
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub idle_in_transaction_timeout: Option<f64>,

    /// End sessions whose client has begun a message and sends nothing more of it for longer
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_seconds)]
    pub message_timeout: f64,

    /// Keep the sessions of clients whose connection broke for so long; 0 ends them at once
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub resume_timeout: u32,

    /// When told to stop, let statements run for so long before they are interrupted
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub stop_timeout: u32,

    #[command(flatten)]
    pub opening: Opening,

    /// What is logged to standard error: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = parse_level)]
    pub log_level: LevelFilter,

    /// Log in JSON, an object a line
    #[arg(long)]
    pub log_json: bool,
}

impl ServeOptions {
    /// Says whether clients can connect anywhere; a node has the address of its file.
    fn has_address(&self) -> bool {
        self.listen.is_some() || self.unix.is_some() || self.pgwire.is_some() || self.cluster.is_some()
    }

    /// Returns the TLS configuration for clients, read from its files: those that are given, or else
    /// those of the node.
    pub fn tls(&self, node: Option<&Config>) -> Option<hypostyle::Result<Tls>> {
        let given = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        let of_node = node.and_then(|node| node.tls.as_ref());
        let (certificates, key) = given.or(of_node.map(|tls| (&*tls.certificate, &*tls.key)))?;
        let nodes = of_node.filter(|tls| tls.mutual).map(|tls| &*tls.authorities);
        Some(Tls::of_node(certificates, key, self.tls_client_ca.as_deref(), nodes))
    }
}

/// The options of opening a database.
#[derive(Debug, Args)]
pub struct Opening {
    /// Refuse every change to the database
    #[arg(long)]
    read_only: bool,

    /// Threads for queries [default: all processors]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<usize>,

    /// Memory for queries, such as 4GB, 512MiB or 80%
    #[arg(long, value_name = "SIZE", value_parser = hypostyle::parse_bytes)]
    memory_limit: Option<u64>,

    /// Memory for one query of them
    #[arg(long, value_name = "SIZE", value_parser = hypostyle::parse_bytes)]
    query_memory_limit: Option<u64>,

    /// Where queries spill when memory is short
    #[arg(long, value_name = "DIR")]
    temp_directory: Option<PathBuf>,

    /// Open a database on a network file system, whose locks and mappings cannot be relied on
    #[arg(long)]
    allow_network_filesystem: bool,

    /// When columns are verified that are handed out as they lie: auto, always or never
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    verify: Verify,
}

impl Opening {
    pub fn options(&self) -> OpenOptions {
        OpenOptions {
            read_only: self.read_only,
            threads: self.threads,
            memory_limit: self.memory_limit,
            query_memory_limit: self.query_memory_limit,
            temp_directory: self.temp_directory.clone(),
            allow_network_filesystem: self.allow_network_filesystem,
            patience: None,
            verify: self.verify,
        }
    }
}

pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| format!("not HOST:PORT: {error}"))?;
    found.next().ok_or_else(|| "no such host".into())
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds < 1e9 => Ok(seconds),
        _ => Err("give a number of seconds above 0".into()),
    }
}

fn parse_level(text: &str) -> Result<LevelFilter, String> {
    text.parse().map_err(|_| "give off, error, warn, info, debug or trace".into())
}

fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 && !text.starts_with(['+', '-']) => Ok(mode),
        _ => Err("give permissions as octal digits, such as 660".into()),
    }
}

/// Something to run, given by -c or -f.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    Command(String),
    File(PathBuf),
}

fn parse_threads(text: &str) -> Result<usize, String> {
    parse_count(text).map(NonZeroUsize::get)
}

fn parse_count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "give a whole number, 1 or more".into())
}

impl Options {
    /// Reads the program's arguments. Ends the program on wrong usage, `--help` and `--version`.
    pub fn read() -> Self {
        Self::parse_arguments(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    fn parse_arguments<T>(arguments: impl IntoIterator<Item = T>) -> Result<Self, clap::Error>
    where
        T: Into<std::ffi::OsString> + Clone,
    {
        let matches = Self::command().try_get_matches_from(arguments)?;
        let mut options = Self::from_arg_matches(&matches)?;
        if let Some(Command::Serve(options)) = &options.command
            && !options.has_address()
        {
            return Err(Self::command().error(
                ErrorKind::MissingRequiredArgument,
                "nobody could connect: give --listen HOST:PORT, --unix PATH, --pgwire HOST:PORT or --cluster FILE",
            ));
        }
        let places = |name| matches.indices_of(name).into_iter().flatten();
        let commands = options.commands.iter().cloned().map(Source::Command);
        let files = options.files.iter().cloned().map(Source::File);
        let mut sources: Vec<(usize, Source)> =
            places("commands").zip(commands).chain(places("files").zip(files)).collect();
        sources.sort_by_key(|(place, _)| *place);
        options.ordered = sources.into_iter().map(|(_, source)| source).collect();
        Ok(options)
    }

    /// Returns what to run, in the given order.
    pub fn sources(&self) -> &[Source] {
        &self.ordered
    }

    /// Says whether a person uses the program: on a terminal, with nothing to run.
    pub fn is_interactive(&self) -> bool {
        self.ordered.is_empty() && stdin().is_terminal()
    }

    pub fn format(&self) -> Format {
        match self {
            Self { csv: true, .. } => Format::Csv,
            Self { json: true, .. } => Format::Json,
            Self { jsonl: true, .. } => Format::Jsonl,
            Self { markdown: true, .. } => Format::Markdown,
            _ => Format::Box,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_files_keep_their_order() {
        let options =
            Options::parse_arguments(["hypostyle", "db", "-c", "a", "-f", "b", "-c", "-- c"]).unwrap();
        let expected =
            [Source::Command("a".into()), Source::File("b".into()), Source::Command("-- c".into())];
        assert_eq!(options.sources(), expected);
        assert_eq!(options.database, Some("db".into()));
    }

    #[test]
    fn wrong_usage_has_status_2() {
        for arguments in [
            &["--csv", "--json"][..],
            &["--threads", "0"],
            &["--memory-limit", "many"],
            &["--no"],
            &["serve", ":memory:"],
            &["serve", ":memory:", "--metrics", "127.0.0.1:0"],
            &["serve", ":memory:", "--unix", "s", "--log-level", "loud"],
            &["user", "ada", "--role", "x"],
        ] {
            let error =
                Options::parse_arguments(["hypostyle"].iter().chain(arguments)).expect_err("wrong usage");
            assert_eq!(error.exit_code(), 2, "{arguments:?}");
        }
    }
}
