//! The address of a server and of its user: `hypostyle://user@host:port/`, `hypostyle+unix:///path`
//! and `hypostyle+unix://user@/path`.

use hypostyle_types::{Error, Result, did_you_mean};
use hypostyle_wire::CHUNK_BYTES_MAX;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use url::Url;

/// The port of an address that names none.
pub const PORT: u16 = 4953;

const OPTIONS: [&str; 8] =
    ["tls", "tls_ca", "tls_cert", "tls_key", "password", "streams", "chunk_bytes", "variables"];

/// The scheme of a Unix socket's address.
const UNIX: &str = "hypostyle+unix";

/// The only host that such an address may name, as in the address of a file (RFC 8089, section 2).
const UNIX_HOST: &str = "localhost";

/// The largest number of connections of one session.
const STREAMS_MAX: u32 = 16;

/// The smallest chunk: smaller ones have more headers than rows.
const CHUNK_BYTES_MIN: u32 = 1 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// Says whether a TCP connection is inside TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// TLS is used except on the loopback interface, and there too if certificates are named.
    #[default]
    Auto,
    Off,
    On,
}

/// A server's address.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub place: Place,
    pub user: String,
    /// The password, also from the environment variable `HYPOSTYLE_PASSWORD`.
    pub password: Option<String>,
    pub tls: Tls,
    /// A PEM file with the certificates to trust in place of the system's.
    pub tls_ca: Option<PathBuf>,
    /// PEM files with the client's own certificates and their key, for a server that asks for them.
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// The number of connections over which a result comes at once, over TCP.
    pub streams: u32,
    /// The bytes of a chunk before compression; `None` leaves the choice to the server.
    pub chunk_bytes: Option<u32>,
    /// Says whether the server may ask for tables of the program that a statement names. `None`
    /// allows only a server that runs as our own user, at the other end of a Unix socket.
    pub variables: Option<bool>,
}

impl Address {
    /// Says whether a text is an address, and not the path of a directory.
    pub fn is_address(text: &str) -> bool {
        text.starts_with("hypostyle://") || text.starts_with("hypostyle+unix://")
    }

    /// # Errors
    /// `InvalidInput` with the part of the address that is wrong, unless that may be of a password.
    pub fn parse(text: &str) -> Result<Self> {
        Self::read(text).map_err(|error| match may_hide_a_password(text) {
            true => wrong(
                "the address cannot be read, and is not shown beside what may be a password: a ?, & or @ in one is \
                 written as %3F, %26 or %40"
                    .into(),
            ),
            false => error,
        })
    }

    fn read(text: &str) -> Result<Self> {
        let shown = without_secrets(text);
        // A user before an empty host is no valid URL, but it is how one writes a user for a Unix
        // socket.
        let nobody = format!("{UNIX}://");
        let who = text.strip_prefix(&nobody).and_then(|rest| rest.split_once('/'));
        let named = who
            .and_then(|(who, path)| who.ends_with('@').then(|| format!("{nobody}{who}{UNIX_HOST}/{path}")));
        let text = named.as_deref().unwrap_or(text);
        let is_shown = !has_port(text);
        let url = Url::parse(text).map_err(|error| wrong(format!("\"{shown}\" is no address ({error})")))?;
        if url.fragment().is_some() {
            return Err(wrong("a # in a user or a password is written as %23".into()));
        }
        let not_decoded = || wrong("the password is not percent-encoded UTF-8: a % in it is %25".into());
        let password = url.password().map(|password| percent_decode(password).ok_or_else(not_decoded));
        let mut address = Self {
            place: Place::of(&url, is_shown)?,
            user: decoded(url.username())?,
            password: password.transpose()?,
            tls: Tls::Auto,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            streams: 1,
            chunk_bytes: None,
            variables: None,
        };
        for (name, value) in url.query_pairs() {
            address.set(&name, &value, is_shown)?;
        }
        match address.tls_cert.is_some() == address.tls_key.is_some() {
            true => Ok(address),
            false => Err(wrong("tls_cert and tls_key go together".into())),
        }
    }

    /// Sets an option. One that there is not is shown if it resembles one that there is, or cannot be of a
    /// password.
    fn set(&mut self, option: &str, value: &str, is_shown: bool) -> Result<()> {
        match option {
            "tls" => {
                self.tls = match value {
                    "auto" => Tls::Auto,
                    "off" => Tls::Off,
                    "on" => Tls::On,
                    other => return Err(wrong(format!("tls is auto, on or off, not \"{other}\""))),
                }
            }
            "tls_ca" => self.tls_ca = Some(value.into()),
            "tls_cert" => self.tls_cert = Some(value.into()),
            "tls_key" => self.tls_key = Some(value.into()),
            "streams" => self.streams = number(option, value, 1..=STREAMS_MAX).map_err(wrong)?,
            "chunk_bytes" => {
                let range = CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX;
                self.chunk_bytes = Some(number(option, value, range).map_err(wrong)?);
            }
            "variables" => {
                self.variables = match value {
                    "on" => Some(true),
                    "off" => Some(false),
                    other => return Err(wrong(format!("variables is on or off, not \"{other}\""))),
                }
            }
            "password" => self.password = Some(value.into()),
            other => {
                let suggestion = did_you_mean(other, OPTIONS);
                return Err(wrong(match is_shown || !suggestion.is_empty() {
                    true => format!("there is no option \"{other}\"{suggestion}"),
                    false => format!("there are no options but {}", OPTIONS.join(", ")),
                }));
            }
        }
        Ok(())
    }
}

impl Place {
    fn of(url: &Url, is_shown: bool) -> Result<Self> {
        match url.scheme() {
            "hypostyle" => {
                let host = url.host_str().filter(|host| !host.is_empty());
                let host = host.ok_or_else(|| wrong("the address names no host".into()))?;
                if !matches!(url.path(), "" | "/") {
                    // What is behind a port and a slash may be a password of such, if the host is missing.
                    return Err(wrong(match is_shown {
                        true => {
                            let shown = without_secrets(url.path());
                            format!("a server has one database: \"{shown}\" is too much")
                        }
                        false => "a server has one database: the address goes on behind its port".into(),
                    }));
                }
                let host = host.trim_matches(['[', ']']).to_string();
                Ok(Self::Tcp { host, port: url.port().unwrap_or(PORT) })
            }
            UNIX => {
                let path = decoded(url.path())?;
                let host = url.host_str().unwrap_or_default();
                if !["", UNIX_HOST].contains(&host) || !path.starts_with('/') {
                    return Err(wrong("the path of a Unix socket is absolute: three slashes".into()));
                }
                Ok(Self::Unix(path.into()))
            }
            other => Err(wrong(format!("\"{other}\" is not the scheme of a server"))),
        }
    }
}

fn wrong(why: String) -> Error {
    Error::invalid_input(format!(
        "{why}; a server's address is hypostyle://user@host:port/ or hypostyle+unix:///path"
    ))
}

/// Returns a text of an address without what may be a password: what is before the host, and options.
fn without_secrets(text: &str) -> String {
    let split = text.split_once(['?', '#']);
    let (place, options) = split.map_or((text, None), |(place, rest)| (place, Some(rest)));
    let shown = match place.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        // The question mark, or the #, may be in a password.
        None if options.is_some_and(|options| options.contains('@')) => "…".into(),
        None => without_word_for_port(place),
    };
    if options.is_some() { shown + "?…" } else { shown }
}

/// Returns an address without what is in the place of a port and is none: a password may be there, if the
/// host behind it is missing.
fn without_word_for_port(place: &str) -> String {
    let host = place.split_once("://").map_or(place, |(_, rest)| rest);
    match host.split_once(':') {
        Some((_, port)) if !host.starts_with('[') && !is_port(port.trim_end_matches('/')) => {
            format!("{}…", &place[..place.len() - port.len()])
        }
        _ => place.to_string(),
    }
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// Says whether parts of an address that are taken for a path or an option may be those of a password: a
/// question mark before the host begins the options, and an ampersand ends an option.
fn may_hide_a_password(text: &str) -> bool {
    let options = text.split_once('?').map_or("", |(_, options)| options);
    options.contains('@') || options.split('&').any(|option| option.starts_with("password="))
}

/// Says whether an address has a colon behind its host, as before a port. It may be the one before a
/// password, if the host is missing.
fn has_port(text: &str) -> bool {
    let behind = text.split_once("://").map_or(text, |(_, rest)| rest);
    let place = behind.split(['/', '?', '#']).next().unwrap_or_default();
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    host.rsplit_once(']').map_or(host, |(_, port)| port).contains(':')
}

fn decoded(text: &str) -> Result<String> {
    percent_decode(text)
        .ok_or_else(|| wrong(format!("\"{}\" is not percent-encoded UTF-8", without_secrets(text))))
}

fn number(name: &str, value: &str, range: RangeInclusive<u32>) -> std::result::Result<u32, String> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("{name} is {} to {}, not \"{value}\"", range.start(), range.end()))
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let mut digit = || char::from(*rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for Address {
    /// Writes the address without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.user.is_empty() { String::new() } else { format!("{}@", self.user) };
        match &self.place {
            Place::Tcp { host, port } if host.contains(':') => write!(f, "hypostyle://{at}[{host}]:{port}/"),
            Place::Tcp { host, port } => write!(f, "hypostyle://{at}{host}:{port}/"),
            Place::Unix(path) => write!(f, "hypostyle+unix://{at}{}", path.display()),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_the_password() {
        let address = Address::parse("hypostyle://ada:s%40crt@example.org:99/?tls=off").unwrap();
        assert_eq!(address.place, Place::Tcp { host: "example.org".into(), port: 99 });
        assert_eq!(address.password.as_deref(), Some("s@crt"));
        assert_eq!(address.tls, Tls::Off);
        assert_eq!(format!("{address:?}"), "hypostyle://ada@example.org:99/");
        let local = Address::parse("hypostyle+unix:///run/a%20b.sock?tls_ca=/x").unwrap();
        assert_eq!(local.place, Place::Unix("/run/a b.sock".into()));
        let local = Address::parse("hypostyle+unix://ada:s%40crt@/run/a.sock?streams=2").unwrap();
        assert_eq!(local.place, Place::Unix("/run/a.sock".into()));
        assert_eq!((local.user.as_str(), local.password.as_deref()), ("ada", Some("s@crt")));
        assert_eq!(local.to_string(), "hypostyle+unix://ada@/run/a.sock");
        assert_eq!(Address::parse(&local.to_string()).unwrap().user, "ada");
        let tuned = Address::parse("hypostyle://h?streams=4&chunk_bytes=65536").unwrap();
        assert_eq!(tuned.variables, None);
        assert_eq!(Address::parse("hypostyle://h?variables=on").unwrap().variables, Some(true));
        assert_eq!((tuned.streams, tuned.chunk_bytes), (4, Some(65536)));
        let six = Address::parse("hypostyle://[::1]").unwrap();
        assert_eq!(six.place, Place::Tcp { host: "::1".into(), port: PORT });
        assert_eq!(six.to_string(), format!("hypostyle://[::1]:{PORT}/"));
    }

    #[test]
    fn wrong_addresses_say_what_is_wrong() {
        for (text, part) in [
            ("hypostyle://", "no host"),
            ("hypostyle://h/db", "\"/db\" is too much"),
            ("hypostyle://h:1/db", "behind its port"),
            ("hypostyle://h:1/?tsl=on", "did you mean \"tls\""),
            ("hypostyle://h:1/?colour=red", "no options but tls, tls_ca"),
            ("hypostyle+unix://a/b", "three slashes"),
            ("hypostyle+unix://ada@a/b", "three slashes"),
            ("hypostyle://h?tsl=on", "did you mean \"tls\""),
            ("hypostyle://h?streams=17", "1 to 16"),
            ("hypostyle://h?chunk_bytes=16777217", "1024 to 16777216"),
            ("hypostyle://h?chunk_bytes=1MB", "not \"1MB\""),
            ("hypostyle://h?tls=yes", "auto, on or off"),
            ("hypostyle://h?variables=1", "on or off"),
            ("hypostyle://h?tls_cert=/x", "go together"),
            ("postgres://h", "\"postgres\""),
            ("hypostyle://ada:secret@h:99999/", "\"…@h:99999/\" is no address"),
        ] {
            let error = Address::parse(text).unwrap_err();
            assert!(error.message().contains(part), "{error}");
        }
        assert!(!Address::is_address("/data/hypostyle"));
    }

    #[test]
    fn errors_do_not_show_passwords() {
        for text in [
            "hypostyle://ada:secret@h:99999/",
            "hypostyle://h:99999/?password=secret",
            "hypostyle://ada@h:99999/?password=secret",
            "hypostyle://h:99999/?password=x@secret",
            "hypostyle://ada:secret?x@h:99999/",
            "hypostyle://ada:secret%ZZ@h/",
            "hypostyle://ada:secret%+1@h/",
            "hypostyle://ada:1/secret@h/",
            "hypostyle://ada:1#secret@h/",
            "hypostyle+unix://ada:secret%@/run/a.sock",
            "hypostyle+unix://ada:1/secret%@/run/a.sock",
            "hypostyle://ada:secret",
            "hypostyle://ada:secret/",
            "hypostyle://ada:12/secret",
            "hypostyle://ada:12/secret/",
            "hypostyle://ada:/secret",
            "hypostyle://ada:?secret",
            "hypostyle://ada:12/?secret",
            "hypostyle://ada:12?secret",
            "hypostyle://ada:12?secret=1",
            "hypostyle://ada:12#secret",
            "hypostyle://ada:1?secret@h/",
            "hypostyle://ada:1/secret?x@h/",
            "hypostyle://h/?password=a&secret",
            "hypostyle://h/?password=a&tls=secret",
        ] {
            let error = Address::parse(text).unwrap_err();
            assert!(!error.message().contains("secret"), "{error}");
        }
        // Of digits alone.
        for text in ["hypostyle://ada:12345678", "hypostyle://ada:12345678/", "hypostyle://ada:1/12345678"] {
            let error = Address::parse(text).unwrap_err();
            assert!(!error.message().contains("12345678"), "{error}");
        }
    }

    #[test]
    fn a_password_is_shown_nowhere_in_a_malformed_address() {
        const PASSWORD: &str = "s3cr:t%@/#?x";
        for text in [
            "hypostyle://ada:*@h/",
            "hypostyle://*@h/",
            "hypostyle://ada:*",
            "hypostyle://*:1/",
            "hypostyle://ada:1*@h/",
            "hypostyle://ada:1/*",
            "hypostyle://ada:1?*",
            "hypostyle://ada:1#*",
            "hypostyle://ada:1/*@h/",
            "hypostyle://ada:1?*@h/",
            "hypostyle://h/*",
            "hypostyle://h:*/",
            "hypostyle://h/?password=*&tls=off",
            "hypostyle://h/?*=on",
            "hypostyle://h/?tls=*",
            "hypostyle+unix://ada:*@/run/a.sock",
            "hypostyle+unix://ada:1/*@/run/a.sock",
            "other://ada:*@h/",
        ] {
            let error = Address::parse(&text.replace('*', PASSWORD)).unwrap_err();
            let has_part = ["s3cr", "t%", "#?", "?x"].into_iter().find(|part| error.message().contains(part));
            assert_eq!(has_part, None, "{text}: {error}");
        }
    }
}
