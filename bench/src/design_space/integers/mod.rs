//! Codecs for the integers of one column and chunk (the chapter's Table 3.6).
//!
//! The product's own encodings, by FastLanes, are called as chunks; these codecs are compared with
//! them.

mod blocks;
mod packing;
mod patched;
pub mod varint;
mod word;

use super::Result;
use word::Word;

#[derive(Clone, Copy, Debug)]
pub enum Integers {
    /// Each integer has the width of the type.
    Plain,
    /// Each byte has 7 bits, as in Protocol Buffers.
    Varint,
    /// Each integer has as many bits as the largest of 1024 needs.
    Packed,
    /// The same for the differences to the smallest of them.
    FrameOfReference,
    /// The same for zigzag differences to the previous integer.
    Delta,
    /// A frame of reference whose widest integers are stored separately if that is smaller (PFOR).
    Patched,
}

impl Integers {
    pub const ALL: [Self; 6] =
        [Self::Plain, Self::Varint, Self::Packed, Self::FrameOfReference, Self::Delta, Self::Patched];

    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "None",
            Self::Varint => "Varint",
            Self::Packed => "Binpack",
            Self::FrameOfReference => "FOR",
            Self::Delta => "Delta",
            Self::Patched => "PFOR",
        }
    }

    pub fn write<T: Word>(self, values: &[T], out: &mut Vec<u8>) {
        match self {
            Self::Plain => word::put_many(values, out),
            Self::Varint => values.iter().for_each(|value| varint::write(value.to_u64(), out)),
            Self::Packed => blocks::write_packed(values, out),
            Self::FrameOfReference => blocks::write_reference(values, out),
            Self::Delta => blocks::write_delta(values, out),
            Self::Patched => patched::write(values, out),
        }
    }

    /// Appends `count` integers; `bytes` contains nothing else.
    pub fn read<T: Word>(self, mut bytes: &[u8], count: usize, values: &mut Vec<T>) -> Result<()> {
        let bytes = &mut bytes;
        match self {
            Self::Plain => word::take_many(bytes, count, values)?,
            Self::Varint => {
                for _ in 0..count {
                    values.push(T::from_u64(varint::read(bytes)?));
                }
            }
            Self::Packed => blocks::read_packed(bytes, count, values)?,
            Self::FrameOfReference => blocks::read_reference(bytes, count, values)?,
            Self::Delta => blocks::read_delta(bytes, count, values)?,
            Self::Patched => patched::read(bytes, count, values)?,
        }
        if bytes.is_empty() { Ok(()) } else { Err("bytes are left behind the last integer".into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_back<T: Word + std::fmt::Debug>(values: &[T]) {
        for integers in Integers::ALL {
            let mut bytes = Vec::new();
            integers.write(values, &mut bytes);
            let mut read: Vec<T> = Vec::new();
            integers.read(&bytes, values.len(), &mut read).unwrap();
            assert_eq!(read, values, "{integers:?}");
            if let Some(cut) = bytes.len().checked_sub(1) {
                assert!(integers.read(&bytes[..cut], values.len(), &mut Vec::<T>::new()).is_err());
            }
        }
    }

    #[test]
    fn integers_come_back() {
        let signed: Vec<i64> = (0..3000).map(|row: i64| (row * 7919 % 5000) - 2500).collect();
        comes_back::<u64>(&[]);
        comes_back::<u64>(&[7; 1025]);
        comes_back::<u32>(&[u32::MAX, 0, 1, i32::MIN as u32]);
        comes_back::<u64>(&[u64::MAX, 0, 1, i64::MIN as u64, i64::MAX as u64]);
        comes_back::<u64>(&signed.iter().map(|value| *value as u64).collect::<Vec<_>>());
        comes_back::<u32>(&signed.iter().map(|value| *value as u32).collect::<Vec<_>>());
        let outliers = (0..5000u64).map(|row| if row % 97 == 0 { row << 40 } else { row % 50 });
        comes_back::<u64>(&outliers.collect::<Vec<_>>());
    }

    fn bytes_of(integers: Integers, values: &[u64]) -> usize {
        let mut bytes = Vec::new();
        integers.write(values, &mut bytes);
        bytes.len()
    }

    #[test]
    fn each_is_smallest_where_it_should_be() {
        let far: Vec<u64> = (0..2048).map(|row| (1 << 40) + row * 7919 % 64).collect();
        assert!(bytes_of(Integers::FrameOfReference, &far) * 5 < bytes_of(Integers::Packed, &far));
        let rising: Vec<u64> = (0..2048).map(|row| row * 1000).collect();
        assert!(bytes_of(Integers::Delta, &rising) < bytes_of(Integers::FrameOfReference, &rising));
        let outliers: Vec<u64> =
            (0..2048).map(|row| if row % 200 == 0 { 1 << 50 } else { row % 16 }).collect();
        assert!(bytes_of(Integers::Patched, &outliers) * 5 < bytes_of(Integers::FrameOfReference, &outliers));
        let small: Vec<u64> = (0..2048).map(|row| row % 100).collect();
        assert_eq!(bytes_of(Integers::Varint, &small), 2048);
        assert_eq!(bytes_of(Integers::Packed, &small), 2 * (1 + 7 * 128));
    }
}
