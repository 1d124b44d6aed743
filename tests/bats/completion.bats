#!/usr/bin/env bats
# shell/completion.bash: what the builtins are offered at a prompt.

load helper

# The same in every mode.
every_mode=no

# complete WORD…: what is offered for the last word of this command line, one a line, sorted.
complete_words() {
  once_is_enough
  start_shell shell '
    . "$INTERLOCK_ROOT/shell/completion.bash"
    COMP_WORDS=("$@") COMP_CWORD=$(( $# - 1 ))
    _interlock "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    (( ${#COMPREPLY[@]} == 0 )) || printf "%s\n" "${COMPREPLY[@]}" | sort' "$@"
  end_of shell
  expect_quiet
}

# One object of each kind, and a plain directory with a file.
make_objects() {
  in_shell 'mutex_lock o.mutex; sem_init o.sem; queue_init o.queue; dirlock_lock o.dir; mkdir o.plain; touch o.file'
}

@test "completion: objects of the right kind, and directories in which they may be" {
  make_objects
  complete_words mutex_unlock o
  expect_output $'o.mutex\no.plain'
  complete_words wmutex_lock o
  expect_output $'o.mutex\no.plain'
  complete_words sem_post o
  expect_output $'o.plain\no.sem'
  complete_words queue_get o
  expect_output $'o.plain\no.queue'
  complete_words dirlock_unlock o
  expect_output $'o.dir\no.plain'
  complete_words queue_init o
  expect_output o.plain
  complete_words bakery_lock o
  expect_output o.plain
  complete_words interlock stat o
  expect_output $'o.dir\no.mutex\no.plain\no.queue\no.sem'
}

@test "completion: the name is the first word behind the options" {
  make_objects
  complete_words mutex_lock -c o.m
  expect_output o.mutex
  complete_words queue_get -v x o.q
  expect_output o.queue
  complete_words queue_get -a x -n 3 -- o.q
  expect_output o.queue
  complete_words queue_put o.queue o
  expect_output ''
  complete_words mutex_unlock o.mutex o
  expect_output ''
}

@test "completion: behind the name of a run comes a command" {
  : >'script with spaces'
  complete_words sem_run -n 4 ./s script\ w
  expect_output 'script with spaces'
  complete_words mutex_run -E 5 ./m mutex_tr
  expect_output mutex_trylock
  complete_words mutex_run -t ''
  expect_output ''
  complete_words mutex_run ./m cat script
  expect_output 'script with spaces'
}

@test "completion: below the home directory, and directories for what takes them" {
  make_objects
  # shellcheck disable=SC2088 # as it is typed
  HOME=$T complete_words mutex_unlock '~/o.m'
  # shellcheck disable=SC2088
  expect_output '~/o.mutex'
  complete_words interlock ls o.plain o.p
  expect_output o.plain
  complete_words interlock version o.m
  expect_output ''
}

@test "completion: options are those of the usage line" {
  complete_words mutex_lock -
  expect_output $'--help\n-c'
  complete_words queue_get -
  expect_output $'--help\n-a\n-n\n-v'
  complete_words sem_wait -
  expect_output --help
  complete_words interlock ls -
  expect_output $'--help\n--json\n-0'
}

@test "completion: verbs, variables and files" {
  complete_words interlock ''
  [[ $output == $'break\nls\n'*'stat'*why ]]
  complete_words sem_peek -v BASH_VERSIN
  expect_output BASH_VERSINFO
  complete_words queue_get -v q -a BASH_VERSIN
  expect_output BASH_VERSINFO
  : >'a file'
  complete_words queue_put -f a
  expect_output 'a file'
}

@test "completion: there in interactive shells, and only there" {
  once_is_enough
  # shellcheck disable=SC2016
  local code='. "$INTERLOCK_ROOT/shell/interlock.sh"; complete -p mutex_lock interlock; declare -F _interlock'
  start interactive "$INTERLOCK_BASH" --norc -i -c "$code"
  end_of interactive
  expect_output $'complete -o filenames -F _interlock mutex_lock\ncomplete -o filenames -F _interlock interlock\n_interlock'
  start script "$INTERLOCK_BASH" -c "$code"
  end_of script
  expect_output ''
}

@test "completion: every builtin has it" {
  once_is_enough
  in_shell '. "$INTERLOCK_ROOT/shell/completion.bash"
    for name in $INTERLOCK_NAMES; do complete -p "$name" >/dev/null || :; done'
  expect_quiet
}
