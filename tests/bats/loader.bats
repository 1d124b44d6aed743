#!/usr/bin/env bats
# shell/interlock.sh: finds the plugin, enables the builtins, changes nothing else, refuses politely.

load helper

# The same in every mode.
every_mode=no

options=()

# in_bash CODE [ARG…]: a shell without the prelude; `options` are bash's own.
in_bash() {
  once_is_enough
  start bash "$INTERLOCK_BASH" "${options[@]}" -c "$@"
  end_of bash
}

# A loader in a directory of its own, so that nothing is found by chance.
lonely_loader() {
  mkdir "$T/shell"
  cp "$INTERLOCK_ROOT/shell/interlock.sh" "$T/shell"
  launch=(env -u INTERLOCK_LIB -u BASH_LOADABLES_PATH)
}

@test "loader: the names are those of the table" {
  once_is_enough
  local names
  names=$(sed -n '/__interlock_names=(/,/)$/p' "$INTERLOCK_ROOT/shell/interlock.sh" | sed '1d;$d')
  [[ $(xargs -n 1 <<<"$names" | sort) == "$(builtin_names | sort)" ]]
}

@test "loader: silent, twice, in every mode" {
  local mode
  for mode in '' -eu --posix '--posix -eu' '-k +B -euf'; do
    # shellcheck disable=SC2206
    options=($mode)
    in_bash '. "$INTERLOCK_ROOT/shell/interlock.sh"; . "$INTERLOCK_ROOT/shell/interlock.sh"; type -t sem_post'
    expect_status 0
    expect_output builtin
    expect_quiet
  done
}

@test "loader: no variable, option, trap or descriptor changes" {
  local mode
  for mode in '' -eu '--posix -f'; do
    # shellcheck disable=SC2206
    options=($mode)
    in_bash 'IFS=_e; shopt -s nullglob nocasematch; readonly name lib IFS; trap : ERR USR1; set -- one two
      look() {
        set +o; shopt -p; trap -p; printf "%s\n" "$*" "$OPTIND" "$IFS"; ls "/proc/$$/fd" | grep ..
        compgen -v | grep -vxE "BASH_.*|FUNCNAME|PIPESTATUS|_|LINENO"; declare -F
      }
      look "$@" >before
      . "$INTERLOCK_ROOT/shell/interlock.sh"
      look "$@" >after'
    expect_quiet
    output=$(diff before after | grep '^[<>]')
    expect_output "$(printf '> declare -f %s\n' __interlock_cut_tail \
      queue_append queue_get_data queue_get_mutex queue_get_semaphore queue_take_head)"
  done
}

@test "loader: functions of the same names go, others stay" {
  in_bash 'mutex_lock() { printf old; }; mutex_locks() { printf mine; }
    . "$INTERLOCK_ROOT/shell/interlock.sh"; type -t mutex_lock; mutex_locks'
  expect_output $'builtin\nmine'
  expect_quiet
}

@test "loader: a builtin that was disabled is there again, with those that were loaded before" {
  in_bash 'enable -f "$INTERLOCK_LIB" mutex_lock sem_post; enable -n sem_post
    . "$INTERLOCK_ROOT/shell/interlock.sh"; type -t mutex_lock sem_post sem_wait'
  expect_output $'builtin\nbuiltin\nbuiltin'
  expect_quiet
}

@test "loader: finds the plugin beside itself" {
  lonely_loader
  cp "$INTERLOCK_LIB" "$T/shell/libinterlock.so"
  in_bash '. shell/interlock.sh && type -t mutex_lock'
  expect_output builtin
  expect_quiet
}

@test "loader: finds the plugin in a clone, also through a link" {
  lonely_loader
  mkdir -p "$T/target/release" "$T/bin"
  cp "$INTERLOCK_LIB" "$T/target/release/libinterlock.so"
  ln -s ../shell/interlock.sh "$T/bin/interlock.sh"
  in_bash 'cd /; PATH="$T/bin:$PATH"; . interlock.sh && type -t mutex_lock'
  expect_output builtin
  expect_quiet
}

@test "loader: finds the plugin with brace expansion off and assignments anywhere among the words" {
  lonely_loader
  mkdir -p "$T/target/release"
  cp "$INTERLOCK_LIB" "$T/target/release/libinterlock.so"
  for options in +B -k -kf; do
    in_bash '. shell/interlock.sh && type -t mutex_lock && compgen -v __interlock'
    expect_status 1
    expect_output builtin
    expect_quiet
  done
}

@test "loader: finds the plugin in BASH_LOADABLES_PATH" {
  lonely_loader
  mkdir "$T/a directory"
  cp "$INTERLOCK_LIB" "$T/a directory/libinterlock.so"
  in_bash 'BASH_LOADABLES_PATH="/nowhere::$T/a directory:"; . shell/interlock.sh && type -t mutex_lock'
  expect_output builtin
  expect_quiet
}

@test "loader: without a plugin one line, status 1, and the script goes on" {
  local mode
  lonely_loader
  for mode in '' -eu --posix; do
    # shellcheck disable=SC2206
    options=($mode)
    in_bash '. shell/interlock.sh || printf "%s\n" "$?"; declare -F | grep -v bats_ || printf "no function\n"'
    expect_status 0
    expect_output $'1\nno function'
    expect_error 'interlock.sh: no plugin found: *shell/install*'
  done
}

@test "loader: where INTERLOCK_LIB points, and nowhere else" {
  launch=(env INTERLOCK_LIB=/no/plugin.so)
  in_bash '. "$INTERLOCK_ROOT/shell/interlock.sh" || printf "%s\n" "$?"'
  expect_output 1
  expect_error 'interlock.sh: no plugin at /no/plugin.so, *'
}

@test "loader: what is not a plugin is refused with bash's reason" {
  lonely_loader
  printf 'text\n' >"$T/shell/libinterlock.so"
  in_bash '. shell/interlock.sh || printf "%s\n" "$?"'
  expect_output 1
  expect_error 'interlock.sh: bash * does not take the plugin: *libinterlock.so*'
}

@test "loader: a plugin that lacks a builtin is called old" {
  lonely_loader
  sed 's/sem_destroy_struct/sem_destroX_struct/g' "$INTERLOCK_LIB" >"$T/shell/libinterlock.so"
  in_bash '. shell/interlock.sh || printf "%s\n" "$?"'
  expect_output 1
  expect_error 'interlock.sh: */libinterlock.so has no sem_destroy*'
}

@test "loader: a restricted shell is told so" {
  options=(-r)
  launch=(env "PATH=$INTERLOCK_ROOT/shell:$PATH")
  in_bash '. interlock.sh || printf "%s\n" "$?"; printf "on\n"'
  expect_output $'1\non'
  expect_error 'interlock.sh: a restricted shell may not load builtins'
}

@test "loader: a static bash is told so" {
  INTERLOCK_BASH=$(type -P bash-static) || skip 'there is no bash-static'
  in_bash '. "$INTERLOCK_ROOT/shell/interlock.sh" || printf "%s\n" "$?"'
  expect_output 1
  expect_error 'interlock.sh: bash * does not take the plugin: dynamic loading not available'
}

@test "loader: another shell is told so" {
  start sh dash -c '. "$INTERLOCK_ROOT/shell/interlock.sh" || printf "%s\n" "$?"'
  end_of sh
  expect_output 1
  expect_error 'interlock.sh: this shell is not bash'
}
