/**
 * Reads values with a meaning for a node proxy: modes, addresses, ranges, names.
 *
 * The accepted values are those of kube-proxy's pkg/proxy/apis/config/validation.
 *
 * @module
 */
import { familyOf, parseAddress, parseCidr } from "../../model/values/address.ts";
import {
  type AskedMode,
  type DetectLocalMode,
  MODES,
  NODE_PORT_WORDS,
} from "../../model/configuration.ts";
import { hostPort, isDnsName } from "../../model/cluster/names.ts";
import { Fault, type Reader, text, ValueFault } from "./fields.ts";
import { nearest } from "../../model/values/text.ts";

const RETIRED_MODES: Readonly<Record<string, string>> = {
  userspace: "cannot be userspace, which Kubernetes 1.26 removed: use nftables, or leave it empty",
  kernelspace: "cannot be kernelspace, which is for Windows: use nftables, or leave it empty",
  winkernel: "cannot be winkernel, which is for Windows: use nftables, or leave it empty",
};

/** Reads `mode`: `nftables`, `iptables`, `ipvs` or empty. */
export function proxyMode(value: unknown): AskedMode | Fault {
  if (value === "" || value === "ipvs") return value;
  const mode = MODES.find((each) => each === value);
  if (mode !== undefined) return mode;
  const retired = typeof value === "string" ? RETIRED_MODES[value.toLowerCase()] : undefined;
  if (retired !== undefined) return new Fault(retired, true);
  return new Fault(`must be ${MODES.join(", ")}, ipvs or empty (nftables where it works)`);
}

/** Reads `detectLocalMode`. Empty is the default, ClusterCIDR. */
export function detectLocalMode(value: unknown): DetectLocalMode | "" | Fault {
  switch (value) {
    case "":
    case "ClusterCIDR":
    case "NodeCIDR":
    case "BridgeInterface":
    case "InterfaceNamePrefix":
      return value;
  }
  const modes = ["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"];
  const meant = typeof value === "string" ? nearest(value, modes) : undefined;
  return new Fault(
    `must be ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix` +
      (meant === undefined ? "" : ` (did you mean ${meant}?)`),
  );
}

/** Returns a reader of some words, or empty. */
export function oneOf<T extends string>(...words: readonly T[]): Reader<T | ""> {
  return (value) =>
    value === "" ? "" : words.find((word) => word === value) ??
      new Fault(`must be ${words.join(" or ")}`);
}

/** Returns a reader of primes within bounds, both included. */
export function prime(least: number, most: number): Reader<number> {
  const rule = `must be a prime from ${least} to ${most}, such as 251 or 1021`;
  return (value) => {
    if (typeof value !== "number" || !Number.isInteger(value)) return new Fault(rule);
    if (value < least || value > most) return new ValueFault(rule);
    for (let divisor = 2; divisor * divisor <= value; divisor++) {
      if (value % divisor === 0) return new ValueFault(rule);
    }
    return value;
  };
}

/** Reads an IP address in canonical form, or empty. */
export function address(value: unknown): string | Fault {
  return value === "" ? "" : parseAddress(value) ?? new Fault("must be an IP address");
}

/**
 * Reads `address:port`, an address alone, or empty.
 *
 * @returns the canonical form; an IPv6 address without a port has no brackets
 */
export function bindAddress(value: unknown): string | Fault {
  const single = address(value);
  if (!(single instanceof Fault)) return single;
  const match = typeof value === "string"
    ? /^(?:\[([^\]]*)\]|([^:]*))(?::(\d{1,5}))?$/.exec(value)
    : null;
  const host = parseAddress(match?.[1] ?? match?.[2]);
  if (host === undefined || (match?.[1] !== undefined && familyOf(host) === 4)) {
    return new Fault("must be an IP address and a port, such as 0.0.0.0:10256 or [::]:10256");
  }
  if (match?.[3] === undefined) return host;
  const port = Number(match[3]);
  return port >= 1 && port <= 65535
    ? hostPort(host, port)
    : new Fault("must have a port from 1 to 65535");
}

/** Reads CIDRs with commas between, at most one of each family. Empty text is none. */
export function clusterCidrs(value: unknown): readonly string[] | Fault {
  const rule = "must be a CIDR such as 10.244.0.0/16, or one IPv4 and one IPv6 CIDR with a comma";
  if (typeof value !== "string") return new Fault(rule);
  if (value.trim() === "") return [];
  const cidrs: string[] = [];
  for (const part of value.split(",")) {
    const cidr = parseCidr(part);
    if (cidr === undefined) return new ValueFault(rule);
    if (cidrs.some((other) => familyOf(other) === familyOf(cidr))) {
      return new ValueFault(`must have at most one IPv${familyOf(cidr)} CIDR`);
    }
    cidrs.push(cidr);
  }
  return cidrs;
}

/** Reads an entry of `nodePortAddresses`: a CIDR or a word. */
export function nodePortAddress(value: unknown): string | Fault {
  const word = NODE_PORT_WORDS.find((each) => each === value);
  if (word !== undefined) return word;
  const single = parseAddress(value);
  if (single !== undefined) {
    return new Fault(
      `must be a CIDR (did you mean ${single}/${familyOf(single) === 4 ? 32 : 128}?)`,
    );
  }
  const meant = typeof value === "string" ? nearest(value, NODE_PORT_WORDS) : undefined;
  return parseCidr(value) ?? new Fault(
    "must be a CIDR, primary, localhost or all" +
      (meant === undefined ? "" : ` (did you mean ${meant}?)`),
  );
}

/** Reads a CIDR. */
export function cidr(value: unknown): string | Fault {
  if (typeof value !== "string") return new Fault("must be a CIDR");
  return parseCidr(value) ?? new ValueFault("must be a CIDR");
}

/** Reads a node's name in lower case, trimmed as in kube-proxy's `GetHostname`, or empty. */
export function nodeName(value: unknown): string | Fault {
  if (typeof value !== "string") return new Fault("must be text");
  const name = value.trim().toLowerCase();
  return name === "" && value === "" || isDnsName(name)
    ? name
    : new Fault("must be a node name: letters, digits, '-' and '.', at most 253");
}

/** Reads the name or prefix of a network interface (15 characters, Linux's IFNAMSIZ - 1), or empty. */
export function interfaceName(value: unknown): string | Fault {
  if (value === "") return "";
  // It refuses wildcards of nft (*) and iptables (+), and characters that could end a quoted name.
  return typeof value === "string" && /^[A-Za-z0-9_.:@=-]{1,15}$/.test(value)
    ? value
    : new Fault("must be an interface name, at most 15 letters, digits or _ . : @ = -");
}

/** Reads the API server's URL in canonical form without a slash at its end, or empty. */
export function serverUrl(value: unknown): string | Fault {
  if (value === "") return "";
  const url = typeof value === "string" && /^https?:\/\//.test(value) ? URL.parse(value) : null;
  if (url !== null && (url.username !== "" || url.password !== "")) {
    return new Fault("must not hold a password: use a kubeconfig", true);
  }
  if (url === null || url.search !== "" || url.hash !== "") {
    return new Fault("must be a URL such as https://10.0.0.1:6443");
  }
  return url.href.replace(/\/+$/, "");
}

/** Reads a path without NUL bytes. */
export function path(value: unknown): string | Fault {
  const result = text(value);
  return typeof result === "string" && result.includes("\0")
    ? new Fault("must not contain a NUL byte")
    : result;
}
