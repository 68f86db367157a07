package main

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestCPUTimeIsWhatAProcessUses: its own work, and nothing while it sleeps.
func TestCPUTimeIsWhatAProcessUses(t *testing.T) {
	self := []int{os.Getpid()}
	before, err := cpuTime(self)
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 20*time.Millisecond; {
	}
	after, err := cpuTime(self)
	if err != nil || after <= before {
		t.Errorf("CPU time went from %v to %v, %v", before, after, err)
	}
	idle := exec.Command("sleep", "60")
	if err := idle.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = idle.Process.Kill(); _ = idle.Wait() }()
	time.Sleep(20 * time.Millisecond)
	if used, err := cpuTime([]int{idle.Process.Pid}); err != nil || used > time.Second {
		t.Errorf("a sleeping process used %v, %v", used, err)
	}
	both, err := cpuTime([]int{os.Getpid(), idle.Process.Pid})
	if err != nil || both < after {
		t.Errorf("both used %v, %v, one of them %v", both, err, after)
	}
}

func TestMemoryOf(t *testing.T) {
	got, err := memoryOf([]int{os.Getpid()})
	if err != nil || got.RSSAnon <= 0 || got.RSS < got.RSSAnon {
		t.Errorf("got %+v, %v", got, err)
	}
	twice, err := memoryOf([]int{os.Getpid(), os.Getpid()})
	if err != nil || twice.RSS < got.RSS*3/2 {
		t.Errorf("twice that is %+v, %v", twice, err)
	}
}
