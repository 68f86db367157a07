package main

import (
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/critest/report"
)

// The checked-in list is well-formed.
func TestExpectedMoby(t *testing.T) {
	expected, err := report.ReadExpected("expected-moby.yaml")
	testutil.Must(t, err)
	testutil.Assert(t, len(expected) > 0, "the list is empty")
}
