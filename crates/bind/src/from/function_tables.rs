//! Names for what functions in FROM give. DataFusion calls all results of a function `f()`, and takes two
//! plans that scan tables of one name for the same: of `SELECT (SELECT count(*) FROM read_csv('a.csv')),
//! (SELECT count(*) FROM read_csv('b.csv'))` it computed the first subquery alone. Here they are called by
//! the call.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Calls with longer texts have a part of them, and a number, in the name.
const NAME_BYTES_MAX: usize = 200;

/// Returns the name of what a call gives, which is short.
pub fn name_of(call: &str) -> String {
    if call.len() <= NAME_BYTES_MAX {
        return call.to_string();
    }
    let mut hasher = DefaultHasher::new();
    call.hash(&mut hasher);
    let shown: String = call.chars().take(NAME_BYTES_MAX / 2).collect();
    format!("{shown}… {:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_calls_have_short_names_of_their_own() {
        assert_eq!(name_of("f(1)"), "f(1)");
        let long = |end: &str| name_of(&format!("f('{}{end}')", "ä".repeat(1000)));
        assert_ne!(long("a"), long("b"));
        assert!(long("a").len() < 2 * NAME_BYTES_MAX);
    }
}
