# shellcheck shell=bash disable=SC2154
# The steps of scripts/test, which sets root, target, logs, quick, bounded and step.

# shellcheck source=scripts/lib/steps_demos.sh
source scripts/lib/steps_demos.sh

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
        bounded 900 cargo test -p pascaline-aggregator --release --locked --test loom
}

# Each fault that tests can put into the pool must break an invariant, or a job's share: one that is not found
# fails the step.
pool_sabotages() {
    bounded 600 cargo test -p pascaline-aggregator --features sabotage --locked --test it -- sabotages found_out
}

documentation() { RUSTDOCFLAGS="-D warnings" bounded 600 cargo doc --workspace --no-deps --locked; }

# ---- the rules of the house ----

python_lints() {
    scripts/setup --tools &&
        "$tools/ruff" check --config scripts/ruff.toml scripts clients/python clients/examples/train &&
        "$tools/ruff" format --config scripts/ruff.toml --check scripts clients/python clients/examples/train &&
        scripts/lib/types
}

shell_lints() {
    local files
    mapfile -t files < <(git grep -lE '^#!.*\b(ba)?sh$' -- scripts .ci lab/fuzz conf clients)
    files+=(scripts/lib/*.sh)
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

# verified CODE FILE OPTION...: the exit code of `pascaline verify`.
verified() {
    local code=0 wanted=$1
    shift
    pascaline verify "$@" || code=$?
    ((code == wanted)) || { say "exit code $code, not $wanted: pascaline verify $*" && return 1; }
}

verifications() {
    local bad=$logs/verify-bad.toml
    verified 0 clients/examples/verify/fairness.toml &&
        verified 1 clients/examples/verify/starved.toml --picture "$logs/starved.svg" --json &&
        grep -q '</svg>' "$logs/starved.svg" &&
        sed 's/^period = .*/period = "0ms"/' clients/examples/verify/fairness.toml >"$bad" &&
        verified 2 "$bad" 2>"$logs/verify-bad.txt" &&
        grep -q ':[0-9]*:[0-9]*: a period' "$logs/verify-bad.txt" &&
        verified 1 clients/examples/verify/phases.toml --json >"$logs/phases.json" &&
        expect "$logs/phases.json" 'method == "z3"' 'queries[0]["verdict"] == "fails"' \
            'queries[0]["example"]["value"] > 100' 'queries[1]["verdict"] == "holds"' &&
        verified 1 clients/examples/verify/phases.toml --model paper >"$logs/verify-paper.txt" &&
        grep -q '^vacuous:' "$logs/verify-paper.txt" &&
        verified 3 clients/examples/verify/phases.toml --time-limit 0s &&
        PASCALINE_Z3=/nowhere/z3 verified 2 clients/examples/verify/phases.toml 2>"$logs/verify-no-z3.txt" &&
        grep -q 'apt-get install z3' "$logs/verify-no-z3.txt"
}

# Real workers and a real appliance against an adversary; exit code 1 and the seed if a promise is broken.
protocol_under_faults() { lab fuzz-protocol --seed 200000 --runs 40000 --jobs 2; }

# The same below two and three levels of appliances.
trees_under_faults() {
    lab fuzz-protocol --levels 2 --seed 100000 --runs 2000 --jobs 2 &&
        lab fuzz-protocol --levels 3 --seed 100000 --runs 2000 --jobs 2
}

# As many workers as three levels of appliances are meant for join, and sum exactly, in virtual time.
at_scale() {
    local output=$logs/scale.json
    lab scale --levels 32,32,64 --bytes 1KiB --iterations 2 --json >"$output" || { cat "$output"; return 1; }
    expect "$output" 'workers == 65536' 'wrong == 0' 'seconds[1] > 0' 'levels[0]["appliances"] == 1' \
        'levels[2]["appliances"] == 1024'
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

# Instances whose optima are known: `optimal` in a file is read here, and not by the program. Then the exit
# codes of a time limit and of a network that is cut.
routes_planned() {
    local file known output=$logs/plan.json cut=$logs/cut.json code
    for file in fleet/planner/tests/it/instances/*.json; do
        known=$(grep -o '"max_flows_k":[0-9]*' "$file" | cut -d: -f2)
        pascaline plan "$file" --json >"$output" || { cat "$output"; return 1; }
        say "$file: $(head -c 160 "$output")"
        expect "$output" "k == $known" 'proof == "optimal"' 'bound == throughput_gbps' 'seconds < 0.1' ||
            return 1
    done
    pascaline plan clients/examples/plans/appliances.json --place 2 --json >"$output" || { cat "$output"; return 1; }
    expect "$output" 'placement["proof"] == "optimal"' 'placement["tried"] == 3' || return 1
    pascaline plan clients/examples/plans/fat-tree.json --json >"$logs/before.json" || return 1
    pascaline plan clients/examples/plans/fat-tree.json --keep "$logs/before.json" --json >"$output" ||
        { cat "$output"; return 1; }
    expect "$output" 'routes["kept"][1] == "language.0"' 'not routes["moved"]' || return 1
    lab paper aro-fig-11 --quick --seeds 2 --json >"$output" || { cat "$output"; return 1; }
    expect "$output" 'rows[0]["mean"] > 10' 'rows[1]["mean"] < 5000' 'rows[2]["mean"] < 2' || return 1
    code=0
    pascaline plan clients/examples/plans/fat-tree.json --time-limit 0s || code=$?
    ((code == 3)) || { say "a time limit of nothing: exit code $code"; return 1; }
    grep -v '"lower": "leaf-a"' clients/examples/plans/appliances.json >"$cut"
    code=0
    pascaline plan "$cut" || code=$?
    ((code == 2)) || { say "a cut network: exit code $code"; return 1; }
}

# Every table and figure of the papers, small: all are there, with numbers, and each that differs from its
# paper has a reason. Olaf's losses with Poisson senders are known: within two points.
papers_made() {
    local output=$logs/papers.json names name
    lab paper all --quick --out "$logs/papers" --json >"$output" || { cat "$output"; return 1; }
    expect "$output" 'broken == 0' 'unexplained == 0' 'compared > 60' 'seconds < 180' || return 1
    names=$(lab paper --help | grep -oE '^ +- [a-z0-9-]+:' | tr -d ' :' | grep -vx -- -all) || return 1
    for name in $names; do
        expect "$output" "'${name#-}' in names" && [[ -s $logs/papers/${name#-}.svg ]] || return 1
    done
    lab paper olaf-table-1 --json >"$output.table" || return 1
    expect "$output.table" '-2 < rows[0]["mean"] - 32.0 < 2' '-2 < rows[1]["mean"] - 0.0 < 2' \
        '-2 < rows[7]["mean"] - 65.2 < 2' '-2 < rows[8]["mean"] - 0.9 < 2' \
        '-2 < rows[14]["mean"] - 91.0 < 2' '-2 < rows[15]["mean"] - 6.6 < 2' 'rows[15]["name"] == "Olaf lost"'
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

# Measures for real and quickly, without peers. Wrong sums fail it, figures that are missing or absurd, and
# memory beyond what was promised.
bench_report() {
    local output=$logs/bench.json
    bounded 200 scripts/bench --quick --no-peers --only host,allreduce,olaf,memory,ends --json \
        --binary "$target/release/pascaline" --out "$logs/bench" >"$output" || { cat "$output"; return 1; }
    python3 -B scripts/bench.d/complete.py "$output" || return 1
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

# What the scripts judge and choose by themselves: a made-up leak fails the soak, among others.
python_units() {
    local folder
    for folder in lib bench.d; do
        python3 -B -m unittest discover --start-directory "scripts/$folder" --pattern '*_test.py' || return 1
    done
}

soak() { bounded 300 python3 -B scripts/lib/soak.py --seconds 90 --binary "$target/release/pascaline"; }

# No piece of the packet path takes over 5 % more instructions than docs/instructions.md has, and one that
# does is found out.
instructions() { bounded 600 scripts/instructions; }
instructions_slowed() { bounded 600 scripts/instructions --demonstrate; }

# Compiles a cargo subcommand, once on each machine. Unoptimised: it works for seconds, and optimising it
# takes minutes.
tool() { cargo "$1" --version || bounded 900 cargo install "cargo-$1" --debug --locked --version "$2"; }

licences() { tool deny 0.20.2 && bounded 300 cargo deny check licenses bans sources; }

fuzzers() { tool fuzz 0.13.2 && bounded 600 lab/fuzz/run 5; }

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
    step "protocol under faults" protocol_under_faults
    step "trees under faults" trees_under_faults
    step "65,536 ranks" at_scale
    step "policies compared" policies_compared
    step "instructions: no more than the table has" instructions
    step "instructions: a slowed-down parse is found out" instructions_slowed
    step "routes planned" routes_planned
    step "papers: every table and figure" papers_made
    step "verify: examples and mistakes" verifications
    step "config: the example is accepted" config_is_accepted
    step "config: a misspelt key is rejected with its place" misspelt_config_is_rejected
    step "demo: unknown options are rejected" demo_rejects_unknown_options
    ports=true port_steps
    step "bench: what looking costs" looking
    step "scripts: unit tests, of the soak's judgement among others" python_units
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
    step "demo: two levels of appliances" demo_two_level
    step "lab: a leaf-spine network" lab_leaf_spine
    step "lab: a job beside TCP" lab_tcp
    if command -v z3 >/dev/null; then
        step "lab: ages within what is verified" lab_verified
    else
        skip "lab: ages within what is verified" "z3 is not installed: apt-get install z3"
    fi
    step "lab: appliances gone for good" lab_failover
    step "lab: several trees" lab_trees
    step "lab: multicast" lab_multicast
    step "lab: a controller" lab_controller
    step "lab: a controller's backups" lab_controller_failover
    if command -v etcd >/dev/null; then
        step "lab: two controllers, etcd" lab_etcd
    else
        skip "lab: two controllers, etcd" "etcd is not installed: apt-get install etcd-server"
    fi
    step "lab: as planned" lab_planned
    step "demo: in line" demo_inline
    step "demo: other collectives" demo_collectives
    step "demo: loss, duplication and reordering" demo_bad_network --seed 1
    step "demo: preemption and the parameter server" demo_preemption
    step "demo: beside a neighbour that never completes anything" demo_neighbour
    step "demo: the appliance is restarted" demo_restart
    step "demo: halted, and healed by hand" demo_halt
    step "demo: reloaded again and again" demo_reload
    step "demo: restarted with a parameter server" demo_restart_preemption
    step "demo: the order of ranks" demo_rank_order
    step "demo: 64 workers in racks" demo_racks
    step "demo: two lcores, PSNs spread over UDP ports" demo_two_lcores
    step "demo: asynchronous updates, Olaf beside FIFO" demo_olaf
    step "demo: asynchronous updates over two hops" demo_olaf_hops
    step "demo: programs in C" demo_client c
    step "demo: programs in C with two streams" demo_client c-streams
    step "demo: an unmodified program of MPI" demo_client mpi
    step "demo: the same in blocks of 8 bits" demo_client mpi mxint8 1920
    cases=true step "python: the package, and PyTorch" python_package
    step "train: DDP ends with Gloo's weights" train_ddp
    step "train: a small GPT" train_gpt
    step "train: FSDP2 beside Gloo" train_fsdp
    step "train: the first layers' gradients overtake" train_arrival
    skip "train: Ray" "Ray is another 200 MB: scripts/train ray"
    step "train: PPO behind FIFO and behind Olaf" train_rl
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
