package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
	"github.com/criadapter/criadapter/test/rig/speed"
)

func (r *rig) pin(id string) netns.Handle {
	return netns.Open(filepath.Join("/run/netns", "criadapter-"+id[:32]))
}

func (r *rig) loseRecord(id string) {
	r.Helper()
	r.must(os.Remove(filepath.Join(r.server.RootDir, "pods", id+".json")))
}

// A pod may lose its checkpoint, container, pin or network plugin while criadapter is down. StopPodSandbox with the
// pod's id still releases the address.
func TestLostPodsGiveTheirAddressesBack(t *testing.T) {
	r := newRig(t)
	r.pid = runtimeapi.NamespaceMode_POD // with a sandbox container
	for name, lose := range map[string]func(id string){
		"the checkpoint and, by a reboot, the pin": func(id string) {
			r.loseRecord(id)
			r.must(r.engine.KillContainer(t.Context(), id, "SIGKILL"))
			r.must(r.pin(id).Unpin())
		},
		"the checkpoint and the container": func(id string) {
			r.loseRecord(id)
			r.must(r.engine.RemoveContainer(t.Context(), id))
		},
		"the network plugin": func(string) { r.server.SetFlags("--network-plugin=bridge") },
		"the network plugin and the checkpoint": func(id string) {
			r.loseRecord(id)
			r.server.SetFlags("--network-plugin=bridge")
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := r.run("web", 0)
			r.must(r.server.Stop(t.Context()))
			lose(id)
			r.must(r.server.Start(t.Context()))
			r.stop(id)
			left := r.leases()
			testutil.Assert(t, len(left) == 0, "after StopPodSandbox %v is still given out", left)
			r.remove(id)
			r.wantNothing(id)
			r.must(r.server.Stop(t.Context()))
			r.server.SetFlags()
			r.must(r.server.Start(t.Context()))
		})
	}
}

// addPlugin appends a CNI plugin to the server's chain. script is its shell program.
func (r *rig) addPlugin(name, script string) {
	r.Helper()
	dir := filepath.Join(r.server.Dir, "plugins")
	r.must(os.MkdirAll(dir, 0o755))
	r.must(os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	r.server.SetFlags("--cni-bin-dir=" + dir + "," + rigenv.Require(r.T).CNIBinDir)
	r.editJSON(r.server.CNIConfig(), func(config map[string]any) {
		config["plugins"] = append(config["plugins"].([]any), map[string]any{"type": name})
	})
}

// passOn is the script of a chained plugin that adds nothing. ADD prints prevResult, which precedes the type in the
// input.
const passOn = `if [ "$CNI_COMMAND" = ADD ]; then sed 's/.*"prevResult"://; s/,"type":"[a-z]*"}$//'; fi`

// A DEL that hangs after a crash delays only its own pod. The other pods get their pins back and can be stopped.
func TestHangingDelHoldsUpOnePod(t *testing.T) {
	r := newRig(t)
	r.pid = runtimeapi.NamespaceMode_POD // with a sandbox container
	hang := filepath.Join(r.server.Dir, "hang-for")
	r.must(r.server.Stop(t.Context()))
	r.addPlugin("slow", `if [ "$CNI_COMMAND" = DEL ] && grep -q "$CNI_CONTAINERID" `+hang+`; then sleep 300; fi
`+passOn)
	r.must(r.server.Start(t.Context()))
	var ids []string
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		ids = append(ids, r.run(name, 0))
	}
	stuck, others := ids[:3], ids[3:]
	r.must(os.WriteFile(hang, []byte(stuck[0]+"\n"+stuck[1]+"\n"+stuck[2]+"\n"), 0o644))
	for _, id := range stuck {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := r.runtime().StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
		testutil.Assert(t, err != nil, "StopPodSandbox did not hang")
		cancel()
	}
	r.server.Kill()
	for _, id := range others {
		r.must(r.pin(id).Unpin())
	}
	begun := time.Now()
	r.must(r.server.Start(t.Context()))
	for _, id := range others {
		testutil.Until(t, "the namespace is pinned again", r.pin(id).Alive)
	}
	t.Logf("the other pods had their pins %v after the start", time.Since(begun))
	speed.Check(t, "the pins of the other pods", time.Since(begun), 10*time.Second)
	r.end(others...)
	speed.Check(t, "the end of the other pods", time.Since(begun), 20*time.Second)
	// The plugin works again. The calls are repeated.
	r.must(os.WriteFile(hang, nil, 0o644))
	for _, id := range stuck {
		ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
		_, err := r.runtime().StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
		cancel()
		r.must(err)
		r.remove(id)
	}
	t.Logf("all pods were gone %v after the start", time.Since(begun))
	r.wantNothing(ids...)
}
