#!/usr/bin/env bats
# FIELD REPORTS: stale or not. Dead holders are found, living ones are never robbed.

load helper

@test "stale: the lock of a killed holder goes to a waiter" {
  start_shell holder 'mutex_lock m; latch locked; await never 60'
  await locked
  start_shell waiter 'answer mutex_lock m 20; clock end; printf "%s\n" "$end"'
  await_asleep waiter
  local begin=${EPOCHREALTIME/[^0-9]/}
  kill -KILL "${pids[holder]}"
  end_of waiter
  [[ $output == 0$'\n'* ]]
  (( ${output#*$'\n'} - begin / 1000 < 1000 ))
  expect_quiet
}

@test "stale: and to one that comes later, on tmpfs and on disk" {
  local dir
  for dir in "$T" "$disk"; do
    cd "$dir"
    in_shell 'mutex_lock m; kill -KILL "$BASHPID"'
    expect_status 137
    in_shell 'answer mutex_trylock m; shell "answer mutex_trylock m"; answer mutex_unlock m'
    expect_output $'0\n1\n0'
    expect_quiet
    [[ -z $(ls -A) ]]
  done
}

@test "stale: the lock of a killed worker is free though its main script lives" {
  in_shell '
    ( mutex_lock m; latch locked; await never 60 ) & await locked
    kill -KILL $!; wait $! 2>/dev/null || :
    answer mutex_trylock m; shell "answer mutex_trylock m"'
  expect_output $'0\n1'
}

@test "stale: it can be unlocked by anybody" {
  in_shell 'mutex_lock m; kill -KILL "$BASHPID"'
  in_shell 'answer mutex_unlock m'
  expect_output 0
  expect_files
}

@test "stale: links that were never ours are busy for ever" {
  start sleeper sleep 300
  local text
  for text in 1 "${pids[sleeper]}" 4294967296 99999999999999999999 0; do
    ln -s "$text" m
    in_shell 'answer mutex_trylock m; answer mutex_lock m 0.05; answer mutex_unlock m'
    [[ $output == $'1\n1\n2' ]] || fail "$text: $output" || return
    rm m
  done
  in_shell 'ln -s "$$" m; answer mutex_trylock m; answer mutex_lock m 0.05; answer mutex_unlock m'
  expect_output $'1\n1\n2'
  [[ -L m ]]
}

@test "stale: our form with a NONCE of 0 or a dead \$\$ in it is not evidence" {
  local form
  in_shell 'mutex_lock m; readlink m'
  form=$output
  rm m
  IFS=, read -ra part <<<"$form"
  ln -s "${part[0]},0,${part[2]},${part[3]},${part[4]},${part[5]}" m
  in_shell 'answer mutex_trylock m'
  expect_output 1
}

@test "stale: nearly our form is foreign and stays" {
  in_shell 'mutex_lock m; readlink m'
  local form=$output text
  rm m
  for text in "0$form" "$form," ",$form" "$form,1" "${form#*,}" " $form" "$form " "${form/,/, }" "+$form" "-$form" "${form/,/,0}" "${form/,/,4294967297,}"; do
    ln -s -- "$text" m
    in_shell 'answer mutex_trylock m; answer mutex_unlock m'
    [[ $output == $'1\n2' && $(readlink m) == "$text" ]] || fail "$text: $output" || return
    rm m
  done
}

@test "stale: the lock of a disowned function is held after its launcher has gone" {
  start_shell launcher '
    work() { mutex_lock m; latch locked; await finish; mutex_unlock m; latch over; }
    work & disown; await locked'
  end_of launcher
  in_shell 'answer mutex_trylock m; answer mutex_lock m 1.2'
  expect_output $'1\n1'
  start_shell waiter 'answer mutex_lock m 10'
  await_asleep waiter
  latch finish
  end_of waiter
  expect_output 0
}

@test "stale: containers with the same \$\$ do not rob or unlock each other" {
  in_namespace -pfn --mount-proc --kill-child
  start_shell holder '[[ $$ == 1 ]]; mutex_lock m; latch locked; await finish; answer mutex_unlock m'
  await locked
  in_shell 'printf "%s\n" $$; answer mutex_trylock m; answer mutex_lock m 1.2; answer mutex_unlock m'
  expect_output $'1\n1\n1\n2'
  launch=()
  in_shell 'answer mutex_trylock m; answer mutex_unlock m'
  expect_output $'1\n2'
  latch finish
  end_of holder
  expect_output 0
}

@test "stale: a killed container's lock goes to its successor" {
  in_namespace -pfn --mount-proc --kill-child
  start_shell holder 'mutex_lock m; latch locked; await never 60'
  await locked
  start_shell waiter 'latch waits; answer mutex_lock m 10'
  await waits
  kill -KILL "${pids[holder]}"
  end_of waiter
  expect_output 0
  in_shell 'answer mutex_trylock m'
  expect_output 0
}

@test "stale: its process number reused by another program does not keep it" {
  in_namespace -pf --mount-proc --kill-child
  in_shell '
    shell "mutex_lock m; printf \"%s\n\" \$\$ >holder; kill -KILL \$\$" 2>/dev/null || :
    # Start times are told apart by 10 ms.
    read -r holder <holder; nap 0.05
    printf "%s\n" "$((holder - 1))" >/proc/sys/kernel/ns_last_pid
    sleep 300 & printf "%s\n" "$(($! - holder))"
    answer mutex_trylock m; kill $!'
  expect_output $'0\n0'
}

@test "stale: the number reused as another script's \$\$ does not make that the owner" {
  in_namespace -pf --mount-proc --kill-child
  in_shell '
    shell "mutex_lock m; ( latch locked; exec sleep 300 ) >/dev/null & await locked; printf \"%s\n\" \$\$ >holder; kill -KILL \$\$" 2>/dev/null || :
    read -r holder <holder; nap 0.05
    printf "%s\n" "$((holder - 1))" >/proc/sys/kernel/ns_last_pid
    shell "answer mutex_trylock m; answer mutex_unlock m; (( \$\$ == $holder )); printf \"%s\n\" \$?"'
  expect_output $'1\n2\n0'
}

# The descriptors of the plugin in this shell.
PARKED='parked() { local fd; for fd in /proc/$BASHPID/fd/*; do fd=${fd##*/}; if (( fd >= 512 )); then printf "%s\n" "$fd"; fi; done; }'

@test "stale: a living holder that closed our descriptor is not robbed" {
  start_shell holder "$PARKED"'; mutex_lock m; for i in $(parked); do eval "exec $i>&-"; done; parked; latch locked; await finish; answer mutex_unlock m'
  await locked
  in_shell 'answer mutex_trylock m; answer mutex_lock m 1.2; answer mutex_unlock m'
  expect_output $'1\n1\n2'
  latch finish
  end_of holder
  expect_output 0
  expect_quiet
  expect_files
}

@test "stale: killed after it closed our descriptor it is" {
  start_shell holder "$PARKED"'; mutex_lock m; for i in $(parked); do eval "exec $i>&-"; done; kill -KILL "$BASHPID"'
  end_of holder
  in_shell 'answer mutex_lock m 5'
  expect_output 0
}

@test "stale: a descriptor number that the script reuses is not closed by us" {
  in_shell "$PARKED"'
    mutex_lock m
    for i in $(parked); do eval "exec $i>mine"; printf "%s\n" "$i" >number; done
    answer mutex_unlock m
    read -r number <number
    eval "printf \"kept\n\" >&$number"; cat mine; answer mutex_trylock m'
  expect_output $'0\nkept\n0'
  expect_quiet
}

@test "stale: a small ulimit -n is no reason to lose the lock" {
  in_shell 'ulimit -n 20; mutex_lock m; shell "answer mutex_trylock m"; answer mutex_unlock m'
  expect_output $'1\n0'
  in_shell 'ulimit -n 20; mutex_lock m; kill -KILL $$'
  in_shell 'answer mutex_trylock m'
  expect_output 0
}
