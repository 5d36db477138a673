//! The tree of files that a suite requires: created once, kept in a cache directory, verified before every
//! use.

use super::content;
use super::interface::AtPath;
use super::read_class::seed_of;
use super::{Class, Content, Interface, OwnRequest, Suite, Workload};
use crate::cache;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use touchstone_http::split_mix::SplitMix;

/// What marks a directive of a page that a server did not carry out.
pub const DIRECTIVE: &[u8] = b"<!--#";

/// What an answer must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedAnswer {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A server's output for a page: no directive is left in it.
    Page,
    /// Any output of the program is accepted.
    Anything,
}

/// The suite's tree in the cache directory: the directory that a server is given as its root. Every file is
/// compared with what it must hold, and written again where it differs.
pub fn prepare(suite: &Suite) -> io::Result<PathBuf> {
    let name = directory_name(suite);
    cache::prepare(|cache| {
        let root = cache.join("trees").join(&name);
        write(suite, &root).map(|()| root)
    })
    .map_err(|refusals| {
        let message = format!("no place for the workload's files ({refusals}); set TOUCHSTONE_CACHE");
        io::Error::other(message)
    })
}

/// Makes the tree below `root`, or completes an existing one.
pub fn write(suite: &Suite, root: &Path) -> io::Result<()> {
    // A suite with only programs has no files, but the server still has a root.
    fs::create_dir_all(root)?;
    for workload in suite.parts.iter().map(|part| &part.workload) {
        for (index, class) in workload.classes.iter().enumerate() {
            match &class.content {
                Content::Files { .. } => {
                    for number in 0..class.requests() {
                        let path = root.join(class.path(number).trim_start_matches('/'));
                        write_file(&path, &file_content(workload, index, class, number))?;
                    }
                }
                Content::Interface { interface, .. } => write_interface(workload, interface, root)?,
                Content::Requests { .. } => {
                    for request in class.own_files() {
                        let path = root.join(request.path.trim_start_matches('/'));
                        write_file(&path, &own_file(workload, request))?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// What the answer to one request must be.
pub fn expected(workload: &Workload, class_index: usize, class: &Class, number: u64) -> ExpectedAnswer {
    match &class.content {
        Content::Files { .. } => ExpectedAnswer::Bytes(file_content(workload, class_index, class, number)),
        Content::Requests { requests, interface, .. } => match &requests[number as usize] {
            request if interface.is_none() && request.is_file() => {
                ExpectedAnswer::Bytes(own_file(workload, request))
            }
            _ => ExpectedAnswer::Anything,
        },
        Content::Interface { interface, .. } => match interface.at_path() {
            AtPath::File => ExpectedAnswer::Bytes(interface_file(workload, interface)),
            AtPath::Page(_) => ExpectedAnswer::Page,
            AtPath::Nothing => ExpectedAnswer::Anything,
        },
    }
}

fn write_interface(workload: &Workload, interface: &Interface, root: &Path) -> io::Result<()> {
    let path = root.join(interface.path.trim_start_matches('/'));
    match interface.at_path() {
        AtPath::File => write_file(&path, &interface_file(workload, interface)),
        AtPath::Page(page) => write_file(&path, page.as_bytes()),
        AtPath::Nothing => Ok(()),
    }
}

/// Writes a file unless it holds the same already.
fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|found| found == content) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    crate::output::write_atomically(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

/// What one file of a class must hold.
fn file_content(workload: &Workload, class_index: usize, class: &Class, number: u64) -> Vec<u8> {
    // Classes that request the same files have those of the first.
    let same = |other: &Class| other.content == class.content;
    let class_index = workload.classes.iter().position(same).unwrap_or(class_index);
    let position = ((class_index as u64) << 32) | number;
    let seed = SplitMix(workload.content_seed).draw() ^ SplitMix(position).draw();
    let title = format!("{} {}", workload.name, class.path(number));
    content::make(&title, class.body_bytes(number).unwrap_or(0) as usize, seed)
}

/// The contents of the file that answers a request which is listed on its own: the same in every part of the
/// suite that requests it.
fn own_file(workload: &Workload, request: &OwnRequest) -> Vec<u8> {
    let title = format!("{} {}", workload.name, request.path);
    let seed = workload.content_seed ^ seed_of(&request.path);
    content::make(&title, request.usual_bytes().unwrap_or(0) as usize, seed)
}

/// The contents of the file of an interface that is only a file.
fn interface_file(workload: &Workload, interface: &Interface) -> Vec<u8> {
    let title = format!("{} {}", workload.name, interface.path);
    content::make(&title, interface.body_bytes as usize, workload.content_seed)
}

/// A name that differs for trees that differ, so that two suites never share one by mistake.
fn directory_name(suite: &Suite) -> String {
    let of_class = |class: &Class| match &class.content {
        Content::Files { directory, sizes, suffix } => {
            let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
            format!("{directory}{suffix}:{}", sizes.join(":"))
        }
        Content::Interface { interface, .. } => format!("{}:{}", interface.path, interface.body_bytes),
        Content::Requests { .. } => {
            let file =
                |request: &OwnRequest| format!("{}:{}", request.path, request.usual_bytes().unwrap_or(0));
            class.own_files().map(file).collect::<Vec<_>>().join(";")
        }
    };
    let shape: Vec<String> =
        suite.parts.iter().flat_map(|part| &part.workload.classes).map(of_class).collect();
    let digest = crate::machine::sha256(shape.join(",").as_bytes());
    let workload = &suite.first_part().workload;
    format!("{}-seed-{}-{}", workload.name, workload.content_seed, &digest[..12])
}

#[cfg(test)]
mod tests {
    use super::super::Suite;
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_golden_tree_has_100_files_and_2618880_bytes() {
        let suite = Suite::find("webbench-1.1-static").unwrap();
        let place = tempfile::tempdir().unwrap();
        write(&suite, place.path()).unwrap();
        let (mut files, mut bytes) = (0, 0);
        for class in fs::read_dir(place.path()).unwrap() {
            for file in fs::read_dir(class.unwrap().path()).unwrap() {
                files += 1;
                bytes += file.unwrap().metadata().unwrap().len();
            }
        }
        assert_eq!((files, bytes), (100, 2_618_880));
        assert_eq!(fs::metadata(place.path().join("CLASS_128K/9.html")).unwrap().len(), 131_072);
    }

    #[test]
    fn a_damaged_file_is_made_whole_and_a_whole_one_is_left_alone() {
        let suite = Suite::find("webbench-1.1-static").unwrap();
        let place = tempfile::tempdir().unwrap();
        write(&suite, place.path()).unwrap();
        let damaged = place.path().join("CLASS_4K/3.html");
        let whole = place.path().join("CLASS_4K/4.html");
        let (before, inode) = (fs::read(&damaged).unwrap(), fs::metadata(&whole).unwrap().ino());
        fs::write(&damaged, vec![b'x'; 4096]).unwrap();
        fs::remove_file(place.path().join("CLASS_1K/0.html")).unwrap();
        write(&suite, place.path()).unwrap();
        assert_eq!(fs::read(&damaged).unwrap(), before);
        assert_eq!(fs::metadata(place.path().join("CLASS_1K/0.html")).unwrap().len(), 1024);
        assert_eq!(fs::metadata(&whole).unwrap().ino(), inode);
    }

    #[test]
    fn a_suite_without_files_has_a_root() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("tree");
        write(&Suite::find("api-json").unwrap(), &root).unwrap();
        assert_eq!(fs::read_dir(root).unwrap().count(), 0);
    }

    #[test]
    fn trees_that_differ_have_names_that_differ() {
        let suite = Suite::find("webbench-1.1-static").unwrap();
        let mut other = suite.clone();
        other.parts[0].workload.classes[3].content = Content::Files {
            directory: "CLASS_2K".to_string(),
            sizes: vec![2049; 10],
            suffix: ".html".to_string(),
        };
        assert_ne!(directory_name(&suite), directory_name(&other));
        let spice = Suite::find("spice").unwrap();
        assert_ne!(directory_name(&spice), directory_name(&Suite::find("spice-cgi").unwrap()));
    }

    #[test]
    fn the_tree_of_interfaces_holds_their_file_and_their_page_and_no_program() {
        let suite = Suite::find("spice").unwrap();
        let place = tempfile::tempdir().unwrap();
        write(&suite, place.path()).unwrap();
        let path = |name: &str| place.path().join("spice").join(name);
        assert_eq!(fs::metadata(path("static.html")).unwrap().len(), 6250);
        let page = fs::read(path("spice.shtml")).unwrap();
        assert!(page.windows(DIRECTIVE.len()).any(|window| window == DIRECTIVE));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        let workload = &suite.parts[0].workload;
        let expected = expected(workload, 0, &workload.classes[0], 0);
        assert_eq!(expected, ExpectedAnswer::Bytes(fs::read(path("static.html")).unwrap()));
    }
}
