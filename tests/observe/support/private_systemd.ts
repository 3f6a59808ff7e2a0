/**
 * A systemd of the test's own: the distribution's systemd as PID 1 of new namespaces (PID, mount,
 * cgroup, UTS, network).
 *
 * It shares the host's kernel and files, so it gets no chance to do harm: every mount of the host
 * is read-only in it, it has a /tmp, /var, /run and /opt of its own, and it knows no units but its
 * own. The distribution's units must stay out: systemd-tmpfiles alone would empty the host's /tmp.
 */
import { run } from "../../support/command.ts";
import { eventually } from "../../support/eventually.ts";

/** A booted systemd. */
export interface PrivateSystemd extends AsyncDisposable {
  /** Runs a program beside it; gives its standard output, or throws with what it said. */
  run(program: string, ...parameters: string[]): Promise<string>;
  /** Values that `systemctl show` gives for these properties. */
  show(unit: string, ...properties: string[]): Promise<Record<string, string>>;
}

const INIT = "/lib/systemd/systemd";

/**
 * Covers the host's files, then becomes systemd. Its parameters are the Deno program and the
 * checkout, which show up in /opt; they are opened first, as they may lie in what gets covered.
 * `container` makes systemd leave the kernel's settings alone.
 */
const BOOT = `
set -e
exec 3< "$1" 4< "$2"
mount --make-rprivate /
mount -o remount,bind,ro /
awk '$2 !~ "^/(proc|dev/pts|sys/fs/cgroup|tmp|var|run|opt)(/|$)" { print $2 }' /proc/self/mounts |
  while read -r path; do mount -o remount,bind,ro "$path"; done
for path in /tmp /var /run /opt /etc/systemd/system /lib/systemd/system; do mount -t tmpfs tmpfs $path; done
mkdir -p /var/tmp /var/lib /run/systemd/system /run/lock /opt/checkout
touch /opt/deno
mount -c --bind /proc/self/fd/3 /opt/deno
mount -c --bind /proc/self/fd/4 /opt/checkout
exec 3<&- 4<&-
mount -t proc proc /proc
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for target in sysinit basic network multi-user shutdown; do
  printf '[Unit]\\nDefaultDependencies=no\\n' > /etc/systemd/system/$target.target
done
exec env -i container=signpost-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
  SYSTEMD_UNIT_PATH=/etc/systemd/system:/lib/systemd/system \\
  ${INIT} --system --unit=multi-user.target --log-target=null --show-status=no
`;

/** Returns true if this machine lets us: root, systemd installed, namespaces and cgroups permitted. */
export async function canRunSystemd(): Promise<boolean> {
  try {
    await Deno.stat(INIT);
    const cgroup = await makeCgroup();
    await Deno.remove(cgroup);
    await run(["unshare", "-pfmCun", "--mount-proc", "true"]);
    return true;
  } catch {
    return false;
  }
}

/**
 * Boots; dispose of it to end all of its processes.
 *
 * @param checkout shows up as /opt/checkout, the running Deno as /opt/deno
 */
export async function bootSystemd(checkout: string): Promise<PrivateSystemd> {
  const cgroup = await makeCgroup();
  const enter = `echo $$ > ${cgroup}/cgroup.procs
    exec unshare -pfmCun --kill-child sh -c "$0" sh "$1" "$2"`;
  const args = ["-c", enter, BOOT, Deno.execPath(), checkout];
  const host = new Deno.Command("sh", { args, stdin: "null" }).spawn();
  const systemd: PrivateSystemd = {
    run: async (...argv) => {
      const init = await childOf(host.pid);
      return run(["nsenter", "-t", String(init), "-m", "-p", "-C", "-u", "-n", ...argv]);
    },
    show: async (unit, ...properties) => {
      const text = await systemd.run("systemctl", "show", "-p", properties.join(","), unit);
      return Object.fromEntries(
        text.trim().split("\n").map((line) => {
          const [name = "", ...value] = line.split("=");
          return [name, value.join("=")];
        }),
      );
    },
    [Symbol.asyncDispose]: async () => {
      try {
        host.kill("SIGKILL"); // --kill-child takes PID 1 along, and the kernel all the others.
      } catch {
        // It has ended by itself.
      }
      await host.status;
      await eventually("its cgroup to be empty", () => removeCgroup(cgroup));
    },
  };
  try {
    await eventually("systemd to be up", async () => {
      const state = await systemd.run("systemctl", "show", "-p", "SystemState").catch(() => "");
      return /SystemState=(running|degraded)/.test(state);
    });
    return systemd;
  } catch (error) {
    await systemd[Symbol.asyncDispose]();
    throw error;
  }
}

async function makeCgroup(): Promise<string> {
  const mounts = await Deno.readTextFile("/proc/mounts");
  const mount = mounts.split("\n").map((line) => line.split(" ")).find((parts) =>
    parts[2] === "cgroup2"
  );
  const own = /^0::(.*)$/m.exec(await Deno.readTextFile("/proc/self/cgroup"))?.[1];
  if (!mount?.[1] || own === undefined) throw new Error("no cgroup2 here");
  const path = `${mount[1]}${own}/signpost-observe-${crypto.randomUUID()}`;
  await Deno.mkdir(path);
  return path;
}

/** Cgroups are removed from the leaves up; @returns whether nothing is left. */
async function removeCgroup(path: string): Promise<boolean> {
  try {
    for await (const { name, isDirectory } of Deno.readDir(path)) {
      if (isDirectory && !await removeCgroup(`${path}/${name}`)) return false;
    }
    await Deno.remove(path);
    return true;
  } catch (error) {
    return error instanceof Deno.errors.NotFound;
  }
}

async function childOf(pid: number): Promise<number> {
  const children = await Deno.readTextFile(`/proc/${pid}/task/${pid}/children`);
  const child = Number(children.trim().split(" ")[0]);
  if (!child) throw new Error(`process ${pid} has no child yet`);
  return child;
}
