//! Where results go: standard output, or the file that `.output` names.

use hypostyle::{Error, Result};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write, stdout};

#[derive(Debug)]
pub enum Sink {
    Standard(BufWriter<Stdout>),
    File(BufWriter<File>),
}

impl Sink {
    pub fn standard() -> Self {
        Self::Standard(BufWriter::new(stdout()))
    }

    /// # Errors
    /// `Io` or `NotFound` when the file cannot be made.
    pub fn file(path: &str) -> Result<Self> {
        let file =
            File::create(path).map_err(|error| Error::from_io(&error, format!("cannot write \"{path}\"")))?;
        Ok(Self::File(BufWriter::new(file)))
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Standard(_)) && stdout().is_terminal()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(writer) => writer.write(bytes),
            Self::File(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(writer) => writer.flush(),
            Self::File(writer) => writer.flush(),
        }
    }
}
