//! Executes the requests that read.

use serde_json::{Value, json};

use crate::api::{ControlApi, ControlledServer};
use crate::certificates::certificate_json;
use crate::openapi;
use crate::origins::{
    all_groups, find_groups, find_members, group_json, group_version, member_json, member_version,
};
use crate::request::{ControlError, ControlRequest, ControlResponse};
use crate::resource::{RESOURCES, Resource};

/// The key of routes in a site.
pub(crate) const ROUTE: &str = "route";

/// A representation of a resource: its body, and the value from which its entity tag is computed.
struct Representation {
    body: Value,
    /// `None`: the resource changes without requests, and has no tag.
    version: Option<Value>,
}

impl ControlApi {
    /// Executes a request that reads.
    pub(crate) fn read(
        &self,
        resource: &Resource,
        request: &ControlRequest,
        server: &dyn ControlledServer,
    ) -> Result<ControlResponse, ControlError> {
        let Representation { body, version } = self.representation(resource, server)?;
        let mut answer = ControlResponse { status: 200, fields: Vec::new(), body };
        if let Some(version) = version {
            let tag = self.key.entity_tag(&version);
            if request.fields.if_none_match.as_deref().is_some_and(|tags| contains_tag(tags, &tag)) {
                answer = ControlResponse { status: 304, fields: Vec::new(), body: Value::Null };
            }
            answer.fields.push(("ETag", tag));
        }
        Ok(answer)
    }

    fn representation(
        &self,
        resource: &Resource,
        server: &dyn ControlledServer,
    ) -> Result<Representation, ControlError> {
        let whole = |value: Value| Representation { body: self.redacted(&value), version: Some(value) };
        let changing = |body: Value| Representation { body, version: None };
        Ok(match resource {
            Resource::Index => changing(json!({
                "paths": RESOURCES.map(|(path, methods)| {
                    let methods: Vec<&str> = methods.iter().map(|method| method.word()).collect();
                    json!({ "path": path, "methods": methods })
                }),
                "config_file": self.base.path().to_string_lossy(),
                "persist": self.control().persist.word(),
                "changes": self.overlay.summary(),
                "set_aside": self.overlay.set_aside.len(),
            })),
            Resource::Config => whole(Value::Object(self.effective.document.clone())),
            Resource::Sites => whole(self.site_list()),
            Resource::Site(site) => whole(self.site_value(site)?.clone()),
            Resource::Routes(site) => whole(routes_of(self.site_value(site)?)),
            Resource::Route(site, number) => whole(self.route_value(site, *number)?),
            Resource::Origins => changing(all_groups(&self.origins)),
            Resource::Group(site, route) => {
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
            Resource::Origin(site, route, origin) => {
                let groups = find_groups(&self.origins, site, route)?;
                let members = find_members(&groups, origin)?;
                let (group, index) = members[0];
                Representation {
                    body: member_json(group, index),
                    version: Some(member_version(group, index)),
                }
            }
            Resource::Certificates => {
                let acme_file = |hosts: &[String]| server.acme_file(&self.effective.config, hosts);
                let sites = self.effective.site_names.iter().zip(&self.effective.config.sites);
                let all = sites.filter_map(|(name, site)| certificate_json(name, site, &acme_file));
                let body: Value = all.collect();
                Representation {
                    version: Some(without_time_dependent_keys(body.clone())),
                    body: json!({ "certificates": body }),
                }
            }
            Resource::Certificate(site) => {
                let body = self.certificate(site, server)?;
                Representation { version: Some(without_time_dependent_keys(body.clone())), body }
            }
            Resource::Purge => return Err(ControlError::new(405, "purges are made by POST")),
            Resource::History => changing(json!({ "changes": self.history })),
            Resource::Overlay => whole(self.overlay.to_json()),
            Resource::OpenApi => changing(openapi::description()),
        })
    }

    /// The sites with their paths.
    pub(crate) fn site_list(&self) -> Value {
        let site = |(position, name): (usize, &String)| {
            let site = &self.effective.config.sites[position];
            json!({
                "name": name,
                "href": Resource::Site(name.clone()).path(),
                "hosts": site.hosts,
                "listen": site.listen.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "routes": site.routes.len(),
            })
        };
        let sites: Vec<Value> = self.effective.site_names.iter().enumerate().map(site).collect();
        json!({ "sites": sites })
    }

    /// The value of a site in the configuration.
    pub(crate) fn site_value(&self, name: &str) -> Result<&Value, ControlError> {
        self.effective.site(name).map(|(_, value)| value).ok_or_else(|| {
            let names = self.effective.site_names.clone();
            ControlError::new(404, format!("there is no site '{name}'")).with("sites", names)
        })
    }

    fn route_value(&self, site: &str, number: usize) -> Result<Value, ControlError> {
        let routes = routes_of(self.site_value(site)?);
        let count = routes.as_array().map_or(0, Vec::len);
        let missing = || {
            ControlError::new(
                404,
                format!("'{site}' has {count} routes, numbered from 0; there is no {number}"),
            )
        };
        routes.get(number).cloned().ok_or_else(missing)
    }

    /// The certificate of a site.
    pub(crate) fn certificate(
        &self,
        name: &str,
        server: &dyn ControlledServer,
    ) -> Result<Value, ControlError> {
        self.site_value(name)?;
        let position = self.effective.site(name).map_or(0, |(position, _)| position);
        let site = &self.effective.config.sites[position];
        let acme_file = |hosts: &[String]| server.acme_file(&self.effective.config, hosts);
        certificate_json(name, site, &acme_file)
            .ok_or_else(|| ControlError::new(404, format!("'{name}' has no TLS and no certificate")))
    }

    /// The entity tag of a resource.
    pub(crate) fn tag_of(
        &self,
        resource: &Resource,
        server: &dyn ControlledServer,
    ) -> Result<String, ControlError> {
        let version = self.representation(resource, server)?.version.unwrap_or_default();
        Ok(self.key.entity_tag(&version))
    }

    /// Checks the conditions of a request that changes a resource; `subject` is its name in the history.
    pub(crate) fn condition(
        &self,
        request: &ControlRequest,
        resource: &Resource,
        subject: &str,
        server: &dyn ControlledServer,
    ) -> Result<(), ControlError> {
        let current = self.representation(resource, server)?;
        let tag = self.key.entity_tag(&current.version.unwrap_or_default());
        let fails = |status: u16, error: &str| {
            let failure = ControlError::new(status, error).with("etag", tag.clone());
            match self.last_change(subject) {
                Some(change) => failure.with("last_change", change.clone()),
                None => failure,
            }
        };
        if request.fields.if_none_match.is_some() {
            return Err(fails(412, "it exists already; If-None-Match is for a new resource"));
        }
        match &request.fields.if_match {
            None => Err(fails(
                428,
                "a change requires If-Match with the ETag that was read, so that the change of another \
                 client is not lost",
            )),
            Some(tags) if contains_tag(tags, &tag) => Ok(()),
            Some(_) => {
                let error = "it was changed since it was read; read it again and repeat the change";
                Err(fails(412, error).with("current", current.body))
            }
        }
    }

    /// Checks the conditions of a request that creates a resource.
    pub(crate) fn condition_of_new(
        &self,
        request: &ControlRequest,
        subject: &str,
    ) -> Result<(), ControlError> {
        match (&request.fields.if_match, request.fields.if_none_match.as_deref()) {
            (None, Some("*")) => Ok(()),
            (Some(_), _) => {
                let failure = ControlError::new(412, "it does not exist, or does not exist any more");
                Err(match self.last_change(subject) {
                    Some(change) => failure.with("last_change", change.clone()),
                    None => failure,
                })
            }
            _ => Err(ControlError::new(428, "to create a resource, send If-None-Match: *")),
        }
    }
}

/// The routes of a site.
pub(crate) fn routes_of(site: &Value) -> Value {
    site.get(ROUTE).cloned().unwrap_or_else(|| json!([]))
}

/// Whether a list of entity tags contains this one (RFC 9110 section 13.1.1).
fn contains_tag(tags: &str, tag: &str) -> bool {
    tags.trim() == "*" || tags.split(',').any(|listed| listed.trim() == tag)
}

/// Removes the keys whose values change with time.
fn without_time_dependent_keys(mut value: Value) -> Value {
    match &mut value {
        Value::Array(items) => {
            items.iter_mut().for_each(|item| *item = without_time_dependent_keys(item.take()))
        }
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
            assert_eq!(contains_tag(tags, "\"a\""), expected, "{tags}");
        }
    }
}
