//! From files to directives: words, quotes, blocks, comments and `include`.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use touchstone_import_base::directive::{Directive, Form, Place};
use touchstone_import_base::files::{Counts, DEPTH, matching};

/// Reads a file and the files that it includes.
///
/// # Errors
/// What is wrong, with its place: a file that cannot be read, a quote or a block without an end, or a limit
/// exceeded.
pub fn read(file: &Path) -> Result<Vec<Directive>, String> {
    let directory = file.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut reader = Reader { directory: Some(directory), counts: Counts::default() };
    reader.file(file, 0)
}

/// Reads a text. Files that it includes are not read: their `include` directives are kept.
///
/// # Errors
/// As for [`read`].
pub fn parse(name: &str, text: &str) -> Result<Vec<Directive>, String> {
    let mut reader = Reader { directory: None, counts: Counts::default() };
    reader.text(name, text, 0)
}

struct Reader {
    /// The base of relative names: the directory of the first file, as in nginx.
    directory: Option<PathBuf>,
    counts: Counts,
}

impl Reader {
    fn file(&mut self, path: &Path, depth: usize) -> Result<Vec<Directive>, String> {
        let text = self.counts.read_text(path, "included")?;
        self.text(&path.display().to_string(), &text, depth)
    }

    fn text(&mut self, name: &str, text: &str, depth: usize) -> Result<Vec<Directive>, String> {
        let mut words = Lexer { file: name.into(), rest: text, line: 1 };
        self.block(&mut words, depth, false)
    }

    /// Reads directives up to the end of the file, or to the brace that ends the block.
    fn block(
        &mut self,
        words: &mut Lexer<'_>,
        depth: usize,
        is_inner: bool,
    ) -> Result<Vec<Directive>, String> {
        if depth > DEPTH {
            return Err(words.fault(&format!("blocks and included files are nested more than {DEPTH} deep")));
        }
        let mut directives = Vec::new();
        loop {
            let Some((word, line)) = words.next()? else {
                return match is_inner {
                    true => Err(words.fault("the file ends in a block: a '}' is missing")),
                    false => Ok(directives),
                };
            };
            let name = match word {
                Word::Text(name) => name,
                Word::BlockEnds if is_inner => return Ok(directives),
                Word::BlockEnds => return Err(words.fault("a '}' without its '{'")),
                Word::BlockBegins | Word::Ends => return Err(words.fault("a directive has no name")),
            };
            self.counts.add_directives(1, format_args!("{}:{}", words.file, words.line))?;
            let place = Place::new(words.file.clone(), line);
            let directive = self.rest_of(name, place, words, depth)?;
            match directive.name == "include" && self.directory.is_some() {
                true => directives.extend(self.included(directive, depth)?),
                false => directives.push(directive),
            }
        }
    }

    fn rest_of(
        &mut self,
        name: String,
        place: Place,
        words: &mut Lexer<'_>,
        depth: usize,
    ) -> Result<Directive, String> {
        let mut arguments = Vec::new();
        loop {
            match words.next()?.map(|(word, _)| word) {
                Some(Word::Text(argument)) => arguments.push(argument),
                Some(Word::Ends) => {
                    return Ok(Directive { name, arguments, block: None, place, form: Form::Nginx });
                }
                Some(Word::BlockBegins) if name.ends_with("_by_lua_block") => {
                    words.skip_block()?;
                    return Ok(Directive {
                        name,
                        arguments,
                        block: Some(Vec::new()),
                        place,
                        form: Form::Nginx,
                    });
                }
                Some(Word::BlockBegins) => {
                    let block = Some(self.block(words, depth + 1, true)?);
                    return Ok(Directive { name, arguments, block, place, form: Form::Nginx });
                }
                Some(Word::BlockEnds) | None => {
                    return Err(format!("{place}: a ';' is missing after {name:?}"));
                }
            }
        }
    }

    /// Returns the contents of the files of an `include`. If the file is missing, the directive is kept, and
    /// is reported as not translated.
    fn included(&mut self, directive: Directive, depth: usize) -> Result<Vec<Directive>, String> {
        let pattern = self.directory.clone().unwrap_or_default().join(directive.argument(0));
        let files = matching(&pattern);
        if files.is_empty() && !directive.argument(0).contains(['*', '?']) {
            return Ok(vec![directive]);
        }
        let mut all = Vec::new();
        for file in files {
            all.extend(self.file(&file, depth + 1)?);
        }
        Ok(all)
    }
}

enum Word {
    Text(String),
    Ends,
    BlockBegins,
    BlockEnds,
}

struct Lexer<'t> {
    file: Rc<str>,
    rest: &'t str,
    line: usize,
}

impl Lexer<'_> {
    fn fault(&self, message: &str) -> String {
        format!("{}:{}: {message}", self.file, self.line)
    }

    fn take(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        if character == '\n' {
            self.line += 1;
        }
        Some(character)
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// The next word, and the line on which it begins.
    fn next(&mut self) -> Result<Option<(Word, usize)>, String> {
        loop {
            let Some(character) = self.peek() else { return Ok(None) };
            let line = self.line;
            match character {
                '#' => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.rest = &self.rest[end..];
                    continue;
                }
                c if c.is_whitespace() || c == '\u{feff}' => {
                    self.take();
                    continue;
                }
                _ => {}
            }
            self.take();
            let word = match character {
                ';' => Word::Ends,
                '{' => Word::BlockBegins,
                '}' => Word::BlockEnds,
                '"' | '\'' => Word::Text(self.quoted(character)?),
                first => Word::Text(self.bare(first)),
            };
            return Ok(Some((word, line)));
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let begin = self.fault("the closing quote is missing");
        let mut text = String::new();
        loop {
            match self.take().ok_or_else(|| begin.clone())? {
                c if c == quote => return Ok(text),
                '\\' => text.push_str(&self.escape().ok_or_else(|| begin.clone())?),
                c => text.push(c),
            }
        }
    }

    fn bare(&mut self, first: char) -> String {
        let mut text = String::new();
        let mut next = Some(first);
        while let Some(character) = next {
            match character {
                '\\' => text.push_str(&self.escape().unwrap_or_default()),
                c => text.push(c),
            }
            next = match self.peek() {
                // The braces around the name of a variable.
                Some('{') if character == '$' => {
                    let end = self.rest.find('}').map_or(self.rest.len(), |at| at + 1);
                    text.push_str(&self.rest[..end]);
                    self.line += self.rest[..end].matches('\n').count();
                    self.rest = &self.rest[end..];
                    self.peek().filter(|c| !ends_a_word(*c))
                }
                other => other.filter(|c| !ends_a_word(*c)),
            };
            if next.is_some() {
                self.take();
            }
        }
        text
    }

    /// Handles a backslash: it is removed before quotes and backslashes and kept otherwise, for expressions.
    fn escape(&mut self) -> Option<String> {
        Some(match self.take()? {
            c @ ('"' | '\'' | '\\') => c.to_string(),
            't' => "\t".to_string(),
            'r' => "\r".to_string(),
            'n' => "\n".to_string(),
            other => format!("\\{other}"),
        })
    }

    /// Skips a block that is written in another language.
    fn skip_block(&mut self) -> Result<(), String> {
        let mut depth = 1;
        while depth > 0 {
            match self.take().ok_or_else(|| self.fault("the file ends in a block: a '}' is missing"))? {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }
}

fn ends_a_word(character: char) -> bool {
    character.is_whitespace() || matches!(character, ';' | '{' | '}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> Vec<String> {
        parse("x", text).unwrap().iter().map(Directive::to_string).collect()
    }

    #[test]
    fn words_quotes_blocks_and_comments() {
        let text = "# a comment\nuser www-data;\nhttp { # behind\n  a \"b c\" 'd;e' ${x}y \\\"z;\n\
                      location ~ \\.php$ { }\n}";
        let read = parse("x", text).unwrap();
        assert_eq!(names(text), ["x:2: user www-data;", "x:3: http { ... }"]);
        let inside: Vec<String> = read[1].inside().iter().map(Directive::to_string).collect();
        assert_eq!(inside, ["x:4: a \"b c\" \"d;e\" ${x}y \"z;", "x:5: location ~ \\.php$ { ... }"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, message) in [
            ("a b", "x:1: a ';' is missing after \"a\""),
            ("\na {\n b;\n", "x:4: the file ends in a block: a '}' is missing"),
            ("a;\n}", "x:2: a '}' without its '{'"),
            ("a 'b;", "x:1: the closing quote is missing"),
            ("{ }", "x:1: a directive has no name"),
        ] {
            assert_eq!(parse("x", text).unwrap_err(), message, "{text:?}");
        }
        let deep = "a {".repeat(40) + &"}".repeat(40);
        assert!(parse("x", &deep).unwrap_err().contains("are nested more than"));
    }

    #[test]
    fn files_are_included_in_the_order_of_their_names() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write("nginx.conf", "include b*.conf;\ninclude none*.conf;\ninclude missing;\n");
        write("b2.conf", "two;");
        write("b1.conf", "one;");
        write("c.conf", "three;");
        let read = read(&directory.path().join("nginx.conf")).unwrap();
        let names: Vec<&str> = read.iter().map(|directive| directive.name.as_str()).collect();
        assert_eq!(names, ["one", "two", "include"]);
        write("nginx.conf", "include nginx.conf;");
        assert!(
            super::read(&directory.path().join("nginx.conf")).unwrap_err().contains("are nested more than")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z{};\"'$\\\\# \n*~^/.]{0,200}") {
            let _ = parse("x", &text);
        }
    }
}
