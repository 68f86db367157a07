// Command hostpathplugin stands in for Kubernetes' CSI driver of that name. It does only what specs of dynamic resource
// allocation need: it joins each connection to a Unix socket with a connection to a TCP port. The kubelet opens the
// first one, and the specs' program opens the second one and answers the kubelet.
package main

import (
	"flag"
	"io"
	"log"
	"net"
	"os"
	"strings"
)

func main() {
	endpoint := flag.String("endpoint", "", "the path of the Unix `socket` to listen on")
	proxy := flag.String("proxy-endpoint", "", "the `address` where the program of the specs connects, tcp://HOST:PORT")
	flag.Int("v", 0, "ignored")
	flag.Parse()
	log.Fatal(join(strings.TrimPrefix(*endpoint, "unix://"), strings.TrimPrefix(*proxy, "tcp://")))
}

// join joins connections until it cannot accept any more.
func join(endpoint, proxy string) error {
	if err := os.Remove(endpoint); err != nil && !os.IsNotExist(err) {
		return err
	}
	clients, err := net.Listen("unix", endpoint)
	if err != nil {
		return err
	}
	servers, err := net.Listen("tcp", proxy)
	if err != nil {
		return err
	}
	for {
		client, err := clients.Accept()
		if err != nil {
			return err
		}
		server, err := servers.Accept()
		if err != nil {
			return err
		}
		go pass(client, server)
		go pass(server, client)
	}
}

// pass copies all bytes and then closes both connections.
func pass(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	from.Close()
	to.Close()
}
