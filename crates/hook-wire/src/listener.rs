//! The command's end.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use crate::{Answer, Conversation, Message, SOCKET_VARIABLE};

/// Name of the library as a layer of Vulkan, and the file that the Vulkan loader reads about it.
const LAYER: &str = "VK_LAYER_NEARLIGHT_hook";
const MANIFEST: &str = "nearlight_hook.json";
/// Variables of the Vulkan loader: layers to use, and folders to look for them.
const LAYERS_VARIABLE: &str = "VK_INSTANCE_LAYERS";
const LAYER_PATH_VARIABLE: &str = "VK_ADD_LAYER_PATH";
/// Variable of the dynamic linker: libraries to load before all others.
const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
/// The dynamic linker takes both for the end of a library's path.
const SEPARATORS: [char; 2] = [':', ' '];
/// Folders whose names are tried before giving up.
const MOST_FOLDERS: u32 = 100;

/// Why a program cannot be started with the library in it.
#[derive(Debug)]
pub enum ListenerError {
    /// The user's fault: the library's path has a character that ends it.
    Path(PathBuf),
    /// The platform's fault.
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

/// A socket for the program's processes, in a folder of its own, which is removed at the end.
#[derive(Debug)]
pub struct Listener {
    folder: PathBuf,
    library: PathBuf,
}

impl Listener {
    /// Listens in a thread of its own. `on_message` is called with each message, from several threads at once; what it answers to
    /// [`Message::Opening`] goes back to the process.
    pub fn open(
        library: &Path,
        on_message: impl Fn(Message) -> Option<Answer> + Send + Sync + 'static,
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
                let talk = move || talk(Conversation::new(stream), on_message.as_ref());
                // Without a thread the process hears nothing and runs unstreamed.
                let _ = thread::Builder::new().name("hook-talk".into()).spawn(talk);
            }
        };
        thread::Builder::new().name("hook-listen".into()).spawn(accept).map_err(ListenerError::Socket)?;
        Ok(listener)
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// The folder, for further files that the program is to find. Only this user can enter it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Describes the library as a layer to the Vulkan loader.
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

    /// Has `command` load the library, before what it would load already.
    pub fn enter(&self, command: &mut Command) {
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
        // What is left in a temporary folder harms nobody.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn private_folder() -> io::Result<PathBuf> {
    let (base, process) = (std::env::temp_dir(), std::process::id());
    for attempt in 0..MOST_FOLDERS {
        let folder = base.join(format!("nearlight-hook-{process}-{attempt}"));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|()| folder),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} is full of such folders", base.display())))
}

/// Hears one process out.
fn talk(mut conversation: Conversation, on_message: &dyn Fn(Message) -> Option<Answer>) {
    while let Ok(Some(message)) = conversation.hear::<Message>() {
        if let Some(answer) = on_message(message)
            && conversation.say(&answer).is_err()
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
    use crate::Speaker;

    #[test]
    fn a_process_is_answered_and_the_folder_goes_away() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&heard);
        let listener = Listener::open(Path::new("/library.so"), move |message| {
            let answer = matches!(message, Message::Opening { .. })
                .then(|| Answer { options: Some("fps = 30".into()), input: false });
            hears.lock().expect("no panic").push(message);
            answer
        });
        let listener = listener.expect("it listens");
        let mode = fs::metadata(listener.folder()).expect("a folder").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "others stay out");
        let mut command = Command::new("true");
        listener.enter(&mut command);
        let variable = |name: &str| {
            let found = command.get_envs().find(|(key, _)| *key == name);
            found.and_then(|(_, value)| value).expect(name).to_owned()
        };
        assert!(variable(PRELOAD_VARIABLE).to_string_lossy().starts_with("/library.so"));
        let stream = UnixStream::connect(variable(SOCKET_VARIABLE)).expect("it accepts");
        let mut conversation = Conversation::new(stream);
        let speaker = Speaker { process: 1, name: "x".into() };
        let opening = Message::Opening { speaker, interface: "EGL".into(), width: 2, height: 2 };
        conversation.say(&opening).expect("it is sent");
        let answer: Option<Answer> = conversation.hear().expect("an answer");
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
