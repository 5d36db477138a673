//! The stages of a request as functions, for plug-ins that run them on their own requests. `shim/exports.c`
//! exports them.

use std::ffi::c_int;

use crate::abi::{Request, Session};
use crate::conf::Stage;
use crate::pipeline::run_stage;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn servact_uri2path(session: *mut Session, request: *mut Request) -> c_int {
    run_stage(session, request, Stage::NameTrans)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn servact_pathchecks(session: *mut Session, request: *mut Request) -> c_int {
    run_stage(session, request, Stage::PathCheck)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn servact_fileinfo(session: *mut Session, request: *mut Request) -> c_int {
    run_stage(session, request, Stage::ObjectType)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn servact_service(session: *mut Session, request: *mut Request) -> c_int {
    run_stage(session, request, Stage::Service)
}
