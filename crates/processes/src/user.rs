//! The user that a process runs as. It is found by name in /etc/passwd and /etc/group, or by numbers.
//!
//! Users from other sources (such as LDAP) are configured by their numbers, because a look-up would need the
//! modules that the C library loads.

use std::io;
use std::path::Path;

/// A user with groups.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct User {
    /// The number of the user.
    pub user: u32,
    /// The number of the group.
    pub group: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl User {
    /// Reads `name`, `name:group`, or numbers in place of either.
    ///
    /// # Errors
    /// The user or the group does not exist.
    pub fn find(text: &str) -> Result<User, String> {
        let read = |path: &str| {
            std::fs::read_to_string(path).map_err(|error: io::Error| format!("cannot read {path}: {error}"))
        };
        let passwd = if Path::new("/etc/passwd").exists() { read("/etc/passwd")? } else { String::new() };
        let group = if Path::new("/etc/group").exists() { read("/etc/group")? } else { String::new() };
        find(text, &passwd, &group)
    }
}

fn find(text: &str, passwd: &str, groups_file: &str) -> Result<User, String> {
    let (name, group_name) = match text.split_once(':') {
        Some((name, group)) => (name, Some(group)),
        None => (text, None),
    };
    let account = records(passwd).find_map(|fields| match fields.as_slice() {
        [found, _, user, group, ..] if *found == name || *user == name => {
            Some((*found, user.parse::<u32>().ok()?, group.parse::<u32>().ok()?))
        }
        _ => None,
    });
    let group = group_name.map(|wanted| {
        let listed = records(groups_file).find_map(|fields| match fields.as_slice() {
            [found, _, number, ..] if *found == wanted => number.parse().ok(),
            _ => None,
        });
        listed.or(wanted.parse().ok()).ok_or_else(|| format!("there is no group {wanted:?} in /etc/group"))
    });
    let group = group.transpose()?;
    let Some((found_name, user, own_group)) = account else {
        let user = name.parse().map_err(|_| format!("there is no user {name:?} in /etc/passwd"))?;
        let group = group.ok_or_else(|| {
            format!("user {user} is not in /etc/passwd; name its group too: \"{user}:GROUP\"")
        })?;
        return Ok(User { user, group, groups: vec![group] });
    };
    let group = group.unwrap_or(own_group);
    let mut groups = vec![group];
    for fields in records(groups_file) {
        if let [_, _, number, members, ..] = fields.as_slice()
            && members.split(',').any(|member| member == found_name)
            && let Ok(number) = number.parse()
            && !groups.contains(&number)
        {
            groups.push(number);
        }
    }
    Ok(User { user, group, groups })
}

fn records(file: &str) -> impl Iterator<Item = Vec<&str>> {
    file.lines().map(|line| line.split(':').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1001::/home/ann:/bin/sh\n#bad\nbob:x:y:z\n";
    const GROUP: &str = "root:x:0:\nann:x:1001:\nweb:x:33:ann,bob\nstaff:x:50:ann\n";

    #[test]
    fn users() {
        let user = |user, group, groups: &[u32]| Ok(User { user, group, groups: groups.to_vec() });
        assert_eq!(find("ann", PASSWD, GROUP), user(1000, 1001, &[1001, 33, 50]));
        assert_eq!(find("ann:web", PASSWD, GROUP), user(1000, 33, &[33, 50]));
        assert_eq!(find("1000", PASSWD, GROUP), user(1000, 1001, &[1001, 33, 50]));
        assert_eq!(find("7:8", PASSWD, GROUP), user(7, 8, &[8]));
        assert_eq!(find("root", PASSWD, GROUP), user(0, 0, &[0]));
        for bad in ["eve", "ann:none", "7", "bob", "", ":"] {
            assert!(find(bad, PASSWD, GROUP).is_err(), "{bad}");
        }
    }
}
