# Judges a history of tests/storm, sorted by time and given twice: the first reading learns how each operation ended, the
# second one walks through the events and compares with the sequential reference. Prints what is wrong, one line each, and
# three numbers into the file `counts`.
#
# An operation takes effect at one moment between its begin and its end, that of a dead shell then, later or never. So what
# gives counts from its begin on and what takes counts at its end: below zero then is below zero in every order of the
# operations (semaphore, weak mutex). A queue of unlike items can be wrong in four ways: an item comes out that was not put,
# or twice, or after one that was put later; or it is lost.

function wrong(at, text) {
  printf "%s %s\n", at, text
}

BEGIN { level["s"] = 2; level["w"] = 1 }

{ key = $2 "/" $4 }

# The first reading.

NR == FNR && $3 == "died" && !($2 in death) { death[$2] = $1 }
NR == FNR && $3 == "gone" { gone[$2] = $1 }
NR == FNR && $3 == "leave" { left[key] = 1 }
NR == FNR && $3 == "begin" {
  verb[key] = $5; object[key] = $6; last[key] = $NF; began[key] = $1
  is_peer[key] = sub(/^peer_/, "", verb[key])
  amount[key] = verb[key] ~ /^(sem_post|queue_get)$/ && NF > 6 ? $7 : 1
  for (i = 7; verb[key] == "queue_put" && i <= NF; i++) {
    put_by[$i] = key
    items[key] = items[key] " " $i
  }
}
NR == FNR && $3 == "end" {
  status[key] = $5; ended[key] = $1
  for (i = 6; i <= NF; i++) {
    if ($i in taken_by) wrong($1, "item " $i " came out twice")
    taken_by[$i] = key
  }
}
NR == FNR { next }

# What shells saw themselves, and how operations may end.

$3 == "bad" { wrong($1, "shell " $2 ": " substr($0, index($0, $4))) }

$3 == "begin" && !(key in status) { cut++ }
$3 == "end" { done++ }
$3 == "end" && $5 > 1 { wrong($1, verb[key] " of shell " $2 " ended with " $5) }
$3 == "end" && $5 == 1 && verb[key] !~ /try|^wmutex_unlock$/ {
  if (verb[key] !~ /_(lock|wait|get)$/ || last[key] !~ /^[0-9.]+$/)
    wrong($1, verb[key] " of shell " $2 " said no")
  else if (!is_peer[key] && $1 - began[key] < last[key] * 1000000 - 1000)
    wrong($1, verb[key] " of shell " $2 " gave up too early")
}

# Mutual exclusion. A section ends with its leave, or with its shell, which can still be running when its death is noted.

$3 == "start" && (($2 "/" $5) in left || !($2 in death) || $1 < death[$2]) {
  if ($4 in inside) wrong($1, $4 " is held by " inside[$4] " and by " $2 "/" $5)
  inside[$4] = $2 "/" $5
}
$3 == "leave" { for (lock in inside) if (inside[lock] == key) delete inside[lock] }
$3 == "died" { for (lock in inside) if (shell_of(inside[lock]) == $2 && !(inside[lock] in left)) delete inside[lock] }

function shell_of(key) {
  return substr(key, 1, index(key, "/") - 1)
}

# Tokens. A weak mutex has one, and never two: what it lacks is `room`.

function is_taking(key) {
  return verb[key] ~ /^(sem_(try)?wait|wmutex_(try)?lock)$/
}
function is_giving(key) {
  return verb[key] ~ /^(sem_post|wmutex_unlock)$/
}

$3 == "begin" && (!(key in status) || status[key] == 0) {
  if (is_giving(key)) level[$6] += amount[key]
  if (is_taking(key)) room[$6]++
  if (!(key in status) && (is_giving(key) || is_taking(key))) maybe[$6] += amount[key]
}
$3 == "end" && $5 == 0 && is_taking(key) && --level[object[key]] < 0 {
  wrong($1, "shell " $2 " took what was not there: " verb[key])
}
$3 == "end" && $5 == 0 && verb[key] == "wmutex_unlock" && --room["w"] < 0 {
  wrong($1, "shell " $2 " unlocked what was not locked")
}
$3 == "final" && ($4 > level["s"] || $4 < level["s"] - maybe["s"]) {
  wrong($1, "the semaphore has " $4 " tokens and should have " level["s"] ", or up to " maybe["s"] + 0 " less")
}

# The queue. Of the items that were put entirely, `newest` is the one that began to come out last: what is put from now on
# must not be out before that.

$3 == "begin" && verb[key] == "queue_put" {
  newest_before[key] = newest
  count = split(items[key], names)
  for (i = 1; i <= count; i++) {
    if (!(names[i] in taken_by)) continue
    out = ended[taken_by[names[i]]]
    if (out < $1) wrong(out, "item " names[i] " came out before it was put")
    if (newest != "" && out < began[taken_by[newest]]) wrong(out, "item " names[i] " came out before " newest)
    for (j = 1; j <= lost_count; j++)
      if (!(lost[j] in not_after) || out < not_after[lost[j]]) not_after[lost[j]] = out
  }
}
$3 == "end" && verb[key] == "queue_put" && $5 == 0 {
  count = split(items[key], names)
  for (i = 1; i <= count; i++) {
    if (!(names[i] in taken_by)) lost[++lost_count] = names[i]
    else if (newest == "" || began[taken_by[names[i]]] > began[taken_by[newest]]) newest = names[i]
  }
}
$3 == "begin" && verb[key] == "queue_get" && !(key in status) { dying[++dying_count] = key }

# Lost is an item that nobody got though its put has ended. It must have been the next one while a consumer was at it that
# died: after those before it began to come out, and before one that was put later was out. Each takes what it asked for.
function bury(item,   i, from, get, best) {
  from = began[put_by[item]]
  if (newest_before[put_by[item]] != "") from = began[taken_by[newest_before[put_by[item]]]]
  for (i = 1; i <= dying_count; i++) {
    get = dying[i]
    if (amount[get] == 0 || end_of(shell_of(get)) < from || (item in not_after && began[get] > not_after[item])) continue
    if (best == "" || end_of(shell_of(get)) < end_of(shell_of(best))) best = get
  }
  if (best == "") wrong(ended[put_by[item]], "item " item " is lost, and no dying consumer had it")
  else amount[best]--
}

# One that was not killed notes its death itself.
function end_of(shell) {
  return shell in gone ? gone[shell] : death[shell]
}

END {
  for (item in taken_by) if (!(item in put_by)) wrong(ended[taken_by[item]], "item " item " was never put")
  for (i = 1; i <= lost_count; i++) bury(lost[i])
  print done + 0, cut + 0, lost_count + 0 > counts
}
