//! Decides in which layers one source's pictures are encoded, and which viewer gets which, when several viewers get the same pictures.
//!
//! A picture is encoded once for each layer, not once for each viewer: at most [`MAX_LAYERS`] times. A layer has a rate and a size. Its
//! frames are predicted from its own newest frame, so a viewer starts with one of its key frames and must not miss any that follows. Facts
//! come in as [`MemberFacts`], and [`Simulcast::on_picture`] returns what is encoded and for whom.
//!
//! The layers' rates are derived from the viewers': viewers are sorted by the rate that their sessions allow and divided into at most three
//! groups. Each group's rate is its lowest, so that the sum of the logarithms of all viewers' rates is maximal, minus a price for each
//! layer and for each viewer that changes its layer ([`layout`]). A rate increase counts once it has lasted; a decrease counts at once.
//!
//! Between two layouts a layer's rate follows the lowest of its viewers from picture to picture, which costs no key frame. A viewer that
//! falls far below the others is moved at once: it keeps getting its old layer's frames until the new one's key frame, and the others are
//! not affected.
//!
//! Viewers with another codec or another kind of display cannot share a picture's frames: each kind has a [`Simulcast`] of its own, and
//! [`share_layers`] divides [`MAX_LAYERS`] among all of them. Each kind gets one encoder, so that there are more than three only if
//! there are more than three kinds. The remaining ones go where their gain is highest.
//!
//! Key frames of a layer affect all of its viewers, so they are rare: at least [`KEY_FRAME_DISTANCE`] apart, and a viewer that keeps
//! requesting them is answered at growing intervals. A frame that one session would skip is still encoded for the others: a viewer whose
//! path is blocked gets no frame, thereby loses the chain and joins again. A viewer whose pacer's queue is slightly too long gets its frame
//! late.
//!
//! A single viewer gets no layer but an encoder of its own at exactly its rate, with references to acknowledged frames. When all viewers
//! but one have left, that one returns to this mode after [`ALONE_AFTER`].

use std::collections::BTreeMap;

use nearlight_units::{Bitrate, Span, Time};

use crate::capture::schedule::{CaptureDecision, CaptureFacts, FrameSkipper, SkipReason};

mod layout;
mod member;

use layout::{Candidate, best_layout};
use member::MemberState;
pub use member::{MemberFacts, MemberId};

/// Maximum number of layers of one source, unless more kinds of viewers need one each. As in simulcast over WebRTC: encoders cost more
/// than a fourth group would gain.
pub const MAX_LAYERS: usize = 3;
/// Minimum time between two key frames of a layer: a newcomer waits no longer for its first picture, and the others' pictures suffer
/// no more than a fifth of the time. A layer that all viewers have left has ended, and the next one in its place may start at once.
pub const KEY_FRAME_DISTANCE: Span = Span::from_millis(200);
/// How long a layer without viewers waits, so that those who are to join can do so together. Guess: an encoder's last picture takes no
/// longer.
const JOIN_WAIT: Span = Span::from_millis(100);
/// Interval at which layouts are compared, unless something urgent happens.
const LAYOUT_INTERVAL: Span = Span::from_secs(1);
/// A viewer below this fraction of its layer's planned rate is moved urgently. Guess: three quarters; the layer's rate absorbs smaller
/// drops.
const URGENT_RATE_SHARE: f64 = 0.75;
/// How long after the last other viewer has left the remaining one gets its own encoder back: a viewer that reloads its page returns
/// sooner.
pub const ALONE_AFTER: Span = Span::from_secs(2);

/// Side lengths of a layer's picture as fractions of the source's.
const SCALES: [f64; 3] = [1.0, 0.75, 0.5];
/// Bits per pixel below which a layer is made smaller, and above which it is made larger again. Guess: at 0.02 VP8 and H.264 blur fast
/// motion so much that half as many pixels show more.
const MIN_BITS_PER_PIXEL: f64 = 0.02;
const AMPLE_BITS_PER_PIXEL: f64 = 0.035;
/// Minimum time for which a layer keeps its size, because a new size begins with a key frame. Guess.
const MIN_SIZE_TIME: Span = Span::from_secs(5);

/// A change of the available picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureUpdate {
    New,
    /// The picture is still the newest one: it is encoded only for viewers that have not received it.
    Unchanged,
}

/// One layer's frame of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerFrame {
    /// Index of the layer, below [`MAX_LAYERS`].
    pub layer: usize,
    pub rate: Bitrate,
    /// Fraction of each side of the source's picture.
    pub scale: f64,
    pub key: bool,
    /// Viewers that receive it, in the order of their numbers.
    pub members: Vec<MemberId>,
    /// The viewers among them that start with it.
    pub joined: Vec<MemberId>,
}

/// The plan for a picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharedPlan {
    /// The only viewer, if there is just one: it has an encoder of its own, and there are no layers.
    pub alone: Option<MemberId>,
    pub frames: Vec<LayerFrame>,
    /// Viewers that miss this picture, and why.
    pub skipped: Vec<(MemberId, SkipReason)>,
    /// Layers whose encoders are still needed.
    pub live: [bool; MAX_LAYERS],
}

/// Counts since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedStatistics {
    /// Pictures that were encoded at least once.
    pub pictures: u64,
    /// Frames encoded for them, in all layers.
    pub encodes: u64,
    pub key_frames: u64,
    /// Viewers that changed from one layer to another.
    pub switches: u64,
}

#[derive(Clone, Debug)]
struct Layer {
    /// The rate assigned by the layout; the rate in force may be lower.
    rate: Bitrate,
    scale: f64,
    sized_at: Time,
    /// Whether the next frame must be a key frame for a reason other than a viewer's request.
    key_wanted: bool,
    last_key: Option<Time>,
    skipper: FrameSkipper,
    /// Whether its newest frame shows the newest picture.
    has_newest: bool,
}

/// Decides the layers of one source's pictures in one codec and for one kind of display. Until [`share_layers`] is called it may use all
/// layers.
#[derive(Clone, Debug)]
pub struct Simulcast {
    /// The source's pixels per second.
    pixels: f64,
    members: BTreeMap<MemberId, MemberState>,
    layers: [Option<Layer>; MAX_LAYERS],
    /// How many encoders it is to have eventually, and how many it may have now, because others may have to release theirs first.
    share: usize,
    most: usize,
    /// Whether the newest picture went to a single viewer's own encoder.
    is_alone: bool,
    /// Since when there has been a single viewer.
    single_since: Option<Time>,
    laid_out_at: Time,
    changed: bool,
    statistics: SharedStatistics,
}

impl Simulcast {
    /// Makes the decisions for pictures of this many pixels, at this frame rate.
    #[must_use]
    pub fn new(pixels: u32, fps: u16) -> Self {
        Self {
            pixels: f64::from(pixels) * f64::from(fps.max(1)),
            members: BTreeMap::new(),
            layers: [const { None }; MAX_LAYERS],
            share: MAX_LAYERS,
            most: MAX_LAYERS,
            is_alone: false,
            single_since: None,
            laid_out_at: Time::ZERO,
            changed: false,
            statistics: SharedStatistics::default(),
        }
    }

    /// Sets the size of the pictures from now on.
    pub fn set_pixels(&mut self, pixels: u32, fps: u16) {
        self.pixels = f64::from(pixels) * f64::from(fps.max(1));
    }

    /// Adds a viewer.
    pub fn on_member(&mut self, now: Time, member: MemberId, facts: MemberFacts) {
        self.members.insert(member, MemberState::new(now, facts));
        self.on_membership(now);
    }

    pub fn on_member_left(&mut self, now: Time, member: MemberId) {
        self.members.remove(&member);
        self.on_membership(now);
    }

    fn on_membership(&mut self, now: Time) {
        self.changed = true;
        self.single_since = (self.members.len() == 1).then_some(now);
    }

    /// Updates a viewer's facts. Call it before each picture.
    pub fn set_facts(&mut self, now: Time, member: MemberId, facts: MemberFacts) {
        if let Some(state) = self.members.get_mut(&member) {
            let planned = state.joined.and_then(|slot| self.layers[slot].as_ref()).map(|layer| layer.rate);
            state.set_facts(now, facts, planned);
        }
    }

    /// Records that a frame that was encoded for a viewer did not reach its session: the viewer joins again.
    pub fn on_not_delivered(&mut self, now: Time, member: MemberId) {
        if let Some(state) = self.members.get_mut(&member) {
            state.lose_chain(now);
        }
    }

    /// The layer that a viewer gets.
    #[must_use]
    pub fn layer_of(&self, member: MemberId) -> Option<usize> {
        self.members.get(&member)?.joined
    }

    #[must_use]
    pub const fn statistics(&self) -> SharedStatistics {
        self.statistics
    }

    /// Plans an available picture. `busy` marks the layers whose encoders have no room for another one.
    pub fn on_picture(&mut self, now: Time, update: PictureUpdate, busy: [bool; MAX_LAYERS]) -> SharedPlan {
        let alone = self.alone(now).filter(|_| self.most > 0);
        self.is_alone = alone.is_some();
        if self.most == 0 {
            return SharedPlan::default();
        }
        if let Some(alone) = alone {
            self.layers = [const { None }; MAX_LAYERS];
            for state in self.members.values_mut() {
                (state.wanted, state.joined) = (None, None);
            }
            return SharedPlan { alone: Some(alone), ..SharedPlan::default() };
        }
        if update == PictureUpdate::New {
            for layer in self.layers.iter_mut().flatten() {
                layer.has_newest = false;
            }
        }
        if self.is_layout_due(now) {
            self.update_layout(now);
        }
        let mut plan = SharedPlan::default();
        self.drop_blocked(now, &mut plan);
        let keys: [bool; MAX_LAYERS] = std::array::from_fn(|slot| !busy[slot] && self.takes_key(now, slot));
        // Joins come first, so that no viewer gets this picture twice.
        for (slot, joined) in self.join(now, keys).into_iter().enumerate() {
            self.code(now, (slot, keys[slot], busy[slot]), update, joined, &mut plan);
        }
        self.statistics.pictures += u64::from(!plan.frames.is_empty());
        self.statistics.encodes += plan.frames.len() as u64;
        plan.live = std::array::from_fn(|slot| self.layers[slot].is_some());
        plan
    }

    fn alone(&self, now: Time) -> Option<MemberId> {
        let since = self.single_since?;
        let shared = self.layers.iter().any(Option::is_some);
        let (member, _) = self.members.first_key_value()?;
        (!shared || now - since >= ALONE_AFTER).then_some(*member)
    }

    fn is_layout_due(&self, now: Time) -> bool {
        let fallen = |state: &MemberState| {
            let layer = state.wanted.and_then(|slot| self.layers[slot].as_ref());
            layer.is_some_and(|layer| state.rate() < layer.rate.mul_f64(URGENT_RATE_SHARE))
        };
        self.changed || now - self.laid_out_at >= LAYOUT_INTERVAL || self.members.values().any(fallen)
    }

    fn update_layout(&mut self, now: Time) {
        (self.changed, self.laid_out_at) = (false, now);
        let (_, groups) = best_layout(&self.candidates(), &self.usable_layers(), self.most);
        for (slot, group) in groups.into_iter().enumerate() {
            let Some(group) = group else { continue };
            let mut limit = 1.0_f64;
            for member in &group.members {
                let Some(state) = self.members.get_mut(member) else { continue };
                limit = limit.min(state.max_scale());
                if state.wanted != Some(slot) {
                    self.statistics.switches += u64::from(state.wanted.is_some());
                    (state.wanted, state.wanted_at) = (Some(slot), now);
                }
            }
            self.set_layer(now, slot, group.rate, limit);
        }
    }

    fn candidates(&self) -> Vec<Candidate> {
        let candidate = |(member, state): (&MemberId, &MemberState)| Candidate {
            member: *member,
            rate: state.lasting_rate(),
            layer: state.wanted,
        };
        self.members.iter().map(candidate).collect()
    }

    /// Layers that have an encoder, and others only up to the allowed number: a layer to be given up continues until its last viewer has
    /// joined another.
    fn usable_layers(&self) -> Vec<usize> {
        let (mut usable, free): (Vec<usize>, Vec<usize>) =
            (0..MAX_LAYERS).partition(|slot| self.layers[*slot].is_some());
        let more = self.most.saturating_sub(usable.len());
        usable.extend(free.into_iter().take(more));
        usable
    }

    /// The number of encoders in use.
    fn encoders(&self) -> usize {
        usize::from(self.is_alone).max(self.layers.iter().flatten().count())
    }

    /// The gain of its viewers from one more layer than `layers`.
    fn gain(&self, layers: usize) -> f64 {
        let candidates = self.candidates();
        if candidates.len() < 2 {
            return 0.0;
        }
        let worth = |most| best_layout(&candidates, &[0, 1, 2], most).0;
        worth(layers + 1) - worth(layers)
    }

    fn set_max_encoders(&mut self, most: usize) {
        self.changed |= most != self.most;
        self.most = most;
    }

    fn set_layer(&mut self, now: Time, slot: usize, rate: Bitrate, limit: f64) {
        let bits = |scale: f64| rate.as_bps() as f64 / (self.pixels * scale * scale);
        let smallest = SCALES[SCALES.len() - 1];
        let fits = |scale: f64, least: f64| scale <= limit && bits(scale) >= least;
        let first = |least: f64| SCALES.into_iter().find(|scale| fits(*scale, least)).unwrap_or(smallest.min(limit));
        let taken = self.members.values().any(|state| state.joined == Some(slot));
        let Some(layer) = self.layers[slot].as_mut().filter(|_| taken) else {
            self.layers[slot] = Some(Layer {
                rate,
                scale: first(MIN_BITS_PER_PIXEL),
                sized_at: now,
                key_wanted: false,
                last_key: self.layers[slot].as_ref().and_then(|layer| layer.last_key),
                skipper: FrameSkipper::default(),
                has_newest: false,
            });
            return;
        };
        layer.rate = rate;
        let fitting = if fits(layer.scale, MIN_BITS_PER_PIXEL) {
            first(AMPLE_BITS_PER_PIXEL).max(layer.scale)
        } else {
            first(MIN_BITS_PER_PIXEL)
        };
        if (fitting - layer.scale).abs() > f64::EPSILON && now - layer.sized_at >= MIN_SIZE_TIME {
            (layer.scale, layer.sized_at, layer.key_wanted) = (fitting, now, true);
        }
    }

    /// Drops viewers whose path is blocked: they get nothing, and thereby lose the chain.
    fn drop_blocked(&mut self, now: Time, plan: &mut SharedPlan) {
        for (member, state) in &mut self.members {
            if let Some(reason) = state.blocked(now) {
                plan.skipped.push((*member, reason));
                state.lose_chain(now);
            }
        }
    }

    /// Whether a layer's frame at this moment is a key frame.
    fn takes_key(&self, now: Time, slot: usize) -> bool {
        let Some(layer) = &self.layers[slot] else { return false };
        if layer.last_key.is_some_and(|at| now - at < KEY_FRAME_DISTANCE) {
            return false;
        }
        let of_layer = || self.members.values().filter(|state| state.wanted == Some(slot));
        let present = of_layer().filter(|state| state.joined == Some(slot)).count();
        let alone = of_layer().count() == 1;
        // A change of layers is the layout's decision, so it does not count as the viewer's request.
        let free = |state: &MemberState| alone || state.may_ask(now);
        let asks = |state: &MemberState| match state.joined {
            Some(joined) if joined == slot => state.facts.key && free(state),
            Some(_) => state.can_join(now),
            None => state.can_join(now) && free(state),
        };
        if present > 0 {
            return layer.key_wanted || of_layer().any(asks);
        }
        let waiting = || of_layer().filter(|state| state.is_waiting_for_its_encoder());
        let patient = waiting().any(|state| now - state.wanted_at < JOIN_WAIT);
        of_layer().any(asks) && !patient
    }

    /// Viewers that wait for a key frame join their layer if it encodes one now.
    fn join(&mut self, now: Time, keys: [bool; MAX_LAYERS]) -> [Vec<MemberId>; MAX_LAYERS] {
        let mut joined = [const { Vec::new() }; MAX_LAYERS];
        for (member, state) in &mut self.members {
            let Some(slot) = state.wanted.filter(|slot| keys[*slot]) else { continue };
            if state.joined == Some(slot) {
                state.on_key_frame(now, state.facts.key);
            } else if state.can_join(now) {
                state.join(now, slot);
                joined[slot].push(*member);
            }
        }
        joined
    }

    fn code(
        &mut self,
        now: Time,
        (slot, key, busy): (usize, bool, bool),
        update: PictureUpdate,
        joined: Vec<MemberId>,
        plan: &mut SharedPlan,
    ) {
        let Some(layer) = &mut self.layers[slot] else { return };
        let here = || self.members.iter().filter(|(_, state)| state.joined == Some(slot));
        if here().next().is_none() {
            if self.members.values().all(|state| state.wanted != Some(slot)) {
                self.layers[slot] = None;
            }
            return;
        }
        if !key && update == PictureUpdate::Unchanged && layer.has_newest {
            return;
        }
        // Viewers that are about to leave do not decide for those that stay, unless none stays.
        let staying = || here().filter(|(_, state)| state.wanted == Some(slot));
        let deciding: Vec<&MemberState> = match staying().next() {
            Some(_) => staying().map(|(_, state)| state).collect(),
            None => here().map(|(_, state)| state).collect(),
        };
        let rate = deciding.iter().map(|state| state.rate()).min().unwrap_or(layer.rate);
        let frame_rate = deciding.iter().map(|state| state.facts.frame_rate).fold(1.0, f64::min);
        if !key {
            let facts = CaptureFacts { refusal: None, frame_rate, encoder_free: !busy };
            if let CaptureDecision::Skip(reason) = layer.skipper.on_moment(&facts) {
                layer.has_newest |= reason == SkipReason::FrameRate && update == PictureUpdate::New;
                plan.skipped.extend(here().map(|(member, _)| (*member, reason)));
                return;
            }
        }
        if key {
            (layer.last_key, layer.key_wanted) = (Some(now), false);
            self.statistics.key_frames += 1;
        }
        layer.has_newest = true;
        let members = here().map(|(member, _)| *member).collect();
        plan.frames.push(LayerFrame { layer: slot, rate, scale: layer.scale, key, members, joined });
    }
}

/// Divides [`MAX_LAYERS`] encoders among kinds of viewers that cannot share any: one for each kind, and the remaining ones where viewers
/// gain most from them. Call it before each picture.
///
/// Together they have at most [`MAX_LAYERS`], or one for each kind if there are more kinds. A kind that is granted more than it has
/// waits until another one has released its encoder, which takes a key frame: its viewers see their first picture up to
/// [`KEY_FRAME_DISTANCE`] later.
pub fn share_layers(now: Time, kinds: &mut [&mut Simulcast]) {
    let all = MAX_LAYERS.max(kinds.len());
    let shared: usize = kinds.iter().map(|kind| kind.share).sum();
    if shared != all || kinds.iter().any(|kind| kind.is_layout_due(now)) {
        for kind in kinds.iter_mut() {
            kind.share = 1;
        }
        for _ in kinds.len()..all {
            // Of equal ones the first.
            if let Some(kind) =
                kinds.iter_mut().rev().max_by(|one, other| one.gain(one.share).total_cmp(&other.gain(other.share)))
            {
                kind.share += 1;
            }
        }
    }
    let mut used: usize = kinds.iter().map(|kind| kind.encoders()).sum();
    let mut granted: Vec<usize> = kinds.iter().map(|kind| kind.encoders().min(kind.share)).collect();
    // Kinds without an encoder come first.
    for wanted in 1..=MAX_LAYERS {
        for (kind, granted) in kinds.iter().zip(&mut granted) {
            if *granted < wanted && wanted <= kind.share && used < all {
                *granted = wanted;
                used += 1;
            }
        }
    }
    for (kind, granted) in kinds.iter_mut().zip(granted) {
        kind.set_max_encoders(granted);
    }
}

#[cfg(test)]
mod tests;
