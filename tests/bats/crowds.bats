#!/usr/bin/env bats
# Many at a lock directory or in a bakery, killed ones among them: no overlap, the right order, nothing left behind.

load helper

# rounds COUNT WORKERS: in each a dead holder's lock directory and WORKERS subshells that begin together.
ROUNDS='
rounds() {
  local round i
  local -a log
  mkfifo gate
  for ((round = 0; round < $1; round++)); do
    ( dirlock_lock d; kill -KILL "$BASHPID" ) || :
    [[ -d d ]] || return
    for ((i = 0; i < $2; i++)); do
      ( : <gate; dirlock_lock d; printf "begin %s\n" "$i" >>log; printf "end %s\n" "$i" >>log; dirlock_unlock d ) &
    done
    exec 7>gate; wait; exec 7>&-
    mapfile -t log <log; rm log
    ((${#log[@]} == 2 * $2)) || { printf "round %s: %s lines\n" "$round" "${#log[@]}"; return 1; }
    for ((i = 0; i < 2 * $2; i += 2)); do
      [[ ${log[i + 1]} == "end ${log[i]#begin }" ]] || { printf "round %s: overlap\n" "$round"; return 1; }
    done
  done 2>/dev/null
  rm gate
}'

@test "crowds: 64 shells at a dead holder's lock directory do not overlap" {
  once_is_enough
  limit=600
  in_shell "$ROUNDS"'; rounds "$1" 64 && printf "done\n"' "$(figure 4 100)"
  expect_output 'done'
  expect_files
}

@test "crowds: nor pinned to one core" {
  once_is_enough
  limit=600
  launch=(taskset -c 0)
  in_shell "$ROUNDS"'; rounds "$1" 64 && printf "done\n"' "$(figure 4 100)"
  expect_output 'done'
  expect_files
}

@test "crowds: customers arriving one after the other enter in that order" {
  once_is_enough
  limit=100
  in_shell '
    # Until the ticket of so many is drawn: a number, and no longer entering.
    stand() { local -a there; until there=($(grep -hls "^0 0*[1-9][0-9]* " b/* 2>/dev/null)); ((${#there[@]} == $1)); do nap; done; }
    for ((round = 0; round < 20; round++)); do
      bakery_lock b
      for i in 1 2 3 4 5 6 7 8; do
        ( bakery_lock b; printf "%s" "$i" >>order; bakery_unlock b ) &
        stand "$((i + 1))"
      done
      bakery_unlock b; wait; printf "\n" >>order
    done
    sort order | uniq -c'
  local -r each='^ *20 12345678$'
  [[ $output =~ $each ]] || fail "$output"
  [[ -z $(ls -A b) ]]
}

# Each customer, when inside, notes which tickets are drawn, and after that which are there at all. Whose ticket was drawn
# must enter before all whose tickets were not even there after that. (Drawn and there at the same look is no order: a
# look takes its time.)
CUSTOMERS='
customer() {
  local i file entering number served drawn
  local -a there
  for ((i = 0; i < $1; i++)); do
    bakery_lock b
    [[ ! -e inside ]] || printf "overlap\n"
    : >inside
    drawn=
    for file in b/*; do
      read -r entering number served <"$file" || continue
      if [[ $served == 1 ]]; then
        printf "enter %s\n" "${file#b/}"
      elif [[ $entering == 0 && ${#number} == 20 ]]; then
        drawn+=" ${file#b/}"
      fi
    done 2>/dev/null >>log
    there=(b/*)
    printf "drawn%s\nthere %s\n" "$drawn" "${there[*]#b/}" >>log
    rm inside
    bakery_unlock b
  done
}
judge() {
  local word rest ticket looks=0
  local -A drawn=() there=() entered=()
  while read -r word rest; do
    case $word in
      enter)
        unset "drawn[$rest]"
        entered[$rest]=1
        for ticket in "${!drawn[@]}"; do
          ((drawn[$ticket] >= ${there[$rest]:-looks})) || printf "%s before %s\n" "$rest" "$ticket"
        done ;;
      drawn) for ticket in $rest; do [[ -n ${entered[$ticket]-} ]] || : "${drawn[$ticket]:=$looks}"; done ;;
      there)
        for ticket in $rest; do : "${there[$ticket]:=$looks}"; done
        looks=$((looks + 1)) ;;
    esac
  done
  printf "%s entered\n" "${#entered[@]}"
}'

@test "crowds: 64 customers at once neither overlap nor overtake who waits" {
  once_is_enough
  limit=400
  local -i times
  times=$(figure 3 20)
  in_shell "$CUSTOMERS"'
    mkfifo gate
    for ((i = 0; i < 64; i++)); do ( : <gate; customer "$1" ) & done
    exec 7>gate; wait; exec 7>&-
    judge <log' "$times"
  expect_output "$((64 * times)) entered"
  expect_quiet
  [[ -z $(ls -A b) ]]
}

# killed LOCK UNLOCK OBJECT: twenty times a holder is killed while another waits; the milliseconds until that one is inside.
killed() {
  local lock=$1 unlock=$2 object=$3
  local -i i
  local begin
  local -a took=()
  for ((i = 0; i < 20; i++)); do
    rm -f "$LATCHES/locked"
    start_shell holder "$lock $object; latch locked; await never 60"
    await locked
    start_shell waiter "$lock $object 30; clock end; $unlock $object; printf '%s\n' \"\$end\""
    await_asleep waiter
    begin=${EPOCHREALTIME/[^0-9]/}
    kill -KILL "${pids[holder]}"
    end_of waiter
    took+=("$((output - begin / 1000))")
  done
  mapfile -t took < <(printf '%s\n' "${took[@]}" | sort -n)
  printf '# %s: median %s ms, longest %s ms\n' "$lock" "${took[10]}" "${took[19]}" >&3
  (( took[10] < 100 )) || fail "median ${took[10]} ms"
}

@test "crowds: the waiter enters within 0.1 s of the killed holder of a lock directory" {
  once_is_enough
  killed dirlock_lock dirlock_unlock d
  expect_files
}

@test "crowds: and of the killed holder of a bakery" {
  once_is_enough
  killed bakery_lock bakery_unlock b
  [[ -z $(ls -A b) ]]
}

@test "crowds: nothing is left of ten thousand entries" {
  once_is_enough
  in_shell '
    for ((i = 0; i < 10000; i++)); do dirlock_lock d && dirlock_unlock d && bakery_lock b && bakery_unlock b || printf "%s\n" "$i"; done
    ls -A . b; compgen -G "/proc/$$/fd/[5-9]??" || :'
  expect_output $'.:\nb\n\nb:'
}

@test "crowds: nothing is left of those killed at any moment" {
  once_is_enough
  limit=$(figure 100 1200)
  in_shell '
    for ((i = 0; i < $1; i++)); do
      ( while :; do dirlock_lock d; dirlock_unlock d; bakery_lock b; bakery_unlock b; done ) & one=$!
      ( while :; do bakery_lock b; bakery_unlock b; dirlock_lock d; dirlock_unlock d; done ) & two=$!
      nap "0.0$((RANDOM % 5))$((RANDOM % 10))"
      kill -KILL "$one" "$two"; wait "$one" "$two"
      dirlock_lock d 20 && dirlock_unlock d && bakery_lock b 20 && bakery_unlock b || printf "%s\n" "$i"
      [[ $(ls -A . b) == $'"'.:\nb\n\nb:'"' ]] || { ls -A . b; break; }
    done 2>/dev/null' "$(figure 30 1000)"
  expect_output ''
}
