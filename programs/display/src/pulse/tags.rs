//! Checks that the values of a message are complete.
//!
//! The library that parses messages allocates the stated length of a byte string before it notices that the message is shorter. Messages
//! are self-describing, with a tag for each value, so the lengths are checked first.

use pulseaudio::protocol::FormatEncoding;

/// The last encoding that the parsing library knows; their numbers have no gaps.
const LAST_KNOWN_ENCODING: u8 = FormatEncoding::Mpeg2Iec61937 as u8;

/// Returns the number of bytes that follow a tag; `None` for an unknown tag.
fn length(tag: u8, rest: &[u8]) -> Option<usize> {
    Some(match tag {
        b't' => rest.iter().position(|byte| *byte == 0)? + 1,
        // Null string, booleans, and the beginnings of property lists and formats, whose values have their own tags.
        b'N' | b'0' | b'1' | b'P' | b'f' => 0,
        b'B' => 1,
        b'L' | b'V' => 4,
        b'R' | b'r' | b'T' | b'U' => 8,
        // Format, channels, rate.
        b'a' => 6,
        b'x' => usize::try_from(u32::from_be_bytes(*rest.first_chunk()?)).ok()?.checked_add(4)?,
        b'm' => 1 + usize::from(*rest.first()?),
        b'v' => 1 + 4 * usize::from(*rest.first()?),
        _ => return None,
    })
}

/// Returns whether the message consists of complete values.
pub(crate) fn are_complete(mut message: &[u8]) -> bool {
    while let Some((tag, rest)) = message.split_first() {
        let Some(left) = length(*tag, rest).and_then(|length| rest.get(length..)) else { return false };
        message = left;
    }
    true
}

/// Replaces encodings of formats that the parsing library does not know by one that it knows and the server does not support either.
/// Otherwise a single new encoding, which a player offers beside others, would make the whole message invalid.
pub(crate) fn replace_unknown_encodings(message: &mut [u8]) {
    let mut begin = 0;
    while let Some((tag, rest)) = message.get(begin..).and_then(<[u8]>::split_first) {
        let Some(end) = length(*tag, rest).map(|length| begin + 1 + length) else { return };
        if *tag == b'f'
            && let [b'B', encoding, ..] = &mut message[end..]
            && *encoding > LAST_KNOWN_ENCODING
        {
            *encoding = FormatEncoding::DtsIec61937 as u8;
        }
        begin = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_of_newer_clients_are_made_known_ones() {
        // Dolby TrueHD and DTS-HD, which came with PulseAudio 13, between PCM and a byte that is no encoding.
        let mut message = *b"fB\x01PNfB\x07PNfB\x08PNB\x09";
        replace_unknown_encodings(&mut message);
        assert_eq!(&message, b"fB\x01PNfB\x05PNfB\x05PNB\x09");
        for mut broken in [b"f".to_vec(), b"fB".to_vec(), b"ff".to_vec(), b"x\xff\xff\xff\xff".to_vec()] {
            replace_unknown_encodings(&mut broken);
        }
    }

    #[test]
    fn values_that_are_cut_off_or_promise_more_than_there_is_are_refused() {
        let good =
            b"L\0\0\0\x09tname\0Pta\0L\0\0\0\x02x\0\0\0\x02hiNa\x03\x02\0\0\xbb\x80m\x02\x01\x02v\x01\0\x01\0\0B\x011";
        assert!(are_complete(good));
        for end in [1, 3, 8, 25, 33] {
            assert!(!are_complete(&good[..end]), "{end}");
        }
        assert!(!are_complete(b"x\xff\xff\xff\xffabc"), "four gigabytes");
        assert!(!are_complete(b"?") && !are_complete(b"m\x20\0") && !are_complete(b"tendless"));
    }
}
