//! Other conversations of the same two machines, for products that give picture, sound and input ports of their own.

use std::net::SocketAddr;

use nearlight_units::Span;
use serde::Serialize;

use super::{Scope, StreamRow, name, rows};
use crate::packet::Endpoint;
use crate::traffic::{Conversation, Direction, Traffic};

/// Most conversations listed, the largest ones. Guess: no product has more ports.
const MAX_CONVERSATIONS: usize = 8;

/// Another conversation between the machines of the one that is studied.
#[derive(Clone, Debug, Serialize)]
pub struct OtherConversation {
    /// `address:port` at the machine of the study's sender.
    pub sender: String,
    pub receiver: String,
    /// The streams in the form of the study's, with the load over the study's duration and shares of this conversation.
    pub streams: Vec<StreamRow>,
}

/// The largest other conversations of the machines of `scope`. On loopback all ends have one address: nothing is known to belong together.
pub(super) fn other_conversations(traffic: &Traffic, scope: &Scope, duration: Span) -> Vec<OtherConversation> {
    let [sender, receiver] = in_order(&traffic.conversations[usize::from(scope.conversation)], scope.down);
    if sender.address == receiver.address {
        return Vec::new();
    }
    let mut others: Vec<(u16, &Conversation, Direction)> = traffic
        .conversations
        .iter()
        .enumerate()
        .filter(|(place, _)| *place != usize::from(scope.conversation))
        .filter_map(|(place, other)| {
            let of_sender = other.ends.iter().find(|end| end.address == sender.address)?;
            let down = other.direction(*of_sender);
            (in_order(other, down)[1].address == receiver.address).then_some((place as u16, other, down))
        })
        .collect();
    others.sort_by_key(|(_, other, _)| std::cmp::Reverse(other.bytes[0].saturating_add(other.bytes[1])));
    let reported = others.into_iter().take(MAX_CONVERSATIONS).map(|(place, other, down)| {
        let [sender, receiver] = in_order(other, down).map(name);
        let rows = rows(traffic, &Scope::of(traffic, place, down), duration);
        OtherConversation { sender, receiver, streams: rows.into_iter().map(|row| row.0).collect() }
    });
    reported.collect()
}

/// Sender and receiver.
fn in_order(conversation: &Conversation, down: Direction) -> [Endpoint; 2] {
    let [one, other] = conversation.ends;
    if down == Direction::Forth { [one, other] } else { [other, one] }
}

impl OtherConversation {
    /// The port at the sender's machine, by which its streams are told from the others'.
    pub fn port(&self) -> Option<u16> {
        self.sender.parse::<SocketAddr>().ok().map(|end| end.port())
    }
}
