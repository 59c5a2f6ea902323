//! Sends arbitrary messages to both sides of SCRAM. The result is an error, and a client with
//! another password is never accepted.
#![no_main]

use hypostyle_auth::scram::{Client, ITERATIONS, MECHANISM, Server, Verifier, end_point};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    user: &'a str,
    password: &'a str,
    first: &'a [u8],
    challenge: &'a [u8],
    proof: &'a [u8],
    last: &'a [u8],
    verifier: &'a str,
    mechanism: &'a str,
    binding: Option<Vec<u8>>,
}

/// Says whether there are few iterations: they cost time, and many of them find nothing more.
fn is_cheap(challenge: &[u8]) -> bool {
    let Some(at) = challenge.windows(2).position(|pair| pair == b"i=") else { return true };
    challenge[at + 2..].iter().take_while(|byte| byte.is_ascii_digit()).count() < 5
}

fuzz_target!(|input: Input<'_>| {
    let verifier = Verifier::new(input.password, vec![1, 2, 3], ITERATIONS);
    let binding = input.binding.as_deref();
    let _hash = end_point(input.first);
    // A server that does not know the password talks to any client.
    if let Ok(server) =
        Server::new(input.user, verifier.clone(), (input.mechanism, input.first), "server", binding)
    {
        assert!(server.check(input.proof).is_err());
    }
    // A client that knows nothing talks to any server.
    let client = Client::new(input.user, input.password, "client", input.binding.clone());
    if is_cheap(input.challenge)
        && let Ok((_, signature)) = client.proof(input.challenge)
    {
        assert!(signature.check(input.last).is_err());
    }
    // Both talk to each other.
    let first = (client.mechanism(), client.first());
    assert_eq!(first.0 == MECHANISM, binding.is_none());
    let server = Server::new(input.user, verifier, (first.0, &first.1), "server", binding).unwrap();
    let (proof, signature) = client.proof(server.challenge()).unwrap();
    signature.check(&server.check(&proof).unwrap()).unwrap();
    if let Ok(verifier) = input.verifier.parse::<Verifier>() {
        assert_eq!(verifier.to_string().parse::<Verifier>().unwrap(), verifier);
    }
});
