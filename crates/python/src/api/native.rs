//! Rust objects and functions that Python code holds and calls.
//!
//! There is one type of object: it holds an `Arc` of a Rust value, and drops it when Python drops the object.
//! A [`Function`] is bound to such an object, and is called with its value.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use super::object::{Gil, Object, PythonException};
use super::table::{
    Api, MethodDef, Raw, SLOT_DEALLOC, TAKES_NAMED, TAKES_NONE, TAKES_ONE, TAKES_SOME, TYPE_FLAGS_DEFAULT,
    TypeSlot, TypeSpec,
};

/// The type of objects that hold a `T`. There is one in a process.
pub struct NativeType<T> {
    kind: Object,
    offset: usize,
    _holds: PhantomData<fn(T)>,
}

/// A value that Python code can hold: it provides access to the functions of Python.
pub trait Functions: Send + Sync + 'static {
    /// The functions of Python.
    fn api() -> &'static Api;
    /// The offset of the value in an object.
    fn offset() -> usize;
}

/// The arguments of a call.
pub struct Arguments<'a> {
    raw: &'a [Raw],
}

impl Arguments<'_> {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.raw.len()
    }

    /// One of them.
    pub fn get(&self, gil: Gil, index: usize) -> Option<Object> {
        self.raw.get(index).and_then(|raw| gil.borrowed(*raw).ok())
    }
}

impl<T: Functions> NativeType<T> {
    /// Makes the type. It lives as long as Python.
    pub fn new(gil: Gil, name: &'static CStr) -> Result<NativeType<T>, PythonException> {
        let offset = gil.base_size().ok_or(PythonException)?;
        let slots = Box::leak(Box::new([
            TypeSlot { slot: SLOT_DEALLOC, function: deallocate::<T> as *const c_void },
            TypeSlot { slot: 0, function: ptr::null() },
        ]));
        let spec = Box::leak(Box::new(TypeSpec {
            name: name.as_ptr(),
            basic_size: (offset + size_of::<Arc<T>>()) as c_int,
            item_size: 0,
            flags: TYPE_FLAGS_DEFAULT,
            slots: slots.as_mut_ptr(),
        }));
        // SAFETY: the description is whole, and lives forever.
        let kind = gil.owned(unsafe { (gil.api().PyType_FromSpec)(spec) })?;
        Ok(NativeType { kind, offset, _holds: PhantomData })
    }

    /// The offset of the value in an object.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The value in an object, if the object is of this type.
    pub fn held<'a>(&self, object: &'a Object) -> Option<&'a Arc<T>> {
        // SAFETY: an object of the type was made by `hold`, as Python code cannot make one.
        object
            .has_type(&self.kind)
            .then(|| unsafe { &*object.raw().cast::<u8>().add(self.offset).cast::<Arc<T>>() })
    }

    /// An object that holds a value.
    pub fn hold(&self, gil: Gil, value: Arc<T>) -> Result<Object, PythonException> {
        // SAFETY: the type has room for one pointer after the head of an object.
        unsafe {
            let object = gil.owned((gil.api().PyType_GenericAlloc)(self.kind.raw(), 0))?;
            object.raw().cast::<u8>().add(self.offset).cast::<Arc<T>>().write(value);
            Ok(object)
        }
    }
}

/// Python drops an object.
unsafe extern "C" fn deallocate<T: Functions>(object: Raw) {
    let api = T::api();
    // SAFETY: nothing else uses the object any more. The place holds what `hold` has written, or zero if
    // Python code has made the object. An object of a type that was made at run time holds a reference to the
    // type.
    unsafe {
        let value = object.cast::<u8>().add(T::offset()).cast::<Option<Arc<T>>>().read();
        let kind = object.cast::<u8>().add(T::offset() - size_of::<Raw>()).cast::<Raw>().read();
        (api.PyObject_Free)(object.cast());
        (api.Py_DecRef)(kind);
        drop(value);
    }
}

/// A function that Python code may call.
#[repr(transparent)]
pub struct Function(MethodDef);

// SAFETY: the description is never changed.
unsafe impl Sync for Function {}

type NoArgumentFunction<T> = fn(Gil, &Arc<T>) -> Result<Object, PythonException>;
type OneArgumentFunction<T> = fn(Gil, &Arc<T>, Object) -> Result<Object, PythonException>;
type ArgumentsFunction<T> = fn(Gil, &Arc<T>, Arguments<'_>) -> Result<Object, PythonException>;

/// Represents a Rust function by a type, so that the C function that calls it needs only the type.
pub trait Calls<T: Functions> {
    /// The number of its arguments.
    const FORM: Form<T>;
}

/// The number of arguments of a function.
pub enum Form<T> {
    /// None.
    None(NoArgumentFunction<T>),
    /// One.
    One(OneArgumentFunction<T>),
    /// Any number.
    Some(ArgumentsFunction<T>),
    /// Any number, the last of which may have names; the names are not passed on.
    Named(ArgumentsFunction<T>),
}

impl Function {
    /// A function with this name.
    pub const fn of<T: Functions, C: Calls<T>>(name: &'static CStr) -> Function {
        let (function, flags): (*const c_void, c_int) = match C::FORM {
            Form::None(_) => (call_one::<T, C> as *const c_void, TAKES_NONE),
            Form::One(_) => (call_one::<T, C> as *const c_void, TAKES_ONE),
            Form::Some(_) => (call_some::<T, C> as *const c_void, TAKES_SOME),
            Form::Named(_) => (call_named::<T, C> as *const c_void, TAKES_NAMED),
        };
        let documentation: *const c_char = ptr::null();
        Function(MethodDef { name: name.as_ptr(), function, flags, documentation })
    }

    /// The function, bound to an object that holds a value of its type.
    pub fn bind(&'static self, gil: Gil, object: &Object) -> Result<Object, PythonException> {
        // SAFETY: the description lives forever, and is not changed by Python.
        gil.owned(unsafe {
            let definition = ptr::from_ref(&self.0).cast_mut();
            (gil.api().PyCFunction_NewEx)(definition, object.raw(), ptr::null_mut())
        })
    }
}

/// The value in an object that a function was bound to.
///
/// # Safety
/// The object was made by [`NativeType::hold`], and lives.
unsafe fn value_of<'a, T: Functions>(object: Raw) -> &'a Arc<T> {
    // SAFETY: the place holds what `hold` has written.
    unsafe { &*object.cast::<u8>().add(T::offset()).cast::<Arc<T>>() }
}

unsafe extern "C" fn call_one<T: Functions, C: Calls<T>>(object: Raw, argument: Raw) -> Raw {
    // SAFETY: Python calls it in a thread that may call Python, with the object that it was bound to.
    let (gil, value) = unsafe { (Gil::assume(T::api()), value_of::<T>(object)) };
    let result = match C::FORM {
        Form::None(function) => function(gil, value),
        Form::One(function) => gil.borrowed(argument).and_then(|argument| function(gil, value, argument)),
        Form::Some(_) | Form::Named(_) => Err(PythonException),
    };
    result.map_or(ptr::null_mut(), Object::into_raw)
}

unsafe extern "C" fn call_named<T: Functions, C: Calls<T>>(
    object: Raw,
    arguments: *const Raw,
    count: isize,
    names: Raw,
) -> Raw {
    // SAFETY: Python calls it in a thread that may call Python. There are as many arguments with names behind
    // the others as `names`, a tuple or null, has members.
    unsafe {
        let named = if names.is_null() { 0 } else { (T::api().PyTuple_Size)(names) };
        call_some::<T, C>(object, arguments, count + named)
    }
}

unsafe extern "C" fn call_some<T: Functions, C: Calls<T>>(
    object: Raw,
    arguments: *const Raw,
    count: isize,
) -> Raw {
    // SAFETY: as above; there are as many arguments, each an object.
    let (gil, value, raw) = unsafe {
        let raw: &[Raw] = match usize::try_from(count) {
            Ok(count) if count > 0 => std::slice::from_raw_parts(arguments, count),
            _ => &[],
        };
        (Gil::assume(T::api()), value_of::<T>(object), raw)
    };
    let result = match C::FORM {
        Form::Some(function) | Form::Named(function) => function(gil, value, Arguments { raw }),
        _ => Err(PythonException),
    };
    result.map_or(ptr::null_mut(), Object::into_raw)
}
