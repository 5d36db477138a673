//! Executes the requests that change the server.
//!
//! A change of the configuration is a list of edits: each is a site or a section with its new value. All
//! edits are checked together, and either all of them are applied or none.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use touchstone_accelerator::purge::PurgeRequest;
use touchstone_config::{route_name, site_name};

use crate::api::{ChangeNote, ControlApi, ControlledServer, EVERYTHING};
use crate::base::{INCLUDE, SITE};
use crate::certificates;
use crate::difference::differences;
use crate::effective::{EffectiveConfig, Problem, value_in_files};
use crate::keyed_hash::digest;
use crate::origins::{
    add_to, apply_origin_overrides, apply_patch, check_remaining_origins, find_groups, find_members,
    member_json, member_version, remove_from,
};
use crate::overlay::{Change, OriginName, Overlay, Subject};
use crate::reading::{ROUTE, routes_of};
use crate::request::{ControlError, ControlMethod, ControlRequest, ControlResponse};
use crate::resource::Resource;
use crate::tokens::Identity;

/// Sections that only the file can change: they determine the clients of the control API and the user of the
/// server.
const FIXED_SECTIONS: [&str; 4] = ["server", "admin", "control", INCLUDE];

/// A site or a section, and its new value; `None`: it is removed.
type Edit = (Subject, Option<Value>);

/// The request that is executed, its client, the server, and the record of the changes.
struct ChangeContext<'a> {
    request: &'a ControlRequest,
    identity: &'a Identity,
    server: &'a mut dyn ControlledServer,
    note: &'a mut ChangeNote,
}

impl ControlApi {
    /// Executes a request that changes the server.
    pub(crate) fn change(
        &mut self,
        resource: &Resource,
        request: &ControlRequest,
        body: Value,
        identity: &Identity,
        server: &mut dyn ControlledServer,
        note: &mut ChangeNote,
    ) -> Result<ControlResponse, ControlError> {
        let mut context = ChangeContext { request, identity, server, note };
        match resource {
            Resource::Config => self.put_config(body, &mut context),
            Resource::Sites => self.post_site(body, &mut context),
            Resource::Site(site) => self.put_or_delete_site(site, body, &mut context),
            Resource::Routes(site) => self.change_routes(site, body, &mut context),
            Resource::Route(site, number) => self.change_route(site, *number, body, &mut context),
            Resource::Group(site, route) => self.add_origin(site, route, &body, &mut context),
            Resource::Origin(site, route, origin) => {
                let name = OriginName { site: site.clone(), route: route.clone(), origin: origin.clone() };
                match request.method {
                    ControlMethod::Patch => self.patch_origin(name, &body, &mut context),
                    _ => self.remove_origin(&name, &mut context),
                }
            }
            Resource::Certificate(site) => self.put_certificate(site, &body, &mut context),
            Resource::Purge => self.purge(&body, &mut context),
            Resource::Overlay => self.drop_overlay(&mut context),
            Resource::Index
            | Resource::Origins
            | Resource::Certificates
            | Resource::History
            | Resource::OpenApi => Err(ControlError::new(405, "this resource is read-only")),
        }
    }

    fn put_config(
        &mut self,
        body: Value,
        context: &mut ChangeContext<'_>,
    ) -> Result<ControlResponse, ControlError> {
        context.note.subjects.push(EVERYTHING.to_string());
        self.condition(context.request, &Resource::Config, EVERYTHING, context.server)?;
        let mut wanted = object(body, "the configuration")?;
        let now = &self.effective.document;
        for name in FIXED_SECTIONS {
            if let Some(value) = wanted.remove(name)
                && now.get(name) != Some(&value)
            {
                let text = format!("'{name}' can be changed only in the configuration file");
                return Err(ControlError::new(422, text));
            }
        }
        let sites = match wanted.remove(SITE) {
            None => Vec::new(),
            Some(Value::Array(sites)) => sites,
            Some(_) => return Err(ControlError::new(422, "'site' must be an array of sites")),
        };
        let mut edits: Vec<Edit> = Vec::new();
        let sections = now.keys().chain(wanted.keys().filter(|name| !now.contains_key(*name)));
        for name in sections.filter(|name| *name != SITE && !FIXED_SECTIONS.contains(&name.as_str())) {
            if now.get(name) != wanted.get(name) {
                edits.push((Subject::Section(name.clone()), wanted.get(name).cloned()));
            }
        }
        let names = names_of(&sites)?;
        for (name, site) in names.iter().zip(sites) {
            if self.effective.site(name).map(|(_, now)| now) != Some(&site) {
                edits.push((Subject::Site(name.clone()), Some(site)));
            }
        }
        let removed = self.effective.site_names.iter().filter(|name| !names.contains(name));
        edits.extend(removed.map(|name| (Subject::Site(name.clone()), None)));
        self.apply_edits(edits, context)?;
        self.change_response(200, &Resource::Config, context)
    }

    fn post_site(
        &mut self,
        body: Value,
        context: &mut ChangeContext<'_>,
    ) -> Result<ControlResponse, ControlError> {
        let site = Value::Object(object(body, "a site")?);
        let name = names_of(std::slice::from_ref(&site))?.remove(0);
        let subject = Subject::Site(name.clone());
        context.note.subjects.push(subject.text());
        self.condition(context.request, &Resource::Sites, EVERYTHING, context.server)?;
        if self.effective.site(&name).is_some() {
            return Err(ControlError::new(409, format!("there is a site '{name}' already")));
        }
        self.apply_edits(vec![(subject, Some(site))], context)?;
        self.change_response(201, &Resource::Site(name), context)
    }

    fn put_or_delete_site(
        &mut self,
        name: &str,
        body: Value,
        context: &mut ChangeContext<'_>,
    ) -> Result<ControlResponse, ControlError> {
        let subject = Subject::Site(name.to_string());
        context.note.subjects.push(subject.text());
        let resource = Resource::Site(name.to_string());
        if context.request.method == ControlMethod::Delete {
            self.condition(context.request, &resource, &subject.text(), context.server)?;
            self.apply_edits(vec![(subject, None)], context)?;
            return self.change_response(200, &Resource::Sites, context);
        }
        let is_new = self.effective.site(name).is_none();
        match is_new {
            true => self.condition_of_new(context.request, &subject.text())?,
            false => self.condition(context.request, &resource, &subject.text(), context.server)?,
        }
        let site = Value::Object(object(body, "a site")?);
        self.apply_edits(vec![(subject, Some(site))], context)?;
        self.change_response(if is_new { 201 } else { 200 }, &resource, context)
    }

    fn change_routes(
        &mut self,
        site: &str,
        body: Value,
        context: &mut ChangeContext<'_>,
    ) -> Result<ControlResponse, ControlError> {
        let subject = Subject::Site(site.to_string()).text();
        context.note.subjects.push(subject.clone());
        let resource = Resource::Routes(site.to_string());
        self.condition(context.request, &resource, &subject, context.server)?;
        let mut routes = match routes_of(self.site_value(site)?) {
            Value::Array(routes) => routes,
            _ => Vec::new(),
        };
        if context.request.method == ControlMethod::Put {
            let Value::Array(wanted) = body else {
                return Err(ControlError::new(422, "the routes must be an array"));
            };
            self.put_routes(site, wanted, context)?;
            return self.change_response(200, &resource, context);
        }
        let position = match query_value(&context.request.query, "position") {
            None => routes.len(),
            Some(text) => {
                text.parse().ok().filter(|position| *position <= routes.len()).ok_or_else(|| {
                    ControlError::new(400, format!("'position' is from 0 to {}, not {text:?}", routes.len()))
                })?
            }
        };
        routes.insert(position, Value::Object(object(body, "a route")?));
        self.put_routes(site, routes, context)?;
        self.change_response(201, &Resource::Route(site.to_string(), position), context)
    }

    fn change_route(
        &mut self,
        site: &str,
        number: usize,
        body: Value,
        context: &mut ChangeContext<'_>,
    ) -> Result<ControlResponse, ControlError> {
        let subject = Subject::Site(site.to_string()).text();
        context.note.subjects.push(subject.clone());
        let resource = Resource::Route(site.to_string(), number);
        self.condition(context.request, &resource, &subject, context.server)?;
        let Value::Array(mut routes) = routes_of(self.site_value(site)?) else {
            return Err(ControlError::new(404, "the site has no routes"));
        };
        let is_removed = context.request.method == ControlMethod::Delete;
        match is_removed {
            true => drop(routes.remove(number)),
            false => routes[number] = Value::Object(object(body, "a route")?),
        }
        self.put_routes(site, routes, context)?;
        let after = if is_removed { Resource::Routes(site.to_string()) } else { resource };
        self.change_response(200, &after, context)
    }

    fn put_routes(
        &mut self,
        site: &str,
        routes: Vec<Value>,
        context: &mut ChangeContext<'_>,
    ) -> Result<(), ControlError> {
        let mut value = object(self.site_value(site)?.clone(), "a site")?;
        match routes.is_empty() {
            true => drop(value.remove(ROUTE)),
            false => drop(value.insert(ROUTE.to_string(), Value::Array(routes))),
        }
        self.apply_edits(vec![(Subject::Site(site.to_string()), Some(Value::Object(value)))], context)
    }

    fn patch_origin(
        &mut self,
        name: OriginName,
        body: &Value,
        context: &mut ChangeContext<'_>,
    ) -> Result<ControlResponse, ControlError> {
        let resource = Resource::Origin(name.site.clone(), name.route.clone(), name.origin.clone());
        let subject = origin_subject(&name.site, &name.route);
        context.note.subjects.push(subject.clone());
        let groups = find_groups(&self.origins, &name.site, &name.route)?;
        let members = find_members(&groups, &name.origin)?;
        if context.request.fields.if_match.is_some() {
            self.condition(context.request, &resource, &subject, context.server)?;
        }
        let patch = body.as_object().ok_or_else(|| ControlError::new(400, "the body must be an object"))?;
        let before = self.overlay.origins.get(&name).cloned().unwrap_or_default();
        let mut wanted = apply_patch(&before, patch)?;
        (wanted.by, wanted.at) = ControlApi::author_and_time(context.identity);
        if query_value(&context.request.query, "force").as_deref() != Some("true") {
            members
                .iter()
                .try_for_each(|(group, index)| check_remaining_origins(group, *index, wanted.state))?;
        }
        let version = |(group, index): &(&_, usize)| member_version(group, *index);
        let versions_before: Vec<Value> = members.iter().map(version).collect();
        let mut overlay = self.overlay.clone();
        match wanted.state.is_none() && wanted.weight.is_none() {
            true => drop(overlay.origins.remove(&name)),
            false => drop(overlay.origins.insert(name, wanted)),
        }
        self.write(&overlay)?;
        self.overlay = overlay;
        apply_origin_overrides(&self.origins, &self.overlay.origins);
        let versions_after: Vec<Value> = members.iter().map(version).collect();
        context.note.changes =
            differences(&json!({ subject.clone(): versions_before }), &json!({ subject: versions_after }));
        let (group, index) = members[0];
        let tag = self.tag_of(&resource, context.server)?;
        Ok(ControlResponse { status: 200, fields: vec![("ETag", tag)], body: member_json(group, index) })
    }

    fn add_origin(
        &mut self,
        site: &str,
        route: &str,
        body: &Value,
        context: &mut ChangeContext<'_>,
    ) -> Result<ControlResponse, ControlError> {
        let keys = body.as_object().map(|body| body.keys().collect::<Vec<_>>());
        let (Some([_]), Some(to)) = (keys.as_deref(), body["to"].as_str()) else {
            let text = "the body must be {\"to\": \"http://host:port weight=1\"}, as in the configuration";
            return Err(ControlError::new(400, text));
        };
        self.edit_origins(site, route, context, &mut |value| add_to(value, to))?;
        self.change_response(201, &Resource::Group(site.to_string(), route.to_string()), context)
    }

    fn remove_origin(
        &mut self,
        name: &OriginName,
        context: &mut ChangeContext<'_>,
    ) -> Result<ControlResponse, ControlError> {
        let groups = find_groups(&self.origins, &name.site, &name.route)?;
        find_members(&groups, &name.origin)?;
        self.edit_origins(&name.site, &name.route, context, &mut |value| match remove_from(
            value,
            &name.origin,
        ) {
            true => Ok(()),
            false => Err(ControlError::new(404, format!("the route has no origin '{}'", name.origin))),
        })?;
        self.change_response(200, &Resource::Group(name.site.clone(), name.route.clone()), context)
    }

    /// Edits `proxy.to` of a route, in each site of this first host.
    fn edit_origins(
        &mut self,
        site: &str,
        route: &str,
        context: &mut ChangeContext<'_>,
        edit: &mut dyn FnMut(&mut Value) -> Result<(), ControlError>,
    ) -> Result<(), ControlError> {
        let subject = origin_subject(site, route);
        context.note.subjects.push(subject.clone());
        let resource = Resource::Group(site.to_string(), route.to_string());
        self.condition(context.request, &resource, &subject, context.server)?;
        let mut edits: Vec<Edit> = Vec::new();
        for (position, config) in self.effective.config.sites.iter().enumerate() {
            if site_name(config) != site {
                continue;
            }
            let number = config.routes.iter().position(|known| route_name(&config.routes, known) == route);
            let name = &self.effective.site_names[position];
            let mut value = self.site_value(name)?.clone();
            let to = number
                .and_then(|number| value.get_mut(ROUTE)?.get_mut(number)?.get_mut("proxy")?.get_mut("to"));
            if let Some(to) = to {
                edit(to)?;
                edits.push((Subject::Site(name.clone()), Some(value)));
            }
        }
        if edits.is_empty() {
            let text =
                "these origins are not those of a route with 'proxy'; change the section that has them";
            return Err(ControlError::new(409, text));
        }
        self.apply_edits(edits, context)
    }

    fn put_certificate(
        &mut self,
        site: &str,
        body: &Value,
        context: &mut ChangeContext<'_>,
    ) -> Result<ControlResponse, ControlError> {
        let subject = Subject::Site(site.to_string());
        context.note.subjects.push(subject.text());
        let resource = Resource::Certificate(site.to_string());
        self.condition(context.request, &resource, &subject.text(), context.server)?;
        let Some(directory) = self.control().directory.clone() else {
            let text = "no certificate can be stored: set control.directory in the configuration file";
            return Err(ControlError::new(409, text));
        };
        let position = self.effective.site(site).map_or(0, |(position, _)| position);
        let config = &self.effective.config.sites[position];
        if config.tls.acme {
            let text = "ACME obtains the certificate of this site; change 'certificate' of the site first";
            return Err(ControlError::new(409, text));
        }
        let body = body.as_object().ok_or_else(|| ControlError::new(400, "the body must be an object"))?;
        let received = certificates::receive(body, site, config, &directory)?;
        let mut value = object(self.site_value(site)?.clone(), "a site")?;
        certificates::use_certificate(&mut value, &received.file);
        if let Err(failure) = self.apply_edits(vec![(subject, Some(Value::Object(value)))], context) {
            self.remove_unused_certificates_in(&directory);
            return Err(failure);
        }
        context.note.changes.push(json!({ "certificate": received.description }));
        self.change_response(200, &resource, context)
    }

    fn remove_unused_certificates_in(&self, directory: &std::path::Path) {
        let document = Value::Object(self.effective.document.clone()).to_string();
        certificates::remove_unused(directory, &[document, self.overlay.to_json().to_string()]);
    }

    fn purge(
        &mut self,
        body: &Value,
        context: &mut ChangeContext<'_>,
    ) -> Result<ControlResponse, ControlError> {
        context.note.subjects.push("cache".to_string());
        let purge = PurgeRequest::from_json(body).map_err(|problem| ControlError::new(400, problem))?;
        let Some(purged) = context.server.purge(&purge) else {
            return Err(ControlError::new(404, "no route of this server has a cache"));
        };
        context.note.changes.push(json!({ "purge": purge.to_json(), "purged": purged }));
        Ok(ControlResponse { status: 200, fields: Vec::new(), body: json!({ "purged": purged }) })
    }

    fn drop_overlay(&mut self, context: &mut ChangeContext<'_>) -> Result<ControlResponse, ControlError> {
        context.note.subjects.push(EVERYTHING.to_string());
        self.condition(context.request, &Resource::Overlay, EVERYTHING, context.server)?;
        let edits = self
            .overlay
            .changes
            .keys()
            .map(|subject| (subject.clone(), value_in_files(&self.base, subject).cloned()));
        let edits: Vec<Edit> = edits.collect();
        let overlay = Overlay::default();
        self.apply_overlay(overlay, &edits, context)?;
        self.change_response(200, &Resource::Overlay, context)
    }

    /// Applies edits, or changes nothing and returns the error.
    fn apply_edits(&mut self, edits: Vec<Edit>, context: &mut ChangeContext<'_>) -> Result<(), ControlError> {
        let mut overlay = self.overlay.clone();
        let (by, at) = ControlApi::author_and_time(context.identity);
        for (subject, value) in &edits {
            let in_file = value_in_files(&self.base, subject);
            if value.as_ref() == in_file {
                overlay.changes.remove(subject);
            } else {
                let change = Change {
                    based_on: in_file.map(digest),
                    value: value.clone(),
                    by: by.clone(),
                    at: at.clone(),
                };
                overlay.changes.insert(subject.clone(), change);
            }
        }
        self.apply_overlay(overlay, &edits, context)
    }

    fn apply_overlay(
        &mut self,
        mut overlay: Overlay,
        edits: &[Edit],
        context: &mut ChangeContext<'_>,
    ) -> Result<(), ControlError> {
        let effective = EffectiveConfig::new(&self.base, &overlay).map_err(configuration_error)?;
        for (subject, value) in edits {
            let (Subject::Site(name), Some(_)) = (subject, value) else { continue };
            if effective.site(name).is_none() {
                let text = format!(
                    "the first host of the site, or its first address, must be its name '{name}'; to rename \
                     a site, add it under the new name and remove the old one"
                );
                return Err(ControlError::new(422, text).with("sites", effective.site_names));
            }
        }
        let problems = effective.problems(context.server.check(&effective.config, &effective.places));
        if !problems.is_empty() {
            return Err(configuration_error(problems));
        }
        let mut changes = Vec::new();
        for (subject, value) in edits {
            let before = match subject {
                Subject::Site(name) => self.effective.site(name).map(|(_, value)| value),
                Subject::Section(name) => self.effective.document.get(name),
            };
            let shown = |value: Option<&Value>| {
                value.map_or_else(|| json!({}), |value| json!({ subject.text(): self.redacted(value) }))
            };
            changes.extend(differences(&shown(before), &shown(value.as_ref())));
        }
        remove_overrides_of_removed_origins(&mut overlay, &self.effective, &effective);
        let directory = self.directory();
        let mut commit = || directory.as_deref().map_or(Ok(()), |directory| overlay.write(directory));
        let applied = context.server.apply(effective.config.clone(), &overlay.origins, &mut commit);
        applied.map_err(|problem| {
            ControlError::new(422, "the change cannot be applied").with("problems", vec![problem])
        })?;
        context.note.changes = changes;
        self.activate(overlay, effective);
        Ok(())
    }

    fn write(&self, overlay: &Overlay) -> Result<(), ControlError> {
        let written = self.directory().map_or(Ok(()), |directory| overlay.write(&directory));
        written.map_err(|problem| ControlError::new(500, problem))
    }

    /// The response to a change: the differences, and the new entity tag of a resource.
    fn change_response(
        &self,
        status: u16,
        resource: &Resource,
        context: &mut ChangeContext<'_>,
    ) -> Result<ControlResponse, ControlError> {
        let tag = self.tag_of(resource, context.server)?;
        let mut fields = vec![("ETag", tag.clone())];
        if status == 201 {
            fields.push(("Location", resource.path()));
        }
        let body = json!({
            "changes": context.note.changes,
            "href": resource.path(),
            "etag": tag,
            "persist": self.control().persist.word(),
        });
        Ok(ControlResponse { status, fields, body })
    }
}

/// The subject of changes of a route's origins.
fn origin_subject(site: &str, route: &str) -> String {
    format!("origins of {site} {route}")
}

/// Removes the overrides of origins that a change removes. Otherwise they would apply again if the origins
/// are added later.
fn remove_overrides_of_removed_origins(
    overlay: &mut Overlay,
    before: &EffectiveConfig,
    after: &EffectiveConfig,
) {
    let (before, after) = (origins_of(before), origins_of(after));
    overlay.origins.retain(|name, _| !before.contains(name) || after.contains(name));
}

/// The origins of all routes.
fn origins_of(effective: &EffectiveConfig) -> HashSet<OriginName> {
    let mut names = HashSet::new();
    for site in &effective.config.sites {
        for route in &site.routes {
            let origins = route.proxy.as_ref().map(|proxy| proxy.origins()).unwrap_or_default();
            names.extend(origins.iter().map(|origin| OriginName {
                site: site_name(site),
                route: route_name(&site.routes, route),
                origin: origin.url.to_string(),
            }));
        }
    }
    names
}

/// The error for a configuration with problems.
fn configuration_error(problems: Vec<Problem>) -> ControlError {
    let problem_json = |problem: Problem| match problem.near {
        Some(near) => json!({ "message": problem.message, "near": near }),
        None => json!({ "message": problem.message }),
    };
    let problems: Vec<Value> = problems.into_iter().map(problem_json).collect();
    ControlError::new(422, "the configuration would have problems; nothing was changed")
        .with("problems", problems)
}

fn object(value: Value, what: &str) -> Result<Map<String, Value>, ControlError> {
    match value {
        Value::Object(table) => Ok(table),
        _ => Err(ControlError::new(
            422,
            format!("{what} must be an object with the keys of the configuration file"),
        )),
    }
}

/// The names of sites: the first host, or the first address; both, if several sites have the same first host.
fn names_of(sites: &[Value]) -> Result<Vec<String>, ControlError> {
    let first = |site: &Value, key: &str| match &site[key] {
        Value::Array(items) => items.first().and_then(Value::as_str).map(str::to_string),
        Value::String(text) => Some(text.clone()),
        _ => None,
    };
    let mut names = Vec::with_capacity(sites.len());
    for site in sites {
        let host = first(site, "hosts").map(|host| host.to_ascii_lowercase());
        let listen = first(site, "listen");
        let (Some(name), listen) = (host.clone().or_else(|| listen.clone()), listen) else {
            return Err(ControlError::new(422, "a site must have 'hosts' or 'listen'"));
        };
        names.push((name, host.and(listen)));
    }
    let is_twice = |name: &String| names.iter().filter(|(other, _)| other == name).count() > 1;
    let whole = |(name, listen): &(String, Option<String>)| match listen {
        Some(listen) if is_twice(name) => format!("{name} {listen}"),
        _ => name.clone(),
    };
    Ok(names.iter().map(whole).collect())
}

/// The value of a query parameter.
fn query_value(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key == name).then(|| percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_named_by_their_first_host_or_address() {
        let sites = json!([
            { "hosts": ["A.example", "b"], "listen": ["127.0.0.1:1"] },
            { "listen": "127.0.0.1:2" },
            { "hosts": ["c"], "listen": ["127.0.0.1:1"] },
            { "hosts": ["c"], "listen": ["127.0.0.1:2"] },
        ]);
        let names = names_of(sites.as_array().unwrap()).unwrap();
        assert_eq!(names, ["a.example", "127.0.0.1:2", "c 127.0.0.1:1", "c 127.0.0.1:2"]);
        assert_eq!(names_of(&[json!({ "hosts": 1 })]).unwrap_err().status, 422);
    }

    #[test]
    fn query_parameters_are_found() {
        assert_eq!(query_value("a=1&force=true", "force").as_deref(), Some("true"));
        assert_eq!(query_value("force", "force"), None);
    }
}
