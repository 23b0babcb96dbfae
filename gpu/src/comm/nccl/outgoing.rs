//! What one rank sends to another: on a thread of its own, which waits until the other is there.

use super::end::{About, End, HEADER, Maker, header, tag};
use crate::comm::CommError;
use moe_model_core::groups::Group;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A message, and what it is for.
pub(super) struct Letter {
    pub(super) group: Group,
    pub(super) operation: &'static str,
    pub(super) message: Vec<u8>,
}

/// The way to one rank.
pub(super) struct Outgoing {
    to: u64,
    letters: Option<Sender<Letter>>,
    /// What went wrong, if something did.
    failure: Arc<Mutex<Option<CommError>>>,
    ended: Receiver<()>,
    /// Whether anybody wants what is on its way to arrive.
    wanted: Arc<AtomicBool>,
    patience: Duration,
}

/// The name of the communicator of one direction.
pub(super) fn name([from, to]: [u64; 2]) -> String {
    format!("{from}>{to}")
}

impl Outgoing {
    pub(super) fn new(maker: Maker, to: u64, patience: Duration) -> Self {
        let (letters, from) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let failure = Arc::new(Mutex::new(None));
        let wanted = Arc::new(AtomicBool::new(true));
        let (noted, still) = (failure.clone(), wanted.clone());
        thread::spawn(move || {
            if let Err(error) = deliver(&maker, to, &from, &still, &patience) {
                *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
            drop(end);
        });
        Self { to, letters: Some(letters), failure, ended, wanted, patience }
    }

    /// Sends behind what is on its way.
    pub(super) fn send(&self, letter: Letter) -> Result<(), CommError> {
        let gone = CommError::Gone { rank: self.to, group: letter.group, operation: letter.operation };
        let sent = self.letters.as_ref().and_then(|letters| letters.send(letter).ok());
        sent.ok_or_else(|| self.failure().unwrap_or(gone))
    }

    /// What went wrong.
    pub(super) fn failure(&self) -> Option<CommError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.letters = None;
        // What was sent is received by somebody who is there, or by nobody any more: then it is given up. A thread that waits
        // for a communicator is left to itself.
        if self.ended.recv_timeout(self.patience) == Err(RecvTimeoutError::Timeout) {
            self.wanted.store(false, Ordering::Relaxed);
            let _ = self.ended.recv_timeout(self.patience);
        }
    }
}

/// Sends one message after the other, until no more come.
fn deliver(
    maker: &Maker,
    to: u64,
    letters: &Receiver<Letter>,
    wanted: &AtomicBool,
    patience: &Duration,
) -> Result<(), CommError> {
    let mut end: Option<End> = None;
    for Letter { group, operation, message } in letters {
        let about = (to, group, operation, patience);
        let end = match &mut end {
            Some(end) => end,
            none => {
                let way = [maker.rank, to];
                none.insert(maker.end(&name(way), &way, about)?)
            }
        };
        post(end, &[&header(message.len(), tag(group, operation))[..], &message].concat(), wanted, about)?;
    }
    Ok(())
}

/// Sends a message with its header, and waits until it is received or nobody wants that any more.
fn post(end: &End, bytes: &[u8], wanted: &AtomicBool, about: About<'_>) -> Result<(), CommError> {
    let at = end.room(bytes.len(), about)?;
    end.to_device(at, bytes, about)?;
    end.send(at, HEADER, 1, about)?;
    if bytes.len() > HEADER {
        end.send(at + HEADER as u64, bytes.len() - HEADER, 1, about)?;
    }
    end.wait_while(|| wanted.load(Ordering::Relaxed), about)
}
