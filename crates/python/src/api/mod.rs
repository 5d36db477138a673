//! The part of Python's C interface that a worker uses: a table of functions of the stable ABI, which is
//! filled from a library that is opened at run time, and safe functions on top of it.
//!
//! | module | |
//! |---|---|
//! | `table` | the functions, and the structures that they take |
//! | `object` | references to objects, and operations on them |
//! | `native` | Rust objects and functions that Python code holds and calls |

mod native;
mod object;
mod table;

pub use native::{Arguments, Calls, Form, Function, Functions, NativeType};
pub use object::{CoroutineStep, Gil, Kind, Object, PythonException};
pub use table::{Api, load};
