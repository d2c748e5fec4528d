//! Messages between a program that embeds a viewer and the application that it watches.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use nearlight_units::lock;
use nearlight_wire::ApplicationMessage;
use tokio::sync::Notify;

/// Maximum number of messages queued in each direction. Guess: several seconds of a busy application, as at the server.
const MAX_QUEUED_MESSAGES: usize = 256;

/// The program's end of the message channel. Give a clone to the viewer in [`ViewOptions::messages`](crate::ViewOptions::messages).
///
/// Messages are opaque bytes. Those sent while there is no connection wait for the next one.
#[derive(Clone, Debug, Default)]
pub struct Messages(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queues: Mutex<Queues>,
    outgoing: Notify,
    incoming: Notify,
}

#[derive(Debug, Default)]
struct Queues {
    outgoing: VecDeque<ApplicationMessage>,
    incoming: VecDeque<ApplicationMessage>,
    missed: u64,
    ended: bool,
}

/// Why a message was not accepted. All are errors of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    #[error("a message of {bytes} bytes exceeds the limit of {limit}: split it")]
    TooLong { bytes: usize, limit: usize },
    #[error(
        "{MAX_QUEUED_MESSAGES} messages are already queued for the server: send fewer, or wait until it is connected again"
    )]
    Full,
    #[error("the viewer has ended, so the message was not sent")]
    Ended,
}

impl Messages {
    /// Sends a message to the application.
    ///
    /// # Errors
    ///
    /// The message is too long, the queue is full, or the viewer has ended.
    pub fn send(&self, message: ApplicationMessage) -> Result<(), MessageError> {
        let (bytes, limit) = (message.data.len(), message.limit());
        if bytes > limit {
            return Err(MessageError::TooLong { bytes, limit });
        }
        let mut queues = self.queues();
        if queues.ended {
            return Err(MessageError::Ended);
        }
        if queues.outgoing.len() == MAX_QUEUED_MESSAGES {
            return Err(MessageError::Full);
        }
        queues.outgoing.push_back(message);
        drop(queues);
        self.0.outgoing.notify_one();
        Ok(())
    }

    /// Waits for the application's next message. Returns `None` once the viewer has ended and all messages were taken.
    pub async fn recv(&self) -> Option<ApplicationMessage> {
        loop {
            {
                let mut queues = self.queues();
                let message = queues.incoming.pop_front();
                if message.is_some() || queues.ended {
                    return message;
                }
            }
            self.0.incoming.notified().await;
        }
    }

    /// Returns the application's next message, if one has arrived.
    #[must_use]
    pub fn try_recv(&self) -> Option<ApplicationMessage> {
        self.queues().incoming.pop_front()
    }

    /// Returns how many of the application's messages were dropped, oldest first, because the program did not take them.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.queues().missed
    }

    /// Waits for the program's next message. Cancellation safe: no message is lost if the future is dropped.
    pub(crate) async fn next_outgoing(&self) -> ApplicationMessage {
        loop {
            if let Some(message) = self.queues().outgoing.pop_front() {
                return message;
            }
            self.0.outgoing.notified().await;
        }
    }

    pub(crate) fn on_incoming(&self, message: ApplicationMessage) {
        let mut queues = self.queues();
        if queues.incoming.len() == MAX_QUEUED_MESSAGES {
            queues.incoming.pop_front();
            queues.missed += 1;
        }
        queues.incoming.push_back(message);
        drop(queues);
        self.0.incoming.notify_one();
    }

    /// Wakes all waiting tasks, because the viewer has ended.
    pub(crate) fn end(&self) {
        self.queues().ended = true;
        self.0.incoming.notify_waiters();
        self.0.incoming.notify_one();
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        lock(&self.0.queues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize, reliable: bool) -> ApplicationMessage {
        ApplicationMessage { data: vec![7; bytes], reliable }
    }

    #[tokio::test]
    async fn messages_are_bounded_in_length_and_number() {
        let messages = Messages::default();
        let long = MessageError::TooLong { bytes: 1_101, limit: 1_100 };
        assert_eq!(messages.send(message(1_101, false)), Err(long));
        assert_eq!(messages.send(message(1_101, true)), Ok(()));
        while messages.send(message(1, true)).is_ok() {}
        assert_eq!(messages.send(message(1, true)), Err(MessageError::Full));
        assert_eq!(messages.next_outgoing().await.data.len(), 1_101);
        assert_eq!(messages.send(message(1, true)), Ok(()));
        for bytes in 0..MAX_QUEUED_MESSAGES + 2 {
            messages.on_incoming(message(bytes, true));
        }
        assert_eq!((messages.missed(), messages.try_recv().map(|message| message.data.len())), (2, Some(2)));
    }

    #[tokio::test]
    async fn who_waits_for_messages_hears_of_the_end() {
        let messages = Messages::default();
        let waiting = messages.clone();
        let waiting = tokio::spawn(async move { (waiting.recv().await, waiting.recv().await) });
        tokio::task::yield_now().await;
        messages.on_incoming(message(3, false));
        tokio::task::yield_now().await;
        messages.end();
        assert_eq!(waiting.await.expect("no panic"), (Some(message(3, false)), None));
        assert_eq!(messages.send(message(1, true)), Err(MessageError::Ended));
    }
}
