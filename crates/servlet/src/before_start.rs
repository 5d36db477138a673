//! Checks the settings of Java and of applications as far as possible without a start of Java.

use std::ffi::OsStr;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use crate::engine;
use crate::jvm::find;
use crate::settings::{JavaSettings, RouteSettings};

/// The errors in values of `[java]`, with their keys.
pub fn problems_of_java(settings: &JavaSettings) -> Vec<(&'static str, String)> {
    let home = settings.home.as_deref().and_then(|home| find::find(Some(home)).err());
    let library = settings.jar_directory.as_ref().and_then(|_| engine::jars(settings).err());
    home.map(|message| ("home", message))
        .into_iter()
        .chain(library.map(|message| ("library", message)))
        .collect()
}

/// The archives of a route that cannot be unpacked, each with the reason. Other applications of the route run
/// without them.
pub fn broken_archives(settings: &RouteSettings) -> Vec<(PathBuf, String)> {
    let mut archives: Vec<PathBuf> = settings.app.iter().cloned().collect();
    let below = settings.directory.as_ref().and_then(|directory| std::fs::read_dir(directory).ok());
    let is_war = |path: &PathBuf| {
        path.extension().is_some_and(|extension: &OsStr| extension.eq_ignore_ascii_case("war"))
    };
    archives.extend(below.into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_war));
    archives.sort();
    archives.retain(|archive| archive.is_file());
    let broken = |archive: PathBuf| check_archive(&archive).err().map(|reason| (archive, reason));
    archives.into_iter().filter_map(broken).collect()
}

/// Reads the directory of an archive, and the beginning of each entry.
fn check_archive(path: &Path) -> Result<(), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut archive = ZipArchive::new(BufReader::new(file))
        .map_err(|error| format!("it is not a complete archive ({error}): was it copied completely?"))?;
    for position in 0..archive.len() {
        let problem = archive.by_index_raw(position).err().map(|error| error.to_string());
        if let Some(problem) = problem {
            let name = archive.name_for_index(position).and_then(Result::ok).unwrap_or_default();
            return Err(format!("its entry {name} cannot be read ({problem})"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    fn archive() -> Vec<u8> {
        let mut writer = ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        for name in ["index.jsp", "WEB-INF/web.xml"] {
            writer.start_file(name, options).unwrap();
            writer.write_all(b"some content").unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn check(bytes: &[u8]) -> Result<(), String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        check_archive(file.path())
    }

    #[test]
    fn archives_that_were_cut_or_changed_are_told_from_whole_ones() {
        let whole = archive();
        assert_eq!(check(&whole), Ok(()));
        for bytes in [&b""[..], b"no archive", &whole[..whole.len() / 2], &whole[..whole.len() - 10]] {
            assert!(check(bytes).unwrap_err().contains("it is not a complete archive"));
        }
        let mut changed = whole.clone();
        changed[..4].copy_from_slice(b"gone");
        assert!(check(&changed).unwrap_err().contains("its entry index.jsp cannot be read"));
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_file_holds_is_judged(at in 0usize..200, byte: u8, cut in 0usize..200) {
            let mut bytes = archive();
            let position = at % bytes.len();
            bytes[position] = byte;
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            let _ = check(&bytes);
        }
    }
}
