#!/usr/bin/env bats
# The scripts of the article series, on the builtins: the same behaviour, with shorter times.

load helper

@test "article: two increments at once without a lock count one" {
  in_shell '
    printf "0\n" >counter
    step() { local value; value=$(<counter); barrier read 2; printf "%s\n" "$((value + 1))" >counter; }
    step & step & wait; cat counter'
  expect_output 1
}

@test "article: a mutex cures the racing counter" {
  in_shell '
    printf "0\n" >counter
    worker() {
      local value i
      barrier start 4
      for (( i = 0; i < 100; i++ )); do
        mutex_lock mutex
        value=$(<counter)
        printf "%s\n" "$((value + 1))" >counter
        mutex_unlock mutex
      done
    }
    for i in 1 2 3 4; do worker & done; wait; cat counter'
  expect_output 400
  expect_quiet
  expect_files counter
}

@test "article: the second process enters only after the first has left" {
  in_shell '
    process() {
      printf "%s waits\n" "$1" >>log
      mutex_lock mutex
      printf "%s enters\n" "$1" >>log
      latch "$1"
      await "$2"
      printf "%s leaves\n" "$1" >>log
      mutex_unlock mutex
    }
    latch go
    process A leave & await A
    process B go & 
    until grep -q "B waits" log; do nap; done
    nap 0.1
    latch leave
    wait; cat log'
  expect_output $'A waits\nA enters\nB waits\nA leaves\nB enters\nB leaves'
}

@test "article: the timeout of a mutex ends the wait with 1 and leaves the lock" {
  in_shell '
    mutex_lock mutex; readlink mutex
    shell "clock begin; answer mutex_lock mutex 1; clock end; printf \"%s\n\" \$((end - begin))"
    readlink mutex; answer mutex_unlock mutex'
  [[ $output =~ ^([0-9,]+)$'\n1\n'([0-9]+)$'\n'([0-9,]+)$'\n0'$ ]]
  [[ ${BASH_REMATCH[1]} == "${BASH_REMATCH[3]}" ]]
  (( BASH_REMATCH[2] >= 999 && BASH_REMATCH[2] < 3000 ))
}

@test "article: a mutex used backwards lets one waiter pass for each unlock" {
  in_shell '
    wmutex_lock gate
    for i in 1 2 3; do ( wmutex_lock gate; printf "x\n" >>passed ) & done
    lines() { local -a all=(); [[ ! -e passed ]] || mapfile -t all <passed; (( ${#all[@]} == $1 )); }
    : >passed
    for i in 1 2 3; do
      wmutex_unlock gate
      until lines "$i"; do nap; done
    done
    wait
    answer wmutex_trylock gate'
  expect_output 1
}

@test "article: one producer and two consumers, ended by the timeout of the semaphore" {
  in_shell '
    producer() { local i; for (( i = 0; i < 7; i++ )); do nap 0.0$((RANDOM % 5)); sem_post sem; done; }
    consumer() { while sem_wait sem 1; do printf "%s\n" "$1" >>consumed; done; printf "timeout\n" >>ended; }
    answer sem_init sem 0
    : >consumed
    producer & consumer one & consumer two & wait
    answer sem_peek sem
    answer sem_destroy sem'
  expect_output $'0\n0\n0\n0'
  [[ $(wc -l <consumed) -eq 7 && $(wc -l <ended) -eq 2 ]]
  expect_files consumed ended
}

@test "article: a semaphore above zero lets that many pass at once" {
  in_shell 'sem_init sem 3; for i in 1 2 3 4; do answer sem_trywait sem; done'
  expect_output $'0\n0\n0\n1'
}

@test "article: the complete queue, with an item of several lines" {
  in_shell '
    answer queue_init queue
    queue_put queue "one"; queue_put queue "$1"; queue_put queue "three"
    queue_get queue; queue_get queue; queue_get queue
    answer queue_get queue 0
    answer queue_destroy queue' $'two\n  lines\n'
  expect_output $'0\none\ntwo\n  lines\n\nthree\n1\n0'
  expect_quiet
  expect_files
}

@test "article: a queue with three producers and three consumers" {
  in_shell '
    queue_init queue
    producer() { local i; for (( i = 1; i <= 50; i++ )); do queue_put queue "$1 $i"; done; }
    consumer() { local item; while queue_get -v item queue 10 && [[ $item != end ]]; do printf "%s\n" "$item" >>"got.$1"; done; }
    for i in a b c; do : >"got.$i"; consumer "$i" & done
    producers=()
    for i in x y z; do producer "$i" & producers+=($!); done
    wait "${producers[@]}"
    queue_put queue end end end
    wait
    answer queue_destroy queue'
  expect_output 0
  [[ $(cat got.* | sort | uniq | wc -l) -eq 150 && $(cat got.* | wc -l) -eq 150 ]]
}

@test "article: init of what exists is an honest no, and changes nothing" {
  in_shell '
    sem_init sem 5; answer sem_init sem 7; sem_peek sem
    queue_init queue; queue_put queue item; answer queue_init queue; queue_get queue'
  expect_output $'1\n5\n1\nitem'
  expect_quiet
}

@test "article: destroy of what is not one removes nothing" {
  mkdir full empty
  : >full/file
  : >plain
  in_shell '
    for i in full empty plain missing; do
      answer sem_destroy "$i"; answer queue_destroy "$i"; answer sem_destroy -f "$i"; answer queue_destroy -f "$i"
    done'
  [[ $output != *[!3$'\n']* ]]
  expect_files empty full plain
  [[ -f full/file ]]
}

@test "article: the queue's helpers name its parts" {
  in_shell '
    . "$INTERLOCK_ROOT/shell/interlock.sh"
    queue_init queue
    queue_get_semaphore queue; queue_get_mutex queue; queue_get_data queue
    queue_append queue raw; sem_post "$(queue_get_semaphore queue)"
    queue_get queue'
  expect_output $'queue/sem\nqueue/mutex\nqueue/data\nraw'
}
