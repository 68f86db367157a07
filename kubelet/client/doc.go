// Package client is what the person's commands of kubelet-core are made of: it asks a running kubelet core over its
// loopback endpoint, shows pods as tables and descriptions, reads container logs, and runs commands in containers. It only
// reads; the one thing that it starts is what Exec is asked for.
package client
