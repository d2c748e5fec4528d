//! A member of a room in a browser: its replica of the room behind calls that JavaScript can make.

use nearlight_rooms::{Avatar, Change, Join, Lane, MemberId, ObjectId, Replica, ReplicaEvent, Request, Role, SeatKey};
use nearlight_units::Span;
use nearlight_wire::{ClientMessage, Hello, Pose, RoomsWelcome, ServerMessage, write_control};
use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::layout::POSE_NUMBERS;
use crate::pairing::Pairing;
use crate::{micros, time};

/// The page's bodies move with the display; the room takes 20 poses a second.
const POSE_INTERVAL: Span = Span::from_millis(50);

/// Numbers of a body: the member, which hands are there (1 left, 2 right), and the poses of head, left and right hand.
pub(crate) const BODY_COLUMNS: [&str; 2] = ["member", "hands"];
/// Numbers of an object before its pose: its own, and who holds it, or 0.
pub(crate) const OBJECT_COLUMNS: [&str; 2] = ["object", "owner"];

/// Somebody in the room.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct RoomPerson<'a> {
    id: u32,
    name: &'a str,
    role: &'static str,
    /// Red, green, blue: 0 to 255.
    colour: [u8; 3],
}

/// What happened in the room.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum RoomNews {
    /// The whole room is known.
    Synchronised,
    /// Who is there, or in which role, has changed.
    Members,
    /// Who holds this object has changed.
    Owner { object: u32 },
    /// A request had no effect: somebody else was first, or this member may not.
    Refused,
    /// The membership has ended. `again`: the member may join once more.
    Goodbye { words: &'static str, again: bool },
}

/// A member's end of a room.
#[wasm_bindgen]
pub struct RoomMember {
    pairing: Pairing,
    replica: Replica,
}

#[wasm_bindgen]
impl RoomMember {
    /// `challenge` are the bytes of the server's first message in the form of a control stream, `nonce` 32 random ones, `certificate`
    /// the hash that the page's link names, in hexadecimal digits; none where an authority vouches for it. Throws where these are invalid.
    #[wasm_bindgen(constructor)]
    #[expect(clippy::needless_pass_by_value, reason = "JavaScript hands no borrowed string over that may be absent")]
    pub fn new(
        now: f64,
        token: String,
        challenge: &[u8],
        nonce: &[u8],
        certificate: Option<String>,
    ) -> Result<Self, JsError> {
        let pairing = Pairing::new(token, challenge, nonce, certificate.as_deref())?;
        Ok(Self { pairing, replica: Replica::new(time(now), POSE_INTERVAL) })
    }

    /// The answer to the challenge, as on a control stream.
    pub fn hello(&self, client: String) -> Vec<u8> {
        write_control(&ClientMessage::Hello(Hello::without_media(client, Some(self.pairing.proof()))))
    }

    /// The server's answer to the hello. Throws the server's words where it refuses, and where it does not know the token.
    pub fn on_answer(&mut self, text: &str) -> Result<(), JsError> {
        if let Ok(RoomsWelcome { proof, .. }) = serde_json::from_str(text) {
            self.pairing.on_welcome(Some(&proof));
            let impostor = || JsError::new("this server does not know the link's token");
            return self.pairing.is_proven().then_some(()).ok_or_else(impostor);
        }
        Err(JsError::new(&self.refusal(text)))
    }

    /// The words of a message in place of an answer.
    #[expect(clippy::unused_self, reason = "the page calls it on its member")]
    pub fn refusal(&self, text: &str) -> String {
        match serde_json::from_str(text) {
            Ok(ServerMessage::Refused { message, .. } | ServerMessage::Goodbye { message }) => message,
            _ => "the server's answer is not a message of the protocol".into(),
        }
    }

    /// The first message after the answer. `key` are the 16 random bytes by which the member claims its seat over another connection, or none.
    /// Throws where no room or role has this name, or the name is too long.
    #[expect(clippy::unused_self, reason = "the page calls it on its member")]
    pub fn join(&self, room: String, role: &str, name: String, colour: &[u8], key: &[u8]) -> Result<Vec<u8>, JsError> {
        let role: Role = role.parse()?;
        let colour = colour.try_into().map_err(|_| JsError::new("a colour has three numbers"))?;
        let key = if key.is_empty() {
            None
        } else {
            Some(SeatKey(key.try_into().map_err(|_| JsError::new("a key has 16 bytes"))?))
        };
        let bytes = Join { room, role, name, colour, key }.to_bytes();
        Join::parse(&bytes).map_err(|error| JsError::new(&error.to_string()))?;
        Ok(bytes)
    }

    /// A message of the room's arrived. Throws where it cannot be read.
    pub fn on_message(&mut self, now: f64, bytes: &[u8]) -> Result<(), JsError> {
        Ok(self.replica.on_message(time(now), bytes)?)
    }

    /// The next message to send; none where nothing is due.
    pub fn poll_transmit(&mut self, now: f64) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.replica.poll_transmit(time(now), &mut out).then_some(out)
    }

    /// Whether a message of this member's is outdated by the next one, so that it may be lost.
    #[expect(clippy::unused_self, reason = "the page calls it on its member")]
    pub fn may_be_lost(&self, bytes: &[u8]) -> bool {
        Lane::of(bytes) == Lane::Datagram
    }

    /// When `poll_transmit` must be called even if nothing happens, or infinity.
    pub fn next_timeout(&self) -> f64 {
        self.replica.poll_timeout().map_or(f64::INFINITY, micros)
    }

    /// What happened: a `RoomNews` as JSON.
    pub fn poll_event(&mut self) -> Option<String> {
        loop {
            let news = match self.replica.poll_event()? {
                ReplicaEvent::Synchronised { .. } => RoomNews::Synchronised,
                ReplicaEvent::Changed { change, .. } => match change {
                    Change::Joined { .. } | Change::Left { .. } | Change::Role { .. } => RoomNews::Members,
                    Change::Owner { object, .. } => RoomNews::Owner { object: object.0 },
                    Change::Event { .. } => continue,
                },
                ReplicaEvent::Refused { .. } => RoomNews::Refused,
                ReplicaEvent::Goodbye { reason } => {
                    RoomNews::Goodbye { words: reason.words(), again: reason.allows_return() }
                }
            };
            return serde_json::to_string(&news).ok();
        }
    }

    /// This member's own number, or 0 before the room is known.
    pub fn you(&self) -> u32 {
        self.replica.you().map_or(0, |you| you.0)
    }

    /// Everybody who is there: `RoomPerson`s as JSON.
    pub fn members(&self) -> String {
        let members = self.replica.state().members().map(|(id, member)| RoomPerson {
            id: id.0,
            name: &member.name,
            role: member.role.name(),
            colour: member.colour,
        });
        serde_json::to_string(&members.collect::<Vec<_>>()).unwrap_or_default()
    }

    /// The others' bodies: `BODY_COLUMNS` and three poses for each; a hand that is not there has the head's pose.
    pub fn bodies(&self) -> Vec<f32> {
        let you = self.replica.you();
        let members = self.replica.state().members();
        let mut numbers = Vec::with_capacity(members.len() * (BODY_COLUMNS.len() + 3 * POSE_NUMBERS));
        let others = members.map(|(id, _)| id).filter(|id| Some(*id) != you);
        for (id, seen) in others.filter_map(|id| Some((id, self.replica.seen(id)?))) {
            let Avatar { head, left, right, .. } = seen.avatar;
            let hands = u8::from(left.is_some()) | u8::from(right.is_some()) << 1;
            numbers.extend([id.0 as f32, f32::from(hands)]);
            for pose in [head, left.unwrap_or(head), right.unwrap_or(head)] {
                push(&pose, &mut numbers);
            }
        }
        numbers
    }

    /// The number of the starting place that this newcomer takes of `places`, which are poses one after another; none where it stays, as
    /// nobody stands there who came before it. `head` is where it is, with no numbers if it has no place yet.
    pub fn starting_place(&self, places: &[f32], head: &[f32]) -> Option<usize> {
        let places: Vec<Pose> = places.chunks_exact(POSE_NUMBERS).filter_map(pose).collect();
        self.replica.starting_place(&places, pose(head).as_ref())
    }

    /// All objects: `OBJECT_COLUMNS` and a pose for each.
    pub fn objects(&self) -> Vec<f32> {
        let objects = self.replica.state().objects();
        let mut numbers = Vec::with_capacity(objects.len() * (OBJECT_COLUMNS.len() + POSE_NUMBERS));
        for (object, owner) in objects {
            let Some(pose) = self.replica.object(object) else { continue };
            numbers.extend([object.0 as f32, owner.map_or(0.0, |owner| owner.0 as f32)]);
            push(&pose, &mut numbers);
        }
        numbers
    }

    /// This member's body: the pose of the head, then of the left and right hand, each with no numbers where it is not there. False where
    /// that is not a pose.
    pub fn set_body(&mut self, head: &[f32], left: &[f32], right: &[f32]) -> bool {
        let Some(head) = pose(head) else { return false };
        let avatar = Avatar { head, left: pose(left), right: pose(right), joints: None };
        self.replica.set_body(&avatar).is_ok()
    }

    /// Where an object is that this member holds. False where it does not, or where that is not a pose.
    pub fn set_object(&mut self, object: u32, numbers: &[f32]) -> bool {
        pose(numbers).is_some_and(|pose| self.replica.set_object(ObjectId(object), &pose).is_ok())
    }

    /// Asks for an object. False where nothing can be asked at the moment, as for the other requests.
    pub fn take(&mut self, object: u32) -> bool {
        self.request(Request::Take { object: ObjectId(object) })
    }

    /// Lets an object go.
    pub fn release(&mut self, object: u32) -> bool {
        self.request(Request::Release { object: ObjectId(object) })
    }

    /// Gives an object to another member.
    pub fn hand_over(&mut self, object: u32, to: u32) -> bool {
        self.request(Request::HandOver { object: ObjectId(object), to: MemberId(to) })
    }

    fn request(&mut self, request: Request) -> bool {
        self.replica.request(request).is_ok()
    }
}

fn push(pose: &Pose, numbers: &mut Vec<f32>) {
    numbers.extend(pose.position);
    numbers.extend(pose.orientation);
}

fn pose(numbers: &[f32]) -> Option<Pose> {
    let numbers: [f32; POSE_NUMBERS] = numbers.try_into().ok()?;
    let [x, y, z, orientation @ ..] = numbers;
    Some(Pose { position: [x, y, z], orientation })
}

#[cfg(test)]
mod tests {
    use nearlight_rooms::{Room, RoomConfig, default_objects};
    use nearlight_units::Time;
    use nearlight_wire::{Binding, Bytes32, Role as End};

    use super::*;

    const TOKEN: &str = "a-token-of-the-owner-s";

    #[test]
    fn a_page_proves_the_token_joins_and_carries_an_object() {
        let (server_nonce, client_nonce) = (Bytes32([1; 32]), Bytes32([2; 32]));
        let challenge = write_control(&ServerMessage::Challenge { nonce: server_nonce });
        let mut member =
            RoomMember::new(0.0, TOKEN.into(), &challenge, &[2; 32], None).unwrap_or_else(|_| panic!("a challenge"));
        assert!(String::from_utf8_lossy(&member.hello("a page".into())).contains("proof"));
        let proof = Binding::Nonces { server_nonce, client_nonce }.prove(TOKEN, End::Server);
        let welcome = RoomsWelcome { server: "nearlight".into(), proof };
        assert!(member.on_answer(&serde_json::to_string(&welcome).expect("plain data")).is_ok());
        let join = member.join("main".into(), "guest", "Ada".into(), &[1, 2, 3], &[7; 16]);
        let join = Join::parse(&join.unwrap_or_else(|_| panic!("a join"))).expect("what was written");
        let mut room = Room::new(Time::ZERO, RoomConfig::default(), &default_objects()).expect("poses");
        let id = room.on_join(Time::ZERO, &join, join.role).expect("a place");
        let mut now = 0.0;
        let mut pass = |member: &mut RoomMember, room: &mut Room| {
            for _ in 0..20 {
                now += 20_000.0;
                while let Some(bytes) = member.poll_transmit(now) {
                    room.on_message(time(now), id, &bytes);
                }
                room.on_timeout(time(now));
                let mut out = Vec::new();
                while room.poll_transmit(time(now), &mut out).is_some() {
                    assert!(member.on_message(now, &out).is_ok());
                    out.clear();
                }
            }
        };
        pass(&mut member, &mut room);
        assert_eq!((member.you(), member.poll_event().as_deref()), (id.0, Some(r#"{"type":"synchronised"}"#)));
        assert!(member.members().contains(r#""name":"Ada","role":"guest","colour":[1,2,3]"#), "{}", member.members());
        assert!(member.set_body(&[0.0, 1.6, 0.0, 0.0, 0.0, 0.0, 1.0], &[], &[]));
        assert!(member.take(1) && !member.set_object(1, &[0.0; 7]));
        pass(&mut member, &mut room);
        let pose = [2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        assert!(member.set_object(1, &pose));
        pass(&mut member, &mut room);
        assert_eq!(room.object(ObjectId(1)).map(|pose| pose.position), Some([2.0, 1.0, 0.0]));
        assert_eq!(member.objects()[..2], [1.0, id.0 as f32]);
        assert_eq!(room.body(id).map(|avatar| avatar.head.position), Some([0.0, 1.6, 0.0]));
        // Its connection breaks, and it comes again with its key.
        room.on_lost(time(now), id);
        assert_eq!(room.on_join(time(now), &join, join.role).expect("a place"), id);
    }
}
