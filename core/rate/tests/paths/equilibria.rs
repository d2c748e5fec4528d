//! Where controllers settle on a real path, against the closed forms of their laws.

use crate::link::{Link, Path, Summary};
use nearlight_rate::Bounds;
use nearlight_units::{Bitrate, Span};

const fn mbps(rate: u64) -> Bitrate {
    Bitrate::from_mbps(rate)
}

/// The second half minute on a path without losses.
fn settled(preset: &str, link: Link, maximum: Bitrate) -> Summary {
    let mut path = Path::new(preset, Bounds::up_to(maximum), link, 1);
    path.run(Span::from_secs(30));
    path.run(Span::from_secs(30))
}

#[test]
fn nada_holds_the_queue_that_its_priority_and_maximum_ask_for() {
    // x* = PRIO * XREF * RMAX / r, with XREF of 10 ms.
    for (capacity, maximum, priority) in [(20, 40, 1.0), (20, 80, 1.0), (40, 80, 1.0), (40, 80, 2.0)] {
        let queue = mbps(capacity).bytes_in(Span::from_millis(300));
        let link = Link { queue, ..Link::of(mbps(capacity)) };
        let mut path = Path::new("nada-rfc8698", Bounds::up_to(mbps(maximum)), link, 1);
        path.controller.set_priority(path.now, priority);
        path.run(Span::from_secs(30));
        let found = path.run(Span::from_secs(30));
        let expected = priority * 10.0 * maximum as f64 / capacity as f64;
        // What counts is the lowest delay of a frame: the queue's median has the frame's own packets on top, up to 8 ms here.
        let median = found.queue_median.as_millis_f64();
        assert!((0.85 * expected..1.15 * expected + 8.0).contains(&median), "{expected} ms: {found:?}");
        assert!(found.received > mbps(capacity).mul_f64(0.93), "{found:?}");
    }
}

#[test]
fn alvr_leaves_what_other_latency_takes_of_the_frame_interval() {
    // R* = C (m - F b): b is the way there and back, 60 frames a second. With 16 ms nothing would be left.
    for preset in ["alvr-abr-mm25", "alvr-abr-2026"] {
        for (capacity, one_way) in [(35, 2), (35, 4), (50, 1)] {
            let link = Link { one_way: Span::from_millis(one_way), ..Link::of(mbps(capacity)) };
            let found = settled(preset, link, mbps(100)).target.as_mbps_f64();
            let expected = capacity as f64 * (0.95 - 0.060 * 2.0 * one_way as f64);
            // Frames are whole packets, and feedback waits for no more than a step.
            assert!((found / expected - 1.0).abs() < 0.06, "{preset}: {found} Mb/s, not {expected}");
        }
    }
}

#[test]
fn windows_fill_the_path_cubic_with_its_queue_and_bbr_without() {
    for (capacity, one_way) in [(10, 10), (40, 10), (40, 40)] {
        let link = Link { one_way: Span::from_millis(one_way), ..Link::of(mbps(capacity)) };
        let [cubic, bbr] = ["cubic", "bbr"].map(|preset| settled(preset, link, mbps(100)));
        assert!(
            cubic.received > mbps(capacity).mul_f64(0.95) && cubic.queue_median > Span::from_millis(30),
            "{cubic:?}"
        );
        assert!(cubic.lost > 0.0 && cubic.lost < 0.03, "{cubic:?}");
        // Nine tenths of the delivery rate, but for the moments in which it probes.
        assert!(bbr.received > mbps(capacity).mul_f64(0.82), "{bbr:?}");
        assert!(bbr.queue_median < Span::from_millis(12) && bbr.lost < 0.001, "{bbr:?}");
    }
}

#[test]
fn nebula_takes_the_rung_below_the_paths_capacity() {
    // A ladder up to 13 Mb/s: 9, 6, 4, 3.6, 2.4, 2, 1.2 and 0.4 below it. Each frame pays for one repair at least.
    for (capacity, rung) in [(20, 13.0), (12, 9.0), (8, 6.0), (5, 4.0)] {
        let found = settled("nebula", Link::of(mbps(capacity)), mbps(13));
        assert!((found.target.as_mbps_f64() - rung).abs() < 0.01, "{capacity} Mb/s: {found:?}");
        assert!(found.lost < 1e-9, "{found:?}");
    }
}
