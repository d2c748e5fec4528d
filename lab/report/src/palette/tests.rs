use super::*;

#[test]
fn names_of_one_chart_differ_and_keep_their_places() {
    let mut palette = Palette::default();
    palette.add(["gcc", "nada"].into_iter());
    palette.add(["target", "received"].into_iter());
    palette.add(["render", "encode"].into_iter());
    assert_eq!(
        ["gcc", "nada", "target", "received"].map(|name| palette.class(name)),
        ["c0 d0", "c1 d0", "c0 d0", "c1 d0"]
    );
    palette.add(["nada", "target"].into_iter());
    assert_eq!(
        ["gcc", "nada", "target", "received"].map(|name| palette.class(name)),
        ["c0 d0", "c1 d0", "c2 d0", "c3 d0"]
    );
    assert_eq!(palette.class("render"), "c0 d0");
    palette.add((0..20).map(|index| ["a", "b", "c", "d", "e", "f", "g", "h", "i"][index % 9]));
    assert_eq!(palette.class("i"), "c0 d1");
}

type Colour = [f64; 3];

/// Linear light of the palette's colours on the page's background, for the light and for the dark scheme.
fn schemes() -> Vec<(Colour, Vec<Colour>)> {
    let linear = |text: &str| {
        [0, 2, 4].map(|at| {
            let value = f64::from(u8::from_str_radix(&text[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    };
    let value = |block: &str, name: &str| {
        let at = block.find(name).unwrap_or_else(|| panic!("{name} is set")) + name.len();
        linear(&block[at..at + 6])
    };
    let style = include_str!("../document/style.css");
    style
        .split("--paper: #")
        .skip(1)
        .map(|rest| format!("--paper: #{rest}"))
        .map(|block| {
            (value(&block, "--paper: #"), (0..COLOURS).map(|c| value(&block, &format!("--p{c}: #"))).collect())
        })
        .collect()
}

/// B. Ottosson: A perceptual color space for image processing (Oklab), 2020.
fn perceived(colour: Colour) -> Colour {
    let cone = |weights: Colour| (0..3).map(|i| weights[i] * colour[i]).sum::<f64>().cbrt();
    let long = cone([0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9]);
    let medium = cone([0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6]);
    let short = cone([0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5]);
    [
        0.210_454_255_3 * long + 0.793_617_785 * medium - 0.004_072_046_8 * short,
        1.977_998_495_1 * long - 2.428_592_205 * medium + 0.450_593_709_9 * short,
        0.025_904_037_1 * long + 0.782_771_766_2 * medium - 0.808_675_766 * short,
    ]
}

/// G. Machado, M. Oliveira, L. Fernandes: A Physiologically-based Model for Simulation of Color Vision Deficiency, 2009;
/// full severity.
const VISIONS: [(&str, [Colour; 3]); 4] = [
    ("full", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "without red",
        [[0.152_286, 1.052_583, -0.204_868], [0.114_503, 0.786_281, 0.099_216], [-0.003_882, -0.048_116, 1.051_998]],
    ),
    (
        "without green",
        [[0.367_322, 0.860_646, -0.227_968], [0.280_085, 0.672_501, 0.047_413], [-0.011_820, 0.042_940, 0.968_881]],
    ),
    (
        "without blue",
        [[1.255_528, -0.076_749, -0.178_779], [-0.078_411, 0.930_809, 0.147_602], [0.004_733, 0.691_367, 0.303_900]],
    ),
];

/// Eight colours that everyone tells apart: the palette of Okabe and Ito comes to 0.076 by this measure, with its yellow at
/// a contrast of 1.3 to white.
#[test]
fn every_eye_tells_the_colours_apart() {
    let schemes = schemes();
    assert_eq!(schemes.len(), 4, "light, dark by preference, dark by choice, print");
    for (paper, colours) in schemes {
        let luminance = |[r, g, b]: Colour| 0.2126 * r + 0.7152 * g + 0.0722 * b;
        for (index, colour) in colours.iter().enumerate() {
            let (a, b) = (luminance(paper), luminance(*colour));
            let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
            // WCAG 2.1, 1.4.11: graphical objects.
            assert!(contrast >= 3.0, "colour {index} has a contrast of {contrast:.2}");
        }
        for (vision, matrix) in VISIONS {
            let seen: Vec<Colour> = colours
                .iter()
                .map(|colour| matrix.map(|row| (0..3).map(|i| row[i] * colour[i]).sum::<f64>().clamp(0.0, 1.0)))
                .map(perceived)
                .collect();
            for first in 0..COLOURS {
                for second in 0..first {
                    let distance = (0..3).map(|i| (seen[first][i] - seen[second][i]).powi(2)).sum::<f64>().sqrt();
                    assert!(distance > 0.1, "{second} and {first}, vision {vision}: {distance:.3}");
                }
            }
        }
    }
}
