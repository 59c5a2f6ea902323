//! Names as statements write them: folded to lower case unless quoted, and quoted again.

use hypostyle_types::{Error, Result};
use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

/// Returns the parts of a name, folded to lower case unless quoted, as DataFusion reads them.
pub fn parts_of(object: &ObjectName) -> Result<Vec<String>> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(identifier) => Ok(fold(identifier)),
        other => Err(Error::unsupported(format!("the name {other} is not supported"))),
    };
    object.0.iter().map(part).collect()
}

/// Returns the last part of a name: that of a column, a constraint, or a table wherever it is.
pub fn last_of(object: &ObjectName) -> Result<String> {
    let last = parts_of(object)?.pop();
    last.ok_or_else(|| Error::internal("a name without parts"))
}

pub fn fold(identifier: &Ident) -> String {
    match identifier.quote_style {
        Some(_) => identifier.value.clone(),
        None => identifier.value.to_lowercase(),
    }
}

/// Returns the parts of a name between dots; double quotes keep a dot.
pub fn split_name(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut inside = false;
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        let part = parts.len() - 1;
        match character {
            '"' if inside && characters.next_if_eq(&'"').is_some() => parts[part].push('"'),
            '"' => inside = !inside,
            '.' if !inside => parts.push(String::new()),
            other => parts[part].push(other),
        }
    }
    parts
}

pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
