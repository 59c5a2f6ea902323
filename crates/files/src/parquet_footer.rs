//! Footers of Parquet files, checked before anything is read by them. What they say of rows is not
//! believed where the row groups say something else, and columns get names of their own.

use crate::damage::{not_that_format, unless_damaged};
use crate::file_column::own_names;
use crate::nested::with_parts;
use crate::path::open_plain;
use crate::uuid_column::uuid_leaves;
use arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::parquet::arrow::ARROW_SCHEMA_META_KEY;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderMetadata;
use datafusion::parquet::basic::LogicalType as ParquetType;
use datafusion::parquet::errors::Result as ParquetResult;
use datafusion::parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter,
    RowGroupMetaData,
};
use datafusion::parquet::schema::types::{ColumnDescPtr, SchemaDescriptor, Type, TypePtr};
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// What tells a file from another one of its name.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Version {
    length: u64,
    modified: Option<SystemTime>,
    inode: (u64, u64),
}

impl Version {
    fn of(metadata: &Metadata) -> Self {
        let inode = (metadata.dev(), metadata.ino());
        Self { length: metadata.len(), modified: metadata.modified().ok(), inode }
    }
}

/// The footer of a file.
#[derive(Clone, Debug)]
pub struct Footer {
    pub path: PathBuf,
    pub metadata: Arc<ParquetMetaData>,
    fields: Fields,
    version: Version,
}

/// The result of a check; the error says what is wrong.
type Checked<T = ()> = std::result::Result<T, String>;

impl Footer {
    /// Reads the footer of a file.
    ///
    /// # Errors
    /// `NotFound`, `Io`; `InvalidInput` when the file is damaged or of another kind.
    pub fn read(path: &Path) -> Result<Self> {
        Self::of(&open_plain(path)?, path)
    }

    /// Reads the footer of a file that is open.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of(file: &File, path: &Path) -> Result<Self> {
        let found = file
            .metadata()
            .map_err(|error| Error::from_io(&error, format!("cannot read \"{}\"", path.display())))?;
        let version = Version::of(&found);
        unless_damaged(path, "Parquet", || {
            let damaged = |error: &dyn std::fmt::Display| not_that_format(path, "Parquet", error);
            let metadata =
                ParquetMetaDataReader::new().parse_and_finish(file).map_err(|error| damaged(&error))?;
            let metadata = checked(metadata, version.length).map_err(|why| damaged(&why))?;
            let metadata = Arc::new(metadata);
            let read = ArrowReaderMetadata::try_new(Arc::clone(&metadata), Default::default());
            let read = read.map_err(|error| damaged(&error))?;
            let fields = marked(read.schema().fields(), metadata.file_metadata().schema_descr());
            Ok(Self { path: path.to_path_buf(), metadata, fields, version })
        })
    }

    /// Returns the footer of the same file as it is now.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn again(&self) -> Result<Self> {
        Ok(self.open()?.1)
    }

    /// Opens the file, which may have become another one.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn open(&self) -> Result<(File, Self)> {
        let file = open_plain(&self.path)?;
        let is_same = file.metadata().is_ok_and(|found| Version::of(&found) == self.version);
        let footer = if is_same { self.clone() } else { Self::of(&file, &self.path)? };
        Ok((file, footer))
    }

    /// Returns the columns as Arrow's reader makes them.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Returns the columns that lack bounds in a row group, and the types of those that have them
    /// in all.
    pub fn bounds(&self) -> HashMap<&str, Option<&DataType>> {
        let leaves = self.metadata.file_metadata().schema_descr().columns().iter().enumerate();
        let leaves = leaves.filter_map(|(leaf, column)| match column.path().parts() {
            [name] => Some((name.as_str(), leaf)),
            _ => None,
        });
        let leaves: HashMap<&str, usize> = leaves.collect();
        let has_bounds = |leaf: usize| {
            self.metadata.row_groups().iter().all(|group| {
                let column = group.column(leaf);
                column.statistics().is_some_and(|found| {
                    let has_values = found.null_count_opt() != u64::try_from(column.num_values()).ok();
                    !has_values || found.min_bytes_opt().is_some() && found.max_bytes_opt().is_some()
                })
            })
        };
        let bounds = self.fields.iter().map(|field| {
            let leaf = leaves.get(field.name().as_str()).filter(|leaf| has_bounds(**leaf));
            (field.name().as_str(), leaf.map(|_| field.data_type()))
        });
        bounds.collect()
    }

    /// Returns the length of the file.
    pub fn length(&self) -> u64 {
        self.version.length
    }

    /// Returns the time of the last change, if the file system has one.
    pub fn modified(&self) -> Option<SystemTime> {
        self.version.modified
    }
}

/// Returns the columns, of which UUIDs, also those within others, have their name in Arrow.
fn marked(fields: &Fields, schema: &SchemaDescriptor) -> Fields {
    let is_uuid = |leaf: &ColumnDescPtr| matches!(leaf.logical_type_ref(), Some(ParquetType::Uuid));
    let mut leaves = schema.columns().iter().map(is_uuid);
    fields.iter().map(|field| marked_field(field, &mut leaves)).collect()
}

/// Marks a field by those of the file's leaves that it is made of, which come next.
fn marked_field(field: &FieldRef, leaves: &mut dyn Iterator<Item = bool>) -> FieldRef {
    if field.data_type().is_nested() {
        let marked = with_parts(field.data_type(), &mut |part| marked_field(part, leaves));
        return Arc::new(field.as_ref().clone().with_data_type(marked));
    }
    match leaves.next() {
        Some(true) => Arc::new(LogicalType::Uuid.mark(field.as_ref().clone())),
        _ => Arc::clone(field),
    }
}

/// Says in the footer of a file of ours which columns, and which values within others, are UUIDs. The
/// writer does not.
///
/// # Errors
/// Those of the operating system and of the writer.
pub fn name_uuids(path: &Path, fields: &[FieldRef]) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Io, format!("cannot write \"{}\": {error}", path.display()))
    };
    let mut file = File::options().read(true).write(true).open(path).map_err(|error| failed(&error))?;
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).map_err(|error| failed(&error))?;
    let own = metadata.file_metadata();
    let mut leaves = uuid_leaves(fields).into_iter();
    let named = own.schema().get_fields().iter().map(|field| with_uuids(field, &mut leaves));
    let named = named.collect::<ParquetResult<_>>().map_err(|error| failed(&error))?;
    let root = Type::group_type_builder(own.schema().name()).with_fields(named).build();
    let schema = SchemaDescriptor::new(Arc::new(root.map_err(|error| failed(&error))?));
    let own = FileMetaData::new(
        own.version(),
        own.num_rows(),
        own.created_by().map(str::to_string),
        own.key_value_metadata().cloned(),
        Arc::new(schema),
        own.column_orders().cloned(),
    );
    let mut footer = Vec::new();
    let renamed = ParquetMetaData::new(own, metadata.row_groups().to_vec());
    ParquetMetaDataWriter::new(&mut footer, &renamed).finish().map_err(|error| failed(&error))?;
    let write = |file: &mut File| {
        file.seek(SeekFrom::End(-8))?;
        let mut length = [0; 4];
        file.read_exact(&mut length)?;
        let begin = file.seek(SeekFrom::End(-8 - i64::from(u32::from_le_bytes(length))))?;
        file.set_len(begin)?;
        file.write_all(&footer)
    };
    write(&mut file).map_err(|error: std::io::Error| failed(&error))
}

/// Returns metadata that its parts agree about.
fn checked(metadata: ParquetMetaData, length: u64) -> Checked<ParquetMetaData> {
    let mut rows: i64 = 0;
    for (place, group) in metadata.row_groups().iter().enumerate() {
        let within = |why: &str| format!("its row group {place} {why}");
        let sum = rows.checked_add(group.num_rows()).filter(|_| group.num_rows() >= 0);
        rows = sum.ok_or_else(|| within(&format!("has {} rows", group.num_rows())))?;
        for column in group.columns() {
            check_column(column, group.num_rows(), length)
                .map_err(|why| within(&format!("has a column {} that {why}", column.column_path())))?;
        }
    }
    let own = metadata.file_metadata();
    let names: Vec<&str> = own.schema().get_fields().iter().map(|field| field.name()).collect();
    let unique = own_names(names.iter().copied());
    let are_same = names.iter().zip(&unique).all(|(given, own)| given == own);
    let counts = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns).all(tells_nulls);
    if own.num_rows() == rows && are_same && counts {
        return Ok(metadata);
    }
    let schema = match are_same {
        true => own.schema_descr_ptr(),
        false => {
            let renamed = renamed(own.schema(), &unique).map_err(|error| error.to_string())?;
            Arc::new(SchemaDescriptor::new(Arc::new(renamed)))
        }
    };
    // The schema of Arrow that a writer adds has the names that are not unique.
    let pairs = own.key_value_metadata().cloned().map(|mut pairs| {
        pairs.retain(|pair| are_same || pair.key != ARROW_SCHEMA_META_KEY);
        pairs
    });
    let own = FileMetaData::new(
        own.version(),
        rows,
        own.created_by().map(str::to_string),
        pairs,
        schema,
        own.column_orders().cloned(),
    );
    let groups = metadata.row_groups().iter().cloned().map(without_guesses).collect::<ParquetResult<_>>();
    Ok(ParquetMetaData::new(own, groups.map_err(|error| error.to_string())?))
}

/// Checks that a column of a row group has a value for each of its rows, and that its bytes are in the file.
/// Who counts rows reads no column.
fn check_column(column: &ColumnChunkMetaData, rows: i64, length: u64) -> Checked {
    let values = column.num_values();
    let has_values = match column.column_descr().max_rep_level() {
        0 => values == rows,
        // Lists have one at least.
        _ => values >= rows,
    };
    if !has_values {
        return Err(format!("has {values} values for {rows} rows"));
    }
    let begin = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let end = u64::try_from(begin).ok().zip(u64::try_from(column.compressed_size()).ok());
    let end = end.and_then(|(begin, bytes)| begin.checked_add(bytes));
    let is_empty = values == 0;
    match end {
        Some(end) if end <= length || is_empty => Ok(()),
        _ => Err(format!("has {} bytes at {begin}, and the file has {length}", column.compressed_size())),
    }
}

/// Says whether statistics of a column, if it has some, count its NULLs. The planner would take a
/// count that is missing for none.
fn tells_nulls(column: &ColumnChunkMetaData) -> bool {
    let is_required = column.column_descr().max_def_level() == 0;
    is_required || column.statistics().is_none_or(|of| of.null_count_opt().is_some())
}

fn without_guesses(group: RowGroupMetaData) -> ParquetResult<RowGroupMetaData> {
    if group.columns().iter().all(tells_nulls) {
        return Ok(group);
    }
    let columns = group.columns().iter().cloned().map(|column| match tells_nulls(&column) {
        true => Ok(column),
        false => column.into_builder().clear_statistics().build(),
    });
    let columns = columns.collect::<ParquetResult<_>>()?;
    group.into_builder().set_column_metadata(columns).build()
}

/// Returns a schema whose columns have these names.
fn renamed(root: &Type, names: &[String]) -> ParquetResult<Type> {
    let fields = root.get_fields().iter().zip(names).map(|(field, name)| match field.name() == name {
        true => Ok(Arc::clone(field)),
        false => {
            let meaning = field.get_basic_info().logical_type_ref().cloned();
            changed(field, name, meaning, fields_of(field))
        }
    });
    let fields = fields.collect::<ParquetResult<_>>()?;
    Type::group_type_builder(root.name()).with_fields(fields).build()
}

/// Returns a type whose leaves are UUIDs where the next ones of `leaves` say so.
fn with_uuids(of: &TypePtr, leaves: &mut dyn Iterator<Item = bool>) -> ParquetResult<TypePtr> {
    match of.as_ref() {
        Type::PrimitiveType { .. } => match leaves.next() {
            Some(true) => changed(of, of.name(), Some(ParquetType::Uuid), Vec::new()),
            _ => Ok(Arc::clone(of)),
        },
        Type::GroupType { fields, .. } => {
            let fields = fields.iter().map(|field| with_uuids(field, leaves));
            let fields = fields.collect::<ParquetResult<_>>()?;
            changed(of, of.name(), of.get_basic_info().logical_type_ref().cloned(), fields)
        }
    }
}

/// Returns the fields of a group; none of a leaf.
fn fields_of(of: &Type) -> Vec<TypePtr> {
    match of {
        Type::GroupType { fields, .. } => fields.clone(),
        Type::PrimitiveType { .. } => Vec::new(),
    }
}

/// Returns a type with another name and another meaning, and a group with other fields.
fn changed(
    of: &TypePtr,
    name: &str,
    meaning: Option<ParquetType>,
    fields: Vec<TypePtr>,
) -> ParquetResult<TypePtr> {
    let info = of.get_basic_info();
    let id = info.has_id().then(|| info.id());
    let changed = match of.as_ref() {
        Type::PrimitiveType { physical_type, type_length, scale, precision, .. } => {
            Type::primitive_type_builder(name, *physical_type)
                .with_repetition(info.repetition())
                .with_converted_type(info.converted_type())
                .with_logical_type(meaning)
                .with_length(*type_length)
                .with_precision(*precision)
                .with_scale(*scale)
                .with_id(id)
                .build()
        }
        Type::GroupType { .. } => Type::group_type_builder(name)
            .with_repetition(info.repetition())
            .with_converted_type(info.converted_type())
            .with_logical_type(meaning)
            .with_fields(fields)
            .with_id(id)
            .build(),
    };
    changed.map(Arc::new)
}
