//! The kernel's law, compiled for this machine, against the law in virtual time: the same window after the same acknowledgements.

#![cfg(all(target_os = "linux", feature = "bpf"))]

use std::ffi::c_void;

use nearlight_units::{Bytes, Span, Time};
use nearlight_window::{AckSample, CongestionLaw as _, Hera, HeraOptions, Reading, Step};
use proptest::prelude::*;

// The library brings the compiled law.
use nearlight_kernel as _;

/// `struct hera_parameters` of bpf/hera.h.
#[repr(C)]
struct Parameters {
    buckets: u32,
    bucket_us: u32,
    backlog: u32,
    max_delta: u32,
    limit: u32,
    least: u32,
    most: u32,
    as_printed: u32,
    each_sample: u32,
}

/// `struct hera_ack`.
#[repr(C)]
struct Ack {
    delivered: u32,
    prior_delivered: u32,
    acknowledges: u32,
    window_limited: u32,
    round_trip_us: i64,
}

unsafe extern "C" {
    fn nearlight_hera_begin(with: *const Parameters, window: u32, delivered: u32) -> *mut c_void;
    fn nearlight_hera_on_ack(with: *const Parameters, of: *mut c_void, ack: *const Ack);
    fn nearlight_hera_on_timeout(with: *const Parameters, of: *mut c_void);
    fn nearlight_hera_window(of: *const c_void) -> u64;
    fn nearlight_hera_bucket(of: *const c_void) -> u32;
    fn nearlight_hera_end(of: *mut c_void);
}

/// The kernel's law.
struct Native {
    parameters: Parameters,
    state: *mut c_void,
}

impl Native {
    fn new(options: &HeraOptions, delivered: u32) -> Self {
        let parameters = Parameters {
            buckets: u32::from(options.buckets),
            bucket_us: options.bucket_size.as_micros() as u32,
            backlog: u32::from(options.backlog),
            max_delta: u32::from(options.max_delta),
            limit: options.limit.unwrap_or(0),
            least: options.least,
            most: options.most,
            as_printed: u32::from(options.reading == Reading::AsPrinted),
            each_sample: u32::from(options.step == Step::Sample),
        };
        // SAFETY: the parameters live longer than the call.
        let state = unsafe { nearlight_hera_begin(&raw const parameters, 10, delivered) };
        assert!(!state.is_null(), "no memory");
        Self { parameters, state }
    }

    fn on_ack(&mut self, ack: &Ack) {
        // SAFETY: the state was made by `nearlight_hera_begin` with these parameters and has not ended.
        unsafe { nearlight_hera_on_ack(&raw const self.parameters, self.state, &raw const *ack) }
    }

    fn on_timeout(&mut self) {
        // SAFETY: as above.
        unsafe { nearlight_hera_on_timeout(&raw const self.parameters, self.state) }
    }

    /// In packets.
    fn window(&self) -> u64 {
        // SAFETY: as above.
        unsafe { nearlight_hera_window(self.state) / 1_024 }
    }

    fn bucket(&self) -> u32 {
        // SAFETY: as above.
        unsafe { nearlight_hera_bucket(self.state) }
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: as above; it ends here.
        unsafe { nearlight_hera_end(self.state) }
    }
}

/// What happens to a flow.
#[derive(Clone, Debug)]
enum Event {
    /// An acknowledgement of this many packets. `behind` says when the newest of them was sent, as a share of the window.
    Ack {
        packets: u16,
        behind: u16,
        round_trip: Option<u32>,
        window_limited: bool,
    },
    /// Nothing new.
    Duplicate,
    Timeout,
}

fn round_trips() -> impl Strategy<Value = u32> {
    // Around the usual targets, anything, and the extremes.
    prop_oneof![6 => 1_000..200_000_u32, 2 => 0..10_000_000_u32, 1 => Just(0), 1 => Just(u32::MAX)]
}

fn events() -> impl Strategy<Value = Event> {
    let ack = (0..20_u16, 0..60_u16, prop::option::weighted(0.9, round_trips()), prop::bool::weighted(0.8)).prop_map(
        |(packets, behind, round_trip, window_limited)| Event::Ack { packets, behind, round_trip, window_limited },
    );
    prop_oneof![100 => ack, 3 => Just(Event::Duplicate), 1 => Just(Event::Timeout)]
}

fn options() -> impl Strategy<Value = HeraOptions> {
    let limits = prop_oneof![1 => Just(None), 1 => Just(Some(8_192)), 4 => (1..2_000_u32).prop_map(Some)];
    let kinds = (any::<bool>(), any::<bool>());
    (1..=128_u16, 1..40_000_i64, 1..=256_u16, 1..=1_000_u16, limits, 1..50_u32, kinds).prop_map(
        |(half, bucket, backlog, max_delta, limit, least, (printed, sample))| HeraOptions {
            reading: if printed { Reading::AsPrinted } else { Reading::Symmetric },
            step: if sample { Step::Sample } else { Step::RoundTrip },
            buckets: half * 2,
            bucket_size: Span::from_micros(bucket),
            backlog,
            max_delta,
            limit,
            least,
            ..HeraOptions::default()
        },
    )
}

/// The usual parameters as often as any others.
fn some_options() -> impl Strategy<Value = HeraOptions> {
    prop_oneof![
        Just(HeraOptions::default()),
        Just(HeraOptions { buckets: 8, reading: Reading::AsPrinted, ..HeraOptions::default() }),
        options(),
        options(),
    ]
}

proptest! {
    // 64 times 2000 events: more than 10^5 acknowledgements.
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn the_kernel_s_law_and_that_in_virtual_time_have_the_same_window(
        options in some_options(),
        first in any::<u32>(),
        events in prop::collection::vec(events(), 2_000),
    ) {
        let options = options.in_order();
        let packet = Bytes::new(1_500);
        let mut ours = Hera::new(packet, options);
        let mut native = Native::new(&options, first);
        let mut delivered = 0_u64;
        for event in events {
            match event {
                Event::Ack { packets, behind, round_trip, window_limited } => {
                    delivered += u64::from(packets);
                    let when_sent = delivered.saturating_sub(u64::from(behind));
                    // The kernel's numbers wrap, and begin anywhere.
                    let wrapped = |count: u64| first.wrapping_add(count as u32);
                    native.on_ack(&Ack {
                        delivered: wrapped(delivered),
                        prior_delivered: wrapped(when_sent),
                        acknowledges: 1,
                        window_limited: u32::from(window_limited),
                        round_trip_us: round_trip.map_or(-1, i64::from),
                    });
                    ours.on_ack(Time::ZERO, &AckSample {
                        delivered: Bytes::new(1_500 * delivered),
                        delivered_when_sent: Bytes::new(1_500 * when_sent),
                        round_trip: round_trip.map(|micros| Span::from_micros(i64::from(micros))),
                        window_limited,
                        ..AckSample::default()
                    });
                }
                Event::Duplicate => native.on_ack(&Ack {
                    delivered: first.wrapping_add(delivered as u32),
                    prior_delivered: 0,
                    acknowledges: 0,
                    window_limited: 1,
                    round_trip_us: -1,
                }),
                Event::Timeout => {
                    native.on_timeout();
                    ours.on_timeout(Time::ZERO, Bytes::ZERO);
                }
            }
            prop_assert_eq!(native.bucket(), u32::from(ours.bucket()));
            prop_assert_eq!(native.window(), ours.window().get() / packet.get());
        }
    }
}
