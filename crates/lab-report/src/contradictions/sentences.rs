//! Every sentence of a report, read by its form: its statement about a system is compared with the figures of
//! the result, and kept as a fact, so that two contradictory sentences are found.
//!
//! A sentence of unknown form fails the test: a new sentence needs a form here, or, if it only explains, a
//! line in `explanations.txt`.

use super::figures::{at, engine_decided, loads, median, number, other_work, peak, system, time_us, users};
use super::forms::Statement;
use crate::run_rules::{Assessment, Class};
use regex::{Captures, Regex};
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use touchstone_lab::result::{MixResult, ResultFile, RunStatus, SystemResult};

/// Sentences that explain, and state nothing about this result.
const EXPLANATIONS: &str = include_str!("explanations.txt");

/// The statements: for each fact its values, with the tolerance of their last digits and the sentence.
#[derive(Debug, Default)]
pub(super) struct Facts(BTreeMap<String, Vec<(f64, f64, String)>>);

impl Facts {
    pub(super) fn add(&mut self, what: String, value: f64, tolerance: f64, sentence: &str) {
        self.0.entry(what).or_default().push((value, tolerance, sentence.to_owned()));
    }

    /// Two sentences that contradict each other.
    pub(super) fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (what, captures) in &self.0 {
            for (index, (value, tolerance, sentence)) in captures.iter().enumerate() {
                let differs = |(other, own, _): &&(f64, f64, String)| (value - other).abs() > tolerance + own;
                if let Some((other, _, second)) = captures[..index].iter().find(differs) {
                    found.push(format!("{what}: {value} and {other}:\n  {sentence}\n  {second}"));
                }
            }
        }
        found
    }

    pub(super) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

/// A reader of the sentences of one result.
pub(super) struct Reader<'a> {
    pub(super) result: &'a ResultFile,
    pub(super) facts: Facts,
    pub(super) problems: Vec<String>,
    /// How many servers are ranked, and which is the first.
    ranked: usize,
    first: Option<String>,
    /// Whether the load engine decided one of the rates that servers are ranked by.
    engine_ranked: bool,
    pub(super) class: Class,
    /// The sentence at hand.
    sentence: String,
    /// The system whose name was last read on its own: a heading.
    heading: String,
    /// The number that was last read on its own.
    number: Option<String>,
}

type ReadSentence = fn(&mut Reader<'_>, &Captures<'_>);

const N: &str = "([0-9][0-9,]*(?:\\.[0-9]+)?)";
const S: &str =
    "(touchstone 0\\.1\\.0|nginx 1\\.22\\.1|h2o 2\\.2\\.5|Apache httpd 2\\.4\\.71|the limit of this kernel)";
const T: &str = "([0-9][0-9,]*(?:\\.[0-9]+)?) (µs|ms|s)";

/// Each is made once: that takes longer than most readings.
fn form(pattern: &'static str) -> Regex {
    static MADE: LazyLock<Mutex<BTreeMap<&'static str, Regex>>> = LazyLock::new(Mutex::default);
    let mut forms = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    forms.entry(pattern).or_insert_with(|| new_form(pattern)).clone()
}

fn new_form(pattern: &str) -> Regex {
    let whole =
        pattern.replace("{N}", N).replace("{S}", S).replace("{T}", T).replace("{C}", "([0-9,]+) clients?");
    Regex::new(&whole).unwrap_or_else(|error| panic!("{pattern}: {error}"))
}

static FORMS: LazyLock<Vec<(Regex, ReadSentence)>> = LazyLock::new(|| {
    let all: &[(&'static str, ReadSentence)] = &[
        ("^{S}$", |it, captures| it.heading = captures[1].to_owned()),
        ("^{N}$", |it, captures| it.number = Some(captures[1].to_owned())),
        // In large letters: the figure before it is that of the system in the heading.
        ("^requests/s$", |it, _| {
            let Some(captures) = it.number.take() else { return it.holds(false, "a figure") };
            let heading = it.heading.clone();
            let rate = it.peak(&heading).map(|mix| mix.requests_per_second);
            it.figure("peak rate", &heading, &captures, rate);
        }),
        // Lines that open parts of the page, and what belongs to a heading.
        ("^(?:of:?|,|·) |^of:?$|^{C}$|^Configuration: [a-z]+\\.conf$", |_, _| ()),
        ("^No request failed in any counted window", |it, _| {
            let failed: u64 = it.mixes().map(|mix| mix.errors.total()).sum();
            it.holds(failed == 0, "none failed");
        }),
        (
            "^A lower bound: the load engine was (?:at its own limit|disturbed) \\(in the first such mix",
            |it, _| {
                let decided = it
                    .result
                    .systems
                    .iter()
                    .any(|system| loads(system).iter().any(|runs| engine_decided(system, median(runs))));
                it.holds(decided, "the load engine decided a rate");
            },
        ),
        ("^The mix was cut short\\.$", |it, _| {
            it.holds(it.mixes().any(|mix| !mix.complete), "a mix was cut short");
        }),
        (
            "^at {C} · p95 {T} · {N} Mbit/s · (?:{N} µs of CPU a request|CPU not measured)(?: · {N} % of \
             the limit)?( · a lower bound)?$",
            facts_of_the_peak,
        ),
        (
            "(is ahead: its|seems to be ahead|o difference in .* is shown|set some of these rates: compare)",
            standing,
        ),
        ("^{S}(, indicative)?$", |it, captures| it.leader(&captures[1], captures.get(2).is_some())),
        ("^No difference shown between (.+)$", |it, captures| {
            let all: Vec<String> = it.titles(&captures[1]);
            it.holds(all.len() > 1, "names two");
            it.fact("leader is sure", 0.0);
        }),
        ("^With {C}, {S} spent {N} µs of processor time a request: (.+)\\.$", processor_times),
        (
            "^With {C}, {S} (?:carried {N} % of the rate of the kernel's limit)?(?: and )?(?:spent {N} µs \
             of processor time a request where the kernel's limit is {N} µs \\({N} times\\))?\\.$",
            beside_the_limit,
        ),
        (
            "^{S} peaked at {N} requests/s \\({N} Mbit/s\\) with {C}: mean latency {N} ms, 99 % within \
             {N} ms\\.$",
            peaked,
        ),
        ("^{S} gave no valid answer that counted\\.$", |it, captures| {
            let system = it.system(&captures[1]);
            it.holds(
                system.mixes.iter().all(|mix| mix.requests == 0) && !system.mixes.is_empty(),
                "no answer",
            );
        }),
        ("^Not measured: {S} does not serve the same over TLS\\.$", |it, captures| {
            let system = it.system(&captures[1]);
            it.holds(system.mixes.is_empty() && !system.skipped.is_empty(), "it was not measured");
        }),
        ("^The useful peak of {S} is {N} requests/s, with {C}: (.+)\\.$", |it, captures| {
            useful(it, &captures[1], Some((&captures[2], &captures[3])));
        }),
        ("^{S} has no useful peak: (.+)\\.$", |it, captures| useful(it, &captures[1], None)),
        ("^{S} failed {N} requests? \\({N} % of those counted\\)\\.$", |it, captures| {
            let system = it.system(&captures[1]);
            let failed: u64 = system.mixes.iter().map(|mix| mix.errors.total()).sum();
            let answered: u64 = system.mixes.iter().map(|mix| mix.requests).sum();
            it.figure("failed", &captures[1], &captures[2], Some(failed as f64));
            let share = failed as f64 / (failed + answered) as f64 * 100.0;
            it.figure("share failed", &captures[1], &captures[3], Some(share));
        }),
        ("^(.+): requests failed: ", |it, captures| {
            for part in captures[1].split("; ") {
                let subject = form("^{S}, ([0-9, and]+) clients?$");
                let Some(named) = subject.captures(part) else { return it.holds(false, "systems") };
                let system = it.system(&named[1]);
                for clients in form("[0-9]+").find_iter(&named[2]) {
                    let clients = number(clients.as_str()).0 as u64;
                    let mut runs = system.mixes.iter().filter(|mix| mix.clients == clients);
                    it.holds(runs.any(|mix| mix.errors.total() > 0), &format!("{clients} clients failed"));
                }
            }
        }),
        ("^{S}, {C}: the load engine stood still for {N} s", |it, captures| {
            let clients = number(&captures[2]).0 as u64;
            let mut runs = it.system(&captures[1]).mixes.iter().filter(|mix| mix.clients == clients);
            it.holds(runs.any(|mix| !mix.taint.is_empty()), "it stood still");
        }),
        ("^(?:{S}; )+{S}: (?:other work used|the load engine was)", |_, _| ()),
        ("^{S}: (.+\\.)$", |it, captures| of_system(it, &captures[1], &captures[2])),
        ("^Load and server shared one machine(.*): ratios between systems", |it, captures| {
            it.holds(it.result.machine.same_host, "one machine");
            it.holds(captures[1].contains("the quick form") == it.result.suite.quick, "the quick form");
        }),
        ("^(?:Load and server|load and server) ran on separate machines\\.?$", |it, _| {
            it.holds(!it.result.machine.same_host, "separate machines");
        }),
        ("^Valid only as far as it goes", |it, _| it.holds(!it.is_complete(), "incomplete")),
        (
            "^(About|At least) {N}(, on this machine)?(, beside other work)?(, indicative \\(one run\\))?$",
            users_of_the_leader,
        ),
        (
            "^Each opens a page a minute, of {N} requests; {S} carries {N} requests/s with {C} \
             \\((.+)\\)\\.$",
            carries,
        ),
        ("^The only one that was measured", |it, _| {
            let answered =
                it.result.systems.iter().filter(|system| !system.is_limit && peak(system).is_some());
            it.holds(answered.count() == 1, "one was measured");
        }),
        ("^(Certified|Indicative|Invalid)$", |it, captures| it.class(&captures[1].to_lowercase())),
        ("^(certified|indicative|invalid), by the run rules$", |it, captures| it.class(&captures[1])),
        ("^(complete|incomplete): {N} mix(?:es)? measured(?: before it ended)?$", |it, captures| {
            it.holds((&captures[1] == "complete") == it.is_complete(), "complete");
            let mixes: usize = it.result.systems.iter().map(|system| loads(system).len()).sum();
            it.figure("mixes", "", &captures[2], Some(mixes as f64));
        }),
        ("^(Highest|Lowest)(?: of each curve)?, in (.+?)(?: –|, from) (.+)\\.$", best_of_curves),
        ("^Median {T} with {C}(?:, {T} with {C})?; p99(?: there)? {T}\\.$", medians),
        ("^99 % came within – (.+)\\.$", |it, captures| {
            let part = form("{S}: {T} with {C}");
            for captures in part.captures_iter(&captures[1]) {
                let p99 = it.peak(&captures[1]).map(|mix| mix.latency.p99_us);
                it.time("p99 at the peak", &captures[1], (&captures[2], &captures[3]), p99);
                it.clients_of_the_peak(&captures[1], &captures[4]);
            }
        }),
        (
            "^The longest answer(?: of {S})? took {T}: if the server stood still for it, {C} of this \
             closed loop waited, and an open loop of as many requests a second would have had {N} arrive \
             meanwhile, which had waited {T} on average\\.$",
            stall,
        ),
        (
            "^With {C}, the peak, the counted samples lie between {N} and {N} requests/s\\.$",
            |it, captures| {
                let heading = it.heading.clone();
                it.clients_of_the_peak(&heading, &captures[1]);
                let (low, high) = (number(&captures[2]), number(&captures[3]));
                let rate = it.peak(&heading).map_or(0.0, |mix| mix.requests_per_second);
                let within = rate >= low.0 * 0.98 - low.1 && rate <= high.0 * 1.02 + high.1;
                it.holds(within, &format!("the rate {rate} lies between them"));
            },
        ),
        ("^The requests of the busiest client against those of the quietest – (.+)\\.$", |it, captures| {
            let part = form("{S}: (?:{N} times|(a client without any answer)) \\({C}\\)");
            for captures in part.captures_iter(&captures[1]) {
                it.clients_of_the_peak(&captures[1], &captures[4]);
                let Some(times) = captures.get(2) else { continue };
                let peak = it.peak(&captures[1]).expect("a peak");
                let requests = || peak.client_rows.iter().map(|row| row.requests as f64);
                let (least, most) = (requests().fold(f64::MAX, f64::min), requests().fold(0.0, f64::max));
                it.figure("busiest client", &captures[1], times.as_str(), Some(most / least));
            }
        }),
        (
            "^The useful peak is the largest load at which, in at least ({N} runs|one run) \\(each load \
             was run ({N} times|once)\\)",
            |it, captures| {
                let runs =
                    |text: &str| text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(1.0);
                it.holds(runs(&captures[1]) == it.result.method.useful.runs_min as f64, "the fewest runs");
                it.holds(runs(&captures[3]) == it.result.method.runs as f64, "the runs");
                it.holds(captures[0].len() < it.sentence.len(), "the criteria are named");
            },
        ),
        ("^It cannot be told|^[Nn]othing was used up", |_, _| ()),
        ("^([0-9]+) warnings?$", |it, captures| {
            let kinds = touchstone_lab::warnings::each_once(&it.result.warnings).len();
            it.figure("warnings", "", &captures[1], Some(kinds as f64));
        }),
        ("^The run gave no warnings\\.$", |it, _| it.holds(it.result.warnings.is_empty(), "no warnings")),
        (
            "^Load and server shared one machine(?:: the figures are indicative)?\\.$|^load and server \
             shared one machine, so each took",
            |it, _| {
                it.holds(it.result.machine.same_host, "one machine");
            },
        ),
        ("^The same with other figures: (.+)\\.$", |it, captures| {
            let named = it.titles(&captures[1]);
            it.holds(!named.is_empty(), "systems are named");
        }),
        ("^A (point|bar) ", |it, captures| {
            let runs = form("among up to {N}, ");
            if let Some(captures) =
                runs.captures(&captures.get(0).map_or(String::new(), |_| it.sentence.clone()))
            {
                let most = it
                    .result
                    .systems
                    .iter()
                    .flat_map(|system| loads(system).iter().map(Vec::len).collect::<Vec<_>>());
                let most = most.max().unwrap_or(0);
                it.holds(number(&captures[1]).0 == most as f64, "the runs of a point");
            }
        }),
        ("^Each mix was run once\\.$", |it, _| {
            let once =
                it.result.systems.iter().all(|system| loads(system).iter().all(|runs| runs.len() == 1));
            it.holds(once, "once");
        }),
        ("^The run is incomplete: (.+)\\.$|^This run is incomplete$", |it, _| {
            it.holds(!it.is_complete(), "incomplete")
        }),
        ("^In {N} of {N} runs ", |it, captures| runs_of_a_rule(it, &captures[1], &captures[2])),
        ("^{N} of {N} runs were cut short", |it, captures| {
            let cut: usize = it.mixes().filter(|mix| !mix.complete).count();
            it.figure("cut short", "", &captures[1], Some(cut as f64));
            let all = it.mixes().count() as f64;
            it.figure("runs in all", "", &captures[2], Some(all));
        }),
        ("^Every system answered\\.$|^Every system that was measured answered", |it, _| {
            let silent = it
                .result
                .systems
                .iter()
                .any(|it| it.mixes.iter().all(|mix| mix.requests == 0) && !it.mixes.is_empty());
            it.holds(!silent, "every system answered");
        }),
        ("^{N} of {N} systems gave no valid answer", |it, captures| {
            let measured = || it.result.systems.iter().filter(|system| !system.mixes.is_empty());
            let silent = measured().filter(|system| system.mixes.iter().all(|mix| mix.requests == 0)).count();
            let all = measured().count() as f64;
            it.figure("silent", "", &captures[1], Some(silent as f64));
            it.figure("systems measured", "", &captures[2], Some(all));
        }),
        ("^In the worst run {N} % of the requests failed\\.$", |it, captures| {
            let share = |mix: &MixResult| {
                mix.errors.total() as f64 / (mix.errors.total() + mix.requests).max(1) as f64
            };
            let worst = it.mixes().map(share).fold(0.0, f64::max);
            it.figure("worst run", "", &captures[1], Some(worst * 100.0));
        }),
        ("^No request failed\\.$", |it, _| {
            let failed: u64 = it.mixes().map(|mix| mix.errors.total()).sum();
            it.holds(failed == 0, "none failed");
        }),
        ("^The (short form was|whole suite was) run\\.$", |it, captures| {
            it.holds(captures[1].starts_with("short") == it.result.suite.quick, "the form");
        }),
        (
            "^(Every mix was|Some mixes were) run (only once|only {N} times|{N} times or more)\\.$",
            |it, captures| {
                let counts: Vec<usize> = it.result.systems.iter().flat_map(runs_of_loads).collect();
                let fewest = counts.iter().copied().min().unwrap_or(0) as f64;
                let stated =
                    captures.get(3).or(captures.get(4)).map_or(1.0, |captures| number(captures.as_str()).0);
                it.holds(stated == fewest, "the fewest runs of a mix");
                let all =
                    counts.iter().all(|count| *count as f64 == fewest) || captures[2].ends_with("or more");
                it.holds(captures[1].starts_with("Every") == all, "every mix");
            },
        ),
        ("^The load engine had room in every run, or the server had none\\.$", |it, _| {
            let decided = it
                .result
                .systems
                .iter()
                .any(|system| system.mixes.iter().any(|mix| engine_decided(system, mix)));
            it.holds(!decided, "the load engine decided no rate");
        }),
        ("^{N} sums came out right\\.$", |it, captures| {
            let wrong = crate::report::audit_outcomes(it.result).iter().any(|it| it.holds == Some(false));
            it.holds(!wrong && number(&captures[1]).0 > 0.0, "all sums");
        }),
        ("^{N} of {N} sums do not come out right", |it, captures| {
            let wrong =
                crate::report::audit_outcomes(it.result).iter().filter(|it| it.holds == Some(false)).count();
            it.figure("wrong sums", "", &captures[1], Some(wrong as f64));
        }),
        (
            "^(?:Twice the processors, or a program|Locks, or something that was not watched$|The \
             server’s processors$|One processor of several$|Not the server: the load engine|Nothing that \
             this result shows$|Find what is waited for|Measure with more clients|More processors or \
             machines for the load engine|Give the load engine a processor|As many workers as processors)",
            remedy,
        ),
        (
            "^{N} requests/s with {C}, by the model of queues; a limit above {N} requests at a time would \
             change that",
            |it, captures| {
                let Some(leader) = it.first() else { return };
                it.clients_of_the_peak(&leader, &captures[3]);
                let clients = it.peak(&leader).map(|mix| 2.0 * mix.clients as f64);
                it.figure("clients of the model", &leader, &captures[2], clients);
            },
        ),
        ("^compare the systems of this run with each other", |it, _| it.class("indicative")),
        ("^nothing of it may be quoted", |it, _| it.class("invalid")),
        ("^every rule is fulfilled", |it, _| it.class("certified")),
        ("^Every mix was measured(?: of the systems and interfaces that can serve it)?\\.$", |it, _| {
            let whole = it.mixes().all(|mix| mix.complete);
            it.holds(whole && it.is_complete(), "every mix was measured");
        }),
        ("^It was not started: {S} does not serve", |it, captures| {
            let system = it.system(&captures[1]);
            it.holds(system.mixes.is_empty() && !system.skipped.is_empty(), "it was not measured");
        }),
        ("^No (?:system was measured|mix was run)\\.$", |it, _| {
            let none = it.result.systems.iter().all(|system| system.mixes.is_empty());
            it.holds(none, "nothing was measured");
        }),
        ("^Not shown$|^The run ended before all servers had completed a load", |it, _| {
            it.holds(!it.is_complete(), "incomplete");
        }),
        ("^The run did not come to its end", |it, _| it.holds(!it.is_complete(), "incomplete")),
        ("^Load and server had machines of their own\\.$", |it, _| {
            it.holds(!it.result.machine.same_host, "separate machines");
        }),
        ("^In every run the warm-up was over when counting began\\.$", |it, _| it.fact("settled", 1.0)),
        (
            "^At most {N} requests/s(?:: {N} times, if the work divides)?; a limit above {N} requests at \
             a time would change that",
            |it, captures| {
                let Some(leader) = it.first() else { return };
                let rate = it.peak(&leader).map_or(0.0, |mix| mix.requests_per_second);
                let times = number(&captures[1]).0 / rate;
                it.holds(
                    (times - times.round()).abs() < 0.01 && times >= 1.99,
                    &format!("{times} times the peak"),
                );
                it.clients_of_the_peak(&leader, &captures[3]);
            },
        ),
    ];
    all.iter().map(|(pattern, read)| (form(pattern), *read)).collect()
});

impl<'a> Reader<'a> {
    pub(super) fn new(result: &'a ResultFile) -> Reader<'a> {
        let standing = touchstone_lab::ranking::Ranking::of(result);
        let servers = &standing.servers;
        Reader {
            result,
            ranked: servers.len(),
            first: servers.first().map(|server| server.system.title.clone()),
            engine_ranked: servers.iter().any(|server| engine_decided(server.system, server.peak)),
            class: Assessment::of(result, None).class,
            facts: Facts::default(),
            problems: Vec::new(),
            sentence: String::new(),
            heading: String::new(),
            number: None,
        }
    }

    /// Reads a statement by the first form that it has.
    pub(super) fn read(&mut self, statement: &Statement) {
        if EXPLANATIONS.lines().any(|line| line == statement.text) {
            return;
        }
        self.sentence = format!("{}: {}", statement.place, statement.text);
        for (form, read) in &*FORMS {
            if let Some(captures) = form.captures(&statement.text) {
                return read(self, &captures);
            }
        }
        self.problems.push(format!("a sentence of no known form: {}", self.sentence));
    }

    /// A figure of a system: it must be that of the result.
    pub(super) fn figure(&mut self, what: &str, of: &str, captures: &str, value: Option<f64>) {
        self.captures(what, of, number(captures), value);
    }

    fn time(&mut self, what: &str, of: &str, (captures, unit): (&str, &str), value: Option<f64>) {
        self.captures(what, of, time_us(captures, unit), value);
    }

    fn captures(&mut self, what: &str, of: &str, (captures, tolerance): (f64, f64), value: Option<f64>) {
        match value {
            Some(value) if (value - captures).abs() <= tolerance => {}
            _ => self
                .problems
                .push(format!("{what} of {of} is {value:?}, and not {captures}: {}", self.sentence)),
        }
        let sentence = self.sentence.clone();
        self.facts.add(format!("{what} of {of}"), captures, tolerance, &sentence);
    }

    fn fact(&mut self, what: &str, value: f64) {
        let sentence = self.sentence.clone();
        self.facts.add(what.to_owned(), value, 0.0, &sentence);
    }

    pub(super) fn holds(&mut self, holds: bool, what: &str) {
        if !holds {
            self.problems.push(format!("{what}: {}", self.sentence));
        }
    }

    /// For text that is not a sentence: its place.
    pub(super) fn at(&mut self, place: String) {
        self.sentence = place;
    }

    fn system(&self, title: &str) -> &'a SystemResult {
        system(self.result, title)
    }

    pub(super) fn peak(&self, title: &str) -> Option<&'a MixResult> {
        peak(self.system(title))
    }

    fn is_complete(&self) -> bool {
        self.result.status == RunStatus::Complete
    }

    fn mixes(&self) -> impl Iterator<Item = &'a MixResult> + use<'a> {
        self.result.systems.iter().flat_map(|system| &system.mixes)
    }

    fn titles(&self, text: &str) -> Vec<String> {
        form("{S}").captures_iter(text).map(|captures| captures[1].to_owned()).collect()
    }

    pub(super) fn clients_of_the_peak(&mut self, title: &str, captures: &str) {
        let clients = self.peak(title).map(|mix| mix.clients as f64);
        self.figure("clients of the peak", title, captures, clients);
    }

    fn class(&mut self, captures: &str) {
        let class = self.class;
        self.holds(class.name() == captures, &format!("the class is {}", class.name()));
        let value = match class {
            Class::Invalid => 0.0,
            Class::Indicative => 1.0,
            Class::Certified => 2.0,
        };
        self.fact("the class", value);
    }

    /// The title of the first system, by the figure of the ranking.
    fn first(&self) -> Option<String> {
        self.first.clone()
    }

    fn leader(&mut self, title: &str, indicative: bool) {
        self.holds(self.first().as_deref() == Some(title), "the leader");
        self.fact("leader is sure", if indicative { 1.0 } else { 2.0 });
    }
}

fn facts_of_the_peak(it: &mut Reader<'_>, captures: &Captures<'_>) {
    let heading = it.heading.clone();
    let Some(peak) = it.peak(&heading) else { return it.holds(false, "there is a peak") };
    it.clients_of_the_peak(&heading, &captures[1]);
    it.time("p95 at the peak", &heading, (&captures[2], &captures[3]), Some(peak.latency.p95_us));
    it.figure("Mbit/s", &heading, &captures[4], Some(peak.megabits_per_second));
    let cpu = peak.server.as_ref().map(|server| server.cpu_us_per_request);
    it.holds(captures.get(5).is_some() == cpu.is_some(), "processor time");
    if let Some(us) = captures.get(5) {
        it.figure(&format!("µs with {} clients", peak.clients), &heading, us.as_str(), cpu);
    }
    if let Some(share) = captures.get(6) {
        share_of_the_limit(it, &heading, share.as_str());
    }
    let bound = engine_decided(it.system(&heading), peak) || !peak.complete;
    it.holds(captures.get(7).is_some() == bound, "a lower bound");
}

/// The limit on as many processors as the system of this title, or else the first.
fn limit_of<'r>(it: &Reader<'r>, title: &str) -> &'r SystemResult {
    let processors = it.system(title).cpus.len();
    let limits = || it.result.systems.iter().filter(|system| system.is_limit);
    let same = limits().find(|limit| limit.cpus.len().max(1) == processors.max(1));
    same.or(limits().next()).expect("the limit")
}

fn share_of_the_limit(it: &mut Reader<'_>, title: &str, captures: &str) {
    let own = it.peak(title).expect("a peak");
    let limit = limit_of(it, title);
    let bound = at(limit, own.clients).expect("as many clients");
    let share = own.requests_per_second / bound.requests_per_second * 100.0;
    it.figure("share of the limit", title, captures, Some(share));
}

/// "With 16 clients, A spent 16.0 µs ...: 0.667 times that of B (24.0 µs)".
fn processor_times(it: &mut Reader<'_>, captures: &Captures<'_>) {
    let clients = number(&captures[1]).0 as u64;
    let us = |mix: Option<&MixResult>| Some(mix?.server.as_ref()?.cpu_us_per_request);
    let own = us(at(it.system(&captures[2]), clients));
    it.figure(&format!("µs with {clients} clients"), &captures[2], &captures[3], own);
    let part = form("{N} times that of {S} \\({N} µs\\)");
    let mut named = 0;
    for other in part.captures_iter(&captures[4]) {
        let its = us(at(it.system(&other[2]), clients));
        it.figure(&format!("µs with {clients} clients"), &other[2], &other[3], its);
        let times = own.zip(its).map(|(own, its)| own / its);
        it.figure(&format!("times the µs of {}", &other[2]), &captures[2], &other[1], times);
        named += 1;
    }
    it.holds(named > 0, "a comparison");
}

fn beside_the_limit(it: &mut Reader<'_>, captures: &Captures<'_>) {
    it.clients_of_the_peak(&captures[2], &captures[1]);
    if let Some(share) = captures.get(3) {
        share_of_the_limit(it, &captures[2], share.as_str());
    }
    let Some(own) = captures.get(4) else { return it.holds(captures.get(3).is_some(), "something is said") };
    let peak = it.peak(&captures[2]).expect("a peak");
    let limit = limit_of(it, &captures[2]);
    let us = |mix: Option<&MixResult>| Some(mix?.server.as_ref()?.cpu_us_per_request);
    let (own_us, bound_us) = (us(Some(peak)), us(at(limit, peak.clients)));
    it.figure(&format!("µs with {} clients", peak.clients), &captures[2], own.as_str(), own_us);
    it.figure(&format!("µs with {} clients", peak.clients), &limit.title, &captures[5], bound_us);
    it.figure(
        "µs over the limit",
        &captures[2],
        &captures[6],
        own_us.zip(bound_us).map(|(own, bound)| own / bound),
    );
}

fn peaked(it: &mut Reader<'_>, captures: &Captures<'_>) {
    let peak = it.peak(&captures[1]);
    let of_peak = |figure: fn(&MixResult) -> f64| peak.map(figure);
    it.figure("peak rate", &captures[1], &captures[2], of_peak(|mix| mix.requests_per_second));
    it.figure("Mbit/s", &captures[1], &captures[3], of_peak(|mix| mix.megabits_per_second));
    it.clients_of_the_peak(&captures[1], &captures[4]);
    it.time("mean at the peak", &captures[1], (&captures[5], "ms"), of_peak(|mix| mix.latency.mean_us));
    it.time("p99 at the peak", &captures[1], (&captures[6], "ms"), of_peak(|mix| mix.latency.p99_us));
}

/// The useful peak of a system, or that it has none, with the reasons.
fn useful(it: &mut Reader<'_>, title: &str, captures: Option<(&str, &str)>) {
    let criteria = it.result.method.useful;
    let system = it.system(title);
    let whole: Vec<Vec<&MixResult>> = loads(system)
        .into_iter()
        .filter(|runs| runs.iter().all(|mix| mix.complete && mix.requests > 0))
        .collect();
    let worst =
        |runs: &[&MixResult], of: fn(&MixResult) -> f64| runs.iter().map(|mix| of(mix)).fold(0.0, f64::max);
    let failing =
        |mix: &MixResult| mix.errors.total() as f64 / (mix.errors.total() + mix.requests).max(1) as f64;
    let p95 = |runs: &[&MixResult]| worst(runs, |mix| mix.latency.p95_us);
    let rate = |runs: &[&MixResult]| median(runs).requests_per_second;
    // A lighter load has the rate with much less of a wait.
    let waits = |load: &[&MixResult]| {
        let lighter = whole.iter().filter(|runs| runs[0].clients < load[0].clients);
        let most = criteria.level_wait_max.unwrap_or(f64::MAX);
        lighter.clone().any(|runs| rate(runs) >= rate(load) * 0.97 && p95(load) > most * p95(runs))
    };
    let good = |runs: &Vec<&MixResult>| {
        runs.len() >= criteria.runs_min
            && worst(runs, failing) <= criteria.errors_max
            && criteria.p95_max_us.is_none_or(|most| p95(runs) <= most)
            && runs.iter().all(|mix| is_fair(mix, criteria.jain_min, criteria.slowest_over_median_max))
            && !waits(runs)
            && !runs.iter().any(|mix| engine_decided(system, mix) || !mix.taint.is_empty())
    };
    it.fact(&format!("useful peak of {title}"), f64::from(u8::from(captures.is_some())));
    let Some((rate, clients)) = captures else {
        let levels: Vec<u64> = whole.iter().filter(|runs| good(runs)).map(|runs| runs[0].clients).collect();
        return it.holds(levels.is_empty(), &format!("no load is useful, but {levels:?}"));
    };
    let load = number(clients).0 as u64;
    it.figure("useful clients", title, clients, Some(load as f64));
    let runs = whole.iter().find(|runs| runs[0].clients == load);
    it.holds(runs.is_some_and(good), "the useful load keeps the criteria");
    it.figure("useful rate", title, rate, runs.map(|runs| median(runs).requests_per_second));
    it.holds(it.peak(title).is_some_and(|peak| peak.clients != load), "it is not the peak");
}

/// Whether all clients were served equally.
fn is_fair(mix: &MixResult, jain_min: f64, slowest_max: f64) -> bool {
    let requests = || mix.client_rows.iter().map(|row| row.requests as f64);
    let (sum, squares) = (requests().sum::<f64>(), requests().map(|value| value * value).sum::<f64>());
    let mut waits: Vec<f64> =
        mix.client_rows.iter().filter(|row| row.requests > 0).map(|row| row.mean_us).collect();
    waits.sort_by(f64::total_cmp);
    let [.., slowest] = waits[..] else { return true };
    let middle = f64::midpoint(waits[(waits.len() - 1) / 2], waits[waits.len() / 2]);
    sum * sum / (mix.client_rows.len() as f64 * squares) >= jain_min && slowest / middle <= slowest_max
}

/// The text after the name of a system: its bottleneck, or a warning.
fn of_system(it: &mut Reader<'_>, title: &str, captures: &str) {
    let system = it.system(title);
    let engine = ["the load engine was at its own limit", "the load engine was disturbed"];
    if let Some(captures) = form(
        "^(?:the load engine was at its own limit|the load engine was disturbed) with (.+?) clients? \\(",
    )
    .captures(captures)
    {
        let named: Vec<u64> = form("{N}")
            .captures_iter(&captures[1].replace(" and ", ", ").replace(", ", " "))
            .map(|captures| number(&captures[1]).0 as u64)
            .collect();
        let decided = loads(system)
            .iter()
            .map(|runs| median(runs))
            .filter(|mix| engine_decided(system, mix))
            .map(|mix| mix.clients)
            .collect::<Vec<_>>();
        return it.holds(named == decided, &format!("the loads {decided:?}"));
    }
    if captures.starts_with("other work used up to ") || captures.contains("by Little's law") {
        return;
    }
    let Some(peak) = it.peak(title) else { return it.holds(false, "there is a peak") };
    let beyond = captures.starts_with("beyond the peak");
    let decided = engine_decided(system, peak);
    let says_engine = engine.iter().any(|words| captures.contains(words));
    it.holds(beyond || says_engine == decided, &format!("the load engine decided: {decided}"));
    it.holds(beyond || captures.contains("lower bound") == decided, "a lower bound");
    if let Some(used) = form("the system used {N} % of its processors").captures(captures).filter(|_| !beyond)
    {
        let share = peak.server.as_ref().map(|server| server.cpu_share * 100.0);
        let all = peak.machine.as_ref().map_or(1, |machine| machine.cpus.len()) as f64;
        let share = share.map(|share| if system.cpus.is_empty() { share / all } else { share });
        it.figure("processors used", title, &used[1], share);
    }
    let cause = [
        "processors were used up",
        "own limit",
        "disturbed",
        "cannot be told",
        "processor was used up",
        "nothing was used up, and more clients",
    ];
    let causes: Vec<usize> = (0..cause.len()).filter(|at| captures.contains(cause[*at])).collect();
    it.holds(!causes.is_empty(), "a cause is named");
    if let [one] = causes[..] {
        it.fact(&format!("what held back {title}"), one as f64);
    }
}

fn users_of_the_leader(it: &mut Reader<'_>, captures: &Captures<'_>) {
    it.holds(captures.get(3).is_some() == it.result.machine.same_host, "this machine");
    let once = it.mixes().all(|mix| mix.run <= 1);
    it.holds(captures.get(5).is_some() == once, "one run");
    let Some(leader) = it.first() else { return it.holds(false, "a leader") };
    let peak = it.peak(&leader).expect("the leader has a peak");
    let disturbed = other_work(peak).is_some_and(|cpus| cpus >= 0.1);
    it.holds(captures.get(4).is_some() == disturbed, "other work");
    let bound = engine_decided(it.system(&leader), peak) || disturbed;
    it.holds((&captures[1] == "At least") == bound, "a lower bound");
    let people = number(&captures[2]).0;
    it.facts.add("users".to_owned(), people, 0.0, &it.sentence.clone());
}

fn carries(it: &mut Reader<'_>, captures: &Captures<'_>) {
    it.holds(it.first().as_deref() == Some(&captures[2]), "the leader");
    let load = number(&captures[4]).0 as u64;
    let mix = at(it.system(&captures[2]), load);
    let rate = mix.map(|mix| mix.requests_per_second);
    it.figure(&format!("rate with {load} clients"), &captures[2], &captures[3], rate);
    let people = users(rate.unwrap_or(0.0), number(&captures[1]).0);
    // Rounded down to two digits.
    let estimate = touchstone_lab::figures::people_estimate(people);
    let sentence = it.sentence.clone();
    it.facts.add("users".to_owned(), number(&estimate).0, 0.0, &sentence);
    let is_peak = it.peak(&captures[2]).is_some_and(|peak| peak.clients == load);
    let says_useful = captures[5].starts_with("the useful peak");
    it.holds(is_peak || says_useful, "the peak or the useful peak");
    it.holds(captures[5].contains("which is the peak") == (is_peak && says_useful), "which is the peak");
    if says_useful {
        it.figure("useful clients", &captures[2], &captures[4], Some(load as f64));
    }
}

/// Who is ahead of whom, and by how much.
fn standing(it: &mut Reader<'_>, captures: &Captures<'_>) {
    let sentence = it.sentence.clone();
    let _ = captures;
    let by_time =
        sentence.contains("for the same processor time") || sentence.contains("difference in processor time");
    let figure = if by_time { "processor time" } else { "rate" };
    let value = |mix: &MixResult| {
        if by_time {
            mix.server.as_ref().map(|it| 1.0 / it.cpu_us_per_request)
        } else {
            Some(mix.requests_per_second)
        }
    };
    let whole = it.is_complete();
    let Some(first) = it.first() else { return it.holds(false, "a leader") };
    let ratio = |it: &Reader<'_>, other: &str| Some(value(it.peak(&first)?)? / value(it.peak(other)?)?);
    let ahead = sentence.find("is ahead: ");
    let seems = sentence.find("seems to be ahead");
    let level = form("[Bb]etween {S} and (.+) no difference in").captures(&sentence).map(|captures| {
        (captures[1].to_owned(), captures[2].to_owned(), captures.get(0).map_or(0, |it| it.start()))
    });
    let part = form("{N} times {S}(?: \\(over all loads {N}, 95 %: {N} to {N}, {N} pairs of {N} runs\\))?");
    let mut others: Vec<String> = Vec::new();
    for captures in part.captures_iter(&sentence) {
        let at_place = captures.get(0).map_or(0, |it| it.start());
        let other = captures[2].to_owned();
        if whole {
            let times = ratio(it, &other);
            it.figure(&format!("times {other} by {figure}"), &first, &captures[1], times);
        }
        it.holds(number(&captures[1]).0 >= 1.0, "ahead by more than nothing");
        let is_ahead =
            ahead.is_some_and(|start| start < at_place) && seems.is_none_or(|seems| at_place < seems);
        it.holds(
            is_ahead == captures.get(3).is_some(),
            "an interval where a difference is claimed, and only there",
        );
        if let (Some(estimate), Some(low), Some(high)) = (captures.get(3), captures.get(4), captures.get(5)) {
            let (estimate, low, high) =
                (number(estimate.as_str()), number(low.as_str()), number(high.as_str()));
            it.holds(low.0 > 1.0 && low.0 <= estimate.0 && estimate.0 <= high.0, "the interval shows it");
            let compared = it.result.comparisons.iter().find(|it| {
                [&it.first, &it.second].iter().all(|side| [&first, &other].contains(side))
                    && (it.figure == touchstone_lab::result::Figure::ProcessorTime) == by_time
            });
            if let Some(found) = compared {
                let its = found.comparison.ratio.estimate;
                let same = [its, 1.0 / its].iter().any(|ratio| (ratio - estimate.0).abs() <= estimate.1);
                it.holds(same, &format!("the comparison says {its}"));
                it.holds(
                    found.comparison.conclusion
                        != touchstone_lab::statistics::paired::Conclusion::NoDifferenceShown,
                    "the comparison shows it",
                );
            }
            it.holds(number(&captures[7]).0 >= 2.0, "of several runs");
        }
        others.push(other);
    }
    if let Some((one, names, _)) = level {
        it.holds(one == first, "the first");
        others.extend(it.titles(&names));
    }
    let rivals = it.ranked.saturating_sub(1);
    others.sort();
    others.dedup();
    it.holds(others.len() == rivals, &format!("each of {rivals} others once: {others:?}"));
    if seems.is_some() {
        let runs = form("\\(indicative, from (one run|{N} runs)\\)")
            .captures(&sentence)
            .map(|captures| captures.get(2).map_or(1.0, |captures| number(captures.as_str()).0));
        it.holds(runs.is_some(), "from how many runs");
    }
    let bounds = sentence.contains("set some of these rates");
    let decided = it.engine_ranked;
    it.holds(bounds == decided, "the load engine set some of these rates");
    let sure = if sentence.contains("no difference in") {
        0.0
    } else if seems.is_some() {
        1.0
    } else {
        2.0
    };
    if rivals > 0 {
        it.fact("leader is sure", sure);
    }
}

/// The best of each curve of a drawing.
fn best_of_curves(it: &mut Reader<'_>, captures: &Captures<'_>) {
    let figure_of = |mix: &MixResult| -> Option<f64> {
        let server = mix.server.as_ref();
        match &captures[2] {
            "requests/s" => Some(mix.requests_per_second),
            "Mbit/s" => Some(mix.megabits_per_second),
            "µs of the server’s CPU" => server.map(|server| server.cpu_us_per_request),
            "%" => server.map(|server| server.cpu_share * 100.0),
            "% of a processor" => Some(mix.load.busiest_thread * 100.0),
            "MiB resident" => server.map(|server| server.resident_bytes_max as f64 / 1_048_576.0),
            other => panic!("{other} is no measure"),
        }
    };
    let part = form("{S}: {N} with {C}");
    let what = format!("{} {}", &captures[1], &captures[2]);
    for named in part.captures_iter(&captures[3]) {
        let clients = number(&named[3]).0 as u64;
        let system = it.system(&named[1]);
        let value = at(system, clients).and_then(figure_of);
        it.figure(&what, &named[1], &named[2], value);
        let all = loads(system).iter().filter_map(|runs| figure_of(median(runs))).collect::<Vec<_>>();
        let best = if &captures[1] == "Highest" {
            all.iter().copied().fold(0.0, f64::max)
        } else {
            all.iter().copied().fold(f64::MAX, f64::min)
        };
        it.holds(value == Some(best), &format!("the best is {best}"));
        if what == "Highest requests/s" && it.peak(&named[1]).is_some_and(|peak| peak.clients == clients) {
            it.figure("peak rate", &named[1], &named[2], value);
        }
    }
}

fn medians(it: &mut Reader<'_>, captures: &Captures<'_>) {
    let heading = it.heading.clone();
    let system = it.system(&heading);
    let mut last = number(&captures[3]).0 as u64;
    let p50 = |clients: u64| at(system, clients).map(|mix| mix.latency.p50_us);
    it.time(&format!("p50 with {last} clients"), &heading, (&captures[1], &captures[2]), p50(last));
    if let (Some(time), Some(unit), Some(clients)) = (captures.get(4), captures.get(5), captures.get(6)) {
        last = number(clients.as_str()).0 as u64;
        it.time(&format!("p50 with {last} clients"), &heading, (time.as_str(), unit.as_str()), p50(last));
    }
    let p99 = at(system, last).map(|mix| mix.latency.p99_us);
    it.time(&format!("p99 with {last} clients"), &heading, (&captures[7], &captures[8]), p99);
}

fn stall(it: &mut Reader<'_>, captures: &Captures<'_>) {
    let all = it.result.systems.iter().filter_map(|system| Some((system, peak(system)?)));
    let unusual = all.filter(|(_, mix)| mix.latency.max_us > 5.0 * mix.latency.p99_us);
    let Some((system, mix)) =
        unusual.max_by(|left, right| left.1.latency.max_us.total_cmp(&right.1.latency.max_us))
    else {
        return it.holds(false, "an answer took longer than the others");
    };
    let title = system.title.clone();
    it.holds(
        captures.get(1).is_none_or(|captures| captures.as_str() == title),
        "the system of the longest answer",
    );
    it.time("longest at the peak", &title, (&captures[2], &captures[3]), Some(mix.latency.max_us));
    it.clients_of_the_peak(&title, &captures[4]);
    it.figure(
        "arrivals in the stall",
        &title,
        &captures[5],
        Some(mix.requests_per_second * mix.latency.max_us / 1e6),
    );
    it.time("mean wait of the stall", &title, (&captures[6], &captures[7]), Some(mix.latency.max_us / 2.0));
}

/// "In 3 of 12 runs ...": the runs, and that the load engine decided in this many.
fn runs_of_a_rule(it: &mut Reader<'_>, some: &str, all: &str) {
    let runs = it.mixes().count() as f64;
    it.figure("runs in all", "", all, Some(runs));
    it.holds(number(some).0 <= runs, "some of all");
    if it.sentence.contains("nothing shows that the warm-up was over") {
        it.fact("settled", 0.0);
    }
    if it.sentence.contains("the load engine was") {
        let decided: usize = it
            .result
            .systems
            .iter()
            .map(|system| system.mixes.iter().filter(|mix| engine_decided(system, mix)).count())
            .sum();
        let named: f64 = form("[Ii]n {N} of [0-9,]+ runs the load engine")
            .captures_iter(&it.sentence.clone())
            .map(|captures| number(&captures[1]).0)
            .sum();
        it.holds(named == decided as f64, &format!("the load engine decided {decided} rates"));
    }
}

fn runs_of_loads(system: &SystemResult) -> Vec<usize> {
    let times = |mix: &MixResult| system.mixes.iter().filter(|other| other.clients == mix.clients).count();
    system.mixes.iter().map(times).collect()
}

/// What breaks and what to change follow from one cause.
fn remedy(it: &mut Reader<'_>, captures: &Captures<'_>) {
    let causes = [
        ("Twice the processors", 0.0),
        ("The server’s processors", 0.0),
        ("More processors or machines for the load engine", 1.0),
        ("Not the server: the load engine, which", 2.0),
        ("Not the server: the load engine", 1.0),
        ("Give the load engine a processor", 2.0),
        ("Measure with more clients", 3.0),
        ("Nothing that this result shows", 3.0),
        ("One processor of several", 4.0),
        ("As many workers as processors", 4.0),
        ("Find what is waited for", 5.0),
        ("Locks, or something", 5.0),
    ];
    let text =
        captures.get(0).map_or("", |_| it.sentence.split_once(": ").map_or("", |(_, text)| text)).to_owned();
    if let Some((_, cause)) = causes.iter().find(|(words, _)| text.starts_with(words))
        && let Some(leader) = it.first()
    {
        it.fact(&format!("what held back {leader}"), *cause);
    }
}
