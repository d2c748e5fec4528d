//! A crowd by WebSocket or WebTransport to a server, each member a task of its own.

mod connection;
mod naive;
mod video;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearlight_net::{Clock, Link, NetError, nonce};
use nearlight_rooms::{Revision, SeatKey, is_voice};
use nearlight_units::{Span, Time, lock};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::backoff::Backoff;
use crate::summary::{Quantiles, RunFacts};
use crate::{
    Carrier, MemberEvent, MemberSetup, Profile, RoomTally, Summary, SyntheticMember, Tally, Traffic, synthetic,
};
use nearlight_system::{of_process as time_of_process, own as own_time};
use video::VideoTally;

pub use connection::{DisconnectReason, MemberConnection, ReceivedMessage, with_certificate};

/// Interval of progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time for members to report their state and close.
const CLOSING_LIMIT: Duration = Duration::from_secs(3);
/// Longest time for which a member without a server tries all of them.
const MOVING_LIMIT: Span = Span::from_secs(20);
/// Pause between two attempts to move.
const MOVING_PAUSE: Duration = Duration::from_millis(100);
/// Interval at which members check for work when nothing is due.
const IDLE_INTERVAL: Span = Span::from_secs(1);
/// Longest run of the naive broadcast.
const NAIVE_LIMIT: Span = Span::from_secs(10);

/// The configuration of a live run.
#[derive(Clone, Debug)]
pub struct Options {
    pub profile: Arc<Profile>,
    /// Links to one or more servers that share their rooms. Members are spread over them; a member whose server is gone goes to the next one.
    pub links: Vec<Link>,
    pub carrier: Carrier,
    pub members: usize,
    pub rooms: usize,
    /// Name of the first room; the others have a number appended.
    pub room: String,
    pub seed: u64,
    /// The server's process on this machine, whose processor time is to be measured.
    pub server_process: Option<u32>,
    /// Measure a naive broadcast afterwards.
    pub naive: bool,
}

/// Why a crowd could not begin.
#[derive(Debug, thiserror::Error)]
pub enum SwarmError {
    #[error(transparent)]
    Net(#[from] NetError),
    #[error("the server refused a member: {0}")]
    Refused(String),
    /// The server is overloaded; another attempt may succeed.
    #[error("the server asked a member to come again: {0}")]
    Busy(String),
    #[error("the connection to the server broke: {0}")]
    Broken(String),
    #[error(
        "the server does not know the pairing token: it may be another server than the one that printed the link; use the whole link"
    )]
    Impostor,
    #[error("the link has no token: use the whole link that the server printed")]
    NoToken,
    #[error("the naive broadcast cannot listen on this machine: {0}")]
    Naive(std::io::Error),
}

/// Figures of a run that goes on.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub after: Span,
    pub joined: u64,
    pub actions: u64,
    /// Delay from an action until one member saw it.
    pub delivery_ms: Option<Quantiles>,
    pub stalls: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Active,
    Resting,
    Comparing,
    Over,
}

/// State shared by all members.
struct Shared {
    clock: Clock,
    options: Options,
    phase: watch::Receiver<Phase>,
    rooms: Vec<Mutex<RoomTally>>,
    /// Everybody has joined.
    gathered_at: Time,
    /// Why the first of those that did not join failed.
    failure: Mutex<Option<SwarmError>>,
    video: Mutex<VideoTally>,
}

impl Shared {
    fn room(&self, room: usize) -> MutexGuard<'_, RoomTally> {
        lock(&self.rooms[room])
    }

    /// Waits until the member with this number joins. False: the crowd comes to rest before.
    async fn wait_for_turn(&self, number: usize, began: Time) -> bool {
        let Options { profile, members, .. } = &self.options;
        let mut phase = self.phase.clone();
        tokio::select! {
            () = self.clock.sleep_until(began + profile.joins_at(number, *members)) => true,
            _ = phase.wait_for(|phase| *phase != Phase::Active) => false,
        }
    }

    /// Waits until the crowd has been active for long enough, no member is left, or `stop` is done. Returns whether it was not stopped, and
    /// the cores that were used from when everybody had joined.
    async fn be_active(
        &self,
        members: &mut JoinSet<()>,
        began: Time,
        stop: impl Future<Output = ()>,
        progress: &mut impl FnMut(&Progress),
    ) -> (bool, [Option<f64>; 2]) {
        let (clock, server) = (self.clock, self.options.server_process);
        let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
        let active_until = self.gathered_at + Span::from_secs_f64(self.options.profile.active_seconds);
        let mut complete = true;
        let mut before = None;
        tokio::pin!(stop);
        while !members.is_empty() {
            let gathered = clock.now() >= self.gathered_at;
            if gathered && before.is_none() {
                before = Some(ProcessorTimes::read(clock, server));
            }
            let due = if gathered { active_until } else { self.gathered_at };
            tokio::select! {
                () = clock.sleep_until(due) => if gathered { break },
                () = &mut stop => {
                    complete = false;
                    break;
                }
                _ = ticks.tick() => progress(&self.progress(clock.now() - began)),
                Some(_) = members.join_next() => {}
            }
        }
        let cores = before.map(|before| ProcessorTimes::read(clock, server).cores_since(&before));
        (complete, cores.unwrap_or_default())
    }

    fn progress(&self, after: Span) -> Progress {
        let tally = self.so_far();
        Progress {
            after,
            joined: tally.joined,
            actions: tally.asked,
            delivery_ms: Quantiles::of(&tally.delivery),
            stalls: tally.stalls,
        }
    }

    fn so_far(&self) -> Tally {
        let mut tally = Tally::default();
        (0..self.rooms.len()).for_each(|room| tally.merge(self.room(room).so_far()));
        tally
    }
}

/// The name of a room of the crowd, counted from 0.
#[must_use]
pub fn room_name(first: &str, room: usize) -> String {
    if room == 0 { first.to_owned() } else { format!("{first}-{}", room + 1) }
}

/// Runs the crowd. When `stop` is done, it comes to rest early, and what it has measured is kept.
///
/// # Errors
/// If nobody could join.
pub async fn run(
    mut options: Options,
    stop: impl Future<Output = ()>,
    mut progress: impl FnMut(&Progress),
) -> Result<Summary, SwarmError> {
    if options.carrier == Carrier::WebSocket {
        for link in &mut options.links {
            *link = with_certificate(link).await?;
        }
    }
    let clock = Clock::start();
    let began = clock.now();
    let (phases, phase) = watch::channel(Phase::Active);
    let own = |room: usize| (room..options.members).step_by(options.rooms).count();
    let shared = Arc::new(Shared {
        clock,
        phase,
        rooms: (0..options.rooms).map(|room| Mutex::new(RoomTally::new(own(room)))).collect(),
        gathered_at: began + options.profile.ramp(),
        failure: Mutex::default(),
        video: Mutex::default(),
        options,
    });
    let mut members = JoinSet::new();
    for number in 0..shared.options.members {
        members.spawn(member(Arc::clone(&shared), number, began));
        if shared.options.profile.takes_video(number) {
            members.spawn(video::watch(Arc::clone(&shared), number, began));
        }
    }
    let (complete, cores) = shared.be_active(&mut members, began, stop, &mut progress).await;
    let _ = phases.send(Phase::Resting);
    tokio::time::sleep(Duration::from_secs_f64(shared.options.profile.rest_seconds)).await;
    let _ = phases.send(Phase::Comparing);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let length = clock.now() - began;
    let _ = phases.send(Phase::Over);
    let closing = async { while members.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(CLOSING_LIMIT, closing).await;
    members.shutdown().await;
    let shared = Arc::into_inner(shared).expect("all members have ended");
    let [swarm_cores, server_cores] = cores;
    let (options, mut summary) = summarise(shared, RunOutcome { complete, length, swarm_cores, server_cores })?;
    if options.naive && complete {
        let mut naive = naive::run(&options, NAIVE_LIMIT).await?;
        let received = summary.received_bytes_per_second;
        naive.bytes_ratio = (received > 0.0).then(|| naive.received_bytes_per_second / received);
        summary.naive = Some(naive);
    }
    Ok(summary)
}

/// Processor times at one moment.
struct ProcessorTimes {
    at: Time,
    /// The times that this process and the server's have used, each none if it is unknown.
    used: [Option<Span>; 2],
}

impl ProcessorTimes {
    fn read(clock: Clock, server: Option<u32>) -> Self {
        Self { at: clock.now(), used: [own_time(), server.and_then(time_of_process)] }
    }

    /// Returns the cores that were used since `earlier`.
    fn cores_since(&self, earlier: &Self) -> [Option<f64>; 2] {
        let passed = self.at.saturating_since(earlier.at).as_secs_f64();
        std::array::from_fn(|process| {
            let used = self.used[process]? - earlier.used[process]?;
            Some(used.as_secs_f64() / passed).filter(|_| passed > 0.0)
        })
    }
}

/// The outcome of a run as a whole.
#[derive(Clone, Copy)]
struct RunOutcome {
    complete: bool,
    length: Span,
    swarm_cores: Option<f64>,
    server_cores: Option<f64>,
}

/// Summarises a run after all members have ended.
fn summarise(shared: Shared, ended: RunOutcome) -> Result<(Options, Summary), SwarmError> {
    let Shared { options, rooms, failure, video, .. } = shared;
    let RunOutcome { complete, length, swarm_cores, server_cores } = ended;
    let mut tally = Tally::default();
    for room in rooms {
        tally.merge(&room.into_inner().unwrap_or_else(PoisonError::into_inner).finish());
    }
    if tally.joined == 0
        && let Some(failure) = failure.into_inner().unwrap_or_else(PoisonError::into_inner)
    {
        return Err(failure);
    }
    let facts = RunFacts {
        profile: &options.profile,
        rooms: options.rooms,
        members: options.members,
        complete,
        carrier: Some(options.carrier),
        path: None,
        length,
        swarm_cores,
        server_cores,
    };
    let mut summary = Summary::new(facts, &tally);
    let watching = (0..options.members).filter(|number| options.profile.takes_video(*number)).count();
    let video = video.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.video = (watching > 0).then(|| video.summary(watching));
    Ok((options, summary))
}

/// One member, from its turn to join until the end.
async fn member(shared: Arc<Shared>, number: usize, began: Time) {
    let Options { profile, links, members, rooms, room, seed, .. } = &shared.options;
    let (own, place) = (number % rooms, number / rooms);
    let setup = MemberSetup {
        profile: Arc::clone(profile),
        room: room_name(room, own),
        place,
        members: (own..*members).step_by(*rooms).count(),
        number,
        seed: *seed,
        key: (links.len() > 1).then(key),
    };
    if !shared.wait_for_turn(number, began).await {
        return;
    }
    let joins_at = shared.clock.now();
    let ended = match enter(&shared, &links[number % links.len()], &setup, own).await {
        Ok(connection) => {
            let synthetic = SyntheticMember::new(shared.clock.now(), &setup);
            let traffic = Traffic::default();
            let compared = false;
            let driver =
                Driver { shared: &shared, setup: &setup, room: own, place, joins_at, synthetic, traffic, compared };
            driver.stay(connection).await
        }
        Err(error) => {
            let words = error.to_string();
            lock(&shared.failure).get_or_insert(error);
            Err((Revision::default(), words))
        }
    };
    if let Err((revision, words)) = ended {
        shared.room(own).on_ended(place, revision, &words);
    }
}

/// A key of a seat; the operating system's random numbers do not fail on machines that run servers.
fn key() -> SeatKey {
    let nonce = nonce().expect("the system has random numbers").0;
    SeatKey(std::array::from_fn(|place| nonce[place]))
}

async fn connect(shared: &Shared, link: &Link, setup: &MemberSetup) -> Result<MemberConnection, SwarmError> {
    MemberConnection::open(link, shared.options.carrier, &synthetic::join(setup), shared.clock).await
}

/// Connects, and does so again where the server asks for it, until the crowd comes to rest.
async fn enter(shared: &Shared, link: &Link, setup: &MemberSetup, room: usize) -> Result<MemberConnection, SwarmError> {
    let mut backoff = Backoff::new(shared.options.seed, setup.number);
    let mut phase = shared.phase.clone();
    loop {
        let busy = match connect(shared, link, setup).await {
            Err(error @ SwarmError::Busy(_)) => error,
            result => return result,
        };
        let Some(wait) = backoff.next() else { return Err(busy) };
        tracing::debug!(number = setup.number, %busy, ?wait, "a member comes again");
        tokio::select! {
            () = shared.clock.sleep_until(shared.clock.now() + wait) => shared.room(room).on_retry(),
            _ = phase.wait_for(|phase| *phase != Phase::Active) => return Err(busy),
        }
    }
}

struct Driver<'a> {
    shared: &'a Shared,
    setup: &'a MemberSetup,
    room: usize,
    place: usize,
    joins_at: Time,
    synthetic: SyntheticMember,
    traffic: Traffic,
    compared: bool,
}

impl Driver<'_> {
    /// Keeps the member in its room until the end of the run, over one connection after the other if there are several servers.
    ///
    /// # Errors
    ///
    /// The revision at which, and the reason why, the membership ended early.
    async fn stay(mut self, mut connection: MemberConnection) -> Result<(), (Revision, String)> {
        let mut lost_at = None;
        loop {
            match self.run(&mut connection, lost_at).await {
                Ok(()) => return Ok(()),
                Err(DisconnectReason::Lost(words)) if self.setup.key.is_some() => {
                    let at = self.shared.clock.now();
                    tracing::debug!(number = self.setup.number, words, "a member looks for another server");
                    connection = self.find_another(at).await.ok_or_else(|| (self.synthetic.revision(), words))?;
                    self.synthetic.on_connected();
                    lost_at = Some(at);
                }
                Err(DisconnectReason::Lost(words) | DisconnectReason::Ended(words)) => {
                    return Err((self.synthetic.revision(), words));
                }
            }
        }
    }

    /// The next server that takes the member.
    async fn find_another(&self, since: Time) -> Option<MemberConnection> {
        let links = &self.shared.options.links;
        let mut place = self.setup.number;
        while self.shared.clock.now() - since < MOVING_LIMIT {
            place += 1;
            if let Ok(connection) = connect(self.shared, &links[place % links.len()], self.setup).await {
                return Some(connection);
            }
            if place.is_multiple_of(links.len()) {
                tokio::time::sleep(MOVING_PAUSE).await;
            }
        }
        None
    }

    async fn run(
        &mut self,
        connection: &mut MemberConnection,
        mut lost_at: Option<Time>,
    ) -> Result<(), DisconnectReason> {
        let mut phase = self.shared.phase.clone();
        loop {
            self.drain(connection).await.map_err(DisconnectReason::Lost)?;
            let due = self.synthetic.poll_timeout().unwrap_or_else(|| self.shared.clock.now() + IDLE_INTERVAL);
            tokio::select! {
                heard = connection.recv() => {
                    if let Err(broken) = heard.and_then(|heard| self.on_message(&heard)) {
                        self.report();
                        return Err(broken);
                    }
                    if let Some(lost_at) = lost_at.take() {
                        self.shared.room(self.room).on_moved(self.shared.clock.now(), lost_at);
                    }
                }
                () = self.shared.clock.sleep_until(due) => {}
                _ = phase.changed() => {}
            }
            let is = *phase.borrow_and_update();
            if is >= Phase::Resting {
                self.synthetic.set_resting();
            }
            if is >= Phase::Comparing && !std::mem::replace(&mut self.compared, true) {
                let now = self.shared.clock.now();
                let mut tally = self.shared.room(self.room);
                tally.on_digest(self.synthetic.digest());
                tally.on_dropped_events(self.synthetic.dropped_events());
                tally.on_traffic(now, self.traffic);
            }
            if is == Phase::Over {
                let _ = tokio::time::timeout(CLOSING_LIMIT, connection.close()).await;
                return Ok(());
            }
        }
    }

    /// Returns whether everybody has joined and is moving.
    fn is_active(&mut self, now: Time) -> bool {
        let active = now > self.shared.gathered_at && *self.shared.phase.borrow() == Phase::Active;
        self.traffic.on_moment(now, active);
        active
    }

    fn on_message(&mut self, ReceivedMessage { bytes, in_datagram }: &ReceivedMessage) -> Result<(), DisconnectReason> {
        let now = self.shared.clock.now();
        let active = self.is_active(now);
        if *in_datagram {
            self.traffic.on_datagram(bytes.len());
        } else {
            self.traffic.on_received(bytes.len());
        }
        self.synthetic
            .on_message(now, bytes)
            .map_err(|error| DisconnectReason::Ended(format!("the room's message cannot be read: {error}")))?;
        // Silence of the room is a stall, even if others speak meanwhile.
        if !is_voice(bytes) {
            self.shared.room(self.room).on_heard(now, self.place, active);
        }
        self.report().map_or(Ok(()), |words| Err(DisconnectReason::Ended(words.into())))
    }

    /// Moves, acts and sends what is due.
    async fn drain(&mut self, connection: &mut MemberConnection) -> Result<(), String> {
        let now = self.shared.clock.now();
        self.is_active(now);
        self.synthetic.on_timeout(now);
        self.report();
        let (mut out, mut messages) = (Vec::new(), Vec::new());
        while self.synthetic.poll_transmit(now, &mut out) {
            self.traffic.on_sent(out.len());
            messages.push(std::mem::take(&mut out));
        }
        connection.send(messages).await
    }

    /// Passes on what the member noticed. Returns why the room ended its membership.
    fn report(&mut self) -> Option<&'static str> {
        let now = self.shared.clock.now();
        let mut ended = None;
        while let Some(record) = self.synthetic.poll_record() {
            if let MemberEvent::Ended { words } = record {
                ended = Some(words);
            }
            self.shared.room(self.room).on_record(now, self.joins_at, self.place, &record);
        }
        ended
    }
}
