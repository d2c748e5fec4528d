# For tests that take a kernel of their own: a virtual machine (QEMU) with Debian's kernel and files in memory. Sourced, in the repository's
# folder; its first argument is a folder that keeps what the machine prints, and whatever else the test keeps.
#
# The machine is emulated, unless NEARLIGHT_ACCELERATOR=kvm is given, which is quicker.
#
# Needs qemu-system-x86, busybox-static, kmod and cpio, and a kernel: NEARLIGHT_KERNEL names a folder with boot/vmlinuz-* and lib/modules
# (`dpkg-deb -x linux-image-*.deb FOLDER`), else Debian's is downloaded (70 MB), not installed. Left out, in words, where a tool is missing.
name=$(basename "$0" .sh)
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# /dev/kvm works on few machines of continuous integration.
accelerator=${NEARLIGHT_ACCELERATOR:-tcg}

leave_out() {
  echo "$name: left out: $*" >&2
  exit 0
}
fail() {
  echo "$name: $*" >&2
  [ -s "$kept/serial" ] && tail -25 "$kept/serial" >&2
  exit 1
}
for tool in qemu-system-x86_64 busybox modprobe cpio; do
  command -v "$tool" >/dev/null || leave_out "there is no $tool (apt install qemu-system-x86 busybox-static kmod cpio)"
done
[ "$(uname -m)" = x86_64 ] || leave_out "it runs this machine's binary in a virtual machine of x86-64"

work=$(mktemp -d)
kept=${1:-$work}
mkdir -p "$kept"
rm -f "$kept/serial"
# Processes to end with the test.
server= machine=
trap 'for id in $server $machine; do kill "$id" 2>/dev/null || true; done; rm -rf "$work"' EXIT

kernel=${NEARLIGHT_KERNEL:-}
if [ -z "$kernel" ]; then
  kernel=$target/kernel
  if ! ls "$kernel"/boot/vmlinuz-* >/dev/null 2>&1; then
    package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    [ -n "$package" ] || leave_out "no kernel: name a folder with one in NEARLIGHT_KERNEL"
    (cd "$work" && apt-get download -qq "$package" 2>/dev/null) || leave_out "the kernel cannot be downloaded"
    mkdir -p "$kernel" && dpkg-deb -x "$work/$package"*.deb "$kernel"
  fi
fi
image=$(ls "$kernel"/boot/vmlinuz-* | tail -n 1)
version=${image##*/vmlinuz-}
[ -e "$kernel/lib/modules/$version/modules.dep" ] || depmod -b "$kernel" "$version"

# The machine's files. /begin, which its /init sources, brings busybox's commands, what is under /proc, /sys and /dev, and `load MODULE`.
root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys,modules,tmp,etc}
cp "$(command -v busybox)" "$root/bin/busybox"
cat >"$root/begin" <<'END_OF_BEGIN'
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
exec </dev/null >/dev/ttyS0 2>&1
load() { for file in $(cat /modules/of-$1); do insmod /modules/$file 2>/dev/null; done; }
ip link set lo up
END_OF_BEGIN

# Copies kernel modules, and those that they need.
add_modules() {
  local module file
  for module in "$@"; do
    modprobe -d "$kernel" -S "$version" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p' | while read -r file; do
      cp -n "$file" "$root/modules/" && basename "$file" >>"$root/modules/of-$module"
    done
  done
}

# Starts the machine. Arguments: further parameters of the kernel, then of QEMU.
start_machine() {
  chmod +x "$root/init"
  (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initramfs"
  mkfifo "$work/monitor"
  local parameters=$1
  shift
  # no_timer_check: where this machine is busy, the emulated timer is too late for the kernel's check of it.
  qemu-system-x86_64 -machine accel="$accelerator" -cpu max -smp 2 -m 1024 -kernel "$image" -initrd "$work/initramfs" \
    -append "no_timer_check $parameters console=ttyS0 quiet panic=-1" -no-reboot -display none \
    -serial "file:$kept/serial" -monitor stdio "$@" <"$work/monitor" >"$work/monitor.log" 2>&1 &
  machine=$!
  # Commands for QEMU.
  exec 8>"$work/monitor"
}

# Waits until the machine prints this, five minutes or so many seconds.
wait_for() {
  for _ in $(seq $((${2:-300} * 2))); do
    grep -aqs -- "$1" "$kept/serial" && return
    kill -0 "$machine" 2>/dev/null || fail "the virtual machine ended before \"$1\": $(tail -2 "$work/monitor.log")"
    sleep 0.5
  done
  fail "\"$1\" did not come"
}
