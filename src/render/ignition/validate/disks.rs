//! Disks, RAID, encrypted volumes and file systems. mcx applies none of them; they are judged so that every config is.

use super::{Object, check_path, collisions, each, flag, object, plain, resource, text, whole};
use crate::render::ignition::schema::list;
use crate::render::ignition::trail::Trail;
use crate::render::ignition::{Report, url};
use serde_json::Value;
use std::collections::BTreeMap;

/// Bytes in the label of a partition: what a GPT entry holds.
const MAX_PARTITION_LABEL: usize = 36;
/// Bytes in the label of a LUKS volume, by the format of its header.
const MAX_LUKS_LABEL: usize = 47;

pub(super) fn check(storage: &Object, here: &Trail<'_>, report: &mut Report) {
    check_disks(storage, here, report);
    check_raid(storage, here, report);
    check_luks(storage, here, report);
    check_filesystems(storage, here, report);
}

fn check_disks(storage: &Object, here: &Trail<'_>, report: &mut Report) {
    let at_list = Trail::Field(here, "disks");
    for (i, disk) in each(storage, "disks") {
        let at = Trail::Item(&at_list, i);
        let at_partitions = Trail::Field(&at, "partitions");
        for (j, partition) in each(disk, "partitions") {
            check_partition(partition, &Trail::Item(&at_partitions, j), report);
        }
        if plain(disk, "device").is_empty() {
            report.error(at.below(&["device"]), "the device is required");
            continue;
        }
        if let Err(problem) = check_path(plain(disk, "device")) {
            report.error(at.below(&["device"]), problem);
        }
        check_table(disk, &at_partitions, report);
    }
}

/// The partitions of one disk together.
fn check_table(disk: &Object, at_partitions: &Trail<'_>, report: &mut Report) {
    let at = |i: usize| Trail::Item(at_partitions, i).pointer();
    for i in collisions(each(disk, "partitions").map(|(_, partition)| number(partition))) {
        report.error(at(i), "another partition has this number");
    }
    for i in collisions(each(disk, "partitions").map(|(_, partition)| text(partition, "label"))) {
        report.error(at(i), "another partition has this label");
    }
    if let Some(i) = overlap(disk) {
        report.error(at(i), "it overlaps with another partition");
    }
    let any = |what: &dyn Fn(&Object) -> bool| each(disk, "partitions").any(|(_, partition)| what(partition));
    if any(&|partition| flag(partition, "shouldExist") == Some(false)) && any(&|partition| number(partition).is_none())
    {
        report.error(at_partitions.pointer(), "partitions cannot be removed beside one that has no number");
    }
}

/// The first partition that another one runs into, of those with a place and a size.
fn overlap(disk: &Object) -> Option<usize> {
    let spans: Vec<(usize, i128, i128)> = each(disk, "partitions")
        .filter_map(|(i, partition)| {
            let start = whole(partition, "startMiB").filter(|start| *start != 0)?;
            let size = whole(partition, "sizeMiB")?;
            let (start, size) = (i128::from(start), i128::from(size));
            // Size 0 is "as much as there is": one MiB at least.
            Some((i, start, if size == 0 { start } else { start + size - 1 }))
        })
        .collect();
    spans.iter().enumerate().find_map(|(n, (_, start, end))| {
        spans.iter().enumerate().find_map(|(m, (i, other_start, other_end))| {
            let within = |at: &i128| (other_start..=other_end).contains(&at);
            let meets = within(start) || within(end) || (start < other_start && end > other_end);
            (n != m && meets).then_some(*i)
        })
    })
}

/// Zero is "the next free one".
fn number(partition: &Object) -> Option<i64> {
    whole(partition, "number").filter(|number| *number != 0)
}

fn check_partition(partition: &Object, at: &Trail<'_>, report: &mut Report) {
    if number(partition).is_none() && !partition.contains_key("label") {
        report.error(at.pointer(), "a partition needs a number from 1 or a label");
    }
    let says_more = ["label", "sizeMiB", "startMiB"].iter().any(|field| partition.contains_key(*field))
        || ["guid", "typeGuid"].iter().any(|field| !plain(partition, field).is_empty());
    if flag(partition, "shouldExist") == Some(false) && says_more {
        report.error(at.pointer(), "a partition that should not exist can have no label, type, place or size");
    }
    if let Some(label) = text(partition, "label") {
        if label.len() > MAX_PARTITION_LABEL {
            report.error(
                at.below(&["label"]),
                format!("the label of a partition can have {MAX_PARTITION_LABEL} bytes at most"),
            );
        } else if label.contains(':') {
            report.error(at.below(&["label"]), "the label of a partition cannot have a colon");
        }
    }
    for field in ["guid", "typeGuid"] {
        if !is_guid(plain(partition, field)) {
            report.error(at.below(&[field]), "a GUID is written 01234567-89AB-CDEF-EDCB-A98765432101");
        }
    }
}

/// Empty, or groups of 8, 4, 4, 4 and 12 hex digits.
fn is_guid(text: &str) -> bool {
    let groups = text.split('-').map(|group| group.bytes().all(|b| b.is_ascii_hexdigit()).then_some(group.len()));
    text.is_empty() || groups.eq([8, 4, 4, 4, 12].map(Some))
}

fn check_raid(storage: &Object, here: &Trail<'_>, report: &mut Report) {
    let at_list = Trail::Field(here, "raid");
    for (i, raid) in each(storage, "raid") {
        let at = Trail::Item(&at_list, i);
        match plain(raid, "level") {
            "" => report.error(at.below(&["level"]), "the RAID level is required"),
            "linear" | "raid0" | "0" | "stripe" => {
                if whole(raid, "spares").is_some_and(|spares| spares != 0) {
                    report.error(at.below(&["level"]), "this RAID level has no spares");
                }
            }
            "raid1" | "1" | "mirror" | "raid4" | "4" | "raid5" | "5" | "raid6" | "6" | "raid10" | "10" => {}
            _ => report.error(at.below(&["level"]), "unknown RAID level"),
        }
        let devices = list(raid, "devices");
        if devices.is_empty() {
            report.error(at.below(&["devices"]), "a RAID needs devices");
        }
        let at_devices = Trail::Field(&at, "devices");
        for (j, device) in devices.iter().enumerate() {
            if let Err(problem) = check_path(device.as_str().unwrap_or_default()) {
                report.error(Trail::Item(&at_devices, j).pointer(), problem);
            }
        }
    }
}

fn check_luks(storage: &Object, here: &Trail<'_>, report: &mut Report) {
    let at_list = Trail::Field(here, "luks");
    for (i, luks) in each(storage, "luks") {
        let at = Trail::Item(&at_list, i);
        if plain(luks, "name").contains('/') {
            report.error(at.below(&["name"]), "the name of a LUKS volume cannot have a slash");
        }
        if plain(luks, "device").is_empty() {
            report.error(at.below(&["device"]), "the device is required");
        } else if let Err(problem) = check_path(plain(luks, "device")) {
            report.error(at.below(&["device"]), problem);
        }
        if plain(luks, "label").len() > MAX_LUKS_LABEL {
            report.error(
                at.below(&["label"]),
                format!("the label of a LUKS volume can have {MAX_LUKS_LABEL} bytes at most"),
            );
        }
        let key_file = object(luks, "keyFile");
        resource::check(key_file, &Trail::Field(&at, "keyFile"), report);
        let source = plain(key_file, "source");
        if !source.is_empty()
            && let Err(error) = url::check(source)
        {
            // The reference reports it here and at the source itself.
            report.error(at.below(&["keys"]), format!("keyFile: {error}"));
        }
        check_clevis(object(luks, "clevis"), &Trail::Field(&at, "clevis"), report);
    }
}

fn check_clevis(clevis: &Object, at: &Trail<'_>, report: &mut Report) {
    let custom = object(clevis, "custom");
    let pin = plain(custom, "pin");
    let others = !list(clevis, "tang").is_empty()
        || flag(clevis, "tpm2") == Some(true)
        || whole(clevis, "threshold").is_some_and(|threshold| threshold != 0);
    if !pin.is_empty() && others {
        report.error(at.pointer(), "a custom pin cannot be used together with tpm2, tang or threshold");
    }
    let config = plain(custom, "config");
    if !pin.is_empty() || !config.is_empty() || flag(custom, "needsNetwork") == Some(true) {
        match pin {
            "tpm2" | "tang" | "sss" => {}
            "" => report.error(at.below(&["custom", "pin"]), "the pin is required"),
            _ => report.error(at.below(&["custom", "pin"]), "the pin must be tpm2, tang or sss"),
        }
        if config.is_empty() {
            report.error(at.below(&["custom", "config"]), "the config of the pin is required");
        }
    }
    let at_tang = Trail::Field(at, "tang");
    for (i, tang) in each(clevis, "tang") {
        let at = Trail::Item(&at_tang, i);
        match url::scheme(plain(tang, "url")).as_deref() {
            Ok("http" | "https") => {}
            Ok(_) => report.error(at.below(&["url"]), "the URL scheme of a tang server must be http or https"),
            Err(error) => report.error(at.below(&["url"]), error.to_string()),
        }
        if plain(tang, "thumbprint").is_empty() {
            report.error(at.below(&["thumbprint"]), "the thumbprint is required");
        }
        let advertisement = plain(tang, "advertisement");
        if !advertisement.is_empty() && serde_json::from_str::<Value>(advertisement).is_err() {
            report.error(at.below(&["advertisement"]), "the advertisement must be JSON");
        }
    }
}

fn check_filesystems(storage: &Object, here: &Trail<'_>, report: &mut Report) {
    let disks: BTreeMap<&str, &Object> =
        each(storage, "disks").map(|(_, disk)| (plain(disk, "device"), disk)).collect();
    let at_list = Trail::Field(here, "filesystems");
    for (i, filesystem) in each(storage, "filesystems") {
        let at = Trail::Item(&at_list, i);
        let device = plain(filesystem, "device");
        if let Err(problem) = check_path(device) {
            report.error(at.below(&["device"]), problem);
        }
        let path = plain(filesystem, "path");
        if !path.is_empty()
            && let Err(problem) = check_path(path)
        {
            report.error(at.below(&["path"]), problem);
        }
        check_format(filesystem, &at, report);
        if let Some(disk) = disks.get(device) {
            if !list(disk, "partitions").is_empty() {
                report.warning(at.below(&["device"]), "the file system overwrites a disk that has partitions");
            } else if flag(disk, "wipeTable") == Some(true) && flag(filesystem, "wipeFilesystem") != Some(true) {
                report.warning(at.below(&["device"]), "the disk is wiped, and the file system with it");
            }
        }
    }
}

fn check_format(filesystem: &Object, at: &Trail<'_>, report: &mut Report) {
    let label = plain(filesystem, "label");
    let longest = match plain(filesystem, "format") {
        "" => {
            let more = ["path", "label", "uuid"].iter().any(|field| !plain(filesystem, field).is_empty())
                || flag(filesystem, "wipeFilesystem") == Some(true)
                || ["options", "mountOptions"].iter().any(|field| !list(filesystem, field).is_empty());
            if more {
                report.error(at.below(&["format"]), "the format is required");
            }
            // The reference looks at the label on its own as well.
            if !label.is_empty() {
                report.error(at.below(&["label"]), "a label needs a format");
            }
            return;
        }
        "ext4" => 16,
        "btrfs" => 256,
        "xfs" => 12,
        "swap" => 15,
        "vfat" => 11,
        "none" => return,
        _ => {
            report.error(at.below(&["format"]), "the format must be ext4, btrfs, xfs, swap, vfat or none");
            return;
        }
    };
    if label.len() > longest {
        report.error(at.below(&["label"]), format!("the label can have {longest} bytes at most with this format"));
    }
}
