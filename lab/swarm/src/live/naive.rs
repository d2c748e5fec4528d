//! The crowd with a naive broadcast, for comparison: every pose and every event as JSON, forwarded by a server on this machine to
//! everybody else in the room by WebSocket, as often as it comes.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use nearlight_link::Random;
use nearlight_net::Clock;
use nearlight_rooms::{Avatar, Cause, CommandNumber, MemberId, Revision};
use nearlight_units::{Span, Time, lock};
use nearlight_wire::Pose;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use super::connection::config;
use super::{CLOSING_LIMIT, IDLE_INTERVAL, Options, SwarmError};
use crate::behaviour::Walker;
use crate::summary::{NaiveBroadcast, Quantiles, samples};
use crate::{MemberEvent, RoomTally, Tally, Traffic};
use nearlight_system::of_folder as time_of;

/// Most messages that wait for one member's socket; further ones are dropped.
const MAX_UNSENT_MESSAGES: usize = 256;
/// Time that the last events may take to arrive.
const DRAIN_TIME: Duration = Duration::from_secs(1);

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum NaiveMessage {
    Pose { member: u32, head: Pose, left: Option<Pose>, right: Option<Pose> },
    Event { member: u32, number: u32, data: String },
}

/// Runs the broadcast for at most `limit`.
pub(super) async fn run(options: &Options, limit: Span) -> Result<NaiveBroadcast, SwarmError> {
    let length = Span::from_secs_f64(options.profile.active_seconds).min(limit);
    let (port_known, port) = oneshot::channel();
    let (stop, stopped) = oneshot::channel();
    let rooms = options.rooms;
    let server = std::thread::Builder::new()
        .name("naive".into())
        .spawn(move || serve(rooms, port_known, stopped))
        .map_err(SwarmError::Naive)?;
    let port = port.await.map_err(|_| SwarmError::Naive(std::io::ErrorKind::Other.into()))?;
    let (port, processor) = port.map_err(SwarmError::Naive)?;
    let clock = Clock::start();
    let own = |room: usize| (room..options.members).step_by(rooms).count();
    let tallies: Arc<Vec<_>> = Arc::new((0..rooms).map(|room| Mutex::new(RoomTally::new(own(room)))).collect());
    let (over, ends) = watch::channel(false);
    let mut members = JoinSet::new();
    for number in 0..options.members {
        let member = Member { clock, options: options.clone(), number, port, until: clock.now() + length };
        members.spawn(member.run(Arc::clone(&tallies), ends.clone()));
    }
    let used = |from: Option<Span>| Some((time_of(processor.as_ref()?)? - from?).as_secs_f64());
    let before = processor.as_ref().and_then(|folder| time_of(folder));
    clock.sleep_until(clock.now() + length).await;
    let server_cores = used(before).map(|seconds| seconds / length.as_secs_f64());
    tokio::time::sleep(DRAIN_TIME).await;
    let _ = over.send(true);
    let closing = async { while members.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(CLOSING_LIMIT, closing).await;
    members.shutdown().await;
    let _ = stop.send(());
    let dropped = tokio::task::spawn_blocking(move || server.join().unwrap_or(0)).await.unwrap_or(0);
    let mut tally = Tally::default();
    for room in Arc::into_inner(tallies).into_iter().flatten() {
        tally.merge(&room.into_inner().unwrap_or_else(PoisonError::into_inner).finish());
    }
    let seconds = tally.member_seconds;
    Ok(NaiveBroadcast {
        seconds: length.as_secs_f64(),
        members: options.members,
        interaction_ms: Quantiles::of(&tally.interaction),
        received_bytes_per_second: if seconds > 0.0 { tally.received.get() as f64 / seconds } else { 0.0 },
        server_cores,
        dropped,
        bytes_ratio: None,
        interaction_samples: samples(&tally.interaction),
    })
}

type Listening = Result<(u16, Option<PathBuf>), std::io::Error>;
type Peers = Rc<RefCell<Vec<Vec<(usize, mpsc::Sender<Message>)>>>>;

/// The server, in a thread of its own so that its processor time can be told apart. Returns how many messages it dropped.
fn serve(rooms: usize, port: oneshot::Sender<Listening>, stopped: oneshot::Receiver<()>) -> u64 {
    let dropped = Rc::new(Cell::new(0));
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = port.send(Err(error));
            return 0;
        }
    };
    let local = tokio::task::LocalSet::new();
    let accepting = async {
        let listener = match TcpListener::bind(("127.0.0.1", 0)).await {
            Ok(listener) => listener,
            Err(error) => {
                let _ = port.send(Err(error));
                return;
            }
        };
        let folder = std::fs::read_link("/proc/thread-self").ok().map(|own| PathBuf::from("/proc").join(own));
        let _ = port.send(listener.local_addr().map(|address| (address.port(), folder)));
        let peers: Peers = Rc::new(RefCell::new(vec![Vec::new(); rooms]));
        let mut number = 0;
        while let Ok((stream, _)) = listener.accept().await {
            number += 1;
            tokio::task::spawn_local(forward(stream, number, Rc::clone(&peers), Rc::clone(&dropped)));
        }
    };
    local.block_on(&runtime, async {
        tokio::select! {
            () = accepting => {}
            _ = stopped => {}
        }
    });
    dropped.get()
}

/// Passes one member's messages to the others of its room. Its first message names the room.
async fn forward(stream: TcpStream, number: usize, peers: Peers, dropped: Rc<Cell<u64>>) {
    let _ = stream.set_nodelay(true);
    let Ok(socket) = tokio_tungstenite::accept_async_with_config(stream, Some(config())).await else { return };
    let (mut sink, mut incoming) = socket.split();
    let Some(Ok(Message::Text(room))) = incoming.next().await else { return };
    let Some(room) = room.parse().ok().filter(|room: &usize| *room < peers.borrow().len()) else { return };
    let (outgoing, mut messages) = mpsc::channel(MAX_UNSENT_MESSAGES);
    peers.borrow_mut()[room].push((number, outgoing));
    let writing = tokio::task::spawn_local(async move {
        while let Some(message) = messages.recv().await {
            if sink.send(message).await.is_err() {
                return;
            }
        }
    });
    while let Some(Ok(message)) = incoming.next().await {
        if message.is_text() {
            let peers = peers.borrow();
            for (_, peer) in peers[room].iter().filter(|(other, _)| *other != number) {
                if peer.try_send(message.clone()).is_err() {
                    dropped.set(dropped.get() + 1);
                }
            }
        }
    }
    peers.borrow_mut()[room].retain(|(other, _)| *other != number);
    writing.abort();
}

struct Member {
    clock: Clock,
    options: Options,
    number: usize,
    port: u16,
    /// When it stops moving and acting.
    until: Time,
}

impl Member {
    /// Errors end the member, whose events are then missing.
    async fn run(self, tallies: Arc<Vec<Mutex<RoomTally>>>, mut ends: watch::Receiver<bool>) {
        let Self { clock, options, number, port, until } = self;
        let (room, place) = (number % options.rooms, number / options.rooms);
        let tally = || lock(&tallies[room]);
        let began = clock.now();
        let record = |record: MemberEvent| tally().on_record(clock.now(), began, place, &record);
        let Ok(stream) = TcpStream::connect(("127.0.0.1", port)).await else { return };
        let _ = stream.set_nodelay(true);
        let opened =
            tokio_tungstenite::client_async_with_config(format!("ws://127.0.0.1:{port}/"), stream, Some(config()))
                .await;
        let Ok((mut socket, _)) = opened else { return };
        if socket.send(Message::Text(room.to_string().into())).await.is_err() {
            return;
        }
        record(MemberEvent::Started { revision: Revision::default() });
        let profile = &options.profile;
        let mut random = Random::new(options.seed.wrapping_add(number as u64));
        let members = (room..options.members).step_by(options.rooms).count();
        let mut walker = Walker::new(profile.behaviour(number), place, members, profile, &mut random);
        let [least, most] = profile.think_seconds;
        let think = |random: &mut Random| Span::from_secs_f64(least + (most - least) * random.unit());
        let interval = profile.pose_interval();
        let (mut next_pose, mut next_event) = (began + interval.mul_f64(random.unit()), began + think(&mut random));
        let (id, mut events, mut traffic) = (place as u32 + 1, 0, Traffic::default());
        let data = "z".repeat(profile.payload_bytes);
        loop {
            let now = clock.now();
            traffic.on_moment(now, now < until);
            let mut said = Vec::new();
            if now < until && now >= next_pose {
                walker.advance(interval, &mut random);
                next_pose = (next_pose + interval).max(now + interval / 2);
                let Avatar { head, left, right, .. } = walker.avatar();
                said.push(NaiveMessage::Pose { member: id, head, left, right });
            }
            if now < until && now >= next_event {
                events += 1;
                next_event = now + think(&mut random);
                let cause = Cause { by: MemberId(id), command: CommandNumber(events) };
                record(MemberEvent::Asked { cause });
                record(MemberEvent::Seen { revision: Revision(1), cause });
                said.push(NaiveMessage::Event { member: id, number: events, data: data.clone() });
            }
            for said in said {
                let json = serde_json::to_string(&said).expect("plain data");
                if socket.send(Message::Text(json.into())).await.is_err() {
                    return;
                }
            }
            let due = if now < until { next_pose.min(next_event) } else { now + IDLE_INTERVAL };
            tokio::select! {
                message = socket.next() => {
                    let Some(Ok(Message::Text(text))) = message else { return };
                    traffic.on_received(text.len());
                    if let Ok(NaiveMessage::Event { member, number, .. }) = serde_json::from_str(&text) {
                        let cause = Cause { by: MemberId(member), command: CommandNumber(number) };
                        record(MemberEvent::Seen { revision: Revision(1), cause });
                    }
                }
                () = clock.sleep_until(due) => {}
                _ = ends.wait_for(|over| *over) => break,
            }
        }
        tally().on_traffic(clock.now(), traffic);
    }
}
