//! A JSON file in the user's state folder that several processes of one user share.
//!
//! The file stays open: the server may become another user, or lose its access to the folder, while it runs. Each process locks it while it
//! reads or changes it.

use std::fmt;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most bytes that are read. The largest file has [`super::link_file::MAX_LINKS`] links of about 300 bytes.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// An open file that only its owner can read.
pub(crate) struct PrivateFile {
    path: PathBuf,
    file: File,
}

/// Only the path is no secret.
impl fmt::Debug for PrivateFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PrivateFile").field(&self.path).finish()
    }
}

impl PrivateFile {
    /// Opens the file of this name in `folder` to be read and written, or creates both. Only their owner can read them.
    ///
    /// # Errors
    /// If the system refuses it.
    pub(crate) fn open(folder: &Path, name: &str) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        {
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        builder.create(folder)?;
        let path = folder.join(name);
        let file = options.open(&path)?;
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        Ok(Self { path, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn lock(&self) -> io::Result<()> {
        self.file.lock()
    }

    pub(crate) fn unlock(&self) {
        let _ = self.file.unlock();
    }

    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Returns the content, or its first `max_bytes`.
    pub(crate) fn read(&self, max_bytes: u64) -> io::Result<Vec<u8>> {
        let mut file = &self.file;
        file.rewind()?;
        let mut content = Vec::new();
        file.take(max_bytes).read_to_end(&mut content)?;
        Ok(content)
    }

    /// Replaces the content.
    pub(crate) fn replace(&self, content: &[u8]) -> io::Result<()> {
        let mut file = &self.file;
        file.rewind()?;
        file.write_all(content)?;
        file.set_len(content.len() as u64)?;
        file.sync_data()
    }

    /// Writes after the end. Returns the length of the file.
    pub(crate) fn append(&self, more: &[u8]) -> io::Result<u64> {
        let mut file = &self.file;
        let end = file.seek(SeekFrom::End(0))?;
        file.write_all(more)?;
        Ok(end + more.len() as u64)
    }
}

/// An open file that contains one `T`.
pub(crate) struct StateFile<T> {
    file: PrivateFile,
    /// What a user loses if the file cannot be used, for warnings.
    loss: &'static str,
    content: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for StateFile<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("StateFile").field(&self.file.path()).finish()
    }
}

impl<T: Default + Serialize + DeserializeOwned> StateFile<T> {
    /// Opens the file of this name in `folder`, or creates both. Only their owner can read them. `loss` is a sentence without a full stop
    /// that says what does not work if the file fails.
    ///
    /// # Errors
    /// If the system refuses it.
    pub(crate) fn open(folder: &Path, name: &str, loss: &'static str) -> io::Result<Self> {
        PrivateFile::open(folder, name).map(|file| Self { file, loss, content: PhantomData })
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns a value that is different after each change of the file, as far as the system's clock for files can tell.
    pub(crate) fn version(&self) -> Option<(SystemTime, u64)> {
        let metadata = self.file.metadata().ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }

    /// Returns the file's content: the default if the file is empty, damaged, or cannot be read.
    pub(crate) fn content(&self) -> T {
        self.locked(|| self.load().0)
    }

    /// Reads the file, changes its content and writes it if it is different then. A server goes on without the file when that fails.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        self.locked(|| {
            let (mut content, text) = self.load();
            let result = change(&mut content);
            let changed = serde_json::to_string(&content).expect("texts and numbers");
            if changed != text
                && let Err(error) = self.file.replace(changed.as_bytes())
            {
                self.warn("write", &error);
            }
            result
        })
    }

    fn locked<R>(&self, work: impl FnOnce() -> R) -> R {
        if let Err(error) = self.file.lock() {
            self.warn("lock", &error);
        }
        let result = work();
        self.file.unlock();
        result
    }

    fn warn(&self, action: &str, error: &io::Error) {
        tracing::warn!("cannot {action} {}: {error}. {}", self.file.path().display(), self.loss);
    }

    /// Returns the content, and the text that it was read from.
    fn load(&self) -> (T, String) {
        let text = self.file.read(MAX_FILE_BYTES).and_then(|text| {
            String::from_utf8(text).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
        });
        let text = text.unwrap_or_else(|error| {
            self.warn("read", &error);
            String::new()
        });
        if text.is_empty() {
            return (T::default(), text);
        }
        let content = serde_json::from_str(&text).unwrap_or_else(|error| {
            tracing::warn!("{} is damaged ({error}), so its content is void", self.file.path().display());
            T::default()
        });
        (content, text)
    }
}
