package docker

import "github.com/moby/moby/client/pkg/versions"

// versionLess reports whether version a ("1.41") of the API or of an engine is older than b.
func versionLess(a, b string) bool { return versions.LessThan(a, b) }
