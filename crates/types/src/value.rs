//! Checks texts that stand for values of some types.

use crate::{Error, Result};
use uuid::Uuid;

/// Returns a UUID in one of the notations that PostgreSQL reads: with hyphens or without, in
/// braces, in any case.
///
/// # Errors
/// `InvalidInput` (22P02).
pub fn parse_uuid(text: &str) -> Result<Uuid> {
    Uuid::try_parse(text.trim().trim_matches(['{', '}']))
        .map_err(|_| Error::invalid_input(format!("'{text}' is not a UUID")).with_sqlstate("22P02"))
}

/// # Errors
/// `InvalidInput` (22032) for text that is not JSON.
pub fn check_json_text(text: &str) -> Result<()> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).map(drop).map_err(|error| {
        let shown: String = text.chars().take(60).collect();
        Error::invalid_input(format!("'{shown}' is not JSON: {error}")).with_sqlstate("22032")
    })
}

/// The time of day at which the next day begins, in microseconds.
pub const DAY_MICROSECONDS: i64 = 86_400_000_000;
