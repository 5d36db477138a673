//! Variables in parameters and conditions: which there are, once all files are read.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::expression::{Template, Variable};
use super::{Branch, Condition, Configuration, Directive, Problem, parameter};

/// Finds the parameters with variables in them, and names the variables that there are not.
///
/// A line outside of `<If>` with a `$` that is no variable stays as it is: files of older servers have it in patterns.
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
        for (at, (name, value)) in directive.parameters.iter().enumerate() {
            match template_of(value, directive, &own) {
                Ok(Some(template)) => directive.templates.push((at, template)),
                Ok(None) => {}
                Err(message) => {
                    let name = String::from_utf8_lossy(name);
                    let message = format!("the value of {name} is wrong: {message}");
                    problems.push(Problem { place: directive.place.clone(), message });
                }
            }
        }
    }
    problems
}

/// The names that `set-variable` lines give a value.
fn own_variables(configuration: &Configuration) -> BTreeSet<Vec<u8>> {
    let directives = configuration.objects.iter().flat_map(|object| &object.directives);
    let setting = directives.filter(|directive| {
        matches!(parameter(&directive.parameters, "fn"), Some(b"set-variable" | b"set_variable"))
    });
    let names = setting.flat_map(|directive| &directive.parameters);
    names.filter_map(|(name, _)| name.strip_prefix(b"$").map(<[u8]>::to_vec)).collect()
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
    unknown.map(|message| Problem { place: condition.place.clone(), message })
}

fn no_variable(name: &[u8]) -> String {
    format!("there is no variable ${}: no set-variable line sets it", String::from_utf8_lossy(name))
}

fn template_of(
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
            wrong = Some("$1 and its like stand within <If> and <ElseIf> only".to_string());
        }
        _ => {}
    });
    match wrong {
        Some(message) if must_fit => Err(message),
        Some(_) => Ok(None),
        None if template.literal().is_some() && directive.branch.is_none() => Ok(None),
        None => Ok(Some(template)),
    }
}
