package main

import (
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A container is found behind any flags of runc's and crun's, with values that look like ids.
func TestContainerBehindFlags(t *testing.T) {
	for line, verb := range map[string]string{
		"ps --format json ID":                               "ps",
		"--root /r --log /l ps -f json ID -o pid":           "ps",
		"ps --format=json ID":                               "ps",
		"list --format json":                                "list",
		"delete -f ID":                                      "delete",
		"delete --force ID":                                 "delete",
		"delete -r ID":                                      "delete",
		"kill --all ID 9":                                   "kill",
		"events --interval 5s --stats ID":                   "events",
		"events --stats ID":                                 "events",
		"update --resources - ID":                           "update",
		"update -r /f ID":                                   "update",
		"update --memory 1 --cpu-share 2 --pids-limit 3 ID": "update",
		"update --cpu-idle 1 --cpu-burst 2 --mem-bw-schema x ID":         "update",
		"checkpoint --image-path /i --work-path /w --leave-running ID":   "checkpoint",
		"checkpoint --parent-path /p --pre-dump ID":                      "checkpoint",
		"checkpoint --lazy-pages --page-server :1 --status-fd 3 ID":      "checkpoint",
		"checkpoint --network-lock --empty-ns network ID":                "checkpoint",
		"--criu /c restore --detach --lsm-profile a:b ID":                "restore",
		"restore --lsm-mount-context c --manage-cgroups-mode soft ID":    "restore",
		"create -f own.json --preserve-fds 3 ID":                         "create",
		"create --pidfd-socket /s --no-new-keyring ID":                   "create",
		"--debug --rootless auto --cgroup-manager systemd run --keep ID": "run",
		"exec -t -d --cgroup /x --cap A -e B=c --cwd / -u 0 -g 1 ID sh":  "exec",
		"exec --no-new-privs --ignore-paused -- ID sh -c -- x":           "exec",
		"spec --bundle /b": "spec",
		"spec -f /file":    "spec",
		"mounts add ID {}": "mounts",
		"state ID":         "state",
		"pause ID":         "pause",
	} {
		want := ""
		if strings.Contains(line, "ID") {
			want = "ID"
		}
		got := parseCall(strings.Fields(line))
		testutil.Assert(t, got.verb == verb && got.container == want,
			"%s: the verb is %q and the container %q", line, got.verb, got.container)
	}
}

// runc takes flags behind the id of a container that it makes.
func TestFlagsBehindTheContainer(t *testing.T) {
	got := parseCall(strings.Fields("create ID --bundle /b --pid-file /p"))
	testutil.Assert(t, got.container == "ID" && got.bundle == "/b", "got %+v", got)
}
