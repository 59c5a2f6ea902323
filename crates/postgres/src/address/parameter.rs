//! The parameters of an address: those of libpq, and those that are our own.

use hypostyle_types::{Error, Result, did_you_mean};
use std::collections::BTreeMap;

/// A parameter that an address may have.
#[derive(Debug)]
pub struct Parameter {
    pub name: &'static str,
    /// The environment variable that gives its default.
    pub variable: Option<&'static str>,
}

const fn known(name: &'static str, variable: &'static str) -> Parameter {
    Parameter { name, variable: Some(variable) }
}

const fn plain(name: &'static str) -> Parameter {
    Parameter { name, variable: None }
}

/// All parameters. The last three are our own: how numbers without a precision come, by which messages
/// rows come, and how columns are encoded.
pub const PARAMETERS: [Parameter; 53] = [
    known("service", "PGSERVICE"),
    known("servicefile", "PGSERVICEFILE"),
    known("host", "PGHOST"),
    known("hostaddr", "PGHOSTADDR"),
    known("port", "PGPORT"),
    known("dbname", "PGDATABASE"),
    known("user", "PGUSER"),
    known("password", "PGPASSWORD"),
    known("passfile", "PGPASSFILE"),
    known("require_auth", "PGREQUIREAUTH"),
    known("channel_binding", "PGCHANNELBINDING"),
    known("connect_timeout", "PGCONNECT_TIMEOUT"),
    known("client_encoding", "PGCLIENTENCODING"),
    known("options", "PGOPTIONS"),
    known("application_name", "PGAPPNAME"),
    plain("fallback_application_name"),
    plain("keepalives"),
    plain("keepalives_idle"),
    plain("keepalives_interval"),
    plain("keepalives_count"),
    plain("tcp_user_timeout"),
    plain("replication"),
    known("gssencmode", "PGGSSENCMODE"),
    known("sslmode", "PGSSLMODE"),
    known("requiressl", "PGREQUIRESSL"),
    known("sslnegotiation", "PGSSLNEGOTIATION"),
    known("sslcompression", "PGSSLCOMPRESSION"),
    known("sslcert", "PGSSLCERT"),
    known("sslkey", "PGSSLKEY"),
    plain("sslpassword"),
    known("sslcertmode", "PGSSLCERTMODE"),
    known("sslrootcert", "PGSSLROOTCERT"),
    known("sslcrl", "PGSSLCRL"),
    known("sslcrldir", "PGSSLCRLDIR"),
    known("sslsni", "PGSSLSNI"),
    plain("sslkeylogfile"),
    known("requirepeer", "PGREQUIREPEER"),
    known("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION"),
    known("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION"),
    known("min_protocol_version", "PGMINPROTOCOLVERSION"),
    known("max_protocol_version", "PGMAXPROTOCOLVERSION"),
    known("krbsrvname", "PGKRBSRVNAME"),
    known("gsslib", "PGGSSLIB"),
    known("gssdelegation", "PGGSSDELEGATION"),
    plain("scram_client_key"),
    plain("scram_server_key"),
    plain("oauth_issuer"),
    plain("oauth_client_id"),
    known("target_session_attrs", "PGTARGETSESSIONATTRS"),
    known("load_balance_hosts", "PGLOADBALANCEHOSTS"),
    plain("numeric"),
    plain("transfer"),
    plain("codec"),
];

/// The parameters that were given, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given(BTreeMap<&'static str, String>);

impl Given {
    /// Sets a parameter. The last value counts.
    ///
    /// # Errors
    /// `InvalidInput` when there is no parameter of that name.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> Result<()> {
        let found = PARAMETERS.iter().find(|parameter| parameter.name == name);
        let Some(parameter) = found else {
            let suggestion = did_you_mean(name, PARAMETERS.iter().map(|parameter| parameter.name));
            return Err(wrong(format!("there is no parameter \"{name}\"{suggestion}")));
        };
        self.0.insert(parameter.name, value.into());
        Ok(())
    }

    /// Sets a parameter that has no value yet.
    pub fn set_default(&mut self, parameter: &Parameter, value: impl Into<String>) {
        self.0.entry(parameter.name).or_insert_with(|| value.into());
    }

    /// Returns the value of a parameter. An empty value counts as none, as in libpq.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Returns the error for an address that is wrong.
pub fn wrong(why: impl std::fmt::Display) -> Error {
    Error::invalid_input(format!("the address of the PostgreSQL server: {why}"))
}

/// Returns the error for a value that a parameter cannot have.
pub fn wrong_value(name: &str, value: &str, allowed: &str) -> Error {
    wrong(format!("{name} is {allowed}, not \"{value}\""))
}
