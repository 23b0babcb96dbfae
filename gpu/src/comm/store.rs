//! What ranks of a world tell each other before they can exchange anything: values by name, kept by one of them, over TCP.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A way to the values.
#[derive(Debug)]
pub struct Store(TcpStream);

/// The values, and who waits for some.
#[derive(Default)]
struct Values {
    by_name: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    changed: Condvar,
}

/// The longest name or value.
const MOST: u32 = 1 << 16;

/// How long the rest of a request may take once it has begun, and how long an answer may.
const REST: Duration = Duration::from_secs(20);

impl Store {
    /// Keeps the values of a world from now on, on threads of its own, as long as the process lives.
    pub fn keep(listener: TcpListener) {
        let values = Arc::new(Values::default());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let values = values.clone();
                // A way that breaks is a rank that ended, which its peers find out by themselves.
                thread::spawn(move || serve(stream, &values));
            }
        });
    }

    /// Reaches for whoever keeps them, who may still be on the way, as long as the patience is; and waits as long for each
    /// value.
    ///
    /// # Errors
    /// If nobody answers there.
    pub fn reach(address: impl ToSocketAddrs, patience: Duration) -> io::Result<Self> {
        let until = Instant::now() + patience;
        loop {
            match TcpStream::connect(&address) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(patience))?;
                    return Ok(Self(stream));
                }
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Another way to the same values: one waits for each value in turn.
    ///
    /// # Errors
    /// If whoever keeps them is gone.
    pub fn another(&self) -> io::Result<Self> {
        let patience = self.0.read_timeout()?.unwrap_or(Duration::MAX);
        Self::reach(self.0.peer_addr()?, patience)
    }

    /// Has all ranks find a value by a name, unless there is one: gives the one that they find.
    ///
    /// # Errors
    /// If whoever keeps them is gone.
    pub fn claim(&self, name: &str, value: &[u8]) -> io::Result<Vec<u8>> {
        (&self.0).write_all(b"c")?;
        put(&self.0, name.as_bytes())?;
        put(&self.0, value)?;
        take(&self.0)
    }

    /// Has all ranks find a value by a name.
    ///
    /// # Errors
    /// If whoever keeps them is gone.
    pub fn set(&self, name: &str, value: &[u8]) -> io::Result<()> {
        (&self.0).write_all(b"s")?;
        put(&self.0, name.as_bytes())?;
        put(&self.0, value)
    }

    /// A value, once it is there.
    ///
    /// # Errors
    /// If whoever keeps them is gone, or it does not come.
    pub fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        (&self.0).write_all(b"g")?;
        put(&self.0, name.as_bytes())?;
        take(&self.0)
    }
}

fn put(mut to: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let len = u32::try_from(bytes.len()).ok().filter(|len| *len <= MOST);
    let len = len.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("more than {MOST} bytes")))?;
    to.write_all(&len.to_le_bytes())?;
    to.write_all(bytes)
}

fn take(mut from: &TcpStream) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len);
    if len > MOST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a value of {len} bytes: no rank sends it")));
    }
    let mut bytes = vec![0; len as usize];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Answers one rank, until it ends, or says no more of what it has begun to say.
fn serve(mut stream: TcpStream, values: &Values) -> io::Result<()> {
    stream.set_write_timeout(Some(REST))?;
    loop {
        // Ranks say something when they have to: for the beginning of it one waits for ever.
        stream.set_read_timeout(None)?;
        let mut what = [0];
        stream.read_exact(&mut what)?;
        stream.set_read_timeout(Some(REST))?;
        let name = take(&stream)?;
        // All of it before the values are locked: one rank does not hold up the others.
        let value = if matches!(&what, b"s" | b"c") { Some(take(&stream)?) } else { None };
        let mut by_name = values.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = value {
            if what == *b"s" {
                by_name.insert(name.clone(), value);
            } else {
                by_name.entry(name.clone()).or_insert(value);
            }
            values.changed.notify_all();
        }
        if what == *b"s" {
            continue;
        }
        let value = loop {
            match by_name.get(&name) {
                Some(value) => break value.clone(),
                None => by_name = values.changed.wait(by_name).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(by_name);
        put(&stream, &value)?;
    }
}

#[cfg(test)]
mod tests {
    use super::{Store, put};
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_value_is_found_by_those_who_wait_for_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has one");
        Store::keep(listener);
        let patience = Duration::from_secs(20);
        thread::scope(|scope| {
            let waits = scope.spawn(move || Store::reach(address, patience)?.get("tp:0,1"));
            let store = Store::reach(address, patience).expect("it is kept");
            store.set("other", b"1").expect("it is kept");
            store.set("tp:0,1", b"an id").expect("it is kept");
            assert_eq!(store.get("other").expect("it is there"), b"1");
            assert_eq!(store.another().expect("it is kept").claim("other", b"2").expect("it is there"), b"1");
            assert_eq!(store.claim("mine", b"2").expect("it is kept"), b"2");
            assert_eq!(waits.join().expect("it ends").expect("it comes"), b"an id");
        });
        // One who says half of a request holds up nobody.
        let half = Store::reach(address, patience).expect("it is kept");
        (&half.0).write_all(b"s").and_then(|()| put(&half.0, b"half")).expect("it is kept");
        thread::sleep(Duration::from_millis(50));
        let store = Store::reach(address, Duration::from_secs(2)).expect("it is kept");
        assert_eq!(store.get("other").expect("nobody holds it up"), b"1");
        let store = Store::reach(address, Duration::from_millis(50)).expect("it is kept");
        assert!(store.get("nothing").is_err(), "nobody sets it");
        assert!(Store::reach("127.0.0.1:1", Duration::from_millis(50)).is_err(), "nobody is there");
    }
}
