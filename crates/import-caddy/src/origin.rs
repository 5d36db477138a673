//! Addresses of origins, and times.

/// `localhost:3000`, `https://host`, `unix//run/app.sock`, `h2c://host:port`, `:8080`
///
/// # Errors
/// The address has no counterpart.
pub fn origin(upstream: &str, is_tls: bool) -> Result<String, String> {
    if upstream.contains('{') {
        return Err("an origin is an address without placeholders".to_string());
    }
    if let Some(socket) = upstream.strip_prefix("unix/") {
        return Ok(format!("unix:{socket}"));
    }
    if upstream.contains("://") {
        return Ok(upstream.replace("h2c://", "http://").trim_end_matches('/').to_string());
    }
    if upstream.contains('/') {
        return Err("an origin is an address with a port, and has no path in Caddy".to_string());
    }
    if upstream.rsplit(':').next().is_some_and(|ports| ports.contains('-')) {
        return Err("list each port separately".to_string());
    }
    let is_port = upstream.strip_prefix(':').is_some();
    let host = if is_port { format!("127.0.0.1{upstream}") } else { upstream.to_string() };
    let host = if host.contains(':') { host } else { format!("{host}:{}", if is_tls { 443 } else { 80 }) };
    Ok(format!("{}://{host}", if is_tls { "https" } else { "http" }))
}

/// `5s`, `1m30s`, `500ms` as a duration with one unit.
pub fn duration(text: &str) -> Option<String> {
    let mut milliseconds = 0u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        rest = &rest[letters..];
        milliseconds = milliseconds.checked_add(number.checked_mul(unit)?)?;
    }
    match milliseconds {
        0 => None,
        whole if whole.is_multiple_of(1_000) => Some(format!("{}s", whole / 1_000)),
        part => Some(format!("{part}ms")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_origins() {
        for (text, is_tls, expected) in [
            ("localhost:3000", false, "http://localhost:3000"),
            (":3000", false, "http://127.0.0.1:3000"),
            ("unix//run/app.sock", false, "unix:/run/app.sock"),
            ("https://a.org", false, "https://a.org"),
            ("a.org", true, "https://a.org:443"),
            ("h2c://a:1", false, "http://a:1"),
        ] {
            assert_eq!(origin(text, is_tls).unwrap(), expected);
        }
        assert!(origin("{upstream}", false).is_err() && origin("a:1-3", false).is_err());
    }

    #[test]
    fn times_have_one_unit() {
        assert_eq!(duration("1m30s").as_deref(), Some("90s"));
        assert_eq!(duration("250ms").as_deref(), Some("250ms"));
        assert!(duration("x").is_none() && duration("0s").is_none());
    }
}
