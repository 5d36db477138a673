//! Commands as a POSIX shell reads them: for a reader who repeats one, and for ssh, which passes its
//! arguments to a shell.

/// The words of a command, each quoted where it must be.
pub fn line(words: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    words.into_iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn commands_are_quoted_for_a_shell() {
        let words = ["touchstone", "bench", "it's", "a b", "", "$(x)"];
        assert_eq!(line(words), r"touchstone bench 'it'\''s' 'a b' '' '$(x)'");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn a_shell_reads_the_words_that_were_written(words in prop::collection::vec("[ -~\n]{0,12}", 1..4)) {
            let script = format!("printf '%s\\0' {}", line(&words));
            let printed = std::process::Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
            let expected: String = words.iter().map(|word| format!("{word}\0")).collect();
            prop_assert_eq!(String::from_utf8(printed.stdout).unwrap(), expected);
        }
    }
}
