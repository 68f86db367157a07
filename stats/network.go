package stats

import (
	"bytes"
	"context"
	"errors"
	"unicode/utf8"

	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/state"
)

// loopback is left out: its traffic never leaves the pod.
const loopback = "lo"

// defaultInterface is CNI's name for the interface of a pod's primary network.
const defaultInterface = "eth0"

// netInterface has the counters of one network interface.
type netInterface struct {
	name   string
	rx, tx traffic
}

// traffic has the counters of one direction.
type traffic struct {
	bytes, packets, errors, dropped uint64
}

// parseNetDev reads a net/dev file of proc(5), without the loopback interface.
func parseNetDev(content []byte) []netInterface {
	// Per direction: bytes, packets, errs, drop and four more.
	const columns, transmit = 16, 8
	var all []netInterface
	for line := range lines(content) {
		name, rest, ok := bytes.Cut(line, []byte{':'})
		name = bytes.TrimSpace(name)
		// The kernel allows any bytes in a name. gRPC cannot send a message with a name that is not UTF-8.
		if !ok || len(name) == 0 || string(name) == loopback || !utf8.Valid(name) {
			continue
		}
		var counts [columns]uint64
		read := 0
		for field := range bytes.FieldsSeq(rest) {
			n, ok := parseUint(field)
			if !ok || read == columns {
				break
			}
			counts[read] = n
			read++
		}
		if read < columns {
			continue
		}
		all = append(all, netInterface{
			name: string(name),
			rx:   trafficOf(counts[:transmit]),
			tx:   trafficOf(counts[transmit:]),
		})
	}
	return all
}

func trafficOf(counts []uint64) traffic {
	return traffic{bytes: counts[0], packets: counts[1], errors: counts[2], dropped: counts[3]}
}

var errNoNetwork = errors.New("no network namespace of the pod is known")

// netDev reads a pod's net/dev through its sandbox process. For a pod without such a process, netDev reads the file
// inside the pod's network namespace.
func (c *Collector) netDev(ctx context.Context, r *reader, pod *state.Pod) (content []byte, err error) {
	pin := netns.Open(pod.Status.NetnsPath)
	switch {
	case pod.Meta.HostNetwork:
		return nil, errNoNetwork
	case pod.Status.PID <= 0 && pod.Status.NetnsPath != "":
		err := pin.Do(ctx, func() error {
			content, err = r.read("/proc/thread-self/net/dev")
			return err
		})
		return content, err
	case pod.Status.PID <= 0:
		return nil, errNoNetwork
	case pod.Status.NetnsPath != "":
		if same, err := pin.SameAs(pod.Status.PID); err != nil || !same {
			return nil, errors.Join(errNoNetwork, err)
		}
	}
	return r.read(c.procFile(pod.Status.PID, "net/dev"))
}

// interfaces returns the network interfaces of a pod, the default one first. Without eth0, the kernel's first interface
// counts as the default. It returns nil for a pod on the node's network, and if the sandbox process is not in the pod's
// namespace.
func (c *Collector) interfaces(ctx context.Context, r *reader, pod *state.Pod) []netInterface {
	content, err := c.netDev(ctx, r, pod)
	if err != nil {
		return nil
	}
	all := parseNetDev(content)
	for i := range all {
		if all[i].name == defaultInterface {
			all[0], all[i] = all[i], all[0]
			break
		}
	}
	return all
}
