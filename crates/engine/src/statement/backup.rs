//! BACKUP DATABASE TO, BACKUP CLUSTER TO, EXPORT DATABASE and IMPORT DATABASE.

use crate::session::outcome::DONE;
use crate::session::{Outcome, Parameters, Session};
use crate::statement::definer::Ddl;
use crate::statement::dialect::{extension, parse};
use crate::statement::names::Names;
use arrow::array::{ArrayRef, StringArray};
use arrow::record_batch::RecordBatch;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{CreateView, ObjectName, Statement};
use hypostyle_catalog::pg_catalog::quote_name;
use hypostyle_catalog::scope::Name;
use hypostyle_cluster::node::Node;
use hypostyle_sql::build;
use hypostyle_sql::exported::is_exported;
use hypostyle_sql::identifier::quoted;
use hypostyle_sql::kind::{Kind, StatementKind};
use hypostyle_sql::split::split_statements;
use hypostyle_sql::statement::{CopyFrom, CopyTo, CopyValue, CreateMaterialized};
use hypostyle_storage::{
    Catalog, ConstraintRule, DeclaredIndex, Identity, ReferentialAction, SCHEMA_MAIN, SequenceEntry,
    TableEntry, ViewEntry, unknown_table,
};
use hypostyle_types::{ColumnId, Error, LogicalType, Result, StructField, TimeUnit};
use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SCHEMA_FILE: &str = "schema.sql";
const LOAD_FILE: &str = "load.sql";

/// The bytes of a schema's or a table's name in the name of a file. File systems allow 255 in all,
/// and COPY adds 39 to the name of an incomplete file.
const FILE_NAME_BYTES: usize = 80;

impl Session {
    pub(super) fn backup(&self, path: &Path) -> Result<Outcome> {
        self.identity.privileges.check_machine("write files of this machine")?;
        let mut interrupted = Ok(());
        let result = self.scope.current_database()?.database.backup(path, |progress| {
            self.counters.done.store(progress.done, Ordering::Relaxed);
            self.counters.total.store(progress.total, Ordering::Relaxed);
            interrupted = self.check_interrupt();
            interrupted.is_ok()
        });
        interrupted?;
        result.map(|_| DONE)
    }

    /// Has each node of the cluster write a backup into a directory of its own below one.
    pub(super) fn backup_cluster(&self, node: &Node, directory: &str) -> Result<Outcome> {
        self.identity.privileges.check_machine("write files of the nodes")?;
        self.refuse_in_transaction("BACKUP CLUSTER")?;
        if directory.is_empty() {
            return Err(Error::invalid_input(
                "BACKUP CLUSTER TO '' names no directory: write the one that each node's backup gets into",
            ));
        }
        node.back_up_cluster(Path::new(directory), &|| self.check_interrupt()).map(|()| DONE)
    }

    /// Writes definitions as SQL and rows as Parquet files, for any release and for others to read.
    pub(super) fn export_database(&self, path: &Path) -> Result<Outcome> {
        self.identity.privileges.check_machine("write files of this machine")?;
        let doing = |error: std::io::Error| {
            Error::from_io(&error, format_args!("cannot export to \"{}\"", path.display()))
        };
        let is_new = !path.exists();
        if is_new {
            // The directory that it is in has to be there, as that of a new database.
            std::fs::create_dir(path).map_err(doing)?;
        }
        if std::fs::read_dir(path).map_err(doing)?.next().is_some() {
            return Err(Error::invalid_input(format!(
                "\"{}\" is not empty; export to a new directory",
                path.display()
            )));
        }
        let mut made = Vec::new();
        let result = self.export_to(path, &mut made);
        if result.is_err() {
            // Best effort: the error that matters is the first one.
            for file in &made {
                let _ = std::fs::remove_file(file);
            }
            if is_new {
                let _ = std::fs::remove_dir(path);
            }
        }
        result.map(|()| DONE)
    }

    /// Writes an export's files, and tells which.
    fn export_to(&self, path: &Path, made: &mut Vec<PathBuf>) -> Result<()> {
        let current = self.scope.current_database()?;
        let definitions = self.names().exported_definitions(&current.name, current.snapshot.catalog());
        let mut load = String::new();
        let mut files = HashSet::new();
        for entry in &definitions.tables {
            if entry.is_unpopulated() {
                continue;
            }
            let file = new_file_name(&entry.schema, &entry.name, &mut files);
            let target = path.join(&file);
            made.push(target.clone());
            let name = vec![build::name(&entry.schema), build::name(&entry.name)];
            let query = Box::new(build::all_rows(build::table(name, None)));
            let options = vec![("format".to_string(), CopyValue::Text("parquet".into()))];
            self.copy_to(CopyTo { query, path: target.to_string_lossy().into(), options })?;
            writeln!(load, "COPY {} FROM {} (FORMAT parquet);", name_of_table(entry), literal(&file))
                .map_err(text_error)?;
        }
        load.push_str(&definitions_after(&definitions)?);
        for (file, text) in [(SCHEMA_FILE, definitions_before(&definitions)?), (LOAD_FILE, load)] {
            let file = path.join(file);
            made.push(file.clone());
            std::fs::write(&file, text).map_err(|error| {
                Error::from_io(&error, format_args!("cannot write \"{}\"", file.display()))
            })?;
        }
        Ok(())
    }

    /// Runs what EXPORT DATABASE has written, and nothing else; all of it, or nothing. A view that
    /// did not work where it was exported does not work here either.
    pub(super) fn import_database(&self, path: &Path) -> Result<Outcome> {
        self.identity.privileges.check_machine("read files of this machine")?;
        let read = |name: &str| {
            let file = path.join(name);
            std::fs::read_to_string(&file)
                .map_err(|error| Error::from_io(&error, format_args!("cannot read \"{}\"", file.display())))
        };
        let (schema, load) = (read(SCHEMA_FILE)?, read(LOAD_FILE)?);
        let own = !self.is_in_transaction();
        if own {
            self.begin(&[])?;
        }
        let run = || -> Result<()> {
            for statement in split_statements(&schema).iter().chain(&split_statements(&load)) {
                self.refresh()?;
                if let Some(view) = exported_view(statement)? {
                    self.ddl().import_view(&view)?;
                    continue;
                }
                if Kind::read(statement).tag() == MATERIALIZED {
                    self.ddl().import_materialized(exported_materialized(statement)?)?;
                    continue;
                }
                check_exported(statement)?;
                let outcome = match Kind::read(statement).class() {
                    StatementKind::Copy => self.copy_from(exported_copy(statement, path)?)?,
                    _ => self.execute_one(statement, &Parameters::None)?,
                };
                self.finish(outcome)?;
            }
            Ok(())
        };
        let result = run();
        if own {
            match &result {
                Ok(()) => drop(self.commit(false)?),
                Err(_) => drop(self.roll_back(false, None)?),
            }
        }
        result.map(|()| DONE)
    }
}

impl Ddl<'_> {
    /// Makes a view that is not planned: what it reads may come later, or be gone.
    fn import_view(&self, view: &CreateView) -> Result<()> {
        let Name { database, schema, name } = self.resolve_new(&view.name, false)?;
        let sql = view.query.to_string();
        self.databases
            .write(&database, |writer| writer.create_view(ViewEntry { schema, name, sql, comment: None }))
    }
}

/// What the statement says by which a table with its rows becomes a materialized view.
const MATERIALIZED: &str = "CREATE MATERIALIZED VIEW";

/// Returns the materialized view that an exported statement makes.
fn exported_materialized(statement: &str) -> Result<CreateMaterialized> {
    match hypostyle_sql::Statement::parse(statement, None, extension(false))? {
        hypostyle_sql::Statement::CreateMaterialized(view) => Ok(view),
        _ => Err(Error::invalid_input("an exported materialized view is CREATE MATERIALIZED VIEW … AS …")),
    }
}

/// Returns the view that a statement makes, if it is written as EXPORT DATABASE does.
fn exported_view(statement: &str) -> Result<Option<CreateView>> {
    if Kind::read(statement).tag() != "CREATE VIEW" {
        return Ok(None);
    }
    let DfStatement::Statement(parsed) = parse(statement)? else { return Ok(None) };
    match *parsed {
        Statement::CreateView(view)
            if view.columns.is_empty() && !view.if_not_exists && !view.or_replace && !view.temporary =>
        {
            Ok(Some(view))
        }
        _ => Ok(None),
    }
}

/// Returns the COPY of an exported statement, whose file is looked up in the directory.
fn exported_copy(statement: &str, directory: &Path) -> Result<CopyFrom> {
    match hypostyle_sql::Statement::parse(statement, None, extension(false))? {
        hypostyle_sql::Statement::CopyFrom(copy) => {
            let path = format!("{}/{}", directory.to_string_lossy(), copy.path);
            Ok(CopyFrom { path, ..copy })
        }
        _ => Err(Error::invalid_input("exported rows are COPY … FROM 'file' (FORMAT parquet)")),
    }
}

/// Checks a statement of an exported directory. A user who can write to the directory may not run
/// anything else: only definitions, and the rows of files beside them.
///
/// # Errors
/// `InvalidInput` with the beginning of any other statement.
fn check_exported(statement: &str) -> Result<()> {
    if is_exported(statement)? {
        return Ok(());
    }
    let shown: String = statement.chars().take(80).collect();
    Err(Error::invalid_input(format!(
        "IMPORT DATABASE runs what EXPORT DATABASE writes; this is something else: {shown}"
    )))
}

/// Returns the name of a table's file: its own name as far as every file system can have it, and
/// unlike all others, also where upper and lower case are the same.
fn new_file_name(schema: &str, table: &str, others: &mut HashSet<String>) -> String {
    let stem = format!("{}.{}", file_name_of(schema), file_name_of(table));
    let mut name = format!("{stem}.parquet");
    for number in 2.. {
        if others.insert(name.to_lowercase()) {
            break;
        }
        name = format!("{stem}.{number}.parquet");
    }
    name
}

fn file_name_of(name: &str) -> String {
    let mut safe = String::new();
    for character in name.chars() {
        let is_safe = character.is_alphanumeric() || character == '_' || character == '-';
        safe.push(if is_safe { character } else { '_' });
        if safe.len() >= FILE_NAME_BYTES {
            break;
        }
    }
    safe
}

fn text_error(error: std::fmt::Error) -> Error {
    Error::internal(format!("cannot write definitions: {error}"))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns a type as the parser reads it wherever it stands: STRUCT(…) and MAP(…) are of different
/// dialects.
fn type_text(logical_type: &LogicalType) -> String {
    match logical_type {
        LogicalType::Timestamp { unit, time_zone: Some(_) } => {
            let digits = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            format!("TIMESTAMP({digits}) WITH TIME ZONE")
        }
        LogicalType::List { element } => format!("{}[]", type_text(element)),
        LogicalType::Array { element, length } => format!("{}[{length}]", type_text(element)),
        LogicalType::Struct { fields } => {
            let field =
                |field: &StructField| format!("{} {}", quoted(&field.name), type_text(&field.logical_type));
            // The parser would take >>[] for a list within the inner struct.
            format!("STRUCT<{} >", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        LogicalType::Map { key, value } => format!("MAP({}, {})", type_text(key), type_text(value)),
        other => other.to_string(),
    }
}

fn name_of_table(table: &TableEntry) -> String {
    format!("{}.{}", quoted(&table.schema), quoted(&table.name))
}

fn column_list(table: &TableEntry, ids: &[ColumnId], quote: Quote) -> String {
    let names = ids.iter().filter_map(|id| table.column_by_id(*id)).map(|column| quote(&column.name));
    names.collect::<Vec<_>>().join(", ")
}

fn name_of_sequence(sequence: &SequenceEntry) -> String {
    format!("{}.{}", quoted(&sequence.schema), quoted(&sequence.name))
}

fn clauses(sequence: &SequenceEntry) -> String {
    let SequenceEntry { increment, min, max, start, cycle, .. } = sequence;
    let cycle = if *cycle { " CYCLE" } else { "" };
    format!("INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} START WITH {start}{cycle}")
}

impl Names<'_> {
    /// Returns `SHOW CREATE TABLE t`: a row with the statement.
    pub(super) fn show_create(&self, name: &ObjectName) -> Result<Outcome> {
        let Name { database, schema, name } = self.resolve(name)?;
        let snapshot = self.snapshot_of(&database)?;
        let catalog = snapshot.catalog();
        let statement = match (catalog.table(&schema, &name), catalog.view(&schema, &name)) {
            (Some(table), _) => create_table(table, catalog),
            (None, Some(view)) => {
                let schema = if schema == SCHEMA_MAIN { String::new() } else { quote_name(&schema) + "." };
                format!("CREATE VIEW {schema}{} AS {}", quote_name(&name), view.sql)
            }
            (None, None) => return Err(unknown_table(catalog, &name)),
        };
        let column = |text: String| Arc::new(StringArray::from(vec![text])) as ArrayRef;
        let columns = [("table_name", column(name)), ("create_statement", column(statement))];
        let batch = RecordBatch::try_from_iter(columns)
            .map_err(|error| Error::internal(format!("cannot show a definition: {error}")))?;
        Ok(Outcome::batch(batch))
    }
}

/// Schemas, sequences and tables as SQL, but for what refers to other tables.
fn definitions_before(catalog: &Catalog) -> Result<String> {
    let mut sql = String::new();
    for schema in catalog.schemas.iter().filter(|schema| schema.name != SCHEMA_MAIN) {
        writeln!(sql, "CREATE SCHEMA {};", quoted(&schema.name)).map_err(text_error)?;
    }
    for sequence in &catalog.sequences {
        writeln!(sql, "CREATE SEQUENCE {} {};", name_of_sequence(sequence), clauses(sequence))
            .map_err(text_error)?;
    }
    for table in &catalog.tables {
        let items = items(table, quoted).join(",\n    ");
        writeln!(sql, "CREATE TABLE {} (\n    {items}\n);", name_of_table(table)).map_err(text_error)?;
    }
    for definition in &catalog.macros {
        writeln!(sql, "{};", definition.sql).map_err(text_error)?;
    }
    Ok(sql)
}

/// The way in which names are written: always in quotes, or only if they need them.
type Quote = fn(&str) -> String;

/// Returns the columns of a table as SQL, without what sequences do for them, and its constraints,
/// but for those that refer to other tables.
fn items(table: &TableEntry, quote: Quote) -> Vec<String> {
    let columns = table.columns.iter().map(|column| {
        let default = match (&column.default, &column.generated) {
            (Some(default), _) => format!(" DEFAULT {default}"),
            (None, Some(sql)) => format!(" GENERATED ALWAYS AS ({sql}) STORED"),
            (None, None) => String::new(),
        };
        let not_null = if column.nullable { "" } else { " NOT NULL" };
        format!("{} {}{not_null}{default}", quote(&column.name), type_text(&column.logical_type))
    });
    let constraints = table.constraints.iter().filter_map(|constraint| {
        let rule = match &constraint.rule {
            ConstraintRule::PrimaryKey { columns } => {
                format!("PRIMARY KEY ({})", column_list(table, columns, quote))
            }
            ConstraintRule::Unique { columns } => format!("UNIQUE ({})", column_list(table, columns, quote)),
            ConstraintRule::Check { sql } => format!("CHECK ({sql})"),
            ConstraintRule::ForeignKey { .. } => return None,
        };
        Some(format!("CONSTRAINT {} {rule}", quote(&constraint.name)))
    });
    columns.chain(constraints).collect()
}

/// Returns a statement that makes a table like this one, where those are that it refers to.
pub(crate) fn create_table(table: &TableEntry, catalog: &Catalog) -> String {
    let name = |schema: &str, name: &str| match schema {
        SCHEMA_MAIN => quote_name(name),
        other => format!("{}.{}", quote_name(other), quote_name(name)),
    };
    let mut items = items(table, quote_name);
    for (item, column) in items.iter_mut().zip(&table.columns) {
        match column.identity {
            Some(Identity::Always) => item.push_str(" GENERATED ALWAYS AS IDENTITY"),
            Some(Identity::ByDefault) => item.push_str(" GENERATED BY DEFAULT AS IDENTITY"),
            None => {}
        }
    }
    for constraint in &table.constraints {
        if let ConstraintRule::ForeignKey { columns, table: other, referred, on_delete, on_update } =
            &constraint.rule
            && let Some(other) = catalog.table_by_id(*other)
        {
            let mut item = format!(
                "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({})",
                quote_name(&constraint.name),
                column_list(table, columns, quote_name),
                name(&other.schema, &other.name),
                column_list(other, referred, quote_name)
            );
            for (event, what) in [("DELETE", on_delete), ("UPDATE", on_update)] {
                if *what != ReferentialAction::NoAction {
                    item.push_str(&format!(" ON {event} {}", what.sql()));
                }
            }
            item.push_str(constraint.deferral.sql());
            items.push(item);
        }
    }
    format!("CREATE TABLE {} (\n  {}\n)", name(&table.schema, &table.name), items.join(",\n  "))
}

/// Returns foreign keys, the state and the owners of sequences, comments and views as SQL.
fn definitions_after(catalog: &Catalog) -> Result<String> {
    let mut sql = String::new();
    write_sequences(&mut sql, catalog).map_err(text_error)?;
    for table in &catalog.tables {
        write_foreign_keys(&mut sql, catalog, table).map_err(text_error)?;
        write_additions(&mut sql, table).map_err(text_error)?;
    }
    write_views(&mut sql, catalog).map_err(text_error)?;
    for table in &catalog.tables {
        let Some(query) = &table.query else { continue };
        let data = if query.populated { "DATA" } else { "NO DATA" };
        writeln!(sql, "{MATERIALIZED} {} AS {} WITH {data};", name_of_table(table), query.sql)
            .map_err(text_error)?;
    }
    Ok(sql)
}

/// Writes where sequences are, and to which columns they belong.
fn write_sequences(sql: &mut String, catalog: &Catalog) -> std::fmt::Result {
    for sequence in &catalog.sequences {
        let (name, state) = (name_of_sequence(sequence), sequence.state);
        writeln!(sql, "SELECT setval({}, {}, {});", literal(&name), state.last, state.is_called)?;
        let owner = sequence.owner.and_then(|owner| {
            let table = catalog.table_by_id(owner.table)?;
            Some(format!("{}.{}", name_of_table(table), quoted(&table.column_by_id(owner.column)?.name)))
        });
        if let Some(owner) = owner {
            writeln!(sql, "ALTER SEQUENCE {name} OWNED BY {owner};")?;
        }
    }
    Ok(())
}

fn write_foreign_keys(sql: &mut String, catalog: &Catalog, table: &TableEntry) -> std::fmt::Result {
    for constraint in &table.constraints {
        let ConstraintRule::ForeignKey { columns, table: other, referred, on_delete, on_update } =
            &constraint.rule
        else {
            continue;
        };
        let Some(other) = catalog.table_by_id(*other) else { continue };
        writeln!(
            sql,
            "ALTER TABLE {} ADD CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({}) ON DELETE {} ON UPDATE {}{};",
            name_of_table(table),
            quoted(&constraint.name),
            column_list(table, columns, quoted),
            name_of_table(other),
            column_list(other, referred, quoted),
            on_delete.sql(),
            on_update.sql(),
            constraint.deferral.sql()
        )?;
    }
    Ok(())
}

/// Writes what is added to a table that has its rows: indexes, identities and comments.
fn write_additions(sql: &mut String, table: &TableEntry) -> std::fmt::Result {
    let name_in_full = name_of_table(table);
    for constraint in &table.constraints {
        if let Some(comment) = &constraint.comment {
            let name = quoted(&constraint.name);
            writeln!(sql, "COMMENT ON CONSTRAINT {name} ON {name_in_full} IS {};", literal(comment))?;
        }
    }
    for index in &table.indexes {
        let order = match index.kind {
            DeclaredIndex::Key => "",
            DeclaredIndex::Order => "ORDER ",
        };
        let (name, columns) = (quoted(&index.name), column_list(table, &index.columns, quoted));
        writeln!(sql, "CREATE {order}INDEX {name} ON {name_in_full} ({columns});")?;
    }
    if let Some(comment) = &table.comment {
        writeln!(sql, "COMMENT ON TABLE {name_in_full} IS {};", literal(comment))?;
    }
    for column in &table.columns {
        let name = quoted(&column.name);
        // It is not created before its rows are loaded. It keeps the sequence that it owns.
        if let Some(identity) = column.identity {
            let how = if identity == Identity::Always { "ALWAYS" } else { "BY DEFAULT" };
            writeln!(sql, "ALTER TABLE {name_in_full} ALTER COLUMN {name} ADD GENERATED {how} AS IDENTITY;")?;
        }
        if let Some(comment) = &column.comment {
            writeln!(sql, "COMMENT ON COLUMN {name_in_full}.{name} IS {};", literal(comment))?;
        }
    }
    Ok(())
}

/// Writes views, and the comments on these, on sequences and on schemas.
fn write_views(sql: &mut String, catalog: &Catalog) -> std::fmt::Result {
    let mut comments = Vec::new();
    for view in &catalog.views {
        let name = format!("{}.{}", quoted(&view.schema), quoted(&view.name));
        writeln!(sql, "CREATE VIEW {name} AS {};", view.sql)?;
        comments.push(("VIEW", name, &view.comment));
    }
    let sequences = catalog.sequences.iter();
    comments.extend(sequences.map(|entry| ("SEQUENCE", name_of_sequence(entry), &entry.comment)));
    comments.extend(catalog.schemas.iter().map(|entry| ("SCHEMA", quoted(&entry.name), &entry.comment)));
    for (what, name, comment) in comments {
        if let Some(comment) = comment {
            writeln!(sql, "COMMENT ON {what} {name} IS {};", literal(comment))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle_expr::types::logical_type;

    #[test]
    fn files_have_names_of_their_own_within_the_directory() {
        let mut files = HashSet::new();
        let mut name = |schema: &str, table: &str| new_file_name(schema, table, &mut files);
        assert_eq!(name("main", "orders"), "main.orders.parquet");
        assert_eq!(name("other", "Straße 7"), "other.Straße_7.parquet");
        assert_eq!(name("/tmp/x", "t"), "_tmp_x.t.parquet");
        assert_eq!(name("..", "../t"), "__.___t.parquet");
        assert_eq!(name("a", "b.c"), "a.b_c.parquet");
        assert_eq!(name("a.b", "c"), "a_b.c.parquet");
        assert_eq!(name("a", "b c"), "a.b_c.2.parquet");
        assert_eq!(name("A", "B C"), "A.B_C.3.parquet");
        let long = "ä".repeat(127);
        assert_eq!(name(&long, &long).len(), 169);
        assert_eq!(name(&long, &long).len(), 171);
    }

    #[test]
    fn the_file_of_copy_is_in_the_directory() {
        let statement = "COPY \"main\".\"x FROM 'y\" FROM 'main.x.parquet' (FORMAT parquet)";
        let copy = exported_copy(statement, Path::new("/it's")).unwrap();
        assert_eq!((copy.path.as_str(), copy.options.len()), ("/it's/main.x.parquet", 1));
        assert!(exported_copy("COPY t TO 'x.parquet'", Path::new("/")).is_err());
    }

    #[test]
    fn types_are_read_as_they_are_exported() {
        let list = |element| LogicalType::List { element: Box::new(element) };
        let structure = |name: &str, logical_type| LogicalType::Struct {
            fields: vec![StructField { name: name.into(), logical_type }],
        };
        let map = |value| LogicalType::Map { key: Box::new(LogicalType::Varchar), value: Box::new(value) };
        let zoned = |unit| LogicalType::Timestamp { unit, time_zone: Some("UTC".into()) };
        let types = [
            list(structure("A b", structure("c", LogicalType::Interval))),
            map(list(structure("a", map(LogicalType::Uuid)))),
            LogicalType::Array { element: Box::new(map(LogicalType::Json)), length: 3 },
            list(zoned(TimeUnit::Second)),
            zoned(TimeUnit::Nanosecond),
            LogicalType::Duration { unit: TimeUnit::Millisecond },
        ];
        for expected in types {
            let sql = format!("CREATE TABLE t (a MAP(INTEGER, INTEGER), b {})", type_text(&expected));
            let DfStatement::Statement(statement) = parse(&sql).unwrap() else { panic!("{sql}") };
            let Statement::CreateTable(create) = *statement else { panic!("{sql}") };
            assert_eq!(logical_type(&create.columns[1].data_type).unwrap(), expected, "{sql}");
        }
    }

    #[test]
    fn views_are_taken_as_they_were_exported() {
        let view = exported_view("CREATE VIEW \"main\".\"v\" AS SELECT a FROM nowhere").unwrap().unwrap();
        assert_eq!(view.query.to_string(), "SELECT a FROM nowhere");
        for other in ["CREATE VIEW v (b) AS", "CREATE OR REPLACE VIEW v AS", "CREATE TEMP VIEW v AS"] {
            assert!(exported_view(&format!("{other} SELECT a FROM t")).unwrap().is_none(), "{other}");
        }
        assert!(exported_view("CREATE TABLE t (a BIGINT)").unwrap().is_none());
    }
}
