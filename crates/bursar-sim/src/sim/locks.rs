//! Row locks of the simulated database: exclusive, in the order of requests.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bursar_store::Lock;
use tokio::sync::Notify;

/// The id of a transaction.
pub(crate) type TxId = u64;

#[derive(Default)]
pub(crate) struct Locks {
    rows: BTreeMap<Lock, Row>,
    held: HashMap<TxId, Vec<Lock>>,
    waits: HashMap<TxId, Lock>,
    /// Transactions of callers, which lock rows in any order.
    caller_transactions: HashSet<TxId>,
}

struct Row {
    owner: TxId,
    waiting: VecDeque<(TxId, Arc<Notify>)>,
}

/// The result of requesting a lock.
pub(crate) enum LockRequest {
    /// The transaction has the lock.
    Taken,
    /// Another transaction has the lock; the notification comes when it is released.
    Queued(Arc<Notify>),
}

impl Locks {
    /// Takes a lock unless another transaction has it.
    pub(crate) fn try_take(&mut self, tx: TxId, lock: &Lock) -> bool {
        match self.rows.get(lock) {
            Some(row) => row.owner == tx,
            None => {
                self.rows.insert(lock.clone(), Row { owner: tx, waiting: VecDeque::new() });
                self.held.entry(tx).or_default().push(lock.clone());
                true
            }
        }
    }

    /// Returns whether no other transaction has the lock.
    pub(crate) fn is_free(&self, tx: TxId, lock: &Lock) -> bool {
        self.rows.get(lock).is_none_or(|row| row.owner == tx)
    }

    /// Returns whether no transaction has the lock.
    pub(crate) fn is_unlocked(&self, lock: &Lock) -> bool {
        !self.rows.contains_key(lock)
    }

    /// Takes a lock or queues for it.
    pub(crate) fn request(&mut self, tx: TxId, lock: &Lock) -> LockRequest {
        if self.try_take(tx, lock) {
            return LockRequest::Taken;
        }
        let notify = Arc::new(Notify::new());
        let row = self.rows.get_mut(lock).expect("another transaction has the lock");
        row.waiting.push_back((tx, notify.clone()));
        self.waits.insert(tx, lock.clone());
        LockRequest::Queued(notify)
    }

    /// Marks a transaction as a caller's own.
    pub(crate) fn mark_caller_transaction(&mut self, tx: TxId) {
        self.caller_transactions.insert(tx);
    }

    /// Returns whether a transaction waits, directly or indirectly, for itself.
    pub(crate) fn is_in_cycle(&self, tx: TxId) -> bool {
        self.waits_for_itself(tx, |_| true)
    }

    /// Returns whether batches wait for each other without a caller's transaction among them.
    pub(crate) fn is_cycle_of_batches(&self, tx: TxId) -> bool {
        self.waits_for_itself(tx, |other| !self.caller_transactions.contains(&other))
    }

    /// Returns whether the wait-for graph leads from a transaction back to it over such transactions.
    fn waits_for_itself(&self, tx: TxId, over: impl Fn(TxId) -> bool) -> bool {
        let mut at = tx;
        for _ in 0..self.waits.len() {
            let Some(row) = self.waits.get(&at).filter(|_| over(at)).and_then(|lock| self.rows.get(lock)) else {
                return false;
            };
            at = row.owner;
            if at == tx {
                return true;
            }
        }
        false
    }

    /// Leaves the queue; returns whether the transaction has got the lock meanwhile.
    pub(crate) fn leave(&mut self, tx: TxId, lock: &Lock) -> bool {
        self.waits.remove(&tx);
        match self.rows.get_mut(lock) {
            Some(row) if row.owner == tx => true,
            Some(row) => {
                row.waiting.retain(|(waiting, _)| *waiting != tx);
                false
            }
            None => false,
        }
    }

    /// Releases all locks of a transaction.
    pub(crate) fn release(&mut self, tx: TxId) {
        self.caller_transactions.remove(&tx);
        if let Some(lock) = self.waits.get(&tx).cloned() {
            self.leave(tx, &lock);
        }
        for lock in self.held.remove(&tx).unwrap_or_default() {
            let Some(row) = self.rows.get_mut(&lock) else { continue };
            match row.waiting.pop_front() {
                Some((next, notify)) => {
                    row.owner = next;
                    self.waits.remove(&next);
                    self.held.entry(next).or_default().push(lock);
                    notify.notify_one();
                }
                None => drop(self.rows.remove(&lock)),
            }
        }
    }
}
