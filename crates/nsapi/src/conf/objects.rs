//! obj.conf: objects with their directives.

use std::sync::Arc;

use super::expression::Expression;
use super::lines::{Line, logical_lines};
use super::parameters::parse_parameters;
use super::{
    Branch, Client, ClientMatch, Condition, Configuration, Directive, Init, Object, Parameters, Problem,
    SourceLocation, Stage, parameter,
};
use crate::pattern::Pattern;

/// Stages of newer servers that this server does not use.
const UNUSED_STAGES: [&str; 6] = ["Route", "DNS", "Connect", "Filter", "Input", "Output"];

/// The deepest nesting of `<If>` and `<Client>`.
const DEEPEST: usize = 32;

/// How many `<ElseIf>` may follow an `<If>`.
const MOST_ALTERNATIVES: usize = 1_000;

/// Reads an obj.conf and adds its objects. All errors are reported; the rest of the file is still read.
pub fn read_objects(file: &Arc<str>, text: &[u8], configuration: &mut Configuration) -> Vec<Problem> {
    let mut problems = Vec::new();
    let lines = logical_lines(file, text, &mut problems);
    let mut reader = Reader { configuration, problems, object: None, open: Vec::new(), ended: None };
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
    /// The open blocks of the object, the innermost last.
    open: Vec<OpenBlock>,
    /// The `<If>` or `<ElseIf>` that ended on the line before.
    ended: Option<Arc<Branch>>,
}

/// An open block of an object.
struct OpenBlock {
    location: SourceLocation,
    kind: BlockKind,
}

enum BlockKind {
    Client(Arc<Client>),
    /// A branch, with the stage of the directives in it.
    Branch(Arc<Branch>, Option<Stage>),
}

impl BlockKind {
    fn name(&self) -> &'static str {
        match self {
            BlockKind::Client(_) => "<Client>",
            BlockKind::Branch(..) => "<If>, <ElseIf> or <Else>",
        }
    }
}

impl Reader<'_> {
    fn line(&mut self, line: &Line) {
        if let Some(inside) = line.text.strip_prefix(b"<") {
            match inside.strip_suffix(b">") {
                Some(tag) => self.tag(&line.location, tag.trim_ascii()),
                None => self.problem(&line.location, "a tag does not end with '>'"),
            }
            return;
        }
        self.ended = None;
        let (word, rest) = first_word(&line.text);
        if word.eq_ignore_ascii_case(b"Init") {
            let parameters = self.parameters(&line.location, rest);
            self.configuration.init.push(Init { location: line.location.clone(), parameters });
            return;
        }
        let name = String::from_utf8_lossy(word).into_owned();
        let Some(stage) = Stage::ALL.into_iter().find(|stage| name.eq_ignore_ascii_case(stage.name())) else {
            if UNUSED_STAGES.iter().any(|stage| name.eq_ignore_ascii_case(stage)) {
                return self.unused_stage(&line.location, &name, rest);
            }
            let message = format!(
                "{name:?} is not a directive; directives are {} and Init. A continuation of a line \
                 begins with white space",
                Stage::ALL.map(Stage::name).join(", ")
            );
            self.problem(&line.location, message);
            return;
        };
        let parameters = self.parameters(&line.location, rest);
        self.one_stage_only(&line.location, stage);
        let (client, branch, location) = (self.client(), self.branch(), line.location.clone());
        let directive = Directive { stage, location, parameters, client, branch, templates: Vec::new() };
        match &mut self.object {
            Some(object) => object.directives.push(directive),
            None => self.problem(&line.location, format!("{name} is outside of <Object>")),
        }
    }

    fn client(&self) -> Option<Arc<Client>> {
        self.open.iter().rev().find_map(|open| match &open.kind {
            BlockKind::Client(client) => Some(client.clone()),
            BlockKind::Branch(..) => None,
        })
    }

    fn branch(&self) -> Option<Arc<Branch>> {
        self.open.iter().rev().find_map(|open| match &open.kind {
            BlockKind::Branch(branch, _) => Some(branch.clone()),
            BlockKind::Client(_) => None,
        })
    }

    /// A condition is evaluated once for a request, so its stage must be unambiguous.
    fn one_stage_only(&mut self, location: &SourceLocation, stage: Stage) {
        let mut other = None;
        for open in &mut self.open {
            if let BlockKind::Branch(_, first) = &mut open.kind
                && *first.get_or_insert(stage) != stage
            {
                other = *first;
            }
        }
        if let Some(other) = other {
            let (stage, other) = (stage.name(), other.name());
            let message = format!(
                "an <If> can contain directives of one stage only: write {stage} and {other} in \
                    separate <If>"
            );
            self.problem(location, message);
        }
    }

    /// A line of an unknown stage: it is an error only if a request may reach its object.
    fn unused_stage(&mut self, location: &SourceLocation, name: &str, rest: &[u8]) {
        let parameters = self.parameters(location, rest);
        let is_left_out = match (parameter(&parameters, "fn"), parameter(&parameters, "filter")) {
            // The server itself codes and decodes bodies, according to its own keys.
            (Some(b"insert-filter"), Some(filter)) => {
                matches!(filter, b"http-compression" | b"http-decompression")
            }
            (Some(b"remove-filter"), _) => true,
            _ => false,
        };
        let message = format!("the stage {name} is not supported: remove the line");
        match &mut self.object {
            Some(_) if is_left_out => {}
            Some(object) => object.refused.push(Problem { location: location.clone(), message }),
            None => self.problem(location, message),
        }
    }

    fn tag(&mut self, location: &SourceLocation, tag: &[u8]) {
        let (word, rest) = first_word(tag);
        let ended = self.ended.take();
        match word.to_ascii_lowercase().as_slice() {
            b"object" => self.begin_object(location, rest),
            b"/object" => self.end_object(location),
            b"client" => self.begin_client(location, rest),
            b"/client" => {
                self.end_block(location, "</Client>", |kind| matches!(kind, BlockKind::Client(_)));
            }
            b"if" => self.begin_branch(location, rest, Vec::new()),
            word @ (b"elseif" | b"else") => match ended.as_deref() {
                Some(Branch { condition: Some(condition), earlier, .. }) => {
                    let earlier = earlier.iter().chain([condition]).cloned().collect::<Vec<_>>();
                    match (word, rest) {
                        (b"elseif", _) => self.begin_branch(location, rest, earlier),
                        (_, b"") => self.open_branch(location, None, earlier),
                        _ => self.problem(location, "<Else> takes no condition: use <ElseIf>"),
                    }
                }
                _ => self.problem(
                    location,
                    "an <ElseIf> or <Else> must directly follow the end of an <If> or <ElseIf>",
                ),
            },
            b"/if" | b"/elseif" | b"/else" => {
                let kind = self
                    .end_block(location, "the end of an <If>", |kind| matches!(kind, BlockKind::Branch(..)));
                if let Some(BlockKind::Branch(branch, _)) = kind {
                    self.ended = Some(branch);
                }
            }
            other => {
                let name = String::from_utf8_lossy(other).into_owned();
                self.problem(
                    location,
                    format!(
                        "<{name}> is unknown; the tags are <Object>, <Client> and \
                    <If>"
                    ),
                );
            }
        }
    }

    fn end_object(&mut self, location: &SourceLocation) {
        let open = self.open.drain(..).next_back();
        match (self.object.take(), open) {
            (_, Some(open)) => {
                let message = format!("a {} does not end before its <Object>", open.kind.name());
                self.problem(location, message);
            }
            (Some(object), None) => self.configuration.objects.push(object),
            (None, None) => self.problem(location, "</Object> is without <Object>"),
        }
    }

    /// Ends the innermost block if `is_one` accepts it.
    fn end_block(
        &mut self,
        location: &SourceLocation,
        tag: &str,
        is_one: impl FnOnce(&BlockKind) -> bool,
    ) -> Option<BlockKind> {
        match self.open.pop() {
            Some(open) if is_one(&open.kind) => Some(open.kind),
            Some(open) => {
                let message =
                    format!("the {} at {} does not end before {tag}", open.kind.name(), open.location);
                self.problem(location, message);
                None
            }
            None => {
                self.problem(location, format!("{tag} is without its opening tag"));
                None
            }
        }
    }

    fn begin_branch(&mut self, location: &SourceLocation, condition: &[u8], earlier: Vec<Arc<Condition>>) {
        if earlier.len() > MOST_ALTERNATIVES {
            self.problem(location, format!("an <If> has more than {MOST_ALTERNATIVES} <ElseIf>"));
            return;
        }
        let expression = Expression::parse(condition).unwrap_or_else(|message| {
            self.problem(location, format!("the condition is not valid: {message}"));
            Expression::Number(0)
        });
        let condition = Arc::new(Condition { location: location.clone(), expression });
        self.open_branch(location, Some(condition), earlier);
    }

    fn open_branch(
        &mut self,
        location: &SourceLocation,
        condition: Option<Arc<Condition>>,
        earlier: Vec<Arc<Condition>>,
    ) {
        let branch = Arc::new(Branch { condition, earlier, parent: self.branch() });
        self.open_block(location, BlockKind::Branch(branch, None));
    }

    fn open_block(&mut self, location: &SourceLocation, kind: BlockKind) {
        if self.object.is_none() {
            self.problem(location, format!("{} is outside of <Object>", kind.name()));
        }
        if self.open.len() == DEEPEST {
            self.problem(location, format!("<If> and <Client> are nested deeper than {DEEPEST}"));
        } else {
            self.open.push(OpenBlock { location: location.clone(), kind });
        }
    }

    fn begin_object(&mut self, location: &SourceLocation, rest: &[u8]) {
        let parameters = self.parameters(location, rest);
        if self.object.is_some() {
            self.problem(location, "an <Object> begins before the one above it ends");
            return;
        }
        for (name, _) in &parameters {
            if !matches!(name.as_slice(), b"name" | b"ppath") {
                let name = String::from_utf8_lossy(name).into_owned();
                self.problem(
                    location,
                    format!("{name:?} is not a parameter of <Object>; the parameters are name and ppath"),
                );
            }
        }
        let name = parameter(&parameters, "name").map(<[u8]>::to_vec);
        let ppath = parameter(&parameters, "ppath").map(<[u8]>::to_vec);
        if name.is_none() && ppath.is_none() {
            self.problem(location, "an <Object> needs a name or a ppath");
        }
        if let Some(Err(error)) = ppath.as_deref().map(Pattern::new) {
            self.problem(location, format!("the pattern of ppath is not valid: {error}"));
        }
        let twice = name.is_some() && self.configuration.objects.iter().any(|object| object.name == name);
        if twice {
            self.problem(location, "another <Object> has the same name");
        }
        let (directives, refused) = (Vec::new(), Vec::new());
        self.object = Some(Object { location: location.clone(), name, ppath, directives, refused });
    }

    fn begin_client(&mut self, location: &SourceLocation, rest: &[u8]) {
        let mut conditions = self.parameters(location, rest);
        if self.client().is_some() {
            self.problem(location, "a <Client> begins before the one above it ends");
        }
        let needed = match parameter(&conditions, "match") {
            None => ClientMatch::All,
            Some(value) if value.eq_ignore_ascii_case(b"all") => ClientMatch::All,
            Some(value) if value.eq_ignore_ascii_case(b"any") => ClientMatch::Any,
            Some(value) if value.eq_ignore_ascii_case(b"none") => ClientMatch::None,
            Some(_) => {
                self.problem(location, "match must be all, any or none");
                ClientMatch::All
            }
        };
        conditions.retain(|(name, _)| name != b"match");
        self.open_block(location, BlockKind::Client(Arc::new(Client { conditions, needed })));
    }

    fn parameters(&mut self, location: &SourceLocation, text: &[u8]) -> Parameters {
        parse_parameters(text).unwrap_or_else(|message| {
            self.problem(location, message);
            Vec::new()
        })
    }

    fn end(&mut self) {
        for open in std::mem::take(&mut self.open) {
            self.problem(&open.location, format!("this {} is not closed", open.kind.name()));
        }
        if let Some(object) = self.object.take() {
            self.problem(&object.location, "this <Object> is not closed");
        }
    }

    fn problem(&mut self, location: &SourceLocation, message: impl Into<String>) {
        self.problems.push(Problem { location: location.clone(), message: message.into() });
    }
}

/// The first word and the rest.
pub(crate) fn first_word(text: &[u8]) -> (&[u8], &[u8]) {
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
        assert_eq!(default.directives[0].location.line, 6);
        let client = default.directives[1].client.as_ref().unwrap();
        assert_eq!((client.needed, client.conditions.len()), (ClientMatch::Any, 2));
        assert_eq!(default.directives[2].client, None);
        assert_eq!(configuration.objects[1].ppath.as_deref(), Some(&b"/docs/*"[..]));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, expected) in [
            ("Service fn=x", "obj.conf:1: Service is outside of <Object>"),
            ("\n<Object name=a>\nServe fn=x\n</Object>", "obj.conf:3: \"Serve\" is not a directive"),
            ("<Object name=a>", "obj.conf:1: this <Object> is not closed"),
            ("<Object>\n</Object>", "obj.conf:1: an <Object> needs a name or a ppath"),
            ("<Object ppath=\"(a\">\n</Object>", "obj.conf:1: the pattern of ppath is not valid"),
            ("<Object name=a>\nService fn=\"x\n</Object>", "obj.conf:2: a '\"' is not closed"),
            ("<Object name=a>\n<If $uri>\n</Object>", "obj.conf:3: a <If>, <ElseIf> or <Else> does not end"),
            (
                "<Object name=a>\n<If $uri =>\n</If>\n</Object>",
                "obj.conf:2: the condition is not valid: an operand is missing",
            ),
            (
                "<Object name=a>\n<If 1>\n<Client ip=*>\n</If>\n</Object>",
                "obj.conf:4: the <Client> at obj.conf:3",
            ),
            (
                "<Object name=a>\n<Else>\n</Else>\n</Object>",
                "obj.conf:2: an <ElseIf> or <Else> must directly",
            ),
            (
                "<Object name=a>\n<If 1>\n</If>\nService fn=x\n<Else>",
                "obj.conf:5: an <ElseIf> or <Else> must directly",
            ),
            ("<Object name=a>\n<If 1>\n</If>\n<Else 1>", "obj.conf:4: <Else> takes no condition"),
            (
                "<Object name=a>\n<If 1>\nService fn=x\nError fn=x",
                "obj.conf:4: an <If> can contain directives of one",
            ),
            ("<If 1>\n</If>", "obj.conf:1: <If>, <ElseIf> or <Else> is outside of <Object>"),
            ("<Object name=a>\n<Client ip=1>\n</Object>", "obj.conf:3: a <Client> does not end"),
            ("</Object>", "obj.conf:1: </Object> is without <Object>"),
            ("<Object name=a>\n</Object>\n<Object name=a>\n</Object>", "obj.conf:3: another <Object> has"),
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
    fn conditions_stand_within_and_after_each_other() {
        let (configuration, problems) = read(
            "<Object name=a>\n<If not $internal\n  and $uri =~ \"^/a/(.*)$\">\n<Client ip=127.*>\n\
             NameTrans fn=rewrite path=/$1\n</Client>\n<If $ip = 1*>\n NameTrans fn=x\n</If>\n</If>\n\
             <ElseIf $query>\nNameTrans fn=y\n</ElseIf>\n# a comment\n<Else>\nNameTrans fn=z\n</Else>\n\
             NameTrans fn=w\n</Object>\n"
                .replace("1*>", "'1*'>")
                .as_str(),
        );
        assert_eq!(problems, Vec::<String>::new());
        let directives = &configuration.objects[0].directives;
        let shape: Vec<_> = directives
            .iter()
            .map(|directive| {
                let branch = directive.branch.as_deref();
                let depth = |branch: &Branch| 1 + usize::from(branch.parent.is_some());
                (
                    branch.map_or(0, depth),
                    branch.map_or(0, |branch| branch.earlier.len()),
                    branch.is_some_and(|branch| branch.condition.is_some()),
                    directive.client.is_some(),
                )
            })
            .collect();
        assert_eq!(
            shape,
            [
                (1, 0, true, true),
                (2, 0, true, false),
                (1, 1, true, false),
                (1, 2, false, false),
                (0, 0, false, false)
            ]
        );
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
                "obj.conf:3: the stage Input is not supported: remove the line",
                "obj.conf:4: the stage Output is not supported: remove the line"
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
                    Just("<If 1>"), Just("</If>"), Just("<ElseIf $uri>"), Just("<Else>"), Just("</Else>"),
                    Just("Service"), Just(" fn=x"), Just("\n"), Just("\n "), Just("\""), Just("#"),
                    Just("Init"),
                ],
                0..40,
            ),
        ) {
            let text = words.concat();
            let (configuration, _) = read(&text);
            for object in &configuration.objects {
                prop_assert!(object.location.line <= text.lines().count());
            }
        }
    }
}
