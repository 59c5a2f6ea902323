//! A minus before an INTERVAL literal, whatever the interval: `- INTERVAL 'x'` is `-(INTERVAL 'x')`
//! and `INTERVAL 'x' * -1`, in a query and in the condition of a DELETE.

use crate::backup::rows;
use hypostyle::{Database, OpenOptions};

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Returns the text of an interval in one of the forms of PostgreSQL.
fn interval(random: &mut Random) -> String {
    let mut parts = Vec::new();
    for unit in ["years", "mons", "weeks", "days", "hours", "minutes", "seconds", "us"] {
        if random.below(3) == 0 {
            let sign = ["", "-", "+"][random.below(3)];
            parts.push(format!("{sign}{} {unit}", random.below(100)));
        }
    }
    let has_time =
        parts.iter().any(|part| ["hours", "minutes", "seconds"].iter().any(|unit| part.contains(unit)));
    if random.below(3) == 0 && !has_time {
        let sign = ["", "-", "+"][random.below(3)];
        let clock = (random.below(30), random.below(60), random.below(60), random.below(1000));
        parts.push(format!("{sign}{:02}:{:02}:{:02}.{:03}", clock.0, clock.1, clock.2, clock.3));
    }
    match parts.is_empty() {
        true => {
            ["1-2", "-1-2", "P1Y2M-3DT4H", "1.5 days", "1 2:03:04", "-3", "1 day ago"][random.below(7)].into()
        }
        false => parts.join(" "),
    }
}

#[test]
fn a_minus_is_of_the_interval() {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    connection.execute("CREATE TABLE one (n INTEGER)").unwrap();
    connection.execute("INSERT INTO one VALUES (1)").unwrap();
    let mut random = Random(20_240_305);
    for _ in 0..200 {
        let text = interval(&mut random);
        let forms = [
            format!("- INTERVAL '{text}'"),
            format!("-(INTERVAL '{text}')"),
            format!("INTERVAL '{text}' * -1"),
            format!("-('{text}'::INTERVAL)"),
        ];
        let alike: Vec<String> =
            forms[1..].iter().map(|form| format!("({})::TEXT = ({form})::TEXT", forms[0])).collect();
        let shown = rows(&connection, &format!("SELECT {}", alike.join(" AND ")));
        assert!(shown.contains("| true "), "{text}: {shown}");
        let delete = format!("DELETE FROM one WHERE (- INTERVAL '{text}') <> (INTERVAL '{text}' * -1)");
        assert_eq!(connection.execute(&delete).unwrap().rows_affected(), Some(0), "{text}");
    }
}
