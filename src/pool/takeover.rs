//! What a new leader does before anything else, over the API: the order is in [`super::rollout::steps::TakeOver`].

use super::door::{Door, Error};
use super::rollout::steps::{Answer, Lists, TakeOver, TakeOverNext};
use super::rollout::{Memory, Server};
use super::view::NodeView;
use super::world::Leader;
use crate::api::{Epoch, MachineConfigPool, PoolName, Uid};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use std::sync::Arc;

/// Objects in one page of a list: 5,000 whole Nodes at once would be more than the controller may use.
const PAGE: u32 = 200;

/// Takes over all pools. Until it has worked, this leader writes nothing else.
pub async fn take_over(leader: &Leader) -> Result<(), Error> {
    let lists = list(&leader.door).await?;
    let pools = lists.pools.keys().cloned().collect();
    let mut memory = leader.rollout.lock().await;
    run(&leader.door, &leader.epoch, lists, pools, &mut memory).await
}

/// Takes over one pool that was created since.
pub(super) async fn adopt(leader: &Leader, memory: &mut Memory, pool: &PoolName) -> Result<(), Error> {
    let lists = list(&leader.door).await?;
    run(&leader.door, &leader.epoch, lists, vec![pool.clone()], memory).await
}

async fn run(
    door: &Door,
    epoch: &Epoch,
    mut lists: Lists,
    pools: Vec<PoolName>,
    memory: &mut Memory,
) -> Result<(), Error> {
    let uid = |name: &PoolName| lists.pools.get(name).and_then(|pool| pool.metadata.uid.clone());
    let uids: Vec<Uid> = pools.iter().filter_map(uid).map(Uid::from).collect();
    tracing::info!(%epoch, pools = pools.len(), "taking over");
    let mut machine = TakeOver::new(pools);
    let mut server = Server::new(door);
    let mut answer: Option<Answer> = None;
    loop {
        match machine.step(epoch, &lists, answer.take()) {
            TakeOverNext::Ask(ask) => answer = Some(server.answer(ask).await?),
            TakeOverNext::List => lists = list(door).await?,
            TakeOverNext::End => break,
        }
    }
    for uid in &uids {
        memory.lead(uid);
    }
    Ok(())
}

/// Everything, uncached.
async fn list(door: &Door) -> Result<Lists, Error> {
    let mut lists = Lists::default();
    let api = door.pools();
    let pools = door.bounded(|| "list MachineConfigPools".to_owned(), api.list(&ListParams::default())).await?;
    lists.pools = pools.items.into_iter().map(|p: MachineConfigPool| (p.name().into(), Arc::new(p))).collect();
    let api: Api<Node> = Api::all(door.client().clone());
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let nodes = door.bounded(|| "list Nodes".to_owned(), api.list(&page)).await?;
        let views = nodes.items.iter().map(NodeView::new);
        lists.nodes.extend(views.map(|view| (view.name.clone(), Arc::new(view))));
        match nodes.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(lists),
        }
    }
}
