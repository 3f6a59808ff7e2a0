/** The neighbours: programs that share a node's kernel with signpost. @module */
import type { ApiObject } from "../../tests/support/api_store.ts";
import type { BuildOptions } from "../go.ts";

/** A program beside signpost. Scripts run in bash in the node. */
export interface Neighbour {
  /** Its Debian packages. The first one has its version. */
  readonly packages?: readonly string[];
  /** Its programs that are Go packages, for `/usr/local/bin`. */
  readonly programs?: readonly string[];
  readonly build?: BuildOptions;
  /** API objects that it reads. */
  readonly objects?: readonly ApiObject[];
  /** The version of recorded rules. */
  readonly version?: string;
  /** Before anything starts. */
  readonly prepare?: string;
  readonly start: string;
  /** Further stages in order, by name. */
  readonly stages?: Readonly<Record<string, string>>;
  readonly stop: string;
}

/** A systemd unit; a package with its name has it. */
interface UnitOptions extends Partial<Neighbour> {
  /** Waits after each start, and fails if the unit does not run. */
  readonly ready?: string;
  /** Its command for systemd-run, if no package has the unit. */
  readonly command?: string;
}

/** Starts, restarts and stops a systemd unit and its socket. */
function unit(name: string, { ready = "", command, prepare = "", ...more }: UnitOptions) {
  const begin = command === undefined
    ? `systemctl start ${name}`
    : `systemd-run -q --unit=${name} ${command}`;
  return {
    packages: command === undefined ? [name] : [],
    prepare: `systemctl stop '${name}.*'\n${prepare}`,
    start: `${begin}\n${ready}`,
    stages: { restart: `systemctl restart ${name}\n${ready}` },
    stop: `systemctl stop '${name}.*'`,
    ...more,
  };
}

/** Makes an image of busybox alone, by the command that takes an archive. */
const IMAGE = "tar -C / -c bin/busybox |";
const ANSWER = "busybox sh -c 'while true; do echo container | busybox nc -l -p 80; done'";

const DOCKER = unit("docker", {
  packages: ["docker.io", "busybox-static"],
  start: `systemctl start docker
${IMAGE} docker import - image
docker run -d --name web -p 8088:80 image ${ANSWER}`,
  // containerd may still have the task of a container that the daemon's end has killed.
  stages: { restart: "docker stop -t 0 web; systemctl restart docker; docker start web" },
  stop: "docker rm -f web; systemctl stop 'docker.*'",
});

/** Publishes port 8088 for a pod. @param backend of the rules */
function portmap(backend: "iptables" | "nftables"): Neighbour {
  const call = (command: "ADD" | "DEL") =>
    `CNI_COMMAND=${command} CNI_CONTAINERID=pod1 CNI_NETNS=/run/netns/pod1 CNI_IFNAME=eth0 \
CNI_PATH=/usr/local/bin portmap <<'CALL'
{"cniVersion": "1.0.0", "name": "pods", "type": "portmap", "backend": "${backend}",
 "capabilities": {"portMappings": true}, "snat": true,
 "runtimeConfig": {"portMappings": [{"hostPort": 8088, "containerPort": 8080, "protocol": "tcp"}]},
 "prevResult": {"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/run/netns/pod1"}],
 "ips": [{"address": "10.244.0.11/24", "interface": 0}, {"address": "fd44::11/64", "interface": 0}]}}
CALL`;
  return {
    programs: ["github.com/containernetworking/plugins/plugins/meta/portmap@v1.10.0"],
    prepare: "ip netns add pod1",
    start: call("ADD"),
    stages: { again: `${call("DEL")}\n${call("ADD")}` },
    stop: call("DEL"),
  };
}

const TENCENT = "github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud";

/** Runs flanneld with a store of its own. nft writes the rules of vxlan. */
function flannel(backend: "host-gw" | "vxlan"): Neighbour {
  return unit("flannel", {
    packages: ["etcd-server", "etcd-client"],
    programs: ["github.com/flannel-io/flannel@v0.28.4"],
    build: { hasC: true, newer: [`${TENCENT}/common@v1.3.211`] },
    prepare: `export ETCDCTL_API=3; until etcdctl endpoint health; do sleep 1; done
etcdctl put /coreos.com/network/config '{"Network": "10.244.0.0/16", "SubnetMin": "10.244.0.0",
  "EnableNFTables": ${backend === "vxlan"}, "Backend": {"Type": "${backend}"}}'
mkdir -p /run/flannel; echo FLANNEL_SUBNET=10.244.0.1/24 > /run/flannel/subnet.env`,
    command: "flannel --iface=api --ip-masq",
    ready: `sleep 4; nft list ruleset | grep -i "flannel-"`,
  });
}

const POLICY = { podSelector: {}, policyTypes: ["Ingress"], ingress: [{}] };
const NODE_1 = { matchLabels: { "kubernetes.io/hostname": "node-1" } };
const METALLB = { namespace: "metallb", name: "speaker" };
const TAILSCALE_UP =
  "tailscale up --login-server=http://127.0.0.1:9911 --accept-dns=false --timeout=20s";

/** All neighbours by name. */
export const NEIGHBOURS: Readonly<Record<string, Neighbour>> = {
  "firewalld": unit("firewalld", {
    ready: "firewall-cmd --state",
    stages: {
      "reload": "firewall-cmd --reload",
      "complete reload": "firewall-cmd --complete-reload",
      "restart": "systemctl restart firewalld",
      "ports open, pods trusted":
        `firewall-cmd --permanent --zone=public --add-port={30000-32767/{tcp,udp},8080/tcp}
firewall-cmd --permanent --zone=trusted --add-source={10.244.0.0/16,fd44::/48}
firewall-cmd --reload`,
    },
  }),
  "ufw": unit("ufw", {
    start: "ufw --force enable",
    stages: {
      "reload": "ufw reload",
      "forwarding allowed": "ufw default allow routed; ufw allow 8080/tcp; ufw allow 32083/tcp",
    },
    stop: "ufw --force disable",
  }),
  "nftables.service": unit("nftables", {
    packages: [],
    prepare: `cat > /etc/nftables.conf <<'RULES'
flush ruleset
table inet filter {
  chain input { type filter hook input priority 0; policy accept; ct state invalid drop; }
}
RULES`,
    stages: {
      "restart": "systemctl restart nftables",
      "flush": "nft flush ruleset",
      "restart again": "systemctl restart nftables",
    },
  }),
  "netfilter-persistent": unit("netfilter-persistent", {
    packages: ["netfilter-persistent", "iptables-persistent"],
    start: "iptables -A INPUT -i lo -j ACCEPT; netfilter-persistent save",
    stop: "netfilter-persistent flush",
  }),
  "fail2ban": unit("fail2ban", {
    packages: ["fail2ban", "python3-systemd"],
    prepare: `touch /var/log/auth.log
cat > /etc/fail2ban/jail.d/defaults-debian.conf <<'JAILS'
[sshd]
enabled = true
backend = polling
banaction = nftables-multiport
JAILS`,
    ready: "sleep 2; fail2ban-client set sshd banip 192.0.2.77",
  }),
  "docker": DOCKER,
  // Docker sets FORWARD to DROP only if it is the one who switches forwarding on.
  "docker-drop": {
    ...DOCKER,
    start: `sysctl -qw net.ipv4.ip_forward=0\n${DOCKER.start}`,
    stages: {
      ...DOCKER.stages,
      "DNAT accepted": "iptables -I DOCKER-USER -m conntrack --ctstate DNAT -j ACCEPT",
    },
  },
  "podman": {
    packages: ["podman", "netavark", "crun", "busybox-static"],
    prepare: `mkdir -p /etc/containers
printf '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n[network]\nnetwork_backend = "netavark"\n' > /etc/containers/containers.conf
printf '[storage]\ndriver = "vfs"\nrunroot = "/run/containers/storage"\ngraphroot = "/var/lib/containers/storage"\n' > /etc/containers/storage.conf`,
    start: `${IMAGE} podman import - image
podman run -d --name web --cgroups=disabled -p 8088:80 image ${ANSWER}`,
    stages: { reload: "podman network reload --all" },
    stop: "podman rm -f -t 0 web",
  },
  "portmap": portmap("iptables"),
  "portmap-nftables": portmap("nftables"),
  "flannel": flannel("host-gw"),
  "flannel-vxlan": flannel("vxlan"),
  // Policies alone, as in k3s. Its rules for IPv6 name ipsets that it does not make.
  "kube-router": unit("kube-router", {
    programs: ["github.com/cloudnativelabs/kube-router/v2/cmd/kube-router@v2.1.0"],
    objects: [
      { kind: "Namespace", metadata: { name: "shop" } },
      ...["10.244.0.11", "10.244.0.12"].map((podIP, i) => ({
        kind: "Pod",
        metadata: { namespace: "shop", name: `pod${i + 1}` },
        status: { phase: "Running", podIP, podIPs: [{ ip: podIP }], hostIP: "192.168.77.2" },
      })),
      { kind: "NetworkPolicy", metadata: { namespace: "shop", name: "all" }, spec: POLICY },
    ],
    command: `kube-router --kubeconfig=/etc/proxy/kubeconfig \\
  --hostname-override=node-1 --run-router=false --run-service-proxy=false \\
  --service-cluster-ip-range=10.96.0.0/16 --service-external-ip-range=203.0.113.0/24`,
    ready: "sleep 6; iptables -S | grep KUBE-POD-FW",
  }),
  "metallb": unit("metallb", {
    programs: ["go.universe.tf/metallb/speaker@v0.15.2"],
    objects: [
      { kind: "Pod", metadata: METALLB },
      { kind: "L2Advertisement", metadata: METALLB, spec: { nodeSelectors: [NODE_1] } },
      { kind: "IPAddressPool", metadata: METALLB, spec: { addresses: ["203.0.113.0/24"] } },
    ],
    command: `--setenv=KUBECONFIG=/etc/proxy/kubeconfig speaker \\
  --namespace=metallb --node-name=node-1 --pod-name=speaker`,
    // It may look at the Services before it knows the node, and then announces none of them.
    ready: `timeout 60 bash -c 'until sleep 6; journalctl -u metallb | grep serviceAnnounced
do systemctl restart metallb; done'`,
  }),
  // testcontrol is Tailscale's control server for tests.
  "tailscale": unit("tailscaled", {
    programs: ["tailscaled", "tailscale", "testcontrol"].map((name) =>
      `tailscale.com/cmd/${name}@v1.100.0`
    ),
    prepare: "systemd-run -q --unit=control testcontrol",
    command: "--setenv=TS_NO_LOGS_NO_SUPPORT=true tailscaled --state=mem:",
    ready: `sleep 2; ${TAILSCALE_UP}; nft list ruleset | grep 'chain ts-'`,
    stop: "tailscale down; systemctl stop tailscaled",
  }),
  "lxd": unit("lxd", {
    packages: ["lxd", "dnsmasq-base"],
    ready: `lxd waitready --timeout=30
lxc network show lxdbr0 || lxc network create lxdbr0 ipv4.address=10.99.0.1/24 ipv4.nat=true ipv6.address=none`,
    stop: "lxc network delete lxdbr0; systemctl stop 'lxd.*'",
  }),
  // The rules of node-cache 1.23 with its defaults: its program needs a running cluster DNS.
  "nodelocaldns": {
    version: "1.23",
    start: `ip link add nodelocaldns type bridge; ip address add 169.254.20.10/32 dev nodelocaldns
for protocol in udp tcp; do
  iptables -t raw -A PREROUTING -d 169.254.20.10/32 -p $protocol --dport 53 -j NOTRACK
  iptables -t raw -A OUTPUT -d 169.254.20.10/32 -p $protocol --dport 53 -j NOTRACK
  iptables -t raw -A OUTPUT -s 169.254.20.10/32 -p $protocol --sport 53 -j NOTRACK
  iptables -A INPUT -d 169.254.20.10/32 -p $protocol --dport 53 -j ACCEPT
  iptables -A OUTPUT -s 169.254.20.10/32 -p $protocol --sport 53 -j ACCEPT
done`,
    stop: "ip link delete nodelocaldns; iptables -t raw -F",
  },
  "bird": unit("bird", {
    packages: ["bird2"],
    prepare: `cat > /etc/bird/bird.conf <<'ROUTES'
router id 192.168.77.2;
protocol device {}
protocol kernel { ipv4 { export all; }; }
protocol static { ipv4; route 10.98.0.0/16 via "api"; }
protocol bgp test { local as 64512; neighbor 192.168.77.3 as 64513; ipv4 { import all; export all; }; }
ROUTES`,
    ready: "sleep 3; ip route | grep 10.98.0.0/16",
  }),
  "libvirt": unit("libvirtd", {
    packages: ["libvirt-daemon-system", "dnsmasq-base"],
    start: "systemctl start libvirtd; virsh net-start default",
    stop: "virsh net-destroy default; systemctl stop 'libvirtd.*'",
  }),
  "keepalived": unit("keepalived", {
    prepare: `cat > /etc/keepalived/keepalived.conf <<'VRRP'
vrrp_instance test {
  state MASTER
  interface eth0
  virtual_router_id 51
  virtual_ipaddress {
    203.0.113.86/32 dev eth0
  }
}
VRRP`,
    ready: "sleep 4; ip -brief address show eth0 | grep 203.0.113.86",
  }),
  "haproxy": unit("haproxy", {
    prepare: `cat > /etc/haproxy/haproxy.cfg <<'PROXY'
defaults
  mode tcp
listen test
  bind *:10444
  server remote 10.96.0.12:80
PROXY`,
  }),
};
