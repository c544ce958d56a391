//! Returns unused memory to the operating system while the server is idle.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// How often each thread is made to allocate.
const INTERVAL: Duration = Duration::from_secs(2);
/// Larger than the allocator's per-thread cache, so that the allocation walks the thread's free pages.
const BLOCK_BYTES: usize = 4 << 20;

/// Makes every runtime thread allocate a block now and then. The allocator returns a thread's freed pages only when
/// that thread allocates, so an idle server would keep all the memory of its last burst.
pub(crate) async fn run() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Several yielding tasks per thread, so that work stealing brings at least one to each thread.
        for _ in 0..4 * threads {
            tokio::spawn(async {
                for _ in 0..4 {
                    drop(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK_BYTES)));
                    tokio::task::yield_now().await;
                }
            });
        }
    }
}
