#!/bin/bash
# The router of a private I2P network in a container.
#
#   router run           i2pd in the foreground, once it knows the others
#   router page [QUERY]  a page of its console: nothing is the first one, page=leasesets what its netDb holds
#   router healthy       succeeds when it knows other routers, and has built tunnels
#   router name FILE     the name under which i2pd keeps a RouterInfo
#
# ADDRESS               its address in the private network; where other routers find it
# INTERFACES_ADDRESS    where its proxy, SAM, I2CP, i2pcontrol and console listen (default: 127.0.0.1)
# FLOODFILL             true or false (default: false)
# ROUTERS               it begins when it knows so many, itself among them (default: 4)
set -euo pipefail
umask 077

data=/var/lib/router                    # its keys and its netDb: a volume of its own
introductions=/var/lib/introductions    # the RouterInfos: a volume that all routers share
template=/usr/share/router/i2pd.conf
identity_keys=384                       # bytes of a RouterIdentity before its certificate (Common Structures, KeysAndCert)
max_info=3072                           # bytes of a RouterInfo that i2pd takes
port=20000
patience=5                              # seconds for i2pd to end kindly
interfaces_address=${INTERFACES_ADDRESS:-127.0.0.1}

say() {
  echo "router: $*" >&2
}

# Writes i2pd's configuration. The password stays out of every argument and of the environment.
configure() {
  : "${ADDRESS:?is the address of this router in the private network, for example 198.18.0.10}"
  local text password=""
  if [[ -e $data/i2pcontrol.password ]]; then
    password=$(<"$data/i2pcontrol.password")
  fi
  local i2pcontrol=false
  if [[ -n $password ]]; then
    i2pcontrol=true
  fi
  text=$(<"$template")
  text=${text//'{address}'/"$ADDRESS"}
  text=${text//'{interfaces_address}'/"$interfaces_address"}
  text=${text//'{port}'/"$port"}
  text=${text//'{log}'/stdout}
  text=${text//'{logfile}'//dev/null}
  text=${text//'{floodfill}'/"${FLOODFILL:-false}"}
  text=${text//'{proxy}'/true}
  text=${text//'{socks}'/true}
  text=${text//'{sam}'/true}
  text=${text//'{i2cp}'/true}
  text=${text//'{i2pcontrol}'/"$i2pcontrol"}
  text=${text//'{password}'/"$password"}
  if [[ $text =~ (\{[a-z_]+\}) ]]; then
    say "the template has ${BASH_REMATCH[1]}, which this program does not know: build the image again"
    exit 1
  fi
  printf '%s\n' "$text" > "$data/i2pd.conf"
  touch "$data/tunnels.conf"
}

daemon=(i2pd "--datadir=$data" "--conf=$data/i2pd.conf" "--tunconf=$data/tunnels.conf")

has_identity() {
  [[ -e $data/router.info ]] && (($(stat --format %s "$data/router.info") > identity_keys + 3))
}

# At its first start: i2pd writes its keys and its RouterInfo, and ends. Nobody finds its interfaces open meanwhile: with
# a client at one of them i2pd 2.45 may never end.
make_identity() {
  local interface closed=() pid tries
  for interface in http httpproxy socksproxy sam i2cp i2pcontrol; do
    closed+=("--$interface.enabled=false")
  done
  say "makes its keys"
  "${daemon[@]}" "${closed[@]}" &
  pid=$!
  until has_identity; do
    kill -0 "$pid"
    sleep 0.2
  done
  # More than once: i2pd forgets a signal that comes before it has begun its main loop.
  for ((tries = 0; tries < 5 * patience; tries++)); do
    kill -TERM "$pid" 2>/dev/null || break
    sleep 0.2
  done
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" || true
}

# Prints the length of a RouterIdentity; fails when the file is no RouterInfo, or not whole.
identity_length() {
  local size certificate length
  size=$(stat --format %s "$1")
  ((size > identity_keys + 3 && size <= max_info)) || return 1
  read -r -a certificate < <(od -An -v -tu1 -j$((identity_keys + 1)) -N2 "$1")
  length=$((identity_keys + 3 + certificate[0] * 256 + certificate[1]))
  ((length < size)) || return 1
  echo "$length"
}

# Prints the name under which i2pd keeps a RouterInfo: I2P's base64 of the SHA-256 of its RouterIdentity.
name_of() {
  local length
  if ! length=$(identity_length "$1"); then
    say "$1 is no whole RouterInfo"
    return 1
  fi
  head -c "$length" "$1" | sha256sum | head -c 64 | tr a-f A-F | basenc --base16 -d | basenc --base64url | tr _ '~'
}

# Prints the addresses of routers whose RouterInfos these files are.
addresses() {
  printf '%s\n' "$@" | sed 's|.*/||; s|\.info$||' | sort | paste -sd ' '
}

# Gives its own RouterInfo to all, waits for those of the others, and puts them where i2pd looks when it starts.
introduce() {
  local own=$introductions/$ADDRESS.info info name folder tries infos
  local -A known
  cp "$data/router.info" "$own.new"
  mv "$own.new" "$own"
  for ((tries = 0; ; tries++)); do
    infos=("$introductions"/*.info)
    for info in "${infos[@]}"; do  # one that is not whole does not count: its router writes it anew when it starts
      if [[ -z ${known[$info]:-} ]] && identity_length "$info" >/dev/null; then
        known[$info]=$(name_of "$info")
      fi
    done
    ((${#known[@]} < ${ROUTERS:-4})) || break
    if ((tries % 150 == 0)); then  # every half a minute
      say "waits for ${ROUTERS:-4} routers; there are: $(addresses "${!known[@]}")"
    fi
    sleep 0.2
  done
  for info in "${!known[@]}"; do
    if [[ $info != "$own" ]]; then
      name=${known[$info]}
      folder=$data/netDb/r${name:0:1}
      mkdir -p "$folder"
      if [[ ! -e $folder/routerInfo-$name.dat ]]; then  # i2pd's own may be newer
        cp "$info" "$folder/routerInfo-$name.dat"
      fi
    fi
  done
}

page() {
  local line
  if ! { exec 3<>"/dev/tcp/$interfaces_address/7070"; } 2>/dev/null; then
    say "its console at $interfaces_address:7070 does not answer: i2pd does not run yet, see what was logged"
    return 1
  fi
  # By another program, which writes it in one piece: i2pd waits for ever for the rest of one that comes in parts.
  cat <<< $'GET /'"${1:+?$1}"$' HTTP/1.0\r\nHost: '"$interfaces_address"$'\r\n\r' >&3
  while IFS= read -r -t 5 line && [[ -n ${line%$'\r'} ]]; do :; done <&3
  timeout 5 cat <&3
}

number_of() {
  sed -n "s/<[^>]*>/ /g; s/.*$1: *\([0-9][0-9]*\).*/\1/p" <<< "$text" | head -n 1
}

healthy() {
  local text routers tunnels
  text=$(page) || return 1
  routers=$(number_of Routers)
  tunnels=$(number_of 'Client Tunnels')
  echo "${routers:-0} routers known, ${tunnels:-0} tunnels"
  ((${routers:-0} >= 3 && ${tunnels:-0} >= 4))
}

case ${1:-run} in
  run)
    configure
    has_identity || make_identity
    introduce
    exec "${daemon[@]}"
    ;;
  page) page "${2:-}" ;;
  healthy) healthy ;;
  name) name_of "${2:?is the file of a RouterInfo}" ;;
  *)
    say "knows run, page, healthy and name, not $1"
    exit 2
    ;;
esac
