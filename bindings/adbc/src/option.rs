//! Values of options, which are text or, from some programs, numbers.

use crate::error::{Result, invalid_argument, not_implemented, with_sqlstate};
use adbc_core::constants::{ADBC_OPTION_VALUE_DISABLED, ADBC_OPTION_VALUE_ENABLED};
use adbc_core::error::{Error, Status};
use adbc_core::options::OptionValue;

pub fn text(key: &str, value: OptionValue) -> Result<String> {
    match value {
        OptionValue::String(value) => Ok(value),
        OptionValue::Int(value) => Ok(value.to_string()),
        OptionValue::Double(value) => Ok(value.to_string()),
        OptionValue::Bytes(value) => String::from_utf8(value)
            .map_err(|_| invalid_argument(format!("the value of \"{key}\" is not UTF-8"))),
        _ => Err(invalid_argument(format!("the value of \"{key}\" is of a type that no option has"))),
    }
}

pub fn boolean(key: &str, value: OptionValue) -> Result<bool> {
    let value = text(key, value)?;
    match value.as_str() {
        ADBC_OPTION_VALUE_ENABLED | "1" => Ok(true),
        ADBC_OPTION_VALUE_DISABLED | "0" => Ok(false),
        other => Err(invalid_argument(format!("\"{key}\" is true or false, not \"{other}\""))),
    }
}

pub fn number(key: &str, value: OptionValue) -> Result<usize> {
    let value = text(key, value)?;
    value.parse().map_err(|_| invalid_argument(format!("\"{key}\" is a whole number, not \"{value}\"")))
}

/// Reads a number of bytes, from a number or a text such as `4GB`.
pub fn size(key: &str, value: OptionValue) -> Result<u64> {
    let value = text(key, value)?;
    hypostyle::parse_bytes(&value)
        .map_err(|error| invalid_argument(format!("\"{key}\": {}", error.message())))
}

pub fn flag(value: bool) -> String {
    if value { ADBC_OPTION_VALUE_ENABLED } else { ADBC_OPTION_VALUE_DISABLED }.into()
}

/// Returns the error for an option that the driver does not have.
pub fn unknown(of: &str, key: &str, known: &[&str]) -> Error {
    not_implemented(format!("a {of} has no option \"{key}\"; it has {}", known.join(", ")))
}

/// Returns the error for an option that has no value.
pub fn unset(of: &str, key: &str) -> Error {
    with_sqlstate(format!("the {of} has no value for the option \"{key}\""), Status::NotFound, "HY024")
}

/// Reads a whole number.
pub fn to_number(of: &str, key: &str, value: &str) -> Result<i64> {
    match value {
        ADBC_OPTION_VALUE_ENABLED => Ok(1),
        ADBC_OPTION_VALUE_DISABLED => Ok(0),
        other => other.parse().map_err(|_| unset(of, key)),
    }
}
