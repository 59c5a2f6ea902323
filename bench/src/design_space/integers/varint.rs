//! Integers with 7 bits in each byte, the lowest first. The highest bit says that another byte
//! follows.

use super::super::Result;

pub fn write(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub fn read(rest: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for (index, byte) in rest.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            *rest = &rest[index + 1..];
            return Ok(number);
        }
    }
    Err("an integer is cut or too long".into())
}
