package main

import (
	"os"
	"testing"

	"github.com/criadapter/criadapter/test/critest/report"
)

// The checked-in list is well-formed.
func TestExpectedFile(t *testing.T) {
	text, err := os.ReadFile("expected.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := report.ParseExpected(text); err != nil {
		t.Fatal(err)
	}
}
