package images

import (
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Repository prefixes of the images that critest pulls: the paths of the public registries' images.
const (
	e2ePrefix   = "e2e-test-images/"
	stagePrefix = "k8s-staging-cri-tools/"
	benchPrefix = "docker/library/"
)

// CritestDigestImage is the image that critest pulls by digest.
const CritestDigestImage = stagePrefix + "test-image-digest:latest"

// critest makes the images that only need to exist and be different from each other.
func (k *kitchen) critest() error {
	if err := k.addShell(v1.Config{}, nil, e2ePrefix+"busybox:1.29-2"); err != nil {
		return err
	}
	// critest pulls this image from two registries to compare ids, and runs it with the image's command.
	if err := k.addShell(v1.Config{Cmd: []string{"sleep", "2147483647"}}, marker("pause"), "pause:3.9"); err != nil {
		return err
	}
	for _, name := range []string{
		stagePrefix + "test-image-latest:latest",
		stagePrefix + "test-image-tag:test",
		stagePrefix + "test-image-tag:all",
		CritestDigestImage,
		stagePrefix + "test-image-1:latest",
		stagePrefix + "test-image-2:latest",
		stagePrefix + "test-image-3:latest",
	} {
		if err := k.addShell(v1.Config{}, marker(name), name); err != nil {
			return err
		}
	}
	tags := []string{stagePrefix + "test-image-tags:1", stagePrefix + "test-image-tags:2",
		stagePrefix + "test-image-tags:3"}
	return k.addShell(v1.Config{}, marker("test-image-tags"), tags...)
}

// marker is a file that makes an image different from the others.
func marker(name string) []entry {
	return []entry{file("image-name", 0o644, []byte(name+"\n"))}
}

// critestServers makes the images in which programs of this package replace nginx, httpd and nonewprivs.
func (k *kitchen) critestServers() error {
	nginx := []entry{file("usr/sbin/nginx", 0o755, k.programs["webserver"])}
	for name, listen := range map[string]string{
		e2ePrefix + "nginx:1.14-2":                                  ":80",
		stagePrefix + "hostnet-nginx-" + k.architecture + ":latest": ":12003",
	} {
		// critest finds the process by the name nginx, by the pid in the pid file, and by "nginx: master process" in
		// its arguments.
		config := v1.Config{Cmd: []string{
			"/usr/sbin/nginx", "-banner", "nginx: master process", "-pidfile", "/var/run/nginx.pid", "-listen", listen,
		}}
		if err := k.addShell(config, nginx, name); err != nil {
			return err
		}
	}
	httpd := v1.Config{Cmd: []string{"/usr/local/bin/httpd", "-banner", "httpd"}}
	content := []entry{file("usr/local/bin/httpd", 0o755, k.programs["webserver"])}
	if err := k.addShell(httpd, content, e2ePrefix+"httpd:2.4.39-4"); err != nil {
		return err
	}
	const setuid = 0o4755
	escalate := append(accounts("", ""), file("nonewprivs", setuid, k.programs["nonewprivs"]))
	layer, err := newLayer(escalate...)
	if err != nil {
		return err
	}
	return k.add(v1.Config{Cmd: []string{"/nonewprivs"}}, []v1.Layer{layer}, e2ePrefix+"nonewprivs:1.3")
}

// critestUsers makes the images whose USER critest compares with what the server reports.
func (k *kitchen) critestUsers() error {
	for name, user := range map[string]string{
		"test-image-user-uid":            "1002",
		"test-image-user-username":       "www-data",
		"test-image-user-uid-group":      "1003:1004",
		"test-image-user-username-group": "www-data:1004",
	} {
		if err := k.addShell(v1.Config{User: user}, marker(name), stagePrefix+name+":latest"); err != nil {
			return err
		}
	}
	members := accounts(
		"default-user:x:1000:1000:default-user:/home:/bin/sh\n",
		"default-user:x:1000:\ngroup-defined-in-image:x:50000:default-user\n")
	return k.addShell(v1.Config{User: "1000"}, members, stagePrefix+"test-image-predefined-group:latest")
}

// critestBenchmark makes the images that critest's benchmarks pull and list.
func (k *kitchen) critestBenchmark() error {
	for tag := range strings.FieldsSeq("1 1-glibc 1-musl 1-uclibc 1.35.0-glibc") {
		name := fmt.Sprintf("%sbusybox:%s", benchPrefix, tag)
		if err := k.addShell(v1.Config{}, marker(name), name); err != nil {
			return err
		}
	}
	return nil
}
