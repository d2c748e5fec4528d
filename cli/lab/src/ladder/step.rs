//! The steps, from what `GamingAnywhere` does to all of OpenUVR's optimisations.

use serde::Serialize;

/// A step of the ladder: each adds an optimisation to the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The program shows its picture on an X server; another process is told of the change, fetches it through shared memory, converts it,
    /// encodes it and sends each packet by a system call of its own.
    OtherProcess,
    /// The picture is taken from the program's own memory.
    InProcess,
    /// The program draws into the encoder's own format.
    NoConversion,
    /// A frame's packets leave and arrive many in one system call (segmentation offload).
    Batched,
    /// Ethernet frames without IP and UDP, many in one system call.
    LinkLayer,
    /// The device is reached directly and not through an access point.
    PeerToPeer,
    /// The device reports after each frame, and the host looks for a request for a key frame before it encodes.
    Feedback,
    /// The program's own thread encodes and sends.
    Synchronous,
}

/// How packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Udp,
    Offload,
    Raw,
}

impl Step {
    /// All steps, in order.
    pub const ALL: [Self; 8] = [
        Self::OtherProcess,
        Self::InProcess,
        Self::NoConversion,
        Self::Batched,
        Self::LinkLayer,
        Self::PeerToPeer,
        Self::Feedback,
        Self::Synchronous,
    ];

    /// Runs in real time on this machine.
    pub(crate) fn is_live(self) -> bool {
        self != Self::PeerToPeer
    }

    pub(crate) fn converts(self) -> bool {
        self <= Self::InProcess
    }

    pub(crate) fn method(self) -> Method {
        match self {
            Self::OtherProcess | Self::InProcess | Self::NoConversion => Method::Udp,
            Self::Batched => Method::Offload,
            _ => Method::Raw,
        }
    }

    pub(crate) fn reports(self) -> bool {
        self >= Self::Feedback
    }

    /// Copies of the whole picture from the program's memory to the encoder's own, and of its bits from the encoder to the kernel and from
    /// the kernel to the decoder. A conversion counts as one; so does the encoder's copy into its padded input.
    pub(crate) fn copies(self) -> Copies {
        let pictures = match self {
            // To the X server, from it, converted, to the encoder.
            Self::OtherProcess => 4,
            Self::InProcess => 2,
            _ => 1,
        };
        // Out of the encoder, into packets, into the kernel; out of the kernel, into the frame.
        Copies { pictures, bits: 5 }
    }
}

/// See [`Step::copies`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Copies {
    pub(crate) pictures: u32,
    pub(crate) bits: u32,
}
