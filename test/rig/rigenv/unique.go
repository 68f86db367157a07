package rigenv

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// maxBase is how much of a base is kept: with what Unique and the kubelet core append, the name is a hostname still.
const maxBase = 40

// Unique returns a name, a DNS label, that nothing else on the engine has. Tests name pods and nodes so, base being
// t.Name() or a word: two tests side by side, and what an earlier one left, never meet under one name.
func Unique(base string) string {
	label := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(base))
	return fmt.Sprintf("%s-%08x", label[:min(len(label), maxBase)], rand.Uint32())
}
