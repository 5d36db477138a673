//! The unprivileged user that servers and programs started by root switch to.

use std::fs;

/// The names of such a user; the first that exists is used.
const UNPRIVILEGED: [&str; 2] = ["nobody", "www-data"];

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// The name of its group.
    pub group: String,
    /// The number of its group.
    pub gid: u32,
}

/// Whether this program runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The user that servers switch to when root starts them; absent if this program is not root, or there is no
/// such user.
pub fn unprivileged() -> Option<User> {
    if !is_root() {
        return None;
    }
    let (users, groups) = (fs::read_to_string("/etc/passwd").ok()?, fs::read_to_string("/etc/group").ok()?);
    UNPRIVILEGED.iter().find_map(|name| find(name, &users, &groups))
}

/// A user in texts of the forms of passwd(5) and group(5).
fn find(name: &str, users: &str, groups: &str) -> Option<User> {
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let number = |line: &&str| line.split(':').nth(2).and_then(|number| number.parse().ok()) == Some(gid);
    let group = groups.lines().find(number)?.split(':').next()?.to_string();
    (uid != 0).then(|| User { name: name.to_string(), uid, group, gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_with_their_groups() {
        let users = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65533:nobody:/:/bin/false\nbad:x:y:z\n";
        let groups = "root:x:0:\nnogroup:x:65533:\n";
        let nobody = find("nobody", users, groups).unwrap();
        assert_eq!((nobody.uid, nobody.gid, nobody.group.as_str()), (65534, 65533, "nogroup"));
        for name in ["root", "bad", "nobo", ""] {
            assert_eq!(find(name, users, groups), None, "{name}");
        }
        assert_eq!(find("nobody", users, "root:x:0:\n"), None);
    }
}
