#!/usr/bin/env bats
# shell/include: the modules that stand in for the article library's.

load helper

# The same in every mode.
every_mode=no

# An `include` like the library's: sources the file silently, calls and forgets the constructor.
# shellcheck disable=SC2016
include='
  include() {
    local module
    for module; do
      [[ -e $INTERLOCK_ROOT/shell/include/$module.sh ]] || { printf "no %s\n" "$module" >&2; return 1; }
      . "$INTERLOCK_ROOT/shell/include/$module.sh" &>/dev/null && __init || return 1
      unset -f __init
    done
  }
  HOME=$T; set -eu;'

# in_library CODE: a shell that has nothing but `include`.
in_library() {
  once_is_enough
  start library "$INTERLOCK_BASH" -c "$include $1"
  end_of library
}

@test "modules: mutex and wmutex lock, whatever was defined before" {
  in_library 'mutex_lock() { :; }; include mutex wmutex; set +e
    for kind in mutex wmutex; do
      "${kind}_trylock" m; "${kind}_trylock" m; printf "%s" "$?"; "${kind}_lock" m 0.05; printf "%s" "$?"
      "${kind}_unlock" m; printf "%s" "$?"; "${kind}_unlock" m; printf "%s" "$?"; "${kind}_lock" -c m 1; printf "%s" "$?"
      "${kind}_unlock" -f m; "${kind}_lock" m; printf "%s" "$?"; "${kind}_unlock" m
    done'
  expect_output 110100110100
  expect_quiet
}

@test "modules: what cannot be had or is not ours is refused in silence" {
  in_shell 'mutex_lock m; sem_init s; queue_init q; wmutex_lock w'
  in_library 'include queue; set +e
    for call in "mutex_lock no/m" "mutex_lock no/m 5" "mutex_trylock no/m" "wmutex_lock no/m" "wmutex_trylock no/m" \
      "sem_destroy ./s" "queue_destroy ./q"; do
      $call; printf "%s" "$?"
    done'
  expect_output 3333322
  expect_quiet
}

@test "modules: a trap may write to stderr while a lock is awaited" {
  once_is_enough
  in_shell 'wmutex_lock m'
  start waiter "$INTERLOCK_BASH" -c "$include"' include wmutex; trap "printf news >&2; exit 0" USR1; wmutex_lock m'
  await_asleep waiter
  kill -USR1 "${pids[waiter]}"
  end_of waiter
  [[ $errors == news ]]
}

@test "modules: nothing is printed by sourcing, and the constructor is all that runs" {
  in_library '. "$INTERLOCK_ROOT/shell/include/sem.sh"; . "$INTERLOCK_ROOT/shell/include/queue.sh"; ls -A "$HOME"; type -t mutex_lock || printf "none\n"'
  expect_output none
  expect_quiet
}

@test "modules: a name without a slash is in the library's directory" {
  in_library 'include queue
    sem_init s 2; sem_wait s; sem_trywait s; sem_post s; sem_peek s; sem_peek -v OPT s; printf "%s\n" "$OPT"
    queue_init q; queue_put q one two -n; queue_len q; queue_peek q; queue_get -a items -n 2 q 0; printf "%s\n" "${items[@]}"
    show() { printf "<%s%s>\n" "$2" "$1"; }; queue_foreach q show =; queue_get q; printf "stdin" | queue_put -f - -- q; queue_get -v item q; printf "%s\n" "$item"
    sem_run -n 4 r printf "%s\n" ran
    (cd "$HOME" && printf "%s\n" .toolbox/*/*)
    sem_destroy s; sem_destroy r; queue_destroy -f q; (cd "$HOME" && printf "%s\n" .toolbox/*)'
  expect_status 0
  expect_output $'1\n1\n3\none\none\ntwo\n<=-n>\n-n\nstdin\nran\n.toolbox/queue/q\n.toolbox/sem/r\n.toolbox/sem/s\n.toolbox/queue\n.toolbox/sem'
  expect_quiet
}

@test "modules: a name with a slash is a path" {
  in_library 'include sem; sem_init ./s 1; sem_peek ./s; sem_init "$PWD/t" 0; printf "%s\n" */ "$HOME"/.toolbox/*/*; sem_destroy ./s'
  expect_output $'1\ns/\nt/\n'"$T"'/.toolbox/*/*'
  expect_quiet
}

@test "modules: TOOLBOX_HOME is respected" {
  in_library 'export TOOLBOX_HOME="$T/else where"; include sem; sem_init s 1; _sem_get_path s; sem_peek s'
  expect_output "$T/else where/sem/s"$'\n1'
  expect_quiet
}

@test "modules: the private helpers print the paths" {
  in_library 'include sem queue
    for part in path waitlock countlock owner counter; do "_sem_get_$part" s; done; _sem_get_counter /x/s
    for part in path sem mutex data; do "_queue_get_$part" q; done; _queue_get_data ./q'
  local s=$T/.toolbox/sem/s q=$T/.toolbox/queue/q
  expect_output "$(printf '%s\n' "$s" "$s"/{waitlock,countlock,owner,counter} /x/s/counter "$q" "$q"/{sem,mutex,data} ./q/data)"
  expect_quiet
}

@test "modules: sem_init without a number is refused and makes nothing" {
  in_library 'include sem
    for value in -1 x " 1" 1x "a[\$(touch \"\$T/ran\")]" ""; do sem_init s "$value" && printf "made\n"; sem_init ./s "$value" && printf "made\n"; done
    sem_init s && printf "made\n"; printf "%s\n" "$HOME"/.toolbox/sem/*; ! [[ -e $T/ran || -e s ]]'
  expect_status 0
  expect_output "$T/.toolbox/sem/*"
  expect_quiet
}

@test "modules: their functions stay when another one is included, or interlock.sh sourced" {
  in_library 'include sem; include mutex; . "$INTERLOCK_ROOT/shell/interlock.sh"; type -t sem_wait mutex_lock; include queue; type -t sem_wait queue_put'
  expect_output $'function\nfunction\nfunction\nfunction'
  expect_quiet
}

@test "modules: statuses come through" {
  in_library 'include queue; set +e
    queue_get none 0; queue_init q; queue_get q 0; printf "%s\n" "$?"; queue_get; printf "%s\n" "$?"; queue_init q; printf "%s\n" "$?"' 
  [[ $output == $'1\n2\n1' ]]
}
