//! Hundreds of results of many kinds, in every form: no two sentences contradict each other or the figures.
//!
//! Each sentence is read by its form ([`sentences`]), each row of figures by its columns ([`tables`]); their
//! facts are compared with the figures of the result, computed again in a simple way ([`figures`]), and with
//! other sentences about the same facts. The checks below also require the sentences that must exist.

mod figures;
mod forms;
mod results;
mod sentences;
mod tables;

use crate::planning::{Assumptions, Plan, plan};
use crate::run_rules::{self, Class};
use crate::{answers, report};
use results::{KINDS, OF_EACH, any_result, made};
use sentences::Reader;
use touchstone_lab::bottleneck::Verdict;
use touchstone_lab::figures::{clients, people_estimate, rate};
use touchstone_lab::open_load::highest_carried;
use touchstone_lab::peaks::{peak, rate_is_the_servers};
use touchstone_lab::ranking::Ranking;
use touchstone_lab::result::{Figure, MixResult, ResultFile};
use touchstone_lab::statistics::paired::Conclusion;
use touchstone_lab::{derived, sample, verdict};

/// How many results of any kind are read; `TOUCHSTONE_REPORTS` names another number, and with
/// `TOUCHSTONE_SEED` from which seed on.
const REPORTS: u64 = 100;

/// The text of a page, a line for each block element.
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
/// sentences. (The run rules report on the load engine run by run, in their own words, and have a test of
/// their own.)
fn statements(result: &ResultFile) -> Vec<String> {
    let mut all = lines(&report::html(result, None));
    all.extend(verdict::sentences(result, &[]));
    all
}

#[test]
fn no_two_sentences_of_a_hundred_reports_contradict_each_other_or_the_figures() {
    let mut read = 0;
    for kind in &KINDS {
        for seed in 0..OF_EACH {
            let result = made(kind, seed);
            let sentences = statements(&result);
            let plans = plan(&result, &[], &Assumptions::default());
            let problems: Vec<String> = [
                ahead(&result, &sentences),
                engine(&result, &plans, &sentences),
                rest(&result, &plans, &sentences),
                first_screen(&result, &plans, &sentences),
                useful(&result, &plans, &sentences),
            ]
            .concat();
            assert!(problems.is_empty(), "{}, seed {seed}: {problems:#?}", kind.name);
            read += 1;
        }
    }
    assert!(read >= 100);
}

/// Reads all statements of a result, in every form. Returns the number of facts, and the faults.
fn read(result: &ResultFile) -> (usize, Vec<String>) {
    let (statements, page_tables) = forms::of(result);
    let mut reader = Reader::new(result);
    statements.iter().for_each(|statement| reader.read(statement));
    tables::read(&mut reader, &page_tables);
    tables::read_other_forms(&mut reader);
    let mut faults = reader.facts.contradictions();
    faults.append(&mut reader.problems);
    faults.sort();
    faults.dedup();
    (reader.facts.len(), faults)
}

#[test]
fn every_sentence_and_row_of_any_report_agrees_with_the_figures_and_with_the_others() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("TOUCHSTONE_SEED").unwrap_or(0);
    let seeds = first..first + number("TOUCHSTONE_REPORTS").unwrap_or(REPORTS);
    let of_seeds = seeds.map(|seed| (format!("seed {seed}"), seed, None));
    let of_kinds = KINDS.iter().map(|kind| (kind.name.to_owned(), 0, Some(kind)));
    let all: Vec<_> = of_seeds.chain(of_kinds).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let read_some = |some: &[(String, u64, Option<&results::Kind>)]| {
        let (mut facts, mut faults) = (0, Vec::new());
        for (name, seed, kind) in some {
            let (count, found) = read(&kind.map_or_else(|| any_result(*seed), |kind| made(kind, 0)));
            facts += count;
            faults.extend(found.into_iter().map(|fault| format!("{name}: {fault}")));
        }
        (facts, faults)
    };
    let (mut facts, mut faults) = (0, Vec::new());
    std::thread::scope(|scope| {
        let parts = all.chunks(all.len().div_ceil(threads));
        let running: Vec<_> = parts.map(|some| scope.spawn(|| read_some(some))).collect();
        for part in running {
            let (count, found) = part.join().expect("all are read");
            facts += count;
            faults.extend(found);
        }
    });
    if let Some(place) = std::env::var_os("TOUCHSTONE_FAULTS") {
        std::fs::write(place, faults.join("\n")).expect("written");
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults[..faults.len().min(40)].join("\n"));
    assert!(facts > 10_000, "{facts}");
}

/// The reader finds wrong statements: without this the test above would prove nothing.
#[test]
fn false_sentences_and_rows_are_found() {
    let result = made(&KINDS[0], 1);
    let wrong = [
        "touchstone 0.1.0 peaked at 60,001 requests/s (4,128 Mbit/s) with 16 clients: mean latency 0.267 ms, \
         99 % within 0.533 ms.",
        "nginx 1.22.1 failed 3 requests (0.001 % of those counted).",
        "nginx 1.22.1: the load engine was at its own limit: the figures are a lower bound (x).",
        "At least 46,000, on this machine",
        "Invalid",
        "The useful peak of touchstone 0.1.0 is 30,000 requests/s, with 4 clients: at the peak it was hot.",
        "Load and server ran on separate machines.",
        "A sentence without a form.",
    ];
    for sentence in wrong {
        let (mut statements, _) = forms::of(&result);
        statements.push(forms::Statement { place: "page".to_owned(), text: sentence.to_owned() });
        let mut reader = Reader::new(&result);
        statements.iter().for_each(|statement| reader.read(statement));
        let found = reader.problems.len() + reader.facts.contradictions().len();
        assert!(found > 0, "{sentence}");
    }
}

/// For open loads, whose rates are given, there are no statements that need a search for the highest rate,
/// and served rates are named in one way.
#[test]
fn open_loads_are_told_without_peaks_and_without_contradictions() {
    let share = |rate: f64, answered: f64| if rate > 3_000.0 { answered } else { 1.0 };
    for (answered, dearer, runs) in [(1.0, 1.5, 1), (0.7, 1.5, 3), (0.985, 1.0, 3), (0.995, 0.8, 5)] {
        let mut result = sample::open();
        result.method.runs = runs;
        for (system, cost) in result.systems.iter_mut().zip([16.0, 16.0 * dearer]) {
            let answered = if cost > 16.0 { answered } else { 1.0 };
            system.mixes.clear();
            for run in 1..=runs {
                for rate in [1_000.0, 2_000.0, 4_000.0] {
                    let noise = 1.0 + 0.001 * run as f64;
                    let mix = sample::open_mix(rate, share(rate, answered), cost * noise);
                    system.mixes.push(MixResult { run, ..mix });
                }
            }
        }
        derived::make(&mut result);
        let sentences = statements(&result);
        let plans = plan(&result, &[], &Assumptions::default());
        assert!(plans.is_empty());
        for words in [" peaked at", "useful peak of", "was at its own limit", "were used up"] {
            assert!(!any(&sentences, words), "{words} of {answered}");
        }
        let problems = ahead(&result, &sentences);
        assert!(problems.is_empty(), "{answered}: {problems:#?}");
        for system in &result.systems {
            let (carried, beyond) = highest_carried(system);
            let highest = carried.map(MixResult::load_in_words).expect("a rate is carried");
            assert!(any(&sentences, &format!("{} carried {highest}", system.title)), "{sentences:#?}");
            let lost = any(&sentences, &format!("{} did not carry ", system.title));
            assert_eq!(lost, beyond.is_some(), "{} of {answered}", system.title);
        }
        for it in answers::of(&result, &plans) {
            assert!(any(&sentences, &it.answer), "the page does not say: {}", it.answer);
        }
        let class = run_rules::Assessment::of(&result, None);
        assert_ne!(class.class, Class::Invalid, "{:?}", class.reasons().collect::<Vec<_>>());
    }
}

fn any(said: &[String], words: &str) -> bool {
    said.iter().any(|line| line.contains(words))
}

fn check(found: &mut Vec<String>, holds: bool, problem: &str) {
    if !holds {
        found.push(problem.to_owned());
    }
}

/// The leader is named in one way, and no more is claimed than the comparison of the pairs shows.
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

/// A load engine at its limit is reported everywhere or nowhere.
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
    let engine = [Verdict::Generator, Verdict::EngineDisturbed];
    let generator = plans.iter().any(|plan| engine.contains(&plan.bottleneck.verdict));
    check(&mut found, generator == bound, "the bottleneck");
    let at_least = said.iter().any(|line| line.starts_with("At least "));
    let disturbed = any(said, ", beside other work");
    check(&mut found, at_least == (bound || disturbed), "the number of users");
    check(&mut found, !bound || any(said, "a lower bound"), "the figures beside the peak");
    found
}

/// Bottlenecks, failures and peaks agree with the figures and are stated once.
fn rest(result: &ResultFile, plans: &[Plan], said: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for plan in plans {
        let lines: Vec<&String> = said
            .iter()
            .filter(|line| line.starts_with(&format!("{}: ", plan.system)) && line.ends_with('.'))
            .collect();
        let held = format!("{}: {}", plan.system, plan.bottleneck.clause());
        check(&mut found, lines.iter().any(|line| **line == held), &format!("{held} is not said"));
        let causes = ["were used up", "own limit: the figures", "cannot be told", "was used up while"];
        for cause in causes.iter().filter(|cause| lines.iter().any(|line| line.contains(**cause))) {
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

/// The five answers of the first screen follow from the same figures as the rest, and the class is stated
/// once.
fn first_screen(result: &ResultFile, plans: &[Plan], said: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let all = answers::of(result, plans);
    let answer = |question: &str| all.iter().find(|it| it.question.starts_with(question)).unwrap();
    for it in &all {
        check(&mut found, any(said, &it.answer), &format!("the page does not say: {}", it.answer));
    }
    let ranking = Ranking::of(result);
    let Some(leader) = ranking.servers.first() else { return found };
    let plan = plans.iter().find(|plan| plan.system == leader.system.title).unwrap();
    // Who is ahead is the server that the other answers are about.
    check(
        &mut found,
        ranking.answer().is_some_and(|it| answer("Which server").answer.starts_with(&it)),
        "the headline is not that of the ranking",
    );
    // Users are those of the useful peak, or of the peak where no load is useful; the sentence names the
    // rate.
    let useful = plan.useful_peak.as_ref().and_then(|found| found.useful.as_ref());
    let carried = useful.map_or(plan.peak_rate, |load| load.rate);
    let with = useful.map_or(plan.peak_clients, |load| load.load as u64);
    let people = people_estimate(carried * 60.0 / 77.0);
    let users = answer("How many users");
    check(&mut found, users.answer.contains(&format!(" {people}")), &format!("{people} users: {users:?}"));
    let rate_told = format!("carries {} requests/s with {}", rate(carried), clients(with));
    check(&mut found, users.because.contains(&rate_told), &format!("{rate_told}: {users:?}"));
    // A figure in large letters carries its bound, where there is one.
    let is_bound = !rate_is_the_servers(leader.system, leader.peak);
    let disturbed = users.answer.contains(", beside other work");
    check(
        &mut found,
        users.answer.starts_with("At least ") == (is_bound || disturbed),
        "the bound of the users",
    );
    check(
        &mut found,
        users.answer.contains("indicative (one run)") == (result.method.runs == 1),
        "one run is indicative",
    );
    // What breaks and what to change are about the stated bottleneck.
    let (breaks, change) = (answer("What breaks"), answer("What to change"));
    check(
        &mut found,
        breaks.because.contains(&plan.bottleneck.clause()),
        "what breaks is another bottleneck",
    );
    let remedy = match plan.bottleneck.verdict {
        Verdict::ServerCpu => "Twice the processors",
        Verdict::Generator => "More processors or machines for the load engine",
        Verdict::EngineDisturbed => "Give the load engine a processor of its own",
        Verdict::LocksOrOther => "Find what is waited for",
        Verdict::Undetermined => "Measure with more clients",
        _ => "",
    };
    check(&mut found, change.answer.starts_with(remedy), &format!("{remedy}: {change:?}"));
    // A rate beyond the measured ones has its condition.
    if plan.bottleneck.verdict == Verdict::ServerCpu {
        check(&mut found, change.because.contains("would change that"), &change.because);
    }
    // The class is the same everywhere.
    let class = run_rules::Assessment::of(result, None);
    let validity = format!("{}, by the run rules", class.class.name());
    for other in ["certified", "indicative", "invalid"].map(|name| format!("{name}, by the run rules")) {
        check(&mut found, any(said, &other) == (other == validity), &format!("the class: {other}"));
    }
    let failing = result.systems.iter().any(|it| it.mixes.iter().any(|mix| mix.errors.total() > 0));
    check(
        &mut found,
        failing || class.class != Class::Invalid,
        &format!("invalid: {:?}", class.reasons().collect::<Vec<_>>()),
    );
    found
}

/// The peak and the useful peak are the same in the plan, in the result and in every sentence.
fn useful(result: &ResultFile, plans: &[Plan], said: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for system in result.systems.iter().filter(|system| !system.is_limit) {
        let title = &system.title;
        let plan = plans.iter().find(|plan| plan.system == *title).unwrap();
        let (kept, planned) = (&system.peaks[0], plan.useful_peak.as_ref().unwrap());
        check(&mut found, kept.peak.clients == planned.peak.load as u64, "two peaks");
        let kept_useful = kept.useful.as_ref().map(|load| load.clients);
        check(
            &mut found,
            kept_useful == planned.useful.as_ref().map(|load| load.load as u64),
            "two useful peaks",
        );
        check(&mut found, kept.difference == planned.difference, "two reasons");
        let Some(useful) = &planned.useful else { continue };
        // No lighter load has the same rate with much less of a wait.
        let better = planned.loads.iter().any(|load| {
            load.load < useful.load && load.rate > useful.rate * 0.97 && load.p95_us * 1.34 < useful.p95_us
        });
        check(&mut found, !better, &format!("{title}: a lighter load does as much: {planned:?}"));
        let sentence = format!("The useful peak of {title} is {} requests/s", rate(useful.rate));
        let differs = useful.load != planned.peak.load;
        check(&mut found, any(said, &sentence) == differs, &format!("{sentence}, differs: {differs}"));
    }
    found
}
