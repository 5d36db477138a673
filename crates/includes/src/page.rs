//! A parsed page: its static text as slices of the file's bytes, and its directives, ready to be evaluated.

use bytes::Bytes;

use super::encoding::Coding;
use super::expression::Expression;
use super::template::Template;

/// A parsed page. It never changes; requests share it.
#[derive(Debug)]
pub struct Page {
    pub(super) nodes: Vec<Node>,
    /// Its approximate size in memory.
    pub(super) bytes: usize,
}

impl Page {
    /// Its approximate size in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it has any directives.
    pub fn has_directives(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node, Node::Directive(_)))
    }

    /// The static text in order; for tests.
    #[cfg(test)]
    pub(super) fn text(&self) -> Vec<u8> {
        let text = self.nodes.iter().filter_map(|node| match node {
            Node::Text(text) => Some(&text[..]),
            Node::Directive(_) => None,
        });
        text.collect::<Vec<_>>().concat()
    }
}

#[derive(Debug)]
pub(super) enum Node {
    /// Written without changes.
    Text(Bytes),
    Directive(Directive),
}

#[derive(Debug)]
pub(super) struct Directive {
    /// The line at which it begins, from 1.
    pub(super) line: usize,
    pub(super) command: Command,
}

/// The action of a directive. Attributes take effect in order, up to the first invalid one.
#[derive(Debug)]
pub(super) enum Command {
    Config(Vec<ConfigItem>),
    Echo(Echo),
    Exec(Vec<ExecItem>),
    FileSize(Vec<FileItem>),
    LastModified(Vec<FileItem>),
    Include(Include),
    PrintEnvironment,
    Set(Vec<SetItem>),
    If(Condition),
    ElseIf(Condition),
    Else(Option<DirectiveError>),
    EndIf(Option<DirectiveError>),
    Block {
        name: Box<[u8]>,
        /// The index of the node after the last one of the block.
        end: usize,
    },
    EndBlock,
    Comment,
    Broken(DirectiveError),
}

/// The error in a directive, for the log.
pub(super) type DirectiveError = String;

#[derive(Debug)]
pub(super) enum Condition {
    Expression(Expression),
    /// Its expression is invalid. This is reported only when it would have been evaluated.
    BrokenExpression(DirectiveError),
    /// Its attributes are invalid.
    BrokenAttributes(DirectiveError),
}

#[derive(Debug)]
pub(super) enum ConfigItem {
    ErrorText(Template),
    UndefinedText(Template),
    TimeFormat(Template),
    SizeFormat(Template),
    Broken(DirectiveError),
}

#[derive(Debug)]
pub(super) struct Echo {
    pub(super) items: Vec<EchoItem>,
    /// nginx's `default`: used in place of the text for undefined variables.
    pub(super) default: Option<Bytes>,
}

#[derive(Debug)]
pub(super) enum EchoItem {
    Variable(Template),
    Decoding(Codings),
    Encoding(Codings),
    Broken(DirectiveError),
}

/// A list of codings, or the error in it; the error matters only when a value is coded.
pub(super) type Codings = Result<Vec<Coding>, DirectiveError>;

#[derive(Debug)]
pub(super) enum ExecItem {
    Command(Template),
    Cgi(Template),
    Broken(DirectiveError),
}

#[derive(Debug)]
pub(super) enum FileItem {
    File(Template),
    Virtual(Template),
    Broken(DirectiveError),
}

#[derive(Debug)]
pub(super) struct Include {
    pub(super) items: Vec<IncludeItem>,
    /// Wait for it before the rest of the page is evaluated.
    pub(super) wait: bool,
    /// Store it as a variable and do not write it.
    pub(super) set: Option<Box<[u8]>>,
    /// The block that replaces it if it fails or is empty.
    pub(super) stub: Option<Box<[u8]>>,
}

#[derive(Debug)]
pub(super) enum IncludeItem {
    File(Template),
    Virtual(Template),
    OnError(Template),
    Broken(DirectiveError),
}

#[derive(Debug)]
pub(super) enum SetItem {
    Variable(Template),
    Value(Template),
    Decoding(Codings),
    Encoding(Codings),
    Broken(DirectiveError),
}
