use super::*;

/// Upper points as printed in E. Pearson and H. Hartley, Biometrika Tables for Statisticians, volume 1, table 29, and in
/// most textbooks: (probability, groups, degrees, q).
const PRINTED: [(f64, u32, f64, f64); 18] = [
    (0.95, 2, 1.0, 17.97),
    (0.95, 3, 2.0, 8.331),
    (0.95, 3, 5.0, 4.602),
    (0.95, 5, 2.0, 10.88),
    (0.95, 3, 10.0, 3.877),
    (0.95, 4, 12.0, 4.199),
    (0.95, 5, 20.0, 4.232),
    (0.95, 10, 5.0, 6.995),
    (0.95, 10, 60.0, 4.646),
    (0.95, 20, 120.0, 5.126),
    (0.95, 3, f64::INFINITY, 3.314),
    (0.95, 10, f64::INFINITY, 4.474),
    (0.99, 2, 10.0, 4.482),
    (0.99, 3, 5.0, 6.976),
    (0.99, 5, 10.0, 6.136),
    (0.99, 10, 20.0, 6.086),
    (0.99, 20, 60.0, 6.015),
    (0.99, 3, f64::INFINITY, 4.120),
];

#[test]
fn quantiles_as_printed() {
    for (probability, groups, degrees, expected) in PRINTED {
        let found = StudentizedRange::new(groups, degrees).unwrap().quantile(probability).unwrap();
        // Half a unit of the last printed digit.
        let tolerance = if expected > 10.0 { 5.1e-3 } else { 5.1e-4 };
        assert!(
            (found - expected).abs() < tolerance,
            "q({probability}; {groups}, {degrees}) = {found}, not {expected}"
        );
    }
}

/// From `scipy.stats.studentized_range` 1.17.
#[test]
fn agrees_with_another_implementation() {
    for (q, groups, degrees, expected) in [
        (3.5, 3, 10.0, 0.922_896_689_161_589_6),
        (1.0, 4, 6.0, 0.109_199_798_574_316_65),
        (6.0, 12, 190.0, 0.997_999_844_572_092_1),
        (0.2, 2, 3.0, 0.103_500_285_715_959_3),
    ] {
        let found = StudentizedRange::new(groups, degrees).unwrap().cdf(q);
        assert!((found - expected).abs() < 1e-9, "P({q}; {groups}, {degrees}) = {found}, not {expected}");
    }
    for (groups, degrees, expected) in [(20, 1.0, 297.997_187), (5, 1.0, 185.575_293), (20, 2.0, 37.943_462)] {
        let found = StudentizedRange::new(groups, degrees).unwrap().quantile(0.99).unwrap();
        assert!((found / expected - 1.0).abs() < 1e-6, "{groups} groups, {degrees} degrees: {found}, not {expected}");
    }
}

/// For two groups the range is the square root of two times |t|.
#[test]
fn two_groups_are_student_t() {
    use statrs::distribution::{ContinuousCDF, StudentsT};
    for degrees in [1.0, 2.0, 3.0, 7.0, 30.0, 400.0, 100_000.0] {
        let range = StudentizedRange::new(2, degrees).unwrap();
        let student = StudentsT::new(0.0, 1.0, degrees).unwrap();
        for t in [0.1, 0.5, 1.0, 2.0, 5.0, 12.0] {
            let expected = 1.0 - 2.0 * student.sf(t);
            let found = range.cdf(t * std::f64::consts::SQRT_2);
            assert!((found - expected).abs() < 1e-9, "{degrees} degrees, t = {t}: {found}, not {expected}");
        }
    }
}

#[test]
fn what_has_no_distribution_is_refused() {
    assert!(StudentizedRange::new(1, 5.0).is_none());
    assert!(StudentizedRange::new(3, 0.0).is_none());
    assert!(StudentizedRange::new(3, f64::NAN).is_none());
    let range = StudentizedRange::new(3, 5.0).unwrap();
    assert_eq!(range.quantile(1.0), None);
    assert_eq!(range.cdf(f64::NAN).to_bits(), 0.0_f64.to_bits());
    let certain = range.cdf(f64::INFINITY);
    assert!(certain > 1.0 - 1e-10, "{certain}");
}
