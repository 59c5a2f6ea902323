//! A PostgreSQL of the machine, started for the tests as a user without rights.

use hypostyle_postgres::{Address, Connection, Environment, Options};
use hypostyle_types::Result;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

/// The variable that names the directory of the programs, if it is not Debian's.
const BIN_VARIABLE: &str = "HYPOSTYLE_POSTGRES_BIN";

/// The variable that is set where the extension `hypostyle` is installed in the server: results come in
/// columns then.
const EXTENSION_VARIABLE: &str = "HYPOSTYLE_POSTGRES_EXTENSION";

/// The server starts at the first test. It ends, and removes its files, when this process does: the
/// shell that has started it then reads the end of its input.
const SCRIPT: &str = r#"
"$1/postgres" -D "$2/data" -k "$2" -p "$3" -h 127.0.0.1 -F -c log_min_messages=fatal -c fsync=off \
    -c max_connections=40 $4 >"$2/log" 2>&1 &
server=$!
read -r _
kill -INT "$server"
wait "$server"
rm -rf "$2"
"#;

pub struct Server {
    pub directory: PathBuf,
    pub port: u16,
    bin: PathBuf,
    pub has_tls: bool,
    _child: Child,
}

/// Says whether results come in columns.
pub fn has_extension() -> bool {
    std::env::var_os(EXTENSION_VARIABLE).is_some()
}

/// Returns the server, or says why there is none.
pub fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    SERVER.get_or_init(start).as_ref()
}

/// Returns a directory with the programs of a server.
fn programs() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::env::var_os(BIN_VARIABLE).map(PathBuf::from).into_iter().collect();
    if found.is_empty() {
        let installed = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        found.extend(installed.flatten().map(|entry| entry.path().join("bin")));
        found.sort();
    }
    found.into_iter().rfind(|bin| ["initdb", "postgres", "psql"].iter().all(|name| bin.join(name).is_file()))
}

/// Returns a command that runs without the rights of root, which a server refuses.
fn unprivileged(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]).arg(program);
    command
}

fn start() -> Option<Server> {
    let Some(bin) = programs() else {
        eprintln!("skipped: no PostgreSQL is installed, and {BIN_VARIABLE} names none");
        return None;
    };
    let directory = std::env::temp_dir().join(format!("hypostyle-postgres-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let has_tls = is_built_with_tls(&bin) && certificates(&directory);
    if rustix::process::geteuid().is_root() {
        run(Command::new("chown").args(["-R", "nobody:nogroup"]).arg(&directory));
    }
    let data = directory.join("data");
    let settings = ["-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"];
    run(unprivileged(&bin.join("initdb")).args(settings).arg("-D").arg(&data).current_dir("/"));
    let rules = "local all all trust\nhost all scram_user 127.0.0.1/32 scram-sha-256\n\
                 host all md5_user 127.0.0.1/32 md5\nhost all clear_user 127.0.0.1/32 password\n\
                 hostssl all tls_user 127.0.0.1/32 trust\nhost all tester 127.0.0.1/32 trust\n";
    std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let tls = match has_tls {
        true => format!(
            "-c ssl=on -c ssl_cert_file={0}/server.crt -c ssl_key_file={0}/server.key",
            directory.display()
        ),
        false => String::new(),
    };
    let script = SCRIPT.replace("$4", &tls);
    let child = unprivileged(Path::new("/bin/sh"))
        .args(["-c", &script, "sh"])
        .arg(&bin)
        .arg(&directory)
        .arg(port.to_string())
        .stdin(Stdio::piped())
        .current_dir("/")
        .spawn()
        .unwrap();
    let server = Server { directory, port, bin, has_tls, _child: child };
    let begin = Instant::now();
    while server.connect("").is_err() {
        let log = std::fs::read_to_string(server.directory.join("log")).unwrap_or_default();
        let has_failed = log.contains("FATAL") && !log.contains("starting up");
        assert!(!has_failed && begin.elapsed() < PATIENCE, "the server does not start: {log}");
        std::thread::sleep(Duration::from_millis(100));
    }
    server.psql(
        "SET password_encryption = 'scram-sha-256'; CREATE ROLE scram_user LOGIN PASSWORD 'p,=é'; \
         CREATE ROLE clear_user LOGIN PASSWORD 'clear'; CREATE ROLE tls_user LOGIN; \
         SET password_encryption = 'md5'; CREATE ROLE md5_user LOGIN PASSWORD 'five'",
    );
    if has_extension() {
        server.psql("CREATE EXTENSION hypostyle");
    }
    Some(server)
}

/// Says whether a server has TLS at all. Those of some packages have none.
fn is_built_with_tls(bin: &Path) -> bool {
    let output = Command::new(bin.join("pg_config")).arg("--configure").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("ssl"))
}

/// Makes a certificate for the server, and another one that nobody knows.
fn certificates(directory: &Path) -> bool {
    ["server", "other"].iter().all(|name| {
        let mut command = Command::new("openssl");
        command
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"])
            .arg(format!("/CN={name}"))
            .args(["-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
            .arg(directory.join(format!("{name}.key")))
            .arg("-out")
            .arg(directory.join(format!("{name}.crt")))
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Server {
    /// Connects over the Unix socket, with more parameters.
    pub fn connect(&self, parameters: &str) -> Result<Connection> {
        let directory = self.directory.display();
        self.connect_to(&format!(
            "host={directory} port={} user=tester dbname=postgres {parameters}",
            self.port
        ))
    }

    /// Connects over TCP as a user.
    pub fn connect_tcp(&self, user: &str, parameters: &str) -> Result<Connection> {
        let tcp = format!("host=localhost hostaddr=127.0.0.1 port={}", self.port);
        self.connect_to(&format!("{tcp} user={user} dbname=postgres {parameters}"))
    }

    pub fn connect_to(&self, address: &str) -> Result<Connection> {
        let address = Address::parse_in(address, &Environment::default())?;
        Connection::connect(&address, Options::default())
    }

    /// Runs statements with psql, and returns what it prints.
    pub fn psql(&self, sql: &str) -> String {
        let mut child = unprivileged(&self.bin.join("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "tester", "-d", "postgres", "-h"])
            .arg(&self.directory)
            .args(["-p", &self.port.to_string(), "-f", "-"])
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}
