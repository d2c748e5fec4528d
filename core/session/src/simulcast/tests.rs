use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const INTERVAL: Span = Span::from_millis(33);
const FPS: u16 = 30;
const PIXELS: u32 = 1_280 * 720;

/// Viewers of a source at 720p30 in virtual time.
struct Audience {
    simulcast: Simulcast,
    now: Time,
    facts: BTreeMap<MemberId, MemberFacts>,
    /// When each viewer's frames and key frames arrived, which of them it had requested, and from which layer.
    frames: Vec<Frame>,
    encodes: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Frame {
    at: Time,
    member: MemberId,
    layer: usize,
    key: bool,
    rate: Bitrate,
}

fn facts(mbps: f64) -> MemberFacts {
    MemberFacts {
        rate: Bitrate::from_bps((mbps * 1e6) as u64),
        scale: 1.0,
        frame_rate: 1.0,
        key: true,
        refusal: None,
        is_ready: true,
    }
}

impl Audience {
    fn of(rates: &[f64]) -> Self {
        let mut audience = Self {
            simulcast: Simulcast::new(PIXELS, FPS),
            now: Time::from_secs(1),
            facts: BTreeMap::new(),
            frames: Vec::new(),
            encodes: Vec::new(),
        };
        for (number, rate) in (0..).zip(rates) {
            audience.come(number, *rate);
        }
        audience
    }

    fn come(&mut self, number: u32, mbps: f64) {
        let member = MemberId(number);
        self.facts.insert(member, facts(mbps));
        self.simulcast.on_member(self.now, member, facts(mbps));
    }

    fn leave(&mut self, number: u32) {
        self.facts.remove(&MemberId(number));
        self.simulcast.on_member_left(self.now, MemberId(number));
    }

    fn facts(&mut self, number: u32) -> &mut MemberFacts {
        self.facts.get_mut(&MemberId(number)).expect("a viewer")
    }

    fn set_rate(&mut self, number: u32, mbps: f64) {
        self.facts(number).rate = facts(mbps).rate;
    }

    fn picture(&mut self, update: PictureUpdate) -> SharedPlan {
        for (member, facts) in &self.facts {
            self.simulcast.set_facts(self.now, *member, *facts);
        }
        let plan = self.simulcast.on_picture(self.now, update, [false; MAX_LAYERS]);
        self.encodes.push(plan.frames.len());
        for frame in &plan.frames {
            for member in &frame.members {
                let LayerFrame { layer, key, rate, .. } = *frame;
                self.frames.push(Frame { at: self.now, member: *member, layer, key, rate });
                if key {
                    self.facts.get_mut(member).expect("only who is there gets frames").key = false;
                }
            }
        }
        self.now += INTERVAL;
        plan
    }

    fn run(&mut self, seconds: f64) {
        let end = self.now + Span::from_secs_f64(seconds);
        while self.now < end {
            self.picture(PictureUpdate::New);
        }
    }

    fn of_member(&self, number: u32, since: Time) -> Vec<Frame> {
        self.frames.iter().filter(|frame| frame.member == MemberId(number) && frame.at >= since).copied().collect()
    }

    fn keys(&self, number: u32, since: Time) -> usize {
        self.of_member(number, since).iter().filter(|frame| frame.key).count()
    }

    fn layer(&self, number: u32) -> Option<usize> {
        self.simulcast.layer_of(MemberId(number))
    }
}

#[test]
fn twenty_alike_cost_one_encode_a_picture() {
    let mut audience = Audience::of(&[4.0; 20]);
    audience.run(10.0);
    assert!(audience.encodes.iter().all(|encodes| *encodes == 1), "{:?}", audience.encodes);
    for number in 0..20 {
        assert_eq!(audience.of_member(number, Time::ZERO).len(), audience.encodes.len());
        assert_eq!(audience.keys(number, Time::ZERO), 1);
    }
}

#[test]
fn a_viewer_alone_has_an_encoder_of_its_own() {
    let mut audience = Audience::of(&[4.0]);
    assert_eq!(audience.picture(PictureUpdate::New).alone, Some(MemberId(0)));
    audience.come(1, 4.0);
    // The first one's own encoder is still busy with a picture: the layer waits for it.
    audience.facts(0).is_ready = false;
    assert_eq!(
        audience.picture(PictureUpdate::New),
        SharedPlan { live: [true, false, false], ..SharedPlan::default() }
    );
    audience.facts(0).is_ready = true;
    let plan = audience.picture(PictureUpdate::New);
    assert_eq!((plan.alone, plan.frames[0].joined.len(), plan.frames[0].key), (None, 2, true));
    let (left, before) = (audience.now, audience.encodes.len());
    audience.run(1.0);
    audience.leave(1);
    audience.run(1.9);
    assert_eq!(audience.of_member(0, left).len(), audience.encodes.len() - before, "the layer goes on for who stays");
    assert_eq!(audience.keys(0, left), 0);
    audience.run(0.2);
    assert_eq!(audience.picture(PictureUpdate::New).alone, Some(MemberId(0)));
    assert_eq!(audience.picture(PictureUpdate::New).live, [false; MAX_LAYERS]);
}

/// An encoder that never finishes its picture delays no other viewer.
#[test]
fn who_is_not_ready_is_not_waited_for_long() {
    let mut audience = Audience::of(&[4.0, 4.0, 4.0]);
    audience.facts(0).is_ready = false;
    audience.run(0.3);
    assert!(audience.of_member(1, Time::ZERO).len() > 4);
    assert_eq!(audience.of_member(0, Time::ZERO), []);
}

#[test]
fn a_newcomer_has_a_picture_within_a_fifth_of_a_second() {
    let mut audience = Audience::of(&[4.0, 4.0]);
    audience.run(3.0);
    for number in 2..12 {
        let came = audience.now;
        audience.come(number, 4.0);
        audience.run(0.3);
        let first = audience.of_member(number, came)[0];
        assert!(first.key && first.at - came <= KEY_FRAME_DISTANCE + INTERVAL, "{:?}", first.at - came);
    }
    let began = audience.frames[0].at;
    assert_eq!(audience.keys(0, began), 11, "one for each of them");
}

#[test]
fn a_viewer_with_a_bad_path_goes_down_alone_and_comes_back() {
    let mut audience = Audience::of(&[4.0; 5]);
    audience.run(5.0);
    let fell = audience.now;
    audience.set_rate(2, 0.4);
    audience.run(5.0);
    assert_ne!(audience.layer(2), audience.layer(0));
    for number in [0, 1, 3, 4] {
        let frames = audience.of_member(number, fell);
        assert_eq!(audience.keys(number, fell), 0);
        assert!(frames.iter().all(|frame| frame.rate == facts(4.0).rate), "nobody is held back");
    }
    assert!(audience.of_member(2, fell).iter().all(|frame| frame.rate == facts(0.4).rate), "from the next picture on");
    assert_eq!(audience.keys(2, fell), 1);
    let repaired_at = audience.now;
    audience.set_rate(2, 4.0);
    audience.run(5.0);
    assert_eq!(audience.layer(2), audience.layer(0));
    assert!(audience.keys(0, repaired_at) <= 1);
    assert_eq!(audience.encodes.last(), Some(&1));
}

#[test]
fn a_layer_follows_its_slowest_viewer_from_picture_to_picture() {
    let mut audience = Audience::of(&[4.0, 4.0]);
    audience.run(2.0);
    let since = audience.now;
    audience.set_rate(1, 3.2);
    let plan = audience.picture(PictureUpdate::New);
    assert_eq!((plan.frames.len(), plan.frames[0].rate), (1, facts(3.2).rate));
    audience.run(3.0);
    assert_eq!(audience.keys(0, since), 0);
}

#[test]
fn little_rate_makes_small_pictures() {
    let mut audience = Audience::of(&[0.2, 0.2]);
    let plan = audience.picture(PictureUpdate::New);
    assert!((plan.frames[0].scale - 0.5).abs() < 1e-9, "{plan:?}");
    audience.set_rate(0, 4.0);
    audience.set_rate(1, 4.0);
    audience.run(8.0);
    let plan = audience.picture(PictureUpdate::New);
    assert!((plan.frames[0].scale - 1.0).abs() < 1e-9, "{plan:?}");
    assert_eq!(audience.keys(0, Time::ZERO), 2, "a change of size is a key frame, and there was one");
}

#[test]
fn a_decoder_that_is_behind_gets_less_and_smaller_pictures() {
    let mut audience = Audience::of(&[4.0; 4]);
    audience.run(2.0);
    audience.facts(3).refusal = Some(SkipReason::DecoderBehind);
    audience.run(1.0);
    let plan = audience.picture(PictureUpdate::New);
    let relieved = plan.frames.iter().find(|frame| frame.members == [MemberId(3)]).expect("a layer of its own");
    assert!(relieved.scale <= 0.5 && relieved.rate <= facts(2.0).rate, "{relieved:?}");
    assert_eq!(audience.keys(0, Time::from_secs(2)), 0);
}

#[test]
fn a_still_picture_is_coded_for_who_has_not_got_it() {
    let mut audience = Audience::of(&[4.0, 4.0]);
    audience.run(1.0);
    assert_eq!(audience.picture(PictureUpdate::Unchanged).frames, []);
    audience.run(0.0);
    audience.come(2, 4.0);
    let plan = audience.picture(PictureUpdate::Unchanged);
    assert_eq!((plan.frames.len(), plan.frames[0].key), (1, true));
    assert_eq!(audience.picture(PictureUpdate::Unchanged).frames, []);
}

#[test]
fn a_blocked_path_gets_nothing_and_joins_again() {
    let mut audience = Audience::of(&[4.0, 4.0]);
    audience.run(2.0);
    audience.facts(1).refusal = Some(SkipReason::PathBlocked);
    let plan = audience.picture(PictureUpdate::New);
    assert_eq!(plan.skipped, [(MemberId(1), SkipReason::PathBlocked)]);
    assert_eq!(plan.frames[0].members, [MemberId(0)]);
    audience.run(2.0);
    audience.facts(1).refusal = None;
    let plan = audience.picture(PictureUpdate::New);
    assert_eq!((plan.frames[0].joined.clone(), plan.frames[0].key), (vec![MemberId(1)], true));
    // A queue that is too long for a moment, as behind a key frame, has no effect.
    audience.facts(1).refusal = Some(SkipReason::PacerQueue);
    audience.run(0.2);
    assert_eq!(audience.layer(1), audience.layer(0));
    audience.run(0.2);
    assert_eq!(audience.layer(1), None);
}

/// Key frames are spaced for the sake of the viewers in the layer. A layer that all viewers have left delays no one.
#[test]
fn a_layer_that_everybody_has_left_begins_at_once_for_a_newcomer() {
    let mut audience = Audience::of(&[4.0, 4.0, 0.5]);
    audience.run(0.1);
    let left = audience.layer(2).expect("a layer of its own");
    audience.leave(2);
    let plan = audience.picture(PictureUpdate::New);
    assert!(!plan.live[left], "its encoder is not needed any more");
    audience.come(3, 0.5);
    let plan = audience.picture(PictureUpdate::New);
    let frame = plan.frames.iter().find(|frame| frame.members == [MemberId(3)]).expect("its first picture");
    assert!(frame.key);
    assert_eq!(audience.keys(0, Time::ZERO), 1, "the others see nothing of it");
}

#[test]
fn who_asks_again_and_again_is_answered_ever_more_rarely() {
    let mut audience = Audience::of(&[4.0; 3]);
    audience.run(1.0);
    let since = audience.now;
    for _ in 0..900 {
        audience.facts(2).key = true;
        audience.picture(PictureUpdate::New);
    }
    // After 1, 2, 4 and then every 8 of thirty seconds.
    assert!((4..=7).contains(&audience.keys(0, since)), "{}", audience.keys(0, since));
}

#[derive(Clone, Debug)]
enum Step {
    Come(u32, u32),
    Leave(u32),
    Rate(u32, u32),
    Key(u32),
    Refusal(u32, Option<SkipReason>),
    Lost(u32),
    Pictures(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let number = 0..8_u32;
    let refusal = prop_oneof![
        Just(None),
        Just(Some(SkipReason::PathBlocked)),
        Just(Some(SkipReason::PacerQueue)),
        Just(Some(SkipReason::DecoderBehind)),
    ];
    prop_oneof![
        (number.clone(), 100..20_000_u32).prop_map(|(number, kbps)| Step::Come(number, kbps)),
        number.clone().prop_map(Step::Leave),
        (number.clone(), 100..20_000_u32).prop_map(|(number, kbps)| Step::Rate(number, kbps)),
        number.clone().prop_map(Step::Key),
        (number.clone(), refusal).prop_map(|(number, refusal)| Step::Refusal(number, refusal)),
        number.prop_map(Step::Lost),
        (1..60_u8).prop_map(Step::Pictures),
    ]
}

/// Invariants that hold for each picture whatever happens.
#[derive(Default)]
struct Watch {
    in_layer: BTreeMap<MemberId, usize>,
    /// The newest key frame of each layer with an encoder. A layer that lost all its viewers starts over.
    last_key: BTreeMap<usize, Time>,
    /// Since when a viewer gets more than it may.
    above: BTreeMap<MemberId, Time>,
}

impl Watch {
    fn check(&mut self, audience: &Audience, at: Time, plan: &SharedPlan) {
        assert!(plan.frames.len() <= MAX_LAYERS);
        if let Some(alone) = plan.alone {
            assert!(plan.frames.is_empty() && audience.facts.len() == 1 && audience.facts.contains_key(&alone));
            self.in_layer.clear();
        }
        self.last_key.retain(|layer, _| plan.live[*layer]);
        let mut seen = Vec::new();
        for frame in &plan.frames {
            assert!(plan.live[frame.layer] && frame.scale > 0.0 && frame.scale <= 1.0 && frame.rate > Bitrate::ZERO);
            if frame.key
                && let Some(last) = self.last_key.insert(frame.layer, at)
            {
                assert!(at - last >= KEY_FRAME_DISTANCE, "{:?} between key frames", at - last);
            }
            for member in &frame.members {
                assert!(!seen.contains(member), "{member:?} gets the picture twice");
                seen.push(*member);
                let begins = self.in_layer.insert(*member, frame.layer) != Some(frame.layer);
                assert!(!begins || frame.key, "{member:?} begins in the middle");
                assert_eq!(frame.joined.contains(member), begins);
                let above = frame.rate > audience.facts[member].rate;
                if above {
                    let since = *self.above.entry(*member).or_insert(at);
                    assert!(
                        at - since <= KEY_FRAME_DISTANCE + INTERVAL,
                        "{member:?} above its rate for {:?}",
                        at - since
                    );
                } else {
                    self.above.remove(member);
                }
            }
        }
        // A viewer that has missed a frame of its layer starts over.
        let blocked = [SkipReason::PathBlocked, SkipReason::PacerQueue];
        let missed = |member| plan.skipped.iter().any(|(other, why)| *other == member && blocked.contains(why));
        self.in_layer.retain(|member, layer| {
            seen.contains(member) || (!missed(*member) && plan.frames.iter().all(|frame| frame.layer != *layer))
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn layers_keep_their_promises(steps in prop::collection::vec(step(), 1..60)) {
        let mut audience = Audience::of(&[]);
        let mut watch = Watch::default();
        for step in steps {
            match step {
                Step::Come(number, kbps) => if !audience.facts.contains_key(&MemberId(number)) {
                    audience.come(number, f64::from(kbps) / 1e3);
                },
                Step::Leave(number) => {
                    audience.leave(number);
                    watch.in_layer.remove(&MemberId(number));
                    watch.above.remove(&MemberId(number));
                }
                Step::Rate(number, kbps) => if audience.facts.contains_key(&MemberId(number)) {
                    audience.set_rate(number, f64::from(kbps) / 1e3);
                },
                Step::Key(number) => if let Some(facts) = audience.facts.get_mut(&MemberId(number)) {
                    facts.key = true;
                },
                Step::Refusal(number, refusal) => if let Some(facts) = audience.facts.get_mut(&MemberId(number)) {
                    facts.refusal = refusal;
                },
                Step::Lost(number) => {
                    audience.simulcast.on_not_delivered(audience.now, MemberId(number));
                    watch.in_layer.remove(&MemberId(number));
                }
                Step::Pictures(count) => for _ in 0..count {
                    let at = audience.now;
                    let plan = audience.picture(PictureUpdate::New);
                    watch.check(&audience, at, &plan);
                },
            }
        }
        // In steady state every viewer gets every picture, and none changes any more.
        for facts in audience.facts.values_mut() {
            facts.refusal = None;
        }
        audience.run(30.0);
        let (since, switches) = (audience.now, audience.simulcast.statistics().switches);
        audience.run(3.0);
        prop_assert_eq!(audience.simulcast.statistics().switches, switches);
        if audience.facts.len() > 1 {
            for member in audience.facts.keys() {
                let frames = audience.of_member(member.0, since);
                prop_assert_eq!(frames.len(), 91, "{:?}", member);
                prop_assert!(frames.iter().all(|frame| !frame.key), "{:?}", member);
            }
        }
    }
}

/// Kinds of viewers that cannot share a frame, each with these rates in Mb/s.
fn kinds(all: &[&[f64]]) -> Vec<Audience> {
    all.iter().map(|rates| Audience::of(rates)).collect()
}

/// One picture for all kinds; returns how many encoders were given it.
fn shared_picture(kinds: &mut [Audience]) -> usize {
    let now = kinds.first().map_or(Time::ZERO, |kind| kind.now);
    share_layers(now, &mut kinds.iter_mut().map(|kind| &mut kind.simulcast).collect::<Vec<_>>());
    let plans = kinds.iter_mut().map(|kind| kind.picture(PictureUpdate::New));
    plans.map(|plan| plan.frames.len() + usize::from(plan.alone.is_some())).sum()
}

#[test]
fn all_kinds_of_viewers_together_cost_three_encodes() {
    let spread: &[f64] = &[8.0, 8.0, 8.0, 2.0, 2.0, 0.5, 0.5];
    // How many kinds there are, and how many encoders each has eventually.
    for (all, layers) in [
        (vec![spread], vec![3]),
        (vec![&[4.0; 6][..], spread], vec![1, 2]),
        (vec![spread, &[4.0]], vec![2, 1]),
        (vec![spread, spread, &[4.0]], vec![1, 1, 1]),
        (vec![spread, spread, spread, &[4.0]], vec![1, 1, 1, 1]),
    ] {
        let mut kinds = kinds(&all);
        for picture in 0..300 {
            let encodes = shared_picture(&mut kinds);
            assert!(encodes <= MAX_LAYERS.max(kinds.len()), "{encodes} encodes of picture {picture} in {all:?}");
        }
        let have: Vec<usize> = kinds.iter().map(|kind| kind.simulcast.encoders()).collect();
        assert_eq!(have, layers, "{all:?}");
    }
}

#[test]
fn a_new_kind_of_viewer_waits_for_no_more_than_a_key_frame_of_the_others() {
    let mut kinds = kinds(&[&[8.0, 8.0, 2.0, 2.0, 0.5, 0.5]]);
    for _ in 0..90 {
        shared_picture(&mut kinds);
    }
    assert_eq!(kinds[0].simulcast.encoders(), 3);
    let came = kinds[0].now;
    let mut new = Audience::of(&[]);
    new.now = came;
    new.come(100, 4.0);
    kinds.push(new);
    let waited = (0..30).take_while(|_| {
        let encodes = shared_picture(&mut kinds);
        assert!(encodes <= MAX_LAYERS, "{encodes} encodes");
        !kinds[1].simulcast.is_alone
    });
    let waited = INTERVAL * waited.count() as i64;
    assert!(waited <= KEY_FRAME_DISTANCE + INTERVAL * 2, "{waited:?}");
    for _ in 0..60 {
        shared_picture(&mut kinds);
    }
    assert_eq!(kinds[0].simulcast.encoders(), 2);
    assert_eq!(kinds[0].encodes.last(), Some(&2), "everybody there gets the picture still");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Viewers of several kinds join, leave and change: the encoders of all kinds stay within the limit, and every viewer gets pictures.
    #[test]
    fn kinds_share_the_encoders_whatever_happens(
        steps in prop::collection::vec((0..5_usize, 0..4_u32, prop::option::of(100..20_000_u32), 1..40_u8), 1..40),
    ) {
        let mut kinds: BTreeMap<usize, Audience> = BTreeMap::new();
        let mut now = Time::from_secs(1);
        // A kind that has left may leave others with too many encoders until their viewers have joined another layer.
        let (mut most_kinds, mut since) = (0, now);
        let mut picture = |kinds: &mut BTreeMap<usize, Audience>, now: &mut Time| {
            for kind in kinds.values_mut() {
                kind.now = *now;
            }
            share_layers(*now, &mut kinds.values_mut().map(|kind| &mut kind.simulcast).collect::<Vec<_>>());
            let plans = kinds.values_mut().map(|kind| kind.picture(PictureUpdate::New));
            let encodes: usize = plans.map(|plan| plan.frames.len() + usize::from(plan.alone.is_some())).sum();
            if kinds.len() >= most_kinds || *now - since > Span::from_secs(1) {
                (most_kinds, since) = (kinds.len(), *now);
            }
            assert!(encodes <= MAX_LAYERS.max(most_kinds), "{encodes} encodes for {} kinds", kinds.len());
            *now += INTERVAL;
        };
        for (kind, number, kbps, pictures) in steps {
            // Numbers are the server's: no two viewers share one.
            let member = kind as u32 * 10 + number;
            let audience = kinds.entry(kind).or_insert_with(|| Audience { now, ..Audience::of(&[]) });
            audience.now = now;
            match kbps {
                Some(kbps) if audience.facts.contains_key(&MemberId(member)) => {
                    audience.set_rate(member, f64::from(kbps) / 1e3);
                }
                Some(kbps) => audience.come(member, f64::from(kbps) / 1e3),
                None => audience.leave(member),
            }
            kinds.retain(|_, audience| !audience.facts.is_empty());
            for _ in 0..pictures {
                picture(&mut kinds, &mut now);
            }
        }
        for _ in 0..60 {
            picture(&mut kinds, &mut now);
        }
        let since = now;
        for _ in 0..30 {
            picture(&mut kinds, &mut now);
        }
        for audience in kinds.values().filter(|audience| audience.facts.len() > 1) {
            for member in audience.facts.keys() {
                prop_assert_eq!(audience.of_member(member.0, since).len(), 30, "{:?}", member);
            }
        }
        prop_assert!(kinds.values().all(|audience| audience.facts.len() > 1 || audience.simulcast.is_alone));
    }
}
