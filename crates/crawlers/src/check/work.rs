//! The proof of work: an answer is a number so that the SHA-256 of task, colon and number begins with many
//! zero bits. Finding one takes 2^difficulty attempts on average, and checking it takes one.

use aws_lc_rs::digest::{Context, SHA256};

/// The longest answer: the digits of 2^53, to which scripts count exactly.
const LONGEST_ANSWER: usize = 16;

/// Whether an answer is one to a task.
pub fn is_answer(task: &str, answer: &str, difficulty: u8) -> bool {
    let is_number = !answer.is_empty()
        && answer.len() <= LONGEST_ANSWER
        && answer.bytes().all(|byte| byte.is_ascii_digit())
        && (answer == "0" || !answer.starts_with('0'));
    is_number && zero_bits(task, answer) >= u32::from(difficulty)
}

fn zero_bits(task: &str, answer: &str) -> u32 {
    let mut hash = Context::new(&SHA256);
    for part in [task, ":", answer] {
        hash.update(part.as_bytes());
    }
    let mut bits = 0;
    for byte in hash.finish().as_ref() {
        bits += byte.leading_zeros();
        if *byte != 0 {
            break;
        }
    }
    bits
}

/// The first answer to a task.
#[cfg(test)]
fn first_answer(task: &str, difficulty: u8) -> String {
    let answers = (0u64..).map(|number| number.to_string());
    answers.into_iter().find(|answer| is_answer(task, answer, difficulty)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_with_enough_zero_bits_are_answers() {
        let answer = first_answer("task", 10);
        assert!(is_answer("task", &answer, 10) && is_answer("task", &answer, 1));
        assert!(!is_answer("other task", &answer, 10));
        assert!(!is_answer("task", &answer, 60));
        for bad in ["", "01", "-1", "1.0", "1e3", "12345678901234567", "x", " 1"] {
            assert!(!is_answer("task", bad, 0), "{bad}");
        }
        assert_eq!(zero_bits("a", "1"), {
            let digest = aws_lc_rs::digest::digest(&SHA256, b"a:1");
            u32::from_be_bytes(digest.as_ref()[..4].try_into().unwrap()).leading_zeros()
        });
    }
}
