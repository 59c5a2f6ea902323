//! Paths into JSON: those of DuckDB (`$.a[0]."b c"`, `$.a[#-1]`, `/a/0/b`), which may have
//! wildcards, and lists of names and places, as PostgreSQL has them.

use super::text::{element, elements, member, members};
use hypostyle_sql::text_list::split_elements;
use hypostyle_types::{Error, Result};

/// A step from a value to one within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Name(String),
    Place(i64),
    /// A member of an object, or an element of an array where the text is a number.
    Either(String),
    /// All members of an object.
    AllMembers,
    /// All elements of an array.
    AllElements,
}

/// Reads a path of DuckDB's functions. A text that begins with neither `$` nor `/` is one name.
///
/// # Errors
/// `InvalidInput` (22032) for a text that begins as a path and is none.
pub(super) fn read(path: &str) -> Result<Vec<Step>> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(pointer) = path.strip_prefix('/') {
        let names = pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        return Ok(names.map(Step::Either).collect());
    }
    let Some(mut rest) = path.strip_prefix('$') else { return Ok(vec![Step::Name(path.to_string())]) };
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, behind) = next(rest).ok_or_else(|| {
            Error::invalid_input(format!(
                "'{path}' is no path into JSON from '{rest}' on; write it as $.name[0].\"other name\", or /name/0"
            ))
            .with_sqlstate("22032")
        })?;
        steps.push(step);
        rest = behind;
    }
    Ok(steps)
}

/// Returns the first step, and the text behind it.
fn next(rest: &str) -> Option<(Step, &str)> {
    if let Some(behind) = rest.strip_prefix('[') {
        let (place, behind) = behind.split_once(']')?;
        let step = match place {
            "*" => Step::AllElements,
            // This is the place behind the last element.
            "#" => Step::Place(i64::MAX),
            place => {
                let from_end = place.strip_prefix('#').filter(|place| place.starts_with('-'));
                Step::Place(from_end.unwrap_or(place).parse().ok()?)
            }
        };
        return Some((step, behind));
    }
    let behind = rest.strip_prefix('.')?;
    if let Some(quoted) = behind.strip_prefix('"') {
        let (name, behind) = quoted.split_once('"')?;
        return Some((Step::Name(name.to_string()), behind));
    }
    let (name, behind) = behind.split_at(behind.find(['.', '[']).unwrap_or(behind.len()));
    match name {
        "" => None,
        "*" => Some((Step::AllMembers, behind)),
        name => Some((Step::Name(name.to_string()), behind)),
    }
}

/// Returns the steps of a list of names and places as a text, `{a,0,b}`; `None` for one with a NULL,
/// or that is no list.
pub(super) fn of_list(text: &str) -> Option<Vec<Step>> {
    let steps: Option<Vec<String>> = split_elements(text)?.into_iter().collect();
    Some(steps?.into_iter().map(Step::Either).collect())
}

/// Says whether a path leads to several values.
pub(super) fn is_of_several(steps: &[Step]) -> bool {
    steps.iter().any(|step| matches!(step, Step::AllMembers | Step::AllElements))
}

/// Returns the value at a path.
pub(super) fn at<'a>(text: &'a str, steps: &[Step]) -> Option<&'a str> {
    steps.iter().try_fold(text, |value, step| match step {
        Step::Name(name) => member(value, name),
        Step::Place(place) => element(value, *place),
        Step::Either(name) => member(value, name).or_else(|| element(value, name.trim().parse().ok()?)),
        Step::AllMembers | Step::AllElements => None,
    })
}

/// Returns all values at a path.
pub(super) fn all_at<'a>(text: &'a str, steps: &[Step]) -> Vec<&'a str> {
    steps.iter().fold(vec![text], |values, step| match step {
        Step::AllMembers => values.into_iter().flat_map(|of| members(of).map(|(_, value)| value)).collect(),
        Step::AllElements => values.into_iter().flat_map(elements).collect(),
        step => values.into_iter().filter_map(|value| at(value, std::slice::from_ref(step))).collect(),
    })
}

/// Returns the member of a name, or the value at a path of DuckDB's, as `->` finds it.
pub(super) fn by_operator<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    member(text, name).or_else(|| match name.starts_with(['$', '/']) {
        true => at(text, &read(name).ok()?),
        false => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let text = r#"{"a":[10,{"b c":20}],"d.e":30,"f/g":40,"0":50}"#;
        for (path, expected) in [
            ("$", Some(text)),
            ("", Some(text)),
            ("$.a[0]", Some("10")),
            ("$.a[#-1].\"b c\"", Some("20")),
            ("$.a[-2]", Some("10")),
            ("$.a[#]", None),
            ("$.\"d.e\"", Some("30")),
            ("/f~1g", Some("40")),
            ("/a/1/b c", Some("20")),
            ("/0", Some("50")),
            ("d.e", Some("30")),
            ("$.a.b", None),
        ] {
            assert_eq!(at(text, &read(path).unwrap()), expected, "{path}");
        }
        for path in ["$a", "$.", "$.a[x]", "$.a[", "$.\"a"] {
            assert!(read(path).is_err(), "{path}");
        }
        assert_eq!(all_at(r#"[{"a":1},{"a":2},3]"#, &read("$[*].a").unwrap()), ["1", "2"]);
        assert_eq!(at(text, &of_list("{a,-1,\"b c\"}").unwrap()), Some("20"));
        assert_eq!(of_list("{a,NULL}"), None);
        assert_eq!(by_operator(r#"{"$.a":1,"a":2}"#, "$.a"), Some("1"));
        assert_eq!(by_operator(text, "/a/0"), Some("10"));
        assert_eq!(by_operator(text, "$a"), None);
    }
}
