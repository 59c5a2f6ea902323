//! What a user may do with an object, which `has_table_privilege` and the like ask. Rights are those of the
//! server's roles and nothing is granted: what counts is whether somebody may write, and may do everything.

use crate::pg_catalog::objects::{
    OWNER_OID, Objects, Relation, What, attribute_number, database_oid, parts_of,
};
use crate::pg_catalog::rows::{system_relation, system_relations};
use crate::pg_catalog::standard::{INFORMATION_SCHEMA, standard_relation, standard_relations};
use crate::scope::{Scope, TEMPORARY};
use hypostyle_types::{Error, ErrorKind, Privileges, Result};

/// Kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Table,
    Column,
    AnyColumn,
    Sequence,
    Schema,
    Database,
    Function,
    /// A language or a type.
    Word,
    Tablespace,
    /// A foreign server or what reads it.
    Foreign,
    Parameter,
    Role,
}

/// Who has a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Everybody,
    Writers,
    Admins,
    Nobody,
}
use Who::{Admins, Everybody, Nobody, Writers};

/// Where an object is: nobody writes the system's, and everybody their own temporary ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Stored,
    Temporary,
    System,
}

impl Kind {
    /// The rights that PostgreSQL knows for the kind.
    fn rights(self) -> &'static [(&'static str, Who)] {
        match self {
            Self::Table => &[
                ("SELECT", Everybody),
                ("INSERT", Writers),
                ("UPDATE", Writers),
                ("DELETE", Writers),
                ("TRUNCATE", Writers),
                ("REFERENCES", Writers),
                ("TRIGGER", Writers),
                ("RULE", Nobody),
            ],
            Self::Column | Self::AnyColumn => {
                &[("SELECT", Everybody), ("INSERT", Writers), ("UPDATE", Writers), ("REFERENCES", Writers)]
            }
            Self::Sequence => &[("SELECT", Everybody), ("USAGE", Writers), ("UPDATE", Writers)],
            Self::Schema => &[("USAGE", Everybody), ("CREATE", Writers)],
            Self::Database => {
                &[("CONNECT", Everybody), ("TEMPORARY", Everybody), ("TEMP", Everybody), ("CREATE", Writers)]
            }
            Self::Function => &[("EXECUTE", Everybody)],
            Self::Word => &[("USAGE", Everybody)],
            Self::Tablespace => &[("CREATE", Admins)],
            Self::Foreign => &[("USAGE", Admins)],
            Self::Parameter => &[("SET", Admins), ("ALTER SYSTEM", Admins)],
            Self::Role => &[("MEMBER", Everybody), ("USAGE", Everybody), ("SET", Everybody)],
        }
    }

    /// Returns who has one of the rights that a list names.
    ///
    /// # Errors
    /// `22023` for a right that there is not.
    fn named(self, list: &str) -> Result<Vec<Who>> {
        let one = |word: &str| {
            let word = word.trim().to_ascii_uppercase();
            let options = [" WITH GRANT OPTION", " WITH ADMIN OPTION"];
            let passed_on = options.into_iter().find_map(|option| word.strip_suffix(option));
            let right = passed_on.map_or(word.as_str(), str::trim_end);
            match self.rights().iter().find(|(name, _)| *name == right) {
                // There is no GRANT.
                Some((_, who)) => Ok(if passed_on.is_some() { Nobody } else { *who }),
                None => {
                    let message = format!("unrecognized privilege type: \"{right}\"");
                    Err(Error::invalid_input(message).with_sqlstate("22023"))
                }
            }
        };
        list.split(',').map(one).collect()
    }
}

impl Who {
    fn has(self, place: Place, privileges: Privileges) -> bool {
        match (self, place) {
            (Nobody, _) | (Writers, Place::System) => false,
            (Everybody, _) | (Writers, Place::Temporary) => true,
            (Writers, Place::Stored) => privileges.write,
            (Admins, _) => privileges.machine,
        }
    }
}

/// PostgreSQL's own roles, with those whose rights are theirs here.
const ROLES: [(&str, Who); 12] = [
    ("pg_read_all_data", Everybody),
    ("pg_write_all_data", Writers),
    ("pg_database_owner", Admins),
    ("pg_monitor", Admins),
    ("pg_read_all_settings", Admins),
    ("pg_read_all_stats", Admins),
    ("pg_stat_scan_tables", Admins),
    ("pg_signal_backend", Admins),
    ("pg_read_server_files", Admins),
    ("pg_write_server_files", Admins),
    ("pg_execute_server_program", Admins),
    ("pg_checkpoint", Admins),
];

/// A question about rights: what is known, and the arguments.
pub(super) struct Question<'a> {
    pub scope: &'a Scope,
    pub objects: &'a Objects,
    /// The session's user.
    pub user: &'a str,
    pub privileges: Privileges,
    pub arguments: &'a [Option<String>],
}

impl Question<'_> {
    /// Answers it; there is no answer for NULL and for the number of an object that there is not.
    ///
    /// # Errors
    /// As PostgreSQL for names and rights that there are not.
    pub fn answer(&self, kind: Kind) -> Result<Option<bool>> {
        let texts: Option<Vec<&str>> = self.arguments.iter().map(Option::as_deref).collect();
        let Some(texts) = texts else { return Ok(None) };
        // The user in front may be missing.
        let count = if kind == Kind::Column { 3 } else { 2 };
        let (user, texts) = match texts.split_first() {
            Some(_) if texts.len() == count => (None, texts.as_slice()),
            Some((user, rest)) if rest.len() == count => (Some(*user), rest),
            _ => return Err(unknown("42883", "there is no such function of so many arguments".into())),
        };
        let whom = kind.named(texts[count - 1])?;
        let Some(privileges) = self.privileges(user)? else { return Ok(Some(false)) };
        if kind == Kind::Role {
            return self.is_member(texts[0], &whom, privileges).map(Some);
        }
        let place = match kind {
            Kind::Table | Kind::AnyColumn | Kind::Sequence | Kind::Column => {
                let column = (kind == Kind::Column).then(|| texts[1]);
                self.relation(texts[0], column, kind == Kind::Sequence)?
            }
            Kind::Schema => self.schema(texts[0])?,
            Kind::Database => self.database(texts[0])?,
            _ => Some(Place::Stored),
        };
        Ok(place.map(|place| whom.into_iter().any(|who| who.has(place, privileges))))
    }

    /// Returns what a user may do, unless it is the number of nobody.
    fn privileges(&self, user: Option<&str>) -> Result<Option<Privileges>> {
        let own = self.privileges;
        match user {
            None => Ok(Some(own)),
            Some(user) if user == self.user => Ok(Some(own)),
            Some("public") => Ok(Some(Privileges::READ)),
            Some(user) => match user.parse::<i64>() {
                Ok(oid) => Ok((oid == OWNER_OID).then_some(own)),
                Err(_) => Err(no_role(user)),
            },
        }
    }

    fn is_member(&self, role: &str, whom: &[Who], privileges: Privileges) -> Result<bool> {
        if whom.iter().all(|who| *who == Nobody) {
            return Ok(false);
        }
        if role == self.user {
            return Ok(true);
        }
        match (ROLES.iter().find(|(name, _)| *name == role), role.parse::<i64>()) {
            (Some((_, who)), _) => Ok(who.has(Place::Stored, privileges)),
            (None, Ok(oid)) => Ok(oid == OWNER_OID),
            (None, Err(_)) => Err(no_role(role)),
        }
    }

    fn relation(&self, text: &str, column: Option<&str>, is_sequence: bool) -> Result<Option<Place>> {
        let by_number = text.parse::<i64>().ok();
        let found = match by_number {
            Some(oid) => self.objects.relation(oid),
            None => self.objects.find(self.scope, text),
        };
        if let Some(relation) = found {
            if is_sequence && !matches!(relation.what, What::Sequence(_)) {
                let message = format!("\"{}\" is not a sequence", relation.name);
                return Err(unknown("42809", message));
            }
            let place = if relation.temporary { Place::Temporary } else { Place::Stored };
            return Ok(has_column(relation, column)?.then_some(place));
        }
        let is_system = match by_number {
            Some(oid) => system_relations().iter().chain(standard_relations()).any(|known| known.oid == oid),
            None => is_of_system(&parts_of(text)),
        };
        match (is_system, by_number) {
            (true, _) => Ok(Some(Place::System)),
            (false, Some(_)) => Ok(None),
            (false, None) => Err(unknown("42P01", format!("relation \"{text}\" does not exist"))),
        }
    }

    fn schema(&self, text: &str) -> Result<Option<Place>> {
        let by_number = text.parse::<i64>().ok();
        let name = self.objects.known_schema(text);
        let is_it =
            |(oid, schema): &&(i64, String)| by_number.map_or(schema == name, |number| number == *oid);
        match (self.objects.schemas.iter().find(is_it), by_number) {
            (Some((_, name)), _) => Ok(Some(match name.as_str() {
                TEMPORARY => Place::Temporary,
                "pg_catalog" | INFORMATION_SCHEMA => Place::System,
                _ => Place::Stored,
            })),
            (None, Some(_)) => Ok(None),
            (None, None) => Err(unknown("3F000", format!("schema \"{text}\" does not exist"))),
        }
    }

    fn database(&self, text: &str) -> Result<Option<Place>> {
        let by_number = text.parse::<i64>().ok();
        let is_it = |name: &str| by_number.map_or(name == text, |number| number == database_oid(name));
        let is_known = self.scope.databases.read().iter().any(|named| is_it(&named.name));
        match (is_known || is_it(&self.scope.current().0), by_number) {
            (true, _) => Ok(Some(Place::Stored)),
            (false, Some(_)) => Ok(None),
            (false, None) => Err(unknown("3D000", format!("database \"{text}\" does not exist"))),
        }
    }
}

/// Says whether a name is that of a relation of the system.
fn is_of_system(parts: &[String]) -> bool {
    match parts {
        [name] => system_relation(name).is_some(),
        [schema, name] | [_, schema, name] if schema == "pg_catalog" => system_relation(name).is_some(),
        [schema, name] | [_, schema, name] if schema == INFORMATION_SCHEMA => {
            standard_relation(name).is_some()
        }
        _ => false,
    }
}

/// Says whether a table has a column of a number. The columns of a view are not looked for.
///
/// # Errors
/// `42703` for a name that it has not.
fn has_column(relation: &Relation, column: Option<&str>) -> Result<bool> {
    let (Some(column), What::Table { entry, .. }) = (column, &relation.what) else { return Ok(true) };
    if entry.columns.iter().any(|known| known.name == column) {
        return Ok(true);
    }
    match column.parse::<i64>() {
        Ok(number) => Ok(entry.columns.iter().any(|known| attribute_number(known.id) == number)),
        Err(_) => {
            let message = format!("column \"{column}\" of relation \"{}\" does not exist", relation.name);
            Err(unknown("42703", message))
        }
    }
}

fn no_role(name: &str) -> Error {
    unknown("42704", format!("role \"{name}\" does not exist"))
}

fn unknown(sqlstate: &'static str, message: String) -> Error {
    Error::new(ErrorKind::UnknownName, message).with_sqlstate(sqlstate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(kind: Kind, list: &str, place: Place, privileges: Privileges) -> bool {
        kind.named(list).unwrap().into_iter().any(|who| who.has(place, privileges))
    }

    #[test]
    fn rights_are_those_of_the_roles() {
        let roles = [Privileges::READ, Privileges::WRITE, Privileges::ALL];
        for (kind, list, place, expected) in [
            (Kind::Table, "SELECT", Place::Stored, [true, true, true]),
            (Kind::Table, "insert", Place::Stored, [false, true, true]),
            (Kind::Table, "INSERT", Place::Temporary, [true, true, true]),
            (Kind::Table, "INSERT", Place::System, [false, false, false]),
            (Kind::Table, "DELETE, SELECT", Place::Stored, [true, true, true]),
            (Kind::Table, "SELECT WITH GRANT OPTION", Place::Stored, [false, false, false]),
            (Kind::Schema, "CREATE", Place::Stored, [false, true, true]),
            (Kind::Database, "TEMP", Place::Stored, [true, true, true]),
            (Kind::Tablespace, "CREATE", Place::Stored, [false, false, true]),
            (Kind::Parameter, "ALTER SYSTEM", Place::Stored, [false, false, true]),
        ] {
            let answers = roles.map(|privileges| has(kind, list, place, privileges));
            assert_eq!(answers, expected, "{kind:?} {list} {place:?}");
        }
        assert_eq!(Kind::Table.named("USAGE").unwrap_err().sqlstate(), "22023");
        assert_eq!(Kind::Column.named("SELECT, DELETE").unwrap_err().sqlstate(), "22023");
    }

    #[test]
    fn relations_of_the_system_are_known_by_their_names() {
        for (name, expected) in [
            ("pg_class", true),
            ("pg_catalog.pg_class", true),
            ("information_schema.tables", true),
            ("tables", false),
            ("main.pg_class", false),
        ] {
            assert_eq!(is_of_system(&parts_of(name)), expected, "{name}");
        }
    }
}
