package podspec

import "strings"

// dotted is a sysctl's name with dots: sysctl(8) takes slashes as well, and then dots belong to names of devices.
func dotted(name string) string {
	first := strings.IndexAny(name, "./")
	if first < 0 || name[first] == '.' {
		return name
	}
	return strings.NewReplacer("/", ".", ".", "/").Replace(name)
}

// matches says whether one of the patterns is the name, or ends in * and begins it.
func matches(name string, patterns []string) bool {
	for _, pattern := range patterns {
		if prefix, ok := strings.CutSuffix(dotted(pattern), "*"); ok && strings.HasPrefix(name, prefix) || pattern == name {
			return true
		}
	}
	return false
}
