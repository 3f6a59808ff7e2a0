#!/bin/bash
# boot.sh FOLDER LOWER CHECKOUT DENO CACHE: boots systemd as PID 1 on an overlay of LOWER, in this network namespace.
#
# The caller has made new mount, PID, UTS and IPC namespaces (unshare -mpui --fork). FOLDER takes what the node writes, and
# names its cgroup. The checkout and Deno are mounted at their own paths, read-only.
set -eu
folder=$1 lower=$2 checkout=$3 deno=$4 cache=$5
root=$folder/root
mount --make-rprivate /
mkdir -p "$folder/upper" "$folder/work" "$folder/large" "$root"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$folder/upper,workdir=$folder/work" "$root"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir -p "$root/run/lock"
mount -t tmpfs tmpfs "$root/tmp"
for path in "$checkout" "$deno" "$cache"; do
  mkdir -p "$root$path"
  mount --bind "$path" "$root$path"
done
# Container engines want a file system that can hold an overlay.
for path in /var/lib/docker /var/lib/containers; do
  mkdir -p "$root$path" "$folder/large$path"
  mount --bind "$folder/large$path" "$root$path"
done
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys/net" "$root/proc/sys/net"
mount --rbind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
# systemd removes empty cgroups, and would remove those of another node.
mkdir "$folder/cgroups"
mount -t cgroup2 cgroup2 "$folder/cgroups"
mkdir "$folder/cgroups/${folder##*/}"
echo 0 > "$folder/cgroups/${folder##*/}/cgroup.procs"
mount --bind "$folder/cgroups/${folder##*/}" "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root"/dev/{net,pts,shm}
for device in null zero full random urandom tty kmsg net/tun; do
  [ -e "/dev/$device" ] || continue
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs tmpfs "$root/dev/shm"
units=$root/etc/systemd/system
for unit in systemd-{sysctl,udevd,udev-trigger,modules-load,binfmt,random-seed,timesyncd,logind,tmpfiles-clean}.service \
  {console-getty,getty@,e2scrub_reap}.service {apt-daily,apt-daily-upgrade,dpkg-db-backup,fstrim,e2scrub_all}.timer \
  proc-sys-fs-binfmt_misc.automount systemd-udevd-{kernel,control}.socket; do
  ln -sf /dev/null "$units/$unit"
done
ln -sf /lib/systemd/system/multi-user.target "$units/default.target"
mkdir -p "$root/etc/systemd/system.conf.d"
printf '[Manager]\nDefaultTimeoutStopSec=10s\n' > "$root/etc/systemd/system.conf.d/neighbours.conf"
echo node-1 > "$root/etc/hostname"
echo 127.0.0.1 localhost node-1 > "$root/etc/hosts"
cd "$root"
mkdir -p .old
pivot_root . .old
umount -l /.old
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  unshare -C /lib/systemd/systemd --system --log-target=journal --show-status=no
