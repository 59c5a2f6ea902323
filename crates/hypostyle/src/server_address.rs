//! Addresses of servers.

use hypostyle_types::Result;
use std::fmt;

/// The address of a server: a database of ours, or PostgreSQL.
///
/// ```
/// # use hypostyle::ServerAddress;
/// let address = ServerAddress::parse("postgresql://ada:secret@example.org/sales")?;
/// assert_eq!(address.to_string(), "postgresql://ada@example.org:5432/sales");
/// assert!(!ServerAddress::is_address("sales.db"));
/// # Ok::<(), hypostyle::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum ServerAddress {
    Hypostyle(hypostyle_client::Address),
    Postgres(Box<hypostyle_postgres::Address>),
}

impl ServerAddress {
    /// Says whether a text is the address of a server, and no path of a directory.
    pub fn is_address(text: &str) -> bool {
        hypostyle_client::Address::is_address(text) || hypostyle_postgres::Address::is_address(text)
    }

    /// Reads a URL. What one of PostgreSQL leaves out comes from the environment, as with libpq.
    ///
    /// # Errors
    /// `InvalidInput` with the part that is wrong; `Unsupported` for what this client lacks.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_as(text, None, None)
    }

    /// Reads a URL as [`Self::parse`] does, with a user and a password in place of its own.
    ///
    /// # Errors
    /// Those of [`Self::parse`].
    pub fn parse_as(text: &str, user: Option<&str>, password: Option<&str>) -> Result<Self> {
        if hypostyle_postgres::Address::is_address(text) {
            let address = hypostyle_postgres::Address::parse_as(text, user, password)?;
            return Ok(Self::Postgres(Box::new(address)));
        }
        let mut address = hypostyle_client::Address::parse(text)?;
        address.user = user.map_or(address.user, str::to_string);
        address.password = password.map(str::to_string).or(address.password);
        Ok(Self::Hypostyle(address))
    }
}

impl fmt::Display for ServerAddress {
    /// Writes the address without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hypostyle(address) => address.fmt(f),
            Self::Postgres(address) => address.fmt(f),
        }
    }
}
