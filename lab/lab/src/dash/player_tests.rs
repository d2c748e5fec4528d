use nearlight_units::Bitrate;

use super::*;

const LADDER: [u64; 6] = [100, 300, 700, 1_500, 2_500, 4_000];

fn content(segment: i64, length: i64) -> Content {
    let ladder = LADDER.map(Bitrate::from_kbps).to_vec();
    Content::new(ladder, Span::from_secs(segment), Span::from_secs(length)).expect("a ladder")
}

/// Plays over a path of this rate in kb/s at each moment, with 20 ms from a request to its answer.
fn play(content: Content, kbps: impl Fn(f64) -> f64, until: i64) -> Player {
    let mut player = Player::new(content);
    let step = Span::from_millis(10);
    let mut now = Time::ZERO;
    // Bytes that are still to come, and from when on.
    let mut answer: Option<(Time, f64)> = None;
    while now < Time::ZERO + Span::from_secs(until) {
        if player.poll_abort() {
            answer = None;
        }
        if let Some(request) = player.poll_request(now) {
            answer = Some((now + Span::from_millis(20), request.size.get() as f64));
        }
        now += step;
        if let Some((from, left)) = &mut answer
            && now > *from
        {
            let bytes = (kbps(now.as_secs_f64()) * 10.0 / 8.0).min(*left);
            *left -= bytes;
            let done = *left < 0.5;
            player.on_progress(now, Bytes::new(bytes as u64));
            if done {
                player.on_response(now);
                answer = None;
            }
        }
    }
    player.advance(now);
    player
}

fn mean_kbps(playback: &Playback) -> f64 {
    let all: f64 = playback.played.iter().map(|span| span.as_secs_f64()).sum();
    let weighed = playback.played.iter().zip(LADDER).map(|(span, rate)| span.as_secs_f64() * rate as f64);
    weighed.sum::<f64>() / all
}

#[test]
fn a_steady_path_is_used_whatever_the_segments_length() {
    // With segments of 10 s there is room for one while the buffer has less than eight: none may come too late, so that lower rates are
    // chosen. Two are fetched before the rule against empty buffers speaks, of which the second comes too late. Each rise of the rate fetches
    // the segment being played once more, so that the buffer of short segments does not grow where segments take long.
    let cases = [(4, 1_000.0, 500.0, 0), (4, 3_200.0, 1_000.0, 0), (10, 3_200.0, 600.0, 1)];
    for (segment, kbps, least, stalls) in cases {
        let player = play(content(segment, 300), |_| kbps, 320);
        let playback = player.playback();
        let mean = mean_kbps(playback);
        assert!((least..kbps).contains(&mean), "{segment} s at {kbps}: {mean} {playback:?}");
        assert_eq!(playback.stalls, stalls, "{playback:?}");
        assert!(player.has_ended(), "{playback:?}");
        assert_eq!(playback.played.iter().copied().fold(Span::ZERO, |sum, span| sum + span), Span::from_secs(300));
    }
}

#[test]
fn a_fast_path_fills_thirty_seconds_and_sixty_of_long_content() {
    for (length, most) in [(400, 30), (600, 60)] {
        let player = play(content(4, length), |_| 50_000.0, 100);
        let buffer = player.buffer();
        assert!(buffer > Span::from_secs(most - 9) && buffer <= Span::from_secs(most), "{length}: {buffer:?}");
        assert!(player.playback().startup.is_some_and(|startup| startup < Span::from_millis(300)));
        assert_eq!(player.playback().switches, 1, "{:?}", player.playback());
    }
}

#[test]
fn what_lies_ahead_in_a_low_rate_is_fetched_again_when_the_path_becomes_faster() {
    let player = play(content(4, 600), |second| if second < 60.0 { 900.0 } else { 50_000.0 }, 120);
    assert!(player.playback().replaced > 0 && player.playback().stalls == 0, "{:?}", player.playback());
}

#[test]
fn a_fall_of_the_rate_is_survived_by_the_buffer_and_a_download_given_up() {
    let player = play(content(4, 600), |second| if second < 60.0 { 5_000.0 } else { 350.0 }, 200);
    let playback = player.playback();
    assert!(playback.abandoned >= 1, "{playback:?}");
    assert_eq!(playback.stalls, 0, "{playback:?}");
    let starved = play(content(4, 600), |second| if second < 60.0 { 5_000.0 } else { 20.0 }, 300);
    assert!(starved.playback().stalls > 0 && starved.playback().stalled > Span::from_secs(60), "{starved:?}");
}

#[test]
fn the_first_segment_is_of_a_megabit_at_most() {
    let mut player = Player::new(content(4, 40));
    let manifest = player.poll_request(Time::ZERO).expect("it begins");
    assert_eq!((manifest.number, manifest.part, player.poll_request(Time::ZERO)), (1, Resource::Manifest, None));
    player.on_response(Time::from_millis(30));
    let init = player.poll_request(Time::from_millis(30)).expect("what the decoder needs");
    assert_eq!(init.part, Resource::Init { rung: 2 });
    player.on_response(Time::from_millis(60));
    let media = player.poll_request(Time::from_millis(60)).expect("the first segment");
    assert_eq!((media.part, media.size), (Resource::Media { rung: 2, segment: 0 }, Bytes::new(350_000)));
}
