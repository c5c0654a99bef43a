# Runs a command, and says every ten seconds that the command still runs: pip and apt-get say nothing for minutes.
#
#     sh say_while.sh WORDS COMMAND...
#
# The exit code is that of the command. SAY_SECONDS: seconds between two lines (default: 10).
words=$1
shift
began=$(date +%s)
(
  while sleep "${SAY_SECONDS:-10}" >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    echo "  ... $words, $(($(date +%s) - began)) s so far"
  done
) &
ticker=$!
trap 'kill $ticker 2>/dev/null' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
"$@"
