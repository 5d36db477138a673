//! What the checks need to know of a Rust file: its functions, imports, modules, test code and lint
//! exceptions.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::tree::SourceFile;

/// What was found in one Rust file.
#[derive(Default)]
pub struct RustFile {
    /// The path from the top of the tree.
    pub path: String,
    /// The number of lines.
    pub lines: usize,
    /// How many of them are in items that only tests compile.
    pub test_lines: usize,
    /// Every function with its length.
    pub functions: Vec<Function>,
    /// Lines of `allow` and `expect` attributes without a reason.
    pub allows_without_reason: Vec<usize>,
    /// Paths that code outside the tests uses.
    pub imports: Vec<Import>,
    /// Names that `use` brings into a module, for others to import from there.
    pub names: Vec<Import>,
    /// Modules that only tests compile.
    pub test_modules: Vec<Vec<String>>,
}

/// A function of a file.
pub struct Function {
    /// Its name, without the type that it belongs to.
    pub name: String,
    /// From the line of `fn` to that of the closing brace.
    pub lines: usize,
}

/// A path that a module uses.
pub struct Import {
    /// The module below that of the file, when it is written inside `mod name { ... }`.
    pub inside: Vec<String>,
    /// The segments as they are written, `crate` and `super` included. `*` stands for a glob.
    pub path: Vec<String>,
    /// The name that the module knows it by.
    pub name: String,
    /// The line in the file.
    pub line: usize,
}

/// Reads a file.
pub fn read(file: &SourceFile) -> Result<RustFile, String> {
    let syntax = syn::parse_file(&file.text).map_err(|error| format!("{}: {error}", file.path))?;
    let found = RustFile { path: file.path.clone(), lines: file.text.lines().count(), ..RustFile::default() };
    let mut reader = Reader { found, inside: Vec::new(), in_tests: false };
    reader.visit_file(&syntax);
    Ok(reader.found)
}

struct Reader {
    found: RustFile,
    inside: Vec<String>,
    in_tests: bool,
}

impl Reader {
    /// Visits an item that stands behind these attributes; `visit` does not look at imports inside test code.
    fn item(&mut self, attributes: &[syn::Attribute], lines: usize, visit: impl FnOnce(&mut Self)) {
        let outer = self.in_tests;
        if !outer && attributes.iter().any(is_for_tests) {
            self.in_tests = true;
            self.found.test_lines += lines;
        }
        visit(self);
        self.in_tests = outer;
    }

    fn function(&mut self, name: &syn::Ident, signature: &syn::Signature, body: &syn::Block) {
        let lines = body.brace_token.span.close().end().line + 1 - signature.fn_token.span.start().line;
        self.found.functions.push(Function { name: name.to_string(), lines });
    }

    fn import(&mut self, path: Vec<String>, line: usize) {
        if !self.in_tests {
            let name = path.last().cloned().unwrap_or_default();
            self.found.imports.push(Import { inside: self.inside.clone(), path, name, line });
        }
    }

    fn use_tree(&mut self, before: &[String], tree: &syn::UseTree, line: usize) {
        let with = |name: &dyn ToString| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&with(&path.ident), &path.tree, line),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.use_tree(before, tree, line));
            }
            syn::UseTree::Glob(_) => self.import(with(&"*"), line),
            syn::UseTree::Name(name) if name.ident == "self" => self.used_name(before.to_vec(), None, line),
            syn::UseTree::Name(name) => self.used_name(with(&name.ident), None, line),
            syn::UseTree::Rename(rename) => {
                let path = if rename.ident == "self" { before.to_vec() } else { with(&rename.ident) };
                self.used_name(path, Some(rename.rename.to_string()), line);
            }
        }
    }

    fn used_name(&mut self, path: Vec<String>, renamed: Option<String>, line: usize) {
        let name = renamed.unwrap_or_else(|| path.last().cloned().unwrap_or_default());
        if !self.in_tests {
            self.found.names.push(Import { inside: self.inside.clone(), path: path.clone(), name, line });
        }
        self.import(path, line);
    }

    /// Paths in what is given to a macro, which is not parsed: `crate::name`, `super::name`.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(ident) if ident == "crate" || ident == "super" => {
                    let mut path = vec![ident.to_string()];
                    while let Some([TokenTree::Punct(a), TokenTree::Punct(b), TokenTree::Ident(next)]) =
                        tokens.get(at + 1..at + 4)
                        && a.as_char() == ':'
                        && b.as_char() == ':'
                    {
                        path.push(next.to_string());
                        at += 3;
                    }
                    self.import(path, ident.span().start().line);
                }
                _ => {}
            }
            at += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let lines = lines_of(item);
        self.item(attributes_of(item), lines, |it| visit::visit_item(it, item));
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let lines = lines_of(item);
        let attributes = match item {
            syn::ImplItem::Fn(function) => &function.attrs[..],
            _ => &[],
        };
        self.item(attributes, lines, |it| visit::visit_impl_item(it, item));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.inside.push(item.ident.to_string());
        if self.in_tests {
            self.found.test_modules.push(self.inside.clone());
        }
        visit::visit_item_mod(self, item);
        self.inside.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig.ident, &item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig.ident, &item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig.ident, &item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.use_tree(&[], &item.tree, item.use_token.span.start().line);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 {
            self.import(segments, path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let is_exception = attribute.path().is_ident("allow") || attribute.path().is_ident("expect");
        if is_exception && let syn::Meta::List(list) = &attribute.meta {
            let has_reason = list
                .tokens
                .clone()
                .into_iter()
                .any(|token| matches!(token, TokenTree::Ident(ident) if ident == "reason"));
            if !has_reason {
                self.found.allows_without_reason.push(attribute.span().start().line);
            }
        }
    }
}

fn lines_of(item: &impl Spanned) -> usize {
    let span = item.span();
    span.end().line + 1 - span.start().line
}

fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
    list.path.is_ident("cfg") && {
        let condition = list.tokens.to_string();
        condition.split(|byte: char| !byte.is_alphanumeric()).any(|word| word == "test")
            && !condition.replace(' ', "").contains("not(test)")
    }
}

fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
