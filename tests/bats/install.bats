#!/usr/bin/env bats
# shell/install and shell/uninstall, in a directory of the test's.

load helper

# The same in every mode.
every_mode=no
bats_require_minimum_version 1.5.0

install_to() {
  DESTDIR='' PREFIX=$T/usr "$INTERLOCK_ROOT/shell/install" "$@"
}

uninstall_from() {
  DESTDIR='' PREFIX=$T/usr "$INTERLOCK_ROOT/shell/uninstall" "$@"
}

files_in() {
  (cd "$1" && find . ! -type d | sort)
}

# in_new_shell CODE: one that knows nothing of the clone.
in_new_shell() {
  launch=(env -u INTERLOCK_LIB "PATH=$T/usr/bin:$PATH")
  start shell "$INTERLOCK_BASH" -c "$@"
  end_of shell
}

@test "install: interlock.sh is found in PATH and finds the plugin" {
  once_is_enough
  install_to
  in_new_shell '. interlock.sh && type -t queue_get'
  expect_output builtin
  expect_quiet
}

@test "install: enable -f takes the plugin by either name" {
  once_is_enough
  install_to
  in_new_shell 'enable -f "$T/usr/lib/bash/interlock.so" mutex_lock && enable -f "$T/usr/lib/bash/libinterlock.so" mutex_unlock && type -t mutex_lock mutex_unlock'
  expect_output $'builtin\nbuiltin'
  expect_quiet
}

@test "install: with --include-dir the modules are where include looks, and work" {
  once_is_enough
  install_to --include-dir "$T/modules"
  in_new_shell '. "$T/modules/queue.sh" && HOME=$T && __init && queue_init q && queue_put q item && queue_get q'
  expect_output item
  expect_quiet
}

@test "install: the library's own module is not overwritten" {
  once_is_enough
  mkdir "$T/modules"
  printf 'precious\n' >"$T/modules/sem.sh"
  run -1 install_to --include-dir "$T/modules"
  [[ $(<"$T/modules/sem.sh") == precious ]]
}

@test "install: DESTDIR comes before every path, and the links inside do not know it" {
  once_is_enough
  DESTDIR=$T/stage PREFIX=/usr "$INTERLOCK_ROOT/shell/install" --include-dir /usr/share/bms/include
  [[ -f $T/stage/usr/lib/bash/libinterlock.so && -e $T/stage/usr/bin/interlock.sh ]]
  [[ $(readlink "$T/stage/usr/share/bms/include/sem.sh") == /usr/share/interlock/include/sem.sh ]]
  [[ $(ls "$T/stage") == usr ]]
}

@test "install: uninstall removes what was installed and nothing else" {
  once_is_enough
  mkdir -p "$T/usr/bin" "$T/modules"
  : >"$T/usr/bin/other"
  : >"$T/modules/log.sh"
  install_to --include-dir "$T/modules"
  rm "$T/modules/mutex.sh"
  printf 'mine\n' >"$T/modules/mutex.sh"
  uninstall_from --include-dir "$T/modules"
  [[ $(files_in "$T") == $'./modules/log.sh\n./modules/mutex.sh\n./usr/bin/other' ]]
}

@test "install: CDPATH leads nowhere else and puts nothing into the paths" {
  once_is_enough
  local elsewhere="$T/elsewhere"
  mkdir -p "$elsewhere/shell"
  export CDPATH=$elsewhere:$INTERLOCK_ROOT
  cd "$INTERLOCK_ROOT"
  DESTDIR='' PREFIX=$T/usr shell/install >"$T/installed"
  grep -qx "$T/usr/bin/interlock.sh" "$T/installed"
  [[ -f $T/usr/lib/bash/libinterlock.so ]]
  DESTDIR='' PREFIX=$T/usr shell/uninstall
  [[ -z $(find "$T/usr" ! -type d) ]]
}

@test "install: uninstall that does not know what was installed says so" {
  once_is_enough
  mkdir -p "$T/clone"
  cp -r "$INTERLOCK_ROOT/shell" "$T/clone"
  run -0 install_to
  run ! env PREFIX="$T/usr" DESTDIR='' "$T/clone/shell/uninstall"
  [[ $output == *src/command/table.rs* && -e $T/usr/bin/interlock.sh ]]
}

@test "install: a shell that has the old plugin loaded goes on with it" {
  once_is_enough
  install_to
  start_shell old 'latch ready; await go; mutex_lock m; mutex_unlock m; printf "fine\n"'
  INTERLOCK_LIB=$T/usr/lib/bash/libinterlock.so
  start_shell old 'latch ready; await go; mutex_lock m 1; mutex_unlock m; printf "fine\n"'
  await ready
  unset INTERLOCK_LIB
  INTERLOCK_LIB=$INTERLOCK_ROOT/target/release/libinterlock.so install_to
  latch go
  end_of old
  expect_output fine
}

@test "install: everybody may read what is installed, whatever the umask" {
  once_is_enough
  (umask 077 && install_to)
  [[ -z $(find "$T/usr" ! -type l ! -perm -a+r) && -z $(find "$T/usr" -type d ! -perm -a+x) ]]
}

@test "install: wrong options change nothing" {
  once_is_enough
  local -i rc=0
  install_to --prefix x || rc=$?
  (( rc == 2 ))
  rc=0
  install_to --include-dir relative || rc=$?
  (( rc == 2 ))
  expect_files
}
