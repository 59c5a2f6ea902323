//! What a crash may leave: each write and sync of a workload is recorded, cut short at some moment,
//! and what was not durable is kept, lost, torn or reordered at random. Every such image of the
//! directory opens, has every acknowledged commit, and no part of one; but for tables that were
//! loaded in bulk while nothing was synced, which say that they are damaged.

use crate::common::copy_directory;
use crate::common::history::*;
use hypostyle_format::Shared;
use hypostyle_io::{Observer, Operation};
use hypostyle_storage::{Database, OpenMode, StorageOptions, Synchronous};
use hypostyle_types::ErrorKind;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What is torn of a write that was not synced.
const SECTOR: usize = 512;
const ROUNDS: &str = "HYPOSTYLE_TEST_ROUNDS";
const IMAGES_IN_ROUND: usize = 12;
const COMMITS_OF_THREAD: i64 = 9;

/// What happened, in order. Names are relative to the directory of the database.
#[derive(Clone, Debug)]
enum Event {
    Create(String),
    Write(String, u64, Vec<u8>),
    SetLength(String, u64),
    Sync(String),
    Rename(String, String),
    Remove(String),
    CreateDirectory(String),
    RemoveDirectory(String),
    SyncDirectory(String),
    /// A commit is under way.
    Started(i64, Synchronous),
    Acknowledged(i64, Synchronous),
    /// Everything acknowledged up to the event of this number is durable, whatever `synchronous` was.
    Checkpoint(usize),
}

impl Event {
    /// The same, behind so many others.
    fn after(self, events: usize) -> Self {
        match self {
            Self::Checkpoint(at) => Self::Checkpoint(at + events),
            other => other,
        }
    }
}

#[derive(Debug)]
struct Recorder {
    prefix: String,
    events: Mutex<Vec<Event>>,
}

impl Recorder {
    fn new(path: &Path) -> Arc<Self> {
        Arc::new(Self { prefix: path.display().to_string(), events: Mutex::default() })
    }

    fn record(&self, event: Event) -> usize {
        let mut events = self.events.lock().unwrap();
        events.push(event);
        events.len()
    }

    /// `None` for what happens outside of the directory.
    fn event(&self, operation: Operation<'_>) -> Option<Event> {
        let name = |path: &str| Some(path.strip_prefix(&self.prefix)?.trim_matches('/').to_string());
        Some(match operation {
            Operation::Create { file } => Event::Create(name(file)?),
            Operation::Write { file, offset, bytes } => Event::Write(name(file)?, offset, bytes.to_vec()),
            Operation::Copy { from, file, offset, length } => {
                let mut bytes = vec![0; length as usize];
                fs::File::open(from).unwrap().read_exact_at(&mut bytes, offset).unwrap();
                Event::Write(name(file)?, offset, bytes)
            }
            Operation::SetLength { file, length } => Event::SetLength(name(file)?, length),
            Operation::Sync { file } => Event::Sync(name(file)?),
            Operation::Rename { from, to } => Event::Rename(name(from)?, name(to)?),
            Operation::Remove { file } => Event::Remove(name(file)?),
            Operation::CreateDirectory { directory } => Event::CreateDirectory(name(directory)?),
            Operation::RemoveDirectory { directory } => Event::RemoveDirectory(name(directory)?),
            Operation::SyncDirectory { directory } => Event::SyncDirectory(name(directory)?),
        })
    }

    fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    fn open(self: &Arc<Self>) -> Arc<Database> {
        let options = StorageOptions { observer: Some(self.clone()), ..OpenMode::ReadWrite.into() };
        Database::open(Path::new(&self.prefix), options).unwrap()
    }

    fn commit(&self, database: &Arc<Database>, change: &Change) {
        self.record(Event::Started(change.id, database.synchronous()));
        commit(database, change).unwrap();
        self.record(Event::Acknowledged(change.id, database.synchronous()));
    }

    fn checkpoint(&self, database: &Arc<Database>) {
        let before = self.events.lock().unwrap().len();
        if database.checkpoint().unwrap() {
            self.record(Event::Checkpoint(before));
        }
    }
}

impl Observer for Recorder {
    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        if let Some(event) = self.event(operation) {
            self.record(event);
        }
        Ok(())
    }
}

/// The files of a directory with their content; directories have none.
type Image = BTreeMap<String, Option<Vec<u8>>>;

/// What a crash does to that which is not durable.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crash {
    /// Only the process dies: everything that was written is there.
    Kill,
    /// Names change in the order of the operations, as in the journal of ext4.
    Ordered,
    /// Each name is as it was, or as it became.
    Unordered,
}

#[derive(Clone, Debug)]
enum Entry {
    File(usize),
    Directory,
}

#[derive(Clone, Debug)]
enum NameChange {
    Set(String, Entry),
    Remove(String),
    Rename(String, String),
}

impl NameChange {
    fn directory(&self) -> &str {
        let (Self::Set(name, _) | Self::Remove(name) | Self::Rename(_, name)) = self;
        name.rsplit_once('/').map_or("", |(directory, _)| directory)
    }

    fn apply(&self, names: &mut BTreeMap<String, Entry>) {
        match self {
            Self::Set(name, entry) => drop(names.insert(name.clone(), entry.clone())),
            Self::Remove(name) => names.retain(|other, _| other != name && !is_within(other, name)),
            Self::Rename(from, to) => {
                let entry = names.remove(from);
                names.extend(entry.map(|entry| (to.clone(), entry)));
            }
        }
    }
}

fn is_within(name: &str, directory: &str) -> bool {
    name.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

#[derive(Clone, Debug)]
enum Edit {
    Write(u64, Vec<u8>),
    SetLength(u64),
}

impl Edit {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write(offset, bytes) => {
                let end = *offset as usize + bytes.len();
                content.resize(content.len().max(end), 0);
                content[*offset as usize..end].copy_from_slice(bytes);
            }
            Self::SetLength(length) => content.resize(*length as usize, 0),
        }
    }

    /// The parts of which each is on the disk or not.
    fn sectors(&self) -> Vec<Self> {
        let Self::Write(offset, bytes) = self else { return vec![self.clone()] };
        let first = (SECTOR - *offset as usize % SECTOR).min(bytes.len());
        let (first, rest) = bytes.split_at(first);
        let mut offset = *offset;
        let parts = std::iter::once(first).chain(rest.chunks(SECTOR));
        parts
            .map(|part| {
                offset += part.len() as u64;
                Self::Write(offset - part.len() as u64, part.to_vec())
            })
            .collect()
    }
}

/// A disk, of which only a part is durable.
struct Disk {
    crash: Crash,
    /// What is durable of each file, and what has changed since.
    files: Vec<(Vec<u8>, Vec<Edit>)>,
    /// The names as processes see them.
    names: BTreeMap<String, Entry>,
    durable_names: BTreeMap<String, Entry>,
    name_changes: Vec<NameChange>,
}

impl Disk {
    fn new(image: &Image, crash: Crash) -> Self {
        let mut files = Vec::new();
        let mut names = BTreeMap::new();
        for (name, content) in image {
            names.insert(
                name.clone(),
                match content {
                    None => Entry::Directory,
                    Some(content) => {
                        files.push((content.clone(), Vec::new()));
                        Entry::File(files.len() - 1)
                    }
                },
            );
        }
        Self { crash, files, durable_names: names.clone(), names, name_changes: Vec::new() }
    }

    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.push(change);
    }

    /// The file of that name, unless it has been unlinked since it was opened.
    fn file(&mut self, name: &str) -> Option<&mut (Vec<u8>, Vec<Edit>)> {
        match self.names.get(name) {
            Some(Entry::File(index)) => self.files.get_mut(*index),
            _ => None,
        }
    }

    fn happen(&mut self, event: &Event) {
        match event.clone() {
            Event::Create(name) => {
                if self.names.contains_key(&name) {
                    self.change_name(NameChange::Remove(name.clone()));
                }
                self.files.push((Vec::new(), Vec::new()));
                self.change_name(NameChange::Set(name, Entry::File(self.files.len() - 1)));
            }
            Event::Write(name, offset, bytes) => {
                if let Some((_, edits)) = self.file(&name) {
                    edits.push(Edit::Write(offset, bytes));
                }
            }
            Event::SetLength(name, length) => {
                if let Some((_, edits)) = self.file(&name) {
                    edits.push(Edit::SetLength(length));
                }
            }
            Event::Sync(name) => {
                if let Some((content, edits)) = self.file(&name) {
                    edits.drain(..).for_each(|edit| edit.apply(content));
                }
            }
            Event::Rename(from, to) => self.change_name(NameChange::Rename(from, to)),
            Event::Remove(name) => {
                if self.names.contains_key(&name) {
                    self.change_name(NameChange::Remove(name));
                }
            }
            Event::CreateDirectory(name) => {
                if !name.is_empty() && !self.names.contains_key(&name) {
                    self.change_name(NameChange::Set(name, Entry::Directory));
                }
            }
            Event::RemoveDirectory(name) => {
                let inside = self.names.keys().filter(|other| is_within(other, &name));
                for file in inside.cloned().collect::<Vec<_>>() {
                    self.change_name(NameChange::Remove(file));
                }
                self.change_name(NameChange::Remove(name));
            }
            Event::SyncDirectory(directory) => self.sync_directory(&directory),
            Event::Started(..) | Event::Acknowledged(..) | Event::Checkpoint(_) => {}
        }
    }

    fn sync_directory(&mut self, directory: &str) {
        let last = self.name_changes.iter().rposition(|change| change.directory() == directory);
        let Some(last) = last else { return };
        let (ordered, names) = (self.crash == Crash::Ordered, &mut self.durable_names);
        let mut index = 0;
        self.name_changes.retain(|change| {
            let durable = index <= last && (ordered || change.directory() == directory);
            index += 1;
            if durable {
                change.apply(names);
            }
            !durable
        });
    }

    /// What is found after the crash.
    fn crashed(mut self, random: &mut Random) -> Image {
        let mut names = self.durable_names;
        let kept = random.below(self.name_changes.len() as u64 + 1) as usize;
        let all = random.once_in(3);
        for (index, change) in self.name_changes.iter().enumerate() {
            let durable = match self.crash {
                Crash::Kill => true,
                Crash::Ordered => all || index < kept,
                Crash::Unordered => all || random.once_in(2),
            };
            if durable {
                change.apply(&mut names);
            }
        }
        for (content, edits) in &mut self.files {
            let edits = std::mem::take(edits);
            match if self.crash == Crash::Kill { 0 } else { random.below(5) } {
                0 => edits.iter().for_each(|edit| edit.apply(content)),
                1 => {}
                2 => edits.iter().filter(|_| random.once_in(2)).for_each(|edit| edit.apply(content)),
                3 => {
                    let mut sectors: Vec<Edit> = edits.iter().flat_map(Edit::sectors).collect();
                    sectors.retain(|_| random.once_in(2));
                    sectors.iter().for_each(|edit| edit.apply(content));
                }
                _ => {
                    let sectors: Vec<Edit> = edits.iter().flat_map(Edit::sectors).collect();
                    let kept = random.below(sectors.len() as u64 + 1) as usize;
                    sectors[..kept].iter().for_each(|edit| edit.apply(content));
                }
            }
        }
        let exists = |name: &str| {
            let mut above = name;
            while let Some((directory, _)) = above.rsplit_once('/') {
                if !matches!(names.get(directory), Some(Entry::Directory)) {
                    return false;
                }
                above = directory;
            }
            true
        };
        let found = names.iter().filter(|(name, _)| exists(name));
        found
            .map(|(name, entry)| {
                let content = match entry {
                    Entry::File(index) => Some(self.files[*index].0.clone()),
                    Entry::Directory => None,
                };
                (name.clone(), content)
            })
            .collect()
    }
}

/// The directory after a crash at a moment. After a restart of the machine, what processes told
/// each other means nothing.
fn image_of(before: &Image, events: &[Event], crash: Crash, random: &mut Random) -> Image {
    let mut disk = Disk::new(before, crash);
    events.iter().for_each(|event| disk.happen(event));
    let mut image = disk.crashed(random);
    if crash != Crash::Kill
        && let Some(Some(bytes)) = image.get_mut("shared")
    {
        match Shared::decode(bytes) {
            Some(shared) if random.once_in(2) => {
                *bytes = Shared { boot: [7; 16], ..shared }.encode().to_vec();
            }
            _ => *bytes = (0..random.below(100)).map(|_| random.below(256) as u8).collect(),
        }
    }
    image
}

fn write(image: &Image, path: &Path) {
    for (name, content) in image {
        match content {
            None => fs::create_dir_all(path.join(name)).unwrap(),
            Some(content) => fs::write(path.join(name), content).unwrap(),
        }
    }
}

/// What must be found of the commits.
struct Expected<'a> {
    changes: &'a BTreeMap<i64, Change>,
    /// The commits, as they follow each other; a commit that a crash has lost is followed by others.
    orders: Vec<Vec<i64>>,
    /// Those that must be there.
    durable: BTreeSet<i64>,
    /// Those that may be there.
    started: BTreeSet<i64>,
    /// Those of which a power failure may have lost what they have written to column files.
    unsynced: BTreeSet<i64>,
}

impl<'a> Expected<'a> {
    fn after(
        events: &[Event],
        crash: Crash,
        changes: &'a BTreeMap<i64, Change>,
        orders: Vec<Vec<i64>>,
        mut durable: BTreeSet<i64>,
        mut unsynced: BTreeSet<i64>,
    ) -> Self {
        let mut started = durable.clone();
        let acknowledged = |events: &[Event], any: bool| -> BTreeSet<i64> {
            let of_event = |event: &Event| match event {
                Event::Acknowledged(id, synchronous) => {
                    let is_synced = *synchronous == Synchronous::Full || removes_files(&changes[id]);
                    (any || is_synced).then_some(*id)
                }
                _ => None,
            };
            events.iter().filter_map(of_event).collect()
        };
        durable.extend(acknowledged(events, crash == Crash::Kill));
        for event in events {
            match event {
                Event::Started(id, synchronous) => {
                    started.insert(*id);
                    if *synchronous == Synchronous::Off && crash != Crash::Kill {
                        unsynced.insert(*id);
                    }
                }
                Event::Checkpoint(at) => durable.extend(acknowledged(&events[..*at], true)),
                _ => {}
            }
        }
        Self { changes, orders, durable, started, unsynced }
    }

    /// The tables that commits have loaded in bulk, of which nothing was synced.
    fn fragile(&self, journal: &[i64]) -> BTreeSet<String> {
        let mut fragile = BTreeSet::new();
        for id in journal {
            let is_many =
                |values: &Range<i64>| self.unsynced.contains(id) && values.end - values.start >= MANY;
            for step in &self.changes[id].steps {
                match step {
                    Step::Insert { table, values } if is_many(values) => drop(fragile.insert(table.clone())),
                    Step::Rename { table, to } if fragile.remove(table) => drop(fragile.insert(to.clone())),
                    Step::Drop { table } => drop(fragile.remove(table)),
                    _ => {}
                }
            }
        }
        fragile
    }

    /// The commits that a database has, and its tables that are damaged.
    fn check(&self, database: &Arc<Database>) -> (Vec<i64>, BTreeSet<String>) {
        let (journal, tables, damaged) = read_sound(&database.snapshot().unwrap());
        let mut orders = self.orders.iter();
        assert!(
            orders.any(|order| order.starts_with(&journal)),
            "not the commits up to some moment: {journal:?}"
        );
        let found: BTreeSet<i64> = journal.iter().copied().collect();
        let lost: Vec<_> = self.durable.difference(&found).collect();
        assert!(lost.is_empty(), "lost: {lost:?}; found: {journal:?}");
        let early: Vec<_> = found.difference(&self.started).collect();
        assert!(early.is_empty(), "commits from nowhere: {early:?}");
        let mut expected = Tables::new();
        journal.iter().for_each(|id| apply(&mut expected, &self.changes[id]));
        let fragile = self.fragile(&journal);
        let harmed: Vec<_> = damaged.difference(&fragile).collect();
        assert!(harmed.is_empty(), "damaged, but not loaded in bulk without a sync: {harmed:?}; {journal:?}");
        expected.retain(|name, _| !damaged.contains(name));
        assert!(tables == expected, "the rows are not those of {journal:?}");
        (journal, damaged)
    }

    /// Opens an image in every way.
    fn check_image(&self, image: &Image) -> Recovered {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image.hypo");
        fs::create_dir(&path).unwrap();
        write(image, &path);
        let read_only = match Database::open(&path, OpenMode::ReadOnly) {
            Ok(database) => self.check(&database).0,
            Err(error) => {
                assert!(!image.contains_key("HYPOSTYLE") && self.durable.is_empty(), "{error}");
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                Vec::new()
            }
        };
        let recorder = Recorder::new(&path);
        let database = recorder.open();
        let (journal, damaged) = self.check(&database);
        assert!(journal.starts_with(&read_only), "{read_only:?} read, {journal:?} when open for writing");
        let next = self.next(&journal, &damaged);
        recorder.commit(&database, &next);
        if journal.len().is_multiple_of(2) {
            recorder.checkpoint(&database);
        }
        drop(database);
        let changes = self.changes.iter().map(|(id, change)| (*id, change.clone()));
        let order = [&journal[..], &[next.id]].concat();
        let expected = Expected {
            changes: &changes.chain([(next.id, next.clone())]).collect(),
            durable: order.iter().copied().collect(),
            started: order.iter().copied().collect(),
            orders: vec![order],
            // What was damaged is dropped.
            unsynced: BTreeSet::new(),
        };
        let database = Database::open(&path, OpenMode::ReadWrite).unwrap();
        expected.check(&database);
        assert_nothing_is_left_behind(&path, &database.snapshot().unwrap());
        Recovered { journal, damaged, next, events: recorder.events() }
    }

    /// What somebody does who finds these commits, and tables that are damaged.
    fn next(&self, journal: &[i64], damaged: &BTreeSet<String>) -> Change {
        let id = self.changes.keys().min().unwrap().min(&0) - 1;
        let t = || "t".to_string();
        let insert = Step::Insert { table: t(), values: id * MANY..(id + 1) * MANY };
        let mut steps: Vec<Step> = damaged.iter().map(|table| Step::Drop { table: table.clone() }).collect();
        match journal.len() {
            0 => steps.extend(beginning().steps),
            _ if damaged.contains("t") => steps.extend([Step::Create { table: t() }, insert]),
            commits => steps.extend(match commits % 4 {
                0 => vec![Step::Compact { table: t() }],
                1 => vec![Step::Widen { table: t() }, insert],
                _ => vec![insert],
            }),
        }
        Change { id, steps }
    }
}

/// What was found after a crash, and done then.
struct Recovered {
    journal: Vec<i64>,
    damaged: BTreeSet<String>,
    next: Change,
    /// What finding it and going on did to the directory.
    events: Vec<Event>,
}

/// Whether a commit is synced before it returns, whatever `synchronous` is, because files go with it.
fn removes_files(change: &Change) -> bool {
    change.steps.iter().any(|step| matches!(step, Step::Drop { .. } | Step::Convert { .. }))
}

/// Threads with handles of their own commit at the same time; then all is closed, and once more.
fn record(
    path: &Path,
    settings: &[Synchronous],
    random: &mut Random,
) -> (Vec<Event>, BTreeMap<i64, Change>, Vec<i64>) {
    let recorder = Recorder::new(path);
    let mut changes = BTreeMap::from([(0, beginning())]);
    for phase in 0..2_i64 {
        let handles = [recorder.open(), recorder.open()];
        for handle in &handles {
            handle.set_synchronous(settings[random.below(settings.len() as u64) as usize]);
        }
        if phase == 0 {
            recorder.commit(&handles[0], &beginning());
        }
        std::thread::scope(|scope| {
            for thread in 1..=3 {
                let number = phase * 10 + thread;
                let mut author = Author::new(number);
                let of_thread: Vec<Change> = (0..COMMITS_OF_THREAD)
                    .map(|commit| author.change(number * 1000 + commit, random))
                    .collect();
                changes.extend(of_thread.iter().map(|change| (change.id, change.clone())));
                let (recorder, handle) = (&recorder, &handles[thread as usize % 2]);
                let mut random = random.clone();
                scope.spawn(move || {
                    for change in &of_thread {
                        recorder.commit(handle, change);
                        if random.once_in(6) {
                            recorder.checkpoint(handle);
                        }
                    }
                });
            }
        });
    }
    let events = recorder.events();
    let (order, _) = read(&recorder.open().snapshot().unwrap());
    assert_eq!(order.len(), changes.len());
    (events, changes, order)
}

/// The event before a crash, without all of its bytes.
fn last(events: &[Event]) -> String {
    events.last().map_or("nothing".into(), |event| format!("{event:?}").chars().take(80).collect())
}

/// Cuts recorded workloads of handles with these settings at random, and what is done after that once more.
fn crash_at_random(settings: &[Synchronous], rounds_of_one: usize) {
    let mut random = Random(seed());
    let rounds = rounds_of_one * std::env::var(ROUNDS).map_or(1, |rounds| rounds.parse().unwrap());
    let (mut images, mut ahead, mut damages) = (0, 0, 0);
    for round in 0..rounds {
        let directory = tempfile::tempdir().unwrap();
        let (events, changes, order) = record(&directory.path().join("d"), settings, &mut random);
        for image in 0..IMAGES_IN_ROUND {
            let crash = [Crash::Kill, Crash::Ordered, Crash::Unordered][image % 3];
            let cut = random.below(events.len() as u64 + 1) as usize;
            println!("round {round}, {crash:?} at {cut} of {}: {}", events.len(), last(&events[..cut]));
            let image = image_of(&Image::new(), &events[..cut], crash, &mut random);
            let none = BTreeSet::new();
            let expected =
                Expected::after(&events[..cut], crash, &changes, vec![order.clone()], none.clone(), none);
            let Recovered { journal, damaged, next, events: again } = expected.check_image(&image);
            images += 1;
            ahead += usize::from(journal.len() > expected.durable.len());
            damages += usize::from(!damaged.is_empty());

            // A second crash, while the first is being recovered from or after.
            let second = [Crash::Ordered, Crash::Unordered][random.below(2) as usize];
            let again_cut = random.below(again.len() as u64 + 1) as usize;
            println!("  then {second:?} at {again_cut} of {}: {}", again.len(), last(&again[..again_cut]));
            let orders = vec![order.clone(), [&journal[..], &[next.id]].concat()];
            let unsynced = expected.unsynced.clone();
            let mut changes = changes.clone();
            changes.insert(next.id, next);
            // What a killed process has written is not yet durable; what is found after a restart is.
            let (before, mut events, durable) = match crash {
                Crash::Kill => (Image::new(), events[..cut].to_vec(), BTreeSet::new()),
                _ => (image, Vec::new(), journal.into_iter().collect()),
            };
            let first = events.len();
            events.extend(again[..again_cut].iter().cloned().map(|event| event.after(first)));
            let image = image_of(&before, &events, second, &mut random);
            let expected = Expected::after(&events, second, &changes, orders, durable, unsynced);
            expected.check_image(&image);
        }
    }
    println!("{images} images; {ahead} had more than was acknowledged, {damages} a damaged table");
}

#[test]
fn every_image_of_a_crash_has_what_was_acknowledged_and_no_part_of_a_commit() {
    crash_at_random(&[Synchronous::Full, Synchronous::Full, Synchronous::Normal], 4);
}

#[test]
fn an_image_of_a_crash_without_syncs_has_whole_commits_and_damage_only_where_rows_were_loaded_in_bulk() {
    crash_at_random(&[Synchronous::Off, Synchronous::Off, Synchronous::Off, Synchronous::Full], 2);
}

/// Cuts each alteration of a table at each of its operations.
fn crash_while_tables_are_altered(synchronous: Synchronous) {
    let mut random = Random(seed());
    let mut images = 0;
    let (before, scenarios) = alterations();
    for steps in scenarios {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(&directory.path().join("d"));
        let database = recorder.open();
        let perform = |step: &Option<Change>| match step {
            None => recorder.checkpoint(&database),
            Some(change) => recorder.commit(&database, change),
        };
        before.iter().for_each(perform);
        database.set_synchronous(synchronous);
        let first = recorder.events().len();
        steps.iter().for_each(perform);
        drop(database);
        let events = recorder.events();
        let changes: BTreeMap<i64, Change> =
            before.iter().chain(&steps).flatten().map(|change| (change.id, change.clone())).collect();
        let order: Vec<i64> = before.iter().chain(&steps).flatten().map(|change| change.id).collect();
        for cut in first..=events.len() {
            // What stands in the file of a reader is of no interest after a crash.
            if matches!(&events[cut - 1], Event::Write(name, ..) if name.starts_with("readers/")) {
                continue;
            }
            // A process that dies does not lose what was not synced.
            let kill = [Crash::Kill, Crash::Ordered][usize::from(synchronous == Synchronous::Off)];
            let crash = [kill, Crash::Ordered, Crash::Unordered, Crash::Unordered][random.below(4) as usize];
            // That takes long enough: every other one will do.
            if synchronous == Synchronous::Off && random.once_in(2) {
                continue;
            }
            println!("{crash:?} at {cut} of {first} to {}: {}", events.len(), last(&events[..cut]));
            let image = image_of(&Image::new(), &events[..cut], crash, &mut random);
            let (none, orders) = (BTreeSet::new(), vec![order.clone()]);
            let expected = Expected::after(&events[..cut], crash, &changes, orders, none.clone(), none);
            expected.check_image(&image);
            images += 1;
        }
    }
    println!("{images} images");
}

#[test]
fn a_crash_at_any_operation_of_a_compaction_or_an_alteration_leaves_the_old_table_or_the_new() {
    crash_while_tables_are_altered(Synchronous::Full);
}

#[test]
fn a_compaction_or_an_alteration_that_need_not_be_durable_damages_no_table() {
    crash_while_tables_are_altered(Synchronous::Off);
}

#[test]
fn a_new_database_is_durable_in_the_directory_above() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(&directory.path().join("d"));
    drop(recorder.open());
    let of_superblock = |event: &Event| matches!(event, Event::Rename(_, name) if name == "HYPOSTYLE");
    let events = recorder.events();
    let named = events.iter().position(of_superblock).unwrap();
    let above = |event: &Event| matches!(event, Event::SyncDirectory(name) if name == "..");
    assert!(events[..named].iter().any(above), "{events:?}");
}

#[test]
fn a_lost_commit_of_another_handle_is_not_taken_for_damage() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(&directory.path().join("d"));
    let one = recorder.open();
    recorder.commit(&one, &beginning());
    one.set_synchronous(Synchronous::Normal);
    recorder.commit(&one, &insert(1, 1));
    let other = recorder.open();
    other.set_synchronous(Synchronous::Normal);
    recorder.commit(&other, &insert(2, 1));
    drop((one, other));
    // The second write to the log since the last sync is on the disk, the first is not.
    let mut events = recorder.events();
    let to_log = |event: &Event| matches!(event, Event::Write(name, ..) if name.starts_with("log-"));
    let lost = events.iter().enumerate().filter(|(_, event)| to_log(event)).nth(1).unwrap().0;
    events.remove(lost);
    let image = image_of(&Image::new(), &events, Crash::Kill, &mut Random(1));
    let path = directory.path().join("image");
    fs::create_dir(&path).unwrap();
    write(&image, &path);
    fs::remove_file(path.join("shared")).unwrap();
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        let (journal, _) = read(&Database::open(&path, mode).unwrap().snapshot().unwrap());
        assert_eq!(journal, [0]);
    }
}

/// The commits of a database, of which every one is a bulk insert, but for the first.
fn check_backup(path: &Path, mode: OpenMode) -> hypostyle_types::Result<Vec<i64>> {
    let (journal, tables) = read(&*Database::open(path, mode)?.snapshot()?);
    let rows: BTreeSet<i64> = journal.iter().skip(1).flat_map(|id| values_of(*id)).collect();
    let expected = journal.iter().take(1).map(|_| ("t".to_string(), Table::of(rows.clone()))).collect();
    assert!(tables == expected, "the rows are not those of {journal:?}");
    Ok(journal)
}

fn values_of(id: i64) -> std::ops::Range<i64> {
    id * 10_000..id * 10_000 + MANY
}

#[test]
fn a_crash_at_any_operation_of_a_backup_leaves_the_one_before() {
    let mut random = Random(seed());
    let directory = tempfile::tempdir().unwrap();
    let [path, target, monday] = ["d", "target", "monday"].map(|name| directory.path().join(name));
    let recorder = Recorder::new(&target);
    let open = || {
        let options = StorageOptions { observer: Some(recorder.clone()), ..OpenMode::ReadWrite.into() };
        Database::open(&path, options).unwrap()
    };
    let insert = |database: &Arc<Database>, id| commit(database, &insert(id, MANY)).unwrap();
    // Where each backup was complete, and the commits in it.
    let mut backups = Vec::new();
    let mut back_up = |database: &Arc<Database>| {
        database.backup(&target, |_| true).unwrap();
        let journal = check_backup(&target, OpenMode::ReadOnly).unwrap();
        backups.push((recorder.events().len(), journal));
    };
    let database = open();
    commit(&database, &beginning()).unwrap();
    insert(&database, 1);
    back_up(&database);
    copy_directory(&target, &monday);
    insert(&database, 2);
    insert(&database, 3);
    back_up(&database);
    drop(database);
    fs::remove_dir_all(&path).unwrap();
    copy_directory(&monday, &path);
    let database = open();
    insert(&database, 4);
    back_up(&database);
    assert_eq!(backups[1].1, [0, 1, 2, 3]);
    assert_eq!(backups[2].1, [0, 1, 4]);

    let events = recorder.events();
    let mut images = 0;
    for cut in 0..=events.len() {
        let crash = [Crash::Kill, Crash::Ordered, Crash::Unordered][random.below(3) as usize];
        println!("{crash:?} at {cut} of {}: {}", events.len(), last(&events[..cut]));
        let image = image_of(&Image::new(), &events[..cut], crash, &mut random);
        let [read, written] = ["read", "written"].map(|name| directory.path().join(format!("{name} {cut}")));
        for path in [&read, &written] {
            fs::create_dir(path).unwrap();
            write(&image, path);
        }
        let complete = backups.iter().filter(|(at, _)| *at <= cut).count();
        let possible = &backups[complete.saturating_sub(1)..backups.len().min(complete + 1)];
        let found = check_backup(&read, OpenMode::ReadOnly);
        match &found {
            Ok(journal) => assert!(possible.iter().any(|(_, possible)| possible == journal), "{journal:?}"),
            Err(error) => {
                assert_eq!((complete, error.kind()), (0, ErrorKind::InvalidInput), "{error}");
            }
        }
        match check_backup(&written, OpenMode::ReadWrite) {
            // Nothing was there, so that it is a new database.
            Ok(journal) if journal.is_empty() => assert!(!image.contains_key("backup")),
            Ok(journal) => assert_eq!(found.as_ref().ok(), Some(&journal)),
            Err(error) => assert!(found.is_err(), "{error}"),
        }
        database.backup(&read, |_| true).unwrap();
        assert_eq!(check_backup(&read, OpenMode::ReadOnly).unwrap(), backups[2].1);
        images += 1;
        fs::remove_dir_all(&read).unwrap();
        fs::remove_dir_all(&written).unwrap();
    }
    println!("{images} images");
}
