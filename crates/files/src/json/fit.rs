//! The names of a structure's fields in JSON that is read for columns of given types. A decoder leaves out
//! members that it has no fields for, without a word.

use crate::raw::{Members, Raw, unquoted};
use arrow::datatypes::{DataType, Fields};
use hypostyle_expr::json::quote;
use std::borrow::Cow;
use std::collections::HashMap;

/// What members the values at a place may have.
#[derive(Debug)]
pub enum Fit {
    /// They are not looked at.
    Any,
    Elements(Box<Fit>),
    /// A record has columns, and others are left out.
    Record(HashMap<String, Fit>),
    Structure {
        fields: HashMap<String, Fit>,
        /// The fields by their names in lower case; none where several have one.
        folded: HashMap<String, Option<String>>,
    },
}

static ANY: Fit = Fit::Any;

impl Fit {
    /// Returns what records of some columns may have.
    pub fn of_columns(fields: &Fields) -> Self {
        let columns = fields.iter().map(|field| (field.name().clone(), Self::of(field.data_type())));
        let columns: HashMap<_, _> = columns.filter(|(_, fit)| !fit.is_any()).collect();
        if columns.is_empty() { Self::Any } else { Self::Record(columns) }
    }

    fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
                match Self::of(element.data_type()) {
                    Self::Any => Self::Any,
                    fit => Self::Elements(Box::new(fit)),
                }
            }
            DataType::Struct(fields) => {
                let mut folded: HashMap<String, Option<String>> = HashMap::new();
                for field in fields {
                    let name = Some(field.name().clone());
                    folded
                        .entry(field.name().to_lowercase())
                        .and_modify(|known| *known = None)
                        .or_insert(name);
                }
                let fields = fields.iter().map(|field| (field.name().clone(), Self::of(field.data_type())));
                Self::Structure { fields: fields.collect(), folded }
            }
            _ => Self::Any,
        }
    }

    pub fn is_any(&self) -> bool {
        matches!(self, Self::Any)
    }

    /// Writes a value, whose structures get the names of their fields.
    ///
    /// # Errors
    /// The name of a member that no field has, behind those of the fields around it.
    pub fn write(&self, value: Raw<'_>, out: &mut String) -> Result<(), String> {
        if let Self::Elements(fit) = self
            && let Some(elements) = value.elements()
        {
            out.push('[');
            for (number, element) in elements.into_iter().enumerate() {
                out.push_str(if number > 0 { "," } else { "" });
                fit.write(element, out)?;
            }
            out.push(']');
            return Ok(());
        }
        if let Self::Record(_) | Self::Structure { .. } = self
            && let Some(members) = Members::of(value)
        {
            return self.write_members(&members, out);
        }
        out.push_str(value.get());
        Ok(())
    }

    fn write_members(&self, members: &Members<'_>, out: &mut String) -> Result<(), String> {
        out.push('{');
        let mut renamed: Vec<&str> = Vec::new();
        for (number, (written, value)) in members.pairs().enumerate() {
            out.push_str(if number > 0 { "," } else { "" });
            let name = unquoted(written).unwrap_or(Cow::Borrowed(written.get()));
            let fit = match self {
                Self::Record(columns) => {
                    out.push_str(written.get());
                    columns.get(&*name).unwrap_or(&ANY)
                }
                Self::Structure { fields, folded } => match fields.get(&*name) {
                    Some(fit) => {
                        out.push_str(written.get());
                        fit
                    }
                    None => {
                        let field = folded.get(&name.to_lowercase()).and_then(Option::as_deref);
                        let is_text = written.get().starts_with('"');
                        // A field has one member: that of its name, or one that is spelled alike.
                        let is_free = |field: &&str| {
                            is_text && members.get(field).is_none() && !renamed.contains(field)
                        };
                        let field = field.filter(is_free).ok_or_else(|| name.to_string())?;
                        renamed.push(field);
                        quote(field, out);
                        fields.get(field).unwrap_or(&ANY)
                    }
                },
                Self::Any | Self::Elements(_) => &ANY,
            };
            out.push(':');
            fit.write(value, out).map_err(|within| format!("{name}.{within}"))?;
        }
        out.push('}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;

    #[test]
    fn members_get_the_names_of_fields() {
        let structure = |names: &[&str]| {
            let fields = names.iter().map(|name| Field::new(*name, DataType::Int64, true));
            DataType::Struct(fields.collect::<Vec<_>>().into())
        };
        let list = DataType::List(Field::new("item", structure(&["aB", "c", "C"]), true).into());
        let fields = vec![
            Field::new("s", structure(&["a", "b"]), true),
            Field::new("l", list, true),
            Field::new("n", DataType::Int64, true),
        ];
        let fit = Fit::of_columns(&fields.into());
        let written = |text: &str| {
            let mut out = String::new();
            fit.write(Raw::of_json(text.as_bytes()).unwrap(), &mut out).map(|()| out)
        };
        for (text, meant) in [
            (
                r#"{"s": {"A" : 1, "b":2}, "other": {"x":1}, "n": 1}"#,
                r#"{"s":{"a":1,"b":2},"other":{"x":1},"n":1}"#,
            ),
            (r#"{"l":[{"AB":1,"C":2},null],"s":null}"#, r#"{"l":[{"aB":1,"C":2},null],"s":null}"#),
            (r#"{"s":{},"l":7}"#, r#"{"s":{},"l":7}"#),
        ] {
            assert_eq!(written(text).as_deref(), Ok(meant), "{text}");
        }
        for (text, unknown) in [
            (r#"{"s":{"x":1}}"#, "s.x"),
            (r#"{"s":{"a":1,"A":2}}"#, "s.A"),
            (r#"{"s":{"A":2,"a":1}}"#, "s.A"),
            (r#"{"l":[{"ab":1,"Ab":2}]}"#, "l.Ab"),
            // This is no JSON, and becomes none.
            (r#"{"s":{A:1}}"#, "s.A"),
        ] {
            assert_eq!(written(text), Err(unknown.into()), "{text}");
        }
        let flat = Fit::of_columns(&vec![Field::new("n", DataType::Int64, true)].into());
        assert!(flat.is_any());
    }
}
