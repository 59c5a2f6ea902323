//! What the names in a statement stand for.

use crate::session::Session;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use hypostyle_catalog::scope::Scope;
use std::sync::Arc;

/// The databases, schemas and tables of a statement, and where it looks names up: all that those parts of
/// statements touch which look at definitions alone. They run no query and write nothing.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub scope: &'a Arc<Scope>,
}

impl Session {
    pub(super) fn names(&self) -> Names<'_> {
        Names { scope: &self.scope }
    }
}

/// Returns a name with its schema before it.
pub(super) fn name_in_full(schema: &str, name: &str) -> ObjectName {
    ObjectName([schema, name].map(|part| ObjectNamePart::Identifier(Ident::with_quote('"', part))).into())
}
