//! Sends control messages in a separate task, because a server that does not read them must not delay the pictures.

use nearlight_net::ControlSender;
use nearlight_wire::ClientMessage;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Maximum number of queued messages. Guess: as many as a server queues for a client.
const MAX_QUEUED_MESSAGES: usize = 64;

/// A handle of the task. When it is dropped, the task sends the queued messages and ends.
pub struct ControlWriter {
    queue: mpsc::Sender<ClientMessage>,
    task: JoinHandle<ControlSender<ClientMessage>>,
}

impl ControlWriter {
    pub fn start(mut to_server: ControlSender<ClientMessage>) -> Self {
        let (queue, mut waiting) = mpsc::channel(MAX_QUEUED_MESSAGES);
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

    /// Returns whether the queue has room for another message.
    pub fn has_room(&self) -> bool {
        self.queue.capacity() > 0
    }

    /// Returns whether half of the queue is free: messages that may wait, such as the chunks of a long text, then do not displace others.
    pub fn has_ample_room(&self) -> bool {
        self.queue.capacity() > MAX_QUEUED_MESSAGES / 2
    }

    /// Queues a message. Returns false if the queue is full because the server reads too slowly.
    pub fn send(&self, message: ClientMessage) -> bool {
        self.queue.try_send(message).is_ok()
    }

    /// Sends the queued messages. The stream stays open until the returned sender is dropped.
    pub async fn finish(self) -> Option<ControlSender<ClientMessage>> {
        drop(self.queue);
        self.task.await.ok()
    }
}
