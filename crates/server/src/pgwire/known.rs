//! The statements that a session has prepared before. Drivers prepare the same texts again and again, and
//! describing one takes as long as planning it.

use super::prepared::Statement;
use std::collections::HashMap;
use std::rc::Rc;

/// Statements that are known, and the bytes of one and of all: their texts, types of parameters and
/// descriptions.
const STATEMENTS_MAX: usize = 64;
const BYTES_MAX: usize = 16 << 10;
const ALL_BYTES_MAX: usize = 64 << 10;

/// Statements by their texts, with the types of parameters that the client has told.
#[derive(Default)]
pub(super) struct Known(HashMap<String, (Vec<u32>, Rc<Statement>)>);

impl Known {
    pub fn get(&self, sql: &str, types: &[u32]) -> Option<&Rc<Statement>> {
        let (known, statement) = self.0.get(sql)?;
        (known == types).then_some(statement)
    }

    /// Remembers a statement, which is described later if at all: what the descriptions of those before it
    /// have come to is looked at now.
    pub fn put(&mut self, sql: &str, types: Vec<u32>, statement: Rc<Statement>) {
        self.0.retain(|sql, (types, statement)| bytes_of(sql, types, statement) <= BYTES_MAX);
        let bytes = bytes_of(sql, &types, &statement);
        if bytes > BYTES_MAX {
            return;
        }
        let all: usize = self.0.iter().map(|(sql, (types, statement))| bytes_of(sql, types, statement)).sum();
        if self.0.len() >= STATEMENTS_MAX || all + bytes > ALL_BYTES_MAX {
            self.0.clear();
        }
        self.0.insert(sql.into(), (types, statement));
    }

    /// Forgets all, because what types are may have changed by more than definitions.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

fn bytes_of(sql: &str, types: &[u32], statement: &Statement) -> usize {
    sql.len() + size_of_val(types) + statement.description_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_short_statements_are_known() {
        let statement = Rc::new(Statement::new("SELECT 1", Vec::new()).unwrap());
        for (bytes, most) in [(100, STATEMENTS_MAX), (16_000, ALL_BYTES_MAX / 16_000), (17_000, 0)] {
            let mut known = Known::default();
            for number in 0..3 * STATEMENTS_MAX {
                let sql = format!("{number:>bytes$}");
                known.put(&sql, vec![23], statement.clone());
                assert_eq!(known.get(&sql, &[23]).is_some(), most > 0);
                assert!(known.get(&sql, &[25]).is_none() && known.get(&sql, &[]).is_none());
                assert!(known.0.len() <= most);
            }
            known.put("SELECT", vec![0; 5000], statement.clone());
            assert!(known.get("SELECT", &[0; 5000]).is_none());
            known.forget();
            assert!(known.0.is_empty());
        }
    }

    #[test]
    fn statements_with_many_columns_are_forgotten() {
        let mut known = Known::default();
        for (sql, columns) in [("narrow", 10), ("wide", 1000)] {
            known.put(sql, Vec::new(), Rc::new(Statement::of_columns(columns)));
        }
        assert!(known.get("narrow", &[]).is_some() && known.get("wide", &[]).is_none());
        // One that is described behind its preparation counts when the next one comes.
        let later = Rc::new(Statement::new("SELECT 1", Vec::new()).unwrap());
        known.put("later", Vec::new(), later.clone());
        later.describe_as(1000);
        assert!(known.get("later", &[]).is_some());
        known.put("other", Vec::new(), Rc::new(Statement::of_columns(1)));
        assert!(known.get("later", &[]).is_none() && known.get("narrow", &[]).is_some());
        for number in 0..3 * STATEMENTS_MAX {
            known.put(&number.to_string(), Vec::new(), Rc::new(Statement::of_columns(50)));
            let all = known.0.values().map(|(_, statement)| statement.description_bytes()).sum::<usize>();
            assert!(all <= ALL_BYTES_MAX);
        }
    }
}
