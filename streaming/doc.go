// Package streaming serves exec, attach and port-forward to the kubelet and crictl over HTTP, in front of any runtime.
//
// A CRI call gives the client a URL with a token: 128 random bits, good for one request within a minute. The kubelet's
// own protocols are served there: one stream or channel for each end of a process or connection, over SPDY, over
// WebSocket (v5.channel.k8s.io can end the input alone), and over SPDY inside of a WebSocket (port-forward).
//
// The handlers of k8s.io/cri-streaming are used for the older WebSocket protocol of port-forward alone. The others hold
// goroutines and memory that a client decides on, and do not notice a client that is gone.
//
// # Who is let in
//
// Whoever has the URL. It is given out on the CRI socket only, and the server listens on loopback unless it is told
// otherwise, which needs TLS or an explicit word.
//
// # What a client may hold
//
// A request without a token ends within seconds. A session has a bounded number of streams, of bounded headers. Of
// input that the process does not take, SPDY keeps some 8 MiB, and WebSocket one message of up to 32 MiB. A client that
// reads nothing ends with the idle timeout. No session keeps a goroutine or a descriptor after its end.
//
// # When a client goes away
//
// Each connection has a context that ends when its client is gone, as seen by a read or, where nothing is read because
// a process takes no input, by a look at the connection every few seconds. With it end all goroutines and connections
// of the session; Runtime says what becomes of the process.
package streaming
