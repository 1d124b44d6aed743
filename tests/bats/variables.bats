#!/usr/bin/env bats
# Delivery into the variables of the shell: what is set, where, and what is refused without being evaluated.

# The code in single quotes is for the shell under test; `pids` is the helper's.
# shellcheck disable=SC2016,SC2154

load helper

# In front of the tests' code: q with the items 1 to 9.
items='queue_init q; queue_put q {1..9}; '

@test "variables: a scalar, exported, with attributes of case, or the first element of an array" {
  in_shell "$items"'
    export public; declare -u upper=; declare -a array=(a b)
    queue_get -v plain q; queue_get -v public q; queue_get -v array q
    queue_put q z; queue_get -a rest -n 6 q; queue_get -v upper q
    printf "%s " "$plain" "$(printenv public)" "${array[@]}" "$upper" "${rest[@]}"'
  expect_output '1 2 3 b Z 4 5 6 7 8 9 '
  expect_quiet
}

@test "variables: an array is replaced whole, whatever it was before" {
  in_shell "$items"'
    sparse=([5]=a [9]=b); scalar=old; declare -a declared
    for i in sparse scalar declared fresh; do queue_get -a "$i" -n 2 q; done
    declare -p sparse scalar declared fresh'
  expect_output $'declare -a sparse=([0]="1" [1]="2")\ndeclare -a scalar=([0]="3" [1]="4")
declare -a declared=([0]="5" [1]="6")\ndeclare -a fresh=([0]="7" [1]="8")'
}

@test "variables: locals, and the locals of a caller, stay in their functions" {
  in_shell "$items"'
    outer() { local mine list=(x y z); inner; printf "%s " "$mine" "${list[@]}"; }
    inner() { local own; queue_get -v own q; queue_get -v mine q; queue_get -a list -n 2 q; printf "%s " "$own"; }
    outer
    printf "%s " "${own-unset}" "${mine-unset}" "${list-unset}"'
  expect_output '1 2 3 4 unset unset unset '
}

@test "variables: a reference leads to its target" {
  in_shell "$items"'
    take() { local -n there=$1; queue_get -v there q; }
    take_all() { local -n there=$1; queue_get -a there -n 2 q; }
    take global; take_all list
    caller() { local mine; take mine; printf "%s " "$mine"; }
    caller
    printf "%s " "$global" "${list[@]}" "${mine-unset}"'
  expect_output '4 1 2 3 unset '
}

@test "variables: one that is set has its effect on the shell" {
  in_shell '
    queue_init q; queue_put q , /nowhere
    queue_get -v IFS q; text=a,b; set -- $text; printf "%s\n" $#
    queue_get -v PATH q; answer type -P cat'
  expect_output $'2\n1'
}

@test "variables: what would evaluate, compute or be an error is refused, and nothing is taken" {
  in_shell "$items"'
    declare -i integer; declare -A map=([k]=v); readonly fixed=1
    declare -n nothing; declare -n subscript="a[\$(touch X)]" 2>/dev/null || :
    for i in integer map fixed nothing RANDOM SECONDS BASHPID FUNCNAME UID; do
      answer queue_get -v "$i" q 2>>errors
    done
    for i in map fixed nothing BASH_LINENO DIRSTACK GROUPS BASH_VERSINFO; do
      answer queue_get -a "$i" -n 2 q 2>>errors
    done
    # Older shells do not even make this reference.
    queue_get -v subscript q 0 2>/dev/null || :
    queue_len q; printf "%s %s\n" "${map[k]}" "$fixed"; declare -p nothing'
  local refused
  printf -v refused '2\n%.0s' {1..16}
  [[ $output == "$refused"[89]$'\nv 1\ndeclare -n nothing' ]] || fail "$output"
  [[ $(grep -c . errors) == 16 ]] || fail "$(<errors)"
  expect_files q errors
}

@test "variables: a failed call leaves its variable unset, in the function that has it" {
  in_shell '
    queue_init q; x=outer y=(1 2)
    f() { local x=mine; queue_get -v x q 0 || printf "%s " "${x-unset}"; x=again; printf "%s " "$x"; }
    f
    printf "%s " "$x"
    queue_get -a y -n 2 q 0 || printf "%s " "${y-unset}"
    queue_peek -v z q || queue_len -v z none 2>/dev/null || printf "%s\n" "${z-unset}"'
  expect_output 'unset again outer unset unset'
}

@test "variables: a failed call unsets what a reference leads to, never the reference" {
  in_shell '
    queue_init q
    get() { local -n out=$1; queue_get -v out q 0 || { queue_put q job; queue_get -v out q 0; }; }
    get_all() { local -n out=$1; queue_get -a out -n 2 q 0 || { queue_put q a b; queue_get -a out -n 2 q 0; }; }
    get message; get_all list; printf "%s " "$message" "${list[@]}"
    get message; get_all list; printf "%s " "$message" "${list[@]}"
    declare -gn far=near near=target
    for how in "queue_peek -v" "queue_peek -a" "queue_len -v" "sem_peek -v"; do
      for target in "" old; do
        case $target in "") unset -v target ;; esac
        $how far none 2>/dev/null || printf "%s " "${target-unset}"
        declare -p far near | xargs -n 3 | xargs
      done
    done'
  local line='unset declare -n far=near declare -n near=target' expected
  printf -v expected '\n%s' "$line"{,,,,,,,}
  expect_output "job a b job a b ${expected:1}"
  expect_quiet
}

@test "variables: a reference to its own name stays, too" {
  # bash warns of it at every use.
  in_shell '
    queue_init q
    get() { local -n message=$1; queue_get -v message q 0 || { queue_put q job; queue_get -v message q 0; }; }
    get message; printf "%s\n" "$message"'
  expect_output job
}

@test "variables: break in a trap leaves the variable unset, as every failure does" {
  start_shell waiter '
    trap "break" USR1
    queue_init q; latch ready; x=old y=(old)
    for i in 1; do queue_get -v x q 20 || :; done; printf "%s " "${x-unset}"
    latch again
    for i in 1; do queue_get -a y -n 2 q 20 || :; done; printf "%s\n" "${y-unset}"'
  await ready
  await_asleep waiter
  kill -USR1 "${pids[waiter]}"
  await again
  await_asleep waiter
  kill -USR1 "${pids[waiter]}"
  end_of waiter
  expect_output 'unset unset'
}

@test "variables: one that a trap makes readonly during the wait is an error, and the item stays" {
  start_shell waiter '
    trap "readonly x=1; queue_put q item" USR1
    queue_init q; latch ready
    answer queue_get -v x q 20 2>errors; queue_len q; printf "%s\n" "$x"'
  await ready
  await_asleep waiter
  kill -USR1 "${pids[waiter]}"
  end_of waiter
  # 2 if it is seen after the trap, before an item is taken; 3 at delivery.
  [[ $output == [23]$'\n1\n1' ]] || fail "$output"
  [[ $(<errors) == *'queue_get: x: readonly variable' ]]
}
