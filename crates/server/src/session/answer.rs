//! What the two sides tell each other of tables: the client's own (protocol.md §4.3), and the catalog (§4.4).

use super::link::{Expected, Link};
use super::receive;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use hypostyle::{
    ColumnDescription, ExternalTable, StatementDescription, TableDescription, TableKind, TableResolver,
    TakeMemory,
};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, LogicalType, Result};
use hypostyle_wire as wire;
use hypostyle_wire::{Answer, FrameType, Gives};
use std::sync::Arc;

/// Asks the client for names that no table has.
pub fn answers(link: &Arc<Mutex<Link>>, query: u32) -> TableResolver {
    let link = Arc::downgrade(link);
    Arc::new(move |name, take| {
        let link = link.upgrade()?;
        // On a thread of the engine, which goes on with other work meanwhile.
        tokio::task::block_in_place(|| ask(&mut link.lock(), query, name, take).transpose())
    })
}

fn ask(link: &mut Link, query: u32, name: &str, take: TakeMemory<'_>) -> Result<Option<ExternalTable>> {
    link.expect(Expected::Answer);
    link.send(&wire::Ask { query, name: name.into() }.frame())?;
    let frame = link.next_of_statement(query)?;
    if frame.frame_type != FrameType::Answer {
        return Err(Error::protocol(format!("a {:?} frame where Answer must be", frame.frame_type)));
    }
    match Answer::decode(&frame.body)? {
        Answer::Nothing { .. } => Ok(None),
        Answer::Unreadable { why, .. } => Err(Error::invalid_input(why)),
        Answer::Table { schema, .. } => {
            let batches = receive::table(link, query, &schema, take)?;
            Ok(Some(ExternalTable { schema, batches }))
        }
    }
}

pub fn description(query: u32, statement: &StatementDescription) -> wire::Description {
    let parameter = |known: &Option<LogicalType>| match known {
        Some(logical_type) => logical_type.arrow_field("", true),
        None => Field::new("", DataType::Null, true),
    };
    let parameters: Vec<_> = statement.parameters.iter().map(parameter).collect();
    wire::Description {
        query,
        gives: match (&statement.columns, statement.runs_to_tell) {
            (_, true) => Gives::Unknown,
            (Some(_), false) => Gives::Rows,
            (None, false) => Gives::Nothing,
        },
        parameters: Arc::new(Schema::new(parameters)),
        columns: schema_of(statement.columns.as_deref().unwrap_or_default()),
    }
}

fn schema_of(columns: &[ColumnDescription]) -> SchemaRef {
    let field = |column: &ColumnDescription| column.logical_type.arrow_field(&column.name, column.nullable);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

pub fn table_entry(table: TableDescription) -> wire::TableEntry {
    wire::TableEntry {
        schema: table.schema,
        name: table.name,
        is_view: table.kind == TableKind::View,
        rows: table.row_count,
        columns: schema_of(&table.columns),
    }
}
