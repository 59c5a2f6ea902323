//! Python values as the parameters of a statement.

use super::object;
use crate::error;
use hypostyle::{Parameters, ScalarValue};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

/// A sequence fills `?` and `$1`, a dict `$name`.
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
    let positional = given.try_iter().map_err(|_| {
        error::invalid_input(py, format!("parameters are a list, tuple or dict, not {}", given.get_type()))
    })?;
    let positional = positional.enumerate().map(|(index, value)| scalar(&format!("${}", index + 1), &value?));
    Ok(Parameters::Positional(positional.collect::<PyResult<_>>()?))
}

fn scalar(name: &str, value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    let py = value.py();
    let (array, _) =
        object::column(name, &PyList::new(py, [value])?.into_any(), false).map_err(|problem| {
            error::invalid_input(py, problem.value(py).to_string().replacen("column", "parameter", 1))
        })?;
    let scalar = ScalarValue::try_from_array(&array, 0)
        .map_err(|problem| error::invalid_input(py, format!("parameter \"{name}\": {problem}")))?;
    // String literals are Utf8 to the planner.
    Ok(match scalar {
        ScalarValue::LargeUtf8(text) => ScalarValue::Utf8(text),
        other => other,
    })
}
