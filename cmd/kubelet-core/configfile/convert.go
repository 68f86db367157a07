package configfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// notation converts the value of a field whose flag has the same notation.
func notation(k kind, value any) ([]string, error) {
	switch k {
	case texts:
		return stringsIn(value)
	case pairs:
		var values []string
		for key, v := range sorted(value) {
			values = append(values, fmt.Sprintf("%s=%v", key, v))
		}
		return values, nil
	case count, number:
		return []string{show(value)}, nil
	}
	return []string{fmt.Sprint(value)}, nil
}

// show returns a value as text for messages, with numbers without an exponent.
func show(value any) string {
	if n, ok := value.(float64); ok {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// sorted iterates over a map in the order of its keys.
func sorted(value any) func(yield func(string, any) bool) {
	entries, _ := value.(map[string]any)
	return func(yield func(string, any) bool) {
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			if !yield(key, entries[key]) {
				return
			}
		}
	}
}

func stringsIn(value any) ([]string, error) {
	var all []string
	list, ok := value.([]any)
	for _, item := range list {
		s, isText := item.(string)
		ok = ok && isText
		all = append(all, s)
	}
	if !ok {
		return nil, fmt.Errorf("is not %s", texts)
	}
	return all, nil
}

// headers converts a map of names to lists of values.
func headers(value any) (all []string, err error) {
	if _, ok := value.(map[string]any); !ok {
		return nil, errors.New("is not a map of lists")
	}
	all = []string{} // nil would mean that another field sets the flag, as for serialPulls
	for name, list := range sorted(value) {
		values, err := stringsIn(list)
		if err != nil {
			return nil, fmt.Errorf("[%s] %w", name, err)
		}
		for _, v := range values {
			all = append(all, name+":"+v)
		}
	}
	return all, nil
}

// pidsLimit converts a limit of processes. The file has a negative number for no limit, the flag has 0.
func pidsLimit(value any) ([]string, error) {
	return []string{strconv.FormatInt(max(0, int64(value.(float64))), 10)}, nil
}

// serialPulls converts serializeImagePulls. If it is false, the number of pulls comes from maxParallelImagePulls.
func serialPulls(value any) ([]string, error) {
	if value == false {
		return nil, nil
	}
	return []string{"1"}, nil
}

// thresholds converts a map of signals to quantities.
func thresholds(value any) (all []string, err error) {
	for signal, quantity := range sorted(value) {
		all = append(all, fmt.Sprintf("%s<%v", signal, quantity))
	}
	if all == nil {
		all = []string{""} // no thresholds: an unset flag would mean the kubelet's defaults
	}
	return all, nil
}

// bytes converts a quantity such as 10Mi.
func bytes(value any) ([]string, error) {
	quantity, err := resource.ParseQuantity(value.(string))
	if err != nil {
		return nil, err
	}
	return []string{strconv.FormatInt(quantity.Value(), 10)}, nil
}

// logLevel converts a verbosity of klog: 4 is for debugging, 6 is for traces.
func logLevel(value any) ([]string, error) {
	switch v := value.(float64); {
	case v >= 6:
		return []string{"trace"}, nil
	case v >= 4:
		return []string{"debug"}, nil
	}
	return []string{"info"}, nil
}

// shutdownPeriods converts a list of priorities with seconds.
func shutdownPeriods(value any) ([]string, error) {
	return each(value, "a priority and shutdownGracePeriodSeconds", func(period map[string]any) (string, bool) {
		priority, hasPriority := period["priority"].(float64)
		seconds, hasSeconds := period["shutdownGracePeriodSeconds"].(float64)
		return fmt.Sprintf("%s=%ss", show(priority), show(seconds)), hasPriority && hasSeconds
	})
}

// taints converts a list of taints of a node.
func taints(value any) ([]string, error) {
	return each(value, "a key and an effect", func(taint map[string]any) (string, bool) {
		key, hasKey := taint["key"].(string)
		effect, hasEffect := taint["effect"].(string)
		v, _ := taint["value"].(string)
		return fmt.Sprintf("%s=%s:%s", key, v, effect), hasKey && hasEffect
	})
}

// each converts a list of maps. convert returns false for an entry that lacks a value. needs names the needed values
// for the error.
func each(value any, needs string, convert func(map[string]any) (string, bool)) (all []string, err error) {
	list, ok := value.([]any)
	if !ok {
		return nil, errors.New("is not a list")
	}
	for i, item := range list {
		entry, _ := item.(map[string]any)
		converted, ok := convert(entry)
		if !ok {
			return nil, fmt.Errorf("[%d] needs %s", i, needs)
		}
		all = append(all, converted)
	}
	return all, nil
}
