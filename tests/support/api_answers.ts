/**
 * The wrong answers of the test API server.
 *
 * @module
 */
import type * as http from "node:http";
import type { Fault } from "./api_faults.ts";

/** Answers with an error, as kube-apiserver does. */
export function sendStatus(response: http.ServerResponse, code: number, message: string): void {
  response.writeHead(code, { "content-type": "application/json" });
  response.end(
    JSON.stringify({ kind: "Status", apiVersion: "v1", status: "Failure", message, code }),
  );
}

/** The line by which a watch tells of an error. */
export function errorEvent(code: number, message: string): string {
  const object = { kind: "Status", apiVersion: "v1", status: "Failure", message, code };
  return JSON.stringify({ type: "ERROR", object }) + "\n";
}

/** Answers in the way of a fault. */
export function sendFault(response: http.ServerResponse, fault: Fault): void {
  switch (fault.type) {
    case "status":
      if (fault.retryAfter !== undefined) {
        response.setHeader("retry-after", String(fault.retryAfter));
      }
      return sendStatus(response, fault.status, `injected ${fault.status}`);
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
      response.writeHead(200);
      response.end(faultText(fault));
  }
}

function faultText(fault: Fault): string {
  if (fault.type === "garbage") return "<html>\u0007 not what you asked for\n</html>\n";
  if (fault.type === "halfLine") return '{"type":"ADDED","object":{"metadata":{"name":"ha';
  return fault.type === "errorEvent" ? errorEvent(fault.status, `injected ${fault.status}`) : "";
}
