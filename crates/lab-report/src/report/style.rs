//! How a curve differs from the others: by colour, by the dashes of its line and by the shape of its markers,
//! each of which is sufficient. Colours are classes of the style sheet, which has a light, a dark and a print
//! form.

use maud::{Markup, html};

/// The style of one curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    /// The class that sets the colour.
    pub(super) class: &'static str,
    /// The line's dashes, as `stroke-dasharray`; empty: a whole line.
    pub(super) dashes: &'static str,
    /// The marker at every measured point.
    pub(super) shape: Shape,
    /// A reference line is thinner, with smaller markers.
    pub(super) reference: bool,
}

/// The shape of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A triangle on its side.
    Triangle,
    /// A square on its corner.
    Diamond,
    /// A triangle on its corner.
    Pointer,
    /// An upright cross.
    Cross,
    /// A cross that leans.
    Saltire,
    /// A star with five points.
    Star,
}

const CLASSES: [&str; 8] = ["hue-1", "hue-2", "hue-3", "hue-4", "hue-5", "hue-6", "hue-7", "hue-8"];
const DASHES: [&str; 5] = ["", "9 4", "2.5 3.5", "12 4 2.5 4", "5 3"];
const SHAPES: [Shape; 8] = [
    Shape::Circle,
    Shape::Square,
    Shape::Triangle,
    Shape::Diamond,
    Shape::Pointer,
    Shape::Cross,
    Shape::Star,
    Shape::Saltire,
];
/// The most curves of one drawing: as many as there are colours and markers.
pub(super) const CURVES_MAX: usize = CLASSES.len();

impl Style {
    /// The style of the `index`-th system. Eight successive ones have different colours and different
    /// markers; the number of dash patterns differs from eight, so that a style is repeated only after forty.
    pub(super) fn of_system(index: usize) -> Style {
        Style {
            class: CLASSES[index % CLASSES.len()],
            dashes: DASHES[index % DASHES.len()],
            shape: SHAPES[index % SHAPES.len()],
            reference: false,
        }
    }

    /// The style of the limit: a thin dashed line without a hue.
    pub(super) fn of_limit() -> Style {
        Style { class: "hue-limit", dashes: "5 4", shape: Shape::Circle, reference: true }
    }

    /// The same hue with other dashes and markers: for the several curves of one system.
    pub(super) fn variant(self, index: usize) -> Style {
        Style {
            dashes: DASHES[index % DASHES.len()],
            shape: SHAPES[index % SHAPES.len()],
            reference: false,
            ..self
        }
    }

    /// Half the marker's size, pixels.
    pub(super) fn radius(self) -> f64 {
        if self.reference { 2.4 } else { 4.2 }
    }

    /// The marker at a place. A hollow one is a figure that is only a lower bound.
    pub(super) fn marker(self, x: f64, y: f64, radius: f64, hollow: bool) -> Markup {
        let class = if hollow { "mark hollow" } else { "mark" };
        html! { path class=(class) d=(self.shape.path(x, y, radius)) {} }
    }

    /// A sample of line and marker, for a legend.
    pub(super) fn sample(self) -> Markup {
        html! {
            svg class={ "sample " (self.class) } width="34" height="14" viewBox="0 0 34 14"
                aria-hidden="true" {
                path class=(if self.reference { "line reference" } else { "line" })
                    stroke-dasharray=[Some(self.dashes).filter(|dashes| !dashes.is_empty())] d="M1 7H33" {}
                (self.marker(17.0, 7.0, self.radius(), false))
            }
        }
    }
}

/// The corners of an upright cross.
const CROSS: [(f64, f64); 12] = [
    (-0.4, -1.15),
    (0.4, -1.15),
    (0.4, -0.4),
    (1.15, -0.4),
    (1.15, 0.4),
    (0.4, 0.4),
    (0.4, 1.15),
    (-0.4, 1.15),
    (-0.4, 0.4),
    (-1.15, 0.4),
    (-1.15, -0.4),
    (-0.4, -0.4),
];

impl Shape {
    fn path(self, x: f64, y: f64, r: f64) -> String {
        let at = |dx: f64, dy: f64| format!("{} {}", pixel(x + dx * r), pixel(y + dy * r));
        match self {
            Shape::Circle => {
                let radius = pixel(r);
                let across = pixel(2.0 * r);
                format!(
                    "M{}a{radius} {radius} 0 1 0 {across} 0a{radius} {radius} 0 1 0 -{across} 0Z",
                    at(-1.0, 0.0)
                )
            }
            Shape::Square => polygon(&[at(-0.88, -0.88), at(0.88, -0.88), at(0.88, 0.88), at(-0.88, 0.88)]),
            Shape::Triangle => polygon(&[at(0.0, -1.15), at(1.1, 0.85), at(-1.1, 0.85)]),
            Shape::Diamond => polygon(&[at(0.0, -1.25), at(1.25, 0.0), at(0.0, 1.25), at(-1.25, 0.0)]),
            Shape::Pointer => polygon(&[at(0.0, 1.15), at(1.1, -0.85), at(-1.1, -0.85)]),
            Shape::Cross => polygon(&CROSS.map(|(dx, dy)| at(dx, dy))),
            Shape::Saltire => {
                let half = std::f64::consts::FRAC_1_SQRT_2;
                polygon(&CROSS.map(|(dx, dy)| at((dx - dy) * half, (dx + dy) * half)))
            }
            Shape::Star => {
                let corner = |number: u32| {
                    let length = if number.is_multiple_of(2) { 1.3 } else { 0.55 };
                    let angle = f64::from(number) * std::f64::consts::PI / 5.0;
                    at(length * angle.sin(), -length * angle.cos())
                };
                polygon(&(0..10).map(corner).collect::<Vec<_>>())
            }
        }
    }
}

/// A coordinate as it is written in SVG: to a tenth of a pixel, and always finite.
pub(super) fn pixel(value: f64) -> String {
    let value = if value.is_finite() { value.clamp(-1e5, 1e5) } else { 0.0 };
    let tenths = (value * 10.0).round() as i64;
    let sign = if tenths < 0 { "-" } else { "" };
    match tenths.unsigned_abs() {
        tenths if tenths % 10 == 0 => format!("{sign}{}", tenths / 10),
        tenths => format!("{sign}{}.{}", tenths / 10, tenths % 10),
    }
}

fn polygon(corners: &[String]) -> String {
    format!("M{}Z", corners.join("L"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A colour as red, green and blue, linear.
    fn linear(hexadecimal: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let value = f64::from(u8::from_str_radix(&hexadecimal[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// The contrast of two colours (WCAG 2.2).
    fn contrast(one: &str, other: &str) -> f64 {
        let light = |colour: &str| {
            let [red, green, blue] = linear(colour);
            0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05
        };
        let (one, other) = (light(one), light(other));
        one.max(other) / one.min(other)
    }

    /// A colour in Oklab, in which distances are those that people see.
    fn oklab(colour: &str) -> [f64; 3] {
        let [red, green, blue] = linear(colour);
        let cone = |r: f64, g: f64, b: f64| (r * red + g * green + b * blue).cbrt();
        let l = cone(0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9);
        let m = cone(0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6);
        let s = cone(0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5);
        [
            0.210_454_255_3 * l + 0.793_617_785_0 * m - 0.004_072_046_8 * s,
            1.977_998_495_1 * l - 2.428_592_205_0 * m + 0.450_593_709_9 * s,
            0.025_904_037_1 * l + 0.782_771_766_2 * m - 0.808_675_766_0 * s,
        ]
    }

    #[test]
    fn the_colours_of_a_drawing_can_be_told_apart_in_light_and_in_dark() {
        let sheet = include_str!("report.css");
        let (light, dark) = sheet.split_once("prefers-color-scheme: dark").unwrap();
        for part in [light, dark] {
            let colour = |name: &str| {
                let at = part.find(&format!("{name}: #")).unwrap() + name.len() + 2;
                &part[at..at + 7]
            };
            let hues: Vec<&str> = CLASSES.iter().map(|class| colour(&format!("--{class}"))).collect();
            for (index, hue) in hues.iter().enumerate() {
                assert!(
                    contrast(hue, colour("--paper")) > 4.5 && contrast(hue, colour("--panel")) > 4.5,
                    "{hue}"
                );
                for other in &hues[..index] {
                    let (one, two) = (oklab(hue), oklab(other));
                    let apart = one.iter().zip(two).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                    assert!(apart > 0.14, "{hue} and {other}: {apart:.3}");
                }
            }
        }
    }

    #[test]
    fn coordinates_are_short_and_finite() {
        assert_eq!(pixel(12.0), "12");
        assert_eq!(pixel(12.345), "12.3");
        assert_eq!(pixel(-0.04), "0");
        assert_eq!(pixel(-0.16), "-0.2");
        assert_eq!(pixel(f64::NAN), "0");
        assert_eq!(pixel(f64::INFINITY), "0");
        assert_eq!(pixel(1e300), "100000");
    }

    #[test]
    fn no_two_of_many_systems_look_alike() {
        let looks: Vec<Style> = (0..40).map(Style::of_system).collect();
        for (index, style) in looks.iter().enumerate() {
            assert!(!looks[..index].contains(style), "{index}");
        }
        // Without colour, too.
        let plain: Vec<_> = looks.iter().map(|style| (style.dashes, style.shape)).collect();
        for (index, look) in plain.iter().enumerate() {
            assert!(!plain[..index].contains(look), "{index}");
        }
        // In one drawing the colour is sufficient to identify them, and so is the marker.
        for drawing in looks.windows(CURVES_MAX) {
            for (index, style) in drawing.iter().enumerate() {
                let before = &drawing[..index];
                assert!(before.iter().all(|it| it.class != style.class && it.shape != style.shape));
            }
        }
    }
}
