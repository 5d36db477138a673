//! A component that does with its imports what the path asks for: files, environment, configuration, keys and
//! their values, output, time. What fails is a 502 with the reason.

use std::fs;

use bindings::wasi::config::store as config;
use bindings::wasi::keyvalue::store::{self, Bucket, Error};
use bindings::wasi::keyvalue::{atomics, batch};
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::http::types::{Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam};

#[allow(warnings, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "imports", generate_all });
}

wasip2::http::proxy::export!(Imports);

struct Imports;

impl wasip2::exports::http::incoming_handler::Guest for Imports {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let path = request.path_with_query().unwrap_or_default();
        let (status, text) = match act(&path) {
            Ok(text) => (200, text),
            Err(reason) => (502, reason),
        };
        let response = OutgoingResponse::new(Fields::new());
        let (Ok(()), Ok(body)) = (response.set_status_code(status), response.body()) else { return };
        ResponseOutparam::set(out, Ok(response));
        let Ok(stream) = body.write() else { return };
        for piece in text.as_bytes().chunks(4096) {
            let _ = stream.blocking_write_and_flush(piece);
        }
        drop(stream);
        let _ = OutgoingBody::finish(body, None);
    }
}

fn act(path: &str) -> Result<String, String> {
    let (what, rest) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
    match what {
        "environment" => Ok(std::env::vars().map(|(name, value)| format!("{name}={value}\n")).collect()),
        "config" => Ok(config::get(rest).map_err(text)?.unwrap_or_default()),
        "read" => fs::read_to_string(format!("/{rest}")).map_err(text),
        "list" => {
            let names = fs::read_dir(format!("/{rest}")).map_err(text)?;
            Ok(names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned() + "\n").collect())
        }
        "write" => fs::write(format!("/{rest}"), "written").map(|()| String::new()).map_err(text),
        "remove" => fs::remove_file(format!("/{rest}")).map(|()| String::new()).map_err(text),
        "print" => {
            (0..rest.parse::<usize>().map_err(text)?).for_each(|_| println!("{}", "x".repeat(99)));
            Ok(String::new())
        }
        "wait" => {
            subscribe_duration(rest.parse::<u64>().map_err(text)? * 1_000_000).block();
            Ok("waited".to_string())
        }
        _ => keys(what, rest),
    }
}

fn keys(what: &str, rest: &str) -> Result<String, String> {
    let words: Vec<&str> = rest.split('/').collect();
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let number = |at: usize| word(at).parse::<usize>().map_err(text);
    let bucket: Bucket = store::open(word(0)).map_err(name)?;
    let key = word(1);
    match what {
        "get" => Ok(bucket.get(key).map_err(name)?.map_or("none".to_string(), lossy)),
        "set" => bucket.set(key, word(2).as_bytes()).map(|()| String::new()).map_err(name),
        "set-long" => bucket.set(key, &vec![b'v'; number(2)?]).map(|()| String::new()).map_err(name),
        "delete" => bucket.delete(key).map(|()| String::new()).map_err(name),
        "exists" => bucket.exists(key).map(|found| found.to_string()).map_err(name),
        "increment" => {
            atomics::increment(&bucket, key, number(2)? as u64).map(|value| value.to_string()).map_err(name)
        }
        "keys" => {
            let (mut all, mut cursor, mut calls) = (0, None, 0);
            loop {
                let answer = bucket.list_keys(cursor).map_err(name)?;
                all += answer.keys.len();
                calls += 1;
                cursor = answer.cursor;
                if cursor.is_none() {
                    return Ok(format!("{all} keys in {calls} calls"));
                }
            }
        }
        "fill" => {
            let pairs: Vec<_> = (0..number(1)?).map(|at| (format!("key{at}"), vec![b'v'; 10])).collect();
            batch::set_many(&bucket, &pairs).map(|()| String::new()).map_err(name)
        }
        "get-many" => {
            let names: Vec<String> = words[1..].iter().map(|word| word.to_string()).collect();
            let found = batch::get_many(&bucket, &names).map_err(name)?;
            let word =
                |pair: Option<(String, Vec<u8>)>| pair.map_or("none".to_string(), |(_, value)| lossy(value));
            Ok(found.into_iter().map(word).collect::<Vec<_>>().join(" "))
        }
        "delete-many" => {
            let names: Vec<String> = words[1..].iter().map(|word| word.to_string()).collect();
            batch::delete_many(&bucket, &names).map(|()| String::new()).map_err(name)
        }
        _ => Err(format!("there is nothing like {what}")),
    }
}

fn name(error: Error) -> String {
    match error {
        Error::NoSuchStore => "no such store".to_string(),
        Error::AccessDenied => "access denied".to_string(),
        Error::Other(reason) => reason,
    }
}

fn text(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}
