package server

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/criadapter/criadapter/internal/testutil"
)

// update writes the table into docs/fields.md instead of comparing:
// go test ./server -run TestDocument -update
var update = flag.Bool("update", false, "write the table of RPCs into docs/fields.md")

// TestDocumentTellsTheTruthAboutRPCs compares the table of RPCs in docs/fields.md with the server's answers.
func TestDocumentTellsTheTruthAboutRPCs(t *testing.T) {
	testutil.Section(t, "../docs/fields.md", "rpcs", rpcTable(t), *update)
}

// TestNoRPCIsUnimplemented fails for an RPC that the server answers with Unimplemented.
func TestNoRPCIsUnimplemented(t *testing.T) {
	conn, answered := nodeWithPod().dial(t), 0
	for _, r := range allRPCs(t) {
		if code := status.Code(r.call(t.Context(), conn, r.request.New().Interface())); code == codes.Unimplemented {
			t.Errorf("%s is not implemented", r.name)
			continue
		}
		answered++
	}
	t.Logf("%d RPCs are answered", answered)
}

// rpcTable calls every RPC and lists the implemented and the missing ones.
func rpcTable(t *testing.T) string {
	t.Helper()
	conn := nodeWithPod().dial(t)
	implemented, missing := map[string][]string{}, map[string][]string{}
	var services []string
	for _, r := range allRPCs(t) {
		if !slices.Contains(services, r.service) {
			services = append(services, r.service)
		}
		name := "`" + r.name + "`"
		if status.Code(r.call(t.Context(), conn, r.request.New().Interface())) == codes.Unimplemented {
			missing[r.service] = append(missing[r.service], name)
			continue
		}
		implemented[r.service] = append(implemented[r.service], name)
	}
	var table strings.Builder
	table.WriteString("| service | implemented | not implemented |\n|---|---|---|\n")
	for _, service := range services {
		_, name, _ := strings.Cut(service, "v1.")
		fmt.Fprintf(&table, "| %s | %s | %s |\n", name, cell(implemented[service]), cell(missing[service]))
	}
	return table.String()
}

func cell(names []string) string {
	if len(names) == 0 {
		return "–"
	}
	return fmt.Sprintf("%d: %s", len(names), strings.Join(names, ", "))
}
