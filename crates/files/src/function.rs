//! `read_csv(…)`, `read_parquet(…)`, `read_json(…)`, `read_text(…)` and the like in FROM, and their named
//! arguments.
//!
//! DataFusion's planner hands positional arguments to a table function and refuses named ones, so
//! [`NamedArguments`] turns `f(path, name => value)` into `f(path, 'name', value)` before it plans.

use crate::combined::Combined;
use crate::csv::sniffed;
use crate::input::{Input, Pipes, Reading};
use crate::known_files::KnownFiles;
use crate::option::{OF_SEVERAL_FILES, Pair, ReadOptions, elements, take_flag, text_of};
use crate::path::{FileFormat, expand, looks_like_path};
use crate::whole_file::WholeFiles;
use arrow::array::{RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use hypostyle_expr::said::in_plans;
use hypostyle_expr::types::logical_type;
use hypostyle_types::Privileges;
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};
use std::path::PathBuf;
use std::sync::Arc;

const FUNCTIONS: [(&str, FileFormat); 9] = [
    ("read_csv", FileFormat::Csv),
    ("read_csv_auto", FileFormat::Csv),
    ("read_parquet", FileFormat::Parquet),
    ("parquet_scan", FileFormat::Parquet),
    ("read_json", FileFormat::Json),
    ("read_json_auto", FileFormat::Json),
    ("read_ndjson", FileFormat::Json),
    ("read_ndjson_auto", FileFormat::Json),
    ("read_arrow", FileFormat::Arrow),
];

/// The function that tells what is found out of a CSV file.
const SNIFF: &str = "sniff_csv";

/// The function that gives the names of files.
const GLOB: &str = "glob";

/// The functions that give files as they are, and whether these are texts.
const WHOLE: [(&str, bool); 2] = [("read_text", true), ("read_blob", false)];

/// Makes the file functions known to a session. Arguments that have names come as these and their values.
pub fn register(context: &SessionContext) {
    for (name, format) in FUNCTIONS {
        context.register_udtf(name, Arc::new(ReadFunction { name, format }));
    }
    context.register_udtf(SNIFF, Arc::new(SniffFunction));
    context.register_udtf(GLOB, Arc::new(GlobFunction));
    for (name, are_texts) in WHOLE {
        context.register_udtf(name, Arc::new(WholeFunction { name, are_texts }));
    }
    let state = context.state_ref();
    state.write().config_mut().set_extension(Arc::new(Pipes::default()));
    state.write().config_mut().set_extension(Arc::new(KnownFiles::default()));
}

/// Returns the table of a file that stands where a table's name does, as in
/// `FROM 'orders.parquet'`.
///
/// `None` when the name does not look like a path.
pub async fn table_from_path(session: &dyn Session, name: &str) -> Option<Result<Arc<dyn TableProvider>>> {
    looks_like_path(name).then(|| {
        check_machine(session)?;
        let format = FileFormat::from_path(name).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("no table \"{name}\"; if it is a file, read it with read_csv('{name}') or the like"),
            )
        })?;
        let files = expand(&[name.to_string()])?;
        let combined = Combined::of(&files, false, None);
        let options = ReadOptions { reading: Reading::of(session.config()), ..ReadOptions::default() };
        combined.open(files, format, &options, &|name| resolve_type(session, name))
    })
}

/// Returns the function that reads a file of that name; `None` for what does not look like one.
pub fn reader_of(name: &str) -> Option<&'static str> {
    Some(match FileFormat::from_path(name)? {
        FileFormat::Csv => "read_csv",
        FileFormat::Parquet => "read_parquet",
        FileFormat::Json => "read_json",
        FileFormat::Arrow => "read_arrow",
    })
}

#[derive(Debug)]
struct ReadFunction {
    name: &'static str,
    format: FileFormat,
}

impl TableFunctionImpl for ReadFunction {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        self.open(args.exprs(), args.session()).map_err(|error| DataFusionError::External(Box::new(error)))
    }
}

impl ReadFunction {
    fn open(&self, arguments: &[Expr], session: &dyn Session) -> Result<Arc<dyn TableProvider>> {
        let (paths, mut pairs) = paths_and_options(self.name, arguments, session)?;
        let by_name = take_flag(self.name, &mut pairs, "union_by_name")?.unwrap_or(false);
        let with_directories = take_flag(self.name, &mut pairs, "hive_partitioning")?;
        let with_paths = take_flag(self.name, &mut pairs, "filename")?.unwrap_or(false);
        let mut options = ReadOptions::parse_beside(self.name, self.format, OF_SEVERAL_FILES, &pairs)?;
        options.reading = Reading::of(session.config());
        if options.rejects_table.is_some() {
            return Err(Error::unsupported(format!(
                "{}: a query writes no rejects_table; COPY … FROM does, and ignore_errors => true leaves the bad \
                 rows out",
                self.name
            )));
        }
        let files = expand(&paths)?;
        let combined = Combined { with_paths, ..Combined::of(&files, by_name, with_directories) };
        combined.open(files, self.format, &options, &|name| resolve_type(session, name))
    }
}

/// Returns the paths and the options in the arguments of a function, if the session may read files.
fn paths_and_options(
    name: &str,
    arguments: &[Expr],
    session: &dyn Session,
) -> Result<(Vec<String>, Vec<Pair>)> {
    check_machine(session)?;
    let usage = || {
        Error::invalid_input(format!(
            "{name} takes a path or a list of paths, then options: {name}('a.csv', name => value)"
        ))
    };
    let values: Vec<ScalarValue> = arguments.iter().map(literal).collect::<Option<_>>().ok_or_else(usage)?;
    let (paths, options) = values.split_first().ok_or_else(usage)?;
    let paths = match text_of(paths) {
        Some(path) => vec![path],
        None => elements(paths)
            .and_then(|paths| paths.iter().map(text_of).collect::<Option<Vec<_>>>())
            .filter(|paths| !paths.is_empty())
            .ok_or_else(usage)?,
    };
    let (pairs, []) = options.as_chunks::<2>() else { return Err(usage()) };
    let pairs = pairs.iter().map(|[name, value]| Some((text_of(name)?, value.clone())));
    Ok((paths, pairs.collect::<Option<_>>().ok_or_else(usage)?))
}

/// Returns the paths in the arguments of a function without options.
fn paths_alone(name: &str, arguments: &[Expr], session: &dyn Session) -> Result<Vec<String>> {
    let (paths, pairs) = paths_and_options(name, arguments, session)?;
    match pairs.is_empty() {
        true => Ok(paths),
        false => Err(Error::invalid_input(format!("{name} takes a path or a list of paths, and no options"))),
    }
}

#[derive(Debug)]
struct WholeFunction {
    name: &'static str,
    are_texts: bool,
}

impl TableFunctionImpl for WholeFunction {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        let files = paths_alone(self.name, args.exprs(), args.session()).and_then(|paths| expand(&paths));
        let table = files.and_then(|files| WholeFiles::of(files, self.are_texts));
        Ok(Arc::new(table.map_err(|error| DataFusionError::External(Box::new(error)))?))
    }
}

#[derive(Debug)]
struct SniffFunction;

impl TableFunctionImpl for SniffFunction {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        let row = || {
            let (paths, pairs) = paths_and_options(SNIFF, args.exprs(), args.session())?;
            let mut options = ReadOptions::parse(SNIFF, FileFormat::Csv, &pairs)?;
            options.reading = Reading::of(args.session().config());
            let files = Input::of(expand(&paths)?, &options)?;
            let first = files.first().ok_or_else(|| Error::internal("a pattern has no files"))?;
            sniffed(first, &options)
        };
        let row = row().map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(Arc::new(MemTable::try_new(row.schema(), vec![vec![row]])?))
    }
}

#[derive(Debug)]
struct GlobFunction;

impl GlobFunction {
    /// Returns the files that there are.
    fn files(arguments: &[Expr], session: &dyn Session) -> Result<Vec<PathBuf>> {
        let paths = paths_alone(GLOB, arguments, session)?;
        let mut files = Vec::new();
        for path in paths {
            match expand(&[path]) {
                Ok(found) => files.extend(found),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }
}

impl TableFunctionImpl for GlobFunction {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        let files = Self::files(args.exprs(), args.session());
        let files = files.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let names: StringViewArray = files.iter().map(|file| Some(file.to_string_lossy())).collect();
        let schema = Arc::new(Schema::new(vec![Field::new("file", DataType::Utf8View, true)]));
        let rows = RecordBatch::try_new(schema.clone(), vec![Arc::new(names)])?;
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![rows]])?))
    }
}

/// Checks that the session may read files. An unknown session may not.
fn check_machine(session: &dyn Session) -> Result<()> {
    let privileges = session.config().get_extension::<Privileges>();
    privileges.map_or(Privileges::READ, |found| *found).check_machine("read files of this machine")
}

fn literal(expression: &Expr) -> Option<ScalarValue> {
    match expression {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Alias(alias) => literal(&alias.expr),
        // The value is a bare word, as in `header => on`.
        Expr::Column(column) if column.relation.is_none() => Some(ScalarValue::from(column.name.as_str())),
        _ => None,
    }
}

/// Returns a field of the Arrow type that the session gives to the name of a SQL type. JSON and UUID are
/// told by the field alone.
fn resolve_type(session: &dyn Session, name: &str) -> Result<Field> {
    let written = written_type(name);
    if let Some(found @ (LogicalType::Json | LogicalType::Uuid)) = &written {
        return Ok(in_plans(&found.arrow_field("", true)));
    }
    let field = |of| Field::new("", of, true);
    let schema = DFSchema::empty();
    let unknown =
        || Error::invalid_input(format!("no type \"{name}\"; types are written as in CREATE TABLE"));
    let state = session.as_any().downcast_ref::<SessionState>().ok_or_else(unknown)?;
    match state.create_logical_expr(&format!("CAST(NULL AS {name})"), &schema) {
        Ok(cast) => cast.get_type(&schema).map(field).map_err(|_| unknown()),
        // DataFusion's parser does not read such as `STRUCT(a INTEGER)`.
        Err(_) => written.map(|found| field(found.arrow_type())).ok_or_else(unknown),
    }
}

/// Returns the type of a name as CREATE TABLE has it.
fn written_type(name: &str) -> Option<LogicalType> {
    let mut parser = Parser::new(&DuckDbDialect {}).try_with_sql(name).ok()?;
    let sql = parser.parse_data_type().ok().filter(|_| parser.peek_token_ref().token == Token::EOF)?;
    logical_type(&sql).ok()
}
