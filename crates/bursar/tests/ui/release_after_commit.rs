//! What is committed cannot be released.

async fn both(held: bursar::Held) {
    let _ = held.commit(1).await;
    let _ = held.release("again").await;
}

fn main() {
    let _ = both;
}
