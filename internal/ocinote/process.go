package ocinote

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// EditProcess returns the OCI process of a command (runc exec --process) with the note's changes to processes. The
// engine derives the process from its own configuration, which lacks these changes.
func EditProcess(config []byte, note Note) ([]byte, error) {
	process, err := parse(config)
	if err == nil {
		err = editProcess(process, note)
	}
	if err != nil {
		return nil, fmt.Errorf("OCI process: %w", err)
	}
	return json.Marshal(process)
}

func editProcess(process object, note Note) error {
	if err := setGroups(process, note.Process.Groups); err != nil {
		return err
	}
	if err := addGroups(process, note.Process.AddGroups); err != nil {
		return err
	}
	if err := addAmbient(process, note.Process.Ambient); err != nil {
		return err
	}
	return editPluginProcess(process, note.Plugins)
}

func setGroups(process object, groups *[]uint32) error {
	if groups == nil {
		return nil
	}
	user, err := process.child("user")
	if err != nil {
		return err
	}
	primary, err := groupOf(user)
	if err != nil {
		return err
	}
	values := []any{primary}
	for _, group := range *groups {
		if group != primary {
			values = append(values, group)
		}
	}
	user["additionalGids"] = values
	return nil
}

// addGroups adds supplementary groups that the process lacks.
func addGroups(process object, groups []uint32) error {
	if len(groups) == 0 {
		return nil
	}
	user, err := process.child("user")
	if err != nil {
		return err
	}
	values, _ := user["additionalGids"].([]any)
	for _, group := range groups {
		same := func(value any) bool { return fmt.Sprint(value) == fmt.Sprint(group) }
		if !slices.ContainsFunc(values, same) {
			values = append(values, group)
		}
	}
	user["additionalGids"] = values
	return nil
}

// groupOf returns the primary group of a process's user, or root's group if it has none.
func groupOf(user object) (uint32, error) {
	if user["gid"] == nil {
		return 0, nil
	}
	gid, err := strconv.ParseUint(fmt.Sprint(user["gid"]), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("user.gid: %w", err)
	}
	return uint32(gid), nil
}

// addAmbient adds ambient capabilities, which survive the change to a user that is not root. The kernel demands that an
// ambient capability is also permitted and inheritable. The engine gives such a user no capabilities of either kind.
func addAmbient(process object, added []string) error {
	if len(added) == 0 {
		return nil
	}
	capabilities, err := process.child("capabilities")
	if err != nil {
		return err
	}
	bounding, err := capabilities.strings("bounding")
	if err != nil {
		return err
	}
	for _, name := range added {
		if !slices.Contains(bounding, name) {
			return fmt.Errorf("capabilities.bounding lacks %s, which the note makes ambient", name)
		}
	}
	for _, set := range []string{"permitted", "effective", "inheritable", "ambient"} {
		names, err := capabilities.strings(set)
		if err != nil {
			return err
		}
		for _, name := range added {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		capabilities.setStrings(set, names)
	}
	return nil
}
