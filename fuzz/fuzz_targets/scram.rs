//! Any messages to both sides of SCRAM: an error, and never somebody let in who has another password.
#![no_main]

use hypostyle_wire::scram::{Client, Server, Verifier};
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
}

/// Iterations cost time, and many of them find nothing more.
fn is_cheap(challenge: &[u8]) -> bool {
    let Some(at) = challenge.windows(2).position(|pair| pair == b"i=") else { return true };
    challenge[at + 2..].iter().take_while(|byte| byte.is_ascii_digit()).count() < 4
}

fuzz_target!(|input: Input<'_>| {
    let verifier = Verifier::new(input.password, vec![1, 2, 3], 1);
    // One who does not know it, against any client.
    if let Ok(server) = Server::new(input.user, verifier.clone(), input.first, "server") {
        assert!(server.check(input.proof).is_err());
    }
    // One who knows nothing, against any server.
    let client = Client::new(input.user, input.password, "client");
    if is_cheap(input.challenge)
        && let Ok((_, signature)) = client.proof(input.challenge)
    {
        assert!(signature.check(input.last).is_err());
    }
    // Both against each other.
    let server = Server::new(input.user, verifier, &client.first(), "server").unwrap();
    let (proof, signature) = client.proof(server.challenge()).unwrap();
    signature.check(&server.check(&proof).unwrap()).unwrap();
    if let Ok(verifier) = input.verifier.parse::<Verifier>() {
        assert_eq!(verifier.to_string().parse::<Verifier>().unwrap(), verifier);
    }
});
