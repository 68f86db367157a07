package rigenv

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// maxBase is the number of characters of a base that Unique keeps. With the suffixes of Unique and the kubelet core,
// the name is still a valid hostname.
const maxBase = 40

// Unique returns a name, a DNS label, that nothing else on the engine has. Tests use it for pods and nodes; base is
// t.Name() or a word. Parallel tests and leftovers of earlier tests then never share a name.
func Unique(base string) string {
	label := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(base))
	return fmt.Sprintf("%s-%08x", label[:min(len(label), maxBase)], rand.Uint32())
}
