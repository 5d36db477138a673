//! The user under which the server runs: the account of `[server] user`, the change from root to it, and
//! checks with its rights.
//!
//! Root only binds the addresses; [`Account::switch_user`] is called before document roots, certificates and
//! logs are opened. So a file that the account cannot read causes an error at the start, not weeks later when
//! a certificate is renewed or a log is rotated. [`Account::as_it`] checks this beforehand for `touchstone
//! check`, without dropping rights.

use std::ffi::CString;
use std::fmt::Display;
use std::io;

use nix::unistd::{Group, Uid, User};
use rustix::thread::capabilities;
use touchstone_config::{ServerConfig, SocketFile};

use crate::unix_socket::SocketFileRights;

/// An account of this machine, as numbers for the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name in the configuration.
    pub name: String,
    /// The user id.
    pub user: u32,
    /// The group id.
    pub group: u32,
    /// The supplementary groups.
    pub supplementary_groups: Vec<u32>,
}

/// A key of `[server]` and its problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountProblem {
    /// The key.
    pub key: &'static str,
    /// The problem.
    pub message: String,
}

impl Display for AccountProblem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "server.{}: {}", self.key, self.message)
    }
}

impl Account {
    /// The account that the configuration names, if any.
    pub fn configured(server: &ServerConfig) -> Result<Option<Account>, AccountProblem> {
        if server.user.is_empty() {
            return Ok(None);
        }
        let user = find_user(&server.user)?;
        let group = match server.group.as_str() {
            "" => user.group.ok_or_else(|| AccountProblem {
                key: "user",
                message: format!("no user has the number {}, so 'group' must be given too", server.user),
            })?,
            name => find_group("group", name)?,
        };
        let supplementary_groups = match (&server.supplementary_groups, &user.name) {
            (Some(names), _) => {
                names.iter().map(|name| find_group("supplementary_groups", name)).collect::<Result<_, _>>()?
            }
            (None, Some(name)) => groups_of(name, group)?,
            (None, None) => Vec::new(),
        };
        Ok(Some(Account { name: server.user.clone(), user: user.number, group, supplementary_groups }))
    }

    /// Whether this process already runs as the account, so that no rights need to be dropped.
    pub fn is_ours(&self) -> bool {
        let [real, effective] =
            [rustix::process::getuid(), rustix::process::geteuid()].map(|uid| uid.as_raw());
        let [real_group, effective_group] =
            [rustix::process::getgid(), rustix::process::getegid()].map(|gid| gid.as_raw());
        (real, effective) == (self.user, self.user)
            && (real_group, effective_group) == (self.group, self.group)
    }

    /// Whether this process may become the account; the error states why not.
    pub fn check_becoming(&self) -> Result<(), String> {
        if self.user == 0 {
            return Err("server.user: 'root' is not allowed; remove the key to run as root".to_string());
        }
        if !self.is_ours() && !rustix::process::geteuid().is_root() {
            return Err(format!(
                "server.user: only root can become '{}'; \
                 start the server as root, as that user, or without the key",
                self.name
            ));
        }
        Ok(())
    }

    /// Drops root's rights permanently in every thread. On an error some rights may remain, and the process
    /// must end.
    pub fn switch_user(&self) -> Result<(), String> {
        self.check_becoming()?;
        if self.is_ours() {
            return Ok(());
        }
        let failed =
            |what: &str, error: nix::Error| format!("cannot become '{}': {what}: {error}", self.name);
        let gids: Vec<nix::unistd::Gid> =
            self.supplementary_groups.iter().map(|&group| nix::unistd::Gid::from_raw(group)).collect();
        let (user, group) = (Uid::from_raw(self.user), nix::unistd::Gid::from_raw(self.group));
        // The groups are set first: afterwards the process has no right to set them.
        nix::unistd::setgroups(&gids).map_err(|error| failed("supplementary groups", error))?;
        nix::unistd::setresgid(group, group, group).map_err(|error| failed("group", error))?;
        nix::unistd::setresuid(user, user, user).map_err(|error| failed("user", error))?;
        self.make_sure()
    }

    /// Checks that the kernel has removed the capabilities with root's user id: it can be configured not to
    /// do so.
    fn make_sure(&self) -> Result<(), String> {
        let root = Uid::from_raw(0);
        if !self.is_ours() || nix::unistd::setresuid(root, root, root).is_ok() {
            return Err(format!("root's rights could not be dropped for '{}'", self.name));
        }
        let sets = capabilities(None).map_err(|error| format!("capabilities cannot be read: {error}"))?;
        let left = sets.effective | sets.permitted;
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("the process still has the capabilities {left:?} as '{}'", self.name)),
        }
    }

    /// Runs a function with this account's rights, in a separate thread that has dropped its own (in Linux,
    /// credentials belong to threads; only the C library applies them to the whole process).
    pub fn as_it<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
        let (user, group) =
            (rustix::process::Uid::from_raw(self.user), rustix::process::Gid::from_raw(self.group));
        let groups: Vec<rustix::process::Gid> =
            self.supplementary_groups.iter().map(|&group| rustix::process::Gid::from_raw(group)).collect();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                set_thread_groups(&groups)?;
                set_thread_res_gid(group, group, group)?;
                set_thread_res_uid(user, user, user)?;
                Ok(work())
            });
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the check panicked")))
        })
    }
}

/// Prevents this process and the programs that it starts from gaining rights. Must be called before any
/// thread is started.
pub fn set_no_new_privileges() -> Result<(), String> {
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| format!("server.no_new_privileges cannot be set: {error}"))
}

/// Sets the permissions that new files never get.
pub fn set_umask(mask: u32) {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask));
}

/// The owner and permissions for the file of a unix socket. The owner is the configured one, or the account
/// under which the server will run. The error has the key.
pub fn socket_file_rights(
    file: &SocketFile,
    account: Option<&Account>,
) -> Result<SocketFileRights, (&'static str, String)> {
    let account = account.filter(|account| !account.is_ours());
    let user = match file.user.as_str() {
        "" => account.map(|account| account.user),
        name => Some(find_user(name).map_err(|problem| ("socket_user", problem.message))?.number),
    };
    let group = match file.group.as_str() {
        "" => account.map(|account| account.group),
        name => Some(find_group("socket_group", name).map_err(|problem| ("socket_group", problem.message))?),
    };
    Ok(SocketFileRights { mode: file.mode, user, group })
}

/// A user of the database, or a number.
struct FoundUser {
    name: Option<CString>,
    number: u32,
    group: Option<u32>,
}

fn find_user(name: &str) -> Result<FoundUser, AccountProblem> {
    let problem = |message: String| AccountProblem { key: "user", message };
    let unreadable = |error: nix::Error| problem(format!("the user database cannot be read: {error}"));
    let number: Option<u32> = name.parse().ok();
    let found = match number {
        Some(number) => User::from_uid(Uid::from_raw(number)).map_err(unreadable)?,
        None => User::from_name(name).map_err(unreadable)?,
    };
    match (found, number) {
        (Some(user), _) => Ok(FoundUser {
            name: CString::new(user.name).ok(),
            number: user.uid.as_raw(),
            group: Some(user.gid.as_raw()),
        }),
        // In containers, numbers may have no name.
        (None, Some(number)) => Ok(FoundUser { name: None, number, group: None }),
        (None, None) => Err(problem(format!("this machine has no user '{name}'"))),
    }
}

fn find_group(key: &'static str, name: &str) -> Result<u32, AccountProblem> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let problem = |message: String| AccountProblem { key, message };
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(problem(format!("this machine has no group '{name}'"))),
        Err(error) => Err(problem(format!("the group database cannot be read: {error}"))),
    }
}

fn groups_of(user: &CString, group: u32) -> Result<Vec<u32>, AccountProblem> {
    nix::unistd::getgrouplist(user, nix::unistd::Gid::from_raw(group))
        .map(|groups| groups.into_iter().map(|group| group.as_raw()).collect())
        .map_err(|error| AccountProblem {
            key: "user",
            message: format!("the groups of the user cannot be found: {error}"),
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use touchstone_config::check_account_name;

    fn account(user: &str, group: &str) -> Result<Option<Account>, AccountProblem> {
        let server =
            ServerConfig { user: user.to_string(), group: group.to_string(), ..ServerConfig::default() };
        Account::configured(&server)
    }

    #[test]
    fn accounts_are_found_by_name_and_number() {
        assert_eq!(account("", ""), Ok(None));
        let by_name = account("daemon", "").unwrap().unwrap();
        assert_eq!((by_name.user, by_name.group), (1, 1));
        assert!(by_name.supplementary_groups.contains(&1));
        let by_number = account("1", "").unwrap().unwrap();
        assert_eq!((by_number.user, by_number.group), (1, 1));
        let other_group = account("daemon", "sys").unwrap().unwrap();
        assert_eq!(other_group.group, Group::from_name("sys").unwrap().unwrap().gid.as_raw());
    }

    #[test]
    fn who_is_not_there_is_named() {
        let problem = account("nobody-of-that-name", "").unwrap_err();
        assert_eq!(problem.to_string(), "server.user: this machine has no user 'nobody-of-that-name'");
        let problem = account("daemon", "no-group").unwrap_err();
        assert_eq!(problem.to_string(), "server.group: this machine has no group 'no-group'");
        // A number without a name needs a group.
        assert!(account("3999999999", "").unwrap_err().message.contains("'group' must be given"));
        let bare = account("3999999999", "7").unwrap().unwrap();
        assert_eq!((bare.user, bare.group, bare.supplementary_groups), (3_999_999_999, 7, Vec::new()));
    }

    #[test]
    fn a_thread_can_look_as_another_user_and_the_process_stays_who_it_is() {
        let before = rustix::process::geteuid();
        let daemon = account("daemon", "").unwrap().unwrap();
        let seen = daemon.as_it(|| {
            let read = std::fs::read("/etc/shadow").map_err(|error| error.kind());
            (rustix::process::geteuid().as_raw(), read.err())
        });
        match before.is_root() {
            true => assert_eq!(seen.unwrap(), (1, Some(io::ErrorKind::PermissionDenied))),
            false => assert_eq!(seen.unwrap_err().kind(), io::ErrorKind::PermissionDenied),
        }
        assert_eq!(rustix::process::geteuid(), before);
    }

    proptest! {
        #[test]
        fn any_name_is_refused_or_searched(name in ".{0,20}") {
            if check_account_name(&name).is_ok() {
                // Any result is accepted, but there must be no panic.
                let _ = account(&name, "");
            }
        }
    }
}
