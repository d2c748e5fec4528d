use super::*;

#[test]
fn every_packet_is_covered_once_and_neighbours_by_different_repairs() {
    for (packets, repairs) in [(1, 1), (2, 1), (5, 2), (10, 3), (109, 22), (110, 7), (300, 60), (501, 499), (7, 7)] {
        let groups = ParityGroups::new(packets, repairs);
        let mut covered: Vec<u16> = Vec::new();
        for repair in 0..repairs {
            let own: Vec<u16> = groups.covered(repair).collect();
            assert!(own[own.len() - 1] - own[0] < MAX_SPAN, "{packets}, {repairs}: {own:?}");
            assert!(own.iter().all(|index| groups.repair_of(*index).is_some()));
            covered.extend(own.into_iter().filter(|index| groups.repair_of(*index) == Some(repair)));
        }
        covered.sort_unstable();
        assert_eq!(covered, (0..packets).collect::<Vec<_>>(), "{packets}, {repairs}");
        let burst = (0..repairs.min(packets)).take(usize::from(repairs / packets.div_ceil(MAX_SPAN)));
        let mut recovered: Vec<_> = burst.map(|index| groups.repair_of(index)).collect();
        recovered.dedup();
        assert_eq!(recovered.len(), usize::from(repairs / packets.div_ceil(MAX_SPAN)).min(usize::from(packets)));
    }
    let scarce = ParityGroups::new(500, 3);
    assert!((0..3).all(|repair| scarce.covered(repair).count() == 100), "two of five runs have none");
    assert_eq!(ParityGroups::new(9, 0).repair_of(3), None);
    assert_eq!(ParityGroups::new(0, 0).repair_of(0), None);
    assert_eq!(ParityGroups::new(2, 4).covered(3).collect::<Vec<_>>(), [1], "more repairs than packets repeat them");
}
