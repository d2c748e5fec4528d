use bytes::Bytes;
use proptest::prelude::*;
use rtc::interceptor::FlexFec03Decoder;
use rtc::rtp::Header;
use rtc::rtp::packet::Packet;
use rtc::shared::marshal::Marshal as _;

use super::*;

const MEDIA: u32 = 0x1234_5678;
const REPAIR: u32 = 0x9ABC_DEF0;

/// A frame's packets: the same time, the marker on the last, an extension in each.
fn frame(first: u16, payloads: &[Vec<u8>]) -> Vec<Packet> {
    let number = |index: usize| first.wrapping_add(index as u16);
    let packetize = |(index, payload): (usize, &Vec<u8>)| {
        let mut header = Header {
            version: 2,
            payload_type: 109,
            sequence_number: number(index),
            timestamp: 3_000_000_007,
            ssrc: MEDIA,
            marker: index + 1 == payloads.len(),
            ..Header::default()
        };
        header.set_extension(6, Bytes::from_static(&[0, 1, 2])).expect("a small identifier");
        Packet { header, payload: Bytes::copy_from_slice(payload) }
    };
    payloads.iter().enumerate().map(packetize).collect()
}

fn bytes_of(packet: &Packet) -> Vec<u8> {
    packet.marshal().expect("a packet").to_vec()
}

fn repairs(packets: &[Packet], repairs: u16) -> (ParityGroups, Vec<Vec<u8>>) {
    let groups = ParityGroups::new(packets.len() as u16, repairs);
    let mut block = Block::new(MEDIA, packets[0].header.sequence_number, groups);
    packets.iter().zip(0..).for_each(|(packet, index)| block.add(index, &bytes_of(packet)));
    (groups, (0..repairs).map(|repair| block.payload(repair).expect("one of them")).collect())
}

/// A repair as the draft's receiver reads it: numbers that are covered, and the exclusive or of all.
struct Read {
    base: u16,
    offsets: Vec<u16>,
    parity: usize,
}

fn read(repair: &[u8]) -> Read {
    assert_eq!(repair[0] & 0xC0, 0, "neither a retransmission nor a fixed mask");
    assert_eq!(repair[8..16], [&[1, 0, 0, 0][..], &MEDIA.to_be_bytes()].concat());
    let base = u16::from_be_bytes([repair[16], repair[17]]);
    let (mut offsets, mut parity, mut offset) = (Vec::new(), 18, 0);
    for bytes in [2, 4, 8] {
        let word = &repair[parity..parity + bytes];
        for bit in 1..bytes * 8 {
            if word[bit / 8] & (0x80 >> (bit % 8)) != 0 {
                offsets.push(offset);
            }
            offset += 1;
        }
        parity += bytes;
        if word[0] & 0x80 != 0 {
            return Read { base, offsets, parity };
        }
    }
    panic!("no word of the mask is the last one");
}

/// Recovers packet `lost` of those that the repair covers.
fn recover(repair: &[u8], packets: &[Packet], lost: usize) -> Vec<u8> {
    let Read { base, offsets, parity } = read(repair);
    let first = packets[0].header.sequence_number;
    let (mut header, mut rest) = (repair[..8].to_vec(), repair[parity..].to_vec());
    for index in offsets.iter().map(|offset| usize::from(base.wrapping_add(*offset).wrapping_sub(first))) {
        if index == lost {
            continue;
        }
        let packet = bytes_of(&packets[index]);
        let length = ((packet.len() - 12) as u16).to_be_bytes();
        let fields = [&packet[..2], &length, &packet[4..8]].concat();
        header.iter_mut().zip(fields).for_each(|(sum, byte)| *sum ^= byte);
        rest.iter_mut().zip(&packet[12..]).for_each(|(sum, byte)| *sum ^= byte);
    }
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let number = packets[lost].header.sequence_number.to_be_bytes();
    let whole =
        [&[header[0] & 0x3F | 0x80, header[1]], &number[..], &header[4..8], &MEDIA.to_be_bytes(), &rest[..length]];
    whole.concat()
}

/// A repair in a packet of its own.
fn packet(number: u16, payload: &[u8]) -> Packet {
    let header = Header { version: 2, payload_type: 49, sequence_number: number, ssrc: REPAIR, ..Header::default() };
    Packet { header, payload: Bytes::copy_from_slice(payload) }
}

#[test]
fn the_header_is_as_the_draft_draws_it() {
    let packets = frame(0xFFFF, &[vec![1, 2, 3], vec![4], vec![5, 5]]);
    let (_, made) = repairs(&packets, 1);
    // Eight bytes of extensions before 3, 1 and 2 of payload.
    let rest = |payload: &[u8]| [&[0xBE, 0xDE, 0, 1, 0x62, 0, 1, 2][..], payload].concat();
    assert_eq!(bytes_of(&packets[0])[12..], rest(&[1, 2, 3]));
    // Version removed, extension bit of three; the marker of one, three times 109 (0x6D); 11 ^ 9 ^ 10.
    let fields = [0x10, 0x80 | 0x6D, 0, 8, 0xB2, 0xD0, 0x5E, 0x07];
    assert_eq!(made[0][..8], fields);
    assert_eq!(made[0][8..20], [1, 0, 0, 0, 0x12, 0x34, 0x56, 0x78, 0xFF, 0xFF, 0x80 | 0x70, 0]);
    assert_eq!(made[0][20..], rest(&[1 ^ 4 ^ 5, 2 ^ 5, 3]));
}

#[test]
fn the_mask_is_as_long_as_it_must_be() {
    for (packets, header) in [(1, 20), (15, 20), (16, 24), (46, 24), (47, 32), (109, 32)] {
        let packets = frame(9, &vec![vec![7; 10]; packets]);
        let (_, made) = repairs(&packets, 1);
        assert_eq!(read(&made[0]).parity, header);
        assert_eq!(read(&made[0]).offsets.len(), packets.len());
        assert!(header <= usize::from(MAX_HEADER_BYTES));
    }
}

#[test]
fn the_largest_packet_fits_behind_the_longest_header() {
    let packets = frame(1, &vec![vec![0xA5; 1_140]; 109]);
    let (_, made) = repairs(&packets, 1);
    assert_eq!(made[0].len(), usize::from(MAX_HEADER_BYTES) + bytes_of(&packets[0]).len() - RTP_HEADER);
}

#[test]
fn what_is_no_packet_changes_nothing() {
    let groups = ParityGroups::new(3, 1);
    let mut block = Block::new(MEDIA, 1, groups);
    block.add(0, &[1, 2, 3]);
    block.add(7, &[0; 40]);
    assert_eq!(block.payload(0).expect("the only one")[..8], [0; 8]);
    assert_eq!(block.payload(1), None);
}

fn payloads(packets: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), packets)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_one_loss_of_each_group_comes_back_to_the_byte(
        payloads in payloads(1..260), first: u16, share in 1_u16..100, picks in proptest::collection::vec(any::<prop::sample::Index>(), 260),
    ) {
        let packets = frame(first, &payloads);
        let count = (packets.len() as u16 * share).div_ceil(100);
        let (groups, made) = repairs(&packets, count);
        for (repair, payload) in (0..count).zip(&made) {
            let covered: Vec<u16> = groups.covered(repair).collect();
            let Read { base, offsets, .. } = read(payload);
            let named: Vec<u16> = offsets.iter().map(|offset| base.wrapping_add(*offset).wrapping_sub(first)).collect();
            prop_assert_eq!(&named, &covered);
            let lost = usize::from(covered[picks[usize::from(repair)].index(covered.len())]);
            prop_assert_eq!(recover(payload, &packets, lost), bytes_of(&packets[lost]));
        }
    }

    #[test]
    fn another_library_s_decoder_finds_the_same(
        payloads in payloads(2..100), first: u16, count in 1_u16..12, picks in proptest::collection::vec(any::<prop::sample::Index>(), 12),
    ) {
        let packets = frame(first, &payloads);
        let count = count.min(packets.len() as u16);
        let (groups, made) = repairs(&packets, count);
        let lost: Vec<usize> = (0..count).map(|repair| {
            let covered: Vec<u16> = groups.covered(repair).collect();
            usize::from(covered[picks[usize::from(repair)].index(covered.len())])
        }).collect();
        let mut decoder = FlexFec03Decoder::new(REPAIR, MEDIA);
        let arrive = packets.iter().enumerate().filter(|(index, _)| !lost.contains(index));
        for (_, packet) in arrive {
            prop_assert!(decoder.decode(packet.clone()).is_empty());
        }
        for (repair, payload) in made.iter().enumerate() {
            let found = decoder.decode(packet(repair as u16, payload));
            prop_assert_eq!(found.len(), 1);
            prop_assert_eq!(&found[0], &packets[lost[repair]]);
        }
    }
}
