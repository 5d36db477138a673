//! The origins of routes and streams: their state, and the states and weights that operators set.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use touchstone_proxy::{GroupName, Member, OriginGroups, OriginSpec, OriginState, Role, SharedGroup, State};

use crate::overlay::{OriginName, OriginOverride};
use crate::request::ControlError;
use crate::resource::Resource;

/// The largest weight, as in the configuration.
const MOST_WEIGHT: u64 = 10_000;

/// Applies the operators' overrides to the origins of a server. All other origins are as configured.
pub fn apply_origin_overrides(groups: &OriginGroups, overrides: &BTreeMap<OriginName, OriginOverride>) {
    let order = |(name, order): (&OriginName, &OriginOverride)| {
        let group = GroupName { site: name.site.clone(), route: name.route.clone() };
        let wanted = touchstone_proxy::OriginOrder { state: order.state, weight: order.weight };
        ((group, name.origin.clone()), wanted)
    };
    groups.set_orders(overrides.iter().map(order).collect());
}

/// The name of an origin of a group.
fn name_of(group: &SharedGroup, member: &Member) -> OriginName {
    OriginName {
        site: group.settings.name.site.clone(),
        route: group.settings.name.route.clone(),
        origin: member.name.clone(),
    }
}

/// All groups, sorted by name.
pub fn all_groups(groups: &OriginGroups) -> Value {
    let mut groups = groups.in_use();
    groups.sort_by(|one, other| one.settings.name.cmp(&other.settings.name));
    json!({ "groups": groups.iter().map(|group| group_json(group)).collect::<Vec<_>>() })
}

/// The groups of a route. Sites with the same first host but different addresses have one group each.
pub fn find_groups(
    groups: &OriginGroups,
    site: &str,
    route: &str,
) -> Result<Vec<Arc<SharedGroup>>, ControlError> {
    let is_it =
        |group: &Arc<SharedGroup>| group.settings.name.site == site && group.settings.name.route == route;
    let found: Vec<Arc<SharedGroup>> = groups.in_use().into_iter().filter(is_it).collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(ControlError::new(
            404,
            format!("no route '{route}' of '{site}' has origins; GET /control/origins lists those that have"),
        )),
    }
}

/// The origin of this URL in each of the groups.
pub fn find_members<'g>(
    groups: &'g [Arc<SharedGroup>],
    origin: &str,
) -> Result<Vec<(&'g SharedGroup, usize)>, ControlError> {
    let mut found: Vec<(&'g SharedGroup, usize)> = Vec::new();
    for group in groups {
        let position = group.members.iter().position(|member| member.name == origin);
        found.extend(position.map(|position| (group.as_ref(), position)));
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let names = groups.iter().flat_map(|group| &group.members).map(|member| member.name.as_str());
    let names: Vec<&str> = names.collect();
    Err(ControlError::new(404, format!("the route has no origin '{origin}'")).with("origins", names))
}

/// A group with its origins.
pub fn group_json(group: &SharedGroup) -> Value {
    let name = &group.settings.name;
    let origins: Vec<Value> = (0..group.members.len()).map(|index| member_json(group, index)).collect();
    json!({
        "site": name.site,
        "route": name.route,
        "href": Resource::Group(name.site.clone(), name.route.clone()).path(),
        "origins": origins,
    })
}

/// An origin of a group.
pub fn member_json(group: &SharedGroup, index: usize) -> Value {
    let member = &group.members[index];
    let OriginName { site, route, origin } = name_of(group, member);
    let (open, idle) = member.origin.connections.counts();
    json!({
        "origin": origin,
        "href": Resource::Origin(site, route, origin.clone()).path(),
        "state": member.state().word(),
        "weight": member.weight(),
        "configured": { "state": configured_state(member).word(), "weight": member.spec.weight },
        "backup": member.spec.role == Role::Backup,
        "health": group.state(index).label(),
        "active_requests": member.origin.under_way(),
        "connections": open,
        "idle_connections": idle,
    })
}

fn configured_state(member: &Member) -> OriginState {
    match member.spec.role {
        Role::Draining => OriginState::Drain,
        Role::Active | Role::Backup => OriginState::Ready,
    }
}

/// The part of a group that clients can change, for its entity tag.
pub fn group_version(group: &SharedGroup) -> Value {
    let version = |member: &Member| json!([member.name, member.state().word(), member.weight()]);
    group.members.iter().map(version).collect()
}

/// The part of an origin that clients can change.
pub fn member_version(group: &SharedGroup, index: usize) -> Value {
    let member = &group.members[index];
    json!([member.name, member.state().word(), member.weight()])
}

/// Applies a patch such as `{"state": "drain", "weight": 3}` to an override. Null: as configured.
pub fn apply_patch(
    before: &OriginOverride,
    patch: &Map<String, Value>,
) -> Result<OriginOverride, ControlError> {
    if patch.is_empty() {
        return Err(ControlError::new(400, "the patch is empty: set 'state' or 'weight'"));
    }
    let mut order = before.clone();
    for (name, value) in patch {
        match (name.as_str(), value) {
            ("state", Value::Null) => order.state = None,
            ("state", value) => {
                let state = value.as_str().and_then(OriginState::parse);
                let wrong =
                    || ControlError::new(422, format!("'state' is ready, drain or maintenance, not {value}"));
                order.state = Some(state.ok_or_else(wrong)?);
            }
            ("weight", Value::Null) => order.weight = None,
            ("weight", value) => {
                let weight = value.as_u64().filter(|weight| (1..=MOST_WEIGHT).contains(weight));
                let wrong = || {
                    let text =
                        format!("'weight' is from 1 to {MOST_WEIGHT}, not {value}; state \"drain\" stops");
                    ControlError::new(422, format!("{text} requests"))
                };
                order.weight = Some(weight.and_then(|weight| u32::try_from(weight).ok()).ok_or_else(wrong)?);
            }
            _ => {
                return Err(ControlError::new(
                    400,
                    format!("unknown key '{name}'; the keys are 'state' and 'weight'"),
                ));
            }
        }
    }
    Ok(order)
}

/// Returns an error if no healthy origin of the group would receive requests with this state.
pub fn check_remaining_origins(
    group: &SharedGroup,
    index: usize,
    state: Option<OriginState>,
) -> Result<(), ControlError> {
    let serves = |index: usize| {
        group.members[index].role() != Role::Draining
            && matches!(group.state(index), State::Up | State::SlowStart)
    };
    let state = state.unwrap_or(configured_state(&group.members[index]));
    let is_last = !(0..group.members.len()).any(|other| other != index && serves(other));
    if state == OriginState::Ready || !is_last || !serves(index) {
        return Ok(());
    }
    let text =
        "it is the last healthy origin of the route that receives requests; ?force=true overrides this check";
    Err(ControlError::new(409, text))
}

/// Adds an origin to the value of `proxy.to`.
pub fn add_to(to: &mut Value, origin: &str) -> Result<(), ControlError> {
    let spec =
        OriginSpec::parse(origin).map_err(|problem| ControlError::new(422, format!("'to': {problem}")))?;
    if let Some(known) =
        texts(to).into_iter().find(|known| url_of(known).as_ref() == Some(&spec.url.to_string()))
    {
        return Err(ControlError::new(409, format!("the route has the origin already: {known}")));
    }
    let mut all: Vec<Value> = texts(to).into_iter().map(Value::from).collect();
    all.push(origin.into());
    *to = all.into();
    Ok(())
}

/// Removes an origin from the value of `proxy.to`; returns whether it was present.
pub fn remove_from(to: &mut Value, origin: &str) -> bool {
    let all = texts(to);
    let kept: Vec<String> =
        all.iter().filter(|text| url_of(text).as_deref() != Some(origin)).cloned().collect();
    let is_removed = kept.len() < all.len();
    if is_removed {
        *to = kept.into();
    }
    is_removed
}

fn url_of(text: &str) -> Option<String> {
    OriginSpec::parse(text).ok().map(|spec| spec.url.to_string())
}

/// The texts of a value that is a text or an array of texts.
fn texts(to: &Value) -> Vec<String> {
    match to {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_string).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_changes_state_and_weight() {
        let patch = |value: Value| apply_patch(&OriginOverride::default(), value.as_object().unwrap());
        let order = patch(json!({ "state": "drain", "weight": 3 })).unwrap();
        assert_eq!((order.state, order.weight), (Some(OriginState::Drain), Some(3)));
        let back = apply_patch(&order, json!({ "state": null }).as_object().unwrap()).unwrap();
        assert_eq!((back.state, back.weight), (None, Some(3)));
        for (value, status) in [
            (json!({}), 400),
            (json!({ "wait": 1 }), 400),
            (json!({ "state": "up" }), 422),
            (json!({ "state": 1 }), 422),
            (json!({ "weight": 0 }), 422),
            (json!({ "weight": 10_001 }), 422),
            (json!({ "weight": "3" }), 422),
            (json!({ "weight": -1 }), 422),
        ] {
            assert_eq!(patch(value.clone()).unwrap_err().status, status, "{value}");
        }
    }

    #[test]
    fn origins_are_added_and_removed_by_their_urls() {
        let mut to = json!("http://10.0.0.1:80 weight=2");
        add_to(&mut to, "http://10.0.0.2:80 backup").unwrap();
        assert_eq!(to, json!(["http://10.0.0.1:80 weight=2", "http://10.0.0.2:80 backup"]));
        assert_eq!(add_to(&mut to, "http://10.0.0.1:80").unwrap_err().status, 409);
        assert_eq!(add_to(&mut to, "10.0.0.1").unwrap_err().status, 422);
        assert!(!remove_from(&mut to, "http://10.0.0.3:80"));
        assert!(remove_from(&mut to, "http://10.0.0.1:80"));
        assert_eq!(to, json!(["http://10.0.0.2:80 backup"]));
    }
}
