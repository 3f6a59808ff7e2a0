/** Defines the settings of schedulers: signpost's own, and those of kube-proxy's ipvs mode. */
import {
  HASH_SOURCES,
  type HashSource,
  type SchedulerName,
  SCHEDULERS,
} from "../../model/cluster/scheduler.ts";
import { cidr, prime, text } from "../file/readers.ts";
import { choice, duration, list, minSyncPeriod, value } from "./setting.ts";

const SECOND = 1_000;

/** The default slots of the lookup table for consistent hashing. */
const HASH_TABLE_SIZE = 251;

/** The largest table. A larger one needs too many elements for each frontend. */
const MAX_HASH_TABLE_SIZE = 65_521;

/** The scheduler of connections. A Service may override it, see docs/ipvs.md. */
export const SCHEDULER_GROUP = {
  title: "Schedulers",
  settings: {
    "signpost.scheduler": choice<SchedulerName>(SCHEDULERS, "random", {
      flag: "scheduler",
      value: "NAME",
      help: `How Services spread connections: ${
        SCHEDULERS.join(", ")
      }. The annotation signpost.dev/scheduler sets it for one Service.`,
    }),
    "signpost.hash": choice<HashSource>(HASH_SOURCES, "source", {
      flag: "scheduler-hash",
      value: "NAME",
      help:
        "Input of consistent-hash: source or source-and-port. The annotation signpost.dev/hash sets it for one Service.",
    }),
    "signpost.hashTableSize": value(prime(2, MAX_HASH_TABLE_SIZE), HASH_TABLE_SIZE, {
      flag: "hash-table-size",
      help:
        "Slots of the consistent-hash table: a prime, the same on every node. A larger table is more even, and costs more.",
    }),
    "ipvs.scheduler": value(text, "", {
      flag: "ipvs-scheduler",
      value: "NAME",
      help: "With --proxy-mode ipvs: the scheduler by its IPVS name; see docs/ipvs.md.",
    }),
    "ipvs.syncPeriod": duration(30 * SECOND, {
      empty: "in the file",
      flag: "ipvs-sync-period",
      help: "With --proxy-mode ipvs: time between full checks of the rules.",
    }),
    "ipvs.minSyncPeriod": minSyncPeriod({
      flag: "ipvs-min-sync-period",
      help: "With --proxy-mode ipvs: how long changes are gathered.",
    }),
    "ipvs.excludeCIDRs": list(cidr, {
      flag: "ipvs-exclude-cidrs",
      value: "CIDRS",
      help: "Virtual servers of IPVS in these ranges are not kube-proxy's, and stay.",
    }),
    "ipvs.tcpTimeout": duration(0, {
      flag: "ipvs-tcp-timeout",
      help: "With --proxy-mode ipvs: as --conntrack-tcp-timeout-established.",
    }),
    "ipvs.tcpFinTimeout": duration(0, {
      flag: "ipvs-tcpfin-timeout",
      help: "With --proxy-mode ipvs: for TCP connections after a FIN (FIN_WAIT); 0: leave it.",
    }),
    "ipvs.udpTimeout": duration(0, {
      flag: "ipvs-udp-timeout",
      help:
        "With --proxy-mode ipvs: as --conntrack-udp-timeout and --conntrack-udp-timeout-stream.",
    }),
  },
};
