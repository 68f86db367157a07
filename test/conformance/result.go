package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/criadapter/criadapter/test/cluster/build"
	"github.com/criadapter/criadapter/test/critest/report"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// result is what is kept of a run, for the documents' table.
type result struct {
	Set, What, Engine, Mode, Server, Kubelet string
	Passed, Failed, Skipped                  int
	// Causes say what keeps specs from passing, with how many.
	Causes []report.Cause
}

// keep writes the result of a run of a set into the report's directory.
func (o options) keep(env rigenv.Env, chosen set, v report.Verdict) error {
	if o.focus != "" {
		return nil
	}
	r := result{
		Set: chosen.name, What: chosen.what, Engine: env.Engine, Mode: env.Mode, Server: o.server, Kubelet: build.Version,
		Passed: v.Passed, Failed: v.Failed, Skipped: v.Skipped, Causes: v.Causes,
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.report, o.runName(env, chosen)+".json"), append(text, '\n'), 0o644)
}
