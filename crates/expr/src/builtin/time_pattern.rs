//! Patterns of points in time and intervals as PostgreSQL's `to_char` and `to_timestamp` have them,
//! such as `YYYY-MM-DD HH24:MI:SS`.

/// What stands in a place of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// A year with a comma, `2,024`.
    YearWithComma,
    /// The last so many digits of a year.
    Year(u32),
    /// Those of a year of ISO 8601.
    IsoYear(u32),
    Century,
    Quarter,
    MonthName,
    MonthAbbreviation,
    Month,
    RomanMonth,
    /// A week of the year, from its first day.
    Week,
    WeekOfMonth,
    IsoWeek,
    DayOfYear,
    IsoDayOfYear,
    Day,
    /// The day of the week, of which Sunday is 1.
    Weekday,
    /// That of which Monday is 1.
    IsoWeekday,
    DayName,
    DayAbbreviation,
    JulianDay,
    Hour,
    HourOfHalf,
    Minute,
    Second,
    SecondOfDay,
    /// So many digits of a second.
    Fraction(u32),
    /// AM or PM, perhaps with points.
    Half(bool),
    /// BC or AD, perhaps with points.
    Era(bool),
    ZoneName,
    ZoneHour,
    ZoneMinute,
    Offset,
}

use Field::*;

/// The names of fields, of which longer ones are before those that they begin with.
const FIELDS: [(&str, Field); 50] = [
    ("A.D.", Era(true)),
    ("A.M.", Half(true)),
    ("AD", Era(false)),
    ("AM", Half(false)),
    ("B.C.", Era(true)),
    ("BC", Era(false)),
    ("CC", Century),
    ("DAY", DayName),
    ("DDD", DayOfYear),
    ("DD", Day),
    ("DY", DayAbbreviation),
    ("D", Weekday),
    ("FF1", Fraction(1)),
    ("FF2", Fraction(2)),
    ("FF3", Fraction(3)),
    ("FF4", Fraction(4)),
    ("FF5", Fraction(5)),
    ("FF6", Fraction(6)),
    ("HH24", Hour),
    ("HH12", HourOfHalf),
    ("HH", HourOfHalf),
    ("IDDD", IsoDayOfYear),
    ("ID", IsoWeekday),
    ("IW", IsoWeek),
    ("IYYY", IsoYear(4)),
    ("IYY", IsoYear(3)),
    ("IY", IsoYear(2)),
    ("I", IsoYear(1)),
    ("J", JulianDay),
    ("MI", Minute),
    ("MM", Month),
    ("MONTH", MonthName),
    ("MON", MonthAbbreviation),
    ("MS", Fraction(3)),
    ("OF", Offset),
    ("P.M.", Half(true)),
    ("PM", Half(false)),
    ("Q", Quarter),
    ("RM", RomanMonth),
    ("SSSSS", SecondOfDay),
    ("SSSS", SecondOfDay),
    ("SS", Second),
    ("TZH", ZoneHour),
    ("TZM", ZoneMinute),
    ("TZ", ZoneName),
    ("US", Fraction(6)),
    ("WW", Week),
    ("W", WeekOfMonth),
    ("Y,YYY", YearWithComma),
    ("YYYY", Year(4)),
];

/// Further ones, which are sought behind those.
const SHORT_YEARS: [(&str, Field); 3] = [("YYY", Year(3)), ("YY", Year(2)), ("Y", Year(1))];

/// The case of letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letters {
    Upper,
    Capital,
    Lower,
}

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Field {
        field: Field,
        letters: Letters,
        /// Whether there are neither blanks nor zeros in front.
        bare: bool,
        /// The letters of `th` behind a number.
        ordinal: Option<Letters>,
    },
    /// A character that stands for itself.
    Text(char),
    /// One between others, which a text that is read may have or not.
    Separator(char),
}

/// Returns the parts of a pattern.
pub(crate) fn nodes(pattern: &str) -> Vec<Node> {
    let (mut nodes, mut rest) = (Vec::new(), pattern);
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = quoted_text(&mut nodes, quoted);
            continue;
        }
        if let Some(escaped) = rest.strip_prefix("\\\"") {
            nodes.push(Node::Text('"'));
            rest = escaped;
            continue;
        }
        let (bare, behind) = without_prefixes(rest);
        let found = FIELDS.iter().chain(&SHORT_YEARS).find(|(name, _)| begins(behind, name));
        let Some((name, field)) = found else {
            nodes.push(if first.is_alphanumeric() { Node::Text(first) } else { Node::Separator(first) });
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let letters = letters_of(&behind[..name.len()]);
        rest = &behind[name.len()..];
        let is_ordinal = begins(rest, "TH") && !begins(rest, "THH");
        let ordinal = is_ordinal.then(|| letters_of(&rest[..2]));
        if is_ordinal {
            rest = &rest[2..];
        }
        nodes.push(Node::Field { field: *field, letters, bare, ordinal });
    }
    nodes
}

/// Takes a text in quotes, of which the first one is before it; returns what is behind it.
fn quoted_text<'a>(nodes: &mut Vec<Node>, quoted: &'a str) -> &'a str {
    let mut rest = quoted.chars();
    while let Some(character) = rest.next() {
        match character {
            '"' => return rest.as_str(),
            '\\' => nodes.extend(rest.next().map(Node::Text)),
            other => nodes.push(Node::Text(other)),
        }
    }
    ""
}

/// Returns whether FM or TM stands in front of a field, and what is behind it.
fn without_prefixes(text: &str) -> (bool, &str) {
    let is_prefix = ["FM", "TM", "FX"].iter().find(|prefix| begins(text, prefix));
    match is_prefix {
        Some(prefix) => (*prefix != "FX" || without_prefixes(&text[2..]).0, without_prefixes(&text[2..]).1),
        None => (false, text),
    }
}

fn begins(text: &str, name: &str) -> bool {
    text.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name))
}

fn letters_of(text: &str) -> Letters {
    let mut letters = text.chars().filter(char::is_ascii_alphabetic);
    match (letters.next(), letters.next()) {
        (Some(first), _) if first.is_ascii_lowercase() => Letters::Lower,
        (_, Some(second)) if second.is_ascii_lowercase() => Letters::Capital,
        _ => Letters::Upper,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_fields_and_texts() {
        let field = |field, letters, bare, ordinal| Node::Field { field, letters, bare, ordinal };
        for (pattern, expected) in [
            (
                "YYYY-MM",
                vec![
                    field(Year(4), Letters::Upper, false, None),
                    Node::Separator('-'),
                    field(Month, Letters::Upper, false, None),
                ],
            ),
            (
                "FMDDth Month",
                vec![
                    field(Day, Letters::Upper, true, Some(Letters::Lower)),
                    Node::Separator(' '),
                    field(MonthName, Letters::Capital, false, None),
                ],
            ),
            ("\"Q\"Q", vec![Node::Text('Q'), field(Quarter, Letters::Upper, false, None)]),
            (
                "ddTHH24",
                vec![
                    field(Day, Letters::Lower, false, None),
                    Node::Text('T'),
                    field(Hour, Letters::Upper, false, None),
                ],
            ),
            ("yé", vec![field(Year(1), Letters::Lower, false, None), Node::Text('é')]),
            ("\"a\\\"", vec![Node::Text('a'), Node::Text('"')]),
        ] {
            assert_eq!(nodes(pattern), expected, "{pattern}");
        }
    }
}
