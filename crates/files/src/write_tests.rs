//! Tests COPY … TO for every kind of file that may exist at its target.

use crate::test_directory::TestDirectory;
use crate::tests::export;
use std::fs::{File, Metadata, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::thread;

const ONE: &str = "SELECT 1 AS a";
const MANY: &str = "SELECT value FROM generate_series(1, 200000)";

fn status(path: &str) -> Metadata {
    std::fs::symlink_metadata(path).unwrap()
}

fn fifo(path: &str) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Returns what is in a directory, sorted.
fn names(directory: &TestDirectory) -> Vec<String> {
    let entries = std::fs::read_dir(directory.path("")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn an_existing_file_keeps_its_mode_and_a_new_one_has_the_usual() {
    let directory = TestDirectory::new("mode");
    let path = directory.write("a.csv", "old, and longer than what comes\n");
    let usual = status(&directory.write("usual", "")).mode();
    for mode in [0o600, 0o640, 0o755, 0o444] {
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        if File::options().write(true).open(&path).is_err() {
            let error = export(ONE, &path, &[]).await.unwrap_err();
            assert!(error.contains("ermission denied"), "{error}");
            continue;
        }
        export(ONE, &path, &[]).await.unwrap();
        assert_eq!(status(&path).mode() & 0o7777, mode);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\n1\n");
    }
    let new = directory.path("new.csv");
    export(ONE, &new, &[]).await.unwrap();
    assert_eq!(status(&new).mode(), usual);
}

#[tokio::test]
async fn an_existing_file_keeps_its_owner() {
    let directory = TestDirectory::new("owner");
    let path = directory.write("a.csv", "old\n");
    if std::os::unix::fs::chown(&path, Some(1234), Some(1234)).is_err() {
        return;
    }
    export(ONE, &path, &[]).await.unwrap();
    assert_eq!((status(&path).uid(), status(&path).gid()), (1234, 1234));
}

#[tokio::test]
async fn links_lead_to_what_is_written() {
    let directory = TestDirectory::new("links");
    let target = directory.write("data/target.csv", "old\n");
    let link = directory.path("link.csv");
    symlink("data/target.csv", &link).unwrap();
    let dangling = directory.path("dangling.csv");
    symlink("data/new.csv", &dangling).unwrap();
    let chain = directory.path("chain.csv");
    symlink("link.csv", &chain).unwrap();
    for (link, target) in [(&link, &target), (&dangling, &directory.path("data/new.csv")), (&chain, &target)]
    {
        export(ONE, link, &[]).await.unwrap();
        assert!(status(link).is_symlink() && status(target).is_file());
        assert_eq!(std::fs::read_to_string(target).unwrap(), "a\n1\n");
    }
    let circle = directory.path("circle.csv");
    symlink("circle.csv", &circle).unwrap();
    assert!(export(ONE, &circle, &[]).await.is_err());
    symlink("nowhere/new.csv", directory.path("astray.csv")).unwrap();
    let error = export(ONE, &directory.path("astray.csv"), &[]).await.unwrap_err();
    assert!(error.contains("there is no directory") && error.contains("nowhere"), "{error}");
}

#[tokio::test]
async fn all_names_of_a_file_have_the_rows() {
    let directory = TestDirectory::new("hard");
    let path = directory.write("a.csv", "old, and longer than what comes\n");
    let other = directory.path("b.csv");
    std::fs::hard_link(&path, &other).unwrap();
    export(ONE, &path, &[]).await.unwrap();
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "a\n1\n");
    assert_eq!(
        (status(&path).ino(), names(&directory)),
        (status(&other).ino(), vec!["a.csv".into(), "b.csv".into()])
    );
}

#[tokio::test]
async fn a_pipe_gets_the_rows_as_they_come_and_stays_a_pipe() {
    let directory = TestDirectory::new("pipe");
    let path = directory.path("pipe.csv");
    fifo(&path);
    for (format, sql, start) in [
        ("csv", ONE, "a\n"),
        ("csv", MANY, "value\n"),
        ("json", MANY, "{"),
        ("parquet", MANY, "PAR1"),
        ("arrow", MANY, "ARROW1"),
    ] {
        let reader = thread::spawn({
            let path = path.clone();
            move || {
                let mut bytes = Vec::new();
                File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
                bytes
            }
        });
        export(sql, &path, &[("format", format)]).await.unwrap();
        let piped = reader.join().unwrap();
        let plain = directory.path(&format!("plain.{format}"));
        export(sql, &plain, &[]).await.unwrap();
        assert!(piped.starts_with(start.as_bytes()), "{format}");
        let length = std::fs::read(&plain).unwrap().len();
        // Rows have no order, which is seen in the size of what is compressed.
        assert!(piped.len().abs_diff(length) <= length / 10, "{format}: {} and {length}", piped.len());
        assert!(status(&path).file_type().is_fifo());
    }
}

#[tokio::test]
async fn a_reader_that_goes_away_is_an_error() {
    let directory = TestDirectory::new("away");
    let path = directory.path("pipe.csv");
    fifo(&path);
    let reader = thread::spawn({
        let path = path.clone();
        move || File::open(path).unwrap().read_exact(&mut [0; 100]).unwrap()
    });
    let error = export(MANY, &path, &[]).await.unwrap_err();
    reader.join().unwrap();
    assert!(error.contains("pipe.csv") && error.contains("its reader has gone away"), "{error}");
    assert!(status(&path).file_type().is_fifo());
}

#[tokio::test]
async fn devices_and_sockets_stay_what_they_are() {
    export(MANY, "/dev/null", &[("format", "csv")]).await.unwrap();
    assert!(status("/dev/null").file_type().is_char_device());
    let error = export(ONE, "/dev/full", &[("format", "csv")]).await.unwrap_err();
    assert!(error.contains("cannot write \"/dev/full\": No space left"), "{error}");
    let directory = TestDirectory::new("socket");
    let path = directory.path("socket.csv");
    let _listener = UnixListener::bind(&path).unwrap();
    let error = export(ONE, &path, &[]).await.unwrap_err();
    assert!(error.starts_with("cannot write"), "{error}");
    assert!(status(&path).file_type().is_socket());
}

#[tokio::test]
async fn a_descriptor_of_the_process_is_written_where_it_stands() {
    let directory = TestDirectory::new("descriptor");
    let path = directory.write("a.csv", "before\n");
    let file = File::options().append(true).open(&path).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&file);
    for name in [format!("/dev/fd/{number}"), format!("/proc/self/fd/{number}")] {
        export(ONE, &name, &[("format", "csv")]).await.unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\na\n1\na\n1\n");
    assert_eq!(names(&directory), ["a.csv"]);
}

#[tokio::test]
async fn directories_are_refused_and_nothing_is_left_behind() {
    let directory = TestDirectory::new("directories");
    directory.write("sub/x", "");
    for name in ["sub", "sub/", "new/", ""] {
        let error = export(ONE, &directory.path(name), &[("format", "csv")]).await.unwrap_err();
        assert!(error.contains("it is a directory, not a file"), "{name}: {error}");
    }
    let error = export(ONE, &directory.path("sub/x/a.csv"), &[]).await.unwrap_err();
    assert!(error.starts_with("cannot write"), "{error}");
    let failing = "SELECT 1 / (2 - column1) AS a FROM (VALUES (1), (2))";
    assert!(export(failing, &directory.path("new.csv"), &[]).await.is_err());
    assert_eq!(names(&directory), ["sub"]);
    assert!(Path::new(&directory.path("sub")).is_dir());
}
