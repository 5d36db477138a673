//! Any file of a map, and any request looked up in it: no panic, and two reads have equal results.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_expression::{AvailableFrom, Map, MapSource, Maps, Scope, Text, map_text};
use touchstone_http::request_view::RequestView;

fuzz_target!(|bytes: &[u8]| {
    let split = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (file, request) = bytes.split_at(split);
    let Ok(file) = std::str::from_utf8(file) else { return };
    let read = || {
        // Files of values, and those of networks.
        let entries = match bytes.len().is_multiple_of(3) {
            true => map_text::read_networks(file).ok()?,
            false => map_text::read(file).ok()?,
        };
        let ignore_case = bytes.len().is_multiple_of(2);
        let source = MapSource { name: "m", from: "$path", default: "none", ignore_case, function: None };
        Map::new(&source, entries.into_iter().map(|(line, entry)| (entry, line)), &Maps::default()).ok()
    };
    let Some(map) = read() else { return };
    assert_eq!(Some(&map), read().as_ref());
    let mut maps = Maps::default();
    maps.add(map);
    let view = RequestView { path: request, query: Some(request), ..RequestView::example("/") };
    let scope = Scope::from(AvailableFrom::Answer).with_maps(&maps);
    let text = Text::read("[$map{m}]", scope).expect("the text is right");
    let rendered = text.render(&view);
    assert!(rendered.starts_with(b"[") && rendered.ends_with(b"]"));
    text.pieces(&view, &mut |_| {});
});
