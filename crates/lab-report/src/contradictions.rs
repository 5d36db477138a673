//! A hundred results of many kinds, each as a report and as the sentences of the terminal: no two sentences
//! contradict each other or the figures.

use crate::planning::{Assumptions, Plan, plan};
use crate::report;
use touchstone_lab::bottleneck::Verdict;
use touchstone_lab::figures::{clients, rate};
use touchstone_lab::peaks::{peak, rate_is_the_servers};
use touchstone_lab::result::{Figure, MixResult, ResultFile};
use touchstone_lab::statistics::paired::Conclusion;
use touchstone_lab::{derived, sample, verdict};

const KINDS: [Kind; 9] = [
    Kind { name: "quiet", runs: 3, noise: 0.005, ratio: 1.5, change: |_| () },
    Kind { name: "noisy", runs: 3, noise: 0.5, ratio: 1.2, change: |_| () },
    Kind { name: "a saturated engine", runs: 3, noise: 0.01, ratio: 1.3, change: saturated },
    Kind { name: "a busy engine beside full servers", runs: 3, noise: 0.01, ratio: 1.3, change: busy_engine },
    Kind { name: "failing", runs: 3, noise: 0.01, ratio: 1.4, change: failing },
    Kind { name: "one run", runs: 1, noise: 0.02, ratio: 1.5, change: |_| () },
    Kind { name: "five runs", runs: 5, noise: 0.02, ratio: 1.1, change: |_| () },
    Kind { name: "ties", runs: 3, noise: 0.002, ratio: 1.0, change: |_| () },
    Kind { name: "servers with room", runs: 3, noise: 0.01, ratio: 1.2, change: with_room },
];
const OF_EACH: u64 = 12;

struct Kind {
    name: &'static str,
    runs: u64,
    noise: f64,
    ratio: f64,
    change: fn(&mut MixResult),
}

fn saturated(mix: &mut MixResult) {
    mix.generator_saturated = Some("the busiest engine thread used 97 % of its processor".into());
    mix.load.busiest_thread = 0.97;
    mix.server.as_mut().unwrap().cpu_share = 0.6;
}

fn busy_engine(mix: &mut MixResult) {
    saturated(mix);
    mix.server.as_mut().unwrap().cpu_share = 0.98;
}

fn failing(mix: &mut MixResult) {
    mix.errors.reset = mix.clients * 3;
}

fn with_room(mix: &mut MixResult) {
    mix.server.as_mut().unwrap().cpu_share = 0.4;
    for cpu in &mut mix.machine.as_mut().unwrap().cpus {
        (cpu.user, cpu.system, cpu.softirq, cpu.idle) = (0.1, 0.3, 0.1, 0.5);
    }
}

/// A number from 0 to 1, always the same for the same seed (SplitMix64).
fn chance(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

fn made(kind: &Kind, mut seed: u64) -> ResultFile {
    let mut result = sample::result();
    result.method.runs = kind.runs;
    // Without the limit, and with few loads: a hundred pages are to be made in little time.
    result.systems.truncate(2);
    for (system, top) in result.systems.iter_mut().zip([40_000.0 * kind.ratio, 40_000.0]) {
        system.mixes.clear();
        for run in 1..=kind.runs {
            for (clients, share) in [(4, 0.8), (16, 1.0)] {
                let noise = 1.0 + kind.noise * (2.0 * chance(&mut seed) - 1.0);
                let mut mix = MixResult { run, ..sample::mix(clients, top * share * noise) };
                (kind.change)(&mut mix);
                system.mixes.push(mix);
            }
        }
    }
    derived::make(&mut result);
    result
}

/// The text of a page, a line for each element that stands by itself.
fn lines(html: &str) -> Vec<String> {
    let mut text = String::new();
    for piece in html.split('<') {
        let (tag, rest) = piece.split_once('>').unwrap_or(("", piece));
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        if ["p", "li", "dd", "dt", "td", "th", "tr", "h2", "h3", "div", "strong", "caption", "span"]
            .contains(&name)
        {
            text.push('\n');
        }
        text.push_str(rest);
    }
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    plain.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// Every statement of a result: of the page, and of the terminal and the workbook, which have the same
/// sentences. (What the run rules find of the load engine is told run by run, in words of its own, and has
/// its test beside the rules.)
fn statements(result: &ResultFile) -> Vec<String> {
    let mut all = lines(&report::html(result, None));
    all.retain(|line| !line.contains(" runs the load engine was at its own limit ("));
    all.extend(verdict::sentences(result, &[]));
    all
}

#[test]
fn no_two_sentences_of_a_hundred_reports_contradict_each_other_or_the_figures() {
    let mut read = 0;
    for kind in &KINDS {
        for seed in 0..OF_EACH {
            let result = made(kind, seed);
            let said = statements(&result);
            let plans = plan(&result, &[], &Assumptions::default());
            let problems: Vec<String> =
                [ahead(&result, &said), engine(&result, &plans, &said), rest(&result, &plans, &said)]
                    .concat();
            assert!(problems.is_empty(), "{}, seed {seed}: {problems:#?}", kind.name);
            read += 1;
        }
    }
    assert!(read >= 100);
}

fn any(said: &[String], words: &str) -> bool {
    said.iter().any(|line| line.contains(words))
}

fn check(found: &mut Vec<String>, holds: bool, problem: &str) {
    if !holds {
        found.push(problem.to_owned());
    }
}

/// Who is ahead is said in one way, and no more is claimed than the comparison of the pairs shows.
fn ahead(result: &ResultFile, said: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let claimed = any(said, " is ahead");
    let indicative = any(said, "seems to be ahead");
    let level = any(said, "no difference in ") || any(said, "No difference shown between");
    check(
        &mut found,
        [claimed, indicative, level].iter().filter(|it| **it).count() == 1,
        "one of three is said",
    );
    check(&mut found, !claimed || result.method.runs > 1, "one run claims nothing");
    check(&mut found, !indicative || any(said, ", indicative"), "the answer says indicative, too");
    let figure = match any(said, "for the same processor time") || any(said, "difference in processor time") {
        true => Figure::ProcessorTime,
        false => Figure::Rate,
    };
    let Some(pair) = result.comparisons.iter().find(|it| it.figure == figure) else { return found };
    let differs = matches!(pair.comparison.conclusion, Conclusion::FirstHigher | Conclusion::SecondHigher);
    check(&mut found, !claimed || differs, "ahead, and the pairs show no difference");
    let shows_none = pair.comparison.conclusion == Conclusion::NoDifferenceShown;
    check(&mut found, !shows_none || level, "the pairs show no difference, and that is not said");
    for line in said.iter().filter(|line| line.contains(" is ahead") && line.contains("95 %: ")) {
        let low = line.split("95 %: ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        check(&mut found, low.is_some_and(|low| low > 1.0), "the interval does not show what is claimed");
    }
    found
}

/// A load engine at its limit is said everywhere or nowhere.
fn engine(result: &ResultFile, plans: &[Plan], said: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let rivals = || result.systems.iter().filter(|system| !system.is_limit);
    let bound = rivals().any(|system| peak(system).is_some_and(|mix| !rate_is_the_servers(system, mix)));
    check(
        &mut found,
        any(said, "not the servers, set some of these rates") == bound,
        "the sentence of who is ahead",
    );
    check(
        &mut found,
        any(said, "the load engine was at its own limit") == bound,
        "loads, warnings and bottleneck",
    );
    let generator = plans.iter().any(|plan| plan.bottleneck.verdict == Verdict::Generator);
    check(&mut found, generator == bound, "the bottleneck");
    let at_least = said.iter().any(|line| line.starts_with("At least "));
    check(&mut found, at_least == bound, "the number of users");
    check(&mut found, !bound || any(said, "a lower bound"), "the figures beside the peak");
    found
}

/// What held a system back, failures and peaks agree with the figures and are said once.
fn rest(result: &ResultFile, plans: &[Plan], said: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for plan in plans {
        let told: Vec<&String> = said
            .iter()
            .filter(|line| line.starts_with(&format!("{}: ", plan.system)) && line.ends_with('.'))
            .collect();
        let held = format!("{}: {}", plan.system, plan.bottleneck.told());
        check(&mut found, told.iter().any(|line| **line == held), &format!("{held} is not said"));
        let causes = ["were used up", "own limit: the figures", "cannot be told", "was used up while"];
        for cause in causes.iter().filter(|cause| told.iter().any(|line| line.contains(**cause))) {
            check(&mut found, held.contains(cause), &format!("{}: two causes, {cause}", plan.system));
        }
    }
    for system in result.systems.iter().filter(|system| !system.is_limit) {
        let title = &system.title;
        let failed = system.mixes.iter().any(|mix| mix.errors.total() > 0);
        check(&mut found, any(said, &format!("{title} failed ")) == failed, &format!("{title}: failures"));
        let mix = peak(system).unwrap();
        let own = format!("{title} peaked at {} requests/s", rate(mix.requests_per_second));
        for line in said.iter().filter(|line| line.starts_with(&format!("{title} peaked at "))) {
            check(&mut found, line.starts_with(&own) && line.contains(&clients(mix.clients)), line);
        }
        let no_useful = any(said, &format!("{title} has no useful peak"));
        let useful = any(said, &format!("The useful peak of {title} is"));
        check(&mut found, !(no_useful && useful), &format!("{title}: two useful peaks"));
    }
    found
}
