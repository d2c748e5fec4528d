//! Members and voices of the room, for viewers of the world.
//!
//! A viewer's page subscribes by its first voice message, which may have no packet. Spectators cannot send one and are always subscribed.
//! `docs/wire.md` describes the messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use nearlight_rooms::{MAX_VOICE_BYTES, MemberId, Revision, Room, RoomState, SeatKey};
use nearlight_units::{Span, Time};
use nearlight_wire::ApplicationMessage;
use serde_json::json;

use super::World;
use crate::{Output, Viewer};

/// Prefix of a message with a packet of a viewer's microphone. The packet's number and ten milliseconds of Opus follow.
const MICROPHONE_PREFIX: &[u8] = b"mic";
/// Prefix of a message with a packet of another member. The rest is as in a message of the room.
const VOICE_PREFIX: &[u8] = b"mic";
/// Voice packets of viewers that may wait for the next exchange. Further ones are dropped. Guess: a fifth of a second of ten speakers.
const MAX_QUEUED_PACKETS: usize = 200;
/// Voice packets of one viewer that may wait: half a second. The limit keeps a flood from displacing others.
const MAX_QUEUED_PACKETS_PER_VIEWER: usize = 50;
/// People in the list for a viewer. A longer list would not fit into a message.
const MAX_LISTED_PEOPLE: usize = 100;
/// Shortest interval between two lists. A crowd that joins causes many changes.
const LIST_INTERVAL: Span = Span::from_millis(250);

#[derive(Debug, Default)]
pub(super) struct People {
    /// The names of viewers that have chosen one.
    names: BTreeMap<Viewer, String>,
    /// The keys of pages that may be in the room twice.
    seat_keys: BTreeMap<Viewer, SeatKey>,
    spectators: BTreeSet<Viewer>,
    said: VecDeque<(Viewer, u32, Vec<u8>)>,
    /// The subscribed viewers, and the list that was last sent to each.
    told: BTreeMap<Viewer, String>,
    listed: Revision,
    listed_at: Time,
}

impl People {
    /// Takes a message. Returns whether it was a packet of a microphone.
    fn on_message(&mut self, viewer: Viewer, data: &[u8]) -> bool {
        let Some((number, packet)) = data.strip_prefix(MICROPHONE_PREFIX).and_then(|rest| rest.split_first_chunk())
        else {
            return false;
        };
        self.told.entry(viewer).or_default();
        let own = self.said.iter().filter(|(speaker, ..)| *speaker == viewer).count();
        if packet.len() <= MAX_VOICE_BYTES
            && self.said.len() < MAX_QUEUED_PACKETS
            && own < MAX_QUEUED_PACKETS_PER_VIEWER
        {
            self.said.push_back((viewer, u32::from_be_bytes(*number), packet.to_vec()));
        }
        true
    }

    /// Returns the name of a viewer.
    pub(super) fn name(&self, viewer: Viewer) -> String {
        self.names.get(&viewer).cloned().unwrap_or_else(|| format!("Visitor {}", viewer.0))
    }

    pub(super) fn seat_key(&self, viewer: Viewer) -> Option<SeatKey> {
        self.seat_keys.get(&viewer).copied()
    }

    pub(super) const fn spectators(&self) -> &BTreeSet<Viewer> {
        &self.spectators
    }

    pub(super) fn on_viewer_left(&mut self, viewer: Viewer) {
        self.spectators.remove(&viewer);
        self.names.remove(&viewer);
        self.seat_keys.remove(&viewer);
        self.told.remove(&viewer);
    }
}

impl World {
    /// Sets the viewer's name, which is used when the viewer becomes a member of the room.
    pub fn on_name(&mut self, viewer: Viewer, name: String) {
        self.people.names.insert(viewer, name);
    }

    /// Sets the key of the viewer's page, which is used at the same time.
    pub fn on_seat_key(&mut self, viewer: Viewer, key: SeatKey) {
        self.people.seat_keys.insert(viewer, key);
    }

    pub fn on_message(&mut self, viewer: Viewer, message: &ApplicationMessage) {
        self.people.on_message(viewer, &message.data);
    }

    /// Subscribes a spectator, which cannot subscribe itself.
    pub fn on_spectator(&mut self, viewer: Viewer) {
        if self.people.spectators.insert(viewer) {
            self.people.told.entry(viewer).or_default();
        }
    }

    /// Forwards the viewers' voices to the room, and the others' voices and the list of members to the viewers.
    pub(super) fn exchange_voices(&mut self, now: Time, room: &mut Room) {
        for (viewer, number, packet) in std::mem::take(&mut self.people.said) {
            if let Some(member) = self.members.get(&viewer) {
                room.on_voice(now, *member, number, &packet);
            }
        }
        while let Some((member, message)) = room.poll_local_voice() {
            let viewer = self.members.iter().find(|(_, known)| **known == member).map(|(viewer, _)| *viewer);
            // The first byte identifies the kind of a room's message.
            if let (Some(viewer), Some((_, heard))) = (viewer, message.split_first()) {
                let data = [VOICE_PREFIX, heard].concat();
                self.queue_output(viewer, Output::Message(ApplicationMessage { data, reliable: false }));
            }
        }
        self.list(now, room.state());
    }

    fn list(&mut self, now: Time, state: &RoomState) {
        let is_new = self.people.listed != state.revision() || self.people.told.values().any(String::is_empty);
        if !is_new || now.saturating_since(self.people.listed_at) < LIST_INTERVAL {
            return;
        }
        (self.people.listed, self.people.listed_at) = (state.revision(), now);
        let told: Vec<Viewer> = self.people.told.keys().copied().collect();
        for viewer in told {
            let Some(you) = self.members.get(&viewer).copied() else { continue };
            let list = list_for(you, state);
            if self.people.told.insert(viewer, list.clone()).as_ref() != Some(&list) {
                let message = ApplicationMessage { data: list.into_bytes(), reliable: true };
                self.queue_output(viewer, Output::Message(message));
            }
        }
    }
}

/// Returns the list of members, with the recipient first if not all fit.
fn list_for(you: MemberId, state: &RoomState) -> String {
    let all = state.members().len();
    let own = state.members().filter(|(id, _)| *id == you);
    let others = state.members().filter(|(id, _)| *id != you);
    let mut listed: Vec<_> = own.chain(others).take(MAX_LISTED_PEOPLE).collect();
    listed.sort_by_key(|(id, _)| *id);
    let people: Vec<_> = listed
        .iter()
        .map(|(id, member)| json!({ "id": id.0, "name": member.name, "role": member.role.name(), "colour": member.colour }))
        .collect();
    json!({ "room": { "you": you.0, "people": people, "more": all - listed.len() } }).to_string()
}

#[cfg(test)]
mod tests {
    use nearlight_rooms::{Join, Role, RoomConfig};
    use nearlight_wire::Pose;

    use super::*;
    use crate::ViewerInput;
    use crate::world::tests::world;

    const VIEWER: Viewer = Viewer(4);

    fn join(room: &mut Room, name: &str) -> MemberId {
        let join = Join { room: "main".into(), role: Role::Guest, name: name.into(), colour: [9, 8, 7], key: None };
        room.on_join(Time::ZERO, &join, Role::Guest).expect("a place")
    }

    fn messages(world: &mut World) -> Vec<ApplicationMessage> {
        let outputs = std::iter::from_fn(|| world.poll_output()).filter(|(viewer, _)| *viewer == VIEWER);
        outputs
            .filter_map(|(_, output)| if let Output::Message(message) = output { Some(message) } else { None })
            .collect()
    }

    fn said(packet: &[u8]) -> ApplicationMessage {
        ApplicationMessage { data: [b"mic\0\0\0\x05", packet].concat(), reliable: false }
    }

    #[test]
    fn a_viewer_that_wants_to_is_told_who_is_there_and_hears_and_is_heard() {
        let mut world = world();
        let mut room = Room::new(Time::ZERO, RoomConfig::default(), &world.objects()).expect("poses");
        let head = Pose { position: [1.0, 1.5, 0.0], ..Pose::default() };
        world.on_input(Time::ZERO, VIEWER, &ViewerInput { head, ..ViewerInput::default() });
        world.exchange(Time::from_secs(1), &mut room);
        assert!(messages(&mut world).is_empty(), "it has not asked");
        world.on_message(VIEWER, &ApplicationMessage { data: b"mic\0\0\0\0".to_vec(), reliable: true });
        let ada = join(&mut room, "Ada");
        world.exchange(Time::from_secs(2), &mut room);
        let list = messages(&mut world);
        let text = String::from_utf8_lossy(&list[0].data);
        assert!(list.len() == 1 && list[0].reliable && text.contains(r#""name":"Ada""#), "{text}");
        assert!(text.contains(r#""more":0"#) && text.contains(r#""you":1"#), "{text}");
        world.exchange(Time::from_secs(3), &mut room);
        assert!(messages(&mut world).is_empty(), "nothing is new");
        // The remote member wants to hear others.
        room.on_message(Time::from_secs(3), ada, &[0x18, 0, 0, 0, 0]);
        world.on_message(VIEWER, &said(b"opus"));
        world.exchange(Time::from_secs(3), &mut room);
        let (to, bytes) = room.poll_voice().expect("somebody speaks");
        assert_eq!((to, &bytes[1..9], &bytes[21..]), (ada, &[0, 0, 0, 1, 0, 0, 0, 5][..], &b"opus"[..]));
        // A local member replaces it, because bodies of remote members arrive only in their messages.
        let bo = nearlight_rooms::Member { role: Role::Guest, name: "Bo".into(), colour: [0; 3] };
        let bo = room.on_local_join(Time::from_secs(3), bo, None).expect("a place");
        room.set_body(Time::from_secs(3), bo, &nearlight_rooms::Avatar { head, ..Default::default() }).expect("a pose");
        room.on_voice(Time::from_secs(3), bo, 9, b"other");
        world.exchange(Time::from_secs(4), &mut room);
        let heard = messages(&mut world).into_iter().find(|message| !message.reliable).expect("it hears");
        assert!(heard.data.starts_with(b"mic") && heard.data.ends_with(b"other"), "{heard:?}");
    }

    #[test]
    fn a_viewer_has_the_name_that_it_said_and_otherwise_a_number() {
        let mut world = world();
        let mut room = Room::new(Time::ZERO, RoomConfig::default(), &world.objects()).expect("poses");
        world.on_name(VIEWER, "Ada".into());
        for viewer in [VIEWER, Viewer(5)] {
            world.on_input(Time::ZERO, viewer, &ViewerInput::default());
        }
        world.exchange(Time::ZERO, &mut room);
        let names: Vec<&str> = room.state().members().map(|(_, member)| member.name.as_str()).collect();
        assert_eq!(names, ["Ada", "Visitor 5"]);
    }

    #[test]
    fn a_spectator_hears_of_the_room_without_a_body_in_it_and_leaves_it() {
        let mut world = world();
        let mut room = Room::new(Time::ZERO, RoomConfig::default(), &world.objects()).expect("poses");
        world.on_name(VIEWER, "Ada".into());
        world.on_spectator(VIEWER);
        world.on_input(Time::ZERO, Viewer(5), &ViewerInput::default());
        world.exchange(Time::ZERO, &mut room);
        let roles: Vec<_> = room.state().members().map(|(_, member)| (member.name.as_str(), member.role)).collect();
        assert_eq!(roles, [("Visitor 5", Role::Guest), ("Ada", Role::Spectator)]);
        world.on_message(Viewer(5), &said(b"opus"));
        world.exchange(Time::from_secs(1), &mut room);
        let told = messages(&mut world);
        assert!(told.iter().any(|message| message.reliable && message.data.starts_with(b"{")), "{told:?}");
        assert!(told.iter().any(|message| !message.reliable && message.data.ends_with(b"opus")), "{told:?}");
        let watched = world.members[&VIEWER];
        assert!(room.body(watched).is_none(), "nobody sees it");
        world.on_viewer_left(VIEWER);
        world.exchange(Time::from_secs(2), &mut room);
        assert_eq!(room.state().members().count(), 1);
    }

    #[test]
    fn what_a_viewer_sends_is_bounded() {
        let mut people = People::default();
        for _ in 0..1_000 {
            people.on_message(VIEWER, &said(b"opus").data);
        }
        assert_eq!(people.said.len(), MAX_QUEUED_PACKETS_PER_VIEWER);
        people.on_message(Viewer(5), &said(b"opus").data);
        assert_eq!(people.said.len(), MAX_QUEUED_PACKETS_PER_VIEWER + 1, "others are heard beside it");
        assert!(!people.on_message(VIEWER, b"{}") && !people.on_message(VIEWER, b"mic\0"));
        people.said.clear();
        people.on_message(VIEWER, &said(&[0; MAX_VOICE_BYTES + 1]).data);
        assert!(people.said.is_empty());
    }
}
