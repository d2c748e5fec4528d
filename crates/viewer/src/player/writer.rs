//! Sends the client's control messages in a task of their own: a server that does not read must not delay its pictures.

use nearlight_net::ControlSender;
use nearlight_wire::ClientMessage;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Messages that wait for a server that reads slowly. Guess: as many as a server keeps for its clients.
const WAITING: usize = 64;

/// Ends when dropped; queued messages are still sent if the connection permits.
pub struct ControlWriter {
    queue: mpsc::Sender<ClientMessage>,
    task: JoinHandle<ControlSender<ClientMessage>>,
}

impl ControlWriter {
    pub fn start(mut to_server: ControlSender<ClientMessage>) -> Self {
        let (queue, mut waiting) = mpsc::channel(WAITING);
        let task = tokio::spawn(async move {
            while let Some(message) = waiting.recv().await {
                if to_server.send(&message).await.is_err() {
                    // The connection is lost, which the reading side reports.
                    break;
                }
            }
            to_server
        });
        Self { queue, task }
    }

    /// Whether there is room for another message.
    pub fn has_room(&self) -> bool {
        self.queue.capacity() > 0
    }

    /// False where the server reads too slowly.
    pub fn send(&self, message: ClientMessage) -> bool {
        self.queue.try_send(message).is_ok()
    }

    /// Sends what is queued. The stream stays open as long as its sender does.
    pub async fn finish(self) -> Option<ControlSender<ClientMessage>> {
        drop(self.queue);
        self.task.await.ok()
    }
}
