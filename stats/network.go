package stats

import (
	"bytes"

	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/state"
)

// loopback carries what never leaves the pod.
const loopback = "lo"

// defaultInterface is the name that CNI gives the interface of a pod's primary network.
const defaultInterface = "eth0"

// netInterface counts what went through one network interface.
type netInterface struct {
	name   string
	rx, tx traffic
}

// traffic is one direction.
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
		if !ok || len(name) == 0 || string(name) == loopback {
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

// interfaces returns the network interfaces of a pod, the default one first; nil for a pod on the node's network, and
// where the sandbox process is not, or no longer, in the pod's namespace.
func (c *Collector) interfaces(r *reader, pod *state.Pod) []netInterface {
	if pod.Meta.HostNetwork || pod.Status.PID <= 0 {
		return nil
	}
	if pod.Status.NetnsPath != "" {
		same, err := netns.Open(pod.Status.NetnsPath).SameAs(pod.Status.PID)
		if err != nil || !same {
			return nil
		}
	}
	content, err := r.read(c.procFile(pod.Status.PID, "net/dev"))
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
