//! In steady state no packet and no feedback message costs an allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use nearlight_rate::{Bounds, Feedback, PRESETS, PacketReport, SentFrame, SentPacket, new_controller};
use nearlight_units::{Bitrate, Bytes, FrameId, PacketSeq, Span, Time};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator as it is; counting touches a cell of the calling thread only, which needs no
// allocation itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory came from `alloc` above, so from the system's allocator, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Packets of a frame, and what happens to them: one in 199 is lost.
const PACKETS: u32 = 50;
const FRAMES: u32 = 4_000;
/// Afterwards all memory has found its size.
const WARM: u32 = 2_000;

fn reports(frame: u32) -> [PacketReport; PACKETS as usize] {
    std::array::from_fn(|index| {
        let index = index as u32;
        let sent_at = Time::from_micros(u64::from(frame) * 14_000 + u64::from(index) * 100);
        let packet = SentPacket {
            seq: PacketSeq(frame * PACKETS + index),
            sent_at,
            size: Bytes::new(1_200),
            frame: Some(FrameId(frame)),
            probe: None,
            app_limited: index + 1 == PACKETS,
        };
        let delay = Span::from_micros(10_000 + i64::from(frame % 16) * 100);
        PacketReport {
            packet,
            arrived_at: (!packet.seq.0.is_multiple_of(199)).then_some((sent_at + delay).for_peer()),
            ce: false,
        }
    })
}

#[test]
fn packets_and_feedback_allocate_nothing_in_steady_state() {
    for preset in PRESETS {
        let mut controller = new_controller(preset.name, Bounds::up_to(Bitrate::from_mbps(100))).expect(preset.name);
        let mut before = 0;
        for frame in 0..FRAMES {
            if frame == WARM {
                before = COUNT.with(Cell::get);
            }
            let packets = reports(frame);
            let (sent_at, size) = (packets[0].packet.sent_at, Bytes::new(60_000));
            let sent = SentFrame { frame: FrameId(frame), size, key: frame % 100 == 0, encode: Span::from_millis(4) };
            controller.on_frame_sent(sent_at, &sent);
            for report in &packets {
                controller.on_packet_sent(&report.packet);
            }
            let feedback = Feedback { packets: &packets, round_trip: Some(Span::from_millis(20)) };
            controller.on_feedback(sent_at + Span::from_millis(25), &feedback);
        }
        let allocations = COUNT.with(Cell::get) - before;
        assert_eq!(allocations, 0, "{}: in {} frames", preset.name, FRAMES - WARM);
    }
}
