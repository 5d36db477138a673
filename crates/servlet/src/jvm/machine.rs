//! One virtual machine, and calls of the class `org.touchstone.servlet.Host` in it.
//!
//! Only this file and `natives` hold the unsafe code for calling Java.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::path::Path;
use std::ptr;

use jni_sys::{
    JNI_OK, JNI_VERSION_10, JNIEnv, JNINativeMethod, JavaVM, JavaVMAttachArgs, JavaVMInitArgs, JavaVMOption,
    jclass, jint, jmethodID, jobject, jvalue,
};

/// How the machine is started.
pub struct Start<'a> {
    /// The library.
    pub libjvm: &'a Path,
    /// Options, such as `-Xmx512m`.
    pub options: Vec<String>,
    /// Called when the machine is about to end the process.
    pub on_exit: extern "C" fn(c_int),
    /// Called when the machine has aborted. If it returns, the machine ends the process with `abort` or
    /// `_exit`.
    pub on_abort: extern "C" fn(),
    /// The functions that Java may call: names, signatures and functions of the class `Native`.
    pub natives: &'a [(&'static CStr, &'static CStr, *mut c_void)],
    /// Other code has installed handlers for faults, which must stay.
    pub keeps_fault_handlers: bool,
}

/// The machine.
pub struct Machine {
    vm: *mut JavaVM,
    host: jclass,
    boot: jmethodID,
    open: jmethodID,
    close: jmethodID,
    stop: jmethodID,
    slab: jmethodID,
    serve: jmethodID,
    event: jmethodID,
    status: jmethodID,
    to_string: jmethodID,
}

// SAFETY: the machine's own functions may be called on any thread, and the identifiers and the global
// reference are valid on all of them.
unsafe impl Send for Machine {}
// SAFETY: as above.
unsafe impl Sync for Machine {}

/// A thread that is attached to the machine. Dropping this detaches it.
pub struct AttachedThread<'m> {
    machine: &'m Machine,
    env: *mut JNIEnv,
    /// The value must stay on its thread.
    _stays: PhantomData<*mut ()>,
}

type CreateJavaVm = unsafe extern "system" fn(*mut *mut JavaVM, *mut *mut c_void, *mut c_void) -> jint;

impl Machine {
    /// Starts the machine on this thread and detaches the thread again. The thread should not be the first
    /// one of the process, and should not have a small stack. If the machine finds only late that it cannot
    /// start, for example because its heap is too small, this does not return, and `on_abort` is called.
    pub fn start(start: &Start<'_>) -> Result<Machine, String> {
        super::signals::leave_faults_to_the_machine(start.keeps_fault_handlers);
        // SAFETY: opening the library runs only Java's own initialisers.
        let library = unsafe { libloading::Library::new(start.libjvm) }
            .map_err(|error| format!("{} cannot be opened: {error}", start.libjvm.display()))?;
        // SAFETY: the name and the type are those of Java's invocation interface.
        let create = unsafe { library.get::<CreateJavaVm>(b"JNI_CreateJavaVM\0") }
            .map_err(|error| format!("{} is not a Java virtual machine: {error}", start.libjvm.display()))?;
        let texts: Vec<CString> =
            start.options.iter().filter_map(|option| CString::new(option.as_str()).ok()).collect();
        let mut options: Vec<JavaVMOption> = texts
            .iter()
            .map(|text| JavaVMOption { optionString: text.as_ptr().cast_mut(), extraInfo: ptr::null_mut() })
            .collect();
        options.push(JavaVMOption {
            optionString: c"exit".as_ptr().cast_mut(),
            extraInfo: start.on_exit as *mut c_void,
        });
        options.push(JavaVMOption {
            optionString: c"abort".as_ptr().cast_mut(),
            extraInfo: start.on_abort as *mut c_void,
        });
        let mut arguments = JavaVMInitArgs {
            version: JNI_VERSION_10,
            nOptions: jint::try_from(options.len()).unwrap_or(0),
            options: options.as_mut_ptr(),
            ignoreUnrecognized: false,
        };
        let mut vm: *mut JavaVM = ptr::null_mut();
        let mut env: *mut c_void = ptr::null_mut();
        // SAFETY: all pointers are valid during the call; the options are copied.
        let result = unsafe { create(&mut vm, &mut env, (&raw mut arguments).cast()) };
        if result != JNI_OK {
            return Err(format!(
                "Java did not start (error {result}): one of its options is not valid, or there is not \
                 enough memory"
            ));
        }
        // The machine never ends, so its library must stay loaded.
        std::mem::forget(library);
        // SAFETY: the machine has just created this environment for this thread.
        let machine = unsafe { Machine::known(vm, env.cast(), start) };
        // SAFETY: this thread is attached, and no Java frame is on its stack.
        unsafe { ((**vm).v1_4.DetachCurrentThread)(vm) };
        machine
    }

    /// # Safety
    ///
    /// `env` must be this thread's.
    unsafe fn known(vm: *mut JavaVM, env: *mut JNIEnv, start: &Start<'_>) -> Result<Machine, String> {
        // SAFETY: per this function's contract. The names and signatures are constants, and the jar is built
        // with the same ones.
        unsafe {
            let find = |name: &CStr| {
                let class = ((**env).v1_4.FindClass)(env, name.as_ptr());
                if class.is_null() {
                    ((**env).v1_4.ExceptionClear)(env);
                    return Err(format!(
                        "the class {} is missing: is the directory of jars complete?",
                        name.to_string_lossy()
                    ));
                }
                Ok(((**env).v1_4.NewGlobalRef)(env, class))
            };
            let host = find(c"org/touchstone/servlet/Host")?;
            let native = find(c"org/touchstone/servlet/Native")?;
            let object = find(c"java/lang/Object")?;
            let methods: Vec<JNINativeMethod> = start
                .natives
                .iter()
                .map(|(name, signature, function)| JNINativeMethod {
                    name: name.as_ptr().cast_mut(),
                    signature: signature.as_ptr().cast_mut(),
                    fnPtr: *function,
                })
                .collect();
            let count = jint::try_from(methods.len()).unwrap_or(0);
            if ((**env).v1_4.RegisterNatives)(env, native, methods.as_ptr(), count) != JNI_OK {
                ((**env).v1_4.ExceptionClear)(env);
                return Err("the jars and the server have different versions".to_string());
            }
            let method = |name: &CStr, signature: &CStr| {
                let method = ((**env).v1_4.GetStaticMethodID)(env, host, name.as_ptr(), signature.as_ptr());
                if method.is_null() {
                    ((**env).v1_4.ExceptionClear)(env);
                    return Err("the jars and the server have different versions".to_string());
                }
                Ok(method)
            };
            Ok(Machine {
                vm,
                host,
                boot: method(c"boot", c"(Ljava/lang/String;)V")?,
                open: method(c"open", c"(ILjava/lang/String;)V")?,
                close: method(c"close", c"(I)V")?,
                stop: method(c"stop", c"()V")?,
                slab: method(c"slab", c"(IILjava/nio/ByteBuffer;Ljava/nio/ByteBuffer;)V")?,
                serve: method(c"serve", c"(II)I")?,
                event: method(c"event", c"(III)V")?,
                status: method(c"status", c"()Ljava/lang/String;")?,
                to_string: ((**env).v1_4.GetMethodID)(
                    env,
                    object,
                    c"toString".as_ptr(),
                    c"()Ljava/lang/String;".as_ptr(),
                ),
            })
        }
    }

    /// Attaches this thread to the machine, as a daemon thread that does not prevent the machine from ending.
    pub fn attach(&self, name: &str) -> Result<AttachedThread<'_>, String> {
        let name = CString::new(name).unwrap_or_default();
        let mut arguments = JavaVMAttachArgs {
            version: JNI_VERSION_10,
            name: name.as_ptr().cast_mut(),
            group: ptr::null_mut(),
        };
        let mut env: *mut c_void = ptr::null_mut();
        // SAFETY: the machine never ends, and the pointers are valid during the call.
        let result = unsafe {
            ((**self.vm).v1_4.AttachCurrentThreadAsDaemon)(self.vm, &mut env, (&raw mut arguments).cast())
        };
        if result != JNI_OK {
            return Err(format!("Java refused another thread (error {result})"));
        }
        Ok(AttachedThread { machine: self, env: env.cast(), _stays: PhantomData })
    }
}

impl Drop for AttachedThread<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread is attached, and no Java frame is on its stack.
        unsafe { ((**self.machine.vm).v1_4.DetachCurrentThread)(self.machine.vm) };
    }
}

impl AttachedThread<'_> {
    /// Starts Tomcat, with a directory for its files.
    pub fn boot(&self, work: &Path) -> Result<(), String> {
        let work = self.text(&work.to_string_lossy())?;
        self.call(self.machine.boot, &[jvalue { l: work }])
    }

    /// Starts the applications of a route.
    pub fn open(&self, id: i32, settings: &str) -> Result<(), String> {
        let settings = self.text(settings)?;
        self.call(self.machine.open, &[jvalue { i: id }, jvalue { l: settings }])
    }

    /// Stops the applications of a route.
    pub fn close(&self, id: i32) -> Result<(), String> {
        self.call(self.machine.close, &[jvalue { i: id }])
    }

    /// Stops Tomcat.
    pub fn stop(&self) -> Result<(), String> {
        self.call(self.machine.stop, &[])
    }

    /// Registers two buffers with Java. They must never be freed.
    pub fn slab(
        &self,
        id: i32,
        slab: i32,
        input: &'static Memory,
        output: &'static Memory,
    ) -> Result<(), String> {
        // SAFETY: this thread is attached, and the memory is never freed.
        unsafe {
            let wrap = |memory: &Memory| {
                let length = jni_sys::jlong::try_from(memory.bytes).unwrap_or(0);
                ((**self.env).v1_4.NewDirectByteBuffer)(self.env, memory.start.cast(), length)
            };
            let (input, output) = (wrap(input), wrap(output));
            let result = self.call(
                self.machine.slab,
                &[jvalue { i: id }, jvalue { i: slab }, jvalue { l: input }, jvalue { l: output }],
            );
            ((**self.env).v1_4.DeleteLocalRef)(self.env, input);
            ((**self.env).v1_4.DeleteLocalRef)(self.env, output);
            result
        }
    }

    /// Answers the request in a slab; `None` if Java has thrown an exception, which happens only when Java
    /// cannot continue.
    pub fn serve(&self, slab: i32, length: i32) -> Option<i32> {
        let arguments = [jvalue { i: slab }, jvalue { i: length }];
        // SAFETY: this thread is attached, and the arguments are those of the method.
        unsafe {
            let result = ((**self.env).v1_4.CallStaticIntMethodA)(
                self.env,
                self.machine.host,
                self.machine.serve,
                arguments.as_ptr(),
            );
            if ((**self.env).v1_4.ExceptionCheck)(self.env) {
                ((**self.env).v1_4.ExceptionClear)(self.env);
                return None;
            }
            Some(result)
        }
    }

    /// Reports an event to an asynchronous request.
    pub fn event(&self, slab: i32, number: i32, kind: i32) -> Result<(), String> {
        self.call(self.machine.event, &[jvalue { i: slab }, jvalue { i: number }, jvalue { i: kind }])
    }

    /// The state of the machine and of the applications, as JSON.
    pub fn status(&self) -> Result<String, String> {
        // SAFETY: this thread is attached, and the method takes no arguments.
        unsafe {
            let text = ((**self.env).v1_4.CallStaticObjectMethodA)(
                self.env,
                self.machine.host,
                self.machine.status,
                ptr::null(),
            );
            let thrown = ((**self.env).v1_4.ExceptionOccurred)(self.env);
            if !thrown.is_null() {
                ((**self.env).v1_4.ExceptionClear)(self.env);
                return Err(self.message_of(thrown));
            }
            if text.is_null() {
                return Err("Java returned no message".to_string());
            }
            Ok(text_of(self.env, text))
        }
    }

    fn text(&self, text: &str) -> Result<jobject, String> {
        // The machine uses modified UTF-8. It differs for NUL and for characters beyond the first plane,
        // which paths need not contain.
        let text = CString::new(text).map_err(|_| "a text contains a NUL byte".to_string())?;
        // SAFETY: this thread is attached.
        Ok(unsafe { ((**self.env).v1_4.NewStringUTF)(self.env, text.as_ptr()) })
    }

    fn call(&self, method: jmethodID, arguments: &[jvalue]) -> Result<(), String> {
        // SAFETY: this thread is attached, and callers pass the arguments of the method's signature.
        unsafe {
            ((**self.env).v1_4.CallStaticVoidMethodA)(
                self.env,
                self.machine.host,
                method,
                arguments.as_ptr(),
            );
            let thrown = ((**self.env).v1_4.ExceptionOccurred)(self.env);
            if thrown.is_null() {
                return Ok(());
            }
            ((**self.env).v1_4.ExceptionClear)(self.env);
            Err(self.message_of(thrown))
        }
    }

    /// # Safety
    ///
    /// `thrown` must be a reference of this thread.
    unsafe fn message_of(&self, thrown: jobject) -> String {
        let env = self.env;
        // SAFETY: per this function's contract.
        unsafe {
            let text = ((**env).v1_4.CallObjectMethodA)(env, thrown, self.machine.to_string, ptr::null());
            if text.is_null() || ((**env).v1_4.ExceptionCheck)(env) {
                ((**env).v1_4.ExceptionClear)(env);
                return "Java has thrown".to_string();
            }
            text_of(env, text)
        }
    }
}

/// The text of a Java string.
///
/// # Safety
///
/// `env` must be this thread's, and `text` a string of it.
pub unsafe fn text_of(env: *mut JNIEnv, text: jobject) -> String {
    // SAFETY: per this function's contract. The characters are released after use.
    unsafe {
        let letters: *const c_char = ((**env).v1_4.GetStringUTFChars)(env, text, ptr::null_mut());
        if letters.is_null() {
            return String::new();
        }
        let owned = CStr::from_ptr(letters).to_string_lossy().into_owned();
        ((**env).v1_4.ReleaseStringUTFChars)(env, text, letters);
        owned
    }
}

/// Memory that Java and the server share. It is never freed, because Java may read it as long as it runs.
pub struct Memory {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: Java and the server use it in turns, which `slab` ensures.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates this many bytes. Pages that are never used need no memory.
    pub fn new(bytes: usize) -> &'static Memory {
        let leaked: &'static mut [u8] = Box::leak(vec![0; bytes].into_boxed_slice());
        Box::leak(Box::new(Memory { start: leaked.as_mut_ptr(), bytes }))
    }

    /// Copies bytes to the beginning, and omits those beyond the end. Returns how many were copied.
    ///
    /// # Safety
    ///
    /// The memory must not be used elsewhere during the call.
    pub unsafe fn put(&self, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.bytes);
        // SAFETY: both have this length, and they do not overlap, because no Rust code borrows this memory.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start, length) };
        length
    }

    /// Copies bytes so that they end at `end`, and returns where they begin; `None`: there is no room.
    ///
    /// # Safety
    ///
    /// As for [`Memory::put`].
    pub unsafe fn write_before(&self, end: usize, bytes: &[u8]) -> Option<usize> {
        let start = end.checked_sub(bytes.len()).filter(|_| end <= self.bytes)?;
        // SAFETY: as in `put`. The copied bytes end at `end`, which is inside the memory.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(start), bytes.len()) };
        Some(start)
    }

    /// The first bytes.
    ///
    /// # Safety
    ///
    /// The memory must not be written to while the slice is used.
    pub unsafe fn get(&self, length: usize) -> &[u8] {
        // SAFETY: the memory has this length and is initialised. The caller ensures that it is not written
        // to.
        unsafe { std::slice::from_raw_parts(self.start, length.min(self.bytes)) }
    }
}
