package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	// version is the output of `git describe`, or a release's name.
	version string
	// out is the directory for the release. Its content is removed.
	out string
	// architectures are values of GOARCH.
	architectures []string
	// source is the tree of the release.
	source string
	// signKey is the private key that signs the release, empty for none.
	signKey string
	// vex is the path of a VEX document for a signed release, empty for none.
	vex string
	// verify is the directory of a release to verify by publicKey, empty to make one.
	verify, publicKey string
}

func main() {
	var opts options
	var architectures string
	flag.StringVar(&opts.version, "version", "",
		"`name` of the release, v1.2.3; empty: git's description of the commit")
	flag.StringVar(&opts.out, "out", "build/release", "`directory` for the release; it is emptied first")
	flag.StringVar(&architectures, "arch", "amd64,arm64", "comma-separated `list` of architectures")
	flag.StringVar(&opts.source, "source", ".", "`directory` of the sources")
	flag.StringVar(&opts.signKey, "sign", "",
		"sign the release with the private key in this PEM `file`, as cosign makes it; its password is in "+
			passwordVariable)
	flag.StringVar(&opts.vex, "vex", "", "attest this OpenVEX `file` of govulncheck, with -sign")
	flag.StringVar(&opts.verify, "verify", "", "verify the signed release in this `directory`, and make none")
	flag.StringVar(&opts.publicKey, "key", "", "public key for -verify, as a PEM `file`")
	flag.Parse()
	opts.architectures = strings.Split(architectures, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, opts); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release has the common values of all files of a release.
type release struct {
	// name is the version for people. version is its form for packages.
	name, version string
	// time is the time of every file.
	time time.Time
	// source is the tree, out the directory for the results.
	source, out string
}

// run makes the release.
func run(ctx context.Context, opts options) (err error) {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if opts.verify != "" {
		made, err := verify(ctx, opts.verify, opts.publicKey)
		if err != nil {
			return fmt.Errorf("the release in %s is not verified: %w", opts.verify, err)
		}
		fmt.Println("verified:", made)
		return nil
	}
	r, err := newRelease(ctx, opts)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "criadapter-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	pages, err := r.manuals(ctx, filepath.Join(work, "host"))
	if err != nil {
		return err
	}
	var built []build
	for _, architecture := range opts.architectures {
		b, err := r.compile(ctx, architecture, filepath.Join(work, architecture))
		if err != nil {
			return err
		}
		modules, err := b.modules()
		if err != nil {
			return err
		}
		if b.terms, err = r.terms(ctx, modules); err != nil {
			return err
		}
		if err := r.pack(ctx, b, modules, pages, filepath.Join(work, "stage-"+architecture)); err != nil {
			return err
		}
		built = append(built, b)
	}
	if err := r.images(built); err != nil {
		return err
	}
	if err := r.checksums(); err != nil || opts.signKey == "" {
		return err
	}
	return r.sign(ctx, opts.signKey, opts.vex)
}

// newRelease empties the directory for the results.
func newRelease(ctx context.Context, opts options) (release, error) {
	r := release{name: opts.version}
	var err error
	if r.source, err = filepath.Abs(opts.source); err != nil {
		return r, err
	}
	if r.out, err = filepath.Abs(opts.out); err != nil {
		return r, err
	}
	if r.time, err = sourceTime(ctx, r.source); err != nil {
		return r, err
	}
	if r.name == "" {
		if r.name, err = describe(ctx, r.source); err != nil {
			return r, err
		}
	}
	if r.version, err = packageVersion(r.name, r.time); err != nil {
		return r, err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return r, err
	}
	return r, os.MkdirAll(r.out, 0o755)
}

// pack makes all files of one architecture except the images.
func (r release) pack(ctx context.Context, b build, modules []module, manuals []file, stage string) error {
	files, err := r.layout(b, manuals)
	if err != nil {
		return err
	}
	if err := r.tarball(b.architecture, files); err != nil {
		return err
	}
	if err := r.sbom(b, modules); err != nil {
		return err
	}
	if err := stageFiles(stage, files, r.time); err != nil {
		return err
	}
	return r.packages(ctx, b.architecture, stage)
}
