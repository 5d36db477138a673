//! The warnings of a result as a reader is given them: a warning about several mixes is shown once, with a
//! list of them. `result.json` keeps each.

use crate::figures::list;

/// A warning, with its subject and its text.
struct Warning<'a> {
    whom: &'a str,
    text: &'a str,
    /// The text without its figures: what is the same in all warnings of a kind.
    kind: String,
}

/// Each kind of warning once, in the order in which the kinds appear.
pub fn each_once(warnings: &[String]) -> Vec<String> {
    let mut kinds: Vec<Vec<Warning<'_>>> = Vec::new();
    for warning in warnings.iter().map(|warning| Warning::of(warning)) {
        match kinds.iter_mut().find(|alike| alike[0].kind == warning.kind) {
            Some(alike) => alike.push(warning),
            None => kinds.push(vec![warning]),
        }
    }
    kinds.iter().map(|alike| together(alike)).collect()
}

impl Warning<'_> {
    /// The words before the first colon state what a warning concerns: `nginx 1.22.1, 4 clients: ...`.
    fn of(warning: &str) -> Warning<'_> {
        let (whom, text) = warning.split_once(": ").unwrap_or(("", warning));
        // Without a subject, a figure may be the subject.
        let kind = if whom.is_empty() { text.to_owned() } else { without_figures(text) };
        Warning { whom, text, kind }
    }
}

/// The text with a `#` for each number, and for each list of numbers: the same for texts that differ by their
/// figures alone.
pub fn without_figures(text: &str) -> String {
    let mut kind = String::new();
    let mut is_number = false;
    for (at, character) in text.char_indices() {
        let joins = is_number
            && matches!(character, '.' | ',')
            && text[at + character.len_utf8()..].starts_with(|next: char| next.is_ascii_digit());
        let part = character.is_ascii_digit() || joins;
        if !part {
            kind.push(character);
        } else if !is_number {
            kind.push('#');
        }
        is_number = part;
    }
    let mut before = String::new();
    while before != kind {
        before = kind;
        kind = before.replace("#, #", "#").replace("# and #", "#");
    }
    kind.replace("# clients", "# client")
}

/// Warnings of one kind as one.
fn together(alike: &[Warning<'_>]) -> String {
    let first = &alike[0];
    if first.whom.is_empty() {
        return first.text.to_owned();
    }
    let whom = |of: &[&Warning<'_>]| subjects(of.iter().map(|warning| warning.whom)).join("; ");
    let (same, others): (Vec<&Warning<'_>>, Vec<&Warning<'_>>) =
        alike.iter().partition(|warning| warning.text == first.text);
    let mut text = format!("{}: {}", whom(&same), first.text);
    if !others.is_empty() {
        if !text.ends_with('.') {
            text.push('.');
        }
        text.push_str(&format!(" The same with other figures: {}.", whom(&others)));
    }
    text
}

/// Systems, each once: with the numbers of clients where several warnings are of one system.
fn subjects<'a>(all: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut systems: Vec<(&str, Vec<&str>)> = Vec::new();
    for whom in all {
        let (system, clients) = match whom.rsplit_once(", ") {
            Some((system, clients)) if number_of_clients(clients).is_some() => {
                (system, number_of_clients(clients))
            }
            _ => (whom, None),
        };
        let place = systems.iter().position(|(known, _)| *known == system).unwrap_or_else(|| {
            systems.push((system, Vec::new()));
            systems.len() - 1
        });
        let known = &mut systems[place].1;
        known.extend(clients.filter(|clients| !known.contains(clients)).into_iter().collect::<Vec<_>>());
    }
    systems.iter().map(|(system, clients)| subject(system, clients)).collect()
}

fn subject(system: &str, clients: &[&str]) -> String {
    match clients {
        [] => system.to_owned(),
        ["1"] => format!("{system}, 1 client"),
        numbers => {
            let numbers: Vec<String> = numbers.iter().map(|number| (*number).to_owned()).collect();
            format!("{system}, {} clients", list(&numbers))
        }
    }
}

/// The number in `4 clients`.
fn number_of_clients(words: &str) -> Option<&str> {
    let number = words.strip_suffix(" clients").or_else(|| words.strip_suffix(" client"))?;
    number.chars().all(|it| it.is_ascii_digit() || it == ',').then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(warnings: &[&str]) -> Vec<String> {
        each_once(&warnings.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn a_kind_of_warning_is_said_once_with_all_that_it_concerns() {
        let warnings = [
            "Load and server shared one machine: the figures are indicative.",
            "nginx 1.22.1, 4 clients: the hypervisor took 8.0 % of processor 1's time.",
            "nginx 1.22.1, 4 clients: requests failed: 2 came too late.",
            "nginx 1.22.1, 16 clients: the hypervisor took 9.1 % of processor 0's time.",
            "h2o, 1 client: the hypervisor took 7.0 % of processor 1's time.",
            "h2o, 4 clients: the hypervisor took 8.0 % of processor 1's time.",
        ];
        let expected = [
            "Load and server shared one machine: the figures are indicative.",
            "nginx 1.22.1, 4 clients; h2o, 4 clients: the hypervisor took 8.0 % of processor 1's time. The \
             same with other figures: nginx 1.22.1, 16 clients; h2o, 1 client.",
            "nginx 1.22.1, 4 clients: requests failed: 2 came too late.",
        ];
        assert_eq!(of(&warnings), expected);
    }

    #[test]
    fn runs_of_one_mix_and_lists_of_numbers_make_no_new_kind() {
        let still = "a, 4 clients: the load engine stood still for 9.00 s.";
        assert_eq!(of(&[still, still, still]), [still]);
        let limit =
            |whom: &str, with: &str| format!("{whom}: the load engine was at its own limit with {with}.");
        let found = each_once(&[
            limit("a", "1 client"),
            limit("b", "1, 4 and 16 clients"),
            limit("c", "1,024 and 2,048 clients"),
        ]);
        assert_eq!(
            found,
            ["a: the load engine was at its own limit with 1 client. The same with other figures: b; c."]
        );
        assert_eq!(
            of(&["a: 1,500 broke off and 2 came late", "a: 1,500 broke off"]).len(),
            2,
            "other kinds of failures are other warnings"
        );
    }

    proptest! {
        #[test]
        fn every_subject_is_still_named(
            warnings in proptest::collection::vec("[a-c]{1,2}, [0-9]{1,3} clients: [xy] [0-9]{1,3}", 0..12)
        ) {
            let text = each_once(&warnings).join("\n");
            for warning in &warnings {
                let (whom, _) = warning.split_once(": ").unwrap();
                let (system, clients) = whom.split_once(", ").unwrap();
                let number = clients.split(' ').next().unwrap();
                prop_assert!(text.contains(system) && text.contains(number), "{text}");
            }
        }

        #[test]
        fn no_text_makes_it_panic(warnings in proptest::collection::vec(".{0,40}", 0..6)) {
            prop_assert!(each_once(&warnings).len() <= warnings.len());
        }
    }
}
