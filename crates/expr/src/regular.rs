//! Regular expressions that are compiled, which may take longer than to match a text with one. Functions are
//! computed for few rows at a time, and by several threads: what is computed for one caller keeps the
//! expressions that it has used last.

use crate::pattern::is_short;
use crate::work;
use datafusion::error::Result;
use hypostyle_error::{bad_pattern, external};
use hypostyle_sync::Mutex;
use regex::{Regex, RegexBuilder};
use std::sync::Arc;

/// How many expressions are kept, as those of a column of patterns.
const KEPT_MAX: usize = 32;

/// How many of them may be long: the library lets each take 10 MiB when it is compiled.
const LONG_KEPT_MAX: usize = 8;

/// The bytes of all their patterns.
const PATTERN_BYTES_MAX: usize = 64 << 10;

/// What a regular expression is compiled from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Regular {
    pub pattern: String,
    pub is_insensitive: bool,
    /// `^` and `$` are at the ends of lines, too.
    pub has_lines: bool,
    /// A dot is also the end of a line.
    pub dot_is_any: bool,
    /// White space and comments in the pattern mean nothing.
    pub is_spaced: bool,
}

impl Regular {
    /// Returns the expression that this thread has compiled for whom it works, or compiles it.
    ///
    /// # Errors
    /// `InvalidInput` (2201B) for a pattern that is none.
    pub(crate) fn compiled(self) -> Result<Arc<Regex>> {
        let work = work::current();
        if let Some(known) = work.as_ref().and_then(|work| work.expressions.known(&self)) {
            return Ok(known);
        }
        let built = RegexBuilder::new(&self.pattern)
            .case_insensitive(self.is_insensitive)
            .multi_line(self.has_lines)
            .dot_matches_new_line(self.dot_is_any)
            .ignore_whitespace(self.is_spaced)
            .build();
        let regex = Arc::new(built.map_err(|error| external(bad_pattern(&error.to_string())))?);
        if let Some(work) = work {
            work.expressions.keep(self, &regex);
        }
        Ok(regex)
    }
}

/// The last expression of rows, many of which have that of the row before.
#[derive(Debug, Default)]
pub(crate) struct Last<'a>(Option<(&'a str, &'a str, Arc<Regex>)>);

impl<'a> Last<'a> {
    /// Returns what a pattern with its options is compiled to.
    ///
    /// # Errors
    /// Those of `compile`.
    pub(crate) fn regex(
        &mut self,
        pattern: &'a str,
        options: &'a str,
        compile: impl FnOnce() -> Result<Arc<Regex>>,
    ) -> Result<&Regex> {
        let last = match self.0.take() {
            Some(last) if (last.0, last.1) == (pattern, options) => last,
            _ => (pattern, options, compile()?),
        };
        Ok(self.0.insert(last).2.as_ref())
    }
}

/// The expressions that were used last, behind those that were used before.
#[derive(Debug, Default)]
pub(crate) struct Compiled(Mutex<Vec<(Regular, Arc<Regex>)>>);

impl Compiled {
    fn known(&self, regular: &Regular) -> Option<Arc<Regex>> {
        let mut kept = self.0.lock();
        let place = kept.iter().position(|(known, _)| known == regular)?;
        kept[place..].rotate_left(1);
        kept.last().map(|(_, regex)| regex.clone())
    }

    fn keep(&self, regular: Regular, regex: &Arc<Regex>) {
        let bytes = regular.pattern.len();
        if bytes > PATTERN_BYTES_MAX {
            return;
        }
        let is_long = |of: &Regular| !is_short(&of.pattern);
        let mut kept = self.0.lock();
        if is_long(&regular) {
            let mut long = (0..kept.len()).filter(|place| is_long(&kept[*place].0));
            if let (Some(oldest), LONG_KEPT_MAX..) = (long.next(), long.count() + 1) {
                kept.remove(oldest);
            }
        }
        let mut others: usize = kept.iter().map(|(known, _)| known.pattern.len()).sum();
        while kept.len() >= KEPT_MAX || others + bytes > PATTERN_BYTES_MAX {
            others -= kept.remove(0).0.pattern.len();
        }
        kept.push((regular, regex.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{Ledger, Meter};
    use crate::work::Work;

    fn compiled(pattern: &str, is_insensitive: bool) -> Arc<Regex> {
        let pattern = pattern.to_string();
        Regular { pattern, is_insensitive, ..Regular::default() }.compiled().unwrap()
    }

    #[test]
    fn a_work_compiles_an_expression_once() {
        let work = Work::new(&Meter::new(&Ledger::new(1 << 30)));
        let first = work.charge(|| compiled("a+", false));
        let again = std::thread::spawn({
            let work = work.clone();
            move || work.charge(|| compiled("a+", false))
        });
        assert!(Arc::ptr_eq(&first, &again.join().unwrap()));
        let other = work.charge(|| compiled("a+", true));
        assert!(!first.is_match("A") && other.is_match("A"));
        let next = Work::new(&Meter::new(&Ledger::new(1 << 30)));
        assert!(!Arc::ptr_eq(&first, &next.charge(|| compiled("a+", false))));
        assert!(!Arc::ptr_eq(&compiled("a+", false), &compiled("a+", false)), "nobody works for anybody");
        let wrong = Regular { pattern: "(".into(), ..Regular::default() };
        assert!(work.charge(|| wrong.compiled()).is_err());
    }

    #[test]
    fn rows_share_the_expression_of_the_row_before() {
        let (mut last, mut times) = (Last::default(), 0);
        for (pattern, options) in [("a", ""), ("a", ""), ("a", "i"), ("b", "i"), ("b", "i")] {
            let compile = || {
                times += 1;
                Ok(compiled(pattern, options == "i"))
            };
            assert!(last.regex(pattern, options, compile).unwrap().is_match(pattern));
        }
        assert_eq!(times, 3);
    }

    #[test]
    fn few_expressions_are_kept() {
        let work = Work::new(&Meter::new(&Ledger::new(1 << 30)));
        let is_kept =
            |pattern: &str| work.expressions.0.lock().iter().any(|(known, _)| known.pattern == pattern);
        work.charge(|| {
            (0..KEPT_MAX).for_each(|number| drop(compiled(&format!("a{number}"), false)));
            compiled("a0", false);
            compiled("b", false);
            assert!(is_kept("a0") && is_kept("b") && !is_kept("a1") && is_kept("a2"));
            let long = "x".repeat(PATTERN_BYTES_MAX - 2);
            compiled(&long, false);
            assert!(is_kept(&long) && is_kept("b") && !is_kept("a0"));
            let longer = "x".repeat(PATTERN_BYTES_MAX + 1);
            compiled(&longer, false);
            assert!(is_kept(&long) && !is_kept(&longer));
        });
    }

    #[test]
    fn fewer_long_expressions_are_kept() {
        let work = Work::new(&Meter::new(&Ledger::new(1 << 30)));
        let long = |times: usize| format!("(a{{9}}){{{times}}}");
        work.charge(|| {
            compiled("b", false);
            (40..=40 + LONG_KEPT_MAX).for_each(|times| drop(compiled(&long(times), false)));
        });
        let is_kept =
            |pattern: &str| work.expressions.0.lock().iter().any(|(known, _)| known.pattern == pattern);
        assert!(!is_kept(&long(40)) && is_kept(&long(41)) && is_kept("b"));
    }
}
