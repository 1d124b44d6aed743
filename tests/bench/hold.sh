#!/bin/sh
# hold.sh SAY TELL: for programs that hold a lock while another one runs. Two FIFOs: a line says that we run, a line ends us.
echo >"$1"
read -r _ <"$2"
