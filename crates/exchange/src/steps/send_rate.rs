//! Sends the body of an answer no faster than `limit_rate` of its site or route.
//!
//! The body goes through a pipe that accepts a piece when its time is reached. It is the same for all
//! protocols. After `n` bytes beyond `limit_rate_after`, at least `n / limit_rate` seconds have passed.

use std::time::{Duration, Instant};

use bytes::Bytes;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::pipe::{Sender, pipe};
use touchstone_sites::delivery::SendRate;
use touchstone_sites::pieces::Pieces;

/// How often in a second a piece is sent.
const PIECES_PER_SECOND: u64 = 10;

/// The shortest piece, so that a low rate does not cost a wake-up for each byte.
const LEAST_PIECE_BYTES: u64 = 256;

/// The longest one.
const MOST_PIECE_BYTES: u64 = 64 * 1024;

/// Has a body sent at this rate.
pub fn limit(mut answer: Answer, rate: SendRate) -> Answer {
    let length = answer.body_length();
    let is_short = length.is_some_and(|length| length <= rate.after_bytes);
    if is_short || answer.switches_protocols() || answer.body.is_empty() {
        return answer;
    }
    let pieces = Pieces::of(std::mem::take(&mut answer.body));
    let (sender, receiver) = pipe(1);
    tokio::task::spawn_local(send(pieces, sender, rate));
    answer.part(BodyPart::Stream { body: receiver, length })
}

async fn send(mut pieces: Pieces, mut sender: Sender, rate: SendRate) {
    let began = Instant::now();
    let most = (rate.bytes_per_second / PIECES_PER_SECOND).clamp(LEAST_PIECE_BYTES, MOST_PIECE_BYTES);
    let mut sent_bytes = 0;
    loop {
        let next = tokio::select! {
            next = pieces.next() => next,
            () = sender.gone() => return,
        };
        let mut piece = match next {
            Some(Ok(piece)) => piece,
            Some(Err(error)) => return sender.fail(error),
            None => return sender.finish_with_trailers(pieces.take_trailers()),
        };
        while !piece.is_empty() {
            let part = next_part(&mut piece, most);
            if let Some(wait) = due(rate, sent_bytes).checked_sub(began.elapsed()) {
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = sender.gone() => return,
                }
            }
            sent_bytes += part.len() as u64;
            if sender.send(part).await.is_err() {
                return;
            }
        }
    }
}

fn next_part(piece: &mut Bytes, most: u64) -> Bytes {
    let length = piece.len().min(usize::try_from(most).unwrap_or(usize::MAX));
    piece.split_to(length)
}

/// The time from which more may be sent, after this many bytes.
fn due(rate: SendRate, sent_bytes: u64) -> Duration {
    let limited = sent_bytes.saturating_sub(rate.after_bytes);
    let nanoseconds = u128::from(limited) * 1_000_000_000 / u128::from(rate.bytes_per_second.max(1));
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_byte() {
        let rate = SendRate { bytes_per_second: 1_000, after_bytes: 500 };
        assert_eq!(due(rate, 500), Duration::ZERO);
        assert_eq!(due(rate, 1_500), Duration::from_secs(1));
        assert_eq!(
            due(SendRate { bytes_per_second: 1, after_bytes: 0 }, u64::MAX),
            Duration::from_nanos(u64::MAX)
        );
    }

    #[test]
    fn a_short_body_is_not_delayed() {
        let rate = SendRate { bytes_per_second: 1, after_bytes: 4 };
        let answer = limit(Answer::new(200).part(BodyPart::Bytes("1234".into())), rate);
        assert!(!answer.streams());
        assert!(!limit(Answer::new(204), SendRate { after_bytes: 0, ..rate }).streams());
    }
}
