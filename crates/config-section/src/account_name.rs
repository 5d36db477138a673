//! The texts that can name a user or group, checked without a query of a database.

/// Whether a text can be the name or number of a user or group; empty: none is named. Databases other than
/// files allow nearly every name, so only names that no database has are refused.
pub fn check_name(text: &str) -> Result<(), String> {
    let is_odd =
        |character: char| character.is_control() || character.is_whitespace() || ":/,".contains(character);
    match text.len() > 255 || text.contains(is_odd) || text.starts_with(['-', '+']) {
        true => Err(format!("{text:?} is neither the name nor the number of a user or group")),
        false => Ok(()),
    }
}
