//! The destination of results: standard output, a pager, or the file of `.output`.

use hypostyle::{Error, Result};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write, stdout};
use std::process::{Child, Command, Stdio};

#[derive(Debug)]
pub enum Sink {
    Standard(BufWriter<Stdout>),
    File(BufWriter<File>),
    Paged(Pager),
}

impl Sink {
    pub fn standard() -> Self {
        Self::Standard(BufWriter::new(stdout()))
    }

    /// # Errors
    /// `Io` or `NotFound` when the file cannot be created.
    pub fn file(path: &str) -> Result<Self> {
        let file =
            File::create(path).map_err(|error| Error::from_io(&error, format!("cannot write \"{path}\"")))?;
        Ok(Self::File(BufWriter::new(file)))
    }

    /// Returns the terminal, behind a program that shows output of more lines than `height`.
    pub fn paged(command: &str, height: usize) -> Self {
        Self::Paged(Pager {
            command: command.into(),
            height,
            lines: 0,
            held: Vec::new(),
            state: State::Holds,
        })
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Standard(_) | Self::Paged(_)) && stdout().is_terminal()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(writer) => writer.write(bytes),
            Self::File(writer) => writer.write(bytes),
            Self::Paged(pager) => pager.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(writer) => writer.flush(),
            Self::File(writer) => writer.flush(),
            Self::Paged(_) => Ok(()),
        }
    }
}

/// Holds output that fits on the screen, and starts its program when more comes.
#[derive(Debug)]
pub struct Pager {
    command: String,
    height: usize,
    lines: usize,
    held: Vec<u8>,
    state: State,
}

#[derive(Debug)]
enum State {
    Holds,
    Runs(Child),
    /// The program cannot be started, so the output passes through.
    Passes(Stdout),
}

impl Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.state {
            State::Runs(child) => match &mut child.stdin {
                Some(stdin) => stdin.write(bytes),
                None => Ok(bytes.len()),
            },
            State::Passes(terminal) => terminal.write(bytes),
            State::Holds => {
                self.held.extend_from_slice(bytes);
                self.lines += bytes.iter().filter(|byte| **byte == b'\n').count();
                if self.lines >= self.height {
                    self.start()?;
                }
                Ok(bytes.len())
            }
        }
    }

    fn start(&mut self) -> io::Result<()> {
        let mut command = Command::new("sh");
        command.args(["-c", &self.command]).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            // Show colours, and no page for output that fits on the screen.
            command.env("LESS", "FRX");
        }
        self.state = command.spawn().map_or_else(|_| State::Passes(stdout()), State::Runs);
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_slice();
        while !rest.is_empty() {
            rest = &rest[self.write(rest)?..];
        }
        Ok(())
    }

    /// Ends the output, and waits until it has been read.
    ///
    /// # Errors
    /// The errors of writing to the terminal, and of waiting.
    pub fn finish(mut self) -> io::Result<()> {
        match &mut self.state {
            State::Holds => stdout().write_all(&self.held)?,
            State::Passes(_) => {}
            State::Runs(child) => {
                drop(child.stdin.take());
                child.wait()?;
            }
        }
        stdout().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pager_starts_when_the_screen_is_full() {
        let path = std::env::temp_dir().join(format!("hypostyle-pager-{}", std::process::id()));
        let Sink::Paged(mut pager) = Sink::paged(&format!("cat > '{}'", path.display()), 3) else {
            panic!("a pager")
        };
        pager.write(b"1\n2\n").unwrap();
        assert!(matches!(pager.state, State::Holds) && pager.held == b"1\n2\n");
        pager.write(b"3\n").unwrap();
        pager.write(b"4\n").unwrap();
        assert!(matches!(pager.state, State::Runs(_)));
        pager.finish().unwrap();
        let read = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(read, "1\n2\n3\n4\n");
    }
}
