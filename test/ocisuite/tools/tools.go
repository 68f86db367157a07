//go:build tools

// Package tools pins the validation programs for OCI runtimes. It is a module of its own, because runtime-tools has no
// go.mod to pin its dependencies.
package tools

import (
	_ "github.com/opencontainers/runtime-tools/cmd/runtimetest"
	_ "github.com/opencontainers/runtime-tools/validation/default"
	_ "github.com/opencontainers/runtime-tools/validation/util"
)
