#!/usr/bin/env bash
# `nearlight view --drm` on a display without a window system: in a virtual machine (QEMU) with a graphics card, a keyboard and a mouse, whose
# pictures are read back, against a server of this machine. The machine is emulated (NEARLIGHT_ACCELERATOR=kvm is quicker), which takes two minutes.
#
#   scripts/test-drm.sh [FOLDER]      after `cargo build --release`; NEARLIGHT_BIN names another binary. FOLDER keeps the pictures and the log
#
# Needs qemu-system-x86, busybox-static, kmod and cpio, and a kernel: NEARLIGHT_KERNEL names a folder with boot/vmlinuz-* and lib/modules
# (`dpkg-deb -x linux-image-*.deb FOLDER`), else Debian's is downloaded (70 MB), not installed. Left out, in words, where a tool is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
nearlight=${NEARLIGHT_BIN:-$target/release/nearlight}

leave_out() {
  echo "test-drm: left out: $*" >&2
  exit 0
}
for tool in qemu-system-x86_64 busybox modprobe cpio; do
  command -v "$tool" >/dev/null || leave_out "there is no $tool (apt install qemu-system-x86 busybox-static kmod cpio)"
done
[ "$(uname -m)" = x86_64 ] || leave_out "it runs this machine's binary in a virtual machine of x86-64"

work=$(mktemp -d)
kept=${1:-$work}
mkdir -p "$kept"
server= machine=
trap 'for id in $server $machine; do kill "$id" 2>/dev/null || true; done; rm -rf "$work"' EXIT
fail() {
  echo "test-drm: $*" >&2
  [ -s "$kept/serial" ] && tail -25 "$kept/serial" >&2
  exit 1
}

# --- the kernel -----------------------------------------------------------------------------------------------------------------
kernel=${NEARLIGHT_KERNEL:-}
if [ -z "$kernel" ]; then
  kernel=$target/drm-kernel
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

# --- the server -----------------------------------------------------------------------------------------------------------------
"$nearlight" serve --json --port 0 --test-card --size 320x180 --fps 5 --sound off >"$work/links" 2>"$work/log" &
server=$!
for _ in $(seq 100); do
  grep -qs url "$work/links" && break
  kill -0 "$server" || { cat "$work/log" >&2; exit 1; }
  sleep 0.1
done
# QEMU's network forwards this address to the machine's own.
link=$(sed -n 's/.*"url":"\([^"]*\)".*/\1/p' "$work/links" | sed 's#//[^/:]*:#//10.0.2.2:#')

# --- the virtual machine's files ------------------------------------------------------------------------------------------------
root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys,modules,tmp,etc}
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$nearlight" "$root/nearlight"
strip "$root/nearlight" 2>/dev/null || true
ldd "$nearlight" | grep -o '/[^ ]*' | while read -r library; do
  mkdir -p "$root$(dirname "$library")" && cp -L "$library" "$root$library"
done
echo 'user:x:1000:1000::/:/bin/sh' >"$root/etc/passwd"
for module in e1000 evdev psmouse virtio_pci virtio_gpu; do
  modprobe -d "$kernel" -S "$version" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p' | while read -r file; do
    cp -n "$file" "$root/modules/" && basename "$file" >>"$root/modules/of-$module"
  done
done
printf '%s\n' "$link" >"$root/link"
cat >"$root/init" <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin RUST_LOG=info
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
exec </dev/null >/dev/ttyS0 2>&1
load() { for file in $(cat /modules/of-$1); do insmod /modules/$file 2>/dev/null; done; }
for module in e1000 evdev psmouse virtio_pci; do load $module; done
ip link set lo up; ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; ip route add default via 10.0.2.2
link=$(cat /link)
view() { /nearlight view "$link" "$@" 2>&1; status=$?; echo "status $status"; }
# Where this machine is busy, the emulated one may not show a picture within the viewer's limit (status 3).
show() { for try in 1 2 3 4; do view --send "report input" --print-messages --json "$@"; [ $status = 3 ] || break; done; }
echo "stage no card"; view --drm
load virtio_gpu; sleep 1
clear >/dev/tty1; echo "what the console shows" >/dev/tty1
chmod 755 /dev/dri; chmod 660 /dev/dri/card0
echo "stage no permission"; su user -c "/nearlight view '$link' --drm 2>&1"
echo "stage other connector"; view --drm --connector HDMI-A-9
echo "stage show"
show --drm=/dev/dri/card0 &
sleep 10
echo "stage in use"; view --drm
wait
echo "stage restored"; sleep 3
echo "stage terminate"
/nearlight view "$link" --drm --send "report input" --print-messages --json 2>&1 &
viewer=$!; sleep 12; kill -TERM $viewer; wait $viewer; echo "status $?"
echo "stage terminated"; sleep 3
echo "stage over"; poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initramfs"

# --- the virtual machine --------------------------------------------------------------------------------------------------------
mkfifo "$work/monitor"
# Emulated: /dev/kvm works on few machines of continuous integration.
accelerator=${NEARLIGHT_ACCELERATOR:-tcg}
start() {
  # no_timer_check: where this machine is busy, the emulated timer is too late for the kernel's check of it.
  qemu-system-x86_64 -machine accel="$accelerator" -cpu max -smp 2 -m 1024 -kernel "$image" -initrd "$work/initramfs" \
    -append "no_timer_check console=tty0 console=ttyS0 quiet panic=-1 vt.global_cursor_default=0" -no-reboot \
    -vga none -device virtio-gpu-pci,xres=800,yres=600 -nic user,model=e1000 \
    -display none -serial "file:$kept/serial" -monitor stdio <"$work/monitor" >"$work/monitor.log" 2>&1 &
  machine=$!
}
rm -f "$kept/serial"
start
exec 8>"$work/monitor"
wait_for() {
  for _ in $(seq 600); do
    grep -aqs -- "$1" "$kept/serial" && return
    kill -0 "$machine" 2>/dev/null || fail "the virtual machine ended before \"$1\": $(tail -2 "$work/monitor.log")"
    sleep 0.5
  done
  fail "\"$1\" did not come"
}
picture() {
  rm -f "$kept/$1.ppm"
  echo "screendump $kept/$1.ppm" >&8
  for _ in $(seq 50); do [ -s "$kept/$1.ppm" ] && break; sleep 0.1; done
  sleep 0.3
}
colours() { tail -n +4 "$kept/$1.ppm" | od -An -v -tx1 -w3 | sort -u | wc -l; }

wait_for "stage no card"
wait_for "/dev/dri has no card"
wait_for "no permission to open /dev/dri/card0"
wait_for "HDMI-A-9 has no display (/dev/dri/card0: Virtual-1 has a display)"
wait_for "stage show"
for _ in $(seq 60); do
  picture stream
  [ "$(colours stream)" -gt 10 ] && break
  sleep 1
done
[ "$(colours stream)" -gt 10 ] || fail "the display shows $(colours stream) colours"
wait_for "another program controls the display of /dev/dri/card0"
echo "sendkey w" >&8
wait_for 'key 0x07001a down'
# A button that is released before the machine has read its mouse was never pressed.
for _ in $(seq 10); do
  echo "mouse_move 4 2" >&8
  for pressed in 1 0; do echo "mouse_button $pressed" >&8; sleep 2; done
  grep -aqs 'button [0-9]* down' "$kept/serial" && break
done
wait_for 'button [0-9]* down'
picture input
echo "sendkey ctrl-c" >&8
wait_for "stage restored"
picture restored
[ "$(colours restored)" -le 4 ] || fail "after Ctrl+C the console is not shown again"
wait_for "stage terminated"
picture terminated
[ "$(colours terminated)" -le 4 ] || fail "after SIGTERM the console is not shown again"
wait_for "stage over"
grep -a '"frames"' "$kept/serial" | sed -n 's/.*"displayed":\([0-9]*\).*/test-drm: \1 pictures displayed/p'
[ "$(grep -ac '^status 0' "$kept/serial")" -eq 2 ] || fail "both viewers should end with status 0"
echo "test-drm: shown, steered and ended, and the console restored ($accelerator)"
