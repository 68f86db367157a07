// Package streaming serves exec, attach and port-forward to the kubelet and crictl over HTTP, in front of any runtime.
//
// A CRI call gives the client a URL with a token: 128 random bits, good for one request within a minute. What is served
// there are the kubelet's own protocols from k8s.io/cri-streaming, over SPDY and WebSocket, and two more that clients
// speak today: WebSocket with a half-close (v5.channel.k8s.io, exec and attach) and SPDY inside of a WebSocket
// (port-forward). The library's handlers are used without its server, whose token has eight characters and which does
// not tell when a client is gone.
//
// # Who is let in
//
// Whoever has the URL. It is given out on the CRI socket only, and the server listens on loopback unless it is told
// otherwise, which needs TLS or an explicit word.
//
// # When a client goes away
//
// Each connection has a context that ends when its client is gone, as seen by a read or, where nothing is read because
// a process takes no input, by a look at the connection every few seconds. With it end all goroutines and connections
// of the session; Runtime says what becomes of the process.
package streaming
