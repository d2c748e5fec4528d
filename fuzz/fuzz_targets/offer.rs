#![no_main]

mod webrtc;

use std::sync::LazyLock;

use nearlight_units::Time;
use nearlight_webrtc::player::Player;
use nearlight_webrtc::{CodecKind, Offer, Peer};
use webrtc::{ORIGIN, client, config, sender};

const NOW: Time = Time::from_millis(1_000);

/// What a client would offer.
static OFFER: LazyLock<String> =
    LazyLock::new(|| of_fixed_length(&Player::new(NOW, *ORIGIN, client(), true).expect("an offer").1));
/// What a client that opens its channel first would offer, and then answer to the server's offer of pictures.
static CHANNEL: LazyLock<(Offer, String)> = LazyLock::new(|| {
    let (mut player, offer) = Player::without_media(NOW, *ORIGIN, client()).expect("an offer");
    let offer = Offer::parse(&offer).expect("the library's offer is one");
    let mut peer = with_channel(&offer, |answer| player.on_answer(NOW, answer).expect("an answer of our own"));
    let pictures = peer.offer(NOW, true).expect("an offer of our own");
    (offer, of_fixed_length(&player.answer(NOW, &pictures).expect("an answer of the library's")))
});

// An offer or, where the first byte is odd, the answer to an offer of the server: either as it is, or as changes to a good one, each a place
// (two bytes), how many bytes go there (one) and what replaces them (up to a zero). What parses goes through the library.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let is_answer = kind % 2 == 1;
    let good = if is_answer { &CHANNEL.1 } else { &*OFFER };
    let text = if bytes.starts_with(b"v=") { bytes.to_vec() } else { changed(good.as_bytes(), bytes) };
    let text = String::from_utf8_lossy(&text);
    if is_answer {
        let Ok(answer) = Offer::parse_answer(&text) else { return };
        let mut peer = with_channel(&CHANNEL.0, |_| {});
        peer.offer(NOW, true).expect("an offer of our own");
        let _ = peer.on_answer(NOW, &answer);
    } else {
        let Ok(offer) = Offer::parse(&text) else { return };
        let Ok(mut peer) = Peer::answering(NOW, config(), &offer, offer.video().first(), sender(NOW)) else { return };
        if let Ok(answer) = peer.on_offer(NOW, &offer) {
            assert!(Offer::name_in(&answer).is_some(), "an answer has an ICE name");
        }
    }
});

/// With another origin, whose numbers are drawn and of any length: an input means the same each time.
fn of_fixed_length(description: &str) -> String {
    let line =
        |line: &str| if line.starts_with("o=") { "o=- 1 1 IN IP4 0.0.0.0\r\n".to_owned() } else { line.to_owned() };
    description.split_inclusive('\n').map(line).collect()
}

/// A server that has answered the offer of a channel and is about to offer pictures.
fn with_channel(offer: &Offer, on_answer: impl FnOnce(&str)) -> Peer {
    let codecs = [CodecKind::H264, CodecKind::Vp8];
    let mut peer = Peer::offering(NOW, config(), &codecs, true, sender(NOW)).expect("a peer of our own making");
    on_answer(&peer.on_offer(NOW, offer).expect("an answer"));
    peer
}

fn changed(whole: &[u8], mut changes: &[u8]) -> Vec<u8> {
    let mut text = whole.to_vec();
    while let [high, low, gone, rest @ ..] = changes {
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        let place = usize::from(u16::from_be_bytes([*high, *low])) % (text.len() + 1);
        let until = (place + usize::from(*gone)).min(text.len());
        text.splice(place..until, rest[..end].iter().copied());
        changes = rest.get(end + 1..).unwrap_or_default();
    }
    text
}
