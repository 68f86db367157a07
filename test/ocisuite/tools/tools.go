//go:build tools

// Package tools pins the validation programs for OCI runtimes, away from the main module. runtime-tools has no go.mod.
package tools

import (
	_ "github.com/opencontainers/runtime-tools/cmd/runtimetest"
	_ "github.com/opencontainers/runtime-tools/validation/default"
	_ "github.com/opencontainers/runtime-tools/validation/util"
)
