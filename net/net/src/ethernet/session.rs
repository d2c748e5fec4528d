//! One session: the state machine, its queues for its users, and the tasks that wait for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::link_layer::{Channel, ChannelStatistics, EndReason, HardwareAddress};
use bytes::Bytes;
use nearlight_units::{Time, lock};
use tokio::sync::Notify;

use super::Hub;
use crate::connection::{CloseReason, DropReason, ReceivedDatagram};

/// Maximum number of datagrams that have arrived and have not been read, and of frames that the socket has not accepted. Further ones are
/// dropped.
const MAX_WAITING_DATAGRAMS: usize = 1_024;

/// A session, shared by its users and by the task of its interface.
pub(crate) struct EthernetSession {
    hub: Arc<Hub>,
    peer: HardwareAddress,
    index: u32,
    hash: [u8; 32],
    state: Mutex<State>,
    /// Signals that something arrived, that the peer has acknowledged something, or that the session is over.
    arrived: Notify,
}

struct State {
    channel: Channel,
    datagrams: VecDeque<ReceivedDatagram>,
    /// Frames that the socket did not accept.
    unsent: Vec<Vec<u8>>,
    /// Whether the end has been logged.
    reported: bool,
}

impl EthernetSession {
    pub(super) fn new(hub: Arc<Hub>, peer: HardwareAddress, channel: Channel) -> Arc<Self> {
        let (index, hash) = (channel.index(), channel.hash());
        let state = State { channel, datagrams: VecDeque::new(), unsent: Vec::new(), reported: false };
        Arc::new(Self { hub, peer, index, hash, state: state.into(), arrived: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) const fn peer(&self) -> HardwareAddress {
        self.peer
    }

    pub(super) const fn index(&self) -> u32 {
        self.index
    }

    /// The hash of the session: the same at both ends, and different for every session.
    pub(crate) const fn hash(&self) -> [u8; 32] {
        self.hash
    }

    pub(crate) fn max_datagram_size(&self) -> usize {
        self.state().channel.max_datagram()
    }

    pub(crate) fn statistics(&self) -> ChannelStatistics {
        self.state().channel.statistics()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().channel.ended().is_some()
    }

    pub(super) fn on_frame(&self, now: Time, payload: &[u8]) {
        let mut state = self.state();
        state.channel.on_frame(now, payload);
        while state.datagrams.len() < MAX_WAITING_DATAGRAMS
            && let Some(datagram) = state.channel.poll_datagram()
        {
            state.datagrams.push_back(ReceivedDatagram { at: now, datagram: Bytes::from(datagram) });
        }
    }

    /// Handles the end of a batch of frames.
    pub(super) fn after_frames(&self) {
        self.flush();
        self.arrived.notify_waiters();
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.state().channel.poll_timeout()
    }

    /// Handles the timer. Returns false once the session is over.
    pub(super) fn on_timeout(&self, now: Time) -> bool {
        self.state().channel.on_timeout(now);
        self.flush();
        let over = self.is_over();
        if over {
            self.arrived.notify_waiters();
            self.log_end();
        }
        !over
    }

    /// Queues a datagram for the next [`EthernetSession::flush`].
    pub(crate) fn send_datagram(&self, datagram: &[u8]) -> Result<(), DropReason> {
        let mut state = self.state();
        if state.channel.ended().is_some() {
            return Err(DropReason::Closed);
        }
        if datagram.len() > state.channel.max_datagram() {
            return Err(DropReason::TooLarge);
        }
        // While the socket accepts nothing, no more frames are sealed for it.
        if state.unsent.len() >= MAX_WAITING_DATAGRAMS {
            return Err(DropReason::QueueFull);
        }
        state.channel.send_datagram(self.hub.clock.now(), datagram).map_err(|_| DropReason::QueueFull)
    }

    /// Sends everything that is due, in as few system calls as possible.
    pub(crate) fn flush(&self) {
        let now = self.hub.clock.now();
        let mut state = self.state();
        let mut frames = std::mem::take(&mut state.unsent);
        while let Some(frame) = state.channel.poll_transmit(now) {
            frames.push(frame);
        }
        let sent = self.hub.send(self.peer, &frames);
        frames.drain(..sent);
        state.unsent = frames;
        let due = state.channel.poll_timeout();
        drop(state);
        self.hub.wake_at(due);
    }

    /// Returns the next datagram. The future is cancel-safe.
    pub(crate) async fn recv_datagram(&self) -> Result<ReceivedDatagram, CloseReason> {
        self.wait(|state| state.datagrams.pop_front()).await
    }

    /// Returns the next bytes of the peer's control messages. The future is cancel-safe.
    pub(crate) async fn recv_control(&self) -> Result<Vec<u8>, CloseReason> {
        self.wait(|state| state.channel.poll_control()).await
    }

    /// Hands over bytes of control messages. Waits while the peer reads too slowly.
    pub(crate) async fn send_control(&self, bytes: &[u8]) -> Result<(), CloseReason> {
        self.wait(|state| state.channel.write_control(bytes).then_some(())).await?;
        self.flush();
        Ok(())
    }

    /// Waits until the peer has acknowledged all control messages.
    pub(crate) async fn acknowledged(&self) -> Result<(), CloseReason> {
        self.wait(|state| (state.channel.unacknowledged() == 0).then_some(())).await
    }

    /// Waits until the session is over.
    pub(crate) async fn closed(&self) -> CloseReason {
        match self.wait(|_| None::<()>).await {
            Ok(()) => CloseReason::Here,
            Err(reason) => reason,
        }
    }

    pub(crate) fn close(&self, reason: &str) {
        self.state().channel.close(self.hub.clock.now(), reason);
        self.flush();
        self.log_end();
        self.arrived.notify_waiters();
        // The task removes the session.
        self.hub.changed.notify_one();
    }

    /// Logs the totals of the session's frames, once.
    fn log_end(&self) {
        let mut state = self.state();
        if std::mem::replace(&mut state.reported, true) {
            return;
        }
        let ChannelStatistics { frames_sent, frames_received, replayed, forged, unread, retransmissions, .. } =
            state.channel.statistics();
        tracing::info!(
            peer = %self.peer, ended = ?state.channel.ended(), frames_sent, frames_received, replayed, forged, unread, retransmissions,
            "an Ethernet session ended"
        );
    }

    /// Waits until `take` returns something, or the session is over. Data that arrived before its end is taken first.
    async fn wait<T>(&self, mut take: impl FnMut(&mut State) -> Option<T>) -> Result<T, CloseReason> {
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            {
                let mut state = self.state();
                if let Some(taken) = take(&mut state) {
                    return Ok(taken);
                }
                match state.channel.ended() {
                    None => {}
                    Some(EndReason::Here) => return Err(CloseReason::Here),
                    Some(EndReason::Peer(reason)) => return Err(CloseReason::Peer { code: 0, reason: reason.clone() }),
                    Some(EndReason::Silence) => return Err(CloseReason::TimedOut),
                }
            }
            arrived.await;
        }
    }
}
