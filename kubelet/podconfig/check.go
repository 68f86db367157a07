package podconfig

import (
	"time"

	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
)

// CheckDirectory reads the manifests of a directory as FileSource does. It returns the number of pods, and the errors
// by file. A missing directory is empty.
func CheckDirectory(dir, nodeName string) (pods int, problems map[string]error, err error) {
	source := &FileSource{opts: FileOptions{Dir: dir, NodeName: nodeName}}
	paths, err := source.list()
	if err != nil {
		return 0, nil, err
	}
	problems = map[string]error{}
	for _, path := range paths {
		var read document
		content, err := readManifest(path)
		if err == nil {
			err = read.read(content, manifest.Origin{
				Source: model.SourceFile, Location: path, NodeName: nodeName, Seen: time.Now()})
		}
		if err != nil {
			problems[path] = err
		}
		pods += len(read.pods)
	}
	return pods, problems, nil
}
