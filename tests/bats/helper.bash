# shellcheck shell=bash disable=SC2034 # much of this is for the tests
# Loaded by every test file: a fresh directory for each test, shells under test with their records, expectations.
#
#   in_shell CODE [ARG…]         runs CODE in a fresh shell that has the plugin; sets status, output, errors
#   start_shell WHO CODE [ARG…]  the same in the background; end_of WHO waits for it
#   start_peer WHO CODE [ARG…]   a shell that has the pure-bash peer instead of the plugin
#
# Before these, `launch` may hold a command prefix (unshare, setpriv …) and `input` a file for stdin. Shells meet at
# latches and barriers (see prelude.bash), which have time limits; nothing is synchronised by sleeping.
#
# INTERLOCK_BASH, INTERLOCK_LIB   the shell and the library under test
# INTERLOCK_MODE                  plain, strict (set -eu) or posix: how the shells under test are set
# INTERLOCK_DEEP=1                the big figures

INTERLOCK_ROOT=${BATS_TEST_DIRNAME%/tests/bats}
: "${INTERLOCK_BASH:=bash}" "${INTERLOCK_LIB:=$INTERLOCK_ROOT/target/release/libinterlock.so}" "${INTERLOCK_MODE:=plain}"
INTERLOCK_PRELUDE=$INTERLOCK_ROOT/tests/bats/prelude.bash
INTERLOCK_PEER=$INTERLOCK_ROOT/tests/peer/peer.bash
INTERLOCK_BASH=$(type -P "$INTERLOCK_BASH")

# Seconds after which a test gives up on a shell.
limit=30

# The names that the plugin exports, from the table that the build uses.
builtin_names() {
  sed -n 's/^ *name: "\([a-z_]*\)",$/\1/p' "$INTERLOCK_ROOT/src/command/table.rs"
}

# A fresh directory on tmpfs where there is one; `disk` is another one on the file system of the temporary directory.
setup() {
  [[ ${every_mode-yes} == yes ]] || once_is_enough
  [[ ${needs_root-no} == no ]] || (( EUID == 0 )) || skip "needs root"
  [[ -z ${needs_program-} ]] || type -P "$needs_program" >/dev/null || skip "needs $needs_program"
  [[ -r $INTERLOCK_LIB ]] || fail "there is no $INTERLOCK_LIB: build it first" || return
  local base=${BATS_TEST_TMPDIR:-${TMPDIR:-/tmp}}
  [[ $(stat -fc %T /dev/shm 2>/dev/null) == tmpfs && -w /dev/shm ]] && base=/dev/shm
  home=$(mktemp -d "$base/interlock.XXXXXX")
  T=$home/T records=$home/records
  disk=$(mktemp -d "${BATS_TEST_TMPDIR:-${TMPDIR:-/tmp}}/disk.XXXXXX")
  mkdir "$T" "$records" "$records/latches"
  chmod 755 "$home" "$records"
  chmod 1777 "$records/latches"
  mkfifo -m 666 "$records/latches/.nap"
  LATCHES=$records/latches
  # Every process of this test can be recognised by it.
  INTERLOCK_TEST=$home
  INTERLOCK_NAMES=$(builtin_names)
  export INTERLOCK_ROOT INTERLOCK_BASH INTERLOCK_LIB INTERLOCK_MODE INTERLOCK_PRELUDE INTERLOCK_PEER
  export INTERLOCK_TEST INTERLOCK_NAMES LATCHES T
  export LC_ALL=C.UTF-8 PEER_PAUSE=${PEER_PAUSE-0.01}
  declare -gA pids=()
  launch=() input=/dev/null
  cd "$T" || return
}

teardown() {
  end_leftovers
  if [[ -z ${BATS_TEST_COMPLETED-} ]]; then
    show_records
  fi
  cd /
  chmod -R u+rwX "$home" "$disk" 2>/dev/null
  rm -rf "$home" "$disk"
}

# A failing test tells what was left in the directory and what every shell said.
show_records() {
  local file
  printf '%s\n' "--- status ${status-none}, directory:"
  # shellcheck disable=SC2012 # for people
  ls -laR --time-style=+%T "$T" 2>&1 | head -n 60
  for file in "$records"/*.{out,err}; do
    [[ -s $file ]] || continue
    printf '%s\n' "--- ${file##*/}:"
    head -c 4000 "$file" | cat -v
  done
}

# Kills what a test started and left behind, in whatever session or namespace it is.
end_leftovers() {
  local file pid
  local -a left=()
  # shellcheck disable=SC2013 # these paths are words
  for file in $(grep -lzsx "INTERLOCK_TEST=$home" /proc/[0-9]*/environ); do
    pid=${file#/proc/}
    left+=("${pid%/environ}")
  done
  if (( ${#left[@]} > 0 )); then
    kill -KILL "${left[@]}" 2>/dev/null || :
  fi
  wait 2>/dev/null || :
}

fail() {
  printf '%s\n' "$@" >&2
  return 1
}

# shellcheck disable=SC2120 # the tests have other times
nap() {
  read -rt "${1:-0.005}" <>"$LATCHES/.nap" || :
}

# until_true LIMIT COMMAND…: looks every few milliseconds; false when the limit in seconds is over.
until_true() {
  local -i end=SECONDS+$1+1
  shift
  until "$@"; do
    (( SECONDS < end )) || return 1
    # shellcheck disable=SC2119
    nap
  done
}

start_shell() {
  local who=$1 code=$2
  shift 2
  start "$who" "$INTERLOCK_BASH" -c ". \"\$INTERLOCK_PRELUDE\"; $code" "$who" "$@"
}

start_peer() {
  local who=$1 code=$2
  shift 2
  start "$who" "$INTERLOCK_BASH" -c ". \"\$INTERLOCK_PEER\"; $code" "$who" "$@"
}

# start WHO COMMAND…: any program, recorded like a shell.
start() {
  local who=$1
  shift
  "${launch[@]}" "$@" <"$input" >"$records/$who.out" 2>"$records/$who.err" 3>&- &
  pids[$who]=$!
}

end_of() {
  local who=$1
  local pid=${pids[$who]}
  until_true "$limit" has_ended "$pid" || fail "$who still runs after $limit s:" "$(state_of "$pid")" || return
  status=0
  wait "$pid" || status=$?
  output=$(tr -d '\0' <"$records/$who.out") errors=$(<"$records/$who.err")
}

in_shell() {
  start_shell shell "$@"
  end_of shell
}

in_peer() {
  start_peer peer "$@"
  end_of peer
}

# The number of a child that has ended and was reaped may be another process's by now.
# What a process that should have ended does.
state_of() {
  grep -E '^(Name|State|PPid|Sig)' "/proc/$1/status"
  printf '%s: %s\n' syscall "$(<"/proc/$1/syscall")" wchan "$(tr -d '\0' <"/proc/$1/wchan")" \
    children "$(<"/proc/$1/task/$1/children")" command "$(tr '\0' ' ' <"/proc/$1/cmdline")"
} 2>&1

has_ended() {
  local stat state parent
  read -r stat <"/proc/$1/stat" || return 0
  read -r state parent _ <<<"${stat##*) }"
  # bash now and then overlooks the end of a child until the next one ends: a zombie has ended, too.
  [[ $parent != "$BASHPID" || $state == [ZX] ]]
} 2>/dev/null

# Waits for a latch that a shell closes.
await() {
  until_true "$limit" test -e "$LATCHES/$1" || fail "nobody came to $1"
}

latch() {
  : >"$LATCHES/$1"
}

# await_asleep WHO…: until each of these shells sleeps in a wait of the plugin.
await_asleep() {
  local who
  for who; do
    until_true "$limit" is_asleep "${pids[$who]}" || fail "$who does not wait" || return
  done
}

# The plugin is the only thing in a shell that calls ppoll; `read -t` calls another one.
is_asleep() {
  local call ppoll=271
  [[ $(uname -m) != aarch64 ]] || ppoll=73
  read -r call _ <"/proc/$1/syscall" && [[ $call == "$ppoll" ]]
} 2>/dev/null

expect_status() {
  (( status == $1 )) || fail "the status is $status, not $1"
}

expect_output() {
  [[ $output == "$1" ]] || fail "the output is:" "$output" "and not:" "$1"
}

# Nothing on stderr.
expect_quiet() {
  [[ -z $errors ]] || fail "there should be no message, but:" "$errors"
}

# `!` before a command would not fail a test.
refute() {
  ! "$@" || fail "this should have failed: $*"
}

# One line on stderr that matches the pattern.
expect_error() {
  # shellcheck disable=SC2053 # a pattern
  [[ $errors == $1 && $errors != *$'\n'* ]] || fail "the message should be one line like '$1', but is:" "$errors"
}

# expect_files NAME…: exactly these in the test's directory.
expect_files() {
  local here there
  here=$(ls -A "$T")
  there=$(printf '%s\n' "$@" | sort)
  [[ $(sort <<<"$here") == "$there" ]] || fail "the directory has:" "$here" "and not:" "$there"
}

# figure SMALL BIG: how much to do in this run.
figure() {
  printf '%s' "$(( ${INTERLOCK_DEEP:-0} ? $2 : $1 ))"
}

# Seen by other users, too: the library, the prelude and the peer as copies.
make_public() {
  mkdir "$home/public"
  cp "$INTERLOCK_LIB" "$INTERLOCK_PRELUDE" "$INTERLOCK_PEER" "$home/public"
  INTERLOCK_LIB=$home/public/${INTERLOCK_LIB##*/}
  INTERLOCK_PRELUDE=$home/public/prelude.bash INTERLOCK_PEER=$home/public/peer.bash
  chmod -R a+rX "$home/public"
}

# launch=("${as_user[@]}"): somebody without privileges; as_other is somebody else in the same extra group.
as_user=(setpriv --reuid=61001 --regid=61001 --groups=61009)
as_other=(setpriv --reuid=61002 --regid=61002 --groups=61009)

# in_namespace OPTION…: what is launched from now on is, by unshare, in name spaces of its own.
in_namespace() {
  unshare "$@" true 2>/dev/null || skip "this machine does not allow: unshare $*"
  launch=(unshare "$@")
}

# stop_before CALL COUNT: shells started from now on stop themselves (SIGSTOP) before the COUNTth CALL of the library.
stop_before() {
  [[ -e $home/stop.so ]] ||
    cc -shared -fPIC -O -o "$home/stop.so" "$INTERLOCK_ROOT/tests/bats/stop.c" || return
  launch=(env "LD_PRELOAD=$home/stop.so" "STOP_BEFORE=$1" "STOP_COUNT=$2")
}

# await_stopped WHO…
await_stopped() {
  local who
  for who; do
    until_true "$limit" is_stopped "${pids[$who]}" || fail "$who does not stop" || return
  done
}

# The first child of a process, in `child`.
child_of() {
  # The file has no newline at its end.
  read -r child _ <"/proc/$1/task/$1/children" || [[ -n $child ]]
} 2>/dev/null

is_stopped() {
  grep -q '^State:.*stopped' "/proc/$1/status"
} 2>/dev/null

has_ended_or_stopped() {
  has_ended "$1" || is_stopped "$1"
}

resume() {
  kill -CONT "${pids[$1]}"
}

# What is the same in every mode need not be shown three times.
once_is_enough() {
  [[ $INTERLOCK_MODE == plain ]] || skip "done in the plain run"
}
