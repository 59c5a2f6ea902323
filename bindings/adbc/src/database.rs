//! Databases: a directory, memory, or a server's address, with the options to open it.

use crate::connection::Connection;
use crate::error::{Result, from_database, invalid_argument, invalid_state};
use crate::option;
use crate::session::Session;
use adbc_core::Optionable;
use adbc_core::options::{OptionConnection, OptionDatabase, OptionValue};
use hypostyle::{OpenOptions, ServerAddress};

const IN_MEMORY: &str = ":memory:";

const READ_ONLY: &str = "hypostyle.read_only";
const THREADS: &str = "hypostyle.threads";
const MEMORY_LIMIT: &str = "hypostyle.memory_limit";
const TEMP_DIRECTORY: &str = "hypostyle.temp_directory";
const NETWORK_FILESYSTEM: &str = "hypostyle.allow_network_filesystem";
const VERIFY: &str = "hypostyle.verify";

const KNOWN: [&str; 9] = [
    "uri",
    "username",
    "password",
    READ_ONLY,
    THREADS,
    MEMORY_LIMIT,
    TEMP_DIRECTORY,
    NETWORK_FILESYSTEM,
    VERIFY,
];

/// A database; its connections keep it open.
pub struct Database {
    target: Target,
    /// The options as they were given, without the password.
    options: Vec<(String, String)>,
}

enum Target {
    Here(hypostyle::Database),
    Server(ServerAddress),
}

impl Database {
    pub fn open(options: impl IntoIterator<Item = (OptionDatabase, OptionValue)>) -> Result<Self> {
        let (mut uri, mut user, mut password) = (None, None, None);
        let mut open = OpenOptions::default();
        let mut given = Vec::new();
        for (key, value) in options {
            let key = key.as_ref().to_string();
            if key != "password" {
                given.push((key.clone(), option::text(&key, value.clone())?));
            }
            match key.as_str() {
                "uri" => uri = Some(option::text(&key, value)?),
                "username" => user = Some(option::text(&key, value)?),
                "password" => password = Some(option::text(&key, value)?),
                READ_ONLY => open.read_only = option::boolean(&key, value)?,
                THREADS => open.threads = Some(option::number(&key, value)?),
                MEMORY_LIMIT => open.memory_limit = Some(option::size(&key, value)?),
                TEMP_DIRECTORY => open.temp_directory = Some(option::text(&key, value)?.into()),
                NETWORK_FILESYSTEM => open.allow_network_filesystem = option::boolean(&key, value)?,
                VERIFY => {
                    let verify = option::text(&key, value)?.parse();
                    open.verify = verify.map_err(from_database)?;
                }
                _ => return Err(option::unknown("database", &key, &KNOWN)),
            }
        }
        let uri = uri.unwrap_or_else(|| IN_MEMORY.into());
        let target = if uri.contains("://") {
            if let Some((key, _)) = given.iter().find(|(key, _)| key.starts_with("hypostyle.")) {
                return Err(invalid_argument(format!(
                    "\"{key}\" is of a database in this process; that of an address is opened by its server"
                )));
            }
            let address = ServerAddress::parse_as(&uri, user.as_deref(), password.as_deref());
            Target::Server(address.map_err(|error| invalid_argument(error.message()))?)
        } else {
            if user.is_some() || password.is_some() {
                return Err(invalid_argument(
                    "a database in this process has no users; leave username and password out",
                ));
            }
            let database = match uri.as_str() {
                "" => return Err(invalid_argument("the option \"uri\" is empty")),
                IN_MEMORY => hypostyle::Database::in_memory(open),
                path => hypostyle::Database::open(path, open),
            };
            Target::Here(database.map_err(from_database)?)
        };
        Ok(Self { target, options: given })
    }
}

impl adbc_core::Database for Database {
    type ConnectionType = Connection;

    fn new_connection(&self) -> Result<Connection> {
        self.new_connection_with_opts([])
    }

    fn new_connection_with_opts(
        &self,
        options: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> Result<Connection> {
        let connection = match &self.target {
            Target::Here(database) => database.connect(),
            Target::Server(address) => {
                let client = format!("hypostyle-adbc {}", env!("CARGO_PKG_VERSION"));
                hypostyle::Connection::to_address(address, Some(client))
            }
        };
        let mut connection = Connection::new(Session::new(connection.map_err(from_database)?));
        for (key, value) in options {
            connection.set_option(key, value)?;
        }
        Ok(connection)
    }
}

impl Optionable for Database {
    type Option = OptionDatabase;

    fn set_option(&mut self, key: OptionDatabase, _: OptionValue) -> Result<()> {
        let key = key.as_ref();
        match KNOWN.contains(&key) {
            true => Err(invalid_state(format!(
                "\"{key}\" can be set before the database is opened, and not later"
            ))),
            false => Err(option::unknown("database", key, &KNOWN)),
        }
    }

    fn get_option_string(&self, key: OptionDatabase) -> Result<String> {
        let found = self.options.iter().find(|(name, _)| name == key.as_ref());
        found.map(|(_, value)| value.clone()).ok_or_else(|| option::unset("database", key.as_ref()))
    }

    fn get_option_bytes(&self, key: OptionDatabase) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionDatabase) -> Result<i64> {
        option::to_number("database", key.as_ref(), &self.get_option_string(key.clone())?)
    }

    fn get_option_double(&self, key: OptionDatabase) -> Result<f64> {
        self.get_option_int(key).map(|value| value as f64)
    }
}
