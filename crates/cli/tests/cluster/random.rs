//! Random decisions that a seed repeats.

/// Repeats a run.
const SEED: &str = "HYPOSTYLE_TEST_SEED";

/// How many times the campaign runs, each time with the next seed.
const ROUNDS: &str = "HYPOSTYLE_TEST_ROUNDS";

/// A seed for each round; the one that fails is the last that was printed.
pub fn seeds() -> impl Iterator<Item = u64> {
    let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let first = number_of(SEED).unwrap_or_else(now);
    let seeds = (0..rounds()).map(move |round| first.wrapping_add(round));
    seeds.inspect(|seed| println!("{SEED}={seed}"))
}

/// Returns how many times a campaign runs.
pub fn rounds() -> u64 {
    number_of(ROUNDS).unwrap_or(1)
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}

/// A small generator of pseudo-random numbers (splitmix64).
pub struct Random(u64);

impl Random {
    /// Streams of one seed are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Self(seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93)).next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn node(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    /// Returns a name for a statement.
    pub fn uuid(&mut self) -> String {
        let text = format!("{:016x}{:016x}", self.next(), self.next());
        [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
    }

    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for place in (1..values.len()).rev() {
            values.swap(place, self.node(place + 1));
        }
    }
}
