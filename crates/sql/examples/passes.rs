//! Prints what the passes of `hypostyle_sql::parse` make of a statement, one after the other:
//! `cargo run -p hypostyle-sql --example passes -- "SELECT a FROM t GROUP BY ROLLUP ((a, b))"`.

use hypostyle_sql::parse::{Extension, parse_watched};

fn main() -> hypostyle_types::Result<()> {
    let sql = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let mut last = sql.clone();
    let parsed = parse_watched(&sql, &Extension::NONE, &mut |pass, statement| {
        let (name, why, after) = (pass.name, pass.why, pass.after.join(", "));
        let shown = statement.to_string();
        match shown == last {
            true => println!("{name}: changes nothing"),
            false => println!("{name}, after [{after}]: {why}\n    {shown}"),
        }
        last = shown;
    })?;
    println!("{parsed}");
    Ok(())
}
