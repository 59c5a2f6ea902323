//! Tests the real program: its output, and its exit status.

mod common;

use common::ports;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

struct Run {
    out: String,
    err: String,
    status: Option<i32>,
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hypostyle"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn finish(command: &mut Command, input: &str) -> Run {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    // The program may end before it has read everything; the rest is then lost.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Run {
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        status: output.status.code(),
    }
}

fn run(arguments: &[&str]) -> Run {
    finish(&mut program(arguments), "")
}

/// Returns the output of a run that must succeed.
fn printed(arguments: &[&str]) -> String {
    let run = run(arguments);
    assert_eq!((run.status, run.err.as_str()), (Some(0), ""), "{arguments:?}: {}", run.out);
    run.out
}

/// Returns an empty directory for one test.
fn directory(test: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("program-{test}"));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).to_str().unwrap().into()
}

/// A hundred thousand numbers, to multiply.
const NUMBERS: &str = "CREATE TABLE n AS SELECT unnest(range(0, 100000)) AS x";
const ROWS: &str = "SELECT * FROM (VALUES (1, 'a,b', 1.50::DECIMAL(9,2)), (2, NULL, 20.25::DECIMAL(9,2))) AS t(id, name, price) ORDER BY id";

#[test]
fn machine_formats_are_exact() {
    assert_eq!(printed(&["--csv", "-c", ROWS]), "id,name,price\n1,\"a,b\",1.50\n2,,20.25\n");
    assert_eq!(
        printed(&["--csv", "--no-header", "--null", "NA", "-c", ROWS]),
        "1,\"a,b\",1.50\n2,NA,20.25\n"
    );
    let object = "{\"id\":1,\"name\":\"a,b\",\"price\":1.50}";
    let second = "{\"id\":2,\"name\":null,\"price\":20.25}";
    assert_eq!(printed(&["--json", "-c", ROWS]), format!("[\n{object},\n{second}\n]\n"));
    assert_eq!(printed(&["--jsonl", "-c", ROWS]), format!("{object}\n{second}\n"));
    assert_eq!(
        printed(&["--markdown", "-c", ROWS]),
        "| id | name | price |\n| ---: | --- | ---: |\n| 1 | a,b | 1.50 |\n| 2 | NULL | 20.25 |\n"
    );
}

#[test]
fn the_box_has_names_types_and_a_count() {
    let text = printed(&["-c", ROWS]);
    assert!(text.contains("id") && text.contains("BIGINT") && text.contains("DECIMAL("), "{text}");
    assert!(text.contains("2 rows, 3 columns ("), "{text}");
    assert!(!text.contains('\x1b'), "no colours outside a terminal: {text}");
    assert!(!printed(&["--quiet", "-c", ROWS]).contains("rows,"));
}

#[test]
fn every_result_of_several_statements_is_printed() {
    let sql = "CREATE TABLE t AS SELECT 1 AS a; SELECT a FROM t; ; SELECT a + 1 AS b FROM t";
    assert_eq!(printed(&["--csv", "-c", sql, "-c", "SELECT 'x;y' AS c"]), "a\n1\nb\n2\nc\nx;y\n");
}

#[test]
fn an_error_has_its_kind_and_ends_with_status_1() {
    let run = run(&["--csv", "-c", "SELECT 1 AS a; SELECT * FROM nowhere; SELECT 2 AS b"]);
    assert_eq!(run.status, Some(1));
    assert_eq!(run.out, "a\n1\n", "what came before is printed, what comes after does not run");
    assert!(run.err.starts_with("Error [42P01 UnknownName]: ") && run.err.contains("nowhere"), "{}", run.err);
}

#[test]
fn wrong_usage_ends_with_status_2() {
    for arguments in [&["--csv", "--json"][..], &["--memory-limit", "lots"], &["--nonsense"]] {
        let run = run(arguments);
        assert_eq!((run.status, run.out.as_str()), (Some(2), ""), "{arguments:?}: {}", run.err);
    }
    let none = run(&["serve", ":memory:", "--listen", "127.0.0.1:0", "--clients-max", "0"]);
    assert_eq!(none.status, Some(2));
    assert!(none.err.contains("give a whole number, 1 or more"), "{}", none.err);
}

#[test]
fn a_script_that_runs_itself_ends() {
    let directory = directory("loop");
    let script = path(&directory, "loop.sql");
    std::fs::write(&script, format!("SELECT 1 AS a;\n.read '{script}'\n")).unwrap();
    let run = run(&["--csv", "-f", &script]);
    assert_eq!((run.status, run.out.matches('1').count()), (Some(1), 64), "{}", run.err);
    assert!(run.err.contains("64 levels"), "{}", run.err);
}

#[test]
fn a_file_that_is_missing_is_not_imported() {
    let directory = directory("missing");
    for name in ["missing", "missing.csv"] {
        let missing = path(&directory, name);
        let run = run(&["-c", &format!(".import {missing} t")]);
        assert_eq!(run.status, Some(1));
        assert!(run.err.contains("NotFound") && run.err.contains(&missing), "{}", run.err);
    }
}

#[test]
fn a_database_is_made_in_a_directory_that_is_there() {
    let directory = directory("no-parent");
    let run = run(&[&path(&directory, "x/y.hypo"), "-c", "SELECT 1"]);
    assert_ne!(run.status, Some(0));
    assert!(run.err.contains("no directory") && run.err.contains("make it first"), "{}", run.err);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn a_file_without_an_ending_is_not_taken_for_a_table() {
    let file = path(&directory("no-ending"), "numbers");
    std::fs::write(&file, "a\n1\n").unwrap();
    let run = run(&["-c", &format!(".import {file} t")]);
    assert_eq!(run.status, Some(1));
    assert!(run.err.contains("cannot tell the format of") && run.err.contains(&file), "{}", run.err);
}

#[test]
fn a_script_says_where_it_failed() {
    let directory = directory("script");
    let script = path(&directory, "s.sql");
    std::fs::write(&script, ".mode csv\n-- a comment\nSELECT 1\n  AS a;\n\nSELECT\n  nothing;\n").unwrap();
    let run = run(&["-f", &script]);
    assert_eq!((run.status, run.out.as_str()), (Some(1), "a\n1\n"));
    assert!(run.err.starts_with(&format!("{script}:6: Error [")), "{}", run.err);
    let missing = path(&directory, "missing.sql");
    let run = self::run(&["-f", &missing]);
    assert_eq!(run.status, Some(1));
    assert!(run.err.contains("NotFound") && run.err.contains(&missing), "{}", run.err);
}

#[test]
fn standard_input_is_a_script() {
    let run = finish(&mut program(&["--csv"]), "SELECT 'it''s;' AS a;\nSELECT 2 AS b");
    assert_eq!((run.status, run.out.as_str(), run.err.as_str()), (Some(0), "a\nit's;\nb\n2\n", ""));
    let run =
        finish(&mut program(&["--csv", "--no-header", "-c", "SELECT 1", "-f", "-"]), "SELECT 2;\nnonsense");
    assert_eq!((run.status, run.out.as_str()), (Some(1), "1\n2\n"));
    assert!(run.err.starts_with("standard input:2: Error"), "{}", run.err);
}

#[test]
fn statements_of_a_pipe_run_as_they_come() {
    let mut child = program(&["--csv", "--no-header"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for number in ["1", "2"] {
        writeln!(input, "SELECT {number};").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), number);
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn data_stays_for_the_next_run() {
    let directory = directory("persistence");
    let database = path(&directory, "shop.hypo");
    let text = printed(&[
        &database,
        "-c",
        "CREATE TABLE t(a INTEGER, b VARCHAR); INSERT INTO t VALUES (1, 'x'), (2, NULL)",
    ]);
    assert!(text.contains("2 rows affected"), "{text}");
    assert_eq!(printed(&[&database, "--csv", "-c", "SELECT * FROM t ORDER BY a"]), "a,b\n1,x\n2,\n");
    let run = run(&[&database, "--read-only", "-c", "INSERT INTO t VALUES (3, 'y')"]);
    assert_eq!(run.status, Some(1));
    assert!(run.err.contains("ReadOnly"), "{}", run.err);
}

#[test]
fn parquet_goes_to_the_file_and_comes_back() {
    let directory = directory("parquet");
    let file = path(&directory, "it's.parquet");
    printed(&["--parquet", &file, "-c", &format!("{ROWS} -- end")]);
    let quoted = file.replace('\'', "''");
    let back = printed(&["--csv", "-c", &format!("SELECT count(*) AS n FROM '{quoted}'")]);
    assert_eq!(back, "n\n2\n");
    let twice = run(&["--parquet", &file, "-c", "SELECT 1; SELECT 2"]);
    assert_eq!(twice.status, Some(1));
    assert!(twice.err.contains("one query"), "{}", twice.err);
    let none = path(&directory, "none.parquet");
    let run = run(&["--parquet", &none, "-c", "CREATE TABLE t (a INTEGER)"]);
    assert_eq!(run.status, Some(1));
    assert!(run.err.contains("there was none; nothing was written"), "{}", run.err);
    assert!(!std::fs::exists(&none).unwrap());
}

#[test]
fn a_closed_reader_ends_the_program_quietly() {
    let mut child = program(&["--csv", "-c", NUMBERS, "-c", "SELECT a.x FROM n a, n b"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "x");
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn ctrl_c_ends_a_batch_with_status_130() {
    let long = "SELECT count(*) FROM n a, n b, n c WHERE a.x * b.x + c.x = -7";
    let mut child =
        program(&["--csv", "-c", NUMBERS, "-c", "SELECT 1 AS started", "-c", long]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "started");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn dot_commands_show_load_and_redirect() {
    let directory = directory("commands");
    let (csv, out) = (path(&directory, "in.csv"), path(&directory, "out.csv"));
    std::fs::write(&csv, "id,name\n1,one\n2,two\n").unwrap();
    let script = format!(
        ".mode csv\n.import {csv} numbers\n.import {csv} numbers\n.tables num\n.schema numbers\n\
         .output {out}\nSELECT count(*) AS n FROM numbers;\n.output\nSELECT 'back' AS here;\n"
    );
    let run = finish(&mut program(&[]), &script);
    assert_eq!((run.status, run.err.as_str()), (Some(0), ""));
    assert!(run.out.contains(",numbers,table,4,2\n"), "{}", run.out);
    assert!(run.out.contains("CREATE TABLE numbers (\n  id BIGINT,\n  name VARCHAR\n);"), "{}", run.out);
    assert!(run.out.ends_with("here\nback\n"), "{}", run.out);
    assert_eq!(std::fs::read_to_string(out).unwrap(), "n\n4\n");
}

#[test]
fn the_schema_of_a_view_is_its_text() {
    let sql = "CREATE TABLE \"T\"(a INTEGER PRIMARY KEY, d DATE DEFAULT current_date, CHECK (a > 0)); \
               CREATE TABLE t(a INTEGER NOT NULL REFERENCES \"T\" ON DELETE CASCADE); CREATE VIEW v AS SELECT a + 1 AS b FROM t";
    let text = printed(&["--quiet", "-c", sql, "-c", ".schema"]);
    for expected in [
        "CREATE TABLE \"T\" (\n  a INTEGER NOT NULL,\n  d DATE DEFAULT current_date,\n  CONSTRAINT \"T_pkey\" PRIMARY KEY (a),\n  \
         CONSTRAINT \"T_check\" CHECK (a > 0)\n);",
        "CREATE TABLE t (\n  a INTEGER NOT NULL,\n  CONSTRAINT t_a_fkey FOREIGN KEY (a) REFERENCES \"T\" (a) ON DELETE CASCADE\n);",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    assert!(text.contains("CREATE VIEW v AS SELECT a + 1 AS b FROM t;"), "{text}");
}

#[test]
fn an_unknown_command_names_the_nearest() {
    let run = run(&["-c", ".tabels"]);
    assert_eq!(run.status, Some(1));
    assert!(run.err.contains("did you mean \".tables\"?"), "{}", run.err);
}

#[test]
fn init_runs_first_and_timing_goes_to_standard_error() {
    let directory = directory("init");
    let init = path(&directory, "init.sql");
    std::fs::write(&init, ".mode csv\n.nullvalue -\n").unwrap();
    let run = run(&["--init", &init, "--timing", "-c", "SELECT NULL AS a"]);
    assert_eq!((run.status, run.out.as_str()), (Some(0), "a\n-\n"));
    assert!(run.err.starts_with("Time: ") && run.err.ends_with(" ms\n"), "{}", run.err);
}

#[test]
fn quit_leaves_after_everything_is_written() {
    let run = finish(&mut program(&["--csv"]), "SELECT 1 AS a;\n.quit\nSELECT 2 AS b;\n");
    assert_eq!((run.status, run.out.as_str(), run.err.as_str()), (Some(0), "a\n1\n", ""));
}

/// Waits for the line that says where a server listens.
fn serving(options: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut server = program(&[&["serve", ":memory:"], options].concat()).spawn().unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("hypostyle serves") {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "the server has ended");
    }
    (server, log)
}

#[test]
fn a_server_logs_json_and_ends_on_a_signal() {
    let socket = path(&directory("serve"), "socket");
    let (mut server, mut log) = serving(&["--unix", &socket, "--log-json", "--log-level", "info"]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let files: Vec<&str> =
        limits.lines().find(|line| line.starts_with("Max open files")).unwrap().split_whitespace().collect();
    assert_eq!(files[3], files[4], "{limits}");

    let address = format!("hypostyle+unix://{socket}");
    assert_eq!(printed(&[&address, "--csv", "-c", "SELECT 1 AS one"]), "one\n1\n");
    let kill = Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(server.wait().unwrap().code(), Some(0));

    let mut text = String::new();
    log.read_to_string(&mut text).unwrap();
    let entries: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |message: &str| entries.iter().find(|entry| entry["fields"]["message"] == message);
    let begins = of("session begins").unwrap();
    assert_eq!((&begins["level"], &begins["fields"]["session"]), (&"INFO".into(), &1.into()));
    assert!(begins["timestamp"].is_string() && of("session ends").is_some() && of("stopping").is_some());
}

#[test]
fn a_server_without_an_address_or_a_password_says_what_is_missing() {
    let run = run(&["serve", ":memory:"]);
    assert_eq!(run.status, Some(2));
    assert!(run.err.contains("nobody could connect: give --listen"), "{}", run.err);
    let run = self::run(&["serve", ":memory:", "--unix", "socket", "--log-level", "loud"]);
    assert_eq!(run.status, Some(2));
    assert!(run.err.contains("give off, error, warn, info, debug or trace"), "{}", run.err);
    let run = self::run(&["user", "ada", "--role", "riter"]);
    assert_eq!(run.status, Some(2));
    assert!(run.err.contains("the role is read, write, admin or cluster"), "{}", run.err);
    let run = self::run(&["serve", ":memory:", "--listen", "0.0.0.0:0"]);
    assert_eq!(run.status, Some(1));
    assert!(run.err.contains("--users"), "{}", run.err);
}

#[test]
fn standard_input_is_read_as_a_file() {
    let numbers: String = (1..=400_000).map(|number| format!("{number}\n")).collect();
    let sql = "SELECT count(*) AS c, min(column0) AS a, max(column0) AS b FROM read_csv('/dev/stdin', header => false)";
    let run = finish(&mut program(&["--csv", "-c", sql]), &numbers);
    assert_eq!((run.status, run.out.as_str(), run.err.as_str()), (Some(0), "c,a,b\n400000,1,400000\n", ""));
    let lines: String = (1..=400_000).map(|number| format!("{{\"n\":{number}}}\n")).collect();
    let sql = "SELECT count(*) AS c, min(n) AS a FROM read_json('/dev/stdin')";
    let run = finish(&mut program(&["--csv", "-c", sql]), &lines);
    assert_eq!((run.status, run.out.as_str(), run.err.as_str()), (Some(0), "c,a\n400000,1\n", ""));
    let copy =
        "CREATE TABLE t (n INTEGER); COPY t FROM '/dev/stdin' (FORMAT csv); SELECT count(*) AS c FROM t";
    let run = finish(&mut program(&["--csv", "-c", copy]), &numbers);
    assert!(run.status == Some(0) && run.out.ends_with("c\n400000\n"), "{} {}", run.out, run.err);
    let run = finish(&mut program(&["--csv", "-c", "SELECT * FROM read_csv('/dev/stdin')"]), "");
    assert!(run.status == Some(1) && run.err.contains("is empty"), "{}", run.err);
}

#[test]
fn points_in_time_are_printed_in_the_sessions_zone() {
    let instant = "SELECT TIMESTAMPTZ '2026-07-01 10:00:00+00' AS t";
    let berlin = format!("SET timezone = 'Europe/Berlin'; {instant}; RESET timezone; {instant}");
    assert_eq!(
        printed(&["--csv", "--no-header", "-c", &berlin]),
        "2026-07-01 12:00:00+02:00\n2026-07-01 10:00:00+00:00\n"
    );
    for end in ["ROLLBACK", "COMMIT", "ROLLBACK TO before"] {
        let local = format!(
            "BEGIN; SAVEPOINT before; SET LOCAL timezone = 'Asia/Tokyo'; {instant}; {end}; {instant}"
        );
        assert_eq!(
            printed(&["--csv", "--no-header", "-c", &local]),
            "2026-07-01 19:00:00+09:00\n2026-07-01 10:00:00+00:00\n",
            "{end}"
        );
    }
}

#[test]
fn a_mark_at_the_start_of_a_script_is_skipped() {
    let file = path(&directory("mark"), "a.sql");
    std::fs::write(&file, "\u{FEFF}SELECT 1 AS a;\n").unwrap();
    assert_eq!(printed(&["--csv", "-f", &file]), "a\n1\n");
    assert_eq!(printed(&["--csv", "-c", "\u{FEFF}SELECT 2 AS a"]), "a\n2\n");
    let run = finish(&mut program(&["--csv"]), "\u{FEFF}.headers off\nSELECT 3 AS a;\n");
    assert_eq!((run.status, run.out.as_str()), (Some(0), "3\n"));
}

#[test]
fn copy_to_standard_output_prints_rows_and_nothing_else() {
    let copy = "COPY (SELECT 1 AS a UNION ALL SELECT 2 ORDER BY a) TO '/dev/stdout' (FORMAT csv)";
    assert_eq!(printed(&["-c", copy]), "a\n1\n2\n");
    assert_eq!(
        printed(&["--csv", "-c", "SELECT 0 AS z", "-c", copy, "-c", "SELECT 3 AS b"]),
        "z\n0\na\n1\n2\nb\n3\n"
    );
    // The output continues at the file's current offset, and the file stays the one that was
    // opened.
    let path = path(&directory("stdout"), "out.csv");
    let file = std::fs::File::create(&path).unwrap();
    let status = program(&["--csv", "-c", "SELECT 0 AS z", "-c", copy, "-c", "SELECT 3 AS b"])
        .stdout(file.try_clone().unwrap())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "z\n0\na\n1\n2\nb\n3\n");
}

#[test]
fn outputs_follow_links_and_keep_modes_and_pipes() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let directory = directory("outputs");
    let (target, link, fifo) =
        (path(&directory, "t.csv"), path(&directory, "link.csv"), path(&directory, "fifo"));
    std::fs::write(&target, "old").unwrap();
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("t.csv", &link).unwrap();
    for command in [".output", ".once"] {
        let script = format!("{command} {link}\nSELECT '{command}' AS a;\n.output\n");
        let run = finish(&mut program(&["--csv"]), &script);
        assert_eq!((run.status, run.out.as_str(), run.err.as_str()), (Some(0), "", ""));
        assert_eq!(std::fs::read_to_string(&target).unwrap(), format!("a\n{command}\n"));
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for sql in
        [format!(".once {fifo}\nSELECT 1 AS a;"), format!("COPY (SELECT 1 AS a) TO '{fifo}' (FORMAT csv);")]
    {
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || std::fs::read_to_string(fifo).unwrap()
        });
        let run = finish(&mut program(&["--csv", "--quiet"]), &sql);
        assert_eq!((run.status, run.err.as_str(), reader.join().unwrap().as_str()), (Some(0), "", "a\n1\n"));
        assert!(std::fs::metadata(&fifo).unwrap().file_type().is_fifo());
    }
    let run = run(&["-c", "COPY (SELECT unnest(range(0, 100000)) AS a) TO '/dev/full' (FORMAT csv)"]);
    assert_eq!(run.status, Some(1));
    assert!(run.err.contains("53100 DiskFull") && run.err.contains("/dev/full"), "{}", run.err);
}

#[test]
fn once_is_for_the_next_result() {
    let file = path(&directory("once"), "out.csv");
    let run = finish(&mut program(&["--csv"]), &format!(".once {file}\nSELECT 1 AS a;\nSELECT 2 AS b;\n"));
    assert_eq!((run.status, run.out.as_str(), run.err.as_str()), (Some(0), "b\n2\n", ""));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "a\n1\n");
}

#[test]
fn an_error_shows_where_in_its_statement_it_is() {
    let run =
        finish(&mut program(&["--csv"]), "SELECT 1 AS a;\nSELECT a,\n  nosuch\nFROM (SELECT 1 AS a);\n");
    assert_eq!((run.status, run.out.as_str()), (Some(1), "a\n1\n"));
    let lines: Vec<&str> = run.err.lines().collect();
    let caret = lines[2].find('^').unwrap();
    assert!(lines[1].starts_with("LINE ") && lines[1][caret..].starts_with("nosuch"), "{}", run.err);
}

#[test]
fn a_script_may_go_on_after_failures() {
    let script = ".bail off\nSELECT 1 AS a;\nSELECT nothing;\n.nonsense\nSELECT 2 AS b;\n";
    let run = finish(&mut program(&["--csv"]), script);
    assert_eq!((run.status, run.out.as_str()), (Some(1), "a\n1\nb\n2\n"));
    assert_eq!(run.err.lines().filter(|line| line.contains("Error [")).count(), 2, "{}", run.err);
}

#[test]
fn the_modes_print_what_they_are_named_for() {
    let with = |commands: &str| {
        let run = finish(&mut program(&["--quiet"]), &format!("{commands}\n{ROWS};\n"));
        assert_eq!((run.status, run.err.as_str()), (Some(0), ""), "{commands}");
        run.out
    };
    assert_eq!(with(".mode tabs"), "id\tname\tprice\n1\ta,b\t1.50\n2\t\\N\t20.25\n");
    assert_eq!(with(".mode list\n.separator '; '\n.headers off"), "1; a,b; 1.50\n2; NULL; 20.25\n");
    assert_eq!(
        with(".mode insert prices"),
        "INSERT INTO prices (id, name, price) VALUES (1, 'a,b', 1.50);\n\
         INSERT INTO prices (id, name, price) VALUES (2, NULL, 20.25);\n"
    );
    assert!(with(".mode html").starts_with("<table>\n<tr><th>id</th>"));
    assert!(with(".mode table").starts_with("+-"));
    assert!(with(".echo on").starts_with("SELECT * FROM (VALUES"));
    assert!(with(".print a  b\n.shell echo 'c  d'").starts_with("a b\n"));
    assert!(with(".mode list\n.show").contains("mode: list\n"));
}

#[test]
fn ctrl_c_stops_the_printing_of_all_rows_and_memory_stays_small() {
    let rows = "SELECT a.x AS first, b.x AS second FROM n a, n b";
    let mut child = program(&["-c", NUMBERS, "-c", ".maxrows 0", "-c", rows]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..200_000 {
        lines.next().unwrap().unwrap();
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kilobytes < 1 << 20, "{peak}");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    for line in lines {
        line.unwrap();
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_remote_shell_imports_the_files_of_its_own_machine() {
    let directory = directory("remote-import");
    let socket = path(&directory, "socket");
    std::fs::create_dir(directory.join("here")).unwrap();
    std::fs::write(directory.join("here/in.csv"), "n,name\n1,007\n2,008\n").unwrap();
    let (mut server, _log) = serving(&["--unix", &socket]);
    let script = "CREATE TABLE typed (name VARCHAR, n INTEGER);\n.import in.csv typed\n.import in.csv typed\n\
                  .import in.csv made\n.mode csv\nSELECT * FROM typed ORDER BY n, name;\nSELECT count(*) AS c FROM made;\n";
    let address = format!("hypostyle+unix://{socket}");
    let run = finish(program(&[&address, "--quiet"]).current_dir(directory.join("here")), script);
    assert_eq!((run.status, run.err.as_str()), (Some(0), ""));
    assert_eq!(run.out, "name,n\n007,1\n007,1\n008,2\n008,2\nc\n2\n");
    let wrong = "CREATE TABLE three (a INTEGER, b INTEGER, c INTEGER);\n.import in.csv three\n";
    let run = finish(program(&[&address]).current_dir(directory.join("here")), wrong);
    assert!(run.status == Some(1) && run.err.contains("2 columns, but table \"three\" has 3"), "{}", run.err);
    assert!(Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap().success());
    server.wait().unwrap();
}

/// The nodes of a cluster in a directory, which end with the test.
struct Cluster(String);

impl Drop for Cluster {
    fn drop(&mut self) {
        run(&["cluster", "down", "--data", &self.0]);
    }
}

impl Cluster {
    /// Returns the name, the process and the state of each node.
    fn nodes(&self) -> Vec<(String, String, String)> {
        let text = printed(&["cluster", "status", "--data", &self.0]);
        let node = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[0].to_string(), words[2].to_string(), words[3..].join(" "))
        };
        text.lines().skip(1).map(node).collect()
    }

    fn states(&self) -> Vec<String> {
        self.nodes().into_iter().map(|(_, _, state)| state).collect()
    }
}

#[test]
fn the_nodes_of_a_cluster_run_on_their_own() {
    let cluster = Cluster(path(&directory("cluster"), "nodes"));
    let port = ports(2)[0].local_addr().unwrap().port();
    let up = ["cluster", "up", "2", "--data", &cluster.0, "--port", &port.to_string()];
    let text = printed(&up);
    assert!(text.contains(&format!("hypostyle hypostyle://127.0.0.1:{port}/\n")), "{text}");
    let first = cluster.nodes();
    assert_eq!(cluster.states(), ["running", "running"]);
    let create = format!("hypostyle://127.0.0.1:{}/", port + 1);
    printed(&[&create, "--quiet", "-c", "CREATE TABLE t AS SELECT 1 AS a"]);

    // Those that run are left alone, and those that do not are started again, with their rows.
    assert!(Command::new("kill").args(["-KILL", &first[1].1]).status().unwrap().success());
    while cluster.states() != ["running", "stopped"] {}
    assert!(printed(&up).contains("node2"));
    let second = cluster.nodes();
    assert_eq!((&first[0], cluster.states()), (&second[0], vec!["running".into(), "running".into()]));
    assert_ne!(first[1].1, second[1].1);
    assert_eq!(printed(&[&create, "--csv", "-c", "SELECT a FROM t"]), "a\n1\n");

    assert_eq!(printed(&["cluster", "down", "--data", &cluster.0]), "2 of 2 nodes ran and have ended\n");
    assert_eq!(cluster.states(), ["stopped", "stopped"]);
    assert_eq!(printed(&["cluster", "down", "--data", &cluster.0]), "0 of 2 nodes ran and have ended\n");
}

#[test]
fn a_node_that_does_not_come_up_ends_those_that_did() {
    let cluster = Cluster(path(&directory("cluster-taken"), "nodes"));
    let mut listeners = ports(2);
    let taken = listeners.pop().unwrap();
    let port = listeners.pop().unwrap().local_addr().unwrap().port();
    let up = ["cluster", "up", "2", "--data", &cluster.0, "--port", &port.to_string()];
    let run = run(&up);
    assert_eq!(run.status, Some(1));
    let address = taken.local_addr().unwrap().to_string();
    assert!(run.err.contains("node \"node2\" did not come up: it ended with exit status: 1"), "{}", run.err);
    assert!(run.err.contains("node2/log") && run.err.contains(&address), "{}", run.err);
    assert_eq!(cluster.states(), ["stopped", "stopped"]);
    drop(taken);
    printed(&up);
    assert_eq!(cluster.states(), ["running", "running"]);
}

#[test]
fn a_node_is_served_as_its_file_says() {
    let directory = directory("node");
    let (file, missing) = (path(&directory, "cluster.toml"), path(&directory, "missing.toml"));
    let run_with = |text: &str, more: &[&str]| {
        std::fs::write(&file, text).unwrap();
        run(&[&["serve", ":memory:", "--cluster", &file], more].concat())
    };
    let wrong = run_with("name = \"n1\"\nlisten = 5\n", &[]);
    assert_eq!(wrong.status, Some(1));
    assert!(wrong.err.contains("cluster.toml\": invalid type: integer `5`"), "{}", wrong.err);
    let wrong = run_with("name = \"n1\"\nlisten\n", &[]);
    assert!(wrong.err.contains("cluster.toml\": line 2: '=' is missing"), "{}", wrong.err);
    assert_eq!(run_with("", &["--listen", "127.0.0.1:0"]).status, Some(2));
    let wrong = run(&["serve", ":memory:", "--cluster", &missing]);
    assert!(wrong.status == Some(1) && wrong.err.contains("missing.toml"), "{}", wrong.err);

    let port = ports(1)[0].local_addr().unwrap().port();
    let text = format!("name = \"n1\"\nlisten = \"127.0.0.1:{port}\"\ncredentials = \"password\"\n");
    std::fs::write(&file, text).unwrap();
    std::fs::write(path(&directory, "password"), "secret\n").unwrap();
    let (mut server, _log) = serving(&["--cluster", &file]);
    let address = format!("hypostyle://127.0.0.1:{port}/");
    assert_eq!(printed(&[&address, "--csv", "-c", "SELECT 1 AS one"]), "one\n1\n");
    assert!(Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap().success());
    server.wait().unwrap();
}

#[test]
fn nodes_that_show_certificates_are_a_cluster() {
    if Command::new("openssl").arg("version").output().is_err() {
        return;
    }
    let directory = directory("certificates");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/cluster/certificates.sh");
    std::fs::copy(script, directory.join("certificates.sh")).unwrap();
    let make = ["certificates.sh", "node1", "node2"];
    let made = Command::new("sh").args(make).current_dir(&directory).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let listeners = ports(2);
    let ports: Vec<u16> = listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
    drop(listeners);
    let serve = |(number, port): (usize, &u16)| {
        let (file, name) = (path(&directory, &format!("{number}.toml")), format!("node{}", number + 1));
        let text = format!(
            "name = \"{name}\"\nlisten = \"127.0.0.1:{port}\"\n\n[tls]\n\
             certificate = \"certificates/{name}/node.pem\"\nkey = \"certificates/{name}/node.key\"\n\
             authorities = \"authority/ca.pem\"\nmutual = true\n"
        );
        std::fs::write(&file, text).unwrap();
        serving(&["--cluster", &file])
    };
    let servers: Vec<_> = ports.iter().enumerate().map(serve).collect();
    let address =
        |port: u16| format!("hypostyle://127.0.0.1:{port}/?tls_ca={}", path(&directory, "authority/ca.pem"));
    for sql in [
        "ALTER CLUSTER PROMOTE node1",
        &format!("ALTER CLUSTER ADD NODE node2 ADDRESS '127.0.0.1:{}'", ports[1]),
        "CREATE TABLE t (k BIGINT) PARTITION BY HASH (k) INTO 4 FRAGMENTS",
        "INSERT INTO t SELECT i FROM generate_series(1, 100) AS g(i)",
    ] {
        printed(&[&address(ports[0]), "--quiet", "-c", sql]);
    }
    let count = ["--csv", "-c", "SELECT count(*) AS n FROM t"];
    assert_eq!(printed(&[&[&*address(ports[1])], &count[..]].concat()), "n\n100\n");
    // Who has no certificate of a node is none.
    let other = run(&[&address(ports[1]).replace("://", "://cluster@"), "-c", "SELECT 1"]);
    assert_eq!(other.status, Some(1), "{}", other.out);
    for (mut server, _log) in servers {
        assert!(Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap().success());
        server.wait().unwrap();
    }
}
