package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/criadapter/criadapter/cmd/criadapter/check"
	"github.com/criadapter/criadapter/cmd/criadapter/status"
	"github.com/criadapter/criadapter/internal/config"
)

// maxPart bounds each file of the archive, in bytes. Longer content is cut: of metrics the beginning is kept, of
// anything else the end.
const maxPart = 4 << 20

// daemonJSON is the engine's default configuration file.
const daemonJSON = "/etc/docker/daemon.json"

// Options say what to collect. Config is required and valid.
type Options struct {
	Version  string
	Config   config.Config
	Settings []config.Setting
	// Endpoint is the URL of the running server's socket.
	Endpoint string
	// KubeletConfig is the kubelet's configuration file, which the check reads.
	KubeletConfig string
	// Unit is the systemd unit whose journal is collected. LogFile is a file to collect instead. Both may be empty.
	Unit, LogFile string
}

// part is one file of the archive.
type part struct {
	name string
	// read returns the content. Write appends the text of an error to the content.
	read func(ctx context.Context) ([]byte, error)
}

// Write writes an archive (tar, gzip) whose files are all below directory. If a part cannot be collected, the archive
// has a file with the reason. Write calls tell with the name of each file, and with the reason if a part cannot be
// collected.
func Write(ctx context.Context, to io.Writer, directory string, opts Options, tell func(name string, err error)) error {
	zipped := gzip.NewWriter(to)
	archive := tar.NewWriter(zipped)
	for _, p := range opts.parts() {
		content, err := p.read(ctx)
		tell(p.name, err)
		if err != nil {
			content = append(content, fmt.Sprintf("not collected: %v\n", err)...)
		}
		content = redact(end(content))
		header := &tar.Header{Name: path.Join(directory, p.name), Mode: 0o600, Size: int64(len(content)),
			ModTime: time.Now(), Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}

// end returns the end of a content, at most maxPart bytes. A shortened content begins with a whole line.
func end(content []byte) []byte {
	if len(content) <= maxPart {
		return content
	}
	content = content[len(content)-maxPart:]
	return content[bytes.IndexByte(content, '\n')+1:]
}

// parts are the files of the archive. They leave out the environment, annotations and commands of pods, which belong to
// the pods' owners.
func (o Options) parts() []part {
	parts := []part{
		{"version.txt", func(context.Context) ([]byte, error) { return []byte("criadapter " + o.Version + "\n"), nil }},
		{"settings.json", func(context.Context) ([]byte, error) { return encode(o.Settings) }},
		{"check.txt", o.check},
		{"status.json", o.status},
		{"pods.json", o.pods},
		{"daemon.json", func(context.Context) ([]byte, error) { return redactedFile(daemonJSON) }},
		{"metrics.txt", o.metrics},
		{"log.txt", o.log},
	}
	for _, file := range []string{"/proc/version", "/proc/meminfo", "/proc/loadavg", "/proc/cpuinfo",
		"/etc/os-release"} {
		parts = append(parts,
			part{"node/" + filepath.Base(file) + ".txt", func(context.Context) ([]byte, error) {
				return os.ReadFile(file)
			}})
	}
	if o.Config.NetworkPlugin == config.NetworkCNI {
		files, _ := filepath.Glob(filepath.Join(o.Config.CNIConfDir, "*")) // Glob fails only for a bad pattern
		for _, file := range files {
			parts = append(parts,
				part{"cni/" + filepath.Base(file), func(context.Context) ([]byte, error) { return redactedFile(file) }})
		}
	}
	return parts
}

func (o Options) check(ctx context.Context) ([]byte, error) {
	var text bytes.Buffer
	err := check.Run(ctx, check.Options{Config: o.Config, KubeletConfig: o.KubeletConfig}).WriteText(&text)
	return text.Bytes(), err
}

func (o Options) status(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answer, err := status.AskRunning(ctx, o.Endpoint)
	if err != nil {
		return nil, err
	}
	return encode(answer)
}

func encode(value any) ([]byte, error) {
	text, err := json.MarshalIndent(value, "", "  ")
	return append(text, '\n'), err
}

// redactedFile reads a JSON file without the values of secret keys.
func redactedFile(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxPart {
		return nil, fmt.Errorf("%s is not a regular file of at most %d bytes", file, maxPart)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return redactJSON(text), nil
}
