//! Reading and writing fields: little-endian numbers, lengths before bytes (protocol.md).

use hypostyle_types::{Error, Result};

/// Takes fields off the front of bytes that nobody has checked.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

macro_rules! read_number {
    ($($name:ident $type:ty),*) => {$(
        pub fn $name(&mut self) -> Result<$type> {
            const BYTES: usize = size_of::<$type>();
            let mut bytes = [0; BYTES];
            bytes.copy_from_slice(self.take(BYTES)?);
            Ok(<$type>::from_le_bytes(bytes))
        }
    )*};
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    read_number!(u8 u8, u16 u16, u32 u32, u64 u64, i8 i8, i64 i64);

    pub fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| {
            Error::protocol(format!("{length} bytes must follow where {} are left", self.rest.len()))
        })?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    pub fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Error::protocol("a text is not UTF-8"))
    }

    /// A list of at most `count_max` items of at least `item_bytes` each, so that a false count
    /// costs no memory.
    pub fn list<T>(
        &mut self,
        item_bytes: usize,
        count_max: usize,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let count = self.u32()? as usize;
        if count.saturating_mul(item_bytes) > self.rest.len() {
            return Err(Error::protocol(format!("{count} items cannot be in {} bytes", self.rest.len())));
        }
        if count > count_max {
            return Err(Error::protocol(format!("{count} items where at most {count_max} may be")));
        }
        (0..count).map(|_| item(self)).collect()
    }

    pub fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Error::protocol(format!("{other} stands where 0 or 1 must"))),
        }
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// # Errors
    /// When something is left.
    pub fn end(self) -> Result<()> {
        if !self.rest.is_empty() {
            return Err(Error::protocol(format!("{} bytes too many", self.rest.len())));
        }
        Ok(())
    }
}

/// Puts fields behind one another.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

macro_rules! write_number {
    ($($name:ident $type:ty),*) => {$(
        pub fn $name(&mut self, value: $type) -> &mut Self {
            self.raw(&value.to_le_bytes())
        }
    )*};
}

impl Writer {
    write_number!(u8 u8, u16 u16, u32 u32, u64 u64, i8 i8, i64 i64);

    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    #[expect(clippy::expect_used, reason = "frames are far shorter")]
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(u32::try_from(bytes.len()).expect("a field is shorter than 4 GiB")).raw(bytes)
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    #[expect(clippy::expect_used, reason = "frames are far shorter")]
    pub fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut item: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        self.u32(u32::try_from(items.len()).expect("a list has fewer than 2^32 items"));
        items.for_each(|each| item(self, each));
        self
    }

    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
