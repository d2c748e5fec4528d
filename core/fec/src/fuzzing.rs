//! Arbitrary symbols and repairs, honest and forged, for the fuzz target and a property test. The invariants: nothing panics, memory stays
//! within its limit, and no frame but the sender's is delivered if the digest is known.

use arbitrary::Arbitrary;
use nearlight_units::{Bytes, FrameId};

use crate::code::{Code, Encoder, MAX_WINDOW_FRAMES};
use crate::decoder::Decoder;
use crate::digest::digest;
use crate::kernel::Kernel;
use crate::window::{Coverage, Window};

/// Memory limit in bytes, so small that frames are dropped for want of memory.
const LIMIT: Bytes = Bytes::new(100_000);
/// Number of the honest sender's frames.
const FRAMES: u32 = 40;

/// Input that a receiver may get.
#[derive(Arbitrary, Clone, Debug)]
pub enum Operation {
    /// An honest symbol: a source, or a repair if the number is beyond the sources.
    Symbol {
        frame: u8,
        number: u8,
    },
    /// An honest repair of several frames.
    WindowRepair {
        newest: u8,
        cover: u8,
        number: u8,
    },
    /// Any bytes, for a frame that the sender may know otherwise.
    Forged {
        frame: u32,
        bytes: u32,
        sources: u16,
        number: u16,
        repair: bool,
        content: u8,
    },
    /// Any bytes that claim to cover frames.
    ForgedWindow {
        newest: u32,
        cover: u8,
        bytes: u16,
        sources: u8,
        number: u16,
        content: u8,
    },
    /// The caller has found that the frame's symbols are not the sender's.
    StartOver {
        frame: u8,
    },
    DropBefore {
        frame: u32,
    },
}

struct Sent {
    code: Code,
    bytes: Vec<u8>,
}

fn sent(frame: u32) -> Sent {
    let bytes: Vec<u8> = (0..=37 * frame % 900).map(|index| (index * 31 + frame * 7) as u8).collect();
    let sources = (frame % 9 + 1).min(bytes.len() as u32);
    let code = Code::new(FrameId(frame), bytes.len() as u32, sources as u16);
    let code = code.or_else(|_| Code::new(FrameId(frame), bytes.len() as u32, 1)).expect("one symbol always does");
    Sent { code, bytes }
}

/// Runs the operations on a fresh window. Panics if an invariant is violated.
pub fn window(operations: &[Operation]) {
    let frames: Vec<Sent> = (0..FRAMES).map(sent).collect();
    let mut window = Window::new(Kernel::best(), LIMIT);
    let mut encoder = Encoder::default();
    for operation in operations {
        apply(&mut window, &mut encoder, &frames, operation);
        while window.poll_completed().is_some() {}
        assert!(window.bytes() <= LIMIT, "{} are held", window.bytes().get());
        for sent in &frames {
            let decoder = window.decoder(sent.code.frame()).filter(|decoder| *decoder.code() == sent.code);
            let found = decoder.and_then(Decoder::frame);
            assert!(found.is_none_or(|found| found == sent.bytes), "a wrong frame {}", sent.code.frame());
        }
    }
}

// Every refusal is allowed here: forbidden effects show afterwards.
fn apply(window: &mut Window, encoder: &mut Encoder, frames: &[Sent], operation: &Operation) {
    match *operation {
        Operation::Symbol { frame, number } => {
            let Sent { code, bytes } = &frames[usize::from(frame) % frames.len()];
            let _ = window.set_digest(code, digest(bytes));
            let number = u16::from(number);
            let _ = if number < code.sources() {
                window.on_source(code, number, &bytes[code.range(number)])
            } else {
                let repair = number - code.sources();
                let mut symbol = vec![0; code.symbol_bytes()];
                encoder.repairs(code, bytes, repair..repair + 1, &mut symbol).expect("the frame of this code");
                window.on_repair(code, repair, &symbol)
            };
        }
        Operation::WindowRepair { newest, cover, number } => {
            let end = usize::from(newest) % frames.len() + 1;
            let covered = &frames[end.saturating_sub(usize::from(cover) % MAX_WINDOW_FRAMES + 1)..end];
            for Sent { code, bytes } in covered {
                let _ = window.set_digest(code, digest(bytes));
            }
            let codes: Vec<Code> = covered.iter().map(|sent| sent.code).collect();
            let pairs: Vec<(Code, &[u8])> = covered.iter().map(|sent| (sent.code, sent.bytes.as_slice())).collect();
            let mut symbol = vec![0; codes.iter().map(Code::symbol_bytes).max().unwrap_or(0)];
            let number = u16::from(number);
            encoder.window_repairs(&pairs, number..number + 1, &mut symbol).expect("consecutive frames");
            let _ = window.on_window_repair(&Coverage { codes: &codes, number }, &symbol);
        }
        Operation::Forged { frame, bytes, sources, number, repair, content } => {
            let Ok(code) = Code::new(FrameId(frame), bytes, sources) else { return };
            tell_digest(window, frames, &code);
            // A transport carries no longer ones.
            let symbol = vec![content; code.symbol_bytes().min(1_500)];
            let symbol = &symbol[..symbol.len().min(if repair { usize::MAX } else { code.range(number).len() })];
            let _ =
                if repair { window.on_repair(&code, number, symbol) } else { window.on_source(&code, number, symbol) };
        }
        Operation::ForgedWindow { newest, cover, bytes, sources, number, content } => {
            let first = newest.saturating_sub(u32::from(cover));
            let code = |frame| Code::new(FrameId(frame), u32::from(bytes), u16::from(sources)).ok();
            let codes: Vec<Code> = (first..=newest).filter_map(code).collect();
            for code in &codes {
                tell_digest(window, frames, code);
            }
            let symbol = vec![content; codes.first().map_or(0, Code::symbol_bytes)];
            let _ = window.on_window_repair(&Coverage { codes: &codes, number }, &symbol);
        }
        Operation::StartOver { frame } => {
            let Sent { code, bytes } = &frames[usize::from(frame) % frames.len()];
            window.start_over(code.frame(), digest(bytes));
        }
        Operation::DropBefore { frame } => window.drop_before(FrameId(frame)),
    }
}

/// Sets the digest: a forged symbol of a real frame is detected only if it is known.
fn tell_digest(window: &mut Window, frames: &[Sent], code: &Code) {
    if let Some(Sent { code, bytes }) = frames.iter().find(|sent| sent.code == *code) {
        let _ = window.set_digest(code, digest(bytes));
    }
}

#[cfg(test)]
mod tests {
    use arbitrary::Unstructured;
    use proptest::collection::vec;
    use proptest::prelude::{any, proptest};

    use super::*;

    proptest! {
        #[test]
        fn a_window_withstands_any_operations(bytes in vec(any::<u8>(), 0..2_000)) {
            // Left to itself, it would toss a coin before each operation whether it is the last.
            let mut source = Unstructured::new(&bytes);
            let next = || (!source.is_empty()).then(|| source.arbitrary().ok()).flatten();
            window(&std::iter::from_fn(next).collect::<Vec<Operation>>());
        }
    }
}
