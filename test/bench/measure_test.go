package main

import (
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestChosen(t *testing.T) {
	all, err := chosen("")
	testutil.Assert(t, err == nil && len(all) == len(parts()),
		"without names: %d parts, %v; want all %d", len(all), err, len(parts()))
	some, err := chosen("many,exec")
	testutil.Assert(t, err == nil && len(some) == 2 && some[0].name == "many" && some[1].name == "exec",
		"two names: %v, %v", some, err)
	_, err = chosen("exec,nonsense")
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), `"nonsense"`), "an unknown name: %v", err)
}
