//! Fewer points for the same picture.

/// Keeps about `keep` of `points` (x ascending), so that a line through them looks the same: from each of `keep` - 2 buckets
/// the point that spans the largest triangle with the point kept before it and the mean of the next bucket.
///
/// Largest-Triangle-Three-Buckets: S. Steinarsson, Downsampling Time Series for Visual Representation, University of Iceland,
/// 2013. Departures: none. Good for lines; it may miss single spikes, which [`minima_and_maxima`] keeps.
pub fn largest_triangles(points: &[(f64, f64)], keep: usize) -> Vec<(f64, f64)> {
    let keep = keep.max(3);
    if points.len() <= keep {
        return points.to_vec();
    }
    let inner = points.len() - 2;
    let buckets = keep - 2;
    // Bucket b holds the points edge(b) to edge(b + 1); the last point follows the last bucket.
    let edge = |bucket: usize| 1 + bucket * inner / buckets;
    let mut kept = Vec::with_capacity(keep);
    kept.push(points[0]);
    let mut before = points[0];
    for bucket in 0..buckets {
        let next =
            if bucket + 1 < buckets { &points[edge(bucket + 1)..edge(bucket + 2)] } else { &points[inner + 1..] };
        let count = next.len() as f64;
        let next_x = next.iter().map(|point| point.0).sum::<f64>() / count;
        let next_y = next.iter().map(|point| point.1).sum::<f64>() / count;
        let area = |point: &(f64, f64)| {
            ((before.0 - next_x) * (point.1 - before.1) - (before.0 - point.0) * (next_y - before.1)).abs()
        };
        let mut chosen = points[edge(bucket)];
        for point in &points[edge(bucket)..edge(bucket + 1)] {
            if area(point) > area(&chosen) {
                chosen = *point;
            }
        }
        kept.push(chosen);
        before = chosen;
    }
    kept.push(points[points.len() - 1]);
    kept
}

/// Keeps of `points` (x ascending) the first, the last, the lowest and the highest of each of `columns` equal spans of x, in
/// their order: what a screen of that many columns would show of the line, spikes included.
pub fn minima_and_maxima(points: &[(f64, f64)], columns: usize) -> Vec<(f64, f64)> {
    let columns = columns.max(1);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let span = last.0 - first.0;
    if points.len() <= columns * 4 || span <= 0.0 {
        return points.to_vec();
    }
    let column = |x: f64| (((x - first.0) / span * columns as f64) as usize).min(columns - 1);
    let mut kept = Vec::with_capacity(columns * 4);
    let mut start = 0;
    while start < points.len() {
        let here = column(points[start].0);
        let end = start + points[start..].partition_point(|point| column(point.0) <= here);
        let (mut lowest, mut highest) = (start, start);
        for index in start..end {
            if points[index].1 < points[lowest].1 {
                lowest = index;
            }
            if points[index].1 > points[highest].1 {
                highest = index;
            }
        }
        let mut chosen = [start, lowest, highest, end - 1];
        chosen.sort_unstable();
        for (place, index) in chosen.iter().enumerate() {
            if place == 0 || chosen[place - 1] != *index {
                kept.push(points[*index]);
            }
        }
        start = end;
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spiky() -> Vec<(f64, f64)> {
        (0..10_000).map(|i| (f64::from(i), if i == 7_777 { 50.0 } else { f64::from(i % 10) })).collect()
    }

    #[test]
    fn a_spike_survives() {
        for kept in [largest_triangles(&spiky(), 200), minima_and_maxima(&spiky(), 50)] {
            assert!(kept.len() <= 202, "{} points", kept.len());
            assert!(kept.contains(&(7_777.0, 50.0)));
        }
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let points = [(0.0, 1.0), (1.0, 3.0), (2.0, 2.0)];
        assert_eq!(largest_triangles(&points, 3), points);
        assert_eq!(minima_and_maxima(&points, 1), points);
        assert!(minima_and_maxima(&[], 5).is_empty());
        assert!(largest_triangles(&[], 5).is_empty());
    }

    proptest! {
        #[test]
        fn what_is_kept_is_a_subsequence(values in prop::collection::vec(-100.0..100.0_f64, 1..500), keep in 3..60_usize) {
            let points: Vec<(f64, f64)> = values.into_iter().enumerate().map(|(i, y)| (i as f64 * 0.5, y)).collect();
            let lowest = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
            for (kept, most) in [(largest_triangles(&points, keep), keep), (minima_and_maxima(&points, keep), keep * 4)] {
                prop_assert!(kept.len() <= most);
                prop_assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
                prop_assert!(kept.iter().all(|point| points.contains(point)));
                prop_assert_eq!(kept[0], points[0]);
                prop_assert_eq!(kept.last(), points.last());
            }
            let kept = minima_and_maxima(&points, keep);
            prop_assert!(kept.iter().any(|point| point.1 <= lowest));
        }
    }
}
