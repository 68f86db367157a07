package main

import (
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/deps"
)

func TestDrawingsAreOfToday(t *testing.T) {
	for file, want := range pictures() {
		testutil.Assert(t, testutil.ReadFile(t, filepath.Join("..", "..", "..", file)) == want,
			"%s does not show the import table any more: run go run ./test/deps/draw", file)
	}
}

func TestFloorsGoDown(t *testing.T) {
	rules := []deps.Rule{{Path: "a", May: []string{"b", "c"}}, {Path: "b", May: []string{"c"}}, {Path: "c"}}
	for _, floor := range layOut(rules, func(string) bool { return true }, "") {
		for _, b := range floor {
			for _, to := range b.imports {
				testutil.Assert(t, to.floor < b.floor,
					"%s on floor %d imports %s on floor %d", b.name, b.floor, to.name, to.floor)
			}
		}
	}
}
