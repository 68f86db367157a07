package main

import (
	"slices"
	"testing"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

// Owners are mapped in the kubelet's mounts, but not where an NRI plugin has removed or replaced the mount.
func TestMountsOfPluginsAreNotMapped(t *testing.T) {
	note := ocinote.Note{MappedMounts: []string{"/data", "/removed", "/replaced"}}
	testutil.Equal(t, len(withoutPluginMounts(note)), 3, "mounts without plugins")
	note.Plugins = &ocinote.Adjustment{RemoveMounts: []string{"/removed"},
		Mounts: []ocinote.Mount{{Destination: "/replaced", Type: "tmpfs"}}}
	got := withoutPluginMounts(note)
	testutil.Assert(t, slices.Equal(got, []string{"/data"}), "got %v", got)
	testutil.Equal(t, len(note.MappedMounts), 3, "mounts in the note")
}
