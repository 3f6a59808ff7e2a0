/**
 * The neighbours: programs that share a node's kernel with signpost.
 *
 * @module
 */
import type { ApiObject } from "../../tests/support/api_store.ts";
import type { BuildOptions } from "../go.ts";

/** A program beside signpost. Scripts run in bash in the node. */
export interface Neighbour {
  /** Its Debian packages. */
  readonly packages?: readonly string[];
  /** Its programs that are Go packages, for `/usr/local/bin`. */
  readonly programs?: readonly string[];
  readonly build?: BuildOptions;
  /** API objects that it reads. */
  readonly objects?: readonly ApiObject[];
  /** Prints its version. */
  readonly version: string;
  /** Before anything starts. */
  readonly prepare?: string;
  readonly start: string;
  /** Further stages in order, by name. */
  readonly stages?: Readonly<Record<string, string>>;
  readonly stop: string;
  /** Settings of the network namespace, by the arguments of sysctl, before it starts. */
  readonly sysctls?: readonly string[];
}

const IMAGE = `mkdir -p /tmp/image/bin
cp /bin/busybox /tmp/image/bin/
for name in sh nc sleep; do ln -sf busybox /tmp/image/bin/$name; done
`;
const ANSWER = "sh -c 'while true; do echo container | nc -l -p 80; done'";

const DOCKER: Neighbour = {
  packages: ["docker.io", "busybox-static"],
  version: "dockerd --version",
  prepare: "systemctl disable --now docker.socket docker containerd",
  start: `systemctl start containerd docker
${IMAGE}tar -C /tmp/image -c . | docker import - image
docker run -d --name web -p 8088:80 image ${ANSWER}`,
  // containerd may still have the task of a container that the daemon's end has killed.
  stages: { restart: "docker stop -t 0 web; systemctl restart docker; docker start web" },
  stop: "docker rm -f web; systemctl stop docker.socket docker",
};

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
    version: "echo 1.10.0",
    prepare: "ip netns add pod1",
    start: call("ADD"),
    stages: { again: `${call("DEL")}\n${call("ADD")}` },
    stop: call("DEL"),
  };
}

const TENCENT = "github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud";

/** Runs flanneld with a store of its own. nft writes the rules of vxlan. */
function flannel(backend: "host-gw" | "vxlan"): Neighbour {
  const network = {
    Network: "10.244.0.0/16",
    SubnetMin: "10.244.0.0",
    EnableNFTables: backend === "vxlan",
    Backend: { Type: backend },
  };
  return {
    packages: ["etcd-server", "etcd-client"],
    programs: ["github.com/flannel-io/flannel@v0.28.4"],
    build: { hasC: true, newer: [`${TENCENT}/common@v1.3.211`] },
    version: "echo 0.28.4",
    prepare: `export ETCDCTL_API=3; until etcdctl endpoint health; do sleep 1; done
etcdctl put /coreos.com/network/config '${JSON.stringify(network)}'
mkdir -p /run/flannel; echo FLANNEL_SUBNET=10.244.0.1/24 > /run/flannel/subnet.env`,
    start: `systemd-run -q --unit=flannel flannel --iface=api --ip-masq
sleep 4; nft list ruleset | grep -i "flannel-"`,
    stages: { restart: "systemctl restart flannel; sleep 4" },
    stop: "systemctl stop flannel",
  };
}

const NODE_1 = { matchLabels: { "kubernetes.io/hostname": "node-1" } };
const METALLB = { namespace: "metallb", name: "speaker" };
const TAILSCALE_UP =
  "tailscale up --login-server=http://127.0.0.1:9911 --accept-dns=false --timeout=20s";

/** All neighbours by name. */
export const NEIGHBOURS: Readonly<Record<string, Neighbour>> = {
  firewalld: {
    packages: ["firewalld"],
    version: "firewall-cmd --version",
    prepare: "systemctl disable --now firewalld",
    start: "systemctl start firewalld; firewall-cmd --state",
    stages: {
      "reload": "firewall-cmd --reload",
      "complete reload": "firewall-cmd --complete-reload",
      "restart": "systemctl restart firewalld",
      "ports open, pods trusted": `firewall-cmd --permanent --zone=public --add-port=30000-32767/tcp
firewall-cmd --permanent --zone=public --add-port=30000-32767/udp --add-port=6444/tcp
for source in 10.244.0.0/16 fd44::/48; do firewall-cmd --permanent --zone=trusted --add-source=$source; done
firewall-cmd --reload`,
    },
    stop: "systemctl stop firewalld",
  },
  ufw: {
    packages: ["ufw"],
    version: "ufw version | head -n 1",
    start: "ufw --force enable",
    stages: {
      "reload": "ufw reload",
      "forwarding allowed": "ufw default allow routed; ufw allow 6444/tcp; ufw allow 32083/tcp",
    },
    stop: "ufw --force disable",
  },
  "nftables.service": {
    version: "nft --version",
    prepare: `cat > /etc/nftables.conf <<'RULES'
flush ruleset
table inet filter {
  chain input { type filter hook input priority 0; policy accept; ct state invalid drop; }
}
RULES`,
    start: "systemctl start nftables",
    stages: {
      "restart": "systemctl restart nftables",
      "flush": "nft flush ruleset",
      "restart again": "systemctl restart nftables",
    },
    stop: "systemctl stop nftables",
  },
  "netfilter-persistent": {
    packages: ["netfilter-persistent", "iptables-persistent"],
    version: "dpkg-query -W -f '\${Version}' netfilter-persistent",
    start: "iptables -A INPUT -i lo -j ACCEPT; netfilter-persistent save",
    stages: { restart: "systemctl restart netfilter-persistent" },
    stop: "netfilter-persistent flush",
  },
  fail2ban: {
    packages: ["fail2ban", "python3-systemd"],
    version: "fail2ban-client --version",
    prepare: `systemctl disable --now fail2ban
touch /var/log/test.log
cat > /etc/fail2ban/jail.d/defaults-debian.conf <<'JAILS'
[sshd]
enabled = false
[test]
enabled = true
filter = sshd
logpath = /var/log/test.log
backend = polling
port = 0:65535
banaction = nftables-multiport
JAILS`,
    start: "systemctl start fail2ban; sleep 2; fail2ban-client set test banip 192.0.2.77",
    stages: { restart: "systemctl restart fail2ban" },
    stop: "systemctl stop fail2ban",
  },
  docker: DOCKER,
  // Docker sets FORWARD to DROP only if it is the one who switches forwarding on.
  "docker-drop": {
    ...DOCKER,
    sysctls: ["net.ipv4.ip_forward=0"],
    stages: {
      ...DOCKER.stages,
      "DNAT accepted": "iptables -I DOCKER-USER -m conntrack --ctstate DNAT -j ACCEPT",
    },
  },
  podman: {
    packages: ["podman", "netavark", "crun", "busybox-static"],
    version: "podman --version",
    prepare: `mkdir -p /etc/containers
printf '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n[network]\nnetwork_backend = "netavark"\n' > /etc/containers/containers.conf
printf '[storage]\ndriver = "vfs"\nrunroot = "/run/containers/storage"\ngraphroot = "/var/lib/containers/storage"\n' > /etc/containers/storage.conf`,
    start: `${IMAGE}tar -C /tmp/image -c . | podman import - image
podman run -d --name web --cgroups=disabled -p 8088:80 image ${ANSWER}`,
    stages: { reload: "podman network reload --all" },
    stop: "podman rm -f -t 0 web",
  },
  "portmap": portmap("iptables"),
  "portmap-nftables": portmap("nftables"),
  "flannel": flannel("host-gw"),
  "flannel-vxlan": flannel("vxlan"),
  // Policies alone, as in k3s. Its rules for IPv6 name ipsets that it does not make.
  "kube-router": {
    programs: ["github.com/cloudnativelabs/kube-router/v2/cmd/kube-router@v2.1.0"],
    objects: [
      { kind: "Namespace", metadata: { name: "shop" } },
      ...["10.244.0.11", "10.244.0.12"].map((podIP, i) => ({
        kind: "Pod",
        metadata: { namespace: "shop", name: `pod${i + 1}` },
        status: { phase: "Running", podIP, podIPs: [{ ip: podIP }], hostIP: "192.168.77.2" },
      })),
      {
        kind: "NetworkPolicy",
        metadata: { namespace: "shop", name: "all" },
        spec: { podSelector: {}, policyTypes: ["Ingress"], ingress: [{}] },
      },
    ],
    version: "echo 2.1.0",
    start: `systemd-run -q --unit=kube-router kube-router --kubeconfig=/etc/proxy/kubeconfig \\
  --hostname-override=node-1 --run-router=false --run-service-proxy=false \\
  --service-cluster-ip-range=10.96.0.0/16 --service-external-ip-range=203.0.113.0/24
sleep 6; iptables -S | grep KUBE-POD-FW`,
    stages: { restart: "systemctl restart kube-router; sleep 6" },
    stop: "systemctl stop kube-router",
  },
  metallb: {
    programs: ["go.universe.tf/metallb/speaker@v0.15.2"],
    objects: [
      { kind: "Pod", metadata: METALLB },
      { kind: "L2Advertisement", metadata: METALLB, spec: { nodeSelectors: [NODE_1] } },
      { kind: "IPAddressPool", metadata: METALLB, spec: { addresses: ["203.0.113.0/24"] } },
    ],
    version: "echo 0.15.2",
    start: `systemd-run -q --unit=metallb --setenv=KUBECONFIG=/etc/proxy/kubeconfig speaker \\
  --namespace=metallb --node-name=node-1 --pod-name=speaker
timeout 30 bash -c 'until journalctl -u metallb | grep serviceAnnounced; do sleep 1; done'`,
    stages: { restart: "systemctl restart metallb; sleep 6" },
    stop: "systemctl stop metallb",
  },
  // testcontrol is Tailscale's control server for tests.
  tailscale: {
    programs: ["tailscaled", "tailscale", "testcontrol"].map((name) =>
      `tailscale.com/cmd/${name}@v1.100.0`
    ),
    version: "tailscale version | head -n 1",
    start: `systemd-run -q --unit=control testcontrol
systemd-run -q --unit=tailscaled --setenv=TS_NO_LOGS_NO_SUPPORT=true tailscaled --state=mem:
sleep 2; ${TAILSCALE_UP}; nft list ruleset | grep 'chain ts-'`,
    stages: { restart: `systemctl restart tailscaled; sleep 2; ${TAILSCALE_UP}` },
    stop: "tailscale down; systemctl stop tailscaled control",
  },
  lxd: {
    packages: ["lxd", "dnsmasq-base"],
    version: "lxd --version",
    prepare: "systemctl disable --now lxd.socket lxd",
    start: `systemctl start lxd; lxd waitready --timeout=30
lxc network show lxdbr0 || lxc network create lxdbr0 ipv4.address=10.99.0.1/24 ipv4.nat=true ipv6.address=none`,
    stages: { restart: "systemctl restart lxd; lxd waitready --timeout=30" },
    stop: "lxc network delete lxdbr0; systemctl stop lxd.socket lxd",
  },
  // The rules of node-cache 1.23 with its defaults: its program needs a running cluster DNS.
  "nodelocaldns": {
    version: "echo 1.23",
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
  bird: {
    packages: ["bird2"],
    version: "bird --version 2>&1",
    prepare: `systemctl disable --now bird
cat > /etc/bird/bird.conf <<'ROUTES'
router id 192.168.77.2;
protocol device {}
protocol kernel { ipv4 { export all; }; }
protocol static { ipv4; route 10.98.0.0/16 via "api"; }
protocol bgp test { local as 64512; neighbor 192.168.77.3 as 64513; ipv4 { import all; export all; }; }
ROUTES`,
    start: "mkdir -p /run/bird; bird; sleep 3; ip route | grep 10.98.0.0/16",
    stages: { restart: "birdc restart all" },
    stop: "birdc down",
  },
  libvirt: {
    packages: [
      ...["libvirt-daemon-system", "libvirt-clients", "libvirt-daemon-config-network"],
      "dnsmasq-base",
    ],
    version: "libvirtd --version",
    prepare: "systemctl disable --now libvirtd.socket libvirtd",
    start: "systemctl start libvirtd; virsh net-start default",
    stages: { restart: "systemctl restart libvirtd" },
    stop: "virsh net-destroy default; systemctl stop libvirtd",
  },
  keepalived: {
    packages: ["keepalived"],
    version: "keepalived --version 2>&1 | head -n 1",
    prepare: `systemctl disable --now keepalived
cat > /etc/keepalived/keepalived.conf <<'VRRP'
vrrp_instance test {
  state MASTER
  interface eth0
  virtual_router_id 51
  virtual_ipaddress {
    203.0.113.86/32 dev eth0
  }
}
VRRP`,
    start: "systemctl start keepalived; sleep 4; ip -brief address show eth0 | grep 203.0.113.86",
    stages: { restart: "systemctl restart keepalived; sleep 4" },
    stop: "systemctl stop keepalived",
  },
  haproxy: {
    packages: ["haproxy"],
    version: "haproxy -v | head -n 1",
    prepare: `systemctl disable --now haproxy
cat > /etc/haproxy/haproxy.cfg <<'PROXY'
defaults
  mode tcp
frontend test
  bind *:10444
  default_backend remote
backend remote
  server remote 10.96.0.12:80
PROXY`,
    start: "systemctl start haproxy",
    stages: { restart: "systemctl restart haproxy" },
    stop: "systemctl stop haproxy",
  },
};
