//! The paths of the control API.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::call::{CallMethod, Failure};

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// `/control`
    Index,
    /// `/control/config`
    Config,
    /// `/control/sites`
    Sites,
    /// `/control/sites/SITE`
    Site(String),
    /// `/control/sites/SITE/routes`
    Routes(String),
    /// `/control/sites/SITE/routes/NUMBER`
    Route(String, usize),
    /// `/control/origins`
    Origins,
    /// `/control/origins/SITE/ROUTE`
    Group(String, String),
    /// `/control/origins/SITE/ROUTE/ORIGIN`
    Origin(String, String, String),
    /// `/control/certificates`
    Certificates,
    /// `/control/certificates/SITE`
    Certificate(String),
    /// `/control/purge`
    Purge,
    /// `/control/history`
    History,
    /// `/control/overlay`
    Overlay,
    /// `/control/openapi.json`
    OpenApi,
}

/// Each place as a template, with its methods.
pub const PLACES: [(&str, &[CallMethod]); 15] = [
    ("/control", &[CallMethod::Get]),
    ("/control/config", &[CallMethod::Get, CallMethod::Put]),
    ("/control/sites", &[CallMethod::Get, CallMethod::Post]),
    ("/control/sites/{site}", &[CallMethod::Get, CallMethod::Put, CallMethod::Delete]),
    ("/control/sites/{site}/routes", &[CallMethod::Get, CallMethod::Put, CallMethod::Post]),
    ("/control/sites/{site}/routes/{number}", &[CallMethod::Get, CallMethod::Put, CallMethod::Delete]),
    ("/control/origins", &[CallMethod::Get]),
    ("/control/origins/{site}/{route}", &[CallMethod::Get, CallMethod::Post]),
    ("/control/origins/{site}/{route}/{origin}", &[CallMethod::Get, CallMethod::Patch, CallMethod::Delete]),
    ("/control/certificates", &[CallMethod::Get]),
    ("/control/certificates/{site}", &[CallMethod::Get, CallMethod::Put]),
    ("/control/purge", &[CallMethod::Post]),
    ("/control/history", &[CallMethod::Get]),
    ("/control/overlay", &[CallMethod::Get, CallMethod::Delete]),
    ("/control/openapi.json", &[CallMethod::Get]),
];

/// What stays as it is in a part of a path (RFC 3986 section 2.3).
const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl Place {
    /// What a path names; 404 if nothing.
    pub fn parse(path: &str) -> Result<Place, Failure> {
        let unknown = || {
            let paths: Vec<&str> = PLACES.iter().map(|(path, _)| *path).collect();
            Failure::new(404, format!("there is no {path:?}")).with("paths", paths)
        };
        let rest = path.strip_prefix("/control").ok_or_else(unknown)?;
        if rest.is_empty() || rest == "/" {
            return Ok(Place::Index);
        }
        let rest = rest.strip_prefix('/').ok_or_else(unknown)?;
        let decode = |part: &str| percent_decode_str(part).decode_utf8().map(|text| text.into_owned());
        let parts: Result<Vec<String>, _> = rest.split('/').map(decode).collect();
        let parts = parts.map_err(|_| Failure::new(400, "the path is not UTF-8"))?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let owned = str::to_string;
        Ok(match parts[..] {
            ["config"] => Place::Config,
            ["sites"] => Place::Sites,
            ["sites", site] => Place::Site(owned(site)),
            ["sites", site, "routes"] => Place::Routes(owned(site)),
            ["sites", site, "routes", number] => {
                Place::Route(owned(site), number.parse().map_err(|_| unknown())?)
            }
            ["origins"] => Place::Origins,
            ["origins", site, route] => Place::Group(owned(site), owned(route)),
            ["origins", site, route, origin] => Place::Origin(owned(site), owned(route), owned(origin)),
            ["certificates"] => Place::Certificates,
            ["certificates", site] => Place::Certificate(owned(site)),
            ["purge"] => Place::Purge,
            ["history"] => Place::History,
            ["overlay"] => Place::Overlay,
            ["openapi.json"] => Place::OpenApi,
            _ => return Err(unknown()),
        })
    }

    /// Its path.
    pub fn path(&self) -> String {
        let part = |text: &str| utf8_percent_encode(text, PART).to_string();
        match self {
            Place::Index => "/control".to_string(),
            Place::Config => "/control/config".to_string(),
            Place::Sites => "/control/sites".to_string(),
            Place::Site(site) => format!("/control/sites/{}", part(site)),
            Place::Routes(site) => format!("/control/sites/{}/routes", part(site)),
            Place::Route(site, number) => format!("/control/sites/{}/routes/{number}", part(site)),
            Place::Origins => "/control/origins".to_string(),
            Place::Group(site, route) => format!("/control/origins/{}/{}", part(site), part(route)),
            Place::Origin(site, route, origin) => {
                format!("/control/origins/{}/{}/{}", part(site), part(route), part(origin))
            }
            Place::Certificates => "/control/certificates".to_string(),
            Place::Certificate(site) => format!("/control/certificates/{}", part(site)),
            Place::Purge => "/control/purge".to_string(),
            Place::History => "/control/history".to_string(),
            Place::Overlay => "/control/overlay".to_string(),
            Place::OpenApi => "/control/openapi.json".to_string(),
        }
    }

    fn template(&self) -> &'static str {
        match self {
            Place::Index => "/control",
            Place::Config => "/control/config",
            Place::Sites => "/control/sites",
            Place::Site(_) => "/control/sites/{site}",
            Place::Routes(_) => "/control/sites/{site}/routes",
            Place::Route(..) => "/control/sites/{site}/routes/{number}",
            Place::Origins => "/control/origins",
            Place::Group(..) => "/control/origins/{site}/{route}",
            Place::Origin(..) => "/control/origins/{site}/{route}/{origin}",
            Place::Certificates => "/control/certificates",
            Place::Certificate(_) => "/control/certificates/{site}",
            Place::Purge => "/control/purge",
            Place::History => "/control/history",
            Place::Overlay => "/control/overlay",
            Place::OpenApi => "/control/openapi.json",
        }
    }

    /// Whether it has this method; 405 if not.
    pub fn allows(&self, method: CallMethod) -> Result<(), Failure> {
        let template = self.template();
        let methods =
            PLACES.iter().find(|(path, _)| *path == template).map_or(&[][..], |(_, methods)| *methods);
        if methods.contains(&method) {
            return Ok(());
        }
        let mut words: Vec<&str> = methods.iter().map(|method| method.word()).collect();
        if methods.contains(&CallMethod::Get) {
            words.push("HEAD");
        }
        let allow = words.join(", ");
        Err(Failure::new(405, format!("{template} has the methods {allow}")).with("allow", allow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_name_places() {
        let place =
            Place::parse("/control/origins/shop.example/%2Fapi%2F/http%3A%2F%2F10.0.0.1%3A80").unwrap();
        let text = |text: &str| text.to_string();
        assert_eq!(place, Place::Origin(text("shop.example"), text("/api/"), text("http://10.0.0.1:80")));
        assert_eq!(Place::parse("/control/sites/a/routes/3"), Ok(Place::Route(text("a"), 3)));
        for wrong in
            ["/contro", "/controls", "/control/site", "/control/sites/a/routes/x", "/control/a/b/c/d/e"]
        {
            assert_eq!(Place::parse(wrong).unwrap_err().status, 404, "{wrong}");
        }
        assert_eq!(Place::parse("/control/sites/%ff").unwrap_err().status, 400);
        let refused = Place::Purge.allows(CallMethod::Get).unwrap_err();
        assert_eq!((refused.status, refused.more["allow"].as_str()), (405, Some("POST")));
        assert!(Place::Config.allows(CallMethod::Put).is_ok());
    }

    proptest! {
        #[test]
        fn names_come_back(
            site in "\\PC{1,10}",
            route in "\\PC{1,10}",
            origin in "\\PC{1,10}",
            number in 0usize..9,
        ) {
            for place in [
                Place::Site(site.clone()),
                Place::Route(site.clone(), number),
                Place::Group(site.clone(), route.clone()),
                Place::Origin(site.clone(), route, origin),
                Place::Certificate(site),
            ] {
                prop_assert_eq!(Place::parse(&place.path()), Ok(place.clone()));
                prop_assert!(PLACES.iter().any(|(path, _)| *path == place.template()));
            }
        }

        #[test]
        fn any_path_is_named_or_refused(path in "(/control)?[ -~]{0,40}") {
            let _ = Place::parse(&path);
        }
    }
}
