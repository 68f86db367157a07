// Package streaming serves exec, attach and port-forward to the kubelet and crictl over HTTP, in front of any runtime.
//
// A CRI call gives the client a URL with a token of 128 random bits, which is valid for one request within a minute.
// The server speaks the kubelet's protocols there. Each part of a session, such as stdin or the data of a forwarded
// connection, has one stream or channel. They go over SPDY, over WebSocket, or over SPDY inside of a WebSocket
// (port-forward). v5.channel.k8s.io can end the input alone.
//
// Only the older WebSocket protocol of port-forward uses the handlers of k8s.io/cri-streaming. The library's other
// handlers let a client decide how many goroutines and how much memory they hold. They do not notice that a client is
// gone.
//
// # Access
//
// Any client with the URL may use it. The server returns URLs on the CRI socket only. It listens on loopback unless it
// is configured otherwise, which needs TLS or AllowPlaintext.
//
// # Limits for a client
//
// A connection without a token ends within seconds. A session has a bounded number of streams with bounded headers.
// SPDY keeps some 8 MiB of input that the process does not read, and WebSocket one message of up to 32 MiB. A session
// whose client does not read ends with the idle timeout. No session keeps a goroutine or a descriptor after its end.
//
// # When a client goes away
//
// Each connection has a context that ends when its client is gone. A read of the connection notices that. While the
// process takes no input, nothing is read, so the connection is also checked every few seconds. All goroutines and
// connections of the session end with the context. Runtime decides whether the process goes on.
package streaming
