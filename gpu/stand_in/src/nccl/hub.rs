//! Where a process hears from others of its machine: ranks that join, what they send, and that they have ended. A
//! communicator's name says where the process that made it listens.

use super::world::{Id, Parcel, Side, World};
use crate::report::{Code, Fault};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// What processes tell each other, one value of JSON after the other.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// To the process that made a name: a rank joins, and asks where all others listen.
    Join { id: Vec<u8>, size: usize, rank: usize, device: usize, port: u16 },
    /// The answer.
    Joined(Result<Vec<u16>, Fault>),
    /// To a process with other ranks: what follows is this rank's.
    From { id: Vec<u8>, size: usize, rank: usize },
    /// It asks for a message to a rank, or from it.
    Asks { side: Side, of: usize },
    /// It sends something to a rank.
    Sends { to: usize, parcel: Parcel },
}

/// Where this process listens, from now on.
///
/// # Errors
/// If no port is free.
pub(super) fn port(patience: Duration) -> Result<u16, Fault> {
    static PORT: OnceLock<Option<u16>> = OnceLock::new();
    let port = PORT.get_or_init(|| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        let port = listener.local_addr().ok()?.port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A way that breaks is a process that ended.
                thread::spawn(move || serve(stream, patience));
            }
        });
        Some(port)
    });
    port.ok_or_else(|| Fault::new(Code::Unknown, "no port of this machine is free"))
}

fn gone(error: impl fmt::Display) -> Fault {
    Fault::new(Code::LaunchTimeout, format!("a process of another rank: {error}"))
}

/// Tells another process something.
pub(super) fn tell(mut to: &TcpStream, message: &Message) -> Result<(), Fault> {
    let bytes = serde_json::to_vec(message).map_err(gone)?;
    to.write_all(&bytes).map_err(gone)
}

/// What another process tells, until it ends.
fn told(stream: TcpStream) -> impl Iterator<Item = Message> {
    serde_json::Deserializer::from_reader(BufReader::new(stream)).into_iter().map_while(Result::ok)
}

/// A way to the process that listens there.
pub(super) fn reach(port: u16) -> Result<TcpStream, Fault> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(gone)?;
    stream.set_nodelay(true).map_err(gone)?;
    Ok(stream)
}

/// Joins where the name was made, and waits for all others: where each listens.
///
/// # Errors
/// As if it had been made here; or if nobody is there.
pub(super) fn join(at: u16, message: &Message) -> Result<Vec<u16>, Fault> {
    let stream = reach(at)?;
    tell(&stream, message)?;
    match told(stream).next() {
        Some(Message::Joined(ports)) => ports,
        _ => Err(Fault::new(Code::LaunchTimeout, "the process that made a communicator has ended")),
    }
}

/// Hears one process.
fn serve(stream: TcpStream, patience: Duration) {
    let Ok(back) = stream.try_clone() else { return };
    let mut told = told(stream);
    let id = |id: Vec<u8>| Id::try_from(id).unwrap_or([0; 128]);
    match told.next() {
        Some(Message::Join { id: name, size, rank, device, port }) => {
            let entered = World::of(id(name), size, patience).and_then(|world| world.enter(rank, device, port));
            // Who asked may have ended.
            let _ = tell(&back, &Message::Joined(entered));
        }
        Some(Message::From { id: name, size, rank }) => {
            let Ok(world) = World::of(id(name), size, patience) else { return };
            for message in told {
                match message {
                    Message::Asks { side, of } => _ = world.asks(side, rank, of),
                    Message::Sends { to, parcel } => world.put(rank, to, parcel),
                    _ => break,
                }
            }
            world.leave(rank);
        }
        _ => {}
    }
}
