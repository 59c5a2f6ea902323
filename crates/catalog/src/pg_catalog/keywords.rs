//! PostgreSQL's keywords: those that are no names without quotes, and `pg_get_keywords`, which
//! lists them for clients.

use arrow::array::{ArrayRef, BooleanArray, StringArray};
use arrow::record_batch::RecordBatch;
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;
use std::sync::Arc;

const NAME: &str = "pg_get_keywords";

/// Keywords that are never names.
const RESERVED: &str = "all analyse analyze and any array as asc asymmetric both case cast check collate column \
    constraint create current_catalog current_date current_role current_time current_timestamp current_user default \
    deferrable desc distinct do else end except false fetch for foreign from grant group having in initially intersect \
    into lateral leading limit localtime localtimestamp not null offset on only or order placing primary references \
    returning select session_user some symmetric table then to trailing true union unique user using variadic when \
    where window with";

/// The keywords that may name functions and types.
const OF_FUNCTIONS: &str = "authorization binary collation concurrently cross current_schema freeze full ilike inner is \
    isnull join left like natural notnull outer overlaps right similar tablesample verbose";

/// The keywords that may name columns.
const OF_COLUMNS: &str = "between bigint bit boolean char character coalesce dec decimal exists extract float greatest \
    grouping inout int integer interval least national nchar none normalize nullif numeric out overlay position \
    precision real row setof smallint substring time timestamp treat trim values varchar xmlattributes xmlconcat \
    xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable";

fn is_among(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|known| known == word)
}

/// Returns the category of a keyword, and what it is called.
fn category(word: &str) -> (&'static str, &'static str) {
    match word {
        word if is_among(RESERVED, word) => ("R", "reserved"),
        word if is_among(OF_FUNCTIONS, word) => ("T", "reserved (can be function or type name)"),
        word if is_among(OF_COLUMNS, word) => ("C", "unreserved (cannot be function or type name)"),
        _ => ("U", "unreserved"),
    }
}

/// Says whether a word is no name everywhere without quotes.
pub(super) fn needs_quotes(word: &str) -> bool {
    category(word).0 != "U"
}

pub(super) fn register(context: &SessionContext) {
    context.register_udtf(NAME, Arc::new(Keywords));
}

/// The keywords that are parsed here, with the categories that PostgreSQL has them in.
#[derive(Debug)]
struct Keywords;

impl TableFunctionImpl for Keywords {
    fn call_with_args(&self, _: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let words: Vec<String> = ALL_KEYWORDS.iter().map(|word| word.to_ascii_lowercase()).collect();
        let text = |of: fn(&str) -> &'static str| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(words.iter().map(|word| of(word))))
        };
        let bare = words.iter().map(|word| Some(category(word).0 == "U"));
        let batch = RecordBatch::try_from_iter([
            ("word", Arc::new(StringArray::from_iter_values(&words)) as ArrayRef),
            ("catcode", text(|word| category(word).0)),
            ("barelabel", Arc::new(bare.collect::<BooleanArray>())),
            ("catdesc", text(|word| category(word).1)),
            ("baredesc", text(|word| if needs_quotes(word) { "requires AS" } else { "can be bare label" })),
        ])?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_have_categories() {
        assert_eq!(["select", "left", "time", "value"].map(|word| category(word).0), ["R", "T", "C", "U"]);
        assert!(needs_quotes("position") && !needs_quotes("name"));
    }
}
