use pascaline_pipelines::switchml::Terms;
use pascaline_wire::switchml::Size;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;

use super::*;
use crate::admin::server::Respond as _;
use crate::switchml::{Controller, Error};

const WORKERS: u16 = 2;
const PATIENCE: Duration = Duration::from_secs(30);

/// A worker that does what each client does before it sends anything.
fn worker(at: &str, rank: u32) -> JoinHandle<Result<UdpSessionResponse, Error>> {
    let at = at.to_owned();
    tokio::spawn(async move {
        let mut controller = Controller::connect(&at, rank, WORKERS.into(), PATIENCE).await?;
        controller.begin(u64::from(rank) + 7, u64::from(rank) + 1, 0x0a4d_0001 + rank, 1).await
    })
}

/// Answers what the controller asks of the control plane.
async fn answer(orders: &mut Receiver<Order>, times: usize) {
    for _ in 0..times {
        match tokio::time::timeout(PATIENCE, orders.recv()).await.expect("a worker is stuck").unwrap() {
            Order::Workers(4, reply) => reply.respond(Ok(WORKERS)),
            Order::Register(4, _, reply) => {
                let (mac, address) = (Mac([2, 0, 0, 0, 0, 0xfe]), [10, 77, 0, 254]);
                reply.respond(Ok(Terms { udp_port: 48864, mac, address, slots: 64, size: Size::Bytes256 }));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_start_after_rank_0_was_killed_while_it_waited_works() {
    let (orders, mut asked) = Orders::channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let _controllers = serve(vec![(4, listener)], &orders).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // Its broadcast, its registration, and the barrier in which it waits.
        let alone = worker(&at, 0);
        answer(&mut asked, 3).await;
        alone.abort();
        // Its broadcast and the barrier in which it waits.
        let late = worker(&at, 1);
        answer(&mut asked, 2).await;
        let again = worker(&at, 0);
        answer(&mut asked, 6).await;
        for worker in [late, again] {
            let registered = tokio::time::timeout(PATIENCE, worker).await.unwrap().unwrap();
            assert_eq!(registered.unwrap().ipv4, 0x0a4d_00fe);
        }
    });
}
