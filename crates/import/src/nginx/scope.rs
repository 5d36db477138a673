//! Scopes: the directive that applies at a place is that of the innermost block that has one of its name.

use crate::directive::Directive;

/// A block, and the blocks around it.
#[derive(Debug, Clone)]
pub struct Scope<'d> {
    /// From the outermost to the innermost.
    blocks: Vec<&'d [Directive]>,
}

impl<'d> Scope<'d> {
    /// The scope of the outermost block.
    pub fn new(block: &'d [Directive]) -> Scope<'d> {
        Scope { blocks: vec![block] }
    }

    /// The scope of a block nested in this one.
    pub fn within(&self, block: &'d [Directive]) -> Scope<'d> {
        let mut blocks = self.blocks.clone();
        blocks.push(block);
        Scope { blocks }
    }

    /// The directives of the innermost block that has any of this name.
    pub fn all(&self, name: &str) -> Vec<&'d Directive> {
        let of = |block: &&'d [Directive]| -> Vec<&'d Directive> {
            block.iter().filter(|directive| directive.name == name).collect()
        };
        self.blocks.iter().rev().map(of).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The last of these, which is the one that applies.
    pub fn one(&self, name: &str) -> Option<&'d Directive> {
        self.all(name).pop()
    }
}
