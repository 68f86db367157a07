package cni_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/criadapter/criadapter/cni"
)

// A pod joins the first network of the configuration directory, and leaves it again. The plugin of this example is a
// script that always gives the same address.
func ExampleNetwork() {
	dir, err := os.MkdirTemp("", "cni-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	plugin := "#!/bin/sh\ncat >/dev/null\n[ $CNI_COMMAND = ADD ] || exit 0\n" +
		`echo '{"cniVersion":"1.0.0","ips":[{"address":"10.88.0.2/16"}]}'` + "\n"
	network := `{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "fixed"}]}`
	for name, content := range map[string]string{"fixed": plugin, "10-pods.conflist": network} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			fmt.Println(err)
			return
		}
	}

	n, err := cni.New(cni.Options{ConfDir: dir, BinDirs: []string{dir}, CacheDir: filepath.Join(dir, "cache")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer n.Close()
	pod := cni.Pod{ID: "4f6c1ab0e9d2", Name: "web", Namespace: "default", UID: "1234", NetnsPath: "/proc/self/ns/net"}
	result, err := n.Add(context.Background(), pod)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Config, result.IPs)
	fmt.Println(n.Del(context.Background(), pod, result.Config))
	// Output:
	// pods [10.88.0.2]
	// <nil>
}
