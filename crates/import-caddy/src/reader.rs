//! From a Caddyfile to directives: tokens, quotes, blocks, snippets and `import`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use touchstone_import_base::directive::{Directive, Form, Place};
use touchstone_import_base::files::{Counts, DEPTH, matching, read_text};

/// Reads a Caddyfile and what it imports.
///
/// # Errors
/// What is wrong, with its place: a file that cannot be read, a quote or a block without an end, or a limit
/// exceeded.
pub fn read(file: &Path) -> Result<Vec<Directive>, String> {
    let text = read_text(file)?;
    let directory = file.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut reader = Reader { with_files: true, ..Reader::default() };
    reader.whole(&file.display().to_string(), &text, &directory)
}

/// Reads a text. Files that it imports are not read: their `import` directives are kept.
///
/// # Errors
/// As for [`read`].
pub fn parse(name: &str, text: &str) -> Result<Vec<Directive>, String> {
    Reader::default().whole(name, text, Path::new(""))
}

/// A word, and whether it was in quotes: `"{"` does not open a block.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    text: String,
    is_quoted: bool,
}

impl Token {
    fn is(&self, text: &str) -> bool {
        !self.is_quoted && self.text == text
    }
}

/// The words of a line.
#[derive(Debug, Clone)]
struct Line {
    tokens: Vec<Token>,
    number: usize,
}

#[derive(Default)]
struct Reader {
    with_files: bool,
    counts: Counts,
    snippets: BTreeMap<String, Vec<Directive>>,
}

impl Reader {
    fn whole(&mut self, name: &str, text: &str, directory: &Path) -> Result<Vec<Directive>, String> {
        let lines = lines(name, text)?;
        let name: Rc<str> = name.into();
        let has_braces = lines.iter().any(|line| line.tokens.last().is_some_and(|token| token.is("{")));
        let mut parser = Parser {
            reader: self,
            file: name.clone(),
            lines: lines.into_iter().peekable(),
            directory,
            in_scalars: false,
        };
        if !has_braces || parser.is_single_site() {
            return parser.single_site();
        }
        parser.block(0, false)
    }

    /// The directives that an `import` inserts; `None`: there is no snippet and no file with this name.
    fn imported(
        &mut self,
        import: &Directive,
        directory: &Path,
        depth: usize,
    ) -> Result<Option<Vec<Directive>>, String> {
        if depth > DEPTH {
            return Err(format!("{}: imports are nested more than {DEPTH} deep", import.place));
        }
        let name = import.argument(0);
        if let Some(snippet) = self.snippets.get(name) {
            let arguments = import.arguments.get(1..).unwrap_or_default();
            let filled: Vec<Directive> = snippet.iter().map(|line| with_arguments(line, arguments)).collect();
            self.counts.add_directives(filled.iter().map(count).sum(), &import.place)?;
            return Ok(Some(filled));
        }
        if !self.with_files {
            return Ok(None);
        }
        let pattern: PathBuf = directory.join(name);
        let files = matching(&pattern);
        if files.is_empty() && !name.contains('*') {
            return Ok(None);
        }
        let mut all = Vec::new();
        for file in files {
            let text = self.counts.read_text(&file, "imported")?;
            let shown = file.display().to_string();
            let lines = lines(&shown, &text)?;
            let directory = file.parent().unwrap_or(Path::new(""));
            let mut parser = Parser {
                reader: self,
                file: shown.as_str().into(),
                lines: lines.into_iter().peekable(),
                directory,
                in_scalars: false,
            };
            all.extend(parser.block(depth + 1, false)?);
        }
        Ok(Some(all))
    }
}

fn count(directive: &Directive) -> usize {
    1 + directive.inside().iter().map(count).sum::<usize>()
}

/// A line of a snippet, with the arguments of its `import` inserted.
fn with_arguments(line: &Directive, arguments: &[String]) -> Directive {
    let fill = |text: &String| {
        let mut text = text.clone();
        for (index, argument) in arguments.iter().enumerate() {
            for form in [format!("{{args[{index}]}}"), format!("{{args.{index}}}")] {
                text = text.replace(&form, argument);
            }
        }
        text
    };
    let spread = |text: &String| match text.as_str() {
        "{args[:]}" | "{args.*}" => arguments.to_vec(),
        _ => vec![fill(text)],
    };
    Directive {
        name: fill(&line.name),
        arguments: line.arguments.iter().flat_map(spread).collect(),
        block: line
            .block
            .as_ref()
            .map(|block| block.iter().map(|inner| with_arguments(inner, arguments)).collect()),
        place: line.place.clone(),
        form: Form::Caddy,
    }
}

struct Parser<'r, 'd, I: Iterator<Item = Line>> {
    reader: &'r mut Reader,
    file: Rc<str>,
    lines: std::iter::Peekable<I>,
    directory: &'d Path,
    /// The lines of a `map` or `vars` are read.
    in_scalars: bool,
}

impl<I: Iterator<Item = Line>> Parser<'_, '_, I> {
    /// Whether the first line has addresses without a block, so that all following lines belong to them.
    fn is_single_site(&mut self) -> bool {
        let Some(first) = self.lines.peek() else { return false };
        let opens = first.tokens.last().is_some_and(|token| token.is("{"));
        let goes_on = first.tokens.last().is_some_and(|token| token.text.ends_with(','));
        let is_import = first.tokens.first().is_some_and(|token| token.is("import"));
        !opens && !goes_on && !is_import
    }

    fn single_site(&mut self) -> Result<Vec<Directive>, String> {
        let Some(first) = self.lines.next() else { return Ok(Vec::new()) };
        let mut site = self.directive(&first);
        site.block = Some(self.block(1, false)?);
        Ok(vec![site])
    }

    fn directive(&self, line: &Line) -> Directive {
        let name = line.tokens.first().map(|token| token.text.clone()).unwrap_or_default();
        let has_scalars = self.in_scalars || name == "vars";
        let word = |token: &Token| match has_scalars && !token.is_quoted {
            true => scalar(&token.text),
            false => token.text.clone(),
        };
        Directive {
            name,
            arguments: line.tokens.iter().skip(1).map(word).collect(),
            block: None,
            place: Place::new(self.file.clone(), line.number),
            form: Form::Caddy,
        }
    }

    /// Reads lines up to the end of the file, or to the brace that ends the block.
    fn block(&mut self, depth: usize, is_inner: bool) -> Result<Vec<Directive>, String> {
        if depth > DEPTH {
            return Err(format!("{}: blocks are nested more than {DEPTH} deep", self.file));
        }
        let mut directives = Vec::new();
        let mut last = 0;
        while let Some(mut line) = self.lines.next() {
            last = line.number;
            if let [token] = line.tokens.as_slice()
                && token.is("}")
            {
                if is_inner {
                    return Ok(directives);
                }
                return Err(format!("{}:{last}: a '}}' without its '{{'", self.file));
            }
            // Addresses may continue on the next line.
            while line.tokens.last().is_some_and(|token| !token.is_quoted && token.text.ends_with(',')) {
                let Some(next) = self.lines.next() else { break };
                line.tokens.extend(next.tokens);
            }
            let opens = line.tokens.last().is_some_and(|token| token.is("{"));
            if opens {
                line.tokens.pop();
            }
            let mut directive = self.directive(&line);
            self.reader.counts.add_directives(1, &directive.place)?;
            if opens {
                let around = self.in_scalars;
                self.in_scalars |= directive.name == "map" || directive.name == "vars";
                directive.block = Some(self.block(depth + 1, true)?);
                self.in_scalars = around;
            }
            self.put(directive, depth, &mut directives)?;
        }
        match is_inner {
            true => Err(format!("{}:{last}: the file ends in a block: a '}}' is missing", self.file)),
            false => Ok(directives),
        }
    }

    fn put(
        &mut self,
        directive: Directive,
        depth: usize,
        directives: &mut Vec<Directive>,
    ) -> Result<(), String> {
        let snippet = directive.name.strip_prefix('(').and_then(|name| name.strip_suffix(')'));
        if let (Some(name), Some(block), 0) = (snippet, &directive.block, depth) {
            self.reader.snippets.insert(name.to_string(), block.clone());
            return Ok(());
        }
        if directive.name == "import" {
            match self.reader.imported(&directive, self.directory, depth)? {
                Some(imported) => directives.extend(imported),
                None => directives.push(directive),
            }
            return Ok(());
        }
        directives.push(directive);
        Ok(())
    }
}

/// A value of `map` or `vars` without quotes, as Caddy writes it after it has read it as a number: `007` is
/// `7`, and `1.10` is `1.1`.
fn scalar(text: &str) -> String {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(number), _) => number.to_string(),
        (_, Ok(number)) if is_number && number.is_finite() => number.to_string(),
        _ => text.to_string(),
    }
}

/// The lines of a file that have words.
fn lines(file: &str, text: &str) -> Result<Vec<Line>, String> {
    let mut lexer = Lexer { file, rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 };
    let mut lines: Vec<Line> = Vec::new();
    let mut is_new = true;
    while let Some(character) = lexer.peek() {
        match character {
            '\n' => {
                lexer.take();
                is_new = true;
            }
            c if c.is_whitespace() => _ = lexer.take(),
            '\\' if lexer.rest.starts_with("\\\n") || lexer.rest.starts_with("\\\r\n") => {
                while lexer.take().is_some_and(|taken| taken != '\n') {}
            }
            '#' => {
                let end = lexer.rest.find('\n').unwrap_or(lexer.rest.len());
                lexer.rest = &lexer.rest[end..];
            }
            _ => {
                let number = lexer.line;
                let token = lexer.token()?;
                match lines.last_mut() {
                    Some(line) if !is_new => line.tokens.push(token),
                    _ => lines.push(Line { tokens: vec![token], number }),
                }
                is_new = false;
            }
        }
    }
    Ok(lines)
}

struct Lexer<'t> {
    file: &'t str,
    rest: &'t str,
    line: usize,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.rest = &self.rest[character.len_utf8()..];
        if character == '\n' {
            self.line += 1;
        }
        Some(character)
    }

    fn token(&mut self) -> Result<Token, String> {
        let first = self.peek().unwrap_or_default();
        if first == '"' || first == '`' {
            self.take();
            return self.quoted(first);
        }
        if self.rest.starts_with("<<") && self.rest[2..].starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return self.here_document();
        }
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let text = self.rest[..end].to_string();
        self.rest = &self.rest[end..];
        Ok(Token { text: with_defaults(&text), is_quoted: false })
    }

    fn quoted(&mut self, quote: char) -> Result<Token, String> {
        let begin = format!("{}:{}: the closing quote is missing", self.file, self.line);
        let mut text = String::new();
        loop {
            match self.take().ok_or_else(|| begin.clone())? {
                c if c == quote => return Ok(Token { text: with_defaults(&text), is_quoted: true }),
                '\\' if quote == '"' && self.rest.starts_with('"') => {
                    self.take();
                    text.push('"');
                }
                c => text.push(c),
            }
        }
    }

    /// Reads `<<END`, lines, `END`: the indentation of the last line is removed from all lines.
    fn here_document(&mut self) -> Result<Token, String> {
        let begin = format!("{}:{}: the text after '<<' has no end", self.file, self.line);
        let end = self.rest.find('\n').ok_or_else(|| begin.clone())?;
        let marker = self.rest[2..end].trim().to_string();
        self.rest = &self.rest[end..];
        self.take();
        let mut text: Vec<String> = Vec::new();
        loop {
            if self.rest.is_empty() {
                return Err(begin);
            }
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            let line = self.rest[..end].trim_end_matches('\r').to_string();
            let behind = line.trim_start().strip_prefix(marker.as_str());
            if behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(char::is_whitespace)) {
                let indentation = line.len() - line.trim_start().len();
                self.rest = &self.rest[indentation + marker.len()..];
                let cut = |line: &String| line.get(indentation..).unwrap_or(line.trim_start()).to_string();
                let text = text.iter().map(cut).collect::<Vec<_>>().join("\n");
                return Ok(Token { text, is_quoted: true });
            }
            text.push(line);
            self.rest = &self.rest[end..];
            self.take();
        }
    }
}

/// Inserts the defaults of environment variables: `{$PORT:8080}`. A variable without a default is kept, and
/// reported where it is used.
fn with_defaults(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("{$") {
        out.push_str(&rest[..at]);
        let Some(end) = rest[at..].find('}') else { break };
        let inside = &rest[at + 2..at + end];
        match inside.split_once(':') {
            Some((_, default)) => out.push_str(default),
            None => out.push_str(&rest[at..=at + end]),
        }
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        touchstone_import_base::directive::shown_in_order(&parse("Caddyfile", text).unwrap())
    }

    #[test]
    fn blocks_quotes_and_comments() {
        assert_eq!(
            shown(
                "a.org, # one\n  b.org {\n\trespond /x \"{ not a block\" 200 # end\n\
                 \theader {\n\t\tX-A `b \"c\"`\n\t}\n}\n"
            ),
            [
                "Caddyfile:1: a.org, b.org { ... }",
                "Caddyfile:3: respond /x \"{ not a block\" 200",
                "Caddyfile:4: header { ... }",
                "Caddyfile:5: X-A \"b \\\"c\\\"\"",
            ]
        );
        assert_eq!(shown(":80\nroot * /srv\nfile_server\n").len(), 3);
        assert_eq!(
            shown("respond <<END\n  a\n    b\n  END 200\n"),
            ["Caddyfile:1: respond \"a\\n  b\" 200 { ... }"]
        );
    }

    #[test]
    fn snippets_and_defaults() {
        assert_eq!(
            shown("(x) {\n header A {args[0]}\n}\n:{$PORT:8080} {\n import x 1\n import y\n}\n"),
            ["Caddyfile:4: :8080 { ... }", "Caddyfile:2: header A 1", "Caddyfile:6: import y"]
        );
    }

    #[test]
    fn numbers_of_maps_are_those_of_caddy() {
        for (text, expected) in [
            ("007", "7"),
            ("1.10", "1.1"),
            ("1e3", "1000"),
            ("+5", "5"),
            ("a1", "a1"),
            ("1.2.3", "1.2.3"),
            ("-", "-"),
        ] {
            assert_eq!(scalar(text), expected, "{text}");
        }
        assert_eq!(
            shown("a {\n vars x 010\n map {a} {b} {\n  c 007 \"007\"\n }\n respond 0404\n}\n"),
            [
                "Caddyfile:1: a { ... }",
                "Caddyfile:2: vars x 10",
                "Caddyfile:3: map {a} {b} { ... }",
                "Caddyfile:4: c 7 007",
                "Caddyfile:6: respond 0404"
            ]
        );
    }

    #[test]
    fn faults_have_their_place() {
        for (text, message) in [
            ("a {\n b\n", "Caddyfile:2: the file ends in a block"),
            ("a {\n}\n}\n", "Caddyfile:3: a '}' without"),
            ("a \"b\n", "Caddyfile:1: the closing quote is missing"),
        ] {
            let error = parse("Caddyfile", text).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
