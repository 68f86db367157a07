// Command nonewprivs prints the user it runs as and exits. Its image installs it setuid root, so that the answer tells
// whether no_new_privs kept the kernel from honouring that bit.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Printf("Effective uid: %d\n", os.Geteuid())
}
