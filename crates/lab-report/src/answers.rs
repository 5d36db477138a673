//! The five questions that a result answers: which server, which interface, how many users, what breaks
//! first, what to change first. Each answer is a few words with its figures; if the result has no answer, the
//! text states so and what to measure.
//!
//! They are on the first screen of the report and at the end of a run. Accelerated systems do not compete
//! with the servers: their gain is a part of what to change.

use crate::planning::Plan;
use crate::planning::users;
use serde::Serialize;
use touchstone_lab::acceleration::{self, Acceleration};
use touchstone_lab::arrivals::{is_open, lost};
use touchstone_lab::bottleneck::Verdict;
use touchstone_lab::figures::{clients, count, list, people_estimate, rate, significant};
use touchstone_lab::open_load;
use touchstone_lab::peaks::{peak, rate_is_the_servers};
use touchstone_lab::ranking::Ranking;
use touchstone_lab::result::{ResultFile, SpiceRow, SystemResult};
use touchstone_lab::saturation::{OTHER_WORK_CPUS, other_work_cpus};
use touchstone_lab::series;
use touchstone_lab::spice;

/// A question with its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The question.
    pub question: &'static str,
    /// The answer, in a few words.
    pub answer: String,
    /// The figures that it is based on, in a sentence or two.
    pub because: String,
}

/// A change must multiply the rate by this to be named before the bottleneck's own remedy.
const WORTH_A_CHANGE: f64 = 1.1;
/// Pages that a user opens a minute, for the one figure that an answer has room for; the table has others.
const PAGES_PER_MINUTE: f64 = 1.0;

/// The answers, in the order of the questions. The plans are those of the same result.
pub fn of(result: &ResultFile, plans: &[Plan]) -> Vec<Answer> {
    let ranking = Ranking::of(result);
    if is_open(result) {
        return of_open_loads(result, &ranking);
    }
    let leader = ranking.servers.first().map(|server| Leader { result, plans, system: server.system });
    let answers = [
        ("Which server?", which_server(result, &ranking)),
        ("Which interface?", leader.as_ref().map_or_else(not_measured, Leader::which_interface)),
        ("How many users?", leader.as_ref().map_or_else(not_measured, Leader::how_many_users)),
        ("What breaks first?", leader.as_ref().map_or_else(not_measured, Leader::what_breaks)),
        ("What to change first?", leader.as_ref().map_or_else(not_measured, Leader::what_to_change)),
    ];
    answers.map(|(question, (answer, because))| Answer { question, answer, because }).into()
}

/// The answers of open loads, whose rates are given and not searched for: only which systems carry them.
fn of_open_loads(result: &ResultFile, ranking: &Ranking<'_>) -> Vec<Answer> {
    let system = ranking.servers.first().map(|server| server.system);
    let answer_of = |tell: fn(&ResultFile, &SystemResult) -> AnswerWithEvidence| {
        system.map_or_else(not_measured, |system| tell(result, system))
    };
    let answers = [
        ("Which server?", which_server(result, ranking)),
        (
            "Which interface?",
            (
                "One workload was measured".to_owned(),
                "Interfaces are compared by their peaks, which rates that are stated do not look for."
                    .to_owned(),
            ),
        ),
        ("How many users?", answer_of(users_of_open_loads)),
        ("What breaks first?", answer_of(what_breaks_of_open_loads)),
        (
            "What to change first?",
            (
                "No recommendation".to_owned(),
                "What holds a server back is shown by closed loops: a suite without rates, or --find-peak."
                    .to_owned(),
            ),
        ),
    ];
    answers.map(|(question, (answer, because))| Answer { question, answer, because }).into()
}

fn users_of_open_loads(result: &ResultFile, system: &SystemResult) -> AnswerWithEvidence {
    let (carried, beyond) = open_load::highest_carried(system);
    let Some(carried) = carried else {
        return (
            "Fewer than were requested".to_owned(),
            format!("{} carried none of the rates.", system.title),
        );
    };
    let Some(served) = people(carried.requests_per_second) else { return not_measured() };
    let here = if result.machine.same_host { ", on this machine" } else { "" };
    let runs = if one_run(result) { ", indicative (one run)" } else { "" };
    let bound = match beyond {
        Some(mix) => format!("{} were too many", mix.load_in_words()),
        None => "no higher rate was requested".to_owned(),
    };
    (
        format!("At least {}{here}{runs}", people_estimate(served)),
        format!(
            "Each opens a page a minute, of {} requests; {} carried {} ({bound}).",
            count(users::REQUESTS_PER_PAGE_2025 as u64),
            system.title,
            carried.load_in_words(),
        ),
    )
}

fn what_breaks_of_open_loads(_: &ResultFile, system: &SystemResult) -> AnswerWithEvidence {
    match open_load::highest_carried(system) {
        (_, Some(beyond)) => (
            format!("Answers, at {}", beyond.load_in_words()),
            format!("{}: {}.", system.title, lost(beyond)),
        ),
        (_, None) => {
            ("No limit was reached".to_owned(), format!("{} carried every requested rate.", system.title))
        }
    }
}

/// An answer, and its evidence.
type AnswerWithEvidence = (String, String);

fn not_measured() -> AnswerWithEvidence {
    ("Not measured".to_owned(), "No server gave a valid answer that counted.".to_owned())
}

fn which_server(result: &ResultFile, ranking: &Ranking<'_>) -> AnswerWithEvidence {
    let Some(mut answer) = ranking.answer() else { return not_measured() };
    let rivals = || result.systems.iter().filter(|system| !system.is_limit && system.origin.is_none());
    if ranking.distances.is_empty() && rivals().filter(|system| peak(system).is_some()).count() > 1 {
        return (
            "Not shown".to_owned(),
            "The run ended before all servers had completed a load, so they are not compared.".to_owned(),
        );
    }
    if ranking.distances.is_empty() {
        let skipped = result.systems.iter().filter(|system| system.was_not_measured());
        let reasons: Vec<&str> =
            skipped.map(|system| system.skipped[0].reason.trim_end_matches('.')).collect();
        let because = match reasons.is_empty() {
            true => "The only one that was measured; others are named with --sut.".to_owned(),
            false => format!("The only one that was measured: {}.", reasons.join("; ")),
        };
        return (answer, because);
    }
    let by_interface = match result.suite.interfaces.first() {
        Some(first) => {
            answer.push_str(&format!(", with a {}", first.title));
            spice::ahead_by_interface(result)
        }
        None => None,
    };
    let because = by_interface.or_else(|| ranking.sentence()).unwrap_or_default();
    (answer, because)
}

fn one_run(result: &ResultFile) -> bool {
    result.systems.iter().flat_map(|system| &system.mixes).all(|mix| mix.run <= 1)
}

/// The server that the other questions are about.
struct Leader<'a> {
    result: &'a ResultFile,
    plans: &'a [Plan],
    system: &'a SystemResult,
}

impl Leader<'_> {
    /// The plan of one of its interfaces; of its only workload if the suite compares none.
    fn plan(&self, interface: &str) -> Option<&Plan> {
        let title = series::title(self.result, self.system, interface);
        self.plans.iter().find(|plan| plan.system == title)
    }

    fn base_interface(&self) -> &str {
        self.system.mixes.first().map_or("", |mix| mix.interface.as_str())
    }

    /// The programs' interfaces with their processor time beside a static file's, the cheapest first.
    fn programs(&self) -> Vec<Program> {
        let mut programs: Vec<Program> = spice::rows(self.result)
            .into_iter()
            .filter(|row| row.system == self.system.name)
            .filter_map(|row| {
                let cost = row.processor_cost.as_ref()?;
                let interface = series::interface(self.result, &row.interface)?;
                Some(Program {
                    title: interface.title.clone(),
                    runs_code: !["files", "includes"].contains(&interface.needs.as_str()),
                    needs: interface.needs.clone(),
                    us: cost.cpu_us_per_request,
                    static_us: cost.static_cpu_us_per_request,
                    row,
                })
            })
            .collect();
        programs.sort_by(|left, right| left.us.total_cmp(&right.us));
        programs
    }

    fn which_interface(&self) -> AnswerWithEvidence {
        if self.result.suite.interfaces.is_empty() {
            return (
                "One workload was measured".to_owned(),
                "touchstone bench spice holds every interface of a server against its static files."
                    .to_owned(),
            );
        }
        let programs = self.programs();
        let cheapest = programs.iter().find(|program| program.runs_code).or_else(|| programs.first());
        let (Some(first), Some(last)) = (cheapest, programs.last()) else {
            return (
                "Not measured".to_owned(),
                format!("{} was measured with static files only, or not watched.", self.system.title),
            );
        };
        let beyond = first.us - first.static_us;
        let answer = if beyond > 0.0 {
            format!("{}: {} µs beyond a static file", first.title, significant(beyond))
        } else {
            format!("{}: no dearer than a static file", first.title)
        };
        let all: Vec<String> = std::iter::once(format!("static file {}", significant(first.static_us)))
            .chain(programs.iter().map(|program| format!("{} {}", program.title, significant(program.us))))
            .collect();
        let because = format!(
            "Processor time of a request with {}, µs: {}. {}",
            self.system.title,
            all.join(", "),
            if programs.len() > 1 {
                format!("{} costs {} times a static file.", last.title, significant(last.us / last.static_us))
            } else {
                String::new()
            }
        );
        (answer, because.trim_end().to_owned())
    }

    fn how_many_users(&self) -> AnswerWithEvidence {
        let Some(plan) = self.plan(self.base_interface()) else { return not_measured() };
        let useful = plan.useful_peak.as_ref().and_then(|found| found.useful.as_ref());
        let (carried, load) = match useful {
            Some(load) => (load.rate, load.load as u64),
            None => (plan.peak_rate, plan.peak_clients),
        };
        let Some(served) = people(carried) else { return not_measured() };
        let kind = match (useful, plan.useful_peak.as_ref()) {
            (Some(_), Some(found)) => match &found.difference {
                Some(why) => format!("the useful peak; {why}"),
                None => "the useful peak, which is the peak".to_owned(),
            },
            (None, Some(found)) => match &found.difference {
                Some(why) => format!("the peak, as {why}"),
                None => "the peak".to_owned(),
            },
            (_, None) => "the peak".to_owned(),
        };
        let mut because = format!(
            "Each opens a page a minute, of {} requests; {} carries {} requests/s with {} ({kind}).",
            count(users::REQUESTS_PER_PAGE_2025 as u64),
            self.system.title,
            rate(carried),
            clients(load),
        );
        if let Some((program, least)) = self.dearest().and_then(|program| {
            let least = people(program.row.requests_per_second)?;
            Some((program, least))
        }) {
            because.push_str(&format!(
                " If every request ran {}: {}.",
                program.title,
                people_estimate(least)
            ));
        }
        // The figure already states its bound.
        let own = peak(self.system).is_none_or(|peak| rate_is_the_servers(self.system, peak));
        let disturbed =
            peak(self.system).and_then(other_work_cpus).is_some_and(|cpus| cpus >= OTHER_WORK_CPUS);
        let bound = if own && !disturbed { "About" } else { "At least" };
        let runs = if one_run(self.result) { ", indicative (one run)" } else { "" };
        let here = if self.result.machine.same_host { ", on this machine" } else { "" };
        let beside = if disturbed { ", beside other work" } else { "" };
        (format!("{bound} {}{here}{beside}{runs}", people_estimate(served)), because)
    }

    fn dearest(&self) -> Option<Program> {
        self.programs().pop()
    }

    fn what_breaks(&self) -> AnswerWithEvidence {
        let Some(plan) = self.plan(self.base_interface()) else { return not_measured() };
        let first = plan.bottleneck.verdict;
        let mut because = format!("{}: {}", plan.system, plan.bottleneck.clause());
        let others: Vec<String> = self
            .result
            .suite
            .interfaces
            .iter()
            .filter(|interface| interface.name != self.base_interface())
            .filter_map(|interface| {
                let verdict = self.plan(&interface.name)?.bottleneck.verdict;
                (verdict != first).then(|| format!("{} ({})", interface.title, uncapitalised(what(verdict))))
            })
            .collect();
        if !others.is_empty() {
            because.push_str(&format!(" Otherwise with {}.", list(&others)));
        }
        (what(first).to_owned(), because)
    }

    fn what_to_change(&self) -> AnswerWithEvidence {
        let mut changes: Vec<AnswerWithEvidence> = self.cheaper_interface().into_iter().collect();
        changes.extend(
            acceleration::from_result(self.result).iter().filter_map(|it| accelerated(self.result, it)),
        );
        let remedy = self.plan(self.base_interface()).and_then(|plan| plan.advice.first());
        changes.extend(remedy.map(|it| {
            (capitalised(&it.change), format!("{}.", capitalised(it.gives.trim_end_matches('.'))))
        }));
        let mut changes = changes.into_iter();
        let Some((answer, mut because)) = changes.next() else {
            return (
                "No recommendation".to_owned(),
                "Nothing held the server back in this result.".to_owned(),
            );
        };
        for (change, gives) in changes {
            because.push_str(&format!(
                " Then: {} ({}).",
                uncapitalised(&change),
                uncapitalised(gives.trim_end_matches('.'))
            ));
        }
        (answer, because)
    }

    /// Advice to replace the most expensive interface by the cheapest, if that gains much.
    fn cheaper_interface(&self) -> Option<AnswerWithEvidence> {
        // A page with directives runs no program: one cannot move there.
        let programs: Vec<Program> =
            self.programs().into_iter().filter(|program| program.runs_code).collect();
        let (cheap, dear) = (programs.first()?, programs.last()?);
        let times = dear.us / cheap.us;
        (times >= WORTH_A_CHANGE && programs.len() > 1).then(|| {
            let by_rate = cheap.row.requests_per_second / dear.row.requests_per_second;
            (
                format!("Run programs by {}, not by {}", cheap.title, dear.title),
                format!(
                    "Measured: {} times the rate, and {} µs of processor time in the place of {}. It takes \
                     {}.",
                    significant(by_rate),
                    significant(cheap.us),
                    significant(dear.us),
                    required_work(&cheap.needs)
                ),
            )
        })
    }
}

/// A program's interface and its price.
struct Program {
    title: String,
    /// False for a page with directives, which has no code.
    runs_code: bool,
    /// The capability that a system needs for it.
    needs: String,
    us: f64,
    static_us: f64,
    row: SpiceRow,
}

/// The accelerator in front of an origin that was also measured alone, if it gains much.
fn accelerated(result: &ResultFile, acceleration: &Acceleration<'_>) -> Option<AnswerWithEvidence> {
    let factors: Vec<(Option<&str>, f64)> = acceleration
        .pairs(result)
        .iter()
        .filter_map(|pair| Some((pair.interface, pair.factors()?.rate)))
        .collect();
    let best = factors.iter().map(|(_, factor)| *factor).fold(0.0, f64::max);
    (best >= WORTH_A_CHANGE).then(|| {
        let factor_words: Vec<String> = factors
            .iter()
            .map(|(title, factor)| match title {
                Some(title) => format!("{} times with {title}", significant(*factor)),
                None => format!("{} times", significant(*factor)),
            })
            .collect();
        (
            format!("Put the accelerator before {}", acceleration.origin.title),
            format!("Measured, by the peak rate: {}.", list(&factor_words)),
        )
    })
}

/// The work of moving a program to an interface, by what the interface needs.
fn required_work(needs: &str) -> &'static str {
    match needs {
        "cgi" => "a program that is started for each request and prints its answer",
        "fastcgi" | "application" => {
            "a program that keeps running and answers one request after the other (a FastCGI library; what \
             CGI kept in global variables must be cleared between requests)"
        }
        "nsapi" => {
            "the program rewritten as a function of a plug-in in C, in the server\u{2019}s process: it must \
             be safe for threads, and its crash is the server\u{2019}s"
        }
        "servlet" | "jsp" => "the program rewritten in Java, and a Java virtual machine beside the server",
        "ajp" => "the program rewritten in Java, and a Tomcat of its own",
        "wsgi" | "asgi" => "the program rewritten in Python, as a callable",
        _ => "the program rewritten for that interface",
    }
}

/// The users that a rate can serve, under the assumptions that the answer names.
fn people(requests_per_second: f64) -> Option<f64> {
    let assumed = users::Assumptions {
        pages_per_minute: PAGES_PER_MINUTE,
        requests_per_page: users::REQUESTS_PER_PAGE_2025,
        cache_hit_share: 0.0,
        first_party_share: 1.0,
    };
    users::users(requests_per_second, &assumed).filter(|people| people.is_finite())
}

/// The failure, from the point of view of the server's operator.
fn what(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::ServerCpu => "The server\u{2019}s processors",
        Verdict::SingleCore => "One processor of several",
        Verdict::Softirq => "The processor that takes the interrupts",
        Verdict::Nic => "The network link",
        Verdict::Disk => "The disk",
        Verdict::Memory => "Memory",
        Verdict::AcceptQueue => "The accept queue",
        Verdict::LocksOrOther => "Locks, or something that was not watched",
        Verdict::Generator => "Not the server: the load engine",
        Verdict::EngineDisturbed => "Not the server: the load engine, which was disturbed",
        Verdict::Undetermined => "Nothing that this result shows",
    }
}

fn uncapitalised(sentence: &str) -> String {
    let mut characters = sentence.chars();
    // An abbreviation or a name keeps its capitals.
    let is_word = sentence.chars().nth(1).is_none_or(|second| !second.is_uppercase());
    match characters.next() {
        Some(first) if is_word => first.to_lowercase().chain(characters).collect(),
        _ => sentence.to_owned(),
    }
}

fn capitalised(sentence: &str) -> String {
    let mut characters = sentence.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planning::{Assumptions, plan};
    use touchstone_lab::sample;

    fn answers(result: &ResultFile) -> Vec<Answer> {
        of(result, &plan(result, &[], &Assumptions::default()))
    }

    fn told<'a>(answers: &'a [Answer], question: &str) -> (&'a str, &'a str) {
        let found = answers.iter().find(|answer| answer.question.starts_with(question)).unwrap();
        (&found.answer, &found.because)
    }

    #[test]
    fn five_questions_are_answered_of_static_files() {
        let answers = answers(&sample::result());
        assert_eq!(answers.len(), 5);
        assert_eq!(
            told(&answers, "Which server"),
            (
                "touchstone 0.1.0, indicative",
                "touchstone 0.1.0 seems to be ahead (indicative, from one run): its peak rate is 1.50 times \
                 nginx 1.22.1."
            )
        );
        assert_eq!(told(&answers, "Which interface").0, "One workload was measured");
        // 60,000 / (77 / 60) = 46,753.
        let (users, because) = told(&answers, "How many users");
        assert_eq!(users, "About 46,000, on this machine, indicative (one run)");
        assert!(because.contains("3 runs are needed"), "{because}");
        assert_eq!(told(&answers, "What breaks").0, "The server\u{2019}s processors");
        assert!(told(&answers, "What to change").0.starts_with("Twice the processors"));
    }

    #[test]
    fn interfaces_are_told_by_their_price() {
        let answers = answers(&sample::spice());
        let (server, because) = told(&answers, "Which server");
        assert_eq!(server, "touchstone 0.1.0, indicative, with a static file");
        assert_eq!(because, spice::sentences(&sample::spice())[0]);
        let (interface, because) = told(&answers, "Which interface");
        // 960,000 / 1,000 - 960,000 / 60,000, with as many clients for both. SHTML runs no program.
        assert_eq!(interface, "CGI: 944 µs beyond a static file");
        assert!(because.contains("static file 16.0, SHTML 17.5, CGI 960"), "{because}");
        assert!(told(&answers, "How many users").1.contains("If every request ran CGI: 930."));
        let (change, because) = told(&answers, "What to change");
        assert!(!change.contains("SHTML") && !because.contains("SHTML"), "{change}: {because}");
    }

    #[test]
    fn a_program_moves_to_an_interface_that_runs_programs() {
        // The same figures, of FastCGI in the place of SHTML.
        let mut result = sample::spice();
        let shtml = result.suite.interfaces.iter_mut().find(|it| it.name == "shtml").unwrap();
        (shtml.title, shtml.needs) = ("FastCGI".to_owned(), "fastcgi".to_owned());
        let answers = answers(&result);
        assert_eq!(told(&answers, "Which interface").0, "FastCGI: 1.45 µs beyond a static file");
        let (change, because) = told(&answers, "What to change");
        assert_eq!(change, "Run programs by FastCGI, not by CGI");
        assert!(because.starts_with("Measured: 45.8 times the rate"), "{because}");
        assert!(because.contains("It takes a program that keeps running"), "{because}");
        assert!(because.contains(" Then: twice the processors"), "{because}");
    }

    #[test]
    fn the_accelerator_is_an_answer_and_no_rival() {
        let result = sample::accelerated();
        let answers = answers(&result);
        let alone = acceleration::from_result(&result)[0].alone.unwrap().title.clone();
        assert_eq!(told(&answers, "Which server").0, alone);
        let (change, because) = told(&answers, "What to change");
        assert!(change.starts_with("Put the accelerator before "), "{change}");
        assert!(because.starts_with("Measured, by the peak rate: 6.50 times."), "{because}");
    }

    #[test]
    fn rates_that_the_load_engine_set_give_way_to_processor_time() {
        let mut result = sample::result();
        let mix = &mut result.systems[0].mixes[2];
        mix.generator_saturated = Some("a thread was busy".into());
        mix.server.as_mut().unwrap().cpu_share = 0.7;
        let answers = answers(&result);
        let (server, because) = told(&answers, "Which server");
        assert_eq!(server, "touchstone 0.1.0, indicative");
        assert!(because.contains("processor time") && because.contains("1.50 times nginx"), "{because}");
    }

    #[test]
    fn level_servers_and_nothing_at_all_are_said() {
        let mut result = sample::result();
        result.systems[1].mixes[2].requests_per_second = 59_500.0;
        let found = answers(&result);
        assert_eq!(
            told(&found, "Which server"),
            (
                "No difference shown between touchstone 0.1.0 and nginx 1.22.1",
                "Between touchstone 0.1.0 and nginx 1.22.1 (less than 3.0 % at the peaks) no difference in \
                 requests/s is shown."
            )
        );
        result.systems.clear();
        assert!(answers(&result).iter().all(|answer| answer.answer == "Not measured"));
    }
}
