//! The address of a server: the URLs and keyword strings of libpq, with its environment variables and
//! files.

mod files;
mod parameter;
mod text;

use files::Wanted;
use hypostyle_types::{DECIMAL_PRECISION_MAX, Result};
use hypostyle_wire::Codec;
use parameter::{Given, PARAMETERS, wrong, wrong_value};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The port of an address that names none.
const PORT: &str = "5432";

/// The directories in which servers have their sockets if nothing else is said: Debian's and
/// PostgreSQL's own.
const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// The directory of the machine's own service file, as Debian has it.
const SYSTEM_DIRECTORY: &str = "/etc/postgresql-common";

/// What the process has around it: variables, the home directory and the name of its user.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub variables: BTreeMap<String, String>,
    pub home: Option<PathBuf>,
    pub user: Option<String>,
}

impl Environment {
    pub fn of_process() -> Self {
        let variables: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let entry = own_entry();
        let home = variables.get("HOME").map(PathBuf::from).or_else(|| Some(entry.as_ref()?.1.clone()));
        let user = entry.map(|entry| entry.0).or_else(|| variables.get("USER").cloned());
        Self { variables, home, user }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the path of a file in libpq's directory of the user, if it is there.
    fn own_file(&self, name: &str) -> Option<PathBuf> {
        let path = self.home.as_ref()?.join(".postgresql").join(name);
        path.is_file().then_some(path)
    }
}

/// Returns the name and the home directory of the process's user.
fn own_entry() -> Option<(String, PathBuf)> {
    let own = rustix::process::geteuid().as_raw().to_string();
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        match fields.as_slice() {
            [name, _, user, _, _, home, ..] if *user == own => Some(((*name).into(), PathBuf::from(home))),
            _ => None,
        }
    })
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Tcp {
        host: String,
        /// The address, if it is given and needs no search by the name.
        address: Option<IpAddr>,
        port: u16,
    },
    Unix {
        directory: String,
        port: u16,
    },
}

impl Place {
    /// Returns the path of the socket. A leading `@` says that the name is in the abstract namespace.
    pub fn socket(&self) -> Option<String> {
        match self {
            Self::Tcp { .. } => None,
            Self::Unix { directory, port } => Some(format!("{directory}/.s.PGSQL.{port}")),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            Self::Unix { directory, port } => write!(f, "{directory}/.s.PGSQL.{port}"),
        }
    }
}

/// One of the servers of an address.
#[derive(Clone)]
pub struct Host {
    pub place: Place,
    /// The password from the file of passwords.
    password: Option<String>,
}

/// Says whether a connection is inside TLS, and what is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsMode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// The certificates that are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// None: the server's certificate is not checked.
    None,
    File(PathBuf),
    /// Those of the operating system.
    System,
}

/// The parameters of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub mode: TlsMode,
    /// TLS begins with the first byte, without PostgreSQL's own request for it.
    pub is_direct: bool,
    pub roots: Roots,
    /// PEM files with the client's own certificates and their key.
    pub own: Option<(PathBuf, PathBuf)>,
    pub sends_name: bool,
    /// The versions that are allowed: 1.2 and 1.3.
    pub versions: (bool, bool),
}

/// Says whether the login must be bound to the server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelBinding {
    Disable,
    Prefer,
    Require,
}

/// What a server must be like, if the address names several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    PreferStandby,
}

/// A way to prove who the user is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Password,
    Md5,
    Scram,
    /// The server asks for nothing.
    None,
    /// One of those that this client lacks.
    Other,
}

/// The methods of `require_auth`: these only, or all but these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Methods {
    methods: Vec<Method>,
    is_refused: bool,
}

impl Methods {
    pub fn allow(&self, method: Method) -> bool {
        self.methods.contains(&method) != self.is_refused
    }

    /// Says whether a method is asked for by its name.
    pub fn name(&self, method: Method) -> bool {
        !self.is_refused && self.methods.contains(&method)
    }
}

/// How often the system asks whether a silent peer is there, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepAlive {
    pub is_off: bool,
    pub idle: Option<Duration>,
    pub interval: Option<Duration>,
    pub count: Option<u32>,
    /// The time after which bytes that were not acknowledged end the connection.
    pub user_timeout: Option<Duration>,
}

/// How numbers of type `numeric` come that have no precision and scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numeric {
    /// Text, which loses nothing.
    #[default]
    Text,
    /// Exact decimals where the query tells how many digits there can be and the server has the extension,
    /// which finds them. Else text.
    Auto,
    Double,
    /// Exact decimals. A value that does not fit is an error.
    Decimal {
        precision: u8,
        scale: i8,
    },
}

/// The messages by which rows come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transfer {
    /// Columns if the server has the extension `hypostyle`, else `COPY` in binary where that is
    /// possible.
    #[default]
    Auto,
    /// Columns of the extension `hypostyle`. Without it, queries are refused.
    Columns,
    /// `COPY` in binary where that is possible.
    Copy,
    /// The rows of the extended protocol.
    Rows,
}

/// The address of a server, with all that it says of the connection.
#[derive(Clone)]
pub struct Address {
    pub hosts: Vec<Host>,
    pub database: String,
    pub user: String,
    password: Option<String>,
    pub tls: Tls,
    pub channel_binding: ChannelBinding,
    pub require_auth: Option<Methods>,
    /// The user that a server on a Unix socket must run as.
    pub require_peer: Option<String>,
    /// The time for each host; `None` leaves it to [`crate::Options`].
    pub connect_timeout: Option<Duration>,
    pub application_name: Option<String>,
    /// Settings for the beginning of the session, by their names.
    pub settings: Vec<(&'static str, String)>,
    pub target: Target,
    pub load_balance: bool,
    pub keep_alive: KeepAlive,
    pub numeric: Numeric,
    pub transfer: Transfer,
    /// How columns of the extension are encoded.
    pub codec: Codec,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl fmt::Display for Address {
    /// Writes the address as a URL without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgresql://{}@", self.user)?;
        for (index, host) in self.hosts.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}", host.place)?;
        }
        write!(f, "/{}", self.database)
    }
}

impl Address {
    /// Says whether a text is a URL of PostgreSQL.
    pub fn is_address(text: &str) -> bool {
        text::SCHEMES.iter().any(|scheme| text.starts_with(scheme))
    }

    /// Reads a URL or a keyword string, and takes what it leaves out from the process's environment.
    ///
    /// # Errors
    /// `InvalidInput` with the parameter that is wrong; `Unsupported` for one that this client lacks.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_in(text, &Environment::of_process())
    }

    /// Reads an address as [`Self::parse`] does, with a user and a password in place of its own.
    ///
    /// # Errors
    /// Those of [`Self::parse`].
    pub fn parse_as(text: &str, user: Option<&str>, password: Option<&str>) -> Result<Self> {
        let mut given = text::parse(text)?;
        for (name, value) in [("user", user), ("password", password)] {
            if let Some(value) = value {
                given.set(name, value)?;
            }
        }
        Self::of(given, &Environment::of_process())
    }

    /// Reads an address as [`Self::parse`] does, in a given environment.
    ///
    /// # Errors
    /// Those of [`Self::parse`].
    pub fn parse_in(text: &str, environment: &Environment) -> Result<Self> {
        Self::of(text::parse(text)?, environment)
    }

    fn of(mut given: Given, environment: &Environment) -> Result<Self> {
        add_services(&mut given, environment)?;
        for parameter in &PARAMETERS {
            if let Some(value) = parameter.variable.and_then(|variable| environment.get(variable)) {
                given.set_default(parameter, value);
            }
        }
        refuse_unsupported(&given)?;
        let user = given.get("user").map(String::from).or_else(|| environment.user.clone());
        let user = user.ok_or_else(|| wrong("user: none is given, and the process's user has no name"))?;
        let database = given.get("dbname").map_or_else(|| user.clone(), String::from);
        let hosts = hosts(&given, environment, &user, &database)?;
        let tls = tls(&given, environment)?;
        let named = given.get("application_name").or_else(|| given.get("fallback_application_name"));
        Ok(Self {
            hosts,
            database,
            user,
            password: given.get("password").map(String::from),
            tls,
            channel_binding: choice(
                &given,
                "channel_binding",
                ChannelBinding::Prefer,
                &[
                    ("disable", ChannelBinding::Disable),
                    ("prefer", ChannelBinding::Prefer),
                    ("require", ChannelBinding::Require),
                ],
            )?,
            require_auth: given.get("require_auth").map(methods).transpose()?,
            require_peer: given.get("requirepeer").map(String::from),
            connect_timeout: connect_timeout(&given)?,
            application_name: named.map(String::from),
            settings: settings(&given, environment),
            target: target(&given)?,
            load_balance: choice(
                &given,
                "load_balance_hosts",
                false,
                &[("disable", false), ("random", true)],
            )?,
            keep_alive: keep_alive(&given)?,
            numeric: numeric(&given)?,
            transfer: choice(
                &given,
                "transfer",
                Transfer::Auto,
                &[
                    ("auto", Transfer::Auto),
                    ("columns", Transfer::Columns),
                    ("copy", Transfer::Copy),
                    ("rows", Transfer::Rows),
                ],
            )?,
            codec: given.get("codec").map_or(Ok(Codec::Auto), str::parse)?,
        })
    }

    /// Returns the password for one of the hosts, if there is one.
    pub fn password<'a>(&'a self, host: &'a Host) -> Option<&'a str> {
        self.password.as_deref().or(host.password.as_deref())
    }
}

/// Adds the parameters of the service that is named, if one is.
fn add_services(given: &mut Given, environment: &Environment) -> Result<()> {
    let service = given.get("service").or_else(|| environment.get("PGSERVICE")).map(String::from);
    let Some(service) = service else { return Ok(()) };
    let own = given.get("servicefile").or_else(|| environment.get("PGSERVICEFILE")).map(PathBuf::from);
    let own = own.or_else(|| Some(environment.home.as_ref()?.join(".pg_service.conf")));
    let system = Path::new(environment.get("PGSYSCONFDIR").unwrap_or(SYSTEM_DIRECTORY));
    let mut paths: Vec<PathBuf> = own.into_iter().collect();
    paths.push(system.join("pg_service.conf"));
    for path in &paths {
        if files::add_service(path, &service, given)? {
            return Ok(());
        }
    }
    let shown: Vec<String> = paths.iter().map(|path| format!("\"{}\"", path.display())).collect();
    Err(wrong(format!("service: \"{service}\" is neither in {}", shown.join(" nor in "))))
}

/// Refuses parameters that ask for something that this client lacks.
fn refuse_unsupported(given: &Given) -> Result<()> {
    let missing = |name: &str, why: &str| {
        Err(hypostyle_types::Error::unsupported(format!(
            "the address of the PostgreSQL server: {name}: {why}"
        )))
    };
    for name in ["sslpassword", "sslcrl", "sslcrldir", "scram_client_key", "scram_server_key", "oauth_issuer"]
    {
        if given.get(name).is_some() {
            return missing(name, "this client lacks it");
        }
    }
    let off = ["false", "off", "no", "0"];
    if given.get("replication").is_some_and(|value| !off.contains(&value)) {
        return missing("replication", "this client sends statements only");
    }
    match given.get("gssencmode") {
        None | Some("disable" | "prefer") => {}
        Some("require") => return missing("gssencmode", "this client lacks GSSAPI; use TLS"),
        Some(other) => return Err(wrong_value("gssencmode", other, "disable, prefer or require")),
    }
    match given.get("client_encoding") {
        None => {}
        Some(name) if ["auto", "utf8", "utf-8", "unicode"].contains(&name.to_lowercase().as_str()) => {}
        Some(_) => return missing("client_encoding", "text comes as UTF-8, whatever the database has"),
    }
    match given.get("max_protocol_version").or_else(|| given.get("min_protocol_version")) {
        None | Some("3.0" | "3.2" | "latest") => {}
        Some(other) => return Err(wrong_value("max_protocol_version", other, "3.0, 3.2 or latest")),
    }
    match given.get("min_protocol_version") {
        Some("3.2" | "latest") => missing("min_protocol_version", "this client speaks version 3.0"),
        _ => Ok(()),
    }
}

/// Returns one of several values, or the default.
fn choice<T: Copy>(given: &Given, name: &str, default: T, values: &[(&str, T)]) -> Result<T> {
    let Some(text) = given.get(name) else { return Ok(default) };
    let found = values.iter().find(|(value, _)| *value == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = values.iter().map(|(value, _)| *value).collect();
        wrong_value(name, text, &names.join(" or "))
    })
}

/// Returns a whole number.
fn number<T: std::str::FromStr>(given: &Given, name: &str) -> Result<Option<T>> {
    let number = |text: &str| text.trim().parse().map_err(|_| wrong_value(name, text, "a whole number"));
    given.get(name).map(number).transpose()
}

/// Returns the hosts, each with its port and password.
fn hosts(given: &Given, environment: &Environment, user: &str, database: &str) -> Result<Vec<Host>> {
    let list = |name: &str| -> Vec<String> {
        given
            .get(name)
            .map(|text| text.split(',').map(|part| part.trim().into()).collect())
            .unwrap_or_default()
    };
    let (names, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
    let count = names.len().max(addresses.len()).max(1);
    if !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len() {
        let (names, addresses) = (names.len(), addresses.len());
        return Err(wrong(format!("hostaddr: there are {addresses} addresses for {names} hosts")));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(wrong(format!("port: there are {} ports for {count} hosts", ports.len())));
    }
    let passfile = given.get("passfile").map(PathBuf::from);
    let passfile = passfile.or_else(|| Some(environment.home.as_ref()?.join(".pgpass")));
    let mut hosts = Vec::new();
    for index in 0..count {
        let part = |list: &[String]| list.get(index).map(String::as_str).unwrap_or_default().to_string();
        let port = if ports.len() == 1 { ports.first().cloned().unwrap_or_default() } else { part(&ports) };
        let port = if port.is_empty() { PORT.to_string() } else { port };
        let number = port.parse::<u16>().ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| wrong_value("port", &port, "a number from 1 to 65535"))?;
        let (name, address) = (part(&names), part(&addresses));
        let place = place(&name, &address, number)?;
        let for_host = match &place {
            Place::Tcp { host, .. } => host.as_str(),
            Place::Unix { directory, .. } if SOCKET_DIRECTORIES.contains(&directory.as_str()) => "localhost",
            Place::Unix { directory, .. } => directory.as_str(),
        };
        let wanted = Wanted { host: for_host, port: &port, database, user };
        let password = passfile.as_ref().and_then(|path| files::password(path, &wanted));
        hosts.push(Host { place, password });
    }
    Ok(hosts)
}

fn place(name: &str, address: &str, port: u16) -> Result<Place> {
    if !address.is_empty() {
        let ip: IpAddr =
            address.parse().map_err(|_| wrong_value("hostaddr", address, "an address such as 10.0.0.1"))?;
        let host = if name.is_empty() { address } else { name };
        return Ok(Place::Tcp { host: host.into(), address: Some(ip), port });
    }
    if name.is_empty() {
        let has_socket = |directory: &&str| Path::new(&format!("{directory}/.s.PGSQL.{port}")).exists();
        return Ok(match SOCKET_DIRECTORIES.into_iter().find(has_socket) {
            Some(directory) => Place::Unix { directory: directory.into(), port },
            None => Place::Tcp { host: "localhost".into(), address: None, port },
        });
    }
    Ok(match name.starts_with(['/', '@']) {
        true => Place::Unix { directory: name.trim_end_matches('/').into(), port },
        false => Place::Tcp { host: name.into(), address: name.parse().ok(), port },
    })
}

fn tls(given: &Given, environment: &Environment) -> Result<Tls> {
    let system = given.get("sslrootcert") == Some("system");
    let default = match given.get("requiressl") {
        _ if system => TlsMode::VerifyFull,
        Some("1") => TlsMode::Require,
        _ => TlsMode::Prefer,
    };
    let mode = choice(
        given,
        "sslmode",
        default,
        &[
            ("disable", TlsMode::Disable),
            ("allow", TlsMode::Allow),
            ("prefer", TlsMode::Prefer),
            ("require", TlsMode::Require),
            ("verify-ca", TlsMode::VerifyCa),
            ("verify-full", TlsMode::VerifyFull),
        ],
    )?;
    if system && mode != TlsMode::VerifyFull {
        return Err(wrong("sslmode: the system's certificates (sslrootcert=system) need verify-full"));
    }
    let is_direct = choice(given, "sslnegotiation", false, &[("postgres", false), ("direct", true)])?;
    if is_direct && mode < TlsMode::Require {
        return Err(wrong("sslnegotiation: direct needs an sslmode of require or more"));
    }
    let root = given.get("sslrootcert").map(PathBuf::from).or_else(|| environment.own_file("root.crt"));
    let roots = match root {
        _ if system => Roots::System,
        Some(path) => Roots::File(path),
        None if mode >= TlsMode::VerifyCa => {
            return Err(wrong(
                "sslrootcert: verify-ca and verify-full need the file of a trusted certificate, or \
                 \"system\"",
            ));
        }
        None => Roots::None,
    };
    // libpq reads this file by itself. To trust what it takes back would be worse than to refuse.
    let checks_chain = mode >= TlsMode::Require && matches!(roots, Roots::File(_));
    if checks_chain && environment.own_file("root.crl").is_some() {
        let message = "the address of the PostgreSQL server: sslcrl: this client lacks it, and there is a file \
                       root.crl in ~/.postgresql";
        return Err(hypostyle_types::Error::unsupported(message));
    }
    let sends_own = given.get("sslcertmode") != Some("disable");
    let file =
        |name: &str, own: &str| given.get(name).map(PathBuf::from).or_else(|| environment.own_file(own));
    let own = match (file("sslcert", "postgresql.crt"), file("sslkey", "postgresql.key")) {
        (Some(certificate), Some(key)) if sends_own => Some((certificate, key)),
        (Some(_), None) if sends_own && given.get("sslcert").is_some() => {
            return Err(wrong("sslkey: a certificate (sslcert) needs its key"));
        }
        _ => None,
    };
    let sends_name = choice(given, "sslsni", true, &[("1", true), ("0", false)])?;
    let versions = tls_versions(given)?;
    Ok(Tls { mode, is_direct, roots, own, sends_name, versions })
}

/// Returns whether versions 1.2 and 1.3 of TLS are allowed.
fn tls_versions(given: &Given) -> Result<(bool, bool)> {
    let version = |name: &str, default: u8| match given.get(name) {
        None => Ok(default),
        Some("TLSv1" | "TLSv1.1" | "TLSv1.2") => Ok(2),
        Some("TLSv1.3") => Ok(3),
        Some(other) => Err(wrong_value(name, other, "TLSv1.2 or TLSv1.3")),
    };
    let least = version("ssl_min_protocol_version", 2)?;
    let most = version("ssl_max_protocol_version", 3)?;
    if least > most {
        return Err(wrong("ssl_min_protocol_version: it is later than ssl_max_protocol_version"));
    }
    Ok((least == 2, most == 3))
}

fn methods(text: &str) -> Result<Methods> {
    let refused = text.split(',').filter(|name| name.trim().starts_with('!')).count();
    if refused > 0 && refused < text.split(',').count() {
        return Err(wrong("require_auth: methods with \"!\" and without do not go together"));
    }
    let method = |name: &str| match name.trim().trim_start_matches('!') {
        "password" => Ok(Method::Password),
        "md5" => Ok(Method::Md5),
        "scram-sha-256" => Ok(Method::Scram),
        "none" => Ok(Method::None),
        "gss" | "sspi" | "oauth" => Ok(Method::Other),
        other => Err(wrong_value("require_auth", other, "password, md5, scram-sha-256, gss, sspi or none")),
    };
    let methods = text.split(',').map(method).collect::<Result<_>>()?;
    Ok(Methods { methods, is_refused: refused > 0 })
}

/// Returns the time for a host. As in libpq, no time is shorter than two seconds, and zero or less
/// stands for no limit, here of a day.
fn connect_timeout(given: &Given) -> Result<Option<Duration>> {
    const NO_LIMIT: Duration = Duration::from_secs(86_400);
    Ok(number::<i64>(given, "connect_timeout")?.map(|seconds| match u64::try_from(seconds) {
        Ok(0) | Err(_) => NO_LIMIT,
        Ok(seconds) => Duration::from_secs(seconds.max(2)).min(NO_LIMIT),
    }))
}

fn target(given: &Given) -> Result<Target> {
    choice(
        given,
        "target_session_attrs",
        Target::Any,
        &[
            ("any", Target::Any),
            ("read-write", Target::ReadWrite),
            ("read-only", Target::ReadOnly),
            ("primary", Target::Primary),
            ("standby", Target::Standby),
            ("prefer-standby", Target::PreferStandby),
        ],
    )
}

/// Returns the settings that the session begins with.
fn settings(given: &Given, environment: &Environment) -> Vec<(&'static str, String)> {
    let variables = [("PGDATESTYLE", "DateStyle"), ("PGTZ", "TimeZone"), ("PGGEQO", "geqo")];
    let mut settings: Vec<(&'static str, String)> = variables
        .into_iter()
        .filter_map(|(variable, setting)| Some((setting, environment.get(variable)?.into())))
        .collect();
    settings.extend(given.get("options").map(|options| ("options", options.into())));
    settings
}

fn keep_alive(given: &Given) -> Result<KeepAlive> {
    // As in libpq, zero stands for what the system does.
    let time = |name: &str, unit: fn(u64) -> Duration| -> Result<Option<Duration>> {
        Ok(number::<u64>(given, name)?.filter(|time| *time > 0).map(unit))
    };
    Ok(KeepAlive {
        is_off: number::<i32>(given, "keepalives")? == Some(0),
        idle: time("keepalives_idle", Duration::from_secs)?,
        interval: time("keepalives_interval", Duration::from_secs)?,
        count: number::<u32>(given, "keepalives_count")?.filter(|count| *count > 0),
        user_timeout: time("tcp_user_timeout", Duration::from_millis)?,
    })
}

fn numeric(given: &Given) -> Result<Numeric> {
    let Some(text) = given.get("numeric") else { return Ok(Numeric::default()) };
    let digits = || {
        let (precision, scale) = text.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
        let (precision, scale) = (precision.trim().parse::<u8>().ok()?, scale.trim().parse::<i8>().ok()?);
        let is_allowed = (1..=DECIMAL_PRECISION_MAX).contains(&precision)
            && (0..=precision).contains(&u8::try_from(scale).ok()?);
        is_allowed.then_some(Numeric::Decimal { precision, scale })
    };
    match text {
        "text" => Ok(Numeric::Text),
        "auto" => Ok(Numeric::Auto),
        "double" => Ok(Numeric::Double),
        other => digits()
            .ok_or_else(|| wrong_value("numeric", other, "auto, text, double or decimal(precision,scale)")),
    }
}

#[cfg(test)]
mod tests;
