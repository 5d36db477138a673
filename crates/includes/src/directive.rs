//! Converts directives as written to commands: names and values are interpreted here, once.

use bytes::Bytes;

use super::attribute::Attribute;
use super::encoding::{Coding, unescape_html};
use super::expression::Expression;
use super::page::{
    Command, Condition, ConfigItem, DirectiveError, Echo, EchoItem, ExecItem, FileItem, Include, IncludeItem,
    SetItem,
};
use super::settings::{Grammar, Settings};
use super::template::Template;

/// Interprets a directive.
pub(super) fn command(name: &[u8], attributes: &[Attribute], settings: &Settings) -> Command {
    let missing = || Command::Broken(format!("{} lacks its attribute", String::from_utf8_lossy(name)));
    let takes_none =
        || (!attributes.is_empty()).then(|| format!("{} takes no attributes", String::from_utf8_lossy(name)));
    match name {
        b"comment" => Command::Comment,
        b"if" => Command::If(condition("if", attributes, settings)),
        b"elif" => Command::ElseIf(condition("elif", attributes, settings)),
        b"else" => Command::Else(takes_none()),
        b"endif" => Command::EndIf(takes_none()),
        b"endblock" => Command::EndBlock,
        b"printenv" => takes_none().map_or(Command::PrintEnvironment, Command::Broken),
        b"block" => block(attributes),
        b"set" if attributes.len() < 2 => Command::Broken("set needs var and value".to_owned()),
        b"set" => Command::Set(set(attributes, settings.grammar)),
        b"config" | b"echo" | b"exec" | b"fsize" | b"flastmod" | b"include" if attributes.is_empty() => {
            missing()
        }
        b"config" => Command::Config(config(attributes, settings.grammar)),
        b"echo" => Command::Echo(echo(attributes, settings.grammar)),
        // The page may be included by one that may run programs, so the setting of its own location is
        // checked too.
        b"exec" if !settings.exec => {
            Command::Broken("exec is not allowed here; includes.exec would allow it".to_owned())
        }
        b"exec" => Command::Exec(exec(attributes, settings.grammar)),
        b"fsize" => Command::FileSize(files("fsize", attributes, settings.grammar)),
        b"flastmod" => Command::LastModified(files("flastmod", attributes, settings.grammar)),
        b"include" => include(attributes, settings.grammar),
        _ => Command::Broken(format!("unknown directive {:?}", String::from_utf8_lossy(name))),
    }
}

/// The attributes that are used: those before the first without a value.
fn valued(attributes: &[Attribute]) -> impl Iterator<Item = (&[u8], &[u8])> {
    attributes.iter().map_while(|attribute| Some((&attribute.name[..], attribute.value.as_deref()?)))
}

fn unknown(directive: &str, name: &[u8]) -> DirectiveError {
    format!("{directive} has no attribute {:?}", String::from_utf8_lossy(name))
}

/// Most attributes may contain entities; those of `config`, `set value` and conditions may not. nginx decodes
/// none.
fn decoded(value: &[u8], grammar: Grammar) -> Template {
    match grammar {
        Grammar::Nginx => Template::of_nginx(value),
        Grammar::Apache24 | Grammar::Legacy => Template::new(&unescape_html(value)),
    }
}

fn plain(value: &[u8], grammar: Grammar) -> Template {
    match grammar {
        Grammar::Nginx => Template::of_nginx(value),
        Grammar::Apache24 | Grammar::Legacy => Template::new(value),
    }
}

fn codings(directive: &str, value: &[u8], grammar: Grammar) -> Result<Vec<Coding>, DirectiveError> {
    let mut codings =
        Coding::list(value).map_err(|name| format!("{directive}: unknown encoding {name:?}"))?;
    if grammar == Grammar::Nginx {
        codings
            .iter_mut()
            .filter(|coding| **coding == Coding::Url)
            .for_each(|coding| *coding = Coding::UrlOfNginx);
    }
    Ok(codings)
}

fn condition(directive: &str, attributes: &[Attribute], settings: &Settings) -> Condition {
    match attributes {
        [Attribute { name, value: Some(text) }] if name == b"expr" => {
            match Expression::parse(text, settings.grammar) {
                Ok(expression) => Condition::Expression(expression),
                Err(reason) => {
                    let text = String::from_utf8_lossy(text);
                    Condition::BrokenExpression(format!("{directive} expr={text:?}: {reason}"))
                }
            }
        }
        [Attribute { name, value: Some(_) }] => Condition::BrokenAttributes(unknown(directive, name)),
        [] | [_] => Condition::BrokenAttributes(format!("{directive} lacks its expr")),
        _ => Condition::BrokenAttributes(format!("{directive} takes one attribute, expr")),
    }
}

fn block(attributes: &[Attribute]) -> Command {
    match attributes {
        [Attribute { name, value: Some(value) }] if name == b"name" => {
            Command::Block { name: value.as_slice().into(), end: 0 }
        }
        _ => Command::Broken("block takes one attribute, name".to_owned()),
    }
}

fn config(attributes: &[Attribute], grammar: Grammar) -> Vec<ConfigItem> {
    let mut items = Vec::new();
    for (name, value) in valued(attributes) {
        items.push(match name {
            b"errmsg" => ConfigItem::ErrorText(plain(value, grammar)),
            b"echomsg" => ConfigItem::UndefinedText(plain(value, grammar)),
            b"timefmt" => ConfigItem::TimeFormat(plain(value, grammar)),
            b"sizefmt" => ConfigItem::SizeFormat(plain(value, grammar)),
            // A setting of the iPlanet server: whether included pages see the other attributes. Here they do
            // not.
            b"scope" => continue,
            _ => ConfigItem::Broken(unknown("config", name)),
        });
    }
    items
}

fn echo(attributes: &[Attribute], grammar: Grammar) -> Echo {
    let mut echo = Echo { items: Vec::new(), default: None };
    for (name, value) in valued(attributes) {
        echo.items.push(match name {
            b"var" => EchoItem::Variable(decoded(value, grammar)),
            b"decoding" => EchoItem::Decoding(codings("echo", value, grammar)),
            b"encoding" => EchoItem::Encoding(codings("echo", value, grammar)),
            b"default" => {
                echo.default = Some(Bytes::copy_from_slice(value));
                continue;
            }
            _ => EchoItem::Broken(unknown("echo", name)),
        });
    }
    if grammar == Grammar::Nginx {
        // In this grammar the attributes have no order.
        echo.items.sort_by_key(|item| matches!(item, EchoItem::Variable(_)));
    }
    echo
}

fn exec(attributes: &[Attribute], grammar: Grammar) -> Vec<ExecItem> {
    let item = |(name, value): (&[u8], &[u8])| match name {
        b"cmd" => ExecItem::Command(decoded(value, grammar)),
        b"cgi" => ExecItem::Cgi(decoded(value, grammar)),
        _ => ExecItem::Broken(unknown("exec", name)),
    };
    valued(attributes).map(item).collect()
}

fn files(directive: &str, attributes: &[Attribute], grammar: Grammar) -> Vec<FileItem> {
    let item = |(name, value): (&[u8], &[u8])| match name {
        b"file" => FileItem::File(decoded(value, grammar)),
        b"virtual" => FileItem::Virtual(decoded(value, grammar)),
        _ => FileItem::Broken(unknown(directive, name)),
    };
    valued(attributes).map(item).collect()
}

fn include(attributes: &[Attribute], grammar: Grammar) -> Command {
    let mut include = Include { items: Vec::new(), wait: false, set: None, stub: None };
    for (name, value) in valued(attributes) {
        match name {
            b"file" => include.items.push(IncludeItem::File(decoded(value, grammar))),
            b"virtual" => include.items.push(IncludeItem::Virtual(decoded(value, grammar))),
            b"onerror" => include.items.push(IncludeItem::OnError(decoded(value, grammar))),
            b"set" => include.set = Some(value.into()),
            b"stub" => include.stub = Some(value.into()),
            b"wait" if value.eq_ignore_ascii_case(b"yes") => include.wait = true,
            b"wait" if value.eq_ignore_ascii_case(b"no") => include.wait = false,
            b"wait" => include.items.push(IncludeItem::Broken("include wait is yes or no".to_owned())),
            _ => include.items.push(IncludeItem::Broken(unknown("include", name))),
        }
    }
    if include.set.is_some() && include.stub.is_some() {
        return Command::Broken("include takes set or stub, not both".to_owned());
    }
    Command::Include(include)
}

fn set(attributes: &[Attribute], grammar: Grammar) -> Vec<SetItem> {
    let item = |(name, value): (&[u8], &[u8])| match name {
        b"var" => SetItem::Variable(decoded(value, grammar)),
        b"value" => SetItem::Value(plain(value, grammar)),
        b"decoding" => SetItem::Decoding(codings("set", value, grammar)),
        b"encoding" => SetItem::Encoding(codings("set", value, grammar)),
        _ => SetItem::Broken(unknown("set", name)),
    };
    let mut items: Vec<SetItem> = valued(attributes).map(item).collect();
    if grammar == Grammar::Nginx {
        items.sort_by_key(|item| matches!(item, SetItem::Value(_)));
    }
    items
}
