//! A timer with the kernel's resolution. The runtime's timer counts whole milliseconds and rounds up, which is as long as a group of
//! packets takes to send.

use nearlight_units::Time;

use crate::Clock;

/// Waits for one time after another.
#[derive(Debug)]
pub struct Alarm {
    clock: Clock,
    #[cfg(target_os = "linux")]
    timer: Option<kernel::Timer>,
}

impl Alarm {
    /// Makes an alarm. Must be called inside a runtime.
    ///
    /// Falls back to the runtime's timer on other systems, and if the kernel provides no timer, which is logged.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            #[cfg(target_os = "linux")]
            timer: kernel::Timer::new()
                .inspect_err(|error| tracing::warn!(%error, "packets leave up to 1 ms late: cannot create a timer"))
                .ok(),
        }
    }

    /// Waits until `time`. Returns at once if it has passed. The future may be dropped and the call repeated.
    pub async fn at(&mut self, time: Time) {
        #[cfg(target_os = "linux")]
        {
            let left = time - self.clock.now();
            if let Some(timer) = &self.timer
                && left > nearlight_units::Span::ZERO
                && left <= kernel::MAX_WAIT
                && timer.wait(crate::clock::duration(left)).await.is_ok()
            {
                return;
            }
        }
        self.clock.sleep_until(time).await;
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use nearlight_units::Span;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;

    /// Maximum wait with the kernel's timer: beyond it a millisecond does not matter, and the runtime's timer needs no system call.
    pub const MAX_WAIT: Span = Span::from_millis(100);

    #[derive(Debug)]
    pub struct Timer {
        descriptor: AsyncFd<OwnedFd>,
    }

    impl Timer {
        pub fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            #[expect(
                deprecated,
                reason = "an `OwnedFd` is all that the unsafe constructor in its place makes one promise"
            )]
            let descriptor = AsyncFd::new(descriptor)?;
            Ok(Self { descriptor })
        }

        /// Waits for `time` from now. Setting the timer cancels an abandoned wait.
        pub async fn wait(&self, time: Duration) -> io::Result<()> {
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let value = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
            let setting = Itimerspec { it_interval: zero, it_value: value };
            timerfd_settime(&self.descriptor, TimerfdTimerFlags::empty(), &setting)?;
            loop {
                let mut ready = self.descriptor.readable().await?;
                let mut times = [0; 8];
                match ready.try_io(|descriptor| Ok(rustix::io::read(descriptor, &mut times)?)) {
                    Ok(read) => return read.map(drop),
                    // The readiness is from before it was set.
                    Err(_would_block) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::Span;

    use super::*;

    #[tokio::test]
    async fn it_rings_not_before_its_time_and_forgets_what_was_given_up() {
        let clock = Clock::start();
        let mut alarm = Alarm::new(clock);
        alarm.at(Time::ZERO).await;
        for micros in [50, 300, 1_000, 2_500] {
            // It expires while no one waits.
            let early = clock.now() + Span::from_micros(100);
            tokio::select! {
                biased;
                () = alarm.at(early) => {}
                () = std::future::ready(()) => {}
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            let time = clock.now() + Span::from_micros(micros);
            alarm.at(time).await;
            assert!(clock.now() >= time, "{micros} us");
        }
    }

    #[tokio::test]
    async fn it_is_finer_than_a_millisecond() {
        let clock = Clock::start();
        let mut alarm = Alarm::new(clock);
        let mut late = Vec::new();
        for _ in 0..51 {
            let time = clock.now() + Span::from_micros(300);
            alarm.at(time).await;
            late.push(clock.now() - time);
        }
        late.sort();
        assert!(late[25] < Span::from_micros(500), "{} late at the median", late[25]);
    }
}
