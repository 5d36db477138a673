//! All groups of origins of a server: those of the configuration in use, and those of older configurations
//! that requests still use. It also keeps the orders of operators, for groups of later configurations.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::group::SharedGroup;
use super::member::OriginOrder;
use super::settings::{GroupName, ProxySettings};
use touchstone_handler::configurations::Configurations;
use touchstone_upstream::live_instances::LiveInstances;

/// The orders of operators, by group and URL of the origin.
pub type OriginOrders = BTreeMap<(GroupName, String), OriginOrder>;

/// The groups of a server. A reload keeps the groups whose settings are unchanged.
#[derive(Default)]
pub struct OriginGroups {
    groups: LiveInstances<SharedGroup>,
    configurations: Configurations,
    orders: Mutex<OriginOrders>,
}

impl OriginGroups {
    /// Called before a configuration is opened.
    pub fn begin_configuration(&self) {
        self.configurations.begin();
    }

    /// Called when the configuration that was opened last is in use.
    pub fn configuration_in_use(&self) {
        self.configurations.use_opened();
    }

    /// The group with these settings: the existing one, or a new one.
    pub fn get(&self, settings: ProxySettings) -> Arc<SharedGroup> {
        let group = self.groups.get(settings, |group, wanted| group.settings == *wanted, SharedGroup::new);
        group.configuration.store(self.configurations.opened(), Relaxed);
        // Orders that were given during the creation of the group have not been applied to it.
        apply_orders(&group, &self.orders());
        group
    }

    /// All groups that are in use.
    pub fn all(&self) -> Vec<Arc<SharedGroup>> {
        self.groups.all()
    }

    /// The groups of the configuration in use.
    pub fn in_use(&self) -> Vec<Arc<SharedGroup>> {
        let is_in_use = |group: &Arc<SharedGroup>| self.configurations.has(group.configuration.load(Relaxed));
        self.all().into_iter().filter(is_in_use).collect()
    }

    /// Replaces the orders of operators, in all existing and later groups. Origins without an order are used
    /// as configured.
    pub fn set_orders(&self, orders: OriginOrders) {
        *self.orders() = orders;
        self.all().iter().for_each(|group| apply_orders(group, &self.orders()));
    }

    fn orders(&self) -> MutexGuard<'_, OriginOrders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Applies the orders to the members of a group.
fn apply_orders(group: &SharedGroup, orders: &OriginOrders) {
    for member in &group.members {
        // Most servers have no orders: this avoids the copies of the names.
        let order = match orders.is_empty() {
            true => None,
            false => orders.get(&(group.settings.name.clone(), member.name.clone())),
        };
        member.set_order(order.copied().unwrap_or_default());
    }
}
