use super::*;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that is removed at the end of a test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("hypostyle-address-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().into()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment {
        variables: variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        home: None,
        user: Some("me".into()),
    }
}

fn parse(text: &str) -> Result<Address> {
    Address::parse_in(text, &environment(&[]))
}

#[test]
fn what_is_left_out_has_a_default() {
    let address = parse("postgresql://h").unwrap();
    assert_eq!(address.to_string(), "postgresql://me@h:5432/me");
    assert_eq!(address.tls.mode, TlsMode::Prefer);
    assert_eq!(address.target, Target::Any);
    let address = parse("postgresql://a:1,[::1],%2Frun:3/db").unwrap();
    assert_eq!(address.to_string(), "postgresql://me@a:1,[::1]:5432,/run/.s.PGSQL.3/db");
}

#[test]
fn the_environment_gives_defaults() {
    let environment = environment(&[
        ("PGHOST", "h"),
        ("PGPORT", "7"),
        ("PGUSER", "u"),
        ("PGPASSWORD", "secret"),
        ("PGDATABASE", "d"),
        ("PGSSLMODE", "disable"),
        ("PGAPPNAME", "a"),
        ("PGTZ", "Europe/Rome"),
        ("PGCONNECT_TIMEOUT", "1"),
    ]);
    let address = Address::parse_in("postgresql://", &environment).unwrap();
    assert_eq!(address.to_string(), "postgresql://u@h:7/d");
    assert_eq!(address.password(&address.hosts[0]), Some("secret"));
    assert!(!format!("{address:?}").contains("secret"));
    assert_eq!(address.tls.mode, TlsMode::Disable);
    assert_eq!(address.application_name.as_deref(), Some("a"));
    assert_eq!(address.settings, [("TimeZone", "Europe/Rome".to_string())]);
    assert_eq!(address.connect_timeout, Some(Duration::from_secs(2)));
    let address = Address::parse_in("host=g user=v", &environment).unwrap();
    assert_eq!(address.to_string(), "postgresql://v@g:7/d");
}

#[test]
fn services_come_before_the_environment_and_after_the_address() {
    let directory = Directory::new();
    let text = "# comment\n[other]\nhost=wrong\n[mine]\nhost=h\nport = 7\nuser=s\n[mine]\nhost=late\n";
    let file = directory.write("services", text, 0o644);
    let environment = environment(&[("PGSERVICEFILE", &file), ("PGPORT", "1"), ("PGDATABASE", "d")]);
    let address = Address::parse_in("service=mine user=u", &environment).unwrap();
    assert_eq!(address.to_string(), "postgresql://u@h:7/d");
    let error = Address::parse_in("service=none", &environment).unwrap_err();
    assert!(error.message().contains("service: \"none\""), "{error}");
    let broken = directory.write("broken", "[mine]\nhots=h\n", 0o644);
    let error = parse(&format!("service=mine servicefile={broken}")).unwrap_err();
    assert!(error.message().contains("line 2") && error.message().contains("hots"), "{error}");
}

#[test]
fn passwords_come_from_a_file_that_only_its_owner_reads() {
    let directory = Directory::new();
    let lines = "h1:5432:*:me:first\nlocalhost:*:*:me:local\n*:*:*:me:rest\n";
    let file = directory.write("passwords", lines, 0o600);
    let address = parse(&format!("host=h1,h2,/tmp passfile={file}")).unwrap();
    let passwords: Vec<_> = address.hosts.iter().map(|host| address.password(host)).collect();
    assert_eq!(passwords, [Some("first"), Some("rest"), Some("local")]);
    let open = directory.write("open", lines, 0o644);
    let address = parse(&format!("host=h1 passfile={open}")).unwrap();
    assert_eq!(address.password(&address.hosts[0]), None);
    let home = Environment { home: Some(directory.0.clone()), ..environment(&[]) };
    directory.write(".pgpass", lines, 0o600);
    let address = Address::parse_in("host=h1", &home).unwrap();
    assert_eq!(address.password(&address.hosts[0]), Some("first"));
}

#[test]
fn tls_is_checked_as_the_mode_says() {
    let directory = Directory::new();
    directory.write(".postgresql/root.crt", "", 0o644);
    let home = Environment { home: Some(directory.0.clone()), ..environment(&[]) };
    let full = Address::parse_in("host=h sslmode=verify-full", &home).unwrap();
    assert_eq!(full.tls.roots, Roots::File(directory.0.join(".postgresql/root.crt")));
    directory.write(".postgresql/root.crl", "", 0o644);
    for mode in ["require", "verify-ca", "verify-full"] {
        let error = Address::parse_in(&format!("host=h sslmode={mode}"), &home).unwrap_err();
        assert!(error.message().contains("root.crl"), "{error}");
    }
    Address::parse_in("host=h sslmode=prefer", &home).unwrap();
    Address::parse_in("host=h sslrootcert=system", &home).unwrap();
    let system = parse("host=h sslrootcert=system").unwrap();
    assert_eq!((system.tls.mode, system.tls.roots), (TlsMode::VerifyFull, Roots::System));
    for (text, part) in [
        ("host=h sslmode=verify-full", "sslrootcert"),
        ("host=h sslmode=yes", "sslmode"),
        ("host=h sslrootcert=system sslmode=require", "sslmode"),
        ("host=h sslnegotiation=direct", "sslnegotiation"),
        ("host=h sslcert=a", "sslkey"),
        ("host=h ssl_min_protocol_version=TLSv1.3 ssl_max_protocol_version=TLSv1.2", "ssl_min"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.message().contains(part), "{text}: {error}");
    }
}

#[test]
fn methods_are_those_that_are_named() {
    let only = methods("scram-sha-256,md5").unwrap();
    assert!(only.allow(Method::Scram) && !only.allow(Method::Password) && !only.allow(Method::None));
    let but = methods("!password,!none").unwrap();
    assert!(but.allow(Method::Scram) && !but.allow(Method::Password) && !but.allow(Method::None));
    assert!(!but.name(Method::Md5) && only.name(Method::Md5));
    assert!(methods("md5,!password").is_err());
}

#[test]
fn errors_name_the_parameter() {
    for (text, part) in [
        ("host=a,b port=1,2,3", "port"),
        ("host=a,b hostaddr=1.2.3.4", "hostaddr"),
        ("hostaddr=nowhere", "hostaddr"),
        ("host=a port=0", "port"),
        ("host=a port=70000", "port"),
        ("host=a connect_timeout=soon", "connect_timeout"),
        ("host=a target_session_attrs=best", "target_session_attrs"),
        ("host=a channel_binding=yes", "channel_binding"),
        ("host=a require_auth=magic", "require_auth"),
        ("host=a gssencmode=require", "gssencmode"),
        ("host=a replication=true", "replication"),
        ("host=a client_encoding=LATIN1", "client_encoding"),
        ("host=a sslcrl=x", "sslcrl"),
        ("host=a numeric=decimal(80,2)", "numeric"),
        ("host=a numeric=decimal(5,-1)", "numeric"),
        ("host=a keepalives_idle=x", "keepalives_idle"),
        ("host=a load_balance_hosts=yes", "load_balance_hosts"),
        ("host=a transfer=fast", "transfer"),
        ("host=a codec=gzip", "codec"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.message().contains(part), "{text}: {error}");
    }
    let decimal = parse("host=a numeric=decimal(20,4)").unwrap();
    assert_eq!(decimal.numeric, Numeric::Decimal { precision: 20, scale: 4 });
    assert_eq!(decimal.codec, Codec::Auto);
    for (text, numeric) in [
        ("host=a", Numeric::Text),
        ("host=a numeric=text", Numeric::Text),
        ("host=a numeric=auto", Numeric::Auto),
        ("host=a numeric=double", Numeric::Double),
    ] {
        assert_eq!(parse(text).unwrap().numeric, numeric, "{text}");
    }
    assert_eq!(parse("host=a codec=zstd:3").unwrap().codec, Codec::Zstd(3));
}
