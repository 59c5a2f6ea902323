//! Servers that do what no server should: every byte that they send is a value or an error.

use hypostyle_postgres::{Address, Connection, Environment, Options};
use hypostyle_types::{ErrorKind, Result};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the bytes of a message.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

/// What a server sends: at the login, when the statement is described, and when it runs.
fn answers() -> [Vec<u8>; 3] {
    let login = [
        message(b'R', &[0, 0, 0, 0]),
        message(b'S', b"server_version\x0015\0"),
        message(b'K', &[0, 0, 0, 1, 0, 0, 0, 2]),
        message(b'Z', b"I"),
    ];
    let column = |name: &[u8], oid: u8| {
        [name, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, oid, 0, 4, 255, 255, 255, 255, 0, 0]].concat()
    };
    let columns = [&[0, 2][..], &column(b"a", 23), &column(b"b", 25)].concat();
    let described =
        [message(b'1', b""), message(b't', &[0, 0]), message(b'T', &columns), message(b'Z', b"I")];
    let header = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let row = [&[0, 2, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 2][..], b"hi"].concat();
    let rows = [
        message(b'N', b"SNOTICE\0C00000\0Mhello\0\0"),
        message(b'H', &[1, 0, 2, 0, 1, 0, 1]),
        message(b'd', &[&header[..], &row].concat()),
        message(b'd', &[0xff, 0xff]),
        message(b'c', b""),
        message(b'C', b"COPY 1\0"),
        message(b'Z', b"I"),
    ];
    [login.concat(), described.concat(), rows.concat()]
}

/// Reads what a client sends up to the end of a request: the first message, Sync, or a query.
fn read_request(stream: &mut TcpStream, is_first: bool) -> std::io::Result<()> {
    loop {
        let mut kind = [0];
        if !is_first {
            stream.read_exact(&mut kind)?;
        }
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
        stream.read_exact(&mut body)?;
        if is_first || matches!(&kind, b"S" | b"Q") {
            return Ok(());
        }
    }
}

/// Serves one client: each answer after a request. Then the connection ends.
fn serve(stream: &mut TcpStream, answers: &[Vec<u8>]) -> std::io::Result<()> {
    for (index, answer) in answers.iter().enumerate() {
        read_request(stream, index == 0)?;
        stream.write_all(answer)?;
    }
    Ok(())
}

fn address(port: u16, parameters: &str) -> Address {
    let text = format!("host=127.0.0.1 port={port} user=u dbname=d connect_timeout=20 {parameters}");
    Address::parse_in(&text, &Environment::default()).unwrap()
}

/// Runs a query at a server that gives these answers. It must come to an end.
fn query(answers: Vec<Vec<u8>>) -> Result<usize> {
    query_within(answers, PATIENCE)
}

/// Runs a query at a server that leaves after a time without a request: if an answer is not what it
/// should be, both sides may wait for each other.
fn query_within(answers: Vec<Vec<u8>>, time: Duration) -> Result<usize> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        if let Ok((mut stream, _)) = listener.accept() {
            stream.set_read_timeout(Some(time)).unwrap();
            // The client may leave at any time.
            let _left = serve(&mut stream, &answers);
        }
    });
    let (tell, told) = channel();
    let client = thread::spawn(move || {
        let rows = Connection::connect(&address(port, "sslmode=disable transfer=copy"), Options::default())
            .and_then(|connection| {
                let result = connection.execute("SELECT a, b FROM t", None)?;
                Ok(result.batches()?.iter().map(arrow_array::RecordBatch::num_rows).sum())
            });
        tell.send(rows).unwrap();
    });
    let rows = told.recv_timeout(PATIENCE).expect("the client neither waits for ever nor panics");
    client.join().unwrap();
    server.join().unwrap();
    rows
}

#[test]
fn a_server_may_end_at_every_byte() {
    let answers = answers();
    assert_eq!(query(answers.to_vec()).unwrap(), 1);
    let total: usize = answers.iter().map(Vec::len).sum();
    for length in 0..total {
        let mut left = length;
        let mut cut = Vec::new();
        for answer in &answers {
            let taken = answer.len().min(left);
            cut.push(answer[..taken].to_vec());
            left -= taken;
            if taken < answer.len() {
                break;
            }
        }
        let error = query(cut).expect_err("the end is missing");
        assert_eq!(error.kind(), ErrorKind::Connection, "{length}: {error}");
    }
}

#[test]
fn any_byte_may_be_another_one() {
    let whole = answers();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize
    };
    for _ in 0..300 {
        let mut answers = whole.to_vec();
        for _ in 0..=random() % 3 {
            let answer = random() % answers.len();
            let place = random() % answers[answer].len();
            answers[answer][place] = [0, 1, 0x7f, 0x80, 0xff, random() as u8][random() % 6];
        }
        let _rows_or_error = query_within(answers, Duration::from_millis(200));
    }
}

#[test]
fn what_a_server_reports_of_itself_is_bounded() {
    let [login, described, rows] = answers();
    let mut many = message(b'R', &[0; 4]);
    for number in 0..2_000 {
        many.extend(message(b'S', format!("setting{number}\0value\0").as_bytes()));
    }
    many.extend(message(b'Z', b"I"));
    assert!(query(vec![many, described.clone(), rows.clone()]).is_err());
    // A notice is of no interest to the rows, however long.
    let notice = [&b"SNOTICE\0C00000\0M"[..], "a".repeat(2 << 20).as_bytes(), &[0, 0]].concat();
    let rows = [message(b'N', &notice), rows].concat();
    assert_eq!(query(vec![login, described, rows]).unwrap(), 1);
}

#[test]
fn lengths_of_the_login_are_bounded() {
    let long = [&b"R\x00\x10\x00\x00"[..], &[0; 64]].concat();
    assert_eq!(query(vec![long]).unwrap_err().sqlstate(), "08P01");
    let negative = b"R\xff\xff\xff\xff".to_vec();
    assert_eq!(query(vec![negative]).unwrap_err().sqlstate(), "08P01");
}

/// Connects to a server that does this with the first connection, and returns the error and what the
/// server has read after its answer.
fn refuse(parameters: &str, answer: Vec<u8>) -> (hypostyle_types::Error, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream, true).unwrap();
        stream.write_all(&answer).unwrap();
        let mut after = Vec::new();
        let _cut = stream.read_to_end(&mut after);
        after
    });
    let error = Connection::connect(&address(port, parameters), Options::default()).err().unwrap();
    (error, server.join().unwrap())
}

#[test]
fn a_password_is_not_sent_in_clear_text() {
    let (error, sent) = refuse("sslmode=disable password=secret", message(b'R', &[0, 0, 0, 3]));
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(sent.is_empty(), "{sent:?}");
}

#[test]
fn bytes_before_tls_are_refused() {
    let (error, sent) = refuse("sslmode=require", [&b"S"[..], &message(b'R', &[0; 4])].concat());
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    // The client has begun TLS, and found no server there.
    assert!(sent.first().is_none_or(|byte| *byte == 0x16), "{sent:?}");
    let (error, sent) = refuse("sslmode=require", b"N".to_vec());
    assert!(error.message().contains("sslmode") && sent.is_empty(), "{error}");
    let (error, _) = refuse("sslmode=require", b"E".to_vec());
    assert_eq!(error.sqlstate(), "08P01");
}

#[test]
fn a_login_is_not_over_before_the_server_has_proved_itself() {
    let sasl = message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    let (error, sent) = refuse("sslmode=disable password=x", [sasl.clone(), message(b'R', &[0; 4])].concat());
    assert_eq!(error.sqlstate(), "28000", "{error}");
    assert!(sent.starts_with(b"p"));
    let early = [sasl, message(b'R', b"\0\0\0\x0cv=AAAA")].concat();
    assert_eq!(refuse("sslmode=disable password=x", early).0.sqlstate(), "08P01");
    let (error, _) = refuse("sslmode=disable password=x", message(b'R', &[0, 0, 0, 7]));
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let twice = [message(b'R', &[0, 0, 0, 5, 1, 2, 3, 4]), message(b'R', &[0, 0, 0, 5, 1, 2, 3, 4])].concat();
    assert_eq!(refuse("sslmode=disable password=x", twice).0.sqlstate(), "08P01");
}
