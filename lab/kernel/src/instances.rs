//! Finds what is loaded, whoever loaded it, reads its flows and removes it.

use std::fs;
use std::io::Read as _;
use std::mem::{MaybeUninit, offset_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use libbpf_rs::query::{LinkInfo, LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::skel::{OpenSkel as _, SkelBuilder as _};
use libbpf_rs::{ErrorKind, Iter, Link, MapCore as _, MapFlags, MapHandle, MapType, ProgramType, libbpf_sys};

use crate::load::refusal;
use crate::programs::{CONTROL, FLOWS, LAW, flows, hera, listen};
use crate::{Cost, FlowStatus, InstanceStatus, KernelError, Parameters, support, system};

/// A law in the kernel.
struct Instance {
    name: String,
    parameters: Parameters,
    buckets: usize,
    flows_map: u32,
    /// Id of its link. None once it is unregistered.
    link: Option<u32>,
    cost: Option<Cost>,
}

/// The map that a link registers; None for a link of another kind, and for one that was detached.
pub(crate) fn attached_map(link: &Link) -> Option<u32> {
    struct_ops_map(&link.info().ok()?)
}

fn struct_ops_map(info: &LinkInfo) -> Option<u32> {
    match &info.info {
        LinkTypeInfo::StructOps(of) if of.map_id != 0 => Some(of.map_id),
        _ => None,
    }
}

macro_rules! field {
    ($bytes:expr, $number:ty, $of:ty, $name:ident) => {{
        let at = offset_of!($of, $name);
        <$number>::from_ne_bytes($bytes[at..at + size_of::<$number>()].try_into().expect("as long as the number"))
    }};
}

fn instances() -> Vec<Instance> {
    listen();
    // Each registered structure names its programs by their numbers, each link its structure.
    let laws: Vec<(u32, Vec<u8>)> = MapInfoIter::default()
        .filter(|map| map.ty == MapType::StructOps && map.name == LAW)
        .filter_map(|map| Some((map.id, value(map.id)?)))
        .collect();
    let links: Vec<(u32, u32)> =
        LinkInfoIter::default().filter_map(|link| Some((struct_ops_map(&link)?, link.id))).collect();
    let programs = ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default().include_map_ids(true))
        .filter(|program| program.ty == ProgramType::StructOps && program.name == CONTROL);
    programs
        .filter_map(|program| {
            let maps: Vec<_> = MapInfoIter::default().filter(|map| program.map_ids.contains(&map.id)).collect();
            let flows_map = maps.iter().find(|map| map.ty == MapType::SkStorage && map.name == FLOWS)?.id;
            let constants = value(maps.iter().find(|map| map.ty == MapType::Array)?.id)?;
            if constants.len() < size_of::<hera::types::rodata>() {
                return None;
            }
            let (name, parameters) = read_constants(&constants);
            let number = u64::from(program.id).to_ne_bytes();
            let law = laws.iter().find(|(_, value)| value.chunks_exact(8).any(|word| word == number));
            let link = law.and_then(|(law, _)| links.iter().find(|(map, _)| map == law)).map(|(_, link)| *link);
            let cost = (program.run_cnt > 0)
                .then_some(Cost { acknowledgements: program.run_cnt, nanoseconds: program.run_time_ns });
            let buckets = parameters.buckets as usize;
            Some(Instance { name, parameters, buckets, flows_map, link, cost })
        })
        .collect()
}

/// The only entry of a map of one.
fn value(map: u32) -> Option<Vec<u8>> {
    MapHandle::from_map_id(map).ok()?.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()?
}

fn read_constants(bytes: &[u8]) -> (String, Parameters) {
    use hera::types::{hera_parameters, rodata};
    let name = &bytes[offset_of!(rodata, registered_as)..][..16];
    let name = name.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect();
    let at = &bytes[offset_of!(rodata, parameters)..];
    let limit = field!(at, u32, hera_parameters, limit);
    let parameters = Parameters {
        reading: if field!(at, u32, hera_parameters, as_printed) == 0 { "symmetric" } else { "as-printed" },
        step: if field!(at, u32, hera_parameters, each_sample) == 0 { "round-trip" } else { "sample" },
        buckets: field!(at, u32, hera_parameters, buckets),
        bucket_us: field!(at, u32, hera_parameters, bucket_us),
        backlog: field!(at, u32, hera_parameters, backlog),
        max_delta: field!(at, u32, hera_parameters, max_delta),
        limit: (limit > 0).then_some(limit),
        least: field!(at, u32, hera_parameters, least),
        most: field!(at, u32, hera_parameters, most),
    };
    (name, parameters)
}

/// All that is loaded, the newest last.
pub fn status() -> Result<Vec<InstanceStatus>, KernelError> {
    support::check()?;
    let all: Vec<InstanceStatus> = instances().into_iter().map(status_of).collect::<Result<_, _>>()?;
    // What is unregistered and unused is about to be freed.
    Ok(all.into_iter().filter(|law| law.registered || !law.flows.is_empty()).collect())
}

fn status_of(instance: Instance) -> Result<InstanceStatus, KernelError> {
    let Instance { name, parameters, buckets, flows_map, link, cost } = instance;
    let path = system::pin_path(&name);
    let pinned =
        link.is_some() && Link::open(&path).is_ok_and(|pinned| pinned.info().is_ok_and(|of| Some(of.id) == link));
    let held_by = link.map(system::holders).unwrap_or_default();
    Ok(InstanceStatus {
        registered: link.is_some(),
        pinned: pinned.then_some(path),
        held_by,
        parameters,
        cost,
        flows: read_flows(flows_map, buckets)?,
        name,
    })
}

fn read_flows(map: u32, buckets: usize) -> Result<Vec<FlowStatus>, KernelError> {
    use flows::types::{flow_head, hera_summary};
    listen();
    let refused = |error: libbpf_rs::Error| refusal("to read the flows", &error);
    let map = match MapHandle::from_map_id(map) {
        // It was freed since it was found.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        map => map.map_err(refused)?,
    };
    let mut place = MaybeUninit::uninit();
    let open = flows::FlowsSkelBuilder::default().open(&mut place).map_err(refused)?;
    let programs = open.load().map_err(refused)?;
    let link = programs.progs.read_flow.attach_iter(map.as_fd()).map_err(refused)?;
    let mut bytes = Vec::new();
    Iter::new(&link)
        .map_err(refused)?
        .read_to_end(&mut bytes)
        .map_err(|error| KernelError::Refused { what: "to read the flows", reason: error.to_string() })?;
    let length = size_of::<flow_head>() + size_of::<hera_summary>();
    Ok(bytes.chunks_exact(length).map(|record| read_flow(record, buckets)).collect())
}

fn read_flow(record: &[u8], buckets: usize) -> FlowStatus {
    use flows::types::{flow_head, hera_summary};
    /// linux/socket.h
    const AF_INET6: u32 = 10;
    let (head, summary) = record.split_at(size_of::<flow_head>());
    let is_long = field!(head, u32, flow_head, family) == AF_INET6;
    let address = |at: usize, port: u32| {
        let bytes: [u8; 16] = head[at..at + 16].try_into().expect("as long as an address");
        let long = Ipv6Addr::from(bytes);
        let short = Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]);
        SocketAddr::new(if is_long { IpAddr::V6(long).to_canonical() } else { IpAddr::V4(short) }, port as u16)
    };
    let counts = offset_of!(hera_summary, counts);
    let histogram = summary[counts..].chunks_exact(8).take(buckets);
    FlowStatus {
        local: address(offset_of!(flow_head, local), field!(head, u32, flow_head, local_port)),
        remote: address(offset_of!(flow_head, remote), field!(head, u32, flow_head, remote_port)),
        state: state(field!(head, u32, flow_head, state)),
        namespace: field!(head, u32, flow_head, namespace),
        window: field!(head, u32, flow_head, window),
        in_flight: field!(head, u32, flow_head, in_flight),
        segment: field!(head, u32, flow_head, segment),
        smoothed_round_trip_us: field!(head, u32, flow_head, smoothed_round_trip_us),
        retransmissions: field!(head, u32, flow_head, retransmissions),
        acknowledged_bytes: field!(head, u64, flow_head, acknowledged),
        bucket: field!(summary, u32, hera_summary, bucket),
        mean_round_trip_us: field!(summary, u32, hera_summary, mean_us),
        samples: field!(summary, u64, hera_summary, samples),
        steps: field!(summary, u64, hera_summary, steps),
        histogram: histogram.map(|count| u64::from_ne_bytes(count.try_into().expect("eight bytes"))).collect(),
    }
}

/// `net/tcp_states.h`
const fn state(number: u32) -> &'static str {
    match number {
        1 => "established",
        2 => "syn-sent",
        3 | 12 => "syn-received",
        4 => "fin-wait-1",
        5 => "fin-wait-2",
        6 => "time-wait",
        7 => "closed",
        8 => "close-wait",
        9 => "last-ack",
        10 => "listen",
        11 => "closing",
        _ => "unknown",
    }
}

/// The result of unloading a law.
#[derive(Clone, Debug)]
pub struct UnloadOutcome {
    /// Flows that keep it until they end.
    pub flows: usize,
}

/// Unregisters a law, whoever loaded it: new sockets cannot select it.
pub fn unload(name: &str) -> Result<UnloadOutcome, KernelError> {
    support::check()?;
    let Some(instance) = instances().into_iter().find(|instance| instance.name == name && instance.link.is_some())
    else {
        let available = nearlight_net::tcp::available_congestion_control().unwrap_or_default();
        return Err(KernelError::NotLoaded { name: name.to_owned(), available });
    };
    let link = instance.link.unwrap_or_default();
    let detached = detach(link);
    // If it is not pinned there is no such file.
    let _ = fs::remove_file(system::pin_path(name));
    let holders = system::holders(link);
    if !detached && !holders.is_empty() {
        return Err(KernelError::Held { release: support::release(), holders });
    }
    Ok(UnloadOutcome { flows: read_flows(instance.flows_map, instance.buckets)?.len() })
}

/// Detaches a link's law, whichever process holds the link. Returns false if the kernel cannot do that (before Linux 6.11).
#[expect(unsafe_code, reason = "the library detaches only links that it made itself")]
fn detach(link: u32) -> bool {
    // SAFETY: two system calls on numbers. The first returns a descriptor that nobody else owns, or an error.
    unsafe {
        let descriptor = libbpf_sys::bpf_link_get_fd_by_id(link);
        if descriptor < 0 {
            return false;
        }
        let descriptor = OwnedFd::from_raw_fd(descriptor);
        libbpf_sys::bpf_link_detach(descriptor.as_raw_fd()) == 0
    }
}
