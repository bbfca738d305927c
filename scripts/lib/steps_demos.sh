# shellcheck shell=bash disable=SC2154
# The steps of scripts/test that run scripts/demo. scripts/test sets logs and bounded; steps.sh has the rest.

# demo OPTIONS... -- EXPECTATIONS...: runs the demo and looks at its JSON.
demo() {
    local options=() output=$logs/demo.json
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
    scripts/demo --json "${options[@]}" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" "$@"
}

all_good=('ok' 'workers == 4' 'verified == allreduces' 'mismatches == 0' 'checksums_equal' 'identity_holds'
    'appliance_exit == 0' 'goodput_gbps_per_worker > 0')

demo_f32() {
    demo --bytes 2MiB --allreduces 3 -- "${all_good[@]}" 'allreduces == 3' 'impairment["by"] == "none"'
}

demo_i32() {
    demo --bytes 2MiB --allreduces 3 --dtype i32 --payload 1448 -- "${all_good[@]}" 'dtype == "i32"'
}

# The counts are of what really happened to frames: a network that did no harm would fail here. netem does not
# say how many frames were overtaken (null).
demo_bad_network() {
    demo --bytes 2MiB --allreduces 4 --loss 1 --duplicate 1 --reorder 1 "$@" -- "${all_good[@]}" \
        'allreduces == 4' 'impairment["lost"] > 0' 'impairment["duplicated"] > 0' \
        'impairment["reordered"] != 0' 'retransmissions > 0'
}

# Two jobs contend for a pool that holds neither's window: preemption evicts partials, and the parameter
# server completes them.
demo_preemption() { preempted 4 "$@"; }

# So many allreduces that most of them come after the restart, which is when the counts begin again.
demo_restart_preemption() { preempted 24 --restart-appliance --pool-slots 16; }

# preempted ALLREDUCES OPTION...
preempted() {
    local each=$1
    shift
    demo --policy dsa --jobs 2 --loss 1 --pool-slots 64 --bytes 256KiB --allreduces "$each" "$@" \
        -- "${all_good[@]}" \
        'jobs == 2' "allreduces == $((2 * each))" 'preemptions > 0' 'ps_completions > 0'
}

# A job that never completes a PSN costs the others what packets cost that are refused at the parse, and no
# more. The bound is wide: a machine that is busy elsewhere must not decide.
demo_neighbour() {
    demo --policy dsa --neighbour --neighbour-rounds 2 --bytes 2MiB --allreduces 6 \
        -- 'ok' 'mismatches == 0' 'verified == allreduces' 'verified == 36' 'ratio > 0' \
        'over_control < 1.5' &&
        demo --policy dsa --neighbour --lcores 2 --neighbour-rounds 1 --bytes 2MiB --allreduces 6 \
            -- 'ok' 'mismatches == 0' 'verified == allreduces' 'verified == 18' 'over_control < 2' \
            '"packet_share" in drops'
}

# The appliance is killed half way; the workers go on where they were.
demo_restart() {
    demo --bytes 1MiB --allreduces 6 --restart-appliance -- "${all_good[@]}" 'restarts == 1' 'resumed > 0'
}

# The job is suspended; every worker and `explain` name what heals it, and it does.
demo_halt() {
    demo --bytes 256KiB --allreduces 20 --halt -- "${all_good[@]}" 'told_of_halt == 4' 'explained'
}

# Jobs and limits change while the allreduces run: the appliance receives every frame that was sent.
demo_reload() {
    demo --reload --bytes 4MiB --allreduces 16 -- "${all_good[@]}" 'reloads >= 4' 'reloads_refused >= 1' \
        'lost == 0' 'aggregated_share == 1'
}

# Different arrivals, the same bits.
demo_rank_order() {
    local sums=()
    for _ in 1 2; do
        demo --bytes 1MiB --allreduces 3 --order rank -- "${all_good[@]}" 'order == "rank"' || return 1
        sums+=("$(sed -n 's/.*"checksum":"\([^"]*\)".*/\1/p' "$logs/demo.json")")
    done
    say "checksums: ${sums[*]}"
    [[ -n ${sums[0]} && ${sums[0]} == "${sums[1]}" ]]
}

# More workers than DPDK knows ports: those of a rack share one.
demo_racks() {
    demo --workers 64 --bytes 64KiB --allreduces 2 -- "${all_good[@]/workers == 4/workers == 64}" \
        'allreduces == 2'
}

demo_switchml() {
    demo --protocol switchml --bytes 512KiB --allreduces 4 --dtype "$1" --payload "$2" -- 'ok' \
        'verified == 4' 'mismatches == 0' 'results == packets'
}

demo_two_lcores() {
    demo --bytes 1MiB --allreduces 3 --lcores 2 --udp-ports 2 -- "${all_good[@]}" 'allreduces == 3'
}

# Asynchronous updates before a line that takes a twelfth of them: Olaf's queue beside FIFO.
demo_olaf() {
    demo --mode olaf --timeout 60 --loads 12 --seconds 4 --picture "$logs/olaf-aom.svg" -- 'ok' \
        'olaf["lost_pct"] < fifo["lost_pct"] / 5' 'olaf["aom_ms"] < 0.6 * fifo["aom_ms"]' \
        'olaf["aggregated"] > olaf["received"]'
}

# The same over two hops: nothing may be missing at a hop, or between them.
demo_olaf_hops() {
    demo --mode olaf --topology two-level --timeout 60 --loads 12 --seconds 4 -- 'ok' \
        'olaf["lost_between"] == 0' 'olaf["lost_pct"] < fifo["lost_pct"] / 3' \
        'olaf["hops"][-1]["combined"] > 0'
}

# Programs in C, half of them under sanitizers, and an unmodified program of MPI: their sums are right, and
# the appliance has made the results. Of two streams the urgent one overtakes.
# `demo_client mpi mxint8 1920`: in blocks of 8 bits, which take so many results.
demo_client() {
    local more=() wire=() needed=${3:-7450}
    [[ -z ${2:-} ]] || wire=(--wire "$2")
    case $1 in
        c-streams) more=('overtook > 0') ;;
        mpi) more=('calls_by_appliance > 40') ;;
    esac
    demo --client "$1" --bytes 1MiB "${wire[@]}" -- 'ok' "client == \"$1\"" 'workers == 4' \
        'verified == 10' 'mismatches == 0' 'results >= results_needed' "results_needed == $needed" \
        'identity_holds' "${more[@]}"
}

# Without an appliance, or with a key that MPI cannot obey, a program runs as ever, and one line says why.
mpi_falls_back() {
    local output=$logs/mpi-fallback.txt built key
    built=$(scripts/clients) && mpicc -O1 clients/examples/mpi/allreduce.c -o "$logs/mpi_allreduce" || return 1
    for key in timeout=500ms partial=1; do
        bounded 60 mpirun --allow-run-as-root --oversubscribe -np 4 --mca btl self,vader \
            --mca mpi_yield_when_idle 1 -x LD_PRELOAD="$built/lib/libpascaline-mpi.so" \
            -x PASCALINE_URL="pascaline://127.0.0.1:9?$key" "$logs/mpi_allreduce" 1000 \
            >"$output" 2>&1 && [[ $(grep -c 'sums are right' "$output") == 4 ]] &&
            [[ $(grep -c '^pascaline-mpi: ' "$output") == 1 ]] || { cat "$output"; return 1; }
    done
    grep -q '^pascaline-mpi: .*leave partial out' "$output"
}

demo_gives_up() {
    local code=0
    bounded 60 scripts/demo --json --allreduces 100000 --timeout 3 || code=$?
    ((code == 1))
}

demo_rejects_unknown_options() {
    local code=0
    scripts/demo --no-such-option || code=$?
    ((code == 2))
}

# Over IPv6, to groups of multicast in either, and from behind routers.
demo_from_outside() {
    demo --ip6 --bytes 1MiB --allreduces 3 -- "${all_good[@]}" 'ip6' 'allreduces == 3' &&
        demo --multicast --ip6 --jobs 2 --bytes 256KiB -- "${all_good[@]}" 'packets_per_result < 1.5' &&
        demo --multicast --bytes 256KiB -- "${all_good[@]}" 'packets_per_result < 1.5' &&
        demo --routed --bytes 256KiB --allreduces 3 -- "${all_good[@]}" 'allreduces == 3'
}

# Each rank has the right bytes in the right place.
demo_collectives() {
    local collective wire
    for collective in reduce broadcast reduce_scatter allgather; do
        demo --collective "$collective" --root 2 --bytes 256KiB --allreduces 3 -- "${all_good[@]}" \
            'allreduces == 3' || return 1
    done
    for wire in bf16 mxint8 mxfp8; do
        demo --wire "$wire" --bytes 1MiB --allreduces 3 -- "${all_good[@]}" 'allreduces == 3' || return 1
    done
    demo --collective barrier -- 'ok' 'verified == 10'
}

# Frames of 9,000 bytes need larger slots in the driver's ring.
demo_jumbo() {
    demo --mtu 9000 --payload 8192 --bytes 4MiB --allreduces 3 -- "${all_good[@]}" 'allreduces == 3'
}

# Weights as with Gloo, the same bits in the order of ranks, across a restart of the appliance.
train_ddp() {
    local output=$logs/train-ddp.json
    bounded 300 scripts/train ddp --workers 2 --steps 100 --json --binary "$target/release/pascaline" \
        >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'bit_equal_rank_order' 'max_weight_diff_vs_gloo < 0.001' 'steps_per_s > 0' \
        'gloo_steps_per_s > 0' 'restarts == 1' 'calls["appliance"] > 100' 'losses[1] < losses[0]' ||
        return 1
    # Several buckets by a hook, and a time line of them.
    bounded 120 scripts/train ddp --workers 2 --steps 20 --hidden 512 --bucket-mb 0.5 --hook bf16 \
        --no-restart --trace "$logs/trace.png" --json --binary "$target/release/pascaline" >"$output" ||
        { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'hook == "bf16"' 'trace["buckets"] >= 2' 'trace["allreduce_ms"] > 0' \
        'trace["hidden_pct"] > 0'
}

# A small GPT learns the documents, as well as over Gloo.
train_gpt() {
    local output=$logs/train-gpt.json
    bounded 240 scripts/train gpt --workers 2 --steps 40 --hook mxint8 --feedback --json \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'loss_last < 0.8 * loss_first' 'calls["appliance"] >= 40' 'calls["gloo"] == 0' \
        'hook == "mxint8"' 'feedback'
}

# FSDP2 ends as over Gloo; long all-gathers go round in Gloo's ring, sums of gradients through the appliance.
train_fsdp() {
    local output=$logs/train-fsdp.json
    bounded 240 scripts/train fsdp --workers 2 --steps 10 --turns 1 --json \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'loss_diff_vs_gloo < 0.01' 'ratio > 0' 'calls["appliance"] >= 30' \
        'calls["gloo"] > 0'
}

# The first layers' gradients overtake in a stream of their own, and the weights are the same bits.
train_arrival() {
    local output=$logs/train-arrival.json
    bounded 240 scripts/train arrival --workers 2 --steps 5 --turns 1 --layers 8 --json \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'same_weights' 'earlier_pct > 20' 'step_ratio > 0'
}

# PPO on LunarLander-v3 behind a congested port: both queues serve it, and the FIFO loses what Olaf combines.
train_rl() {
    local output=$logs/train-rl.json
    bounded 240 scripts/train rl --queue both --workers 2 --seeds 1 --iterations 12 --json \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'olaf["updates_applied"] > 0' 'olaf["updates_aggregated"] > 0' \
        'fifo["updates_lost_pct"] > 20' 'olaf["updates_lost_pct"] < fifo["updates_lost_pct"] / 4' \
        'fifo["rewards"][0] < 500' 'olaf["rewards"][0] > -2000' || return 1
    # Two seeds are two jobs; each rank gets what all of them found.
    bounded 120 scripts/train rl --mode sync --workers 2 --seeds 2 --iterations 3 --json \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'mode == "sync"' 'updates["sent"] == 12' 'rewards[1] < 500' || return 1
    # The other algorithms, each in another of the three ways.
    bounded 120 scripts/train rl --algorithm a2c --mode sync --workers 2 --seeds 1 --iterations 60 --rate 1 \
        --json --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'algorithm == "a2c"' 'mean_reward > 30' || return 1
    bounded 120 scripts/train rl --algorithm dqn --mode periodic --workers 2 --seeds 1 --iterations 20 \
        --json --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'mode == "periodic"' 'floats == 1922' 'updates["sent"] >= 10' || return 1
    bounded 120 scripts/train rl --algorithm ddpg --load 0 --workers 2 --seeds 1 --iterations 10 --json \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'queue == "olaf"' 'updates_applied > 0' 'mean_reward < 0'
}

# The wheel, installed, at real appliances.
python_package() { bounded 600 scripts/python --binary "$target/release/pascaline"; }

# A root above two leaves: each of its links carries one stream, however many workers are below.
demo_two_level() {
    demo --topology two-level --bytes 1MiB --allreduces 4 -- "${all_good[@]}" 'allreduces == 4' \
        'leaves == 2' 'root_link_streams < 1.25' 'root_link_streams >= 1' &&
        demo --topology two-level --ip6 --bytes 256KiB --allreduces 2 -- "${all_good[@]}" 'allreduces == 2' \
            'root_link_streams < 1.25' 'root_link_streams >= 1'
}

# A leaf-spine network: over two levels the root's links carry one stream each, over one that of each worker;
# a leaf's appliance may be killed half way.
lab_leaf_spine() {
    local output=$logs/lab.json cases=(--case two_levels --case one_level --case leaf_killed)
    bounded 120 scripts/lab --test --json --bytes 256KiB "${cases[@]}" \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'cases["two_levels"]["verified"]' 'cases["one_level"]["verified"]' \
        'cases["leaf_killed"]["verified"]' 'cases["leaf_killed"]["resumed"] > 0' \
        'cases["two_levels"]["root_link_streams"]["leaf0-spine0"] < 1.25' \
        'cases["one_level"]["root_link_streams"]["leaf0-spine0"] >= 2'
}

# A TCP flow starves beside a job without congestion control, and has its part beside one with `delay`: in the
# middle one of three runs, since parts of a few seconds differ (0.51 to 0.62 for the job in 8 s).
lab_tcp() {
    job_beside_tcp 60 fixed --seconds 8 && job_beside_tcp 120 delay --seconds 20 --runs 3 || return 1
    expect "$logs/lab-tcp-fixed.json" 'ok' 'cases["tcp"]["fixed_cubic"]["flow"] < 0.1' &&
        expect "$logs/lab-tcp-delay.json" 'ok' 'cases["tcp"]["delay_cubic"]["within_20_percent"]' \
            'cases["tcp"]["delay_cubic"]["verified"]'
}

# job_beside_tcp LIMIT CONTROL OPTION...
job_beside_tcp() {
    local limit=$1 control=$2 output=$logs/lab-tcp-$2.json
    shift 2
    bounded "$limit" scripts/lab --test --json --case tcp --control "$control" --flow cubic "$@" \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
}

# What is proven of a queue holds for an appliance and its workers, and would not with a FIFO.
lab_verified() {
    local output=$logs/lab-verified.json
    bounded 150 scripts/lab --test --json --case verified --binary "$target/release/pascaline" \
        >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'not cases["verified"]["olaf"]["broken"]' 'cases["verified"]["fifo"]["broken"]'
}

# Appliances are killed for good, at the root, in the middle and beside their workers, and others stand in; a
# job is halted.
lab_failover() {
    local output=$logs/lab-failover.json cases=(backup root_killed middle_killed halted)
    bounded 240 scripts/lab --test --json --bytes 256KiB --allreduces 24 "${cases[@]/#/--case=}" \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'cases["backup"]["verified"]' 'cases["root_killed"]["resumed"] > 0' \
        'cases["middle_killed"]["verified"]' 'cases["middle_killed"]["resumed"] > 0' \
        'cases["halted"]["told"] == workers' 'cases["halted"]["verified"]'
}

# One packet of a result for all who hear the group; packets of their own for those who do not.
lab_multicast() {
    local output=$logs/lab-multicast.json
    bounded 120 scripts/lab --test --json --bytes 256KiB --workers 12 --case multicast \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'cases["multicast"]["heard"]["packets_per_result"] < 1.3' \
        'cases["multicast"]["filtered"]["packets_per_result"] >= 4' \
        'cases["multicast"]["filtered_half_way"]["verified"]'
}

# One tree and two: the sums are right, also when a tree's appliance is killed for good. How fast is printed;
# docs/lab.md has the figures.
lab_trees() {
    local output=$logs/lab-trees.json
    bounded 180 scripts/lab --test --json --bytes 256KiB --allreduces 12 --case trees \
        --case controlled_trees \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'cases["trees"]["verified"]' 'cases["trees"]["resumed"] > 0' \
        'cases["trees"]["bytes"]["leaf0-spine0"] < 0.7' 'cases["trees"]["bytes"]["leaf0-spine1"] > 0.4' \
        'cases["controlled_trees"]["verified"]' \
        'cases["controlled_trees"]["root_link_streams"]["leaf0-spine0"] < 0.7' \
        'cases["controlled_trees"]["root_link_streams"]["leaf0-spine1"] > 0.4'
}

# Between workers and a server, what is not for the appliance passes as it is. How fast is printed and not
# judged.
demo_inline() {
    demo --inline --workers 2 --bytes 2MiB --allreduces 12 -- "${all_good[@]/workers == 4/workers == 2}" \
        'untouched == untouched_wanted' 'untouched >= 11' 'tcp_with_offloads' 'link_state_passed' \
        'iperf3_ratio > 0'
}

# A controller tells the appliances their parts and workers where to go; it and a leaf are killed.
lab_controller() {
    local output=$logs/lab-controller.json
    bounded 120 scripts/lab --test --json --bytes 256KiB --case controller --case leaf_replaced \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'cases["controller"]["verified"]' 'cases["controller"]["told_after_restart"] == 0' \
        'cases["leaf_replaced"]["verified"]' 'cases["leaf_replaced"]["seconds_until_replaced"] > 0'
}

# Under a controller, the root and then an appliance in the middle are killed for good: its backups have their
# parts within a second.
lab_controller_failover() {
    local output=$logs/lab-controller-failover.json cases=(controlled_root_killed controlled_middle_killed)
    bounded 120 scripts/lab --test --json --bytes 256KiB --allreduces 24 "${cases[@]/#/--case=}" \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'cases["controlled_root_killed"]["verified"]' \
        'cases["controlled_root_killed"]["resumed"] > 0' 'cases["controlled_middle_killed"]["verified"]' \
        'cases["controlled_middle_killed"]["resumed"] > 0'
}

# Of two controllers the one that leads is killed, and of etcd's members the leader: the sums are right, and
# the other controller has the spare take a leaf's part.
lab_etcd() {
    local output=$logs/lab-etcd.json
    bounded 120 scripts/lab --test --json --bytes 256KiB --case etcd \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'cases["etcd"]["verified"]' 'cases["etcd"]["seconds_until_led"] < 5' \
        'cases["etcd"]["seconds_until_replaced"] > 0' 'cases["etcd"]["told_by_second"] == 1'
}

# What the planner has planned, the controller pushes, and the links carry, within 5 % each.
lab_planned() {
    local output=$logs/lab-planned.json
    bounded 120 scripts/lab --plan default --json --bytes 256KiB \
        --binary "$target/release/pascaline" >"$output" || { cat "$output"; return 1; }
    cat "$output"
    expect "$output" 'ok' 'cases["planned"]["verified"]' 'cases["planned"]["worst"] <= 0.05' \
        'cases["planned"]["proof"] == "optimal"'
}
