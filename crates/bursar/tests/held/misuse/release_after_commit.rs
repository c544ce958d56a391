//! error[E0382]: use of moved value: `held`

async fn both(held: bursar::Held) {
    let _ = held.commit(1).await;
    let _ = held.release("again").await;
}

fn main() {
    let _ = both;
}
