package testutil

import "fmt"

// PodYAML is the manifest of a pod with this spec, of which each line is indented.
func PodYAML(name, spec string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n%s", name, spec)
}
