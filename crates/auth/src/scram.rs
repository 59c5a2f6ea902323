//! SCRAM-SHA-256 (RFC 5802, RFC 7677), both sides, inside TLS bound to the server's certificate
//! (RFC 5929, `tls-server-end-point`): who stands between with a certificate of his own cannot pass
//! the exchange on.
//!
//! A server keeps no password but a [`Verifier`], in PostgreSQL's text form. Nonces are given by
//! the caller, who has the randomness.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hypostyle_types::{Error, ErrorKind, Result};
use ring::{digest, hmac, pbkdf2};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

pub const MECHANISM: &str = "SCRAM-SHA-256";

/// The mechanism with channel binding.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// Iterations of new verifiers, as PostgreSQL has them. Fewer would have a client's proof say too
/// much of its password, and a server that is not the one it says it is may ask for them (RFC 7677,
/// section 4).
pub const ITERATIONS: u32 = 4096;
/// The most that a client computes for a server: seconds.
const ITERATIONS_MAX: u32 = 10_000_000;

const HASH_BYTES: usize = 32;

/// The beginning of a first message: the client cannot bind, or could and the server does not offer
/// it, or binds.
const NO_BINDING: &str = "n,,";
const BINDING_NOT_OFFERED: &str = "y,,";
const BINDING: &str = "p=tls-server-end-point,,";

/// Signatures of certificates (RSA, ECDSA) by their hash, which a certificate is hashed with, too.
const SHA384_SIGNATURES: [&[u8]; 2] = [
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c],
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03],
];
const SHA512_SIGNATURES: [&[u8]; 2] = [
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d],
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04],
];
/// The signatures with SHA-256, or with hashes that stand for less.
const SHA256_SIGNATURES: [&[u8]; 4] = [
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b],
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05],
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01],
];

type Hash = [u8; HASH_BYTES];

/// What a server knows of a password: enough to check it, not to give it.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    pub iterations: u32,
    pub salt: Vec<u8>,
    pub stored_key: Hash,
    pub server_key: Hash,
}

impl Verifier {
    pub fn new(password: &str, salt: Vec<u8>, iterations: u32) -> Self {
        let salted = salted_password(password, &salt, iterations);
        let stored_key = sha256(&sign(&salted, b"Client Key"));
        Self { iterations, stored_key, server_key: sign(&salted, b"Server Key"), salt }
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encode = |bytes: &[u8]| BASE64.encode(bytes);
        write!(f, "{MECHANISM}${}:{}", self.iterations, encode(&self.salt))?;
        write!(f, "${}:{}", encode(&self.stored_key), encode(&self.server_key))
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({} iterations)", self.iterations)
    }
}

impl FromStr for Verifier {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || -> Option<Self> {
            let (head, keys) = text.strip_prefix(MECHANISM)?.strip_prefix('$')?.split_once('$')?;
            let (iterations, salt) = head.split_once(':')?;
            let (stored_key, server_key) = keys.split_once(':')?;
            let hash = |text: &str| Hash::try_from(BASE64.decode(text).ok()?).ok();
            Some(Self {
                iterations: iterations.parse().ok().filter(is_allowed)?,
                salt: BASE64.decode(salt).ok()?,
                stored_key: hash(stored_key)?,
                server_key: hash(server_key)?,
            })
        };
        let form = || {
            Error::invalid_input(format!(
                "a password verifier is {MECHANISM}$iterations:salt$stored key:server key, with {ITERATIONS} to \
                 {ITERATIONS_MAX} iterations"
            ))
        };
        parse().ok_or_else(form)
    }
}

fn is_allowed(iterations: &u32) -> bool {
    (ITERATIONS..=ITERATIONS_MAX).contains(iterations)
}

/// What an exchange is bound to by a certificate (DER) of the server; `None` where that is not
/// defined for its signature.
pub fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let (body, _) = der(certificate, 0x30)?;
    let (_signed, rest) = der(body, 0x30)?;
    let (algorithm, _) = der(rest, 0x30)?;
    let (oid, _) = der(algorithm, 0x06)?;
    let hash = match oid {
        oid if SHA256_SIGNATURES.contains(&oid) => &digest::SHA256,
        oid if SHA384_SIGNATURES.contains(&oid) => &digest::SHA384,
        oid if SHA512_SIGNATURES.contains(&oid) => &digest::SHA512,
        _ => return None,
    };
    Some(digest::digest(hash, certificate).as_ref().to_vec())
}

/// The content of the first value, which has that tag, and what follows it.
fn der(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    (found == tag).then(|| rest.split_at_checked(length))?
}

/// SASLprep where it is possible, and the password as it is where not, as PostgreSQL does.
fn salted_password(password: &str, salt: &[u8], iterations: u32) -> Hash {
    let prepared = stringprep::saslprep(password);
    let password = prepared.as_deref().unwrap_or(password);
    let mut salted = Hash::default();
    let iterations = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, password.as_bytes(), &mut salted);
    salted
}

fn sign(key: &[u8], message: &[u8]) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message).as_ref());
    hash
}

fn sha256(message: &[u8]) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(digest::digest(&digest::SHA256, message).as_ref());
    hash
}

fn exclusive_or(one: &Hash, other: &Hash) -> Hash {
    std::array::from_fn(|index| one[index] ^ other[index])
}

/// Compares two hashes in a time that does not tell where they differ.
fn equal(one: &Hash, other: &Hash) -> bool {
    one.iter().zip(other).fold(0, |differences, (one, other)| differences | (one ^ other)) == 0
}

/// The value of an attribute such as `r=…` in a message.
fn attribute<'a>(message: &'a str, name: char) -> Option<&'a str> {
    let named = |part: &&'a str| part.starts_with(name) && part[name.len_utf8()..].starts_with('=');
    message.split(',').find(named).map(|part| &part[name.len_utf8() + 1..])
}

fn text(message: &[u8]) -> Result<&str> {
    std::str::from_utf8(message).map_err(|_| malformed())
}

fn malformed() -> Error {
    Error::protocol(format!("a message of the authentication is not one of {MECHANISM}"))
}

fn wrong_password(user: &str) -> Error {
    Error::new(ErrorKind::Denied, format!("user \"{user}\" and this password do not go together"))
        .with_sqlstate("28P01")
}

/// The side that proves that it has the password.
pub struct Client {
    password: String,
    bare: String,
    nonce: String,
    /// The [`end_point`] of the server's certificate.
    binding: Option<Vec<u8>>,
    /// Says that this side could bind, and the server does not offer it.
    is_not_offered: bool,
}

impl Client {
    /// `nonce` is random, without a comma; `binding` the [`end_point`] of the certificate that the
    /// server has shown.
    pub fn new(user: &str, password: &str, nonce: &str, binding: Option<Vec<u8>>) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={user},r={nonce}");
        Self { password: password.into(), bare, nonce: nonce.into(), binding, is_not_offered: false }
    }

    /// Has the first message say that this side could bind the login, and that the server does not
    /// offer it. A server that does then knows that somebody stands between.
    #[must_use]
    pub fn not_offered(self) -> Self {
        Self { is_not_offered: true, ..self }
    }

    pub fn mechanism(&self) -> &'static str {
        if self.binding.is_some() { MECHANISM_PLUS } else { MECHANISM }
    }

    fn header(&self) -> &'static str {
        match (&self.binding, self.is_not_offered) {
            (Some(_), _) => BINDING,
            (None, true) => BINDING_NOT_OFFERED,
            (None, false) => NO_BINDING,
        }
    }

    /// The first message.
    pub fn first(&self) -> Vec<u8> {
        format!("{}{}", self.header(), self.bare).into_bytes()
    }

    /// The second message, and what the server has to answer.
    ///
    /// # Errors
    /// `08P01` when the server's message is not right.
    pub fn proof(&self, challenge: &[u8]) -> Result<(Vec<u8>, ServerSignature)> {
        let challenge = text(challenge)?;
        let nonce = attribute(challenge, 'r').filter(|nonce| nonce.starts_with(&self.nonce));
        let salt = attribute(challenge, 's').and_then(|salt| BASE64.decode(salt).ok());
        let iterations = attribute(challenge, 'i').and_then(|count| count.parse().ok());
        let (Some(nonce), Some(salt), Some(iterations)) = (nonce, salt, iterations) else {
            return Err(malformed());
        };
        if !is_allowed(&iterations) {
            return Err(Error::protocol(format!(
                "the server asks for {iterations} iterations where {ITERATIONS} to {ITERATIONS_MAX} are safe: it has a \
                 verifier that is too weak, or is not the server that it says it is"
            )));
        }
        let binding = bound(self.header(), self.binding.as_deref());
        let without_proof = format!("c={binding},r={nonce}");
        let signed = format!("{},{challenge},{without_proof}", self.bare);
        let salted = salted_password(&self.password, &salt, iterations);
        let client_key = sign(&salted, b"Client Key");
        let proof = exclusive_or(&client_key, &sign(&sha256(&client_key), signed.as_bytes()));
        let signature = sign(&sign(&salted, b"Server Key"), signed.as_bytes());
        Ok((format!("{without_proof},p={}", BASE64.encode(proof)).into_bytes(), ServerSignature(signature)))
    }
}

/// The last message's attribute for a header and what it binds to.
fn bound(header: &str, binding: Option<&[u8]>) -> String {
    BASE64.encode([header.as_bytes(), binding.unwrap_or_default()].concat())
}

/// What only a server that knows the verifier can answer.
pub struct ServerSignature(Hash);

impl ServerSignature {
    /// # Errors
    /// `28000` when it is another server than the one that knows the password.
    pub fn check(&self, last: &[u8]) -> Result<()> {
        let signature = attribute(text(last)?, 'v').and_then(|signature| BASE64.decode(signature).ok());
        match signature.and_then(|signature| Hash::try_from(signature).ok()) {
            Some(signature) if equal(&signature, &self.0) => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Denied,
                "the server does not know the password: it is not the server it says it is",
            )
            .with_sqlstate("28000")),
        }
    }
}

/// The side that asks for the proof.
pub struct Server {
    user: String,
    verifier: Verifier,
    /// Those of other passwords that the user may have as well.
    others: Vec<Verifier>,
    bare: String,
    challenge: String,
    nonce: String,
    /// The binding as it stands in the last message.
    binding: String,
}

/// Mechanisms that a server offers over a connection, the better one first.
pub fn offered(end_point: Option<&[u8]>) -> &'static [&'static str] {
    if end_point.is_some() { &[MECHANISM_PLUS, MECHANISM] } else { &[MECHANISM] }
}

impl Server {
    /// Takes the client's choice of a mechanism and its first message; `nonce` is random, without a
    /// comma, and `end_point` that of the connection's certificate. The user's name is the
    /// connection's, not the one in the message. For a user that there is not, give any verifier
    /// and then refuse.
    ///
    /// # Errors
    /// `08P01`; `28000` for a client that was told of no binding where there is one: somebody stands between.
    pub fn new(
        user: &str,
        verifier: Verifier,
        (mechanism, first): (&str, &[u8]),
        nonce: &str,
        end_point: Option<&[u8]>,
    ) -> Result<Self> {
        let first = text(first)?;
        let headers = [NO_BINDING, BINDING_NOT_OFFERED, BINDING];
        let header = headers.into_iter().find(|header| first.starts_with(header)).ok_or_else(malformed)?;
        let bare = &first[header.len()..];
        let binding = match (mechanism, header, end_point) {
            (MECHANISM_PLUS, BINDING, Some(end_point)) => bound(header, Some(end_point)),
            (MECHANISM, BINDING_NOT_OFFERED, Some(_)) => {
                let message = "the client was told that this server does not bind logins to its certificate, which it does: \
                               somebody stands between";
                return Err(Error::new(ErrorKind::Denied, message).with_sqlstate("28000"));
            }
            (MECHANISM, NO_BINDING | BINDING_NOT_OFFERED, _) => bound(header, None),
            _ => return Err(malformed()),
        };
        let client_nonce = attribute(bare, 'r').filter(|nonce| !nonce.is_empty()).ok_or_else(malformed)?;
        let nonce = format!("{client_nonce}{nonce}");
        let challenge = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let (user, bare, others) = (user.into(), bare.into(), Vec::new());
        Ok(Self { user, verifier, others, bare, challenge, nonce, binding })
    }

    /// Lets the user in by another password as well, while one is changed. Its verifier has the same salt and
    /// iterations, because the client is told of one: one with others is left out.
    pub fn or(mut self, other: Verifier) -> Self {
        if (&other.salt, other.iterations) == (&self.verifier.salt, self.verifier.iterations) {
            self.others.push(other);
        }
        self
    }

    pub fn challenge(&self) -> &[u8] {
        self.challenge.as_bytes()
    }

    /// Checks the client's second message and gives the server's last.
    ///
    /// # Errors
    /// `28P01` when the password is another.
    pub fn check(&self, message: &[u8]) -> Result<Vec<u8>> {
        let message = text(message)?;
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or_else(malformed)?;
        let proof: Hash =
            BASE64.decode(proof).ok().and_then(|proof| proof.try_into().ok()).ok_or_else(malformed)?;
        if attribute(without_proof, 'r') != Some(&self.nonce) {
            return Err(malformed());
        }
        if attribute(without_proof, 'c') != Some(&self.binding) {
            let message =
                "the login is bound to another certificate than this server's: somebody stands between";
            return Err(Error::new(ErrorKind::Denied, message).with_sqlstate("28000"));
        }
        let signed = format!("{},{},{without_proof}", self.bare, self.challenge);
        let is_proved = |verifier: &&Verifier| {
            let client_key = exclusive_or(&proof, &sign(&verifier.stored_key, signed.as_bytes()));
            equal(&sha256(&client_key), &verifier.stored_key)
        };
        let mut known = [&self.verifier].into_iter().chain(&self.others);
        let verifier = known.find(is_proved).ok_or_else(|| wrong_password(&self.user))?;
        let signature = sign(&verifier.server_key, signed.as_bytes());
        Ok(format!("v={}", BASE64.encode(signature)).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677 §3.
    #[test]
    fn the_example_of_the_rfc() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let client = Client::new("user", "pencil", "rOprNGfwEbeRWgbNEkqO", None);
        assert_eq!(client.first(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let verifier = Verifier::new("pencil", salt, 4096);
        let server = Server::new(
            "user",
            verifier,
            (MECHANISM, &client.first()),
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
            None,
        )
        .unwrap();
        let (proof, signature) = client.proof(server.challenge()).unwrap();
        assert!(
            String::from_utf8(proof.clone())
                .unwrap()
                .ends_with("p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
        );
        let last = server.check(&proof).unwrap();
        assert_eq!(last, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        signature.check(&last).unwrap();
    }

    #[test]
    fn a_wrong_password_and_a_wrong_server_are_refused() {
        let verifier = Verifier::new("right", vec![1, 2, 3], ITERATIONS);
        assert_eq!(verifier.to_string().parse::<Verifier>().unwrap(), verifier);
        let client = Client::new("a,b=c", "wrong", "abc", None);
        let server = Server::new("a,b=c", verifier, (MECHANISM, &client.first()), "def", None).unwrap();
        let (proof, signature) = client.proof(server.challenge()).unwrap();
        assert_eq!(server.check(&proof).unwrap_err().sqlstate(), "28P01");
        assert_eq!(signature.check(b"v=AAAA").unwrap_err().sqlstate(), "28000");
    }

    #[test]
    fn a_user_may_have_two_passwords_while_one_is_changed() {
        let verifier = |password: &str, salt: u8| Verifier::new(password, vec![salt], ITERATIONS);
        for (password, is_right) in [("old", true), ("new", true), ("other", false), ("salted", false)] {
            let client = Client::new("u", password, "abc", None);
            let server = Server::new("u", verifier("new", 1), (MECHANISM, &client.first()), "def", None);
            let server = server.unwrap().or(verifier("old", 1)).or(verifier("salted", 2));
            let (proof, signature) = client.proof(server.challenge()).unwrap();
            match server.check(&proof) {
                Ok(last) => signature.check(&last).unwrap(),
                Err(error) => assert_eq!(error.sqlstate(), "28P01"),
            }
            assert_eq!(server.check(&proof).is_ok(), is_right, "{password}");
        }
    }

    #[test]
    fn a_login_is_bound_to_the_certificate() {
        let verifier = Verifier::new("right", vec![1, 2, 3], ITERATIONS);
        let log_in = |seen: Option<&[u8]>, own: Option<&[u8]>, not_offered: bool| -> Result<()> {
            let client = Client::new("u", "right", "abc", seen.map(<[u8]>::to_vec));
            let client = if not_offered { client.not_offered() } else { client };
            let first = client.first();
            let server = Server::new("u", verifier.clone(), (client.mechanism(), &first), "def", own)?;
            let (proof, signature) = client.proof(server.challenge())?;
            signature.check(&server.check(&proof)?)
        };
        log_in(Some(b"this"), Some(b"this"), false).unwrap();
        // A client that cannot bind, and a server that does not.
        log_in(None, Some(b"this"), false).unwrap();
        log_in(None, None, true).unwrap();
        for (seen, own, not_offered) in
            [(Some(&b"other"[..]), Some(&b"this"[..]), false), (None, Some(b"this"), true)]
        {
            assert_eq!(log_in(seen, own, not_offered).unwrap_err().sqlstate(), "28000");
        }
        assert_eq!(log_in(Some(b"this"), None, false).unwrap_err().sqlstate(), "08P01");
    }

    #[test]
    fn the_hash_of_a_certificate_is_that_of_its_signature() {
        let certificate = |oid: &[u8]| {
            let algorithm = [&[0x30, oid.len() as u8 + 2, 6, oid.len() as u8], oid].concat();
            let body = [&[0x30, 0x81, 0x03, 1, 2, 3], algorithm.as_slice()].concat();
            [&[0x30, 0x82, 0, body.len() as u8], body.as_slice()].concat()
        };
        for (oids, length) in
            [(&SHA256_SIGNATURES[..], 32), (&SHA384_SIGNATURES[..], 48), (&SHA512_SIGNATURES[..], 64)]
        {
            for oid in oids {
                assert_eq!(end_point(&certificate(oid)).unwrap().len(), length);
            }
        }
        // Ed25519 has no hash of its own.
        assert_eq!(end_point(&certificate(&[0x2b, 0x65, 0x70])), None);
        let whole = certificate(SHA256_SIGNATURES[0]);
        for length in 0..whole.len() {
            assert_eq!(end_point(&whole[..length]), None);
        }
        assert_eq!(end_point(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }

    #[test]
    fn a_server_that_asks_for_too_little_or_too_much_work_is_refused() {
        let client = Client::new("u", "x", "n", None);
        for (iterations, is_allowed) in
            [(0, false), (1, false), (4095, false), (4096, true), (10_000_001, false), (u32::MAX, false)]
        {
            let challenge = format!("r=n1,s=AAAA,i={iterations}");
            assert_eq!(client.proof(challenge.as_bytes()).is_ok(), is_allowed, "{iterations}");
        }
        let weak = Verifier::new("x", vec![1], 1000).to_string();
        assert!(weak.parse::<Verifier>().unwrap_err().message().contains("4096 to 10000000 iterations"));
    }

    #[test]
    fn no_message_makes_either_side_panic() {
        let verifier = Verifier::new("x", vec![], ITERATIONS);
        let client = Client::new("u", "x", "n", None);
        for message in
            [&b""[..], b"n,,", b"r=,s=,i=", b"r=n1,s=!,i=1", b"r=n1,s=,i=99999999999", b"\xff", b",,,p="]
        {
            assert!(client.proof(message).is_err());
            for mechanism in [MECHANISM, MECHANISM_PLUS, ""] {
                let end_point = Some(&b"end point"[..]);
                assert!(Server::new("u", verifier.clone(), (mechanism, message), "m", end_point).is_err());
            }
            let first = (MECHANISM, client.first());
            let server = Server::new("u", verifier.clone(), (first.0, &first.1), "m", None).unwrap();
            assert!(server.check(message).is_err());
        }
    }
}
