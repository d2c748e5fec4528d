#!/usr/bin/env bash
# Measures the link-layer transport between two network namespaces with a cable (veth) between them; needs root and iproute2.
# First one frame's packets by different system calls, then whole sessions of the headless client over Ethernet and over WebTransport.
set -euo pipefail
cd "$(dirname "$0")/.."
target="$(realpath "${CARGO_TARGET_DIR:-target}")"
nearlight=$target/release/nearlight
seconds=${SECONDS_EACH:-20}
[ "$(id -u)" = 0 ] || { echo "bench-ethernet: needs root for network namespaces; left out" >&2; exit 0; }

cargo build --quiet --release -p nearlight-net --example frame_burst
near=nearlight-near-$$ far=nearlight-far-$$
trap 'ip netns del $near; ip netns del $far' EXIT
ip netns add "$near"
ip netns add "$far"
ip -n "$near" link add near address 02:00:00:00:00:01 type veth peer name far address 02:00:00:00:00:02 netns "$far"
ip -n "$near" address add 10.77.0.1/24 dev near
ip -n "$far" address add 10.77.0.2/24 dev far
for cable in driver generic; do ip -n "$near" link add "near-$cable" type veth peer name "far-$cable" netns "$far"; done
for name in lo near near-driver near-generic; do ip -n "$near" link set "$name" up; done
for name in lo far far-driver far-generic; do ip -n "$far" link set "$name" up; done

printf '\n== a frame of 43 packets across a veth\n'
"$target/release/examples/frame_burst" "/run/netns/$near" "/run/netns/$far" "${ROUNDS:-500}"

out=$(mktemp)
ip netns exec "$far" "$nearlight" serve --json --ephemeral --port 8090 --size 1280x720 --fps 30 --ethernet far "$@" >"$out" 2>/dev/null &
server=$!
while ! grep -q url "$out"; do sleep 0.1; kill -0 "$server"; done
page=$(sed -n 's/.*"\(https:\/\/10.77.0.2[^"]*\)".*/\1/p' "$out")
ethernet=$(sed -n 's/.*"\(ether:[^"]*\)".*/\1/p' "$out")
for link in "$page" "$ethernet" "$page" "$ethernet"; do
  printf '\n== the headless client over %s\n' "${link%%:*}"
  ip netns exec "$near" "$nearlight" view "$link" --headless --seconds "$seconds"
done
kill -INT "$server"
wait "$server" || true
