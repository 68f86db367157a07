package manifest_test

import (
	"fmt"
	"time"

	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
)

// A manifest becomes a static pod. Its name ends in the node's name, and its UID is a hash of content and place.
func ExampleParse() {
	documents, err := manifest.Parse([]byte(`
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: nginx
    image: nginx
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := documents.Pods[0]
	origin := manifest.Origin{Source: model.SourceFile, Location: "/etc/pods/web.yaml", NodeName: "node1",
		Seen: time.Now()}
	if err := manifest.Static(pod, origin); err != nil {
		fmt.Println(err)
		return
	}
	manifest.SetDefaults(pod)
	fmt.Println(pod.Namespace, pod.Name, pod.Spec.RestartPolicy, manifest.Validate(pod))
	// Output: default web-node1 Always <nil>
}

// An unknown field is refused by name.
func ExampleParse_unknownField() {
	_, err := manifest.Parse([]byte("{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {container: []}}"))
	fmt.Println(err)
	// Output: document 1: unknown field "spec.container": invalid argument
}
