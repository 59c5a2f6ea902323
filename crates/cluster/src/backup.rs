//! BACKUP CLUSTER: each node writes a backup of its own database, all of one published state.
//!
//! A backup is made of a snapshot, which is taken at once and copied for a long time. So the node that
//! coordinates holds publications off only while all nodes take their snapshots. What appends have
//! written and not published is in the backups, too, as it is on the disk of a node that has crashed:
//! nobody sees it, and the next writer deletes it.

use crate::coordinate::{no_majority, replaced, start_thread};
use crate::history;
pub use crate::message::Backup;
use crate::message::{Reply, Request};
use crate::node::Node;
use crate::peers::{is_unreachable, not_here, unexpected};
use hypostyle_placement::catalog::{Catalog, Node as Member, NodeState};
use hypostyle_placement::term::{Answer, Ask, Stored};
use hypostyle_placement::{Epoch, NodeId, Term};
use hypostyle_storage::{Snapshot, check_new_backup};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How long publications are held off at most: less than they wait for each other.
const HELD_OFF: Duration = Duration::from_secs(2);

/// How long a node keeps a snapshot that nobody asks for.
const KEPT: Duration = Duration::from_secs(60);

/// How often somebody looks whether the statement is cancelled.
const LOOK: Duration = Duration::from_millis(100);

/// How long a statement that has failed waits for nodes to end their work.
const ENDING: Duration = Duration::from_secs(10);

/// The mode of a database's directory.
const DIRECTORY_MODE: u32 = 0o700;

/// The backups that a node has begun.
pub(crate) type Backups = Mutex<BTreeMap<Uuid, Begun>>;

/// A backup that a node has begun.
pub(crate) enum Begun {
    /// Its snapshot is there.
    Kept(Arc<Snapshot>),
    /// It is written, until somebody sets this.
    Written(Arc<AtomicBool>),
}

/// A node, and where it writes its backup.
#[derive(Clone)]
struct Target {
    member: Member,
    directory: String,
}

impl Node {
    /// Backs up all nodes that are not lost, each into the directory of its name below one, on its own
    /// machine. `check` ends the work by an error.
    ///
    /// # Errors
    /// Those of a node, which is named; `ReadOnly` on a node that does not coordinate.
    pub fn back_up_cluster(&self, directory: &Path, check: &dyn Fn() -> Result<()>) -> Result<()> {
        self.check_coordinates()?;
        let (id, targets) = (Uuid::new_v4(), targets(&*self.known_catalog()?, directory)?);
        let prepared = self.on_each(&targets, |node, target| {
            node.step(target, Backup::Prepare { directory: target.directory.clone() })
        })?;
        all(&targets, &prepared, None, check)?;
        if let Err(error) = self.take_snapshots(id, &targets, check) {
            self.forget(id, &targets)?;
            return Err(error);
        }
        self.write_backups(id, &targets, check)
    }

    /// Has all nodes take their snapshots while nothing is published.
    fn take_snapshots(&self, id: Uuid, targets: &[Target], check: &dyn Fn() -> Result<()>) -> Result<()> {
        self.hold_off(|catalog| {
            check_nodes(catalog, targets)?;
            let end = Some(Instant::now() + HELD_OFF);
            let (term, epoch, owner) = (catalog.term, catalog.epoch, catalog.coordinator);
            let store = Ask::Store { owner, stored: Stored { term, epoch, content: catalog.clone() } };
            let of_node = store.clone();
            let kept = self.on_each(targets, move |node, target| {
                node.give_catalog(target.member.id, &of_node)?;
                node.ask(target.member.id, Request::Ask(Box::new(Ask::Publish { term, epoch })), None)?;
                node.step(target, Backup::Keep { id, term, epoch })
            })?;
            all(targets, &kept, end, check)?;
            // Whoever has published something meanwhile has a later term, which one of them knows.
            let confirmed =
                self.on_each(targets, move |node, target| node.give_catalog(target.member.id, &store))?;
            all(targets, &confirmed, end, check)
        })
    }

    /// Has all nodes write their backups. If one fails, those end that have not written theirs.
    fn write_backups(&self, id: Uuid, targets: &[Target], check: &dyn Fn() -> Result<()>) -> Result<()> {
        let answers = self.on_each(targets, move |node, target| {
            node.step(target, Backup::Write { id, directory: target.directory.clone() })
        })?;
        let mut results = BTreeMap::new();
        let mut failed: Option<(Error, Instant)> = None;
        while results.len() < targets.len() {
            let arrived = answers.recv_timeout(LOOK);
            let mut error = check().err();
            match arrived {
                Ok((node, result)) => {
                    error = error.or(result.as_ref().err().cloned());
                    results.insert(node, result);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if let (None, Some(error)) = (&failed, error) {
                self.forget(id, targets)?;
                failed = Some((error, Instant::now() + ENDING));
            }
            if failed.as_ref().is_some_and(|(_, end)| Instant::now() > *end) {
                break;
            }
        }
        // Who cancels it may come too late.
        if targets.iter().all(|target| results.get(&target.member.id).is_some_and(Result::is_ok)) {
            return Ok(());
        }
        let error = failed.map_or_else(|| Error::internal("a node did not answer"), |(error, _)| error);
        Err(with_remains(&error, targets, &results))
    }

    /// Tells the nodes that a backup is not wanted any more, and waits for none.
    fn forget(&self, id: Uuid, targets: &[Target]) -> Result<()> {
        self.on_each(targets, move |node, target| node.step(target, Backup::Forget { id })).map(drop)
    }

    /// Gives a node the published catalog, if it takes it of this coordinator.
    fn give_catalog(&self, to: NodeId, store: &Ask<Catalog>) -> Result<()> {
        match self.ask(to, Request::Ask(Box::new(store.clone())), None)? {
            Reply::Answer(Some(answer)) => match *answer {
                Answer::Refused { term } => Err(replaced(term)),
                Answer::Accepted { .. } | Answer::Promised { .. } => Ok(()),
            },
            _ => Err(unexpected("a message")),
        }
    }

    fn step(&self, target: &Target, step: Backup) -> Result<()> {
        match self.ask(target.member.id, Request::Backup(step), None)? {
            Reply::BackedUp => Ok(()),
            _ => Err(unexpected("a message")),
        }
    }

    /// Does something for each node, each on a thread of its own.
    fn on_each(
        &self,
        targets: &[Target],
        work: impl Fn(&Self, &Target) -> Result<()> + Clone + Send + 'static,
    ) -> Result<Receiver<(NodeId, Result<()>)>> {
        let (answers, arrived) = channel();
        for target in targets {
            let (node, target, work, answers) =
                (self.shared()?, target.clone(), work.clone(), answers.clone());
            let work = move || {
                let result = work(&node, &target).map_err(|error| named(error, &target.member));
                let _nobody_waits = answers.send((target.member.id, result));
            };
            start_thread("hypostyle-backup", work)?;
        }
        Ok(arrived)
    }

    /// Takes a step of a backup on this node.
    pub(crate) fn take_backup_step(&self, step: Backup) -> Result<()> {
        match step {
            Backup::Prepare { directory } => {
                check_new_backup(Path::new(&directory))?;
                self.database().checkpoint().map(drop)
            }
            Backup::Keep { id, term, epoch } => self.keep_snapshot(id, (term, epoch)),
            Backup::Write { id, directory } => self.write_kept(id, Path::new(&directory)),
            Backup::Forget { id } => {
                let mut backups = self.backups.lock();
                match backups.get(&id) {
                    Some(Begun::Written(ends)) => ends.store(true, Ordering::Release),
                    Some(Begun::Kept(_)) => drop(backups.remove(&id)),
                    None => {}
                }
                Ok(())
            }
        }
    }

    fn keep_snapshot(&self, id: Uuid, wanted: (Term, Epoch)) -> Result<()> {
        self.store_readable()?;
        let snapshot = self.database().snapshot()?;
        if history::readable(&snapshot)? != Some(wanted) {
            let (term, epoch) = wanted;
            return Err(not_here(format!("the node does not have epoch {epoch} of term {term}")));
        }
        self.backups.lock().insert(id, Begun::Kept(snapshot));
        let node = Arc::downgrade(&self.shared()?);
        let drop_it = move || {
            thread::sleep(KEPT);
            if let Some(node) = node.upgrade() {
                let mut backups = node.backups.lock();
                if matches!(backups.get(&id), Some(Begun::Kept(_))) {
                    backups.remove(&id);
                }
            }
        };
        start_thread("hypostyle-backup", drop_it)
    }

    fn write_kept(&self, id: Uuid, directory: &Path) -> Result<()> {
        let ends = Arc::new(AtomicBool::new(false));
        let snapshot = {
            let mut backups = self.backups.lock();
            match backups.remove(&id) {
                Some(Begun::Kept(snapshot)) => {
                    backups.insert(id, Begun::Written(ends.clone()));
                    snapshot
                }
                Some(written) => {
                    backups.insert(id, written);
                    return Err(Error::new(ErrorKind::Busy, "the backup is being written already"));
                }
                None => return Err(Error::new(ErrorKind::NotFound, "the snapshot of the backup is gone")),
            }
        };
        let result = self.write_snapshot(&snapshot, directory, &ends);
        self.backups.lock().remove(&id);
        result
    }

    /// Writes a backup into a directory of its own. If that fails, nothing of it stays.
    fn write_snapshot(&self, snapshot: &Arc<Snapshot>, directory: &Path, ends: &AtomicBool) -> Result<()> {
        let above = directory.parent().filter(|above| !above.as_os_str().is_empty() && !above.exists());
        check_new_backup(directory)?;
        let made = above.map_or(Ok(()), fs::create_dir_all);
        // Only a directory that was made here is removed.
        let made = made.and_then(|()| DirBuilder::new().mode(DIRECTORY_MODE).create(directory));
        made.map_err(|error| {
            Error::from_io(&error, format_args!("cannot create the directory \"{}\"", directory.display()))
        })?;
        let result = self.database().backup_of(snapshot, directory, |_| !ends.load(Ordering::Acquire));
        if result.is_err() {
            // Best effort: the error that matters is the first one.
            let _ = fs::remove_dir_all(directory);
            if let Some(above) = above {
                let _ = fs::remove_dir(above);
            }
        }
        result.map(drop)
    }
}

/// Returns the nodes that are backed up, and where.
///
/// # Errors
/// `InvalidInput` for a name that no directory can have.
fn targets(catalog: &Catalog, directory: &Path) -> Result<Vec<Target>> {
    let members = catalog.nodes.iter().filter(|member| member.state != NodeState::Lost);
    let target = |member: &Member| {
        let path = Path::new(&member.name);
        let is_plain = path.components().eq([Component::Normal(path.as_os_str())]);
        let directory = directory.join(path).into_os_string().into_string().ok().filter(|_| is_plain);
        let directory = directory.ok_or_else(|| {
            Error::invalid_input(format!("no directory can have the name of node \"{}\"", member.name))
        })?;
        Ok(Target { member: member.clone(), directory })
    };
    members.map(target).collect()
}

/// Looks whether the nodes are still those of the catalog, and a majority.
fn check_nodes(catalog: &Catalog, targets: &[Target]) -> Result<()> {
    let members = catalog.nodes.iter().filter(|member| member.state != NodeState::Lost);
    if !members.eq(targets.iter().map(|target| &target.member)) {
        return Err(Error::new(ErrorKind::Conflict, "the nodes of the cluster have changed meanwhile"));
    }
    if targets.len() <= catalog.nodes.len() / 2 {
        return Err(no_majority());
    }
    Ok(())
}

/// Waits until all nodes have answered, or one has failed.
fn all(
    targets: &[Target],
    answers: &Receiver<(NodeId, Result<()>)>,
    end: Option<Instant>,
    check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let mut missing: Vec<&Member> = targets.iter().map(|target| &target.member).collect();
    while let Some(member) = missing.first() {
        check()?;
        match answers.recv_timeout(LOOK) {
            Ok((node, result)) => {
                result?;
                missing.retain(|member| member.id != node);
            }
            Err(RecvTimeoutError::Timeout) if end.is_none_or(|end| Instant::now() < end) => {}
            Err(_) => {
                let message = "it has not answered in time: nothing was backed up";
                let error = Error::new(ErrorKind::Connection, message).with_sqlstate("08006");
                return Err(named(error, member));
            }
        }
    }
    Ok(())
}

/// Names the node in its error, unless it is named.
fn named(error: Error, member: &Member) -> Error {
    let node = format!("node \"{}\"", member.name);
    match error.message().contains(&node) {
        true => error,
        false => error.context(format!("{node} at {}", member.address)),
    }
}

/// Adds to an error which backups are there.
fn with_remains(error: &Error, targets: &[Target], results: &BTreeMap<NodeId, Result<()>>) -> Error {
    let (mut complete, mut unknown) = (Vec::new(), Vec::new());
    for Target { member, directory } in targets {
        let shown = format!("\"{directory}\" of node \"{}\"", member.name);
        match results.get(&member.id) {
            Some(Ok(())) => complete.push(shown),
            Some(Err(error)) if !is_unreachable(error) => {}
            _ => unknown.push(shown),
        }
    }
    let complete = match complete.as_slice() {
        [] => "no backup is complete".to_string(),
        some => format!("complete, but of no use alone: {}", some.join(", ")),
    };
    let unknown = match unknown.as_slice() {
        [] => String::new(),
        some => format!("; unknown: {}", some.join(", ")),
    };
    // A conflict would be tried again, where directories are now.
    let kind = if error.kind() == ErrorKind::Conflict { ErrorKind::Io } else { error.kind() };
    Error::new(kind, format!("{}; {complete}{unknown}", error.message())).with_sqlstate(error.sqlstate())
}
