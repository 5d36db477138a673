//! `AuthType openid-connect` of mod_auth_openidc as `login`.

use super::area::Area;
use touchstone_import_base::account::Account;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// Writes the login of an area; the error states what is missing.
pub fn login(
    area: &Area<'_>,
    claims: &[String],
    header: &str,
    route: &mut Section,
    account: &mut Account,
) -> Result<(), String> {
    const METADATA: &str = "/.well-known/openid-configuration";
    let url = area.one("OIDCProviderMetadataURL").ok_or(
        "name the provider: 'issuer' of 'login' (docs/login.md); until it is there, all are refused",
    )?;
    let issuer = url
        .argument(0)
        .strip_suffix(METADATA)
        .ok_or(format!("'issuer' is the address before {METADATA}; until it is there, all are refused"))?;
    let client =
        area.one("OIDCClientID").ok_or("'OIDCClientID' is missing; until it is there, all are refused")?;
    let mut table = Section::new(header);
    account.translated(url, &mut table);
    account.translated(client, &mut table);
    table.key("issuer", toml_string(issuer));
    table.key("client_id", toml_string(client.argument(0)));
    if let Some(secret) = area.one("OIDCClientSecret") {
        // The secret itself is not written into the configuration or its comments.
        let hidden = touchstone_import_base::directive::Directive {
            arguments: vec!["...".to_string()],
            ..secret.clone()
        };
        account.translated(&hidden, &mut table);
        table.note("Write the secret into this file, which only the server's user may read.");
        table.key("client_secret_file", toml_string("oidc.secret"));
    }
    if let Some(passphrase) = area.one("OIDCCryptoPassphrase") {
        let hidden = touchstone_import_base::directive::Directive {
            arguments: vec!["...".to_string()],
            ..passphrase.clone()
        };
        account.unneeded(&hidden, &mut table, "cookies are sealed with keys of this server: see 'key_file'");
    }
    if let Some(redirect) = area.one("OIDCRedirectURI") {
        account.translated(redirect, &mut table);
        table.key("callback", toml_string(path_of(redirect.argument(0))));
    }
    if let Some(scope) = area.one("OIDCScope") {
        account.translated(scope, &mut table);
        table.key("scopes", toml_strings(scope.arguments.iter().flat_map(|text| text.split_whitespace())));
    }
    match area.one("OIDCRemoteUserClaim") {
        Some(claim) if claim.arguments.len() == 1 => {
            account.translated(claim, &mut table);
            table.key("user", toml_string(claim.argument(0).trim_end_matches('@')));
        }
        Some(claim) => account.problem(claim, &mut table, "'user' of 'login' is a claim as it is"),
        None => {}
    }
    for (name, key) in [("OIDCSessionInactivityTimeout", "idle"), ("OIDCSessionMaxDuration", "lifetime")] {
        let Some(time) = area.one(name) else { continue };
        match time.argument(0).parse::<u64>() {
            Ok(seconds @ 1..=7_776_000) => {
                account.translated(time, &mut table);
                table.key(key, toml_string(&format!("{seconds}s")));
            }
            _ => account.problem(time, &mut table, &format!("'{key}' is a time from a second to 90 days")),
        }
    }
    if !claims.is_empty() {
        table.key("claims", toml_strings(claims));
    }
    table.note("Apache passes each claim on as OIDC_CLAIM_...; add those that the application reads.");
    for claim in ["sub", "email", "name", "preferred_username"] {
        table.entry("fields", &format!("OIDC_CLAIM_{claim}"), toml_string(claim));
    }
    route.push(table);
    Ok(())
}

fn path_of(address: &str) -> &str {
    let behind = address.split_once("://").map_or(address, |(_, behind)| behind);
    match behind.find('/') {
        Some(at) => &behind[at..],
        None => "/",
    }
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    #[test]
    fn a_login_of_one_location() {
        let imported = translate(
            &parse(
                "a.conf",
                "<VirtualHost *:80>\nServerName www.example.org\nDocumentRoot /srv\n\
                 OIDCProviderMetadataURL https://id.example.org/realms/a/.well-known/openid-configuration\n\
                 OIDCClientID www\nOIDCClientSecret hush\n\
                 OIDCRedirectURI https://www.example.org/secure/back\n\
                 OIDCCryptoPassphrase quiet\nOIDCScope \"openid email\"\nOIDCRemoteUserClaim email\n\
                 OIDCSessionInactivityTimeout 600\n\
                 <Location /secure>\nAuthType openid-connect\nRequire claim groups:admins\n</Location>\n\
                 </VirtualHost>\n",
            )
            .unwrap(),
        );
        assert!(imported.problems.is_empty(), "{:?}", imported.problems);
        for line in [
            "[site.route.login]",
            "issuer = \"https://id.example.org/realms/a\"",
            "client_id = \"www\"",
            "callback = \"/secure/back\"",
            "scopes = [\"openid\", \"email\"]",
            "user = \"email\"",
            "idle = \"600s\"",
            "claims = [\"groups=admins\"]",
        ] {
            assert!(imported.text.lines().any(|written| written == line), "{line}\n{}", imported.text);
        }
        assert!(!imported.text.contains("hush") && !imported.text.contains("quiet"), "{}", imported.text);
    }

    #[test]
    fn without_a_provider_all_are_refused() {
        let imported = translate(
            &parse(
                "a.conf",
                "DocumentRoot /srv\n<Location /a>\nAuthType openid-connect\nRequire valid-user\n\
                 </Location>\n",
            )
            .unwrap(),
        );
        assert_eq!(imported.problems.len(), 1, "{:?}", imported.problems);
        let route = imported.text.split("path = \"/a/\"").nth(1).unwrap_or_default();
        let route = route.split("[[site.route]]").next().unwrap_or_default();
        assert!(route.contains("\nrespond = { status = 403 }\n"), "{}", imported.text);
    }
}
