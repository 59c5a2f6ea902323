//! Finds the nearest known name to a misspelt one, for "did you mean …?".

use std::cmp::Reverse;

/// Returns the candidate nearest to `name` by edit distance, if it is near enough to be a likely
/// misspelling. Among equally near ones the longest common beginning decides, then the alphabet, never
/// the order in which candidates come: that of a hash map is another one in every process.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let known = candidate.to_lowercase();
            let distance = strsim::osa_distance(&wanted, &known);
            let shares_an_end = wanted.len() >= 3 && (known.ends_with(&wanted) || known.starts_with(&wanted));
            let near = distance <= 1 + wanted.chars().count() / 4 && distance < known.chars().count();
            let in_common = wanted.chars().zip(known.chars()).take_while(|(a, b)| a == b).count();
            (near || shares_an_end).then_some((distance, Reverse(in_common), candidate))
        })
        .min()
        .map(|(_, _, candidate)| candidate)
}

/// Returns the end of an error message: `; did you mean "x"?`, or nothing.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(name, candidates) {
        Some(candidate) => format!("; did you mean \"{candidate}\"?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_candidates_decides_nothing() {
        for names in [["mad", "mode", "mod_"], ["mode", "mod_", "mad"], ["mod_", "mad", "mode"]] {
            assert_eq!(nearest("mod", names), Some("mod_"));
        }
        for names in [["mad", "mode"], ["mode", "mad"]] {
            assert_eq!(nearest("mod", names), Some("mode"));
        }
    }

    #[test]
    fn a_misspelling_finds_its_name_and_a_stranger_finds_none() {
        let tables = ["orders", "lineitem", "o_orderdate"];
        assert_eq!(nearest("lineitm", tables), Some("lineitem"));
        assert_eq!(nearest("ORDER", tables), Some("orders"));
        assert_eq!(nearest("orderdate", tables), Some("o_orderdate"));
        assert_eq!(nearest("customer", tables), None);
        assert_eq!(did_you_mean("lineitm", tables), "; did you mean \"lineitem\"?");
        assert_eq!(did_you_mean("zzz", tables), "");
    }
}
