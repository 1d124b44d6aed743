#!/usr/bin/env bats
# A shell in a tmux window: resizing, stopping, job control, loading again and upgrades, all while a builtin waits.
# What Ctrl-C and a hang-up do to a single wait is in interactive.bats.

load helper

# The same in every mode.
every_mode=no

# start_window: a shell that shows [NUMBER OF THE COMMAND:STATUS]$ as its prompt, its terminal settings in `settings`.
start_window() {
  typed=0 limit=10 settings=''
  pids[window]=$(HISTFILE='' in_tmux new-session -d -x 100 -y 50 -P -F '#{pane_pid}' \
    "$INTERLOCK_BASH" --norc --noprofile -i)
  shows 'bash-*[$#]'
  type_line '. "$INTERLOCK_PRELUDE"; set +eu; shopt -s checkwinsize; PS1='\''[\#:$?]$ '\'
  expect_prompt 0
  settings=$(settings_of_terminal)
}

# The server of a test of ours must not keep a descriptor of bats'.
in_tmux() {
  tmux -S "$home/tmux" -f /dev/null "$@" 3>&-
}

type_line() {
  typed=$(( typed + 1 ))
  in_tmux send-keys -l -- "$1"
  in_tmux send-keys Enter
}

press() {
  in_tmux send-keys "$1"
}

# The lines of the window that are not empty.
screen() {
  in_tmux capture-pane -p | grep . || :
}

# shows PATTERN: waits until the last lines match it, in which a * may stand for lines, too.
shows() {
  until_true "$limit" ends_with "$1" || fail "the window does not show '$1':" "$(screen)"
}

ends_with() {
  # shellcheck disable=SC2053 # a pattern
  [[ $(screen) == *$1 ]]
}

# expect_prompt STATUS: of the last command, with nothing behind it, and a line that can be edited as before.
expect_prompt() {
  shows "$(printf '\n[[]%d:%d]$' "$(( typed + 1 ))" "$1")" || return
  [[ -z $settings || $(settings_of_terminal) == "$settings" ]] || fail 'the settings of the terminal have changed'
}

# expect_said TEXT: what the last command has printed between its line and the prompt, which has status 0.
expect_said() {
  shows "$(printf '\n[[]%d:*\n%s\n[[]%d:0]$' "$typed" "$1" "$(( typed + 1 ))")"
}

# resize COLUMNS LINES: tmux takes its time to tell the terminal, and with it the shell.
resize() {
  in_tmux resize-window -x "$1" -y "$2"
  until_true "$limit" has_size "$2 $1" || fail "the window is not $1 wide"
}

has_size() {
  [[ $(stty size <"$(in_tmux display-message -p '#{pane_tty}')") == "$1" ]]
}

settings_of_terminal() {
  stty -g <"$(in_tmux display-message -p '#{pane_tty}')"
}

await_wait() {
  await_asleep window || { screen; return 1; }
}

# The waiter in the background, started as job 1: its process in pids[job].
await_job() {
  until_true "$limit" child_of "${pids[window]}" || fail 'there is no job' || return
  pids[job]=$child
  await_asleep job || { screen; return 1; }
}

@test "terminal: resizing during a wait changes nothing but the size" {
  ln -s 1 busy
  start_window
  type_line 'mutex_lock busy'
  await_wait
  resize 64 40
  resize 63 40
  await_wait
  refute ends_with '$'
  rm busy
  expect_prompt 0
  type_line 'printf "%s\n" "$COLUMNS"'
  expect_said 63
  type_line 'trap "stty size" WINCH; mutex_lock busy'
  await_wait
  resize 70 41
  shows $'\n41 70'
  await_wait
  press C-c
  expect_prompt 130
}

@test "terminal: a waiter in the background is called to the front, and Ctrl-C ends it alone" {
  start_window
  type_line 'mutex_lock m'
  expect_prompt 0
  type_line 'mutex_lock m &'
  expect_prompt 0
  await_job
  type_line 'jobs'
  expect_said '[[]1]+  Running *mutex_lock m &'
  type_line 'fg'
  shows $'\nmutex_lock m'
  is_asleep "${pids[job]}"
  press C-c
  expect_prompt 130
  is_childless window
  type_line 'jobs'
  expect_prompt 0
  type_line 'mutex_unlock m'
  expect_prompt 0
  expect_files
}

@test "terminal: Ctrl-Z stops a waiter that was called to the front; continued, it gets the lock" {
  start_window
  type_line 'mutex_lock m'
  expect_prompt 0
  type_line '{ mutex_lock m; latch locked; await go; mutex_unlock m; } &'
  expect_prompt 0
  await_job
  type_line 'fg'
  shows '; }'
  press C-z
  expect_prompt 148
  is_stopped "${pids[job]}"
  # Whoever is stopped before he has the lock keeps nobody from it.
  type_line 'mutex_unlock m; mutex_lock m 10 && mutex_unlock m'
  expect_prompt 0
  type_line 'bg'
  await locked
  type_line 'mutex_trylock m'
  expect_prompt 1
  latch go
  until_true "$limit" is_childless window
  type_line 'mutex_lock m 10'
  shows "$(printf '[[]1]+  Done *\n[[]%d:0]$' "$(( typed + 1 ))")"
  expect_prompt 0
}

@test "terminal: two waiters in the background, and their notices at the prompt" {
  ln -s 1 busy
  start_window
  type_line 'sem_init s; queue_init q; sem_wait s &'
  expect_prompt 0
  type_line '{ queue_get q >got; mutex_trylock busy; } &'
  expect_prompt 0
  type_line 'sem_post s; queue_put q "an item"'
  expect_prompt 0
  until_true "$limit" is_childless window
  type_line ':'
  expect_prompt 0
  [[ $(screen) == *'[1]'[-+]'  Done '*'sem_wait s'* && $(screen) == *'[2]'[-+]'  Exit 1 '*'{ queue_get q '* ]] || fail "$(screen)"
  [[ $(<got) == 'an item' ]]
}

is_childless() {
  ! child_of "${pids[$1]}"
}

@test "terminal: Ctrl-Z ends a run, as it ends a function, and gives the lock back" {
  start_window
  type_line 'mutex_run m sleep 1000'
  until_true "$limit" runs_sleep
  press C-z
  expect_prompt 148
  expect_files
  type_line 'fg'
  shows 1000\'
  press C-c
  expect_prompt 130
}

@test "terminal: a run in a subshell stops with the lock, and goes on with it" {
  start_window
  type_line '(mutex_run m sleep 1000)'
  until_true "$limit" test -L m
  child_of "${pids[window]}"
  pids[job]=$child
  until_true "$limit" runs_sleep job
  press C-z
  expect_prompt 148
  type_line 'mutex_trylock m'
  expect_prompt 1
  type_line 'fg'
  shows '1000 )'
  press C-c
  expect_prompt 130
  type_line 'mutex_trylock m'
  expect_prompt 0
}

# Has the shell started it?
runs_sleep() {
  child_of "${pids[${1-window}]}" && [[ $(<"/proc/$child/comm") == sleep ]]
} 2>/dev/null

@test "terminal: the end of a long answer to interlock break is no command" {
  local answer
  ln -s 1 busy
  start_window
  for answer in n y; do
    type_line 'interlock break busy'
    await_wait
    printf -v answer '%-64s%s' "$answer" 'touch X'
    in_tmux send-keys -l -- "$answer"
    in_tmux send-keys Enter
    case $answer in n*) expect_prompt 1 ;; y*) expect_prompt 0 ;; esac
  done
  expect_files
}

@test "terminal: enable -d of all builtins and loading again keep what is locked" {
  start_window
  type_line 'mutex_lock m; enable -d $INTERLOCK_NAMES; type mutex_lock'
  expect_prompt 1
  in_shell 'answer mutex_trylock m'
  expect_output 1
  type_line 'enable -f "$INTERLOCK_LIB" $INTERLOCK_NAMES; mutex_trylock m'
  expect_prompt 1
  type_line 'mutex_unlock m && mutex_lock m 0 && mutex_unlock m'
  expect_prompt 0
}

@test "terminal: a trap that removes and loads the builtins does not disturb the one that waits" {
  ln -s 1 busy
  start_window
  type_line 'trap '\''enable -d $INTERLOCK_NAMES; enable -f "$INTERLOCK_LIB" $INTERLOCK_NAMES; printf "loaded\n"'\'' WINCH'
  expect_prompt 0
  type_line 'mutex_lock busy'
  await_wait
  resize 90 40
  shows $'\nloaded'
  await_wait
  resize 91 40
  shows $'\nloaded\nloaded'
  await_wait
  rm busy
  expect_prompt 0
  # Removed for good, while it waits.
  type_line 'trap '\''enable -d $INTERLOCK_NAMES; printf "gone\n"'\'' WINCH; mutex_lock busy'
  await_wait
  resize 90 40
  shows $'\ngone'
  await_wait
  press C-c
  expect_prompt 130
  type_line 'mutex_lock busy'
  shows "*not found*"
  expect_prompt 127
}

@test "terminal: an upgrade while the old plugin waits and holds a lock" {
  make_plugins
  ln -s 1 busy
  start_window
  type_line 'mutex_lock mine; mutex_lock busy'
  await_wait
  upgrade
  # The old shell goes on with the file that has no name any more, new shells take the new one.
  in_shell 'interlock version | head -n 1; answer mutex_trylock mine; rm busy'
  expect_output "$new_version"$'\n1'
  expect_prompt 0
  type_line 'interlock version | head -n 1'
  expect_said "$old_version"
  # A shell never lets go of a library that it has loaded by this name.
  type_line 'enable -d $INTERLOCK_NAMES; enable -f "$INTERLOCK_LIB" $INTERLOCK_NAMES; interlock version | head -n 1'
  expect_said "$old_version"
  type_line 'mutex_unlock mine && mutex_unlock busy'
  expect_prompt 0
  expect_files
}

@test "terminal: a trap loads the upgrade while the old plugin waits; both know what is locked" {
  make_plugins
  ln -s 1 busy
  start_window
  type_line 'trap '\''enable -d $INTERLOCK_NAMES; enable -f "$OTHER_NAME" $INTERLOCK_NAMES; interlock version'\'' WINCH'
  expect_prompt 0
  type_line 'mutex_lock mine; mutex_lock busy'
  await_wait
  upgrade
  resize 90 40
  shows $'\n'"$new_version"$'\n*'
  await_wait
  rm busy
  expect_prompt 0
  type_line 'mutex_trylock mine'
  expect_prompt 1
  in_shell 'answer mutex_trylock mine; answer mutex_trylock busy'
  expect_output $'1\n1'
  type_line 'mutex_unlock mine && mutex_unlock busy && mutex_lock mine 0'
  expect_prompt 0
  in_shell 'answer mutex_trylock mine; answer mutex_lock busy 0'
  expect_output $'1\n0'
  # It ends with its holder.
  kill -KILL "${pids[window]}"
  in_shell 'answer mutex_lock mine 10'
  expect_output 0
}

# An installed plugin with two names, as shell/install gives it, and its next version.
make_plugins() {
  local version

  version=$(sed -n 's/^version = "\([0-9.]*\)"$/\1/p' "$INTERLOCK_ROOT/Cargo.toml" | head -n 1)
  old_version="interlock $version" new_version="interlock ${version//[0-9]/9}"
  cp "$INTERLOCK_LIB" "$home/plugin.so"
  sed "s/${version//./\\.}/${new_version#* }/g" "$home/plugin.so" >"$home/plugin.so.new"
  refute cmp -s "$home/plugin.so" "$home/plugin.so.new"
  ln -s plugin.so "$home/other.so"
  INTERLOCK_LIB=$home/plugin.so
  export OTHER_NAME=$home/other.so
}

# As shell/install replaces it.
upgrade() {
  mv -f "$home/plugin.so.new" "$home/plugin.so"
}
