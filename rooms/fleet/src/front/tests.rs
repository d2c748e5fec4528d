use proptest::prelude::*;

use super::*;
use crate::AnnouncementError;

const CHECK: &str = "0011";
const START: Time = Time::from_secs(100);

fn id(name: &str) -> ServerId {
    ServerId::new(name).expect("a name")
}

/// Returns an announcement with these numbers of taken places, of ten of each kind, this load, and these rooms with members.
fn announcement(clients: u32, members: u32, load: f64, rooms: &[(&str, u32)]) -> Announcement {
    Announcement {
        clients: Places { taken: clients, capacity: 10 },
        members: Places { taken: members, capacity: 10 },
        load,
        rooms: rooms.iter().map(|(room, count)| ((*room).to_owned(), *count)).collect(),
        ..Announcement::new("https://192.0.2.1:8090/".into(), CHECK.into())
    }
}

type Case = (&'static str, u32, u32, f64, &'static [(&'static str, u32)]);

fn front(servers: &[Case]) -> Front {
    let mut front = Front::new(CHECK.into());
    for (name, clients, members, load, rooms) in servers {
        let announced = front.on_announcement(START, id(name), announcement(*clients, *members, *load, rooms));
        assert_eq!(announced, AnnouncementOutcome::New);
    }
    front
}

fn order(front: &Front, now: Time, room: Option<&str>, place: PlaceKind) -> Result<Vec<String>, PlacementError> {
    let candidates = front.candidates(now, &PlacementRequest { room, place })?;
    Ok(candidates.iter().map(|candidate| candidate.server.to_string()).collect())
}

#[test]
fn a_client_goes_to_its_room_and_otherwise_where_the_load_is_least() {
    use PlaceKind::{Client, Member};
    type Expected = Result<&'static [&'static str], PlacementError>;
    let cases: [(&[Case], Option<&str>, PlaceKind, Expected); 12] = [
        (&[], None, Client, Err(PlacementError::NoServer)),
        (&[("a", 0, 0, 0.5, &[]), ("b", 0, 0, 0.2, &[])], None, Client, Ok(&["b", "a"])),
        // Taken places count as load too, separately for each kind.
        (&[("a", 4, 0, 0.1, &[]), ("b", 0, 9, 0.3, &[])], None, Client, Ok(&["b", "a"])),
        (&[("a", 4, 0, 0.1, &[]), ("b", 0, 9, 0.3, &[])], None, Member, Ok(&["a", "b"])),
        // The order is the same for all clients if nothing distinguishes the servers.
        (&[("b", 0, 0, 0.0, &[]), ("a", 0, 0, 0.0, &[])], None, Client, Ok(&["a", "b"])),
        (&[("a", 10, 0, 0.0, &[]), ("b", 0, 0, 0.9, &[])], None, Client, Ok(&["b"])),
        (&[("a", 10, 0, 0.0, &[]), ("b", 10, 0, 0.0, &[])], None, Client, Err(PlacementError::Full)),
        // A client goes to its room whatever the load is.
        (&[("a", 0, 2, 0.9, &[("x", 2)]), ("b", 0, 0, 0.0, &[])], Some("x"), Member, Ok(&["a"])),
        (&[("a", 0, 2, 0.9, &[("x", 2)]), ("b", 0, 0, 0.0, &[])], Some("y"), Member, Ok(&["b", "a"])),
        (&[("a", 0, 2, 0.1, &[("x", 2)]), ("b", 0, 5, 0.1, &[("x", 5)])], Some("x"), Member, Ok(&["b", "a"])),
        // A full server is not a candidate.
        (&[("a", 0, 10, 0.1, &[("x", 10)]), ("b", 0, 0, 0.9, &[])], Some("x"), Member, Ok(&["b"])),
        (&[("a", 0, 10, 0.1, &[("x", 10)]), ("b", 0, 2, 0.9, &[("x", 2)])], Some("x"), Member, Ok(&["b"])),
    ];
    for (servers, room, place, expected) in cases {
        let expected = expected.map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(order(&front(servers), START, room, place), expected, "{servers:?}, {room:?}");
    }
}

#[test]
fn those_on_their_way_count_until_they_have_arrived() {
    let mut front = front(&[("a", 8, 0, 0.0, &[]), ("b", 9, 0, 0.0, &[])]);
    let placement = PlacementRequest { room: None, place: PlaceKind::Client };
    for expected in ["a", "a", "b"] {
        let first = front.candidates(START, &placement).expect("a place")[0].server.clone();
        assert_eq!(first, id(expected));
        front.on_sent(START, &first, &placement);
    }
    assert_eq!(front.candidates(START, &placement), Err(PlacementError::Full));
    assert_eq!(
        order(&front, START, None, PlaceKind::Member),
        Ok(vec!["a".into(), "b".into()]),
        "another kind of place"
    );
    for name in ["a", "b"] {
        // Nobody came.
        front.on_announcement(START + ARRIVAL_ALLOWANCE, id(name), announcement(8, 0, 0.0, &[]));
    }
    assert_eq!(order(&front, START + ARRIVAL_ALLOWANCE, None, PlaceKind::Client), Ok(vec!["a".into(), "b".into()]));
}

#[test]
fn friends_who_open_a_new_room_at_once_meet_there() {
    let mut front = front(&[("a", 0, 0, 0.1, &[]), ("b", 0, 0, 0.2, &[])]);
    let placement = PlacementRequest { room: Some("ours"), place: PlaceKind::Client };
    front.on_sent(START, &id("b"), &placement);
    let in_ours = |front: &Front, now| order(front, now, Some("ours"), PlaceKind::Client);
    assert_eq!(in_ours(&front, START), Ok(vec!["b".into()]));
    assert_eq!(order(&front, START, Some("other"), PlaceKind::Client), Ok(vec!["a".into(), "b".into()]));
    let later = START + EMPTY_ROOM_AFFINITY;
    for name in ["a", "b"] {
        front.on_announcement(later, id(name), announcement(0, 0, 0.1, &[]));
    }
    assert_eq!(in_ours(&front, later), Ok(vec!["a".into(), "b".into()]), "nobody is there any more");
    front.on_sent(later, &id("b"), &placement);
    front.on_gone(&id("b"));
    assert_eq!(in_ours(&front, later), Ok(vec!["a".into()]), "its server has gone");
}

#[test]
fn a_server_that_falls_silent_gets_nobody_unless_the_directory_is_silent() {
    let mut front = front(&[("a", 0, 0, 0.1, &[]), ("b", 0, 0, 0.2, &[])]);
    let after = |time: i64| START + Span::from_millis(time);
    let all = |front: &Front, now| order(front, now, None, PlaceKind::Client);
    front.on_announcement(after(1_000), id("b"), announcement(0, 0, 0.2, &[]));
    assert_eq!(all(&front, after(2_999)).map(|names| names.len()), Ok(2));
    assert_eq!(all(&front, after(3_000)), Ok(vec!["b".into()]));
    front.on_directory(after(3_500), false);
    assert_eq!(all(&front, after(60_000)), Ok(vec!["b".into()]));
    front.on_directory(after(60_000), true);
    assert_eq!(all(&front, after(62_999)), Ok(vec!["b".into()]), "it has to connect again as well");
    assert_eq!(all(&front, after(63_000)), Err(PlacementError::NoServer));
}

#[test]
fn servers_with_another_token_get_nobody_and_are_told_of_once() {
    let mut front = Front::new("another".into());
    for expected in [AnnouncementOutcome::OtherToken, AnnouncementOutcome::Ignored, AnnouncementOutcome::Ignored] {
        assert_eq!(front.on_announcement(START, id("a"), announcement(0, 0, 0.0, &[])), expected);
    }
    assert_eq!(order(&front, START, None, PlaceKind::Client), Err(PlacementError::NoServer));
}

#[test]
fn a_refused_announcement_is_told_of_once_and_ends_no_server() {
    let mut front = front(&[("a", 0, 0, 0.0, &[])]);
    let told = [id("evil"), id("evil"), id("a"), id("a")].map(|server| front.on_refused(START, server));
    assert_eq!(told, [true, false, true, false]);
    assert_eq!(order(&front, START, None, PlaceKind::Client), Ok(vec!["a".to_owned()]));
    let others = (0..2 * MAX_SERVERS).filter(|number| front.on_refused(START, id(&format!("s{number}")))).count();
    assert_eq!(others + 2, MAX_SERVERS, "no more are remembered than servers");
}

#[test]
fn announcements_are_read_back_and_others_are_refused() {
    let own = announcement(1, 2, 0.25, &[("main", 2)]);
    assert_eq!(Announcement::parse(&own.to_bytes()), Ok(own.clone()));
    let wrong = [
        Announcement { load: 1.5, ..own.clone() },
        Announcement { load: f64::NAN, ..own.clone() },
        Announcement { link: "https://a b/".into(), ..own.clone() },
        Announcement { link: format!("https://{}", "x".repeat(600)), ..own.clone() },
        announcement(1, 2, 0.25, &[("No Room", 2)]),
    ];
    for wrong in wrong {
        assert!(Announcement::parse(&wrong.to_bytes()).is_err(), "{wrong:?}");
    }
    let text = String::from_utf8(own.to_bytes()).expect("JSON");
    assert!(Announcement::parse(text.replace("\"version\":2", "\"version\":9").as_bytes()).is_err());
    let insecure = Announcement { link: "http://192.0.2.1:8090/".into(), ..own };
    assert_eq!(Announcement::parse(&insecure.to_bytes()), Err(AnnouncementError::Insecure), "tokens go there");
    for bytes in [&b""[..], b"{}", b"[", &vec![b' '; 1 << 20]] {
        assert!(Announcement::parse(bytes).is_err());
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Pass(u16),
    Announce { server: u8, clients: u8, load: u8, room: Option<u8> },
    Gone(u8),
    Ask(Option<u8>),
    Directory(bool),
}

fn operation() -> impl Strategy<Value = Operation> {
    let room = || proptest::option::of(0..3_u8);
    prop_oneof![
        (0..2_000_u16).prop_map(Operation::Pass),
        (0..5_u8, 0..6_u8, 0..100_u8, room()).prop_map(|(server, clients, load, room)| Operation::Announce {
            server,
            clients,
            load,
            room
        }),
        (0..5_u8).prop_map(Operation::Gone),
        room().prop_map(Operation::Ask),
        room().prop_map(Operation::Ask),
        any::<bool>().prop_map(Operation::Directory),
    ]
}

/// The last announcement of each server and when it was made, for as long as clients may be sent there.
#[derive(Default)]
struct Model {
    heard: BTreeMap<String, (Announcement, Time)>,
    sent: BTreeMap<String, Vec<Time>>,
}

const ROOMS: [&str; 3] = ["x", "y", "z"];

proptest! {
    /// Nobody is sent to a server that is silent, gone or full, or away from a room that has a place; and nobody is turned away while there
    /// is one.
    #[test]
    fn clients_are_sent_where_there_is_a_place(operations in proptest::collection::vec(operation(), 1..120)) {
        const CAPACITY: u32 = 4;
        let (mut front, mut model, mut now) = (Front::new(CHECK.into()), Model::default(), START);
        let mut is_reachable = true;
        for operation in operations {
            match operation {
                Operation::Pass(time) => {
                    now += Span::from_millis(i64::from(time));
                    if !is_reachable {
                        model.heard.values_mut().for_each(|(_, at)| *at += Span::from_millis(i64::from(time)));
                    }
                }
                Operation::Announce { server, clients, load, room } if is_reachable => {
                    let name = format!("s{server}");
                    let rooms: Vec<_> = room.map(|room| (ROOMS[usize::from(room)], 1)).into_iter().collect();
                    let mut own = announcement(0, 0, f64::from(load) / 100.0, &rooms);
                    own.clients = Places { taken: u32::from(clients), capacity: CAPACITY };
                    front.on_announcement(now, id(&name), own.clone());
                    model.heard.insert(name, (own, now));
                }
                Operation::Announce { .. } => {}
                Operation::Gone(server) => {
                    front.on_gone(&id(&format!("s{server}")));
                    model.heard.remove(&format!("s{server}"));
                    model.sent.remove(&format!("s{server}"));
                }
                Operation::Directory(reachable) => {
                    front.on_directory(now, reachable);
                    if reachable && !is_reachable {
                        let there = model.heard.values_mut().filter(|(_, at)| now.saturating_since(*at) < ANNOUNCEMENT_TIMEOUT);
                        there.for_each(|(_, at)| *at = now);
                    }
                    is_reachable = reachable;
                }
                Operation::Ask(room) => {
                    let room = room.map(|room| ROOMS[usize::from(room)]);
                    let placement = PlacementRequest { room, place: PlaceKind::Client };
                    let free = |name: &String, own: &Announcement| {
                        let sent = model.sent.get(name).into_iter().flatten();
                        let sent = sent.filter(|at| now.saturating_since(**at) < ARRIVAL_ALLOWANCE).count() as u32;
                        (own.clients.taken + sent < CAPACITY).then_some(sent)
                    };
                    let open: BTreeMap<&String, &Announcement> = model.heard.iter()
                        .filter(|(name, (own, at))| now.saturating_since(*at) < ANNOUNCEMENT_TIMEOUT && free(name, own).is_some())
                        .map(|(name, (own, _))| (name, own))
                        .collect();
                    let with_room = |own: &Announcement| room.is_some_and(|room| own.rooms.contains_key(room));
                    match front.candidates(now, &placement).map(|candidates| candidates[0].server.clone()) {
                        Err(_) => prop_assert!(open.is_empty(), "a place was free at {:?}", open),
                        Ok(server) => {
                            let own = open.get(&server.to_string());
                            prop_assert!(own.is_some(), "{} is silent, gone or full", server);
                            if open.values().any(|other| with_room(other)) {
                                prop_assert!(with_room(own.expect("just checked")), "{} has not the room", server);
                            } else if room.is_none() {
                                let load = |name: &String, own: &Announcement| {
                                    let sent = free(name, own).unwrap_or_default();
                                    own.load.max(f64::from(own.clients.taken + sent) / f64::from(CAPACITY))
                                };
                                let least = open.iter().map(|(name, own)| load(name, own)).fold(f64::MAX, f64::min);
                                prop_assert!(load(&server.to_string(), own.expect("just checked")) <= least);
                            }
                            front.on_sent(now, &server, &placement);
                            model.sent.entry(server.to_string()).or_default().push(now);
                        }
                    }
                }
            }
        }
    }
}
