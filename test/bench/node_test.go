package main

import (
	"os"
	"os/exec"
	"testing"
)

func TestShimsOfAContainerd(t *testing.T) {
	for line, want := range map[string]bool{
		"/usr/bin/containerd-shim-runc-v2\x00-namespace\x00moby\x00-id\x00x\x00-address\x00/a/b/containerd.sock\x00": true,
		"containerd-shim-runc-v2\x00-address\x00/a/bc/containerd.sock\x00":                                           false,
		"containerd\x00-address\x00/a/b/containerd.sock\x00":                                                         false,
		"containerd-shim-runc-v2\x00-address\x00":                                                                    false,
		"": false,
	} {
		if got := isShimOf([]byte(line), "/a/b"); got != want {
			t.Errorf("%q: %t, want %t", line, got, want)
		}
	}
}

// TestProportional: a page of two processes counts half for each.
func TestProportional(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	parents, err := parentsOfAll()
	if err != nil || parents[child.Process.Pid] != os.Getpid() {
		t.Errorf("the parent of %d is %d, %v", child.Process.Pid, parents[child.Process.Pid], err)
	}
	held, err := proportional(os.Getpid())
	whole, wholeErr := memoryOf([]int{os.Getpid()})
	if err != nil || wholeErr != nil || held <= 0 || held > whole.RSS+whole.RSS/4 {
		t.Errorf("%d of %d KiB, %v, %v", held, whole.RSS, err, wholeErr)
	}
}
