//! The functions of Python's stable ABI that a worker uses, found in a library at run time.
//!
//! All of them are in the library of every version from 3.9 to 3.14, except those that are optional. The only
//! structure used is the position of an object's type, which is the last word of every object's head.

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::path::Path;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// An object of Python.
#[repr(C)]
pub struct PyObject {
    _private: [u8; 0],
}

/// A pointer to an object.
pub type Raw = *mut PyObject;

/// `PyMethodDef`
#[repr(C)]
pub struct MethodDef {
    pub name: *const c_char,
    pub function: *const c_void,
    pub flags: c_int,
    pub documentation: *const c_char,
}

/// `PyType_Slot`
#[repr(C)]
pub struct TypeSlot {
    pub slot: c_int,
    pub function: *const c_void,
}

/// `PyType_Spec`
#[repr(C)]
pub struct TypeSpec {
    pub name: *const c_char,
    pub basic_size: c_int,
    pub item_size: c_int,
    pub flags: c_uint,
    pub slots: *mut TypeSlot,
}

/// `Py_tp_dealloc`, of typeslots.h.
pub const SLOT_DEALLOC: c_int = 52;
/// `Py_TPFLAGS_DEFAULT`. Without `tp_new` this has the effect of `Py_TPFLAGS_DISALLOW_INSTANTIATION`.
pub const TYPE_FLAGS_DEFAULT: c_uint = 0;
/// `METH_O`
pub const TAKES_ONE: c_int = 0x8;
/// `METH_NOARGS`
pub const TAKES_NONE: c_int = 0x4;
/// `METH_FASTCALL`
pub const TAKES_SOME: c_int = 0x80;
/// `METH_FASTCALL | METH_KEYWORDS`
pub const TAKES_NAMED: c_int = 0x82;
/// `Py_file_input`
pub const FILE_INPUT: c_int = 257;

macro_rules! table {
    (
        functions { $($name:ident($($argument:ty),*) $(-> $result:ty)?;)* }
        optional { $($newer:ident($($newer_argument:ty),*) -> $newer_result:ty;)* }
        variadic { $($many:ident;)* }
        data { $($datum:ident;)* }
    ) => {
        /// The functions, and some objects that always exist.
        #[allow(non_snake_case, reason = "these are the names of C")]
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub $newer: Option<unsafe extern "C" fn($($newer_argument),*) -> $newer_result>,)*
            $(pub $many: unsafe extern "C" fn(Raw, ...) -> Raw,)*
            $(pub $datum: *mut c_void,)*
            /// The offset of an object's type.
            pub type_offset: OnceLock<usize>,
        }

        impl Api {
            fn of(library: &Library) -> Result<Api, String> {
                Ok(Api {
                    $($name: find(library, stringify!($name))?,)*
                    $($newer: find(library, stringify!($newer)).ok(),)*
                    $($many: find(library, stringify!($many))?,)*
                    $($datum: find(library, stringify!($datum))?,)*
                    type_offset: OnceLock::new(),
                })
            }
        }
    };
}

table! {
    functions {
        Py_SetProgramName(*const i32);
        Py_InitializeEx(c_int);
        Py_FinalizeEx() -> c_int;
        PyEval_SaveThread() -> *mut c_void;
        PyEval_RestoreThread(*mut c_void);
        PyGILState_Ensure() -> c_int;
        Py_IncRef(Raw);
        Py_DecRef(Raw);
        PyErr_Occurred() -> Raw;
        PyErr_Clear();
        PyErr_SetString(Raw, *const c_char);
        PyErr_SetObject(Raw, Raw);
        PyErr_Fetch(*mut Raw, *mut Raw, *mut Raw);
        PyErr_NormalizeException(*mut Raw, *mut Raw, *mut Raw);
        PyErr_Restore(Raw, Raw, Raw);
        PyDict_New() -> Raw;
        PyDict_Copy(Raw) -> Raw;
        PyDict_SetItem(Raw, Raw, Raw) -> c_int;
        PyDict_GetItemWithError(Raw, Raw) -> Raw;
        PyUnicode_DecodeLatin1(*const c_char, isize, *const c_char) -> Raw;
        PyUnicode_DecodeUTF8(*const c_char, isize, *const c_char) -> Raw;
        PyUnicode_InternFromString(*const c_char) -> Raw;
        PyUnicode_AsUTF8AndSize(Raw, *mut isize) -> *const c_char;
        PyBytes_FromStringAndSize(*const c_char, isize) -> Raw;
        PyBytes_FromObject(Raw) -> Raw;
        PyBytes_AsString(Raw) -> *mut c_char;
        PyBytes_Size(Raw) -> isize;
        PyList_New(isize) -> Raw;
        PyList_SetItem(Raw, isize, Raw) -> c_int;
        PyList_Size(Raw) -> isize;
        PyList_GetItem(Raw, isize) -> Raw;
        PyTuple_New(isize) -> Raw;
        PyTuple_SetItem(Raw, isize, Raw) -> c_int;
        PyTuple_Size(Raw) -> isize;
        PyTuple_GetItem(Raw, isize) -> Raw;
        PyLong_FromLong(c_long) -> Raw;
        PyLong_AsLongLong(Raw) -> i64;
        PyBool_FromLong(c_long) -> Raw;
        PyObject_IsTrue(Raw) -> c_int;
        PyObject_GetAttr(Raw, Raw) -> Raw;
        PyObject_GetAttrString(Raw, *const c_char) -> Raw;
        PyObject_SetAttr(Raw, Raw, Raw) -> c_int;
        PyObject_Call(Raw, Raw, Raw) -> Raw;
        PyObject_Size(Raw) -> isize;
        PyObject_GetIter(Raw) -> Raw;
        PyObject_Free(*mut c_void);
        PyIter_Next(Raw) -> Raw;
        PyType_GetFlags(Raw) -> c_ulong;
        PyType_FromSpec(*mut TypeSpec) -> Raw;
        PyType_GenericAlloc(Raw, isize) -> Raw;
        PyCFunction_NewEx(*mut MethodDef, Raw, Raw) -> Raw;
        PyImport_AddModule(*const c_char) -> Raw;
        PyModule_GetDict(Raw) -> Raw;
        Py_CompileString(*const c_char, *const c_char, c_int) -> Raw;
        PyEval_EvalCode(Raw, Raw, Raw) -> Raw;
    }
    // PyIter_Send is of version 3.10. Those of contexts are not in the stable ABI, but in all these versions.
    // The others are of version 3.13: without the interpreter's lock, a borrowed reference may be gone before
    // it is counted.
    optional {
        PyIter_Send(Raw, Raw, *mut Raw) -> c_int;
        PyContext_Enter(Raw) -> c_int;
        PyContext_Exit(Raw) -> c_int;
        PyDict_GetItemRef(Raw, Raw, *mut Raw) -> c_int;
        PyList_GetItemRef(Raw, isize) -> Raw;
    }
    variadic {
        PyObject_CallFunctionObjArgs;
    }
    data {
        _Py_NoneStruct;
        PyBaseObject_Type;
        PyExc_RuntimeError;
        PyExc_ValueError;
        PyExc_TypeError;
        PyExc_OSError;
    }
}

// SAFETY: these are addresses of functions and of objects that never change.
unsafe impl Send for Api {}
// SAFETY: as above.
unsafe impl Sync for Api {}

/// Finds a function or an object of the library.
fn find<T: Copy>(library: &Library, name: &str) -> Result<T, String> {
    // SAFETY: the types of the functions in the table are those of Python's headers; only the address of an
    // object is used.
    let symbol = unsafe { library.get::<T>(name) };
    symbol.map(|symbol| *symbol).map_err(|error| format!("the library of Python has no {name}: {error}"))
}

/// Opens the library, once in a process; it is never closed.
///
/// # Errors
/// There is no such library, or it is not one of Python 3.9 or later.
pub fn load(path: &Path) -> Result<&'static Api, String> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    let open = || {
        // Modules that are written in C find the functions in the process, so they must be visible to all.
        // SAFETY: the library's initialisation is the same for every program that embeds Python.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }
            .map_err(|error| format!("{} cannot be opened: {error}", path.display()))?;
        let api = Api::of(&library);
        // Python cannot be unloaded.
        std::mem::forget(library);
        api
    };
    API.get_or_init(open).as_ref().map_err(Clone::clone)
}
