use nearlight_wire::{Fov, Gamepad, Hand, Joint, Key, Pointer, Pose, ScreenPoint, ToServer, Touch, View};
use proptest::prelude::*;

use super::*;
use crate::receiver::input_sampler::{DeviceInput, InputSampler, Presence};

fn sampler() -> InputSampler {
    let mut sampler = InputSampler::default();
    let view = View { pose: Pose::default(), fov: Fov::symmetric(1.0, 1.0) };
    sampler.on_presence(Time::ZERO, Presence::of_views(Pose::default(), vec![view]));
    sampler
}

fn key(code: &str, pressed: bool) -> DeviceInput {
    DeviceInput::Key { key: Key::from_code(code).expect("a key"), pressed }
}

#[test]
fn the_newest_state_wins_and_each_event_is_handed_out_once() {
    let (mut sampler, mut inbox) = (sampler(), Inbox::default());
    let first = sampler.poll_sample().expect("a sample");
    sampler.on_device(Time::ZERO, key("KeyF", true));
    let second = sampler.poll_sample().expect("a sample");
    sampler.on_device(Time::ZERO, key("KeyF", false));
    let third = sampler.poll_sample().expect("a sample");
    inbox.on_sample(Time::from_millis(3), third.clone());
    inbox.on_sample(Time::from_millis(4), second);
    inbox.on_sample(Time::from_millis(5), first);
    let input = inbox.poll(Time::from_millis(5)).expect("waiting");
    assert_eq!((input.sample.seq, input.received_at, input.events.len()), (third.seq, Time::from_millis(3), 2));
    assert!(!input.sample.devices.holds_anything());
    inbox.on_sample(Time::from_millis(6), third);
    assert_eq!(inbox.poll(Time::from_millis(6)), None);
}

#[test]
fn a_silent_client_holds_nothing_and_one_that_speaks_again_does() {
    let (mut sampler, mut inbox) = (sampler(), Inbox::default());
    sampler.on_device(Time::ZERO, key("KeyW", true));
    let sample = sampler.poll_sample().expect("a sample");
    inbox.on_sample(Time::ZERO, sample.clone());
    assert_eq!(inbox.poll(Time::from_millis(1)).expect("pressed").sample.devices.keys.len(), 1);
    assert_eq!(inbox.poll(Time::from_secs(4)), None, "links freeze for up to 3 s");
    let silent = inbox.poll(Time::from_millis(4_001)).expect("let go of");
    let key = Key::from_code("KeyW").expect("a key");
    assert_eq!(silent.events, [InputEvent::Key { key, pressed: false }]);
    assert_eq!(inbox.poll(Time::from_secs(5)), None, "once");
    inbox.on_sample(Time::from_secs(6), sample);
    let again = inbox.poll(Time::from_secs(6)).expect("held again");
    assert_eq!(
        (again.events.as_slice(), again.sample.devices.keys.len()),
        ([InputEvent::Key { key, pressed: true }].as_slice(), 1)
    );
}

#[test]
fn what_is_typed_during_a_long_silence_arrives_as_it_was_typed() {
    let (mut sampler, mut inbox) = (sampler(), Inbox::default());
    sampler.on_device(Time::ZERO, key("ControlLeft", true));
    sampler.on_device(Time::ZERO, key("KeyU", true));
    inbox.on_sample(Time::ZERO, sampler.poll_sample().expect("a sample"));
    inbox.poll(Time::ZERO);
    let acknowledgement = inbox.poll_acknowledgement().expect("has events");
    sampler.on_acknowledged(acknowledgement.seq);
    assert_eq!(inbox.poll(Time::from_secs(5)).expect("let go of").events.len(), 2);
    for (code, pressed) in [("KeyU", false), ("KeyC", true), ("KeyC", false), ("ControlLeft", false), ("KeyM", true)] {
        sampler.on_device(Time::from_secs(1), key(code, pressed));
    }
    inbox.on_sample(Time::from_secs(6), sampler.poll_sample().expect("a sample"));
    let input = inbox.poll(Time::from_secs(6)).expect("heard again");
    let names: Vec<_> = input
        .events
        .iter()
        .map(|event| match event {
            InputEvent::Key { key, pressed } => (key.code().unwrap_or_default(), *pressed),
            other => panic!("{other:?}"),
        })
        .collect();
    // Control is down again for the C; the U is not typed again.
    let wanted = [
        ("ControlLeft", true),
        ("KeyU", false),
        ("KeyC", true),
        ("KeyC", false),
        ("ControlLeft", false),
        ("KeyM", true),
    ];
    assert_eq!(names, wanted);
}

#[test]
fn joints_of_a_hand_that_is_gone_are_forgotten() {
    let (mut sampler, mut inbox) = (sampler(), Inbox::default());
    let joints = HandJoints { hand: Hand::Right, wrist: [0.0; 3], joints: [Joint::default(); nearlight_wire::JOINTS] };
    sampler.on_device(Time::ZERO, DeviceInput::Joints(Box::new(joints)));
    let (sample, hand) = (sampler.poll_sample().expect("a sample"), sampler.poll_hand().expect("a hand"));
    sampler.on_device(Time::ZERO, DeviceInput::JointsGone(Hand::Right));
    let gone = sampler.poll_sample().expect("a sample");
    inbox.on_sample(Time::ZERO, sample);
    inbox.on_hand(Time::ZERO, hand.clone());
    assert!(inbox.poll(Time::ZERO).expect("a hand").hands[1].is_some());
    inbox.on_sample(Time::ZERO, gone);
    inbox.on_hand(Time::ZERO, hand);
    assert_eq!(inbox.poll(Time::ZERO).expect("no hand").hands, [None, None]);
}

fn device_input() -> impl Strategy<Value = DeviceInput> {
    let code = prop::sample::select(vec!["KeyA", "KeyW", "Space", "ShiftLeft"]);
    let point = (any::<u16>(), any::<u16>()).prop_map(|(x, y)| ScreenPoint { x, y });
    let touches = prop::collection::btree_map(0u32..6, point.clone(), 0..4);
    let pads = (0u32..1 << 4).prop_map(|pressed| Gamepad { index: 1, pressed, values: vec![0; 4], axes: vec![5] });
    prop_oneof![
        (code, any::<bool>()).prop_map(|(code, pressed)| key(code, pressed)),
        "[a-zäß€]{1,40}".prop_map(DeviceInput::Text),
        (point, 0u8..32, any::<i32>()).prop_map(|(at, buttons, way)| {
            DeviceInput::Pointer(Some(Pointer { at, buttons, moved: [way, 1], scrolled: [0, way], captured: true }))
        }),
        touches.prop_map(|touches| {
            DeviceInput::Touches(touches.into_iter().map(|(id, at)| Touch { id, at, pressure: 255 }).collect())
        }),
        prop::option::of(pads).prop_map(|pad| DeviceInput::Gamepads(pad.into_iter().collect())),
        Just(DeviceInput::ReleaseAll),
    ]
}

/// The fate of a datagram: how many later ones overtake it, and how often it arrives.
fn fate() -> impl Strategy<Value = (usize, usize)> {
    (0usize..4, prop::sample::select(vec![0, 0, 1, 1, 1, 2]))
}

proptest! {
    #[test]
    fn after_any_loss_reordering_and_duplication_the_state_is_the_senders(
        steps in prop::collection::vec((device_input(), fate()), 1..60),
    ) {
        let (mut sampler, mut inbox) = (sampler(), Inbox::default());
        let mut way: Vec<(usize, Vec<u8>)> = Vec::new();
        let (mut made, mut seen) = (Vec::new(), Vec::new());
        let mut before = Devices::default();
        let deliver = |inbox: &mut Inbox, sampler: &mut InputSampler, bytes: &[u8], seen: &mut Vec<InputEvent>, acknowledged: bool| {
            let Ok(ToServer::Input(sample)) = ToServer::parse(bytes) else { panic!("not read back") };
            inbox.on_sample(Time::ZERO, sample);
            seen.extend(inbox.poll(Time::ZERO).into_iter().flat_map(|input| input.events));
            if let Some(acknowledgement) = inbox.poll_acknowledgement().filter(|_| acknowledged) {
                sampler.on_acknowledged(acknowledgement.seq);
            }
        };
        for (step, (input, (overtaken, copies))) in steps.iter().enumerate() {
            if let DeviceInput::Text(text) = input {
                made.extend(InputEvent::typed(text));
            }
            sampler.on_device(Time::from_millis(step as u64), input.clone());
            let sample = sampler.poll_sample().expect("new");
            made.extend(sampler.devices().changes_from(&before));
            before = sampler.devices().clone();
            let bytes = ToServer::Input(sample).to_bytes();
            prop_assert!(bytes.len() <= 1_150);
            way.extend(std::iter::repeat_n((step + overtaken, bytes), *copies));
            let due: Vec<_> = way.extract_if(.., |(at, _)| *at <= step).collect();
            for (place, (_, bytes)) in due.into_iter().enumerate() {
                deliver(&mut inbox, &mut sampler, &bytes, &mut seen, place % 2 == 0);
            }
        }
        // The path recovers: repeats are sent until nothing is unacknowledged.
        for _ in 0..200 {
            sampler.set_repeat();
            let bytes = ToServer::Input(sampler.poll_sample().expect("repeated")).to_bytes();
            deliver(&mut inbox, &mut sampler, &bytes, &mut seen, true);
            if !sampler.has_unacknowledged() {
                break;
            }
        }
        prop_assert!(!sampler.has_unacknowledged());
        prop_assert_eq!(&inbox.newest.as_ref().expect("a sample").1.devices, &before);
        prop_assert_eq!(seen, made, "each event once and in order");
    }
}
