package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/netns"
)

// findLeftovers compares the node with its pods. It removes nothing.
func findLeftovers(ctx context.Context, f facts, known pods) leftovers {
	records, err := checkpoint.Look(f.Config.RecordsDir())
	l := leftovers{Quarantined: records.Quarantined, QuarantineErr: errors.Join(err, records.QuarantineErr)}
	if l.Unknown = errors.Join(known.err, err); l.Unknown != nil {
		return l
	}
	known.addRecorded(records)
	gone := func(id string) bool { return id != "" && !known.has(id) }
	l.Pins = stalePins(netns.DefaultDir, gone)
	l.Records = staleRecords(records, gone)
	if network, err := openNetwork(f.Config); err == nil {
		defer network.Close()
		attached, err := network.Attached()
		l.AttachmentsErr = err
		for id, path := range attached {
			// Another runtime may keep its attachments in the same directory (--cni-cache-dir). The namespaces of its
			// pods are elsewhere.
			if gone(id) && path == netns.PodPin("", id) {
				l.Attachments = append(l.Attachments, id)
			}
		}
		slices.Sort(l.Attachments)
	}
	if f.Config.NetworkPlugin == config.NetworkCNI {
		l.Leases, l.LeasesErr = staleLeases(f.Network.Config.File, gone)
		l.Rules, l.RulesErr = staleRules(ctx, gone)
	}
	return l
}

// has reports whether there is a container or a pod with that id or id prefix.
func (p pods) has(id string) bool {
	if len(id) == 64 {
		return p.all[id]
	}
	for other := range p.all {
		if strings.HasPrefix(other, id) {
			return true
		}
	}
	return false
}

// stalePins returns the pins of pods that are gone. A directory that cannot be read has none.
func stalePins(dir string, gone func(string) bool) []string {
	var stale []string
	pins, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, pin := range pins {
		if id, ours := netns.PodOfPin(pin.Name()); ours && gone(id) {
			stale = append(stale, filepath.Join(dir, pin.Name()))
		}
	}
	return stale
}

func staleRecords(found checkpoint.Found, gone func(string) bool) []string {
	var stale []string
	for _, record := range found.Records {
		if gone(record.SandboxID) {
			stale = append(stale, record.SandboxID)
		}
	}
	return stale
}

// staleLeases returns the files of host-local's leases whose pods are gone, in the network of a configuration file.
func staleLeases(file string, gone func(string) bool) ([]string, error) {
	var stale []string
	leases, err := cni.Leases(file)
	for _, path := range leases {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		id, _, _ := strings.Cut(string(raw), "\n")
		if gone(strings.TrimSpace(id)) {
			stale = append(stale, path)
		}
	}
	return stale, err
}

// ruleOwner finds the pod in the comment of portmap's rules: dnat name: \"net\" id: \"4f6c…\".
var ruleOwner = regexp.MustCompile(`--comment "(?:dnat|snat)?[^"\\]*name: \\"[^"\\]*\\" id: \\"([0-9a-f]+)\\""`)

// staleRules reads the rules with iptables-save, since portmap writes them with iptables. A node without iptables has
// none. An error for one address family does not hide the other's rules. iptables-save lists the tables that exist.
// With the option -t nat, its legacy variant would make the kernel load a module and create the table.
func staleRules(ctx context.Context, gone func(string) bool) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, pluginTime)
	defer cancel()
	var ids []string
	var errs []error
	for _, program := range []string{"iptables-save", "ip6tables-save"} {
		output, err := exec.CommandContext(ctx, program).Output()
		if errors.Is(err, exec.ErrNotFound) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", program, err))
		}
		ids = append(ids, rulesOf(string(output), gone)...)
	}
	slices.Sort(ids)
	return slices.Compact(ids), errors.Join(errs...)
}

func rulesOf(rules string, gone func(string) bool) []string {
	var ids []string
	for line := range strings.Lines(rules) {
		if owner := ruleOwner.FindStringSubmatch(line); owner != nil && gone(owner[1]) {
			ids = append(ids, owner[1])
		}
	}
	return ids
}
