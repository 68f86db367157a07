package eviction

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// signal is a signal of a threshold, with the kubelet's name.
type signal string

const (
	memoryAvailable   signal = "memory.available"
	nodefsAvailable   signal = "nodefs.available"
	nodefsInodesFree  signal = "nodefs.inodesFree"
	imagefsAvailable  signal = "imagefs.available"
	imagefsInodesFree signal = "imagefs.inodesFree"
)

// signals are all signals, in the order in which they are reclaimed.
var signals = []signal{memoryAvailable, nodefsAvailable, nodefsInodesFree, imagefsAvailable, imagefsInodesFree}

// resourceInodes is the kubelet's word in messages. The API has no such resource.
const resourceInodes v1.ResourceName = "inodes"

// resource is the signal's resource.
func (s signal) resource() v1.ResourceName {
	switch s {
	case memoryAvailable:
		return v1.ResourceMemory
	case nodefsInodesFree, imagefsInodesFree:
		return resourceInodes
	default:
		return v1.ResourceEphemeralStorage
	}
}

func (s signal) condition() v1.NodeConditionType {
	if s == memoryAvailable {
		return v1.NodeMemoryPressure
	}
	return v1.NodeDiskPressure
}

// threshold is the least available amount, in bytes or inodes, or the least available part of the capacity.
type threshold struct {
	signal signal
	amount int64
	part   float64
}

// of returns the threshold's amount for a capacity.
func (t threshold) of(capacity int64) int64 {
	if t.part > 0 {
		return int64(float64(capacity) * t.part)
	}
	return t.amount
}

// Thresholds are the thresholds of all signals.
type Thresholds struct{ list []threshold }

// DefaultThresholds are the kubelet's.
func DefaultThresholds() []string {
	return []string{"memory.available<100Mi", "nodefs.available<10%", "nodefs.inodesFree<5%", "imagefs.available<15%",
		"imagefs.inodesFree<5%"}
}

// ParseThresholds parses thresholds such as memory.available<100Mi and nodefs.available<10%, as in --eviction-hard. The
// last threshold for a signal counts. 0% and 100% turn a signal off.
func ParseThresholds(texts []string) (Thresholds, error) {
	var parsed Thresholds
	for _, text := range texts {
		name, value, ok := strings.Cut(strings.TrimSpace(text), "<")
		if !ok {
			return Thresholds{}, fmt.Errorf("%q is not of the form signal<value, such as memory.available<100Mi", text)
		}
		found, err := parseThreshold(signal(name), value)
		if err != nil {
			return Thresholds{}, fmt.Errorf("%q: %w", text, err)
		}
		parsed.list = slices.DeleteFunc(parsed.list, func(t threshold) bool { return t.signal == found.signal })
		if found.amount > 0 || found.part > 0 {
			parsed.list = append(parsed.list, found)
		}
	}
	slices.SortFunc(parsed.list, func(a, b threshold) int {
		return slices.Index(signals, a.signal) - slices.Index(signals, b.signal)
	})
	return parsed, nil
}

func parseThreshold(of signal, value string) (threshold, error) {
	if !slices.Contains(signals, of) {
		return threshold{}, fmt.Errorf("the signal %q is none of %v", of, signals)
	}
	if percent, ok := strings.CutSuffix(value, "%"); ok {
		number, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(number >= 0 && number <= 100) {
			return threshold{}, fmt.Errorf("%q is no percentage from 0%% to 100%%", value)
		}
		if number == 100 {
			number = 0 // as for the kubelet
		}
		return threshold{signal: of, part: number / 100}, nil
	}
	amount, err := resource.ParseQuantity(value)
	if err != nil {
		return threshold{}, fmt.Errorf("%q is neither a quantity nor a percentage: %w", value, err)
	}
	if amount.Sign() <= 0 {
		return threshold{}, fmt.Errorf("%q is not above zero; 0%% switches a signal off", value)
	}
	return threshold{signal: of, amount: amount.Value()}, nil
}

func (t Thresholds) kept(capacity v1.ResourceList) v1.ResourceList {
	kept := v1.ResourceList{}
	for _, one := range t.list {
		name := one.signal.resource()
		whole, ok := capacity[name]
		if ok && (one.signal == memoryAvailable || one.signal == nodefsAvailable) {
			kept[name] = *bytes(one.of(whole.Value()))
		}
	}
	return kept
}
