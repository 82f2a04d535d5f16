//! Serves a disk over NBD on a unix socket and logs what is done to it. One connection, one request at a time, as the
//! log is one order. Protocol: <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>.

use super::image::{Event, Image};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

const OPTION_EXPORT_NAME: u32 = 1;
const OPTION_ABORT: u32 = 2;
const OPTION_INFO: u32 = 6;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = 0x8000_0001;
const INFO_EXPORT: u16 = 0;
/// There are flags; flush and "put down before you answer" are served.
const FLAGS: u16 = 1 | 1 << 2 | 1 << 3;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const WITH_WRITE_THROUGH: u16 = 1;

/// A disk that is served.
pub(crate) struct Disk<M> {
    state: Arc<Mutex<State<M>>>,
    thread: JoinHandle<io::Result<()>>,
}

struct State<M> {
    image: Image,
    log: Vec<Event<M>>,
    /// After how many events nothing is answered any more.
    ends_after: usize,
}

impl<M: Send + 'static> Disk<M> {
    /// Serves the first who connects.
    pub(crate) fn serve(image: Image, socket: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let size = image.size();
        let state = Arc::new(Mutex::new(State { image, log: Vec::new(), ends_after: usize::MAX }));
        let served = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let (stream, _) = listener.accept()?;
            requests(greet(stream, size)?, &served)
        });
        Ok(Self { state, thread })
    }

    /// Notes something between what was done to the disk before and after.
    pub(crate) fn mark(&self, mark: M) {
        self.state.lock().unwrap().log.push(Event::Mark(mark));
    }

    /// How many events there are until now.
    pub(crate) fn events(&self) -> usize {
        self.state.lock().unwrap().log.len()
    }

    /// The power goes after that many events, or now when there are as many: nothing is done or answered from then on.
    pub(crate) fn end_after(&self, events: usize) {
        self.state.lock().unwrap().ends_after = events;
    }

    /// Tells of the events from the `first` on, and how many there are until now.
    pub(crate) fn tell(&self, first: usize, mut each: impl FnMut(&Event<M>)) -> usize {
        let state = self.state.lock().unwrap();
        state.log[first..].iter().for_each(&mut each);
        state.log.len()
    }

    /// The log, once the client has gone.
    pub(crate) fn ended(self) -> io::Result<Vec<Event<M>>> {
        // A client that is killed leaves in the middle of its next request.
        match self.thread.join().unwrap() {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ => Ok(std::mem::take(&mut self.state.lock().unwrap().log)),
        }
    }
}

/// The two agree on the disk.
fn greet(mut stream: UnixStream, size: u64) -> io::Result<UnixStream> {
    stream.write_all(b"NBDMAGICIHAVEOPT")?;
    // The fixed form of the protocol, and no padding.
    stream.write_all(&3_u16.to_be_bytes())?;
    let no_padding = u32::from_be_bytes(take(&mut stream)?) & 2 != 0;
    let export = [&size.to_be_bytes()[..], &FLAGS.to_be_bytes()].concat();
    loop {
        let _magic: [u8; 8] = take(&mut stream)?;
        let option = u32::from_be_bytes(take(&mut stream)?);
        let count = u32::from_be_bytes(take(&mut stream)?);
        let mut data = vec![0; count as usize];
        stream.read_exact(&mut data)?;
        let mut reply = |kind: u32, data: &[u8]| {
            let count = u32::try_from(data.len()).unwrap().to_be_bytes();
            let head = [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &option.to_be_bytes(), &kind.to_be_bytes()];
            stream.write_all(&[&head.concat(), &count[..], data].concat())
        };
        match option {
            OPTION_EXPORT_NAME => {
                let padding: &[u8] = if no_padding { &[] } else { &[0; 124] };
                stream.write_all(&[&export, padding].concat())?;
                return Ok(stream);
            }
            OPTION_INFO | OPTION_GO => {
                reply(REPLY_INFO, &[&INFO_EXPORT.to_be_bytes(), &export[..]].concat())?;
                reply(REPLY_ACK, &[])?;
                if option == OPTION_GO {
                    return Ok(stream);
                }
            }
            OPTION_ABORT => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => reply(REPLY_UNSUPPORTED, &[])?,
        }
    }
}

fn requests<M>(mut stream: UnixStream, state: &Mutex<State<M>>) -> io::Result<()> {
    let mut requests = BufReader::with_capacity(1 << 20, stream.try_clone()?);
    loop {
        let _magic: [u8; 4] = take(&mut requests)?;
        let flags = u16::from_be_bytes(take(&mut requests)?);
        let kind = u16::from_be_bytes(take(&mut requests)?);
        let handle: [u8; 8] = take(&mut requests)?;
        let offset = u64::from_be_bytes(take(&mut requests)?);
        let count = u32::from_be_bytes(take(&mut requests)?) as usize;
        let mut answer = [&0x6744_6698_u32.to_be_bytes()[..], &[0; 4], &handle].concat();
        let mut data = vec![0; if kind == WRITE { count } else { 0 }];
        requests.read_exact(&mut data)?;
        let mut state = state.lock().unwrap();
        if state.log.len() >= state.ends_after {
            drop(state);
            // Whoever asks waits, until the machine goes.
            let _ = io::copy(&mut requests, &mut io::sink());
            return Ok(());
        }
        match kind {
            READ => {
                let mut bytes = vec![0; count];
                state.image.read(offset, &mut bytes);
                answer.extend(bytes);
            }
            WRITE => {
                state.image.write(offset, &data);
                state.log.push(match flags & WITH_WRITE_THROUGH {
                    0 => Event::Write { offset, bytes: data },
                    _ => Event::WriteThrough { offset, bytes: data },
                });
            }
            FLUSH => state.log.push(Event::Flush),
            DISCONNECT => return Ok(()),
            // No flag of ours allows another.
            _ => return Err(io::Error::other(format!("NBD request {kind} was not offered"))),
        }
        drop(state);
        stream.write_all(&answer)?;
    }
}

fn take<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}
