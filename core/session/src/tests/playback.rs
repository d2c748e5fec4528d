//! A client that plays from a buffer, and the controller that follows its fill level.

use crate::pace::Mode;
use nearlight_events::Stage;
use nearlight_rate::{Bounds, new_controller};
use nearlight_units::{Bitrate, Span, Time};

use super::path::{Conditions, SimulatedSession};
use crate::{DisplayedFrame, Sender, SenderConfig};

const INTERVAL: Span = Span::from_millis(33);

/// A session whose rate follows the client's buffer; the client holds what the controller requests.
fn buffered(seed: u64) -> SimulatedSession {
    let mut session = SimulatedSession::new(seed);
    let highest = Bitrate::from_kbps(6_500);
    let bounds = Bounds { minimum: Bitrate::from_kbps(200), start: Bitrate::from_kbps(200), maximum: highest };
    let controller = new_controller("buffer-occupancy", bounds).expect("a preset");
    let playback_buffer = controller.playback_buffer();
    let config =
        SenderConfig { playback_buffer, pacing: Mode::Burst, frame_interval: INTERVAL, ..SenderConfig::default() };
    session.sender = Sender::new(session.now + session.clock_offset, config, controller);
    session.receiver.frames().set_playback_buffer(session.sender.target().playback_buffer, INTERVAL);
    session.frame_bytes = 800;
    session
}

fn rung(session: &SimulatedSession) -> u8 {
    session.sender.decision().step.expect("a ladder").rung
}

/// From rendering to display.
fn ages(displayed: &[DisplayedFrame]) -> Vec<Span> {
    let age = |displayed: &DisplayedFrame| {
        displayed.timeline.displayed_at() - displayed.timeline.boundaries[Stage::Render as usize]
    };
    displayed.iter().map(age).collect()
}

#[test]
fn frames_are_played_at_even_distances_although_their_way_takes_20_to_120_ms() {
    let mut session = buffered(1).with(Conditions {
        delay: Span::from_millis(20),
        jitter: Span::from_millis(100),
        ..Conditions::CLEAN
    });
    session.run(Span::from_secs(10));
    let displayed = &session.displayed[60..];
    let at: Vec<Time> = displayed.iter().map(|displayed| displayed.timeline.displayed_at()).collect();
    let distances = || at.windows(2).map(|pair| pair[1] - pair[0]);
    let uneven = distances().filter(|distance| (*distance - INTERVAL).abs() > Span::from_millis(3)).count();
    assert!(displayed.len() > 200 && uneven * 50 < displayed.len(), "{uneven} of {}", displayed.len());
    let received = session.received();
    assert_eq!((received.frames.lost, received.frames.late), (0, 0), "the deadline knows of the buffer");
}

#[test]
fn the_rate_rises_as_the_buffer_fills_and_falls_as_frames_are_held_up_on_the_way() {
    let mut session = buffered(2);
    assert_eq!(rung(&session), 0);
    session.run(Span::from_secs(3));
    assert_eq!(rung(&session), 8, "the buffer is full");
    let longest = ages(&session.displayed[10..]).into_iter().max();
    assert!(longest.is_some_and(|age| age < INTERVAL * 13), "{longest:?}");
    // A queue that grows: frames take nine intervals to arrive, which leaves two for the buffer.
    for step in 1..=9 {
        session.conditions.delay = INTERVAL * step;
        session.run(Span::from_millis(500));
    }
    session.run(Span::from_secs(1));
    assert_eq!(rung(&session), 0, "the buffer is in the reservoir");
    session.conditions.delay = Conditions::CLEAN.delay;
    session.run(Span::from_secs(3));
    assert_eq!(rung(&session), 8, "the queue is gone");
}

#[test]
fn a_picture_that_has_stood_goes_on_and_its_delay_ends_with_its_cause() {
    let mut session = buffered(3);
    session.run(Span::from_secs(3));
    // Frames take a second to arrive: far more than the buffer holds.
    session.conditions.delay = Span::from_secs(1);
    session.run(Span::from_secs(4));
    let during = *ages(&session.displayed).last().expect("pictures");
    assert!((Span::from_secs(1)..Span::from_millis(1_100)).contains(&during), "{during}");
    assert_eq!(rung(&session), 0);
    session.conditions.delay = Conditions::CLEAN.delay;
    session.run(Span::from_secs(4));
    let after = *ages(&session.displayed).last().expect("pictures");
    assert!((INTERVAL * 10..INTERVAL * 13).contains(&after), "{after}");
    assert_eq!(rung(&session), 8);
}

#[test]
fn without_a_buffer_nothing_is_reported_and_the_rate_stays_down() {
    let mut session = buffered(4);
    session.receiver.frames().set_playback_buffer(0, INTERVAL);
    session.run(Span::from_secs(3));
    assert_eq!(rung(&session), 0);
    assert!(ages(&session.displayed).last().is_some_and(|age| *age < INTERVAL));
}

#[test]
fn a_frame_that_the_decoder_refuses_costs_one_key_frame() {
    let mut session = buffered(5);
    session.run(Span::from_secs(2));
    let newest = session.displayed.last().expect("pictures").timeline.frame;
    session.receiver.frames().on_decode_failed(session.now, newest);
    let before = session.sent().key_frames;
    session.run(Span::from_secs(2));
    assert_eq!(session.sent().key_frames, before + 1);
    assert!(session.displayed.last().is_some_and(|last| last.timeline.frame.0 > newest.0 + 30));
}
