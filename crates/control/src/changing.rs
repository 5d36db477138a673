//! Requests that change.
//!
//! A change of the configuration becomes a list of edits: each a site or a section with its new value. All
//! of them are checked together, and put in force together or not at all.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use touchstone_accelerator::purge::PurgeOrder;
use touchstone_config::{route_name, site_name};

use crate::api::{ChangeNote, ControlApi, EVERYTHING, Host};
use crate::base::{INCLUDE, SITE};
use crate::call::{Call, CallAnswer, CallMethod, Failure};
use crate::certificates;
use crate::difference::differences;
use crate::effective::{Effective, Problem, value_in_files};
use crate::keyed_hash::digest;
use crate::origins::{
    add_to, check_rest, find_groups, find_members, member_json, member_version, order_origins, patched,
    remove_from,
};
use crate::overlay::{Change, OriginName, Overlay, Subject};
use crate::place::Place;
use crate::reading::{ROUTE, routes_of};
use crate::tokens::Identity;

/// Sections that only the file has: they say who may use the control API, and as which user the server runs.
const FIXED_SECTIONS: [&str; 4] = ["server", "admin", "control", INCLUDE];

/// A site or a section, and what it is to be; `None`: it is removed.
type Edit = (Subject, Option<Value>);

/// A request that changes, with what its steps need.
struct Order<'a> {
    call: &'a Call,
    identity: &'a Identity,
    host: &'a mut dyn Host,
    note: &'a mut ChangeNote,
}

impl ControlApi {
    /// Carries out a request that changes.
    pub(crate) fn change(
        &mut self,
        place: &Place,
        call: &Call,
        body: Value,
        identity: &Identity,
        host: &mut dyn Host,
        note: &mut ChangeNote,
    ) -> Result<CallAnswer, Failure> {
        let mut order = Order { call, identity, host, note };
        match place {
            Place::Config => self.put_config(body, &mut order),
            Place::Sites => self.post_site(body, &mut order),
            Place::Site(site) => self.put_or_delete_site(site, body, &mut order),
            Place::Routes(site) => self.change_routes(site, body, &mut order),
            Place::Route(site, number) => self.change_route(site, *number, body, &mut order),
            Place::Group(site, route) => self.add_origin(site, route, &body, &mut order),
            Place::Origin(site, route, origin) => {
                let name = OriginName { site: site.clone(), route: route.clone(), origin: origin.clone() };
                match call.method {
                    CallMethod::Patch => self.patch_origin(name, &body, &mut order),
                    _ => self.remove_origin(&name, &mut order),
                }
            }
            Place::Certificate(site) => self.put_certificate(site, &body, &mut order),
            Place::Purge => self.purge(&body, &mut order),
            Place::Overlay => self.drop_overlay(&mut order),
            Place::Index | Place::Origins | Place::Certificates | Place::History | Place::OpenApi => {
                Err(Failure::new(405, "this can only be read"))
            }
        }
    }

    fn put_config(&mut self, body: Value, order: &mut Order<'_>) -> Result<CallAnswer, Failure> {
        order.note.subjects.push(EVERYTHING.to_string());
        self.condition(order.call, &Place::Config, EVERYTHING, order.host)?;
        let mut wanted = object(body, "the configuration")?;
        let now = &self.effective.document;
        for name in FIXED_SECTIONS {
            if let Some(value) = wanted.remove(name)
                && now.get(name) != Some(&value)
            {
                let text =
                    format!("'{name}' can be changed in the configuration file only; leave it as it is");
                return Err(Failure::new(422, text));
            }
        }
        let sites = match wanted.remove(SITE) {
            None => Vec::new(),
            Some(Value::Array(sites)) => sites,
            Some(_) => return Err(Failure::new(422, "'site' must be an array of sites")),
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
        self.put_in_force(edits, order)?;
        self.changed(200, &Place::Config, order)
    }

    fn post_site(&mut self, body: Value, order: &mut Order<'_>) -> Result<CallAnswer, Failure> {
        let site = Value::Object(object(body, "a site")?);
        let name = names_of(std::slice::from_ref(&site))?.remove(0);
        let subject = Subject::Site(name.clone());
        order.note.subjects.push(subject.text());
        self.condition(order.call, &Place::Sites, EVERYTHING, order.host)?;
        if self.effective.site(&name).is_some() {
            return Err(Failure::new(409, format!("there is a site '{name}' already")));
        }
        self.put_in_force(vec![(subject, Some(site))], order)?;
        self.changed(201, &Place::Site(name), order)
    }

    fn put_or_delete_site(
        &mut self,
        name: &str,
        body: Value,
        order: &mut Order<'_>,
    ) -> Result<CallAnswer, Failure> {
        let subject = Subject::Site(name.to_string());
        order.note.subjects.push(subject.text());
        let place = Place::Site(name.to_string());
        if order.call.method == CallMethod::Delete {
            self.condition(order.call, &place, &subject.text(), order.host)?;
            self.put_in_force(vec![(subject, None)], order)?;
            return self.changed(200, &Place::Sites, order);
        }
        let is_new = self.effective.site(name).is_none();
        match is_new {
            true => self.condition_of_new(order.call, &subject.text())?,
            false => self.condition(order.call, &place, &subject.text(), order.host)?,
        }
        let site = Value::Object(object(body, "a site")?);
        self.put_in_force(vec![(subject, Some(site))], order)?;
        self.changed(if is_new { 201 } else { 200 }, &place, order)
    }

    fn change_routes(
        &mut self,
        site: &str,
        body: Value,
        order: &mut Order<'_>,
    ) -> Result<CallAnswer, Failure> {
        let subject = Subject::Site(site.to_string()).text();
        order.note.subjects.push(subject.clone());
        let place = Place::Routes(site.to_string());
        self.condition(order.call, &place, &subject, order.host)?;
        let mut routes = match routes_of(self.site_value(site)?) {
            Value::Array(routes) => routes,
            _ => Vec::new(),
        };
        if order.call.method == CallMethod::Put {
            let Value::Array(wanted) = body else {
                return Err(Failure::new(422, "the routes must be an array"));
            };
            self.put_routes(site, wanted, order)?;
            return self.changed(200, &place, order);
        }
        let position = match query_value(&order.call.query, "position") {
            None => routes.len(),
            Some(text) => {
                text.parse().ok().filter(|position| *position <= routes.len()).ok_or_else(|| {
                    Failure::new(400, format!("'position' is from 0 to {}, not {text:?}", routes.len()))
                })?
            }
        };
        routes.insert(position, Value::Object(object(body, "a route")?));
        self.put_routes(site, routes, order)?;
        self.changed(201, &Place::Route(site.to_string(), position), order)
    }

    fn change_route(
        &mut self,
        site: &str,
        number: usize,
        body: Value,
        order: &mut Order<'_>,
    ) -> Result<CallAnswer, Failure> {
        let subject = Subject::Site(site.to_string()).text();
        order.note.subjects.push(subject.clone());
        let place = Place::Route(site.to_string(), number);
        self.condition(order.call, &place, &subject, order.host)?;
        let Value::Array(mut routes) = routes_of(self.site_value(site)?) else {
            return Err(Failure::new(404, "the site has no routes"));
        };
        let is_removed = order.call.method == CallMethod::Delete;
        match is_removed {
            true => drop(routes.remove(number)),
            false => routes[number] = Value::Object(object(body, "a route")?),
        }
        self.put_routes(site, routes, order)?;
        let after = if is_removed { Place::Routes(site.to_string()) } else { place };
        self.changed(200, &after, order)
    }

    fn put_routes(&mut self, site: &str, routes: Vec<Value>, order: &mut Order<'_>) -> Result<(), Failure> {
        let mut value = object(self.site_value(site)?.clone(), "a site")?;
        match routes.is_empty() {
            true => drop(value.remove(ROUTE)),
            false => drop(value.insert(ROUTE.to_string(), Value::Array(routes))),
        }
        self.put_in_force(vec![(Subject::Site(site.to_string()), Some(Value::Object(value)))], order)
    }

    fn patch_origin(
        &mut self,
        name: OriginName,
        body: &Value,
        order: &mut Order<'_>,
    ) -> Result<CallAnswer, Failure> {
        let place = Place::Origin(name.site.clone(), name.route.clone(), name.origin.clone());
        let subject = origin_subject(&name.site, &name.route);
        order.note.subjects.push(subject.clone());
        let groups = find_groups(&self.origins, &name.site, &name.route)?;
        let members = find_members(&groups, &name.origin)?;
        if order.call.fields.if_match.is_some() {
            self.condition(order.call, &place, &subject, order.host)?;
        }
        let patch = body.as_object().ok_or_else(|| Failure::new(400, "the body must be an object"))?;
        let before = self.overlay.origins.get(&name).cloned().unwrap_or_default();
        let mut wanted = patched(&before, patch)?;
        (wanted.by, wanted.at) = ControlApi::stamp(order.identity);
        if query_value(&order.call.query, "force").as_deref() != Some("true") {
            members.iter().try_for_each(|(group, index)| check_rest(group, *index, wanted.state))?;
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
        order_origins(&self.origins, &self.overlay.origins);
        let versions_after: Vec<Value> = members.iter().map(version).collect();
        order.note.changes =
            differences(&json!({ subject.clone(): versions_before }), &json!({ subject: versions_after }));
        let (group, index) = members[0];
        let tag = self.tag_of(&place, order.host)?;
        Ok(CallAnswer { status: 200, fields: vec![("ETag", tag)], body: member_json(group, index) })
    }

    fn add_origin(
        &mut self,
        site: &str,
        route: &str,
        body: &Value,
        order: &mut Order<'_>,
    ) -> Result<CallAnswer, Failure> {
        let keys = body.as_object().map(|body| body.keys().collect::<Vec<_>>());
        let (Some([_]), Some(to)) = (keys.as_deref(), body["to"].as_str()) else {
            let text = "the body must be {\"to\": \"http://host:port weight=1\"}, as in the configuration";
            return Err(Failure::new(400, text));
        };
        self.edit_origins(site, route, order, &mut |value| add_to(value, to))?;
        self.changed(201, &Place::Group(site.to_string(), route.to_string()), order)
    }

    fn remove_origin(&mut self, name: &OriginName, order: &mut Order<'_>) -> Result<CallAnswer, Failure> {
        let groups = find_groups(&self.origins, &name.site, &name.route)?;
        find_members(&groups, &name.origin)?;
        self.edit_origins(
            &name.site,
            &name.route,
            order,
            &mut |value| match remove_from(value, &name.origin) {
                true => Ok(()),
                false => Err(Failure::new(404, format!("the route has no origin '{}'", name.origin))),
            },
        )?;
        self.changed(200, &Place::Group(name.site.clone(), name.route.clone()), order)
    }

    /// Edits `proxy.to` of a route, in each site of this first host.
    fn edit_origins(
        &mut self,
        site: &str,
        route: &str,
        order: &mut Order<'_>,
        edit: &mut dyn FnMut(&mut Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let subject = origin_subject(site, route);
        order.note.subjects.push(subject.clone());
        let place = Place::Group(site.to_string(), route.to_string());
        self.condition(order.call, &place, &subject, order.host)?;
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
            return Err(Failure::new(409, text));
        }
        self.put_in_force(edits, order)
    }

    fn put_certificate(
        &mut self,
        site: &str,
        body: &Value,
        order: &mut Order<'_>,
    ) -> Result<CallAnswer, Failure> {
        let subject = Subject::Site(site.to_string());
        order.note.subjects.push(subject.text());
        let place = Place::Certificate(site.to_string());
        self.condition(order.call, &place, &subject.text(), order.host)?;
        let Some(directory) = self.control().directory.clone() else {
            let text = "no certificate can be kept: set control.directory in the configuration file";
            return Err(Failure::new(409, text));
        };
        let position = self.effective.site(site).map_or(0, |(position, _)| position);
        let config = &self.effective.config.sites[position];
        if config.tls.acme {
            let text = "the certificate comes by ACME; change 'certificate' of the site first";
            return Err(Failure::new(409, text));
        }
        let body = body.as_object().ok_or_else(|| Failure::new(400, "the body must be an object"))?;
        let received = certificates::receive(body, site, config, &directory)?;
        let mut value = object(self.site_value(site)?.clone(), "a site")?;
        certificates::use_certificate(&mut value, &received.file);
        if let Err(failure) = self.put_in_force(vec![(subject, Some(Value::Object(value)))], order) {
            self.forget_unused(&directory);
            return Err(failure);
        }
        order.note.changes.push(json!({ "certificate": received.description }));
        self.changed(200, &place, order)
    }

    fn forget_unused(&self, directory: &std::path::Path) {
        let document = Value::Object(self.effective.document.clone()).to_string();
        certificates::remove_unused(directory, &[document, self.overlay.to_json().to_string()]);
    }

    fn purge(&mut self, body: &Value, order: &mut Order<'_>) -> Result<CallAnswer, Failure> {
        order.note.subjects.push("cache".to_string());
        let purge = PurgeOrder::from_json(body).map_err(|problem| Failure::new(400, problem))?;
        let Some(purged) = order.host.purge(&purge) else {
            return Err(Failure::new(404, "no route of this server has a cache"));
        };
        order.note.changes.push(json!({ "purge": purge.to_json(), "purged": purged }));
        Ok(CallAnswer { status: 200, fields: Vec::new(), body: json!({ "purged": purged }) })
    }

    fn drop_overlay(&mut self, order: &mut Order<'_>) -> Result<CallAnswer, Failure> {
        order.note.subjects.push(EVERYTHING.to_string());
        self.condition(order.call, &Place::Overlay, EVERYTHING, order.host)?;
        let edits = self
            .overlay
            .changes
            .keys()
            .map(|subject| (subject.clone(), value_in_files(&self.base, subject).cloned()));
        let edits: Vec<Edit> = edits.collect();
        let overlay = Overlay::default();
        self.put_overlay_in_force(overlay, &edits, order)?;
        self.changed(200, &Place::Overlay, order)
    }

    /// Puts edits in force, or changes nothing and says why.
    fn put_in_force(&mut self, edits: Vec<Edit>, order: &mut Order<'_>) -> Result<(), Failure> {
        let mut overlay = self.overlay.clone();
        let (by, at) = ControlApi::stamp(order.identity);
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
        self.put_overlay_in_force(overlay, &edits, order)
    }

    fn put_overlay_in_force(
        &mut self,
        mut overlay: Overlay,
        edits: &[Edit],
        order: &mut Order<'_>,
    ) -> Result<(), Failure> {
        let effective = Effective::new(&self.base, &overlay).map_err(refused)?;
        for (subject, value) in edits {
            let (Subject::Site(name), Some(_)) = (subject, value) else { continue };
            if effective.site(name).is_none() {
                let text = format!(
                    "the first host of the site, or its first address, must be its name '{name}'; to rename \
                     a site, add it under the new name and remove the old one"
                );
                return Err(Failure::new(422, text).with("sites", effective.site_names));
            }
        }
        let problems = effective.problems(order.host.check(&effective.config, &effective.places));
        if !problems.is_empty() {
            return Err(refused(problems));
        }
        let mut changes = Vec::new();
        for (subject, value) in edits {
            let before = match subject {
                Subject::Site(name) => self.effective.site(name).map(|(_, value)| value),
                Subject::Section(name) => self.effective.document.get(name),
            };
            let shown = |value: Option<&Value>| {
                value.map_or_else(|| json!({}), |value| json!({ subject.text(): self.hidden(value) }))
            };
            changes.extend(differences(&shown(before), &shown(value.as_ref())));
        }
        remove_orders_of_removed(&mut overlay, &self.effective, &effective);
        let directory = self.directory();
        let mut commit = || directory.as_deref().map_or(Ok(()), |directory| overlay.write(directory));
        let applied = order.host.apply(effective.config.clone(), &overlay.origins, &mut commit);
        applied.map_err(|problem| {
            Failure::new(422, "the change cannot be put in force").with("problems", vec![problem])
        })?;
        order.note.changes = changes;
        self.in_force(overlay, effective);
        Ok(())
    }

    fn write(&self, overlay: &Overlay) -> Result<(), Failure> {
        let written = self.directory().map_or(Ok(()), |directory| overlay.write(&directory));
        written.map_err(|problem| Failure::new(500, problem))
    }

    /// The answer to a change: what it changed, and the entity tag of what is now at a place.
    fn changed(&self, status: u16, place: &Place, order: &mut Order<'_>) -> Result<CallAnswer, Failure> {
        let tag = self.tag_of(place, order.host)?;
        let mut fields = vec![("ETag", tag.clone())];
        if status == 201 {
            fields.push(("Location", place.path()));
        }
        let body = json!({
            "changes": order.note.changes,
            "href": place.path(),
            "etag": tag,
            "persist": self.control().persist.word(),
        });
        Ok(CallAnswer { status, fields, body })
    }
}

/// The subject of changes of a route's origins.
fn origin_subject(site: &str, route: &str) -> String {
    format!("origins of {site} {route}")
}

/// Removes the orders for origins that a change removes: they would come back with the origins later.
fn remove_orders_of_removed(overlay: &mut Overlay, before: &Effective, after: &Effective) {
    let (before, after) = (origins_of(before), origins_of(after));
    overlay.origins.retain(|name, _| !before.contains(name) || after.contains(name));
}

/// The origins of all routes.
fn origins_of(effective: &Effective) -> HashSet<OriginName> {
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

/// The answer to a configuration with problems.
fn refused(problems: Vec<Problem>) -> Failure {
    let said = |problem: Problem| match problem.near {
        Some(near) => json!({ "message": problem.message, "near": near }),
        None => json!({ "message": problem.message }),
    };
    let problems: Vec<Value> = problems.into_iter().map(said).collect();
    Failure::new(422, "the configuration would have problems; nothing was changed").with("problems", problems)
}

fn object(value: Value, what: &str) -> Result<Map<String, Value>, Failure> {
    match value {
        Value::Object(table) => Ok(table),
        _ => Err(Failure::new(
            422,
            format!("{what} must be an object with the keys of the configuration file"),
        )),
    }
}

/// The names that sites will have: the first host, or the first address; both, if several have the same host.
fn names_of(sites: &[Value]) -> Result<Vec<String>, Failure> {
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
            return Err(Failure::new(422, "a site must have 'hosts' or 'listen'"));
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

/// A value of the query.
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
    fn names_are_those_of_the_configuration() {
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
    fn values_of_queries() {
        assert_eq!(query_value("a=1&force=true", "force").as_deref(), Some("true"));
        assert_eq!(query_value("force", "force"), None);
    }
}
