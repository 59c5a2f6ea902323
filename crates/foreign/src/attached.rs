//! A session's view of an attached database.

use crate::database::ForeignDatabase;
use crate::reading::Reading;
use crate::server::Wanted;
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, Result};
use std::sync::Arc;

/// A database of another system as a session knows it, and what its running statement reads of it.
#[derive(Debug)]
pub struct AttachedDatabase {
    database: Arc<ForeignDatabase>,
    reading: Mutex<Option<Arc<Reading>>>,
}

impl AttachedDatabase {
    /// Knows a database, of which nothing is read yet.
    pub fn new(database: Arc<ForeignDatabase>) -> Self {
        Self { database, reading: Mutex::new(None) }
    }

    /// Returns the database.
    pub fn database(&self) -> &Arc<ForeignDatabase> {
        &self.database
    }

    /// Returns the snapshot that the running statement reads.
    ///
    /// # Errors
    /// Those of the server; `Interrupted` when nobody waits for the statement any more.
    pub fn reading(&self, wanted: &Wanted) -> Result<Arc<Reading>> {
        if let Some(reading) = self.reading.lock().as_ref() {
            return Ok(reading.clone());
        }
        // Whoever ends the statement meanwhile does not wait for the server.
        let new = Reading::begin(self.database.clone(), wanted)?;
        if !wanted() {
            return Err(Error::interrupted());
        }
        Ok(self.reading.lock().get_or_insert(new).clone())
    }

    /// Lets the next statement read a snapshot of its own. Rows that are still read keep theirs.
    pub fn end_reading(&self) {
        let reading = self.reading.lock().take();
        drop(reading);
    }
}
