#!/bin/sh
# The program from outside: what it prints, where, and how it exits. Usage: test_cli.sh SOUNDER
# shellcheck disable=SC2016 # backquotes are part of the sentences
set -u
sounder=$1
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check CODE STDOUT STDERR ARGUMENT...: exit code, and shell patterns for all of stdout and all of stderr.
check() {
    code=$1 out_pattern=$2 err_pattern=$3
    shift 3
    "$sounder" "$@" >"$work/out" 2>"$work/err"
    actual=$?
    # shellcheck disable=SC2254 # the patterns are meant as patterns
    case $(cat "$work/out") in $out_pattern) ;; *) complain "stdout" "$@" ;; esac
    # shellcheck disable=SC2254
    case $(cat "$work/err") in $err_pattern) ;; *) complain "stderr" "$@" ;; esac
    [ "$actual" = "$code" ] || complain "exit code $actual instead of $code" "$@"
}

complain() {
    echo "FAILED: $1: sounder $2 ${3-} ${4-}"
    cat "$work/out" "$work/err"
    failures=$((failures + 1))
}

check 0 'sounder [0-9]*.[0-9]*.[0-9]* (*baseline*)' '' --version
check 0 'sounder *sounder train *sounder eval *' '' --help
check 0 'sounder *sounder train *sounder eval *' '' help
check 0 'Usage: sounder train *--rounds N * \[3\]*--resume runs/first*' '' help train
check 0 'Usage: sounder train *' '' train --rounds 5 --help
check 0 'Usage: sounder train *(all: --help)*--alpha X *sounder train *' '' train -h
for option in local-epochs batch-size seed momentum device; do # what a comparison needs
    grep -q "^  --$option " "$work/out" || complain "no --$option" train -h
done
[ "$(wc -l <"$work/out")" -le 23 ] || complain "more than a screen of 24 rows with a prompt" train -h
check 0 '  --lr X *learning rate*[[]0.01[]]*In an experiment file: lr: X' '' help lr
check 0 '  --alpha X *Only used with --partition dirichlet.*' '' help --alpha
check 0 'Usage: sounder eval MODEL.safetensors|RUN *--data *' '' help eval
check 0 'Usage: sounder eval *' '' eval -h
check 0 'Usage: sounder launch *-n, --nproc-per-node N *' '' help launch
check 0 'Usage: sounder launch *' '' launch -n 4 --help
check 0 '*mpirun --host*--hang-seconds*--mca oob_tcp_keepalive_time 4*mpi://*' '' help nodes
check 0 'Nets that --model knows*lenet: *conv CHANNELS S*' '' help models
check 0 'Values of --partition: *pathological [[]classes=2[]]*mode=random|*PathologicalPartitioner*' '' help partitions
check 0 '.TH SOUNDER 1 *\\-\\-checkpoint\\-every*\\-\\-nproc\\-per\\-node*' '' help man
check 0 '# bash completion *' '' help completion bash

check 64 '' 'sounder: error: needs a command; *'
check 64 '' 'sounder: error: trian: unknown command; did you mean train[?]' trian
check 64 '' 'sounder: error: frobnicate: unknown command; `sounder help` lists them' frobnicate
check 64 '' 'sounder: error: help trian: unknown topic; did you mean train[?]' help trian
check 64 '' 'sounder: error: help xyzzy: unknown topic; `sounder help` lists them' help xyzzy
check 64 '' 'sounder: error: help train: one topic at a time; write sounder help eval' help train eval
check 0 '--algorithm (help algorithms):*fedprox: FedAvg *local prox [[]mu=0.01[]]*' '' help fedprox
check 0 '--algorithm (help algorithms):*"local scaffold; *server scaffold [[]lr=1[]]*' '' help scaffold
check 0 '--model (help models):*lenet: *"conv 10 5; *' '' help lenet
check 0 '--partition (help partitions):*dirichlet [[]alpha=0.5,*alpha: *' '' help dirichlet
check 0 '--attack (help attacks):*sign-flip*' '' help sign-flip
check 0 '--model, a layer (help models):*conv CHANNELS*' '' help conv
check 0 '--data, made up (help federations):*' '' help quadratics
check 0 '--data mnist: a public data set (help data)' '' help mnist
check 0 '  --momentum X *In an experiment file: momentum: X*--algorithm, part server (help algorithms):*server momentum *' '' help momentum
check 64 '' 'sounder: error: help learning_rate: unknown topic; did you mean lr[?]' help learning_rate
check 64 '' 'sounder: error: help lr-scheduler: unknown topic; did you mean lr-schedule[?]' help lr-scheduler
check 64 '' 'sounder: error: help fedporx: unknown topic; did you mean fedprox[?]' help fedporx
check 64 '' 'sounder: error: --rounds 0: needs a whole number from 1 to 1000000' train --rounds 0
check 64 '' 'sounder: error: --round: unknown option; did you mean --rounds[?]' train --round 3
check 64 '' 'sounder: error: --alpha 0.3: only used with --partition dirichlet; *' train --alpha 0.3 --partition iid
check 64 '' 'sounder: error: --partition pathologcal: no such partition (did you mean pathological[?]); *' train --partition pathologcal
check 66 '' 'sounder: error: *nothing.yaml: cannot be opened: *' train "$work/nothing.yaml"
tiny="--data synthetic:1x8x8:64:16 --model softmax --workers 1 --rounds 1 --quiet"
check 66 '' 'sounder: error: no data set FashionMNIST (did you mean fashion-mnist[?]); *' train --data FashionMNIST
printf 'lr: 0.1\nmodel: "conv 3 3; foo 3; relu"\n' >"$work/y.yaml"
check 64 '' "sounder: error: $work/y.yaml:2: model: layer 2 (\"foo 3\"): *" train "$work/y.yaml" --data synthetic:1x8x8:64:16
check 64 '' 'sounder: error: --model: layer 1 ("relu 3"): *' train --model 'relu 3' --data synthetic:1x8x8:64:16
twice='leave one of the two out'
check 64 '' "sounder: error: --rounds is given twice, as 3 and as 2; $twice" train --rounds 3 --rounds=2
check 64 '' "sounder: error: --rounds is given twice, as 3 and as 3; $twice" train --rounds 3 --rounds 3
check 64 '' "sounder: error: --quiet is given twice, as true and as false; $twice" train --quiet --quiet=false
check 64 '' "sounder: error: --log-level is given twice, as error and as info; $twice" eval m.safetensors --log-level error --log_level info
check 64 '' "sounder: error: --round is given twice, as 1 and as 2; $twice" replay run --round 1 --round 2 --client 0
check 64 '' "sounder: error: --rounds is given twice, as 1 and as 2; $twice" privacy --rounds 1 --rounds 2
check 64 '' "sounder: error: --nproc-per-node is given twice, as 1 and as 2; $twice" launch -n 1 --nproc-per-node 2 true
check 64 '' "sounder: error: --by is given twice, as a and as b; $twice" runs --by a --by b
check 64 '' "sounder: error: --search is given twice, as grid and as list; $twice" sweep --seed 1 --seed 2 --search grid --search list
check 64 '' "sounder: error: --save is given twice, as a and as b; $twice" partition --save a --save=b
# shellcheck disable=SC2086 # words
check 0 '' 'sounder: warning: --model: its last layer is relu, *' train --data synthetic:1x8x8:64:16 --rounds 1 --quiet \
    --model 'linear 10; relu' --out "$work/relu"
# shellcheck disable=SC2086 # words
check 0 '' 'sounder: warning: --model: its last layer is sigmoid, and the loss, cross-entropy, *' train --data synthetic:1x8x8:64:16 --rounds 1 --quiet \
    --model 'linear 10; sigmoid' --out "$work/sigmoid"
# shellcheck disable=SC2086 # words
check 0 '' 'sounder: warning: --model: its last layer is sigmoid, and so begins the loss, binary *' train --data synthetic:1x8x8:64:16 --rounds 1 \
    --quiet --loss bce --model 'linear 10; sigmoid' --out "$work/sigmoids"
printf 'rounds: 2\nbatch: 3\n' | check 64 '' 'sounder: error: standard input:2: batch: unknown option; did you mean batch-size[?]' train -
SOUNDER_CACHE=of check 64 '' 'sounder: error: SOUNDER_CACHE=of: needs on or off; the folder of copies is sounder in XDG_CACHE_HOME' train --data synthetic:1x8x8:64:16
# shellcheck disable=SC2086
SOUNDER_BLAS=of check 64 '' 'sounder: error: SOUNDER_BLAS=of: needs on or off' train $tiny --out "$work/blas"
SOUNDER_ISA=x86-64 check 0 '' 'sounder: warning: SOUNDER_ISA=x86-64 is unknown *baseline)' train $tiny --out "$work/isa"
[ "$(wc -l <"$work/err")" = 1 ] || complain "said more than once" train --rounds 1
export CUDA_VISIBLE_DEVICES= # with no card to be seen, whether built with CUDA or not
check 69 '' 'sounder: error: *use --device cpu*' train --device cuda --data synthetic:1x8x8:64:16 --model softmax --out "$work/run"
check 0 '*% after 1 round, *' '*' train --device auto --data synthetic:1x8x8:64:16 --model softmax --workers 1 --rounds 1 --out "$work/run"
! grep -q '^sounder:' "$work/err" || complain "sounder says something" train --device auto # a driver may, of its own
unset CUDA_VISIBLE_DEVICES
check 64 '' 'sounder: error: sounder eval: needs a model; *' eval
check 64 '' 'sounder: error: sounder launch: needs a program; *' launch
check 64 '' 'sounder: error: lanch: unknown command; did you mean launch[?]' lanch
check 0 '[[]0[]] -n 2 -h' '' launch printf '%s %s %s\n' -n 2 -h

# What others call it, and what is written elsewhere here.
check 64 '' 'sounder: error: --seed 1-3: needs one value; for several: sounder sweep --seed 1..3' train --seed 1-3
check 64 '' 'sounder: error: --lr 0.1,0.2: needs one value; for several: sounder sweep --lr 0.1,0.2' train --lr 0.1,0.2
check 64 '' 'sounder: error: --algorithm fedprox,scaffold: needs one value; for several: sounder sweep --algorithm fedprox,scaffold' train --algorithm fedprox,scaffold
check 64 '' 'sounder: error: --lr 0.01..0.1: needs a number above 0, at most 1000; ranges are of whole numbers, so write 0.1,0.2,0.3 in a sweep' train --lr 0.01..0.1 # no steps lead from one to the other
# shellcheck disable=SC2088 # no shell replaces it there
check 64 '' 'sounder: error: --out ~/runs: nothing has replaced the ~; write the whole path, or a blank in place of the =' train --out='~/runs'
check 64 '' 'sounder: error: --no-tensorboard: unknown option; write --tensorboard=false' train --no-tensorboard
check 64 '' 'sounder: error: resume: unknown command; did you mean train[?]' resume runs/a
check 64 '' 'sounder: error: --model is lenet unless you give another, a net for images, and a sample of synthetic has 6 numbers: *' train --data synthetic:1x1x6:64:16
check 64 '' 'sounder: error: label=kind: a word of its own without quotes; write --data "iris.csv label=kind"' train --data iris.csv label=kind
check 64 '' 'sounder: error: mu=0.1: a word of its own without quotes; write --algorithm "fedprox mu=0.1"' sweep --algorithm fedprox mu=0.1 --seed 1,2

# Help knows the options of every command, the forms of files, and where the numbers of an algorithm belong.
check 0 '*sounder runs (help runs):*--against VALUE*sounder sweep (help sweep):*' '' help against
check 0 '*--resume FOLDER*' '' help --resume
check 0 '*--data, a form of files (help data):*CSV: a file .csv*' '' help csv
check 64 '' 'sounder: error: help mu: is a number of --algorithm; write --algorithm "fedprox mu=X"; *' help mu
check 64 '' 'sounder: error: --clients-per-round 0.1: needs a whole number from 1 to 1000000, not a share of them' train --clients-per-round 0.1
check 64 '' 'sounder: error: --model net.pt: is a file of PyTorch*sounder.layers(net)*sounder.write_weights(*' train --model net.pt
check 64 '' 'sounder: error: --model net.onnx: is a file of ONNX*sounder.layers("net.onnx")*sounder.write_weights(*' train --model net.onnx
check 64 '' 'sounder: error: net.onnx: is a file of ONNX*' eval net.onnx
check 64 '' 'sounder: error: export: files of ONNX*sounder.export_onnx(*' export runs/a --onnx net.onnx
check 64 '' 'sounder: error: --optimizer: is a part of --algorithm; write --algorithm "fedavg; optimizer RULE"' train --optimizer adam
check 64 '' 'sounder: error: --mu: is a number of --algorithm; write --algorithm "fedprox mu=X"' train --mu 0.1
check 64 '' 'sounder: error: --scaffold: is an algorithm; write --algorithm scaffold' train --scaffold
check 64 '' 'sounder: error: --threads: unknown option; did you mean --workers[?]' train --threads 2
check 64 '' 'sounder: error: plot: unknown command; did you mean report[?]' plot
check 64 '' 'sounder: error: run: unknown command; did you mean train[?]' run

small="--data synthetic:1x4x4:1000:10 --clients 5"
# shellcheck disable=SC2086 # words
{
    check 0 'client  samples  classes 0 to 9*     4 *  |*samples: 1000 of 1000 for 5 clients; *entropy *classes *' '' \
        partition $small --partition dirichlet --alpha 0.1 --save "$work/parts"
    check 73 '' "sounder: error: $work/parts: cannot be created: File exists" partition $small --save "$work/parts"
    check 0 '{"data":"synthetic:1x4x4:1000:10",*"clients":5,*"jensen_shannon":{"mean":*"counts":[[[]*' '' partition $small --json
    check 0 '{*"clients":5,*' '' partition --data synthetic:1x4x4:1000:10 --partition "file:$work/parts" --json
    check 64 '' "sounder: error: $work/parts: a partition for 5 clients, and there are 4; *" partition --data synthetic:1x4x4:1000:10 --clients 4 --partition "file:$work/parts"
    check 64 '' 'sounder: error: *a partition of 1000 samples, and the data set has 900; *' partition --data synthetic:1x4x4:900:10 --partition "file:$work/parts"
    check 0 '' '' train $small --partition dirichlet --alpha 0.1 --model softmax --workers 1 --rounds 1 --quiet --out "$work/dealt"
    check 0 '' '' train --data synthetic:1x4x4:1000:10 --partition "file:$work/parts" --model softmax --workers 1 --rounds 1 --quiet --out "$work/read"
}
cmp -s "$work/dealt/model.safetensors" "$work/read/model.safetensors" || complain "another model" train --partition file:FILE
sed -i '4s/^[0-9]*/1000/' "$work/parts"
check 65 '' "sounder: error: $work/parts:4: sample 1000 of 1000" partition --data synthetic:1x4x4:1000:10 --partition "file:$work/parts"
check 66 '' 'sounder: error: nothing cannot be opened: *' partition --partition file:nothing
check 64 '' 'sounder: error: --partition file: needs its FILE; write file:FILE' partition --partition file
check 64 '' 'sounder: error: --save: needs a value; write --save FILE' partition --save
check 0 'Usage: sounder partition *--save FILE *' '' partition --help

echo 'rounds: 3, and so on' >"$work/text"
check 65 '' "sounder: error: $work/text: is not a safetensors file" eval "$work/text"
check 65 '' "sounder: error: $work/run/model.safetensors does not fit the net (4 of 4 tensors): fc1.weight is 10x64, not 5x64, *" eval "$work/run/model.safetensors" --data synthetic:1x8x8:64:16 --model 'linear 5; linear 10'

if "$sounder" help train >/dev/full 2>"$work/err"; then complain "a full disk passes" help train; fi
grep -q 'standard output cannot be written: No space left' "$work/err" || complain "a full disk" help train

if command -v groff >/dev/null; then
    warnings=$("$sounder" help man | groff -man -Tutf8 -ww 2>&1 >/dev/null)
    [ -z "$warnings" ] || complain "groff: $warnings" help man
fi

if command -v mandoc >/dev/null; then # the page has no date of its own
    warnings=$("$sounder" help man | mandoc -Tlint -W warning | grep -v 'missing date')
    [ -z "$warnings" ] || complain "mandoc: $warnings" help man
fi
manual=$("$sounder" help man)
for name in SOUNDER_DATA SOUNDER_CACHE SOUNDER_ISA XDG_CACHE_HOME LOCAL_RANK PYTHON_EXEC TMPDIR CUDA_VISIBLE_DEVICES TERM; do
    case $manual in *".SH ENVIRONMENT"*"$name"*".SH EXIT STATUS"*".SH EXAMPLES"*) ;; *) complain "no $name" help man ;; esac
done
[ "$(printf '%s\n' "$manual" | grep -c 'fB7[05].fR')" = 2 ] || complain "an exit code stands there twice" help man

# Completes the last of the words given and prints the candidates on one line.
"$sounder" help completion bash >"$work/completion"
candidates() {
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sounder; echo "${COMPREPLY[*]}"' \
        bash "$work/completion" sounder "$@"
}
expect_candidates() {
    expected=$1
    shift
    [ "$(candidates "$@")" = "$expected" ] || complain "completion gives '$(candidates "$@")'" "$@"
}
expect_candidates 'train top' t
expect_candidates '--partition' partition --part
expect_candidates '--save' partition --sav
expect_candidates 'hogwild' train --algorithm 'hog'
expect_candidates 'hogwild' train --algorithm = h
expect_candidates '--checkpoint-every' train --lr 0.1 --checkp
expect_candidates '' eval x --che
expect_candidates 'metrics models man' help m
expect_candidates 'bash zsh fish' help completion ''
# A command that one of them names, all name: the overview, the manual page, completion and help.
for command in $("$sounder" --help | sed -n 's/^  sounder \([a-z]*\).*/\1/p'); do
    case $manual in *".B sounder $command"*".SH DESCRIPTION"*) ;; *) complain "no synopsis of $command" help man ;; esac
    case " $(candidates '') " in *" $command "*) ;; *) complain "completion lacks it" "$command" ;; esac
    [ "$command" = help ] || "$sounder" "$command" --help | grep -q "^Usage: .*sounder $command" || complain "no usage" "$command" --help
done
"$sounder" help train | grep -oE '^  (-., )?--[a-z0-9-]+' | sed 's/.*--/--/' | sort >"$work/listed"
candidates train -- | tr ' ' '\n' | sort >"$work/offered"
[ -z "$(comm -23 "$work/listed" "$work/offered")" ] || complain "completion lacks $(comm -23 "$work/listed" "$work/offered" | tr '\n' ' ')" help train
# Completion offers what help lists: the names come from the same tables.
for pair in algorithms:algorithm models:model partitions:partition; do
    "$sounder" help "${pair%:*}" | sed -n 's/^  \([a-z0-9][a-z0-9-]*\)[: ].*/\1/p; s/^  \([a-z0-9][a-z0-9-]*\)$/\1/p' | sort -u >"$work/listed"
    candidates train "--${pair#*:}" '' | tr ' ' '\n' | grep -v :$ | sort -u >"$work/offered"
    [ "$(wc -l <"$work/offered")" -ge 10 ] || complain "completion offers few names" train "--${pair#*:}"
    [ -z "$(comm -13 "$work/listed" "$work/offered")" ] || complain "completion offers what help does not list: $(comm -13 "$work/listed" "$work/offered" | tr '\n' ' ')" train "--${pair#*:}"
done
expect_candidates 'fedbabu fedbn fedbuff' train --algorithm 'fedb'
expect_candidates 'mobilenet' train --model 'mob'
expect_candidates 'leaf leaf-iid' train --partition 'lea'
expect_candidates 'cifar10 cifar100' train --data 'cif'
expect_candidates 'launch' l
expect_candidates '--by' runs --b
expect_candidates '--out --over' report --o
expect_candidates 'grid list random halving' sweep --search ''
expect_candidates '--search' sweep --sea
expect_candidates '--once' top --o
expect_candidates '--alpha' sweep --alph
expect_candidates 'text csv md latex json' runs --format ''
expect_candidates '--nproc-per-node --nnodes --node-rank --no-python' launch --n
expect_candidates 'auto cpu gpu' launch --nproc-per-node ''

# The same in other shells: the functions are called as the shell would call them on a <Tab>.
if command -v zsh >/dev/null; then
    "$sounder" help completion zsh >"$work/_sounder"
    zsh -n "$work/_sounder" || complain "no script of zsh" help completion zsh
    candidates() { # compadd gets all candidates, and keeps those that begin with the word
        zsh -f -c 'compdef() { : }; compset() { PREFIX=${PREFIX#*=} }; _files() { }
            compadd() { shift; for word in $@; do [[ $word != $PREFIX* ]] || found+=($word); done }
            source $1; shift; words=("$@"); CURRENT=$# PREFIX="$words[-1]"; _sounder; echo $found' zsh "$work/_sounder" sounder "$@"
    }
    expect_candidates 'train top' t
    expect_candidates 'metrics models man' help m
    expect_candidates 'bash zsh fish' help completion ''
    expect_candidates '--checkpoint-every' train --lr 0.1 --checkp
    expect_candidates 'hogwild' train --algorithm hog
    expect_candidates 'hogwild' train --algorithm=hog
    expect_candidates 'text csv md latex json' runs --format ''
    expect_candidates '' eval x --che
fi
if command -v fish >/dev/null; then
    "$sounder" help completion fish >"$work/sounder.fish"
    fish --no-execute "$work/sounder.fish" || complain "no script of fish" help completion fish
    candidates() {
        HOME=$work XDG_CONFIG_HOME=$work XDG_DATA_HOME=$work fish --no-config -c 'cd /dev/null 2>/dev/null; source $argv[1]
            echo (complete -C "$argv[2]")' "$work/sounder.fish" "sounder $*"
    }
    expect_candidates 'top train' t
    expect_candidates 'man metrics models' help m
    expect_candidates 'bash fish zsh' help completion ''
    expect_candidates '--checkpoint-every' train --lr 0.1 --checkp
    expect_candidates 'hogwild' train --algorithm hog
    expect_candidates '--algorithm=hogwild' train --algorithm=hog
    expect_candidates '' eval x --che
fi
check 64 '' 'sounder: error: help completion tcsh: needs bash, zsh or fish' help completion tcsh

# Without the module for several nodes: which package has it.
if "$sounder" --version | grep -q '; mpi'; then
    mkdir "$work/alone"
    cp "$sounder" "$work/alone/sounder"
    with_module=$sounder sounder=$work/alone/sounder
    export OMPI_COMM_WORLD_SIZE=2
    check 69 '' '*cannot be loaded; Debian*package sounder-mpi has it (apt install ./sounder-mpi_[*].deb): *sounder_mpi.so*' train --rounds 1
    unset OMPI_COMM_WORLD_SIZE
    sounder=$with_module
fi

[ "$failures" = 0 ] || exit 1
echo "all checks passed"
