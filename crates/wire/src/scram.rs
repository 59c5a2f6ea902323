//! SCRAM-SHA-256 (RFC 5802, RFC 7677), both sides, without channel binding.
//!
//! A server keeps no password but a [`Verifier`], in PostgreSQL's text form. Nonces are given by the caller, who
//! has the randomness.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hypostyle_types::{Error, ErrorKind, Result};
use ring::{digest, hmac, pbkdf2};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

pub const MECHANISM: &str = "SCRAM-SHA-256";

/// Iterations of new verifiers, as PostgreSQL has them; and the most that a client computes for a server.
pub const ITERATIONS: u32 = 4096;
const ITERATIONS_MAX: u32 = 10_000_000;

const HASH_BYTES: usize = 32;

/// The header that says "no channel binding", and its base64 in the last message.
const NO_BINDING: &str = "n,,";
const NO_BINDING_BASE64: &str = "biws";

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
                iterations: iterations.parse().ok().filter(|count| (1..=ITERATIONS_MAX).contains(count))?,
                salt: BASE64.decode(salt).ok()?,
                stored_key: hash(stored_key)?,
                server_key: hash(server_key)?,
            })
        };
        let form = || {
            Error::invalid_input(format!(
                "a password verifier is {MECHANISM}$iterations:salt$stored key:server key"
            ))
        };
        parse().ok_or_else(form)
    }
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

/// In a time that does not tell where they differ.
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
}

impl Client {
    /// `nonce` is random, without a comma.
    pub fn new(user: &str, password: &str, nonce: &str) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Self { password: password.into(), bare: format!("n={user},r={nonce}"), nonce: nonce.into() }
    }

    /// The first message.
    pub fn first(&self) -> Vec<u8> {
        format!("{NO_BINDING}{}", self.bare).into_bytes()
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
        let iterations = iterations.filter(|count| (1..=ITERATIONS_MAX).contains(count));
        let (Some(nonce), Some(salt), Some(iterations)) = (nonce, salt, iterations) else {
            return Err(malformed());
        };
        let without_proof = format!("c={NO_BINDING_BASE64},r={nonce}");
        let signed = format!("{},{challenge},{without_proof}", self.bare);
        let salted = salted_password(&self.password, &salt, iterations);
        let client_key = sign(&salted, b"Client Key");
        let proof = exclusive_or(&client_key, &sign(&sha256(&client_key), signed.as_bytes()));
        let signature = sign(&sign(&salted, b"Server Key"), signed.as_bytes());
        Ok((format!("{without_proof},p={}", BASE64.encode(proof)).into_bytes(), ServerSignature(signature)))
    }
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
    bare: String,
    challenge: String,
    nonce: String,
}

impl Server {
    /// Takes the client's first message; `nonce` is random, without a comma. The user's name is the connection's, not
    /// the one in the message. For a user that there is not, give any verifier and then refuse.
    pub fn new(user: &str, verifier: Verifier, first: &[u8], nonce: &str) -> Result<Self> {
        let bare = text(first)?.strip_prefix(NO_BINDING).or_else(|| text(first).ok()?.strip_prefix("y,,"));
        let bare = bare.ok_or_else(malformed)?;
        let client_nonce = attribute(bare, 'r').filter(|nonce| !nonce.is_empty()).ok_or_else(malformed)?;
        let nonce = format!("{client_nonce}{nonce}");
        let challenge = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        Ok(Self { user: user.into(), verifier, bare: bare.into(), challenge, nonce })
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
        let binding = attribute(without_proof, 'c');
        if attribute(without_proof, 'r') != Some(&self.nonce)
            || !matches!(binding, Some(NO_BINDING_BASE64 | "eSws"))
        {
            return Err(malformed());
        }
        let signed = format!("{},{},{without_proof}", self.bare, self.challenge);
        let client_key = exclusive_or(&proof, &sign(&self.verifier.stored_key, signed.as_bytes()));
        if !equal(&sha256(&client_key), &self.verifier.stored_key) {
            return Err(wrong_password(&self.user));
        }
        let signature = sign(&self.verifier.server_key, signed.as_bytes());
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
        let client = Client::new("user", "pencil", "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(client.first(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let verifier = Verifier::new("pencil", salt, 4096);
        let server =
            Server::new("user", verifier, &client.first(), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0").unwrap();
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
        let verifier = Verifier::new("right", vec![1, 2, 3], 10);
        assert_eq!(verifier.to_string().parse::<Verifier>().unwrap(), verifier);
        let client = Client::new("a,b=c", "wrong", "abc");
        let server = Server::new("a,b=c", verifier, &client.first(), "def").unwrap();
        let (proof, signature) = client.proof(server.challenge()).unwrap();
        assert_eq!(server.check(&proof).unwrap_err().sqlstate(), "28P01");
        assert_eq!(signature.check(b"v=AAAA").unwrap_err().sqlstate(), "28000");
    }

    #[test]
    fn no_message_makes_either_side_panic() {
        let verifier = Verifier::new("x", vec![], 1);
        let client = Client::new("u", "x", "n");
        for message in
            [&b""[..], b"n,,", b"r=,s=,i=", b"r=n1,s=!,i=1", b"r=n1,s=,i=99999999999", b"\xff", b",,,p="]
        {
            assert!(client.proof(message).is_err());
            assert!(Server::new("u", verifier.clone(), message, "m").is_err());
            let server = Server::new("u", verifier.clone(), &client.first(), "m").unwrap();
            assert!(server.check(message).is_err());
        }
    }
}
