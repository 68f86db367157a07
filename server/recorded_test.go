package server

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/criadapter/criadapter/internal/testutil"
)

// recorded reads the requests that real clients have sent, see testdata/README.md.
func recorded(t *testing.T) []request {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "requests.jsonl"))
	testutil.Must(t, err)
	defer file.Close()
	var all []request
	types := map[string]rpc{}
	for _, r := range allRPCs(t) {
		types["/"+r.service+"/"+r.name] = r
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			RPC     string
			Request json.RawMessage
		}
		testutil.Must(t, json.Unmarshal(lines.Bytes(), &line))
		message := types[line.RPC].request.New().Interface()
		err := protojson.Unmarshal(line.Request, message)
		testutil.Require(t, err == nil, "%s: %v", line.RPC, err)
		all = append(all, request{line.RPC, message})
	}
	err = lines.Err()
	testutil.Require(t, err == nil && len(all) >= 100, "only %d requests were read: %v", len(all), err)
	return all
}
