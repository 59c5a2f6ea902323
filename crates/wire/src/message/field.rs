//! How the fields of messages are written and read: each kind of value once.

use crate::UNKNOWN;
use crate::cursor::{Reader, Writer};
use crate::schema::{read_schema, write_schema};
use arrow_schema::SchemaRef;
use hypostyle_types::Result;
use std::time::Duration;

/// A part of a message, which is written and read in one way.
pub(super) trait Field: Sized {
    fn write(&self, to: &mut Writer);

    /// # Errors
    /// `08P01` when the bytes are no such value.
    fn read(from: &mut Reader<'_>) -> Result<Self>;
}

/// Defines a structure of fields that follow one another on the wire, and names each of them once.
/// Behind `where` stands a check of the field's value, which is made before the next one is read.
macro_rules! fields {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* pub $field:ident: $type:ty $(where $check:path)?,)*
        }
    ) => {
        $(#[$about])*
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $crate::message::field::Field for $name {
            fn write(&self, to: &mut $crate::cursor::Writer) {
                $(self.$field.write(to);)*
            }

            fn read(from: &mut $crate::cursor::Reader<'_>) -> hypostyle_types::Result<Self> {
                $(
                    let $field = <$type as $crate::message::field::Field>::read(from)?;
                    $($check(&$field)?;)?
                )*
                Ok(Self { $($field,)* })
            }
        }
    };
}

/// Makes a structure the body of a frame.
macro_rules! body {
    ($type:ty, $frame:ident) => {
        impl $type {
            /// The whole frame.
            pub fn frame(&self) -> Vec<u8> {
                let mut writer = $crate::cursor::Writer::default();
                $crate::message::field::Field::write(self, &mut writer);
                $crate::frame::FrameHeader::frame($crate::frame::FrameType::$frame, writer)
            }

            /// # Errors
            /// `08P01` when the bytes are not those of one such message.
            pub fn decode(body: &[u8]) -> hypostyle_types::Result<Self> {
                let mut reader = $crate::cursor::Reader::new(body);
                let message = <Self as $crate::message::field::Field>::read(&mut reader)?;
                reader.end()?;
                Ok(message)
            }
        }
    };
}

pub(super) use {body, fields};

macro_rules! numbers {
    ($($type:ident),*) => {$(
        impl Field for $type {
            fn write(&self, to: &mut Writer) {
                to.$type(*self);
            }

            fn read(from: &mut Reader<'_>) -> Result<Self> {
                from.$type()
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64);

impl Field for bool {
    fn write(&self, to: &mut Writer) {
        to.u8(u8::from(*self));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.flag()
    }
}

/// A number of rows or bytes, if it is known.
impl Field for Option<u64> {
    fn write(&self, to: &mut Writer) {
        to.u64(self.unwrap_or(UNKNOWN));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let number = from.u64()?;
        Ok((number != UNKNOWN).then_some(number))
    }
}

/// A time in microseconds.
impl Field for Duration {
    fn write(&self, to: &mut Writer) {
        to.u64(u64::try_from(self.as_micros()).unwrap_or(u64::MAX));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.u64().map(Self::from_micros)
    }
}

impl Field for String {
    fn write(&self, to: &mut Writer) {
        to.text(self);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.text().map(Self::from)
    }
}

impl Field for Vec<u8> {
    fn write(&self, to: &mut Writer) {
        to.bytes(self);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.bytes().map(Self::from)
    }
}

impl Field for SchemaRef {
    fn write(&self, to: &mut Writer) {
        write_schema(to, self);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        read_schema(from)
    }
}
