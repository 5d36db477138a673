//! A running configuration: plug-ins loaded, Init functions called, directives prepared.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use touchstone_files::mime::ContentTypes;

use crate::abi::{ConfGlobals, LOG_INFORM, LOG_WARN, REQ_ABORTED};
use crate::breadcrumb::breadcrumb;
use crate::builtin::FUNCTIONS;
use crate::conf::magnus::{Setting, read_magnus, setting, touchstone_key};
use crate::conf::media_types::read_media_types;
use crate::conf::objects::read_objects;
use crate::conf::templates::find_templates;
use crate::conf::{self, Configuration, Init, Parameters, Problem, SourceLocation, Stage, parameter};
use crate::directive::{ClientRules, Directive, permanent_block};
use crate::functions::{AllowedThreads, Function, Functions};
use crate::pattern::Pattern;
use crate::pblock;
use crate::plugin::Plugin;
use crate::plugin_request::{PluginRequest, current};

/// The NSAPI settings of a route.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Settings {
    /// An obj.conf.
    pub obj_conf: Option<PathBuf>,
    /// A magnus.conf.
    pub magnus_conf: Option<PathBuf>,
    /// `Init` lines, without the word `Init`.
    pub init: Vec<String>,
    /// Lines of the object `default`.
    pub directives: Vec<String>,
    /// Functions that may run on a core.
    pub inline: Vec<String>,
    /// The directory of files for paths that no NameTrans function translates.
    pub document_root: Option<PathBuf>,
    /// The directory at which relative paths of plug-ins begin.
    pub directory: PathBuf,
    /// The site's own media types: file name extensions with their types.
    pub media_types: BTreeMap<String, String>,
    /// The name of the site.
    pub server_name: String,
    /// The number of workers, for plug-ins that query it.
    pub workers: usize,
    /// The settings are only checked.
    #[serde(default)]
    pub is_check: bool,
}

/// The log of the engine.
pub trait Log: Send + Sync {
    /// Writes a line; `degree` is one of LOG_WARN to LOG_VERBOSE.
    fn write(&self, degree: c_int, message: &str);
}

/// A running configuration.
pub struct Engine {
    functions: Functions,
    /// Set after the Init functions have run.
    program: OnceLock<Program>,
    document_root: Vec<u8>,
    /// The directory at which relative paths of the files begin.
    directory: PathBuf,
    root_object: Vec<u8>,
    settings: Vec<Setting>,
    globals: GlobalTexts,
    log: Arc<dyn Log>,
    at_end: Mutex<Vec<(AtEnd, *mut c_void)>>,
    plugins: Mutex<HashMap<PathBuf, Arc<Plugin>>>,
    server_name: CString,
    types: ContentTypes,
}

// SAFETY: the pointers are texts that are never freed, and arguments that plug-ins gave for their own
// functions.
unsafe impl Send for Engine {}
// SAFETY: as above.
unsafe impl Sync for Engine {}

type AtEnd = unsafe extern "C" fn(*mut c_void);

/// The objects, and their indexes by name.
#[derive(Default)]
struct Program {
    objects: Vec<Object>,
    names: HashMap<Vec<u8>, usize>,
    /// The object where every request begins, if no function or pattern leads to another one.
    only_object: Option<usize>,
    /// The functions that the directives name, each once.
    functions: Vec<&'static Function>,
}

struct Object {
    ppath: Option<Pattern>,
    directives: [Vec<Directive>; Stage::ALL.len()],
}

/// Texts of the values of `conf_getglobals`, which are never freed.
struct GlobalTexts {
    root: CString,
    id: CString,
    object: CString,
    workers: c_int,
}

thread_local! {
    /// The engine whose Init functions run on this thread.
    static STARTING: Cell<*const Engine> = const { Cell::new(std::ptr::null()) };
}

/// The engine that was started last, for threads without a request.
static LAST: AtomicPtr<Engine> = AtomicPtr::new(std::ptr::null_mut());

/// Engines that have started and not ended, with their plug-ins.
static LIVE: Mutex<Vec<(usize, Vec<PathBuf>)>> = Mutex::new(Vec::new());

/// The engine of the calling thread.
pub fn current() -> Option<&'static Engine> {
    let plugin_request = current::plugin_request();
    // SAFETY: started engines are never freed: `start` leaks one reference, because threads of plug-ins may
    // call at any time.
    unsafe {
        if let Some(plugin_request) = plugin_request.as_ref()
            && let Some(engine) = &plugin_request.engine
        {
            return Some(&*Arc::as_ptr(engine));
        }
        let starting = STARTING.get();
        if !starting.is_null() {
            return Some(&*starting);
        }
        LAST.load(Ordering::Acquire).as_ref()
    }
}

impl Engine {
    /// Reads the files, loads the plug-ins and calls the Init functions. The error lists all problems.
    pub fn start(settings: &Settings, log: Arc<dyn Log>) -> Result<Arc<Engine>, Vec<String>> {
        let (configuration, problems) = read(settings);
        if !problems.is_empty() {
            return Err(problems.iter().map(Problem::to_string).collect());
        }
        let engine = Arc::new(Engine::new(settings, &configuration, log));
        let before = STARTING.replace(Arc::as_ptr(&engine));
        let filled = engine.clone().fill(settings, &configuration);
        STARTING.set(before);
        let engine =
            filled.map_err(|problems| problems.iter().map(Problem::to_string).collect::<Vec<_>>())?;
        let paths = engine.plugins.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).push((Arc::as_ptr(&engine) as usize, paths));
        // Threads of plug-ins may call for as long as the process lives.
        LAST.store(Arc::into_raw(engine.clone()).cast_mut(), Ordering::Release);
        Ok(engine)
    }

    fn new(settings: &Settings, configuration: &Configuration, log: Arc<dyn Log>) -> Engine {
        let magnus = &configuration.settings;
        let c_text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
        let path_text = |path: &Path| path.to_string_lossy().into_owned();
        let root = setting(magnus, "ServerRoot").or(setting(magnus, "NetsiteRoot")).map(str::to_string);
        let root = root.unwrap_or_else(|| path_text(&settings.directory));
        let object = root_object_name(configuration);
        let document_root = clean_root(settings).map(|root| path_text(&root)).unwrap_or_default();
        Engine {
            functions: Functions::new(FUNCTIONS),
            program: OnceLock::new(),
            document_root: document_root.trim_end_matches('/').as_bytes().to_vec(),
            directory: settings.directory.clone(),
            root_object: object.as_bytes().to_vec(),
            settings: magnus.clone(),
            globals: GlobalTexts {
                root: c_text(&root),
                id: c_text(setting(magnus, "ServerID").unwrap_or("touchstone")),
                object: c_text(object),
                workers: settings.workers as c_int,
            },
            log,
            at_end: Mutex::default(),
            plugins: Mutex::default(),
            server_name: c_text(setting(magnus, "ServerName").unwrap_or(&settings.server_name)),
            types: media_types(settings, configuration),
        }
    }

    /// Calls the Init functions, then prepares the directives: Init may have added or changed functions.
    fn fill(
        self: Arc<Engine>,
        settings: &Settings,
        configuration: &Configuration,
    ) -> Result<Arc<Engine>, Vec<Problem>> {
        current::set_default_globals(self.globals());
        let mut problems = Vec::new();
        for init in &configuration.init {
            if let Err(message) = self.init(settings, init) {
                problems.push(Problem { location: init.location.clone(), message });
            }
        }
        for name in &settings.inline {
            match self.functions.find(name) {
                Some(function) => function.set_inline(),
                None => problems.push(unknown_inline(name)),
            }
        }
        self.note_replaced_settings();
        for (location, media_type) in types_that_no_file_has(configuration, &self.types) {
            let media_type = String::from_utf8_lossy(media_type);
            self.log(
                LOG_WARN,
                &format!(
                    "{location}: no file name extension and no ObjectType line has the type \
                     {media_type}: files of the type may be sent as they are. Add their extensions to \
                     mime_types of the site"
                ),
            );
        }
        let program = self.make_program(configuration, &mut problems);
        if !problems.is_empty() {
            self.end();
            return Err(problems);
        }
        // It is set only here, once.
        let _ = self.program.set(program);
        Ok(self)
    }

    fn init(&self, settings: &Settings, init: &Init) -> Result<(), String> {
        let name = init_name(init)?;
        if let Some(shlib) = load_modules(init) {
            return self.load_modules(&settings.directory, shlib, &init.parameters);
        }
        if self.functions.find(&name).is_none()
            && let Some(instead) = crate::builtin::init_without_effect(&name)
        {
            self.log(LOG_INFORM, &format!("{}: {name} is ignored: {instead}", init.location));
            return Ok(());
        }
        let function = self.functions.find(&name).ok_or_else(|| unknown(&self.functions, &name))?;
        let block = permanent_block(&init.parameters);
        // SAFETY: Init functions get a block and neither a session nor a request.
        let answer = unsafe { function.call(block, std::ptr::null_mut(), std::ptr::null_mut()) };
        if answer == REQ_ABORTED {
            // SAFETY: the block is valid.
            let reason = unsafe { pblock::find(block, b"error") }.unwrap_or(b"it gives no reason");
            return Err(format!("the Init function {name} has failed: {}", String::from_utf8_lossy(reason)));
        }
        Ok(())
    }

    fn load_modules(&self, directory: &Path, shlib: &[u8], parameters: &Parameters) -> Result<(), String> {
        let path = directory.join(text_path(shlib));
        let (plugin, module_init) = load_plugin(&self.functions, &path, parameters)?;
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone(), Arc::new(plugin));
        let Some(module_init) = module_init else { return Ok(()) };
        let block = permanent_block(parameters);
        // SAFETY: as for Init functions.
        let answer = unsafe { module_init.call(block, std::ptr::null_mut(), std::ptr::null_mut()) };
        match answer {
            REQ_ABORTED => Err(format!("nsapi_module_init of {} has failed", path.display())),
            _ => Ok(()),
        }
    }

    fn make_program(&self, configuration: &Configuration, problems: &mut Vec<Problem>) -> Program {
        let mut objects = Vec::new();
        let mut names = HashMap::new();
        for object in &configuration.objects {
            let mut prepared = Object {
                ppath: object.ppath.as_deref().and_then(|text| Pattern::new(text).ok()),
                directives: Default::default(),
            };
            for directive in &object.directives {
                match make_directive(&self.functions, directive) {
                    Ok(DirectiveOutcome::Ready(ready)) => {
                        prepared.directives[directive.stage as usize].push(*ready)
                    }
                    Ok(DirectiveOutcome::LeftOut(message)) => self.log(LOG_INFORM, &message),
                    Err(message) => problems.push(Problem { location: directive.location.clone(), message }),
                }
            }
            if let Some(name) = &object.name {
                names.insert(name.clone(), objects.len());
            }
            objects.push(prepared);
        }
        problems.extend(missing_root_object(configuration));
        let leads_on = |object: &Object| {
            let directives =
                [Stage::AuthTrans, Stage::NameTrans].map(|stage| &object.directives[stage as usize]);
            object.ppath.is_some() || directives.iter().any(|directives| !directives.is_empty())
        };
        let leads_nowhere = !objects.iter().any(leads_on);
        let only_object = names.get(&self.root_object).copied().filter(|_| leads_nowhere);
        let mut functions: Vec<&'static Function> = Vec::new();
        for directive in objects.iter().flat_map(|object| object.directives.iter().flatten()) {
            if !functions.iter().any(|known| std::ptr::eq(*known, directive.function())) {
                functions.push(directive.function());
            }
        }
        Program { objects, names, only_object, functions }
    }

    fn note_replaced_settings(&self) {
        for setting in &self.settings {
            if let Some(location) = touchstone_key(&setting.name) {
                let text =
                    format!("{}: {} has no effect here: it is in {location}", setting.location, setting.name);
                self.log(LOG_INFORM, &text);
            }
        }
    }

    /// Calls the functions that plug-ins have registered for the end, in reverse order. A plug-in that a
    /// newer configuration has loaded as well is not ended: it is the same library with the same memory, and
    /// its Init functions have run again.
    pub fn end(&self) {
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = std::ptr::from_ref(self) as usize;
        live.retain(|(engine, _)| *engine != mine);
        let plugins = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
        let is_reused = live.iter().any(|(_, paths)| paths.iter().any(|path| plugins.contains_key(path)));
        drop((live, plugins));
        if is_reused {
            return;
        }
        let mut functions = std::mem::take(&mut *self.at_end.lock().unwrap_or_else(PoisonError::into_inner));
        while let Some((function, argument)) = functions.pop() {
            // SAFETY: the plug-in gave function and argument together, for this.
            unsafe { function(argument) };
        }
    }

    /// Writes a line to the log.
    pub fn log(&self, degree: c_int, message: &str) {
        self.log.write(degree, message);
    }

    /// The functions.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The directives of an object for a stage.
    pub fn directives(&self, object: usize, stage: Stage) -> &[Directive] {
        self.object(object).map_or(&[], |object| &object.directives[stage as usize])
    }

    fn object(&self, object: usize) -> Option<&Object> {
        self.program.get()?.objects.get(object)
    }

    /// The object with a name.
    pub fn object_of_name(&self, name: &[u8]) -> Option<usize> {
        self.program.get()?.names.get(name).copied()
    }

    /// The objects whose pattern matches a path.
    pub fn objects_of_path(&self, path: &[u8]) -> Vec<usize> {
        let matches = |object: &Object| object.ppath.as_ref().is_some_and(|ppath| ppath.matches(path));
        let objects = self.program.get().map_or(&[][..], |program| &program.objects);
        (0..objects.len()).filter(|index| matches(&objects[*index])).collect()
    }

    /// Whether every function that a directive names may run on a core and none passes the request to another
    /// part of the server.
    pub fn always_answers_on_core(&self) -> bool {
        let functions = self.program.get().map_or(&[][..], |program| &program.functions);
        functions.iter().all(|function| function.always_answers_on_core())
    }

    /// The one object that applies to every request, if AuthTrans and NameTrans have no directives.
    pub fn only_object(&self) -> Option<usize> {
        self.program.get()?.only_object
    }

    /// The name of the object where every request begins.
    pub fn root_object(&self) -> &[u8] {
        &self.root_object
    }

    /// The directory of files for paths that no NameTrans function translates; empty: none.
    pub fn document_root(&self) -> &[u8] {
        &self.document_root
    }

    /// The directory at which relative paths of obj.conf and magnus.conf begin.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A setting of magnus.conf.
    pub fn setting(&self, name: &str) -> Option<&str> {
        setting(&self.settings, name)
    }

    /// The name of the site.
    pub fn server_name(&self) -> &CString {
        &self.server_name
    }

    /// The media types of files.
    pub fn types(&self) -> &ContentTypes {
        &self.types
    }

    /// The values of `conf_getglobals`, except those of a request.
    pub fn globals(&self) -> ConfGlobals {
        let texts = &self.globals;
        ConfGlobals {
            pool_max: texts.workers,
            pool_min: 1,
            pool_maxthreads: texts.workers,
            pool_minthreads: 1,
            server_hostname: self.server_name.as_ptr().cast_mut(),
            root_object: texts.object.as_ptr().cast_mut(),
            server_root: texts.root.as_ptr().cast_mut(),
            netsite_root: texts.root.as_ptr().cast_mut(),
            server_id: texts.id.as_ptr().cast_mut(),
            ..current::blank_globals()
        }
    }

    /// The built-in error page, if no function has answered.
    pub fn send_error_page(&self, plugin_request: &mut PluginRequest) {
        crate::builtin::error::send_page(plugin_request);
    }

    /// The virtual server that plug-ins see: the engine itself.
    pub fn as_virtual_server(&self) -> *const c_void {
        std::ptr::from_ref(self).cast()
    }
}

/// The result of preparing a directive.
enum DirectiveOutcome {
    Ready(Box<Directive>),
    /// The directive has no effect, because Touchstone does this in another way, which the text describes.
    LeftOut(String),
}

fn make_directive(functions: &Functions, directive: &conf::Directive) -> Result<DirectiveOutcome, String> {
    let stage = directive.stage.name();
    let name =
        parameter(&directive.parameters, "fn").ok_or(format!("{stage} needs fn=, the name of a function"))?;
    let name = String::from_utf8_lossy(name).into_owned();
    // A plug-in may have replaced the function of this name.
    if functions.find(&name).is_none_or(Function::is_servers_own)
        && let Some(instead) = crate::builtin::directive_without_effect(&name, &directive.parameters)?
    {
        return Ok(DirectiveOutcome::LeftOut(format!(
            "{}: {name} is ignored: {instead}",
            directive.location
        )));
    }
    let function = functions.find(&name).ok_or_else(|| unknown(functions, &name))?;
    let client = directive.client.as_deref().map(|client| ClientRules::new(client, &directive.location));
    let ready = Directive::new(directive, function, client.transpose()?.map(Arc::new))?;
    Ok(DirectiveOutcome::Ready(Box::new(ready)))
}

fn unknown(functions: &Functions, name: &str) -> String {
    match functions.nearest(name) {
        Some(nearest) => format!("the function {name:?} does not exist; did you mean {nearest:?}?"),
        None => {
            format!(
                "the function {name:?} does not exist: it is not built in, and no load-modules line \
                above has it"
            )
        }
    }
}

fn missing_root_object(configuration: &Configuration) -> Option<Problem> {
    let name = root_object_name(configuration);
    let is_there = configuration.objects.iter().any(|object| object.name.as_deref() == Some(name.as_bytes()));
    let message = format!("<Object name={name:?}>, the first object of each request, is missing");
    (!is_there).then(|| Problem { location: in_configuration(1), message })
}

/// Loads a plug-in and adds the functions that an Init line names; also returns its `nsapi_module_init`, if
/// it has one.
fn load_plugin(
    functions: &Functions,
    path: &Path,
    parameters: &Parameters,
) -> Result<(Plugin, Option<&'static Function>), String> {
    let plugin = Plugin::load(path)?;
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names = String::from_utf8_lossy(parameter(parameters, "funcs").unwrap_or_default()).into_owned();
    let is_inline = parameter(parameters, "inline").is_some_and(is_true);
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let function = functions.insert(name, &file, plugin.function(name)?, AllowedThreads::OnWorker);
        if is_inline {
            function.set_inline();
        }
    }
    let module_init = plugin
        .function("nsapi_module_init")
        .ok()
        .map(|function| functions.insert("nsapi_module_init", &file, function, AllowedThreads::OnWorker));
    if module_init.is_none() && names.trim().is_empty() {
        return Err("load-modules needs funcs=, the functions of the plug-in".to_string());
    }
    Ok((plugin, module_init))
}

/// Checks the settings: reads the files, loads the plug-ins and checks that every function exists, as
/// [`Engine::start`] does, but calls no Init function. If there are Init functions, they may add others, so
/// unknown names are then not reported.
pub fn check(settings: &Settings) -> Vec<String> {
    let (configuration, mut problems) = read(settings);
    let functions = Functions::new(FUNCTIONS);
    let mut may_add = false;
    for init in &configuration.init {
        match check_init(settings, init, &functions) {
            Ok(calls) => may_add |= calls,
            Err(message) => problems.push(Problem { location: init.location.clone(), message }),
        }
    }
    let is_judged = |name: &str| !may_add || functions.find(name).is_some();
    for name in settings.inline.iter().filter(|name| is_judged(name) && functions.find(name).is_none()) {
        problems.push(unknown_inline(name));
    }
    for directive in configuration.objects.iter().flat_map(|object| &object.directives) {
        let name = parameter(&directive.parameters, "fn").map(String::from_utf8_lossy);
        let directive_result = make_directive(&functions, directive);
        if let Err(message) = directive_result
            && name.is_none_or(|name| {
                is_judged(&name) || crate::builtin::is_refused(&name, &directive.parameters)
            })
        {
            problems.push(Problem { location: directive.location.clone(), message });
        }
    }
    problems.extend(missing_root_object(&configuration));
    problems.iter().map(Problem::to_string).collect()
}

/// Checks the functions of an Init line; true if a plug-in's function would be called.
fn check_init(settings: &Settings, init: &Init, functions: &Functions) -> Result<bool, String> {
    let name = init_name(init)?;
    if let Some(shlib) = load_modules(init) {
        let path = settings.directory.join(text_path(shlib));
        return load_plugin(functions, &path, &init.parameters).map(|(_, module_init)| module_init.is_some());
    }
    match functions.find(&name) {
        Some(function) => Ok(!function.is_servers_own()),
        None if crate::builtin::init_without_effect(&name).is_some() => Ok(false),
        None => Err(unknown(functions, &name)),
    }
}

/// The name of the function of an Init line.
fn init_name(init: &Init) -> Result<String, String> {
    let name = parameter(&init.parameters, "fn").ok_or("Init needs fn=, the name of a function")?;
    let name = String::from_utf8_lossy(name).into_owned();
    if name.replace('_', "-") == "load-modules" && load_modules(init).is_none() {
        return Err("load-modules needs shlib=, the file of the plug-in".to_string());
    }
    Ok(name)
}

fn unknown_inline(name: &str) -> Problem {
    Problem {
        location: in_configuration(1),
        message: format!("'inline' contains {name:?}, which is not a function of a plug-in"),
    }
}

/// The directories that directives with built-in functions name.
pub fn directories(settings: &Settings) -> Vec<PathBuf> {
    let (configuration, _) = read(settings);
    let mut directories: Vec<PathBuf> = settings.document_root.iter().cloned().collect();
    for directive in configuration.objects.iter().flat_map(|object| &object.directives) {
        let named = match parameter(&directive.parameters, "fn") {
            Some(b"document-root") => "root",
            Some(b"pfx2dir") => "dir",
            _ => continue,
        };
        let Some(directory) = parameter(&directive.parameters, named).map(text_path) else { continue };
        if directory.is_absolute() && !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    directories
}

/// Reads all files of the settings.
fn read(settings: &Settings) -> (Configuration, Vec<Problem>) {
    let mut configuration = Configuration::default();
    let mut problems = Vec::new();
    for (path, is_magnus) in [(&settings.magnus_conf, true), (&settings.obj_conf, false)] {
        let Some(path) = path else { continue };
        let name: Arc<str> = Arc::from(path.to_string_lossy());
        match std::fs::read(path) {
            Ok(text) if is_magnus => problems.extend(read_magnus(&name, &text, &mut configuration)),
            Ok(text) => problems.extend(read_objects(&name, &text, &mut configuration)),
            Err(error) => problems.push(Problem {
                location: SourceLocation { file: name, line: 1 },
                message: format!("the file cannot be read: {error}"),
            }),
        }
    }
    // Lines of the configuration are read as a separate obj.conf; its line 1 is <Object>, so the line numbers
    // match.
    if !settings.init.is_empty() || !settings.directives.is_empty() {
        let mut text = String::new();
        settings.init.iter().for_each(|line| text.push_str(&format!("Init {}\n", one_line(line))));
        let location = in_configuration(1);
        if settings.obj_conf.is_none() || !settings.directives.is_empty() {
            text.push_str("<Object name=default>\n");
            settings.directives.iter().for_each(|line| text.push_str(&format!("{}\n", one_line(line))));
            text.push_str("</Object>\n");
        }
        problems.extend(read_objects(&location.file, text.as_bytes(), &mut configuration));
    }
    problems.extend(read_types(settings, &mut configuration));
    problems.extend(refused_lines(&configuration));
    name_document_root(settings, &mut configuration);
    problems.extend(find_templates(&mut configuration));
    (configuration, problems)
}

/// The name of the object where every request begins.
fn root_object_name(configuration: &Configuration) -> &str {
    setting(&configuration.settings, "RootObject").unwrap_or("default")
}

/// Lines of unknown stages in objects that a request may reach: the root object, objects with a path, and
/// objects that a line names. Other objects of the default obj.conf are never used, so their lines are not
/// reported.
fn refused_lines(configuration: &Configuration) -> Vec<Problem> {
    let root = root_object_name(configuration).as_bytes();
    let is_named = |name: &[u8]| {
        let directives = configuration.objects.iter().flat_map(|object| &object.directives);
        // A name with a variable may lead to any object.
        let names = |value: Option<&[u8]>| value.is_some_and(|value| value == name || value.contains(&b'$'));
        name == root || directives.into_iter().any(|line| names(parameter(&line.parameters, "name")))
    };
    let is_reached =
        |object: &&conf::Object| object.ppath.is_some() || object.name.as_deref().is_some_and(is_named);
    configuration.objects.iter().filter(is_reached).flat_map(|object| object.refused.clone()).collect()
}

/// Reads the files that `load-types` names.
fn read_types(settings: &Settings, configuration: &mut Configuration) -> Vec<Problem> {
    let mut problems = Vec::new();
    let is_meant =
        |init: &&Init| matches!(parameter(&init.parameters, "fn"), Some(b"load-types" | b"load_types"));
    for init in configuration.init.iter().filter(is_meant) {
        for file in
            ["mime-types", "local-types"].into_iter().filter_map(|name| parameter(&init.parameters, name))
        {
            let path = settings.directory.join(text_path(file));
            match std::fs::read(&path) {
                Ok(text) => {
                    let name = Arc::from(path.to_string_lossy());
                    problems.extend(read_media_types(&name, &text, &mut configuration.media_types));
                }
                Err(error) => problems.push(Problem {
                    location: init.location.clone(),
                    message: format!("{} cannot be read: {error}", path.display()),
                }),
            }
        }
    }
    problems
}

/// The types of files: those of the site, then those of `load-types` files.
fn media_types(settings: &Settings, configuration: &Configuration) -> ContentTypes {
    let mut types: BTreeMap<String, String> = BTreeMap::new();
    for (ending, media_type) in &configuration.media_types {
        // Types that are not valid are left out.
        if ContentTypes::new([(ending.clone(), media_type.clone())], None).is_ok() {
            types.insert(ending.clone(), media_type.clone());
        }
    }
    let of_site = settings.media_types.iter();
    types.extend(of_site.map(|(ending, media_type)| (ending.to_ascii_lowercase(), media_type.clone())));
    // Without a charset: the patterns of obj.conf are written for types without one. The site's own types
    // were tried before.
    ContentTypes::new(types, None).unwrap_or_default()
}

/// Types by which a Service line recognises its files, but that no file gets: the source of such files would
/// be sent.
fn types_that_no_file_has<'a>(
    configuration: &'a Configuration,
    types: &ContentTypes,
) -> Vec<(&'a SourceLocation, &'a [u8])> {
    let lines = || configuration.objects.iter().flat_map(|object| &object.directives);
    let type_of = |directive: &'a conf::Directive| parameter(&directive.parameters, "type");
    let is_given = |wanted: &[u8]| {
        crate::builtin::object_type::INTERNAL_TYPES.contains(&wanted)
            || types.has_type(wanted)
            || lines().any(|line| line.stage != Stage::Service && type_of(line) == Some(wanted))
    };
    lines()
        .filter(|line| line.stage == Stage::Service)
        .filter_map(|line| Some((&line.location, type_of(line)?)))
        .filter(|(_, wanted)| {
            let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_+./".contains(byte);
            wanted.starts_with(b"magnus-internal/") && wanted.iter().all(is_plain) && !is_given(wanted)
        })
        .collect()
}

/// The document root without ".", which unix-uri-clean would take for an attempt to leave the root.
fn clean_root(settings: &Settings) -> Option<PathBuf> {
    settings.document_root.as_ref().map(|root| root.components().collect())
}

/// `$docroot` is replaced by the root of the route or site, as by that of a virtual server in the original
/// servers.
fn name_document_root(settings: &Settings, configuration: &mut Configuration) {
    use std::os::unix::ffi::OsStrExt;
    let Some(root) = clean_root(settings) else { return };
    let root = root.as_os_str().as_bytes();
    let directives = configuration.objects.iter_mut().flat_map(|object| &mut object.directives);
    for (_, value) in directives.flat_map(|directive| &mut directive.parameters) {
        if let Some(rest) = value.strip_prefix(b"$docroot").filter(|rest| matches!(rest, [] | [b'/', ..])) {
            *value = [root, rest].concat();
        }
    }
}

fn one_line(line: &str) -> String {
    line.split(['\r', '\n']).map(str::trim).collect::<Vec<_>>().join(" ")
}

fn in_configuration(line: usize) -> SourceLocation {
    SourceLocation { file: Arc::from("nsapi"), line }
}

/// The file of a plug-in, if an Init line loads one.
fn load_modules(init: &Init) -> Option<&[u8]> {
    let name = parameter(&init.parameters, "fn")?;
    matches!(name, b"load-modules" | b"load_modules").then(|| parameter(&init.parameters, "shlib")).flatten()
}

/// A path as bytes.
pub fn text_path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

/// `yes`, `true`, `on` and `1`.
pub fn is_true(value: &[u8]) -> bool {
    [&b"yes"[..], b"true", b"on", b"1"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

pub unsafe extern "C" fn magnus_atrestart(function: Option<AtEnd>, argument: *mut c_void) {
    if let (Some(engine), Some(function)) = (current(), function) {
        engine.at_end.lock().unwrap_or_else(PoisonError::into_inner).push((function, argument));
    }
}

/// Logs once that a function of the interface has no effect here.
pub fn unsupported(name: &'static str) {
    static REPORTED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if reported.contains(&name) {
        return;
    }
    reported.push(name);
    drop(reported);
    if let Some(engine) = current() {
        // SAFETY: names of plug-ins are never freed.
        let plugin = unsafe { crate::memory::bytes(breadcrumb().plugin) };
        let plugin = if plugin.is_empty() { "a plug-in".into() } else { String::from_utf8_lossy(plugin) };
        engine.log(
            LOG_WARN,
            &format!("{plugin} has called {name}, which is not supported and returns an error"),
        );
    }
}
