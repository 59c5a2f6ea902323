//! Functions that PostgreSQL's programs call to ask about the catalogs and their session.
//!
//! Their arguments are texts, whatever their types: they are names and numbers, and few.

use crate::pg_catalog::definition::{constraint, index, qualified, quote};
use crate::pg_catalog::objects::{OWNER_OID, Objects, Relation, What, attribute_number};
use crate::pg_catalog::rights::{Kind, Question};
use crate::pg_catalog::settings::{Settings, version};
use crate::pg_catalog::tables::{number_of_function, serial_sequence};
use crate::pg_catalog::type_rows::{NO_FUNCTION, procedures};
use crate::scope::Scope;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result as FusionResult};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_expr::builtin::braces;
use hypostyle_pgtypes::types::{NAME, by_name, format_type};
use hypostyle_types::{Error, ErrorKind, Privileges, Result};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The data of the functions.
#[derive(Debug)]
struct Known {
    scope: Arc<Scope>,
    settings: Arc<Settings>,
    /// What the session's user may do.
    privileges: Privileges,
}

impl Known {
    /// Returns the names of the session's functions.
    fn functions(&self) -> Result<Vec<String>> {
        let state = self.scope.state().map_err(|error| Error::internal(error.to_string()))?;
        let (scalar, aggregate) = (state.scalar_functions().keys(), state.aggregate_functions().keys());
        Ok(scalar.chain(aggregate).cloned().collect())
    }
}

/// One call for one row.
struct Call<'a> {
    known: &'a Known,
    objects: &'a Objects,
    arguments: &'a [Option<String>],
}

impl Call<'_> {
    fn text(&self, place: usize) -> Option<&str> {
        self.arguments.get(place)?.as_deref()
    }

    fn number(&self, place: usize) -> Option<i64> {
        self.text(place)?.parse().ok()
    }

    fn relation(&self, place: usize) -> Option<&Relation> {
        let text = self.text(place)?;
        match text.parse() {
            Ok(oid) => self.objects.relation(oid),
            Err(_) => self.objects.find(&self.known.scope, text),
        }
    }
}

/// A result; the kinds are the types of the functions.
enum Gives {
    Text(Option<String>),
    Number(Option<i64>),
    Truth(Option<bool>),
    Names(Vec<String>),
}
use Gives::{Names, Number, Text, Truth};

type Body = fn(&Call<'_>) -> Result<Gives>;

fn text(value: impl Into<String>) -> Result<Gives> {
    Ok(Text(Some(value.into())))
}

fn yes(_: &Call<'_>) -> Result<Gives> {
    Ok(Truth(Some(true)))
}

fn no(_: &Call<'_>) -> Result<Gives> {
    Ok(Truth(Some(false)))
}

fn privilege(call: &Call<'_>, kind: Kind) -> Result<Gives> {
    let user = call.known.settings.user();
    let question = Question {
        scope: &call.known.scope,
        objects: call.objects,
        user: &user,
        privileges: call.known.privileges,
        arguments: call.arguments,
    };
    Ok(Truth(question.answer(kind)?))
}

fn zero(_: &Call<'_>) -> Result<Gives> {
    Ok(Number(Some(0)))
}

fn no_text(_: &Call<'_>) -> Result<Gives> {
    Ok(Text(None))
}

fn user(call: &Call<'_>) -> Result<Gives> {
    text(call.known.settings.user())
}

fn database(call: &Call<'_>) -> Result<Gives> {
    text(call.known.scope.current().0)
}

fn schema(call: &Call<'_>) -> Result<Gives> {
    Ok(Text(call.known.scope.search().1.into_iter().next()))
}

/// Returns a name or a number as a number.
fn relation_in(call: &Call<'_>) -> Result<Gives> {
    let Some(name) = call.text(0) else { return Ok(Number(None)) };
    if let Ok(oid) = name.parse() {
        return Ok(Number(Some(oid)));
    }
    match find_relation(call, name) {
        Some(oid) => Ok(Number(Some(oid))),
        None => Err(Error::new(ErrorKind::UnknownName, format!("relation \"{name}\" does not exist"))),
    }
}

fn find_relation(call: &Call<'_>, name: &str) -> Option<i64> {
    let own = call.objects.find(&call.known.scope, name).map(|relation| relation.oid);
    let system = || crate::pg_catalog::rows::system_relation(name.trim_start_matches("pg_catalog."));
    own.or_else(|| system().map(|relation| relation.oid))
}

fn relation_out(call: &Call<'_>) -> Result<Gives> {
    let (_, current) = call.known.scope.current();
    Ok(Text(match (call.relation(0), call.number(0)) {
        (Some(relation), _) => Some(qualified(relation, &current)),
        (None, Some(0)) => Some("-".into()),
        (None, Some(oid)) => {
            let system =
                crate::pg_catalog::rows::system_relations().iter().find(|relation| relation.oid == oid);
            Some(system.map_or_else(|| oid.to_string(), |relation| relation.name.to_string()))
        }
        (None, None) => call.text(0).map(str::to_string),
    }))
}

fn type_in(call: &Call<'_>) -> Result<Gives> {
    let Some(name) = call.text(0) else { return Ok(Number(None)) };
    match (name.parse(), find_type(name)) {
        (Ok(oid), _) | (_, Some(oid)) => Ok(Number(Some(oid))),
        _ => Err(Error::new(ErrorKind::UnknownName, format!("type \"{name}\" does not exist"))
            .with_sqlstate("42704")),
    }
}

fn find_type(name: &str) -> Option<i64> {
    let (found, is_array) = by_name(&name.replace('"', ""))?;
    Some(i64::from(if is_array { found.array } else { found.oid }))
}

fn type_out(call: &Call<'_>) -> Result<Gives> {
    Ok(Text(match call.number(0) {
        None => None,
        Some(0) => Some("-".into()),
        Some(oid) => {
            let known = u32::try_from(oid).ok().and_then(|oid| format_type(oid, call.number(1)));
            Some(known.unwrap_or_else(|| "???".into()))
        }
    }))
}

/// Returns a name or a number of a function as a number.
fn procedure_in(call: &Call<'_>) -> Result<Gives> {
    let Some(name) = call.text(0) else { return Ok(Number(None)) };
    match (name.parse(), find_procedure(call, name)?) {
        (Ok(oid), _) | (_, Some(oid)) => Ok(Number(Some(oid))),
        _ => Err(Error::new(ErrorKind::UnknownName, format!("function \"{name}\" does not exist"))
            .with_sqlstate("42883")),
    }
}

fn find_procedure(call: &Call<'_>, name: &str) -> Result<Option<i64>> {
    if name == NO_FUNCTION {
        return Ok(Some(0));
    }
    // A `regprocedure` has the types of the arguments behind the name; no two functions share a
    // name here.
    let name = name.trim_start_matches("pg_catalog.").split('(').next().unwrap_or_default();
    if let Some((oid, _)) = procedures().iter().find(|(_, known)| *known == name) {
        return Ok(Some(*oid));
    }
    let is_known = call.known.functions()?.iter().any(|known| known == name);
    Ok(is_known.then(|| number_of_function(&mut Objects::default(), name)))
}

fn procedure_out(call: &Call<'_>) -> Result<Gives> {
    let Some(oid) = call.number(0) else { return Ok(Text(call.text(0).map(str::to_string))) };
    if oid == 0 {
        return text(NO_FUNCTION);
    }
    if let Some((_, name)) = procedures().iter().find(|(known, _)| *known == oid) {
        return text(*name);
    }
    let functions = call.known.functions()?;
    let is_it = |name: &&String| number_of_function(&mut Objects::default(), name) == oid;
    text(functions.iter().find(is_it).cloned().unwrap_or_else(|| oid.to_string()))
}

/// Returns a schema by the name that it has here: `public` is the one that each database has,
/// unless there is one of that name.
fn known_schema(call: &Call<'_>) -> Result<Gives> {
    Ok(Text(call.text(0).map(|name| call.objects.known_schema(name).to_string())))
}

/// Returns the schema of the session's temporary tables, when there are any.
fn own_temporary_schema(call: &Call<'_>) -> Result<Gives> {
    let found = call.objects.relations.iter().find(|relation| relation.temporary);
    Ok(Number(Some(found.map_or(0, |relation| relation.schema))))
}

/// Returns the parts of a name that SQL text has.
fn identifier_parts(call: &Call<'_>) -> Result<Gives> {
    let Some(name) = call.text(0) else { return Ok(Names(Vec::new())) };
    let parts = crate::pg_catalog::objects::parts_of(name);
    let is_wrong = parts.iter().any(String::is_empty) || name.matches('"').count() % 2 == 1;
    match is_wrong {
        true => Err(wants(&format!("string is not a valid identifier: \"{name}\""))),
        false => Ok(Names(parts)),
    }
}

/// Returns what everybody and the owner may do with an object of a kind that nothing was granted
/// on: the owner is the session's user, who may do what the server's role allows.
fn default_privileges(call: &Call<'_>) -> Result<Gives> {
    let user = call.known.settings.user();
    let privileges = call.known.privileges;
    let of = |all: &'static str, reads: &'static str| if privileges.write { all } else { reads };
    let of_admins = |all: &'static str| if privileges.machine { all } else { "" };
    let (everybody, owner) = match call.text(0).unwrap_or_default() {
        "r" => ("", of("arwdDxt", "r")),
        "s" => ("", of("rwU", "r")),
        "S" | "F" => ("", of_admins("U")),
        "d" => ("Tc", of("CTc", "Tc")),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "n" => ("", of("UC", "U")),
        "t" => ("", of_admins("C")),
        "L" => ("", of("rw", "r")),
        "p" => ("", of_admins("sA")),
        "c" => ("", ""),
        other => return Err(wants(&format!("unrecognized object type abbreviation: {other}"))),
    };
    let grants = [("", everybody), (user.as_str(), owner)].into_iter().filter(|(_, may)| !may.is_empty());
    Ok(Names(grants.map(|(who, may)| format!("{who}={may}/{user}")).collect()))
}

/// Returns what may be done with the rows of a relation, as bits: 4 UPDATE, 8 INSERT, 16 DELETE.
fn updatable(call: &Call<'_>) -> Result<Gives> {
    let is_table = |relation: &Relation| matches!(relation.what, What::Table { .. });
    Ok(Number(Some(call.relation(0).map_or(0, |relation| if is_table(relation) { 28 } else { 0 }))))
}

fn column_updatable(call: &Call<'_>) -> Result<Gives> {
    let Number(bits) = updatable(call)? else { return Ok(Truth(None)) };
    Ok(Truth(bits.map(|bits| bits > 0)))
}

fn no_number(_: &Call<'_>) -> Result<Gives> {
    Ok(Number(None))
}

fn no_names(_: &Call<'_>) -> Result<Gives> {
    Ok(Names(Vec::new()))
}

fn schema_in(call: &Call<'_>) -> Result<Gives> {
    let Some(name) = call.text(0) else { return Ok(Number(None)) };
    if let Ok(oid) = name.parse() {
        return Ok(Number(Some(oid)));
    }
    let plain = crate::pg_catalog::objects::parts_of(name).join(".");
    let known = call.objects.known_schema(&plain);
    match call.objects.schemas.iter().find(|(_, schema)| schema == known) {
        Some((oid, _)) => Ok(Number(Some(*oid))),
        None => Err(Error::new(ErrorKind::UnknownName, format!("schema \"{name}\" does not exist"))
            .with_sqlstate("3F000")),
    }
}

fn schema_out(call: &Call<'_>) -> Result<Gives> {
    let found = call.number(0).and_then(|oid| call.objects.schemas.iter().find(|(number, _)| *number == oid));
    Ok(Text(found.map(|(_, name)| quote(name)).or_else(|| call.text(0).map(str::to_string))))
}

fn is_visible(call: &Call<'_>) -> Result<Gives> {
    let (_, searched) = call.known.scope.search();
    Ok(Truth(call.number(0).map(|oid| match call.objects.relation(oid) {
        Some(relation) if relation.temporary => true,
        Some(relation) if searched.contains(&relation.schema_name) => {
            call.known.scope.schema_of(&relation.name) == relation.schema_name
                || matches!(relation.what, What::Index { .. })
        }
        Some(_) => false,
        None => crate::pg_catalog::rows::system_relations().iter().any(|relation| relation.oid == oid),
    })))
}

fn constraint_text(call: &Call<'_>) -> Result<Gives> {
    let (_, current) = call.known.scope.current();
    let found = call.number(0).and_then(|oid| call.objects.constraints.iter().find(|known| known.oid == oid));
    Ok(Text(found.map(|found| constraint(call.objects, found, &current))))
}

fn index_text(call: &Call<'_>) -> Result<Gives> {
    let column = call.number(1).and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
    Ok(Text(call.relation(0).and_then(|relation| index(call.objects, relation, column))))
}

fn view_text(call: &Call<'_>) -> Result<Gives> {
    let sql = call.relation(0).and_then(|relation| match &relation.what {
        What::View(view) => Some(view.sql.as_str()),
        What::Table { entry, .. } => entry.query.as_ref().map(|query| query.sql.as_str()),
        _ => None,
    });
    Ok(Text(sql.map(|sql| format!("{};", sql.trim_end_matches(';')))))
}

fn object_comment(call: &Call<'_>) -> Result<Gives> {
    let is_of = |class| call.text(1).is_none_or(|catalog| catalog == class);
    let Some(oid) = call.number(0) else { return Ok(Text(None)) };
    let relation = call.objects.relation(oid).filter(|_| is_of("pg_class"));
    let schema = call.objects.comments.iter().find(|(schema, _)| *schema == oid && is_of("pg_namespace"));
    let mut constraints = call.objects.constraints.iter().filter(|_| is_of("pg_constraint"));
    Ok(Text(match (relation, schema) {
        (Some(relation), _) => relation.comment().clone(),
        (None, Some((_, comment))) => Some(comment.clone()),
        (None, None) => {
            constraints.find(|known| known.oid == oid).and_then(|known| known.entry.comment.clone())
        }
    }))
}

fn column_comment(call: &Call<'_>) -> Result<Gives> {
    let table = call.number(0).and_then(|oid| call.objects.table(oid));
    let number = call.number(1).unwrap_or(0);
    Ok(Text(table.and_then(|table| {
        table.columns.iter().find(|column| attribute_number(column.id) == number)?.comment.clone()
    })))
}

fn owned_sequence(call: &Call<'_>) -> Result<Gives> {
    let Some(table) = call.text(0) else { return Ok(Text(None)) };
    let Some(relation) = call.relation(0) else {
        return Err(Error::new(ErrorKind::UnknownName, format!("relation \"{table}\" does not exist")));
    };
    Ok(Text(call.text(1).and_then(|column| serial_sequence(call.objects, relation, column))))
}

/// Returns a number of bytes in the unit that PostgreSQL shows it in: less than ten of a unit are shown
/// in the smaller one, and halves are rounded up.
fn pretty_size(bytes: i64) -> String {
    if bytes.unsigned_abs() < 10 * 1024 {
        return format!("{bytes} bytes");
    }
    let mut halves = bytes / 512;
    let mut units = ["kB", "MB", "GB", "TB"].into_iter();
    let unit = loop {
        match units.next() {
            Some(unit) if halves.unsigned_abs() < 20 * 1024 - 1 => break unit,
            Some(_) => halves /= 1024,
            None => break "PB",
        }
    };
    format!("{} {unit}", (halves + halves.signum()) / 2)
}

fn rows_of(call: &Call<'_>) -> Option<i64> {
    match &call.relation(0)?.what {
        What::Table { entry, rows } => Some(*rows as i64 * entry.columns.len() as i64 * 8),
        _ => Some(0),
    }
}

fn current_setting(call: &Call<'_>) -> Result<Gives> {
    let Some(name) = call.text(0) else { return Ok(Text(None)) };
    match call.known.settings.get(name) {
        Some(value) => text(value),
        None if call.text(1) == Some("true") => Ok(Text(None)),
        None => Err(Error::new(
            ErrorKind::UnknownName,
            format!("unrecognized configuration parameter \"{name}\""),
        )
        .with_sqlstate("42704")),
    }
}

fn set_config(call: &Call<'_>) -> Result<Gives> {
    let (Some(name), value) = (call.text(0), call.text(1).unwrap_or_default()) else { return Ok(Text(None)) };
    call.known.settings.configure(name, value, call.text(2) == Some("true"))?;
    Ok(Text(call.known.settings.get(name)))
}

fn encoding_name(call: &Call<'_>) -> Result<Gives> {
    text(if call.number(0) == Some(6) { "UTF8" } else { "SQL_ASCII" })
}

fn encoding_number(call: &Call<'_>) -> Result<Gives> {
    let is_utf8 = |name: &str| ["utf8", "utf-8", "unicode"].contains(&name.to_ascii_lowercase().as_str());
    Ok(Number(call.text(0).map(|name| if is_utf8(name) { 6 } else { -1 })))
}

fn wants(what: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, what).with_sqlstate("22023")
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns `format` of PostgreSQL, with `%s`, `%I`, `%L` and `%%`, positions (`%2$s`) and widths.
fn formatted(call: &Call<'_>) -> Result<Gives> {
    let Some(pattern) = call.text(0) else { return Ok(Text(None)) };
    // DuckDB's patterns have none of PostgreSQL's specifiers.
    if !pattern.contains('%') && pattern.contains('{') && call.arguments.len() > 1 {
        let are_known = call.arguments.iter().all(Option::is_some);
        return if are_known { text(braces(call.arguments)?) } else { Ok(Text(None)) };
    }
    let (mut out, mut rest, mut next) = (String::new(), pattern, 1);
    while let Some(start) = rest.find('%') {
        out.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '$' && c != '-');
        let (options, kind) = end.map_or(("", None), |end| (&rest[..end], rest[end..].chars().next()));
        let kind = kind.ok_or_else(|| wants("unterminated format() type specifier"))?;
        rest = &rest[options.len() + kind.len_utf8()..];
        if kind == '%' {
            out.push('%');
            continue;
        }
        let (place, width) = match options.split_once('$') {
            Some((place, width)) => (place.parse().ok(), width),
            None => (Some(next), options),
        };
        let place = place.filter(|place| *place >= 1);
        let place = place.ok_or_else(|| wants("format() positions begin with 1"))?;
        if place >= call.arguments.len() {
            return Err(wants("too few arguments for format()"));
        }
        next = place + 1;
        let shown = match (kind, call.text(place)) {
            ('s', value) => value.unwrap_or_default().to_string(),
            ('I', Some(value)) => quote(value),
            ('I', None) => {
                return Err(wants("NULL cannot be an SQL identifier").with_sqlstate("22004"));
            }
            ('L', Some(value)) => literal(value),
            ('L', None) => "NULL".into(),
            _ => return Err(wants(&format!("unrecognized format() type specifier \"{kind}\""))),
        };
        let wide = width.trim_start_matches('-').parse().unwrap_or(0_usize);
        let padding = " ".repeat(wide.min(1 << 20).saturating_sub(shown.chars().count()));
        match width.starts_with('-') {
            true => out.extend([shown, padding]),
            false => out.extend([padding, shown]),
        }
    }
    out.push_str(rest);
    text(out)
}

fn search_path(call: &Call<'_>) -> Result<Gives> {
    let with_system = call.text(0) == Some("true");
    let system = with_system.then(|| "pg_catalog".to_string());
    Ok(Names(system.into_iter().chain(call.known.scope.search().1).collect()))
}

/// The functions, with the type of what they give: `t`ext, `i`dentifier (PostgreSQL's `name`),
/// `n`umber, `b`oolean or a list of `N`ames.
const FUNCTIONS: &[(&str, char, Body)] = &[
    ("version", 't', |_| text(version())),
    ("current_user", 'i', user),
    ("session_user", 'i', user),
    ("current_role", 'i', user),
    ("user", 'i', user),
    ("current_catalog", 'i', database),
    ("current_database", 'i', database),
    ("current_schema", 'i', schema),
    ("current_schemas", 'N', search_path),
    ("current_setting", 't', current_setting),
    ("set_config", 't', set_config),
    ("pg_backend_pid", 'n', |call| Ok(Number(Some(call.known.settings.process().into())))),
    ("pg_client_encoding", 'i', |_| text("UTF8")),
    ("pg_encoding_to_char", 'i', encoding_name),
    ("pg_char_to_encoding", 'n', encoding_number),
    ("format", 't', formatted),
    ("quote_literal", 't', |call| Ok(Text(call.text(0).map(literal)))),
    ("quote_nullable", 't', |call| text(call.text(0).map_or_else(|| "NULL".into(), literal))),
    ("pg_is_in_recovery", 'b', no),
    ("pg_get_userbyid", 'i', user),
    ("format_type", 't', type_out),
    ("regclass_in", 'n', relation_in),
    ("regclass_out", 't', relation_out),
    ("to_regclass", 'n', |call| Ok(Number(call.text(0).and_then(|name| find_relation(call, name))))),
    ("regtype_in", 'n', type_in),
    ("regtype_out", 't', type_out),
    ("to_regtype", 'n', |call| Ok(Number(call.text(0).and_then(find_type)))),
    ("regnamespace_in", 'n', schema_in),
    ("regnamespace_out", 't', schema_out),
    ("regproc_in", 'n', procedure_in),
    ("regproc_out", 't', procedure_out),
    ("to_regproc", 'n', |call| {
        let name = call.text(0);
        name.map_or(Ok(Number(None)), |name| Ok(Number(find_procedure(call, name)?)))
    }),
    ("to_regprocedure", 'n', |call| {
        let name = call.text(0);
        name.map_or(Ok(Number(None)), |name| Ok(Number(find_procedure(call, name)?)))
    }),
    // The session's user is the only one that the catalog knows.
    ("to_regrole", 'n', |call| {
        let is_own = call.text(0).is_some_and(|name| name.trim_matches('"') == call.known.settings.user());
        Ok(Number(is_own.then_some(OWNER_OID)))
    }),
    ("pg_basetype", 'n', type_in),
    ("to_regnamespace", 'n', |call| Ok(schema_in(call).unwrap_or(Number(None)))),
    ("known_schema", 't', known_schema),
    ("pg_my_temp_schema", 'n', own_temporary_schema),
    ("pg_is_other_temp_schema", 'b', no),
    ("parse_ident", 'N', identifier_parts),
    ("acldefault", 'N', default_privileges),
    ("pg_relation_is_updatable", 'n', updatable),
    ("pg_column_is_updatable", 'b', column_updatable),
    ("row_security_active", 'b', no),
    ("pg_blocking_pids", 'N', no_names),
    ("pg_relation_filenode", 'n', |call| Ok(Number(call.relation(0).map(|relation| relation.oid)))),
    ("pg_relation_filepath", 't', no_text),
    ("pg_get_function_arg_default", 't', no_text),
    ("pg_get_function_sqlbody", 't', no_text),
    ("pg_get_partition_constraintdef", 't', no_text),
    ("pg_get_statisticsobjdef", 't', no_text),
    ("pg_get_statisticsobjdef_expressions", 'N', no_names),
    ("pg_get_replica_identity_index", 'n', no_number),
    ("pg_tablespace_size", 'n', zero),
    ("pg_is_wal_replay_paused", 'b', no),
    ("pg_last_wal_receive_lsn", 't', no_text),
    ("pg_last_wal_replay_lsn", 't', no_text),
    ("pg_current_wal_lsn", 't', |_| text("0/0")),
    ("pg_current_xact_id", 'n', zero),
    ("pg_current_xact_id_if_assigned", 'n', no_number),
    ("txid_current_if_assigned", 'n', no_number),
    ("pg_trigger_depth", 'n', zero),
    // No transaction is told by a number.
    ("pg_current_snapshot", 't', |_| text("1:1:")),
    ("txid_current_snapshot", 't', |_| text("1:1:")),
    ("pg_xact_status", 't', no_text),
    ("pg_last_xact_replay_timestamp", 't', no_text),
    ("mxid_age", 'n', zero),
    ("pg_jit_available", 'b', no),
    ("pg_current_logfile", 't', no_text),
    ("pg_column_compression", 't', no_text),
    ("pg_describe_object", 't', no_text),
    ("pg_wal_lsn_diff", 'n', zero),
    ("pg_notification_queue_usage", 'n', zero),
    ("pg_safe_snapshot_blocking_pids", 'N', no_names),
    ("pg_settings_get_flags", 'N', no_names),
    ("getdatabaseencoding", 'i', |_| text("UTF8")),
    ("inet_client_port", 'n', no_number),
    ("has_type_privilege", 'b', |call| privilege(call, Kind::Word)),
    ("has_language_privilege", 'b', |call| privilege(call, Kind::Word)),
    ("has_server_privilege", 'b', |call| privilege(call, Kind::Foreign)),
    ("has_foreign_data_wrapper_privilege", 'b', |call| privilege(call, Kind::Foreign)),
    ("has_parameter_privilege", 'b', |call| privilege(call, Kind::Parameter)),
    ("pg_index_column_has_property", 'b', no),
    ("pg_index_has_property", 'b', no),
    ("pg_indexam_has_property", 'b', no),
    ("pg_table_is_visible", 'b', is_visible),
    ("pg_type_is_visible", 'b', yes),
    ("pg_function_is_visible", 'b', yes),
    ("pg_operator_is_visible", 'b', yes),
    ("pg_collation_is_visible", 'b', yes),
    ("pg_statistics_obj_is_visible", 'b', yes),
    ("pg_conversion_is_visible", 'b', yes),
    ("pg_opclass_is_visible", 'b', yes),
    ("pg_opfamily_is_visible", 'b', yes),
    ("pg_ts_config_is_visible", 'b', yes),
    ("pg_ts_dict_is_visible", 'b', yes),
    ("pg_ts_parser_is_visible", 'b', yes),
    ("pg_ts_template_is_visible", 'b', yes),
    ("has_table_privilege", 'b', |call| privilege(call, Kind::Table)),
    ("has_column_privilege", 'b', |call| privilege(call, Kind::Column)),
    ("has_any_column_privilege", 'b', |call| privilege(call, Kind::AnyColumn)),
    ("has_schema_privilege", 'b', |call| privilege(call, Kind::Schema)),
    ("has_database_privilege", 'b', |call| privilege(call, Kind::Database)),
    ("has_sequence_privilege", 'b', |call| privilege(call, Kind::Sequence)),
    ("has_function_privilege", 'b', |call| privilege(call, Kind::Function)),
    ("has_tablespace_privilege", 'b', |call| privilege(call, Kind::Tablespace)),
    ("pg_has_role", 'b', |call| privilege(call, Kind::Role)),
    ("pg_get_expr", 't', |call| Ok(Text(call.text(0).map(str::to_string)))),
    ("pg_get_constraintdef", 't', constraint_text),
    ("pg_get_indexdef", 't', index_text),
    ("pg_get_viewdef", 't', view_text),
    ("pg_get_ruledef", 't', no_text),
    ("pg_get_triggerdef", 't', no_text),
    ("pg_get_functiondef", 't', no_text),
    ("pg_get_function_result", 't', no_text),
    ("pg_get_function_arguments", 't', no_text),
    ("pg_get_function_identity_arguments", 't', no_text),
    ("pg_get_partkeydef", 't', no_text),
    ("pg_get_statisticsobjdef_columns", 't', no_text),
    ("pg_get_serial_sequence", 't', owned_sequence),
    ("pg_relation_is_publishable", 'b', no),
    // There are no partitions: each table is its own and only ancestor.
    ("pg_partition_ancestors", 'n', relation_in),
    ("pg_partition_root", 'n', relation_in),
    ("obj_description", 't', object_comment),
    ("shobj_description", 't', no_text),
    ("col_description", 't', column_comment),
    ("quote_ident", 't', |call| Ok(Text(call.text(0).map(quote)))),
    ("pg_relation_size", 'n', |call| Ok(Number(rows_of(call)))),
    ("pg_table_size", 'n', |call| Ok(Number(rows_of(call)))),
    ("pg_total_relation_size", 'n', |call| Ok(Number(rows_of(call)))),
    ("pg_indexes_size", 'n', zero),
    ("pg_database_size", 'n', zero),
    ("pg_size_pretty", 't', |call| Ok(Text(call.number(0).map(pretty_size)))),
    ("pg_stat_get_numscans", 'n', zero),
    ("pg_tablespace_location", 't', |_| text("")),
    ("txid_current", 'n', zero),
    ("inet_server_port", 'n', |_| Ok(Number(None))),
    ("inet_server_addr", 't', no_text),
    ("inet_client_addr", 't', no_text),
];

/// Says whether there is a function of that name here, which gives one value.
pub(super) fn is_function(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, ..)| *known == name)
}

/// The number of PostgreSQL's type of what a function gives, where that is `name` or an array of
/// it.
pub fn gives_name(function: &str) -> Option<u32> {
    match FUNCTIONS.iter().find(|(known, ..)| *known == function)? {
        (_, 'i', _) => Some(NAME.oid),
        (_, 'N', _) => Some(NAME.array),
        _ => None,
    }
}

pub(super) fn register(context: &SessionContext, scope: &Arc<Scope>, settings: &Arc<Settings>) {
    let privileges = context.copied_config().get_extension::<Privileges>();
    let privileges = privileges.map_or(Privileges::READ, |privileges| *privileges);
    let known = Arc::new(Known { scope: scope.clone(), settings: settings.clone(), privileges });
    for (name, gives, body) in FUNCTIONS {
        let function = CatalogFunction {
            name,
            gives: match gives {
                'n' => DataType::Int64,
                'b' => DataType::Boolean,
                'N' => DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))),
                _ => DataType::Utf8,
            },
            body: *body,
            known: known.clone(),
            // A session's settings may change between two calls of one plan.
            signature: Signature::one_of(
                vec![TypeSignature::Nullary, TypeSignature::VariadicAny],
                if *name == "set_config" { Volatility::Volatile } else { Volatility::Stable },
            ),
        };
        context.register_udf(ScalarUDF::from(function));
    }
}

#[derive(Debug)]
pub(crate) struct CatalogFunction {
    name: &'static str,
    gives: DataType,
    body: Body,
    known: Arc<Known>,
    signature: Signature,
}

impl PartialEq for CatalogFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.known, &other.known)
    }
}

impl Eq for CatalogFunction {}

impl Hash for CatalogFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> FusionResult<DataType> {
        Ok(self.gives.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> FusionResult<ColumnarValue> {
        let is_scalar = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let texts = arguments
            .args
            .iter()
            .map(|value| Ok(cast(&value.to_array(rows)?, &DataType::Utf8)?))
            .collect::<FusionResult<Vec<ArrayRef>>>()?;
        let external = |error: Error| DataFusionError::External(Box::new(error));
        let objects = Objects::of(&self.known.scope).map_err(external)?;
        let results = (0..rows).map(|row| {
            let argument = |texts: &ArrayRef| {
                texts.is_valid(row).then(|| texts.as_string::<i32>().value(row).to_string())
            };
            let arguments: Vec<Option<String>> = texts.iter().map(argument).collect();
            (self.body)(&Call { known: &self.known, objects: &objects, arguments: &arguments })
        });
        let results = results.collect::<Result<Vec<Gives>>>().map_err(external)?;
        let array = self.array(results)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            false => ColumnarValue::Array(array),
        })
    }
}

impl CatalogFunction {
    fn array(&self, results: Vec<Gives>) -> FusionResult<ArrayRef> {
        let values = results.into_iter();
        Ok(match &self.gives {
            DataType::Int64 => Arc::new(
                values
                    .map(|value| if let Number(value) = value { value } else { None })
                    .collect::<Int64Array>(),
            ),
            DataType::Boolean => Arc::new(
                values
                    .map(|value| if let Truth(value) = value { value } else { None })
                    .collect::<BooleanArray>(),
            ),
            DataType::Utf8 => Arc::new(
                values
                    .map(|value| if let Text(value) = value { value } else { None })
                    .collect::<StringArray>(),
            ),
            _ => {
                let lists = values.map(|value| match value {
                    Names(names) => {
                        let names: Vec<ScalarValue> = names.into_iter().map(ScalarValue::from).collect();
                        ScalarValue::List(ScalarValue::new_list_nullable(&names, &DataType::Utf8))
                    }
                    _ => ScalarValue::List(ScalarValue::new_list_nullable(&[], &DataType::Utf8)),
                });
                ScalarValue::iter_to_array(lists)?
            }
        })
    }
}
