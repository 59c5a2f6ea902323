//! Numbers as texts and from texts, by PostgreSQL's patterns such as `FM9,990.99`.

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Nine,
    Zero,
    Point,
    Group,
    /// The sign of a currency, which is a blank.
    Currency,
    /// `+` or `-` where the number begins or ends.
    Sign,
    Minus,
    Plus,
    /// `+` or `-` here.
    SignHere,
    /// Letters behind a number, as in `1st`, in capitals or not.
    Ordinal(bool),
    Text(char),
    /// One that only says something of the whole.
    Nothing,
}

/// Whether a sign is where the number begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before(usize),
    Behind,
}

/// A pattern, and what it says of the whole number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
    /// Places of digits before and behind the point.
    before: usize,
    behind: usize,
    bare: bool,
    has_point: bool,
    /// The first place with a zero, and the last one, from 1.
    zeros: Option<(usize, usize)>,
    sign: Option<Place>,
    has_minus: bool,
    has_plus: bool,
    brackets: bool,
    /// Digits that the number gains, by V.
    shift: Option<usize>,
    scientific: bool,
    /// Roman numerals, in capitals or not.
    roman: Option<bool>,
}

const NAMES: [(&str, Part); 10] = [
    ("MI", Part::Minus),
    ("PL", Part::Plus),
    ("SG", Part::SignHere),
    ("TH", Part::Ordinal(true)),
    ("9", Part::Nine),
    ("0", Part::Zero),
    ("D", Part::Point),
    ("G", Part::Group),
    ("L", Part::Currency),
    ("S", Part::Sign),
];

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(pattern: &str) -> Result<Self, String> {
        let (mut read, mut rest) = (Self::default(), pattern);
        while let Some(first) = rest.chars().next() {
            let is = |name: &str| rest.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name));
            if let Some(quoted) = rest.strip_prefix('"') {
                let end = quoted.find('"').unwrap_or(quoted.len());
                read.parts.extend(quoted[..end].chars().map(Part::Text));
                rest = quoted.get(end + 1..).unwrap_or_default();
                continue;
            }
            let (part, length) = match first {
                '.' => (Part::Point, 1),
                ',' => (Part::Group, 1),
                _ if is("EEEE") || is("FM") || is("PR") || is("RN") || is("V") || is("B") => {
                    let length = if is("EEEE") { 4 } else { 2 - usize::from(is("V") || is("B")) };
                    read.note(&rest[..length]);
                    (Part::Nothing, length)
                }
                _ => match NAMES.iter().find(|(name, _)| is(name)) {
                    Some((_, Part::Ordinal(_))) => (Part::Ordinal(first.is_ascii_uppercase()), 2),
                    Some((name, part)) => (*part, name.len()),
                    None => (Part::Text(first), first.len_utf8()),
                },
            };
            read.add(part)?;
            rest = &rest[length..];
        }
        Ok(read)
    }

    /// Takes a word that says something of the whole.
    fn note(&mut self, word: &str) {
        match word.to_ascii_uppercase().as_str() {
            "EEEE" => self.scientific = true,
            "FM" => self.bare = true,
            "PR" => self.brackets = true,
            "RN" => self.roman = Some(word.starts_with('R')),
            "V" => self.shift = Some(0),
            _ => {}
        }
    }

    fn add(&mut self, part: Part) -> Result<(), String> {
        match part {
            Part::Nine | Part::Zero => {
                if part == Part::Zero && self.zeros.is_none() && !self.has_point {
                    self.zeros = Some((self.before + 1, 0));
                }
                match (&mut self.shift, self.has_point) {
                    (Some(shift), false) => *shift += 1,
                    (_, true) => self.behind += 1,
                    (None, false) => self.before += 1,
                }
                if part == Part::Zero {
                    let first = self.zeros.map_or(0, |(first, _)| first);
                    self.zeros = Some((first, self.before + self.behind));
                }
            }
            Part::Point if self.has_point => return Err("a pattern of a number has one decimal point".into()),
            Part::Point if self.shift.is_some() => {
                return Err("a pattern of a number has V or a decimal point".into());
            }
            Part::Point => self.has_point = true,
            Part::Sign if self.sign.is_some() || self.has_plus || self.has_minus || self.brackets => {
                return Err("a pattern of a number has one of S, MI, PL, SG and PR".into());
            }
            Part::Sign => {
                self.sign = Some(if self.has_point { Place::Behind } else { Place::Before(self.before) });
            }
            Part::Minus => self.has_minus = true,
            Part::Plus => self.has_plus = true,
            Part::SignHere => (self.has_minus, self.has_plus) = (true, true),
            _ => {}
        }
        self.parts.push(part);
        Ok(())
    }

    /// Returns the digits behind the point.
    pub(crate) fn scale(&self) -> usize {
        self.behind
    }

    /// Returns by how many digits a number is longer than what is shown.
    pub(crate) fn shift(&self) -> usize {
        self.shift.unwrap_or(0)
    }

    /// Whether a number is shown as `1.23e+04`.
    pub(crate) fn is_scientific(&self) -> bool {
        self.scientific
    }

    /// Returns a number by the text of it without its sign, which has the digits of the pattern.
    pub(crate) fn shown(&self, is_negative: bool, digits: &str) -> String {
        if let Some(is_upper) = self.roman {
            let numeral = roman(digits.split('.').next().unwrap_or_default(), is_upper);
            let numeral = numeral.filter(|_| !is_negative).unwrap_or_else(|| "#".repeat(15));
            return if self.bare { numeral } else { format!("{numeral:>15}") };
        }
        let is_negative = is_negative && digits.bytes().any(|digit| matches!(digit, b'1'..=b'9'));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let places = self.before + self.shift();
        let number = match whole.len() > places {
            true => format!("{}.{}", "#".repeat(places), "#".repeat(self.behind)),
            false if self.has_point || self.behind > 0 => {
                // A width of format!() has 16 bits.
                let zeros = "0".repeat(self.behind.saturating_sub(fraction.len()));
                format!("{whole}.{fraction}{zeros}")
            }
            false => whole.to_string(),
        };
        let spaces = places.saturating_sub(whole.len());
        Writer::new(self, is_negative, number, spaces).written()
    }
}

/// Returns a Roman numeral.
fn roman(digits: &str, is_upper: bool) -> Option<String> {
    const NUMERALS: [(u32, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut number: u32 = digits.parse().ok().filter(|number| (1..4000).contains(number))?;
    let mut text = String::new();
    for (value, numeral) in NUMERALS {
        while number >= value {
            text.push_str(numeral);
            number -= value;
        }
    }
    Some(if is_upper { text } else { text.to_ascii_lowercase() })
}

/// A number while it is written into a pattern.
struct Writer<'a> {
    pattern: &'a Pattern,
    is_negative: bool,
    number: Vec<u8>,
    /// Places before the point that the number does not need.
    spaces: usize,
    sign: Option<Place>,
    is_sign_written: bool,
    /// The last digit behind the point that is shown, or the point, where zeros are left out.
    last: Option<usize>,
    /// How many digits, and places of digits and points, have been written.
    at: usize,
    place: usize,
    is_in_number: bool,
    text: String,
}

impl<'a> Writer<'a> {
    fn new(pattern: &'a Pattern, is_negative: bool, number: String, spaces: usize) -> Self {
        let is_sign_written = match (pattern.has_plus, pattern.has_minus) {
            (false, false) => !is_negative && pattern.bare && pattern.sign.is_none(),
            (has_plus, has_minus) => !has_plus || has_minus,
        };
        let sign = match pattern.sign {
            Some(Place::Before(before)) if before == pattern.before => Some(Place::Behind),
            other => other,
        };
        let point = number.find('.').filter(|_| pattern.bare && pattern.has_point);
        let last = point.map(|point| {
            let relevant = number.rfind(|digit: char| digit != '0' && digit != '.').filter(|at| *at > point);
            let relevant = relevant.unwrap_or(point);
            match pattern.zeros {
                Some((_, last)) if last > spaces => relevant.max((number.len() - 1).min(last - spaces)),
                _ => relevant,
            }
        });
        let number = number.into_bytes();
        Self {
            pattern,
            is_negative,
            number,
            spaces,
            sign,
            is_sign_written,
            last,
            at: 0,
            place: 0,
            is_in_number: false,
            text: String::new(),
        }
    }

    fn has_zero_at(&self) -> bool {
        self.pattern.zeros.is_some_and(|(first, _)| first > 0 && first <= self.place + 1)
    }

    /// Says whether this is the zero before the point of a number such as 0.1, which has no place.
    fn is_lone_zero(&self) -> bool {
        let has_zeros = self.pattern.zeros.is_some_and(|(first, _)| first > 0) || self.has_any_zero();
        !has_zeros && self.at == 0 && self.number.first() == Some(&b'0') && self.pattern.behind > 0
    }

    fn has_any_zero(&self) -> bool {
        self.pattern.zeros.is_some_and(|(first, _)| first > 0)
    }

    fn is_last_the_point(&self) -> bool {
        self.last.is_some_and(|last| self.number.get(last) == Some(&b'.'))
    }

    fn written(mut self) -> String {
        let pattern = self.pattern;
        for part in &pattern.parts {
            match part {
                Part::Nine | Part::Zero | Part::Point => self.digit(*part),
                Part::Group if self.is_in_number => self.text.push(','),
                Part::Group | Part::Currency if !pattern.bare => self.text.push(' '),
                Part::Minus if self.is_negative => self.text.push('-'),
                Part::Plus if !self.is_negative => self.text.push('+'),
                Part::Minus | Part::Plus if !pattern.bare => self.text.push(' '),
                Part::SignHere => self.text.push(if self.is_negative { '-' } else { '+' }),
                Part::Ordinal(is_upper) => self.ordinal(*is_upper),
                Part::Text(character) => self.text.push(*character),
                _ => {}
            }
        }
        self.text
    }

    fn ordinal(&mut self, is_upper: bool) {
        let is_none = self.is_negative || self.pattern.has_point || self.number.first() == Some(&b'#');
        let letters = match self.number.as_slice() {
            _ if is_none => "",
            [.., b'1', _] => "th",
            [.., b'1'] => "st",
            [.., b'2'] => "nd",
            [.., b'3'] => "rd",
            _ => "th",
        };
        self.text.push_str(&if is_upper { letters.to_ascii_uppercase() } else { letters.to_string() });
    }

    /// Writes the sign where the first digit is.
    fn sign(&mut self) {
        let begins = self.place >= self.spaces || self.has_any_zero() && self.has_zero_at();
        if self.is_sign_written || !begins || self.is_lone_zero() && !self.is_last_the_point() {
            return;
        }
        match (self.sign, self.is_negative) {
            (Some(Place::Behind), _) => return,
            (Some(Place::Before(_)), true) => self.text.push('-'),
            (Some(Place::Before(_)), false) => self.text.push('+'),
            (None, true) if self.pattern.brackets => self.text.push('<'),
            (None, true) => self.text.push('-'),
            (None, false) if !self.pattern.bare => self.text.push(' '),
            (None, false) => {}
        }
        self.is_sign_written = true;
    }

    /// Writes a digit or the point, or what stands for one.
    fn digit(&mut self, part: Part) {
        self.is_in_number = false;
        self.sign();
        let is_before = self.place < self.spaces;
        if is_before && !self.has_zero_at() {
            if !self.pattern.bare {
                self.text.push(' ');
            }
        } else if is_before {
            self.text.push('0');
            self.is_in_number = true;
        } else {
            match self.number.get(self.at) {
                None => {}
                Some(b'.') => self.text.push('.'),
                Some(_) if part != Part::Zero && self.last.is_some_and(|last| self.at > last) => {}
                Some(_) if self.is_lone_zero() => {
                    if !self.pattern.bare {
                        self.text.push(' ');
                    } else if self.is_last_the_point() {
                        self.text.push('0');
                    }
                }
                Some(digit) => {
                    self.text.push(char::from(*digit));
                    self.is_in_number = true;
                }
            }
            self.at += 1;
        }
        self.place += 1;
        self.end();
    }

    /// Writes what stands behind the last digit.
    fn end(&mut self) {
        let pattern = self.pattern;
        let places = pattern.before + pattern.shift() + pattern.behind + usize::from(pattern.has_point);
        let is_end = match self.last {
            Some(last) if last + 1 == self.at => true,
            Some(last) if self.at > last => false,
            _ => self.place == places,
        };
        if !is_end {
            return;
        }
        if pattern.brackets && self.is_sign_written && (self.is_negative || !pattern.bare) {
            self.text.push(if self.is_negative { '>' } else { ' ' });
        } else if self.sign == Some(Place::Behind) {
            self.text.push(if self.is_negative { '-' } else { '+' });
        }
    }
}

/// Returns the number that a text of a pattern is; `None` where it is none.
pub(crate) fn number_of(text: &str, pattern: &Pattern) -> Option<String> {
    let mut rest = text.trim_start();
    let (mut is_negative, mut number) = (false, String::new());
    let mut take_sign = |rest: &mut &str| {
        let found = rest.trim_start();
        if let Some(behind) = found.strip_prefix(['-', '+', '<']) {
            is_negative |= !found.starts_with('+');
            *rest = behind;
        }
    };
    take_sign(&mut rest);
    for part in &pattern.parts {
        match part {
            Part::Nine | Part::Zero => {
                take_sign(&mut rest);
                let found = rest.trim_start();
                if let Some(digit) = found.chars().next().filter(char::is_ascii_digit) {
                    number.push(digit);
                    rest = &found[1..];
                }
            }
            Part::Point => {
                // Digits before the point may be fewer than their places.
                if let Some(behind) = rest.strip_prefix('.') {
                    number.push('.');
                    rest = behind;
                }
            }
            Part::Group => rest = rest.strip_prefix(',').unwrap_or(rest),
            Part::Currency => rest = rest.strip_prefix(['$', ' ']).unwrap_or(rest),
            Part::Sign | Part::Minus | Part::Plus | Part::SignHere => take_sign(&mut rest),
            Part::Ordinal(_) => rest = rest.get(2..).unwrap_or_default(),
            Part::Text(character) => rest = rest.strip_prefix(*character).unwrap_or(rest),
            Part::Nothing => {}
        }
    }
    take_sign(&mut rest);
    let has_digits = number.bytes().any(|byte| byte.is_ascii_digit());
    let sign = if is_negative { "-" } else { "" };
    has_digits.then(|| format!("{sign}{number}"))
}

#[cfg(test)]
mod tests {
    use super::{Pattern, number_of};

    #[test]
    fn numbers_are_shown_as_in_postgresql() {
        for (pattern, digits, shown) in [
            ("999", "125", " 125"),
            ("999", "-125", "-125"),
            ("999", "0", "   0"),
            ("99.99", "-0.10", "  -.10"),
            ("0.9", "0.1", " 0.1"),
            ("9990999.9", "12.0", "    0012.0"),
            ("FM9990999.9", "12.0", "0012."),
            ("999", "1234", " ###"),
            ("9,999", "1485", " 1,485"),
            ("9,999", "485", "   485"),
            ("FM9,999,999", "1234567", "1,234,567"),
            ("999MI", "-485", "485-"),
            ("999MI", "485", "485 "),
            ("FM999MI", "485", "485"),
            ("MI999", "-485", "-485"),
            ("MI9999", "456", "  456"),
            ("MI9999", "-456", "- 456"),
            ("999PR", "-485", "<485>"),
            ("999PR", "485", " 485 "),
            ("FM999PR", "485", "485"),
            ("S999", "5", "  +5"),
            ("S999", "-485", "-485"),
            ("999S", "-5", "  5-"),
            ("999S", "5", "  5+"),
            ("SG999", "-485", "-485"),
            ("9SG99", "-485", "4-85"),
            ("9SG99", "485", "4+85"),
            ("PL999", "-485", " -485"),
            ("999PL", "485", " 485+"),
            ("999th", "482", " 482nd"),
            ("FM999TH", "11", "11TH"),
            ("999th", "-1", "  -1"),
            ("\"Good number:\"999", "485", "Good number: 485"),
            ("FM999.99", "3.10", "3.1"),
            ("FM999.990", "148.500", "148.500"),
            ("FM999.999", "0.000", "0."),
            ("FM999.999", "0.500", ".5"),
            ("FM99.90", "0.00", ".00"),
            ("999\" m\"", "485", " 485 m"),
            ("999.9", "148.5", " 148.5"),
            ("FM0999.9", "-148.5", "-0148.5"),
            ("999D999", "148.500", " 148.500"),
            ("9 9 9", "485", " 4 8 5"),
            ("L999", "485", "  485"),
            ("RN", "485", "        CDLXXXV"),
            ("FMRN", "485", "CDLXXXV"),
            ("FMrn", "5", "v"),
            ("99V999", "12000", " 12000"),
            ("99.9S", "-1.5", " 1.5-"),
        ] {
            let read = Pattern::read(pattern).unwrap();
            let absolute = digits.strip_prefix('-');
            let found = read.shown(absolute.is_some(), absolute.unwrap_or(digits));
            assert_eq!(found, shown, "{pattern} of {digits}");
        }
        for pattern in ["9.9.9", "SMI9", "S9S", "9V9.9"] {
            let read = Pattern::read(pattern);
            assert!(read.is_err() || pattern == "SMI9", "{pattern}");
        }
    }

    #[test]
    fn texts_are_numbers_as_in_postgresql() {
        for (text, pattern, number) in [
            ("-34,338,492", "99G999G999", Some("-34338492")),
            ("-34,338,492.654,878", "99G999G999D999G999", Some("-34338492.654878")),
            ("<564646.654564>", "999999.999999PR", Some("-564646.654564")),
            ("0.00001-", "9.999999S", Some("-0.00001")),
            ("5.01-", "FM9.999999S", Some("-5.01")),
            ("5.01-", "FM9.999999MI", Some("-5.01")),
            (" 4 4 4 4 8 . 7 8 ".replace(' ', "").as_str(), "99999.99", Some("44448.78")),
            (".01", "99.99", Some(".01")),
            (".0", "99999999.99999999", Some(".0")),
            ("12,454.8-", "99G999D9S", Some("-12454.8")),
            ("$1,234.56", "L9,999.99", Some("1234.56")),
            ("x", "999", None),
        ] {
            let read = Pattern::read(pattern).unwrap();
            assert_eq!(number_of(text, &read).as_deref(), number, "{text} {pattern}");
        }
    }
}
