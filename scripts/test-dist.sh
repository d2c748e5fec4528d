#!/usr/bin/env bash
# Installs the packages in target/dist on a bare system, uses them, upgrades and removes them; and has lintian judge them.
#
#   scripts/test-dist.sh [SUITE ...]     bookworm, trixie (Debian), noble (Ubuntu 24.04) [default: bookworm]
#
# `make dist` makes the packages. A bare system is made in a temporary folder with mmdebstrap, from the distribution's mirror (DEBIAN_MIRROR,
# UBUNTU_MIRROR); it takes root. Ubuntu needs its archive's keys: /usr/share/keyrings/ubuntu-archive-keyring.gpg, or UBUNTU_KEYRING.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath -m "${CARGO_TARGET_DIR:-target}")/dist
suites=("$@")
[ ${#suites[@]} -gt 0 ] || suites=(bookworm)

say() { printf 'test-dist: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
# A machine that cannot run this says so, and the tests go on.
skip() { say "skipped: $*"; exit 0; }
[ "$(id -u)" = 0 ] || skip "only root can make a bare system"
for command in mmdebstrap dpkg-deb unshare ip node; do
  command -v $command >/dev/null || skip "there is no $command (scripts/setup.sh dist installs it)"
done
unshare --mount --pid --net --fork true 2>/dev/null || skip "this machine allows no namespaces of one's own"
package=$(find "$dist" -name 'nearlight_*_amd64.deb' 2>/dev/null || true)
[ -n "$package" ] || skip "there are no packages in $dist: run make dist"
version=$(dpkg-deb --field "$package" Version)
(cd "$dist" && sha256sum --quiet --check SHA256SUMS) || fail "the files in $dist are not those of SHA256SUMS"

if command -v lintian >/dev/null; then
  # The static library in libnearlight-dev would keep it busy for ten minutes and two gigabytes.
  find "$dist" -name '*.deb' ! -name 'libnearlight-dev_*' -exec lintian --allow-root --fail-on error {} + >&2 || fail "lintian found errors"
else
  say "lintian is not installed (scripts/setup.sh dist): the packages are not judged"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The package of an earlier version, with a file that this one no longer has.
dpkg-deb --raw-extract "$package" "$work/earlier"
sed -i 's/^Version: .*/Version: 0.0.1/' "$work/earlier/DEBIAN/control"
touch "$work/earlier/usr/share/nearlight/plans/of-an-earlier-version.toml"
dpkg-deb --root-owner-group -Znone --build "$work/earlier" "$work/nearlight_0.0.1_amd64.deb" >/dev/null

root=$work/root
# inside [--offline] [--user] COMMAND...: in the bare system; --offline: with a loopback interface alone.
inside() {
  local namespaces=(--mount --pid --fork --kill-child) as=()
  if [ "$1" = --offline ]; then
    namespaces+=(--net)
    shift
  fi
  if [ "$1" = --user ]; then
    as=(--userspec=65534:65534)
    shift
  fi
  # shellcheck disable=SC2016
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp/home LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    unshare "${namespaces[@]}" sh -euc '
      mount --make-rprivate /
      mount -t proc proc "$0/proc"
      mount --rbind /dev "$0/dev"
      ip link set lo up
      exec chroot "$@"' "$root" "${as[@]}" "$root" "$@"
}

# What a user does first. It is a program of its own in the bare system, which has neither Python nor jq.
first_steps() {
  cat <<'STEPS'
set -eu
nearlight doctor >/tmp/doctor.txt || true
nearlight serve --json --size 640x360 --fps 30 >/tmp/links.json 2>/tmp/serve.log &
server=$!
seconds=0
until [ -s /tmp/links.json ]; do
  kill -0 $server || { cat /tmp/serve.log >&2; exit 1; }
  [ $seconds -lt 60 ] || { echo "the server printed no link in a minute" >&2; exit 1; }
  seconds=$((seconds + 1))
  sleep 1
done
link=$(sed 's/.*"url": *"\([^"]*\)".*/\1/' /tmp/links.json)
nearlight view "$link" --headless --seconds 5 --json >/tmp/view.json
nearlight lab list >/tmp/plans.txt
kill -TERM $server
wait $server || true
STEPS
}

for suite in "${suites[@]}"; do
  mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian} components=main keys=()
  case $suite in
    noble)
      mirror=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu} components=main,universe
      keyring=${UBUNTU_KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}
      if [ ! -f "$keyring" ]; then
        say "skipped $suite: $keyring is missing, the keys of Ubuntu's archive (package ubuntu-keyring)"
        continue
      fi
      keys=(--keyring="$keyring")
      ;;
    bookworm | trixie) ;;
    *) fail "\`$suite\` is none of bookworm, trixie, noble" ;;
  esac
  say "$suite: making a bare system"
  rm -rf "$root"
  mmdebstrap --quiet --variant=apt --components=$components "${keys[@]}" "$suite" "$root" "$mirror" || fail "$suite: no bare system could be made"
  mkdir -p "$root/packages" "$root/tmp/home"
  cp "$package" "$work/nearlight_0.0.1_amd64.deb" "$root/packages/"
  chmod 777 "$root/tmp/home"
  # As the distributions' installers write it.
  printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"

  say "$suite: installing an earlier version, without what the package only recommends"
  inside apt-get update -qq
  inside apt-get install -y -qq --no-install-recommends /packages/nearlight_0.0.1_amd64.deb >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; fail "$suite: it cannot be installed"; }
  # The least that it needs: pictures that no graphics card draws.
  inside --offline --user nearlight --version >&2
  say "$suite: upgrading, with what the package recommends"
  inside apt-get install -y -qq "/packages/$(basename "$package")" >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; fail "$suite: it cannot be upgraded"; }
  inside sh -c "apt-get install -y -qq \$(dpkg-query -W -f '\${Recommends}' nearlight | sed 's/([^)]*)//g; s/,/ /g')" >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; fail "$suite: what it recommends cannot be installed"; }
  [ "$(inside dpkg-query -W -f '${Version}' nearlight)" = "$version" ] || fail "$suite: the upgrade left the earlier version"
  [ ! -e "$root/usr/share/nearlight/plans/of-an-earlier-version.toml" ] || fail "$suite: the upgrade left a file of the earlier version"

  say "$suite: serving and viewing"
  first_steps >"$root/tmp/first-steps"
  inside --offline --user sh /tmp/first-steps >&2 || fail "$suite: the first steps failed"
  cat "$root/tmp/doctor.txt" >&2
  node -e '
    const [view, plans] = process.argv.slice(1).map((file) => require("fs").readFileSync(file, "utf8"));
    const { frames, fps } = JSON.parse(view);
    console.error(`test-dist: ${frames.decoded} pictures decoded, ${frames.lost} lost, ${fps} a second`);
    if (!(frames.decoded > 0) || frames.lost !== 0) throw new Error(`pictures were lost, or none came: ${view}`);
    if (!plans.includes("vrcc-stable")) throw new Error("the installed plans are not listed");
  ' "$root/tmp/view.json" "$root/tmp/plans.txt" || fail "$suite: the stream is not whole"

  say "$suite: removing"
  inside dpkg -L nearlight >"$work/files"
  inside apt-get purge -y -qq nearlight >/dev/null 2>&1
  while IFS= read -r file; do
    # Folders that other packages have as well stay.
    [ ! -e "$root$file" ] || inside dpkg -S "$file" >/dev/null 2>&1 || fail "$suite: the removal left $file"
  done <"$work/files"
  # A user's token and certificate stay, as other users' files do.
  left=$(find "$root" -xdev -name '*nearlight*' ! -path "$root/packages/*" ! -path "$root/var/log/*" ! -path "$root/var/cache/*" ! -path '*/.local/state/*')
  [ -z "$left" ] || fail "$suite: the removal left $left"

  say "$suite: installing the archive into a folder, and removing it"
  cp "$dist/nearlight-$version-x86_64-linux.tar.gz" "$root/packages/"
  inside sh -euc "
    tar -C /packages -xzf /packages/nearlight-$version-x86_64-linux.tar.gz
    /packages/nearlight-$version-x86_64-linux/install.sh /opt/nearlight >/dev/null
    /opt/nearlight/bin/nearlight --version
    /opt/nearlight/bin/nearlight lab list | grep -q vrcc-stable
    grep -q '^ExecStart=.*/opt/nearlight/bin/nearlight' /opt/nearlight/share/systemd/user/nearlight.service
    /packages/nearlight-$version-x86_64-linux/install.sh --remove /opt/nearlight >/dev/null
    [ -z \"\$(find /opt/nearlight -type f)\" ]" >&2 || fail "$suite: the archive cannot be installed and removed"

  say "$suite: building a C program with the library"
  cp "$dist"/libnearlight*_amd64.deb library/examples/five_calls.c "$root/packages/"
  inside sh -euc '
    apt-get install -y -qq --no-install-recommends gcc libc6-dev pkg-config /packages/libnearlight*_amd64.deb >/dev/null 2>&1
    cc -o /tmp/five_calls /packages/five_calls.c $(pkg-config --cflags --libs nearlight)
    ldd /tmp/five_calls | grep -q "libnearlight.so.* => /"' || fail "$suite: a C program cannot be built with the library"
  say "$suite: passed"
done
