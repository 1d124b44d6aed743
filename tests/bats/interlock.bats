#!/usr/bin/env bats
# interlock ls, stat, why, break, version: looking at what is locked.

load helper

@test "interlock ls: one row for each object, whatever its name" {
  in_shell '
    mutex_lock m; wmutex_lock "w x"; sem_init s 3; queue_init q; queue_put q a b; mkdir -p sub/deeper; dirlock_lock sub/deeper/d
    bakery_lock b; : >file; ln -s file link; mkdir empty
    ( mutex_lock dead )
    interlock ls -0 . | while IFS=$'"'\t'"' read -rd "" kind state pid _ _ count _ name; do
      [[ $pid != "$$" ]] || pid=me
      [[ $state != stale ]] || pid=gone
      printf "%s:%s:%s:%s:%s\n" "$name" "$kind" "$state" "$pid" "$count"
    done'
  expect_output 'b:bakery:held:me:-
dead:mutex:stale:gone:-
m:mutex:held:me:-
q:queue:ready:-:2
s:sem:ready:-:3
sub/deeper/d:dirlock:held:me:-
w x:wmutex:held:me:-'
  in_shell 'mkdir d; for i in a bb; do mutex_lock "d/$i"; done; interlock ls d'
  [[ $output =~ ^NAME\ +KIND\ .*$'\nd/a '\ +mutex\ +held\ .*$'\nd/bb'\ +mutex\ +held\  ]]
}

@test "interlock ls: records and JSON for programs" {
  in_shell $'
    mutex_lock $\'new\\nline\'
    interlock ls -0 . | { IFS=$\'\\t\' read -rd "" kind state pid seconds waiters count command name; printf "%s|%s|%s|%s\\n" "$kind" "$state" "$waiters" "$name"; }
    interlock ls --json .'
  [[ $output == $'mutex|held|0|new\nline\n'* ]]
  python3 -c '
import json, sys
object, = json.loads(sys.argv[1])["objects"]
assert object["name"] == "new\nline" and object["kind"] == "mutex" and object["state"] == "held", object
' "${output#*line?}"
}

@test "interlock ls: a directory that is not there is an error" {
  in_shell 'answer interlock ls no/where'
  expect_output 3
  expect_error '*interlock*no/where: No such file or directory'
}

@test "interlock stat: says why a lock is not stale, and what would free it" {
  in_shell 'mutex_lock m; interlock stat m'
  [[ $output == *'held by '*'stale: no: somebody keeps its mark'*'freed when its script unlocks it'* ]]
}

@test "interlock stat: a dead holder's lock is stale; a peer's plain number never is" {
  in_shell '( mutex_lock m ); interlock stat m; ln -s 999999 p; interlock stat p; ln -s host-32 f; answer interlock stat f'
  [[ $output == *'stale: yes:'*'takes it over'*'stale: never:'*$'\n3' ]]
  expect_error '*f: none of interlock*'
}

@test "interlock: every waiter is seen, also those behind in the line" {
  in_shell 'mutex_lock m; latch locked; await finish' &
  await locked
  local who
  for who in one two three; do
    start_shell "$who" 'mutex_lock m; mutex_unlock m'
  done
  await_asleep one two three
  start_shell looker 'interlock stat m | grep -c ^..waiting:; interlock ls | grep -w m'
  end_of looker
  [[ $output == 3$'\n'* ]]
  read -r _ _ _ _ _ waiters _ <<<"${output#*$'\n'}"
  (( waiters == 3 ))
  latch finish
  end_of one && end_of two && end_of three
}

@test "interlock why: two scripts that wait for each other are a deadlock" {
  start_shell one 'mutex_lock a; latch a; await b; mutex_lock b 20'
  start_shell two 'mutex_lock b; latch b; await a; mutex_lock a 20'
  await a && await b
  await_asleep one two
  in_shell 'interlock why a'
  [[ ${output##*$'\n'} == deadlock:* ]] || fail "$output"
}

@test "interlock why: a chain that ends is none, nor is a subshell that waits for its script's lock" {
  start_shell holder 'mutex_lock b; latch b; await finish'
  await b
  start_shell middle 'mutex_lock a; ( mutex_lock a; ) & latch a; mutex_lock b'
  await a
  await_asleep middle
  in_shell 'interlock why a'
  [[ $output == *'waits for b'*'waits for nothing of interlock'* ]] || fail "$output"
  [[ $output != *deadlock* ]] || fail "$output"
  latch finish
}

@test "interlock: a waiter at the same inode number of another file system is not counted" {
  (( EUID == 0 )) || skip "needs root"
  in_namespace -m
  in_shell '
    mkdir one two
    mount -t tmpfs none one && mount -t tmpfs none two || exit
    : >one/1; : >one/2; : >one/3
    mutex_lock one/m; number=$(stat -c %i one/m)
    (
      for (( i = 0; i < 50; i++ )); do
        mutex_lock two/m
        (( $(stat -c %i two/m) != number )) || break
        mutex_unlock two/m
      done
      (( i < 50 )) || exit
      latch met; mutex_lock one/m
    ) & waiter=$!
    await met
    until interlock stat one/m | grep -q "^  waiting: $waiter "; do nap; done
    interlock stat two/m | grep "^  waiting"
    interlock ls two | tail -n 1 | grep -o "mutex  held .* 0  .*" | wc -l
    interlock why one/m | tail -n 1; interlock why two/m | tail -n 1
    mutex_unlock one/m; wait'
  expect_output '  waiting: nobody that can be seen
1
which waits for nothing of interlock'"'"'s
which waits for nothing of interlock'"'"'s'
}

@test "interlock break: not without asking or -y, then whoever holds it" {
  start_shell holder 'mutex_lock m; dirlock_lock d; bakery_lock b; wmutex_lock w; latch locked; await finish'
  await locked
  in_shell 'answer interlock break m 2>/dev/null; for x in m d b w; do answer interlock break -y "$x"; done; ls'
  expect_output $'2\n0\n0\n0\n0\nb'
  latch finish
}

@test "interlock break: a semaphore, a file and nothing are not locks" {
  in_shell 'sem_init s 1; : >f; for x in s f n; do answer interlock break -y "$x" 2>/dev/null; done; sem_peek s; ls'
  expect_output $'2\n3\n3\n1\nf\ns'
}

@test "interlock version: versions, and how waiting works here" {
  in_shell 'interlock version'
  [[ $output == 'interlock '[0-9]*$'\nbash '[0-9]*$'\n.: waits by inotify'* ]]
  in_shell 'interlock version /proc'
  [[ $output == *'/proc: waits without events'*'unmarked'* ]]
}

@test "interlock: a wrong verb or option names the right ones" {
  in_shell 'answer interlock foo'
  expect_output 2
  expect_error '*foo: no such verb; usage: interlock ls|stat|why|break|version|man*'
  in_shell 'answer interlock ls -x'
  expect_output 2
  expect_error '*-x: invalid option; usage: interlock ls \[-0|--json\] \[DIR ...\]'
}

@test "interlock man: a section for every builtin, and groff has nothing to complain of" {
  in_shell 'interlock man >"$T/page"'
  local name
  for name in $(builtin_names); do
    grep -q "^\.SS \"$name\"$" "$T/page" || fail "no section for $name"
  done
  [[ -z $(groff -man -Tutf8 -ww "$T/page" 2>&1 >/dev/null) ]]
}
