// Command draw draws the import table as docs/packages-server.svg and docs/packages-kubelet.svg.
//
//	go run ./test/deps/draw    # from the root of the repository
package main

import (
	"fmt"
	"os"
)

func main() {
	for file, picture := range pictures() {
		if err := os.WriteFile(file, []byte(picture), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "draw:", err)
			os.Exit(1)
		}
	}
}
