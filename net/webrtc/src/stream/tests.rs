use super::*;

const CONFIG: StreamConfig = StreamConfig {
    ssrc: 7,
    payload_type: 109,
    clock_rate: 90_000,
    retransmission: Some((8, 114)),
    repair: Some((9, 49)),
    transport_wide: Some(4),
    send_time: None,
    playout_delay: Some(6),
};

fn stream() -> Stream {
    Stream::new(CONFIG, InitialValues { number: 0x7fff, retransmission: 5, repair: 0xFFFF, timestamp: 1_000 })
}

#[test]
fn packets_carry_numbers_timestamps_extensions_and_the_marker() {
    let mut stream = stream();
    stream.on_frame(FrameId(0), ParityGroups::new(2, 0), 77);
    stream.on_frame(FrameId(1), ParityGroups::new(1, 0), 78);
    let packet = stream.piece(FrameId(0), 1, PacketSeq(0x1_0002), &[1, 2]).expect("remembered");
    let Header { sequence_number, timestamp, ssrc, payload_type, marker, .. } = packet.header;
    assert_eq!((sequence_number, timestamp, ssrc, payload_type, marker), (0x8000, 77, 7, 109, true));
    assert_eq!(packet.header.get_extension(4).as_deref(), Some(&[0, 2][..]));
    assert_eq!(packet.header.get_extension(6).as_deref(), Some(&[0, 0, 0][..]));
    let first = stream.piece(FrameId(0), 0, PacketSeq(3), &[]).expect("remembered");
    assert!(!first.header.marker);
    assert!(stream.piece(FrameId(9), 0, PacketSeq(4), &[]).is_none());
    assert!(stream.is_last(FrameId(1), 0) && !stream.is_last(FrameId(0), 0));
}

#[test]
fn the_overhead_covers_what_is_written() {
    use rtc::shared::marshal::MarshalSize as _;
    for taken in 0..8 {
        let of = |bit: u8, id: u8| (taken & bit != 0).then_some(id);
        let config = StreamConfig { transport_wide: of(1, 4), send_time: of(2, 3), playout_delay: of(4, 6), ..CONFIG };
        let mut stream = Stream::new(config, InitialValues::default());
        stream.on_frame(FrameId(0), ParityGroups::new(1, 0), 0);
        let mut packet = stream.piece(FrameId(0), 0, PacketSeq(0), &[0; 100]).expect("remembered");
        stream.stamp(Time::from_secs(1), &mut packet);
        assert_eq!(packet.marshal_size() + 16, 100 + usize::from(stream.overhead()), "{taken}");
    }
}

#[test]
fn the_time_of_sending_wraps_after_64_seconds() {
    let stream = Stream::new(StreamConfig { send_time: Some(3), ..CONFIG }, InitialValues::default());
    for (millis, ticks) in [(0, [0, 0, 0]), (1_500, [6, 0, 0]), (64_000, [0, 0, 0]), (63_999, [0xFF, 0xFE, 0xF9])] {
        let mut packet = Packet::default();
        stream.stamp(Time::from_millis(millis), &mut packet);
        assert_eq!(packet.header.get_extension(3).as_deref(), Some(&ticks[..]), "{millis} ms");
    }
}

#[test]
fn repairs_have_a_source_of_their_own_and_the_frame_s_time() {
    let mut stream = stream();
    stream.on_frame(FrameId(0), ParityGroups::new(4, 2), 77);
    let packets: Vec<Packet> = (0..4)
        .map(|index| {
            let packet = stream.piece(FrameId(0), index, PacketSeq(40 + u32::from(index)), &[index as u8; 9]);
            let packet = packet.expect("remembered");
            stream.protect(FrameId(0), index, &packet);
            packet
        })
        .collect();
    let repair = stream.repair(FrameId(0), 0, PacketSeq(44)).expect("its packets have left");
    let Header { sequence_number, timestamp, ssrc, payload_type, marker, .. } = repair.header;
    assert_eq!((sequence_number, timestamp, ssrc, payload_type, marker), (0xFFFF, 77, 9, 49, false));
    assert_eq!(repair.header.get_extension(4).as_deref(), Some(&[0, 44][..]));
    // Both ends take the transport-wide number for zero: it is not known yet when a repair is generated, nor when it is used.
    let mut decoder = rtc::interceptor::FlexFec03Decoder::new(9, 7);
    let unnumbered = |packet: &Packet| {
        let mut packet = packet.clone();
        packet.header.set_extension(4, Bytes::from_static(&[0, 0])).expect("a small identifier");
        packet
    };
    assert!(decoder.decode(unnumbered(&packets[0])).is_empty());
    assert_eq!(decoder.decode(repair), [unnumbered(&packets[2])]);
    assert_eq!(stream.repair(FrameId(0), 1, PacketSeq(45)).map(|repair| repair.header.sequence_number), Some(0));
    assert_eq!(stream.repair(FrameId(0), 2, PacketSeq(46)), None);
    assert_eq!(stream.repair(FrameId(1), 0, PacketSeq(46)), None);
}

#[test]
fn the_largest_repair_covers_what_is_written() {
    use rtc::shared::marshal::MarshalSize as _;
    for (transport_wide, playout_delay) in [(None, None), (Some(4), None), (None, Some(6)), (Some(4), Some(6))] {
        let mut stream =
            Stream::new(StreamConfig { transport_wide, playout_delay, ..CONFIG }, InitialValues::default());
        stream.on_frame(FrameId(0), ParityGroups::new(100, 1), 0);
        for index in 0..100 {
            let packet = stream.piece(FrameId(0), index, PacketSeq(0), &[0; 100]).expect("remembered");
            stream.protect(FrameId(0), index, &packet);
        }
        let repair = stream.repair(FrameId(0), 0, PacketSeq(0)).expect("its packets have left");
        assert_eq!(Some(repair.marshal_size() + 16 - 100), stream.repair_overhead().map(usize::from));
    }
    let stream = Stream::new(StreamConfig { repair: None, ..CONFIG }, InitialValues::default());
    assert_eq!(stream.repair_overhead(), None);
}

#[test]
fn retransmissions_name_the_original() {
    let mut stream = stream();
    stream.on_frame(FrameId(0), ParityGroups::new(1, 0), 77);
    let packet = stream.piece(FrameId(0), 0, PacketSeq(1), &[9]).expect("remembered");
    let again = stream.again(packet.clone());
    assert_eq!(again.payload[..], [0x7f, 0xff, 9]);
    assert_eq!((again.header.ssrc, again.header.payload_type, again.header.sequence_number), (8, 114, 5));
    assert_eq!(stream.again(packet.clone()).header.sequence_number, 6);
    let mut plain = Stream::new(StreamConfig { retransmission: None, ..CONFIG }, InitialValues::default());
    assert_eq!(plain.again(packet.clone()), packet);
}

#[test]
fn what_fills_the_path_is_the_largest_packet_of_the_newest_frame() {
    let mut stream = stream();
    assert!(stream.filling(PacketSeq(0)).is_none(), "nothing has been sent");
    for (frame, sizes) in [(0, vec![900, 800]), (1, vec![300, 500, 400])] {
        stream.on_frame(FrameId(frame), ParityGroups::new(sizes.len() as u16, 0), 100 + frame);
        for (index, size) in sizes.into_iter().enumerate() {
            let packet = stream.piece(FrameId(frame), index as u16, PacketSeq(0), &vec![1; size]).expect("remembered");
            stream.on_sent(Time::ZERO, &packet);
        }
    }
    let filling = stream.filling(PacketSeq(0x0102)).expect("something has been sent");
    assert_eq!((filling.payload.len(), filling.header.ssrc), (502, 8));
    assert_eq!(filling.header.get_extension(4).as_deref(), Some(&[1, 2][..]));
}

#[test]
fn missing_numbers_are_pieces_of_frames() {
    let mut stream = stream();
    stream.on_frame(FrameId(0), ParityGroups::new(3, 0), 0);
    stream.on_frame(FrameId(1), ParityGroups::new(2, 0), 0);
    let numbers = [0x7fff_u16, 0x8000, 0x8002, 0x8003, 0x8004, 0x0001, 0x7ffe];
    let missing = stream.missing(numbers.into_iter()).missing;
    let expected =
        [(0, 0, 2), (1, 0, 2)].map(|(frame, first, count)| MissingRun { frame: FrameId(frame), first, count });
    assert_eq!(missing, expected);
    // Far more than a message holds, and still bounded.
    let many = std::iter::repeat_n([0x7fff, 0x8001], 1_000).flatten();
    assert_eq!(stream.missing(many).missing.len(), MAX_NACK_ENTRIES);
}

#[test]
fn numbers_wrap_like_the_clients() {
    let mut stream = stream();
    for frame in 0..40_000 {
        stream.on_frame(FrameId(frame), ParityGroups::new(2, 0), 0);
    }
    let number = stream.piece(FrameId(39_999), 1, PacketSeq(0), &[]).expect("the newest").header.sequence_number;
    assert_eq!(number, (0x7fff_u32 + 79_999) as u16);
    let missing = stream.missing(std::iter::once(number)).missing;
    assert_eq!(missing, [MissingRun { frame: FrameId(39_999), first: 1, count: 1 }]);
}

#[test]
fn reports_leave_twice_a_second_and_tell_the_round_trip_when_they_come_back() {
    let mut stream = stream();
    assert_eq!(stream.report_due(), None);
    stream.on_frame(FrameId(0), ParityGroups::new(1, 0), 1_234);
    let packet = stream.piece(FrameId(0), 0, PacketSeq(0), &[0; 50]).expect("remembered");
    stream.on_sent(Time::from_millis(100), &packet);
    let report = stream.poll_report(Time::from_millis(110)).expect("the first is due at once");
    assert_eq!((report.ssrc, report.packet_count, report.octet_count), (7, 1, 50));
    assert_eq!(report.rtp_time, 1_234 + 900, "10 ms after the newest packet");
    assert_eq!(stream.poll_report(Time::from_millis(600)), None);
    assert!(stream.poll_report(Time::from_millis(610)).is_some());
    // The client held it for 40 ms of the 65.
    let last = (report.ntp_time >> 16) as u32;
    let trip = round_trip(Time::from_millis(175), last, 65_536 * 40 / 1_000).expect("plausible");
    assert!((trip - Span::from_millis(25)).abs() < Span::from_micros(50), "{trip}");
    assert_eq!(round_trip(Time::from_millis(175), 0, 0), None, "it has had none");
    assert_eq!(round_trip(Time::from_millis(175), last, 65_536), None, "longer than the time since");
}
