//! A core's link to a worker: shared memory, an eventfd by which the worker wakes the core, and a socket that
//! passes descriptors of files and whose end shows that the worker has ended.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use rustix::event::EventfdFlags;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use touchstone_handler::handler::Level;

use super::end_of_turn::{EndOfTurn, WakeWorker};
use super::message_log::MessageLog;
use super::pool::Worker;
use super::request_events::{EarlyEnd, Event, RequestEvents, SentFile};
use crate::shared::control;
use crate::shared::frame::{self, BROKEN, Kind, NOT_CALLED};
use crate::shared::ring::{CorruptRing, Frame, Reader, Writer};
use crate::shared::segment::{Direction, Segment};

/// The link.
pub struct Link {
    /// The worker.
    pub worker: Arc<Worker>,
    state: RefCell<State>,
    wake: AsyncFd<OwnedFd>,
    files: AsyncFd<OwnedFd>,
    end_of_turn: Rc<EndOfTurn>,
    is_closed: Cell<bool>,
    closer: RefCell<Option<Waker>>,
    log: MessageLog,
}

struct State {
    writer: Writer,
    reader: Reader,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Frames that did not fit into the ring yet.
    backlog: VecDeque<(Kind, u8, u32, Vec<u8>)>,
    /// The ends of frames that are not freed yet, and whether they may be freed.
    held: VecDeque<(u64, bool)>,
    /// The index of the first entry of `held`.
    first_held: u64,
}

#[derive(Default)]
struct Slot {
    /// Distinguishes requests that used the same slot.
    turn: u16,
    request_events: Option<Rc<RequestEvents>>,
}

/// A request that was sent to a worker. Dropping it informs the worker that the core has abandoned the
/// request.
pub struct WorkerRequest {
    /// The link.
    pub link: Rc<Link>,
    /// Its number there.
    pub number: u32,
    /// The events that the worker has reported.
    pub request_events: Rc<RequestEvents>,
}

impl Link {
    /// Makes a link to a worker.
    pub fn open(worker: Arc<Worker>, end_of_turn: Rc<EndOfTurn>, log: MessageLog) -> io::Result<Rc<Link>> {
        let segment = Arc::new(Segment::new()?);
        let wake = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let (files, theirs) = control::pair()?;
        rustix::io::ioctl_fionbio(&files, true)?;
        let descriptors = [segment.file(), wake.as_fd(), theirs.as_fd()];
        control::send(&worker.control, control::LINK, &[], &descriptors, SendFlags::DONTWAIT)?;
        worker.add_segment(segment.clone());
        let state = State {
            writer: Writer::new(segment.clone(), Direction::Requests),
            reader: Reader::new(segment, Direction::Answers),
            slots: Vec::new(),
            free: Vec::new(),
            backlog: VecDeque::new(),
            held: VecDeque::new(),
            first_held: 0,
        };
        // SAFETY: both are owned descriptors, which stay the same for as long as they are registered.
        let (wake, files) = unsafe {
            (
                AsyncFd::register_with_interest(wake, Interest::READABLE)?,
                AsyncFd::register_with_interest(files, Interest::READABLE)?,
            )
        };
        let link = Rc::new(Link {
            worker,
            state: RefCell::new(state),
            wake,
            files,
            end_of_turn,
            is_closed: Cell::new(false),
            closer: RefCell::default(),
            log,
        });
        tokio::task::spawn_local(link.clone().run());
        Ok(link)
    }

    /// Whether the worker lives.
    pub fn is_open(&self) -> bool {
        !self.is_closed.get()
    }

    /// Sends a request to the worker; `None`: it accepts none.
    pub fn ask(self: &Rc<Self>, request: &[u8], wanted: usize) -> Option<WorkerRequest> {
        if self.is_closed.get() || !self.worker.begin() {
            return None;
        }
        let request_events = Rc::new(RequestEvents::new(wanted));
        let mut state = self.state.borrow_mut();
        let index = state.free.pop().unwrap_or_else(|| {
            state.slots.push(Slot::default());
            state.slots.len() - 1
        });
        let slot = &mut state.slots[index];
        slot.request_events = Some(request_events.clone());
        let number = (u32::from(slot.turn) << 16) | (index as u32 & 0xffff);
        drop(state);
        self.push(Kind::Request, 0, number, request);
        Some(WorkerRequest { link: self.clone(), number, request_events })
    }

    /// Writes a frame for the worker. The worker is woken at the end of the turn.
    pub fn push(self: &Rc<Self>, kind: Kind, flags: u8, number: u32, payload: &[u8]) {
        let mut state = self.state.borrow_mut();
        if !state.backlog.is_empty() || !state.writer.push(kind, flags, number, &[payload]) {
            state.backlog.push_back((kind, flags, number, payload.to_vec()));
        }
        drop(state);
        self.end_of_turn.note_written(self.clone());
    }

    fn wake_worker(&self) {
        // If the counter is full, it was woken often enough.
        let _ = rustix::io::write(&self.worker.wake, &1u64.to_ne_bytes());
    }

    /// Reads the payload of a whole answer that was not freed.
    pub fn with_payload<T>(&self, frame: &Frame, look: impl FnOnce(&[u8]) -> T) -> T {
        look(self.state.borrow().reader.payload(frame))
    }

    /// Called when a whole answer is not needed any more.
    pub fn free(&self, place: u64) {
        let mut state = self.state.borrow_mut();
        let index = place.wrapping_sub(state.first_held) as usize;
        if let Some(held) = state.held.get_mut(index) {
            held.1 = true;
        }
        if state.free_read_frames() {
            self.wake_worker();
        }
    }

    /// Called when the link is not used any more.
    pub fn close(&self) {
        self.is_closed.set(true);
        if let Some(waker) = self.closer.take() {
            waker.wake();
        }
    }

    /// Processes the worker's frames, until it ends or the link is closed. It runs as a task of the core.
    async fn run(self: Rc<Self>) {
        poll_fn(|context| self.poll_run(context)).await;
        // Answers that were written before the end are still used.
        let _ = self.read_all();
        self.is_closed.set(true);
        let slots: Vec<Rc<RequestEvents>> =
            self.state.borrow().slots.iter().filter_map(|slot| slot.request_events.clone()).collect();
        self.worker.note_lost(slots.iter().filter(|request_events| request_events.note_worker_end()).count());
    }

    fn poll_run(self: &Rc<Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.is_closed.get() {
                return Poll::Ready(());
            }
            // Each increase of the counter gives one event, so the counter need not be read.
            let woken = match self.wake.poll_read_ready(context) {
                Poll::Ready(Ok(mut guard)) => {
                    guard.clear_ready();
                    true
                }
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => false,
            };
            if self.read_all().is_err() {
                let text = "the messages of a worker cannot be read: the worker is abandoned";
                self.log.write(Level::Error, text);
                return Poll::Ready(());
            }
            if woken {
                continue;
            }
            if self.has_ended(context) {
                return Poll::Ready(());
            }
            if self.state.borrow().reader.fall_asleep() {
                *self.closer.borrow_mut() = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
    }

    /// Whether the worker has ended: then its end of the socket is closed.
    fn has_ended(&self, context: &mut Context<'_>) -> bool {
        match self.files.poll_read_ready(context) {
            Poll::Ready(Ok(mut guard)) => {
                if guard.ready().is_read_closed() {
                    return true;
                }
                // A file has arrived, which is taken together with its frame.
                guard.clear_ready();
                false
            }
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }

    /// Reads all frames, and writes those that did not fit before.
    fn read_all(self: &Rc<Self>) -> Result<(), CorruptRing> {
        loop {
            let mut state = self.state.borrow_mut();
            if state.send_backlog() {
                // The worker may sleep, because it has read all that was in the ring.
                self.end_of_turn.note_written(self.clone());
            }
            let Some(frame) = state.reader.next_frame()? else {
                if state.free_read_frames() {
                    self.wake_worker();
                }
                return Ok(());
            };
            let request_events = state.request_events(frame.number);
            if let (Kind::Whole, Some(request_events)) = (frame.kind, &request_events) {
                let place = state.first_held + state.held.len() as u64;
                state.held.push_back((frame.end(), false));
                drop(state);
                request_events.push_whole(frame, place);
                continue;
            }
            let payload = Bytes::copy_from_slice(state.reader.payload(&frame));
            state.held.push_back((frame.end(), true));
            drop(state);
            // A file is taken even if no request needs it, because it does not belong to the next one.
            let file = if frame.kind == Kind::File { Some(self.take_file(&payload)) } else { None };
            if let Some(request_events) = request_events {
                pass_event(&request_events, &frame, payload, file);
            }
        }
    }

    /// Takes the next file from the socket.
    fn take_file(&self, payload: &[u8]) -> Option<SentFile> {
        let message = control::receive(self.files.get_ref(), RecvFlags::DONTWAIT).ok().flatten()?;
        let file = message.descriptors.into_iter().next()?;
        let (offset, length) = payload.split_at_checked(8)?;
        let offset = u64::from_le_bytes(offset.try_into().ok()?);
        let length = u64::from_le_bytes(length.try_into().ok()?);
        let facts = rustix::fs::fstat(&file).ok()?;
        // Reading from anything else could block.
        let is_file = rustix::fs::FileType::from_raw_mode(facts.st_mode) == rustix::fs::FileType::RegularFile;
        let size = u64::try_from(facts.st_size).ok()?;
        let is_inside = offset.checked_add(length).is_some_and(|end| end <= size);
        (is_file && is_inside).then(|| SentFile { file: Arc::new(file), offset, length })
    }

    fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }
}

impl WakeWorker for Link {
    fn wake_if_asleep(&self) {
        if self.state.borrow().writer.must_wake() {
            self.wake_worker();
        }
    }
}

/// Passes an event of the worker to a request.
fn pass_event(request_events: &RequestEvents, frame: &Frame, payload: Bytes, file: Option<Option<SentFile>>) {
    let event = match frame.kind {
        Kind::Whole => Event::Whole(payload),
        Kind::Head => Event::Head(payload),
        Kind::Piece => Event::Piece(payload),
        Kind::Hints => Event::Hints(payload.to_vec()),
        Kind::Want => return request_events.want(frame::number(&payload)),
        Kind::File => match file.flatten() {
            Some(file) => Event::File(file),
            None => Event::End(Err(EarlyEnd::Broken)),
        },
        Kind::End if frame.flags & NOT_CALLED != 0 => Event::End(Err(EarlyEnd::NotCalled)),
        Kind::End if frame.flags & BROKEN != 0 => Event::End(Err(EarlyEnd::Broken)),
        Kind::End => Event::End(Ok(payload.to_vec())),
        // These kinds are sent to workers only.
        Kind::Request | Kind::Body | Kind::BodyEnd | Kind::Credit | Kind::Gone => return,
    };
    request_events.push(event);
}

impl State {
    fn request_events(&self, number: u32) -> Option<Rc<RequestEvents>> {
        let slot = self.slots.get((number & 0xffff) as usize)?;
        slot.request_events.clone().filter(|_| u32::from(slot.turn) == number >> 16)
    }

    /// Writes frames that did not fit before; returns whether any was written.
    fn send_backlog(&mut self) -> bool {
        let mut has_written = false;
        while let Some((kind, flags, number, payload)) = self.backlog.front() {
            if !self.writer.push(*kind, *flags, *number, &[payload]) {
                break;
            }
            self.backlog.pop_front();
            has_written = true;
        }
        has_written
    }

    /// Frees frames that were read, up to the first one that is still needed. Returns whether the worker
    /// waits for room.
    fn free_read_frames(&mut self) -> bool {
        let mut end = None;
        while let Some((position, true)) = self.held.front() {
            end = Some(*position);
            self.held.pop_front();
            self.first_held += 1;
        }
        end.is_some_and(|end| self.reader.free_to(end))
    }
}

impl WorkerRequest {
    /// Reports to the worker that this many bytes were sent to the client.
    pub fn took(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.link.push(Kind::Credit, 0, self.number, &bytes.to_le_bytes());
    }

    /// The next event of the worker.
    pub async fn event(&self) -> Event {
        poll_fn(|context| self.poll_event(context)).await
    }

    /// A whole answer is copied out of the ring.
    fn poll_event(&self, context: &mut Context<'_>) -> Poll<Event> {
        if self.request_events.poll_event_ready(context).is_pending() {
            return Poll::Pending;
        }
        if let Some((frame, place)) = self.request_events.take_whole() {
            let copied = self.link.with_payload(&frame, Bytes::copy_from_slice);
            self.link.free(place);
            return Poll::Ready(Event::Whole(copied));
        }
        Poll::Ready(self.request_events.take_event().unwrap_or(Event::Lost))
    }
}

impl Drop for WorkerRequest {
    fn drop(&mut self) {
        let is_under_way = poll_now(&self.request_events);
        if let Some((_, place)) = self.request_events.take_whole() {
            self.link.free(place);
        }
        self.request_events.abandon();
        {
            let mut state = self.link.state();
            let index = (self.number & 0xffff) as usize;
            if let Some(slot) = state.slots.get_mut(index) {
                slot.request_events = None;
                slot.turn = slot.turn.wrapping_add(1);
                state.free.push(index);
            }
        }
        // Lost requests were counted before.
        if !self.request_events.is_lost() {
            self.link.worker.end();
        }
        if is_under_way && self.link.is_open() {
            self.link.push(Kind::Gone, 0, self.number, &[]);
        }
    }
}

/// Whether the worker's answer is not complete.
fn poll_now(request_events: &RequestEvents) -> bool {
    request_events.poll_over(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::frame::PIECE_BYTES;
    use crate::shared::segment::REQUEST_RING_BYTES;
    use std::time::Duration;

    /// Far longer than a wake takes on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The worker's end of a link to a core.
    struct WorkerEnd {
        reader: Reader,
        core: OwnedFd,
        _files: OwnedFd,
        wake: AsyncFd<OwnedFd>,
    }

    impl WorkerEnd {
        fn of(control: OwnedFd, wake: OwnedFd) -> WorkerEnd {
            let message = control::receive(&control, RecvFlags::empty()).unwrap().unwrap();
            let [memory, core, files]: [OwnedFd; 3] = message.descriptors.try_into().unwrap();
            let segment = Arc::new(Segment::of(memory).unwrap());
            // SAFETY: the descriptor is owned by what is made here, and stays open as long.
            let wake = unsafe { AsyncFd::register_with_interest(wake, Interest::READABLE) }.unwrap();
            WorkerEnd { reader: Reader::new(segment, Direction::Requests), core, _files: files, wake }
        }

        /// Reads all frames, as a worker does; returns how many there were.
        fn read(&mut self) -> usize {
            let mut count = 0;
            while let Some(frame) = self.reader.next_frame().unwrap() {
                count += 1;
                if self.reader.free_to(frame.end()) {
                    rustix::io::write(&self.core, &1u64.to_ne_bytes()).unwrap();
                }
            }
            count
        }

        async fn sleep(&mut self) {
            if self.reader.fall_asleep() {
                let woken = tokio::time::timeout(PATIENCE, self.wake.readable()).await;
                woken.expect("the worker is woken").unwrap().clear_ready();
                rustix::io::read(self.wake.get_ref(), &mut [0u8; 8]).unwrap();
            }
        }
    }

    /// Runs a core's tasks.
    fn on_core(work: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, work);
    }

    #[test]
    fn frames_that_had_no_room_are_written_later_and_the_worker_is_woken_for_them() {
        on_core(async {
            let (control, theirs) = control::pair().unwrap();
            let wake = rustix::event::eventfd(0, EventfdFlags::NONBLOCK).unwrap();
            let worker = Arc::new(Worker::new(1, 0, control, wake.try_clone().unwrap()));
            let end_of_turn = Rc::new(EndOfTurn::default());
            tokio::task::spawn_local(end_of_turn.clone().run());
            let link = Link::open(worker, end_of_turn, MessageLog::default()).unwrap();
            let mut worker = WorkerEnd::of(theirs, wake);

            let all = 5 * REQUEST_RING_BYTES / PIECE_BYTES;
            for _ in 0..all {
                link.push(Kind::Body, 0, 1, &[0; PIECE_BYTES]);
            }
            let mut read = worker.read();
            assert!(read < all, "the ring holds less");
            while read < all {
                worker.sleep().await;
                read += worker.read();
            }
            assert_eq!(read, all);
        });
    }
}
