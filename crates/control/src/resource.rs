//! The resources of the control API and their paths.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::request::{ControlError, ControlMethod};

/// A resource of the control API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
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

/// The path template of each resource, with its methods.
pub const RESOURCES: [(&str, &[ControlMethod]); 15] = [
    ("/control", &[ControlMethod::Get]),
    ("/control/config", &[ControlMethod::Get, ControlMethod::Put]),
    ("/control/sites", &[ControlMethod::Get, ControlMethod::Post]),
    ("/control/sites/{site}", &[ControlMethod::Get, ControlMethod::Put, ControlMethod::Delete]),
    ("/control/sites/{site}/routes", &[ControlMethod::Get, ControlMethod::Put, ControlMethod::Post]),
    (
        "/control/sites/{site}/routes/{number}",
        &[ControlMethod::Get, ControlMethod::Put, ControlMethod::Delete],
    ),
    ("/control/origins", &[ControlMethod::Get]),
    ("/control/origins/{site}/{route}", &[ControlMethod::Get, ControlMethod::Post]),
    (
        "/control/origins/{site}/{route}/{origin}",
        &[ControlMethod::Get, ControlMethod::Patch, ControlMethod::Delete],
    ),
    ("/control/certificates", &[ControlMethod::Get]),
    ("/control/certificates/{site}", &[ControlMethod::Get, ControlMethod::Put]),
    ("/control/purge", &[ControlMethod::Post]),
    ("/control/history", &[ControlMethod::Get]),
    ("/control/overlay", &[ControlMethod::Get, ControlMethod::Delete]),
    ("/control/openapi.json", &[ControlMethod::Get]),
];

/// The characters of a path segment that are percent-encoded: all but the unreserved ones (RFC 3986 section
/// 2.3).
const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl Resource {
    /// The resource of a path; 404 if there is none.
    pub fn parse(path: &str) -> Result<Resource, ControlError> {
        let unknown = || {
            let paths: Vec<&str> = RESOURCES.iter().map(|(path, _)| *path).collect();
            ControlError::new(404, format!("there is no {path:?}")).with("paths", paths)
        };
        let rest = path.strip_prefix("/control").ok_or_else(unknown)?;
        if rest.is_empty() || rest == "/" {
            return Ok(Resource::Index);
        }
        let rest = rest.strip_prefix('/').ok_or_else(unknown)?;
        let decode = |part: &str| percent_decode_str(part).decode_utf8().map(|text| text.into_owned());
        let parts: Result<Vec<String>, _> = rest.split('/').map(decode).collect();
        let parts = parts.map_err(|_| ControlError::new(400, "the path is not UTF-8"))?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let owned = str::to_string;
        Ok(match parts[..] {
            ["config"] => Resource::Config,
            ["sites"] => Resource::Sites,
            ["sites", site] => Resource::Site(owned(site)),
            ["sites", site, "routes"] => Resource::Routes(owned(site)),
            ["sites", site, "routes", number] => {
                Resource::Route(owned(site), number.parse().map_err(|_| unknown())?)
            }
            ["origins"] => Resource::Origins,
            ["origins", site, route] => Resource::Group(owned(site), owned(route)),
            ["origins", site, route, origin] => Resource::Origin(owned(site), owned(route), owned(origin)),
            ["certificates"] => Resource::Certificates,
            ["certificates", site] => Resource::Certificate(owned(site)),
            ["purge"] => Resource::Purge,
            ["history"] => Resource::History,
            ["overlay"] => Resource::Overlay,
            ["openapi.json"] => Resource::OpenApi,
            _ => return Err(unknown()),
        })
    }

    /// Its path.
    pub fn path(&self) -> String {
        let part = |text: &str| utf8_percent_encode(text, PART).to_string();
        match self {
            Resource::Index => "/control".to_string(),
            Resource::Config => "/control/config".to_string(),
            Resource::Sites => "/control/sites".to_string(),
            Resource::Site(site) => format!("/control/sites/{}", part(site)),
            Resource::Routes(site) => format!("/control/sites/{}/routes", part(site)),
            Resource::Route(site, number) => format!("/control/sites/{}/routes/{number}", part(site)),
            Resource::Origins => "/control/origins".to_string(),
            Resource::Group(site, route) => format!("/control/origins/{}/{}", part(site), part(route)),
            Resource::Origin(site, route, origin) => {
                format!("/control/origins/{}/{}/{}", part(site), part(route), part(origin))
            }
            Resource::Certificates => "/control/certificates".to_string(),
            Resource::Certificate(site) => format!("/control/certificates/{}", part(site)),
            Resource::Purge => "/control/purge".to_string(),
            Resource::History => "/control/history".to_string(),
            Resource::Overlay => "/control/overlay".to_string(),
            Resource::OpenApi => "/control/openapi.json".to_string(),
        }
    }

    fn template(&self) -> &'static str {
        match self {
            Resource::Index => "/control",
            Resource::Config => "/control/config",
            Resource::Sites => "/control/sites",
            Resource::Site(_) => "/control/sites/{site}",
            Resource::Routes(_) => "/control/sites/{site}/routes",
            Resource::Route(..) => "/control/sites/{site}/routes/{number}",
            Resource::Origins => "/control/origins",
            Resource::Group(..) => "/control/origins/{site}/{route}",
            Resource::Origin(..) => "/control/origins/{site}/{route}/{origin}",
            Resource::Certificates => "/control/certificates",
            Resource::Certificate(_) => "/control/certificates/{site}",
            Resource::Purge => "/control/purge",
            Resource::History => "/control/history",
            Resource::Overlay => "/control/overlay",
            Resource::OpenApi => "/control/openapi.json",
        }
    }

    /// Checks that the resource has this method; 405 if not.
    pub fn allows(&self, method: ControlMethod) -> Result<(), ControlError> {
        let template = self.template();
        let methods =
            RESOURCES.iter().find(|(path, _)| *path == template).map_or(&[][..], |(_, methods)| *methods);
        if methods.contains(&method) {
            return Ok(());
        }
        let mut words: Vec<&str> = methods.iter().map(|method| method.word()).collect();
        if methods.contains(&ControlMethod::Get) {
            words.push("HEAD");
        }
        let allow = words.join(", ");
        Err(ControlError::new(405, format!("{template} has the methods {allow}")).with("allow", allow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_parsed() {
        let resource =
            Resource::parse("/control/origins/shop.example/%2Fapi%2F/http%3A%2F%2F10.0.0.1%3A80").unwrap();
        let text = |text: &str| text.to_string();
        assert_eq!(
            resource,
            Resource::Origin(text("shop.example"), text("/api/"), text("http://10.0.0.1:80"))
        );
        assert_eq!(Resource::parse("/control/sites/a/routes/3"), Ok(Resource::Route(text("a"), 3)));
        for wrong in
            ["/contro", "/controls", "/control/site", "/control/sites/a/routes/x", "/control/a/b/c/d/e"]
        {
            assert_eq!(Resource::parse(wrong).unwrap_err().status, 404, "{wrong}");
        }
        assert_eq!(Resource::parse("/control/sites/%ff").unwrap_err().status, 400);
        let refused = Resource::Purge.allows(ControlMethod::Get).unwrap_err();
        assert_eq!((refused.status, refused.more["allow"].as_str()), (405, Some("POST")));
        assert!(Resource::Config.allows(ControlMethod::Put).is_ok());
    }

    proptest! {
        #[test]
        fn a_path_is_parsed_to_the_same_resource(
            site in "\\PC{1,10}",
            route in "\\PC{1,10}",
            origin in "\\PC{1,10}",
            number in 0usize..9,
        ) {
            for resource in [
                Resource::Site(site.clone()),
                Resource::Route(site.clone(), number),
                Resource::Group(site.clone(), route.clone()),
                Resource::Origin(site.clone(), route, origin),
                Resource::Certificate(site),
            ] {
                prop_assert_eq!(Resource::parse(&resource.path()), Ok(resource.clone()));
                prop_assert!(RESOURCES.iter().any(|(path, _)| *path == resource.template()));
            }
        }

        #[test]
        fn any_path_is_parsed_or_refused(path in "(/control)?[ -~]{0,40}") {
            let _ = Resource::parse(&path);
        }
    }
}
