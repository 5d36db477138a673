//! Finds the variables in parameters and conditions, after all files were read.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::expression::{Expression, Piece, Template, Variable};
use super::{Branch, Condition, Configuration, Directive, Problem, Stage, parameter};

/// Maps whose entries `set-variable` can set.
pub const SETTABLE_MAPS: [&str; 5] = ["client", "headers", "reqpb", "srvhdrs", "vars"];

/// Finds the parameters that contain variables, and reports unknown variables.
///
/// Outside `<If>`, a line with a `$` that is not a variable is unchanged: files of older servers have `$` in
/// patterns.
pub fn find_templates(configuration: &mut Configuration) -> Vec<Problem> {
    let own = own_variables(configuration);
    let mut problems = Vec::new();
    let mut seen: BTreeSet<*const Condition> = BTreeSet::new();
    for directive in configuration.objects.iter_mut().flat_map(|object| &mut object.directives) {
        let mut branch = directive.branch.clone();
        while let Some(one) = branch {
            for condition in one.condition.iter().chain(&one.earlier) {
                if seen.insert(Arc::as_ptr(condition)) {
                    problems.extend(unknown_in(condition, &own));
                }
            }
            branch = one.parent.clone();
        }
        problems.extend(fill(directive, &own));
    }
    problems
}

/// Finds the templates of a directive's parameters.
fn fill(directive: &mut Directive, own: &BTreeSet<Vec<u8>>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut literals = Vec::new();
    for (at, (name, value)) in directive.parameters.iter().enumerate() {
        let shown = String::from_utf8_lossy(name);
        match template_of(name, value, directive, own) {
            Ok(Some(template)) => match template.literal() {
                Some(text) => literals.push((at, text.to_vec())),
                None => directive.templates.push((at, template)),
            },
            Ok(None) => {}
            Err(message) => problems.push(format!("the value of {shown} is not valid: {message}")),
        }
        if is_setting(directive) && name.starts_with(b"$") && set_variable(name).is_none() {
            let maps = SETTABLE_MAPS.join(", ");
            problems.push(format!(
                "{shown} cannot be set: custom variables can be set, and entries of {maps} as $vars{{'name'}}"
            ));
        }
    }
    for (at, text) in literals {
        directive.parameters[at].1 = text;
    }
    problems.into_iter().map(|message| Problem { location: directive.location.clone(), message }).collect()
}

fn is_setting(directive: &Directive) -> bool {
    matches!(parameter(&directive.parameters, "fn"), Some(b"set-variable" | b"set_variable"))
}

/// The variable that a parameter of `set-variable` names.
pub fn set_variable(name: &[u8]) -> Option<Variable> {
    match <[Piece; 1]>::try_from(Template::parse(name).ok()?.0).ok()? {
        [Piece::Value(Expression::Variable(variable))] => match variable {
            Variable::Own(_) => Some(variable),
            Variable::Entry(map, _) if SETTABLE_MAPS.contains(&map) => Some(variable),
            _ => None,
        },
        _ => None,
    }
}

/// The names that `set-variable` lines set.
fn own_variables(configuration: &Configuration) -> BTreeSet<Vec<u8>> {
    let directives = configuration.objects.iter().flat_map(|object| &object.directives);
    let names = directives.filter(|directive| is_setting(directive)).flat_map(|line| &line.parameters);
    let own = names.filter(|(name, _)| name.starts_with(b"$")).filter_map(|(name, _)| set_variable(name));
    own.filter_map(|variable| if let Variable::Own(name) = variable { Some(name) } else { None }).collect()
}

fn unknown_in(condition: &Condition, own: &BTreeSet<Vec<u8>>) -> Option<Problem> {
    let mut unknown = None;
    condition.expression.for_each_variable(&mut |variable| {
        if let Variable::Own(name) = variable
            && !own.contains(name)
        {
            unknown.get_or_insert_with(|| no_variable(name));
        }
    });
    unknown.map(|message| Problem { location: condition.location.clone(), message })
}

fn no_variable(name: &[u8]) -> String {
    format!("there is no variable ${}: no set-variable line sets it", String::from_utf8_lossy(name))
}

fn template_of(
    name: &[u8],
    value: &[u8],
    directive: &Directive,
    own: &BTreeSet<Vec<u8>>,
) -> Result<Option<Template>, String> {
    if !value.contains(&b'$') {
        return Ok(None);
    }
    let has_groups = |branch: &Arc<Branch>| branch.condition.is_some();
    let has_groups = directive.branch.as_ref().is_some_and(has_groups);
    let must_fit = directive.branch.is_some() || value.windows(2).any(|two| two == b"$(");
    let template = match Template::parse(value) {
        Err(_) if !must_fit => return Ok(None),
        read => read?,
    };
    let mut wrong = None;
    template.for_each_variable(&mut |variable| match variable {
        Variable::Own(name) if !own.contains(name) => wrong = Some(no_variable(name)),
        Variable::Group(_) if !has_groups => {
            wrong = Some("$1 to $9 are defined within <If> and <ElseIf> only".to_string());
        }
        _ => {}
    });
    match wrong {
        Some(message) if must_fit => Err(message),
        Some(_) => Ok(None),
        None if template.literal().is_none() && chooses(name, directive.stage) => match must_fit {
            true => Err("it selects the line, and cannot contain variables: use <If>".to_string()),
            false => Ok(None),
        },
        // Patterns have `\$`, so only `$$` is read as a `$` in a file that may be older than version 7.
        None if template.literal().is_some()
            && directive.branch.is_none()
            && !value.windows(2).any(|two| two == b"$$") =>
        {
            Ok(None)
        }
        None => Ok(Some(template)),
    }
}

/// Whether a parameter selects the requests of its line, or the function that it calls.
fn chooses(name: &[u8], stage: Stage) -> bool {
    match name {
        b"fn" => true,
        b"method" | b"type" | b"query" => stage == Stage::Service,
        b"code" | b"reason" => stage == Stage::Error,
        _ => false,
    }
}
