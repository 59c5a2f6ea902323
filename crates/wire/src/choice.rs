//! Which codec each column gets, from what was measured while the transfer runs (design: codecs
//! that are chosen online).
//!
//! A stream is a pipeline: cores encode, the link carries, the receiver decodes, and the slowest of
//! them sets the pace. For each column some candidates are known from its earlier chunks, by their
//! ratio and their time; the others are guessed from the nearest that is known, a little too well,
//! so that they are tried once where they could pay. Bytes are weighed against time by a price; of
//! several prices that one is taken whose choices make the fastest pipeline.

#![expect(
    clippy::cast_possible_truncation,
    reason = "what is encoded is the program's own, and has fewer than 2^32 rows"
)]

use crate::codec::{Codec, LZ4, ZSTD};
use crate::compression::Compression;
use crate::encode_job::Measured;
use crate::sink::Settings;
use crate::text;
use arrow_schema::DataType;
use std::time::Duration;

const fn zstd(level: i32, rounded: bool) -> Settings {
    Settings { compression: Compression::Zstd(level), rounded, ..Settings::QUICK }
}

/// A candidate, and what is expected of it until it was tried.
struct Candidate {
    settings: Settings,
    /// Bytes, as a part of what fast encodings alone leave.
    ratio: f32,
    /// Times what fast encodings alone take.
    effort: f32,
}

/// The candidates from light to heavy. Rounded widths may leave more for a compression to find.
#[rustfmt::skip]
const CANDIDATES: [Candidate; 11] = [
    Candidate { settings: Settings::PLAIN, ratio: 2.0, effort: 0.05 },
    Candidate { settings: Settings::QUICK, ratio: 1.0, effort: 1.0 },
    Candidate { settings: Settings::LIGHT, ratio: 0.5, effort: 1.5 },
    Candidate { settings: Settings { compression: Compression::Lz4, ..Settings::QUICK }, ratio: 0.5, effort: 2.0 },
    Candidate { settings: zstd(1, false), ratio: 0.3, effort: 4.0 },
    Candidate { settings: zstd(1, true), ratio: 0.295, effort: 4.0 },
    Candidate { settings: zstd(3, true), ratio: 0.28, effort: 8.0 },
    Candidate { settings: zstd(6, true), ratio: 0.265, effort: 20.0 },
    Candidate { settings: zstd(9, false), ratio: 0.25, effort: 45.0 },
    Candidate { settings: zstd(9, true), ratio: 0.25, effort: 45.0 },
    Candidate { settings: zstd(12, false), ratio: 0.24, effort: 90.0 },
];

const PLAIN: usize = 0;
const QUICK: usize = 1;
const SYMBOLS: usize = 2;

/// Guesses of fast encodings alone: the part of the bytes that is left, and nanoseconds a byte.
const QUICK_GUESS: Rate = Rate { ratio: 0.4, time: 0.7 };

/// Prices of a byte, as parts of its time on the link: the first, and how many by a factor of a root of two.
const PRICE_FIRST: f32 = 1.0 / 64.0;
const PRICES: usize = 27;
const PRICES_APART: usize = 3;

/// So much longer than expected a column's encoding is believed to have taken at most.
const LONGER_MAX: f32 = 2.0;

/// How much of decoding counts as work beside encoding, when one candidate is weighed against another.
const DECODING: f32 = 0.25;

/// Kinds of columns: strings and nested ones, bits, floats, and integers of each width.
const KINDS: usize = 8;

/// The chunks after which something that was measured is forgotten, to be tried again if it may pay.
const FORGET_CHUNKS: u64 = 32;

/// So many chunks at first are chosen for one by one, and all of a link that is full; else a choice
/// holds for some: it takes time, too.
const CHOSEN_ALWAYS: u64 = 16;
const CHOSEN_FOR: u64 = 4;

/// Measurements of less than this say little of a link: kernels and routers move some hundred KiB at a time.
const LINK_BYTES: u64 = 512 << 10;

/// A link that is never full may be faster than it is known to be, so that a faster one is tried
/// step by step,
const LINK_RISE: f64 = 1.5;

/// not before so many times after the last measurement, and not faster than so many times what
/// passes: then nothing waits for the link.
const LINK_TRUSTED: u32 = 4;
const LINK_SPARE: f64 = 2.0;

/// What is tried first where nothing is known, and the link is never full.
const LINK_GUESS: f64 = 100e6;

/// No link is taken for a faster or slower one, in bytes a second.
const LINK_RANGE: (f64, f64) = (1e3, 2e10);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate {
    /// Bytes for one before.
    ratio: f32,
    /// Nanoseconds for a byte before.
    time: f32,
}

impl Rate {
    /// Returns the average with a newer measurement.
    fn and(self, new: Self) -> Self {
        Self { ratio: self.ratio * 0.7 + new.ratio * 0.3, time: self.time * 0.7 + new.time * 0.3 }
    }
}

/// What was measured of each candidate.
#[derive(Clone, Copy, Debug, Default)]
struct Rates([Option<Rate>; CANDIDATES.len()]);

impl Rates {
    fn add(&mut self, candidate: usize, new: Rate) {
        let kept = &mut self.0[candidate];
        *kept = Some(kept.map_or(new, |old| old.and(new)));
    }
}

#[derive(Clone, Debug)]
struct Column {
    rates: Rates,
    /// Candidates, by their bits, that chunks under way try: each is tried once before it is judged.
    tried: u16,
    /// Columns of a kind are much alike.
    kind: usize,
    /// Bytes before codecs of a chunk.
    raw: f32,
}

impl Column {
    fn new(data_type: &DataType) -> Self {
        let kind = match data_type {
            DataType::Dictionary(code, _) => code.primitive_width().map_or(0, kind_of_width),
            DataType::Boolean => 1,
            DataType::Float32 | DataType::Float64 => 2,
            other => other.primitive_width().map_or(0, kind_of_width),
        };
        Self { rates: Rates::default(), tried: 0, kind, raw: 0.0 }
    }

    fn is_known(&self, candidate: usize) -> bool {
        self.rates.0[candidate].is_some()
    }

    /// Whether a candidate is to be chosen: one that is being tried is not, until it is known what
    /// it does, where there are known ones.
    fn may_take(&self, candidate: usize) -> bool {
        self.is_known(candidate)
            || self.tried & (1 << candidate) == 0
            || !(0..CANDIDATES.len()).any(|other| self.is_known(other))
    }

    /// What a candidate is expected to do, by what it did to this column, else to its kind.
    fn expect(&self, candidate: usize, kinds: &[Rates; KINDS]) -> Rate {
        let (own, kind) = (&self.rates.0, &kinds[self.kind].0);
        if let Some(rate) = own[candidate] {
            return rate;
        }
        if candidate == PLAIN {
            return Rate { ratio: 1.0, time: 0.05 };
        }
        if let (Some(rate), Some(quick), Some(own_quick)) = (kind[candidate], kind[QUICK], own[QUICK]) {
            // As much better than what is known of both as it was for the others.
            return Rate { ratio: rate.ratio * own_quick.ratio / quick.ratio.max(1e-6), time: rate.time };
        }
        // The heaviest known one that is lighter tells most; what symbols do to strings tells nothing.
        let lighter = (QUICK..candidate).rev().filter(|index| *index != SYMBOLS);
        let known = lighter.filter_map(|index| own[index].map(|rate| (index, rate))).next();
        let (index, rate) = known.unwrap_or((QUICK, QUICK_GUESS));
        Rate {
            ratio: rate.ratio * CANDIDATES[candidate].ratio / CANDIDATES[index].ratio,
            time: rate.time * CANDIDATES[candidate].effort / CANDIDATES[index].effort,
        }
    }
}

fn kind_of_width(bytes: usize) -> usize {
    3 + bytes.next_power_of_two().trailing_zeros().min(4) as usize
}

/// Nanoseconds that a candidate costs each stage.
#[derive(Clone, Copy, Default)]
struct Cost {
    encode: f32,
    send: f32,
    decode: f32,
}

impl Cost {
    fn plus(self, other: Self) -> Self {
        Self {
            encode: self.encode + other.encode,
            send: self.send + other.send,
            decode: self.decode + other.decode,
        }
    }

    /// The slowest stage sets the pace; the others want the processors too, the more the nearer
    /// they come to it.
    fn pipeline(self) -> f32 {
        let stages = [self.encode, self.send, self.decode];
        stages.iter().map(|stage| stage * stage * stage).sum::<f32>().cbrt()
    }
}

/// A candidate for a column.
#[derive(Clone, Copy)]
struct Choice {
    candidate: usize,
    cost: Cost,
    /// The work of the processors.
    work: f32,
}

/// Puts a choice behind those of its column, the first of which has the place `first`, unless one
/// of them is better in both ways.
fn add_option(options: &mut Vec<Choice>, first: usize, choice: Choice) {
    let better = |one: &Choice, other: &Choice| one.work <= other.work && one.cost.send <= other.cost.send;
    if options[first..].iter().any(|known| better(known, &choice)) {
        return;
    }
    while options.len() > first && options.last().is_some_and(|last| better(&choice, last)) {
        options.pop();
    }
    options.push(choice);
}

/// Where time on the link has a price in time of the processors.
fn cheapest(options: &[Choice], price: f32) -> &Choice {
    let weight = |choice: &Choice| choice.work + choice.cost.send * price;
    let (mut best, mut least) = (&options[0], weight(&options[0]));
    for choice in &options[1..] {
        let weight = weight(choice);
        if weight < least {
            (best, least) = (choice, weight);
        }
    }
    best
}

/// What a sender has seen of the link while it sent a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnLink {
    /// The time since the chunk before was sent.
    pub elapsed: Duration,
    pub full: Full,
}

impl OnLink {
    /// It was full all the time.
    pub fn full(bytes: u64, time: Duration) -> Self {
        Self { elapsed: time, full: Full { bytes, time } }
    }
}

/// What went out while the link was full, so that the sender had to wait: that alone shows how fast
/// it is. What kernels and routers take at once does not, nor does what a link could have carried
/// while the sender was busy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Full {
    pub bytes: u64,
    pub time: Duration,
}

impl Full {
    /// Returns what has come to sums since.
    pub fn since(self, before: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(before.bytes), time: self.time.saturating_sub(before.time) }
    }

    /// Returns the sums with `connections` that have carried as much each meanwhile.
    pub fn times(self, connections: u32) -> Self {
        Self { bytes: self.bytes * u64::from(connections), ..self }
    }
}

/// What is known of a stream, and what follows.
pub(crate) struct Chooser {
    codec: Codec,
    allowed: Vec<usize>,
    accepted: u32,
    cores: f32,
    is_local: bool,
    columns: Vec<Column>,
    kinds: [Rates; KINDS],
    /// Bytes a second; unknown at first.
    pub link: Option<f64>,
    /// A link that is not full is believed to be no faster for so many times yet.
    trusted: u32,
    /// What was sent since the link was judged, and what of it while it was full.
    unjudged: (u64, OnLink),
    chunks: u64,
    /// The last choice, and whether it tries something.
    chosen: Vec<Settings>,
    tries: bool,
}

impl Chooser {
    pub fn new(codec: Codec, accepted: u32, cores: usize, columns: &[DataType]) -> Self {
        let accepts = |number: u8| accepted & (1 << number) != 0;
        let allowed = (0..CANDIDATES.len()).filter(|index| match CANDIDATES[*index].settings.compression {
            Compression::None => true,
            Compression::Lz4 => accepts(LZ4),
            Compression::Zstd(_) => accepts(ZSTD),
        });
        Self {
            codec,
            allowed: allowed.collect(),
            accepted,
            cores: cores.max(1) as f32,
            is_local: false,
            columns: columns.iter().map(Column::new).collect(),
            kinds: [Rates::default(); KINDS],
            link: None,
            trusted: 0,
            unjudged: Default::default(),
            chunks: 0,
            chosen: Vec::new(),
            tries: false,
        }
    }

    /// The receiver is on this machine, at whose cost every codec is: nothing is worth one.
    pub fn share_machine(&mut self) {
        self.is_local = true;
    }

    /// Chooses for the columns of the next chunk, whose bytes are told.
    pub fn choose(&mut self, raw: impl Iterator<Item = usize>) -> Vec<Settings> {
        if self.codec != Codec::Auto {
            return vec![self.fixed(); self.columns.len()];
        }
        if self.is_local {
            return vec![Settings::PLAIN; self.columns.len()];
        }
        let Some(link) = self.link else {
            return vec![Settings::LIGHT; self.columns.len()];
        };
        for (column, raw) in self.columns.iter_mut().zip(raw) {
            column.raw = raw as f32;
        }
        self.chunks += 1;
        if self.chunks.is_multiple_of(FORGET_CHUNKS) {
            self.forget((self.chunks / FORGET_CHUNKS) as usize);
        }
        let was_full = self.trusted == LINK_TRUSTED;
        if was_full || self.chunks <= CHOSEN_ALWAYS || self.tries || self.chunks.is_multiple_of(CHOSEN_FOR) {
            let best = self.best(1e9 / link as f32);
            self.tries = false;
            for (column, candidate) in self.columns.iter_mut().zip(&best) {
                if !column.is_known(*candidate) {
                    column.tried |= 1 << candidate;
                    self.tries = true;
                }
            }
            self.chosen = best.into_iter().map(|candidate| CANDIDATES[candidate].settings).collect();
        }
        self.chosen.clone()
    }

    fn fixed(&self) -> Settings {
        let accepts = |number: u8| self.accepted & (1 << number) != 0;
        match self.codec {
            Codec::None => Settings::PLAIN,
            Codec::Lz4 if accepts(LZ4) => Settings { compression: Compression::Lz4, ..Settings::QUICK },
            Codec::Zstd(level) if accepts(ZSTD) => zstd(level, false),
            _ => Settings::LIGHT,
        }
    }

    /// One measurement of each column, another candidate's each time.
    fn forget(&mut self, turn: usize) {
        for (index, column) in self.columns.iter_mut().enumerate() {
            column.rates.0[(turn + index) % CANDIDATES.len()] = None;
        }
    }

    /// The candidates that make the fastest pipeline, on a link where a byte takes so many nanoseconds.
    fn best(&self, link: f32) -> Vec<usize> {
        let mut options = Vec::with_capacity(self.columns.len() * self.allowed.len());
        let ends = self.columns.iter().map(|column| {
            let first = options.len();
            for candidate in self.allowed.iter().filter(|candidate| column.may_take(**candidate)) {
                let cost = self.cost(column, *candidate, link);
                let work = cost.encode + cost.decode * DECODING;
                add_option(&mut options, first, Choice { candidate: *candidate, work, cost });
            }
            options.len()
        });
        let ends: Vec<usize> = ends.collect();
        let of_columns = || {
            let starts = std::iter::once(0).chain(ends.iter().copied());
            starts.zip(&ends).map(|(start, end)| &options[start..*end])
        };
        let price = |step: usize| PRICE_FIRST * std::f32::consts::SQRT_2.powi(step as i32);
        let pipeline = |step: usize| {
            let chosen = of_columns().map(|options| cheapest(options, price(step)).cost);
            chosen.fold(Cost::default(), Cost::plus).pipeline()
        };
        // Most often the time falls and then rises with the price: a few prices first, then those
        // beside the best.
        let best_of = |steps: &mut dyn Iterator<Item = usize>| {
            let steps = steps.map(|step| (pipeline(step), step));
            let best = steps.min_by(|one, other| one.0.total_cmp(&other.0));
            best.map_or(0, |(_, step)| step)
        };
        let near = best_of(&mut (0..PRICES).step_by(PRICES_APART));
        let mut around = near.saturating_sub(PRICES_APART - 1)..(near + PRICES_APART).min(PRICES);
        let step = best_of(&mut around);
        of_columns().map(|options| cheapest(options, price(step)).candidate).collect()
    }

    fn cost(&self, column: &Column, candidate: usize, link: f32) -> Cost {
        let rate = column.expect(candidate, &self.kinds);
        // A receiver is not measured. Undoing Zstandard is as fast at all levels, and about as
        // encoding is else.
        let decode = match CANDIDATES[candidate].settings.compression {
            _ if candidate == PLAIN => 0.05,
            Compression::None => 0.3,
            Compression::Lz4 => 0.5,
            Compression::Zstd(_) => 1.0,
        };
        Cost {
            encode: column.raw * rate.time / self.cores,
            send: column.raw * rate.ratio * link,
            decode: column.raw * decode / self.cores,
        }
    }

    /// What encoding a column so took; whether symbols were found for it tells what else is known by it.
    pub fn encoded(&mut self, column: usize, measured: &Measured) {
        let Measured { settings, raw, bytes, time, encoding, .. } = *measured;
        let candidate = CANDIDATES.iter().position(|candidate| candidate.settings == settings);
        let (Some(candidate), 1..) = (candidate, raw) else { return };
        let column = &mut self.columns[column];
        // What takes much longer than it should had to wait for a processor.
        let longest = column.expect(candidate, &self.kinds).time * LONGER_MAX;
        let time = (time.as_nanos() as f32 / raw as f32).min(longest);
        let new = Rate { ratio: bytes as f32 / raw as f32, time };
        let without_symbols = candidate == SYMBOLS && encoding != text::SYMBOLS;
        for candidate in [Some(candidate), without_symbols.then_some(QUICK)].into_iter().flatten() {
            column.rates.add(candidate, new);
            column.tried &= !(1 << candidate);
            self.kinds[column.kind].add(candidate, new);
        }
    }

    /// What was sent, and what the link has shown meanwhile.
    pub fn sent(&mut self, bytes: u64, seen: OnLink) {
        let (sent, OnLink { elapsed, full }) = &mut self.unjudged;
        *sent += bytes;
        *elapsed += seen.elapsed;
        full.bytes += seen.full.bytes;
        full.time += seen.full.time;
        let speed = |bytes: u64, time: Duration| bytes as f64 / time.as_secs_f64().max(1e-9);
        if *sent < LINK_BYTES {
            return;
        }
        let judged = if full.bytes >= *sent / 2 {
            self.trusted = LINK_TRUSTED;
            let speed = speed(full.bytes, full.time);
            self.link.map_or(speed, |link| 2.0 / (1.0 / link + 1.0 / speed))
        } else {
            let link = self.link.unwrap_or(LINK_GUESS);
            let is_trusted = self.trusted > 0;
            self.trusted = self.trusted.saturating_sub(1);
            let faster = (link * LINK_RISE).min(speed(*sent, *elapsed) * LINK_SPARE);
            if is_trusted { link } else { link.max(faster) }
        };
        self.link = Some(judged.clamp(LINK_RANGE.0, LINK_RANGE.1));
        self.unjudged = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::COMPRESSIONS;

    /// Strings of English: ratio and time of the candidates as they were measured of `l_comment`.
    fn comment(settings: Settings) -> Rate {
        let (ratio, time) = match settings.compression {
            Compression::None if !settings.light => (1.0, 0.02),
            Compression::None if !settings.symbols => (0.9, 0.1),
            Compression::None => (0.45, 2.0),
            Compression::Lz4 => (0.48, 2.5),
            Compression::Zstd(1) => (0.26, 3.3),
            Compression::Zstd(3) => (0.245, 7.0),
            Compression::Zstd(6) => (0.225, 20.0),
            Compression::Zstd(9) => (0.22, 35.0),
            Compression::Zstd(_) => (0.21, 70.0),
        };
        Rate { ratio, time }
    }

    /// What is chosen after a while on a link of so many bytes a second.
    fn settled(link: f64, accepted: u32) -> Settings {
        let mut chooser = Chooser::new(Codec::Auto, accepted, 2, &[DataType::LargeUtf8]);
        let raw = 1 << 20;
        let mut counts: Vec<(Settings, usize)> = Vec::new();
        for number in 0..100 {
            let settings = chooser.choose([raw].into_iter())[0];
            assert!(number > 0 || settings == Settings::LIGHT, "the first chunk is encoded lightly");
            let rate = comment(settings);
            let bytes = (raw as f32 * rate.ratio) as usize;
            let time = Duration::from_secs_f32(raw as f32 * rate.time / 1e9);
            let encoding = if settings.symbols { text::SYMBOLS } else { 0 };
            let (compression, setup, symbols) = (0, Duration::ZERO, None);
            chooser
                .encoded(0, &Measured { settings, raw, bytes, encoding, compression, time, setup, symbols });
            let bytes = bytes as u64;
            chooser.sent(bytes, OnLink::full(bytes, Duration::from_secs_f64(bytes as f64 / link)));
            match counts.iter_mut().find(|(found, _)| *found == settings) {
                Some((_, count)) => *count += 1,
                None => counts.push((settings, 1)),
            }
        }
        let (settings, count) = counts.into_iter().max_by_key(|(_, count)| *count).unwrap();
        assert!(count > 60, "{settings:?} only {count} times");
        settings
    }

    #[test]
    fn the_slower_the_link_the_heavier_the_codec() {
        assert!(!settled(8e9, COMPRESSIONS).light);
        let level = |link: f64| match settled(link, COMPRESSIONS).compression {
            Compression::Zstd(level) => level,
            _ => 0,
        };
        assert_eq!(level(2e9), 0);
        assert_eq!(level(125e6), 1);
        assert!((6..=12).contains(&level(12.5e6)), "{}", level(12.5e6));
        assert_eq!(level(1.25e6), 12);
    }

    #[test]
    fn only_a_full_link_shows_its_speed() {
        let mut chooser = Chooser::new(Codec::Auto, COMPRESSIONS, 2, &[]);
        let millis = Duration::from_millis;
        chooser.sent(100_000, OnLink::full(100_000, millis(1)));
        assert_eq!(chooser.link, None, "so little shows nothing");
        // Of a MB, how much was sent while the link was full.
        let mut send = |elapsed: u64, bytes: u64, time: u64| {
            let full = Full { bytes, time: millis(time) };
            chooser.sent(1_000_000, OnLink { elapsed: millis(elapsed), full });
            chooser.link.unwrap() / 1e6
        };
        assert_eq!(send(9, 900_000, 9), 100.0);
        let idle: Vec<f64> = (0..LINK_TRUSTED + 20).map(|_| send(2, 0, 0)).collect();
        assert!(idle[..LINK_TRUSTED as usize].iter().all(|link| *link == 100.0));
        assert!(idle.is_sorted(), "it may have become faster");
        assert_eq!(idle.last(), Some(&1000.0), "of one that is faster than what passes nothing is known");
        (0..10).for_each(|_| _ = send(100, 1_000_000, 100));
        assert!(send(100, 1_000_000, 100) < 11.0, "a slower one is believed at once");
    }

    #[test]
    fn nothing_is_chosen_that_the_receiver_cannot_undo() {
        assert_eq!(settled(1e6, 1).compression, Compression::None);
        assert_eq!(
            settled(1e6, 1 | 1 << LZ4).compression,
            Compression::None,
            "LZ4 is no better than symbols"
        );
        let fixed = |codec, accepted| {
            Chooser::new(codec, accepted, 1, &[DataType::LargeUtf8]).choose([1].into_iter())[0]
        };
        assert_eq!(fixed(Codec::Zstd(7), 1), Settings::LIGHT);
        assert_eq!(fixed(Codec::Light, COMPRESSIONS), Settings::LIGHT);
        assert_eq!(fixed(Codec::Lz4, COMPRESSIONS).compression, Compression::Lz4);
        assert_eq!(fixed(Codec::None, COMPRESSIONS), Settings::PLAIN);
    }
}
