#!/usr/bin/env bash
# One of many that want the same lock or token; for bash and zsh.
#
#   contender.sh NAME OBJECT DIRECTORY MODE
#
# DIRECTORY has three FIFOs and a log. The contender writes its process number to `ready`. MODE is
#   first   take, wait for a line on `go`, give, go on as `turns`
#   turns   take, hold for 5 ms, give; once another one has it, again. So the number of those that wait stays the same.
#   equal   take, hold for 1 ms, give, again at once
# and the log has, for each turn, in microseconds: when it began to want, when it got and when it gave.
set -u
root=${0%/tests/bench/*}
name=$1
object=$2
dir=$3
mode=$4

# shellcheck source=tests/bench/shells.sh
. "$root/tests/bench/shells.sh"
# shellcheck source=tests/bench/competitors.sh
. "$root/tests/bench/competitors.sh"

# shellcheck disable=SC2034 # for setup
tokens=0
eval "${setup[$name]-}"
exec {turn}<>"$dir/turn" {idle}<>"$dir/idle" {log}>>"$dir/log"

eval "do_take() { ${take[$name]}; }; do_give() { ${give[$name]}; }"
want() {
	clock
	wanted=$now
	do_take
	clock
	got=$now
}
leave() {
	clock
	gave=$now
	do_give
}

if [[ $mode == first ]]; then
	# A semaphore's tokens and a pipe's byte: the first one puts it in.
	case $name in
	semaphore | peer_semaphore | queue | pipe | redis) do_give ;;
	esac
	want
	printf '%s\n' "$$" >"$dir/ready"
	read -r <"$dir/go"
	leave
	read -r <&"$turn"
else
	printf '%s\n' "$$" >"$dir/ready"
fi

while :; do
	want
	if [[ $mode == equal ]]; then
		read -r -t 0.001 <&"$idle"
		leave
	else
		printf '\n' >&"$turn"
		read -r -t 0.005 <&"$idle"
		leave
		read -r <&"$turn"
	fi
	printf '%s %s %s\n' "$wanted" "$got" "$gave" >&"$log"
done
