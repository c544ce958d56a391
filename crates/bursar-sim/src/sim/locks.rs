//! Row locks of the simulated database: exclusive, first come, first served.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bursar_store::Lock;
use tokio::sync::Notify;

/// A transaction.
pub(crate) type TxId = u64;

#[derive(Default)]
pub(crate) struct Locks {
    rows: BTreeMap<Lock, Row>,
    held: HashMap<TxId, Vec<Lock>>,
    waits: HashMap<TxId, Lock>,
    /// Transactions of callers, who lock what they like in the order they like.
    strangers: HashSet<TxId>,
}

struct Row {
    owner: TxId,
    waiting: VecDeque<(TxId, Arc<Notify>)>,
}

/// What came of asking for a lock.
pub(crate) enum Asked {
    /// It is the asker's.
    Taken,
    /// Somebody else has it; the asker is told when it is his.
    Queued(Arc<Notify>),
}

impl Locks {
    /// Takes a lock if nobody else has it.
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

    /// Whether nobody else has a lock.
    pub(crate) fn is_free(&self, tx: TxId, lock: &Lock) -> bool {
        self.rows.get(lock).is_none_or(|row| row.owner == tx)
    }

    /// Takes a lock, or queues for it.
    pub(crate) fn ask(&mut self, tx: TxId, lock: &Lock) -> Asked {
        if self.try_take(tx, lock) {
            return Asked::Taken;
        }
        let told = Arc::new(Notify::new());
        let row = self.rows.get_mut(lock).expect("somebody has it");
        row.waiting.push_back((tx, told.clone()));
        self.waits.insert(tx, lock.clone());
        Asked::Queued(told)
    }

    /// Notes that a transaction is a caller's own.
    pub(crate) fn note_stranger(&mut self, tx: TxId) {
        self.strangers.insert(tx);
    }

    /// Whether a transaction waits, directly or not, for itself.
    pub(crate) fn is_in_cycle(&self, tx: TxId) -> bool {
        self.returns(tx, |_| true)
    }

    /// Whether batches wait for each other, without a caller's own transaction among them.
    pub(crate) fn is_cycle_of_batches(&self, tx: TxId) -> bool {
        self.returns(tx, |other| !self.strangers.contains(&other))
    }

    /// Whether who waits for whom leads back to where it began, over such transactions.
    fn returns(&self, tx: TxId, over: impl Fn(TxId) -> bool) -> bool {
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

    /// Leaves the queue; says whether the lock has become the asker's meanwhile.
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

    /// Gives back all locks of a transaction.
    pub(crate) fn release(&mut self, tx: TxId) {
        self.strangers.remove(&tx);
        if let Some(lock) = self.waits.get(&tx).cloned() {
            self.leave(tx, &lock);
        }
        for lock in self.held.remove(&tx).unwrap_or_default() {
            let Some(row) = self.rows.get_mut(&lock) else { continue };
            match row.waiting.pop_front() {
                Some((next, told)) => {
                    row.owner = next;
                    self.waits.remove(&next);
                    self.held.entry(next).or_default().push(lock);
                    told.notify_one();
                }
                None => drop(self.rows.remove(&lock)),
            }
        }
    }
}
