//! obj.conf: objects with their directives.

use std::sync::Arc;

use super::lines::{Line, logical_lines};
use super::parameters::parse_parameters;
use super::{
    Client, Configuration, Directive, Init, Needed, Object, Parameters, Place, Problem, Stage, parameter,
};
use crate::pattern::Pattern;

/// Stages of newer servers that this one has no use for.
const UNUSED_STAGES: [&str; 6] = ["Route", "DNS", "Connect", "Filter", "Input", "Output"];

/// Reads an obj.conf and adds what it holds. Everything that is wrong is named; the rest is read nevertheless.
pub fn read_objects(file: &Arc<str>, text: &[u8], configuration: &mut Configuration) -> Vec<Problem> {
    let mut problems = Vec::new();
    let lines = logical_lines(file, text, &mut problems);
    let mut reader = Reader { configuration, problems, object: None, client: None };
    for line in &lines {
        reader.line(line);
    }
    reader.end();
    reader.problems
}

struct Reader<'a> {
    configuration: &'a mut Configuration,
    problems: Vec<Problem>,
    object: Option<Object>,
    client: Option<(Place, Arc<Client>)>,
}

impl Reader<'_> {
    fn line(&mut self, line: &Line) {
        if let Some(inside) = line.text.strip_prefix(b"<") {
            match inside.strip_suffix(b">") {
                Some(tag) => self.tag(&line.place, tag.trim_ascii()),
                None => self.problem(&line.place, "a tag does not end with '>'"),
            }
            return;
        }
        let (word, rest) = first_word(&line.text);
        if word.eq_ignore_ascii_case(b"Init") {
            let parameters = self.parameters(&line.place, rest);
            self.configuration.init.push(Init { place: line.place.clone(), parameters });
            return;
        }
        let name = String::from_utf8_lossy(word).into_owned();
        let Some(stage) = Stage::ALL.into_iter().find(|stage| name.eq_ignore_ascii_case(stage.name())) else {
            if UNUSED_STAGES.iter().any(|stage| name.eq_ignore_ascii_case(stage)) {
                return self.unused_stage(&line.place, &name, rest);
            }
            let message = format!(
                "{name:?} is no directive: {} and Init are, and what continues a line begins with white space",
                Stage::ALL.map(Stage::name).join(", ")
            );
            self.problem(&line.place, message);
            return;
        };
        let parameters = self.parameters(&line.place, rest);
        let client = self.client.as_ref().map(|(_, client)| client.clone());
        match &mut self.object {
            Some(object) => {
                object.directives.push(Directive { stage, place: line.place.clone(), parameters, client });
            }
            None => self.problem(&line.place, format!("{name} stands in no <Object>")),
        }
    }

    /// A line of a stage that there is none of: it is wrong only where a request may reach its object.
    fn unused_stage(&mut self, place: &Place, name: &str, rest: &[u8]) {
        let parameters = self.parameters(place, rest);
        let is_left_out = match (parameter(&parameters, "fn"), parameter(&parameters, "filter")) {
            // Bodies are coded and decoded by the server, as its own keys say.
            (Some(b"insert-filter"), Some(filter)) => {
                matches!(filter, b"http-compression" | b"http-decompression")
            }
            (Some(b"remove-filter"), _) => true,
            _ => false,
        };
        let message = format!("the stage {name} is not supported: take the line out");
        match &mut self.object {
            Some(_) if is_left_out => {}
            Some(object) => object.refused.push(Problem { place: place.clone(), message }),
            None => self.problem(place, message),
        }
    }

    fn tag(&mut self, place: &Place, tag: &[u8]) {
        let (word, rest) = first_word(tag);
        match word.to_ascii_lowercase().as_slice() {
            b"object" => self.begin_object(place, rest),
            b"/object" => match (self.object.take(), self.client.take()) {
                (_, Some(_)) => self.problem(place, "a <Client> does not end before its <Object>"),
                (Some(object), None) => self.configuration.objects.push(object),
                (None, None) => self.problem(place, "</Object> has no <Object> before it"),
            },
            b"client" => self.begin_client(place, rest),
            b"/client" => {
                if self.client.take().is_none() {
                    self.problem(place, "</Client> has no <Client> before it");
                }
            }
            b"if" | b"elseif" | b"else" | b"/if" | b"/elseif" | b"/else" => {
                self.problem(
                    place,
                    "<If> is not supported: <Client> or a route of the site can say the same",
                );
            }
            other => {
                let name = String::from_utf8_lossy(other).into_owned();
                self.problem(place, format!("<{name}> is not known: <Object> and <Client> are"));
            }
        }
    }

    fn begin_object(&mut self, place: &Place, rest: &[u8]) {
        let parameters = self.parameters(place, rest);
        if self.object.is_some() {
            self.problem(place, "an <Object> begins before the one above it ends");
            return;
        }
        for (name, _) in &parameters {
            if !matches!(name.as_slice(), b"name" | b"ppath") {
                let name = String::from_utf8_lossy(name).into_owned();
                self.problem(place, format!("{name:?} is no parameter of <Object>: name and ppath are"));
            }
        }
        let name = parameter(&parameters, "name").map(<[u8]>::to_vec);
        let ppath = parameter(&parameters, "ppath").map(<[u8]>::to_vec);
        if name.is_none() && ppath.is_none() {
            self.problem(place, "an <Object> needs a name or a ppath");
        }
        if let Some(Err(error)) = ppath.as_deref().map(Pattern::new) {
            self.problem(place, format!("the pattern of ppath is wrong: {error}"));
        }
        let twice = name.is_some() && self.configuration.objects.iter().any(|object| object.name == name);
        if twice {
            self.problem(place, "there is an <Object> of this name already");
        }
        let (directives, refused) = (Vec::new(), Vec::new());
        self.object = Some(Object { place: place.clone(), name, ppath, directives, refused });
    }

    fn begin_client(&mut self, place: &Place, rest: &[u8]) {
        let mut conditions = self.parameters(place, rest);
        if self.object.is_none() {
            self.problem(place, "<Client> stands in no <Object>");
        }
        if self.client.is_some() {
            self.problem(place, "a <Client> begins before the one above it ends");
        }
        let needed = match parameter(&conditions, "match") {
            None => Needed::All,
            Some(value) if value.eq_ignore_ascii_case(b"all") => Needed::All,
            Some(value) if value.eq_ignore_ascii_case(b"any") => Needed::Any,
            Some(value) if value.eq_ignore_ascii_case(b"none") => Needed::None,
            Some(_) => {
                self.problem(place, "match is all, any or none");
                Needed::All
            }
        };
        conditions.retain(|(name, _)| name != b"match");
        self.client = Some((place.clone(), Arc::new(Client { conditions, needed })));
    }

    fn parameters(&mut self, place: &Place, text: &[u8]) -> Parameters {
        parse_parameters(text).unwrap_or_else(|message| {
            self.problem(place, message);
            Vec::new()
        })
    }

    fn end(&mut self) {
        if let Some((place, _)) = self.client.take() {
            self.problem(&place, "this <Client> does not end");
        }
        if let Some(object) = self.object.take() {
            self.problem(&object.place, "this <Object> does not end");
        }
    }

    fn problem(&mut self, place: &Place, message: impl Into<String>) {
        self.problems.push(Problem { place: place.clone(), message: message.into() });
    }
}

/// The first word and what follows it.
pub(super) fn first_word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    (&text[..end], text[end..].trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> (Configuration, Vec<String>) {
        let mut configuration = Configuration::default();
        let problems = read_objects(&Arc::from("obj.conf"), text.as_bytes(), &mut configuration);
        (configuration, problems.iter().map(Problem::to_string).collect())
    }

    #[test]
    fn an_obj_conf_is_read_as_it_is() {
        let (configuration, problems) = read(
            "# a comment\n\
             Init fn=load-modules shlib=\"a.so\"\n\tfuncs=\"one,two\"\n\n\
             <Object name=\"default\">\r\n\
             NameTrans fn=pfx2dir from=/cgi-bin\n# in between\n  dir=\"/some where\" name=\"cgi\"\n\
             <Client ip=\"127.*\" match=\"any\" browser=\"*MSIE*\">\n\
             \x20 PathCheck fn=\"deny-existence\" path=\"*\"\n\
             </Client>\n\
             Service method=(GET|HEAD) type=*~magnus-internal/* fn=send-file\n\
             </Object>\n\
             <Object ppath=\"/docs/*\">\nAddLog fn=flex-log\n</Object>\n",
        );
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(configuration.init.len(), 1);
        assert_eq!(parameter(&configuration.init[0].parameters, "funcs"), Some(&b"one,two"[..]));
        let default = &configuration.objects[0];
        assert_eq!(default.name.as_deref(), Some(&b"default"[..]));
        assert_eq!(parameter(&default.directives[0].parameters, "dir"), Some(&b"/some where"[..]));
        assert_eq!(default.directives[0].place.line, 6);
        let client = default.directives[1].client.as_ref().unwrap();
        assert_eq!((client.needed, client.conditions.len()), (Needed::Any, 2));
        assert_eq!(default.directives[2].client, None);
        assert_eq!(configuration.objects[1].ppath.as_deref(), Some(&b"/docs/*"[..]));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, expected) in [
            ("Service fn=x", "obj.conf:1: Service stands in no <Object>"),
            ("\n<Object name=a>\nServe fn=x\n</Object>", "obj.conf:3: \"Serve\" is no directive"),
            ("<Object name=a>", "obj.conf:1: this <Object> does not end"),
            ("<Object>\n</Object>", "obj.conf:1: an <Object> needs a name or a ppath"),
            ("<Object ppath=\"(a\">\n</Object>", "obj.conf:1: the pattern of ppath is wrong"),
            ("<Object name=a>\nService fn=\"x\n</Object>", "obj.conf:2: a '\"' has no partner"),
            ("<Object name=a>\n<If $uri>\n</Object>", "obj.conf:2: <If> is not supported"),
            ("<Object name=a>\n<Client ip=1>\n</Object>", "obj.conf:3: a <Client> does not end"),
            ("</Object>", "obj.conf:1: </Object> has no <Object>"),
            ("<Object name=a>\n</Object>\n<Object name=a>\n</Object>", "obj.conf:3: there is an <Object>"),
            ("<Object name=a", "obj.conf:1: a tag does not end with '>'"),
            ("  continued", "obj.conf:1: the first line begins with white space"),
        ] {
            let (_, problems) = read(text);
            assert!(problems.iter().any(|problem| problem.starts_with(expected)), "{text}: {problems:?}");
        }
        let (_, problems) = read(&format!("<Object name=a>\nService fn={}\n</Object>", "x".repeat(20_000)));
        assert!(problems[0].contains("longer than 16384 bytes"), "{problems:?}");
    }

    #[test]
    fn lines_of_stages_that_there_are_not_are_kept_apart() {
        let (configuration, problems) = read(
            "<Object name=a>\nOutput fn=insert-filter filter=http-compression\nInput fn=x\n\
             Output fn=insert-filter filter=own\nOutput fn=remove-filter filter=own\n</Object>",
        );
        assert_eq!(problems, Vec::<String>::new());
        let refused: Vec<String> = configuration.objects[0].refused.iter().map(Problem::to_string).collect();
        assert_eq!(
            refused,
            [
                "obj.conf:3: the stage Input is not supported: take the line out",
                "obj.conf:4: the stage Output is not supported: take the line out"
            ]
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text: Vec<u8>) {
            read_objects(&Arc::from("f"), &text, &mut Configuration::default());
        }

        #[test]
        fn no_text_of_the_right_words_panics(
            words in proptest::collection::vec(
                prop_oneof![
                    Just("<Object name=a>"), Just("</Object>"), Just("<Client ip=*>"), Just("</Client>"),
                    Just("Service"), Just(" fn=x"), Just("\n"), Just("\n "), Just("\""), Just("#"), Just("Init"),
                ],
                0..40,
            ),
        ) {
            let text = words.concat();
            let (configuration, _) = read(&text);
            for object in &configuration.objects {
                prop_assert!(object.place.line <= text.lines().count());
            }
        }
    }
}
