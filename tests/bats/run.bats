#!/usr/bin/env bats
# mutex_run, dirlock_run, bakery_run, sem_run: a command while a lock is held, which is given back on every way out.

load helper

@test "run: a function, a builtin and a program, in this shell" {
  in_shell '
    work() { answer mutex_trylock m; seen="$*"; }
    mutex_run m work a "b  c" "*"
    printf "<%s>\n" "$seen"
    mutex_run m eval "there=1"
    printf "%s\n" "$there"
    mutex_run m "$BASH" -c "printf \"%s\n\" \"\$1\"" _ "\$(x)"'
  expect_output $'1\n<a b  c *>\n1\n$(x)'
  expect_quiet
  expect_files
}

@test "run: the status is the command's" {
  in_shell '
    answer mutex_run m false
    answer mutex_run m "$BASH" -c "exit 42"'
  expect_output $'1\n42'
  expect_files
}

@test "run: the status is the function's" {
  # Under set -e a function that fails ends the script where it does.
  once_is_enough
  in_shell 'work() { return 7; }; answer mutex_run m work'
  expect_output 7
  expect_files
}

@test "run: every kind of lock is held meanwhile and free afterwards" {
  in_shell '
    answer mutex_run m mutex_trylock m
    answer dirlock_run d dirlock_trylock d
    answer bakery_run b bakery_trylock b
    sem_init s 1
    answer sem_run s sem_trywait s
    sem_peek s
    answer mutex_trylock m; answer dirlock_trylock d; answer bakery_trylock b'
  expect_output $'1\n1\n1\n1\n1\n0\n0\n0'
  expect_quiet
}

@test "run: busy means 1, or what -E says, and the command is not run" {
  in_shell '
    mutex_lock m; dirlock_lock d; bakery_lock b; sem_init s 0
    answer mutex_run -t 0 m touch ran
    answer mutex_run -t 0.05 -E 9 m touch ran
    answer dirlock_run -t 0 -E 10 d touch ran
    answer bakery_run -E 11 -t 0 b touch ran
    answer sem_run -t 0 -E 12 s touch ran'
  expect_output $'1\n9\n10\n11\n12'
  expect_quiet
  [[ ! -e $T/ran ]]
}

@test "run: the lock is free after return, exit, set -e and an unset variable" {
  in_shell '
    back() { mutex_run m return 4; printf "not reached\n"; }
    answer back
    mutex_trylock m; answer mutex_unlock m
    for way in "exit 5" "set -e; work() { false; printf no; }; mutex_run m work" "set -u; mutex_run m eval : \\\$nothing_here"; do
      [[ $way == *mutex_run* ]] || way="mutex_run m $way"
      shell "$way" 2>/dev/null || :
      [[ ! -L m ]] || printf "left by: %s\n" "$way"
      ( eval "$way" ) 2>/dev/null & wait "$!" || :
      [[ ! -L m ]] || printf "left in a subshell by: %s\n" "$way"
    done'
  expect_output $'4\n0'
  expect_files
}

@test "run: the lock is free when a trap exits" {
  in_shell '
    shell "trap \"exit 3\" TERM; mutex_run m eval \"latch inside; kill \\\$\\\$; nap 30\"" || printf "%s\n" "$?"'
  expect_output 3
  expect_files
}

# from_file CODE: as a script that is read from a file, which bash leaves on other ways than -c.
from_file() {
  printf '. "$INTERLOCK_PRELUDE"\n%s\n' "$1" >"$T/script"
  start script "$INTERLOCK_BASH" "$T/script"
  end_of script
  rm "$T/script"
}

@test "run: an EXIT trap finds the lock free, whatever ended the script" {
  local way
  # Under set -e and set -u together an unset variable is told after the EXIT trap.
  for way in 'work() { exit 4; }; mutex_run m work' 'mutex_run m exit 4' 'set -e; work() { false; }; mutex_run m work' \
    'set +e -u; work() { : $nothing_here; }; mutex_run m work' 'trap "exit 4" USR1; mutex_run m eval "kill -USR1 \$\$; nap 30"' \
    '( trap "answer mutex_trylock m; mutex_unlock m" EXIT; mutex_run m exit 4 ) || :; trap - EXIT'; do
    from_file "trap 'answer mutex_trylock m; mutex_unlock m' EXIT; $way"
    expect_output 0
    in_shell "trap 'answer mutex_trylock m; mutex_unlock m' EXIT; $way"
    expect_output 0
  done
  expect_files
}

@test "run: what was taken is given back though the command changes the directory" {
  mkdir a b
  in_shell '
    sem_init a/s 1; sem_init b/s 0
    cd b; mutex_lock m; dirlock_lock d; cd ../a
    away() { cd ../b; }
    for run in "mutex_run m" "dirlock_run d" "bakery_run k" "sem_run s"; do
      answer $run away
      cd ../a
    done
    answer mutex_trylock m; answer dirlock_trylock d; answer bakery_trylock k; sem_peek s
    cd ../b
    answer mutex_trylock m; answer dirlock_trylock d; sem_peek s'
  expect_output $'0\n0\n0\n0\n0\n0\n0\n1\n1\n1\n0'
  expect_quiet
}

@test "run: what was taken is given back though an EXIT trap changes the directory" {
  from_file 'sem_init s 1; trap "cd /" EXIT; work() { exit 4; }; sem_run s work'
  expect_status 4
  in_shell 'sem_peek s'
  expect_output 1
}

@test "run: what was taken is given back though its directory gets another name" {
  mkdir a
  in_shell 'cd a; work() { mv ../a ../c; }; answer mutex_run m work; answer mutex_trylock m; answer mutex_unlock ../c/m'
  expect_output $'0\n0\n0'
  expect_quiet
}

@test "run: an error in giving back is told" {
  in_shell 'answer dirlock_run d touch d/x'
  expect_output 3
  expect_error '*dirlock_run: d: holds x, which is not ours*'
}

@test "run: set -e goes on in what a builtin evaluates" {
  once_is_enough
  printf 'work\n' >job
  local command
  for command in 'mutex_run a eval work' 'mutex_run a . ./job' 'mutex_run a command eval work' 'mutex_run a mutex_run b work' \
    'mutex_run a queue_foreach q work' 'queue_foreach q eval'; do
    in_shell "rm -rf q; queue_init q; queue_put q work; set -e; work() { false; printf 'went on\n'; }; $command; printf 'after\n'"
    expect_status 1
    expect_output ''
  done
}

@test "run: a subshell of the command that exits gives nothing back" {
  in_shell 'mutex_run m eval "( exit 3 ) || :; answer mutex_trylock m; x=\$(exit 2) || answer mutex_trylock m"'
  expect_output $'1\n1'
  expect_files
}

@test "run: break and continue in the command reach the loop outside" {
  in_shell '
    for i in 1 2 3; do mutex_run m break; printf "no\n"; done
    for j in 1 2 3; do mutex_run m continue; printf "no\n"; done
    printf "%s %s\n" "$i" "$j"'
  expect_output '1 3'
  expect_files
}

@test "run: under set -e, if and || see the failure of a program" {
  in_shell '
    set -e
    if mutex_run m false; then printf "no\n"; else printf "else\n"; fi
    mutex_run m "$BASH" -c "exit 3" || printf "%s\n" "$?"
    mutex_run m true
    trap "printf \"%s \" ended" EXIT
    mutex_run m false
    printf "not reached\n"'
  expect_output $'else\n3\nended '
  expect_status 1
}

@test "sem_run: -n makes the semaphore once, and so many are inside" {
  in_shell '
    for i in 1 2 3 4; do
      sem_run -n 2 s eval "latch in.$i; await go" &
    done
    until in=("$LATCHES"/in.*) && (( ${#in[@]} >= 2 )); do nap; done
    answer sem_run -n 9 -t 0 s true
    latch go
    wait
    sem_peek s'
  expect_output $'1\n2'
  expect_quiet
}

@test "run: bad words are refused before anything is done" {
  in_shell '
    for words in "m" "-t 5s m true" "-E 256 m true" "-E -1 m true" "-x m true" ""; do
      answer mutex_run $words 2>/dev/null
    done
    answer sem_run -n 0 s true 2>/dev/null
    answer mutex_run no/where true 2>/dev/null
    answer mutex_run m no_such_command 2>/dev/null'
  expect_output $'2\n2\n2\n2\n2\n2\n2\n3\n127'
  expect_files
}

@test "run: words are data: nothing in them is evaluated" {
  in_shell '
    mutex_run m printf "<%s>" "\$(touch X)" "; touch X" "a'"'"'b" "" $'"'"'new\nline'"'"' "\`touch X\`"'
  expect_output $'<$(touch X)><; touch X><a\'b><><new\nline><`touch X`>'
  expect_files
}
