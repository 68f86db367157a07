package main

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/internal/pace"
)

// churnTime is how long pods come and go before the power is cut, a little longer each time.
const churnTime = 20 * time.Second

//go:embed churn.sh
var churnScript string

// power cuts the power again and again while pods come and go. After each boot every pod must be as its manifest says,
// and nothing of other pods may be left.
func (s *suite) power(ctx context.Context) error {
	if err := s.startNode(ctx); err != nil {
		return err
	}
	for cut := range s.cuts {
		began := time.Now()
		if err := s.cut(ctx, churnTime+time.Duration(cut)*1700*time.Millisecond); err != nil {
			return fmt.Errorf("cut %d: %w", cut+1, err)
		}
		fmt.Printf("ok   power cut %d of %d (%s)\n", cut+1, s.cuts, time.Since(began).Round(time.Second))
	}
	if _, err := s.machine.Shell(ctx, "rm /etc/kubelet-core/manifests/*"); err != nil {
		return err
	}
	if err := s.awaitPods(ctx, map[string]v1.PodPhase{}); err != nil {
		return err
	}
	return s.audit(ctx)
}

// cut lets pods come and go, cuts the power, boots, and waits until the node is as its manifests say.
func (s *suite) cut(ctx context.Context, after time.Duration) error {
	if err := s.startChurn(ctx); err != nil {
		return err
	}
	if err := pace.Sleep(ctx, after); err != nil {
		return err
	}
	if err := s.machine.CutPower(); err != nil {
		return err
	}
	if err := s.machine.PowerOn(ctx); err != nil {
		return err
	}
	if err := s.awaitManifests(ctx); err != nil {
		return err
	}
	return s.audit(ctx)
}

// startChurn lets pods come and go until the unit churn stops.
func (s *suite) startChurn(ctx context.Context) error {
	_, err := s.machine.Run(ctx, "systemd-run", "--unit", "churn", "bash", "-c", churnScript)
	return err
}

// awaitManifests waits until the pods of all manifests run, and no other pod.
func (s *suite) awaitManifests(ctx context.Context) error {
	files, err := s.machine.Run(ctx, "ls", "/etc/kubelet-core/manifests")
	if err != nil {
		return err
	}
	wanted := map[string]v1.PodPhase{}
	for file := range strings.FieldsSeq(files) {
		if name, ok := strings.CutSuffix(file, ".yaml"); ok {
			wanted[name] = v1.PodRunning
		}
	}
	return s.awaitPods(ctx, wanted)
}
