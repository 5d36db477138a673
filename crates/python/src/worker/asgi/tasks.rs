//! The tasks of requests.
//!
//! The first step of a request runs at once, not in the event loop's next turn. To make a task costs as much
//! as the rest of a short request, so a request that does not wait for anything gets none of its own: a spare
//! task is the current one meanwhile, and its context is entered. If the application waits, the spare task
//! continues the request, and another spare one is made. A spare task that the application has changed or
//! keeps, or has set a context variable in, is ended with the request.
//!
//! Python 3.9 has no function for this. There each request gets a task.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::api::{Arguments, CoroutineStep, Gil, Kind as Class, Object, PythonException};

/// Starts requests.
pub struct Tasks {
    objects: Objects,
    /// The names of the loop's function, and of that of a context.
    call_soon: Object,
    run: Object,
    /// The arguments of a task that have names.
    named: Object,
    names: [Object; 3],
    /// What a task gave the loop to call: its first step, and its context.
    taken: Mutex<Option<(Object, Object)>>,
    spare: Mutex<Option<SpareTask>>,
    /// What the spare task continues with: the request, its coroutine, and what that waits for.
    handed: Mutex<Option<Object>>,
    can_step: bool,
}

/// Objects of the Python side.
pub struct Objects {
    pub app: Object,
    /// The class of tasks, and the event loop.
    pub task_class: Object,
    pub event_loop: Object,
    /// Called by a task instead of the loop's `call_soon`: it calls [`Tasks::take`].
    pub take_first_step: Object,
    /// The coroutine function of a request with a task of its own.
    pub serve: Object,
    /// The coroutine function of a spare task.
    pub go_on: Object,
    /// Called with each task that waits.
    pub keep: Object,
    /// Makes a coroutine of something else that can be awaited.
    pub as_coroutine: Object,
    pub coroutine_class: Object,
    /// Ends a coroutine whose task was cancelled in its first step, and returns the exception.
    pub cancel: Object,
    /// Whether a context has these items.
    pub has_items: Object,
    /// Functions of asyncio, and of the modules sys and weakref.
    pub enter_task: Object,
    pub leave_task: Object,
    pub register_task: Object,
    pub unregister_task: Object,
    pub count_references: Object,
    pub count_weak_references: Object,
}

/// A task whose first step was not run.
struct SpareTask {
    task: Object,
    step: Object,
    context: Object,
    /// The items of its context, if it has any.
    items: Option<Object>,
    name: Object,
    references: i64,
    weak_references: i64,
}

/// How a request was started.
pub enum RequestStart {
    /// It waits.
    Waits,
    /// It has ended; with an exception, it has failed.
    Ended(Option<Object>),
}

/// The result of a coroutine's first step.
enum FirstStep {
    Ended(Option<Object>),
    Waits(Object, Object),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tasks {
    /// For an application.
    pub fn new(gil: Gil, objects: Objects) -> Result<Tasks, PythonException> {
        let named = gil.dict()?;
        gil.set(&named, &gil.interned(c"loop")?, &objects.event_loop)?;
        Ok(Tasks {
            objects,
            call_soon: gil.interned(c"call_soon")?,
            run: gil.interned(c"run")?,
            named,
            names: [gil.interned(c"_callbacks")?, gil.interned(c"_must_cancel")?, gil.interned(c"get_name")?],
            taken: Mutex::default(),
            spare: Mutex::default(),
            handed: Mutex::default(),
            can_step: gil.can_step(),
        })
    }

    /// Calls the application for a request, and runs it up to where it first waits. Called by the event loop.
    pub fn start(
        &self,
        gil: Gil,
        request: &Object,
        arguments: [&Object; 3],
    ) -> Result<RequestStart, PythonException> {
        if !self.can_step {
            return self.start_task(gil, request, arguments);
        }
        let spare = lock(&self.spare).take();
        let spare = match spare {
            Some(spare) => spare,
            None => self.make_spare(gil)?,
        };
        let Objects { event_loop, enter_task, leave_task, .. } = &self.objects;
        gil.enter_context(&spare.context)?;
        let entered = gil.call2(enter_task, event_loop, &spare.task);
        let stepped = entered.and_then(|_| {
            let stepped = self.first_step(gil, arguments);
            gil.call2(leave_task, event_loop, &spare.task).map(|_| stepped)
        });
        let failure = if stepped.is_err() { gil.take_error() } else { None };
        gil.exit_context(&spare.context)?;
        if let Some(failure) = failure {
            // Another task is the current one: the application runs the event loop in a request.
            *lock(&self.spare) = Some(spare);
            return Err(gil.raise_exception(failure));
        }
        match stepped? {
            FirstStep::Ended(error) => {
                if self.is_unused(gil, &spare) {
                    *lock(&self.spare) = Some(spare);
                } else {
                    self.continue_in(gil, &spare)?;
                }
                Ok(RequestStart::Ended(error))
            }
            FirstStep::Waits(coroutine, awaited) => {
                let handed = gil.tuple([request.clone(), coroutine.clone(), awaited])?;
                *lock(&self.handed) = Some(handed);
                gil.call1(&self.objects.register_task, &spare.task)?;
                self.continue_in(gil, &spare)?;
                let untaken = lock(&self.handed).take();
                if untaken.is_some() {
                    // The task was cancelled before it waited, so it has ended without the request.
                    let error = gil.call1(&self.objects.cancel, &coroutine)?;
                    return Ok(RequestStart::Ended(Some(error)));
                }
                gil.call1(&self.objects.keep, &spare.task)?;
                Ok(RequestStart::Waits)
            }
        }
    }

    /// Calls the application, and runs its coroutine.
    fn first_step(&self, gil: Gil, [scope, receive, send]: [&Object; 3]) -> FirstStep {
        let Objects { app, coroutine_class, as_coroutine, .. } = &self.objects;
        let called = gil.call3(app, [scope, receive, send]).and_then(|made| {
            if made.has_type(coroutine_class) { Ok(made) } else { gil.call1(as_coroutine, &made) }
        });
        let stepped = called.and_then(|coroutine| {
            Ok(match gil.step(&coroutine)? {
                CoroutineStep::Returned => FirstStep::Ended(None),
                CoroutineStep::Yielded(awaited) => FirstStep::Waits(coroutine, awaited),
            })
        });
        stepped.unwrap_or_else(|PythonException| {
            FirstStep::Ended(Some(gil.take_error().unwrap_or_else(|| gil.none())))
        })
    }

    /// Runs the first step of a spare task: it continues what was handed, or ends.
    fn continue_in(&self, gil: Gil, spare: &SpareTask) -> Result<(), PythonException> {
        let run = gil.required_attribute(&spare.context, &self.run)?;
        gil.call1(&run, &spare.step).map(drop)
    }

    /// Makes a task whose first step is not run yet. Until then it is not among all tasks, for whose end an
    /// application may wait.
    fn make_spare(&self, gil: Gil) -> Result<SpareTask, PythonException> {
        let coroutine = gil.call0(&self.objects.go_on)?;
        let (task, step, context) = self.make_task(gil, coroutine)?;
        gil.call1(&self.objects.unregister_task, &task)?;
        let items = match gil.size(&context)? {
            0 => None,
            _ => {
                let items = gil.attribute(&context, c"items")?;
                let copy = gil.dict()?;
                gil.call1(&gil.attribute(&copy, c"update")?, &gil.call0(&items)?)?;
                Some(copy)
            }
        };
        let name = gil.call0(&gil.required_attribute(&task, &self.names[2])?)?;
        let references = self.references(gil, &task)?;
        let [references, weak_references] = references;
        Ok(SpareTask { task, step, context, items, name, references, weak_references })
    }

    /// Makes a task, and intercepts the call of its first step.
    fn make_task(&self, gil: Gil, coroutine: Object) -> Result<(Object, Object, Object), PythonException> {
        let Objects { event_loop, task_class, take_first_step, .. } = &self.objects;
        gil.set_attribute(event_loop, &self.call_soon, Some(take_first_step))?;
        let task = gil.call1_named(task_class, coroutine, &self.named);
        let failure = if task.is_err() { gil.take_error() } else { None };
        gil.set_attribute(event_loop, &self.call_soon, None)?;
        if let Some(failure) = failure {
            return Err(gil.raise_exception(failure));
        }
        let task = task?;
        let taken = lock(&self.taken).take();
        let (step, context) = taken.ok_or_else(|| gil.raise(Class::Runtime, "a task has no first step"))?;
        Ok((task, step, context))
    }

    /// `call_soon(step, context=context)`
    pub fn take(&self, gil: Gil, arguments: &Arguments<'_>) -> Result<Object, PythonException> {
        let (Some(step), Some(context)) = (arguments.get(gil, 0), arguments.get(gil, 1)) else {
            return Err(gil.raise(Class::Type, "a task gives its first step and its context"));
        };
        let before = lock(&self.taken).replace((step, context));
        drop(before);
        Ok(gil.none())
    }

    /// What a spare task continues with, a tuple; `None` of Python: nothing.
    pub fn take_handed(&self, gil: Gil) -> Object {
        let handed = lock(&self.handed).take();
        handed.unwrap_or_else(|| gil.none())
    }

    fn references(&self, gil: Gil, task: &Object) -> Result<[i64; 2], PythonException> {
        let Objects { count_references, count_weak_references, .. } = &self.objects;
        Ok([
            gil.as_number(&gil.call1(count_references, task)?)?,
            gil.as_number(&gil.call1(count_weak_references, task)?)?,
        ])
    }

    /// Whether a request has left nothing in the spare task, so that the next one may have it.
    fn is_unused(&self, gil: Gil, spare: &SpareTask) -> bool {
        let [callbacks, must_cancel, get_name] = &self.names;
        let task = &spare.task;
        let is_unused = || -> Result<bool, PythonException> {
            let has = |name| gil.required_attribute(task, name).and_then(|value| gil.is_true(&value));
            let has_same_items = match &spare.items {
                None => gil.size(&spare.context)? == 0,
                Some(items) => gil.is_true(&gil.call2(&self.objects.has_items, &spare.context, items)?)?,
            };
            Ok(has_same_items
                && self.references(gil, task)? == [spare.references, spare.weak_references]
                && !has(callbacks)?
                && !has(must_cancel)?
                && gil.call0(&gil.required_attribute(task, get_name)?)?.is(&spare.name))
        };
        is_unused().unwrap_or_else(|PythonException| {
            gil.clear_error();
            false
        })
    }

    /// Ends the spare task, which has nothing to continue.
    pub fn end_spare(&self, gil: Gil) {
        let spare = lock(&self.spare).take();
        if let Some(spare) = spare
            && self.continue_in(gil, &spare).is_err()
        {
            gil.clear_error();
        }
    }

    /// Starts a request in a task of its own.
    fn start_task(
        &self,
        gil: Gil,
        request: &Object,
        [scope, receive, send]: [&Object; 3],
    ) -> Result<RequestStart, PythonException> {
        let coroutine = gil.call4(&self.objects.serve, [scope, receive, send, request])?;
        let (task, step, context) = self.make_task(gil, coroutine)?;
        gil.call1(&gil.required_attribute(&context, &self.run)?, &step)?;
        gil.call1(&self.objects.keep, &task)?;
        Ok(RequestStart::Waits)
    }
}
