//! error[E0382]: use of moved value: `reservation`

async fn both(reservation: bursar::Reservation) {
    let _ = reservation.commit().await;
    let _ = reservation.release("again").await;
}

fn main() {
    let _ = both;
}
