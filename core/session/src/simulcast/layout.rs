//! Divides viewers into layers by their rates.
//!
//! It divides the sorted rates into at most as many groups as there may be layers, and chooses the division with the greatest sum of
//! `ln(rate of the group / rate of the viewer)` over all viewers, minus [`LAYER_PRICE`] for each group and [`SWITCH_PRICE`] for each viewer
//! that would change its layer. A group's rate is its lowest. Rates that differ by less than a tenth count as equal, so the cost does not
//! grow with the number of viewers: there are at most about sixty different rates between 100 kb/s and 40 Mb/s, and two divisions among
//! them.

use nearlight_units::Bitrate;

use super::{MAX_LAYERS, MemberId};

/// Minimum gain of an encoder: for one viewer 1.65 times its rate, for ten viewers a twentieth more each. Guess.
const LAYER_PRICE: f64 = 0.5;
/// Minimum gain of a change for the viewer that makes it, which gets a key frame: a third more rate. Guess.
const SWITCH_PRICE: f64 = 0.3;
/// Resolution of rates: the logarithm of the ratio of two rates that count as different.
const LOG_RATE_STEP: f64 = 0.1;

/// A viewer to be assigned to a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) member: MemberId,
    pub(super) rate: Bitrate,
    pub(super) layer: Option<usize>,
}

/// A layer's viewers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub(super) rate: Bitrate,
    pub(super) members: Vec<MemberId>,
}

/// Viewers with about the same rate, with sums over them and all viewers with a lower one.
#[derive(Clone, Copy, Debug, Default)]
struct RateStep {
    /// The lowest rate of this step alone, as a logarithm.
    lowest: f64,
    count: f64,
    logs: f64,
    in_layer: [f64; MAX_LAYERS],
}

fn log(rate: Bitrate) -> f64 {
    (rate.as_bps().max(1) as f64).ln()
}

/// Returns the best layout in these layers, of which at most `most` are used: its value, and the group of each layer.
pub(super) fn best_layout(
    candidates: &[Candidate],
    layers: &[usize],
    most: usize,
) -> (f64, [Option<Group>; MAX_LAYERS]) {
    let mut sorted: Vec<&Candidate> = candidates.iter().collect();
    sorted.sort_by_key(|candidate| (candidate.rate, candidate.member));
    // Each step ends before the index at the same position.
    let (mut steps, mut ends): (Vec<RateStep>, Vec<usize>) = (Vec::new(), Vec::new());
    for (index, candidate) in sorted.iter().enumerate() {
        let rate = log(candidate.rate);
        let before = steps.last().copied().unwrap_or_default();
        let mut upto = RateStep { count: before.count + 1.0, logs: before.logs + rate, ..before };
        if let Some(layer) = candidate.layer {
            upto.in_layer[layer] += 1.0;
        }
        let same = steps.last().is_some_and(|step| rate - step.lowest < LOG_RATE_STEP);
        if same {
            steps.pop();
            ends.pop();
        } else {
            upto.lowest = rate;
        }
        steps.push(upto);
        ends.push(index + 1);
    }
    let mut best = (f64::NEG_INFINITY, Vec::new());
    for cuts in all_cuts(steps.len()).into_iter().filter(|cuts| cuts.len() <= most.min(layers.len())) {
        let (value, slots) = evaluate(&steps, &cuts, layers);
        if value > best.0 {
            best = (value, cuts.into_iter().zip(slots).collect());
        }
    }
    let mut groups = [const { None }; MAX_LAYERS];
    let mut start = 0;
    let (value, placed) = best;
    for (end, slot) in placed {
        let members = &sorted[start..ends[end - 1]];
        let rate = members.first().map_or(Bitrate::ZERO, |lowest| lowest.rate);
        groups[slot] = Some(Group { rate, members: members.iter().map(|candidate| candidate.member).collect() });
        start = ends[end - 1];
    }
    (value, groups)
}

/// All possible ends of groups among this many steps, the fewest groups first. The last group ends at the last step.
fn all_cuts(steps: usize) -> Vec<Vec<usize>> {
    if steps == 0 {
        return Vec::new();
    }
    let mut all = vec![vec![steps]];
    all.extend((1..steps).map(|first| vec![first, steps]));
    for first in 1..steps {
        all.extend((first + 1..steps).map(|second| vec![first, second, steps]));
    }
    all
}

/// The value of a layout, with the assignment of layers to its groups that moves the fewest viewers.
fn evaluate(steps: &[RateStep], cuts: &[usize], layers: &[usize]) -> (f64, Vec<usize>) {
    let at = |end: usize| end.checked_sub(1).map_or_else(RateStep::default, |index| steps[index]);
    let mut starts = vec![0];
    starts.extend(cuts);
    let groups: Vec<(RateStep, RateStep, f64)> =
        cuts.iter().zip(&starts).map(|(end, start)| (at(*start), at(*end), steps[*start].lowest)).collect();
    let gained: f64 =
        groups.iter().map(|(from, to, lowest)| (to.count - from.count) * lowest - (to.logs - from.logs)).sum();
    let placed: f64 = steps.last().map_or(0.0, |all| all.in_layer.iter().sum());
    let (stay, slots) = placements(groups.len(), layers)
        .into_iter()
        .map(|slots| {
            let stay =
                |((from, to, _), slot): (&(RateStep, RateStep, f64), &usize)| to.in_layer[*slot] - from.in_layer[*slot];
            (groups.iter().zip(&slots).map(stay).sum::<f64>(), slots)
        })
        .fold((-1.0, Vec::new()), |best, other| if other.0 > best.0 { other } else { best });
    (gained - LAYER_PRICE * cuts.len() as f64 - SWITCH_PRICE * (placed - stay), slots)
}

/// All assignments of one of these layers to each of this many groups.
fn placements(groups: usize, layers: &[usize]) -> Vec<Vec<usize>> {
    (0..groups).fold(vec![Vec::new()], |ways, _| {
        let more = |way: Vec<usize>| {
            let free = layers.iter().copied().filter(|slot| !way.contains(slot)).collect::<Vec<_>>();
            free.into_iter().map(move |slot| [way.as_slice(), &[slot]].concat())
        };
        ways.into_iter().flat_map(more).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [usize; MAX_LAYERS] = [0, 1, 2];

    /// Rates in Mb/s and layers in, layers' rates in kb/s and numbers of viewers out, highest first.
    fn layout(viewers: &[(f64, Option<usize>)]) -> Vec<(u64, usize)> {
        let candidates: Vec<Candidate> = (0..)
            .zip(viewers)
            .map(|(number, (mbps, layer))| Candidate {
                member: MemberId(number),
                rate: Bitrate::from_bps((mbps * 1e6) as u64),
                layer: *layer,
            })
            .collect();
        let (_, groups) = best_layout(&candidates, &ALL, MAX_LAYERS);
        let mut found: Vec<(u64, usize)> =
            groups.iter().flatten().map(|group| (group.rate.as_bps() / 1_000, group.members.len())).collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        found
    }

    fn new(rates: &[f64]) -> Vec<(u64, usize)> {
        layout(&rates.iter().map(|rate| (*rate, None)).collect::<Vec<_>>())
    }

    #[test]
    fn rates_follow_the_viewers() {
        assert_eq!(new(&[]), []);
        assert_eq!(new(&[8.0; 20]), [(8_000, 20)], "who are alike share one layer");
        assert_eq!(new(&[8.0, 7.7, 7.5, 7.9]), [(7_500, 4)]);
        assert_eq!(new(&[8.0, 8.0, 8.0, 1.0]), [(8_000, 3), (1_000, 1)], "one bad path holds nobody back");
        assert_eq!(new(&[9.0, 8.5, 4.0, 4.1, 1.0, 1.1]), [(8_500, 2), (4_000, 2), (1_000, 2)]);
        assert_eq!(new(&[16.0, 8.0, 4.0, 2.0]).len(), 3, "never more than three");
        assert_eq!(new(&[2.0, 2.6]), [(2_000, 2)], "a little more is not worth an encoder");
    }

    #[test]
    fn viewers_stay_where_they_are_unless_it_is_worth_a_key_frame() {
        let two = [(8.0, Some(0)), (8.0, Some(0)), (2.0, Some(1)), (2.0, Some(1))];
        assert_eq!(layout(&two), [(8_000, 2), (2_000, 2)]);
        // One that has risen a little stays; one that could have four times as much goes up.
        assert_eq!(layout(&[(8.0, Some(0)), (8.0, Some(0)), (2.0, Some(1)), (2.4, Some(1))]), [(8_000, 2), (2_000, 2)]);
        assert_eq!(layout(&[(8.0, Some(0)), (8.0, Some(0)), (2.0, Some(1)), (8.2, Some(1))]), [(8_000, 3), (2_000, 1)]);
    }

    #[test]
    fn groups_keep_their_layers() {
        let candidate = |number, mbps, layer| Candidate {
            member: MemberId(number),
            rate: Bitrate::from_mbps(mbps),
            layer: Some(layer),
        };
        let candidates = [candidate(1, 8, 2), candidate(2, 8, 2), candidate(3, 1, 0), candidate(4, 1, 0)];
        let (value, groups) = best_layout(&candidates, &ALL, MAX_LAYERS);
        assert_eq!(groups[2].as_ref().map(|group| group.members.clone()), Some(vec![MemberId(1), MemberId(2)]));
        assert_eq!(groups[0].as_ref().map(|group| group.members.clone()), Some(vec![MemberId(3), MemberId(4)]));
        // With one layer all get the lowest rate, in a layer that is allowed.
        let (of_one, groups) = best_layout(&candidates, &[0, 2], 1);
        assert!(of_one < value);
        let taken: Vec<usize> = groups.iter().flatten().map(|group| group.members.len()).collect();
        assert_eq!((taken, &groups[1]), (vec![4], &None));
    }
}
