//! How a curve is told from the others: by colour, by the dashes of its line and by the shape of its markers,
//! each of which is enough alone. Colours are classes of the style sheet, which knows the light, the dark and
//! the print form.

use maud::{Markup, html};

/// The looks of one curve.
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
    /// A triangle that stands on its side.
    Triangle,
    /// A square that stands on its corner.
    Diamond,
    /// A triangle that stands on its corner.
    Pointer,
    /// An upright cross.
    Cross,
}

const CLASSES: [&str; 8] = ["hue-1", "hue-2", "hue-3", "hue-4", "hue-5", "hue-6", "hue-7", "hue-8"];
const DASHES: [&str; 5] = ["", "9 4", "2.5 3.5", "12 4 2.5 4", "5 3"];
const SHAPES: [Shape; 6] =
    [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Diamond, Shape::Pointer, Shape::Cross];

impl Style {
    /// The looks of the `index`-th system. The numbers of colours, dashes and shapes differ, so that a pair
    /// of looks comes again only after many systems.
    pub(super) fn of_system(index: usize) -> Style {
        Style {
            class: CLASSES[index % CLASSES.len()],
            dashes: DASHES[index % DASHES.len()],
            shape: SHAPES[index % SHAPES.len()],
            reference: false,
        }
    }

    /// The looks of the limit: a thin dashed line without a hue.
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

    /// The marker at a place. A hollow one stands for a figure that is only a lower bound.
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
            Shape::Cross => polygon(&[
                at(-0.4, -1.15),
                at(0.4, -1.15),
                at(0.4, -0.4),
                at(1.15, -0.4),
                at(1.15, 0.4),
                at(0.4, 0.4),
                at(0.4, 1.15),
                at(-0.4, 1.15),
                at(-0.4, 0.4),
                at(-1.15, 0.4),
                at(-1.15, -0.4),
                at(-0.4, -0.4),
            ]),
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
        // Without colour, too: dashes and markers alone tell the first thirty.
        let plain: Vec<_> = looks[..30].iter().map(|style| (style.dashes, style.shape)).collect();
        for (index, look) in plain.iter().enumerate() {
            assert!(!plain[..index].contains(look), "{index}");
        }
    }
}
