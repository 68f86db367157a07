package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/internal/mountquote"
	"github.com/criadapter/criadapter/internal/ocinote"
)

// workName is the name of an overlay's work directory, which is beside the writable layer. The engine removes the
// directory with the layer.
const workName = "criadapter-work"

// layers are an overlay's directories.
type layers struct {
	// lower are the directories of the read-only layers, the uppermost first.
	lower []string
	// home is the directory with the writable layer, and upper the layer's name there. Both are empty if no layer is
	// writable.
	home, upper string
	// kept are the overlay's keptOptions. Any other mount of the same layers must have the same options.
	kept []string
}

// keptOptions are the mount options that define the format of an overlay's layers.
var keptOptions = []string{"redirect_dir", "metacopy", "userxattr"}

// mounted is a mount in mountinfo.
type mounted struct {
	// point is the mount point, and root the mounted part of its file system.
	point, root string
	kind        string
	options     string
}

// mountOf finds the mount that has a path. The path must have no symbolic links.
func mountOf(path string) (mounted, error) {
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return mounted{}, err
	}
	return parseMount(string(mounts), path), nil
}

// parseMount reads mountinfo, see proc_pid_mountinfo(5). The last of several mounts at one point hides the earlier
// mounts.
func parseMount(mounts, path string) mounted {
	var found mounted
	for line := range strings.Lines(mounts) {
		head, tail, _ := strings.Cut(line, " - ")
		fields, rest := strings.Fields(head), strings.Fields(tail)
		if len(fields) < 5 || len(rest) < 3 {
			continue
		}
		point := mountquote.Unquote(fields[4])
		if len(point) >= len(found.point) && (point == path || isBelow(point, path)) {
			found = mounted{point: point, root: mountquote.Unquote(fields[3]), kind: rest[0], options: rest[2]}
		}
	}
	return found
}

// rootLayers are the layers of the overlay that is mounted at root.
func (m mounted) rootLayers(root string) (layers, error) {
	if m.point != root || m.kind != "overlay" {
		return layers{}, fmt.Errorf(
			"%s is on %s of the kind %q: only layers of the kernel's overlay can get mapped owners (storage "+
				"drivers overlay2 and overlayfs)", root, m.point, m.kind)
	}
	l, err := m.layers()
	if err == nil && l.upper == "" {
		err = fmt.Errorf("the overlay at %s has no writable layer: %s", root, m.options)
	}
	return l, err
}

func isBelow(dir, path string) bool { return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }

// layers reads the options of an overlay. mountinfo has the names as they were mounted, with the overlay's backslashes,
// and quotes each comma of a name. The engine uses relative names where full ones would be too long. They are
// relative to the directory of all layers. With overlay2, the mount point is LAYER/merged in that directory. With
// containerd, the full name of the writable layer begins with that directory.
func (m mounted) layers() (layers, error) {
	var l layers
	var upper, work string
	for option := range strings.SplitSeq(m.options, ",") {
		name, value, _ := strings.Cut(option, "=")
		switch {
		case name == "lowerdir":
			l.lower = splitLayers(value)
		case name == "lowerdir+":
			l.lower = append(l.lower, mountquote.Unquote(value))
		case name == "upperdir":
			upper = unescape(mountquote.Unquote(value))
		case name == "workdir":
			work = unescape(mountquote.Unquote(value))
		case slices.Contains(keptOptions, name):
			l.kept = append(l.kept, option)
		}
	}
	if len(l.lower) == 0 || slices.Contains(l.lower, "") {
		return layers{}, fmt.Errorf("the layers of the overlay at %s are unknown: %s", m.point, m.options)
	}
	all := filepath.Dir(filepath.Dir(m.point))
	if filepath.IsAbs(upper) {
		all = filepath.Dir(filepath.Dir(upper))
	}
	for i, dir := range l.lower {
		l.lower[i] = ocinote.Under(all, dir)
	}
	if upper == "" {
		return l, nil
	}
	if filepath.Dir(upper) != filepath.Dir(work) {
		return layers{}, fmt.Errorf(
			"the overlay at %s has its writable layer at %s, and its work directory at %s is not beside it", m.point,
			upper, work)
	}
	upper = ocinote.Under(all, upper)
	l.home, l.upper = filepath.Dir(upper), filepath.Base(upper)
	return l, nil
}

// readable returns the directories of all layers, the uppermost first.
func (l layers) readable() []string {
	if l.upper == "" {
		return l.lower
	}
	return append([]string{filepath.Join(l.home, l.upper)}, l.lower...)
}

// options returns the mount options for the layers, with dirs as the lower ones.
func (l layers) options(dirs []string) string {
	options := []string{
		"lowerdir=" + strings.Join(dirs, ":"), "upperdir=" + escape(filepath.Join(l.home, l.upper)),
		"workdir=" + escape(filepath.Join(l.home, workName)), "index=off",
	}
	return strings.Join(append(options, l.kept...), ",")
}

// readOnly returns the mount options for an overlay of dirs alone, without a writable layer.
func (l layers) readOnly(dirs []string) string {
	return strings.Join(append([]string{"lowerdir=" + strings.Join(dirs, ":"), "index=off"}, l.kept...), ",")
}

// splitLayers returns the names in a lowerdir of mountinfo. A colon separates them, unless a backslash is before it.
// Linux 6.5 and 6.6 quote the colon of a name instead.
func splitLayers(quoted string) []string {
	text := mountquote.Unquote(strings.ReplaceAll(quoted, `\072`, `\134:`))
	var parts []string
	start := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case ':':
			parts = append(parts, unescape(text[start:i]))
			start = i + 1
		}
	}
	return append(parts, unescape(text[start:]))
}

// escape writes a name for the options of an overlay's mount.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, ",", `\,`, ":", `\:`).Replace(text)
}

// unescape reads a name in the options of an overlay, where a backslash is before each special character.
func unescape(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		out.WriteByte(text[i])
	}
	return out.String()
}
