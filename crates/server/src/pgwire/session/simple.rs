//! Queries in one text: the simple protocol.

use super::Session;
use super::perform::Performed;
use crate::pgwire::channel::Failure;
use crate::pgwire::command::{Command, completion};
use crate::pgwire::words::executed;
use hypostyle::split_statements;

impl Session {
    pub(super) fn query(&mut self, text: &str) -> Result<(), Failure> {
        let statements = split_statements(text);
        if statements.is_empty() {
            self.output.replies.empty_query();
        }
        for sql in &statements {
            if let Err(failure) = self.query_one(sql, statements.len() > 1) {
                self.answer(failure, Some((text, sql)))?;
                break;
            }
        }
        self.sync()
    }

    fn query_one(&mut self, sql: &str, several: bool) -> Result<(), Failure> {
        let command = Command::read(sql)?;
        self.begin_implicitly(&command, several)?;
        match self.perform(&command, Vec::new(), None)? {
            Performed::Rows(mut rows) => {
                self.output.replies.columns(&rows.columns, &[]);
                let (sent, _) = rows.send(&mut self.output, &[], None)?;
                self.complete(&command, sent);
            }
            Performed::Fetched { name, most, moves } => {
                let sent = self.fetch(&name, most, moves, &[], true)?;
                self.complete(&command, sent);
            }
            Performed::Complete(tag) => self.output.replies.complete(&tag),
            Performed::Empty => self.output.replies.empty_query(),
        }
        self.tell_settings();
        self.output.flush_if_full()
    }

    pub(super) fn complete(&mut self, command: &Command, rows: u64) {
        self.server.metrics.rows_sent.inc_by(rows);
        let tag = match command {
            Command::Run { sql, tag } => completion(self.tag_of(sql, tag), Some(rows)),
            Command::Fetch { moves: true, .. } => completion("MOVE", Some(rows)),
            Command::Fetch { .. } => completion("FETCH", Some(rows)),
            _ => completion("SELECT", Some(rows)),
        };
        self.output.replies.complete(&tag);
    }

    /// The tag of a statement; of one that EXECUTE runs, that one's.
    pub(super) fn tag_of<'a>(&'a self, sql: &str, tag: &'a str) -> &'a str {
        let own =
            (tag == "EXECUTE").then(|| executed(sql)).flatten().and_then(|name| self.prepared.get(&name));
        own.map_or(tag, String::as_str)
    }
}
