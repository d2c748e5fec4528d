#!/usr/bin/env bash
# Gamepads of a served program by uinput, with a kernel that has it: a virtual machine (QEMU), whose files are this machine's, read-only, under a
# layer in memory, runs the test of `programs/display/tests/gamepads.rs` that is left out elsewhere. It starts a program built with SDL within
# its sandbox, and looks at which gamepad does what, and which one of the viewer's vibrates.
#
#   scripts/test-gamepads.sh [FOLDER]      builds what it runs. FOLDER keeps the log
#
# Needs what scripts/virtual-machine.sh does, and what served programs do: Xvfb, bubblewrap, and SDL 2. Left out, in words, where a tool is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/virtual-machine.sh
for tool in Xvfb bwrap cc; do
  command -v "$tool" >/dev/null || leave_out "there is no $tool (make test installs it)"
done
test=$(cargo test --release -p nearlight-display --test gamepads --no-run --message-format=json |
  sed -n 's/.*"name":"gamepads".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
[ -x "$test" ] || fail "the test was not built"
# A compiler is slow in an emulated machine.
cc -std=gnu99 -Wall -O1 cli/nearlight/tests/all/programs/program.c -o "$work/program" -ldl

add_modules virtio_pci 9p 9pnet_virtio overlay evdev uinput fuse
mkdir -p "$root"/{machine,layer,new}
cat >"$root/init" <<'END_OF_INIT'
#!/bin/busybox sh
. /begin
for module in virtio_pci 9p 9pnet_virtio overlay evdev uinput fuse; do load $module; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose machine /machine || echo "no files of the machine's"
mount -t tmpfs none /layer && mkdir /layer/files /layer/work
mount -t overlay -o lowerdir=/machine,upperdir=/layer/files,workdir=/layer/work none /new || echo "no layer"
cp /test /new/run-test
for folder in proc sys dev; do mount --move /$folder /new/$folder; done
exec switch_root /new /run-test
END_OF_INIT
cat >"$root/test" <<END_OF_TEST
#!/bin/bash
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root
mkdir -p /dev/shm && mount -t tmpfs none /dev/shm
# So that the display is there in time, as from a disk.
cat \$(command -v Xvfb xkbcomp bwrap) >/dev/null
NEARLIGHT_TEST_PROGRAM=$work/program "$test" --ignored
echo "status \$?"
echo o >/proc/sysrq-trigger
sleep 10
END_OF_TEST
chmod +x "$root/test"

start_machine "" -m 2048 -virtfs local,path=/,mount_tag=machine,security_model=none,readonly=on,multidevs=remap
wait_for '^status ' 1200
grep -aq '^test .* ok' "$kept/serial" || fail "the test has failed"
echo "$name: two gamepads were told apart, and each vibrated by itself ($accelerator)"
