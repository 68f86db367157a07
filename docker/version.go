package docker

import "github.com/moby/moby/client/pkg/versions"

// versionLess reports whether API version a ("1.41") is older than b.
func versionLess(a, b string) bool { return versions.LessThan(a, b) }
