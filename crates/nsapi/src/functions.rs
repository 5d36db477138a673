//! The functions that directives name: those of plug-ins, and the server's own.

use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::abi::{FuncPtr, FuncStruct, Pblock, Request, Session};
use crate::breadcrumb::{Breadcrumb, set_breadcrumb};

/// On which threads a function may run.
#[derive(Clone, Copy)]
pub enum AllowedThreads {
    /// Only on workers, because it may wait.
    OnWorker,
    /// On any thread.
    Anywhere,
    /// On any thread. It passes the request to another part of the server.
    Delegates,
    /// On a core, if this function returns true for the request.
    Asks(unsafe fn(*mut Request) -> bool),
}

/// The name of the owner of built-in functions.
const SERVER: &str = "the server";

/// A function with a name. It is never freed, because plug-ins hold pointers to it.
pub struct Function {
    name: CString,
    plugin: CString,
    pointer: AtomicPtr<()>,
    allowed_threads: AllowedThreads,
    is_inline: AtomicBool,
    /// A plug-in has replaced it by its own function, which may wait.
    is_replaced: AtomicBool,
    structure: AtomicPtr<FuncStruct>,
}

impl Function {
    fn new(
        name: &str,
        plugin: &str,
        function: FuncPtr,
        allowed_threads: AllowedThreads,
    ) -> &'static Function {
        let c_text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
        let function: &'static Function = Box::leak(Box::new(Function {
            name: c_text(name),
            plugin: c_text(plugin),
            pointer: AtomicPtr::new(function as *mut ()),
            allowed_threads,
            is_inline: AtomicBool::new(false),
            is_replaced: AtomicBool::new(false),
            structure: AtomicPtr::new(ptr::null_mut()),
        }));
        if !function.is_servers_own() {
            crate::crash::register_function(&function.name, &function.plugin);
        }
        function
    }

    /// Whether it is a built-in function.
    pub fn is_servers_own(&self) -> bool {
        self.plugin.as_bytes() == SERVER.as_bytes()
    }

    /// The pointer to the function.
    pub fn pointer(&self) -> FuncPtr {
        // SAFETY: only pointers to functions of this type are stored.
        unsafe { std::mem::transmute::<*mut (), FuncPtr>(self.pointer.load(Ordering::Acquire)) }
    }

    /// Whether it may run on a core now.
    ///
    /// # Safety
    /// `request` must be a request that the thread has entered.
    pub unsafe fn runs_on_core(&self, request: *mut Request) -> bool {
        self.is_inline.load(Ordering::Relaxed)
            || match self.allowed_threads {
                _ if self.is_replaced.load(Ordering::Relaxed) => false,
                AllowedThreads::OnWorker => false,
                AllowedThreads::Anywhere | AllowedThreads::Delegates => true,
                AllowedThreads::Asks(ask) => ask(request),
            }
    }

    /// Whether it may run on a core for every request, and the answer is made there.
    pub fn always_answers_on_core(&self) -> bool {
        let is_anywhere = matches!(self.allowed_threads, AllowedThreads::Anywhere)
            && !self.is_replaced.load(Ordering::Relaxed);
        self.is_inline.load(Ordering::Relaxed) || is_anywhere
    }

    /// Allows it to run on cores. The caller must be sure that it never waits.
    pub fn set_inline(&self) {
        self.is_inline.store(true, Ordering::Relaxed);
    }

    /// Calls the function.
    ///
    /// # Safety
    /// The arguments must be valid for the function, and the thread must have entered the request.
    #[inline]
    pub unsafe fn call(&self, block: *mut Pblock, session: *mut Session, request: *mut Request) -> c_int {
        let here = Breadcrumb { plugin: self.plugin.as_ptr(), function: self.name.as_ptr() };
        let before = set_breadcrumb(here);
        let answer = self.pointer()(block, session, request);
        set_breadcrumb(before);
        answer
    }

    /// The C structure that plug-ins see.
    pub fn structure(&self) -> *mut FuncStruct {
        let known = self.structure.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        let new = Box::into_raw(Box::new(FuncStruct {
            name: self.name.as_ptr(),
            func: Some(self.pointer()),
            next: ptr::null_mut(),
            flags: 0,
            pool_id: 0,
            pool_resolved: 0,
        }));
        // If two threads make one each, both stay valid.
        self.structure.store(new, Ordering::Release);
        new
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, plugin] = [&self.name, &self.plugin].map(|text| text.to_string_lossy());
        match self.is_servers_own() {
            true => write!(f, "the function {name}"),
            false => write!(f, "the function {name} of the plug-in {plugin}"),
        }
    }
}

/// The functions of one configuration.
#[derive(Default)]
pub struct Functions {
    table: RwLock<HashMap<String, &'static Function>>,
}

impl Functions {
    /// Makes a table of the server's own functions.
    pub fn new(own: &[(&str, FuncPtr, AllowedThreads)]) -> Functions {
        let functions = Functions::default();
        for (name, function, allowed_threads) in own {
            functions.insert(name, SERVER, *function, *allowed_threads);
        }
        functions
    }

    /// Adds a function, or replaces the one with this name. `-` and `_` are the same in names.
    pub fn insert(
        &self,
        name: &str,
        plugin: &str,
        function: FuncPtr,
        allowed_threads: AllowedThreads,
    ) -> &'static Function {
        let new = Function::new(name, plugin, function, allowed_threads);
        self.table.write().unwrap_or_else(PoisonError::into_inner).insert(key(name), new);
        new
    }

    /// The function of this name.
    pub fn find(&self, name: &str) -> Option<&'static Function> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).get(&key(name)).copied()
    }

    /// Replaces the pointer of a function. Callers that have already looked up the name call the new function
    /// from then on.
    pub fn replace(&self, name: &str, function: FuncPtr) -> Option<FuncPtr> {
        let known = self.find(name)?;
        let before = known.pointer();
        known.is_replaced.store(true, Ordering::Relaxed);
        known.pointer.store(function as *mut (), Ordering::Release);
        Some(before)
    }

    /// The most similar name.
    pub fn nearest(&self, name: &str) -> Option<String> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let wanted = key(name);
        table
            .keys()
            .map(|known| (distance(known, &wanted), known))
            .min()
            .and_then(|(distance, known)| (distance <= 2).then(|| known.clone()))
    }
}

fn key(name: &str) -> String {
    name.replace('_', "-")
}

/// The number of letters that must be changed, inserted or removed.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, wanted) in other.iter().enumerate() {
            let cost = diagonal + usize::from(letter != *wanted);
            diagonal = row[column + 1];
            row[column + 1] = cost.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn send_file(_: *mut Pblock, _: *mut Session, _: *mut Request) -> c_int {
        0
    }

    #[test]
    fn names_are_found_with_either_dash_and_misspelt_ones_have_a_neighbour() {
        let functions = Functions::new(&[("send-file", send_file, AllowedThreads::Anywhere)]);
        assert!(functions.find("send_file").is_some());
        assert!(functions.find("send-files").is_none());
        assert_eq!(functions.nearest("send-fil").as_deref(), Some("send-file"));
        assert_eq!(functions.nearest("quite-another-thing"), None);
        assert_eq!(distance("abc", "adcx"), 2);
    }
}
