package eviction

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// signal is an eviction signal, by the kubelet's name.
type signal string

const (
	memoryAvailable signal = "memory.available"
	// allocatableMemory is the memory that pods may have and do not use. The kubelet gives it the hard threshold of
	// memory.available.
	allocatableMemory signal = "allocatableMemory.available"
	nodefsAvailable   signal = "nodefs.available"
	nodefsInodesFree  signal = "nodefs.inodesFree"
	imagefsAvailable  signal = "imagefs.available"
	imagefsInodesFree signal = "imagefs.inodesFree"
	pidAvailable      signal = "pid.available"
)

// signals are the signals of an operator's thresholds, in the order in which their resources are reclaimed.
var signals = []signal{memoryAvailable, nodefsAvailable, nodefsInodesFree, imagefsAvailable, imagefsInodesFree,
	pidAvailable}

// order returns the position of a signal in signals.
func order(s signal) int {
	if s == allocatableMemory {
		return 0 // beside memory.available
	}
	return slices.Index(signals, s)
}

// The kubelet's words in messages. The API has no such resources.
const (
	resourceInodes v1.ResourceName = "inodes"
	resourcePids   v1.ResourceName = "pids"
)

func (s signal) resource() v1.ResourceName {
	switch s {
	case memoryAvailable, allocatableMemory:
		return v1.ResourceMemory
	case pidAvailable:
		return resourcePids
	case nodefsInodesFree, imagefsInodesFree:
		return resourceInodes
	default:
		return v1.ResourceEphemeralStorage
	}
}

func (s signal) condition() v1.NodeConditionType {
	switch s.resource() {
	case v1.ResourceMemory:
		return v1.NodeMemoryPressure
	case resourcePids:
		return v1.NodePIDPressure
	}
	return v1.NodeDiskPressure
}

// amount is an amount in bytes, inodes or process ids, or a part of the capacity.
type amount struct {
	fixed int64
	part  float64
}

// value returns the amount for a capacity.
func (a amount) value(capacity int64) int64 {
	if a.part > 0 {
		return int64(float64(capacity) * a.part)
	}
	return a.fixed
}

// threshold is the least available amount of a signal.
type threshold struct {
	signal signal
	amount amount
	// soft gives evicted pods a grace period to end. Evictions for a soft threshold begin only after the node was below
	// the threshold for the duration grace.
	soft  bool
	grace time.Duration
	// reclaim is the amount above the threshold at which the reclaiming ends.
	reclaim amount
}

// Thresholds are the thresholds of all signals.
type Thresholds struct{ list []threshold }

// Settings are thresholds as the kubelet's flags have them.
type Settings struct {
	// Hard and Soft are thresholds such as memory.available<100Mi. The last threshold for a signal counts. 0% and 100%
	// turn a signal off.
	Hard, Soft []string
	// SoftGrace is how long the node may be below a soft threshold, by signal. Each soft threshold needs one.
	SoftGrace map[string]string
	// MinimumReclaim is the amount to reclaim above a threshold, by signal.
	MinimumReclaim map[string]string
}

// DefaultThresholds returns the kubelet's default hard thresholds.
func DefaultThresholds() []string {
	return []string{"memory.available<100Mi", "nodefs.available<10%", "nodefs.inodesFree<5%", "imagefs.available<15%",
		"imagefs.inodesFree<5%"}
}

// Parse parses the settings. Its error names a wrong value.
func Parse(settings Settings) (Thresholds, error) {
	hard, hardErr := parseList(settings.Hard)
	soft, softErr := parseList(settings.Soft)
	if err := errors.Join(hardErr, softErr); err != nil {
		return Thresholds{}, err
	}
	for i := range soft {
		soft[i].soft = true
	}
	if err := addGrace(soft, settings.SoftGrace); err != nil {
		return Thresholds{}, err
	}
	all := slices.Concat(hard, soft)
	if err := addReclaim(all, settings.MinimumReclaim); err != nil {
		return Thresholds{}, err
	}
	for _, t := range all {
		if t.signal == memoryAvailable && !t.soft {
			t.signal = allocatableMemory
			all = append(all, t)
		}
	}
	slices.SortStableFunc(all, func(a, b threshold) int { return order(a.signal) - order(b.signal) })
	return Thresholds{list: all}, nil
}

// addGrace gives soft thresholds their grace periods.
func addGrace(soft []threshold, periods map[string]string) error {
	for i, t := range soft {
		text, ok := periods[string(t.signal)]
		if !ok {
			return fmt.Errorf("the soft threshold of %s has no grace period", t.signal)
		}
		period, err := time.ParseDuration(text)
		if err != nil || period <= 0 {
			return fmt.Errorf("the grace period %q of %s is not a duration above zero, such as 1m30s", text, t.signal)
		}
		soft[i].grace = period
	}
	return everyHas("grace period", periods, soft)
}

// addReclaim gives thresholds their minimum reclaim.
func addReclaim(all []threshold, amounts map[string]string) error {
	for i, t := range all {
		text, ok := amounts[string(t.signal)]
		if !ok {
			continue
		}
		var err error
		if all[i].reclaim, err = parseAmount(text); err != nil {
			return fmt.Errorf("minimum reclaim of %s: %w", t.signal, err)
		}
	}
	return everyHas("minimum reclaim", amounts, all)
}

// everyHas returns an error for a setting whose signal has no threshold.
func everyHas(what string, settings map[string]string, list []threshold) error {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if !slices.ContainsFunc(list, func(t threshold) bool { return string(t.signal) == name }) {
			return fmt.Errorf("%s has a %s, but no threshold for it", name, what)
		}
	}
	return nil
}

// parseList parses thresholds, and leaves out signals that are turned off.
func parseList(texts []string) ([]threshold, error) {
	var list []threshold
	for _, text := range texts {
		name, value, ok := strings.Cut(strings.TrimSpace(text), "<")
		if !ok {
			return nil, fmt.Errorf("%q is not of the form signal<value, such as memory.available<100Mi", text)
		}
		found, err := parseThreshold(signal(name), value)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		list = slices.DeleteFunc(list, func(t threshold) bool { return t.signal == found.signal })
		if found.amount != (amount{}) {
			list = append(list, found)
		}
	}
	return list, nil
}

func parseThreshold(of signal, value string) (threshold, error) {
	if !slices.Contains(signals, of) {
		return threshold{}, fmt.Errorf("the signal %q is not one of %v", of, signals)
	}
	parsed, err := parseAmount(value)
	if err == nil && parsed == (amount{}) && !strings.HasSuffix(value, "%") {
		err = fmt.Errorf("%q is not above zero; 0%% switches a signal off", value)
	}
	return threshold{signal: of, amount: parsed}, err
}

// parseAmount parses a quantity or a percentage. Neither may be negative.
func parseAmount(value string) (amount, error) {
	if percent, ok := strings.CutSuffix(value, "%"); ok {
		number, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(number >= 0 && number <= 100) {
			return amount{}, fmt.Errorf("%q is not a percentage from 0%% to 100%%", value)
		}
		if number == 100 {
			number = 0 // as in the kubelet, 100% turns the signal off
		}
		return amount{part: number / 100}, nil
	}
	quantity, err := resource.ParseQuantity(value)
	if err != nil {
		return amount{}, fmt.Errorf("%q is neither a quantity nor a percentage: %w", value, err)
	}
	if quantity.Sign() < 0 {
		return amount{}, fmt.Errorf("%q is negative", value)
	}
	return amount{fixed: quantity.Value()}, nil
}

func (t Thresholds) kept(capacity v1.ResourceList) v1.ResourceList {
	kept := v1.ResourceList{}
	for _, one := range t.list {
		name := one.signal.resource()
		whole, ok := capacity[name]
		if ok && !one.soft && (one.signal == memoryAvailable || one.signal == nodefsAvailable) {
			kept[name] = *bytes(one.amount.value(whole.Value()))
		}
	}
	return kept
}
