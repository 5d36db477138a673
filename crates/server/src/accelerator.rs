//! The cache before programs and origins, as this server uses it: which routes have it, and hits that are answered in passing.

pub mod purge;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHasher;
use touchstone_accelerator::disk;
use touchstone_accelerator::layer::{Accelerated, Accelerator, CachedRoute};
use touchstone_accelerator::rules::fields::Fields;
use touchstone_accelerator::rules::key::Target;
use touchstone_accelerator::rules::policy::Policy;
use touchstone_accelerator::store::{Front, PlainRequest, Store, Tier};
use touchstone_files::cache::{DateSecond, Prepared, Variant};
use touchstone_interfaces::handler::Interface;

use crate::access::{HeadFields, RequestFields, RequestView};
use crate::config::{AcceleratorConfig, RouteConfig, SiteConfig};
use crate::log::error::ErrorLog;
use crate::site::Site;

/// Puts the cache before the interface of a route, where its configuration says so.
pub fn open(
    policy: &Policy,
    route: &RouteConfig,
    site: &SiteConfig,
    accelerator: &Arc<Accelerator>,
    interface: Arc<dyn Interface>,
) -> (CachedRoute, Arc<dyn Interface>) {
    let cached = CachedRoute {
        accelerator: accelerator.clone(),
        policy: Arc::new(policy.clone()),
        space: space(site, route),
    };
    (cached.clone(), Arc::new(Accelerated::new(cached, interface)))
}

/// Tells the stored answers of a site and of what answers from those of others. The same over reloads and restarts, unless
/// it is another origin or program that answers.
fn space(site: &SiteConfig, route: &RouteConfig) -> u64 {
    let mut hasher = FxHasher::default();
    site.hosts.hash(&mut hasher);
    site.listen.hash(&mut hasher);
    route.proxy.as_ref().map(|proxy| (&proxy.to, &proxy.strip_prefix)).hash(&mut hasher);
    format!("{:?}{:?}{:?}{:?}", route.cgi, route.fastcgi, route.scgi, route.php).hash(&mut hasher);
    format!("{:?}", route.ajp.as_ref().map(|ajp| &ajp.backends)).hash(&mut hasher);
    hasher.finish()
}

/// The store, with the disk behind it where there is one.
pub fn open_store(config: &AcceleratorConfig, error_log: &ErrorLog) -> Store {
    let tier = config.disk.as_ref().map(|directory| {
        let mut settings = disk::Settings::new(directory.clone(), config.disk_bytes);
        if config.disk_index_bytes > 0 {
            settings.index_bytes = config.disk_index_bytes;
        }
        let error_log = error_log.clone();
        let log: disk::DiskLog =
            Arc::new(move |level, what, message| error_log.limited(level.into(), what, message));
        Arc::new(disk::Disk::open(settings, log)) as Arc<dyn Tier>
    });
    Store::new(config.memory_bytes, tier)
}

/// What is wrong with the disk on this machine.
pub fn problem(config: &AcceleratorConfig) -> Option<String> {
    let directory = config.disk.as_ref()?;
    let shown = directory.display();
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    match (directory.metadata(), parent) {
        (Ok(found), _) if found.is_dir() => None,
        (Ok(_), _) => Some(format!("accelerator.disk '{shown}' is not a directory")),
        (Err(_), Some(parent)) if !parent.is_dir() => Some(format!(
            "accelerator.disk '{shown}' cannot be made: '{}' is not a directory",
            parent.display()
        )),
        (Err(_), _) => None,
    }
}

/// An answer that is ready.
pub struct Ready<'f> {
    /// The answer.
    pub prepared: &'f Arc<Prepared>,
    /// The route, by its position.
    pub route: usize,
}

/// Finds the answer to a plain GET on a route that has the cache, where that is stored and fresh, and access rules let the
/// request through at once. `view` has the path as it was sent, which is its own normal form.
#[inline]
pub fn ready<'f, F: Fields>(
    front: &'f mut Front,
    site: &Site,
    view: &RequestView<'_>,
    fields: F,
    is_secure: bool,
    (variant, date): (Variant, &DateSecond),
) -> Option<Ready<'f>> {
    let program = site.rules.as_ref()?.program_at_once(view)?;
    let cached = program.cache?;
    let request = PlainRequest {
        target: Target {
            space: cached.space,
            is_secure,
            host: view.host?,
            path: view.path,
            query: view.query,
        },
        fields,
        policy: &cached.policy,
        site_fields: &site.fields,
    };
    let prepared = front.hit(request, variant, date)?;
    // Last, because it counts.
    program.admit(view)?;
    Some(Ready { prepared, route: program.route })
}

impl Fields for HeadFields<'_> {
    #[inline]
    fn each<'a>(&'a self, each: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        for line in &self.head.fields {
            each(line.name.of(self.buffer), line.value.of(self.buffer));
        }
    }
}

/// The fields of a request of HTTP/2 or HTTP/3.
#[derive(Clone, Copy)]
pub struct ListedFields<'l>(pub &'l [(&'l [u8], &'l [u8])]);

impl Fields for ListedFields<'_> {
    fn each<'a>(&'a self, each: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        for (name, value) in self.0 {
            each(name, value);
        }
    }
}

impl RequestFields for ListedFields<'_> {
    fn field(&self, position: usize) -> Option<(&[u8], &[u8])> {
        self.0.get(position).copied()
    }
}
