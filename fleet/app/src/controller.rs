//! `pascaline-fleet controller`: trees of appliances, pushed and watched; and what a worker asks it.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use hyper::Method;
use pascaline_controller::routes::{Shared, api, page};
use pascaline_controller::{Appliance, Ask, Clock, Config, Core, Keeper, Next, NodeView, Note, open};
use pascaline_shared::guarded::{Credentials, InForce, Token, behind_guard, unix};
use pascaline_shared::http::client::{Address, Client};
use pascaline_shared::http::names::Names;
use pascaline_shared::http::server::{Listener, Plan, Server};
use pascaline_shared::http::tls::Identity;
use pascaline_shared::println;
use serde_json::Value;

const EXAMPLES: &str = "\
Examples:
  pascaline-fleet controller --check -c conf/controller.toml    # the file only: names, trees, plans
  pascaline-fleet controller -c /etc/pascaline/controller.toml
  pascaline worker allreduce --controller unix:/run/pascaline/controller.sock --job 1 --rank 5

docs/controller.md says what it does when something fails.

Exit status: 0 after SIGTERM or SIGINT, and for a file that is fine; 2: the file cannot be put to use; 1:
something failed later.";

/// A thread looks no more often whether it should end.
const NAP: Duration = Duration::from_millis(50);

/// Give jobs trees of appliances, tell the appliances, tell workers where to go, and plan anew on failures
///
/// Reads the network, the appliances with their admin APIs, and the jobs. Each job gets a tree: the nearest
/// appliance for each rank and one above, or one that is written in the file or that `pascaline-fleet plan`
/// has found. It gives the appliances their parts, watches them, and repeats what they have lost. When one
/// fails, another takes its part. Several controllers may run with one etcd: one of them leads.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ControllerArgs {
    /// The controller's file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Only check the file, and print the trees
    #[arg(long)]
    check: bool,
    /// With --check: print the trees as JSON
    #[arg(long, requires = "check")]
    json: bool,
}

pub(crate) fn run(args: &ControllerArgs) -> anyhow::Result<ExitCode> {
    let config = Config::load(&args.config)?;
    if args.check {
        return check(&config, args.json);
    }
    let identity = config.identity.as_ref().map(|(cert, key)| Identity { cert, key });
    let clients = config.network.appliances.iter().map(|appliance| client(appliance, identity));
    let clients = clients.collect::<anyhow::Result<Vec<Client>>>()?;
    let zero = Instant::now();
    let mut keeper = Keeper::new(open(&config, Clock::since(zero))?);
    let core = Core::following(&config, keeper.member(), zero.elapsed());
    let shared = Shared::new(core, zero);
    // Alone it leads at once, and answers from the stored state.
    say(&keeper.turn(&shared)?);
    let _servers = serve(&config, &shared)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    // Without systemd there is no receiver.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    tracing::info!(
        listen = config.listen,
        appliances = clients.len(),
        jobs = config.jobs.len(),
        "controlling {}",
        config.store
    );
    std::thread::scope(|scope| {
        for (at, client) in clients.into_iter().enumerate() {
            let (shared, stop) = (&shared, &stop);
            scope.spawn(move || tend(shared, at, &client, stop));
        }
        let written = remember(&shared, &mut keeper, &stop);
        // Without a store it must not continue.
        stop.store(true, Ordering::Relaxed);
        // Before the last answer has come: a dead appliance keeps its thread waiting for long.
        keeper.hand_over(&shared);
        written
    })?;
    Ok(ExitCode::SUCCESS)
}

fn check(config: &Config, as_json: bool) -> anyhow::Result<ExitCode> {
    let core = Core::new(config, pascaline_controller::Stored::default(), Duration::ZERO);
    let view = core.view(Duration::ZERO);
    if as_json {
        let store = config.store.to_string();
        println!("{}", serde_json::json!({ "ok": true, "store": store, "jobs": view.jobs }));
        return Ok(ExitCode::SUCCESS);
    }
    let network = &config.network;
    println!(
        "{}: ok: {} switches, {} appliances, {} hosts, {} jobs",
        config.file.display(),
        network.switches.len(),
        network.appliances.len(),
        network.hosts.len(),
        config.jobs.len()
    );
    println!("  controls {}", config.store);
    for job in &view.jobs {
        println!("  job {} {:?}: {} ranks", job.id, job.name, job.ranks);
        print_tree(&job.tree);
        for further in &job.further_trees {
            println!("  job {} is another tree of it", further.id);
            print_tree(&further.tree);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_tree(tree: &[NodeView]) {
    for node in tree {
        let above = node.parent.as_ref().map_or("the root".to_owned(), |parent| format!("below {parent}"));
        let backups = match node.backups.as_slice() {
            [] => String::new(),
            backups => format!(", backed up by {}", backups.join(", ")),
        };
        println!("    {}, {above}: fan_in {}, ranks {:?}{backups}", node.appliance, node.fan_in, node.ranks);
    }
}

fn client(appliance: &Appliance, identity: Option<Identity<'_>>) -> anyhow::Result<Client> {
    let name = &appliance.name;
    let at: Address =
        appliance.admin.parse().map_err(|error| anyhow::anyhow!("appliance {name}: admin: {error}"))?;
    let token = appliance.token_file.as_ref().map(|file| {
        let read = std::fs::read_to_string(file);
        read.with_context(|| format!("appliance {name}: token file {}", file.display()))
    });
    let token = token.transpose()?.map(|token| token.trim().to_owned());
    Client::new(at, token, appliance.ca.as_deref(), identity).with_context(|| format!("appliance {name}"))
}

/// The API and the page, until they are dropped.
fn serve(config: &Config, shared: &Arc<Shared>) -> anyhow::Result<Vec<Server>> {
    let read = |file: &Option<PathBuf>| {
        let read = |file: &PathBuf| {
            Token::read(file).map_err(|error| anyhow::anyhow!("token file {}: {error}", file.display()))
        };
        file.as_ref().map(read).transpose()
    };
    let (token, read_token) = (read(&config.token_file)?, read(&config.read_token_file)?);
    anyhow::ensure!(
        token.is_none() || token != read_token,
        "token_file and read_token_file have the same token, so that who has it may change all\n  \
         remedy: make another: `openssl rand -hex 32`"
    );
    let in_force = Arc::new(InForce::new(Credentials { token, read_token, ..Credentials::default() }));
    let listener = match config.listen.strip_prefix("unix:") {
        Some(path) => unix(path.as_ref(), &|what: &dyn core::fmt::Display, remedy: &str| {
            anyhow::anyhow!("cannot listen on {}: {what}\n  remedy: {remedy}", config.listen)
        })?,
        None => Listener::Tcp(bind(config.listen.parse()?)?),
    };
    let api =
        behind_guard("controller", listener, in_force, api(Arc::clone(shared)), Arc::default(), |_| {
            Duration::ZERO
        })?;
    let mut servers = vec![api];
    if let Some(at) = config.page {
        servers.push(Plan::pages(bind(at)?, Names::new(&[]), page(Arc::clone(shared)), None).start()?);
    }
    Ok(servers)
}

fn bind(at: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(at).with_context(|| {
        format!("cannot listen on {at}: choose another address or port in the controller's file")
    })
}

/// Sends the requests to one appliance until it is time to stop.
fn tend(shared: &Shared, at: usize, client: &Client, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let next = shared.core().next(at, shared.now());
        match next {
            Next::Wait(until) => std::thread::sleep(until.saturating_sub(shared.now()).min(NAP)),
            Next::Ask(ask) => {
                let answer = asked(client, &ask).map_err(|error| format!("{error:#}"));
                // Not when this thread gets the lock: waiting for that is no silence.
                let now = shared.now();
                shared.core().answered(&ask, answer, now);
            }
        }
    }
}

fn asked(client: &Client, ask: &Ask) -> anyhow::Result<(u16, Value)> {
    use pascaline_controller::Method as Ours;
    let method = match ask.method {
        Ours::Get => Method::GET,
        Ours::Post => Method::POST,
        Ours::Patch => Method::PATCH,
        Ours::Delete => Method::DELETE,
    };
    let (status, body) = client.send(method, &ask.path, ask.body.as_ref().map(Value::to_string))?;
    // A server that answers without JSON is another program; its status shows that.
    Ok((status.as_u16(), serde_json::from_slice(&body).unwrap_or_default()))
}

/// Keeps core and store in step until `stop` is set, and logs what happens.
fn remember(shared: &Shared, keeper: &mut Keeper, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut before = None;
    loop {
        let last = stop.load(Ordering::Relaxed);
        say(&keeper.turn(shared)?);
        let now = shared.core().leadership();
        // Each member of etcd has its own text for a common error: the first one is enough.
        let standing = Some((now.leads, now.leader.clone(), now.problem.is_some()));
        if now.member.is_some() && before != standing {
            match &now.problem {
                Some(problem) => tracing::warn!(leads = now.leads, leader = now.leader, "{problem}"),
                None => tracing::info!(leads = now.leads, leader = now.leader, "this controller's standing"),
            }
            before = standing;
        }
        if last {
            return Ok(());
        }
        std::thread::sleep(NAP);
    }
}

fn say(notes: &[Note]) {
    for note in notes {
        if let Note::Moved(moved) = note {
            tracing::info!("{}", moved.text);
        }
    }
}
