#!/usr/bin/env bash
# `nearlight view --drm` on a display without a window system: in a virtual machine (QEMU) with a graphics card, a keyboard and a mouse, whose
# pictures are read back, against a server of this machine. The machine is emulated (NEARLIGHT_ACCELERATOR=kvm is quicker), which takes two minutes.
#
#   scripts/test-drm.sh [FOLDER]      after `cargo build --release`; NEARLIGHT_BIN names another binary. FOLDER keeps the pictures and the log
#
# Needs what scripts/virtual-machine.sh does. Left out, in words, where a tool is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/virtual-machine.sh
nearlight=${NEARLIGHT_BIN:-$target/release/nearlight}

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
cp "$nearlight" "$root/nearlight"
strip "$root/nearlight" 2>/dev/null || true
ldd "$nearlight" | grep -o '/[^ ]*' | while read -r library; do
  mkdir -p "$root$(dirname "$library")" && cp -L "$library" "$root$library"
done
echo 'user:x:1000:1000::/:/bin/sh' >"$root/etc/passwd"
add_modules e1000 evdev psmouse virtio_pci virtio_gpu
printf '%s\n' "$link" >"$root/link"
cat >"$root/init" <<'END'
#!/bin/busybox sh
. /begin
export RUST_LOG=info
for module in e1000 evdev psmouse virtio_pci; do load $module; done
ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; ip route add default via 10.0.2.2
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

# --- the virtual machine --------------------------------------------------------------------------------------------------------
start_machine "console=tty0 vt.global_cursor_default=0" -vga none -device virtio-gpu-pci,xres=800,yres=600 \
  -nic user,model=e1000
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
