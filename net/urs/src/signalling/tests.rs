use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const HERE: Guest = Guest { address: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), trusted: false };
const ORIGIN: u64 = 1_700_000_000_000;
const CHANNEL: &str = "v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n";

/// One that lets everything in.
fn open(mode: Mode) -> Signalling {
    Signalling::new(mode, ORIGIN, Box::new(|_, _, _| Ok(())))
}

/// One that lets three offers in, and nothing that says `bad`.
fn strict(mode: Mode) -> Signalling {
    let mut offers = 0;
    let gate = move |_, _, brought: Submission<'_>| {
        let (Submission::Offer(text) | Submission::Answer(text) | Submission::Candidate(text)) = brought;
        offers += u32::from(matches!(brought, Submission::Offer(_)));
        match () {
            () if offers > 3 => Err(Rejection::TooMany("too many".into(), Span::from_secs(2))),
            () if text.contains("bad") => Err(Rejection::Bad("it says bad".into())),
            () => Ok(()),
        }
    };
    Signalling::new(mode, ORIGIN, Box::new(gate))
}

fn orders(signalling: &mut Signalling) -> Vec<Command> {
    std::iter::from_fn(|| signalling.poll_command()).collect()
}

/// The messages sent to clients, as JSON.
fn sent(signalling: &mut Signalling) -> Vec<Value> {
    let text = |order| match order {
        Command::Send(_, text) => Some(serde_json::from_str(&text).expect("JSON")),
        _ => None,
    };
    orders(signalling).into_iter().filter_map(text).collect()
}

/// The peer that the only order is for: to answer the channel's offer.
fn asked_to_answer(signalling: &mut Signalling) -> PeerId {
    let orders = orders(signalling);
    let [Command::Answer(peer, offer)] = orders.as_slice() else { panic!("{orders:?}") };
    assert_eq!(offer, CHANNEL);
    *peer
}

fn say(signalling: &mut Signalling, at: u64, id: ClientId, message: &Value) {
    signalling.on_text(Time::from_millis(at), id, &message.to_string());
}

fn connect(name: &str) -> Value {
    json!({ "type": "connect", "connectionId": name })
}

fn description(kind: &str, name: &str, sdp: &str) -> Value {
    json!({ "type": kind, "from": name, "data": { "sdp": sdp, "connectionId": name } })
}

fn websocket(mode: Mode) -> (Signalling, ClientId) {
    let mut signalling = open(mode);
    let id = signalling.on_websocket(Time::ZERO, HERE).expect("a place");
    (signalling, id)
}

#[test]
fn a_stock_client_connects_offers_its_channel_and_is_offered_the_picture() {
    let (mut signalling, id) = websocket(Mode::Public);
    say(&mut signalling, 1, id, &connect("a"));
    assert_eq!(sent(&mut signalling), [json!({ "type": "connect", "connectionId": "a", "polite": true })]);
    say(&mut signalling, 2, id, &description("offer", "a", CHANNEL));
    let peer = asked_to_answer(&mut signalling);
    let candidate = json!({ "type": "candidate", "from": "a", "data": { "candidate": "candidate:1", "sdpMLineIndex": "0", "sdpMid": 0 } });
    say(&mut signalling, 3, id, &candidate);
    let known = Candidate { candidate: "candidate:1".into(), mid: Some("0".into()), line: Some(0) };
    assert_eq!(orders(&mut signalling), [Command::Candidate(peer, known)]);
    signalling.on_answer(Time::from_millis(4), peer, Ok("v=0 answer".into()));
    let answer =
        json!({ "from": "a", "to": "", "type": "answer", "data": { "sdp": "v=0 answer", "datetime": ORIGIN + 4 } });
    assert_eq!(orders(&mut signalling), [Command::Send(id, answer.to_string()), Command::Offer(peer)]);
    signalling.on_offer(Time::from_millis(5), peer, Ok("v=0 own".into()));
    let own = json!({ "from": "a", "to": "", "type": "offer", "data": { "sdp": "v=0 own", "datetime": ORIGIN + 5, "polite": true } });
    assert_eq!(sent(&mut signalling), [own]);
    say(&mut signalling, 6, id, &description("answer", "a", "v=0 theirs"));
    assert_eq!(orders(&mut signalling), [Command::Accept(peer, "v=0 theirs".into())]);
    say(&mut signalling, 7, id, &json!({ "type": "disconnect", "connectionId": "a" }));
    let gone = json!({ "type": "disconnect", "connectionId": "a" });
    assert_eq!(orders(&mut signalling), [Command::End(peer), Command::Send(id, gone.to_string())]);
    assert!(signalling.connections.is_empty());
}

#[test]
fn a_client_that_connects_again_begins_anew_and_one_that_never_connected_may_offer() {
    let (mut signalling, id) = websocket(Mode::Public);
    say(&mut signalling, 1, id, &description("offer", "a", CHANNEL));
    let first = asked_to_answer(&mut signalling);
    say(&mut signalling, 2, id, &connect("a"));
    assert_eq!(orders(&mut signalling)[0], Command::End(first));
    say(&mut signalling, 3, id, &description("offer", "a", CHANNEL));
    let second = asked_to_answer(&mut signalling);
    assert_ne!(first, second);
    // Late answers of the old peer are ignored.
    signalling.on_answer(Time::from_millis(4), first, Ok("v=0 late".into()));
    signalling.on_peer_gone(Time::from_millis(4), first);
    assert_eq!(orders(&mut signalling), []);
}

#[test]
fn candidates_that_overtake_their_offer_wait_for_it_within_a_bound() {
    let (mut signalling, id) = websocket(Mode::Public);
    for number in 0..200 {
        say(
            &mut signalling,
            1,
            id,
            &json!({ "type": "candidate", "from": "a", "data": { "candidate": number.to_string() } }),
        );
    }
    assert_eq!(orders(&mut signalling), []);
    say(&mut signalling, 2, id, &description("offer", "a", CHANNEL));
    let orders = orders(&mut signalling);
    assert!(matches!(orders[0], Command::Answer(..)) && orders.len() == 1 + MAX_CANDIDATES, "{} orders", orders.len());
}

#[test]
fn a_name_belongs_to_one_client_in_private_mode_only() {
    for (mode, refused) in [(Mode::Public, false), (Mode::Private, true)] {
        let (mut signalling, first) = websocket(mode);
        let second = signalling.on_websocket(Time::ZERO, HERE).expect("a place");
        say(&mut signalling, 1, first, &connect("a"));
        assert_eq!(sent(&mut signalling)[0]["polite"], true);
        say(&mut signalling, 2, second, &connect("a"));
        let answer = sent(&mut signalling).remove(0);
        assert_eq!(answer["type"] == "error", refused, "{mode:?}: {answer}");
        signalling.on_closed(first);
        say(&mut signalling, 3, second, &connect("a"));
        assert_eq!(sent(&mut signalling)[0]["type"], "connect", "{mode:?}: the name is free again");
    }
}

#[test]
fn faults_are_reported_and_then_cut_off() {
    let (mut signalling, id) = websocket(Mode::Public);
    for number in 1..=MAX_FAULTS {
        if number % 2 == 0 {
            signalling.on_text(Time::ZERO, id, "{");
        } else {
            signalling.on_unreadable(id);
        }
        let orders = orders(&mut signalling);
        assert!(matches!(&orders[0], Command::Send(_, text) if text.contains("error")), "{orders:?}");
        assert_eq!(orders.get(1), (number == MAX_FAULTS).then_some(&Command::Close(id)));
    }
    signalling.on_text(Time::ZERO, id, "{");
    assert_eq!((orders(&mut signalling), signalling.clients.len()), (vec![], 0));
}

#[test]
fn what_is_let_in_is_read_and_the_rest_leaves_no_trace() {
    let mut signalling = strict(Mode::Public);
    let id = signalling.on_websocket(Time::ZERO, HERE).expect("a place");
    say(&mut signalling, 1, id, &description("offer", "a", "v=0 bad"));
    assert_eq!(sent(&mut signalling), [json!({ "type": "error", "message": "it says bad" })]);
    assert!(signalling.connections.is_empty());
    // A repeated offer is not checked again.
    for at in 0..100 {
        say(&mut signalling, at, id, &description("offer", "a", CHANNEL));
    }
    asked_to_answer(&mut signalling);
    for (kind, sdp) in [("answer", "v=0 bad"), ("offer", "v=0 3"), ("offer", "v=0 4")] {
        say(&mut signalling, 200, id, &description(kind, "a", sdp));
    }
    let reported: Vec<Value> = sent(&mut signalling).iter().map(|message| message["message"].clone()).collect();
    assert_eq!(reported, ["it says bad", "too many"]);
}

#[test]
fn places_are_bounded_and_the_silent_lose_theirs() {
    let mut signalling = open(Mode::Public);
    let guest = |number: u8, trusted| Guest { address: IpAddr::from([192, 0, 2, number]), trusted };
    let address = |number| guest(number, false);
    for number in 0..MAX_STRANGERS as u8 {
        signalling.on_websocket(Time::ZERO, address(number / 8)).expect("a place");
    }
    assert_eq!(signalling.on_websocket(Time::ZERO, address(99)), Err(TooManyClients));
    for _ in MAX_STRANGERS..MAX_CLIENTS {
        signalling.on_websocket(Time::ZERO, guest(1, true)).expect("a place for who has the token");
    }
    assert_eq!(signalling.on_websocket(Time::ZERO, guest(99, true)), Err(TooManyClients));
    assert_eq!(signalling.poll_timeout(), Some(Time::ZERO + IDLE_TIMEOUT));
    signalling.on_timeout(Time::ZERO + IDLE_TIMEOUT);
    assert!(
        orders(&mut signalling).iter().all(|order| matches!(order, Command::Close(_))) && signalling.clients.is_empty()
    );
    for _ in 0..MAX_CLIENTS_PER_ADDRESS {
        signalling.on_websocket(Time::ZERO, address(1)).expect("a place");
    }
    assert_eq!(signalling.on_websocket(Time::ZERO, address(1)), Err(TooManyClients));
    let other = signalling.on_websocket(Time::ZERO, address(2)).expect("a place");
    say(&mut signalling, 1, other, &connect("a"));
    signalling.on_timeout(Time::from_secs(3_600));
    assert_eq!(signalling.clients.len(), 1, "a client with a connection lives as long as its socket");
    for number in 0..10 {
        say(&mut signalling, 1, other, &connect(&number.to_string()));
    }
    assert_eq!(signalling.connections.len(), MAX_CONNECTIONS);
}

#[test]
fn a_peer_that_fails_ends_its_connection_with_the_reason() {
    let (mut signalling, id) = websocket(Mode::Public);
    say(&mut signalling, 1, id, &description("offer", "a", CHANNEL));
    let peer = asked_to_answer(&mut signalling);
    signalling.on_answer(Time::from_millis(2), peer, Err("the server is full".into()));
    let sent = sent(&mut signalling);
    assert_eq!(sent[0], json!({ "type": "error", "message": "the server is full" }));
    assert_eq!(sent[1], json!({ "type": "disconnect", "connectionId": "a" }));
}

#[test]
fn a_polling_client_is_told_the_reason_too() {
    let mut poller = Poller::new();
    poller.ask(1, Method::Post, "offer", 0, &json!({ "connectionId": "a", "sdp": CHANNEL }));
    let peer = asked_to_answer(&mut poller.signalling);
    poller.signalling.on_answer(Time::from_millis(2), peer, Err("the server is full".into()));
    let Reply::Json(list) = poller.ask(3, Method::Get, "", 0, &Value::Null) else { panic!("a list") };
    let reported = |at: usize| (&list["messages"][at]["type"], &list["messages"][at]["message"]);
    assert_eq!(reported(0), (&json!("error"), &json!("the server is full")));
    assert_eq!(reported(1), (&json!("disconnect"), &Value::Null));
}

/// A polling client as a driver sees it.
struct Poller {
    signalling: Signalling,
    session: Option<String>,
}

impl Poller {
    fn new() -> Self {
        Self::of(open(Mode::Public))
    }

    fn of(signalling: Signalling) -> Self {
        let mut poller = Self { signalling, session: None };
        let Reply::Json(session) = poller.ask(0, Method::Put, "", 0, &Value::Null) else { panic!("a session") };
        poller.session = session["sessionId"].as_str().map(Into::into);
        poller
    }

    fn ask(&mut self, at: u64, method: Method, what: &str, from_time: u64, body: &Value) -> Reply {
        let body = body.to_string();
        let session = self.session.clone();
        let request = Request {
            method,
            what,
            session: session.as_deref(),
            from_time,
            body: &body,
            from: HERE,
            new_session: "secret",
        };
        self.signalling.on_request(Time::from_millis(at), &request)
    }

    fn messages(&mut self, at: u64, from_time: u64) -> (Vec<String>, u64) {
        let Reply::Json(reply) = self.ask(at, Method::Get, "", from_time, &Value::Null) else { panic!("a list") };
        let kinds = reply["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .map(|message| message["type"].as_str().expect("a type").into());
        (kinds.collect(), reply["datetime"].as_u64().expect("datetime"))
    }
}

#[test]
fn a_polling_client_goes_the_same_way() {
    let mut poller = Poller::new();
    let body = json!({ "connectionId": "a" });
    let Reply::Json(connected) = poller.ask(10, Method::Put, "connection", 0, &body) else { panic!("connected") };
    assert_eq!(connected, json!({ "connectionId": "a", "polite": true, "type": "connect", "datetime": ORIGIN + 10 }));
    assert_eq!(poller.ask(11, Method::Post, "offer", 0, &json!({ "connectionId": "a", "sdp": CHANNEL })), Reply::Done);
    let peer = asked_to_answer(&mut poller.signalling);
    let candidate = json!({ "connectionId": "a", "candidate": "candidate:1", "sdpMLineIndex": 0, "sdpMid": "0" });
    assert_eq!(poller.ask(12, Method::Post, "candidate", 0, &candidate), Reply::Done);
    // The client's clock is a minute ahead: that hides nothing from it.
    let (kinds, read) = poller.messages(13, ORIGIN + 60_000);
    assert_eq!((kinds.as_slice(), read), (["connect".to_owned()].as_slice(), ORIGIN + 13));
    poller.signalling.on_answer(Time::from_millis(13), peer, Ok("v=0 answer".into()));
    poller.signalling.on_offer(Time::from_millis(13), peer, Ok("v=0 own".into()));
    let (kinds, again) = poller.messages(13, read);
    assert_eq!(kinds, ["connect", "answer", "offer"]);
    assert_eq!(poller.messages(900, again).0, ["connect"], "nothing comes twice");
    assert_eq!(poller.messages(901, read).0, ["connect", "answer", "offer"], "unless it is asked for again");
    let Reply::Json(offers) = poller.ask(902, Method::Get, "offer", 0, &Value::Null) else { panic!("offers") };
    assert_eq!(
        (offers["offers"][0]["sdp"].as_str(), offers["offers"][0]["connectionId"].as_str()),
        (Some("v=0 own"), Some("a"))
    );
    // A lost answer is obtained by repeating the offer.
    poller.ask(903, Method::Post, "offer", 0, &json!({ "connectionId": "a", "sdp": CHANNEL }));
    assert_eq!(poller.messages(904, ORIGIN + 901).0, ["connect", "answer", "offer"]);
    assert_eq!(
        poller.ask(905, Method::Post, "answer", 0, &json!({ "connectionId": "a", "sdp": "v=0 theirs" })),
        Reply::Done
    );
    assert!(orders(&mut poller.signalling).contains(&Command::Accept(peer, "v=0 theirs".into())));
    assert_eq!(poller.ask(906, Method::Delete, "connection", 0, &body), Reply::Json(body));
    assert_eq!(poller.messages(907, 0).0, ["disconnect"]);
    assert_eq!(poller.ask(908, Method::Delete, "", 0, &Value::Null), Reply::Done);
    assert_eq!(poller.ask(909, Method::Get, "", 0, &Value::Null), Reply::NotFound);
}

#[test]
fn a_session_dies_after_ten_seconds_of_silence() {
    let mut poller = Poller::new();
    poller.ask(1, Method::Post, "offer", 0, &json!({ "connectionId": "a", "sdp": CHANNEL }));
    let peer = asked_to_answer(&mut poller.signalling);
    for second in 1..30 {
        poller.messages(second * 1_000, 0);
    }
    assert_eq!(poller.signalling.poll_timeout(), Some(Time::from_secs(39)));
    poller.signalling.on_timeout(Time::from_nanos(38_999_999_999));
    assert_eq!(orders(&mut poller.signalling), []);
    poller.signalling.on_timeout(Time::from_secs(39));
    assert_eq!(orders(&mut poller.signalling), [Command::End(peer)]);
    assert_eq!(poller.ask(39_001, Method::Get, "", 0, &Value::Null), Reply::NotFound);
}

#[test]
fn requests_that_are_none_are_refused() {
    let mut poller = Poller::of(strict(Mode::Public));
    for (method, what, body, bad) in [
        (Method::Put, "connection", json!({}), true),
        (Method::Put, "connection", json!(7), true),
        (Method::Post, "offer", json!({ "connectionId": "a" }), true),
        (Method::Post, "candidate", json!({ "connectionId": "a" }), true),
        (Method::Post, "candidate", json!({ "connectionId": "a", "candidate": "bad" }), true),
        (Method::Post, "answer", json!({ "connectionId": "a", "sdp": "v=0 bad" }), true),
        (Method::Delete, "connection", json!({ "connectionId": [] }), true),
        (Method::Post, "connection", json!({ "connectionId": "a" }), false),
        (Method::Put, "offer", json!({}), false),
        (Method::Get, "elsewhere", json!({}), false),
    ] {
        let reply = poller.ask(1, method, what, 0, &body);
        assert_eq!(
            (matches!(reply, Reply::Bad(_)), reply == Reply::NotFound),
            (bad, !bad),
            "{method:?} {what} {body}: {reply:?}"
        );
    }
    for number in 0..6 {
        let reply =
            poller.ask(2, Method::Post, "offer", 0, &json!({ "connectionId": "a", "sdp": format!("v=0 {number}") }));
        let expected = if number < 3 { Reply::Done } else { Reply::TooMany("too many".into(), Span::from_secs(2)) };
        assert_eq!(reply, expected, "{number}");
    }
    for _ in 1..MAX_CLIENTS_PER_ADDRESS {
        assert!(matches!(poller.ask(3, Method::Put, "", 0, &Value::Null), Reply::Json(_)));
    }
    assert!(matches!(poller.ask(4, Method::Put, "", 0, &Value::Null), Reply::TooMany(..)));
}

#[derive(Clone, Debug)]
enum Operation {
    Open(u8),
    Text(u8, usize, usize),
    Close(u8),
    Answer(u8, bool),
    Offer(u8, bool),
    Gone(u8),
    Wait(u32),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        1 => any::<u8>().prop_map(Operation::Open),
        4 => (any::<u8>(), 0..6_usize, 0..5_usize).prop_map(|(client, kind, name)| Operation::Text(client, kind, name)),
        1 => any::<u8>().prop_map(Operation::Close),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(peer, made)| Operation::Answer(peer, made)),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(peer, made)| Operation::Offer(peer, made)),
        1 => any::<u8>().prop_map(Operation::Gone),
        1 => (0..9_000_u32).prop_map(Operation::Wait),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_peers_are_made_and_ended_once_and_nothing_grows(operations in prop::collection::vec(operation(), 0..300)) {
        let mut signalling = open(Mode::Private);
        let mut now = Time::ZERO;
        let mut alive = std::collections::BTreeSet::new();
        for operation in operations {
            let any = |number: u8, of: usize| usize::from(number) % of.max(1);
            let client = |signalling: &Signalling, number| signalling.clients.keys().nth(any(number, signalling.clients.len())).copied();
            let peer = |signalling: &Signalling, number| signalling.connections.keys().nth(any(number, signalling.connections.len())).copied();
            let made = |made: bool| if made { Ok("v=0 made".to_owned()) } else { Err("cannot".to_owned()) };
            match operation {
                Operation::Open(number) => {
                    let guest = Guest { address: IpAddr::from([192, 0, 2, number % 4]), trusted: number > 200 };
                    let _ = signalling.on_websocket(now, guest);
                }
                Operation::Text(number, kind, name) => if let Some(client) = client(&signalling, number) {
                    let kind = ["connect", "disconnect", "offer", "answer", "candidate", "none"][kind];
                    let name = ["a", "b", "c", "d", "e"][name];
                    let text = json!({ "type": kind, "connectionId": name, "data": { "sdp": format!("v=0 {number}"), "candidate": "c" } });
                    signalling.on_text(now, client, &text.to_string());
                },
                Operation::Close(number) => if let Some(client) = client(&signalling, number) { signalling.on_closed(client) },
                Operation::Answer(number, good) => if let Some(peer) = peer(&signalling, number) { signalling.on_answer(now, peer, made(good)) },
                Operation::Offer(number, good) => if let Some(peer) = peer(&signalling, number) { signalling.on_offer(now, peer, made(good)) },
                Operation::Gone(number) => if let Some(peer) = peer(&signalling, number) { signalling.on_peer_gone(now, peer) },
                Operation::Wait(millis) => {
                    now += Span::from_millis(i64::from(millis));
                    signalling.on_timeout(now);
                    prop_assert!(signalling.poll_timeout().is_none_or(|at| at > now));
                }
            }
            while let Some(order) = signalling.poll_command() {
                match order {
                    Command::Answer(peer, _) => { alive.insert(peer); }
                    Command::End(peer) => prop_assert!(alive.remove(&peer), "ended twice or never made"),
                    Command::Offer(peer) | Command::Accept(peer, _) | Command::Candidate(peer, _) => prop_assert!(alive.contains(&peer)),
                    Command::Send(..) | Command::Close(_) => {}
                }
            }
            let names: std::collections::BTreeSet<_> = signalling.connections.values().map(|connection| &connection.name).collect();
            prop_assert_eq!(names.len(), signalling.connections.len(), "a private name belongs to one");
            prop_assert!(alive.iter().all(|peer| signalling.connections.contains_key(peer)));
            prop_assert!(signalling.clients.values().map(|client| client.connections.len()).sum::<usize>() == signalling.connections.len());
        }
    }
}
