//! A process's place in a world, as launchers such as `torchrun` say it by variables of the environment.

use super::Nccl;
use crate::comm::store::Store;
use crate::cuda::{Cuda, NoDevice};
use core::fmt;
use std::net::TcpListener;
use std::process;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A process's place in a world, as launchers such as `torchrun` say it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Its number: `RANK`.
    pub rank: u64,
    /// How many there are: `WORLD_SIZE`.
    pub size: u64,
    /// Its device on its machine: `LOCAL_RANK`.
    pub device: usize,
    /// Where rank 0 listens: `MASTER_ADDR`, and `MASTER_PORT`, 29500 where it is not said; the port above that one where
    /// `TORCHELASTIC_USE_AGENT_STORE` is `True`, since `torchrun` itself then listens at `MASTER_PORT`.
    pub address: (String, u16),
}

/// Why a process takes no part in a world.
#[derive(Debug)]
#[non_exhaustive]
pub enum NoWorld {
    /// A variable that a launcher sets is not there, or says something else.
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value; empty where it is not there.
        value: String,
        /// What it has to be.
        expected: String,
    },
    /// Rank 0 cannot be reached, or cannot listen.
    Unreachable(String),
    /// There is no device, or no NCCL.
    Device(NoDevice),
}

impl fmt::Display for NoWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable { name, value, expected } if value.is_empty() => {
                write!(f, "the variable {name} is not set: {expected}, as a launcher (`torchrun`) says")
            }
            Self::Variable { name, value, expected } => write!(f, "the variable {name} = {value}: it is {expected}"),
            Self::Unreachable(error) => write!(f, "rank 0 of the world: {error}"),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for NoWorld {}

impl From<NoDevice> for NoWorld {
    fn from(error: NoDevice) -> Self {
        Self::Device(error)
    }
}

impl Launch {
    /// What the environment says.
    ///
    /// # Errors
    /// If a variable is missing, or is no number.
    pub fn from_environment() -> Result<Self, NoWorld> {
        Self::read(|name| std::env::var(name).ok())
    }

    /// The same, given how a variable is looked up.
    ///
    /// # Errors
    /// As above.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, NoWorld> {
        // What holds values for PyTorch: none of ours, and its port is taken.
        let agent = u64::from(lookup("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True"));
        let number = |name: &'static str, default: Option<&str>, most: u64| {
            let value = lookup(name).or_else(|| default.map(str::to_owned)).unwrap_or_default();
            let expected = match name {
                "RANK" => "a rank of the world, from 0 to WORLD_SIZE - 1",
                "WORLD_SIZE" => "how many ranks there are",
                "LOCAL_RANK" => "a device of this machine, from 0",
                _ if agent == 1 => "a port below 65535: ranks use the one above, where `torchrun` does not listen",
                _ => "a port",
            };
            match value.parse::<u64>() {
                Ok(number) if number < most => Ok(number),
                _ => Err(NoWorld::Variable { name, value, expected: expected.to_owned() }),
            }
        };
        let size = number("WORLD_SIZE", None, u64::from(u32::MAX))?;
        let rank = number("RANK", None, size)?;
        let device = usize::try_from(number("LOCAL_RANK", None, u64::from(u32::MAX))?).unwrap_or(usize::MAX);
        let port = number("MASTER_PORT", Some("29500"), (1 << 16) - agent)? + agent;
        let host = lookup("MASTER_ADDR").filter(|host| !host.is_empty());
        let missing = || NoWorld::Variable {
            name: "MASTER_ADDR",
            value: String::new(),
            expected: "the machine of rank 0".to_owned(),
        };
        let host = host.ok_or_else(missing)?;
        Ok(Self { rank, size, device, address: (host, u16::try_from(port).unwrap_or(u16::MAX)) })
    }

    /// Joins the world on a device, that of [`Self::device`]; rank 0 listens for the others.
    ///
    /// # Errors
    /// If there is no NCCL; if rank 0 is not reached within the patience; if another process is the same rank, or says another
    /// number of ranks.
    pub fn join(&self, device: &Cuda, patience: Duration) -> Result<Nccl, NoWorld> {
        Ok(Nccl::new(self.rank, device, self.meet(patience)?, patience)?)
    }

    /// Where ranks find each other, once this one has said who it is.
    fn meet(&self, patience: Duration) -> Result<Store, NoWorld> {
        let said = |error: std::io::Error| {
            let (host, port) = &self.address;
            let which = "MASTER_PORT, or the port above it where TORCHELASTIC_USE_AGENT_STORE = True";
            NoWorld::Unreachable(format!("{host}:{port} ({which}): {error}"))
        };
        if self.rank == 0 {
            Store::keep(TcpListener::bind(("0.0.0.0", self.address.1)).map_err(said)?);
        }
        let store = Store::reach((self.address.0.as_str(), self.address.1), patience).map_err(said)?;
        let variable = |name, value: u64, expected: &str| NoWorld::Variable {
            name,
            value: value.to_string(),
            expected: expected.to_owned(),
        };
        // Who claimed it first keeps it.
        let is_ours = |name: &str, value: &[u8]| Ok::<_, NoWorld>(store.claim(name, value).map_err(said)? == value);
        if !is_ours("the size of the world", &self.size.to_le_bytes())? {
            return Err(variable(
                "WORLD_SIZE",
                self.size,
                "the same for all processes of a world, and another says another",
            ));
        }
        // Processes of several machines may have the same number: the time tells them apart.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        if !is_ours(&format!("rank {}", self.rank), format!("{} {now}", process::id()).as_bytes())? {
            return Err(variable("RANK", self.rank, "of one process alone, and another is that rank"));
        }
        Ok(store)
    }

    /// Opens the device.
    ///
    /// # Errors
    /// If there is none of that number.
    pub fn open(&self, budget: Option<u64>) -> Result<Cuda, NoWorld> {
        Cuda::open(self.device, budget).map_err(|error| match error {
            NoDevice::Absent { ordinal, count } => NoWorld::Variable {
                name: "LOCAL_RANK",
                value: ordinal.to_string(),
                expected: format!("a device of this machine, from 0: the driver shows {count}"),
            },
            other => other.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Launch, NoWorld};
    use std::net::TcpListener;
    use std::time::Duration;

    fn read(variables: &[(&str, &str)]) -> Result<Launch, NoWorld> {
        Launch::read(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn a_launcher_says_the_place() {
        let all = [("RANK", "5"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1"), ("MASTER_ADDR", "node-0")];
        let address = ("node-0".to_owned(), 29500);
        assert_eq!(read(&all).expect("it is whole"), Launch { rank: 5, size: 8, device: 1, address });
        assert_eq!(read(&[&all[..], &[("MASTER_PORT", "77")]].concat()).expect("it is whole").address.1, 77);
        // As `torchrun` says it, whose own store is at the port.
        for (agent, port) in [("True", 78), ("False", 77)] {
            let with = [&all[..], &[("MASTER_PORT", "77"), ("TORCHELASTIC_USE_AGENT_STORE", agent)]].concat();
            assert_eq!(read(&with).expect("it is whole").address.1, port);
        }
        let said = |variables: &[(&str, &str)]| read(variables).expect_err("something is missing").to_string();
        assert_eq!(
            said(&all[..1]),
            "the variable WORLD_SIZE is not set: how many ranks there are, as a launcher (`torchrun`) says"
        );
        assert_eq!(
            said(&[&[("RANK", "8")], &all[1..]].concat()),
            "the variable RANK = 8: it is a rank of the world, from 0 to WORLD_SIZE - 1"
        );
        assert!(said(&all[..3]).contains("MASTER_ADDR is not set: the machine of rank 0"));
        for (name, value, expected) in [
            ("RANK", "", "the variable RANK is not set: a rank of the world, from 0 to WORLD_SIZE - 1"),
            ("LOCAL_RANK", "-1", "the variable LOCAL_RANK = -1: it is a device of this machine, from 0"),
            ("WORLD_SIZE", "two", "the variable WORLD_SIZE = two: it is how many ranks there are"),
            ("MASTER_PORT", "65536", "the variable MASTER_PORT = 65536: it is a port"),
        ] {
            let error = said(&[&[(name, value)], &all[..]].concat());
            assert!(error.starts_with(expected), "{error}");
        }
        let last = [&all[..], &[("MASTER_PORT", "65535"), ("TORCHELASTIC_USE_AGENT_STORE", "True")]].concat();
        assert!(
            said(&last).starts_with("the variable MASTER_PORT = 65535: it is a port below 65535"),
            "{}",
            said(&last)
        );
    }

    /// Processes that contradict each other are told which variable does.
    #[test]
    fn one_process_is_each_rank_of_a_world_of_one_size() {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port is free").port();
        let patience = Duration::from_secs(20);
        let meet = |rank, size| {
            Launch { rank, size, device: 0, address: ("127.0.0.1".to_owned(), port) }.meet(patience).map(drop)
        };
        meet(0, 3).expect("it is the first");
        meet(2, 3).expect("it is another");
        let said = |rank, size| meet(rank, size).expect_err("it contradicts").to_string();
        assert_eq!(said(2, 3), "the variable RANK = 2: it is of one process alone, and another is that rank");
        let expected =
            "the variable WORLD_SIZE = 4: it is the same for all processes of a world, and another says another";
        assert_eq!(said(1, 4), expected);
        let taken = said(0, 3);
        assert!(taken.starts_with(&format!("rank 0 of the world: 127.0.0.1:{port} (MASTER_PORT, or ")), "{taken}");
    }
}
