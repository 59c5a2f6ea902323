//! States as the catalog file and the log have them, for readers and for recovery (format.md §7, §8).

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use super::{ATTEMPTS, leftovers};
use crate::names::{SHARED, catalog_name, log_name, lost, version_of_catalog};
use crate::readers::Readers;
use crate::snapshot::{Snapshot, State};
use hypostyle_format::{Catalog, LogReader, SHARED_BYTES, Shared};
use hypostyle_io::{File, Store, boot_id};
use hypostyle_types::{Error, ErrorKind, Result, Version, to_usize};
use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

/// A place in the log of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub checkpoint: Version,
    pub offset: u64,
}

impl Position {
    /// Returns the place up to which the log is durable: all of one that a checkpoint has left behind.
    pub fn durable(shared: &Shared) -> Self {
        Self { checkpoint: shared.checkpoint, offset: shared.synced }
    }
}

/// A state, and the place in the log that it comes from.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub snapshot: Arc<Snapshot>,
    pub log: File,
    pub position: Position,
}

/// `None` when there is no whole one, after some patience with a process that is writing it.
pub(super) fn read_shared(store: &Store, shared: &OnceLock<File>) -> Result<Option<Shared>> {
    let file = match shared.get() {
        Some(file) => file,
        None => match store.open(SHARED) {
            Ok(file) => shared.get_or_init(|| file),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        },
    };
    for _ in 0..ATTEMPTS {
        let mut bytes = [0; SHARED_BYTES];
        if file.read_up_to(0, &mut bytes)? < SHARED_BYTES {
            return Ok(None);
        }
        if let Some(shared) = Shared::decode(&bytes) {
            return Ok(Some(shared));
        }
        std::thread::yield_now();
    }
    Ok(None)
}

/// The checkpoint whose log is in use, as who opens the database now finds it, and how much of the
/// log is published.
pub(crate) fn checkpoint_in_use(store: &Store) -> Result<(Version, Option<u64>)> {
    let boot = boot_id();
    let known = read_shared(store, &OnceLock::new())?.filter(|shared| shared.boot == boot);
    if let Some(shared) = known {
        return Ok((shared.checkpoint, Some(shared.published)));
    }
    let names = store.list("")?;
    let versions = names.iter().filter_map(|name| version_of_catalog(name));
    // A crash may leave a newer one without its log.
    let newest = versions.max_by_key(|version| (names.contains(&log_name(*version)), *version));
    Ok((newest.ok_or_else(|| Error::corrupt("the catalog is missing"))?, None))
}

/// Looks whether all frames of a log are whole.
pub(crate) fn check_log(store: &Store, checkpoint: Version, end: Option<u64>) -> Result<()> {
    let mut bytes = store.open(&log_name(checkpoint)).map_err(lost)?.read_all()?;
    bytes.truncate(to_usize(end.unwrap_or(u64::MAX)));
    let mut reader = LogReader::new(&bytes, checkpoint);
    while reader.next_commit()?.is_some() {}
    match end {
        Some(end) if end != reader.offset() as u64 => Err(Error::corrupt(format!(
            "the log is damaged at byte {}: {end} bytes of it were committed; restore it from a backup",
            reader.offset()
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn read_catalog(store: &Store, checkpoint: Version) -> Result<Catalog> {
    let name = catalog_name(checkpoint);
    Catalog::decode_checkpoint(&store.open(&name)?.read_all()?)
        .map_err(|error| error.context(format!("file \"{name}\"")))
}

/// The view of a checkpoint and its log, up to an offset or as far as it is whole.
fn load(store: &Arc<Store>, checkpoint: Version, end: Option<u64>) -> Result<View> {
    let (state, incomplete) = State::of_checkpoint(store, read_catalog(store, checkpoint)?)?;
    let log = store.open(&log_name(checkpoint))?;
    let snapshot = Arc::new(Snapshot::new(store, &state, None));
    let mut view = View { snapshot, log, position: Position { checkpoint, offset: 0 } };
    read_on(store, &mut view, end)?;
    let exists = |id| view.snapshot.table_by_id(id).is_some();
    match incomplete.into_iter().find(|(id, _)| exists(*id)) {
        Some((_, error)) => Err(error),
        None => Ok(view),
    }
}

/// Applies the commits of the log from where the view is.
fn read_on(store: &Arc<Store>, view: &mut View, end: Option<u64>) -> Result<()> {
    let start = view.position.offset;
    let end_of_file = view.log.length()?;
    let until = end.unwrap_or(end_of_file);
    if until == start {
        return Ok(());
    }
    if until > end_of_file {
        return Err(Error::corrupt(format!("the log ends before byte {until}")));
    }
    let bytes = view.log.read(start..until)?;
    let mut state = view.snapshot.state();
    let mut reader = LogReader::new(&bytes, state.catalog.version);
    while let Some(commit) = reader.next_commit()? {
        let version = state.catalog.version.next();
        state.apply(&commit, Vec::new()).map_err(|error| error.context(format!("version {version}")))?;
    }
    let reached = start + reader.offset() as u64;
    if end.is_some_and(|end| end != reached) {
        return Err(Error::corrupt(format!("the log ends at byte {reached} instead of {until}")));
    }
    view.snapshot = Arc::new(Snapshot::new(store, &state, Some(&view.snapshot)));
    view.position.offset = reached;
    Ok(())
}

/// Brings a view to a position that another process, or another part of this one, has reached.
///
/// # Errors
/// `NotFound` when a checkpoint has removed the log meanwhile.
pub(super) fn advance(store: &Arc<Store>, view: &mut View, target: Position) -> Result<()> {
    if view.position >= target {
        return Ok(());
    }
    if view.position.checkpoint != target.checkpoint {
        // The old log leads to the new checkpoint, unless there was another one between.
        let mut old = view.clone();
        read_on(store, &mut old, None)?;
        if old.snapshot.version() != target.checkpoint {
            let loaded = load(store, target.checkpoint, Some(target.offset))?;
            let mut state = loaded.snapshot.state();
            state.remember(&view.snapshot, target.checkpoint);
            *view = View { snapshot: Arc::new(Snapshot::new(store, &state, Some(&view.snapshot))), ..loaded };
            return Ok(());
        }
        let state = old.snapshot.state().at_checkpoint(read_catalog(store, target.checkpoint)?);
        *view = View {
            snapshot: Arc::new(Snapshot::new(store, &state, Some(&old.snapshot))),
            log: store.open(&log_name(target.checkpoint))?,
            position: Position { checkpoint: target.checkpoint, offset: 0 },
        };
    }
    read_on(store, view, Some(target.offset))
}

pub(super) fn view_of_reader(store: &Arc<Store>, shared: &OnceLock<File>, boot: [u8; 16]) -> Result<View> {
    let mut tried = None;
    for _ in 0..ATTEMPTS {
        let known = read_shared(store, shared)?.filter(|shared| shared.boot == boot);
        let published = known.map(|shared| (shared.checkpoint, shared.published));
        let view = match published {
            Some((checkpoint, published)) => load(store, checkpoint, Some(published)),
            None => load_newest(store),
        };
        match view {
            // Something newer has been published meanwhile, and the file removed.
            Err(error)
                if error.kind() == ErrorKind::NotFound && tried.replace(published) != Some(published) => {}
            view => return view.map_err(lost),
        }
    }
    Err(Error::new(ErrorKind::Busy, "the database changes faster than it can be read"))
}

/// Opens the log for writing, under the commit lock. Also the version that is known to be durable.
pub(super) fn recover_as_writer(
    store: &Arc<Store>,
    shared: &OnceLock<File>,
    boot: [u8; 16],
    readers: &Readers,
) -> Result<(View, Version)> {
    let alone = readers.alone()?;
    let known = read_shared(store, shared)?.filter(|shared| shared.boot == boot);
    let view = match known {
        // What was not published when a sync failed may or may not be on the disk.
        Some(shared) if !alone || shared.sync_failed => {
            load(store, shared.checkpoint, Some(shared.published))
        }
        // Nobody writes, so what counts is what the log has. `shared` is never synced: where a file
        // system was lost and mounted anew it may be older than what was acknowledged. It never
        // tells of more than is durable.
        _ => load_newest(store).and_then(|view| match known {
            Some(shared) if !reaches(&view, &shared) => Err(Error::corrupt(format!(
                "the log of checkpoint {} ends at byte {}, where commits up to byte {} of that of checkpoint {} were durable; \
                 restore it from a backup",
                view.position.checkpoint, view.position.offset, shared.synced, shared.checkpoint
            ))),
            _ => Ok(view),
        }),
    };
    let view = view.map_err(lost)?;
    if let Some(shared) = known.filter(|_| !alone) {
        // What the others have published need not be durable.
        return Ok((view, shared.checkpoint));
    }
    let checkpoint = view.position.checkpoint;
    let end = view.position.offset;
    clear_unfinished(&view.log, end)?;
    if known.is_some_and(|shared| shared.sync_failed) {
        // The system takes what it could not write for written: it has to be told once more.
        let log = view.log.read(0..end)?;
        view.log.write_at(0, &log)?;
    }
    view.log.sync()?;
    store.sync_directory("")?;
    let file = shared.get().ok_or_else(|| Error::internal("a writer without shared state"))?;
    let (written, published, synced) = (end, end, end);
    let told =
        Shared { checkpoint, written, published, synced, sync_failed: false, commit_waits: false, boot };
    file.write_at(0, &told.encode())?;
    // Who has come since was told of commits that others had written and not published only by now:
    // what they drop, he may be reading.
    if alone && readers.alone()? {
        leftovers::remove_all(store, checkpoint, view.snapshot.catalog())?;
    }
    let durable = view.snapshot.version();
    Ok((view, durable))
}

/// Whether a view has all that is known to be durable.
fn reaches(view: &View, shared: &Shared) -> bool {
    let Position { checkpoint, offset } = view.position;
    match checkpoint.cmp(&shared.checkpoint) {
        // The older log leads to the newer checkpoint.
        Ordering::Less => view.snapshot.version() >= shared.checkpoint && shared.synced == 0,
        Ordering::Equal => offset >= shared.synced,
        Ordering::Greater => true,
    }
}

/// Puts zeros behind the end of the log, durably: what is left of commits that were not finished
/// must never be taken for one that follows.
pub(super) fn clear_unfinished(log: &File, end: u64) -> Result<()> {
    let mut rest = log.read(end..log.length()?)?;
    if rest.iter().any(|byte| *byte != 0) {
        rest.fill(0);
        log.write_at(end, &rest)?;
        log.sync()?;
    }
    Ok(())
}

/// The checkpoint whose log leads furthest, the newer of two that lead as far: who wrote the newest
/// may have died before others knew, and they went on with the log of the one before (format.md §7
/// rule 3).
fn load_newest(store: &Arc<Store>) -> Result<View> {
    let names = store.list("")?;
    let mut checkpoints: Vec<Version> = names.iter().filter_map(|name| version_of_catalog(name)).collect();
    checkpoints.sort();
    let mut newest: Option<View> = None;
    let mut missing = Error::corrupt("the catalog is missing");
    for checkpoint in checkpoints {
        match load(store, checkpoint, None) {
            Ok(view) => {
                let behind = |newest: &View| newest.snapshot.version() > view.snapshot.version();
                if !newest.as_ref().is_some_and(behind) {
                    newest = Some(view);
                }
            }
            // One that is not in use may have lost files.
            Err(error) if error.kind() == ErrorKind::NotFound => missing = error,
            Err(error) => return Err(error),
        }
    }
    newest.ok_or(missing)
}

pub(super) fn shared_is_damaged() -> Error {
    Error::corrupt(
        "the file \"shared\" was damaged while the database is open; close the database everywhere",
    )
}
