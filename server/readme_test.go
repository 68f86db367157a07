package server

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// update writes the table into the README instead of comparing:
// go test ./server -run TestReadme -update
var update = flag.Bool("update", false, "write the table of RPCs into the README")

const (
	readme     = "../README.md"
	tableBegin = "<!-- rpcs -->\n"
	tableEnd   = "<!-- /rpcs -->"
)

// TestReadmeTellsTheTruthAboutRPCs holds the README's table of RPCs to what the
// server answers.
func TestReadmeTellsTheTruthAboutRPCs(t *testing.T) {
	content, err := os.ReadFile(readme)
	wantOK(t, err)
	before, rest, found := strings.Cut(string(content), tableBegin)
	table, after, closed := strings.Cut(rest, tableEnd)
	if !found || !closed {
		t.Fatalf("%s has no %s … %s", readme, strings.TrimSpace(tableBegin), tableEnd)
	}
	want := rpcTable(t)
	if table == want {
		return
	}
	if !*update {
		t.Fatalf("the table of RPCs in %s is not what the server answers, run: go test ./server -run TestReadme -update", readme)
	}
	wantOK(t, os.WriteFile(readme, []byte(before+tableBegin+want+tableEnd+after), 0o644))
}

// rpcTable asks the server for every RPC and lists which ones it has.
func rpcTable(t *testing.T) string {
	t.Helper()
	conn := nodeWithPod().dial(t)
	answered, later := map[string][]string{}, map[string][]string{}
	var services []string
	for _, r := range allRPCs(t) {
		if !slices.Contains(services, r.service) {
			services = append(services, r.service)
		}
		name := "`" + r.name + "`"
		if status.Code(r.call(t.Context(), conn, r.request.New().Interface())) == codes.Unimplemented {
			later[r.service] = append(later[r.service], name)
			continue
		}
		answered[r.service] = append(answered[r.service], name)
	}
	var table strings.Builder
	table.WriteString("| service | answered | later |\n|---|---|---|\n")
	for _, service := range services {
		_, name, _ := strings.Cut(service, "v1.")
		fmt.Fprintf(&table, "| %s | %s | %s |\n", name, cell(answered[service]), cell(later[service]))
	}
	return table.String()
}

func cell(names []string) string {
	if len(names) == 0 {
		return "–"
	}
	return fmt.Sprintf("%d: %s", len(names), strings.Join(names, ", "))
}
