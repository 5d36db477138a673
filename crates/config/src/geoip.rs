//! `[geoip]`: files with the locations of addresses, and `geoip` of a site or route: the locations that it
//! admits.

use std::path::PathBuf;

use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{ABSENT, Key, Kind, Section, SectionPlaces, values};

use super::ConfigWithPlaces;
use super::config_reader::ConfigReader;

/// The field in which programs and origins get the country of the client.
pub const COUNTRY_FIELD: &str = "X-GeoIP-Country";

/// The field in which they get the number of its autonomous system.
pub const SYSTEM_FIELD: &str = "X-GeoIP-ASN";

/// `[geoip]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GeoIpConfig {
    /// The files, in the order in which they are searched.
    pub files: Vec<PathBuf>,
    /// Programs and origins receive the location of the client.
    pub request_fields: bool,
}

/// `geoip` of a site or route
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GeoRulesConfig {
    /// What is admitted.
    pub allow: Vec<String>,
    /// What is not.
    pub deny: Vec<String>,
}

/// A country or an autonomous system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GeoEntry {
    /// The country of this code, in capital letters.
    Country([u8; 2]),
    /// The system of this number.
    System(u32),
}

impl GeoEntry {
    /// Reads `DE` or `AS3320`.
    pub fn parse(text: &str) -> Result<GeoEntry, String> {
        if let Some(number) = text.strip_prefix("AS")
            && let Ok(number) = number.parse()
        {
            return Ok(GeoEntry::System(number));
        }
        match text.as_bytes() {
            [first, second] if first.is_ascii_uppercase() && second.is_ascii_uppercase() => {
                Ok(GeoEntry::Country([*first, *second]))
            }
            _ => Err(format!(
                "{:?} is neither a country such as \"DE\" (ISO 3166-1, capital letters) nor an autonomous \
                 system such as \"AS3320\"",
                values::shorten(text)
            )),
        }
    }
}

impl GeoRulesConfig {
    /// Parses the countries and networks that are admitted.
    pub fn entries_allowed(&self) -> Vec<GeoEntry> {
        self.allow.iter().filter_map(|text| GeoEntry::parse(text).ok()).collect()
    }

    /// Parses the countries and networks that are refused.
    pub fn entries_denied(&self) -> Vec<GeoEntry> {
        self.deny.iter().filter_map(|text| GeoEntry::parse(text).ok()).collect()
    }
}

/// `[geoip]`
pub static GEOIP: Section<GeoIpConfig> = Section {
    name: "geoip",
    repeated: false,
    documentation: "Where addresses are, by files in MaxMind's form (GeoLite2, GeoIP2 and others): for \
        `geoip` of sites and routes, the log variables `geoip_country` and `geoip_asn`, and programs.",
    blank: GeoIpConfig::default,
    keys: &[
        Key {
            name: "files",
            default: Some("[]"),
            example: "[\"/var/lib/GeoIP/GeoLite2-Country.mmdb\", \"/var/lib/GeoIP/GeoLite2-ASN.mmdb\"]",
            documentation: "The files, each up to 1 GiB, in the order in which they are searched. A file is \
                read into memory, and again within two seconds after it has changed. If it cannot be read \
                then, the previous content remains in use.",
            kind: Kind::Files(|geoip, value| geoip.files = value),
        },
        Key {
            name: "request_fields",
            default: Some("false"),
            example: "true",
            documentation: "Programs and origins get `X-GeoIP-Country` (two letters) and `X-GeoIP-ASN` (a \
                number) where they are known. Fields of these names from clients are dropped. An answer that \
                depends on one of them needs `Vary` for the accelerator.",
            kind: Kind::Boolean(|geoip, value| geoip.request_fields = value),
        },
    ],
};

/// `[site.geoip]`
pub static RULES: Section<GeoRulesConfig> = Section {
    name: "site.geoip",
    repeated: false,
    documentation: "The locations from which clients are admitted, by the files of `[geoip]`; other clients \
        are answered with 403 Forbidden. `[site.route.geoip]` has the same keys. The autonomous system \
        decides before the country. Addresses in `allow` of the same site or route are admitted without this \
        check.",
    blank: GeoRulesConfig::default,
    keys: &[
        Key {
            name: "allow",
            default: Some("[]"),
            example: "[\"DE\", \"AT\", \"AS3320\"]",
            documentation: "Countries (ISO 3166-1) and autonomous systems that are admitted. Others are \
                refused, and addresses that are in no file too. Empty: all but those in `deny`.",
            kind: Kind::CheckedArray {
                what: "array of countries and autonomous systems",
                parse: |text| GeoEntry::parse(text).map(|_| text.to_string()),
                set: |rules, value| rules.allow = value,
            },
        },
        Key {
            name: "deny",
            default: Some("[]"),
            example: "[\"AS64496\"]",
            documentation: "Countries and autonomous systems that are not admitted. \
                Both lists empty in a route: it admits clients from everywhere, even if the site does not.",
            kind: Kind::CheckedArray {
                what: "array of countries and autonomous systems",
                parse: |text| GeoEntry::parse(text).map(|_| text.to_string()),
                set: |rules, value| rules.deny = value,
            },
        },
    ],
};

/// `geoip`
pub(super) const fn geoip<C>(read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>) -> Key<C> {
    Key {
        name: "geoip",
        default: Some(ABSENT),
        example: "{ allow = [\"DE\", \"AT\"] }",
        documentation: "The locations from which clients are admitted, see `[site.geoip]`. A route without \
            this key uses the setting of its site.",
        kind: Kind::Table { read },
    }
}

impl ConfigReader<'_> {
    /// Checks that rules for countries and networks have files.
    pub(super) fn check_geoip(&mut self, loaded: &ConfigWithPlaces) {
        if !loaded.config.geoip.files.is_empty() || loaded.places.is_unread(GEOIP.name, "files") {
            return;
        }
        let message = || "'geoip' needs 'files' in [geoip], with locations of addresses".to_string();
        for (site, places) in loaded.config.sites.iter().zip(&loaded.places.sites) {
            if site.access.geoip.is_some() {
                self.problem(places.key("geoip"), message());
            }
            for (index, route) in site.routes.iter().enumerate() {
                let rules = route.access.geoip.as_ref();
                if rules.is_some_and(|rules| *rules != GeoRulesConfig::default()) {
                    let within = places.table("route", index);
                    self.problem(within.map_or(places.header, |within| within.key("geoip")), message());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn countries_and_systems() {
        assert_eq!(GeoEntry::parse("DE"), Ok(GeoEntry::Country(*b"DE")));
        assert_eq!(GeoEntry::parse("AS3320"), Ok(GeoEntry::System(3320)));
        // A country too.
        assert_eq!(GeoEntry::parse("AS"), Ok(GeoEntry::Country(*b"AS")));
        for bad in ["", "de", "DEU", "3320", "AS-1", "AS99999999999", "D1"] {
            assert!(GeoEntry::parse(bad).is_err(), "{bad}");
        }
    }
}
