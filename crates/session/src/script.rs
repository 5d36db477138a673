//! A compiled script, and the state of one client in it.

use crate::answer::AnswerView;
use crate::assertion::Assertion;
use crate::cookie_jar::CookieJar;
use crate::data::MAXIMUM_DATA_BYTES;
use crate::extraction::Extraction;
use crate::plan::{DataPlan, ExtractPlan, RowOrder, ScriptError, ScriptPlan, StepPlan};
use crate::step_cache::StepCache;
use crate::template::is_name;
use crate::values::Values;
use std::io::Write;

/// The variables of every session.
const BUILT_IN: [(&str, &str); 3] = [
    ("client", "the number of the virtual client, from 0"),
    ("session", "the number of earlier sessions of this client"),
    ("random", "a random number for each session"),
];
/// The variable with a redirect's target; users cannot write its name.
const LOCATION: usize = BUILT_IN.len();
/// The maximum number of redirects for a request.
const MAXIMUM_REDIRECTS: u32 = 20;

/// A plan's script, compiled.
#[derive(Debug, Default)]
pub struct Script {
    names: Vec<String>,
    tables: Vec<Table>,
    has_cookies: bool,
    /// The text for each number of a [`Problem`].
    problem_texts: Vec<String>,
}

#[derive(Debug)]
struct Table {
    variables: Vec<usize>,
    plan: DataPlan,
}

/// The compiled actions for one request besides sending it.
#[derive(Debug, Default)]
pub struct Step {
    extractions: Vec<(Extraction, usize)>,
    assertions: Vec<(Assertion, usize)>,
    redirects: u32,
    reads_body: bool,
}

/// The problem of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// A value is missing; the number selects a text of [`Script::problem_text`].
    Extraction(usize),
    /// An assertion is false.
    Assertion(usize),
}

/// The parameters of a new session.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// The client's number in the whole run.
    pub client: usize,
    /// The number of clients in the whole run.
    pub clients: usize,
    /// A random number for this session.
    pub random: u64,
}

/// A client's values and cookies.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The values of the variables.
    pub values: Values,
    cookies: CookieJar,
    sessions: u64,
    scratch: Vec<u8>,
}

/// Checks the actions of one request without those of other requests.
pub fn check_step(plan: &StepPlan) -> Result<(), ScriptError> {
    Script::compile(&ScriptPlan::default())?.step(plan).map(drop)
}

impl Script {
    /// Compiles the shared settings.
    pub fn compile(plan: &ScriptPlan) -> Result<Script, ScriptError> {
        let mut script = Script {
            names: BUILT_IN.iter().map(|(name, _)| (*name).to_string()).chain([String::new()]).collect(),
            has_cookies: plan.cookies,
            ..Script::default()
        };
        let bytes: usize =
            plan.data.iter().flat_map(|data| data.rows.iter()).flatten().map(String::len).sum();
        if bytes as u64 > MAXIMUM_DATA_BYTES {
            return Err(ScriptError(format!(
                "the data files have {bytes} bytes together: at most {MAXIMUM_DATA_BYTES} are possible"
            )));
        }
        for data in &plan.data {
            if data.rows.is_empty() || data.rows.iter().any(|row| row.len() != data.columns.len()) {
                return Err(ScriptError(format!(
                    "{}: a row does not have as many values as there are columns",
                    data.name
                )));
            }
            let variables = data.columns.iter().map(|column| script.new_variable(column, &data.name));
            let variables = variables.collect::<Result<_, _>>()?;
            script.tables.push(Table { variables, plan: data.clone() });
        }
        Ok(script)
    }

    fn new_variable(&mut self, name: &str, of: &str) -> Result<usize, ScriptError> {
        if !is_name(name) {
            return Err(ScriptError(format!(
                "{of}: {name:?} is not a valid name of a variable: use letters, digits and _"
            )));
        }
        if self.names.iter().any(|known| known == name) {
            return Err(ScriptError(format!("{of}: a variable {name:?} exists already")));
        }
        self.names.push(name.to_string());
        Ok(self.names.len() - 1)
    }

    /// Compiles the actions of one request. An extraction may set an earlier variable again, but not one of a
    /// data file.
    pub fn step(&mut self, plan: &StepPlan) -> Result<Step, ScriptError> {
        let mut step = Step { redirects: plan.redirects, ..Step::default() };
        if plan.redirects > MAXIMUM_REDIRECTS {
            return Err(ScriptError(format!(
                "{} redirects: at most {MAXIMUM_REDIRECTS} can be followed",
                plan.redirects
            )));
        }
        for extract in &plan.extract {
            let variable = self.extracted_variable(extract)?;
            let extraction = Extraction::compile(extract, variable)?;
            step.reads_body |= extraction.query.reads_body();
            step.extractions.push((extraction, self.problem_texts.len()));
            self.problem_texts.push(format!("there is no {}: {}", extract.name, extract.from));
        }
        for text in &plan.assert {
            let assertion = Assertion::compile(text)?;
            step.reads_body |= assertion.reads_body();
            step.assertions.push((assertion, self.problem_texts.len()));
            self.problem_texts.push(format!("the assertion is false: {text}"));
        }
        Ok(step)
    }

    fn extracted_variable(&mut self, extract: &ExtractPlan) -> Result<usize, ScriptError> {
        let known = self.names.iter().position(|name| *name == extract.name);
        let is_taken = |variable: usize| {
            variable <= LOCATION || self.tables.iter().any(|table| table.variables.contains(&variable))
        };
        match known {
            Some(variable) if !extract.name.is_empty() && !is_taken(variable) => Ok(variable),
            Some(_) if !extract.name.is_empty() => Err(ScriptError(format!(
                "extract {}: a data file has a variable with this name, or it is predefined",
                extract.name
            ))),
            _ => self.new_variable(&extract.name, "extract"),
        }
    }

    /// The number of a variable, or an error if there is none.
    pub fn variable(&self, name: &str) -> Result<usize, String> {
        if let Some(number) = self.names.iter().position(|known| known == name && !known.is_empty()) {
            return Ok(number);
        }
        let known = self.names.iter().filter(|known| !known.is_empty());
        let nearest =
            known.max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
        let hint = nearest.filter(|nearest| strsim::jaro_winkler(nearest, name) > 0.8);
        Err(match hint {
            Some(nearest) => format!("unknown variable {name:?}; is {nearest:?} meant?"),
            None => format!(
                "unknown variable {name:?}: variables come from `extract`, from the columns of `data`, \
                 and are client, session and random"
            ),
        })
    }

    /// The name of a variable.
    pub fn name(&self, variable: usize) -> &str {
        self.names.get(variable).map_or("", String::as_str)
    }

    /// The variable that replaces the path in a redirect's request.
    pub fn location_variable(&self) -> usize {
        LOCATION
    }

    /// Whether a variable has a value before the first request of a session: it is from a data file, or
    /// predefined.
    pub fn is_known_at_start(&self, variable: usize) -> bool {
        variable < LOCATION || self.tables.iter().any(|table| table.variables.contains(&variable))
    }

    /// The text for a [`Problem`].
    pub fn problem_text(&self, number: usize) -> &str {
        self.problem_texts.get(number).map_or("", String::as_str)
    }

    /// Whether clients keep cookies.
    pub fn has_cookies(&self) -> bool {
        self.has_cookies
    }

    /// The state of a client before its first session.
    pub fn new_state(&self) -> State {
        State { values: Values::new(self.names.len()), ..State::default() }
    }

    /// Begins the next session of a client, with new values and without cookies.
    pub fn begin(&self, state: &mut State, start: &Start) {
        let round = state.sessions;
        state.sessions += 1;
        state.cookies.clear();
        // Writing to memory does not fail.
        let _ = write!(state.values.fresh(0), "{}", start.client);
        let _ = write!(state.values.fresh(1), "{round}");
        let _ = write!(state.values.fresh(2), "{}", start.random >> 11);
        let mut random = start.random;
        for table in &self.tables {
            let rows = table.plan.rows.len() as u64;
            let row = match table.plan.order {
                RowOrder::Sequence => {
                    (u128::from(round) * start.clients as u128 + start.client as u128) % u128::from(rows)
                }
                RowOrder::Random => {
                    // Each table gets another number (the multiplier of Knuth's MMIX).
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (u128::from(random) * u128::from(rows)) >> 64
                }
            };
            let row = &table.plan.rows[row as usize];
            for (variable, value) in table.variables.iter().zip(row) {
                state.values.set(*variable, value.as_bytes());
            }
        }
    }
}

impl Step {
    /// Whether the step reads the body of the answer.
    pub fn reads_body(&self) -> bool {
        self.reads_body
    }

    /// The number of redirects to follow.
    pub fn redirects(&self) -> u32 {
        self.redirects
    }

    /// The numbers of the variables that the step sets.
    pub fn sets(&self) -> impl Iterator<Item = usize> {
        self.extractions.iter().map(|(extraction, _)| extraction.variable)
    }

    /// Checks the assertions, then extracts the values of an answer. `cache` is the cache of this step.
    pub fn take(
        &self,
        answer: &AnswerView<'_>,
        state: &mut State,
        cache: &mut StepCache,
    ) -> Result<(), Problem> {
        let is_known = self.reads_body && cache.contains(answer.body);
        for (assertion, number) in &self.assertions {
            let is_known = is_known && assertion.reads_body();
            if !is_known && !assertion.is_met(answer, &mut state.scratch) {
                return Err(Problem::Assertion(*number));
            }
        }
        for (index, (extraction, number)) in self.extractions.iter().enumerate() {
            if is_known && extraction.query.reads_body() {
                state.values.set(extraction.variable, cache.value(index));
            } else if !extraction.take(answer, &mut state.values, cache.position(index)) {
                return Err(Problem::Extraction(*number));
            }
        }
        if self.reads_body && !is_known {
            self.store(answer.body, state, cache);
        }
        Ok(())
    }

    /// Stores the values of a valid answer in the cache.
    fn store(&self, body: &[u8], state: &State, cache: &mut StepCache) {
        let values = self.extractions.iter().map(|(extraction, _)| match extraction.query.reads_body() {
            true => state.values.get(extraction.variable),
            false => b"".as_slice(),
        });
        cache.store(body, values);
    }
}

impl State {
    /// Stores the cookies of an answer.
    pub fn take_cookies(&mut self, answer: &AnswerView<'_>, target: usize, request_path: &[u8], now_s: i64) {
        self.cookies.take(answer.fields, target, request_path, now_s);
    }

    /// Appends the value of the Cookie field for a request; false if there are no cookies for it.
    pub fn append_cookies(&self, target: usize, path: &[u8], is_secure: bool, out: &mut Vec<u8>) -> bool {
        self.cookies.append(target, path, is_secure, out)
    }

    /// Sets the target of a redirect.
    pub fn set_location(&mut self, path: &[u8]) {
        self.values.set(LOCATION, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn data(order: RowOrder) -> DataPlan {
        let rows: Vec<Vec<String>> = (0..5).map(|row| vec![format!("u{row}"), format!("p{row}")]).collect();
        DataPlan {
            name: "u.csv".into(),
            columns: vec!["user".into(), "pass".into()],
            rows: Arc::from(rows),
            order,
        }
    }

    fn extract(name: &str, from: &str) -> ExtractPlan {
        ExtractPlan { name: name.into(), from: from.into() }
    }

    #[test]
    fn each_session_has_its_own_row() {
        let plan = ScriptPlan { data: vec![data(RowOrder::Sequence)], cookies: false };
        let script = Script::compile(&plan).expect("a good script");
        let user = script.variable("user").expect("a column");
        let mut taken = Vec::new();
        for client in 0..2 {
            let mut state = script.new_state();
            for random in 0..2 {
                script.begin(&mut state, &Start { client, clients: 2, random });
                taken.push(String::from_utf8_lossy(state.values.get(user)).into_owned());
            }
        }
        assert_eq!(taken, ["u0", "u2", "u1", "u3"]);
        let plan = ScriptPlan { data: vec![data(RowOrder::Random)], cookies: false };
        let script = Script::compile(&plan).expect("a good script");
        let mut state = script.new_state();
        let mut seen = std::collections::BTreeSet::new();
        for random in 0..100u64 {
            let random = random.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            script.begin(&mut state, &Start { client: 0, clients: 1, random });
            seen.insert(state.values.get(user).to_vec());
        }
        assert_eq!(seen.len(), 5);
    }

    #[test]
    fn a_step_extracts_values_and_reports_missing_ones() {
        let mut script = Script::compile(&ScriptPlan::default()).expect("a good script");
        let plan = StepPlan {
            extract: vec![extract("token", "json $.t"), extract("next", "header location")],
            assert: vec!["contains t".into()],
            redirects: 0,
        };
        let step = script.step(&plan).expect("a good step");
        let mut state = script.new_state();
        let mut cache = StepCache::default();
        let mut take = |fields: &Vec<(Vec<u8>, Vec<u8>)>, body: &[u8]| {
            step.take(&AnswerView { fields, body }, &mut state, &mut cache)
        };
        let location = vec![(b"Location".to_vec(), b"/x".to_vec())];
        assert_eq!(take(&location, br#"{"t":7}"#), Ok(()));
        assert_eq!(take(&Vec::new(), br#"{"t":7}"#), Err(Problem::Extraction(1)));
        assert_eq!(take(&location, br#"{"t":null}"#), Err(Problem::Extraction(0)));
        assert_eq!(take(&location, b"{}"), Err(Problem::Assertion(2)));
        assert_eq!(script.problem_text(1), "there is no next: header location");
        assert_eq!(script.problem_text(2), "the assertion is false: contains t");
        assert!(step.reads_body());
    }

    proptest! {
        #[test]
        fn cached_values_are_the_values_of_the_answer(
            answers in prop::collection::vec(
                (prop_oneof![Just(""), Just("/x")], "(\\{\"t\":[12]\\}|<b>[12]</b>|)( no)?"), 1..8,
            ),
        ) {
            let mut script = Script::compile(&ScriptPlan::default()).expect("a good script");
            let plan = StepPlan {
                extract: vec![
                    extract("text", r"regex [12]"),
                    extract("place", "header location"),
                    extract("place", "body"),
                ],
                assert: vec!["not contains no".into(), "header location".into()],
                redirects: 0,
            };
            let step = script.step(&plan).expect("a good step");
            let (mut state, mut cache) = (script.new_state(), StepCache::default());
            for (location, body) in &answers {
                let mut fields = vec![(b"location".to_vec(), location.as_bytes().to_vec())];
                fields.retain(|(_, value)| !value.is_empty());
                let view = AnswerView { fields: &fields, body: body.as_bytes() };
                let (mut fresh, mut none) = (state.clone(), StepCache::default());
                let wanted = step.take(&view, &mut fresh, &mut none);
                prop_assert_eq!(step.take(&view, &mut state, &mut cache), wanted);
                prop_assert_eq!(&state.values, &fresh.values);
            }
        }
    }

    #[test]
    fn a_long_body_is_not_cached() {
        let mut cache = StepCache::default();
        for (length, is_kept) in [(16 * 1024, true), (16 * 1024 + 1, false), (0, true)] {
            let body = vec![b'x'; length];
            assert!(!cache.contains(&body));
            cache.store(&body, [b"x".as_slice()].into_iter());
            assert_eq!(cache.contains(&body), is_kept, "{length}");
        }
        assert!(!cache.contains(b"x"));
    }

    #[test]
    fn names_are_checked() {
        let plan = ScriptPlan { data: vec![data(RowOrder::Sequence)], cookies: false };
        let mut script = Script::compile(&plan).expect("a good script");
        let mut step = |name: &str| {
            script
                .step(&StepPlan { extract: vec![extract(name, "body")], ..StepPlan::default() })
                .map(drop)
                .map_err(|error| error.0)
        };
        assert_eq!(step("token"), Ok(()));
        assert_eq!(step("token"), Ok(()));
        for (name, said) in [
            ("user", "a data file"),
            ("client", "predefined"),
            ("", "not a valid name"),
            ("1", "not a valid name"),
        ] {
            let message = step(name).expect_err(name);
            assert!(message.contains(said), "{message}");
        }
        assert!(script.variable("tokn").expect_err("unknown").contains("is \"token\" meant"));
        assert!(script.variable("").is_err());
        let twice =
            ScriptPlan { data: vec![data(RowOrder::Sequence), data(RowOrder::Random)], cookies: false };
        assert!(Script::compile(&twice).expect_err("a name twice").0.contains("already"));
        let many = StepPlan { redirects: 21, ..StepPlan::default() };
        assert!(script.step(&many).is_err());
    }
}
