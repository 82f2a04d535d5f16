//! Units that are brought as plain files; drop-ins of units that nothing defines, and of the kubelet.

use super::{PoolView, View, in_config};
use crate::render::finding::Finding;
use crate::render::items::UnitItem;
use crate::render::rule;
use crate::render::systemd::install::template_of;
use crate::render::validate::{quoted, unit_name_problem};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Units that operating systems and Kubernetes distributions bring, without their suffix; all of `systemd-*` beside them.
/// Only such as people write drop-ins for. What is not in here may still be on a node: a finding says so.
const WELL_KNOWN: &str = "
    NetworkManager NetworkManager-dispatcher NetworkManager-wait-online acpid apparmor atd auditd autofs
    avahi-daemon bluetooth chrony chronyd chronyd-restricted cloud-config cloud-final cloud-init cloud-init-local
    containerd cri-docker cri-dockerd crio cron crond dbus dbus-broker display-manager dm-event dnf-makecache
    dnf-automatic docker emergency etcd fail2ban firewalld fstrim getty@ gssproxy haproxy health-checker ignition-fetch
    initrd-switch-root ip6tables iptables irqbalance iscsi iscsid iscsiuio issue-generator k3s k3s-agent kdump
    keepalived kubelet lldpad logrotate lvm2-lvmpolld lvm2-monitor man-db mcelog mdmonitor mdadm multipathd named
    networking nfs-blkmap nfs-client nfs-idmapd nfs-mountd nfs-server nftables nginx nscd nslcd ntp ntpd ntpdate
    numad nvmf-autoconnect ostree-finalize-staged openvswitch ovs-vswitchd ovsdb-server podman podman-auto-update
    polkit postfix qemu-guest-agent rasdaemon rc-local rdma-ndd rebootmgr rescue resolvconf rke2-agent rke2-server
    rngd rpc-gssd rpc-statd rpc-statd-notify rpcbind rsyslog serial-getty@ smartd snapd snapper-cleanup
    snapper-timeline sntp socklog ssh sshd sshd@ sssd stalld sysstat syslog syslog-ng targetcli transactional-update
    tuned udisks2 ufw unattended-upgrades unbound upower user-runtime-dir@ user@ vgauthd vmtoolsd wickedd
    wpa_supplicant zincati";

/// Kinds of units that must be written by somebody. Others come from the kernel, from fstab, or by themselves.
const WRITTEN: [&str; 4] = ["service", "socket", "timer", "path"];

const KUBELET: &str = "kubelet.service";

/// Where mcx writes units and drop-ins.
const OWN: &str = "/etc/systemd/system/";

/// Where units' files lie that a config may bring as plain files.
const DIRECTORIES: [&str; 3] = [OWN, "/usr/local/lib/systemd/system/", "/usr/lib/systemd/system/"];

/// Numbers of kubelet drop-ins from MachineConfigs: the platform's own keep out of them.
const KUBELET_NUMBERS: RangeInclusive<u32> = 10..=49;

pub(super) fn check(view: &View, found: &mut Vec<Finding>) {
    let mut said = BTreeSet::new();
    for pool in view.pools() {
        undefined(pool, &mut said, found);
    }
    for source in &view.sources {
        for (i, unit) in source.layer.units.iter().enumerate().filter(|(_, unit)| unit.name == KUBELET) {
            for (j, (name, _)) in
                unit.dropins.iter().enumerate().filter(|(_, (_, text))| text.is_some_and(|t| !t.is_empty()))
            {
                kubelet(&source.object, format!("systemd.units[{i}].dropins[{j}].name"), name, found);
            }
        }
        for (i, file) in source.layer.files.iter().enumerate() {
            as_file(view, &source.object, i, file.path, found);
            if let Some((_, name)) = dropin_file(file.path).filter(|(unit, _)| *unit == KUBELET) {
                kubelet(&source.object, format!("storage.files[{i}].path"), name, found);
            }
        }
    }
}

/// A unit or drop-in among the files. Units of users are no matter of a config's units, and are left alone.
fn as_file(view: &View, object: &str, index: usize, path: &str, found: &mut Vec<Finding>) {
    let Some(below) = DIRECTORIES.iter().find_map(|dir| path.strip_prefix(dir)) else { return };
    let (unit, dropin) = match dropin_file(path) {
        Some((unit, name)) => (unit, Some(name)),
        None => (below, None),
    };
    if unit_name_problem(unit).is_some() {
        return;
    }
    // That both are there is an error, and says enough.
    let is_written = |unit: &UnitItem| match dropin {
        Some(name) => unit.dropins.contains_key(name),
        None => unit.contents.is_some() || unit.mask == Some(true),
    };
    if path.starts_with(OWN) && view.pools().iter().any(|pool| pool.units.get(unit).is_some_and(is_written)) {
        return;
    }
    let what = if dropin.is_some() { "drop-in" } else { "unit" };
    let message = format!(
        "{} is a {what} that is brought as a file: by default its change restarts nothing, where that of a unit reboots",
        quoted(path)
    );
    let mut finding =
        rule::UNIT_AS_FILE.finding(object, in_config(format_args!("storage.files[{index}].path")), message);
    finding.help = match dropin {
        Some(name) => format!("write it as dropins of {unit} under systemd.units, with name: {name}"),
        None => format!("write it under systemd.units, with name: {unit}"),
    };
    found.push(finding);
}

/// Drop-ins without a unit, each unit once, whatever the number of pools, sources and drop-ins.
fn undefined(pool: &PoolView, said: &mut BTreeSet<String>, found: &mut Vec<Finding>) {
    for (name, unit) in &pool.merged.units {
        if unit.body().is_some() || unit.dropin_bodies().next().is_none() || is_defined(pool, name) {
            continue;
        }
        if said.insert((*name).to_owned()) {
            let message = format!(
                "no source of pool {} defines {}: its drop-ins do nothing unless the operating system brings the unit",
                pool.pool.name(),
                quoted(name)
            );
            let field = in_config(format!("systemd.units[{}].name", unit.last.index));
            found.push(rule::DROPIN_UNIT.finding(pool.object_of(unit.last), field, message));
        }
    }
}

/// Whether something defines a unit: a body in the pool, of its template too, a file of the pool, or an operating system.
fn is_defined(pool: &PoolView, name: &str) -> bool {
    let Some((stem, kind)) = name.rsplit_once('.') else { return true };
    // `a-.service.d` is for all units whose names begin with `a-`.
    if !WRITTEN.contains(&kind) || stem.ends_with('-') {
        return true;
    }
    let names = [Some(name.to_owned()), template_of(name)];
    names.into_iter().flatten().any(|name| {
        let stem = name.rsplit_once('.').map_or("", |(stem, _)| stem);
        let in_pool = pool.merged.units.get(name.as_str()).is_some_and(|unit| unit.body().is_some());
        let as_file = DIRECTORIES.iter().any(|dir| pool.merged.files.contains_key(format!("{dir}{name}").as_str()));
        in_pool || as_file || stem.starts_with("systemd-") || WELL_KNOWN.split_whitespace().any(|known| known == stem)
    })
}

/// `kubelet.service` and `10-x.conf` of `/etc/systemd/system/kubelet.service.d/10-x.conf`.
fn dropin_file(path: &str) -> Option<(&str, &str)> {
    let (unit, name) = DIRECTORIES.iter().find_map(|dir| path.strip_prefix(dir))?.split_once(".d/")?;
    // By systemd's rule, which knows no `.CONF`.
    let is_read = name.rsplit_once('.').is_some_and(|(_, ending)| ending == "conf");
    is_read.then_some((unit, name))
}

fn kubelet(object: &str, field: String, name: &str, found: &mut Vec<Finding>) {
    let number = name.split_once('-').map(|(digits, _)| digits).filter(|digits| digits.len() == 2);
    let fits = number.and_then(|digits| digits.parse().ok()).is_some_and(|n: u32| KUBELET_NUMBERS.contains(&n));
    if !fits {
        let message =
            format!("{} is not numbered {} to {}", quoted(name), KUBELET_NUMBERS.start(), KUBELET_NUMBERS.end());
        found.push(rule::KUBELET_DROPIN.finding(object, in_config(field), message));
    }
}
