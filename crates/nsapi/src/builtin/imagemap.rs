//! `imagemap`: the address of a point in a picture.
//!
//! The file has a line for each area, in the form of NCSA (`rect /address 0,0 49,99`) or of CERN (`rect (0,0)
//! (49,99) /address`). The query is the point, `x,y`. The first area that contains it is chosen, then the
//! nearest `point`, then `default`.

use std::ffi::c_int;

use super::path_check::{as_path, path};
use crate::abi::{Pblock, REQ_ABORTED, Request, Session};
use crate::api::escape::for_location;
use crate::api::protocol::set_status;
use crate::pblock;

/// The longest file that is read.
const LONGEST_MAP_BYTES: u64 = 1024 * 1024;

/// Redirects to the address for the point in the query.
pub unsafe extern "C" fn imagemap(
    _block: *mut Pblock,
    _session: *mut Session,
    request: *mut Request,
) -> c_int {
    let file = as_path(path(request));
    let is_right =
        std::fs::metadata(file).is_ok_and(|facts| facts.is_file() && facts.len() <= LONGEST_MAP_BYTES);
    let (true, Ok(map)) = (is_right, std::fs::read(file)) else {
        set_status(&mut *request, 404, &[]);
        return REQ_ABORTED;
    };
    let point = pblock::find((*request).reqpb, b"query").and_then(parse_point);
    match address_at(&map, point) {
        Some(address) => {
            pblock::set((*request).srvhdrs, b"location", &for_location(address));
            set_status(&mut *request, 302, &[]);
        }
        None => set_status(&mut *request, 404, &[]),
    }
    REQ_ABORTED
}

type Point = (f64, f64);

/// `10,20`, with or without parentheses.
fn parse_point(text: &[u8]) -> Option<Point> {
    let text = std::str::from_utf8(text).ok()?;
    let (x, y) = text.trim_matches(|letter| matches!(letter, '(' | ')' | ' ')).split_once(',')?;
    let number = |text: &str| text.trim().parse::<i32>().ok().map(f64::from);
    Some((number(x)?, number(y)?))
}

/// The address of the first area that contains a point.
fn address_at(map: &[u8], point: Option<Point>) -> Option<&[u8]> {
    let mut otherwise = None;
    let mut nearest: Option<(f64, &[u8])> = None;
    for line in map.split(|byte| *byte == b'\n') {
        let Some(area) = Area::parse(line) else { continue };
        if area.shape == b'd' {
            otherwise = otherwise.or(Some(area.address));
            continue;
        }
        let Some(point) = point else { continue };
        if area.shape == b'.' {
            let distance = area.points.first().map_or(f64::MAX, |centre| squared_distance(*centre, point));
            if nearest.is_none_or(|(before, _)| distance < before) {
                nearest = Some((distance, area.address));
            }
        } else if area.contains(point) {
            return Some(area.address);
        }
    }
    nearest.map(|(_, address)| address).or(otherwise)
}

struct Area<'a> {
    /// The first letter of its shape; `.` for a point.
    shape: u8,
    address: &'a [u8],
    points: Vec<Point>,
    radius: Option<f64>,
}

impl<'a> Area<'a> {
    fn parse(line: &'a [u8]) -> Option<Area<'a>> {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let shape = match words.next()?.to_ascii_lowercase().as_slice() {
            b"default" | b"def" => b'd',
            b"rect" | b"rectangle" => b'r',
            b"circle" | b"circ" => b'c',
            b"poly" | b"polygon" => b'p',
            b"point" => b'.',
            _ => return None,
        };
        let mut area = Area { shape, address: &[], points: Vec::new(), radius: None };
        for word in words {
            if let Some(point) = parse_point(word) {
                area.points.push(point);
            } else if let (b'c', Some(radius)) = (shape, number(word)) {
                area.radius = Some(radius);
            } else if area.address.is_empty() {
                area.address = word;
            }
        }
        (!area.address.is_empty()).then_some(area)
    }

    fn contains(&self, point: Point) -> bool {
        match (self.shape, self.points.as_slice()) {
            (b'r', [one, other, ..]) => {
                let between = |value: f64, a: f64, b: f64| (a.min(b)..=a.max(b)).contains(&value);
                between(point.0, one.0, other.0) && between(point.1, one.1, other.1)
            }
            // NCSA names a point on the circle, CERN the radius.
            (b'c', [centre, rest @ ..]) => {
                let edge = rest.first().map(|edge| squared_distance(*centre, *edge));
                let reach = self.radius.map(|radius| radius * radius).or(edge);
                reach.is_some_and(|reach| squared_distance(*centre, point) <= reach)
            }
            (b'p', corners) if corners.len() >= 3 => is_inside(corners, point),
            _ => false,
        }
    }
}

fn number(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse::<u32>().ok().map(f64::from)
}

fn squared_distance(one: Point, other: Point) -> f64 {
    (one.0 - other.0).powi(2) + (one.1 - other.1).powi(2)
}

/// Whether a line from the point to the right crosses the edges of the polygon an odd number of times.
fn is_inside(corners: &[Point], point: Point) -> bool {
    let mut inside = false;
    let mut before = corners[corners.len() - 1];
    for &corner in corners {
        let crosses = (corner.1 > point.1) != (before.1 > point.1);
        if crosses
            && point.0 < (before.0 - corner.0) * (point.1 - corner.1) / (before.1 - corner.1) + corner.0
        {
            inside = !inside;
        }
        before = corner;
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(map: &str, point: &str) -> Option<String> {
        let found = address_at(map.as_bytes(), parse_point(point.as_bytes()))?;
        Some(String::from_utf8_lossy(found).into_owned())
    }

    #[test]
    fn both_forms_of_maps_are_read() {
        let ncsa = "# a comment\ndefault /none\nrect /r 10,10 20,20\n\
                    circle /c 50,50 50,60\npoly /p 0,80 20,80 20,99\n";
        let cern = "default /none\nrectangle (10,10) (20,20) /r\n\
                    circ (50,50) 10 /c\npolygon (0,80) (20,80) (20,99) /p\n";
        for map in [ncsa, cern] {
            for (point, address) in [("10,20", "/r"), ("21,20", "/none"), ("57,57", "/c"), ("58,58", "/none")]
            {
                assert_eq!(at(map, point).as_deref(), Some(address), "{point}");
            }
            assert_eq!(at(map, "15,82").as_deref(), Some("/p"));
            assert_eq!(at(map, "2,98").as_deref(), Some("/none"));
            assert_eq!(at(map, "rubbish").as_deref(), Some("/none"));
        }
        assert_eq!(at("point /a 0,0\npoint /b 9,9\ndefault /c", "7,7").as_deref(), Some("/b"));
        assert_eq!(at("rect /a 0,0 1,1", "5,5"), None);
    }

    proptest! {
        #[test]
        fn no_map_panics(map: Vec<u8>, point: Vec<u8>) {
            address_at(&map, parse_point(&point));
        }

        #[test]
        fn lines_of_any_words_are_read(
            lines in "((rect|circle|poly|point|default|x)( (/a|[0-9]{1,9},-?[0-9]{1,9}|7)){0,6}\n){0,5}",
        ) {
            address_at(lines.as_bytes(), Some((5.0, 5.0)));
        }
    }
}
