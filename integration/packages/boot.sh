#!/bin/sh
# Boots systemd of the directory $1 as process 1. Call it as process 1 of fresh namespaces: mount, pid, cgroup, net, uts, ipc.
# All mounts end with the namespaces. The host's version 1 controllers are not there: systemd counts processes by a cgroup2
# of its own, and the kernel enforces no MemoryMax there.
set -eu
root=$1

mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 dev "$root/dev"
for name in null zero full random urandom tty; do
  touch "$root/dev/$name"
  mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for number in 0:stdin 1:stdout 2:stderr; do
  ln -s "/proc/self/fd/${number%:*}" "$root/dev/${number#*:}"
done
mount -t tmpfs -o mode=755 run "$root/run"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
ip link set lo up
mkdir -p "$root/.before"
cd "$root"
pivot_root . .before
umount -l /.before
rmdir /.before
exec env -i container=gf-i2p PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=journal
