//! One core's clock: read once in each tick, and used for every request in between.
//!
//! A request needs the text of the current second for `Date` and the log, and a coarse "now" for its
//! deadlines. Querying the kernel and formatting the text for each request would cost more than the rest of a
//! hit, so the core's ticker does it.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use touchstone_files::cache::DateSecond;
use touchstone_http::date::format_imf_fixdate;

/// How often the ticker runs: the resolution of every deadline.
pub const TICK: Duration = Duration::from_millis(200);

/// One core's clock.
pub struct CoreClock {
    started: Instant,
    coarse_ms: Cell<u64>,
    second: Cell<DateSecond>,
}

impl Default for CoreClock {
    /// A clock that shows the current time.
    fn default() -> CoreClock {
        let clock = CoreClock {
            started: Instant::now(),
            coarse_ms: Cell::new(0),
            second: Cell::new(date_second(unix_now())),
        };
        clock.tick();
        clock
    }
}

impl CoreClock {
    /// Sets the clock; returns true when a new second has begun.
    pub fn tick(&self) -> bool {
        self.coarse_ms.set(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX));
        let now = unix_now();
        let is_new_second = now != self.second.get().unix_seconds;
        if is_new_second {
            self.second.set(date_second(now));
        }
        is_new_second
    }

    /// Milliseconds since the core started, as of the last tick.
    #[inline]
    pub fn coarse_ms(&self) -> u64 {
        self.coarse_ms.get()
    }

    /// The current second.
    #[inline]
    pub fn second(&self) -> DateSecond {
        self.second.get()
    }
}

/// Fires every [`TICK`], aligned to wall-clock time: the date changes when the second does.
///
/// It is a kernel timer, not a timer of the runtime. While the runtime has a timer, every wait for events
/// arms one in the kernel and disarms it again, which a busy core would do for every batch of requests.
pub struct Ticker {
    timer: AsyncFd<OwnedFd>,
}

impl Ticker {
    /// A ticker for this thread's event loop.
    pub fn new() -> io::Result<Ticker> {
        Ok(Ticker { timer: touchstone_transport::sys::register_descriptor(ticking_timer()?)? })
    }

    /// Waits for the next tick; ticks that were missed count as one.
    pub async fn tick(&self) -> io::Result<()> {
        let mut ready = self.timer.readable().await?;
        let mut expirations = [0u8; 8];
        // The read finds nothing if the event was stale; the tick is then early, which does no harm.
        let _ = rustix::io::read(self.timer.get_ref(), &mut expirations);
        ready.clear_ready();
        Ok(())
    }
}

/// A timer that becomes readable every [`TICK`].
pub fn ticking_timer() -> io::Result<OwnedFd> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let tick_ns = TICK.as_nanos();
    let first = TICK - Duration::from_nanos((since_epoch.as_nanos() % tick_ns) as u64);
    let spec = |duration: Duration| Timespec {
        tv_sec: duration.as_secs() as i64,
        tv_nsec: i64::from(duration.subsec_nanos()),
    };
    let times = Itimerspec { it_interval: spec(TICK), it_value: spec(first) };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
    Ok(timer)
}

fn unix_now() -> i64 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

fn date_second(unix_seconds: i64) -> DateSecond {
    DateSecond { unix_seconds, text: format_imf_fixdate(unix_seconds) }
}
