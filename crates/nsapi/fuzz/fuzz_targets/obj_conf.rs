//! Any obj.conf and magnus.conf: no panic, and the place of every problem and directive is a line of the
//! text.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use touchstone_nsapi::conf::Configuration;
use touchstone_nsapi::conf::magnus::read_magnus;
use touchstone_nsapi::conf::objects::read_objects;

fuzz_target!(|text: &[u8]| {
    let file: Arc<str> = Arc::from("f");
    let lines = text.split(|byte| *byte == b'\n').count();
    let mut configuration = Configuration::default();
    let mut problems = read_objects(&file, text, &mut configuration);
    problems.extend(read_magnus(&file, text, &mut configuration));
    let locations = problems.iter().map(|problem| &problem.location);
    let directives = configuration.objects.iter().flat_map(|object| &object.directives);
    for location in locations.chain(directives.map(|directive| &directive.location)) {
        assert!((1..=lines).contains(&location.line));
    }
});
