//! Requests that read.

use serde_json::{Value, json};

use crate::api::{ControlApi, Host};
use crate::call::{Call, CallAnswer, Failure};
use crate::certificates::certificate_json;
use crate::openapi;
use crate::origins::{
    all_groups, find_groups, find_members, group_json, group_version, member_json, member_version,
};
use crate::place::{PLACES, Place};

/// The key of routes in a site.
pub(crate) const ROUTE: &str = "route";

/// What is at a place: what is shown, and what its entity tag is made of.
struct Representation {
    body: Value,
    /// `None`: it changes by itself, and has no tag.
    version: Option<Value>,
}

impl ControlApi {
    /// Answers a request that reads.
    pub(crate) fn read(&self, place: &Place, call: &Call, host: &dyn Host) -> Result<CallAnswer, Failure> {
        let Representation { body, version } = self.representation(place, host)?;
        let mut answer = CallAnswer { status: 200, fields: Vec::new(), body };
        if let Some(version) = version {
            let tag = self.key.entity_tag(&version);
            if call.fields.if_none_match.as_deref().is_some_and(|tags| lists(tags, &tag)) {
                answer = CallAnswer { status: 304, fields: Vec::new(), body: Value::Null };
            }
            answer.fields.push(("ETag", tag));
        }
        Ok(answer)
    }

    fn representation(&self, place: &Place, host: &dyn Host) -> Result<Representation, Failure> {
        let whole = |value: Value| Representation { body: self.hidden(&value), version: Some(value) };
        let changing = |body: Value| Representation { body, version: None };
        Ok(match place {
            Place::Index => changing(json!({
                "paths": PLACES.map(|(path, methods)| {
                    let methods: Vec<&str> = methods.iter().map(|method| method.word()).collect();
                    json!({ "path": path, "methods": methods })
                }),
                "config_file": self.base.path().to_string_lossy(),
                "persist": self.control().persist.word(),
                "changes": self.overlay.summary(),
                "set_aside": self.overlay.set_aside.len(),
            })),
            Place::Config => whole(Value::Object(self.effective.document.clone())),
            Place::Sites => whole(self.site_list()),
            Place::Site(site) => whole(self.site_value(site)?.clone()),
            Place::Routes(site) => whole(routes_of(self.site_value(site)?)),
            Place::Route(site, number) => whole(self.route_value(site, *number)?),
            Place::Origins => changing(all_groups(&self.origins)),
            Place::Group(site, route) => {
                let groups = find_groups(&self.origins, site, route)?;
                let body = match &groups[..] {
                    [group] => group_json(group),
                    groups => {
                        json!({ "groups": groups.iter().map(|group| group_json(group)).collect::<Vec<_>>() })
                    }
                };
                Representation {
                    body,
                    version: Some(groups.iter().map(|group| group_version(group)).collect()),
                }
            }
            Place::Origin(site, route, origin) => {
                let groups = find_groups(&self.origins, site, route)?;
                let members = find_members(&groups, origin)?;
                let (group, index) = members[0];
                Representation {
                    body: member_json(group, index),
                    version: Some(member_version(group, index)),
                }
            }
            Place::Certificates => {
                let acme_file = |hosts: &[String]| host.acme_file(&self.effective.config, hosts);
                let sites = self.effective.site_names.iter().zip(&self.effective.config.sites);
                let all = sites.filter_map(|(name, site)| certificate_json(name, site, &acme_file));
                let body: Value = all.collect();
                Representation {
                    version: Some(without_days(body.clone())),
                    body: json!({ "certificates": body }),
                }
            }
            Place::Certificate(site) => {
                let body = self.certificate(site, host)?;
                Representation { version: Some(without_days(body.clone())), body }
            }
            Place::Purge => return Err(Failure::new(405, "purges are made by POST")),
            Place::History => changing(json!({ "changes": self.history })),
            Place::Overlay => whole(self.overlay.to_json()),
            Place::OpenApi => changing(openapi::description()),
        })
    }

    /// The sites with their paths.
    pub(crate) fn site_list(&self) -> Value {
        let site = |(position, name): (usize, &String)| {
            let site = &self.effective.config.sites[position];
            json!({
                "name": name,
                "href": Place::Site(name.clone()).path(),
                "hosts": site.hosts,
                "listen": site.listen.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "routes": site.routes.len(),
            })
        };
        let sites: Vec<Value> = self.effective.site_names.iter().enumerate().map(site).collect();
        json!({ "sites": sites })
    }

    /// What the configuration says about a site.
    pub(crate) fn site_value(&self, name: &str) -> Result<&Value, Failure> {
        self.effective.site(name).map(|(_, value)| value).ok_or_else(|| {
            let names = self.effective.site_names.clone();
            Failure::new(404, format!("there is no site '{name}'")).with("sites", names)
        })
    }

    fn route_value(&self, site: &str, number: usize) -> Result<Value, Failure> {
        let routes = routes_of(self.site_value(site)?);
        let count = routes.as_array().map_or(0, Vec::len);
        let missing = || {
            Failure::new(404, format!("'{site}' has {count} routes, numbered from 0; there is no {number}"))
        };
        routes.get(number).cloned().ok_or_else(missing)
    }

    /// The certificate of a site.
    pub(crate) fn certificate(&self, name: &str, host: &dyn Host) -> Result<Value, Failure> {
        self.site_value(name)?;
        let position = self.effective.site(name).map_or(0, |(position, _)| position);
        let site = &self.effective.config.sites[position];
        let acme_file = |hosts: &[String]| host.acme_file(&self.effective.config, hosts);
        certificate_json(name, site, &acme_file)
            .ok_or_else(|| Failure::new(404, format!("'{name}' speaks plain HTTP and has no certificate")))
    }

    /// The entity tag of what is at a place.
    pub(crate) fn tag_of(&self, place: &Place, host: &dyn Host) -> Result<String, Failure> {
        let version = self.representation(place, host)?.version.unwrap_or_default();
        Ok(self.key.entity_tag(&version))
    }

    /// Checks the condition of a change of what is at a place; `subject` names it in the history.
    pub(crate) fn condition(
        &self,
        call: &Call,
        place: &Place,
        subject: &str,
        host: &dyn Host,
    ) -> Result<(), Failure> {
        let current = self.representation(place, host)?;
        let tag = self.key.entity_tag(&current.version.unwrap_or_default());
        let fails = |status: u16, error: &str| {
            let failure = Failure::new(status, error).with("etag", tag.clone());
            match self.last_change(subject) {
                Some(change) => failure.with("last_change", change.clone()),
                None => failure,
            }
        };
        if call.fields.if_none_match.is_some() {
            return Err(fails(412, "it exists already; If-None-Match is for what does not exist yet"));
        }
        match &call.fields.if_match {
            None => Err(fails(
                428,
                "a change needs If-Match with the ETag of what was read, so that no other writer's change is \
                 lost",
            )),
            Some(tags) if lists(tags, &tag) => Ok(()),
            Some(_) => {
                let error = "it was changed since it was read; read it again and repeat the change";
                Err(fails(412, error).with("current", current.body))
            }
        }
    }

    /// Checks the condition of making something that does not exist.
    pub(crate) fn condition_of_new(&self, call: &Call, subject: &str) -> Result<(), Failure> {
        match (&call.fields.if_match, call.fields.if_none_match.as_deref()) {
            (None, Some("*")) => Ok(()),
            (Some(_), _) => {
                let failure = Failure::new(412, "it does not exist, or does not exist any more");
                Err(match self.last_change(subject) {
                    Some(change) => failure.with("last_change", change.clone()),
                    None => failure,
                })
            }
            _ => Err(Failure::new(428, "to make something new, send If-None-Match: *")),
        }
    }
}

/// The routes of a site.
pub(crate) fn routes_of(site: &Value) -> Value {
    site.get(ROUTE).cloned().unwrap_or_else(|| json!([]))
}

/// Whether a list of entity tags has this one (RFC 9110 section 13.1.1).
fn lists(tags: &str, tag: &str) -> bool {
    tags.trim() == "*" || tags.split(',').any(|listed| listed.trim() == tag)
}

/// What changes with the time alone is no change.
fn without_days(mut value: Value) -> Value {
    match &mut value {
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_days(item.take())),
        Value::Object(table) => {
            table.remove("days_left");
            table.remove("state");
        }
        _ => {}
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_tags() {
        for (tags, expected) in [
            ("\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("W/\"a\"", false),
            ("", false),
        ] {
            assert_eq!(lists(tags, "\"a\""), expected, "{tags}");
        }
    }
}
