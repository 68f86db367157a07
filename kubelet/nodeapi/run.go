package nodeapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	utilexec "k8s.io/utils/exec"
)

// run runs a command to its end and answers with its stdout and then its stderr. The command comes from ?command=,
// given once for each word, or else from ?cmd=, which is split at spaces as in the kubelet. If the command fails, the
// status is 500, and the exit code follows the output. The command is ended if its client leaves.
func (s *API) run(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	command := query["command"]
	if len(command) == 0 {
		command = strings.Fields(query.Get("cmd"))
	}
	if len(command) == 0 {
		writeError(w, badRequest("query parameter %q is required", "cmd"))
		return
	}
	_, id, err := s.container(r)
	if err != nil {
		writeError(w, err)
		return
	}
	stdout, stderr, err := s.runtime.ExecSync(r.Context(), id, command, 0)
	var exit utilexec.ExitError
	if err != nil && !errors.As(err, &exit) {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
	// A client that left needs no answer.
	_, _ = w.Write(append(stdout, stderr...))
	if err != nil {
		_, _ = fmt.Fprintf(w, "command %q exited with %d\n", command, exit.ExitStatus())
	}
}
