package e2e

import (
	"os/exec"
	"strconv"
	"strings"

	"github.com/criadapter/criadapter/internal/testutil"
)

// hostPorts are ports of the node that are free as far as the tests know.
func (n *fieldsNode) hostPorts(count int) (ports []int32) {
	for range count {
		ports = append(ports, int32(testutil.FreePort(n.T)))
	}
	return ports
}

// wantForwarded checks the node's rules: ports of each protocol lead to the pod, on both IP families. The test sends no
// packets, because a kernel may have no SCTP sockets, and packets would prove no more than the rules.
func (n *fieldsNode) wantForwarded(ports []int32, ip4, ip6 string) {
	n.Helper()
	for program, ip := range map[string]string{"iptables": ip4, "ip6tables": "[" + ip6 + "]"} {
		rules, err := exec.CommandContext(n.Context(), program, "-t", "nat", "-S").CombinedOutput()
		testutil.Require(n, err == nil, "%s: %v: %s", program, err, rules)
		for i, protocol := range []string{"tcp", "udp", "sctp"} {
			found := false
			for rule := range strings.Lines(string(rules)) {
				found = found ||
					strings.Contains(rule, "-p "+protocol+" ") &&
						strings.Contains(rule, "--dport "+strconv.Itoa(int(ports[i]))+" ") &&
						strings.Contains(rule, "--to-destination "+ip+":"+strconv.Itoa(7000+i))
			}
			testutil.Assert(n, found,
				"%s: no rule leads from %s port %d to %s:\n%s", program, protocol, ports[i], ip, rules)
		}
	}
}
