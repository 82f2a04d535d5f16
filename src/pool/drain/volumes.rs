//! Volumes that are still attached to a node after its pods are gone. Rebooted before they are detached, the pods that
//! moved cannot attach them elsewhere.
//!
//! What stays attached for a pod that stays (of a `DaemonSet`, a static one) never goes, so the wait has an end.

use crate::api::NodeName;
use crate::pool::door::{Door, Error};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{Api, ListParams};

/// Objects in one page of a list.
const PAGE: u32 = 500;

/// Volumes that are attached to `node`, as messages name them, in order.
pub(super) async fn attached(door: &Door, node: &NodeName) -> Result<Vec<String>, Error> {
    let api: Api<VolumeAttachment> = Api::all(door.client().clone());
    let mut names = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = door.bounded(|| "list VolumeAttachments".to_owned(), api.list(&page)).await?;
        names.extend(list.items.iter().filter(|a| a.spec.node_name == node.as_str()).filter_map(title));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    names.sort();
    Ok(names)
}

/// None for one that is detached already.
fn title(attachment: &VolumeAttachment) -> Option<String> {
    attachment.status.as_ref().filter(|s| s.attached)?;
    let volume = attachment.spec.source.persistent_volume_name.as_deref();
    let name = volume.or(attachment.metadata.name.as_deref()).unwrap_or_default();
    Some(format!("volume {name} is still attached by {}", attachment.spec.attacher))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_volume_is_named_by_its_persistent_volume_and_only_while_it_is_attached() {
        let read = |attached: bool, source: serde_json::Value| {
            let value = json!({"metadata": {"name": "csi-1"}, "status": {"attached": attached},
                "spec": {"attacher": "disk.example", "nodeName": "n1", "source": source}});
            title(&serde_json::from_value(value).unwrap())
        };
        let named = Some("volume pv-1 is still attached by disk.example".to_owned());
        assert_eq!(read(true, json!({"persistentVolumeName": "pv-1"})), named);
        assert_eq!(read(true, json!({})), Some("volume csi-1 is still attached by disk.example".to_owned()));
        assert_eq!(read(false, json!({"persistentVolumeName": "pv-1"})), None);
    }
}
