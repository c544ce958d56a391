//! error[E0382]: use of moved value: `held`

async fn twice(held: bursar::Held) {
    let _ = held.commit(1).await;
    let _ = held.commit(1).await;
}

fn main() {
    let _ = twice;
}
