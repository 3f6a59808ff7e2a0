/**
 * TCP sockets for the core. The adapter is `lib/system/tcp.ts`.
 *
 * @module
 */

/** An address and a port. */
export interface TcpAddress {
  readonly address: string;
  readonly port: number;
}

/** An open connection. */
export interface TcpConnection {
  /**
   * Copies bytes both ways until both ends have finished, then closes both. The end of one
   * direction is passed on. Never rejects.
   */
  join(other: TcpConnection): Promise<void>;
  /** Closes the connection now. May be called twice. */
  close(): void;
}

/** A listening socket. */
export interface TcpListener {
  /** Stops listening; accepted connections stay open. Resolves when the port is free. */
  close(): Promise<void>;
}

/** Limits of an attempt to connect. */
export interface TcpConnectOptions {
  /** Milliseconds. */
  readonly timeout: number;
  readonly signal: AbortSignal;
}

/** TCP of this network namespace. */
export interface Tcp {
  /**
   * Listens until the listener is closed.
   *
   * @param accept takes each connection; must not throw
   * @throws {Error} of bind(2) or listen(2)
   */
  listen(at: TcpAddress, accept: (connection: TcpConnection) => void): TcpListener;
  /**
   * Opens a connection.
   *
   * @throws {Error} if the peer refuses or does not answer in time, or the signal aborts
   */
  connect(to: TcpAddress, options: TcpConnectOptions): Promise<TcpConnection>;
}
