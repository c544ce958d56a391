//! Memory that is not used any more goes back to the system, also where nothing is asked of the server.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// How often each thread is made to look.
const EVERY: Duration = Duration::from_secs(2);
/// More than the allocator has at hand for a thread: it goes through what it could give back.
const BLOCK: usize = 4 << 20;

/// The allocator returns what a thread has freed when that thread allocates again. A server that is idle after a burst would keep
/// all that the burst took: so its threads allocate a little now and then.
pub(crate) async fn give_back() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut beat = interval(EVERY);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        // More tasks than threads, each of which lets others go first, come to all of them.
        for _ in 0..4 * threads {
            tokio::spawn(async {
                for _ in 0..4 {
                    drop(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK)));
                    tokio::task::yield_now().await;
                }
            });
        }
    }
}
