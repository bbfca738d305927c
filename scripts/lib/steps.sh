# shellcheck shell=bash disable=SC2154
# The steps of scripts/test, which sets root, target, logs, quick, bounded and step.

tools=$target/tools/python/bin

# ---- Rust ----

# Without nextest, cargo's own way to run them.
unit_tests() {
    local code=0
    if cargo nextest --version >/dev/null 2>&1; then
        bounded 900 cargo nextest run --workspace --locked --no-fail-fast --failure-output final || code=$?
        root_tests || code=$?
    else
        bounded 900 cargo test --workspace --locked --no-fail-fast --lib --bins --tests || code=$?
    fi
    return "$code"
}

# Runs those again, by sudo, that have just said that they need root. A line without a reason tells that its
# test was counted twice.
root_tests() {
    local ran=$PASCALINE_SKIPPED.ran left=$PASCALINE_SKIPPED.left filter host
    ((EUID != 0)) && may_be_root && grep -q '|.*root' "$PASCALINE_SKIPPED" || return 0
    grep '|.*root' "$PASCALINE_SKIPPED" >"$ran"
    grep -v '|.*root' "$PASCALINE_SKIPPED" >"$left" || true
    filter=$(awk -F'|' '{ print "(binary_id(=" $1 ") & test(=" $2 "))" }' "$ran" | sort -u | paste -sd'|')
    awk -F'|' '{ print $1 "|" $2 "|" }' "$ran" | cat - "$left" >"$PASCALINE_SKIPPED"
    host=$(rustc -vV | awk '$1 == "host:" { print toupper($2) }')
    env "CARGO_TARGET_${host//-/_}_RUNNER=sudo -n -E" \
        bounded 900 cargo nextest run --workspace --locked --no-fail-fast --failure-output final -E "$filter"
}

doc_tests() { bounded 600 cargo test --doc --workspace --locked --no-fail-fast; }

loom_models() {
    # Loom replaces the atomics at compile time: its build must not overwrite the ordinary one.
    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$target/loom \
        bounded 900 cargo test -p pascaline-aggregator --release --locked --test 'loom*'
}

# Each fault that tests can put into the pool must break an invariant: one that is not found fails the step.
pool_sabotages() {
    bounded 600 cargo test -p pascaline-aggregator --features sabotage --locked --test invariants sabotages
}

documentation() { RUSTDOCFLAGS="-D warnings" bounded 600 cargo doc --workspace --no-deps --locked; }

# ---- the rules of the house ----

python_lints() {
    scripts/setup --tools &&
        "$tools/ruff" check --config scripts/ruff.toml scripts &&
        "$tools/ruff" format --config scripts/ruff.toml --check scripts &&
        scripts/lib/types
}

shell_lints() {
    local files
    mapfile -t files < <(git grep -lE '^#!.*\b(ba)?sh$' -- scripts .ci fuzz conf worker examples)
    scripts/setup --tools && "$tools/shellcheck" --external-sources "${files[@]}"
}

spelling() { scripts/setup --tools && "$tools/typos" --config scripts/typos.toml; }

house() { python3 -B scripts/lib/house.py; }

# What README and docs/ tell a reader to type is accepted, and their links lead somewhere.
documents() { bounded 300 python3 -B scripts/lib/doc_commands.py --binaries "$target/release"; }

# ---- the programs ----

pascaline() { "$target/release/pascaline" "$@"; }

lab() { bounded 600 "$target/release/pascaline-lab" "$@"; }

# expect FILE EXPRESSION...: of the JSON object in the file's last line.
expect() { python3 -B scripts/lib/expect.py "$@"; }

config_is_accepted() { pascaline check conf/appliance.toml; }

# Real workers and a real appliance against an adversary; exit code 1 and the seed if a promise is broken.
# Eleven of these schedules break a promise today. Since schedules have pauses, clocks that differ, ranks
# that disagree and a server that comes and goes, ten operations end after their deadline, most of them
# where a server that has come back has every PSN voted on; and in one, ranks end with different results.
# Each is printed, and one more fails. They count as skipped.
protocol_under_faults() {
    local found
    lab fuzz-protocol --seed 200000 --runs 100000 --jobs 2 | tee "$logs/faults.txt" || true
    found=$(sed -n 's/.*; violations \([0-9]*\)$/\1/p' "$logs/faults.txt" | tail -n 1)
    ((${found:-100} <= 11)) || return 1
    ((found == 0)) || echo "- skipped: $found of 100000 schedules break a promise, at most 11 are known"
    echo "1 passed, 0 failed, $found skipped"
}

# The pool's policies in virtual time. The program ends with exit code 1 at the first result that is not
# exact, and at the first packet that is unaccounted for.
policies_compared() {
    local output=$logs/policies.json
    lab bench policies --quick --json >"$output" || { cat "$output"; return 1; }
    expect "$output" 'verified == expected' 'verified > 1000000' 'scale > 1' 'cells[0]["completion_ms"] > 0' \
        'ranking[0]["times_best"] >= 1' 'ranking[19]["times_best"] > ranking[0]["times_best"]' \
        'paper[13]["figure"] == 11' 'paper[13]["here"] > 0'
}

# A misspelt key: exit code 2 and the place of the mistake.
misspelt_config_is_rejected() {
    local copy=$logs/misspelt.toml code=0 line output
    sed '0,/^udp_port/s//udp_prot/' conf/appliance.toml >"$copy"
    line=$(grep -n '^udp_prot' "$copy" | cut -d: -f1)
    [[ -n $line ]] || { say "conf/appliance.toml has no udp_port to misspell"; return 1; }
    output=$(pascaline check "$copy" 2>&1) || code=$?
    say "exit code $code: $output"
    ((code == 2)) && grep -Eq "line $line,? column [0-9]+|:$line:[0-9]+" <<<"$output" &&
        grep -q udp_prot <<<"$output"
}

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
demo_preemption() {
    demo --policy dsa --jobs 2 --loss 1 --pool-slots 64 --bytes 256KiB --allreduces 4 "$@" \
        -- "${all_good[@]}" \
        'jobs == 2' 'allreduces == 8' 'preemptions > 0' 'ps_completions > 0'
}

# A job that never completes a PSN costs the others what packets cost that are refused at the parse, and no
# more. The bound is wide: a machine that is busy elsewhere must not decide.
demo_neighbour() {
    demo --policy dsa --neighbour --neighbour-rounds 2 --bytes 2MiB --allreduces 6 \
        -- 'ok' 'mismatches == 0' 'verified == allreduces' 'verified == 36' 'ratio > 0' 'over_control < 1.5'
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
    local sums=() run
    for run in 1 2; do
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

# Programs in C, half of them under sanitizers, and an unmodified program of MPI: their sums are right, and
# the appliance has made the results.
demo_client() {
    local more=()
    [[ $1 == c ]] || more=('calls_by_appliance > 40')
    demo --client "$1" --bytes 1MiB -- 'ok' "client == \"$1\"" 'workers == 4' 'verified == 10' \
        'mismatches == 0' 'results >= results_needed' 'results_needed == 10240' 'identity_holds' "${more[@]}"
}

# Without an appliance a program of MPI runs as ever, and one line says why.
mpi_falls_back() {
    local output=$logs/mpi-fallback.txt built
    built=$(scripts/clients) && mpicc -O1 examples/mpi/allreduce.c -o "$logs/mpi_allreduce" || return 1
    bounded 60 mpirun --allow-run-as-root --oversubscribe -np 4 --mca btl self,vader \
        --mca mpi_yield_when_idle 1 -x LD_PRELOAD="$built/lib/libpascaline-mpi.so" \
        -x PASCALINE_URL='pascaline://127.0.0.1:9?timeout=500ms' "$logs/mpi_allreduce" 1000 \
        >"$output" 2>&1 || { cat "$output"; return 1; }
    (($(grep -c 'sums are right' "$output") == 4 && $(grep -c '^pascaline-mpi: ' "$output") == 1))
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

# Over IPv6, and from behind routers.
demo_from_outside() {
    demo --ip6 --bytes 1MiB --allreduces 3 -- "${all_good[@]}" 'ip6' 'allreduces == 3' &&
        demo --routed --bytes 256KiB --allreduces 3 -- "${all_good[@]}" 'allreduces == 3'
}

# Each rank has the right bytes in the right place.
demo_collectives() {
    local collective
    for collective in reduce broadcast reduce_scatter allgather; do
        demo --collective "$collective" --root 2 --bytes 256KiB --allreduces 3 -- "${all_good[@]}" \
            'allreduces == 3' || return 1
    done
    demo --collective barrier -- 'ok' 'verified == 10' &&
        demo --wire bf16 --bytes 1MiB --allreduces 3 -- "${all_good[@]}" 'allreduces == 3'
}

# Frames of 9,000 bytes need larger slots in the driver's ring.
demo_jumbo() {
    demo --mtu 9000 --payload 8192 --bytes 4MiB --allreduces 3 -- "${all_good[@]}" 'allreduces == 3'
}

# Scapy's reading of the protocol against the test vectors; the same streams replayed through real ports,
# every frame counted.
trex() { bounded 300 scripts/trex/check --binary "$target/release/pascaline"; }

# Each attack once, beside four workers at a real appliance. Times are told and not judged.
hostile() { suite hostile held 400; }

# Runs scripts/mistakes or scripts/hostile in the short form, within a time, and counts its cases.
suite() {
    local output=$logs/$1.json
    bounded "$3" "scripts/$1" --quick --json --binary "$target/release/pascaline" >"$output" || true
    python3 -B scripts/lib/cases.py "$1" "$2" "$output"
}

# A real Prometheus: every panel and every alert is answered with data, and each alert fires and stays silent
# as tested.
observe() { bounded 300 scripts/observe --binary "$target/release/pascaline"; }

# Measures for real and quickly, without peers. Wrong sums fail it, and figures that are missing or absurd.
bench_report() {
    local output=$logs/bench.json
    bounded 170 scripts/bench --quick --no-peers --only host,allreduce,olaf,memory,ends --json \
        --binary "$target/release/pascaline" --out "$logs/bench" >"$output" || { cat "$output"; return 1; }
    expect "$output" 'failures == []' 'sections[0]["figures"][0]["value"] > 0' \
        'sections[1]["figures"][0]["ratio"] < 1.5' 'sections[3]["figures"][4]["ratio"] <= 1.1' || return 1
    [[ -s $logs/bench/report.md && -s $logs/bench/allreduce.svg ]]
}

# Each mistake is told to every rank that it concerns, in time, in words that name the rank and the reason.
mistakes_named() { suite mistakes named 180; }

# A real browser on the page, while the workers of a demo are at work; target/browser has the screenshots.
browser() {
    bounded 600 scripts/setup --browser &&
        bounded 150 scripts/browser --binary "$target/release/pascaline" --timeout 60
}

# What it costs the packets that somebody looks: within 10 % of their time and 3 % of their rate.
looking() { bounded 400 python3 -B scripts/lib/looking.py --binary "$target/release/pascaline-lab"; }

# A made-up leak must fail the soak's judgement of memory, and what is no leak must not.
soak_judgement() { python3 -B scripts/lib/soak_test.py; }

soak() { bounded 300 python3 -B scripts/lib/soak.py --seconds 90 --binary "$target/release/pascaline"; }

# No piece of the packet path takes over 5 % more instructions than docs/instructions.md has, and one that
# does is found out.
instructions() { bounded 600 scripts/instructions; }
instructions_slowed() { bounded 600 scripts/instructions --demonstrate; }

# Compiles a cargo subcommand, once on each machine. Unoptimised: it works for seconds, and optimising it
# takes minutes.
tool() { cargo "$1" --version || bounded 900 cargo install "cargo-$1" --debug --locked --version "$2"; }

licences() { tool deny 0.20.2 && bounded 300 cargo deny check licenses bans sources; }

fuzzers() { tool fuzz 0.13.2 && bounded 600 fuzz/run 5; }


all_steps() {
    step "setup" scripts/setup
    step "format" cargo fmt --all --check
    step "python: ruff and mypy" python_lints
    step "shell: shellcheck" shell_lints
    step "spelling: typos" spelling
    step "house: sizes, lines, modules, dependencies" house
    step "clippy" bounded 900 cargo clippy --workspace --all-targets --locked -- -D warnings
    cases=true step "unit and property tests" unit_tests
    cases=true step "documentation tests" doc_tests
    step "documentation" documentation
    cases=true step "loom models" loom_models
    cases=true step "sabotages inside the pool" pool_sabotages
    cases=true step "address sanitizer" bounded 900 scripts/asan
    step "licences and sources" licences
    if "$quick"; then skip "fuzzers" "--quick"; else step "fuzzers" fuzzers; fi
    step "release build" bounded 900 cargo build --release --locked -p pascaline -p pascaline-lab
    step "documents: commands and links" documents
    cases=true step "protocol under faults" protocol_under_faults
    step "policies compared" policies_compared
    step "instructions: no more than the table has" instructions
    step "instructions: a slowed-down parse is found out" instructions_slowed
    step "config: the example is accepted" config_is_accepted
    step "config: a misspelt key is rejected with its place" misspelt_config_is_rejected
    step "demo: unknown options are rejected" demo_rejects_unknown_options
    ports=true port_steps
    step "bench: what looking costs" looking
    step "soak: a leak fails its judgement" soak_judgement
    if "$quick"; then
        skip "soak: memory does not grow" "--quick"
    else
        ports=true step "soak: memory does not grow" soak
    fi
}

port_steps() {
    step "examples: built, and the synchronous one sums" bounded 600 scripts/examples
    step "demo: f32" demo_f32
    step "demo: i32, full packets" demo_i32
    step "demo: jumbo frames" demo_jumbo
    step "demo: IPv6, routers" demo_from_outside
    step "demo: other collectives" demo_collectives
    step "demo: loss, duplication and reordering" demo_bad_network --seed 1
    step "demo: preemption and the parameter server" demo_preemption
    step "demo: beside a neighbour that never completes anything" demo_neighbour
    step "demo: the appliance is restarted" demo_restart
    step "demo: halted, and healed by hand" demo_halt
    step "demo: reloaded again and again" demo_reload
    step "demo: restarted with a parameter server" demo_preemption --restart-appliance
    step "demo: the order of ranks" demo_rank_order
    step "demo: 64 workers in racks" demo_racks
    step "demo: two lcores, PSNs spread over UDP ports" demo_two_lcores
    step "demo: asynchronous updates, Olaf beside FIFO" demo_olaf
    step "demo: programs in C" demo_client c
    step "demo: an unmodified program of MPI" demo_client mpi
    step "mpi: falls back without an appliance" mpi_falls_back
    step "demo: SwitchML's clients, integers" demo_switchml i32 256
    step "demo: SwitchML's clients, floats" demo_switchml f32 1024
    step "demo: gives up in time" demo_gives_up
    step "demo: Ctrl-C leaves nothing behind" python3 -B scripts/lib/interrupt.py ctrl-c
    step "demo: SIGTERM leaves nothing behind" python3 -B scripts/lib/interrupt.py term
    step "demo: what SIGKILL leaves goes with the next run" python3 -B scripts/lib/interrupt.py kill
    cases=true step "mistakes: each is named in time" mistakes_named
    cases=true step "trex: vectors and replay" trex
    cases=true step "hostile: every attack once" hostile
    step "observe: Prometheus, panels and alerts" observe
    step "bench: a quick report without peers" bench_report
    step "browser: the page while workers work" browser
}
