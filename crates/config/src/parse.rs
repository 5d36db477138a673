//! Reads a configuration: TOML with the place of every value, checked against the table of
//! [`keys`](super::keys).
//!
//! All problems are found in one pass and reported together, in the order of the text. If the text is not
//! TOML, only that is reported, because the rest would cause false problems. The keys of a section are judged
//! together only if each of its values could be read. This module handles the
//! document, its sections and names; `touchstone-config-section` reads the values.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use touchstone_config_interfaces::servlet::JAVA;
use touchstone_config_section::reader::{Lines, Source, Value, is_array_of_tables, words};
use touchstone_config_section::{
    ConfigProblem, ListenAddress, Place, Section, SectionPlaces, problem_at, values,
};

use super::config_reader::ConfigReader;
use super::include::{INCLUDE, MOST_FILES, matching};
use super::keys;
use super::logs;
use super::own_paths;
use super::stream;
use super::{
    Config, ConfigPlaces, ConfigWithPlaces, MaximumVersion, MinimumVersion, ServerConfig, SiteConfig,
    StreamConfig, accelerator, access, acme, admin, control, geoip, server, telemetry,
};

/// The largest file that is read as a configuration, in bytes.
const LARGEST_FILE_BYTES: u64 = 16 << 20;

/// Reads and checks a configuration file; relative paths in it are relative to its directory.
pub fn read_file(path: &Path) -> Result<Config, Vec<ConfigProblem>> {
    load_file(path).map(|loaded| loaded.config)
}

/// Checks a configuration that is in memory; relative paths in it are relative to the directory of
/// `file_name`, which need not exist.
pub fn parse(text: &str, file_name: &Path) -> Result<Config, Vec<ConfigProblem>> {
    load_text(text, file_name).map(|loaded| loaded.config)
}

/// Reads and checks a configuration file, and keeps the places of its values.
pub fn load_file(path: &Path) -> Result<ConfigWithPlaces, Vec<ConfigProblem>> {
    load(read_source(path)?)
}

/// A file of a configuration, or why it cannot be one.
fn read_source(path: &Path) -> Result<Source, Vec<ConfigProblem>> {
    let whole_file = |message: String| vec![problem_at(path, None, message)];
    let bytes = read_bytes(path).map_err(|error| whole_file(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > LARGEST_FILE_BYTES {
        let limit = values::format_size(LARGEST_FILE_BYTES);
        return Err(whole_file(format!("is larger than {limit}, which no configuration should be")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let (valid_up_to, bytes) = (error.utf8_error().valid_up_to(), error.into_bytes());
        let valid = String::from_utf8_lossy(&bytes[..valid_up_to]);
        let place = Lines::of(&valid).place(valid.len());
        vec![problem_at(path, Some(place), "is not UTF-8 from here on")]
    })?;
    // Absolute, so that a later change of the current directory has no effect.
    let absolute =
        std::path::absolute(path).map_err(|error| whole_file(format!("cannot be found: {error}")))?;
    let base = absolute.parent().unwrap_or(Path::new("/")).to_path_buf();
    Ok(Source { name: path.to_path_buf(), base, text })
}

/// Checks a configuration that is in memory, and keeps the places of its values.
pub fn load_text(text: &str, file_name: &Path) -> Result<ConfigWithPlaces, Vec<ConfigProblem>> {
    let base = file_name.parent().unwrap_or(Path::new("")).to_path_buf();
    load(Source { name: file_name.to_path_buf(), base, text: text.to_string() })
}

/// Reads `[server]` from a file that may be wrong elsewhere, as far as possible: enough to find the running
/// server.
pub fn load_server_section(path: &Path) -> Option<ServerConfig> {
    let bytes = read_bytes(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let absolute = std::path::absolute(path).ok()?;
    let base = absolute.parent().unwrap_or(Path::new("/")).to_path_buf();
    let source = Source { name: path.to_path_buf(), base, text: text.into_owned() };
    let mut reader = ConfigReader::new(&source);
    let (document, _) = DeTable::parse_recoverable(&source.text);
    let Some((name, value)) = document.get_ref().get_key_value(server::SERVER.name) else {
        return Some(server::SERVER.defaults());
    };
    Some(reader.single_of(&server::SERVER, name, value, &mut ConfigPlaces::default()))
}

/// Reads at most one byte more than a configuration may have, so that reading `/dev/zero` ends too.
fn read_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(LARGEST_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The names of the first file and of those that it includes, in the order in which they are read.
fn sources(first: Source) -> Result<Vec<Source>, Vec<ConfigProblem>> {
    let mut reader = ConfigReader::new(&first);
    let (document, errors) = DeTable::parse_recoverable(&first.text);
    // If it is not TOML, that is reported later.
    let included = if errors.is_empty() { reader.included(&first, document.get_ref()) } else { Vec::new() };
    let mut problems = reader.into_problems();
    let mut all = vec![first];
    for path in included {
        // Relative as the user named the first file, so that an editor finds this one too.
        let above = all[0].name.parent().unwrap_or(Path::new(""));
        let name = path.strip_prefix(&all[0].base).map_or_else(|_| path.clone(), |below| above.join(below));
        match read_source(&path) {
            Ok(source) => all.push(Source { name, ..source }),
            Err(found) => {
                problems
                    .extend(found.into_iter().map(|problem| ConfigProblem { file: name.clone(), ..problem }));
            }
        }
    }
    if problems.is_empty() { Ok(all) } else { Err(problems) }
}

/// The names in the value of `include`.
fn items_of<'v, 'i>(value: &'v Value<'i>) -> Vec<&'v Value<'i>> {
    match value.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        _ => vec![value],
    }
}

/// Whether a value of `include` in a file of this directory names that file.
fn names_source(value: &Value<'_>, base: &Path, source: &Source) -> bool {
    let names = |item: &Value<'_>| match item.get_ref() {
        DeValue::String(pattern) => matching(pattern, base).unwrap_or_default(),
        _ => Vec::new(),
    };
    items_of(value).into_iter().flat_map(names).any(|path| is_source(&path, source))
}

/// Whether a path is that of a file of the configuration.
fn is_source(path: &Path, source: &Source) -> bool {
    let own = source.base.join(source.name.file_name().unwrap_or_default());
    path == own
        || path.canonicalize().ok().is_some_and(|path| own.canonicalize().is_ok_and(|own| own == path))
}

/// The texts of a configuration file and of those that it includes.
pub fn read_sources(path: &Path) -> Result<Vec<Source>, Vec<ConfigProblem>> {
    sources(read_source(path)?)
}

fn load(first: Source) -> Result<ConfigWithPlaces, Vec<ConfigProblem>> {
    load_sources(&sources(first)?, &[])
}

/// A part of a source that does not count, because another source replaces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omission {
    /// The position of the source.
    pub source: usize,
    /// The name of the section.
    pub section: String,
    /// The position among the tables of the section, if there are several; `None`: the whole section.
    pub position: Option<usize>,
}

/// Removes from the document of this source what does not count.
fn omit(document: &mut DeTable<'_>, source: usize, omissions: &[Omission]) {
    let mut positions: HashMap<&str, HashSet<usize>> = HashMap::new();
    for omission in omissions.iter().filter(|omission| omission.source == source) {
        match omission.position {
            None => drop(document.remove(omission.section.as_str())),
            Some(position) => {
                positions.entry(&omission.section).or_default().insert(position);
            }
        }
    }
    for (name, positions) in positions {
        let Some(value) = document.get_mut(name) else { continue };
        let DeValue::Array(items) = value.get_mut() else { continue };
        let kept = items.iter().enumerate().filter(|(position, _)| !positions.contains(position));
        let kept: DeArray<'_> = kept.map(|(_, item)| item.clone()).collect();
        let is_empty = kept.is_empty();
        *items = kept;
        if is_empty {
            document.remove(name);
        }
    }
}

/// Checks a configuration of these texts, the first of which is the main file. `omissions` do not count;
/// the places of all problems stay those of the texts.
pub fn load_sources(
    sources: &[Source],
    omissions: &[Omission],
) -> Result<ConfigWithPlaces, Vec<ConfigProblem>> {
    let mut documents = Vec::with_capacity(sources.len());
    let mut problems = Vec::new();
    for (position, source) in sources.iter().enumerate() {
        let (document, errors) = DeTable::parse_recoverable(&source.text);
        if !errors.is_empty() {
            problems.extend(ConfigReader::new(source).syntax_problems(&errors));
        }
        let mut document = document.into_inner();
        omit(&mut document, position, omissions);
        documents.push(document);
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut reader = ConfigReader::new(&sources[0]).with_sources(sources, keys::sections_with_key);
    let mut loaded = reader.documents(&documents);
    reader.check_roots(&loaded);
    // The checks from here on compare keys.
    let of_values = reader.problems().len();
    reader.use_maps(&mut loaded);
    reader.check_server(&loaded);
    reader.check_hosts(&loaded);
    reader.check_tls(&loaded);
    reader.check_socket_files(&loaded);
    reader.check_access(&loaded);
    reader.check_webdav(&loaded);
    reader.check_nonces(&loaded);
    reader.check_geoip(&loaded);
    reader.check_telemetry(&loaded);
    telemetry::apply_to_sites(&mut loaded.config);
    reader.check_acme(&loaded);
    reader.check_admin(&loaded);
    reader.check_control(&loaded);
    reader.check_streams(&loaded.config, &loaded.places.streams);
    loaded.config.own_files = own_paths::read(sources, reader.named_files());
    let position = |problem: &ConfigProblem| sources.iter().position(|source| source.name == problem.file);
    let mut problems = reader.into_problems();
    let of_keys_together = problems.split_off(of_values);
    problems.extend(of_keys_together.into_iter().filter(|ConfigProblem { file, line, column, .. }| {
        !loaded.places.is_within_unread((file, *line, *column))
    }));
    problems.sort_by_key(|problem| (position(problem), problem.line, problem.column));
    if problems.is_empty() { Ok(loaded) } else { Err(problems) }
}

impl<'t> ConfigReader<'t> {
    /// Reports what is not TOML: the first error of each line, because later ones on the line follow from it.
    fn syntax_problems(mut self, errors: &[toml::de::Error]) -> Vec<ConfigProblem> {
        let mut places: Vec<(Place, String)> = errors
            .iter()
            .map(|error| {
                let place = self.place(error.span().map_or(0, |span| span.start));
                let message = error.message().trim_end_matches(", expected nothing").replace('\n', " ");
                (place, message)
            })
            .collect();
        places.sort_by_key(|(place, _)| *place);
        places.dedup_by_key(|(place, _)| place.line);
        for (place, message) in places {
            self.problem(place, format!("not TOML: {message}"));
        }
        self.into_problems()
    }

    /// The files that the first document names. An error in the key becomes a problem.
    fn included(&mut self, first: &Source, document: &DeTable<'_>) -> Vec<PathBuf> {
        let Some(value) = document.get(INCLUDE) else { return Vec::new() };
        let mut names = Vec::new();
        for item in items_of(value) {
            let place = self.place(item.span().start);
            let DeValue::String(pattern) = item.get_ref() else {
                let message = format!("'{INCLUDE}' must be names of files, such as [\"conf.d/*.toml\"]");
                self.problem(place, message);
                continue;
            };
            match matching(pattern, self.base) {
                Ok(found) if found.iter().any(|path| is_source(path, first)) => {
                    let name = first.name.display();
                    let message = format!(
                        "'{INCLUDE}': line {} of {name} includes {name} itself; name the other files only, \
                         or keep them in a directory of their own, such as \"conf.d/*.toml\"",
                        place.line
                    );
                    self.problem(place, message);
                }
                Ok(found) => names.extend(found),
                Err(message) => self.problem(place, format!("'{INCLUDE}': {message}")),
            }
        }
        // A file that is named twice is read once.
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        if names.len() > MOST_FILES {
            let place = self.place(value.span().start);
            self.problem(
                place,
                format!("'{INCLUDE}' names {} files; {MOST_FILES} are the most", names.len()),
            );
            names.clear();
        }
        names
    }

    /// Reports the key in the file at this position, which another file includes.
    fn nested_include(&mut self, documents: &[DeTable<'_>], position: usize, name: Place, value: &Value<'_>) {
        let sources = self.sources();
        let (first, own) = (&sources[0], &sources[position]);
        let (first_name, own_name) = (first.name.display(), own.name.display());
        let includes = |source: &Source| names_source(value, &own.base, source);
        let message = if includes(first) {
            // The line of the first file that includes this one.
            let of_first = documents[0].get(INCLUDE).into_iter().flat_map(items_of);
            let line = of_first
                .filter(|item| names_source(item, &first.base, own))
                .map(|item| Lines::of(&first.text).place(item.span().start).line)
                .next();
            format!(
                "'{INCLUDE}': line {} of {first_name} includes {own_name}, which includes {first_name} \
                 again; remove '{INCLUDE}' here",
                line.unwrap_or(1)
            )
        } else if includes(own) {
            format!(
                "'{INCLUDE}': line {} of {own_name} includes {own_name} itself; remove it, the key is valid \
                 in {first_name} only",
                name.line
            )
        } else {
            format!("'{INCLUDE}' is valid in {first_name} only; name these files there")
        };
        self.problem(name, message);
    }

    /// The documents of all files: their sections.
    fn documents(&mut self, documents: &[DeTable<'_>]) -> ConfigWithPlaces {
        let files = self.sources().iter().map(|source| source.name.clone()).collect();
        let mut places = ConfigPlaces { files, ..ConfigPlaces::default() };
        let mut config = Config {
            server: self.single(&server::SERVER, documents, &mut places),
            limits: self.single(&keys::LIMITS, documents, &mut places),
            cache: self.single(&keys::CACHE, documents, &mut places),
            accelerator: self.single(&accelerator::ACCELERATOR, documents, &mut places),
            access_log: self.single(&logs::ACCESS_LOG, documents, &mut places),
            error_log: self.single(&logs::ERROR_LOG, documents, &mut places),
            proxies: self.single(&access::PROXIES, documents, &mut places),
            acme: self.single(&acme::ACME, documents, &mut places),
            geoip: self.single(&geoip::GEOIP, documents, &mut places),
            request_id: self.single(&admin::REQUEST_ID, documents, &mut places),
            telemetry: self.single(&telemetry::TELEMETRY, documents, &mut places),
            admin: self.single(&admin::ADMIN, documents, &mut places),
            control: self.single(&control::CONTROL, documents, &mut places),
            java: self.single(&JAVA, documents, &mut places),
            maps: self.maps(documents, &mut places),
            sites: self.sites(documents, &mut places),
            streams: self.streams(documents, &mut places),
            own_files: Vec::new(),
        };
        // All routes share one virtual machine; each route is opened separately.
        for route in config.sites.iter_mut().flat_map(|site| &mut site.routes) {
            if let Some(servlet) = &mut route.servlet {
                servlet.java = config.java.clone();
            }
        }
        let names = keys::section_names();
        let mut unknown_sections = false;
        for (position, document) in documents.iter().enumerate() {
            self.enter(position);
            let is_known = |name: &str| names.iter().any(|(known, _)| *known == name);
            for (name, value) in document.iter().filter(|(name, _)| !is_known(name.get_ref().as_ref())) {
                if name.get_ref() != INCLUDE {
                    unknown_sections |= self.unknown_at_top(name, value);
                } else if position != 0 {
                    let place = self.place(name.span().start);
                    self.nested_include(documents, position, place, value);
                }
            }
        }
        // If a section's name is wrong, the key may belong to the site: one problem is enough.
        let has = |name: &str| documents.iter().any(|document| document.contains_key(name));
        if !has(keys::SITE.name) && !has(stream::STREAM.name) && !unknown_sections {
            let message =
                "no [[site]]: at least one is needed, with 'listen', and 'root' or a route".to_string();
            self.problem(Place { file: 0, line: 1, column: 1 }, message);
        }
        ConfigWithPlaces { config, places }
    }

    /// A section that may appear once, in one of the files.
    fn single<C>(
        &mut self,
        section: &'static Section<C>,
        documents: &[DeTable<'_>],
        places: &mut ConfigPlaces,
    ) -> C {
        let mut first: Option<(C, Place)> = None;
        for (position, document) in documents.iter().enumerate() {
            let Some((name, value)) = document.get_key_value(section.name) else { continue };
            self.enter(position);
            let place = self.place(name.span().start);
            let header = section.header();
            if section.name == server::SERVER.name && position != 0 {
                // The commands for a running server search for it there.
                let message = format!("{header} must be in {}", self.sources()[0].name.display());
                self.problem(place, message);
            } else if let Some((_, other)) = &first {
                let line = self.line(*other, place);
                self.problem(place, format!("{header} is already in {line}; it may appear only once"));
            } else {
                first = Some((self.single_of(section, name, value, places), place));
            }
        }
        first.map_or_else(|| section.defaults(), |(filled, _)| filled)
    }

    fn single_of<C>(
        &mut self,
        section: &'static Section<C>,
        name: &Spanned<Cow<'_, str>>,
        value: &Value<'_>,
        places: &mut ConfigPlaces,
    ) -> C {
        let place = self.place(name.span().start);
        let header = section.header();
        match value.get_ref() {
            DeValue::Table(table) => {
                let header = self.place(value.span().start);
                let (filled, section_places) = self.section(section, table, header);
                places.sections.insert(section.name, section_places);
                return filled;
            }
            DeValue::Array(items) if is_array_of_tables(items) => {
                self.problem(place, format!("{header} may appear only once; write one pair of brackets"));
            }
            _ => self.problem(place, format!("'{}' is a section, not a key; write {header}", section.name)),
        }
        section.defaults()
    }

    /// The sites.
    fn sites(&mut self, documents: &[DeTable<'_>], places: &mut ConfigPlaces) -> Vec<SiteConfig> {
        let (sites, places_of_sites) = self.repeated(&keys::SITE, "a site", documents).into_iter().unzip();
        places.sites = places_of_sites;
        sites
    }

    /// The streams.
    fn streams(&mut self, documents: &[DeTable<'_>], places: &mut ConfigPlaces) -> Vec<StreamConfig> {
        let read = self.repeated(&stream::STREAM, "a stream", documents);
        let (streams, places_of_streams) = read.into_iter().unzip();
        places.streams = places_of_streams;
        streams
    }

    /// The sections of all files that may appear many times; `called` is what one is called.
    fn repeated<C>(
        &mut self,
        section: &'static Section<C>,
        called: &str,
        documents: &[DeTable<'_>],
    ) -> Vec<(C, SectionPlaces)> {
        let mut all = Vec::new();
        for (position, document) in documents.iter().enumerate() {
            if let Some((name, value)) = document.get_key_value(section.name) {
                self.enter(position);
                self.repeated_of(section, called, (name, value), &mut all);
            }
        }
        all
    }

    /// Those of one file.
    fn repeated_of<C>(
        &mut self,
        section: &'static Section<C>,
        called: &str,
        (name, value): (&Spanned<Cow<'_, str>>, &Value<'_>),
        all: &mut Vec<(C, SectionPlaces)>,
    ) {
        let place = self.place(name.span().start);
        let mut read = |reader: &mut Self, table: &DeTable<'_>, header: usize| {
            let header = reader.place(header);
            all.push(reader.section(section, table, header));
        };
        match value.get_ref() {
            DeValue::Array(items) if is_array_of_tables(items) => {
                for item in items.iter() {
                    if let DeValue::Table(table) = item.get_ref() {
                        read(self, table, item.span().start);
                    }
                }
            }
            DeValue::Table(table) => {
                let message = format!(
                    "{called} is written with two pairs of brackets, because there may be several: {}",
                    section.header()
                );
                self.problem(place, message);
                read(self, table, value.span().start);
            }
            _ => {
                let message =
                    format!("'{}' is a section, not a key; write {}", section.name, section.header());
                self.problem(place, message);
            }
        }
    }

    /// Reports a name outside of every section that is not the name of a section. Returns whether a section
    /// was probably meant.
    fn unknown_at_top(&mut self, name: &Spanned<Cow<'_, str>>, value: &Value<'_>) -> bool {
        let text = values::shorten(name.get_ref());
        let place = self.place(name.span().start);
        let is_section = match value.get_ref() {
            DeValue::Table(_) => true,
            DeValue::Array(items) => is_array_of_tables(items),
            _ => false,
        };
        let message = match (is_section, keys::sections_with_key(name.get_ref())) {
            (true, _) => {
                let all = keys::section_names();
                let near = values::nearest(name.get_ref(), all.iter().map(|(known, _)| *known));
                let advice = match all.iter().find(|(known, _)| near == Some(known)) {
                    Some((_, header)) => format!("did you mean {header}?"),
                    None => {
                        let headers: Vec<String> = all.into_iter().map(|(_, header)| header).collect();
                        format!("the sections are {}", words(&headers))
                    }
                };
                format!("unknown section '{text}'; {advice}")
            }
            (false, sections) if sections.is_empty() => {
                format!("unknown key '{text}' outside of every section")
            }
            (false, sections) => format!("key '{text}' must be in a section, {}", words(&sections)),
        };
        self.problem(place, message);
        is_section
    }

    /// A site has one kind of certificate, and all sites of an address have HTTPS, or none has.
    fn check_tls(&mut self, loaded: &ConfigWithPlaces) {
        let mut speaks_tls: HashMap<ListenAddress, (bool, Place)> = HashMap::new();
        for (site, places) in loaded.config.sites.iter().zip(&loaded.places.sites) {
            let tls = &site.tls;
            if (tls.certificate.is_some() || tls.acme) && tls.development_certificate {
                let message = "'development_certificate' and 'certificate' cannot both be set".to_string();
                self.problem(places.key("development_certificate"), message);
            }
            for (key, set) in [
                ("key", tls.key.is_some() && tls.certificate.is_none()),
                ("client_authorities", tls.client_authorities.is_some() && !tls.is_on()),
                ("http3", tls.http3 && !tls.is_on()),
                ("certificate_on_demand", tls.on_demand && !tls.acme),
            ] {
                if set {
                    let reason = match tls.acme {
                        _ if key == "certificate_on_demand" => "without 'certificate' \"acme\"",
                        true => "with 'certificate' \"acme\", whose key the server generates",
                        false => "without 'certificate'",
                    };
                    self.problem(places.key(key), format!("'{key}' has no effect {reason}"));
                }
            }
            if tls.maximum_version == MaximumVersion::Tls12 {
                for (key, needs_newer) in
                    [("tls_minimum", tls.minimum_version == MinimumVersion::Tls13), ("http3", tls.http3)]
                {
                    if needs_newer {
                        let message = format!("'{key}' needs TLS 1.3, which 'tls_maximum' excludes");
                        self.problem(places.key(key), message);
                    }
                }
            }
            for address in &site.listen {
                let (other, place) = *speaks_tls.entry(*address).or_insert((tls.is_on(), places.header));
                if other != tls.is_on() {
                    let line = self.line(place, places.header);
                    let message = format!(
                        "this [[site]] and the one of {line} share {address}, but only one of them has a \
                         certificate; an address serves HTTPS or plain HTTP, not both"
                    );
                    self.problem(places.key("listen"), message);
                }
            }
        }
    }

    /// Each host of an address must belong to one site, and at most one may be for all others.
    fn check_hosts(&mut self, loaded: &ConfigWithPlaces) {
        let mut owners: HashMap<(ListenAddress, Option<&str>), &SectionPlaces> = HashMap::new();
        for (site, places) in loaded.config.sites.iter().zip(&loaded.places.sites) {
            let hosts: Vec<Option<&str>> = match site.hosts.is_empty() {
                true => vec![None],
                false => site.hosts.iter().map(|host| Some(host.as_str())).collect(),
            };
            for (position, host) in hosts.into_iter().enumerate() {
                let mut taken = None;
                for address in &site.listen {
                    match owners.entry((*address, host)) {
                        Entry::Occupied(owner) => {
                            let line = self.line(owner.get().header, places.header);
                            taken = taken.or(Some((*address, line)));
                        }
                        Entry::Vacant(free) => {
                            free.insert(places);
                        }
                    }
                }
                let Some((address, line)) = taken else { continue };
                let message = match host {
                    Some(host) => {
                        format!("'hosts': {host:?} on {address} already belongs to the [[site]] of {line}")
                    }
                    None => format!(
                        "a [[site]] without 'hosts' answers every host on {address}, and so does the one of \
                         {line}; name the hosts of one of them"
                    ),
                };
                self.problem(places.item("hosts", position), message);
            }
        }
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
