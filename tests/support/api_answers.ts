/** The answers of the test API server: how they are written, and the wrong ones. */
import { Buffer } from "node:buffer";
import type * as http from "node:http";
import type { Fault } from "./api_faults.ts";
import { type ApiObject, Stored } from "./api_store.ts";
import { encodeEvent } from "./protobuf.ts";

/** How objects are written. */
export interface Format {
  readonly contentType: string;
  object(stored: Stored): Uint8Array;
  event(type: string, stored: Stored): Uint8Array;
}

const encoder = new TextEncoder();

/** Watch events are lines. */
export const JSON_FORMAT: Format = {
  contentType: "application/json",
  object: ({ json }) => json,
  event: (type, { json }) =>
    Buffer.concat([encoder.encode(`{"type":"${type}","object":`), json, encoder.encode("}\n")]),
};

/** Watch events are frames. */
export const PROTOBUF_FORMAT: Format = {
  contentType: "application/vnd.kubernetes.protobuf",
  object: ({ protobuf }) => protobuf,
  event: (type, { protobuf }) => encodeEvent(type, protobuf),
};

/** Answers with an error, as kube-apiserver does. */
export function sendStatus(
  response: http.ServerResponse,
  format: Format,
  { code, message }: { readonly code: number; readonly message: string },
): void {
  response.writeHead(code, { "content-type": format.contentType });
  response.end(format.object(statusObject(code, message)));
}

/** The line or frame by which a watch tells of an error. */
export function errorEvent(format: Format, code: number, message: string): Uint8Array {
  return format.event("ERROR", statusObject(code, message));
}

function statusObject(code: number, message: string): Stored {
  const metadata = {} as ApiObject["metadata"];
  return new Stored({
    kind: "Status",
    apiVersion: "v1",
    metadata,
    status: "Failure",
    message,
    code,
  });
}

/** Answers in the way of a fault. */
export function sendFault(
  response: http.ServerResponse,
  format: Format,
  fault: Exclude<Fault, { readonly type: "slow" }>,
): void {
  switch (fault.type) {
    case "status":
      if (fault.retryAfter !== undefined) {
        response.setHeader("retry-after", String(fault.retryAfter));
      }
      return sendStatus(response, format, {
        code: fault.status,
        message: `injected ${fault.status}`,
      });
    case "cut":
      response.destroy();
      return;
    case "stall":
      response.writeHead(200);
      response.flushHeaders();
      return;
    case "garbage":
    case "halfLine":
    case "close":
    case "errorEvent":
      response.writeHead(200, { "content-type": `${format.contentType};stream=watch` });
      response.end(faultBody(format, fault));
  }
}

function faultBody(format: Format, fault: Fault): Uint8Array {
  switch (fault.type) {
    case "garbage":
      return encoder.encode("<html>\u0007 not what you asked for\n</html>\n");
    case "halfLine":
      return format.event("ADDED", statusObject(200, "half")).subarray(0, 40);
    case "errorEvent":
      return errorEvent(format, fault.status, `injected ${fault.status}`);
    default:
      return new Uint8Array();
  }
}
