//! The command's end of the connection.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use crate::{Message, MessageStream, SOCKET_VARIABLE, StreamSettings};

/// The library's name as a Vulkan layer.
const LAYER: &str = "VK_LAYER_NEARLIGHT_hook";
/// The file that describes the layer to the Vulkan loader.
const MANIFEST: &str = "nearlight_hook.json";
/// The Vulkan loader's variable for the layers to use.
const LAYERS_VARIABLE: &str = "VK_INSTANCE_LAYERS";
/// The Vulkan loader's variable for the folders to search for layers.
const LAYER_PATH_VARIABLE: &str = "VK_ADD_LAYER_PATH";
/// The dynamic linker's variable for libraries to load before all others.
const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
/// Characters at which the dynamic linker ends a library's path.
const SEPARATORS: [char; 2] = [':', ' '];
/// Maximum number of names that are tried for the folder. Guess: more servers than a machine runs.
const MAX_FOLDER_ATTEMPTS: u32 = 100;

/// Why a program cannot be started with the library.
#[derive(Debug)]
pub enum ListenerError {
    /// An error of the user: the library's path contains a separator.
    Path(PathBuf),
    /// An error of the platform.
    Socket(io::Error),
}

impl std::fmt::Display for ListenerError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => write!(
                formatter,
                "the path {} has a space or a colon, which LD_PRELOAD cannot carry: move the command and its library elsewhere",
                path.display()
            ),
            Self::Socket(error) => write!(formatter, "cannot listen for the program in a temporary folder: {error}"),
        }
    }
}

impl std::error::Error for ListenerError {}

/// A socket for the program's processes, in a temporary folder that is removed when this is dropped.
#[derive(Debug)]
pub struct Listener {
    folder: PathBuf,
    library: PathBuf,
}

impl Listener {
    /// Starts a thread that listens. `on_message` is called with each message, from several threads concurrently. What it returns for
    /// [`Message::Opening`] is sent to the process.
    pub fn open(
        library: &Path,
        on_message: impl Fn(Message) -> Option<StreamSettings> + Send + Sync + 'static,
    ) -> Result<Self, ListenerError> {
        if library.to_str().is_none_or(|path| path.contains(SEPARATORS)) {
            return Err(ListenerError::Path(library.to_owned()));
        }
        let folder = private_folder().map_err(ListenerError::Socket)?;
        let listener = Self { folder, library: library.to_owned() };
        listener.write_manifest().map_err(ListenerError::Socket)?;
        let socket = UnixListener::bind(listener.socket()).map_err(ListenerError::Socket)?;
        let on_message = Arc::new(on_message);
        let accept = move || {
            for stream in socket.incoming().flatten() {
                let on_message = Arc::clone(&on_message);
                let serve = move || serve(MessageStream::new(stream), on_message.as_ref());
                // Without this thread the process gets no reply and is not streamed.
                let _ = thread::Builder::new().name("hook-talk".into()).spawn(serve);
            }
        };
        thread::Builder::new().name("hook-listen".into()).spawn(accept).map_err(ListenerError::Socket)?;
        Ok(listener)
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// Returns the folder, which may hold further files for the program. Only this user can access it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes the file that describes the library to the Vulkan loader.
    fn write_manifest(&self) -> io::Result<()> {
        let manifest = serde_json::json!({
            "file_format_version": "1.2.0",
            "layer": {
                "name": LAYER,
                "type": "GLOBAL",
                "library_path": self.library,
                "api_version": "1.3.0",
                "implementation_version": "1",
                "description": "Streams what is presented",
            },
        });
        fs::write(self.folder.join(MANIFEST), manifest.to_string())
    }

    /// Sets the environment of `command` so that it loads the library before others.
    pub fn configure(&self, command: &mut Command) {
        let before = |first: OsString, variable: &str| {
            let others = std::env::var_os(variable).filter(|others| !others.is_empty());
            others.map_or(first.clone(), |others| [first, others].join(OsStr::new(":")))
        };
        command
            .env(SOCKET_VARIABLE, self.socket())
            .env(PRELOAD_VARIABLE, before(self.library.clone().into(), PRELOAD_VARIABLE))
            .env(LAYERS_VARIABLE, before(LAYER.into(), LAYERS_VARIABLE))
            .env(LAYER_PATH_VARIABLE, before(self.folder.clone().into(), LAYER_PATH_VARIABLE));
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A folder that cannot be removed is left to the system's cleaning of temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn private_folder() -> io::Result<PathBuf> {
    let (base, process) = (std::env::temp_dir(), std::process::id());
    for attempt in 0..MAX_FOLDER_ATTEMPTS {
        let folder = base.join(format!("nearlight-hook-{process}-{attempt}"));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|()| folder),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} has too many folders of Nearlight", base.display())))
}

/// Handles the messages of a process until it disconnects.
fn serve(mut stream: MessageStream, on_message: &dyn Fn(Message) -> Option<StreamSettings>) {
    while let Ok(Some(message)) = stream.receive::<Message>() {
        if let Some(answer) = on_message(message)
            && stream.send(&answer).is_err()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixStream;
    use std::sync::Mutex;

    use super::*;
    use crate::HookedProcess;

    #[test]
    fn a_process_is_answered_and_the_folder_goes_away() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&heard);
        let listener = Listener::open(Path::new("/library.so"), move |message| {
            let answer = matches!(message, Message::Opening { .. })
                .then(|| StreamSettings { options: Some("fps = 30".into()), input: false });
            hears.lock().expect("no panic").push(message);
            answer
        });
        let listener = listener.expect("it listens");
        let mode = fs::metadata(listener.folder()).expect("a folder").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "others stay out");
        let mut command = Command::new("true");
        listener.configure(&mut command);
        let variable = |name: &str| {
            let found = command.get_envs().find(|(key, _)| *key == name);
            found.and_then(|(_, value)| value).expect(name).to_owned()
        };
        assert!(variable(PRELOAD_VARIABLE).to_string_lossy().starts_with("/library.so"));
        let stream = UnixStream::connect(variable(SOCKET_VARIABLE)).expect("it accepts");
        let mut conversation = MessageStream::new(stream);
        let speaker = HookedProcess { process: 1, name: "x".into() };
        let opening = Message::Opening { speaker, interface: "EGL".into(), width: 2, height: 2 };
        conversation.send(&opening).expect("it is sent");
        let answer: Option<StreamSettings> = conversation.receive().expect("an answer");
        assert_eq!(answer.and_then(|answer| answer.options).as_deref(), Some("fps = 30"));
        assert_eq!(*heard.lock().expect("no panic"), [opening]);
        let folder = listener.folder().to_owned();
        drop(listener);
        assert!(!folder.exists());
    }

    #[test]
    fn paths_that_the_dynamic_linker_would_cut_are_refused() {
        for path in ["/a b/library.so", "/a:b/library.so"] {
            let refused = Listener::open(Path::new(path), |_| None).expect_err(path);
            assert!(refused.to_string().contains(path), "{refused}");
        }
    }
}
