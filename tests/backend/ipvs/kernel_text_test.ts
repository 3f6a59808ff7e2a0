import { assertEquals } from "@std/assert";
import {
  parseConnections,
  parseInterfaces,
  parseServers,
} from "../../../lib/backend/ipvs/kernel.ts";

/** As Linux 6.1 prints it. */
const SERVERS = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  C0A80102:7580 rr  
  -> 0AF4010B:1F90      Masq    1      0          2         
  -> 0AF4000B:1F90      Masq    1      3          0         
UDP  [fd00:0010:0096:0000:0000:0000:0000:0020]:0050 rr persistent 10800
  -> [fd00:0010:0244:0001:0000:0000:0000:0011]:1F90      Masq    1      0          7         
FWM  00000001 wlc 
  -> 0AF4010B:1F90      Masq    1      9          9         
SCTP 0A60000A:0050 rr  
`;

const CONNECTIONS = `Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData
TCP 0AF4000A DA6E 0A600019 0050 0AF4010B 1F90 ESTABLISHED     899
UDP fd00:0010:0244:0000:0000:0000:0000:0010 99DC fd00:0010:0096:0000:0000:0000:0000:0020 0050 fd00:0010:0244:0001:0000:0000:0000:0011 1F90 UDP         298
TCP CB00710A 0000 0A600019 0050 0AF4010B 1F90 NONE            10000
TCP CB00710A AE52 0A60001A 0050 0AF4000B 1F90 FIN_WAIT          7
`;

Deno.test("virtual servers are read with the connections of all their real servers", () => {
  assertEquals(parseServers(SERVERS), [
    { protocol: "tcp", address: "192.168.1.2", port: 30080, open: 3 },
    { protocol: "udp", address: "fd00:10:96::20", port: 80, open: 7 },
    { protocol: "sctp", address: "10.96.0.10", port: 80, open: 0 },
  ]);
  assertEquals(parseServers(""), []);
});

Deno.test("connections are read, but for the templates of persistent servers", () => {
  const read = parseConnections(CONNECTIONS).map(({ client, clientPort, isEstablished }) => [
    client,
    clientPort,
    isEstablished,
  ]);
  assertEquals(read, [
    ["10.244.0.10", 0xda6e, true],
    ["fd00:10:244::10", 0x99dc, false],
    ["203.0.113.10", 0xae52, false],
  ]);
});

Deno.test("other lines are passed over", () => {
  const lines = ["TCP", "TCP ZZ:0050 rr", "  -> 0AF4010B:1F90 Masq", "TCP  0A60000A:005 rr "];
  assertEquals(parseServers(lines.join("\n")), []);
  assertEquals(parseConnections(lines.join("\n")), []);
});

/** As iproute2 6.1 prints it. */
const ADDRESSES =
  `1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000
    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
    inet 127.0.0.1/8 scope host lo
       valid_lft forever preferred_lft forever
2: eth0@if17: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP group default
    link/ether 52:54:00:12:34:56 brd ff:ff:ff:ff:ff:ff link-netnsid 0
    inet 192.168.0.2/24 brd 192.168.0.255 scope global eth0
       valid_lft forever preferred_lft forever
    inet6 fe80::5054:ff:fe12:3456/64 scope link
       valid_lft forever preferred_lft forever
7: tun0: <POINTOPOINT,NOARP,UP,LOWER_UP> mtu 1500 qdisc fq_codel state UNKNOWN group default qlen 500
    link/none
    inet 10.8.0.2 peer 10.8.0.1/32 scope global tun0
       valid_lft forever preferred_lft forever
8: dummy0: <BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN group default qlen 1000
    link/ether 8e:aa:5b:0c:1d:01 brd ff:ff:ff:ff:ff:ff
9: kube-ipvs0: <BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN group default
    link/ether 8e:aa:5b:0c:1d:02 brd ff:ff:ff:ff:ff:ff
    inet6 fd00:10:96::a/128 scope global
       valid_lft forever preferred_lft forever
`;

Deno.test("addresses are read with their interface, but for those of the link alone", () => {
  assertEquals(Object.fromEntries(parseInterfaces(ADDRESSES)), {
    lo: ["127.0.0.1"],
    eth0: ["192.168.0.2"],
    tun0: ["10.8.0.2"],
    dummy0: [],
    "kube-ipvs0": ["fd00:10:96::a"],
  });
});
