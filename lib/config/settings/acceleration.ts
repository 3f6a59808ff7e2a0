/** Defines the settings of the kernel's fast path for long connections. kube-proxy has none. */
import { ACCELERATED_SERVICES, type Acceleration } from "../../model/configuration.ts";
import { INT32_MAX, integer, interfacePattern } from "../file/readers.ts";
import { choice, list, value } from "./setting.ts";

/** Short connections lose by the fast path: 20 packets are an exchange of a few kilobytes. */
const PACKETS = 20;

/** The fast path is off until interfaces are named. */
export const ACCELERATION_GROUP = {
  title: "Acceleration",
  settings: {
    "signpost.acceleration.interfaces": list(interfacePattern, {
      flag: "acceleration-interfaces",
      value: "PATTERNS",
      help:
        "Long connections between these interfaces take the kernel's fast path (nftables mode), such as eth0,veth*; see docs/acceleration.md.",
    }),
    "signpost.acceleration.packets": value<number>(integer(1, INT32_MAX), PACKETS, {
      flag: "acceleration-packets",
      help: "Packets of a connection before it takes the fast path.",
    }),
    "signpost.acceleration.services": choice<Acceleration["services"]>(
      ACCELERATED_SERVICES,
      "all",
      {
        flag: "acceleration-services",
        value: "NAME",
        help:
          "Services whose connections may take it: all or annotated. The annotation signpost.dev/acceleration (on, off) sets it for one Service.",
      },
    ),
  },
};
