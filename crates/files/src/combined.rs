//! Several files as one table, each with columns of its own: files whose columns are brought together
//! by their names, and directories whose names say what the files in them have in common, as in
//! `year=2025/month=1/orders.parquet`.

use crate::input::check_regular;
use crate::option::ReadOptions;
use crate::parquet_table::{ParquetTable, Partitions};
use crate::path::FileFormat;
use crate::table::{ResolveType, open_table};
use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Union, lit};
use hypostyle_error::from_datafusion;
use hypostyle_types::{Error, Result};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// How files become one table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Combined {
    /// Columns of the same name belong together, and those that a file lacks are NULL there;
    /// otherwise all files have the columns of the first.
    pub by_name: bool,
    /// Directories `name=value` are columns.
    pub with_directories: bool,
    /// The path of each row's file is a column.
    pub with_paths: bool,
}

/// The column of the path of each row's file.
const PATH_COLUMN: &str = "filename";

/// A file's name in directories, as pairs of the column and its value.
type Directories = Vec<(String, String)>;

fn keys(of: &[(String, String)]) -> Vec<&str> {
    of.iter().map(|(name, _)| name.as_str()).collect()
}

/// Returns the columns that directories are, as an error says them.
fn named(of: &[(String, String)]) -> String {
    let keys: Vec<&str> = keys(of).into_iter().filter(|key| *key != PATH_COLUMN).collect();
    match keys.as_slice() {
        [] => "no columns".to_string(),
        [one] => format!("the column {one}"),
        several => format!("the columns {}", several.join(", ")),
    }
}

/// The rows of some files.
struct Part {
    plan: LogicalPlan,
    columns: Vec<(String, DataType)>,
}

impl Combined {
    /// Returns how some files become one table. Their directories are columns if that is said, or
    /// if nothing is, and all files are in directories of the same names.
    pub fn of(files: &[PathBuf], by_name: bool, with_directories: Option<bool>) -> Self {
        let have_same_directories = || {
            let names =
                |file: &PathBuf| directories_of(file).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
            let first = files.first().map(names).filter(|first| !first.is_empty());
            first.is_some_and(|first| files.iter().all(|file| names(file) == first))
        };
        let with_directories = with_directories.unwrap_or_else(have_same_directories);
        Self { by_name, with_directories, with_paths: false }
    }

    /// Returns the table that files of one format hold.
    ///
    /// # Errors
    /// As [`open_table`]; `InvalidInput` for files in directories of other names than the first, and
    /// for files of other columns unless they are brought together by name.
    pub fn open(
        self,
        files: Vec<PathBuf>,
        format: FileFormat,
        options: &ReadOptions,
        resolve: ResolveType<'_>,
    ) -> Result<Arc<dyn TableProvider>> {
        if !self.by_name && !self.with_directories && !self.with_paths {
            return open_table(files, format, options, resolve);
        }
        let groups = self.groups(files)?;
        let types = types_of(&groups);
        if format == FileFormat::Parquet && !self.by_name {
            for (_, files) in &groups {
                check_regular(files, format.name())?;
            }
            return Ok(Arc::new(partitioned(groups, &types)?));
        }
        let mut parts: Vec<Part> = Vec::with_capacity(groups.len());
        for (directories, files) in groups {
            let shown = files[0].display().to_string();
            let table = open_table(files, format, options, resolve)?;
            let part = Part::new(table, &directories, &types).map_err(from_datafusion)?;
            if let Some(first) = parts.first().filter(|first| !self.by_name && !first.has_names_of(&part)) {
                let names = |part: &Part| {
                    part.columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
                };
                let message = format!(
                    "\"{shown}\" has the columns {}, and files before it have {}; bring them together with \
                     union_by_name => true",
                    names(&part),
                    names(first)
                );
                return Err(Error::invalid_input(message));
            }
            parts.push(part);
        }
        let plan = together(parts).map_err(from_datafusion)?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }

    /// Returns the files that are read as one table: each by itself, or those of a directory.
    fn groups(self, files: Vec<PathBuf>) -> Result<Vec<(Directories, Vec<PathBuf>)>> {
        let mut groups: Vec<(Directories, Vec<PathBuf>)> = Vec::new();
        for file in files {
            let mut directories = if self.with_directories { directories_of(&file) } else { Vec::new() };
            if self.with_paths {
                directories.push((PATH_COLUMN.to_string(), file.to_string_lossy().into_owned()));
            }
            if let Some((first, files)) =
                groups.first().filter(|(first, _)| keys(first) != keys(&directories))
            {
                return Err(Error::invalid_input(format!(
                    "the directories of \"{}\" give {}, and those of \"{}\" {}; read files of the same columns, \
                     or leave the directories out with hive_partitioning => false",
                    file.display(),
                    named(&directories),
                    files[0].display(),
                    named(first),
                )));
            }
            match groups.last_mut() {
                Some((last, files)) if !self.by_name && *last == directories => files.push(file),
                _ => groups.push((directories, vec![file])),
            }
        }
        Ok(groups)
    }
}

/// Returns Parquet files as one table, which leaves out files by their directories.
fn partitioned(groups: Vec<(Directories, Vec<PathBuf>)>, types: &[DataType]) -> Result<ParquetTable> {
    let names = groups.first().map(|(directories, _)| directories.clone()).unwrap_or_default();
    let fields = names.iter().zip(types).map(|((name, _), of)| Arc::new(Field::new(name, of.clone(), true)));
    let mut partitions = Partitions { fields: fields.collect(), values: Vec::new() };
    let mut files = Vec::new();
    for (directories, of) in groups {
        let values = directories.iter().zip(types).map(|((_, value), of)| typed(value, of));
        let values = values.collect::<DataFusionResult<Vec<_>>>().map_err(from_datafusion)?;
        partitions.values.extend(of.iter().map(|_| values.clone()));
        files.extend(of);
    }
    ParquetTable::open(&files, partitions)
}

/// Returns the value that a directory stands for.
fn typed(value: &str, of: &DataType) -> DataFusionResult<ScalarValue> {
    let text = if value == HIVE_NULL { ScalarValue::Utf8(None) } else { ScalarValue::from(value) };
    text.cast_to(of)
}

impl Part {
    fn new(
        table: Arc<dyn TableProvider>,
        directories: &Directories,
        types: &[DataType],
    ) -> DataFusionResult<Self> {
        let own = table.schema();
        let builder = LogicalPlanBuilder::scan(FILE, provider_as_source(table), None)?;
        let mut columns = Vec::new();
        let mut items = Vec::new();
        // A directory says more than a column of the same name, as in DuckDB.
        for field in
            own.fields().iter().filter(|field| !directories.iter().any(|(name, _)| name == field.name()))
        {
            columns.push((field.name().clone(), field.data_type().clone()));
            items.push(Expr::Column(Column::new(Some(FILE), field.name())).alias(field.name()));
        }
        for ((name, value), of) in directories.iter().zip(types) {
            columns.push((name.clone(), of.clone()));
            items.push(lit(typed(value, of)?).alias(name));
        }
        Ok(Self { plan: builder.project(items)?.build()?, columns })
    }

    fn has_names_of(&self, other: &Self) -> bool {
        self.columns.len() == other.columns.len()
            && self.columns.iter().all(|(name, _)| other.columns.iter().any(|(known, _)| known == name))
    }
}

type DataFusionResult<T> = std::result::Result<T, DataFusionError>;

/// What the files are called in plans.
const FILE: &str = "file";

/// What stands in the name of a directory for NULL.
const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Returns `name=value` of each directory that a file is in.
fn directories_of(file: &Path) -> Directories {
    let parts = file.parent().into_iter().flat_map(Path::components);
    let pairs = parts.filter_map(|part| match part {
        Component::Normal(name) => name.to_str()?.split_once('=').filter(|(name, _)| !name.is_empty()),
        _ => None,
    });
    pairs.map(|(name, value)| (name.to_string(), decoded(value))).collect()
}

/// Returns a value with the characters that are written as `%2F`.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let coded = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match coded.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| value.to_string())
}

/// Returns the type of each directory's values: BIGINT, DATE or TIMESTAMP where all of them are
/// such, else VARCHAR.
fn types_of(groups: &[(Directories, Vec<PathBuf>)]) -> Vec<DataType> {
    let count = groups.first().map_or(0, |(directories, _)| directories.len());
    let values = |place: usize| {
        groups
            .iter()
            .map(move |(directories, _)| directories[place].1.as_str())
            .filter(|value| *value != HIVE_NULL)
    };
    let is_date = |value: &str| chrono::NaiveDate::parse_from_str(value, "%Y-%m-%d").is_ok();
    let is_moment = |value: &str| {
        ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"]
            .iter()
            .any(|form| chrono::NaiveDateTime::parse_from_str(value, form).is_ok())
    };
    (0..count)
        .map(|place| match () {
            () if groups.iter().any(|(directories, _)| directories[place].0 == PATH_COLUMN) => {
                DataType::Utf8View
            }
            () if values(place).all(|value| value.parse::<i64>().is_ok()) => DataType::Int64,
            () if values(place).all(is_date) => DataType::Date32,
            () if values(place).all(is_moment) => DataType::Timestamp(TimeUnit::Microsecond, None),
            () => DataType::Utf8View,
        })
        .collect()
}

/// Returns the type of columns of two files: VARCHAR where one of them is, or there is no other.
fn common_type(one: &DataType, other: &DataType) -> DataType {
    let is_text = one.is_string() || other.is_string();
    let types = [one.clone(), other.clone()];
    type_union_resolution(&types).filter(|_| !is_text).unwrap_or(DataType::Utf8View)
}

/// Returns the rows of all parts, with the columns of all in the order in which they come first.
fn together(parts: Vec<Part>) -> DataFusionResult<LogicalPlan> {
    let mut columns: Vec<(String, DataType)> = Vec::new();
    for (name, of) in parts.iter().flat_map(|part| &part.columns) {
        match columns.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) if known != of => {
                *known = common_type(known, of);
            }
            Some(_) => {}
            None => columns.push((name.clone(), of.clone())),
        }
    }
    let with_all = |part: Part| {
        let items = columns.iter().map(|(name, wanted)| {
            let own = part.columns.iter().find(|(known, _)| known == name);
            let value = match own {
                Some((_, of)) if of == wanted => Expr::Column(Column::new_unqualified(name)),
                Some(_) => Expr::Cast(Cast::new(
                    Box::new(Expr::Column(Column::new_unqualified(name))),
                    wanted.clone(),
                )),
                None => lit(ScalarValue::try_from(wanted)?),
            };
            Ok(value.alias(name))
        });
        let items = items.collect::<DataFusionResult<Vec<_>>>()?;
        Ok(Arc::new(LogicalPlanBuilder::from(part.plan).project(items)?.build()?))
    };
    let mut inputs = parts.into_iter().map(with_all).collect::<DataFusionResult<Vec<_>>>()?;
    match inputs.len() {
        1 => Ok(Arc::unwrap_or_clone(inputs.remove(0))),
        _ => Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)),
    }
}
