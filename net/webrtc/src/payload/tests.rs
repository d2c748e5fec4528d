use proptest::prelude::*;

use super::*;

/// Annex B of these units, each behind a start code of four bytes.
fn annex_b(units: &[Vec<u8>]) -> Vec<u8> {
    units.iter().flat_map(|unit| [&[0, 0, 0, 1], &unit[..]].concat()).collect()
}

fn parts(payloads: &Payloads) -> Vec<&[u8]> {
    let starts = std::iter::once(0).chain(payloads.ends.iter().copied());
    starts.zip(&payloads.ends).map(|(start, end)| &payloads.bytes[start as usize..*end as usize]).collect()
}

fn joined(codec: CodecKind, payloads: &Payloads) -> Vec<u8> {
    let mut depacketizer = depacketizer(codec);
    let parts = parts(payloads).into_iter().map(bytes::Bytes::copy_from_slice);
    let joined = parts.map(|part| depacketizer.depacketize(&part));
    joined.flat_map(|part| part.expect("a payload that others read")).collect()
}

#[test]
fn small_units_travel_together_and_large_ones_in_equal_parts() {
    let parameters = vec![vec![0x67, 1, 2], vec![0x68, 3]];
    let slice = vec![0x65; 2_500];
    let bits = annex_b(&[parameters.clone(), vec![slice.clone()]].concat());
    let payloads = Payloads::cut(CodecKind::H264, 0, &bits, 1_000);
    let sizes: Vec<usize> = parts(&payloads).iter().map(|part| part.len()).collect();
    // One aggregate, then three fragments whose two header bytes identify them.
    assert_eq!(sizes, [1 + 2 + 3 + 2 + 2, 835, 835, 835]);
    let heads: Vec<[u8; 2]> = parts(&payloads).iter().map(|part| [part[0], part[1]]).collect();
    assert_eq!(heads, [[0x78, 0], [0x7c, 0x85], [0x7c, 0x05], [0x7c, 0x45]]);
    assert_eq!(joined(CodecKind::H264, &payloads), bits);
}

#[test]
fn delimiters_filler_and_zeros_do_not_travel() {
    let mut bits = vec![0, 0, 0, 1, 0x09, 0xf0, 0, 0, 1, 0x65, 7, 7, 7, 0, 0, 0, 1, 0x0c, 0xff, 0x80];
    bits.extend([0, 0]);
    let payloads = Payloads::cut(CodecKind::H264, 0, &bits, 1_000);
    assert_eq!(parts(&payloads), [&[0x65, 7, 7, 7][..]]);
}

#[test]
fn nothing_is_one_empty_payload() {
    for codec in [CodecKind::H264, CodecKind::Vp8] {
        assert_eq!(Payloads::cut(codec, 0, &[], 1_000), Payloads { bytes: vec![], ends: vec![0] });
    }
}

#[test]
fn vp8_says_where_a_picture_begins_and_which_it_is() {
    let payloads = Payloads::cut(CodecKind::Vp8, 0x1234, &[9; 1_500], 1_000);
    let heads: Vec<&[u8]> = parts(&payloads).into_iter().map(|part| &part[..4]).collect();
    assert_eq!(heads, [[0x90, 0x80, 0x92, 0x34], [0x80, 0x80, 0x92, 0x34]]);
    assert_eq!(payloads.ends, [754, 1_508]);
}

proptest! {
    #[test]
    fn any_units_come_back_as_they_were(
        units in proptest::collection::vec((1_u8..24, proptest::collection::vec(1_u8.., 2..3_000)), 1..6),
        most in 200_usize..1_400,
    ) {
        // Without zeros there is no start code inside, and delimiters and filler would be skipped.
        let units: Vec<Vec<u8>> = units
            .into_iter()
            .filter(|(kind, _)| !matches!(*kind, ACCESS_UNIT_DELIMITER | FILLER))
            .map(|(kind, body)| [vec![0x60 | kind], body].concat())
            .collect();
        let bits = annex_b(&units);
        let payloads = Payloads::cut(CodecKind::H264, 0, &bits, most);
        prop_assert!(parts(&payloads).iter().all(|part| part.len() <= most));
        if !units.is_empty() {
            prop_assert_eq!(joined(CodecKind::H264, &payloads), bits);
        }
    }

    #[test]
    fn any_bytes_are_cut_within_bounds(bits in proptest::collection::vec(any::<u8>(), 1..5_000), most in 64_usize..1_400) {
        for codec in [CodecKind::H264, CodecKind::Vp8] {
            let payloads = Payloads::cut(codec, 7, &bits, most);
            prop_assert!(payloads.ends.is_sorted());
            prop_assert_eq!(payloads.ends.last().copied(), Some(payloads.bytes.len() as u32));
            prop_assert!(parts(&payloads).iter().all(|part| part.len() <= most));
        }
        prop_assert_eq!(joined(CodecKind::Vp8, &Payloads::cut(CodecKind::Vp8, 7, &bits, most)).len(), bits.len());
    }
}
