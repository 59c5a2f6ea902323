//! Converts Python values to the parameters of a statement.

use super::object::scalar;
use crate::error;
use hypostyle::Parameters;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Returns the parameters. A sequence fills `?` and `$1`, a dict fills `$name`.
pub fn parameters(py: Python<'_>, given: Option<&Bound<'_, PyAny>>) -> PyResult<Parameters> {
    let Some(given) = given else { return Ok(Parameters::None) };
    if let Ok(named) = given.cast::<PyDict>() {
        let named = named.iter().map(|(name, value)| {
            let name = name
                .cast::<PyString>()
                .map_err(|_| error::invalid_input(py, format!("the parameter name {name} is not a str")))?
                .to_str()?
                .to_owned();
            let value = scalar(&name, &value)?;
            Ok((name, value))
        });
        return Ok(Parameters::Named(named.collect::<PyResult<_>>()?));
    }
    if given.is_instance_of::<PyString>() {
        return Err(error::invalid_input(py, "parameters are a list, tuple or dict, not a str"));
    }
    let Ok(positional) = given.try_iter() else {
        let class = given.get_type().name()?;
        let message = format!("parameters are a list, tuple or dict, and not of the Python type {class}");
        return Err(error::invalid_input(py, message));
    };
    let positional = positional.enumerate().map(|(index, value)| scalar(&format!("${}", index + 1), &value?));
    Ok(Parameters::Positional(positional.collect::<PyResult<_>>()?))
}
