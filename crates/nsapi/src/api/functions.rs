//! The functions of plug-ins by their names.

use std::ffi::{c_char, c_int};
use std::ptr;

use crate::abi::{FuncPtr, FuncStruct, LOG_MISCONFIG, Pblock, REQ_ABORTED, Request, Session};
use crate::breadcrumb::breadcrumb;
use crate::functions::{AllowedThreads, Function};
use crate::{engine, memory, pblock};

unsafe fn text(name: *const c_char) -> String {
    String::from_utf8_lossy(memory::bytes(name)).into_owned()
}

pub unsafe extern "C" fn func_find(name: *mut c_char) -> Option<FuncPtr> {
    engine::current()?.functions().find(&text(name)).map(Function::pointer)
}

pub unsafe extern "C" fn func_insert(name: *mut c_char, function: Option<FuncPtr>) -> *mut FuncStruct {
    let (Some(engine), Some(function)) = (engine::current(), function) else { return ptr::null_mut() };
    let plugin = text(breadcrumb().plugin);
    engine.functions().insert(&text(name), &plugin, function, AllowedThreads::OnWorker).structure()
}

pub unsafe extern "C" fn func_replace(name: *mut c_char, function: Option<FuncPtr>) -> Option<FuncPtr> {
    engine::current()?.functions().replace(&text(name), function?)
}

pub unsafe extern "C" fn func_init(mut functions: *mut FuncStruct) {
    // In a table of functions, the last one has no name.
    while !functions.is_null() && !(*functions).name.is_null() {
        func_insert((*functions).name.cast_mut(), (*functions).func);
        functions = functions.add(1);
    }
}

pub unsafe extern "C" fn func_exec(
    block: *mut Pblock,
    session: *mut Session,
    request: *mut Request,
) -> c_int {
    let Some(engine) = engine::current() else { return REQ_ABORTED };
    let name = pblock::find(block, b"fn").unwrap_or_default();
    match engine.functions().find(&String::from_utf8_lossy(name)) {
        Some(function) => function.call(block, session, request),
        None => {
            let message = format!("func_exec: there is no function {:?}", String::from_utf8_lossy(name));
            engine.log(LOG_MISCONFIG, &message);
            REQ_ABORTED
        }
    }
}
