package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

const capSysResource = "CAP_SYS_RESOURCE"

// object is a JSON object. Members that are not edited pass through unchanged.
type object map[string]json.RawMessage

// member decodes the member of that name into value and reports whether it is there and not null.
func (o object) member(name string, value any) (bool, error) {
	raw, ok := o[name]
	if !ok || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return false, nil
	}
	if err := json.Unmarshal(raw, value); err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	return true, nil
}

// set encodes value as the member of that name.
func (o object) set(name string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	o[name] = raw
	return nil
}

// editSpec removes from an OCI runtime spec (config.json) all that needs CAP_SYS_RESOURCE. It removes the time
// namespace if the runtime does not support it; knowsTime is only called for a spec with a time namespace.
func editSpec(data []byte, knowsTime func() bool) ([]byte, error) {
	var spec, process, linux object
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, err
	}
	if ok, err := spec.member("process", &process); err != nil {
		return nil, err
	} else if ok {
		if err := edit(process); err != nil {
			return nil, err
		}
		if err := spec.set("process", process); err != nil {
			return nil, err
		}
	}
	if ok, err := spec.member("linux", &linux); err != nil {
		return nil, err
	} else if ok {
		if err := dropTimeNamespace(linux, knowsTime); err != nil {
			return nil, err
		}
		if err := spec.set("linux", linux); err != nil {
			return nil, err
		}
	}
	return json.Marshal(spec)
}

// editProcess does the same for a lone process, as `runc exec --process` takes it.
func editProcess(data []byte) ([]byte, error) {
	var process object
	if err := json.Unmarshal(data, &process); err != nil {
		return nil, err
	}
	if err := edit(process); err != nil {
		return nil, err
	}
	return json.Marshal(process)
}

// edit clamps a negative oomScoreAdj to 0 and removes CAP_SYS_RESOURCE from every capability set.
func edit(process object) error {
	var score int
	if ok, err := process.member("oomScoreAdj", &score); err != nil {
		return err
	} else if ok && score < 0 {
		if err := process.set("oomScoreAdj", 0); err != nil {
			return err
		}
	}
	var sets map[string][]string
	if ok, err := process.member("capabilities", &sets); err != nil || !ok {
		return err
	}
	for name, set := range sets {
		sets[name] = slices.DeleteFunc(set, func(c string) bool { return c == capSysResource })
	}
	return process.set("capabilities", sets)
}

func dropTimeNamespace(linux object, knowsTime func() bool) error {
	var namespaces []object
	if ok, err := linux.member("namespaces", &namespaces); err != nil || !ok {
		return err
	}
	isTime := func(ns object) bool {
		var kind string
		ok, err := ns.member("type", &kind)
		return ok && err == nil && kind == "time"
	}
	if !slices.ContainsFunc(namespaces, isTime) || knowsTime() {
		return nil
	}
	return linux.set("namespaces", slices.DeleteFunc(namespaces, isTime))
}

// hasTimeNamespace reads the answer of `runc features`.
func hasTimeNamespace(features []byte) bool {
	var answer struct {
		Linux struct {
			Namespaces []string `json:"namespaces"`
		} `json:"linux"`
	}
	return json.Unmarshal(features, &answer) == nil && slices.Contains(answer.Linux.Namespaces, "time")
}
