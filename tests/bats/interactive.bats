#!/usr/bin/env bats
# A shell at a real terminal: Ctrl-C gives the prompt back, Ctrl-Z does nothing.

load helper

# The same in every mode.
every_mode=no

# The terminal's prompt shows the last status.
start_terminal() {
  mkfifo "$records/keys"
  input=$records/keys
  # A background process of a script starts with INT ignored; a terminal's shell does not.
  launch=(env --default-signal=INT --default-signal=QUIT)
  SHELL=$INTERLOCK_BASH HISTFILE='' start terminal \
    script -qefc "exec '$INTERLOCK_BASH' --norc --noprofile -i" /dev/null
  exec {keys}>"$records/keys"
  shown=0
  shows 'bash-'
  type_line ". \"\$INTERLOCK_PRELUDE\"; PS1='<\$?> '; ln -s 1 busy"
  shows '<0> '
}

type_line() {
  printf '%s\n' "$1" >&"$keys"
}

press() {
  printf '%b' "$1" >&"$keys"
}

# shows TEXT: waits until the terminal shows it, after what it has shown before.
shows() {
  until_true 10 has_shown "$1" || fail "the terminal does not show '$1':" "$(cat -v "$records/terminal.out")" || return
  shown=$(( $(wc -c <"$records/terminal.out") ))
}

has_shown() {
  tail -c +"$((shown + 1))" "$records/terminal.out" | grep -qF -- "$1"
}

# The shell behind the terminal.
shell_sleeps() {
  local child
  child_of "${pids[terminal]}" && is_asleep "$child"
}

await_wait() {
  until_true 10 shell_sleeps || fail "the shell does not wait:" "$(cat -v "$records/terminal.out")" || return
  shown=$(( $(wc -c <"$records/terminal.out") ))
}

@test "terminal: Ctrl-C during a wait gives the prompt back with 130" {
  start_terminal
  local command
  type_line 'sem_init s; queue_init q'
  shows '<0> '
  for command in 'mutex_lock busy' 'wmutex_lock busy' 'sem_wait s' 'queue_get q' 'f() { mutex_lock busy; }; f' 'mutex_lock busy && printf "no\n"' 'mutex_lock busy 100'; do
    type_line "$command"
    await_wait
    press '\x03'
    shows '<130> '
  done
  type_line 'mutex_trylock free'
  shows '<0> '
}

@test "terminal: Ctrl-C during a wait for a mutex that one holds oneself" {
  start_terminal
  type_line 'mutex_lock m; mutex_lock m'
  await_wait
  press '\x03'
  shows '<130> '
  type_line 'mutex_unlock m'
  shows '<0> '
}

@test "terminal: with an INT trap the trap runs and the wait goes on" {
  start_terminal
  type_line 'trap "printf \"tr\"; printf \"apped\n\"" INT; mutex_lock busy'
  await_wait
  press '\x03'
  shows 'trapped'
  await_wait
  rm busy
  shows '<0> '
}

@test "terminal: Ctrl-Z has no effect on a wait" {
  start_terminal
  type_line 'mutex_lock busy'
  await_wait
  press '\x1a'
  nap 0.2
  shell_sleeps
  refute has_shown '<'
  rm busy
  shows '<0> '
}

@test "terminal: a background job's end does not end a wait" {
  start_terminal
  type_line 'sleep 0.1 & mutex_lock busy'
  await_wait
  nap 0.3
  shell_sleeps
  rm busy
  shows '<0> '
}

@test "terminal: a hang-up ends a wait at once" {
  start_terminal
  type_line 'mutex_lock busy'
  await_wait
  local child
  child_of "${pids[terminal]}"
  kill -HUP "$child"
  exec {keys}>&-
  limit=10
  end_of terminal
}
