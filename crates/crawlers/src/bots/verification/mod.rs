//! From a request to the identity of its bot.

use std::sync::Arc;

use super::agent::Agent;
use super::directories::Directories;
use super::directory::Directory;
use super::nonces::{Nonces, Use};
use super::verified;
use crate::signature::{self, Message, Problem, Signature, VerificationKey};

/// What signatures of bots are for.
pub const TAG: &str = "web-bot-auth";

/// How far clocks may differ in seconds.
const LEEWAY_S: u64 = 30;

/// The most signatures of bots on a request that are verified.
const MOST_VERIFIED: usize = 4;

/// A bot that the configuration names.
pub struct NamedBot {
    /// Its name.
    pub name: Arc<str>,
    /// Where its keys are.
    pub keys: BotKeys,
}

/// Where the keys of a bot are.
pub enum BotKeys {
    /// At the address that its requests name.
    Agent(Agent),
    /// In a file of the operator, whatever its requests name.
    File(Arc<Directory>),
}

/// What is required of signatures, and the bots that make them.
pub struct Verifier {
    /// The bots that the configuration names.
    pub bots: Vec<NamedBot>,
    /// The directories of bots.
    pub directories: Arc<Directories>,
    /// The nonces that were used.
    pub nonces: Arc<Nonces>,
    /// The longest life of a signature in seconds.
    pub longest_s: u64,
    /// A signature must have a nonce.
    pub needs_nonce: bool,
    /// Bots that are not named are verified too.
    pub accepts_others: bool,
}

/// The identity of the bot of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The request has no signature of a bot.
    Unsigned,
    /// A signature is right, and is this bot's.
    Verified(VerifiedBot),
    /// A signature is wrong.
    Invalid(&'static str),
    /// It cannot be determined whether a signature is valid, or whose it is.
    Unverified(&'static str),
    /// The fields cannot be read.
    Malformed(&'static str),
}

/// A bot whose signature is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedBot {
    /// Its position among those of the configuration; `None`: another one.
    pub known: Option<usize>,
    /// Its name: that of the configuration, or the host of its directory.
    pub name: Arc<str>,
}

/// A request may have its signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureContext {
    /// The seconds of Unix time.
    pub now_s: u64,
    /// No other machine in between can read or copy a signature.
    pub is_private: bool,
}

impl Verifier {
    /// Determines the bot of a request. Waits only for a directory that is not stored.
    pub async fn verify(&self, message: &Message<'_>, context: SignatureContext) -> Outcome {
        let signatures = match signature::read(message) {
            Ok(signatures) => signatures,
            Err(Problem::Malformed(reason) | Problem::Component(reason)) => {
                return Outcome::Malformed(reason);
            }
            Err(_) => return Outcome::Malformed("the signature cannot be read"),
        };
        let mut worst = Outcome::Unsigned;
        let of_bots = signatures.iter().filter(|signature| signature.tag.as_deref() == Some(TAG));
        for signature in of_bots.take(MOST_VERIFIED) {
            match self.verify_one(message, signature, context).await {
                verified @ Outcome::Verified(_) => return verified,
                invalid @ Outcome::Invalid(_) => worst = invalid,
                other if worst == Outcome::Unsigned => worst = other,
                _ => {}
            }
        }
        worst
    }

    async fn verify_one(
        &self,
        message: &Message<'_>,
        signature: &Signature,
        context: SignatureContext,
    ) -> Outcome {
        let now_s = context.now_s;
        let expires = match self.check_parameters(signature, now_s) {
            Ok(expires) => expires,
            Err(reason) => return Outcome::Invalid(reason),
        };
        if !context.is_private {
            return Outcome::Unverified(
                "the request arrived without TLS, so that others may have the signature",
            );
        }
        let thumbprint = signature.key_id.as_deref().unwrap_or_default();
        let (bot, directory) = match self.source(message, signature, thumbprint).await {
            Ok(found) => found,
            Err(reason) => return Outcome::Unverified(reason),
        };
        let Some(key) = directory.key(thumbprint) else {
            return Outcome::Unverified("the directory has no such key");
        };
        if !key.is_current(now_s) {
            return Outcome::Invalid("the key is not valid at this time");
        }
        match check_bytes(message, signature, key, (expires, now_s)) {
            Ok(()) => {}
            Err(Problem::Component(reason) | Problem::Malformed(reason)) => return Outcome::Invalid(reason),
            Err(Problem::Algorithm) => return Outcome::Invalid("the algorithm does not fit the key"),
            Err(Problem::Wrong) => return Outcome::Invalid("the signature is wrong"),
        }
        match signature.nonce.as_deref().map(|nonce| self.nonces.note(thumbprint, nonce, expires, now_s)) {
            None | Some(Use::First) => Outcome::Verified(bot),
            Some(Use::Again) => Outcome::Invalid("the nonce was used before"),
            Some(Use::Full) => Outcome::Unverified("too many nonces are in use"),
        }
    }

    /// Checks the parameters of a signature; returns when it expires.
    fn check_parameters(&self, signature: &Signature, now_s: u64) -> Result<u64, &'static str> {
        let created = signature.created.ok_or("the signature has no time of its creation")?;
        let expires = signature.expires.ok_or("the signature has no time of its expiry")?;
        if signature.key_id.is_none() {
            return Err("the signature does not name its key");
        }
        if created > now_s + LEEWAY_S {
            return Err("the signature was created in the future");
        }
        if expires <= now_s {
            return Err("the signature has ended");
        }
        if expires <= created || expires - created > self.longest_s {
            return Err("the life of the signature is too long");
        }
        if self.needs_nonce && signature.nonce.as_deref().is_none_or(str::is_empty) {
            return Err("the signature has no nonce");
        }
        let names_host =
            |name: &str| signature.components.iter().any(|component| component.of_field(name).is_some());
        if !names_host("@authority") && !names_host("@target-uri") {
            return Err("the signature does not cover the host");
        }
        Ok(expires)
    }

    /// The possible bot of a signature, and the keys of which one must have signed.
    async fn source(
        &self,
        message: &Message<'_>,
        signature: &Signature,
        thumbprint: &str,
    ) -> Result<(VerifiedBot, Arc<Directory>), &'static str> {
        let verified = |known: usize| VerifiedBot { known: Some(known), name: self.bots[known].name.clone() };
        for (position, bot) in self.bots.iter().enumerate() {
            if let BotKeys::File(directory) = &bot.keys
                && directory.key(thumbprint).is_some()
            {
                return Ok((verified(position), directory.clone()));
            }
        }
        let agent = Agent::of_signature(message, signature)?;
        let position = self.bots.iter().position(
            |bot| matches!(&bot.keys, BotKeys::Agent(known) if known.identifier == agent.identifier),
        );
        // What is fetched for a bot that is named is its configured address.
        let (bot, agent) = match position.map(|position| (position, &self.bots[position].keys)) {
            Some((position, BotKeys::Agent(known))) => (verified(position), known.clone()),
            _ if self.accepts_others && agent.has_usual_port() => {
                (VerifiedBot { known: None, name: agent.host().into() }, agent)
            }
            _ => return Err("the bot is not one of the configuration"),
        };
        Ok((bot, self.directories.with_key(&agent, thumbprint).await?))
    }
}

/// Verifies the bytes of a signature, or finds that they were verified before.
fn check_bytes(
    message: &Message<'_>,
    signature: &Signature,
    key: &VerificationKey,
    (expires, now_s): (u64, u64),
) -> Result<(), Problem> {
    let base = signature.base(message)?;
    // The algorithm is a part of what is signed; without one the key alone decides.
    let name = verified::name_of(&key.thumbprint, &base, &signature.bytes);
    if verified::contains(&name, now_s) {
        return Ok(());
    }
    key.verify(signature.algorithm.as_deref(), &base, &signature.bytes)?;
    // One with a nonce is not accepted again.
    if signature.nonce.is_none() {
        verified::note(name, expires, now_s);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
