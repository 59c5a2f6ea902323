//! An object store that is one file. It stores the output of DataFusion's writers in the order in
//! which they write it.
//!
//! DataFusion's own store of local files replaces any file of a name. This one writes to the file
//! that [`Target`](crate::target::Target) has opened, which may be a pipe.

use crate::target::{Opened, cannot_write};
use async_trait::async_trait;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::object_store::buffered::BufWriter;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult, UploadPart,
};
use futures::stream::{self, BoxStream, StreamExt};
use hypostyle_sync::Mutex;
use hypostyle_types::Error;
use std::fmt;
use std::sync::Arc;
use tokio::sync::oneshot;
use url::Url;

const NAME: &str = "hypostyle-file";

/// The one file of the store.
#[derive(Debug)]
struct Sink {
    target: Arc<Opened>,
    /// The state of JSON lines that become an array: whether a line end waits for the next row.
    array: Option<Mutex<Array>>,
    /// The first error of the file; the writers would turn it into a text.
    failure: Mutex<Option<Error>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Array {
    Empty,
    InLine,
    LineEnded,
}

impl Array {
    /// Returns the elements that some bytes of JSON lines are, in which a line end is always one
    /// between rows.
    fn elements(&mut self, lines: &[u8]) -> Vec<u8> {
        let mut elements = Vec::with_capacity(lines.len() + lines.len() / 16);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            match self {
                Self::Empty => elements.extend_from_slice(b"[\n"),
                Self::LineEnded => elements.extend_from_slice(b",\n"),
                Self::InLine => {}
            }
            let text = line.strip_suffix(b"\n");
            elements.extend_from_slice(text.unwrap_or(line));
            *self = if text.is_some() { Self::LineEnded } else { Self::InLine };
        }
        elements
    }

    fn end(self) -> &'static [u8] {
        match self {
            Self::Empty => b"[]\n",
            Self::InLine | Self::LineEnded => b"\n]\n",
        }
    }
}

/// A file that DataFusion's writers know by an address, until this is dropped.
#[derive(Debug)]
pub struct Registered {
    runtime: Arc<RuntimeEnv>,
    url: Url,
    sink: Arc<Sink>,
}

impl Registered {
    /// # Errors
    /// `Internal` when no address can be made.
    pub fn new(
        runtime: &Arc<RuntimeEnv>,
        target: &Arc<Opened>,
        is_array: bool,
    ) -> hypostyle_types::Result<Self> {
        let address = format!("{NAME}://{}/rows", uuid::Uuid::new_v4().simple());
        let url = Url::parse(&address).map_err(|error| Error::internal(format!("{address}: {error}")))?;
        let array = is_array.then(|| Mutex::new(Array::Empty));
        let sink = Arc::new(Sink { target: Arc::clone(target), array, failure: Mutex::new(None) });
        runtime.register_object_store(&url, Arc::new(Store(Arc::clone(&sink))));
        Ok(Self { runtime: Arc::clone(runtime), url, sink })
    }

    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns a writer of bytes, which come in their order.
    pub fn writer(&self) -> BufWriter {
        BufWriter::new(Arc::new(Store(Arc::clone(&self.sink))), Path::from("rows"))
    }

    /// Writes what comes after the rows.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn end(&self) -> hypostyle_types::Result<()> {
        let Some(array) = &self.sink.array else { return Ok(()) };
        let target = &self.sink.target;
        target.write(array.lock().end()).map_err(|error| cannot_write(target.name(), &error))
    }

    /// Returns the reason why the file could not be written, if that was the error.
    pub fn failure(&self) -> Option<Error> {
        self.sink.failure.lock().take()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.sink.target.give_up();
        // The object store exists, because this code has registered it under an address of its own.
        let _ = self.runtime.deregister_object_store(&self.url);
    }
}

impl Sink {
    async fn write(self: Arc<Self>, payload: PutPayload) -> StoreResult<()> {
        let sink = Arc::clone(&self);
        let write = move || {
            payload.iter().try_for_each(|bytes| match &sink.array {
                Some(array) => sink.target.write(&array.lock().elements(bytes)),
                None => sink.target.write(bytes),
            })
        };
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let name = self.target.name();
                self.failure.lock().get_or_insert_with(|| cannot_write(name, &error));
                Err(StoreError::Generic { store: NAME, source: Box::new(error) })
            }
            Err(error) => Err(StoreError::Generic { store: NAME, source: Box::new(error) }),
        }
    }
}

/// A sink as the store that its writers ask.
#[derive(Debug)]
struct Store(Arc<Sink>);

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.target.name())
    }
}

/// Parts that are written one after the other, however they are waited for.
#[derive(Debug)]
struct Parts {
    sink: Arc<Sink>,
    /// Told when the part before has been written.
    before: Option<oneshot::Receiver<()>>,
}

const DONE: PutResult = PutResult { e_tag: None, version: None };

#[async_trait]
impl MultipartUpload for Parts {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        let (written, next) = oneshot::channel();
        let before = self.before.replace(next);
        let sink = Arc::clone(&self.sink);
        Box::pin(async move {
            if let Some(before) = before {
                // A batch that was not written has reported the reason.
                before.await.map_err(|error| StoreError::Generic { store: NAME, source: Box::new(error) })?;
            }
            sink.write(payload).await?;
            // Nobody waits for the last one.
            let _ = written.send(());
            Ok(())
        })
    }

    async fn complete(&mut self) -> StoreResult<PutResult> {
        Ok(DONE)
    }

    async fn abort(&mut self) -> StoreResult<()> {
        Ok(())
    }
}

fn only_written<T>(operation: &str) -> StoreResult<T> {
    Err(StoreError::NotImplemented { operation: operation.into(), implementer: NAME.into() })
}

#[async_trait]
impl ObjectStore for Store {
    async fn put_opts(&self, _: &Path, payload: PutPayload, _: PutOptions) -> StoreResult<PutResult> {
        Arc::clone(&self.0).write(payload).await?;
        Ok(DONE)
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        Ok(Box::new(Parts { sink: Arc::clone(&self.0), before: None }))
    }

    async fn get_opts(&self, _: &Path, _: GetOptions) -> StoreResult<GetResult> {
        only_written("get")
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        stream::iter([only_written("delete")]).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        stream::iter([only_written("list")]).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> StoreResult<ListResult> {
        only_written("list")
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> StoreResult<()> {
        only_written("copy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_an_array_wherever_they_are_cut() {
        let lines = b"{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n";
        for cut in 0..=lines.len() {
            let mut array = Array::Empty;
            let mut text = array.elements(&lines[..cut]);
            text.extend(array.elements(&lines[cut..]));
            text.extend_from_slice(array.end());
            assert_eq!(text, b"[\n{\"a\":1},\n{\"a\":2},\n{\"a\":3}\n]\n", "{cut}");
        }
        assert_eq!(Array::Empty.end(), b"[]\n");
    }
}
