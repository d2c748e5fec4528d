use super::*;

/// Chromium's offer to receive, shortened to what matters.
const CHROMIUM: &str = "v=0\r\no=- 4611731400430051336 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0 1\r\n\
a=extmap-allow-mixed\r\na=msid-semantic: WMS\r\n\
m=video 9 UDP/TLS/RTP/SAVPF 96 97 103 104 107 108 109 114 115\r\nc=IN IP4 0.0.0.0\r\na=rtcp:9 IN IP4 0.0.0.0\r\n\
a=ice-ufrag:abcd\r\na=ice-pwd:0123456789012345678901\r\na=ice-options:trickle\r\n\
a=fingerprint:sha-256 11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:\
11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff:00\r\na=setup:actpass\r\na=mid:0\r\n\
a=extmap:4 http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01\r\na=recvonly\r\na=rtcp-mux\r\n\
a=rtpmap:96 VP8/90000\r\na=rtcp-fb:96 transport-cc\r\na=rtpmap:97 rtx/90000\r\na=fmtp:97 apt=96\r\n\
a=rtpmap:103 H264/90000\r\na=fmtp:103 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42001f\r\n\
a=rtpmap:104 rtx/90000\r\na=fmtp:104 apt=103\r\n\
a=rtpmap:107 H264/90000\r\na=fmtp:107 level-asymmetry-allowed=1;packetization-mode=0;profile-level-id=42e01f\r\n\
a=rtpmap:108 rtx/90000\r\na=fmtp:108 apt=107\r\n\
a=rtpmap:109 H264/90000\r\na=fmtp:109 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f\r\n\
a=rtpmap:114 rtx/90000\r\na=fmtp:114 apt=109\r\na=rtpmap:115 AV1/90000\r\n\
m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=mid:1\r\na=sctp-port:5000\r\n";

/// Its certificate's hash.
const HASH: &str = "a=fingerprint:sha-256 11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:\
11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff:00\r\n";

const SOUND: &str = "m=audio 9 UDP/TLS/RTP/SAVPF 111 0\r\nc=IN IP4 0.0.0.0\r\na=mid:2\r\na=recvonly\r\na=rtcp-mux\r\n\
a=rtpmap:111 opus/48000/2\r\na=fmtp:111 minptime=10;useinbandfec=1\r\na=rtpmap:0 PCMU/8000\r\n";

/// [`CHROMIUM`] with the formats that we use.
fn used() -> String {
    let is_used = |line: &&str| {
        let number = ["a=rtpmap:", "a=fmtp:", "a=rtcp-fb:"].iter().find_map(|name| line.strip_prefix(name));
        number.is_none_or(|rest| ["96", "97", "109", "114"].contains(&rest.split(' ').next().expect("a word")))
    };
    let lines: String = CHROMIUM.split_inclusive('\n').filter(is_used).collect();
    lines.replace("96 97 103 104 107 108 109 114 115", "96 97 109 114")
}

/// [`SOUND`] with Opus alone.
fn used_sound() -> String {
    SOUND.replace("111 0", "111").replace("a=rtpmap:0 PCMU/8000\r\n", "")
}

#[test]
fn codecs_are_found_with_their_best_profile_and_their_retransmissions() {
    let offer = Offer::parse(CHROMIUM).expect("a browser's offer");
    let found: Vec<(CodecKind, u8, Option<u8>)> =
        offer.video().iter().map(|offered| (offered.codec, offered.payload_type, offered.retransmission)).collect();
    assert_eq!(found, [(CodecKind::Vp8, 96, Some(97)), (CodecKind::H264, 109, Some(114))]);
    assert!(offer.video()[1].parameters.contains("42e01f"));
    assert!(!offer.wants_sound());
    assert_eq!(offer.sdp(), used());
    let trickled = CHROMIUM.replace("a=mid:0\r\n", "a=mid:0\r\na=candidate:1 1 udp 1 192.0.2.7 99 typ host\r\n");
    assert_eq!(Offer::parse(&trickled).expect("with an address").sdp(), used(), "nobody is sent to");
    let offer = Offer::parse(&format!("{CHROMIUM}{SOUND}")).expect("with sound");
    assert_eq!(offer.sound(), Some(&(111, "minptime=10;useinbandfec=1".into())));
    assert_eq!(Offer::name_in(CHROMIUM), Some("abcd"));
}

#[test]
fn of_bundled_sections_the_first_one_s_transport_counts() {
    let own = format!("a=ice-ufrag:efgh\r\na=ice-pwd:3456789012345678901234\r\n{HASH}");
    let sound = SOUND.replace("a=mid:2\r\n", &format!("a=mid:2\r\n{own}"));
    let bundled = format!("{CHROMIUM}{sound}").replace("BUNDLE 0 1", "BUNDLE 0 1 2");
    let offer = Offer::parse(&bundled).expect("as clients offer that can do without bundling");
    assert_eq!(offer.sdp(), format!("{}{}", used(), used_sound()).replace("BUNDLE 0 1", "BUNDLE 0 1 2"));
    let apart = format!("{CHROMIUM}{sound}");
    let useful = format!("{}{}", used(), used_sound().replace("a=mid:2\r\n", &format!("a=mid:2\r\n{own}")));
    assert_eq!(Offer::parse(&apart).expect("an offer").sdp(), useful, "what is not bundled stays as it is");
}

#[test]
fn reports_by_each_stream_s_numbers_are_agreed_to_where_there_are_no_better_ones() {
    assert!(!Offer::parse(CHROMIUM).expect("an offer").reports_per_stream());
    let both =
        CHROMIUM.replace("a=rtcp-fb:96 transport-cc\r\n", "a=rtcp-fb:96 transport-cc\r\na=rtcp-fb:* ack ccfb\r\n");
    assert!(!Offer::parse(&both).expect("an offer").reports_per_stream());
    let alone = CHROMIUM.replace("a=rtcp-fb:96 transport-cc\r\n", "a=rtcp-fb:* ack ccfb\r\n");
    let offer = Offer::parse(&alone).expect("an offer");
    assert!(offer.reports_per_stream());
    let answer = "v=0\r\nm=video 9 x 96\r\na=mid:0\r\na=sendonly\r\nm=application 9 x y\r\na=mid:1\r\n";
    assert_eq!(offer.with_consent(answer), answer.replace("mid:0\r\n", "mid:0\r\na=rtcp-fb:* ack ccfb\r\n"));
}

#[test]
fn repairs_are_taken_under_the_name_that_browsers_give_them() {
    assert_eq!(Offer::parse(CHROMIUM).expect("an offer").repairs(), None);
    let with = |name: &str| {
        let lines = format!("a=rtpmap:49 {name}/90000\r\na=fmtp:49 repair-window=10000000\r\na=rtpmap:115");
        CHROMIUM.replace("114 115", "114 115 49").replace("a=rtpmap:115", &lines)
    };
    let offer = Offer::parse(&with("flexfec-03")).expect("an offer");
    assert_eq!(offer.repairs(), Some(&(49, "repair-window=10000000".into())));
    assert_eq!(offer.video().len(), 2);
    assert_eq!(Offer::parse(&with("flexfec")).expect("an offer").repairs(), None, "RFC 8627 is another format");
}

#[test]
fn an_offer_without_pictures_is_one() {
    let data = CHROMIUM.replace("m=video", "m=audio");
    let offer = Offer::parse(&data).expect("sections of another kind");
    assert_eq!((offer.video(), offer.wants_sound()), (&[][..], false));
}

#[test]
fn malformed_offers_are_refused_with_the_reason() {
    let long = format!("{CHROMIUM}a={}\r\n", "x".repeat(5_000));
    let many = format!("{CHROMIUM}{}", "a=x\r\n".repeat(3_000));
    let sections = format!("{CHROMIUM}{}", SOUND.repeat(8));
    let hash = |hash: &str| CHROMIUM.replace(HASH, &format!("a=fingerprint:{hash}\r\n"));
    let role = |role: &str| CHROMIUM.replace("a=setup:actpass", &format!("a=setup:{role}"));
    let table = [
        (String::new(), "v=0"),
        ("hello".into(), "x=value"),
        ("{\"sdp\": 1}".into(), "x=value"),
        ("v=0\r\n".into(), "origin"),
        (CHROMIUM.replacen("v=0", "v=1", 1), "v=0"),
        (CHROMIUM.replace("t=0 0\r\n", ""), "time"),
        (CHROMIUM.replace("a=mid:0\r\n", ""), "a=mid"),
        (CHROMIUM.replace("a=mid:0", &format!("a=mid:{}", "0".repeat(40))), "a=mid"),
        (CHROMIUM.replace("a=ice-ufrag:abcd\r\n", ""), "ICE"),
        (CHROMIUM.replace("a=ice-ufrag:abcd", "a=ice-ufrag:a"), "ICE name"),
        (CHROMIUM.replace("a=ice-ufrag:abcd", "a=ice-ufrag:ab:cd"), "ICE name"),
        (CHROMIUM.replace("0123456789012345678901", "1"), "password"),
        (hash(""), "certificate"),
        (hash("sha-999 11:22"), "certificate"),
        (hash("sha-256 11:22:33:44:55:66:77:88:99:AA:BB:CC"), "32 bytes"),
        (hash(&HASH[14..].replace('A', "G")), "32 bytes"),
        (role("zzz"), "a=setup"),
        (role("holdconn"), "a=setup"),
        (role("passive"), "a=setup"),
        (CHROMIUM.replace("a=rtcp-mux\r\n", ""), "a=rtcp-mux"),
        (CHROMIUM.replace("UDP/TLS/RTP/SAVPF", "RTP/AVP"), "protocol"),
        (CHROMIUM.replace("UDP/DTLS/SCTP", "UDP/SCTP"), "protocol"),
        (CHROMIUM.replace("m=video 9", "m=video 0"), "port 0"),
        (CHROMIUM.replace("a=mid:1", "a=mid:0"), "same a=mid"),
        (CHROMIUM.replace("a=extmap:4 ", "a=extmap:99999999999 "), "a=extmap"),
        (CHROMIUM.replace("o=- 4611731400430051336 2 IN IP4 127.0.0.1", "o=junk"), "o="),
        (CHROMIUM.replace("t=0 0", "t=now"), "t="),
        (CHROMIUM.replace("m=video 9", "m=video nine"), "first line"),
        (CHROMIUM.replace("m=video", "m=hologram"), "neither"),
        (sections, "too many"),
        (CHROMIUM[..CHROMIUM.find("m=").expect("there is one")].into(), "no sections"),
    ];
    for (text, reason) in table.into_iter().chain([(long, "too long"), (many, "too many lines")]) {
        let error = Offer::parse(&text).expect_err(&text).to_string();
        assert!(error.contains(reason), "`{error}` does not say `{reason}`");
    }
    assert_eq!(Offer::parse(&"v".repeat(MAX_SDP_BYTES + 1)), Err(OfferError::TooLong(MAX_SDP_BYTES + 1)));
}

#[test]
fn only_sections_that_take_something_are_sent_something() {
    let both = format!("{CHROMIUM}{SOUND}");
    for direction in ["sendonly", "inactive"] {
        let offer = Offer::parse(&both.replace("recvonly", direction)).expect("an offer, if of little");
        assert_eq!((offer.video(), offer.wants_sound()), (&[][..], false), "{direction}");
        assert!(!offer.reports_arrivals());
    }
    let later = both.replace("m=audio 9", "m=audio 0").replace("a=mid:2", "a=mid:2\r\na=bundle-only");
    assert!(Offer::parse(&later).expect("its port is the bundle's").wants_sound());
    let answer = both.replace("m=audio 9", "m=audio 0").replace("actpass", "active");
    assert!(!Offer::parse_answer(&answer).expect("sound is turned down").wants_sound());
    assert!(Offer::parse_answer(&both).is_err(), "an answer says who begins");
}

#[test]
fn of_several_hashes_the_library_sees_the_one_it_compares() {
    let more = format!("a=fingerprint:sha-512 00:11\r\n{HASH}a=fingerprint:sha-384 22:33\r\n");
    assert_eq!(Offer::parse(&CHROMIUM.replace(HASH, &more)).expect("an offer").sdp(), used());
}

#[test]
fn payload_types_that_are_none_are_not_looked_at() {
    let text = CHROMIUM
        .replace("96 97", "96 97 300 -1 x 200")
        .replace("a=rtpmap:115", "a=rtpmap:200 VP8/90000\r\na=rtpmap:115");
    let offer = Offer::parse(&text).expect("the others are well");
    assert_eq!(offer.video().len(), 2);
}

/// Each format, repeated or not, made the parser read all formats and lines again, and the library all lines: minutes for one offer.
#[test]
fn an_offer_of_many_formats_costs_no_more_than_its_lines() {
    let all: Vec<String> = (0..128).map(|number| number.to_string()).collect();
    let numbers = format!("{} {}", all.join(" "), "96 ".repeat(1_000).trim_end());
    let formats: Vec<String> = all.iter().map(|number| format!("a=rtpmap:{number} VP8/90000\r\n")).collect();
    let feedback = "a=rtcp-fb:99 nack\r\n".repeat(1_800);
    let text = CHROMIUM
        .replace("96 97 103 104 107 108 109 114 115", &numbers)
        .replace("a=rtpmap:96", &format!("{}{feedback}a=rtpmap:96", formats.concat()));
    assert!(text.len() < MAX_SDP_BYTES);
    let offer = Offer::parse(&text).expect("an odd one");
    assert_eq!(offer.video().iter().map(|offered| offered.payload_type).collect::<Vec<_>>(), [0]);
    assert!(offer.sdp().contains("m=video 9 UDP/TLS/RTP/SAVPF 0\r\n"), "{}", offer.sdp());
    assert!(offer.sdp().len() < CHROMIUM.len(), "{}", offer.sdp());
}

#[test]
fn a_section_without_a_format_of_ours_keeps_its_first_one() {
    let others = CHROMIUM.replace("VP8", "VP9").replace("H264", "H265");
    let offer = Offer::parse(&others).expect("an offer");
    assert_eq!(offer.video(), []);
    assert!(offer.sdp().contains("SAVPF 96\r\n") && offer.sdp().contains("a=rtpmap:96 VP9/90000\r\n"));
}

/// The library leaves sections without a direction out of its answer.
#[test]
fn a_section_without_a_direction_sends_and_receives_or_does_as_the_session() {
    let silent = format!("{CHROMIUM}{SOUND}").replace("a=recvonly\r\n", "");
    let session = |direction: &str| silent.replace("t=0 0\r\n", &format!("t=0 0\r\na={direction}\r\n"));
    for (text, added, wanted) in [
        (silent.clone(), "sendrecv", true),
        (session("recvonly"), "recvonly", true),
        (session("sendonly"), "sendonly", false),
    ] {
        let offer = Offer::parse(&text).expect("an offer");
        assert_eq!((!offer.video().is_empty(), offer.wants_sound()), (wanted, wanted), "{text}");
        let sections: Vec<&str> = offer.sdp().split("m=").skip(1).collect();
        let ends = |section: &str| section.ends_with(&format!("\r\na={added}\r\n"));
        assert_eq!(sections.iter().map(|section| ends(section)).collect::<Vec<_>>(), [true, false, true], "{text}");
    }
}
