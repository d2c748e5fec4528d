//! OpenUVR (RTAS 2021), table II and section V: differences in microseconds of mean latency, each optimisation on top of those before it.

use serde::Serialize;

use crate::ladder::step::Step;

/// What the paper measured for a step beyond the previous one. None where it gives no figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[expect(clippy::struct_field_names, reason = "the unit is in the names of the output")]
pub struct Published {
    pub host_us: Option<f64>,
    pub network_us: Option<f64>,
    pub device_us: Option<f64>,
}

/// HWA-GamingAnywhere and OpenUVR with all optimisations, milliseconds from end to end (section V.A).
pub(crate) const TOTAL_MS: [f64; 2] = [39.41, 14.32];

/// The paper's order is another one: it avoids conversion first and takes the picture in process second.
pub(crate) fn published(step: Step) -> Published {
    let of = |host, network, device| Published { host_us: host, network_us: network, device_us: device };
    match step {
        Step::OtherProcess | Step::Batched => Published::default(),
        // With functions in the kernel.
        Step::InProcess => of(Some(-4_710.0), None, None),
        // It encodes RGB and sends more bits for it.
        Step::NoConversion => of(Some(-5_507.0), Some(800.0), Some(312.0)),
        Step::LinkLayer => of(Some(-13_672.0), None, Some(-707.0)),
        Step::PeerToPeer => of(None, Some(-1_600.0), None),
        Step::Feedback => of(Some(-10.0), None, Some(-40.0)),
        // "We did not observe any significant change in visual latency" (section V.E).
        Step::Synchronous => of(Some(0.0), None, None),
    }
}

/// Why ours differs.
pub(crate) fn reason(step: Step) -> &'static str {
    match step {
        Step::OtherProcess => {
            "The paper's baseline reads a GPU's frame buffer, converts on the CPU, and sends by RTP over a real card; here all memory is the \
             machine's own and the cable is virtual."
        }
        Step::InProcess => {
            "What is saved is two copies through the X server, its turn on the processor and the wake-up of another process; there is no \
             transfer from a GPU in it."
        }
        Step::NoConversion => {
            "One conversion by vector instructions is all there is to save; theirs went through general library code and moved the picture \
             between GPU and host once more. Ours keeps 4:2:0, so that no bits are added."
        }
        Step::Batched => {
            "The paper has no such step: UDP with segmentation offload saves the calls that raw frames save."
        }
        Step::LinkLayer => {
            "Their 13.7 ms include RTP's packetization and pacing in user space and a card's driver; the kernel's UDP and IP themselves \
             take microseconds for a frame."
        }
        Step::PeerToPeer => {
            "One of two passes over the channel is saved in both; how long a pass takes depends on the rate and on who else sends."
        }
        Step::Feedback => {
            "A report of 24 bytes for each frame costs a system call on either side; its worth shows only under loss."
        }
        Step::Synchronous => {
            "The wake-up of the encoding thread is saved; as in the paper, latency hardly changes, and the program must wait for the encoder."
        }
    }
}
