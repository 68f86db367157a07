package testutil

import "fmt"

// PodYAML returns the manifest of a pod with this spec. Each line of the spec must be indented.
func PodYAML(name, spec string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n%s", name, spec)
}
