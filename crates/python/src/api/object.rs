//! References to Python's objects, and operations on them.
//!
//! A [`Gil`] proves that the thread may call Python; every function needs one. An [`Object`] may only be
//! dropped by a thread that has one, so no object is stored where another thread could drop it.

use std::ffi::{CStr, c_char, c_long};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::table::{Api, FILE_INPUT, PyObject, Raw};

/// An error of Python is set, and must be taken or passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonException;

/// The thread may call Python.
#[derive(Clone, Copy)]
pub struct Gil {
    api: &'static Api,
    /// The value must stay on its thread.
    _thread: PhantomData<*const ()>,
}

/// How a coroutine has used its turn.
pub enum CoroutineStep {
    /// It waits for this.
    Yielded(Object),
    /// It has returned.
    Returned,
}

/// The thread may not call Python until this is dropped.
pub struct GilReleased {
    api: &'static Api,
    state: *mut std::ffi::c_void,
}

/// A reference to an object.
pub struct Object {
    raw: NonNull<PyObject>,
    api: &'static Api,
}

// SAFETY: an object is only used and dropped by a thread that may call Python, see the file's comment.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Clone for Object {
    fn clone(&self) -> Object {
        // SAFETY: the object lives, and the thread may call Python.
        unsafe { (self.api.Py_IncRef)(self.raw.as_ptr()) };
        Object { raw: self.raw, api: self.api }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the reference belongs to this object, and the thread may call Python.
        unsafe { (self.api.Py_DecRef)(self.raw.as_ptr()) };
    }
}

impl Object {
    /// The pointer; the reference stays with the object.
    pub fn raw(&self) -> Raw {
        self.raw.as_ptr()
    }

    /// The pointer, with the reference.
    pub fn into_raw(self) -> Raw {
        let raw = self.raw();
        std::mem::forget(self);
        raw
    }

    /// Whether both are the same object.
    pub fn is(&self, other: &Object) -> bool {
        self.raw == other.raw
    }

    fn raw_type(&self) -> Raw {
        let offset = *self.api.type_offset.get().unwrap_or(&size_of::<usize>());
        // SAFETY: the last word of an object's head is its type.
        unsafe { self.raw.as_ptr().cast::<u8>().add(offset).cast::<Raw>().read() }
    }

    fn type_flags(&self) -> u64 {
        // SAFETY: the type lives as long as the object.
        unsafe { (self.api.PyType_GetFlags)(self.raw_type()) }
    }

    /// Whether it is an instance of this type, and of no subclass.
    pub fn has_type(&self, kind: &Object) -> bool {
        self.raw_type() == kind.raw()
    }

    /// Whether it is an instance of `list`.
    pub fn is_list(&self) -> bool {
        self.type_flags() & (1 << 25) != 0
    }

    /// Whether it is an instance of `tuple`.
    pub fn is_tuple(&self) -> bool {
        self.type_flags() & (1 << 26) != 0
    }

    /// Whether it is an instance of `bytes`.
    pub fn is_bytes(&self) -> bool {
        self.type_flags() & (1 << 27) != 0
    }

    /// Whether it is an instance of `str`.
    pub fn is_text(&self) -> bool {
        self.type_flags() & (1 << 28) != 0
    }

    /// Whether it is an instance of `dict`.
    pub fn is_dict(&self) -> bool {
        self.type_flags() & (1 << 29) != 0
    }

    /// The bytes of an instance of `bytes`; nothing for other objects.
    pub fn bytes(&self) -> &[u8] {
        if !self.is_bytes() {
            return &[];
        }
        // SAFETY: it is an instance of `bytes`, whose content never changes or moves.
        unsafe {
            let length = (self.api.PyBytes_Size)(self.raw());
            let start = (self.api.PyBytes_AsString)(self.raw());
            std::slice::from_raw_parts(start.cast(), usize::try_from(length).unwrap_or(0))
        }
    }
}

impl Gil {
    /// The proof for a thread that is known to hold the lock.
    ///
    /// # Safety
    /// The thread may call Python for as long as the value is used.
    pub unsafe fn assume(api: &'static Api) -> Gil {
        Gil { api, _thread: PhantomData }
    }

    /// Makes Python ready to run in this process, as `program` would.
    pub fn start(api: &'static Api, program: &str) -> Gil {
        let wide: Vec<i32> = program.chars().map(|letter| letter as i32).chain([0]).collect();
        // Python keeps a pointer to the name.
        let wide = Vec::leak(wide);
        // SAFETY: this is called once, by the first thread. Without handlers, signals are left to the worker.
        unsafe {
            (api.Py_SetProgramName)(wide.as_ptr());
            (api.Py_InitializeEx)(0);
        }
        let gil = Gil { api, _thread: PhantomData };
        let size = gil.base_size().unwrap_or(2 * size_of::<usize>());
        let _ = api.type_offset.set(size - size_of::<usize>());
        gil
    }

    /// Attaches the thread to Python permanently.
    pub fn attach(api: &'static Api) -> Gil {
        // SAFETY: Python is started. The thread's state is never released: threads of a worker do not end.
        unsafe { (api.PyGILState_Ensure)() };
        Gil { api, _thread: PhantomData }
    }

    /// The size of an object without own data.
    pub fn base_size(self) -> Option<usize> {
        let base = self.borrowed(self.api.PyBaseObject_Type.cast()).ok()?;
        let size = self.attribute(&base, c"__basicsize__").ok()?;
        usize::try_from(self.as_number(&size).ok()?).ok()
    }

    /// The functions.
    pub fn api(self) -> &'static Api {
        self.api
    }

    /// Runs the finalizers of Python's modules.
    pub fn finalize(self) {
        // SAFETY: the first thread calls this last.
        unsafe { (self.api.Py_FinalizeEx)() };
    }

    /// Lets other threads call Python until the result is dropped.
    #[must_use]
    pub fn release(&mut self) -> GilReleased {
        // SAFETY: the thread may call Python, and does not while `self` is borrowed.
        GilReleased { api: self.api, state: unsafe { (self.api.PyEval_SaveThread)() } }
    }

    // --- References.

    /// A new reference; null: an error is set.
    pub fn owned(self, raw: Raw) -> Result<Object, PythonException> {
        NonNull::new(raw).map(|raw| Object { raw, api: self.api }).ok_or(PythonException)
    }

    /// A borrowed reference, counted once more.
    pub fn borrowed(self, raw: Raw) -> Result<Object, PythonException> {
        let raw = NonNull::new(raw).ok_or(PythonException)?;
        // SAFETY: the object lives.
        unsafe { (self.api.Py_IncRef)(raw.as_ptr()) };
        Ok(Object { raw, api: self.api })
    }

    /// `None`
    pub fn none(self) -> Object {
        let raw: Raw = self.api._Py_NoneStruct.cast();
        // SAFETY: it lives forever, and is not null.
        unsafe {
            (self.api.Py_IncRef)(raw);
            Object { raw: NonNull::new_unchecked(raw), api: self.api }
        }
    }

    /// Whether it is `None`.
    pub fn is_none(self, object: &Object) -> bool {
        object.raw() == self.api._Py_NoneStruct.cast()
    }

    // --- Making objects.

    /// Text of which each byte is a character.
    pub fn latin1(self, text: &[u8]) -> Result<Object, PythonException> {
        // SAFETY: the bytes are read before it returns.
        self.owned(unsafe {
            (self.api.PyUnicode_DecodeLatin1)(text.as_ptr().cast(), text.len() as isize, ptr::null())
        })
    }

    /// Text in UTF-8; invalid bytes are replaced.
    pub fn utf8(self, text: &[u8]) -> Result<Object, PythonException> {
        // SAFETY: the bytes are read before it returns.
        self.owned(unsafe {
            let length = text.len() as isize;
            (self.api.PyUnicode_DecodeUTF8)(text.as_ptr().cast(), length, c"replace".as_ptr())
        })
    }

    /// Text that is the same object at each call.
    pub fn interned(self, text: &CStr) -> Result<Object, PythonException> {
        // SAFETY: the text ends with a zero byte.
        self.owned(unsafe { (self.api.PyUnicode_InternFromString)(text.as_ptr()) })
    }

    /// `bytes`
    pub fn make_bytes(self, bytes: &[u8]) -> Result<Object, PythonException> {
        // SAFETY: the bytes are copied before it returns.
        self.owned(unsafe {
            (self.api.PyBytes_FromStringAndSize)(bytes.as_ptr().cast(), bytes.len() as isize)
        })
    }

    /// `bytes` of an object that has a buffer.
    pub fn to_bytes(self, object: &Object) -> Result<Object, PythonException> {
        if object.is_bytes() {
            return Ok(object.clone());
        }
        // SAFETY: the object lives.
        self.owned(unsafe { (self.api.PyBytes_FromObject)(object.raw()) })
    }

    /// `int`
    pub fn number(self, number: i64) -> Result<Object, PythonException> {
        // SAFETY: only a number is passed.
        self.owned(unsafe { (self.api.PyLong_FromLong)(number as c_long) })
    }

    /// `bool`
    pub fn truth(self, is: bool) -> Result<Object, PythonException> {
        // SAFETY: only a number is passed.
        self.owned(unsafe { (self.api.PyBool_FromLong)(c_long::from(is)) })
    }

    /// `tuple`
    pub fn tuple<const N: usize>(self, members: [Object; N]) -> Result<Object, PythonException> {
        // SAFETY: the tuple has as many places, each of which gets its reference once.
        unsafe {
            let tuple = self.owned((self.api.PyTuple_New)(N as isize))?;
            for (index, member) in members.into_iter().enumerate() {
                (self.api.PyTuple_SetItem)(tuple.raw(), index as isize, member.into_raw());
            }
            Ok(tuple)
        }
    }

    /// `list`
    pub fn list(self, members: impl ExactSizeIterator<Item = Object>) -> Result<Object, PythonException> {
        let length = members.len();
        // SAFETY: the list has as many places, each of which gets its reference once.
        unsafe {
            let list = self.owned((self.api.PyList_New)(length as isize))?;
            let mut filled = 0;
            for (index, member) in members.take(length).enumerate() {
                (self.api.PyList_SetItem)(list.raw(), index as isize, member.into_raw());
                filled += 1;
            }
            // A list with an empty place must not be returned.
            for index in filled..length {
                (self.api.PyList_SetItem)(list.raw(), index as isize, self.none().into_raw());
            }
            Ok(list)
        }
    }

    /// `dict`
    pub fn dict(self) -> Result<Object, PythonException> {
        // SAFETY: nothing is passed.
        self.owned(unsafe { (self.api.PyDict_New)() })
    }

    /// A copy of a `dict`.
    pub fn copy_dict(self, dict: &Object) -> Result<Object, PythonException> {
        // SAFETY: the object lives; of another type it raises.
        self.owned(unsafe { (self.api.PyDict_Copy)(dict.raw()) })
    }

    // --- Reading objects.

    /// Sets an item of a `dict`.
    pub fn set(self, dict: &Object, key: &Object, value: &Object) -> Result<(), PythonException> {
        // SAFETY: the objects live; of another type it raises.
        match unsafe { (self.api.PyDict_SetItem)(dict.raw(), key.raw(), value.raw()) } {
            0 => Ok(()),
            _ => Err(PythonException),
        }
    }

    /// An item of a `dict`, if it has it.
    pub fn get(self, dict: &Object, key: &Object) -> Result<Option<Object>, PythonException> {
        if let Some(get) = self.api.PyDict_GetItemRef {
            let mut found = ptr::null_mut();
            // SAFETY: the objects live; of another type it raises. The place is local, and gets a reference.
            return match unsafe { get(dict.raw(), key.raw(), &mut found) } {
                -1 => Err(PythonException),
                _ => Ok(self.owned(found).ok()),
            };
        }
        // SAFETY: the objects live; of another type it raises.
        let raw = unsafe { (self.api.PyDict_GetItemWithError)(dict.raw(), key.raw()) };
        if raw.is_null() && self.has_error() {
            return Err(PythonException);
        }
        Ok(self.borrowed(raw).ok())
    }

    /// How many members a list or a tuple has; `None` for other objects.
    pub fn length(self, sequence: &Object) -> Option<usize> {
        // SAFETY: each function gets an object of its type.
        let length = unsafe {
            if sequence.is_list() {
                (self.api.PyList_Size)(sequence.raw())
            } else if sequence.is_tuple() {
                (self.api.PyTuple_Size)(sequence.raw())
            } else {
                return None;
            }
        };
        usize::try_from(length).ok()
    }

    /// A member of a list or a tuple.
    pub fn member(self, sequence: &Object, index: usize) -> Result<Object, PythonException> {
        if let (true, Some(get)) = (sequence.is_list(), self.api.PyList_GetItemRef) {
            // SAFETY: the object is a list, and lives; an invalid index raises.
            return self.owned(unsafe { get(sequence.raw(), index as isize) });
        }
        // SAFETY: the object lives; another type or an invalid index raises.
        self.borrowed(unsafe {
            if sequence.is_list() {
                (self.api.PyList_GetItem)(sequence.raw(), index as isize)
            } else {
                (self.api.PyTuple_GetItem)(sequence.raw(), index as isize)
            }
        })
    }

    /// The text of a `str`, in UTF-8, which lives as long as the object.
    pub fn text(self, object: &Object) -> Result<&str, PythonException> {
        let mut length = 0isize;
        // SAFETY: the object lives and keeps the text; of another type it raises. Python writes valid UTF-8.
        unsafe {
            let start = (self.api.PyUnicode_AsUTF8AndSize)(object.raw(), &mut length);
            if start.is_null() {
                return Err(PythonException);
            }
            let bytes = std::slice::from_raw_parts(start.cast(), usize::try_from(length).unwrap_or(0));
            Ok(std::str::from_utf8_unchecked(bytes))
        }
    }

    /// The number of an `int`.
    pub fn as_number(self, object: &Object) -> Result<i64, PythonException> {
        // SAFETY: the object lives; of another type it raises.
        let number = unsafe { (self.api.PyLong_AsLongLong)(object.raw()) };
        if number == -1 && self.has_error() { Err(PythonException) } else { Ok(number) }
    }

    /// Whether it counts as true.
    pub fn is_true(self, object: &Object) -> Result<bool, PythonException> {
        // SAFETY: the object lives.
        match unsafe { (self.api.PyObject_IsTrue)(object.raw()) } {
            -1 => Err(PythonException),
            is => Ok(is != 0),
        }
    }

    /// An attribute.
    pub fn attribute(self, object: &Object, name: &CStr) -> Result<Object, PythonException> {
        // SAFETY: the object lives, and the name ends with a zero byte.
        self.owned(unsafe { (self.api.PyObject_GetAttrString)(object.raw(), name.as_ptr()) })
    }

    /// An attribute whose name is an object.
    pub fn required_attribute(self, object: &Object, name: &Object) -> Result<Object, PythonException> {
        // SAFETY: the objects live.
        self.owned(unsafe { (self.api.PyObject_GetAttr)(object.raw(), name.raw()) })
    }

    /// An attribute, if it is there.
    pub fn optional_attribute(self, object: &Object, name: &Object) -> Option<Object> {
        let found = self.required_attribute(object, name);
        if found.is_err() {
            self.clear_error();
        }
        found.ok()
    }

    /// Sets an attribute; `None`: removes it.
    pub fn set_attribute(
        self,
        object: &Object,
        name: &Object,
        value: Option<&Object>,
    ) -> Result<(), PythonException> {
        let value = value.map_or(ptr::null_mut(), Object::raw);
        // SAFETY: the objects live; without a value the attribute is deleted.
        match unsafe { (self.api.PyObject_SetAttr)(object.raw(), name.raw(), value) } {
            0 => Ok(()),
            _ => Err(PythonException),
        }
    }

    /// An iterator over an object.
    pub fn iterate(self, object: &Object) -> Result<Object, PythonException> {
        // SAFETY: the object lives.
        self.owned(unsafe { (self.api.PyObject_GetIter)(object.raw()) })
    }

    /// The next object of an iterator.
    pub fn next(self, iterator: &Object) -> Result<Option<Object>, PythonException> {
        // SAFETY: the object is an iterator.
        let raw = unsafe { (self.api.PyIter_Next)(iterator.raw()) };
        if raw.is_null() && self.has_error() {
            return Err(PythonException);
        }
        Ok(self.owned(raw).ok())
    }

    // --- Calling.

    /// Calls without arguments.
    pub fn call0(self, function: &Object) -> Result<Object, PythonException> {
        // SAFETY: the arguments are objects, and a null pointer ends them.
        self.owned(unsafe {
            (self.api.PyObject_CallFunctionObjArgs)(function.raw(), ptr::null_mut::<PyObject>())
        })
    }

    /// Calls with one argument.
    pub fn call1(self, function: &Object, a: &Object) -> Result<Object, PythonException> {
        // SAFETY: the arguments are objects, and a null pointer ends them.
        self.owned(unsafe {
            let end = ptr::null_mut::<PyObject>();
            (self.api.PyObject_CallFunctionObjArgs)(function.raw(), a.raw(), end)
        })
    }

    /// Calls with two arguments.
    pub fn call2(self, function: &Object, a: &Object, b: &Object) -> Result<Object, PythonException> {
        // SAFETY: the arguments are objects, and a null pointer ends them.
        self.owned(unsafe {
            let end = ptr::null_mut::<PyObject>();
            (self.api.PyObject_CallFunctionObjArgs)(function.raw(), a.raw(), b.raw(), end)
        })
    }

    /// Calls with three arguments.
    pub fn call3(self, function: &Object, [a, b, c]: [&Object; 3]) -> Result<Object, PythonException> {
        // SAFETY: the arguments are objects, and a null pointer ends them.
        self.owned(unsafe {
            let end = ptr::null_mut::<PyObject>();
            (self.api.PyObject_CallFunctionObjArgs)(function.raw(), a.raw(), b.raw(), c.raw(), end)
        })
    }

    /// Calls with one argument, and with arguments that have names.
    pub fn call1_named(
        self,
        function: &Object,
        argument: Object,
        named: &Object,
    ) -> Result<Object, PythonException> {
        let arguments = self.tuple([argument])?;
        // SAFETY: the objects live; `named` is a dict, otherwise it raises.
        self.owned(unsafe { (self.api.PyObject_Call)(function.raw(), arguments.raw(), named.raw()) })
    }

    /// Calls with four arguments.
    pub fn call4(self, function: &Object, [a, b, c, d]: [&Object; 4]) -> Result<Object, PythonException> {
        // SAFETY: the arguments are objects, and a null pointer ends them.
        self.owned(unsafe {
            let end = ptr::null_mut::<PyObject>();
            let (a, b, c, d) = (a.raw(), b.raw(), c.raw(), d.raw());
            (self.api.PyObject_CallFunctionObjArgs)(function.raw(), a, b, c, d, end)
        })
    }

    /// Calls with five arguments.
    pub fn call5(self, function: &Object, [a, b, c, d, e]: [&Object; 5]) -> Result<Object, PythonException> {
        // SAFETY: the arguments are objects, and a null pointer ends them.
        self.owned(unsafe {
            let end = ptr::null_mut::<PyObject>();
            let (a, b, c, d, e) = (a.raw(), b.raw(), c.raw(), d.raw(), e.raw());
            (self.api.PyObject_CallFunctionObjArgs)(function.raw(), a, b, c, d, e, end)
        })
    }

    /// Whether coroutines can be run, and contexts entered, from here.
    pub fn can_step(self) -> bool {
        let api = self.api;
        api.PyIter_Send.is_some() && api.PyContext_Enter.is_some() && api.PyContext_Exit.is_some()
    }

    /// Runs a coroutine up to where it first waits.
    pub fn step(self, coroutine: &Object) -> Result<CoroutineStep, PythonException> {
        let mut result = ptr::null_mut();
        let Some(send) = self.api.PyIter_Send else { return Err(PythonException) };
        // SAFETY: the object is a coroutine, and lives. The place is local, and gets a reference, or null.
        let sent = unsafe { send(coroutine.raw(), self.api._Py_NoneStruct.cast(), &mut result) };
        let result = self.owned(result)?;
        Ok(if sent == 1 { CoroutineStep::Yielded(result) } else { CoroutineStep::Returned })
    }

    /// Makes a context the current one.
    pub fn enter_context(self, context: &Object) -> Result<(), PythonException> {
        self.change_context(self.api.PyContext_Enter, context)
    }

    /// Leaves the current context.
    pub fn exit_context(self, context: &Object) -> Result<(), PythonException> {
        self.change_context(self.api.PyContext_Exit, context)
    }

    fn change_context(
        self,
        change: Option<unsafe extern "C" fn(Raw) -> i32>,
        context: &Object,
    ) -> Result<(), PythonException> {
        // SAFETY: the object lives; of another type, or in the wrong order, it raises.
        match change.map(|change| unsafe { change(context.raw()) }) {
            Some(0) => Ok(()),
            _ => Err(PythonException),
        }
    }

    /// How many members an object has.
    pub fn size(self, object: &Object) -> Result<isize, PythonException> {
        // SAFETY: the object lives.
        match unsafe { (self.api.PyObject_Size)(object.raw()) } {
            -1 => Err(PythonException),
            size => Ok(size),
        }
    }

    /// Runs the source of a module in `__main__`, and returns its names afterwards.
    pub fn run(self, text: &CStr, file: &CStr) -> Result<Object, PythonException> {
        // SAFETY: both texts end with a zero byte; the module's names live as long as Python.
        unsafe {
            let code = self.owned((self.api.Py_CompileString)(text.as_ptr(), file.as_ptr(), FILE_INPUT))?;
            let module = (self.api.PyImport_AddModule)(c"__main__".as_ptr());
            if module.is_null() {
                return Err(PythonException);
            }
            let names = self.borrowed((self.api.PyModule_GetDict)(module))?;
            self.owned((self.api.PyEval_EvalCode)(code.raw(), names.raw(), names.raw()))?;
            Ok(names)
        }
    }

    // --- Errors.

    /// Whether an error is set.
    pub fn has_error(self) -> bool {
        // SAFETY: nothing is passed.
        !unsafe { (self.api.PyErr_Occurred)() }.is_null()
    }

    /// Clears the error that is set.
    pub fn clear_error(self) {
        // SAFETY: nothing is passed.
        unsafe { (self.api.PyErr_Clear)() };
    }

    /// The exception that is set, which is cleared; `None` if there is none.
    pub fn take_error(self) -> Option<Object> {
        let (mut kind, mut value, mut trace) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: the three places are local; afterwards they hold owned references, or null.
        unsafe {
            (self.api.PyErr_Fetch)(&mut kind, &mut value, &mut trace);
            (self.api.PyErr_NormalizeException)(&mut kind, &mut value, &mut trace);
        }
        let (_kind, value, trace) = (self.owned(kind), self.owned(value).ok(), self.owned(trace).ok());
        let value = value?;
        if let (Some(trace), Ok(set)) = (trace, self.attribute(&value, c"with_traceback")) {
            // If this fails, the exception has no trace.
            let _ = self.call1(&set, &trace).map_err(|PythonException| self.clear_error());
        }
        Some(value)
    }

    /// Sets an error with a text.
    pub fn raise(self, kind: Kind, text: &str) -> PythonException {
        let kind: *mut Raw = match kind {
            Kind::Runtime => self.api.PyExc_RuntimeError,
            Kind::Value => self.api.PyExc_ValueError,
            Kind::Type => self.api.PyExc_TypeError,
            Kind::Os => self.api.PyExc_OSError,
        }
        .cast();
        let text = std::ffi::CString::new(text.replace('\0', "\\0")).unwrap_or_default();
        // SAFETY: the class lives forever, and the text is copied.
        unsafe { (self.api.PyErr_SetString)(*kind, text.as_ptr().cast::<c_char>()) };
        PythonException
    }

    /// Sets an exception.
    pub fn raise_exception(self, error: Object) -> PythonException {
        if let Ok(class) = self.attribute(&error, c"__class__") {
            // SAFETY: both objects live.
            unsafe { (self.api.PyErr_SetObject)(class.raw(), error.raw()) };
        }
        PythonException
    }

    /// Sets an exception with its trace, as `exc_info` has them.
    pub fn raise_with_trace(self, kind: Object, value: Object, trace: Object) -> PythonException {
        let trace = if self.is_none(&trace) { ptr::null_mut() } else { trace.into_raw() };
        // SAFETY: the function takes over all three references.
        unsafe { (self.api.PyErr_Restore)(kind.into_raw(), value.into_raw(), trace) };
        PythonException
    }
}

/// A class of exceptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `RuntimeError`
    Runtime,
    /// `ValueError`
    Value,
    /// `TypeError`
    Type,
    /// `OSError`
    Os,
}

impl Drop for GilReleased {
    fn drop(&mut self) {
        // SAFETY: the state is the one that this thread gave away.
        unsafe { (self.api.PyEval_RestoreThread)(self.state) };
    }
}
