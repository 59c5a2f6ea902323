//! Tests every reader with every kind of file that can be read once only.

use crate::test_directory::TestDirectory;
use crate::tests::{export, failure, import, message, query, rows, select, session};
use arrow::datatypes::DataType;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;
use std::time::Duration;

const COUNT: usize = 200_000;

fn fifo(path: &str) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Returns numbers as CSV or JSON, more than what detection reads.
fn numbers(format: &str) -> Vec<u8> {
    let line = |number| match format {
        "csv" => format!("{number},text of the row {number}\n"),
        _ => format!("{{\"n\":{number},\"s\":\"text of the row {number}\"}}\n"),
    };
    let start = if format == "csv" { "n,s\n" } else { "" };
    let mut text = String::from(start);
    (1..=COUNT).for_each(|number| text.push_str(&line(number)));
    text.into_bytes()
}

/// Returns a path that gives some bytes once, and what keeps it alive.
fn once(kind: &str, directory: &TestDirectory, bytes: Vec<u8>) -> (String, Option<std::io::PipeReader>) {
    if kind == "fifo" {
        let path = directory.path(&format!("{}.fifo", uuid::Uuid::new_v4()));
        fifo(&path);
        let target = path.clone();
        thread::spawn(move || std::fs::write(target, bytes));
        return (path, None);
    }
    let (reader, mut writer) = std::io::pipe().unwrap();
    thread::spawn(move || writer.write_all(&bytes));
    let number = reader.as_raw_fd();
    let path = if kind == "dev" { format!("/dev/fd/{number}") } else { format!("/proc/self/fd/{number}") };
    (path, Some(reader))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reader_gets_all_rows_of_a_pipe() {
    let directory = TestDirectory::new("pipes");
    let sum = (COUNT * (COUNT + 1) / 2).to_string();
    for kind in ["fifo", "dev", "proc"] {
        for format in ["csv", "json"] {
            let (path, _kept) = once(kind, &directory, numbers(format));
            let sql = format!("SELECT count(*), min(n), sum(n) FROM read_{format}('{path}')");
            assert_eq!(select(&sql).await, format!("{COUNT}|1|{sum}"), "{kind} {format}");
            let (path, _kept) = once(kind, &directory, numbers(format));
            let target = [("n", DataType::Int64), ("s", DataType::Utf8View)];
            let (text, _) = import(&path, &target, &[("format", format)]).await.unwrap();
            assert!(text.starts_with("1|text of the row 1 2|"), "{kind} {format}");
            assert!(text.ends_with(&format!(" {COUNT}|text of the row {COUNT}")), "{kind} {format}");
        }
        for format in ["parquet", "arrow"] {
            let whole = directory.path(&format!("x.{format}"));
            export("SELECT 1 AS n, 'x' AS s", &whole, &[]).await.unwrap();
            let (path, _kept) = once(kind, &directory, std::fs::read(whole).unwrap());
            let error = failure(&format!("SELECT * FROM read_{format}('{path}')")).await;
            assert!(error.contains("is no regular file"), "{kind} {format}: {error}");
            let error = import(&path, &[("n", DataType::Int64)], &[("format", format)]).await.unwrap_err();
            assert!(error.contains("is no regular file"), "{kind} {format}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_gives_its_rows_once_in_a_statement_and_each_statement_reads_anew() {
    let directory = TestDirectory::new("once");
    let path = directory.path("numbers.fifo");
    fifo(&path);
    let context = session();
    for round in 0..3 {
        let target = path.clone();
        let writer = thread::spawn(move || std::fs::write(target, format!("n\n{round}\n7\n")));
        let sql = format!("SELECT * FROM read_csv('{path}')");
        let batches = context.sql(&sql).await.unwrap().collect().await.unwrap();
        assert_eq!(rows(&batches), format!("{round} 7"));
        writer.join().unwrap().unwrap();
    }
    let target = path.clone();
    let writer = thread::spawn(move || std::fs::write(target, "n\n1\n"));
    let sql = format!("SELECT * FROM read_csv('{path}') AS a JOIN read_csv('{path}') AS b ON a.n = b.n");
    let error = context.sql(&sql).await.unwrap().collect().await.unwrap_err();
    assert!(message(&error).contains("which can be read once"), "{error}");
    writer.join().unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_not_run_loses_nothing_of_a_pipe() {
    let directory = TestDirectory::new("unread");
    let (path, _kept) = once("fifo", &directory, b"n\n1\n2\n".to_vec());
    let context = session();
    let sql = format!("SELECT * FROM read_csv('{path}')");
    drop(context.sql(&sql).await.unwrap());
    let batches = context.sql(&sql).await.unwrap().collect().await.unwrap();
    assert_eq!(rows(&batches), "1 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_a_silent_pipe_ends_when_nobody_waits() {
    let directory = TestDirectory::new("silent");
    let path = directory.path("silent.fifo");
    fifo(&path);
    let target = path.clone();
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    // The writer has more than detection reads, then says nothing.
    let writer = thread::spawn(move || {
        let mut file = std::fs::File::options().write(true).open(target).unwrap();
        file.write_all(&numbers("csv")).ok();
        receiver.recv().ok();
        let mut is_gone = false;
        for _ in 0..100 {
            is_gone |= file.write_all(b"1,x\n").is_err();
            thread::sleep(Duration::from_millis(20));
        }
        is_gone
    });
    let running =
        tokio::spawn(async move { query(&format!("SELECT count(*) FROM read_csv('{path}')")).await });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!running.is_finished());
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    sender.send(()).unwrap();
    assert!(writer.join().unwrap(), "somebody still reads");
}
