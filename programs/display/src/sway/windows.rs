//! Manages the program's windows on sway through its IPC socket (sway-ipc(7)). Each main window fills the output on its own workspace.
//! Dialogs float in the middle.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use serde::Deserialize;

use crate::DisplayError;
use crate::x11::connection::{ThreadError, WakePipe};
use crate::x11::screen::{ScreenSize, size_for};
use crate::x11::windows::{MAX_TITLE, WindowCommand, WindowEvent};

/// The beginning of a message.
const MAGIC: &[u8; 6] = b"i3-ipc";
// Types of messages (sway-ipc(7)).
const RUN_COMMAND: u32 = 0;
const SUBSCRIBE: u32 = 2;
const GET_TREE: u32 = 4;
/// Maximum number of bytes of a message. Guess: a window takes about 1 KB, but its title is chosen by the untrusted program.
const MAX_MESSAGE_BYTES: u32 = 4 << 20;
/// Maximum time that sway may take to answer. Guess: it answers within milliseconds, so that it hangs if it takes longer.
const IPC_TIMEOUT: Duration = Duration::from_secs(5);

/// A window, or a container of windows.
#[derive(Clone, Debug, Default, Deserialize)]
struct Node {
    id: u32,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    focused: bool,
    /// The process of a window; containers have none.
    #[serde(default)]
    pid: Option<i64>,
    #[serde(default)]
    visible: bool,
    #[serde(default)]
    nodes: Vec<Node>,
}

impl Node {
    /// Returns the windows in this node that do not float.
    fn windows(&self) -> Vec<&Node> {
        if self.pid.is_some() { vec![self] } else { self.nodes.iter().flat_map(Node::windows).collect() }
    }

    fn workspaces(&self) -> Vec<&Node> {
        if self.r#type == "workspace" { vec![self] } else { self.nodes.iter().flat_map(Node::workspaces).collect() }
    }
}

/// Returns the commands that give each main window its own workspace, and that show a window if none is visible.
fn arrangement(root: &Node) -> Vec<String> {
    let mut commands = Vec::new();
    for workspace in root.workspaces() {
        for Node { id, .. } in workspace.windows().into_iter().skip(1) {
            commands.push(format!("[con_id={id}] move container to workspace window-{id}; [con_id={id}] focus"));
        }
    }
    let windows = root.windows();
    // When the last window of a workspace closes, sway keeps the focus on the empty workspace.
    let nothing_seen = root.workspaces().iter().any(|workspace| workspace.focused && workspace.windows().is_empty());
    if let (true, true, Some(Node { id, .. })) = (commands.is_empty(), nothing_seen, windows.last()) {
        commands.push(format!("[con_id={id}] focus"));
    }
    commands
}

fn choices(root: &Node) -> Vec<(u32, String, bool)> {
    let title = |node: &Node| node.name.as_deref().unwrap_or_default().chars().take(MAX_TITLE).collect();
    root.windows().into_iter().map(|window| (window.id, title(window), window.visible)).collect()
}

pub(super) struct SwayWindows {
    requests: UnixStream,
    events: UnixStream,
    size: ScreenSize,
    max_size: Option<(u16, u16)>,
    choices: Vec<(u32, String, bool)>,
}

impl SwayWindows {
    pub(super) fn open(socket: &Path, size: ScreenSize, max_size: Option<(u16, u16)>) -> Result<Self, DisplayError> {
        let open = || {
            let (requests, mut events) = (UnixStream::connect(socket)?, UnixStream::connect(socket)?);
            for stream in [&requests, &events] {
                stream.set_read_timeout(Some(IPC_TIMEOUT))?;
                stream.set_write_timeout(Some(IPC_TIMEOUT))?;
            }
            ask(&mut events, SUBSCRIBE, r#"["window"]"#)?;
            Ok(Self { requests, events, size, max_size, choices: Vec::new() })
        };
        open().map_err(|error: io::Error| DisplayError::Display {
            name: socket.display().to_string(),
            reason: error.to_string(),
        })
    }

    /// Manages windows until all senders of commands are dropped.
    pub(super) fn run(
        mut self,
        wake_pipe: &WakePipe,
        commands: &Receiver<WindowCommand>,
        report: &dyn Fn(WindowEvent),
    ) -> Result<(), ThreadError> {
        loop {
            match commands.try_recv() {
                Ok(WindowCommand::Activate(window)) => self.command(&format!("[con_id={window}] focus"))?,
                Ok(WindowCommand::Close(window)) => self.command(&format!("[con_id={window}] kill"))?,
                Ok(WindowCommand::Resize(wanted)) => self.resize(wanted, report)?,
                // The clipboard is not supported on sway.
                Ok(
                    WindowCommand::AnnounceClipboard
                    | WindowCommand::SetClipboard(_)
                    | WindowCommand::WithdrawClipboard,
                ) => {}
                Err(TryRecvError::Empty) => {
                    wake_pipe.wait_for(&self.events, None);
                    self.on_events(report)?;
                }
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Reads all events. Each only says that the windows have changed.
    fn on_events(&mut self, report: &dyn Fn(WindowEvent)) -> Result<(), ThreadError> {
        let mut changed = false;
        loop {
            // Without blocking, checks whether a message has begun. Its rest is read blocking.
            self.events.set_nonblocking(true)?;
            let mut first = [0];
            let read = self.events.read(&mut first);
            self.events.set_nonblocking(false)?;
            match read {
                Ok(0) => return Err("sway has ended".into()),
                Ok(_) => drop(rest_of_message(&mut self.events, first[0])?),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
            changed = true;
        }
        if !changed {
            return Ok(());
        }
        let mut root = self.tree()?;
        let commands = arrangement(&root);
        if !commands.is_empty() {
            self.command(&commands.join("; "))?;
            root = self.tree()?;
        }
        let choices = choices(&root);
        if choices != self.choices {
            self.choices.clone_from(&choices);
            report(WindowEvent::Windows(choices));
        }
        Ok(())
    }

    fn resize(&mut self, wanted: (u16, u16), report: &dyn Fn(WindowEvent)) -> Result<(), ThreadError> {
        let Some(size) =
            self.max_size.map(|max_size| size_for(wanted, max_size)).filter(|size| *size != self.size.get())
        else {
            return Ok(());
        };
        self.command(&format!("output * resolution {}x{}", size.0, size.1))?;
        self.size.set(size);
        report(WindowEvent::Resized);
        Ok(())
    }

    fn tree(&mut self) -> Result<Node, ThreadError> {
        Ok(serde_json::from_slice(&ask(&mut self.requests, GET_TREE, "")?)?)
    }

    /// Runs a command. A failure is ignored, because the window may have just closed.
    fn command(&mut self, command: &str) -> Result<(), ThreadError> {
        let answer = ask(&mut self.requests, RUN_COMMAND, command)?;
        tracing::debug!(command, answer = %String::from_utf8_lossy(&answer), "sway has run a command");
        Ok(())
    }
}

fn ask(stream: &mut UnixStream, kind: u32, content: &str) -> io::Result<Vec<u8>> {
    let mut message = MAGIC.to_vec();
    message.extend((content.len() as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(content.as_bytes());
    stream.write_all(&message)?;
    let mut first = [0];
    stream.read_exact(&mut first)?;
    rest_of_message(stream, first[0])
}

/// Reads the rest of a message after its first byte. Returns its content.
fn rest_of_message(stream: &mut UnixStream, first: u8) -> io::Result<Vec<u8>> {
    let mut head = [0; 13];
    stream.read_exact(&mut head)?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "this is not a message of sway");
    let (magic, rest) = head.split_at(MAGIC.len() - 1);
    let length = rest.first_chunk().map_or(0, |length| u32::from_ne_bytes(*length));
    if first != MAGIC[0] || magic != &MAGIC[1..] || length > MAX_MESSAGE_BYTES {
        return Err(wrong());
    }
    let mut content = vec![0; length as usize];
    stream.read_exact(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(id: u32) -> Node {
        Node { id, pid: Some(7), name: Some(format!("window {id}")), r#type: "con".into(), ..Node::default() }
    }

    fn workspace(id: u32, focused: bool, nodes: Vec<Node>) -> Node {
        Node { id, focused, nodes, r#type: "workspace".into(), ..Node::default() }
    }

    fn root(workspaces: Vec<Node>) -> Node {
        let output = Node { id: 2, nodes: workspaces, r#type: "output".into(), ..Node::default() };
        Node { id: 1, nodes: vec![output], r#type: "root".into(), ..Node::default() }
    }

    #[test]
    fn each_main_window_has_a_workspace_of_its_own() {
        assert_eq!(arrangement(&root(vec![workspace(3, false, vec![window(4)])])), Vec::<String>::new());
        let split = Node { id: 9, nodes: vec![window(4), window(5)], r#type: "con".into(), ..Node::default() };
        assert_eq!(
            arrangement(&root(vec![workspace(3, false, vec![split])])),
            ["[con_id=5] move container to workspace window-5; [con_id=5] focus"]
        );
    }

    #[test]
    fn when_a_window_closes_another_one_is_shown() {
        let left = |focused| root(vec![workspace(3, false, vec![window(4)]), workspace(8, focused, Vec::new())]);
        assert_eq!(arrangement(&left(true)), ["[con_id=4] focus"]);
        assert_eq!(arrangement(&left(false)), Vec::<String>::new());
        assert_eq!(arrangement(&root(vec![workspace(3, true, Vec::new())])), Vec::<String>::new(), "none is left");
    }

    #[test]
    fn a_tree_is_read_as_sway_writes_it() {
        let text = r#"{"id":1,"type":"root","name":"root","focused":false,"nodes":[{"id":3,"type":"workspace","name":"1","focused":false,
            "nodes":[{"id":5,"type":"con","name":"a title","pid":12,"visible":true,"focused":true,"nodes":[],"app_id":"foot"}],
            "floating_nodes":[{"id":6,"type":"floating_con","name":"a dialog","pid":12,"visible":true,"nodes":[]}]}]}"#;
        let root: Node = serde_json::from_str(text).expect("a tree");
        assert_eq!(choices(&root), [(5, "a title".to_owned(), true)]);
    }

    #[test]
    fn messages_that_are_none_are_refused() {
        for (message, fine) in [
            (&b"i3-ipc\x02\0\0\0\0\0\0\0{}"[..], true),
            (b"i3-ipk\x02\0\0\0\0\0\0\0{}", false),
            (b"i3-ipc\xff\xff\xff\xff\0\0\0\0{}", false),
            (b"i3-ipc\x02\0\0\0\0", false),
        ] {
            let (mut near, mut far) = UnixStream::pair().expect("a pair");
            far.write_all(message).expect("room");
            drop(far);
            let mut first = [0];
            near.read_exact(&mut first).expect("a byte");
            assert_eq!(rest_of_message(&mut near, first[0]).is_ok_and(|content| content == b"{}"), fine, "{message:?}");
        }
    }
}
