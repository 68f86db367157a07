package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// sourceTime is SOURCE_DATE_EPOCH, or the time of the commit in source.
func sourceTime(ctx context.Context, source string) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var err error
		if text, err = output(ctx, source, nil, "git", "log", "-1", "--format=%ct"); err != nil {
			return time.Time{},
				fmt.Errorf("time of the sources: %w; without a git repository, set SOURCE_DATE_EPOCH", err)
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("time of the sources: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// describe returns git's name of the commit in source.
func describe(ctx context.Context, source string) (string, error) {
	return output(ctx, source, nil, "git", "describe", "--tags", "--always", "--dirty")
}

// described matches the output of describe after a tag: the tag, the number of commits since, the commit, and whether
// the tree is dirty.
var described = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)(-(?:alpha|beta|rc)\.?\d+)?(?:-(\d+)-g([0-9a-f]+))?(-dirty)?$`)

// packageVersion returns a version that deb and rpm order correctly. Commits after a tag are newer than the tag.
// Commits without a tag are older than the first release, in the order of their times. An apk package of a commit after
// a tag has the tag's own version, see versionFor.
func packageVersion(name string, at time.Time) (string, error) {
	if m := described.FindStringSubmatch(name); m != nil {
		version := m[1] + m[2]
		if m[3] != "" {
			version += "+" + m[3] + ".g" + m[4]
		}
		switch {
		case m[5] == "":
		case m[3] != "":
			version += ".dirty"
		default:
			version += "+dirty"
		}
		return version, nil
	}
	commit, dirty := strings.CutSuffix(name, "-dirty")
	if !regexp.MustCompile(`^[0-9a-f]{7,40}$`).MatchString(commit) {
		return "", fmt.Errorf("version %q is neither like v1.2.3 nor a commit", name)
	}
	version := "0.0.0-alpha" + at.Format("20060102150405") + "+g" + commit
	if dirty {
		version += ".dirty"
	}
	return version, nil
}
