//! The half of `make bench` that is measured from Rust: peers that are libraries of the same
//! process. It also has the link for `make bench-protocol`.
//!
//! Timings are not printed here. A subcommand that measures writes its samples as JSON, and the
//! Python script of the same name in `bench/` reports them beside the other peers.

#![forbid(unsafe_code)]

mod commits;
mod datafusion_peer;
mod design_space;
mod relay;
mod tpch;

use clap::Parser;

#[derive(Parser)]
#[command(about = "Measures Hypostyle beside other Rust libraries; see bench/README.md")]
enum Command {
    /// The 22 TPC-H queries on Hypostyle and on DataFusion over in-memory Arrow
    Tpch(tpch::Arguments),
    /// Durable commits of one row each, by one thread and by several
    Commits(commits::Arguments),
    /// The chapter's design space, Tables 3.3 to 3.9, from our own code
    DesignSpace(design_space::Arguments),
    /// A link of a given rate and round trip between a server and its clients
    Relay(relay::Arguments),
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match Command::parse() {
        Command::Tpch(arguments) => tpch::run(&arguments),
        Command::Commits(arguments) => commits::run(&arguments),
        Command::DesignSpace(arguments) => design_space::run(&arguments),
        Command::Relay(arguments) => relay::run(&arguments),
    }
}
