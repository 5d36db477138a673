//! The parsers of others, one process each: targets in, one a line in hexadecimal digits; decoded paths out
//! in the same
//! way. A line `-` says that the parser refuses the target.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::skipped;

const NODE: &str = r#"
for (const line of require('fs').readFileSync(0, 'utf8').trimEnd().split('\n')) {
  let out = '-';
  try {
    const url = new URL(Buffer.from(line, 'hex').toString('latin1'), 'http://h');
    const path = url.host === 'h' ? url.pathname : '/admin/of-another-host';
    try { out = Buffer.from(decodeURIComponent(path)).toString('hex'); }
    catch { out = Buffer.from(path).toString('hex'); }
  } catch { }
  console.log(out);
}"#;

const PYTHON: &str = r#"
import sys
from urllib.parse import urlsplit, unquote_to_bytes
for line in sys.stdin:
    target = bytes.fromhex(line.strip())
    try:
        split = urlsplit(target)
        path = b'/admin/of-another-host' if split.netloc else unquote_to_bytes(split.path)
        print(path.hex())
    except ValueError:
        print('-')
"#;

const PHP: &str = r#"
while (($line = fgets(STDIN)) !== false) {
    $parts = parse_url(hex2bin(trim($line)));
    if ($parts === false) { echo "-\n"; continue; }
    $path = isset($parts['host']) ? '/admin/of-another-host' : rawurldecode($parts['path'] ?? '/');
    echo bin2hex($path), "\n";
}"#;

const GO: &str = r#"package main
import ("bufio"; "encoding/hex"; "fmt"; "net/url"; "os")
func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		target, _ := hex.DecodeString(lines.Text())
		parsed, err := url.ParseRequestURI(string(target))
		switch {
		case err != nil: fmt.Println("-")
		case parsed.Host != "": fmt.Println(hex.EncodeToString([]byte("/admin/of-another-host")))
		default: fmt.Println(hex.EncodeToString([]byte(parsed.Path)))
		}
	}
}
"#;

const JAVA: &str = r#"
import java.io.*; import java.net.URI; import java.nio.charset.StandardCharsets; import java.util.HexFormat;
public class Reader {
  public static void main(String[] none) throws IOException {
    var lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = lines.readLine()) != null;) {
      String out = "-";
      try {
        var uri = new URI(new String(HexFormat.of().parseHex(line), StandardCharsets.ISO_8859_1)).normalize();
        var path = uri.getHost() == null ? uri.getPath() : "/admin/of-another-host";
        out = HexFormat.of().formatHex(path.getBytes(StandardCharsets.UTF_8));
      } catch (Exception refused) { }
      System.out.println(out);
    }
  }
}"#;

/// What each parser that is installed reads of the targets; `None` where it refuses one.
pub(crate) fn all(targets: &[Vec<u8>]) -> Vec<(&'static str, Vec<Option<Vec<u8>>>)> {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let file = |name: &str, text: &str| {
        std::fs::write(here.join(name), text).unwrap();
        here.join(name).display().to_string()
    };
    let (go, java) = (file("reader.go", GO), file("Reader.java", JAVA));
    let programs: [(&str, &str, Vec<&str>); 5] = [
        ("node", "nodejs", vec!["-e", NODE]),
        ("python3", "python3", vec!["-c", PYTHON]),
        ("php", "php-cli", vec!["-r", PHP]),
        ("go", "golang-go", vec!["run", &go]),
        ("java", "default-jdk-headless", vec![&java]),
    ];
    let mut read = Vec::new();
    let own = targets.iter().map(|target| {
        let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
        Some(decoded(path))
    });
    read.push(("a plain decoder", own.collect()));
    for (program, package, arguments) in programs {
        match run(program, &arguments, here, targets) {
            Some(paths) => read.push((program, paths)),
            None => skipped(&format!("paths as {program} reads them (install {package})")),
        }
    }
    read
}

fn run(
    program: &str,
    arguments: &[&str],
    directory: &Path,
    targets: &[Vec<u8>],
) -> Option<Vec<Option<Vec<u8>>>> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command.env("GOCACHE", directory.join("go")).env("GO111MODULE", "off");
    let mut child = command.spawn().ok()?;
    let mut input = child.stdin.take().unwrap();
    let text: String = targets.iter().map(|target| hexadecimal(target) + "\n").collect();
    let writing = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert!(output.status.success(), "{program}: {}", output.status);
    let lines = String::from_utf8(output.stdout).unwrap();
    let paths: Vec<_> = lines.lines().map(|line| (line != "-").then(|| from_hexadecimal(line))).collect();
    assert_eq!(paths.len(), targets.len(), "{program}");
    Some(paths)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_hexadecimal(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn decoded(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = path;
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| byte == b'%') {
            Some(escaped) => {
                out.push(escaped);
                rest = &behind[2..];
            }
            None => {
                out.push(byte);
                rest = behind;
            }
        }
    }
    out
}

/// What programs make of a decoded path: with or without the backslash as a slash, path parameters, and what
/// some drop.
pub(crate) fn readings(path: Option<&[u8]>) -> Vec<String> {
    let Some(path) = path else { return Vec::new() };
    let path = String::from_utf8_lossy(path).into_owned();
    let dropped = path.replace(['\t', '\n', '\r'], "");
    let texts = [path.replace('\\', "/"), dropped.replace('\\', "/"), path, dropped];
    let without_parameters = |text: &String| {
        let names: Vec<&str> =
            text.split('/').map(|segment| segment.split(';').next().unwrap_or_default()).collect();
        names.join("/")
    };
    texts
        .iter()
        .flat_map(|text| [text.clone(), without_parameters(text)])
        .map(|text| resolved(&text))
        .collect()
}

/// What a servlet container makes of a target: it cuts parameters off, and then decodes (Servlet
/// specification section 3.5).
pub(crate) fn readings_of_container(target: &[u8]) -> Vec<String> {
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    let names = path
        .split(|&byte| byte == b'/')
        .map(|segment| decoded(segment.split(|&byte| byte == b';').next().unwrap_or_default()));
    let path = String::from_utf8_lossy(&names.collect::<Vec<_>>().join(&b'/')).into_owned();
    [path.replace('\\', "/"), path].iter().map(|path| resolved(path)).collect()
}

/// Without dot segments and empty ones; no path is above the root.
fn resolved(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            name => segments.push(name),
        }
    }
    let slash = if path.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    format!("/{}{slash}", segments.join("/"))
}
