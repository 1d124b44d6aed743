#!/usr/bin/env bats
# FIELD REPORTS: waiting. Soon after the event, without much work.

load helper

# The value at PERCENT of the sorted numbers of a file.
percentile() {
  local -a all
  mapfile -t all < <(sort -n "$2")
  printf '%s' "${all[${#all[@]} * $1 / 100]}"
}

@test "waiting: a killed holder's lock is acquired within 0.1 s, median of 20" {
  once_is_enough
  local -i i begin
  for (( i = 0; i < 20; i++ )); do
    start_shell holder 'mutex_lock m; latch "locked.$1"; await never 60' "$i"
    await "locked.$i"
    start_shell waiter 'mutex_lock m 20; clock end; printf "%s\n" "$end"'
    await_asleep waiter
    begin=${EPOCHREALTIME/[^0-9]/}
    kill -KILL "${pids[holder]}"
    end_of waiter
    printf '%s\n' "$((output - begin / 1000))" >>"$records/spent"
  done
  printf '# killed holder to waiter: median %s ms, worst %s ms\n' "$(percentile 50 "$records/spent")" "$(percentile 99 "$records/spent")" >&3
  (( $(percentile 50 "$records/spent") < 100 ))
}

@test "waiting: so is the lock of a killed worker subshell" {
  once_is_enough
  in_shell '
    for (( i = 0; i < 20; i++ )); do
      ( mutex_lock m; latch "locked.$i"; await never 60 ) & await "locked.$i"; victim=$!
      ( nap 0.03; clock begin; printf "%s\n" "$begin" >begin; kill -KILL "$victim" ) &
      mutex_lock m 20; clock end; mutex_unlock m; wait 2>/dev/null
      read -r begin <begin; printf "%s\n" "$((end - begin))"
    done'
  printf '%s\n' "$output" >"$records/spent"
  [[ $(wc -l <"$records/spent") -eq 20 ]]
  (( $(percentile 50 "$records/spent") < 100 ))
}

@test "waiting: eight shells in short sections hand over and lose nothing" {
  once_is_enough
  limit=120
  in_shell '
    printf "0\n" >counter
    for ((i = 0; i < 8; i++)); do
      ( for ((j = 0; j < $1; j++)); do mutex_lock m 60 || exit; read -r n <counter; printf "%s\n" "$((n + 1))" >counter; mutex_unlock m; done ) &
    done; wait; cat counter' "$(figure 200 500)"
  (( output == 8 * $(figure 200 500) ))
  expect_quiet
}

@test "waiting: a crowd of waiters uses little CPU" {
  once_is_enough
  local count seconds
  count=$(figure 50 200) seconds=$(figure 2 10)
  ln -s 1 m
  limit=120
  in_shell '
    for ((i = 0; i < $1; i++)); do ( mutex_lock m "$2" || : ) & done; wait
    read -ra stat <"/proc/$$/stat"; printf "%s\n" "$(( (stat[15] + stat[16]) * 1000 / $(getconf CLK_TCK) ))"' "$count" "$seconds"
  printf '# %s waiters for %s s: %s ms of CPU, their start included\n' "$count" "$seconds" "$output" >&3
  (( output < count * 20 ))
}

@test "waiting: the realtime clock stepped by an hour does not matter" {
  [[ -e $home/stop.so ]] || cc -shared -fPIC -O -o "$home/stop.so" "$INTERLOCK_ROOT/tests/bats/stop.c"
  ln -s 1 m
  launch=(env "LD_PRELOAD=$home/stop.so" "CLOCK_JUMPS=$LATCHES/jumped")
  start_shell waiter 'answer mutex_lock m 1.5; clock now; printf "%s\n" "$((now / 1000))"'
  await_asleep waiter
  latch jumped
  limit=10
  end_of waiter
  [[ $output == 1$'\n'* ]]
  # The jump was seen by what looks at that clock.
  (( ${output#*$'\n'} > EPOCHSECONDS + 3000 ))
}

@test "waiting: for a mutex that one holds oneself is an honest timeout" {
  in_shell 'mutex_lock m; answer mutex_lock m 0.2; answer mutex_unlock m'
  expect_output $'1\n0'
}

@test "waiting: for a mutex that one holds oneself until a subshell unlocks it" {
  start_shell waiter 'mutex_lock m; ( await go; mutex_unlock m ) & answer mutex_lock m'
  await_asleep waiter
  latch go
  end_of waiter
  expect_output 0
}

@test "waiting: a forked child has its own events" {
  ln -s 1 m
  ln -s 1 n
  start_shell waiter '
    mutex_lock m 0.05 || :
    ( printf "%s\n" "$BASHPID" >"$LATCHES/child"; answer mutex_lock m 20 ) & answer mutex_lock n 20; wait'
  until_true "$limit" test -s "$LATCHES/child"
  pids[child]=$(<"$LATCHES/child")
  await_asleep waiter child
  rm n
  await_asleep child
  until_true "$limit" test -s "$records/waiter.out"
  rm m
  end_of waiter
  expect_output $'0\n0'
}

@test "waiting: for the same object though a trap changes the directory" {
  mkdir a b
  in_shell 'sem_init a/s 0'
  ln -s 1 a/m
  start_shell locker 'cd a; trap "cd ../b; latch locker" USR1; answer mutex_lock m 20; answer mutex_unlock ../a/m'
  start_shell taker 'cd a; trap "cd ../b; latch taker" USR1; answer sem_wait s 20'
  await_asleep locker taker
  kill -USR1 "${pids[locker]}" "${pids[taker]}"
  await locker
  await taker
  rm a/m
  in_shell 'sem_post a/s'
  end_of locker
  expect_output $'0\n0'
  end_of taker
  expect_output 0
}
