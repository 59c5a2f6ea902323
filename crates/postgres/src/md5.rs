//! MD5 (RFC 1321), which old servers keep of passwords. Nothing else may rely on it.

/// The amounts by which the four steps of each round rotate.
const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

const BLOCK_BYTES: usize = 64;

/// Returns the hash of some bytes.
pub fn md5(bytes: &[u8]) -> [u8; 16] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    while padded.len() % BLOCK_BYTES != BLOCK_BYTES - 8 {
        padded.push(0);
    }
    padded.extend_from_slice(&(bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks_exact(BLOCK_BYTES) {
        add_block(&mut state, block);
    }
    let mut hash = [0; 16];
    for (place, word) in hash.chunks_exact_mut(4).zip(state) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    hash
}

fn add_block(state: &mut [u32; 4], block: &[u8]) {
    let mut words = [0_u32; 16];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64_usize {
        let (mixed, index) = match step / 16 {
            0 => (b & c | !b & d, step),
            1 => (b & d | c & !d, 5 * step + 1),
            2 => (b ^ c ^ d, 3 * step + 5),
            _ => (c ^ (b | !d), 7 * step),
        };
        let word = words.get(index % 16).copied().unwrap_or_default();
        let rotation = ROTATIONS.get(step / 16).and_then(|round| round.get(step % 4)).copied();
        let sum = a.wrapping_add(mixed).wrapping_add(word).wrapping_add(constant(step));
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(rotation.unwrap_or_default()));
    }
    for (kept, new) in state.iter_mut().zip([a, b, c, d]) {
        *kept = kept.wrapping_add(new);
    }
}

/// The first 32 bits of the fraction of a sine.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is less than 2^32")]
fn constant(step: usize) -> u32 {
    (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32
}

/// Returns the answer to the server's question for an MD5 of the password.
pub fn answer(user: &str, password: &str, salt: [u8; 4]) -> Vec<u8> {
    let inner = hexadecimal(&md5(format!("{password}{user}").as_bytes()));
    let outer = md5(&[inner.as_bytes(), &salt].concat());
    format!("md5{}\0", hexadecimal(&outer)).into_bytes()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        for (text, hash) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(hexadecimal(&md5(text.as_bytes())), hash);
        }
        assert_eq!(answer("u", "p", [1, 2, 3, 4]).len(), 36);
    }
}
